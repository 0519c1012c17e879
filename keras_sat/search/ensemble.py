"""Ensembles: several captioners generate one caption from their mean probabilities and
attention maps.

Source: Hansen and Salamon, 1990, Neural Network Ensembles. Gain here: CIDEr .614
instead of .597 and BLEU-4 26.3 instead of 24.9, for three captioners compared with the
best one (dev, 3 beams, length penalty .5); see benchmarks/flickr8k/tried.md.
"""

import functools
from typing import Any

import numpy as np
from keras import ops

from data_utils.seen_photos import union
from keras_sat.search.generation import CaptionGenerator
from keras_sat.search.keras_engine import NEEDS_HARD_ATTENTION, KerasEngine
from keras_sat.settings import Search


class Ensemble(CaptionGenerator):
    """A captioner whose word probabilities are the mean over several captioners.

    Its attention weights are the mean over its members with attention, on the finest
    grid among them.

    Args:
        captioners: list of Captioners with the same vocabulary. Encoders, sizes and
            attention may differ.
        length_penalty: default of `caption`; None: the mean over the members.
    """

    def __init__(self, captioners: list, *, length_penalty: float | None = None):
        is_list = isinstance(captioners, (list, tuple)) and len(captioners)
        if not is_list or not all(getattr(captioner, "built", False) for captioner in captioners):
            raise ValueError(
                "Expected a list of built or loaded Captioners. Received: "
                f"captioners={captioners!r}"
            )
        self.captioners = list(captioners)
        vocabulary = self.captioners[0].vocabulary
        if any(captioner.vocabulary != vocabulary for captioner in self.captioners):
            sizes = [len(captioner.vocabulary) for captioner in self.captioners]
            raise ValueError(
                "The captioners must have the same vocabulary. Received: vocabularies of "
                f"sizes {sizes}"
            )
        # The members that have an index of training photos: the first of them chooses.
        indexed = [n for n, member in enumerate(self.captioners) if member.consensus is not None]
        self._indexed_member = indexed[0] if indexed else 0
        search = self._combined_search(length_penalty)
        super().__init__(EnsembleEngine(self.captioners), vocabulary, search)
        self.consensus = self._choose_caption if indexed else None

    def _combined_search(self, length_penalty):
        """Return a Search with the rules of all members; see `__init__`."""
        members = [captioner.search_settings for captioner in self.captioners]
        if length_penalty is None:
            length_penalty = float(np.mean([member.length_penalty for member in members]))
        sizes = [member.no_repeat_ngram for member in members]
        return Search(
            length_penalty=length_penalty,
            no_repeat_ngram=min(filter(None, sizes), default=0),  # 0 forbids nothing
            consensus_weight=members[self._indexed_member].consensus_weight,
        )

    @property
    def length_penalty(self) -> float:
        """Values above 0 favour longer captions: the default of `caption`."""
        return self.search_settings.length_penalty

    def _choose_caption(self, results, features, search):
        """Choose among beams by the index of one member; see `Consensus.__call__`."""
        consensus = self.captioners[self._indexed_member].consensus
        return consensus(results, features[self._indexed_member], search)

    @property
    def encoder(self) -> str:
        """The names of the members' encoders, in one string."""
        return " + ".join(dict.fromkeys(str(captioner.encoder) for captioner in self.captioners))

    @property
    def training_photos(self):
        """The union of the training photos of all members, where recorded."""
        return union([captioner.training_photos for captioner in self.captioners])

    @property
    def encoder_model(self):
        """The encoder that all members share, for a FeatureCache.

        Raises ValueError if their encoders differ.
        """
        if any(self.engine.first_with_same_encoder):
            problem = (
                "A feature cache requires members with the same encoder. For these members, "
                "pass photos."
            )
            raise ValueError(f"{problem} Received: encoders {self.encoder}")
        return self.captioners[0].encoder_model

    def trace(self, *_, **__) -> Any:
        """Raise ValueError: a trace follows one network."""
        raise ValueError(
            "A trace follows the computation of one network: trace a single captioner, such as "
            "`ensemble.captioners[0]`."
        )


