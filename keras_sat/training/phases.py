"""The phases of training: cross-entropy, then the phases in keras_sat.beyond, each with
its own folder.
"""

import keras

from data_utils.vocabulary import Vocabulary
from keras_sat.beyond.extensions import FURTHER_EPOCHS, HOOKS
from keras_sat.captioner import Captioner
from keras_sat.model.updates import WeightUpdates
from keras_sat.options import OptimizerOptions
from keras_sat.training.callbacks import BeginWithExpectations
from keras_sat.training.run import Training
from keras_sat.training.summary import summary

# Options passed to each phase, since a saved captioner does not contain them.
GIVEN_EACH_TIME = ["seed", "dtype", *(option for option, hook in HOOKS.items() if hook.needs)]


def train_on_words(plan):
    """Run the cross-entropy phase of a TrainingPlan, and return the result of
    `Training.run`.
    """
    options = plan.options
    training = Training(plan, plan.folder, options.epochs, monitored=plan.monitored())
    _reject_late_epochs(training, FURTHER_EPOCHS)
    training.record(plan.record_of_words(training.monitored))
    if training.has_ended:
        return training.loaded()

    keras.utils.set_random_seed(options.seed)
    captioner = _new_captioner(plan)
    WeightUpdates(options).check_rate(captioner)
    _check_changes(captioner, plan)
    plan.say(*summary(plan, captioner, options.num_views, training.monitored))
    plan.photos.prepare(captioner, options.num_views)
    batches = plan.photos.batches("train", captioner, options, first_epoch=len(training.epochs))
    num_steps = options.epochs * plan.cluster.num_steps(batches)
    rate = _learning_rate(options.learning_rate, options.schedule, options.warmup_steps, num_steps)
    captioner.compile(_fresh(options.optimizer), learning_rate=rate, **_optimizer_options(options))
    if plan.keeps_initial_model and not training.keep_initial(captioner, cross_entropy=True):
        return captioner, False, []
    warm_up = (
        [BeginWithExpectations(options.expectation_epochs)] if captioner.samples_attention else []
    )
    return training.run(captioner, batches, warm_up)


def train_further(plan, name, before):
    """Train a captioner in the later phase `name` (one of FURTHER_EPOCHS).

    Return the result of `Training.run`.
    """
    options, epochs, own = plan.options, FURTHER_EPOCHS[name], plan.asked.further[name]
    keras.utils.set_random_seed(options.seed)
    # The cross-entropy phase has applied the changes, except those that a saved
    # captioner does not contain.
    changes = plan.captioner_options()
    captioner = before.adapted(
        **{n: changes[n] for n in changes if n in GIVEN_EACH_TIME or not options.epochs}
    )
    if not epochs.encoder_alone:
        WeightUpdates(options).check_rate(captioner)
    _check_changes(captioner, plan)
    folder = further_folder(plan.folder, name)
    kind = f"{folder.name.replace('_', '-')} "
    training = Training(plan, folder, plan.asked.num_further(name), kind, monitored="val_cider")
    names = [*FURTHER_EPOCHS]
    _reject_late_epochs(training, names[names.index(name) + 1 :])
    training.record(plan.record_of_further(name, captioner))
    if training.has_ended:
        return training.loaded()

    if not options.epochs:  # this is the first phase
        plan.say(*summary(plan, captioner, 1, training.monitored))
    plan.photos.prepare(captioner, num_views=1)
    if epochs.keeps_before and not training.keep_initial(captioner):
        return before, False, []
    of_batches = {"group_by": "image", "whole": True, "first_epoch": len(training.epochs)}
    batches = plan.photos.batches(
        "train", captioner, options, changing=not epochs.encoder_alone, **of_batches
    )
    num_steps = training.num_epochs * plan.cluster.num_steps(batches)
    warmup_steps = 0 if epochs.schedule == "constant" else min(100, num_steps // 4)
    rate = _learning_rate(
        getattr(own, f"{folder.name}_rate"), epochs.schedule, warmup_steps, num_steps
    )
    rates = _optimizer_options(options)
    if epochs.encoder_alone:  # the other weights must not decay either
        rates |= {"encoder_rate": 1.0, "first_layer_rate": 1.0, "weight_decay": None}
    objective = epochs.objective(before, captioner, plan.photos.of_split("train"), options, own)
    optimizer = _fresh(options.optimizer, learning_rate=rate)
    captioner.compile(optimizer, learning_rate=rate, training_objective=objective, **rates)
    return training.run(captioner, batches)


def further_folder(folder, name):
    """Return the folder of the later phase `name` (one of FURTHER_EPOCHS) inside the
    folder of a training run.
    """
    return folder / name.removesuffix("_epochs")


def _reject_late_epochs(training, names):
    """Reject further epochs of the first phase if a later phase has already started
    from its captioner.
    """
    for name in names:
        if (
            further_folder(training.plan.folder, name) / "checkpoint"
        ).exists() and not training.has_ended:
            raise ValueError(
                f"The {name} in this folder started after epoch {len(training.epochs)}. "
                "To train longer first, pass "
                f"another output_dir and initial_model={str(training.folder / 'model')!r}. "
                f"Received: {training.num_epochs} {training.kind}epochs"
            )


def _check_changes(captioner, plan):
    """Reject augmentation with a frozen encoder, which encodes each photo only once."""
    of_encoder = [name for name, epochs in FURTHER_EPOCHS.items() if epochs.encoder_alone]
    asked = {
        "photo_jitter": plan.options.photo_jitter,
        **{name: plan.asked.num_further(name) for name in of_encoder},
    }
    for name, value in asked.items():
        if value and captioner.encoder_training == "frozen":
            raise ValueError(
                "This option has no effect on a frozen encoder: leave it out, or train "
                "the whole encoder with "
                f"encoder_training='fine-tuned' (--encoder-training). Received: {name}={value}"
            )


def _optimizer_options(options):
    return {
        name: getattr(options, name) for name in OptimizerOptions.names() if name != "learning_rate"
    }


def _new_captioner(plan):
    """Return the captioner to train: a new one, or `initial_model` adapted to the new
    vocabulary.
    """
    options, before = plan.options, plan.initial_model
    vocabulary = Vocabulary.build(
        plan.images, min_count=options.min_count, max_size=options.max_words
    )
    if before is None:
        return Captioner(
            vocabulary, encoder_weights=plan.asked.encoder_weights, **plan.captioner_options()
        )
    new_words = [word for word in vocabulary.words if word not in before.vocabulary]
    return before.adapted(
        Vocabulary([*before.vocabulary.words, *new_words]), **plan.captioner_options()
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
    if not isinstance(learning_rate, (int, float)) or (schedule == "constant" and not warmup_steps):
        return learning_rate
    if schedule == "constant":
        return keras.optimizers.schedules.PolynomialDecay(0.0, warmup_steps, learning_rate)
    start, target = (0.0, learning_rate) if warmup_steps else (learning_rate, None)
    num_left = max(num_steps - warmup_steps, 1)
    return keras.optimizers.schedules.CosineDecay(
        start, num_left, warmup_target=target, warmup_steps=warmup_steps
    )
