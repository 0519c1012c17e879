"""Build a feature cache: encode the photos whose features are missing.

A row is marked as done once it is on disk: a build that was killed at any moment can be
resumed, and ends with the same files.
"""

import hashlib
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from data_utils.base import (
    Progress,
    clear_half_written,
    exclusive_lock,
    import_tensorflow,
    reason_without_number,
)
from data_utils.features.cache_layout import (
    FeatureFiles,
    is_started,
    reject_differences,
    start_cache,
)
from data_utils.features.encode import encoding_function
from data_utils.photos import (
    NUM_READERS,
    PHOTO,
    height_and_width,
    load_image,
    photo_of,
    read_photos,
    report_unreadable,
    view_of,
)


def build_features(
    directory,
    description,
    photos,
    encoder,
    *,
    batch_size,
    errors,
    verify,
    show_progress,
    encode_missing,
):
    """Encode the photos whose features are missing or damaged, or whose files have
    changed.

    If there is nothing to encode, the folder is not locked, and may be read-only.

    Args: see FeatureCache.build, plus
        description: dict of entries that the manifest must contain.
        photos: dict from ids to paths.
        encode_missing: function with the arguments of `encode_rows`.
    """
    options = (photos, description, verify, show_progress)
    if is_started(directory) and not verify:
        files = FeatureFiles(directory)
        if not _rows_to_encode(files, *options).size:
            _report_unreadable(files, photos, errors)
            return
    with exclusive_lock(directory / "lock", f"is building the features in {directory}"):
        clear_half_written(directory / "manifest.json", directory / "rows.npy")
        encode = encoding_function(encoder)
        if not is_started(directory):
            start_cache(directory, description | _grid_of(encode, description), list(photos))
        files = FeatureFiles(directory)
        rows = _rows_to_encode(files, *options)
        files.forget(rows)
        _check_disk_space(directory, len(rows) * files.features[:1].nbytes)
        progress = Progress(len(files.rows), label="features", unit="photos", show=show_progress)
        progress.skip(len(files.rows) - len(rows))
        with progress:
            named = [(int(row), files.image_ids[row], photos[files.image_ids[row]]) for row in rows]
            encode_missing(files, named, encode, batch_size, progress)
    _report_unreadable(files, photos, errors)


def _report_unreadable(files, photos, errors):
    """Say which photos have no features, once the others have them."""
    reasons = [
        reason
        for image_id, reason in files.unreadable.items()
        if image_id in photos and not files.rows["done"][files.row_of[image_id]]
    ]
    report_unreadable(
        reasons,
        len(photos),
        skip=errors == "skip",
        way_out=(
            "leave such photos out with errors='skip' (in fit and the commands: "
            "skip_unreadable=True, --skip-unreadable)"
        ),
    )


def _grid_of(encode, description):
    """Return the manifest entries for the grids that `encode` returns."""
    black_photo = np.zeros((1, *description["image_size"], 3), dtype=np.uint8)
    shape = encode(black_photo).shape
    if len(shape) != 4:
        raise ValueError(
            "Encoders must return grids of shape (batch, rows, columns, "
            f"feature_dim). Received: {shape=}"
        )
    return {"grid_shape": list(shape[1:3]), "feature_dim": shape[3]}


def _check_disk_space(directory, needed_bytes):
    free_bytes = shutil.disk_usage(directory).free
    if needed_bytes > free_bytes:
        raise ValueError(
            "There is not enough disk space: the features need "
            f"{needed_bytes / 1e9:.1f} GB more, but only {free_bytes / 1e9:.1f} GB are free. "
            f"Received: directory={str(directory)!r}"
        )


def _rows_to_encode(files, photos, description, verify, show_progress):
    """Return the sorted rows to encode, as an array.

    Photos that are still unreadable are excluded.
    """
    reject_differences(files.manifest, description, files.directory)
    new = [image_id for image_id in photos if image_id not in files.row_of]
    if new:
        raise ValueError(
            f"The cache was started with {len(files.rows)} photos and does not include "
            f"{len(new)} of these {len(photos)} (first: {new[0]!r}). Use another folder. "
            f"Received: directory={str(files.directory)!r}"
        )
    to_encode = {*files.changed_rows(photos, verify=verify, show_progress=show_progress)}
    for image_id in photos:
        row = files.row_of[image_id]
        is_done = files.rows["done"][row]
        is_damaged = verify and not files.is_whole(row, np.array(files.features[row]))
        if not is_done or is_damaged:
            to_encode.add(row)
    retried = {image_id: photos[image_id] for image_id in files.unreadable if image_id in photos}
    size = tuple(description["image_size"])
    for image_id, read in zip(retried, read_photos(retried.values(), [size])):
        if isinstance(read, Exception):
            to_encode.remove(files.row_of[image_id])
    return np.array(sorted(to_encode), dtype=np.int64)


