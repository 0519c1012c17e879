"""What captions cost: the paper's objective for a batch, equations (12) and (14), and how it is measured."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf
from keras import ops

from keras_sat import equations
from keras_sat.model.replicas import num_replicas, sum_over_replicas


class Objective(NamedTuple):
    """What a batch costs.

    Attributes:
        mean: what is minimised: the mean over the captions of all replicas.
        log_prob: log p(y | s, a) of each row (a caption, or one sample of its attention).
        sampled: 1 for each row in which hard attention drew places, else 0.
        figures: for each metric, its values and their weights.
    """

    mean: Any
    log_prob: Any
    sampled: Any
    figures: dict


class Reading(NamedTuple):
    """What the decoder makes of captions that are given.

    Attributes:
        logits: of the words, without those for padding, (words, vocabulary).
        targets: the words themselves, (words,).
        places: where they stand, time * rows + row, (words,).
        token_weights: (rows, time), 0 for padding.
        attention_weights, selection: (rows, time, regions).
    """

    logits: Any
    targets: Any
    places: Any
    token_weights: Any
    attention_weights: Any
    selection: Any

    def put_back(self, values):
        """Return values of the words, (words,), where the words stand: (rows, time), with 0 for padding."""
        rows, time = ops.shape(self.token_weights)
        by_time = ops.reshape(ops.scatter(self.places[:, None], values, (time * rows,)), (time, rows))
        return ops.transpose(by_time)


class CaptionObjective:
    """Says what captions cost a captioner, and measures it. A part of Captioner, which has the layers and options."""

    def objective(self, batch, training):
        """Return the Objective of ((features, input_ids), target_ids, token_weights): equation (14), or (12)."""
        (features, input_ids), target_ids, token_weights = batch
        if not self.built:
            self.build((features.shape, input_ids.shape))
        is_photo = photos_with_words(token_weights, ops.shape(features)[0])
        draws = self.num_samples if training and self.samples_attention else 1
        input_ids, target_ids, token_weights = (
            ops.repeat(as_rows(x), draws, axis=0) for x in (input_ids, target_ids, token_weights)
        )
        is_caption = ops.cast(ops.any(token_weights > 0, axis=-1), "float32")
        noise, sampled = self._chance(is_photo, input_ids) if training and self.samples_attention else (None, None)
        adapted = self.adapter(self.features(features, training=training), training=training)
        read = self.read(adapted, input_ids, target_ids, token_weights, training=training, noise=noise, sampled=sampled)
        sampled = ops.zeros_like(is_caption) if sampled is None else sampled * is_caption
        attention_weights, selection = read.attention_weights, read.selection
        word_log_probs = read.put_back(equations.word_log_probs(read.logits, read.targets))
        log_prob = smoothed_log_prob = equations.caption_log_prob(word_log_probs, token_weights)
        if self.label_smoothing:
            spread = read.put_back(equations.mean_log_probs(read.logits))
            spread = equations.caption_log_prob(spread, token_weights)
            smoothed_log_prob = (1 - self.label_smoothing) * log_prob + self.label_smoothing * spread
        penalty = equations.attention_penalty(attention_weights, token_weights)
        if self.decoder.attention == "none":
            penalty = ops.zeros_like(penalty)  # nothing was chosen that could be punished
        entropy = equations.attention_entropy(attention_weights)

        gain = smoothed_log_prob
        if noise is not None:
            gain = equations.hard_attention_surrogate(
                smoothed_log_prob,
                equations.location_log_prob(attention_weights, selection, token_weights),
                ops.sum(entropy * token_weights, axis=-1),
                reward=log_prob - self.baseline if self.use_baseline else log_prob,
                sampled=sampled,
                reward_weight=self.reward_weight,
                entropy_weight=self.entropy_weight,
            )
        weighted_penalty = self.attention_penalty_weight * penalty
        num_captions = ops.maximum(sum_over_replicas(ops.sum(is_caption)), 1.0)
        mean = ops.sum((weighted_penalty - gain) * is_caption) / num_captions

        of_targets = ops.squeeze(ops.take_along_axis(read.logits, read.targets[:, None], axis=-1), -1)
        right = read.put_back(ops.cast(of_targets >= ops.max(read.logits, axis=-1), "float32"))
        figures = {
            "loss": (weighted_penalty - smoothed_log_prob, is_caption),  # the surrogate's value would say nothing
            "cross_entropy": (-word_log_probs, token_weights),
            "penalty": (penalty, is_caption),
            "token_accuracy": (right, token_weights),
            "attention_entropy": (entropy, token_weights),
        }
        return Objective(mean, log_prob, sampled, figures)

    def read(
        self,
        features,
        input_ids,
        target_ids,
        token_weights,
        *,
        training=False,
        noise=None,
        sampled=None,
        thinning=None,
    ):
        """Return the Reading of captions: how probable the decoder finds each of their words after those before.

        Args:
            features: what the adapter made of features, (photos, regions, feature_dim).
            input_ids, target_ids, token_weights: (rows, time), as make_batches has them.
            training, noise, sampled: see CaptionDecoder.
            thinning: Thinning that takes the place of the readout's dropout, a row for each row.
        """
        unrolled = self.decoder.unroll(
            features,
            input_ids,
            noise=noise,
            sampled=sampled,
            token_weights=None if self._needs_fixed_shapes else token_weights,
            training=training,
        )
        places = self._places_of_words(token_weights)
        embedded, hidden_states, context = (_take_words(x, places) for x in unrolled[:3])
        if thinning is not None:
            thinning = thinning.of_rows(places % ops.shape(input_ids)[0])
        logits = self.decoder.readout(embedded, hidden_states, context, training, thinning)
        targets = ops.take(ops.reshape(ops.transpose(target_ids), (-1,)), places)
        maps = (ops.swapaxes(x, 0, 1) for x in unrolled[3:])
        return Reading(logits, targets, places, token_weights, *maps)

    @property
    def _needs_fixed_shapes(self):
        """Whether XLA compiles the training step: it cannot leave out what only the values say to be padding."""
        return bool(self.compiled and self.jit_compile)

    def _places_of_words(self, token_weights):
        """Return the places of the real words, t * rows + row: only these need logits. (words,)"""
        is_word = ops.reshape(ops.transpose(token_weights), (-1,)) > 0
        if self._needs_fixed_shapes:
            return ops.arange(ops.shape(is_word)[0])
        return ops.cast(ops.nonzero(is_word)[0], "int32")

    def _chance(self, is_photo, input_ids):
        """Return the noise (rows, time, regions) and which rows are sampled (rows,), for hard attention."""
        photos, (rows, time) = ops.shape(is_photo)[0], ops.shape(input_ids)
        uniform = self.draw(is_photo, (rows // photos, time, self.num_regions))
        uniform = ops.reshape(uniform, (rows, time, self.num_regions))
        one_for_all = self.expectation_for == "pass"
        coins = keras.random.uniform((1,), seed=self.random_generator) if one_for_all else self.draw(is_photo, ())
        sampled = ops.cast(coins >= self.expectation_share, "float32")
        return equations.gumbel(uniform), ops.repeat(sampled, rows // ops.shape(sampled)[0], axis=0)

    def draw(self, is_photo, shape):
        """Return uniform noise (photos, *shape) that does not depend on how a batch is spread over replicas.

        Each replica draws for the photos of the whole batch, with the same seed, and takes what belongs to its own.

        Args:
            is_photo: what `photos_with_words` returns.
            shape: of the noise for each photo.
        """
        photos = ops.shape(is_photo)[0]
        if num_replicas() == 1:
            return keras.random.uniform((photos, *shape), seed=self.random_generator)
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        counts = sum_over_replicas(ops.one_hot(replica, num_replicas()) * ops.sum(is_photo))
        before, total = (ops.cast(x, "int32") for x in (ops.cumsum(counts)[replica] - counts[replica], ops.sum(counts)))
        noise = keras.random.uniform((total, *shape), seed=self.random_generator)
        return ops.take(noise, ops.minimum(before + ops.arange(photos), total - 1), axis=0)

    def update_baseline(self, objective):
        """Move b towards log p of the sampled rows, after it was used; without any it stays."""
        if self.samples_attention:
            count = sum_over_replicas(ops.sum(objective.sampled))
            total = sum_over_replicas(ops.sum(objective.sampled * objective.log_prob))
            moved = equations.next_baseline(self.baseline, total / ops.maximum(count, 1.0))
            self.baseline.assign(ops.where(count > 0, moved, self.baseline))

    def _mean(self, name):
        """Return the metric of that name, which is made when an objective of another kind first needs it."""
        if name in self._means:
            return self._means[name]
        if name not in self._untracked.further_means:
            with tf.init_scope():
                self._untracked.further_means[name] = keras.metrics.Mean(name=name)
        return self._untracked.further_means[name]

    def update_metrics(self, objective):
        """Return the means so far: loss and penalty for each caption, the others for each word."""
        figures = objective.figures.values()
        sums = ops.stack([ops.sum(part) for values, weights in figures for part in (values * weights, weights)])
        sums = ops.unstack(sum_over_replicas(sums), num=2 * len(figures))
        means = {name: self._mean(name) for name in objective.figures}
        for mean, total, weight in zip(means.values(), sums[::2], sums[1::2]):
            mean.update_state(total / ops.maximum(weight, equations.SMALLEST), sample_weight=weight)
        means = {name: mean.result() for name, mean in means.items()}
        return {**means, "baseline": ops.convert_to_tensor(self.baseline)} if self.samples_attention else means


def as_rows(token_ids):
    """Return (photos, captions, time) as (rows, time)."""
    return token_ids if len(token_ids.shape) == 2 else ops.reshape(token_ids, (-1, ops.shape(token_ids)[-1]))


def _take_words(x, words):
    """Return (words, dim) of (time, rows, dim)."""
    return ops.take(ops.reshape(x, (-1, x.shape[-1])), words, axis=0)


def photos_with_words(token_weights, photos):
    """Return 1 for each of the photos that has a word, 0 for one that only fills a replica's share up: (photos,)."""
    return ops.cast(ops.any(ops.reshape(token_weights > 0, (photos, -1)), axis=-1), "float32")
