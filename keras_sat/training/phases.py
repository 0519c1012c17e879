"""The two phases of training: cross-entropy, then self-critical epochs in a folder of
their own. Each makes its captioner, its batches and its objective, and has them run.
"""

import dataclasses

import keras

from data_utils.vocabulary import Vocabulary
from keras_sat.captioner import Captioner
from keras_sat.learning import TERMS, SelfCritical, WeightUpdates
from keras_sat.settings import CaptionerSettings
from keras_sat.training.callbacks import BeginWithExpectations
from keras_sat.training.history import MONITORED
from keras_sat.training.run_record import REWARDS, describe
from keras_sat.training.summary import summary

# A saved captioner does not contain these options.
PASSED_TO_EACH_PHASE = ["seed", "dtype", *(option for option, term in TERMS.items() if term.needs)]


def train_on_words(run):
    """Carry out the cross-entropy phase, a Run, and return its captioner."""
    plan, settings, words = run.plan, run.plan.settings, run.plan.settings.cross_entropy
    _reject_late_epochs(run)
    run.record(_record_of_words(run))
    if run.has_ended:
        return run.loaded()

    keras.utils.set_random_seed(settings.training.seed)
    captioner = _new_captioner(run)
    WeightUpdates(settings.optimizer).check_rate(captioner)
    run.say(*summary(plan, run.photos.captioned, captioner, words.num_views))
    run.photos.prepare(captioner, words.num_views, run.cluster)
    batches = run.batches("train", captioner, words.group_by, first_epoch=len(run.epochs))
    num_steps = words.epochs * run.cluster.num_steps(batches)
    rate = _learning_rate(run.phase.learning_rate, words.schedule, words.warmup_steps, num_steps)
    captioner.compile(
        _fresh(settings.training.optimizer),
        settings=dataclasses.replace(settings.optimizer, learning_rate=rate),
    )
    if plan.keeps_initial_model and not run.keep_initial(captioner, cross_entropy=True):
        return captioner
    first_callbacks = []
    if captioner.samples_regions:
        first_callbacks = [BeginWithExpectations(words.expectation_epochs)]
    return run.train(captioner, batches, first_callbacks)


def train_on_rewards(run):
    """Carry out the self-critical phase, a Run, and return its captioner."""
    plan, settings, rewards = run.plan, run.plan.settings, run.plan.settings.rewards
    keras.utils.set_random_seed(settings.training.seed)
    captioner = run.start.adapted(**_changes_for_rewards(plan))
    WeightUpdates(settings.optimizer).check_rate(captioner)
    run.record(_record_of_rewards(run, captioner))
    if run.has_ended:
        return run.loaded()

    if run.phase == plan.phases[0]:
        run.say(*summary(plan, run.photos.captioned, captioner, 1))
    run.photos.prepare(captioner, 1, run.cluster)
    if not run.keep_initial(captioner):
        return run.start
    batches = run.batches("train", captioner, "image", whole=True, first_epoch=len(run.epochs))
    objective = SelfCritical(
        [image.captions for image in run.photos.images_in("train")],
        captioner.vocabulary,
        reward_baseline=rewards.reward_baseline,
        max_length=settings.training.max_length,
    )
    rate = run.phase.learning_rate
    captioner.compile(
        _fresh(settings.training.optimizer, learning_rate=rate),
        settings=dataclasses.replace(settings.optimizer, learning_rate=rate),
        training_objective=objective,
    )
    return run.train(captioner, batches)


# === What the result of a phase depends on ===


def _record_of_words(run):
    """Return the record of the cross-entropy phase; see `describe`."""
    plan, settings = run.plan, run.plan.settings
    defaults = CaptionerSettings.defaults() if run.start is None else {}
    arguments = {
        **run.photos.arguments(),
        **defaults,
        **plan.chosen_for_captioner(),
        **plan.keras_options,
        "encoder_weights": settings.encoder.encoder_weights,
        **settings.training.to_dict(),
        **settings.optimizer.to_dict(),
        **settings.cross_entropy.to_dict(),
    }
    if run.phase.monitored != MONITORED:
        arguments["monitored"] = run.phase.monitored
    return describe(arguments, run.photos.captioned, run.start)


def _record_of_rewards(run, captioner):
    """Return the record of the self-critical phase, which starts from a captioner."""
    plan, settings = run.plan, run.plan.settings
    arguments = {**settings.training.to_dict(), **settings.optimizer.to_dict()}
    del arguments["learning_rate"]  # this phase has its own
    rewards = settings.rewards.to_dict()
    arguments |= {"epochs": rewards.pop("self_critical_epochs"), "schedule": "constant"}
    required = {option: term.needs for option, term in TERMS.items() if term.needs}
    of_photos = run.photos.arguments()
    arguments |= {argument: of_photos[argument] for argument in required.values()}
    chosen = plan.chosen_for_captioner()
    arguments |= {option: chosen.get(option) for option in required}
    return describe({**arguments, **rewards}, run.photos.captioned, captioner)


def _changes_for_rewards(plan):
    """Return what the self-critical phase changes in a captioner: the settings that a
    saved one does not contain, and without a cross-entropy phase, which would have
    applied them, all that were chosen.
    """
    changes = {**plan.chosen_for_captioner(), **plan.keras_options}
    if plan.phases == [plan.rewards]:
        return changes
    return {name: value for name, value in changes.items() if name in PASSED_TO_EACH_PHASE}


def _reject_late_epochs(run):
    """Reject more cross-entropy epochs if the self-critical phase has already started
    from the captioner of the last one.
    """
    has_rewards = (run.folder / REWARDS / "checkpoint").exists()
    if has_rewards and not run.has_ended:
        raise ValueError(
            f"The self_critical_epochs in this folder started after epoch {len(run.epochs)}. "
            "To train longer first, pass another output_dir and "
            f"initial_model={str(run.folder / 'model')!r}. "
            f"Received: {run.phase.num_epochs} epochs"
        )


def _new_captioner(run):
    """Return the captioner to train: a new one, or the initial model adapted to the new
    vocabulary.
    """
    plan, words = run.plan, run.plan.settings.cross_entropy
    vocabulary = Vocabulary.build(
        run.photos.captioned, min_count=words.min_count, max_size=words.max_words
    )
    if run.start is None:
        return Captioner(vocabulary, plan.settings.captioner, **plan.keras_options)
    known_words = run.start.vocabulary
    new_words = [word for word in vocabulary.words if word not in known_words]
    return run.start.adapted(
        Vocabulary([*known_words.words, *new_words]),
        **plan.chosen_for_captioner(),
        **plan.keras_options,
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
