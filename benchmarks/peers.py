"""What the captioner is compared with, in PyTorch: a textbook loop, a careful version
of it, and VGG16. Extra: `bench`.

`TextbookDecoder` is what the most used tutorial for PyTorch has, with the equations and
the sizes of our own model: our weights can be copied to it, and both do the same work.
Everything is computed inside the loop over the words, the features of each caption are
projected again at each step, and beam search takes one photo at a time.

`CarefulDecoder` is what somebody makes of it after profiling. Features are projected
once for each photo, words once for each batch and logits once for all words; captions
leave the loop at their end; searches take many photos at a time; `torch.compile`
compiles the step of the loop where it can.
"""

import shutil

import torch
from torch import nn
from torch.nn import functional


def device():
    return "cuda" if torch.cuda.is_available() else "cpu"


def can_compile():
    """Return whether there is the C++ compiler that `torch.compile` needs on a
    processor.
    """
    return torch.cuda.is_available() or any(map(shutil.which, ("g++", "clang++", "c++", "cl")))


# === The textbook's loop ===


class TextbookDecoder(nn.Module):
    """Show, Attend and Tell as a loop over single steps.

    Args:
        vocabulary_size: number of tokens.
        feature_dim, embedding_dim, hidden_dim, attention_dim: sizes.
    """

    def __init__(
        self,
        vocabulary_size,
        *,
        feature_dim=512,
        embedding_dim=512,
        hidden_dim=512,
        attention_dim=512,
    ):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, embedding_dim)
        self.feature_projection = nn.Linear(feature_dim, attention_dim)
        self.state_projection = nn.Linear(hidden_dim, attention_dim, bias=False)
        self.score = nn.Linear(attention_dim, 1, bias=False)
        self.initial_hidden = nn.Linear(feature_dim, hidden_dim)
        self.initial_cell = nn.Linear(feature_dim, hidden_dim)
        self.gate = nn.Linear(hidden_dim, feature_dim)
        self.cell = nn.LSTMCell(embedding_dim + feature_dim, hidden_dim)
        self.state_readout = nn.Linear(hidden_dim, embedding_dim, bias=False)
        self.context_readout = nn.Linear(feature_dim, embedding_dim, bias=False)
        self.drop_before = nn.Dropout(0.5)
        self.drop_after = nn.Dropout(0.5)
        self.word_logits = nn.Linear(embedding_dim, vocabulary_size)

    def initial_state(self, features):
        mean = features.mean(dim=1)
        return torch.tanh(self.initial_hidden(mean)), torch.tanh(self.initial_cell(mean))

    def read_out(self, embedded, hidden_state, context):
        readout = (
            embedded
            + self.state_readout(self.drop_before(hidden_state))
            + self.context_readout(context)
        )
        return self.word_logits(self.drop_after(readout))

    def step(self, input_ids, hidden_state, cell_state, features):
        """Return logits (rows, vocabulary), h_t, c_t and alpha_t (rows, regions) for
        features (rows, regions, dim).
        """
        embedded = self.embedding(input_ids)
        hidden = torch.tanh(
            self.feature_projection(features) + self.state_projection(hidden_state).unsqueeze(1)
        )
        attention_weights = torch.softmax(self.score(hidden).squeeze(2), dim=1)
        context = (features * attention_weights.unsqueeze(2)).sum(dim=1)
        context = torch.sigmoid(self.gate(hidden_state)) * context
        hidden_state, cell_state = self.cell(
            torch.cat([embedded, context], dim=1), (hidden_state, cell_state)
        )
        return (
            self.read_out(embedded, hidden_state, context),
            hidden_state,
            cell_state,
            attention_weights,
        )

    def losses(self, features, photo_of_caption, input_ids, target_ids, lengths):
        """Return the cross-entropy, summed over the words, and the sums of the
        attention weights.

        Args:
            features: (photos, regions, feature_dim).
            photo_of_caption: (captions,).
            input_ids, target_ids: (captions, time), longest caption first.
            lengths: list of the lengths of the captions.
        """
        features = features[photo_of_caption]
        logits = torch.zeros(
            *input_ids.shape, self.word_logits.out_features, device=features.device
        )
        maps = torch.zeros(*input_ids.shape, features.shape[1], device=features.device)
        hidden_state, cell_state = self.initial_state(features)
        for t in range(max(lengths)):
            rows = sum(length > t for length in lengths)
            logits[:rows, t], hidden_state, cell_state, maps[:rows, t] = self.step(
                input_ids[:rows, t], hidden_state[:rows], cell_state[:rows], features[:rows]
            )
        packed, targets = (
            nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True).data
            for x in (logits, target_ids)
        )
        return functional.cross_entropy(packed, targets, reduction="sum"), maps.sum(dim=1)

    @torch.no_grad()
    def search(self, features, num_beams, max_length, start_token_id, end_token_id, never):
        """Return the token ids of the best caption of one photo, features (1, regions,
        feature_dim), in a list.

        Args:
            features: of one photo.
            never: token ids that are not chosen.
        """
        features = features.expand(num_beams, -1, -1)
        hidden_state, cell_state = self.initial_state(features)
        sequences = torch.full((num_beams, 1), start_token_id, device=features.device)
        scores = torch.zeros(num_beams, 1, device=features.device)
        complete = []
        for t in range(max_length):
            logits, hidden_state, cell_state, _ = self.step(
                sequences[:, -1], hidden_state, cell_state, features
            )
            logits = torch.log_softmax(logits, dim=1)
            logits[:, never] = -torch.inf
            scores = scores + logits
            # All beams are alike at first.
            best, places = (scores[0] if t == 0 else scores.view(-1)).topk(len(sequences))
            parents, words = places // logits.shape[1], places % logits.shape[1]
            sequences = torch.cat([sequences[parents], words.unsqueeze(1)], dim=1)
            unfinished = [beam for beam, word in enumerate(words.tolist()) if word != end_token_id]
            complete += [
                (float(best[beam]), sequences[beam, 1:-1].tolist())
                for beam in range(len(sequences))
                if beam not in unfinished
            ]
            if not unfinished:
                break
            parents, sequences = parents[unfinished], sequences[unfinished]
            hidden_state, cell_state, features = (
                hidden_state[parents],
                cell_state[parents],
                features[: len(unfinished)],
            )
            scores = best[unfinished].unsqueeze(1)
        return [max(complete)[1] if complete else sequences[0, 1:].tolist()]


