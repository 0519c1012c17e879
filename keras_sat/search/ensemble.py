"""Several captioners that write one caption together."""

from types import SimpleNamespace

import numpy as np
from keras import ops

from keras_sat.model.learnt_photos import together
from keras_sat.search.writer import CaptionWriter, read_photos, run_search


class Ensemble(CaptionWriter):
    """Captioners that agree on each word: its probability is the mean of theirs, within one search.

    It captions and is evaluated as a single captioner is. Its attention weights are the mean of those of its members,
    on the finest of their grids; members without attention, which look at everything alike, are left out of that.

    Args:
        captioners: list of Captioner, all of one vocabulary. Encoders, sizes and attention may differ.
        length_penalty: what `caption` uses where it is given none; None takes the mean of the members'.
    """

    samples_attention = False

    def __init__(self, captioners, *, length_penalty=None):
        captioners = list(captioners) if isinstance(captioners, (list, tuple)) else [captioners]
        is_single = [isinstance(item, CaptionWriter) and not isinstance(item, Ensemble) for item in captioners]
        if not captioners or not all(is_single):
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
        self.captioners = captioners
        self.vocabulary = vocabularies[0]
        if length_penalty is None:
            length_penalty = float(np.mean([captioner.length_penalty for captioner in captioners]))
        self.length_penalty = length_penalty
        self._untracked = SimpleNamespace(compiled={})
        self._encoders = None  # for each member the number of the first one with the same encoder, when it is known
        attending = [captioner for captioner in captioners if captioner.decoder.attention != "none"]
        self._grids = [captioner.rows_and_columns() for captioner in attending or captioners]
        self._are_attending = [captioner in attending or not attending for captioner in captioners]

    def __repr__(self):
        return f"Ensemble({len(self.captioners)} captioners)"

    @property
    def encoder(self):
        """The name of the encoder, or the names of all of them."""
        return " + ".join(dict.fromkeys(str(captioner.encoder) for captioner in self.captioners))

    @property
    def training_photos(self):
        """Digests of the photos that any member has learnt from, where they are known."""
        return together([captioner.training_photos for captioner in self.captioners])

    @property
    def encoder_model(self):
        """The encoder of all members, for a FeatureCache; a ValueError where they have different ones."""
        if any(self._first_with_same_encoder()):
            raise ValueError(
                "The captioners have different encoders: no cache has the features of all. Caption the photos instead. "
                f"Received: encoders {self.encoder}"
            )
        return self.captioners[0].encoder_model

    @property
    def photo_sizes(self):
        """The sizes in which the members see photos: list of (height, width)."""
        return list(dict.fromkeys(size for captioner in self.captioners for size in captioner.photo_sizes))

    def rows_and_columns(self):
        """Return the shape of the attention maps: the finest grid of the members that attend."""
        return max(self._grids, key=np.prod)

    @property
    def _num_places(self):
        return int(np.prod(self.rows_and_columns()))

    def _encode(self, images):
        photos = {size: read_photos(images, size) for size in self.photo_sizes}
        features = []
        for number, (captioner, first) in enumerate(zip(self.captioners, self._first_with_same_encoder())):
            if first < number:
                features.append(features[first])
            else:
                features.append(captioner.encode(photos[captioner.photo_sizes[0]]))
        return features, photos[max(photos)]

    def _first_with_same_encoder(self):
        """Return for each member the number of the first one whose encoder gives the same features."""
        if self._encoders is None:
            kinds = [_encoder_of(captioner) for captioner in self.captioners]
            self._encoders = [
                next(first for first in range(number + 1) if _is_same(kinds[first], kinds[number]))
                for number in range(len(kinds))
            ]
        return self._encoders

    def _features_of_members(self, features):
        """Return a tuple with the features for each member, from such a list or from one array for all."""
        if not isinstance(features, (list, tuple)):
            features = [np.asarray(features)] * len(self.captioners)
        if len(features) != len(self.captioners) or len({len(array) for array in features}) > 1:
            raise ValueError(
                f"Expected features of the same photos for each of the {len(self.captioners)} captioners, or one array "
                f"for all. Received: {len(features)} arrays of {[len(array) for array in features]} photos"
            )
        members = zip(self.captioners, features)
        return tuple(array for captioner, given in members for array in captioner._features_of_members(given))

    def _search(self, features, word_noise, place_noise, *, sample_attention, **options):
        rows_per_photo = options.get("num_beams", options.get("num_samples", 1))
        adapted = [captioner.adapt(x) for captioner, x in zip(self.captioners, features)]
        members = [captioner.steps(x, rows_per_photo) for captioner, x in zip(self.captioners, adapted)]

        def step(input_ids, states):
            results = [step(input_ids, state) for (step, _), state in zip(members, states)]
            maps = [result.attention_weights for result, attends in zip(results, self._are_attending) if attends]
            return results[0]._replace(
                logits=mean_of_probabilities([result.logits for result in results]),
                state=tuple(result.state for result in results),
                attention_weights=self._mean_map(maps),
            )

        states = tuple(state for _, state in members)
        return run_search(step, states, self.vocabulary, self._num_places, word_noise, **options)

    def _mean_map(self, maps):
        """Return the mean of maps (rows, regions), each on its own grid, on the finest of them."""
        shape = self.rows_and_columns()
        finest = []
        for grid, weights in zip(self._grids, maps):
            if grid != shape:
                weights = ops.image.resize(ops.reshape(weights, (-1, *grid, 1)), shape, interpolation="bilinear")
                weights = ops.reshape(weights, (-1, self._num_places))
                weights = weights / ops.sum(weights, axis=-1, keepdims=True)
            finest.append(weights)
        return sum(finest) / len(finest)


def mean_of_probabilities(logits):
    """Return the logarithm of the mean of the distributions that logits stand for, all (rows, vocabulary)."""
    log_probs = [ops.log_softmax(ops.cast(x, "float32"), axis=-1) for x in logits]
    return ops.logsumexp(ops.stack(log_probs), axis=0) - np.log(len(logits))


def _encoder_of(captioner):
    """Return what tells one encoder from another: its input, output and number of layers, and its weights."""
    model = captioner.encoder_model
    return model.input_shape, model.output_shape, len(model.layers), [weight.numpy() for weight in model.weights]


def _is_same(first, second):
    (*known, weights), (*other_known, other_weights) = first, second
    if known != other_known or len(weights) != len(other_weights):
        return False
    return all(np.array_equal(x, y) for x, y in zip(weights, other_weights))
