"""The two phases of training: cross-entropy, then self-critical epochs in a folder of
their own.
"""

import dataclasses

import keras

from data_utils.vocabulary import Vocabulary
from keras_sat.beyond.self_critical import SelfCritical
from keras_sat.beyond.terms import TERMS
from keras_sat.captioner import Captioner
from keras_sat.model.updates import WeightUpdates
from keras_sat.training.callbacks import BeginWithExpectations
from keras_sat.training.run import Training
from keras_sat.training.run_record import REWARDS
from keras_sat.training.summary import summary

# A saved captioner does not contain these options.
PASSED_TO_EACH_PHASE = ["seed", "dtype", *(option for option, term in TERMS.items() if term.needs)]


def train_on_words(job):
    """Run the cross-entropy phase of a TrainingJob, and return the result of
    `Training.run`.
    """
    settings, words = job.settings, job.settings.cross_entropy
    training = Training(job, job.folder, words.epochs, monitored=job.plan.monitored)
    _reject_late_epochs(training)
    training.record(job.record_of_words())
    if training.has_ended:
        return training.loaded()

    keras.utils.set_random_seed(settings.training.seed)
    captioner = _new_captioner(job)
    WeightUpdates(settings.optimizer).check_rate(captioner)
    _check_changes(captioner, job)
    job.say(*summary(job, captioner, words.num_views))
    job.photos.prepare(captioner, words.num_views)
    first_epoch = len(training.epochs)
    batches = job.photos.batches(
        "train", captioner, settings.training, words.group_by, first_epoch=first_epoch
    )
    num_steps = words.epochs * job.cluster.num_steps(batches)
    rate = settings.optimizer.learning_rate
    rate = _learning_rate(rate, words.schedule, words.warmup_steps, num_steps)
    captioner.compile(
        _fresh(settings.training.optimizer),
        settings=dataclasses.replace(settings.optimizer, learning_rate=rate),
    )
    if job.plan.keeps_initial_model and not training.keep_initial(captioner, cross_entropy=True):
        return captioner, False, []
    first_callbacks = []
    if captioner.samples_regions:
        first_callbacks = [BeginWithExpectations(words.expectation_epochs)]
    return training.run(captioner, batches, first_callbacks)


def train_on_rewards(job, previous_captioner):
    """Train a captioner in the self-critical phase of a TrainingJob, and return the
    result of `Training.run`.
    """
    settings, rewards = job.settings, job.settings.rewards
    keras.utils.set_random_seed(settings.training.seed)
    captioner = previous_captioner.adapted(**_changes_for_rewards(job))
    WeightUpdates(settings.optimizer).check_rate(captioner)
    _check_changes(captioner, job)
    training = Training(
        job,
        job.folder / REWARDS,
        rewards.self_critical_epochs,
        "self-critical ",
        monitored="val_cider",
    )
    training.record(job.record_of_rewards(captioner))
    if training.has_ended:
        return training.loaded()

    if not settings.cross_entropy.epochs:  # this is the first phase
        job.say(*summary(job, captioner, 1))
    job.photos.prepare(captioner, num_views=1)
    if not training.keep_initial(captioner):
        return previous_captioner, False, []
    batches = job.photos.batches(
        "train",
        captioner,
        settings.training,
        "image",
        whole=True,
        first_epoch=len(training.epochs),
    )
    objective = SelfCritical(
        [image.captions for image in job.photos.images_in("train")],
        captioner.vocabulary,
        reward_baseline=rewards.reward_baseline,
        max_length=settings.training.max_length,
    )
    rate = rewards.self_critical_rate
    captioner.compile(
        _fresh(settings.training.optimizer, learning_rate=rate),
        settings=dataclasses.replace(settings.optimizer, learning_rate=rate),
        training_objective=objective,
    )
    return training.run(captioner, batches)


def _changes_for_rewards(job):
    """Return what the self-critical phase changes in a captioner: the settings that a
    saved one does not contain, and without a cross-entropy phase, which would have
    applied them, all that were chosen.
    """
    changes = {**job.plan.chosen_for_captioner(), **job.plan.keras_options}
    if not job.settings.cross_entropy.epochs:
        return changes
    return {name: value for name, value in changes.items() if name in PASSED_TO_EACH_PHASE}


def _reject_late_epochs(training):
    """Reject more cross-entropy epochs if the self-critical phase has already started
    from the captioner of the last one.
    """
    has_rewards = (training.folder / REWARDS / "checkpoint").exists()
    if has_rewards and not training.has_ended:
        raise ValueError(
            f"The self_critical_epochs in this folder started after epoch {len(training.epochs)}. "
            "To train longer first, pass another output_dir and "
            f"initial_model={str(training.folder / 'model')!r}. "
            f"Received: {training.num_epochs} epochs"
        )


def _check_changes(captioner, job):
    """Reject augmentation with a frozen encoder, which encodes each photo only once."""
    photo_jitter = job.settings.training.photo_jitter
    if captioner.photo_encoder.is_frozen and photo_jitter:
        raise ValueError(
            "This option has no effect on a frozen encoder: leave it out, or train the whole "
            "encoder with encoder_training='fine-tuned' (--encoder-training). Received: "
            f"{photo_jitter=}"
        )


def _new_captioner(job):
    """Return the captioner to train: a new one, or `initial_model` adapted to the new
    vocabulary.
    """
    words, initial_model = job.settings.cross_entropy, job.initial_model
    keras_options = job.plan.keras_options
    vocabulary = Vocabulary.build(job.images, min_count=words.min_count, max_size=words.max_words)
    if initial_model is None:
        return Captioner(vocabulary, job.settings.captioner, **keras_options)
    known_words = initial_model.vocabulary
    new_words = [word for word in vocabulary.words if word not in known_words]
    return initial_model.adapted(
        Vocabulary([*known_words.words, *new_words]),
        **job.plan.chosen_for_captioner(),
        **keras_options,
    )


def _fresh(optimizer, **changes):
    """Return a copy of an optimizer without its state, which may be from another run.

    Return a name unchanged.
    """
    if isinstance(optimizer, keras.optimizers.Optimizer):
        return type(optimizer).from_config({**optimizer.get_config(), **changes})
    return optimizer


def _learning_rate(learning_rate, schedule, warmup_steps, num_steps):
    """Return the learning rate as a number or a Keras learning rate schedule."""
    is_number = isinstance(learning_rate, (int, float))
    if not is_number or (schedule == "constant" and not warmup_steps):
        return learning_rate
    schedules = keras.optimizers.schedules
    if schedule == "constant":
        return schedules.PolynomialDecay(0.0, warmup_steps, learning_rate)
    num_left = max(num_steps - warmup_steps, 1)
    if not warmup_steps:
        return schedules.CosineDecay(learning_rate, num_left)
    return schedules.CosineDecay(
        0.0, num_left, warmup_target=learning_rate, warmup_steps=warmup_steps
    )
