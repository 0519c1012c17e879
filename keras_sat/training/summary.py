"""The lines that are printed before training starts."""

import os

import tensorflow as tf

from data_utils.training_photos import seen_in_training
from keras_sat.presets import FEWEST_PHOTOS

FEW_DEV_PHOTOS = 50  # with fewer, `fit` warns that they can hardly tell epochs apart
# Half the width of BLEU-4's 95 % interval for one photo, in percentage points; for n
# photos it is divided by the square root of n. From a bootstrap over 700 of Flickr8k.
UNCERTAINTY_OF_BLEU_4 = 34


def summary(plan, captioner, num_views):
    """Yield warnings, and lines that describe the photos, vocabulary, encoder,
    captioner and devices used.
    """
    splits = {
        name: [image for image in plan.images if image.split == name]
        for name in ("train", "dev", "test")
    }
    captions = {
        name: [caption for image in images for caption in image.captions]
        for name, images in splits.items()
    }
    counts = [
        f"{len(splits[name])} photos with {len(captions[name])} captions in {name}"
        for name in splits
    ]
    yield f"data: {plan.data_name}: {', '.join(counts)}"
    if not splits["dev"]:
        yield (
            "there are no dev photos to choose the best epoch: the last one is kept "
            "(split_seed makes a dev split)"
        )
    elif (num_dev := len(splits["dev"])) < FEW_DEV_PHOTOS:
        uncertain = round(UNCERTAINTY_OF_BLEU_4 / num_dev**0.5)
        yield (
            f"warning: {num_dev} dev photos are too few to tell which epoch is the best: their "
            f"BLEU-4 is uncertain by about {uncertain} percentage points, more than most epochs "
            f"differ; {FEW_DEV_PHOTOS} or more are better"
        )
    if (num_train := len(splits["train"])) < FEWEST_PHOTOS:
        yield (
            f"warning: {num_train} training photos are too few to learn from; use at least "
            f"{FEWEST_PHOTOS}"
        )
    words = captioner.vocabulary
    unknown = 100 * words.unknown_share(captions["dev"])
    yield (
        f"vocabulary: {len(words.words)} words; {unknown:.1f} % of the words in dev captions "
        "are unknown"
    )
    _, rows, columns, feature_dim = captioner.encoder_model.output_shape
    training = captioner.encoder_training
    if training == "frozen":
        size = (len(plan.images) + (num_views - 1) * num_train) * rows * columns * feature_dim * 2
        training = f"features of all photos are computed once and take {size / 1e9:.2f} GB"
    yield f"encoder: {captioner.encoder}, {rows} x {columns} x {feature_dim}; {training}"
    dtype = captioner.decoder.dtype_policy.name
    yield f"captioner: {captioner.description()}, computed in {dtype}"
    num_gpus, shares = len(tf.config.list_physical_devices("GPU")), plan.cluster.shares
    devices = f"{num_gpus} GPU" if num_gpus else f"CPU, {os.cpu_count()} cores"
    if shares is not None:
        devices = f"{shares[1]} devices of {plan.cluster.num_hosts} hosts"
    yield f"training on {devices}; all files are in {plan.folder}"


def warn_of_photos_seen_before(initial_model, images, say):
    """Warn if the initial model was trained on photos of the dev or test split, which
    inflates scores.
    """
    kept_apart = [image.image_id for image in images if image.split in ("dev", "test")]
    if (
        seen := []
        if initial_model is None
        else seen_in_training(kept_apart, initial_model.training_photos)
    ):
        say(
            f"warning: the initial model was trained on {len(seen)} of the "
            f"{len(kept_apart)} photos of dev and test "
            "(or on other photos with their names), so scores on them are too high"
        )
