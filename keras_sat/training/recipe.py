"""The whole of a training in one call, made of public parts only: data, vocabulary, features, batches, captioner."""

import inspect
import os
from pathlib import Path
from types import SimpleNamespace

import keras
import tensorflow as tf

from data_utils.batches import GROUPINGS
from data_utils.datasets.read import photos_of_split, read_data
from data_utils.files import exclusive_lock
from data_utils.vocabulary import Vocabulary
from keras_sat.captioner import Captioner
from keras_sat.checks import check_above_zero, check_counts, check_learning_rate, check_options, check_rates
from keras_sat.files.checkpoint import read_checkpoint
from keras_sat.files.model_folder import PRETRAINED, read_model
from keras_sat.model.decoder import CaptionDecoder
from keras_sat.model.learnt_photos import learnt_of
from keras_sat.model.updates import WeightUpdates
from keras_sat.presets import (
    DEFAULT_MODEL,
    FEWEST_PHOTOS,
    FROM_SCRATCH,
    LIGHT_ENCODER,
    MANY_PHOTOS,
    OWN_PHOTOS,
    WITHOUT_GPU,
    usual_encoder,
)
from keras_sat.training import callbacks as parts
from keras_sat.training.folder import began_from_scratch, describe, noted_encoder
from keras_sat.training.photos import TrainingPhotos
from keras_sat.training.run import Training
from keras_sat.training.self_critical import SelfCritical, check_drawing
from keras_sat.training.team import Team

SCHEDULES = ("constant", "cosine")
SELF_CRITICAL_FOLDER = "self_critical"  # within that of the training before

# Options that change how a trained captioner goes on, and none of its parts and sizes.
MAY_CHANGE = """
    attention attention_penalty_weight label_smoothing num_samples reward_weight entropy_weight expectation_probability
    expectation_for use_baseline length_penalty dropout_embedding dropout_words dropout_before_readout
    dropout_after_readout feature_dropout dtype name
"""


