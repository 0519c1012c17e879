"""The function `fit`, which performs a complete training run, from reading the data to
calibrating the confidence.
"""

import contextlib
import math
import os
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import tensorflow as tf

from data_utils.base import exclusive_lock
from data_utils.captions import CaptionedImage, Skipped, tokenise
from data_utils.datasets import photos_of_split, read_boxes, read_data
from data_utils.seen_photos import seen_in_training
from keras_sat import presets
from keras_sat.after_search import Consensus, calibrate
from keras_sat.captioner import Captioner
from keras_sat.checks import ArgumentError
from keras_sat.files import BUNDLED_MODELS, save_records
from keras_sat.settings import SHOWN_IN_FIT, Encoder, FitSettings, with_options
from keras_sat.training.distributed import Cluster
from keras_sat.training.history import Curves
from keras_sat.training.phases import train_on_rewards, train_on_words
from keras_sat.training.photos import TrainingPhotos
from keras_sat.training.plan import (
    check_required,
    make_plan,
    options_to_set,
    this_computer,
    without_confidence,
    without_index,
)
from keras_sat.training.run import Run
from keras_sat.training.run_record import record_to_resume
from keras_sat.training.summary import photos_seen_before


@with_options(FitSettings, shown=SHOWN_IN_FIT)
def fit(
    data: str | list[CaptionedImage],
    *,
    data_dir: str | os.PathLike | None = None,
    split_seed: int | None = None,
    cache_dir: str | os.PathLike | None = None,
    output_dir: str | os.PathLike | None = None,
    preset: str | None = None,
    initial_model: Any = None,
    from_scratch: bool = False,
    skip_unreadable: bool = False,
    boxes: Any = None,
    callbacks: Any = (),
    show_progress: bool = True,
    strategy: Any = None,
    **options: Any,
) -> Captioner:
    """Train a captioner on photos with captions, and return the captioner of the best
    epoch.

        captioner = keras_sat.fit("flickr8k", data_dir="flickr8k", output_dir="runs/a")
        print(captioner.caption("photo.jpg").caption)
        captioner = keras_sat.fit(
            "folder", data_dir="my_photos", split_seed=0, attention="hard", epochs=5
        )

    The training is saved in `output_dir` after each epoch. Call `fit` with the same
    arguments again to resume it after an interruption, or to load it when finished.
    Ctrl-C ends it and returns the best captioner so far, and `minutes` ends it in time.
    What `fit` would do with other arguments, photos or computers says
    `keras_sat.training.plan.make_plan`.

    The options are listed below, the most used ones first, then by kind. One that is
    not passed, or None, has the preset's value, or with an `initial_model` that of this
    model if it is a captioner's option, or else the default.

    Args:
        data: a name in DATASETS, or a list of CaptionedImage. Training uses the split
            "train"; scores on the split "dev" decide which epoch is the best.
        data_dir: the folder of the data set, which is downloaded there if possible.
        split_seed: make a random 80/10/10 split by photo with this seed.
        cache_dir: the folder of the features; None: in `data_dir`, with the photos, or
            in `output_dir`.
        output_dir: the folder for the model, checkpoints and metrics; None:
            runs/DATA-ENCODER-ATTENTION.
        preset: a name in `keras_sat.PRESETS`; other options override its settings, and
            those that conflict with them are left out. None: the preset of the data
            set ("flickr8k"). "default", other data, or an `initial_model`: no preset.
        initial_model: start from this captioner: a Captioner, the folder of a saved
            one, or a bundled name. It keeps its encoder and sizes, and new words are
            added to its vocabulary. Other options may change: attention="hard" may
            follow soft attention. None: with data="folder" and fewer than
            `presets.MANY_PHOTOS` training photos, the bundled photo captioner, unless
            the options change its network; the defaults are then `presets.OWN_PHOTOS`,
            it is kept if no epoch is better, and cross-entropy on dev chooses the epoch
            if dev is too small for BLEU-4. With any other data: random weights.
        from_scratch: do not start from the bundled captioner.
        skip_unreadable: leave out photos that cannot be read instead of stopping.
        boxes: for `box_weight`: boxes of phrases of the training captions, see
            `data_utils.datasets.phrase_boxes.read_boxes`.
        callbacks: Keras callbacks, called after the scores and before anything is
            saved. Their state is not saved.
        show_progress: False prints nothing.
        strategy: train on several devices: a tf.distribute.MirroredStrategy(), or
            MultiWorkerMirroredStrategy() for several hosts, which all make the same
            call. `batch_size` is over all devices; see docs/distribution.md.
        **options: see the lists by kind.

    Returns: Captioner; its `history` is a mapping from the name of a metric to its
    value in each epoch.

    Without `encoder`, a resumed run keeps its encoder; a new run uses "tiny" for the
    scenes and else "vgg16", on every machine. The features of a frozen encoder are
    computed once; a trained encoder reads the photos in each epoch.

    Without `group_by`, or without those in `presets.OWN_PHOTOS` when training started
    from the bundled captioner, a resumed run keeps the values that it was started with,
    also if later versions have other defaults.

    If `schedule` is "constant", a finished run can be continued with more `epochs`.
    epochs=0 with an `initial_model` runs only the self-critical epochs, and keeps its
    vocabulary. `num_views` (`data_utils.photos.views`) draws one of the views of a
    photo each time, and multiplies the size of the features.

    `self_critical_epochs` (`keras_sat.learning.self_critical`) are a later phase, in
    the folder self_critical of `output_dir`; the best epoch by CIDEr is kept. If none
    has a better CIDEr on the dev split, the previous captioner is returned. Their loss
    has no attention penalty, label smoothing, or dropout of words.

    `deterministic` is a setting of TensorFlow for the rest of the process: the same
    weights bit for bit on the same machine, with the same packages and threads. When
    training is resumed, it can be switched off, but not on.

    At the end, 300 training photos or more are indexed if there is a
    `consensus_weight` (`keras_sat.after_search.consensus`), and the `confidence` is
    fitted on 100 dev photos or more (`keras_sat.after_search.calibration`). With fewer,
    the captioner goes without, and `fit` says so.
    """
    started = time.monotonic()
    if from_scratch and initial_model is not None:
        received = {"from_scratch": from_scratch, "initial_model": initial_model}
        raise ArgumentError(
            "Training starts either from scratch or from a model. Pass only one.", **received
        )
    cluster = Cluster(strategy)
    show_progress = show_progress and cluster.is_chief
    options = options_to_set(options, preset=preset, initial_model=initial_model)
    check_required(options, boxes=boxes)
    computer = this_computer(output_dir, cluster)
    with cluster.one_host_at_a_time():
        images = read_data(data, data_dir, split_seed=split_seed, show_progress=show_progress)
    images = _captioned(images)
    train_images = photos_of_split(images, "train")  # rejects data without any
    initial_model = _loaded(initial_model, options)
    plan = make_plan(
        data if isinstance(data, str) else "photos",
        Counter(image.split for image in images),
        options,
        preset=preset,
        initial_model=initial_model,
        from_scratch=from_scratch,
        output_dir=output_dir,
        **computer,
    )
    plan = plan.resumed(cluster.broadcast(record_to_resume(plan.output_dir)))
    if plan.initial_model == "bundled":
        initial_model = _loaded(BUNDLED_MODELS / presets.DEFAULT_MODEL, options)
    if show_progress:
        for line in [*plan.notes, *photos_seen_before(initial_model, images)]:
            print(line)

    photos = TrainingPhotos(
        images,
        plan.output_dir,
        data_dir=data_dir,
        split_seed=split_seed,
        cache_dir=cache_dir,
        skip_unreadable=skip_unreadable,
        boxes=None if boxes is None else read_boxes(boxes, train_images),
        show_progress=show_progress,
    )
    if plan.settings.training.deterministic:
        tf.config.experimental.enable_op_determinism()
    minutes = plan.settings.training.minutes
    deadline = math.inf if minutes is None else started + 60 * minutes
    with tempfile.TemporaryDirectory() as temporary, cluster.scope():
        # Only the chief saves files.
        folder = plan.output_dir if cluster.is_chief else Path(temporary)
        with exclusive_lock(folder / "lock", f"is training in {folder}"):
            captioner, epochs = initial_model, []
            for phase in plan.phases:
                shared = {"callbacks": callbacks, "deadline": deadline}
                run = Run(plan, phase, photos, cluster, folder, start=captioner, **shared)
                train = train_on_words if phase == plan.words else train_on_rewards
                captioner = train(run)
                epochs += run.epochs
                if not run.is_whole:
                    break
            else:
                _index(run, captioner)
                if not run.was_interrupted:
                    _calibrate(run, captioner)
    captioner.history = Curves(epochs, was_interrupted=run.was_interrupted)
    return captioner


