"""What a training says before it starts: its photos, vocabulary, encoder, captioner and devices, and warnings."""

import os

import tensorflow as tf

from data_utils.training_photos import seen_in_training
from keras_sat.presets import FEWEST_PHOTOS


def summary(data_name, images, captioner, num_views, output_dir, cluster):
    """Yield the lines that say what a training will do before it starts."""
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
    kind = f"{decoder.attention} attention, {decoder.scoring} scoring" if decoder.chooses else "no attention"
    yield f"captioner: {kind}, {decoder.cell.upper()} of {decoder.hidden_dim}, computed in {decoder.dtype_policy.name}"
    gpus = tf.config.list_physical_devices("GPU")
    devices = f"{len(gpus)} GPU" if gpus else f"CPU, {os.cpu_count()} cores"
    if cluster.shares is not None:
        hosts = f" of {cluster.num_hosts} hosts" if cluster.num_hosts > 1 else ""
        devices = f"{cluster.shares[1]} device{'s' * (cluster.shares[1] > 1)}{hosts}"
    yield f"on {devices}; everything is kept in {output_dir}"


def learnt_before(initial_model, images):
    """Yield a line where the captioner to start from was trained on photos of dev or test, which flatters scores."""
    kept_apart = [image.image_id for image in images if image.split in ("dev", "test")]
    learnt = [] if initial_model is None else seen_in_training(kept_apart, initial_model.training_photos)
    if learnt:
        yield (
            f"warning: the captioner that it starts from was trained on {len(learnt)} of the {len(kept_apart)} photos "
            "of dev and test (or others of their names): scores on them are better than on new photos"
        )
