"""Terms that an option adds to the objective."""


class Term:
    """A loss term that the objective adds to equation (12) or (14).

    Attributes:
        option: the name of its weight in Loss.
        needs: an argument of `fit` that it requires, or None.
        is_measured: whether the metric "loss" includes it, also in validation.
            Otherwise it supervises attention, and is used only in training, and only if
            attention chooses regions.
        counts_in_rewards: whether self-critical epochs use it, on the captions that
            people wrote.
        layers: Keras layers on the features, trained with the captioner but not saved.
    """

    option = None
    needs = None
    is_measured = False
    counts_in_rewards = False
    layers = ()

    def __init__(self, weight):
        self.weight = weight

    @classmethod
    def of(cls, captioner, loss):
        """Return the term for a captioner whose settings, a Loss, give it a weight;
        None if the captioner has no use for it.
        """
        return cls(getattr(loss, cls.option))

    def check(self, batches):
        """Raise ValueError if the term cannot use these batches from make_batches."""

    def __call__(self, features, target_ids, read, covered):
        """Return the loss of each caption (rows,) and a dict that maps metric names to
        their values and weights.

        Args:
            features: the features that attention uses, (photos, regions, feature_dim).
            target_ids: (rows, time).
            read: TeacherForced for the captions.
            covered: how much of each region the boxes of each target word cover,
                (photos, captions, time, regions), or None.
        """
        raise NotImplementedError
