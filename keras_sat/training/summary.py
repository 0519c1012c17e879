"""The lines that are printed before training starts."""

from data_utils.seen_photos import seen_in_training
from keras_sat.presets import FEWEST_PHOTOS
from keras_sat.training.history import CROSS_ENTROPY, FEW_DEV_PHOTOS

# Half the width of BLEU-4's 95 % interval for one photo, in percentage points; for n
# photos it is divided by the square root of n. From a bootstrap over 700 of Flickr8k.
UNCERTAINTY_OF_BLEU_4 = 34


def summary(plan, captioned_images, captioner, num_views):
    """Yield warnings, and lines that describe the photos, vocabulary, encoder,
    captioner and devices used by a Plan.
    """
    images = {
        split: [image for image in captioned_images if image.split == split]
        for split in ("train", "dev", "test")
    }
    captions = {
        split: [caption for image in images[split] for caption in image.captions]
        for split in images
    }
    counts = [
        f"{len(images[split])} photos with {len(captions[split])} captions in {split}"
        for split in images
    ]
    yield f"data: {plan.data}: {', '.join(counts)}"
    yield from _too_few_photos(len(images["train"]), len(images["dev"]), plan.monitored)
    vocabulary = captioner.vocabulary
    percent_unknown = 100 * vocabulary.unknown_share(captions["dev"])
    yield (
        f"vocabulary: {len(vocabulary.words)} words; {percent_unknown:.1f} % of the words in dev "
        "captions are unknown"
    )
    _, rows, columns, feature_dim = captioner.encoder_model.output_shape
    training = captioner.settings.encoder.encoder_training
    if training == "frozen":
        num_encoded = len(captioned_images) + (num_views - 1) * len(images["train"])
        size = num_encoded * rows * columns * feature_dim * 2  # two bytes a number
        training = f"features of all photos are computed once and take {size / 1e9:.2f} GB"
    yield f"encoder: {captioner.encoder}, {rows} x {columns} x {feature_dim}; {training}"
    dtype = captioner.decoder.dtype_policy.name
    yield f"captioner: {captioner.description()}, computed in {dtype}"
    yield f"training on {plan.devices}; all files are in {plan.output_dir}"


def _too_few_photos(num_train, num_dev, monitored):
    """Yield warnings of too few photos to learn from, or to choose an epoch by the
    metric `monitored`.
    """
    if not num_dev:
        yield (
            "there are no dev photos to choose the best epoch: the last one is kept "
            "(split_seed makes a dev split)"
        )
    elif num_dev < FEW_DEV_PHOTOS:
        uncertain = round(UNCERTAINTY_OF_BLEU_4 / num_dev**0.5)
        so = "; cross-entropy on dev chooses the epoch" if monitored == CROSS_ENTROPY else ""
        yield (
            f"warning: {num_dev} dev photos are too few to tell which epoch is the best: their "
            f"BLEU-4 is uncertain by about {uncertain} percentage points, more than most epochs "
            f"differ{so}. {FEW_DEV_PHOTOS} or more are better"
        )
    if num_train < FEWEST_PHOTOS:
        yield (
            f"warning: {num_train} training photos are too few to learn from; use at least "
            f"{FEWEST_PHOTOS}"
        )


def photos_seen_before(initial_model, images):
    """Return a list with a warning if the initial model (a Captioner or None) was
    trained on photos of the dev or test split, which inflates scores; else [].
    """
    if initial_model is None:
        return []
    kept_apart = [image.image_id for image in images if image.split in ("dev", "test")]
    seen = seen_in_training(kept_apart, initial_model.training_photos)
    if not seen:
        return []
    return [
        f"warning: the initial model was trained on {len(seen)} of the "
        f"{len(kept_apart)} photos of dev and test "
        "(or on other photos with their names), so scores on them are too high"
    ]