def fit(
    data,
    *,
    data_dir=None,
    split_seed=None,
    encoder=None,
    encoder_layer=None,
    encoder_weights="imagenet",
    encoder_training=None,
    image_size=None,
    attention=None,
    scoring=None,
    cell=None,
    initial_model=None,
    from_scratch=False,
    epochs=None,
    batch_size=None,
    group_by="length",
    seed=0,
    deterministic=False,
    optimizer="adam",
    learning_rate=None,
    schedule="constant",
    warmup_steps=0,
    clip_norm=5.0,
    weight_decay=None,
    average_momentum=None,
    encoder_rate=None,
    num_views=1,
    patience=5,
    min_count=1,
    max_words=10_000,
    expectation_epochs=0,
    num_beams=1,
    max_length=20,
    self_critical_epochs=0,
    self_critical_rate=5e-5,
    num_drawn=5,
    reward_baseline="greedy",
    drawing_temperature=0.5,
    cache_dir=None,
    skip_unreadable=False,
    output_dir=None,
    callbacks=(),
    show_progress=True,
    strategy=None,
    **captioner_options,
):
    """Train a captioner on photos with captions, and return the best one.

    Everything that is reached is kept in `output_dir` after each epoch. Killed and called again with the same
    arguments, it goes on from there as if nothing had happened; a training that has ended is loaded. Ctrl-C ends the
    training, and the best captioner so far is returned. More `epochs` than before go on with a training, where
    `schedule` is "constant". (What callbacks of your own remember is not kept.)

    Args:
        data: a name in DATASETS, or a list of CaptionedImage. Training is on the split "train"; the captions of the
            split "dev" decide which epoch is the best.
        data_dir: the folder of the data set, which is downloaded there if it can be.
        split_seed: draw a split of 80/10/10 by photo with this seed.
        encoder, encoder_layer, encoder_weights, encoder_training, image_size: see Captioner. Where no encoder is named,
            it is "tiny" for the scenes, else "vgg16" with a GPU and "mobilenet_v2" without one; a training that is
            resumed in its `output_dir` keeps the one it has. The features of a frozen encoder are built once; one that
            is trained gets the photos themselves.
        attention, scoring, cell: see CaptionDecoder; "soft", "additive" and "lstm" unless others are named.
        initial_model: go on from this captioner: a Captioner, the folder of a saved one, or a pretrained name. Encoder
            and sizes are its own; the words that it does not know are added to its vocabulary. Other options may
            change: attention="hard" goes on from soft attention. None: with data="folder" and few photos to train on
            (below `presets.MANY_PHOTOS`) the bundled captioner of photos, unless the options ask for other parts or
            sizes; it is kept where no epoch is better. With any other data: none.
        from_scratch: begin without a trained captioner, in a folder with few photos too.
        epochs: passes over the training captions, at most; 0 leaves all to `self_critical_epochs`, and needs an
            `initial_model`, which keeps its vocabulary then. None: see `presets.FROM_SCRATCH`, and
            `presets.OWN_PHOTOS` where few photos go on from the bundled captioner; as with `batch_size`,
            `learning_rate` and `encoder_rate`.
        batch_size, group_by: see make_batches.
        seed: of the initial weights, the order of the batches, and all else that is drawn.
        deterministic: the same seed gives the same weights bit for bit, on the same machine with the same packages and
            threads. That is a setting of TensorFlow which costs time, holds for all that the process does from now on,
            and cannot be switched off in it (`tf.config.experimental.enable_op_determinism`). On a GPU it refuses
            operations that it cannot repeat (UnimplementedError). A training that was begun with it may go on without,
            not the other way round.
        optimizer, learning_rate, clip_norm: see Captioner.compile.
        weight_decay, average_momentum, encoder_rate: see Captioner.compile.
        num_views: views of each training photo, see `data_utils.views`: 2 adds the mirrored photo, more add parts of
            it. Each time a photo is shown, one of them is drawn. Features take so many times the room.
        schedule: "constant", or "cosine": the learning rate falls to 0 over all epochs.
        warmup_steps: let the learning rate rise from 0 over so many updates first.
        patience: stop after so many epochs without a better BLEU-4 on the dev split; None: never.
        min_count, max_words: which words the vocabulary keeps, see Vocabulary.build.
        expectation_epochs: train hard attention with expectations only in so many epochs, before it draws samples. If
            others follow, none of these is taken for the best one.
        num_beams, max_length: of the captions of the dev split after each epoch.
        self_critical_epochs: train for so many further epochs with CIDEr as the reward of whole captions, on whole
            photos, see `keras_sat.training.self_critical`. That is a training of its own in the folder self_critical of
            `output_dir`: the captioner from before stays where it is, and is returned where no epoch has a better CIDEr
            on the dev split. The attention penalty, label smoothing, and dropout of words and of word vectors have no
            place in them.
        self_critical_rate: the learning rate of these epochs, which is constant.
        num_drawn, reward_baseline, drawing_temperature: see SelfCritical.
        cache_dir: the folder of the features; None: beside the photos in `data_dir`, or in `output_dir`.
        skip_unreadable: leave out photos that cannot be read instead of stopping.
        output_dir: the folder for the model and all that is needed to go on; None: runs/DATA-ENCODER-ATTENTION.
        callbacks: further Keras callbacks, called after the scores and before anything is kept.
        show_progress: False keeps it silent.
        strategy: train on several devices: a tf.distribute.MirroredStrategy(), or MultiWorkerMirroredStrategy() for
            several hosts, which all make the same call. `batch_size` stays that of all devices together. On a host that
            is not the first, nothing is shown or kept, no callback is called, and the features are the only thing in
            `output_dir`; see docs/distribution.md.
        **captioner_options: further options of Captioner and CaptionDecoder.

    Returns: Captioner; its `history` is a mapping from the name of a figure to its value in each epoch.
    """
    arguments = {name: value for name, value in locals().items() if name not in _NOT_ABOUT_THE_RESULT}
    beside = ("captioner_options", "vocabulary", "vocabulary_size", "decoder_options")
    check_options(captioner_options, fit, Captioner, CaptionDecoder, beside=beside, also=("dtype", "trainable"))
    settled = _settled(arguments, FROM_SCRATCH)
    _check(**{name: settled[name] for name in inspect.signature(_check).parameters})
    check_rates(**{name: settled[name] for name in inspect.signature(check_rates).parameters})
    if not isinstance(from_scratch, bool):
        raise ValueError(f"Expected True or False. Received: from_scratch={from_scratch!r}")
    if from_scratch and initial_model is not None:
        raise ValueError(
            "A training begins from scratch or from a trained captioner: leave out one of the two. "
            f"Received: from_scratch={from_scratch} with initial_model={initial_model!r}"
        )
    if epochs == 0 and (initial_model is None or not self_critical_epochs):
        raise ValueError(
            "`epochs` must be at least 1, or 0 where an initial_model is to be trained for self_critical_epochs alone. "
            f"Received: epochs={epochs} with self_critical_epochs={self_critical_epochs}"
        )
    team = Team(strategy)
    show_progress = show_progress and team.is_chief
    say = print if show_progress else _say_nothing
    with team.in_turn():
        images = read_data(data, data_dir, split_seed=split_seed, show_progress=show_progress)
    images = [image for image in images if image.captions]
    photos_of_split(images, "train")  # refuses data that has none
    data_name = data if isinstance(data, str) else "photos"
    named = {"encoder": encoder, "encoder_layer": encoder_layer, "encoder_training": encoder_training}
    named |= {"image_size": image_size, "attention": attention, "scoring": scoring, "cell": cell}
    chosen = {name: value for name, value in named.items() if value is not None} | captioner_options
    begins_bundled = initial_model is None and not from_scratch and data_name == "folder"
    if begins_bundled:
        usual_dir = _usual_output_dir(data_name, {"encoder": LIGHT_ENCODER, **chosen}, None)
        begins_bundled = not team.tell(began_from_scratch(output_dir or usual_dir))
        begins_bundled = begins_bundled and _suits_bundled(images, chosen, say)
    initial_model = _as_captioner(PRETRAINED / DEFAULT_MODEL if begins_bundled else initial_model, encoder_weights)
    if encoder is None and initial_model is None:
        before = None if output_dir is None else noted_encoder(output_dir)
        encoder = arguments["encoder"] = chosen["encoder"] = team.tell(before or usual_encoder(data))
        if before is None and encoder == LIGHT_ENCODER:
            say(WITHOUT_GPU)
    team.check_encoder(encoder, encoder_training)
    for line in _known_before(initial_model, images):
        say(line)
    arguments = _settled(arguments, OWN_PHOTOS if begins_bundled else FROM_SCRATCH)
    output_dir = Path(output_dir or _usual_output_dir(data_name, chosen, initial_model)).expanduser()
    _check_cache_dir(cache_dir, output_dir)
    photos = TrainingPhotos(images, data_dir, cache_dir, output_dir, skip_unreadable, show_progress, team)
    usual = {name: parameter.default for name, parameter in inspect.signature(fit).parameters.items()}
    plan = SimpleNamespace(
        **arguments, arguments=arguments, usual={**usual, **FROM_SCRATCH}, chosen=chosen, initial_model=initial_model,
        keeps_initial_model=begins_bundled, images=images, photos=photos, data_name=data_name, callbacks=callbacks,
        show_progress=show_progress, say=say, team=team, was_interrupted=False,
    )  # fmt: skip
    if deterministic:
        tf.config.experimental.enable_op_determinism()
    with team.folder(output_dir) as plan.output_dir, team.scope(), _lock(plan.output_dir):
        captioner, is_whole, figures = initial_model, True, []
        if plan.epochs:
            captioner, is_whole, figures = _train_on_words(plan)
        if self_critical_epochs and is_whole:
            captioner, _, further = _train_on_rewards(plan, captioner)
            figures = [*figures, *further]
        captioner.history = parts.Curves(figures, was_interrupted=plan.was_interrupted)
        return captioner


