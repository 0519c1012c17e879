"""What the captioner is compared with: the textbook loop in PyTorch, and PyTorch's VGG16. Needs the extra `bench`.

Both are written as the most used tutorial for PyTorch writes them, with the equations and the sizes of our own model,
so that our weights can be carried over and both do the same work: everything is computed inside the loop over the
words, the features of each caption are projected anew at each step, the gate is a vector, and beam search takes one
photo at a time.
"""

import torch
from torch import nn


class TextbookDecoder(nn.Module):
    """Show, Attend and Tell as a loop over single steps.

    Args:
        vocabulary_size: number of tokens.
        feature_dim, embedding_dim, hidden_dim, attention_dim: sizes.
    """

    def __init__(self, vocabulary_size, *, feature_dim=512, embedding_dim=512, hidden_dim=512, attention_dim=512):
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

    def step(self, input_ids, hidden_state, cell_state, features):
        """Return logits (rows, vocabulary), h_t, c_t and alpha_t (rows, regions) for features (rows, regions, dim)."""
        embedded = self.embedding(input_ids)
        hidden = torch.tanh(self.feature_projection(features) + self.state_projection(hidden_state).unsqueeze(1))
        attention_weights = torch.softmax(self.score(hidden).squeeze(2), dim=1)
        context = (features * attention_weights.unsqueeze(2)).sum(dim=1)
        context = torch.sigmoid(self.gate(hidden_state)) * context
        hidden_state, cell_state = self.cell(torch.cat([embedded, context], dim=1), (hidden_state, cell_state))
        readout = embedded + self.state_readout(self.drop_before(hidden_state)) + self.context_readout(context)
        return self.word_logits(self.drop_after(readout)), hidden_state, cell_state, attention_weights

    def forward(self, features, input_ids, lengths):
        """Return logits (captions, time, vocabulary) and attention weights, with the captions sorted by length.

        Args:
            features: (captions, regions, feature_dim).
            input_ids: (captions, time), longest caption first.
            lengths: list of the lengths of the captions.
        """
        logits = torch.zeros(*input_ids.shape, self.word_logits.out_features, device=features.device)
        maps = torch.zeros(*input_ids.shape, features.shape[1], device=features.device)
        hidden_state, cell_state = self.initial_state(features)
        for t in range(max(lengths)):
            rows = sum(length > t for length in lengths)
            step_logits, hidden_state, cell_state, step_maps = self.step(
                input_ids[:rows, t], hidden_state[:rows], cell_state[:rows], features[:rows]
            )
            logits[:rows, t] = step_logits
            maps[:rows, t] = step_maps
        return logits, maps


def carry_over(decoder, peer):
    """Give the peer the weights of our CaptionDecoder (soft, additive, one LSTM layer, deep output)."""

    def put(linear, *, kernel, bias=None):
        linear.weight.data = torch.tensor(kernel.T.copy())
        if bias is not None:
            linear.bias.data = torch.tensor(bias)

    def dense(linear, layer):
        put(linear, kernel=layer.kernel.numpy(), bias=layer.bias.numpy() if layer.use_bias else None)

    attention, cell = decoder.attention_layer, decoder.cells[0]
    peer.embedding.weight.data = torch.tensor(decoder.embedding.embeddings.numpy())
    dense(peer.feature_projection, attention.feature_projection)
    dense(peer.state_projection, attention.state_projection)
    put(peer.score, kernel=attention.score_vector.numpy()[:, None])
    dense(peer.initial_hidden, decoder.initial_hidden)
    dense(peer.initial_cell, decoder.initial_cell)
    dense(peer.state_readout, decoder.readout.state_readout)
    dense(peer.context_readout, decoder.readout.context_readout)
    dense(peer.word_logits, decoder.readout.word_logits)
    # One gate for all of the context: the same number in every place of the vector.
    feature_dim = peer.gate.out_features
    put(
        peer.gate,
        kernel=decoder.gate.kernel.numpy().repeat(feature_dim, axis=1),
        bias=decoder.gate.bias.numpy().repeat(feature_dim),
    )
    # PyTorch orders the gates i, f, g, o; the paper i, f, o, g.
    size = peer.cell.hidden_size
    order = [*range(2 * size), *range(3 * size, 4 * size), *range(2 * size, 3 * size)]
    inputs, context, recurrent = (
        torch.tensor(projection.kernel.numpy().T.copy())[order]
        for projection in (cell.input_projection, cell.context_projection, cell.recurrent_projection)
    )
    peer.cell.weight_ih.data = torch.cat([inputs, context], dim=1)
    peer.cell.weight_hh.data = recurrent
    peer.cell.bias_ih.data = torch.tensor(cell.input_projection.bias.numpy())[order]
    peer.cell.bias_hh.data = torch.zeros(4 * size)


