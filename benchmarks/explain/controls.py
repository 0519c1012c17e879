"""Controls: a method whose maps pass them depends on the word and on the weights.

- other word: the map for the word against that for the next best one. A method that
  gives the same map for all words has a correlation of 1.
- random weights: the map against that of the same network with random weights, from
  the readout down to LSTM and attention. Adebayo et al., 2018, Sanity Checks for
  Saliency Maps.
- maps blurred to the entropy of attention: a sharper map has its peak on a box more
  easily.
"""

import contextlib
import dataclasses

import numpy as np
from maps import Reading, maps_of
from measures import rank_correlation

from keras_sat.measuring.measured_maps import blurred_to, entropy_of


def positive(map_of_word):
    """Return the positive part of a map, with the sum 1; without one, an even map."""
    map_of_word = np.maximum(map_of_word, 0)
    total = map_of_word.sum()
    return map_of_word / total if total > 0 else np.full_like(map_of_word, 1 / map_of_word.size)


def as_blurred_as_attention(maps, grid_shape):
    """Return maps of a word, a dict, all as spread out as that of attention."""
    entropy = entropy_of(positive(maps["attention"]))
    return {
        name: blurred_to(entropy, positive(one).reshape(grid_shape)).ravel()
        for name, one in maps.items()
    }


def against_other_words(reading, maps, positions, *, seed):
    """Return the rank correlation of each map of a word with that of the most probable
    other word: a list of dicts, one for each position.
    """
    found = []
    for number, t in enumerate(positions):
        logits = np.array(reading.steps.logits[0, t])
        logits[reading.token_ids[0, t]] = -np.inf
        words = [*reading.words]
        words[t] = reading.captioner.vocabulary.tokens[int(logits.argmax())]
        other = dataclasses.replace(reading, words=words)
        others = maps_of(other, [t], seed=seed)
        found.append({name: rank_correlation(maps[name][number], others[name][0]) for name in maps})
    return found


def against_random_weights(reading, features, maps, positions, *, seed):
    """Return the rank correlation of each map with that of random weights: a list of
    dicts from which weights are random to dicts, one for each position.
    """
    decoder = reading.captioner.decoder
    cascade = {"readout": decoder.readout.weights}
    cascade["and LSTM"] = [weight for cell in decoder.cells for weight in cell.weights]
    cascade["and attention"] = decoder.attention_layer.weights
    found = [{} for _ in positions]
    with contextlib.ExitStack() as stack:
        for name, weights in cascade.items():
            stack.enter_context(_random(weights, seed))
            changed = Reading.of(reading.captioner, features, reading.words)
            others = maps_of(changed, positions, seed=seed)
            for number, of_word in enumerate(found):
                of_word[name] = {
                    method: rank_correlation(maps[method][number], others[method][number])
                    for method in maps
                }
    return found


@contextlib.contextmanager
def _random(weights, seed):
    """Give weights random values with their own deviation; restore them at the end."""
    random = np.random.default_rng(seed)
    before = [weight.numpy() for weight in weights]
    try:
        for weight, values in zip(weights, before):
            weight.assign(values.mean() + values.std() * random.normal(size=values.shape))
        yield
    finally:
        for weight, values in zip(weights, before):
            weight.assign(values)
