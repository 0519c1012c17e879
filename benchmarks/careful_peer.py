"""The same network in PyTorch again, as somebody writes it who has profiled the textbook's loop. Needs extra `bench`.

Features are projected once for each photo, words once for each batch and logits once for all words; captions leave the
loop when they have ended; searches take many photos at a time; `torch.compile` makes the step of the loop where it can.
"""

import shutil

import torch
from peers import TextbookDecoder
from torch import nn
from torch.nn import functional


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
        torch._dynamo.config.fail_on_recompile_limit_hit = True  # else it would go on uncompiled, and say nothing
        self.advance = torch.compile(self._advance, dynamic=True, fullgraph=True)
        return self

    def _advance(self, projected_words, hidden_state, cell_state, features, projected_features):
        """Return context, h_t, c_t and alpha_t of rows that are captions, those of a photo side by side.

        Args:
            projected_words, hidden_state, cell_state: (rows, dim).
            features, projected_features: (photos, regions, dim).
        """
        query = self.state_projection(hidden_state).view(len(features), -1, 1, projected_features.shape[2])
        hidden = torch.tanh(projected_features.unsqueeze(1) + query)
        attention_weights = torch.softmax(self.score(hidden).squeeze(3), dim=2)
        context = torch.bmm(attention_weights, features).flatten(0, 1)
        attention_weights = attention_weights.flatten(0, 1)
        context = torch.sigmoid(self.gate(hidden_state)) * context
        size = self.embedding.embedding_dim
        gates = projected_words + functional.linear(context, self.cell.weight_ih[:, size:])
        gates = gates + functional.linear(hidden_state, self.cell.weight_hh, self.cell.bias_hh)
        input_gate, forget_gate, candidate, output_gate = gates.chunk(4, dim=1)
        cell_state = torch.sigmoid(forget_gate) * cell_state + torch.sigmoid(input_gate) * torch.tanh(candidate)
        return context, torch.sigmoid(output_gate) * torch.tanh(cell_state), cell_state, attention_weights

    def project_words(self, embedded):
        size = self.embedding.embedding_dim
        return functional.linear(embedded, self.cell.weight_ih[:, :size], self.cell.bias_ih)

    def read_out(self, embedded, hidden_state, context):
        readout = embedded + self.state_readout(self.drop_before(hidden_state)) + self.context_readout(context)
        return self.word_logits(self.drop_after(readout))


def can_compile():
    """Return whether there is the C++ compiler that `torch.compile` needs on a processor."""
    return torch.cuda.is_available() or any(map(shutil.which, ("g++", "clang++", "c++", "cl")))


def train_step(peer, optimizer, features, photo_of_caption, input_ids, target_ids, lengths, penalty_weight):
    """Learn from one batch as `peers.train_step` does.

    Args:
        features: (photos, regions, feature_dim).
        photo_of_caption: the number of each caption's photo, (captions,).
        input_ids, target_ids: (captions, time).
        lengths: list of the captions' lengths.
    """
    order = sorted(range(len(lengths)), key=lambda caption: -lengths[caption])
    lengths = [lengths[caption] for caption in order]
    photo_of_caption, input_ids, target_ids = photo_of_caption[order], input_ids[order], target_ids[order]
    projected_features = peer.feature_projection(features)[photo_of_caption]
    hidden_state, cell_state = (state[photo_of_caption] for state in peer.initial_state(features))
    features = features[photo_of_caption]
    embedded = peer.embedding(input_ids.T)  # words first
    projected_words = peer.project_words(embedded).unbind()
    embedded, target_ids = embedded.unbind(), target_ids.T.unbind()
    looked_at = torch.zeros(features.shape[:2], device=features.device)
    found, targets = [], []
    for t in range(lengths[0]):
        rows = sum(length > t for length in lengths)
        if rows < len(features):  # some captions have ended
            narrower = (x[:rows] for x in (hidden_state, cell_state, features, projected_features))
            hidden_state, cell_state, features, projected_features = narrower
        context, hidden_state, cell_state, attention_weights = peer.advance(
            projected_words[t][:rows], hidden_state, cell_state, features, projected_features
        )
        looked_at = looked_at + functional.pad(attention_weights, (0, 0, 0, len(looked_at) - rows))
        found.append((embedded[t][:rows], hidden_state, context))
        targets.append(target_ids[t][:rows])
    logits = peer.read_out(*(torch.cat(parts) for parts in zip(*found)))
    loss = functional.cross_entropy(logits, torch.cat(targets), reduction="sum") / len(lengths)
    loss = loss + penalty_weight * ((1 - looked_at) ** 2).sum() / len(lengths)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(peer.parameters(), 5.0)
    optimizer.step()
    return float(loss.detach())


def as_careful_batch(batch):
    """Return features (photos, ...), the photo of each caption, input ids, target ids and lengths of one batch."""
    (features, input_ids), target_ids, token_weights = batch
    photos, captions, time = token_weights.shape
    lengths = token_weights.numpy().sum(axis=-1).astype(int).reshape(-1)
    kept = lengths > 0
    ids = (torch.tensor(x.numpy().reshape(-1, time)).long()[kept] for x in (input_ids, target_ids))
    photo_of_caption = torch.arange(photos).repeat_interleave(captions)[kept]
    return torch.tensor(features.numpy().astype("float32")), photo_of_caption, *ids, lengths[kept].tolist()


@torch.no_grad()
def beam_search(peer, features, num_beams, max_length, start_token_id, end_token_id, never):
    """Return the token ids of the best caption of each of many photos, `<end>` left out; one beam is greedy search.

    A beam that has ended goes on with `<end>` alone, at no cost.
    """
    photos, vocabulary = len(features), peer.word_logits.out_features
    beams = torch.arange(photos, device=features.device).repeat_interleave(num_beams)
    projected_features = peer.feature_projection(features)
    hidden_state, cell_state = (state[beams] for state in peer.initial_state(features))
    token_ids = torch.full((len(beams),), start_token_id, device=features.device)
    scores = torch.full((photos, num_beams), -torch.inf, device=features.device)
    scores[:, 0] = 0  # all beams are alike at first
    only_end = torch.full((vocabulary,), -torch.inf, device=features.device)
    only_end[end_token_id] = 0
    first_beams = torch.arange(0, photos * num_beams, num_beams, device=features.device).unsqueeze(1)
    sequences = token_ids.new_empty((len(beams), 0))
    ended = torch.zeros(len(beams), dtype=torch.bool, device=features.device)
    for _ in range(max_length):
        embedded = peer.embedding(token_ids)
        context, hidden_state, cell_state, _ = peer.advance(
            peer.project_words(embedded), hidden_state, cell_state, features, projected_features
        )
        log_probs = torch.log_softmax(peer.read_out(embedded, hidden_state, context).float(), dim=1)
        log_probs[:, never] = -torch.inf
        log_probs[ended] = only_end
        scores, places = (scores.unsqueeze(2) + log_probs.view(photos, num_beams, -1)).flatten(1).topk(num_beams)
        parents, token_ids = (first_beams + places // vocabulary).flatten(), (places % vocabulary).flatten()
        hidden_state, cell_state = hidden_state[parents], cell_state[parents]
        sequences = torch.cat([sequences[parents], token_ids.unsqueeze(1)], dim=1)
        ended = ended[parents] | (token_ids == end_token_id)
        if ended.all():
            break
    best = sequences.view(photos, num_beams, -1)[torch.arange(photos), scores.argmax(dim=1)].tolist()
    return [ids[: ids.index(end_token_id)] if end_token_id in ids else ids for ids in best]
