"""A whole training in one call, made of public parts only: data, vocabulary, features, batches, captioner."""

import warnings
from pathlib import Path
from types import NoneType

import tensorflow as tf

from data_utils.datasets.boxes import boxes_of
from data_utils.datasets.read import photos_of_split, read_data
from data_utils.files import exclusive_lock
from keras_sat.beyond import FURTHER_EPOCHS
from keras_sat.beyond.calibration import FEWEST_PHOTOS, calibrate
from keras_sat.captioner import Captioner
from keras_sat.files.saving import save_confidence
from keras_sat.options import CaptionerOptions, TrainingOptions, with_options
from keras_sat.presets import OWN_PHOTOS
from keras_sat.scoring.evaluate import learnt_photos
from keras_sat.training.epochs import further_folder, train_further, train_on_words
from keras_sat.training.folder import checksum
from keras_sat.training.history import Curves
from keras_sat.training.photos import TrainingPhotos
from keras_sat.training.plan import Asked, Plan, without_usual
from keras_sat.training.summary import learnt_before
from keras_sat.training.team import Team
from keras_sat.training.usual import bundled_to_begin_from, encoder_or_usual, preset_or_usual, usual_output_dir


@with_options(TrainingOptions, *(epochs.options for epochs in FURTHER_EPOCHS.values()), CaptionerOptions)
def fit(
    data,
    *,
    data_dir=None,
    split_seed=None,
    preset=None,
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

        captioner = keras_sat.fit("flickr8k", data_dir="flickr8k", output_dir="runs/flickr8k")
        print(captioner.caption("photo.jpg").caption)
        captioner = keras_sat.fit("folder", data_dir="my_photos", split_seed=0, attention="hard", epochs=5)

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
    `keras_sat.beyond.calibration`.

    `steady_epochs`, see `keras_sat.beyond.consistency`, come after the `epochs`: an encoder that is trained along
    learns to give the same features of photos in another size and light. They are a training of their own in the
    folder steady of `output_dir`; the best of them by CIDEr is kept.

    `self_critical_epochs` have CIDEr as the reward of whole captions, on whole photos, see
    `keras_sat.beyond.self_critical`. They are a training of their own in the folder self_critical of `output_dir`:
    the captioner from before stays where it is, and is returned where no epoch has a better CIDEr on the dev split. The
    attention penalty, label smoothing, and dropout of words and of word vectors have no place in them.

    Args:
        data: a name in DATASETS, or a list of CaptionedImage. Training is on the split "train"; the captions of the
            split "dev" decide which epoch is the best.
        data_dir: the folder of the data set, which is downloaded there if it can be.
        split_seed: draw a split of 80/10/10 by photo with this seed.
        preset: a name in `keras_sat.PRESETS`: settings to begin with, which other options change. None: those of the
            data set and its encoder ("flickr8k-efficientnet_lite0"), or of the data set ("flickr8k"), as far as the
            other options leave them room, and a line says so; the defaults below for other data, and with an
            `initial_model`. "default": the defaults below for all.
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
    team = Team(strategy)
    show_progress = show_progress and team.is_chief
    say = print if show_progress else lambda line: None
    options = without_usual(options)
    settings, line = preset_or_usual(preset, data, options, initial_model, output_dir, team)
    options = {**settings, **options}
    asked = Asked.of(options)
    if preset not in (None, "default") and data == "folder" and initial_model is None:
        from_scratch = True  # which is what the settings of a preset are for
    asked.check(initial_model, from_scratch, boxes=boxes)
    if line is not None:
        say(line)
    with team.in_turn():
        images = read_data(data, data_dir, split_seed=split_seed, show_progress=show_progress)
    images = [image for image in images if image.captions]
    train_images = photos_of_split(images, "train")  # rejects data without any

    data_name = data if isinstance(data, str) else "photos"
    is_bundled = False
    if initial_model is None and not from_scratch and data_name == "folder":
        initial_model = bundled_to_begin_from(images, asked, say)
        if is_bundled := initial_model is not None:
            asked = Asked.of({**OWN_PHOTOS, **options})
    if not isinstance(initial_model, (Captioner, NoneType)):
        weights = None if asked.encoder_weights == "imagenet" else asked.encoder_weights
        initial_model = Captioner.from_pretrained(initial_model, encoder_weights=weights)
    if initial_model is None and "encoder" not in asked.captioner:
        asked = Asked.of({**options, "encoder": encoder_or_usual(data, output_dir, team, say)})
    team.check_encoder(asked.captioner.get("encoder"), asked.captioner.get("encoder_training"))
    for line in learnt_before(initial_model, images):
        say(line)

    folder = Path(output_dir or usual_output_dir(data_name, asked.captioner, initial_model)).expanduser()
    photos = TrainingPhotos(images, data_dir, cache_dir, folder, skip_unreadable, show_progress, team)
    if boxes is not None:
        photos.boxes = boxes_of(boxes, train_images)
    photos.check_cache_dir(*(each / "model" for each in (folder, *(further_folder(folder, n) for n in FURTHER_EPOCHS))))
    noted = {"split_seed": split_seed, "skip_unreadable": skip_unreadable}
    noted["boxes"] = None if photos.boxes is None else checksum(str(photos.boxes.phrases))
    plan = Plan(
        asked, initial_model, is_bundled, data_name, images, noted, photos, team, folder, callbacks, show_progress
    )
    if plan.options.deterministic:
        tf.config.experimental.enable_op_determinism()
    with team.folder(folder) as place, team.scope(), exclusive_lock(place / "lock", f"is training in {place}"):
        plan.folder = place
        return _train(plan)


def _train(plan):
    """Train on words and then further, each where it was asked for; return the captioner with its history."""
    captioner, is_whole, figures, folder = plan.initial_model, True, [], plan.folder
    if plan.options.epochs:
        captioner, is_whole, figures = train_on_words(plan)
    for name in FURTHER_EPOCHS:
        if is_whole and plan.asked.num_further(name):
            captioner, is_whole, further = train_further(plan, name, captioner)
            figures, folder = [*figures, *further], further_folder(plan.folder, name)
    if is_whole:
        _calibrate(plan, captioner, folder / "model")
    captioner.history = Curves(figures, was_interrupted=plan.was_interrupted)
    return captioner


def _calibrate(plan, captioner, folder):
    """Let the captioner learn how far its captions can be trusted, and keep that with it; once, on a single host.

    Whatever goes wrong, the trained captioner is returned.
    """
    dev_images = plan.photos.of_split("dev")
    if captioner.confidence is not None or len(dev_images) < FEWEST_PHOTOS or plan.team.num_hosts > 1:
        return
    if learnt_photos(captioner, dev_images):
        return  # it started from a captioner that was trained on them, as `learnt_before` said
    try:
        plan.photos.prepare(captioner, num_views=1)  # a training that has ended was only loaded
        calibration = calibrate(captioner, dev_images, cache=plan.photos.cache, show_progress=plan.show_progress)
        save_confidence(captioner, folder)
    except KeyboardInterrupt:
        plan.was_interrupted = True
        plan.say("stopped before the captions were calibrated; the same call or command does that")
    except (OSError, ValueError) as error:
        warnings.warn(f"The captioner is trained, and has no confidence: {error}", stacklevel=4)
    else:
        plan.say(
            f"confidence: {calibration.are_right.mean():.0%} of the captions of dev are right; its calibration error "
            f"is {100 * calibration.expected_error:.0f} percentage points"
        )
