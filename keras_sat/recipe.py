"""The whole of a training in one call, made of public parts only: data, vocabulary, features, batches, captioner."""

import inspect
import json
import math
import numbers
import os
import warnings
import zlib
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from data_utils.batches import make_batches
from data_utils.feature_cache import FeatureCache
from data_utils.files import exclusive_lock, read_sealed_json, write_sealed_json
from data_utils.images import readable_photos
from data_utils.sources import photos_of_split, read_data
from data_utils.vocabulary import Vocabulary
from keras_sat import callbacks as parts
from keras_sat.captioner import Captioner, check_rates
from keras_sat.checkpoint import read_checkpoint, restore_state

SCHEDULES = ("constant", "cosine")
KEEP_IMAGES_BYTES = 1_000_000_000


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
    epochs=20,
    batch_size=64,
    group_by="length",
    seed=0,
    optimizer="adam",
    learning_rate=4e-4,
    schedule="constant",
    warmup_steps=0,
    clip_norm=5.0,
    weight_decay=None,
    average_momentum=None,
    encoder_rate=1.0,
    num_views=1,
    patience=5,
    min_count=1,
    max_words=10_000,
    expectation_epochs=0,
    num_beams=1,
    max_length=20,
    cache_dir=None,
    skip_unreadable=False,
    output_dir=None,
    callbacks=(),
    show_progress=True,
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
        encoder, encoder_layer, encoder_weights, encoder_training, image_size: see Captioner; the encoder is "vgg16"
            unless another is named. The features of a frozen encoder are built once; one that is trained gets the
            photos themselves.
        attention, scoring, cell: see CaptionDecoder; "soft", "additive" and "lstm" unless others are named.
        initial_model: go on from this captioner: a Captioner, the folder of a saved one, or a pretrained name. Encoder
            and sizes are its own; the words that it does not know are added to its vocabulary. Other options may
            change: attention="hard" goes on from soft attention.
        epochs: passes over the training captions, at most.
        batch_size, group_by: see make_batches.
        seed: of the initial weights, the order of the batches, and all else that is drawn.
        optimizer, learning_rate, clip_norm: see Captioner.compile.
        weight_decay, average_momentum, encoder_rate: see Captioner.compile.
        num_views: views of each training photo, see `data_utils.views`: 2 adds the mirrored photo, more add parts of
            it. Each time a photo is shown, one of them is drawn. Features take so many times the room.
        schedule: "constant", or "cosine": the learning rate falls to 0 over all epochs.
        warmup_steps: let the learning rate rise from 0 over so many updates first.
        patience: stop after so many epochs without a better BLEU-4 on the dev split; None: never.
        min_count, max_words: which words the vocabulary keeps, see Vocabulary.build.
        expectation_epochs: train hard attention with expectations only in so many epochs, before it draws samples.
        num_beams, max_length: of the captions of the dev split after each epoch.
        cache_dir: the folder of the features; None: beside the photos in `data_dir`, or in `output_dir`.
        skip_unreadable: leave out photos that cannot be read instead of stopping.
        output_dir: the folder for the model and all that is needed to go on; None: runs/DATA-ENCODER-ATTENTION.
        callbacks: further Keras callbacks, called after the scores and before anything is kept.
        show_progress: False keeps it silent.
        **captioner_options: further options of Captioner and CaptionDecoder.

    Returns: Captioner; its `history` is a mapping from the name of a figure to its value in each epoch.
    """
    arguments = {name: value for name, value in locals().items() if name not in _NOT_ABOUT_THE_RESULT}
    _check(
        epochs, schedule, warmup_steps, expectation_epochs, patience, learning_rate, num_beams, max_length, num_views
    )
    check_rates(average_momentum=average_momentum, encoder_rate=encoder_rate, weight_decay=weight_decay)
    say = print if show_progress else _say_nothing
    images = read_data(data, data_dir, split_seed=split_seed, show_progress=show_progress)
    images = [image for image in images if image.captions]
    photos_of_split(images, "train")  # refuses data that has none
    initial_model = _as_captioner(initial_model, encoder_weights)
    data_name = data if isinstance(data, str) else "photos"
    named = {"encoder": encoder, "encoder_layer": encoder_layer, "encoder_training": encoder_training}
    named |= {"image_size": image_size, "attention": attention, "scoring": scoring, "cell": cell}
    chosen = {name: value for name, value in named.items() if value is not None} | captioner_options
    output_dir = Path(output_dir or _usual_output_dir(data_name, chosen, initial_model)).expanduser()

    with exclusive_lock(output_dir / "lock", f"is training in {output_dir}"):
        epochs_before, state = read_checkpoint(output_dir / "checkpoint")
        _refuse_other_arguments(output_dir, _described(arguments, images, initial_model), epochs_before)
        if epochs_before:
            parts.write_history(output_dir / "history.csv", epochs_before)
        if len(epochs_before) >= epochs or parts.is_at_its_best(epochs_before, patience):
            say(
                f"{output_dir}: this training has ended after {len(epochs_before)} epochs; the best captioner is loaded"
            )
            own = encoder if isinstance(encoder, keras.Model) else None
            captioner = Captioner.load(output_dir / "model", encoder=own)
            captioner.history = parts.Curves(epochs_before)
            return captioner

        keras.utils.set_random_seed(seed)
        vocabulary = Vocabulary.build(images, min_count=min_count, max_size=max_words)
        if initial_model is None:
            captioner = Captioner(vocabulary, encoder_weights=encoder_weights, seed=seed, **chosen)
        else:
            captioner = _continued(initial_model, vocabulary, {"seed": seed, **chosen})
        captioner.check_encoder_rate(encoder_rate)
        for line in _summary(data_name, images, captioner, num_views, output_dir):
            say(line)

        cache, views, photo_options = None, None, {}
        if captioner.encoder_training == "frozen":
            cache_dir = cache_dir or _usual_cache_dir(captioner, data_dir, output_dir)
            cache = _built_cache(cache_dir, images, captioner, skip_unreadable, show_progress)
            images = [image for image in images if image.image_id not in cache.unreadable]
            views = [cache, *_built_views(cache_dir, images, captioner, num_views, show_progress)]
        else:
            if num_views > 1:
                raise ValueError(
                    "Views are for features that are kept; an encoder that is trained gets the photos themselves. "
                    f"Received: num_views={num_views} with encoder_training={captioner.encoder_training!r}"
                )
            images = readable_photos(images, skip=skip_unreadable, show_progress=show_progress)
            photo_options = _photo_options(captioner, images)
        train_images = photos_of_split(images, "train")
        dev_images = [image for image in images if image.split == "dev"]
        options = {"batch_size": batch_size, "group_by": group_by, "seed": seed, **photo_options}
        first_epoch = len(epochs_before)
        batches = make_batches(train_images, captioner.vocabulary, views, first_epoch=first_epoch, **options)
        dev_batches = None
        if dev_images:
            dev_batches = make_batches(dev_images, captioner.vocabulary, cache, shuffle=False, **options)

        rate = _learning_rate(learning_rate, schedule, warmup_steps, epochs * len(batches))
        further = {"clip_norm": clip_norm, "weight_decay": weight_decay, "average_momentum": average_momentum}
        further["encoder_rate"] = encoder_rate
        captioner.compile(_fresh(optimizer), learning_rate=rate, **further)
        captioner.build_for(batches)
        if state:
            restore_state(captioner, state)
            say(f"goes on after epoch {len(epochs_before)}")
        search_options = {"cache": cache, "num_beams": num_beams, "max_length": max_length}
        lost, keep = parts.StopWhenLost(), parts.KeepTraining(output_dir, epochs=epochs_before, patience=patience)
        steps = [lost]
        if captioner.samples_attention:
            steps.append(parts.BeginWithExpectations(expectation_epochs))
        if dev_images:
            steps.append(parts.ScoreCaptions(dev_images, **search_options))
        if show_progress:
            steps.append(parts.ShowProgress(epochs, epochs=epochs_before))
            steps.append(parts.ShowCaptions(dev_images or train_images, **search_options))
        try:
            captioner.fit(
                batches,
                validation_data=dev_batches,
                initial_epoch=len(epochs_before),
                epochs=epochs,
                callbacks=[*steps, *callbacks, keep],
                verbose=0,
            )
        except KeyboardInterrupt:
            if keep.epochs:
                say("\nstopped; called again with the same arguments, it goes on after the last complete epoch")
        return _best(captioner, output_dir, keep.epochs, lost.is_lost, say)


_NOT_ABOUT_THE_RESULT = ("data", "data_dir", "initial_model", "cache_dir", "output_dir", "callbacks", "show_progress")


def _say_nothing(line):
    pass


def _check(
    epochs, schedule, warmup_steps, expectation_epochs, patience, learning_rate, num_beams, max_length, num_views
):
    """Refuse at once what would otherwise be noticed after an epoch, or never."""
    if schedule not in SCHEDULES:
        raise ValueError(f"Expected one of: {', '.join(SCHEDULES)}. Received: schedule={schedule!r}")
    least = {"epochs": (epochs, 1), "num_beams": (num_beams, 1), "max_length": (max_length, 1)}
    least |= {"num_views": (num_views, 1)}
    least |= {"warmup_steps": (warmup_steps, 0), "expectation_epochs": (expectation_epochs, 0)}
    least |= {} if patience is None else {"patience": (patience, 1)}
    for name, (value, limit) in least.items():
        if not isinstance(value, numbers.Integral) or value < limit:
            raise ValueError(f"`{name}` must be a whole number of at least {limit}. Received: {name}={value!r}")
    if isinstance(learning_rate, numbers.Real) and not 0 < learning_rate < math.inf:
        raise ValueError(f"`learning_rate` must be above 0. Received: learning_rate={learning_rate!r}")


def _usual_output_dir(data_name, chosen, initial_model):
    before = {} if initial_model is None else initial_model.get_config()
    encoder, attention = (
        chosen.get(name) or before.get(name) or usual for name, usual in (("encoder", "vgg16"), ("attention", "soft"))
    )
    return f"runs/{data_name}-{getattr(encoder, 'name', encoder)}-{attention}"


# === The same training as before? ===


def _described(arguments, images, initial_model):
    """Return what the result depends on, as JSON can hold it."""
    photos = [[image.image_id, image.captions, image.split, _picture(image.image_path)] for image in images]
    described = {"data": f"{len(images)} photos, checksum {zlib.crc32(json.dumps(photos).encode()):08x}"}
    described["initial_model"] = None
    if initial_model is not None:
        settings = json.dumps(initial_model.get_config(), sort_keys=True, default=repr)
        described["initial_model"] = f"{initial_model.weights_digest()}-{zlib.crc32(settings.encode()):08x}"
    described |= {**arguments, **arguments["captioner_options"]}
    del described["captioner_options"]
    return json.loads(json.dumps(described, default=_as_json))


def _picture(path):
    """Return what tells a picture from another one at low cost: the size of its file, or the checksum of an array."""
    if not isinstance(path, (str, os.PathLike)):
        return zlib.crc32(np.ascontiguousarray(path))
    try:
        return os.path.getsize(os.path.expanduser(path))
    except OSError:
        return None


def _as_json(value):
    """Return an argument that is an object as plain values that are the same in every process."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, keras.Model):
        digest = 0
        for weight in value.weights:
            digest = zlib.crc32(np.ascontiguousarray(weight.numpy()), digest)
        return f"a keras.Model {value.input_shape} to {value.output_shape}, checksum {digest:08x}"
    if hasattr(value, "get_config"):
        config = {name: option for name, option in value.get_config().items() if name != "name"}
        return {"class": type(value).__name__, **config}
    return getattr(value, "__qualname__", type(value).__name__)


