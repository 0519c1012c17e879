"""The whole of a training in one call, made of public parts only: data, vocabulary, features, batches, captioner."""

import warnings
from pathlib import Path

import keras
import tensorflow as tf

from data_utils.datasets.read import photos_of_split, read_data
from data_utils.vocabulary import Vocabulary
from keras_sat.captioner import Captioner
from keras_sat.files.checkpoint import read_checkpoint
from keras_sat.files.model_folder import PRETRAINED, read_model
from keras_sat.files.saving import save_confidence
from keras_sat.model.photo_encoder import BUNDLED
from keras_sat.model.updates import WeightUpdates
from keras_sat.options import CaptionerOptions, SelfCriticalOptions, SteadyOptions, TrainingOptions, with_options
from keras_sat.presets import (
    DEFAULT_MODEL,
    LIGHT_ENCODERS,
    MANY_PHOTOS,
    OWN_PHOTOS,
    light_encoder,
    usual_encoder,
    without_gpu,
)
from keras_sat.scoring.calibration import FEWEST_PHOTOS, calibrate
from keras_sat.scoring.evaluate import learnt_photos
from keras_sat.training import callbacks as parts
from keras_sat.training.folder import began_from_scratch, checksum, noted_encoder
from keras_sat.training.photos import TrainingPhotos
from keras_sat.training.plan import Asked, Plan
from keras_sat.training.run import Training
from keras_sat.training.self_critical import SelfCritical
from keras_sat.training.steady import SteadyFeatures
from keras_sat.training.summary import learnt_before, summary
from keras_sat.training.team import Team

SELF_CRITICAL_FOLDER, STEADY_FOLDER = "self_critical", "steady"  # within that of the training before

# Options that are said anew for each kind of epochs: a captioner that was trained does not hold them.
SAID_ANEW = "seed dtype box_weight"

# Options that change how a trained captioner is trained further, and none of its parts and sizes.
MAY_CHANGE = """
    attention attention_smoothing attention_sharpness
    attention_penalty_weight label_smoothing num_samples reward_weight entropy_weight expectation_probability
    expectation_for use_baseline grid photo_smoothing guide_weight box_weight length_penalty no_repeat_ngram
    dropout_embedding dropout_words dropout_before_readout
    dropout_after_readout feature_dropout name
"""