# === The careful one ===


class CarefulDecoder(TextbookDecoder):
    """The textbook's decoder, with its weights, without its waste.

    Attributes:
        advance: one step of the loop, compiled once `compile_step` was called.
    """

    def __init__(self, *args, **sizes):
        super().__init__(*args, **sizes)
        self.advance = self._advance

    def compile_step(self):
        """Compile the step of the loop, for any number of rows; return self."""
        torch._dynamo.reset()
        # Else it would continue uncompiled, and say nothing.
        torch._dynamo.config.fail_on_recompile_limit_hit = True
        self.advance = torch.compile(self._advance, dynamic=True, fullgraph=True)
        return self

    def _advance(self, projected_words, hidden_state, cell_state, features, projected_features):
        """Return context, h_t, c_t and alpha_t of rows that are captions, those of a
        photo next to each other.

        Args:
            projected_words, hidden_state, cell_state: (rows, dim).
            features, projected_features: (photos, regions, dim).
        """
        query = self.state_projection(hidden_state).view(
            len(features), -1, 1, projected_features.shape[2]
        )
        hidden = torch.tanh(projected_features.unsqueeze(1) + query)
        attention_weights = torch.softmax(self.score(hidden).squeeze(3), dim=2)
        context = torch.bmm(attention_weights, features).flatten(0, 1)
        attention_weights = attention_weights.flatten(0, 1)
        context = torch.sigmoid(self.gate(hidden_state)) * context
        size = self.embedding.embedding_dim
        gates = projected_words + functional.linear(context, self.cell.weight_ih[:, size:])
        gates = gates + functional.linear(hidden_state, self.cell.weight_hh, self.cell.bias_hh)
        input_gate, forget_gate, candidate, output_gate = gates.chunk(4, dim=1)
        cell_state = torch.sigmoid(forget_gate) * cell_state + torch.sigmoid(
            input_gate
        ) * torch.tanh(candidate)
        return (
            context,
            torch.sigmoid(output_gate) * torch.tanh(cell_state),
            cell_state,
            attention_weights,
        )

    def project_words(self, embedded):
        size = self.embedding.embedding_dim
        return functional.linear(embedded, self.cell.weight_ih[:, :size], self.cell.bias_ih)

    def losses(self, features, photo_of_caption, input_ids, target_ids, lengths):
        """Return what `TextbookDecoder.losses` does."""
        projected_features = self.feature_projection(features)[photo_of_caption]
        hidden_state, cell_state = (
            state[photo_of_caption] for state in self.initial_state(features)
        )
        features = features[photo_of_caption]
        embedded = self.embedding(input_ids.T)  # words first
        projected_words = self.project_words(embedded).unbind()
        embedded, target_ids = embedded.unbind(), target_ids.T.unbind()
        looked_at = torch.zeros(features.shape[:2], device=features.device)
        found, targets = [], []
        for t in range(lengths[0]):
            rows = sum(length > t for length in lengths)
            if rows < len(features):  # some captions have ended
                narrower = (
                    x[:rows] for x in (hidden_state, cell_state, features, projected_features)
                )
                hidden_state, cell_state, features, projected_features = narrower
            context, hidden_state, cell_state, attention_weights = self.advance(
                projected_words[t][:rows], hidden_state, cell_state, features, projected_features
            )
            looked_at = looked_at + functional.pad(
                attention_weights, (0, 0, 0, len(looked_at) - rows)
            )
            found.append((embedded[t][:rows], hidden_state, context))
            targets.append(target_ids[t][:rows])
        logits = self.read_out(*(torch.cat(parts) for parts in zip(*found)))
        return functional.cross_entropy(logits, torch.cat(targets), reduction="sum"), looked_at

    @torch.no_grad()
    def search(self, features, num_beams, max_length, start_token_id, end_token_id, never):
        """Return the token ids of the best caption of each of many photos, `<end>` left
        out.

        A beam that has ended continues with `<end>` alone, at no cost.
        """
        photos, vocabulary = len(features), self.word_logits.out_features
        beams = torch.arange(photos, device=features.device).repeat_interleave(num_beams)
        projected_features = self.feature_projection(features)
        hidden_state, cell_state = (state[beams] for state in self.initial_state(features))
        token_ids = torch.full((len(beams),), start_token_id, device=features.device)
        scores = torch.full((photos, num_beams), -torch.inf, device=features.device)
        scores[:, 0] = 0  # all beams are alike at first
        only_end = torch.full((vocabulary,), -torch.inf, device=features.device)
        only_end[end_token_id] = 0
        first_beams = torch.arange(
            0, photos * num_beams, num_beams, device=features.device
        ).unsqueeze(1)
        sequences = token_ids.new_empty((len(beams), 0))
        ended = torch.zeros(len(beams), dtype=torch.bool, device=features.device)
        for _ in range(max_length):
            embedded = self.embedding(token_ids)
            context, hidden_state, cell_state, _ = self.advance(
                self.project_words(embedded), hidden_state, cell_state, features, projected_features
            )
            log_probs = torch.log_softmax(
                self.read_out(embedded, hidden_state, context).float(), dim=1
            )
            log_probs[:, never] = -torch.inf
            log_probs[ended] = only_end
            scores, places = (
                (scores.unsqueeze(2) + log_probs.view(photos, num_beams, -1))
                .flatten(1)
                .topk(num_beams)
            )
            parents, token_ids = (
                (first_beams + places // vocabulary).flatten(),
                (places % vocabulary).flatten(),
            )
            hidden_state, cell_state = hidden_state[parents], cell_state[parents]
            sequences = torch.cat([sequences[parents], token_ids.unsqueeze(1)], dim=1)
            ended = ended[parents] | (token_ids == end_token_id)
            if ended.all():
                break
        best = sequences.view(photos, num_beams, -1)[
            torch.arange(photos), scores.argmax(dim=1)
        ].tolist()
        return [ids[: ids.index(end_token_id)] if end_token_id in ids else ids for ids in best]


# === The same weights, batches and loss for both ===


def copy_weights(decoder, peer):
    """Give a peer the weights of our CaptionDecoder (soft, additive, one LSTM layer,
    deep output); return the peer.
    """

    def copy(linear, layer):
        linear.weight.data = torch.tensor(layer.kernel.numpy().T.copy())
        if layer.use_bias:
            linear.bias.data = torch.tensor(layer.bias.numpy())

    attention, cell = decoder.attention_layer, decoder.cells[0]
    peer.embedding.weight.data = torch.tensor(decoder.embedding.embeddings.numpy())
    peer.score.weight.data = torch.tensor(attention.score_vector.numpy()[None])
    copy(peer.feature_projection, attention.feature_projection)
    copy(peer.state_projection, attention.state_projection)
    copy(peer.initial_hidden, decoder.initial_hidden)
    copy(peer.initial_cell, decoder.initial_cell)
    copy(peer.state_readout, decoder.readout.state_readout)
    copy(peer.context_readout, decoder.readout.context_readout)
    copy(peer.word_logits, decoder.readout.word_logits)
    # One gate for all of the context: the same number in every place of the vector.
    feature_dim = peer.gate.out_features
    peer.gate.weight.data = torch.tensor(decoder.gate.kernel.numpy().T.repeat(feature_dim, axis=0))
    peer.gate.bias.data = torch.tensor(decoder.gate.bias.numpy().repeat(feature_dim))
    # PyTorch orders the gates i, f, g, o; the paper i, f, o, g.
    size = peer.cell.hidden_size
    order = [*range(2 * size), *range(3 * size, 4 * size), *range(2 * size, 3 * size)]
    inputs, context, recurrent = (
        torch.tensor(projection.kernel.numpy().T.copy())[order]
        for projection in (
            cell.input_projection,
            cell.context_projection,
            cell.recurrent_projection,
        )
    )
    peer.cell.weight_ih.data = torch.cat([inputs, context], dim=1)
    peer.cell.weight_hh.data = recurrent
    peer.cell.bias_ih.data = torch.tensor(cell.input_projection.bias.numpy())[order]
    peer.cell.bias_hh.data = torch.zeros(4 * size)
    return peer.to(device())


def as_peer_batch(batch):
    """Return a batch of make_batches as `losses` takes it: features, photo of each
    caption, ids, targets, lengths.
    """
    (features, input_ids), target_ids, token_weights = batch
    photos, captions, time = token_weights.shape
    lengths = token_weights.numpy().sum(axis=-1).astype(int).reshape(-1)
    order = [caption for caption in (-lengths).argsort(kind="stable") if lengths[caption] > 0]
    ids = (
        torch.tensor(x.numpy().reshape(-1, time)).long()[order].to(device())
        for x in (input_ids, target_ids)
    )
    photo_of_caption = torch.arange(photos).repeat_interleave(captions)[order].to(device())
    features = torch.tensor(features.numpy().astype("float32")).to(device())
    return features, photo_of_caption, *ids, lengths[order].tolist()


def train_step(peer, optimizer, batch, penalty_weight):
    """Train on one batch as the tutorial does: cross-entropy of the real words,
    penalty, clipped gradients.
    """
    cross_entropy, looked_at = peer.losses(*batch)
    loss = (cross_entropy + penalty_weight * ((1 - looked_at) ** 2).sum()) / len(looked_at)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(peer.parameters(), 5.0)
    optimizer.step()
    return float(loss.detach())


# === VGG16 ===


class VGG16(nn.Sequential):
    """VGG16 up to the last convolution of block 5, channels last: (photos, 3, 224, 224)
    to (photos, 512, 14, 14).
    """

    def __init__(self):
        layers, channels = [], 3
        for block, (size, count) in enumerate([(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)]):
            layers += [nn.MaxPool2d(2)] if block else []
            for _ in range(count):
                layers += [nn.Conv2d(channels, size, 3, padding=1), nn.ReLU(inplace=True)]
                channels = size
        super().__init__(*layers)
        self.to(memory_format=torch.channels_last)