_NOT_ABOUT_THE_RESULT = (
    "data",
    "data_dir",
    "initial_model",
    "from_scratch",
    "cache_dir",
    "output_dir",
    "callbacks",
    "show_progress",
    "strategy",
)
_SELF_CRITICAL = (
    "self_critical_epochs",
    "self_critical_rate",
    "num_drawn",
    "reward_baseline",
    "drawing_temperature",
)


def _lock(folder):
    return exclusive_lock(folder / "lock", f"is training in {folder}")


def _train_on_words(plan):
    """Train with cross-entropy; return what `Training.run` does."""
    arguments = {name: value for name, value in plan.arguments.items() if name not in _SELF_CRITICAL}
    training = Training(plan, plan.output_dir, plan.epochs)
    further, _ = read_checkpoint(plan.output_dir / SELF_CRITICAL_FOLDER / "checkpoint")
    if further and not training.has_ended:
        raise ValueError(
            f"Self-critical training has begun here with the captioner of {len(training.epochs)} epochs. For more of "
            f"them choose another output_dir, with initial_model={str(plan.output_dir / 'model')!r}. "
            f"Received: epochs={plan.epochs}, patience={plan.patience}"
        )
    training.note(describe(arguments, plan.images, plan.initial_model))
    if training.has_ended:
        return training.loaded()
    keras.utils.set_random_seed(plan.seed)
    vocabulary = Vocabulary.build(plan.images, min_count=plan.min_count, max_size=plan.max_words)
    if plan.initial_model is None:
        options = {"encoder_weights": plan.encoder_weights, "seed": plan.seed, **plan.chosen}
        captioner = Captioner(vocabulary, **options)
    else:
        captioner = _continued(plan.initial_model, vocabulary, {"seed": plan.seed, **plan.chosen})
    WeightUpdates(encoder_rate=plan.encoder_rate).check_rate(captioner)
    for line in _summary(plan.data_name, plan.images, captioner, plan.num_views, plan.output_dir, plan.team):
        plan.say(line)
    plan.photos.prepare(captioner, plan.num_views)
    batches = plan.photos.batches("train", captioner, plan, first_epoch=len(training.epochs))
    num_steps = plan.epochs * plan.team.num_steps(batches)
    rate = _learning_rate(plan.learning_rate, plan.schedule, plan.warmup_steps, num_steps)
    captioner.compile(_fresh(plan.optimizer), learning_rate=rate, **_optimizer_options(plan))
    if plan.keeps_initial_model and not _begins_with(training, captioner, cross_entropy=True):
        return captioner, False, []
    captioner.note_training_photos([image.image_id for image in plan.photos.of_split("train")])
    steps = [parts.BeginWithExpectations(plan.expectation_epochs)] if captioner.samples_attention else []
    return training.run(captioner, batches, steps)


