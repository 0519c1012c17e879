"""What captions cost: the paper's objective for a batch, equations (12) and (14), and how it is measured.

An objective is a function of captioner and batch that returns an Objective; `Captioner.compile(training_objective=)`
takes any. The paper's is `PaperObjective`; `keras_sat.training.self_critical.SelfCritical` is another.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from keras import ops

from keras_sat import equations
from keras_sat.model.replicas import draw_for_photos, sum_over_replicas


def nothing():
    """Do nothing after a step."""


class Objective(NamedTuple):
    """What a batch costs.

    Attributes:
        mean: what is minimised: the mean over the captions of all replicas.
        figures: for each metric, its values and their weights.
        log_prob: log p(y | s, a) of each row (a caption, or one sample of its attention).
        sampled: 1 for each row in which attention drew regions, else 0.
        after_step: called when the weights have been updated.
        variables: for each further metric, a variable that is shown as it stands after the step.
    """

    mean: Any
    figures: dict
    log_prob: Any = None
    sampled: Any = None
    after_step: Callable = nothing
    variables: dict = {}


class PaperObjective:
    """The paper's objective: equation (14), or (12) where attention draws places.

    Args:
        add_weight: the captioner's method of that name: what the objective remembers belongs to the captioner.
        seed_generator: `keras.random.SeedGenerator` of sampled attention and coins.
        options: CaptionerOptions, of which it takes those in OPTIONS.

    Attributes:
        baseline: b, the moving average of log p, a weight.
        expectation_share: how often the expectation replaces the sample now, a weight.
        guide: Guide, or None.
    """

    OPTIONS = (
        "attention_penalty_weight",
        "box_weight",
        "label_smoothing",
        "num_samples",
        "reward_weight",
        "entropy_weight",
        "expectation_probability",
        "expectation_for",
        "use_baseline",
    )

    def __init__(self, add_weight, seed_generator, options, guide=None):
        self.seed_generator = seed_generator
        self.guide = guide
        for name in self.OPTIONS:
            setattr(self, name, getattr(options, name))
        scalar = {"shape": (), "initializer": "zeros", "trainable": False, "aggregation": "only_first_replica"}
        self.baseline = add_weight(name="baseline", **scalar)
        self.expectation_share = add_weight(name="expectation_share", **scalar)
        self.expectation_share.assign(self.expectation_probability)

    def __call__(self, captioner, batch, training=True):
        """Return the Objective of ((features, input_ids), target_ids, token_weights).

        Behind input_ids may stand which share of each region the boxes of a target word cover, see `make_batches`.
        Without `training` it is measured with attention's expectation and without dropout.
        """
        (features, input_ids, *covered), target_ids, token_weights = batch
        captioner.build_once(features.shape, input_ids.shape)
        is_photo = photos_with_words(token_weights, ops.shape(features)[0])
        draws_regions = training and captioner.samples_attention
        captions = [as_rows(x) for x in (input_ids, target_ids, token_weights)]
        if draws_regions:
            captions = [ops.repeat(x, self.num_samples, axis=0) for x in captions]
        chance = self._chance(captioner, is_photo, captions[0]) if draws_regions else {}
        adapted = captioner.adapter(captioner.features(features, training=training), training=training)
        read = captioner.read(adapted, *captions, training=training, **chance)

        word_log_probs = read.put_back(equations.word_log_probs(read.logits, read.targets))
        log_prob = equations.caption_log_prob(word_log_probs, read.token_weights)
        learnt = self._smoothed(log_prob, read)
        penalty = self._penalty(captioner, read)
        weighted_penalty = self.attention_penalty_weight * penalty
        entropy = equations.attention_entropy(read.attention_weights)
        sampled = chance.get("sampled")
        gain = self._surrogate(learnt, log_prob, entropy, read, sampled) if draws_regions else learnt
        is_caption = ops.cast(ops.any(read.token_weights > 0, axis=-1), "float32")
        num_captions = ops.maximum(sum_over_replicas(ops.sum(is_caption)), 1.0)
        costs = weighted_penalty - gain
        is_led = training and captioner.decoder.chooses
        further = self._led_costs(adapted, captions[1], read, covered) if is_led else []
        for cost, _ in further:
            costs = costs + cost
        mean = ops.sum(costs * is_caption) / num_captions
        figures = {
            "loss": (weighted_penalty - learnt, is_caption),  # the surrogate's value would say nothing
            "cross_entropy": (-word_log_probs, read.token_weights),
            "penalty": (penalty, is_caption),
            "token_accuracy": (_is_right(read), read.token_weights),
            "attention_entropy": (entropy, read.token_weights),
        }
        for _, further_figures in further:
            figures |= further_figures
        if not draws_regions:
            return Objective(mean, figures, log_prob, ops.zeros_like(is_caption))
        sampled = sampled * is_caption
        after_step = functools.partial(self._move_baseline, log_prob, sampled)
        return Objective(mean, figures, log_prob, sampled, after_step, {"baseline": self.baseline})

    def _chance(self, captioner, is_photo, input_ids):
        """Return what attention draws with: the noise (rows, time, regions), and which rows are sampled (rows,)."""
        photos, (rows, time) = ops.shape(is_photo)[0], ops.shape(input_ids)
        shape = (rows // photos, time, captioner.num_regions)
        uniform = ops.reshape(draw_for_photos(is_photo, shape, self.seed_generator), (rows, *shape[1:]))
        if self.expectation_for == "pass":
            coins = keras.random.uniform((1,), seed=self.seed_generator)
        else:
            coins = draw_for_photos(is_photo, (), self.seed_generator)
        sampled = ops.cast(coins >= self.expectation_share, "float32")
        return {
            "noise": equations.gumbel(uniform),
            "sampled": ops.repeat(sampled, rows // ops.shape(sampled)[0], axis=0),
        }

    def _smoothed(self, log_prob, read):
        """Return log p of each row, with a share of its target spread over the vocabulary. (rows,)"""
        if not self.label_smoothing:
            return log_prob
        spread = read.put_back(equations.mean_log_probs(read.logits))
        spread = equations.caption_log_prob(spread, read.token_weights)
        return (1 - self.label_smoothing) * log_prob + self.label_smoothing * spread

    def _penalty(self, captioner, read):
        """Return the attention penalty of each row; without attention nothing was chosen that could be punished."""
        penalty = equations.attention_penalty(read.attention_weights, read.token_weights)
        return penalty if captioner.decoder.chooses else ops.zeros_like(penalty)

    def off_boxes(self, read, covered):
        """Return what it costs each row that attention lies beside the boxes of what its words name, and figures.

        Args:
            read: the Reading of people's captions.
            covered: as `make_batches` gives it, (photos, captions, time, regions).

        Returns: costs (rows,), `box_weight` times `equations.box_loss`; dict from names to values and weights; and a
            function that returns the costs of other maps (rows, time, regions), of which `counts` (rows, time) count.
        """
        covered = ops.reshape(ops.cast(covered, "float32"), (-1, *ops.shape(covered)[-2:]))
        covered = ops.repeat(covered, ops.shape(read.token_weights)[0] // ops.shape(covered)[0], axis=0)
        is_named = ops.cast(ops.any(covered > 0, axis=-1), "float32") * read.token_weights

        def costs_of(maps, counts=1.0):
            return self.box_weight * ops.sum(equations.box_loss(maps, covered) * is_named * counts, axis=-1)

        beside = equations.box_loss(read.attention_weights, covered)
        return costs_of(read.attention_weights), {"off_boxes": (beside, is_named)}, costs_of

    def _led_costs(self, features, target_ids, read, covered):
        """Return what leads attention to what words name: a list of (costs of the rows, figures)."""
        costs, costs_of_maps = [], None
        if self.box_weight and covered:
            cost, figures, costs_of_maps = self.off_boxes(read, covered[0])
            costs.append((cost, figures))
        if self.guide is not None and self.guide.detectors.built:
            # What the sentinel takes is missing at the regions, so that the guide says when to look at the photo, too.
            looked = read.attention_weights * read.extras.get("from_photo", 1.0)
            costs.append(self.guide(features, target_ids, looked, read.token_weights, costs_of_maps))
        return costs

    def _surrogate(self, learnt, log_prob, entropy, read, sampled):
        """Return for each row a number whose gradient is that of equation (12)."""
        return equations.hard_attention_surrogate(
            learnt,
            equations.location_log_prob(read.attention_weights, read.selection, read.token_weights),
            ops.sum(entropy * read.token_weights, axis=-1),
            reward=log_prob - self.baseline if self.use_baseline else log_prob,
            sampled=sampled,
            reward_weight=self.reward_weight,
            entropy_weight=self.entropy_weight,
        )

    def _move_baseline(self, log_prob, sampled):
        """Move b towards log p of the sampled rows, after it was used; without any it stays."""
        count = sum_over_replicas(ops.sum(sampled))
        total = sum_over_replicas(ops.sum(sampled * log_prob))
        moved = equations.next_baseline(self.baseline, total / ops.maximum(count, 1.0))
        self.baseline.assign(ops.where(count > 0, moved, self.baseline))


class Means:
    """The means of an objective's figures over the batches of an epoch: Keras' metrics, by name.

    Args:
        names: of those that are there before the first batch.
    """

    def __init__(self, names=("loss", "cross_entropy", "penalty", "token_accuracy", "attention_entropy")):
        self.by_name = {name: keras.metrics.Mean(name=name) for name in names}

    def update(self, objective):
        """Take in the figures of a batch; return the means so far, for each caption or for each word."""
        figures = objective.figures.values()
        sums = ops.stack([ops.sum(part) for values, weights in figures for part in (values * weights, weights)])
        sums = ops.unstack(sum_over_replicas(sums), num=2 * len(figures))
        means = {name: self._mean(name) for name in objective.figures}
        for mean, total, weight in zip(means.values(), sums[::2], sums[1::2]):
            mean.update_state(total / ops.maximum(weight, equations.SMALLEST), sample_weight=weight)
        further = {name: ops.convert_to_tensor(variable) for name, variable in objective.variables.items()}
        return {name: mean.result() for name, mean in means.items()} | further

    def _mean(self, name):
        """Return the metric of that name, which is made when an objective first needs it."""
        if name not in self.by_name:
            with tf.init_scope():
                self.by_name[name] = keras.metrics.Mean(name=name)
        return self.by_name[name]


def as_rows(token_ids):
    """Return (photos, captions, time) as (rows, time)."""
    return token_ids if len(token_ids.shape) == 2 else ops.reshape(token_ids, (-1, ops.shape(token_ids)[-1]))


def photos_with_words(token_weights, photos):
    """Return 1 for each of the photos that has a word, 0 for padding at the end of a replica's share: (photos,)."""
    return ops.cast(ops.any(ops.reshape(token_weights > 0, (photos, -1)), axis=-1), "float32")


def _is_right(read):
    """Return 1 for each word that the decoder finds the most probable one, (rows, time)."""
    of_targets = ops.squeeze(ops.take_along_axis(read.logits, read.targets[:, None], axis=-1), -1)
    return read.put_back(ops.cast(of_targets >= ops.max(read.logits, axis=-1), "float32"))
