"""The caption of a photo."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from keras_sat.options import EXTRAS


@dataclass(frozen=True)
class CaptionResult:
    """A caption of one photo, and where the model looked.

    Attributes:
        caption: the text.
        words: list of its words.
        log_prob: log p(caption | photo) under the model, `<end>` included.
        attention_weights: (words, rows, columns); each map sums to 1.
        extras: figures of each word beyond the paper: dict from names, see `keras_sat.options.EXTRAS`, to (words,) or
            (words, dim). Each is an attribute too, None where the model does not have it.
        is_finished: False where the caption was cut off at `max_length`.
        confidence: the probability that the caption is right, see `keras_sat.beyond.calibration`. None where the
            captioner was not calibrated, and for a given caption.
        image: the photo as the encoder saw it, uint8 (height, width, 3); None where only features were given.
        alternatives: the other results, best first.
        word_probs: p of each word given the photo and the words before it, (words,); p(`<end>`) is in `log_prob` only.
            None from a LiteRT file that was made without them.
    """

    caption: str
    words: list[str]
    log_prob: float
    attention_weights: np.ndarray = field(repr=False)
    extras: dict = field(default_factory=dict, repr=False)
    is_finished: bool = True
    confidence: float | None = None
    image: Any = field(default=None, repr=False)
    alternatives: list = field(default_factory=list, repr=False)
    word_probs: np.ndarray | None = field(default=None, repr=False)


def _extra(name, doc):
    return property(lambda self: self.extras.get(name), doc=doc)


for _name, _doc in EXTRAS.items():
    setattr(CaptionResult, _name, _extra(_name, _doc))