def encode_rows(files, photos, encode, batch_size, progress):
    """Encode photos, given as a list of (row, image_id, path), and write their features
    and records.
    """
    with ThreadPoolExecutor(1) as writer:
        writing = None
        for rows, features, records, unreadable in encoded_batches(
            files.manifest, photos, encode, batch_size
        ):
            if unreadable:
                files.record_unreadable(unreadable)
            if writing is not None:
                writing.result()
            writing = writer.submit(files.write, rows, features, records)
            progress.advance(len(rows) + len(unreadable))
        if writing is not None:
            writing.result()


def encoded_batches(manifest, photos, encode, batch_size, load=load_image):
    """Encode photos in batches, while other threads read the next batch.

    Args:
        manifest: dict with the settings of the cache.
        photos: list of (row, image_id, path).
        encode: see `encoding_function`.
        load: replaces `load_image`.

    Yields: rows, their features (rows, regions, feature_dim) and PHOTO records, and a
        dict from the image ids of unreadable photos to reasons.
    """

    def record_and_load(photo, size):
        _, image_id, path = photo
        record = photo_of(path)  # afterwards the file is in the system's file cache
        return record, view_of(load(path, size), manifest["view"], image_id)

    size = tuple(manifest["image_size"])
    num_regions = int(np.prod(manifest["grid_shape"]))
    all_read = read_photos(photos, [size], load=record_and_load, ahead=batch_size)
    for start in range(0, len(photos), batch_size):
        batch = photos[start : start + batch_size]
        unreadable, image_ids, rows, records, pictures = {}, [], [], [], []
        for (row, image_id, _), read in zip(batch, all_read):
            if isinstance(read, Exception):
                unreadable[image_id] = reason_without_number(read)
                continue
            ((record, picture),) = read
            image_ids.append(image_id)
            rows.append(row)
            records.append(record)
            pictures.append(picture)
        features = np.empty((0, num_regions, manifest["feature_dim"]), manifest["dtype"])
        if rows:
            grids = _in_dtype(encode(np.stack(pictures)), manifest["dtype"], image_ids)
            features = grids.reshape(len(rows), *features.shape[1:])
        yield np.array(rows, np.int64), features, np.array(records, PHOTO), unreadable


def _in_dtype(grids, dtype, image_ids):
    """Return the grids of photos with the dtype of a cache.

    Raise ValueError if a value is out of its range.
    """
    with np.errstate(over="ignore"):
        grids = grids.astype(dtype)
    is_finite = np.isfinite(grids).all(axis=(1, 2, 3))
    if not is_finite.all():
        raise ValueError(
            f"The features of the photo {image_ids[np.argmin(is_finite)]!r} exceed the range of "
            f"{dtype}. Build the cache with FeatureCache.build(..., dtype='float32')."
        )
    return grids


# === The encoder ===


def describe_encoder(encoder, name, layer, image_size):
    """Return the manifest entries for an encoder; equal entries mean equal features."""
    image_size = image_size or fixed_size(encoder)
    if not callable(encoder) or image_size is None:
        raise ValueError(
            "Expected an encoder: a keras.Model or a function from photos to grids, such as "
            "keras_sat.ENCODERS['vgg16'](). If its input size is not fixed, pass one, "
            f"such as image_size=224. Received: encoder={encoder!r}"
        )
    described = {}
    output_shape = getattr(encoder, "output_shape", None)
    is_grid = isinstance(output_shape, tuple) and len(output_shape) == 4
    if is_grid and None not in output_shape[1:3]:
        described["grid_shape"] = [int(side) for side in output_shape[1:3]]
    function_name = getattr(encoder, "__name__", type(encoder).__name__)
    return described | {
        "encoder": name or getattr(encoder, "name", None) or function_name,
        "layer": layer or getattr(encoder, "encoder_layer", None),
        "weights_digest": _weights_digest(encoder),
        "settings": dict(getattr(encoder, "feature_settings", {})),
        "image_size": [int(side) for side in height_and_width(image_size)],
    }


def fixed_size(encoder):
    """Return the input size (height, width) of an encoder; None if it is unknown or not
    fixed.
    """
    input_shape = getattr(encoder, "input_shape", None)
    if not isinstance(input_shape, tuple) or None in input_shape[1:3]:
        return None
    return input_shape[1:3]


def _weights_digest(encoder):
    """Return a short digest of all weights; None for a function."""
    weights = getattr(encoder, "weights", None)
    if not isinstance(weights, list):
        return None
    digest = hashlib.sha256()
    for weight in weights:
        array = np.ascontiguousarray(weight)
        digest.update(f"{array.shape} {array.dtype}".encode() + array.tobytes())
    return digest.hexdigest()[:16]


def reading_options():
    """Return the tf.data options for datasets that run NumPy and Pillow code."""
    options = import_tensorflow().data.Options()
    # Leave TensorFlow's own threads to the model.
    options.threading.private_threadpool_size = NUM_READERS
    # There is nothing to tune, and its thread can delay an epoch's end by 10 s.
    options.autotune.enabled = False
    return options
