"""Hooks: an option can change the decoder, or add a term to the objective."""

from typing import Any, NamedTuple


class Hook(NamedTuple):
    """The effect of an option. A field that is None has no effect."""

    decoder: Any = None  # subclass of CaptionDecoder that replaces it
    term: Any = None  # subclass of Term
    needs: str | None = None  # an argument of `fit` that the option requires


class Term:
    """A loss term that the objective adds to equation (12) or (14).

    Attributes:
        is_measured: whether the metric "loss" includes it, also in validation.
            Otherwise it supervises attention, and is used only in training, and only if
            attention chooses regions.
        layers: Keras layers on the features, trained with the captioner but not saved.
    """

    option = None  # the name of its weight in Loss
    is_measured = False
    layers = ()

    def __init__(self, weight):
        self.weight = weight

    @classmethod
    def of(cls, captioner, loss):
        """Return the term for a captioner with these settings, a Loss, or None."""
        weight = getattr(loss, cls.option)
        return cls(weight) if weight else None

    def check(self, batches):
        """Raise ValueError if the term cannot use these batches from make_batches."""

    def __call__(self, features, target_ids, read, extra):
        """Return the loss of each caption (rows,) and a dict that maps metric names to
        their values and weights.

        Args:
            features: the features that attention uses, (photos, regions, feature_dim).
            target_ids: (rows, time).
            read: TeacherForced for the captions.
            extra: list of the batch's inputs after input_ids.
        """
        raise NotImplementedError