def _train_on_rewards(plan, before):
    """Train a captioner on with CIDEr as its reward; return what `Training.run` does."""
    names = ("batch_size", "seed", "deterministic", "optimizer", "clip_norm", "weight_decay", "average_momentum")
    names += ("encoder_rate", "patience", "num_beams", "max_length", *_SELF_CRITICAL)
    arguments = {name: plan.arguments[name] for name in names}
    arguments |= {"epochs": arguments.pop("self_critical_epochs"), "schedule": "constant"}
    # What the first kind of epochs was given has been taken in; only the precision is not part of a saved captioner.
    options = {name: value for name, value in plan.chosen.items() if name == "dtype" or not plan.epochs}
    arguments["captioner_options"] = {"dtype": options.get("dtype")}
    keras.utils.set_random_seed(plan.seed)
    captioner = before.adapted(**{"seed": plan.seed, **options})
    WeightUpdates(encoder_rate=plan.encoder_rate).check_rate(captioner)
    folder = plan.output_dir / SELF_CRITICAL_FOLDER
    training = Training(plan, folder, plan.self_critical_epochs, kind="self-critical ", monitored="val_cider")
    training.note(describe(arguments, plan.images, captioner))
    if training.has_ended:
        return training.loaded()
    if not plan.epochs:
        for line in _summary(plan.data_name, plan.images, captioner, 1, folder, plan.team):
            plan.say(line)
    plan.photos.prepare(captioner, num_views=1)
    if not _begins_with(training, captioner):
        return before, False, []
    captioner.note_training_photos([image.image_id for image in plan.photos.of_split("train")])
    first_epoch = len(training.epochs)
    batches = plan.photos.batches("train", captioner, plan, group_by="image", whole=True, first_epoch=first_epoch)
    captions = [image.captions for image in plan.photos.of_split("train")]
    drawing = {"num_drawn": plan.num_drawn, "reward_baseline": plan.reward_baseline}
    drawing |= {"temperature": plan.drawing_temperature, "max_length": plan.max_length}
    objective = SelfCritical(captions, captioner.vocabulary, **drawing)
    optimizer = _fresh(plan.optimizer, learning_rate=plan.self_critical_rate)
    options = {"learning_rate": plan.self_critical_rate, "training_objective": objective}
    captioner.compile(optimizer, **options, **_optimizer_options(plan))
    return training.run(captioner, batches)


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


