"""Encode the photos that a folder of features lacks.

Photos are encoded in blocks, and a row is marked as done only after it has reached the disk. So a build that was killed
at any moment resumes where it was, and ends with the same files as one that was not.
"""

import hashlib
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from data_utils.atomic_files import clear_half_written, exclusive_lock
from data_utils.features.cache_layout import FeatureFiles, is_started, reject_differences, start_cache
from data_utils.images import height_and_width, load_image
from data_utils.photo_digests import photo_of, pixel_digest
from data_utils.progress import Progress
from data_utils.tf_logging import import_tensorflow
from data_utils.views import view_of

NUM_READERS = 2
HINT = "Repair or remove it, or leave such photos out with errors='skip' (--skip-unreadable on the command line)."


def build_features(directory, description, photos, encoder, batch_size, errors, verify, show_progress):
    """Encode the photos that a folder does not have yet, whose rows are damaged, or whose files have changed.

    Where there is nothing to do, the folder is not locked: others may use it too, and it may be read-only.

    Args:
        directory: a Path; the folder is made if it is not there.
        description: dict that the manifest must have, from `describe_encoder` and the arguments of FeatureCache.build.
        photos: dict from ids to paths.
        encoder, batch_size, errors, verify, show_progress: see FeatureCache.build.
    """
    if is_started(directory) and not verify:
        files = _opened(directory, description)
        if not _rows_to_encode(files, photos, description, errors, verify, show_progress).size:
            return
    with exclusive_lock(directory / "lock", f"is building the features in {directory}"):
        clear_half_written(directory / "manifest.json", directory / "rows.npy")
        encode = _encoding_function(encoder, description["dtype"])
        if not is_started(directory):
            start_cache(directory, description | _shape_of_grids(encode, description["image_size"]), list(photos))
        files = _opened(directory, description)
        rows = _rows_to_encode(files, photos, description, errors, verify, show_progress)
        files.forget(rows)
        _encode_rows(files, rows, photos, encode, batch_size, errors, show_progress)


def _opened(directory, description):
    files = FeatureFiles(directory)
    reject_differences(files.manifest, description, directory)
    return files


def _rows_to_encode(files, photos, description, errors, verify, show_progress):
    """Return the rows to encode, in order, as an array; one that still cannot be read is an error or left out."""
    new = [image_id for image_id in photos if image_id not in files.row_of]
    if new:
        raise ValueError(
            f"The cache was started with {len(files.rows)} photos, and {len(new)} of these {len(photos)} are not among "
            f"them (first: {new[0]!r}). Build these into another folder. Received: directory={str(files.directory)!r}"
        )
    to_encode = {*files.changed_rows(photos, verify=verify, show_progress=show_progress)}
    for image_id, path in photos.items():
        row = files.row_of[image_id]
        if not files.rows["done"][row] or (verify and not files.is_whole(row, np.array(files.features[row]))):
            to_encode.add(row)
        if image_id in files.unreadable:
            _, reason = _try_to_load(path, description["image_size"])
            if reason and errors == "raise":
                raise ValueError(f"{reason} {HINT}")
            if reason:
                to_encode.remove(row)
    return np.array(sorted(to_encode), dtype=np.int64)