def _fresh(optimizer):
    """Return an optimizer that has not been used: one that was passed may belong to another training already."""
    if isinstance(optimizer, keras.optimizers.Optimizer):
        return type(optimizer).from_config(optimizer.get_config())
    return optimizer


def _refuse_other_arguments(output_dir, described, epochs):
    """Note the arguments of a training in its folder; refuse a folder where other ones are noted, once it has begun."""
    path = output_dir / "arguments.json"
    if not path.exists():
        foreign = [name for name in ("model", "checkpoint", "history.csv", "logs") if (output_dir / name).exists()]
        if foreign:
            raise ValueError(
                f"The folder holds a {foreign[0]} that no training of keras_sat left there. Choose another one. "
                f"Received: output_dir={str(output_dir)!r}"
            )
    if not epochs:  # nothing has been reached yet that other arguments could spoil
        write_sealed_json(path, described)
        return
    usual = {name: parameter.default for name, parameter in inspect.signature(fit).parameters.items()}
    before = {**usual, **read_sealed_json(path, "the arguments of a training")}  # of a version with fewer arguments
    names = [name for name in described if before.get(name) != described[name]]
    names += [name for name in before if name not in described and name not in usual]
    # When to stop may change, unless the learning rate depends on it: the epochs so far would have been the same.
    if {*names} <= ({"epochs", "patience"} if described["schedule"] == "constant" else {"patience"}):
        write_sealed_json(path, described)
        return
    differences = "; ".join(f"{name} was {before.get(name)!r} and is {described.get(name)!r}" for name in names)
    raise ValueError(
        f"In this folder lies a training with other arguments: {differences}. Pass the same ones to go on with it, "
        "or another output_dir to begin anew (initial_model=FOLDER/model goes on from its weights). "
        f"Received: output_dir={str(output_dir)!r}"
    )