def _optimizer_options(plan):
    names = ("clip_norm", "weight_decay", "average_momentum", "encoder_rate")
    return {name: plan.arguments[name] for name in names}


def _say_nothing(line):
    pass


def _check(
    *,
    epochs,
    self_critical_epochs,
    num_beams,
    max_length,
    num_views,
    warmup_steps,
    expectation_epochs,
    patience,
    seed,
    batch_size,
    group_by,
    schedule,
    learning_rate,
    self_critical_rate,
    num_drawn,
    reward_baseline,
    drawing_temperature,
):
    """Refuse at once what would otherwise be noticed after an epoch, or never."""
    if schedule not in SCHEDULES:
        raise ValueError(f"Expected one of: {', '.join(SCHEDULES)}. Received: schedule={schedule!r}")
    if group_by not in GROUPINGS:
        raise ValueError(f"Expected one of: {', '.join(GROUPINGS)}. Received: group_by={group_by!r}")
    check_counts(batch_size=batch_size, num_beams=num_beams, max_length=max_length, num_views=num_views)
    check_counts(0, epochs=epochs, self_critical_epochs=self_critical_epochs)
    check_counts(0, warmup_steps=warmup_steps, expectation_epochs=expectation_epochs)
    check_counts(0, 2**32 - 1, seed=seed)
    if patience is not None:
        check_counts(patience=patience)
    check_learning_rate(learning_rate)
    check_above_zero(self_critical_rate=self_critical_rate)
    check_above_zero(drawing_temperature=drawing_temperature)
    check_drawing(num_drawn=num_drawn, reward_baseline=reward_baseline)


def _settled(arguments, usual):
    """Return the arguments with the usual ones where none was given."""
    return {**arguments, **{name: value for name, value in usual.items() if arguments[name] is None}}


def _check_cache_dir(cache_dir, output_dir):
    """Refuse folders that lock or refuse each other: a training's own, and those of its models."""
    if not cache_dir:
        return
    taken = (output_dir, output_dir / "model", output_dir / SELF_CRITICAL_FOLDER / "model")
    if os.path.realpath(Path(cache_dir).expanduser()) in map(os.path.realpath, taken):
        raise ValueError(
            "The features need a folder of their own: the training, or its model, has this one. "
            f"Received: cache_dir={str(cache_dir)!r} with output_dir={str(output_dir)!r}"
        )


def _usual_output_dir(data_name, chosen, initial_model):
    before = {} if initial_model is None else initial_model.get_config()
    encoder, attention = (
        chosen.get(name) or before.get(name) or usual for name, usual in (("encoder", "vgg16"), ("attention", "soft"))
    )
    return f"runs/{data_name}-{getattr(encoder, 'name', encoder)}-{attention}"


# === The captioner ===


def _fresh(optimizer, **changes):
    """Return an optimizer that has not been used: one that was passed may belong to another training already."""
    if isinstance(optimizer, keras.optimizers.Optimizer):
        return type(optimizer).from_config({**optimizer.get_config(), **changes})
    return optimizer


def _as_captioner(model, encoder_weights):
    if model is None or isinstance(model, Captioner):
        return model
    weights = None if encoder_weights == "imagenet" else encoder_weights
    return Captioner.from_pretrained(model, encoder_weights=weights)


