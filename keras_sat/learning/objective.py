"""The training objective: the paper's loss for a batch, equations (12) and (14).

An objective is a function of captioner and batch that returns an ObjectiveValue;
`Captioner.compile(training_objective=)` accepts any. Extensions are terms added to
`PaperObjective`, see `keras_sat.learning.all_terms`.
"""

from keras import ops

from data_utils.batches import TrainingBatch
from keras_sat import equations
from keras_sat.learning.metrics import ObjectiveValue
from keras_sat.learning.replicas import (
    draw_for_photos,
    photos_with_words,
    share_of_mean,
    sum_over_replicas,
)
from keras_sat.network import as_rows

# With this probability, the expectation replaces the samples of a photo.
EXPECTATION_PROBABILITY = 0.5


class PaperObjective:
    """The paper's objective: equation (14), or (12) if attention samples regions.

    Args:
        add_weight: the captioner's method `add_weight`; the objective's state is part
            of the captioner.
        seed_generator: `keras.random.SeedGenerator` for sampled attention.
        settings, terms: Loss, and loss terms to add, see
            `keras_sat.learning.term.Term`.

    Attributes:
        baseline: b, the moving average of log p, a weight.
        expectation_share: the current probability that the expectation replaces the
            sample, a weight.
    """

    def __init__(self, add_weight, seed_generator, settings, terms=()):
        self.settings, self.seed_generator, self.terms = settings, seed_generator, terms
        scalar = {
            "shape": (),
            "initializer": "zeros",
            "trainable": False,
            "aggregation": "only_first_replica",
        }
        self.baseline = add_weight(name="baseline", **scalar)
        self.expectation_share = add_weight(name="expectation_share", **scalar)
        self.expectation_share.assign(EXPECTATION_PROBABILITY)

    def __call__(self, captioner, batch, training=True):
        """Return the ObjectiveValue for a batch of `make_batches`.

        Without `training`, attention uses its expectation and there is no dropout.
        """
        features, input_ids, target_ids, token_weights, covered = TrainingBatch.of(batch)
        captioner.build_once(features.shape, input_ids.shape)
        has_attention = captioner.decoder.has_attention
        draws = training and captioner.decoder.samples_regions
        is_photo = photos_with_words(token_weights, ops.shape(features)[0])
        input_ids, target_ids, token_weights = (
            as_rows(x) for x in (input_ids, target_ids, token_weights)
        )
        chance = {}
        if draws:
            num_samples = self.settings.num_samples  # each caption becomes so many rows
            input_ids = ops.repeat(input_ids, num_samples, axis=0)
            target_ids = ops.repeat(target_ids, num_samples, axis=0)
            token_weights = ops.repeat(token_weights, num_samples, axis=0)
            chance = self._chance(captioner, is_photo, input_ids)
        features = captioner.decoder_features(features, training=training)
        read = captioner.read(
            features, input_ids, target_ids, token_weights, training=training, **chance
        )
        is_caption = ops.cast(ops.any(token_weights > 0, axis=-1), "float32")  # (rows,)

        word_log_probs = read.unpack_words(read.log_probs)  # (rows, time)
        log_prob = equations.caption_log_prob(word_log_probs, token_weights)  # (rows,)
        penalty = equations.attention_penalty(read.attention_weights, token_weights)  # (rows,)
        if not has_attention:  # without attention there is nothing to penalise
            penalty = ops.zeros_like(penalty)
        entropy = equations.attention_entropy(read.attention_weights)  # (rows, time)
        gain = log_prob
        if draws:
            gain = self._surrogate(log_prob, entropy, read, chance["sampled"])
        weighted_penalty = self.settings.attention_penalty_weight * penalty
        costs = weighted_penalty - gain  # to minimise
        loss = weighted_penalty - log_prob  # to show: the surrogate's own value is meaningless
        figures = {
            "cross_entropy": (-word_log_probs, token_weights),
            "penalty": (penalty, is_caption),
            "token_accuracy": (read.are_right(), token_weights),
            "attention_entropy": (entropy, token_weights),
        }
        for term in self.terms:
            if term.is_measured or (training and has_attention):
                term_costs, term_figures = term(features, target_ids, read, covered)
                costs = costs + term_costs
                figures |= term_figures
                if term.is_measured:
                    loss = loss + term_costs

        mean = share_of_mean(costs, is_caption)
        figures = {"loss": (loss, is_caption), **figures}
        if not draws:
            return ObjectiveValue(mean, figures, log_prob, sampled=ops.zeros_like(is_caption))
        sampled = chance["sampled"] * is_caption

        def move_baseline():
            self._move_baseline(log_prob, sampled)

        return ObjectiveValue(
            mean,
            figures,
            log_prob,
            sampled,
            after_step=move_baseline,
            variables={"baseline": self.baseline},
        )

    def _chance(self, captioner, is_photo, input_ids):
        """Return attention's random inputs: `noise` of shape (rows, time, regions) and
        `sampled` of shape (rows,).
        """
        photos = ops.shape(is_photo)[0]
        rows, time = ops.shape(input_ids)
        regions = captioner.num_regions
        uniform = draw_for_photos(
            is_photo, (rows // photos, time, regions), self.seed_generator
        )  # (photos, rows / photos, time, regions)
        uniform = ops.reshape(uniform, (rows, time, regions))
        coins = draw_for_photos(is_photo, (), self.seed_generator)  # (photos,)
        sampled = ops.cast(coins >= self.expectation_share, "float32")
        sampled = ops.repeat(sampled, rows // photos, axis=0)  # (rows,)
        return {"noise": equations.gumbel(uniform), "sampled": sampled}

    def _surrogate(self, log_prob, entropy, read, sampled):
        """Return, for each row, a surrogate to be maximised, whose gradient is equation
        (12).
        """
        location_log_prob = equations.location_log_prob(
            read.attention_weights, read.selection, read.token_weights
        )
        return equations.hard_attention_surrogate(
            log_prob,
            location_log_prob,
            ops.sum(entropy * read.token_weights, axis=-1),
            reward=log_prob - self.baseline,
            sampled=sampled,
            reward_weight=self.settings.reward_weight,
            entropy_weight=self.settings.entropy_weight,
        )

    def _move_baseline(self, log_prob, sampled):
        """Update the baseline b with the mean log p of the sampled rows, if there are
        any.
        """
        mean_log_prob = sum_over_replicas(share_of_mean(log_prob, sampled))
        num_sampled = sum_over_replicas(ops.sum(sampled))
        moved = equations.next_baseline(self.baseline, mean_log_prob)
        self.baseline.assign(ops.where(num_sampled > 0, moved, self.baseline))