def _loaded(model, options):
    """Return an initial model as a Captioner: a Captioner or None unchanged, else the
    saved or bundled one, with the `encoder_weights` of the options.
    """
    if model is None or isinstance(model, Captioner):
        return model
    weights = options.get("encoder_weights")
    weights = None if weights == Encoder().encoder_weights else weights
    return Captioner.from_pretrained(model, encoder_weights=weights)


def _captioned(images):
    """Return the photos with a caption; warn about captions without a word."""
    skipped, kept = Skipped(), []
    for image in images:
        if any(tokenise(caption) for caption in image.captions):
            kept.append(image)
        elif image.captions:
            skipped.add("photos whose captions have no word left out", image.image_id)
    skipped.warn("fit")
    return kept


def _index(run, captioner):
    """Build the index for `consensus_weight` and save it, unless there is one or
    several hosts.
    """
    is_wanted = captioner.search_settings.consensus_weight and captioner.consensus is None
    if not is_wanted or run.cluster.num_hosts > 1:
        return
    obstacle = without_index(len(run.photos.images_in("train")))
    if obstacle is not None:
        run.say(obstacle)
        return
    with _completing(run, "an index of its training photos"):
        run.photos.prepare(captioner, 1, run.cluster)  # a training that has ended was only loaded
        reading = {"cache": run.photos.cache, "show_progress": run.photos.show_progress}
        train_images = run.photos.images_in("train")
        captioner.consensus = Consensus.build(captioner, train_images, **reading)
        save_records(captioner, run.folder / "model")


