"""Several captioners that write one caption together."""

from __future__ import annotations

from data_utils.learnt_photos import together
from keras_sat.search.writer import CaptionWriter


class Ensemble(CaptionWriter):
    """Captioners that agree on each word: its probability is the mean of theirs, within one search.

    It captions and is evaluated as a single captioner is. Its attention weights are the mean of those of its members,
    on the finest of their grids; members without attention, which look at everything alike, are left out of that.

    Args:
        captioners: list of Captioner, all of one vocabulary. Encoders, sizes and attention may differ.
        length_penalty: what `caption` uses where it is given none; None takes the mean of the members'.
    """

    def __init__(self, captioners: list, *, length_penalty: float | None = None):
        captioners = list(captioners) if isinstance(captioners, (list, tuple)) else [captioners]
        if not captioners or not all(hasattr(captioner, "steps") for captioner in captioners):
            kinds = [type(captioner).__name__ for captioner in captioners]
            raise ValueError(f"Expected a list of at least one Captioner. Received: {', '.join(kinds) or 'none'}")
        if not all(captioner.built for captioner in captioners):
            raise ValueError("A captioner has no weights before it has seen its first batch. Received: one of these")
        vocabularies = [captioner.vocabulary for captioner in captioners]
        for number, vocabulary in enumerate(vocabularies):
            if vocabulary != vocabularies[0]:
                raise ValueError(
                    "The captioners must have the same words in the same order, as trainings on the same data have. "
                    f"Received: {len(vocabularies[0])} tokens in the first, {len(vocabulary)} in number {number + 1}"
                )
        super().__init__(captioners, length_penalty=length_penalty)

    def __repr__(self):
        return f"Ensemble({len(self.members)} captioners)"

    @property
    def captioners(self) -> list:
        """The members."""
        return self.members

    @property
    def encoder(self) -> str:
        """The name of the encoder, or the names of all of them."""
        return " + ".join(dict.fromkeys(str(captioner.encoder) for captioner in self.members))

    @property
    def training_photos(self):
        """The LearntPhotos of all members, where they are known."""
        return together([captioner.training_photos for captioner in self.members])

    @property
    def encoder_model(self):
        """The encoder of all members, for a FeatureCache; a ValueError where they have different ones."""
        if any(self.first_with_same_encoder):
            raise ValueError(
                "The captioners have different encoders: no cache has the features of all. Caption the photos instead. "
                f"Received: encoders {self.encoder}"
            )
        return self.members[0].encoder_model
