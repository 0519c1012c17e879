"""Hooks: an option changes the decoder, adds a term to the objective, or adds a training phase."""

from typing import Any, NamedTuple


class Hook(NamedTuple):
    """The effect of an option; None means no effect.

    Attributes:
        decoder: subclass of CaptionDecoder that replaces it.
        term: subclass of Term.
        epochs: FurtherEpochs; the option is their number.
        needs: an argument of `fit` that it requires.
    """

    decoder: Any = None
    term: Any = None
    epochs: Any = None
    needs: str | None = None


class Term:
    """A further cost that the objective adds to equation (12) or (14).

    Attributes:
        is_measured: True: it is part of the metric "loss", in validation too. False: it supervises attention, and
            counts only in training, and only if attention chooses regions.
        layers: Keras layers on the features, trained with the captioner but not saved.
    """

    is_measured = False
    layers = ()

    @classmethod
    def of(cls, captioner, options):
        """Return the term for a captioner with these CaptionerOptions, or None."""
        raise NotImplementedError

    def prepare(self, captions):
        """Prepare for training on these captions, a list."""

    def check(self, batches):
        """Raise ValueError for training batches, a tf.data.Dataset of make_batches, that it cannot use."""

    def __call__(self, features, target_ids, read, extra):
        """Return the cost of each caption, (rows,), and a dict from metrics to their values and weights.

        Args:
            features: the features that attention uses, (photos, regions, feature_dim).
            target_ids: (rows, time); rows is a multiple of photos.
            read: TeacherForced for the captions.
            extra: list of the inputs after input_ids in the batch.
        """
        raise NotImplementedError


class FurtherEpochs(NamedTuple):
    """A later training phase with an objective and a folder of its own.

    Attributes:
        options: subclass of Options; those that end in _epochs and _rate are its epochs and learning rate.
        objective: function of the captioner before this phase, the captioner to train, the training images,
            TrainingOptions and these options; it returns the objective to compile with.
        schedule: "constant" or "cosine" learning rate.
        encoder_alone: whether only the encoder is trained, on photos without augmentation.
        keeps_before: whether the captioner before this phase is kept if no epoch is better.
    """

    options: Any
    objective: Any
    schedule: str = "constant"
    encoder_alone: bool = False
    keeps_before: bool = False