@with_options(TrainingOptions, SteadyOptions, SelfCriticalOptions, CaptionerOptions)
def fit(
    data,
    *,
    data_dir=None,
    split_seed=None,
    initial_model=None,
    from_scratch=False,
    cache_dir=None,
    output_dir=None,
    skip_unreadable=False,
    boxes=None,
    callbacks=(),
    show_progress=True,
    strategy=None,
    **options,
) -> Captioner:
    """Train a captioner on photos with captions, and return the best one.

    Everything that is reached is kept in `output_dir` after each epoch. Killed and called again with the same
    arguments, it resumes there as if nothing had happened; a training that has ended is loaded. Ctrl-C ends the
    training, and the best captioner so far is returned. More `epochs` than before continue a training, where
    `schedule` is "constant". (What callbacks of your own remember is not kept.)

    Where `encoder`, `encoder_layer`, `encoder_training`, `image_size`, `attention`, `scoring`, `cell`, `epochs`,
    `batch_size`, `learning_rate` or `encoder_rate` is None or left out, the usual one is taken. The encoder is then
    "tiny" for the scenes, else "vgg16" with a GPU; without one "efficientnet_lite0" where its weights are installed
    (the extra `lite`), and "mobilenet_v2" where not; a training that is resumed in its `output_dir` keeps the one it
    has. The features of a frozen encoder are built once; one that is trained gets the
    photos themselves. Where few photos begin from the bundled captioner, `presets.OWN_PHOTOS` says what is usual.

    With an `initial_model`, encoder and sizes are its own; the words that it does not know are added to its vocabulary.
    Other options may change: attention="hard" may follow soft attention. epochs=0 leaves all to
    `self_critical_epochs`, and keeps its vocabulary.

    `deterministic`: the same seed gives the same weights bit for bit, on the same machine with the same packages and
    threads. That is a setting of TensorFlow which costs time, holds for all that the process does from now on, and
    cannot be switched off in it (`tf.config.experimental.enable_op_determinism`). On a GPU it refuses operations that
    it cannot repeat (UnimplementedError). A training that was begun with it may be resumed without
    it, not the other way round.

    `photo_jitter`, see `data_utils.jitter`, is for an encoder that is trained along.

    `num_views`, see `data_utils.views`: each time a photo is shown, one of its views is drawn. Features take so many
    times the room. `expectation_epochs`: if others follow, none of these is taken for the best one.

    In the end the captioner learns its `confidence` from the dev split, if that has 100 photos or more, see
    `keras_sat.scoring.calibration`.

    `steady_epochs`, see `keras_sat.training.steady`, come behind the `epochs`: an encoder that is trained along learns
    to give the same features of photos in another size and light. They are a training of their own in the folder steady
    of `output_dir`; the best of them by CIDEr is kept.

    `self_critical_epochs` have CIDEr as the reward of whole captions, on whole photos, see
    `keras_sat.training.self_critical`. They are a training of their own in the folder self_critical of `output_dir`:
    the captioner from before stays where it is, and is returned where no epoch has a better CIDEr on the dev split. The
    attention penalty, label smoothing, and dropout of words and of word vectors have no place in them.

    Args:
        data: a name in DATASETS, or a list of CaptionedImage. Training is on the split "train"; the captions of the
            split "dev" decide which epoch is the best.
        data_dir: the folder of the data set, which is downloaded there if it can be.
        split_seed: draw a split of 80/10/10 by photo with this seed.
        initial_model: begin from this captioner: a Captioner, the folder of a saved one, or a bundled name. None:
            with data="folder" and few photos to train on (below `presets.MANY_PHOTOS`) the bundled captioner of photos,
            unless the options ask for other parts or sizes; it is kept where no epoch is better. With any other data:
            none.
        from_scratch: begin without a trained captioner, in a folder with few photos too.
        cache_dir: the folder of the features; None: beside the photos in `data_dir`, or in `output_dir`.
        output_dir: the folder for the model and all that is needed to go on; None: runs/DATA-ENCODER-ATTENTION.
        skip_unreadable: leave out photos that cannot be read instead of stopping.
        boxes: for `box_weight`: where phrases of the training captions are, as
            `data_utils.datasets.boxes.read_boxes` takes it.
        callbacks: further Keras callbacks, called after the scores and before anything is kept.
        show_progress: False keeps it silent.
        strategy: train on several devices: a tf.distribute.MirroredStrategy(), or MultiWorkerMirroredStrategy() for
            several hosts, which all make the same call. `batch_size` stays that of all devices together. On a host that
            is not the first, nothing is shown or kept, no callback is called, and the features are the only thing in
            `output_dir`; see docs/distribution.md.
        **options: see TrainingOptions, SteadyOptions, SelfCriticalOptions and CaptionerOptions.

    Returns: Captioner; its `history` is a mapping from the name of a figure to its value in each epoch.
    """
    asked = Asked.of(options)
    asked.check_beginning(initial_model, from_scratch)
    team = Team(strategy)
    show_progress = show_progress and team.is_chief
    say = print if show_progress else _say_nothing
    with team.in_turn():
        images = read_data(data, data_dir, split_seed=split_seed, show_progress=show_progress)
    images = [image for image in images if image.captions]
    photos_of_split(images, "train")  # refuses data that has none

    data_name = data if isinstance(data, str) else "photos"
    begins_bundled = initial_model is None and not from_scratch and data_name == "folder"
    if begins_bundled and _goes_on_with_bundled(images, asked, output_dir, team, say):
        initial_model, asked = PRETRAINED / DEFAULT_MODEL, asked.with_usual(OWN_PHOTOS)
    else:
        begins_bundled = False
    initial_model = _as_captioner(initial_model, asked.encoder_weights)
    if initial_model is None and "encoder" not in asked.captioner:
        asked = asked.with_encoder(_usual_encoder(data, output_dir, team, say))
    team.check_encoder(asked.captioner.get("encoder"), asked.captioner.get("encoder_training"))
    for line in learnt_before(initial_model, images):
        say(line)

    folder = Path(output_dir or _usual_output_dir(data_name, asked.captioner, initial_model)).expanduser()
    photos = TrainingPhotos(images, data_dir, cache_dir, folder, skip_unreadable, show_progress, team)
    photos.boxes = asked.boxes_of(boxes, images)
    photos.check_cache_dir(folder / "model", folder / SELF_CRITICAL_FOLDER / "model")
    noted = {"split_seed": split_seed, "skip_unreadable": skip_unreadable}
    noted["boxes"] = None if photos.boxes is None else checksum(str(photos.boxes.phrases))
    plan = Plan(
        asked, initial_model, begins_bundled, data_name, images, noted, photos, team, folder, callbacks, show_progress
    )
    if plan.options.deterministic:
        tf.config.experimental.enable_op_determinism()
    with team.folder(folder) as plan.folder, team.scope(), plan.lock():
        return _train(plan)