def _encode_rows(files, rows, photos, encode, batch_size, errors, show_progress):
    """Encode rows in blocks: the photos of the next block are read, and those of the last one written, meanwhile."""
    needed_bytes, free_bytes = len(rows) * files.features[:1].nbytes, shutil.disk_usage(files.directory).free
    if needed_bytes > free_bytes:
        raise ValueError(
            f"The disk is too small for the features: they need {needed_bytes / 1e9:.1f} GB more, and "
            f"{free_bytes / 1e9:.1f} GB are free. Free some space, or choose another folder. "
            f"Received: directory={str(files.directory)!r}"
        )
    image_size, view = files.manifest["image_size"], files.manifest["view"]
    grids = (*files.manifest["grid_shape"], files.manifest["feature_dim"])

    def read(row):
        image_id = files.image_ids[row]
        photo = photo_of(photos[image_id])  # after that, the system has the file in its memory
        image, reason = _try_to_load(photos[image_id], image_size)
        photo["pixels"] = pixel_digest(image)
        return view_of(image, view, image_id), reason, photo

    blocks = [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
    progress = Progress(len(files.rows), label="features", unit="photos", show=show_progress)
    progress.skip(len(files.rows) - len(rows))
    with progress, ThreadPoolExecutor(1) as writer, ThreadPoolExecutor(NUM_READERS) as readers:
        reading, writing = [readers.submit(read, row) for row in rows[:batch_size]], None
        for block, next_block in zip(blocks, [*blocks[1:], ()]):
            images, reasons, noted = zip(*(photo.result() for photo in reading))
            reading = [readers.submit(read, row) for row in next_block]
            unreadable = {files.image_ids[row]: reason for row, reason in zip(block, reasons) if reason}
            if unreadable and errors == "raise":
                raise ValueError(f"{next(iter(unreadable.values()))} {HINT}")
            if unreadable:
                files.note_unreadable(unreadable)
            features = encode(np.stack(images))
            is_good = np.array([not reason for reason in reasons])
            block, features, noted = block[is_good], features[is_good], np.stack(noted)[is_good]
            _check_features(features, grids, [files.image_ids[row] for row in block])
            if writing is not None:
                writing.result()
            features = features.reshape(len(block), *files.features.shape[1:])
            writing = writer.submit(files.write, block, features, noted)
            progress.advance(len(images))
        if writing is not None:
            writing.result()


def _check_features(features, grids, image_ids):
    """Raise ValueError for features (photos, *grids) of another shape, and for those that the dtype cannot hold."""
    if features.shape[1:] != grids:
        raise ValueError(
            f"The encoder's grids have another shape than before. Expected: {grids}. Received: {features.shape[1:]}"
        )
    is_finite = np.isfinite(features).all(axis=(1, 2, 3))
    if not is_finite.all():
        raise ValueError(
            f"The features of the photo {image_ids[np.argmin(is_finite)]!r} do not fit into {features.dtype}. Build "
            "with dtype='float32'."
        )


def _try_to_load(path, image_size):
    """Return (image, "") or (zeros, the reason why it cannot be read)."""
    try:
        return load_image(path, tuple(image_size)), ""
    except FileNotFoundError:
        reason = f"{path}: there is no such file."
    except (OSError, ValueError) as error:
        reason = str(error)
    return np.zeros((*image_size, 3), dtype=np.uint8), reason


# === The encoder ===


def describe_encoder(encoder, name, layer, image_size):
    """Return what the manifest says of an encoder: two caches with equal descriptions have equal features.

    The grid is in it where the encoder knows it before it has encoded a photo.
    """
    if not callable(encoder):
        raise ValueError(
            "The encoder must be a keras.Model or a function from photos to grids; keras_sat.ENCODERS has some: "
            f"ENCODERS['vgg16'](). Received: encoder={encoder!r}"
        )
    image_size = image_size or fixed_size(encoder)
    if image_size is None:
        raise ValueError("The encoder takes photos of any size: pass image_size=224, say. Received: image_size=None")
    output_shape = getattr(encoder, "output_shape", None)
    is_grid = isinstance(output_shape, tuple) and len(output_shape) == 4 and None not in output_shape[1:3]
    grid = {"grid_shape": [int(side) for side in output_shape[1:3]]} if is_grid else {}
    return grid | {
        "encoder": name or getattr(encoder, "name", None) or getattr(encoder, "__name__", type(encoder).__name__),
        "layer": layer or getattr(encoder, "encoder_layer", None),
        "blur": float(getattr(encoder, "blur", 0)),
        "weights_digest": _weights_digest(encoder),
        "image_size": [int(side) for side in height_and_width(image_size)],
    }


def fixed_size(encoder):
    """Return the (height, width) of the photos that an encoder takes; None if it takes any, or does not say."""
    input_shape = getattr(encoder, "input_shape", None)
    return input_shape[1:3] if isinstance(input_shape, tuple) and None not in input_shape[1:3] else None


def _weights_digest(encoder):
    """Return a short digest of all weights, or None for a function that has none to show."""
    weights = getattr(encoder, "weights", None)
    if not isinstance(weights, list):
        return None
    digest = hashlib.sha256()
    for weight in weights:
        array = np.ascontiguousarray(weight)
        digest.update(f"{array.shape} {array.dtype}".encode())
        digest.update(array)
    return digest.hexdigest()[:16]


def _encoding_function(encoder, dtype):
    """Return a function from uint8 photos (batch, height, width, 3) to a numpy array of grids in `dtype`.

    A keras.Model runs compiled, and never in training mode.
    """
    import keras

    tf = import_tensorflow()

    def encode(images):
        with np.errstate(over="ignore"):  # what does not fit becomes inf, which `_check_features` rejects
            return np.asarray(encoder(images.astype(np.float32))).astype(dtype)

    def encode_in_graph(images):
        return tf.cast(encoder(tf.cast(images, tf.float32), training=False), dtype)

    if not isinstance(encoder, keras.layers.Layer):
        return encode
    photos = tf.TensorSpec((None, *encoder.input_shape[1:3], 3), tf.uint8)
    compiled = tf.function(encode_in_graph, input_signature=[photos])
    return lambda images: compiled(images).numpy()


def _shape_of_grids(encode, image_size):
    """Return the shape of an encoder's grids as the manifest has it; one photo is encoded to find out."""
    grids = encode(np.zeros((1, *image_size, 3), dtype=np.uint8))
    if grids.ndim != 4:
        raise ValueError(
            "The encoder must give a grid for each photo: (batch, rows, columns, feature_dim). "
            f"Received: shape={grids.shape}"
        )
    return {"grid_shape": [int(side) for side in grids.shape[1:3]], "feature_dim": int(grids.shape[3])}


def reading_options():
    """Return the tf.data options for datasets whose work is done in numpy and Pillow."""
    tf = import_tensorflow()

    options = tf.data.Options()
    options.threading.private_threadpool_size = NUM_READERS  # leave TensorFlow's own threads to the model
    options.autotune.enabled = False  # nothing to tune, and its thread can hold up the end of an epoch for 10 s
    return options