# === The captioner ===


def _as_captioner(model, encoder_weights):
    if model is None or isinstance(model, Captioner):
        return model
    weights = None if encoder_weights == "imagenet" else encoder_weights
    return load_captioner(model, encoder_weights=weights)


def load_captioner(model, **options):
    """Return the captioner of a folder, or the pretrained one of that name.

    Args:
        model: the folder that `Captioner.save` wrote, or a name for `Captioner.from_pretrained`.
        **options: see `Captioner.load`.
    """
    if Path(model).expanduser().is_dir():
        return Captioner.load(model, **options)
    try:
        return Captioner.from_pretrained(os.fspath(model), **options)
    except ValueError as error:
        raise ValueError(f"There is no folder of that name, and no pretrained model. {error}") from None


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


def _built_cache(cache_dir, images, captioner, skip_unreadable, show_progress):
    """Return the FeatureCache of all photos, those of the test split too: `evaluate` will want them."""
    return FeatureCache.build(
        cache_dir,
        [image.image_id for image in images],
        [image.image_path for image in images],
        captioner.encoder_model,
        errors="skip" if skip_unreadable else "raise",
        show_progress=show_progress,
    )


def _built_views(cache_dir, images, captioner, num_views, show_progress):
    """Return a FeatureCache for each further view of the training photos."""
    train = [image for image in images if image.split == "train"]
    ids = [image.image_id for image in train]
    arguments = ids, [image.image_path for image in train], captioner.encoder_model
    digest = f"{zlib.crc32(json.dumps(ids).encode()):08x}"  # another split has other photos to train on
    return [
        FeatureCache.build(Path(cache_dir) / f"view{view}-{digest}", *arguments, view=view, show_progress=show_progress)
        for view in range(1, num_views)
    ]


