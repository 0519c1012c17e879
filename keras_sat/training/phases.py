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

# A saved captioner does not contain these options.
PASSED_TO_EACH_PHASE = ["seed", "dtype", *(option for option, hook in HOOKS.items() if hook.needs)]


def train_on_words(job):
    """Run the cross-entropy phase of a TrainingJob, and return the result of
    `Training.run`.
    """
    options = job.options
    training = Training(job, job.folder, options.epochs, monitored=job.plan.monitored)
    _reject_late_epochs(training, FURTHER_EPOCHS)
    training.record(job.record_of_words())
    if training.has_ended:
        return training.loaded()

    keras.utils.set_random_seed(options.seed)
    captioner = _new_captioner(job)
    WeightUpdates(options).check_rate(captioner)
    _check_changes(captioner, job)
    job.say(*summary(job, captioner, options.num_views))
    job.photos.prepare(captioner, options.num_views)
    batches = job.photos.batches("train", captioner, options, first_epoch=len(training.epochs))
    num_steps = options.epochs * job.cluster.num_steps(batches)
    rate = _learning_rate(options.learning_rate, options.schedule, options.warmup_steps, num_steps)
    captioner.compile(_fresh(options.optimizer), learning_rate=rate, **_optimizer_options(options))
    if job.plan.keeps_initial_model and not training.keep_initial(captioner, cross_entropy=True):
        return captioner, False, []
    first_callbacks = []
    if captioner.samples_attention:
        first_callbacks = [BeginWithExpectations(options.expectation_epochs)]
    return training.run(captioner, batches, first_callbacks)


def train_further(job, name, previous_captioner):
    """Train a captioner in the later phase `name` (one of FURTHER_EPOCHS).

    Return the result of `Training.run`.
    """
    options, epochs = job.options, FURTHER_EPOCHS[name]
    keras.utils.set_random_seed(options.seed)
    captioner = previous_captioner.adapted(**_changes_of_further(job))
    if not epochs.encoder_alone:
        WeightUpdates(options).check_rate(captioner)
    _check_changes(captioner, job)
    folder = further_folder(job.folder, name)
    kind = f"{folder.name.replace('_', '-')} "
    num_epochs = job.plan.options.num_further(name)
    training = Training(job, folder, num_epochs, kind, monitored="val_cider")
    names = [*FURTHER_EPOCHS]
    _reject_late_epochs(training, names[names.index(name) + 1 :])
    training.record(job.record_of_further(name, captioner))
    if training.has_ended:
        return training.loaded()

    if not options.epochs:  # this is the first phase
        job.say(*summary(job, captioner, 1))
    job.photos.prepare(captioner, num_views=1)
    if epochs.keeps_before and not training.keep_initial(captioner):
        return previous_captioner, False, []
    batches = job.photos.batches(
        "train",
        captioner,
        options,
        changing=not epochs.encoder_alone,
        group_by="image",
        whole=True,
        first_epoch=len(training.epochs),
    )
    num_steps = num_epochs * job.cluster.num_steps(batches)
    _compile_further(job, name, captioner, previous_captioner, num_steps)
    return training.run(captioner, batches)


def _changes_of_further(job):
    """Return the captioner options that a later phase changes: those that a saved
    captioner does not contain, and without a cross-entropy phase, which would have
    applied them, all.
    """
    changes = job.captioner_options()
    if not job.options.epochs:
        return changes
    return {name: value for name, value in changes.items() if name in PASSED_TO_EACH_PHASE}


def _compile_further(job, name, captioner, previous_captioner, num_steps):
    """Compile a captioner for the later phase `name`, which takes `num_steps` steps."""
    options, epochs = job.options, FURTHER_EPOCHS[name]
    phase_options = job.plan.options.further[name]
    highest_rate = getattr(phase_options, name.replace("_epochs", "_rate"))
    warmup_steps = 0 if epochs.schedule == "constant" else min(100, num_steps // 4)
    rate = _learning_rate(highest_rate, epochs.schedule, warmup_steps, num_steps)
    optimizer_options = _optimizer_options(options)
    if epochs.encoder_alone:  # the other weights must not decay either
        optimizer_options |= {"encoder_rate": 1.0, "first_layer_rate": 1.0, "weight_decay": None}
    train_images = job.photos.images_in("train")
    objective = epochs.objective(
        previous_captioner, captioner, train_images, options, phase_options
    )
    captioner.compile(
        _fresh(options.optimizer, learning_rate=rate),
        learning_rate=rate,
        training_objective=objective,
        **optimizer_options,
    )


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
        checkpoint = further_folder(training.job.folder, name) / "checkpoint"
        if checkpoint.exists() and not training.has_ended:
            raise ValueError(
                f"The {name} in this folder started after epoch {len(training.epochs)}. "
                "To train longer first, pass another output_dir and "
                f"initial_model={str(training.folder / 'model')!r}. "
                f"Received: {training.num_epochs} {training.kind}epochs"
            )


def _check_changes(captioner, job):
    """Reject augmentation with a frozen encoder, which encodes each photo only once."""
    if captioner.encoder_training != "frozen":
        return
    ineffective = {"photo_jitter": job.options.photo_jitter}
    for name, epochs in FURTHER_EPOCHS.items():
        if epochs.encoder_alone:
            ineffective[name] = job.plan.options.num_further(name)
    for name, value in ineffective.items():
        if value:
            raise ValueError(
                "This option has no effect on a frozen encoder: leave it out, or train "
                "the whole encoder with "
                f"encoder_training='fine-tuned' (--encoder-training). Received: {name}={value}"
            )


def _optimizer_options(options):
    return {
        name: getattr(options, name) for name in OptimizerOptions.names() if name != "learning_rate"
    }


def _new_captioner(job):
    """Return the captioner to train: a new one, or `initial_model` adapted to the new
    vocabulary.
    """
    options, initial_model = job.options, job.initial_model
    vocabulary = Vocabulary.build(
        job.images, min_count=options.min_count, max_size=options.max_words
    )
    if initial_model is None:
        encoder_weights = job.plan.options.encoder_weights
        return Captioner(vocabulary, encoder_weights=encoder_weights, **job.captioner_options())
    known_words = initial_model.vocabulary
    new_words = [word for word in vocabulary.words if word not in known_words]
    return initial_model.adapted(
        Vocabulary([*known_words.words, *new_words]), **job.captioner_options()
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