def _calibrate(run, captioner):
    """Fit the confidence on dev and save it, unless there is one or several hosts."""
    dev_images = run.photos.images_in("dev")
    dev_ids = [image.image_id for image in dev_images]
    seen = seen_in_training(dev_ids, captioner.training_photos)
    if captioner.confidence is not None or seen or run.cluster.num_hosts > 1:
        return
    obstacle = without_confidence(len(dev_images))
    if obstacle is not None:
        run.say(obstacle)
        return
    with _completing(run, "a confidence"):
        run.photos.prepare(captioner, 1, run.cluster)  # a training that has ended was only loaded
        reading = {"cache": run.photos.cache, "show_progress": run.photos.show_progress}
        measured = calibrate(captioner, run.photos.images_in("dev"), **reading)
        save_records(captioner, run.folder / "model")
        right = f"confidence: {measured.are_right.mean():.0%} of the dev captions are correct"
        error = 100 * measured.expected_error
        run.say(f"{right}; the calibration error is {error:.0f} percentage points")


@contextlib.contextmanager
def _completing(run, what):
    """Add `what`, such as "a confidence", to a trained captioner, which errors must not
    cost.

    Errors become a warning. Ctrl-C ends the training, as it does between epochs.
    """
    try:
        yield
    except KeyboardInterrupt:
        run.was_interrupted = True
        run.say(f"stopped: trained, but without {what}; repeat the call or command to add it")
    except (OSError, ValueError) as error:
        problem = f"The captioner is trained, but without {what}: {error}"
        warnings.warn(problem, stacklevel=5)
