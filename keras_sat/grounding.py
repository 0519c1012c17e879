"""Does the model look where the word is? On the built-in scenes the place of every word is known."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Grounding:
    """How well the attention meets the objects, averaged over words.

    Attributes:
        mass: the share of the attention that lies on the objects' cells.
        uniform_mass: what a map that is the same everywhere gets.
        pointing: the share of words whose attention is greatest in one of the objects' cells.
        num_words: how many words were looked at.
    """

    mass: float
    uniform_mass: float
    pointing: float
    num_words: int


def ground(results, scenes, *, word_classes=("colour", "shape"), enlarge=1):
    """Return the Grounding of captions of scenes. Captions that are not true have no places, and do not count.

    Args:
        results: list of CaptionResult.
        scenes: list of Scene, one for each result.
        word_classes: which words: "colour", "shape", "size", "relation", "number".
        enlarge: count so many cells around an object as its own: what a cell knows of its neighbours reaches over.
    """
    masses, uniform, hits = [], [], []
    for result, scene in zip(results, scenes):
        for place in scene.places(result.caption):
            if place.word_class not in word_classes:
                continue
            attention_map = result.attention_weights[place.position]
            cells = place.cells(attention_map.shape, enlarge=enlarge)
            masses.append(attention_map[cells].sum())
            uniform.append(cells.mean())
            hits.append(cells.flat[attention_map.argmax()])
    means = (float(np.mean(values)) if values else float("nan") for values in (masses, uniform, hits))
    return Grounding(*means, num_words=len(masses))