def _train(plan):
    """Train with words, to be steady, with rewards, each where it was asked for; return the captioner with history."""
    captioner, is_whole, figures, folder = plan.initial_model, True, [], plan.folder
    if plan.options.epochs:
        captioner, is_whole, figures = _train_on_words(plan)
    if plan.steady.steady_epochs and is_whole:
        captioner, is_whole, further = _train_to_be_steady(plan, captioner)
        folder = plan.folder / STEADY_FOLDER
        figures = [*figures, *further]
    if plan.rewards.self_critical_epochs and is_whole:
        captioner, is_whole, further = _train_on_rewards(plan, captioner)
        folder = plan.folder / SELF_CRITICAL_FOLDER
        figures = [*figures, *further]
    if is_whole:
        _calibrate(plan, captioner, folder / "model")
    captioner.history = parts.Curves(figures, was_interrupted=plan.was_interrupted)
    return captioner


def _calibrate(plan, captioner, folder):
    """Let the captioner learn how far its captions can be trusted, and keep that with it; once, on a single host.

    Whatever goes wrong, the captioner is there: nothing of its training is lost for it.
    """
    if captioner.confidence is not None or len(plan.photos.of_split("dev")) < FEWEST_PHOTOS or plan.team.num_hosts > 1:
        return
    if learnt_photos(captioner, plan.photos.of_split("dev")):
        return  # it began from a captioner that knew them, as was said in the beginning
    try:
        plan.photos.prepare(captioner, num_views=1)  # a training that has ended was only loaded
        options = {"cache": plan.photos.cache, "show_progress": plan.show_progress}
        calibration = calibrate(captioner, plan.photos.of_split("dev"), **options)
        save_confidence(captioner, folder)
    except KeyboardInterrupt:
        plan.was_interrupted = True
        plan.say("stopped before the captions were calibrated; the same call or command does that")
        return
    except (OSError, ValueError) as error:
        warnings.warn(f"The captioner is trained, and has no confidence: {error}", stacklevel=4)
        return
    plan.say(
        f"confidence: {calibration.are_right.mean():.0%} of the captions of dev are right, and it is "
        f"{100 * calibration.expected_error:.0f} percent points from what it says on average"
    )


def _train_on_words(plan):
    """Train with cross-entropy; return what `Training.run` does."""
    options = plan.options
    training = Training(plan, plan.folder, options.epochs)
    _refuse_if_others_follow(training, STEADY_FOLDER, SELF_CRITICAL_FOLDER)
    training.note(plan.record_of_words())
    if training.has_ended:
        return training.loaded()

    keras.utils.set_random_seed(options.seed)
    captioner = _new_captioner(plan)
    if (guide := captioner.paper_objective.guide) is not None:
        guide.choose_words([caption for image in plan.photos.of_split("train") for caption in image.captions])
    WeightUpdates(encoder_rate=options.encoder_rate).check_rate(captioner)
    _check_changes(captioner, plan)
    plan.say(*summary(plan.data_name, plan.images, captioner, options.num_views, plan.folder, plan.team))
    plan.photos.prepare(captioner, options.num_views)
    batches = plan.photos.batches("train", captioner, options, first_epoch=len(training.epochs))
    num_steps = options.epochs * plan.team.num_steps(batches)
    rate = _learning_rate(options.learning_rate, options.schedule, options.warmup_steps, num_steps)
    captioner.compile(_fresh(options.optimizer), learning_rate=rate, **_optimizer_options(options))
    if plan.keeps_initial_model and not _begins_with(training, captioner, cross_entropy=True):
        return captioner, False, []
    captioner.note_training_photos([image.image_id for image in plan.photos.of_split("train")])
    steps = [parts.BeginWithExpectations(options.expectation_epochs)] if captioner.samples_attention else []
    return training.run(captioner, batches, steps)


