"""Hooks: an option changes the decoder, adds a term to the objective, or adds a training phase."""

from typing import Any, NamedTuple


class Hook(NamedTuple):
    """The effect of an option; None means no effect."""

    decoder: Any = None  # subclass of CaptionDecoder that replaces it
    term: Any = None  # subclass of Term
    epochs: Any = None  # FurtherEpochs; the option is their number
    needs: str | None = None  # an argument of `fit` that it requires


class Term:
    """A cost that the objective adds to equation (12) or (14).

    Attributes:
        is_measured: whether it is part of the metric "loss", in validation too. Otherwise it supervises attention, and
            counts only in training, and only if attention chooses regions.
        layers: Keras layers on the features, trained with the captioner but not saved.
    """

    is_measured = False
    layers = ()

    def __init__(self, weight):
        self.weight = weight

    @classmethod
    def of(cls, captioner, options):
        """Return the term for a captioner with these CaptionerOptions, or None."""
        raise NotImplementedError

    def check(self, batches):
        """Raise ValueError for batches of make_batches that it cannot use."""

    def __call__(self, features, target_ids, read, extra):
        """Return the cost of each caption, (rows,), and a dict from metrics to their values and weights.

        Args:
            features: the features that attention uses, (photos, regions, feature_dim).
            target_ids: (rows, time).
            read: TeacherForced for the captions.
            extra: list of the inputs after input_ids in the batch.
        """
        raise NotImplementedError


class FurtherEpochs(NamedTuple):
    """A later training phase with an objective and a folder of its own."""

    options: Any  # subclass of Options; those that end in _epochs and _rate are its epochs and learning rate
    # Returns the objective, from: the captioner before this phase, the captioner to train, the training images,
    # TrainingOptions and these options.
    objective: Any
    schedule: str = "constant"  # or "cosine": of the learning rate
    encoder_alone: bool = False  # train only the encoder, on photos without augmentation
    keeps_before: bool = False  # keep the captioner before this phase if no epoch is better