class EnsembleEngine(KerasEngine):
    """The Engine of an Ensemble: the members' networks, run together."""

    # Regions cannot be sampled from a mean of maps.
    cannot = {"sample_attention": f"{NEEDS_HARD_ATTENTION}."}
    casts_votes = False

    def __init__(self, captioners):
        super().__init__(captioners[0])
        self.captioners = captioners

    @property
    def photo_sizes(self):
        return list(
            dict.fromkeys(size for captioner in self.captioners for size in captioner.photo_sizes)
        )

    @property
    def extra_dims(self):
        return {
            name: dim
            for captioner in self.captioners
            for name, dim in captioner.engine.extra_dims.items()
        }

    @property
    def num_regions(self):
        return int(np.prod(self.rows_and_columns()))

    def rows_and_columns(self):
        """Return the members' finest grid."""
        return max(self._grids.values(), key=np.prod)

    @property
    def _grids(self):
        """The grids of the members that have attention (of all members, if none has),
        as a dict by member index.
        """
        grids = {
            number: captioner.rows_and_columns() for number, captioner in enumerate(self.captioners)
        }
        return {
            n: grid for n, grid in grids.items() if self.captioners[n].decoder.has_attention
        } or grids

    def encode(self, photos):
        """Return the features of photos for each captioner.

        Captioners with equal encoders share them.

        Args:
            photos: dict from each of `photo_sizes` to uint8 (photos, height, width, 3).
        """
        firsts = self.first_with_same_encoder
        features = {}
        for first in dict.fromkeys(firsts):
            member = self.captioners[first]
            features[first] = member.encode(photos[member.photo_sizes[0]])
        return tuple(features[first] for first in firsts)

    @functools.cached_property
    def first_with_same_encoder(self):
        """For each captioner, the index of the first one with an equal encoder."""
        encoders = [captioner.photo_encoder for captioner in self.captioners]
        return [
            next(n for n, first in enumerate(encoders) if first.is_same_as(encoder))
            for encoder in encoders
        ]

    def check_features(self, features):
        """Check features, one array per captioner or one for all.

        Return a tuple with an array per captioner.
        """
        if not isinstance(features, (list, tuple)):
            features = [np.asarray(features)] * len(self.captioners)
        if len(features) != len(self.captioners):
            raise ValueError(
                f"Expected {len(self.captioners)} arrays, one per captioner. Received: "
                f"{len(features)}"
            )
        return tuple(
            member.engine.check_features(x) for member, x in zip(self.captioners, features)
        )

    def steps(self, features, rows_per_photo, *, region_noise=None):
        """Return `step` and `state` for a search; the state is a tuple of those of the
        members.
        """
        member_steps, member_states = [], []
        for member, member_features in zip(self.captioners, features):
            step, state = member.engine.steps(member_features, rows_per_photo)
            member_steps.append(step)
            member_states.append(state)
        grids = self._grids

        def step_of_all(input_ids, states):
            results = [step(input_ids, state) for step, state in zip(member_steps, states)]
            maps = [results[number].attention_weights for number in grids]
            shares = [result.from_photo for result in results if result.from_photo is not None]
            return results[0]._replace(
                logits=mean_of_probabilities([result.logits for result in results]),
                state=tuple(result.state for result in results),
                attention_weights=mean_map(maps, grids.values()),
                from_photo=sum(shares) / len(shares) if shares else None,
            )

        return step_of_all, tuple(member_states)


def mean_of_probabilities(logits):
    """Average distributions, given as logits of shape (rows, vocabulary), and return
    the log of the mean.
    """
    log_probs = [ops.log_softmax(ops.cast(x, "float32"), axis=-1) for x in logits]
    return ops.logsumexp(ops.stack(log_probs), axis=0) - np.log(len(logits))


def mean_map(maps, grids):
    """Return the mean of maps (rows, regions), resized to the finest of their grids."""
    shape = max(grids, key=np.prod)
    finest = []
    for weights, grid in zip(maps, grids):
        if grid != shape:
            weights = ops.image.resize(
                ops.reshape(weights, (-1, *grid, 1)), shape, interpolation="bilinear"
            )
            weights = ops.reshape(weights, (-1, shape[0] * shape[1]))
            weights = weights / ops.sum(weights, axis=-1, keepdims=True)
        finest.append(weights)
    return sum(finest) / len(finest)