def _photo_options(captioner, images):
    """Return the options of make_batches for photos: those on the disk stay in memory, if they are not too many."""
    height, width = captioner.encoder_model.input_shape[1:3]
    fit_in = len(images) * height * width * 3 <= KEEP_IMAGES_BYTES
    on_disk = isinstance(images[0].image_path, (str, os.PathLike))
    return {"image_size": (height, width), "keep_images": fit_in and on_disk}


def _usual_cache_dir(captioner, data_dir, output_dir):
    if data_dir is None:
        return output_dir / "features"
    size = captioner.image_size
    chosen = (
        captioner.encoder,
        captioner.encoder_layer,
        size and "x".join(map(str, [size] if isinstance(size, int) else size)),
    )
    return Path(data_dir).expanduser() / "-".join(["features", *filter(None, chosen)])


def _best(captioner, output_dir, epochs, is_lost, say):
    """Return the captioner with the weights of its best epoch."""
    captioner.history = parts.Curves(epochs)
    captioner.expectation_share.assign(captioner.expectation_probability)
    advice = "Lower the learning rate, or clip_norm, and train into another output_dir."
    if not epochs:
        if is_lost:
            raise ValueError(f"The loss became infinite or no number in the first epoch: nothing was learnt. {advice}")
        warnings.warn("Stopped before the first epoch was complete: nothing is kept on the disk.", stacklevel=3)
        return captioner
    best = parts.best_epoch(epochs)
    if is_lost:
        warnings.warn(
            f"The loss became infinite or no number in epoch {len(epochs) + 1}. The captioner of epoch {best + 1}, the "
            f"best one, is returned. {advice}",
            stacklevel=3,
        )
    captioner.restore_weights(output_dir / "model")
    score = f", BLEU-4 {100 * epochs[best][parts.MONITORED]:.1f} on dev" if parts.MONITORED in epochs[best] else ""
    say(f"the best of {len(epochs)} epochs was {best + 1}{score}; it is saved in {output_dir / 'model'}")
    return captioner


# === What is going to happen ===


def _summary(data_name, images, captioner, num_views, output_dir):
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
    words = captioner.vocabulary
    dev = [caption for image in images if image.split == "dev" for caption in image.captions]
    unknown = f"; it lacks {100 * words.unknown_share(dev):.1f} % of the words of dev" if dev else ""
    yield f"vocabulary: {len(words.words)} words{unknown}"
    _, rows, columns, feature_dim = captioner.encoder_model.output_shape
    num_train = sum(image.split == "train" for image in images)
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
    yield f"on {f'{len(gpus)} GPU' if gpus else f'CPU, {os.cpu_count()} cores'}; everything is kept in {output_dir}"
