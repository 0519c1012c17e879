"""Where an option of this folder takes effect: in the decoder, in the objective, or in epochs of its own."""

from typing import Any, NamedTuple


class Hook(NamedTuple):
    """What an option adds; a part that is None adds nothing.

    Attributes:
        decoder: subclass of CaptionDecoder that takes its place.
        term: subclass of Term.
        epochs: FurtherEpochs, of the option that says how many.
        needs: the argument of `fit` that it needs.
    """

    decoder: Any = None
    term: Any = None
    epochs: Any = None
    needs: str | None = None


class Term:
    """A further cost of captions, which the objective adds to equation (12) or (14).

    Attributes:
        is_measured: True: it is a part of the metric "loss", in validation too. False: it is for attention alone, and
            counts only in training, and only where attention has a choice.
        layers: Keras layers of the features that attention is paid to: trained with the captioner, and not saved.
    """

    is_measured = False
    layers = ()

    @classmethod
    def of(cls, captioner, options):
        """Return the term of a captioner with these CaptionerOptions; None where they ask for none."""
        raise NotImplementedError

    def prepare(self, captions):
        """Look at the captions to train on, a list, before the captioner is trained."""

    def check(self, batches):
        """Raise a ValueError for batches to train on, a tf.data.Dataset of make_batches, that it has no use for."""

    def __call__(self, features, target_ids, read, extra):
        """Return what the captions of a batch cost, (rows,), and a dict from metrics to their values and weights.

        Args:
            features: what attention is paid to, (photos, regions, feature_dim).
            target_ids: (rows, time), rows being a multiple of photos.
            read: the Reading of the captions.
            extra: list of what comes after input_ids in the batch.
        """
        raise NotImplementedError


class FurtherEpochs(NamedTuple):
    """Epochs with an objective of their own. They come after those on words, in a folder of their own.

    Attributes:
        options: subclass of Options; those that end in _epochs and _rate are their number and learning rate.
        objective: function of the captioner from before, the captioner that is trained, the images to train on,
            TrainingOptions and these options: the objective that the captioner is compiled with.
        schedule: of the learning rate, "constant" or "cosine".
        encoder_alone: whether nothing but the encoder is trained, on photos as they are.
        keeps_before: whether the captioner from before stays where no epoch is better.
    """

    options: Any
    objective: Any
    schedule: str = "constant"
    encoder_alone: bool = False
    keeps_before: bool = False
