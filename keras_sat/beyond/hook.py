"""Where an option that goes beyond the paper hangs on."""

from collections.abc import Callable
from typing import Any, NamedTuple


class Hook(NamedTuple):
    """What an option brings; each part is None where it brings nothing there.

    Attributes:
        decoder: subclass of CaptionDecoder that takes its place, see `decoder_with`.
        term: a further cost of the objective, see `keras_sat.model.objective`.
        epochs: function that trains further epochs, see `keras_sat.training.epochs`.
        needs: argument of `fit` that the option needs.
    """

    decoder: Any = None
    term: Any = None
    epochs: Callable | None = None
    needs: str | None = None