# === Training ===


def as_peer_batch(batch):
    """Return features, input ids, target ids and lengths, a row for each caption, of one batch of make_batches."""
    (features, input_ids), target_ids, token_weights = batch
    captions, time = token_weights.shape[1:]
    lengths = token_weights.numpy().sum(axis=-1).astype(int).reshape(-1)
    features = torch.tensor(features.numpy().astype("float32")).repeat_interleave(captions, dim=0)
    ids = (torch.tensor(x.numpy().reshape(-1, time)).long() for x in (input_ids, target_ids))
    kept = lengths > 0
    return *(x[kept] for x in (features, *ids)), lengths[kept].tolist()


def train_step(peer, optimizer, features, input_ids, target_ids, lengths, penalty_weight):
    """Learn from one batch, as the tutorial does: cross-entropy of the real words, penalty, clipped gradients."""
    order = sorted(range(len(lengths)), key=lambda caption: -lengths[caption])
    lengths = [lengths[caption] for caption in order]
    logits, maps = peer(features[order], input_ids[order], lengths)
    packed = nn.utils.rnn.pack_padded_sequence(logits, lengths, batch_first=True).data
    targets = nn.utils.rnn.pack_padded_sequence(target_ids[order], lengths, batch_first=True).data
    loss = nn.functional.cross_entropy(packed, targets, reduction="sum") / len(lengths)
    loss = loss + penalty_weight * ((1 - maps.sum(dim=1)) ** 2).sum() / len(lengths)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(peer.parameters(), 5.0)
    optimizer.step()
    return float(loss.detach())


# === Captioning ===


@torch.no_grad()
def greedy(peer, features, max_length, start_token_id, end_token_id, never):
    """Return the token ids of one caption for each photo, a batch at a time, `<end>` left out.

    Args:
        features: (photos, regions, feature_dim).
        never: token ids that are not chosen.
    """
    hidden_state, cell_state = peer.initial_state(features)
    token_ids = torch.full((len(features),), start_token_id, device=features.device)
    ended = torch.zeros(len(features), dtype=torch.bool, device=features.device)
    found = []
    for _ in range(max_length):
        logits, hidden_state, cell_state, _ = peer.step(token_ids, hidden_state, cell_state, features)
        logits[:, never] = -torch.inf
        token_ids = logits.argmax(dim=1)
        found.append(token_ids)
        ended |= token_ids == end_token_id
        if ended.all():
            break
    captions = torch.stack(found, dim=1).tolist()
    return [ids[: ids.index(end_token_id)] if end_token_id in ids else ids for ids in captions]


@torch.no_grad()
def beam_search(peer, features, num_beams, max_length, start_token_id, end_token_id, never):
    """Return the token ids of the best caption of one photo, features (regions, feature_dim), `<end>` left out."""
    features = features.expand(num_beams, *features.shape)
    hidden_state, cell_state = peer.initial_state(features)
    sequences = torch.full((num_beams, 1), start_token_id, device=features.device)
    scores = torch.zeros(num_beams, 1, device=features.device)
    complete = []
    for t in range(max_length):
        logits, hidden_state, cell_state, _ = peer.step(sequences[:, -1], hidden_state, cell_state, features)
        logits = torch.log_softmax(logits, dim=1)
        logits[:, never] = -torch.inf
        scores = scores + logits
        # All beams are alike at first.
        best, places = (scores[0] if t == 0 else scores.view(-1)).topk(len(sequences))
        parents, words = places // logits.shape[1], places % logits.shape[1]
        sequences = torch.cat([sequences[parents], words.unsqueeze(1)], dim=1)
        going_on = [beam for beam, word in enumerate(words.tolist()) if word != end_token_id]
        complete += [
            (float(best[beam]), sequences[beam, 1:-1].tolist())
            for beam in range(len(sequences))
            if beam not in going_on
        ]
        if not going_on:
            break
        parents, sequences = parents[going_on], sequences[going_on]
        hidden_state, cell_state, features = hidden_state[parents], cell_state[parents], features[: len(going_on)]
        scores = best[going_on].unsqueeze(1)
    return max(complete)[1] if complete else sequences[0, 1:].tolist()


# === VGG16 ===


class VGG16(nn.Sequential):
    """VGG16 up to the last convolution of block 5, channels last: (photos, 3, 224, 224) to (photos, 512, 14, 14)."""

    def __init__(self):
        layers, channels = [], 3
        for block, (size, count) in enumerate([(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)]):
            layers += [nn.MaxPool2d(2)] if block else []
            for _ in range(count):
                layers += [nn.Conv2d(channels, size, 3, padding=1), nn.ReLU(inplace=True)]
                channels = size
        super().__init__(*layers)
        self.to(memory_format=torch.channels_last)