def _suits_bundled(images, chosen, say):
    """Return whether a folder of photos goes on from the bundled captioner: few photos, and no other parts or sizes."""
    num_train = sum(image.split == "train" for image in images)
    if num_train >= MANY_PHOTOS:
        say(f"begins from scratch: {num_train} photos to train on are enough for that")
        return False
    before = read_model(PRETRAINED / DEFAULT_MODEL)[0]["captioner"]
    for name, value in chosen.items():
        if name not in MAY_CHANGE.split() and (name not in before or value != before[name]) or value == "none":
            has = f"has {before[name]!r}" if name in before else "has none"
            value = getattr(value, "name", value)
            say(f"begins from scratch, for {name} is {value!r}: the bundled captioner, {DEFAULT_MODEL}, {has}")
            return False
    say(
        f"begins from the bundled captioner, {DEFAULT_MODEL}, whose weights are for research and education only, not "
        "for commercial use (docs/model-card.md); from_scratch (--from-scratch) does without"
    )
    return True


def _known_before(initial_model, images):
    """Yield a line where the captioner to begin from has learnt photos of dev or test: scores on them flatter it."""
    kept_apart = [image.image_id for image in images if image.split in ("dev", "test")]
    learnt = [] if initial_model is None else learnt_of(kept_apart, initial_model.training_photos)
    if learnt:
        yield (
            f"warning: the captioner that it goes on from has learnt {len(learnt)} of the {len(kept_apart)} photos "
            "of dev and test (or others of their names): scores on them are better than on photos that it has not seen"
        )


def _continued(captioner, vocabulary, options):
    """Return a captioner that goes on from another, with its words and the new ones."""
    new_words = [word for word in vocabulary.words if word not in captioner.vocabulary]
    return captioner.adapted(Vocabulary([*captioner.vocabulary.words, *new_words]), **options)


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


# === What is going to happen ===


def _summary(data_name, images, captioner, num_views, output_dir, team):
    """Return the lines that say what a training will do before it begins."""
    counts = []
    for split in ("train", "dev", "test"):
        chosen = [image for image in images if image.split == split]
        if not chosen:
            continue
        counts.append(f"{len(chosen)} photos with {sum(len(image.captions) for image in chosen)} captions in {split}")
    yield f"data: {data_name}: {', '.join(counts)}"
    if not any(image.split == "dev" for image in images):
        yield "there are no dev photos to tell the best epoch by: the last one is kept (split_seed draws a dev split)"
    num_train = sum(image.split == "train" for image in images)
    if num_train < FEWEST_PHOTOS:
        yield f"warning: only {num_train} photos to train on; fewer than {FEWEST_PHOTOS} teach next to nothing"
    words = captioner.vocabulary
    dev = [caption for image in images if image.split == "dev" for caption in image.captions]
    unknown = f"; it lacks {100 * words.unknown_share(dev):.1f} % of the words of dev" if dev else ""
    yield f"vocabulary: {len(words.words)} words{unknown}"
    _, rows, columns, feature_dim = captioner.encoder_model.output_shape
    size = (len(images) + (num_views - 1) * num_train) * rows * columns * feature_dim * 2
    frozen = captioner.encoder_training == "frozen"
    what = (
        f"features of all photos are built once and take {size / 1e9:.2f} GB" if frozen else captioner.encoder_training
    )
    yield f"encoder: {captioner.encoder}, {rows} x {columns} x {feature_dim}; {what}"
    decoder = captioner.decoder
    kind = (
        "no attention" if decoder.attention == "none" else f"{decoder.attention} attention, {decoder.scoring} scoring"
    )
    yield f"captioner: {kind}, {decoder.cell.upper()} of {decoder.hidden_dim}"
    gpus = tf.config.list_physical_devices("GPU")
    devices = f"{len(gpus)} GPU" if gpus else f"CPU, {os.cpu_count()} cores"
    if team.shares is not None:
        hosts = f" of {team.num_hosts} hosts" if team.num_hosts > 1 else ""
        devices = f"{team.shares[1]} device{'s' * (team.shares[1] > 1)}{hosts}"
    yield f"on {devices}; everything is kept in {output_dir}"