def _train_to_be_steady(plan, before):
    """Let the encoder learn to see the same in photos that changed; return what `Training.run` does."""
    options, steady = plan.options, plan.steady
    _check_changes(before, plan)
    keras.utils.set_random_seed(options.seed)
    captioner = _trained_further(plan, before)
    training = Training(plan, plan.folder / STEADY_FOLDER, steady.steady_epochs, "steady ", monitored="val_cider")
    _refuse_if_others_follow(training, SELF_CRITICAL_FOLDER)
    training.note(plan.record_of_steadiness(captioner))
    if training.has_ended:
        return training.loaded()

    _prepare_further(plan, captioner, training)
    batches = _batches_of_whole_photos(plan, captioner, training, changing=False)
    num_steps = steady.steady_epochs * plan.team.num_steps(batches)
    rate = _learning_rate(steady.steady_rate, "cosine", min(100, num_steps // 4), num_steps)
    strength = options.photo_jitter or 1.0
    objective = SteadyFeatures(before, strength=strength)
    # Nothing but the encoder learns: the rest must not decay either.
    rates = {**_optimizer_options(options), "encoder_rate": 1.0, "first_layer_rate": 1.0, "weight_decay": None}
    optimizer = _fresh(options.optimizer, learning_rate=rate)
    captioner.compile(optimizer, learning_rate=rate, training_objective=objective, **rates)
    return training.run(captioner, batches)


def _trained_further(plan, before):
    """Return a captioner that goes on from another, changed as was asked for where that has not been taken in yet."""
    changes = plan.captioner_options()
    return before.adapted(
        **{name: changes[name] for name in changes if name in SAID_ANEW.split() or not plan.options.epochs}
    )


def _prepare_further(plan, captioner, training):
    """Get the photos ready for further epochs; where they are the first, say what is trained."""
    if not plan.options.epochs:
        plan.say(*summary(plan.data_name, plan.images, captioner, 1, training.folder, plan.team))
    plan.photos.prepare(captioner, num_views=1)


def _batches_of_whole_photos(plan, captioner, training, **options):
    """Note that a captioner learns from the training photos, and return their batches for further epochs."""
    captioner.note_training_photos([image.image_id for image in plan.photos.of_split("train")])
    options |= {"group_by": "image", "whole": True, "first_epoch": len(training.epochs)}
    return plan.photos.batches("train", captioner, plan.options, **options)


def _train_on_rewards(plan, before):
    """Train a captioner on with CIDEr as its reward; return what `Training.run` does."""
    options, rewards = plan.options, plan.rewards
    keras.utils.set_random_seed(options.seed)
    # What the first kind of epochs was given has been taken in, but for what is no part of a saved captioner.
    captioner = _trained_further(plan, before)
    WeightUpdates(encoder_rate=options.encoder_rate).check_rate(captioner)
    _check_changes(captioner, plan)
    folder = plan.folder / SELF_CRITICAL_FOLDER
    training = Training(plan, folder, rewards.self_critical_epochs, kind="self-critical ", monitored="val_cider")
    training.note(plan.record_of_rewards(captioner))
    if training.has_ended:
        return training.loaded()

    _prepare_further(plan, captioner, training)
    if not _begins_with(training, captioner):
        return before, False, []
    batches = _batches_of_whole_photos(plan, captioner, training)
    objective = SelfCritical(
        [image.captions for image in plan.photos.of_split("train")],
        captioner.vocabulary,
        num_drawn=rewards.num_drawn,
        reward_baseline=rewards.reward_baseline,
        temperature=rewards.drawing_temperature,
        max_length=options.max_length,
    )
    rate = rewards.self_critical_rate
    optimizer = _fresh(options.optimizer, learning_rate=rate)
    captioner.compile(optimizer, learning_rate=rate, training_objective=objective, **_optimizer_options(options))
    return training.run(captioner, batches)


def _refuse_if_others_follow(training, *folders):
    """Refuse more epochs of a training where others have begun with the captioner that it has ended with."""
    for name in folders:
        further, _ = read_checkpoint(training.plan.folder / name / "checkpoint")
        if further and not training.has_ended:
            kind = "Steady" if name == STEADY_FOLDER else "Self-critical"
            raise ValueError(
                f"{kind} training has begun here with the captioner of {len(training.epochs)} {training.kind}epochs. "
                f"For more of them choose another output_dir, with initial_model={str(training.folder / 'model')!r}. "
                f"Received: {training.num_epochs} {training.kind}epochs, patience={training.plan.options.patience}"
            )


def _begins_with(training, captioner, **options):
    """Keep and score what a training begins with; return whether nobody has stopped that."""
    try:
        training.begin_with(captioner, **options)
    except KeyboardInterrupt:
        if training.plan.team.num_hosts > 1:
            raise
        training.plan.was_interrupted = True
        training.plan.say(f"\nstopped before the first {training.kind}epoch")
        return False
    return True


def _check_changes(captioner, plan):
    """Refuse photos that change each time where the encoder is frozen: it sees each of them once."""
    asked = {"photo_jitter": plan.options.photo_jitter, "steady_epochs": plan.steady.steady_epochs}
    for name, value in asked.items():
        if value and captioner.encoder_training == "frozen":
            raise ValueError(
                "Photos can change where the whole encoder is trained along; the features of a frozen one are made "
                "once. Leave this out, or pass encoder_training='fine-tuned' (--encoder-training). "
                f"Received: {name}={value}"
            )


def _optimizer_options(options):
    names = ("clip_norm", "weight_decay", "average_momentum", "encoder_rate", "first_layer_rate")
    return {name: getattr(options, name) for name in names}


def _say_nothing(line):
    pass


# === What is usual ===


def _usual_encoder(data, output_dir, team, say):
    """Return the name of the encoder where none is named: that of the training which is resumed, or the usual one."""
    before = None if output_dir is None else noted_encoder(output_dir)
    encoder = team.tell(before or usual_encoder(data))
    if before is None and encoder in LIGHT_ENCODERS:
        say(without_gpu(encoder))
    return encoder


def _usual_output_dir(data_name, chosen, initial_model):
    before = {} if initial_model is None else initial_model.get_config()
    encoder, attention = (
        chosen.get(name) or before.get(name) or usual for name, usual in (("encoder", "vgg16"), ("attention", "soft"))
    )
    return f"runs/{data_name}-{getattr(encoder, 'name', encoder)}-{attention}"


def _goes_on_with_bundled(images, asked, output_dir, team, say):
    """Return whether a folder of photos begins from the bundled captioner: not begun from scratch, and suited."""
    usual_dir = _usual_output_dir("folder", {"encoder": light_encoder(), **asked.captioner}, None)
    if team.tell(began_from_scratch(output_dir or usual_dir)):
        return False
    if asked.encoder_weights not in (CaptionerOptions.defaults()["encoder_weights"], BUNDLED, None):
        say(f"begins from scratch, with encoder_weights={str(asked.encoder_weights)!r}")
        return False
    return _suits_bundled(images, asked.captioner, say)


def _suits_bundled(images, chosen, say):
    """Return whether a folder of photos begins from the bundled captioner: few photos, and no other parts or sizes."""
    num_train = sum(image.split == "train" for image in images)
    if num_train >= MANY_PHOTOS:
        say(f"begins from scratch: {num_train} photos to train on are enough for that")
        return False
    before = read_model(PRETRAINED / DEFAULT_MODEL)[0]["captioner"]
    for name, value in chosen.items():
        if name not in MAY_CHANGE.split() and (name not in before or value != before[name]) or value == "none":
            has = f"has {before[name]!r}" if before.get(name) is not None else "has its usual one"
            value = getattr(value, "name", value)
            say(f"begins from scratch, for {name} is {value!r}: the bundled captioner, {DEFAULT_MODEL}, {has}")
            return False
    say(
        f"begins from the bundled captioner, {DEFAULT_MODEL}, whose weights are for research and education only, not "
        "for commercial use (docs/model-card.md); from_scratch (--from-scratch) does without"
    )
    return True


# === The captioner ===


def _new_captioner(plan):
    """Return the captioner that is trained: made of its options, or going on from another, with the new words too."""
    options = plan.options
    vocabulary = Vocabulary.build(plan.images, min_count=options.min_count, max_size=options.max_words)
    before = plan.initial_model
    if before is None:
        return Captioner(vocabulary, encoder_weights=plan.asked.encoder_weights, **plan.captioner_options())
    new_words = [word for word in vocabulary.words if word not in before.vocabulary]
    return before.adapted(Vocabulary([*before.vocabulary.words, *new_words]), **plan.captioner_options())


def _as_captioner(model, encoder_weights):
    if model is None or isinstance(model, Captioner):
        return model
    weights = None if encoder_weights == "imagenet" else encoder_weights
    return Captioner.from_pretrained(model, encoder_weights=weights)


# === The optimizer ===


def _fresh(optimizer, **changes):
    """Return an optimizer that has not been used: one that was passed may belong to another training already."""
    if isinstance(optimizer, keras.optimizers.Optimizer):
        return type(optimizer).from_config({**optimizer.get_config(), **changes})
    return optimizer


def _learning_rate(learning_rate, schedule, warmup_steps, num_steps):
    """Return a number, or a schedule that Keras' optimizers take."""
    if not isinstance(learning_rate, (int, float)) or (schedule == "constant" and not warmup_steps):
        return learning_rate
    if schedule == "cosine":
        return keras.optimizers.schedules.CosineDecay(
            0.0 if warmup_steps else learning_rate,
            max(num_steps - warmup_steps, 1),
            warmup_target=learning_rate if warmup_steps else None,
            warmup_steps=warmup_steps,
        )
    return keras.optimizers.schedules.PolynomialDecay(0.0, warmup_steps, learning_rate)
