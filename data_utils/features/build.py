"""Make a cache of features: encode every photo once, and keep its features on the disk.

The photos are encoded in fixed blocks, and a row is marked as done only after it has reached the disk. So a build that
was killed at any moment resumes where it was, and ends with the same files as one that was not.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import numbers
import os
import zlib
from collections import Counter
from pathlib import Path
from typing import Any, Self

import numpy as np

from data_utils.features.files import (
    DONE,
    FORMAT_VERSION,
    MADE_WITH,
    NOT_DONE,
    UNREADABLE,
    RowWriter,
    read_manifest,
    refuse_full_disk,
    row_shape,
    write_row,
)
from data_utils.features.shards import Shard, refuse_other_shards, shard_manifests
from data_utils.files import clear_half_written, exclusive_lock, write_sealed_json
from data_utils.foreign_text import brief
from data_utils.images import height_and_width, load_image
from data_utils.photo_digests import PHOTO, photo_of, pixel_digest
from data_utils.progress import Progress
from data_utils.quiet import import_tensorflow
from data_utils.views import view_of

NUM_READERS = 2
MOST_TOGETHER = 100_000  # photos in a block: more would not fit into memory, however small they are


def build_cache(
    cache_class,
    directory: str | os.PathLike,
    image_ids: list[str],
    image_paths: list,
    encoder: Any,
    *,
    image_size: int | tuple[int, int] | None = None,
    encoder_name: str | None = None,
    encoder_layer: str | None = None,
    batch_size: int = 32,
    dtype: str = "float16",
    view: int = 0,
    shard: str | None = None,
    errors: str = "raise",
    verify: bool = False,
    show_progress: bool = True,
) -> Self:  # it is a method of FeatureCache
    """Encode the photos that are not in the cache yet, and open it.

    A folder of shards is opened as it is: what is missing in it is an error, see `shard`.

    Args:
        cache_class: what opens the cache: FeatureCache, whose method `build` this is.
        directory: the folder of the cache; made if it is not there.
        image_ids, image_paths: the photos, one row each, in this order. Ids are strings; a picture in memory may
            be given instead of its path.
        encoder: a `keras.Model` or any function from float32 RGB 0..255 (batch, height, width, 3) to
            (batch, rows, columns, feature_dim).
        image_size: side of the square that photos are stretched to, or (height, width); None asks the model.
        encoder_name, encoder_layer: what to call them in the manifest; None asks the model.
        batch_size: photos encoded together. A cache keeps the value that it was begun with.
        dtype: of the features on the disk, "float16" or "float32".
        view: which view of the photos is encoded, see `data_utils.views`; 0 is the photos themselves.
        shard: "2/4" encodes the second of four parts of the photos, into a folder of its own within `directory`,
            and returns the cache of that part; other machines may encode the others at the same time. Pass the
            same list of photos for each.
        errors: "raise" stops at a photo that cannot be read; "skip" leaves it out and lists it in the manifest.
        verify: read every row and every photo again; encode rows that are damaged anew, and refuse photos that have
            changed. Without it, only photos whose files have another size or time are read.
        show_progress: show a progress bar, or lines where the output is no terminal.

    Returns: FeatureCache.
    """
    directory = Path(directory).expanduser()
    image_ids, image_paths = list(image_ids), list(image_paths)
    _check_arguments(image_ids, image_paths, dtype, view, errors, batch_size)
    description = describe_encoder(encoder, encoder_name, encoder_layer, image_size)
    description |= {"dtype": dtype, "view": view}
    if shard is not None:
        shard = Shard.parse(shard)
        indices = shard.indices(image_ids)
        description["shard"] = shard.description(image_ids)
        refuse_other_shards(directory, description)
        image_ids, image_paths = ([values[index] for index in indices] for values in (image_ids, image_paths))
        directory = directory / shard.folder_name
    elif shard_manifests(directory):
        return _open_shards(cache_class, directory, description, image_ids, image_paths, errors, verify, show_progress)
    photos = image_ids, image_paths
    cache = None if verify else _finished(cache_class, directory, description, *photos, errors, show_progress)
    if cache is not None:
        return cache  # without the lock: others may use it too, and it may lie where nothing can be written
    with exclusive_lock(directory / "lock", f"is building the features in {directory}"):
        clear_half_written(directory / "manifest.json", directory / "image_ids.json")
        encode = _encoding_function(encoder, dtype)
        if not _is_begun(directory):
            _begin(directory, description, image_ids, encode, batch_size)
        cache = cache_class(directory)
        refuse_differences(cache.manifest, description, directory)
        _refuse_other_photos(cache, *photos, verify=verify, show_progress=show_progress, is_locked=True)
        if verify:
            _forget_damaged_rows(cache)
        if set(image_ids) == set(cache.image_ids):
            _encode_missing(cache, dict(zip(image_ids, image_paths)), encode, errors, show_progress)
        return cache_class(directory)


def _open_shards(cache_class, directory, description, image_ids, image_paths, errors, verify, show_progress):
    """Open the shards of a folder, which must have these photos; nothing is encoded."""
    if verify:
        raise ValueError(
            "Shards are verified one by one: pass shard='1/4' (--shard 1/4 on the command line) and so on. "
            f"Received: verify=True with directory={str(directory)!r}"
        )
    cache = cache_class(directory)
    refuse_differences(cache.manifest, description, directory)
    _refuse_other_photos(cache, image_ids, image_paths, show_progress=show_progress)
    unreadable = [image_id for image_id in image_ids if image_id in cache.unreadable]
    if unreadable and errors == "raise":
        raise ValueError(f"{cache.unreadable[unreadable[0]]} {_UNREADABLE_HINT}")
    return cache


def _finished(cache_class, directory, description, image_ids, image_paths, errors, show_progress):
    """Open a cache to which building it with these photos would add nothing; None if there is something to do."""
    if not _is_begun(directory):
        return None
    cache = cache_class(directory)
    refuse_differences(cache.manifest, description, directory)
    _refuse_other_photos(cache, image_ids, image_paths, show_progress=show_progress)
    if set(image_ids) != set(cache.image_ids):
        return cache  # some of those that it has
    path_of, image_size = dict(zip(image_ids, image_paths)), tuple(cache.manifest["image_size"])
    unreadable = [cache.image_ids[row] for row in np.flatnonzero(cache._done == UNREADABLE)]
    if (cache._done == NOT_DONE).any() or (unreadable and errors == "raise"):
        return None
    reasons = {image_id: _try_to_load(path_of[image_id], image_size)[1] for image_id in unreadable}
    return cache if reasons == cache.unreadable else None


def _refuse_other_photos(cache, image_ids, image_paths, *, verify=False, show_progress=False, is_locked=False):
    """A cache is completed with the photos that it was begun with; any that it has can be asked for."""
    asked, known = set(image_ids), set(cache.image_ids)
    missing = [image_id for image_id in image_ids if image_id not in cache and image_id not in cache.unreadable]
    if missing and cache._is_sharded:
        raise ValueError(
            f"{len(missing)} of {len(asked)} photos are in none of the shards, which have {len(known)} photos "
            f"(first: {missing[0]!r}). Photos cannot be added to shards: build those of the whole list into "
            f"another folder. Received: directory={str(cache.directory)!r}"
        )
    if asked != known and missing:
        raise ValueError(
            f"The cache was begun with {len(known)} photos, now {len(asked)} are asked for, and {len(missing)} of "
            f"them are not done (first: {missing[0]!r}). Ask for the same photos to complete it, or build these "
            f"into another folder. Received: directory={str(cache.directory)!r}"
        )
    rows, photos = cache.refuse_changed(image_ids, image_paths, verify=verify, show_progress=show_progress)
    if len(rows):
        _note_times(cache, rows, photos, is_locked)


def _note_times(cache, rows, photos, is_locked):
    """Write down the times of files that were copied, so that they are not read again at the next start."""
    is_other = photos["mtime_ns"] != cache.photos["mtime_ns"][rows]
    rows, photos = rows[is_other], photos[is_other]
    parts, starts = cache._features.array_of(rows), cache._features.starts
    for number in np.unique(parts):
        part = cache._parts[number]
        # Where the cache is in use, or nothing can be written, they are read again: nothing else depends on it.
        with contextlib.suppress(OSError, ValueError), contextlib.ExitStack() as stack:
            if not is_locked:
                stack.enter_context(exclusive_lock(part.directory / "lock", "is building"))
            file = stack.enter_context(open(part.directory / "photos.npy", "r+b"))
            for row, photo in zip(rows[parts == number] - starts[number], photos[parts == number]):
                write_row(file, part.photos.shape, row, photo)
    cache.photos[rows] = photos


def _forget_damaged_rows(cache):
    with open(cache.directory / "done.npy", "r+b") as file:
        for row in np.flatnonzero(cache._done == DONE):
            if zlib.crc32(np.array(cache._parts[0].features[row])) != cache._checksums[row]:
                cache._done[row] = NOT_DONE
                write_row(file, cache._done.shape, row, cache._done[row])


def _encode_missing(cache, path_of, encode, errors, show_progress):
    """Encode every block in which a row is missing, in the order of the rows."""
    image_size, block_size = tuple(cache.manifest["image_size"]), cache.manifest["block_size"]
    unreadable = {}
    for row in np.flatnonzero(cache._done == UNREADABLE):  # they may have been repaired since
        _, reason = _try_to_load(path_of[cache.image_ids[row]], image_size)
        if reason:
            unreadable[cache.image_ids[row]] = reason
        else:
            cache._done[row] = NOT_DONE
    if unreadable and errors == "raise":
        raise ValueError(f"{next(iter(unreadable.values()))} {_UNREADABLE_HINT}")
    blocks = np.unique(np.flatnonzero(cache._done == NOT_DONE) // block_size)
    rows = (blocks[:, None] * block_size + np.arange(block_size)).ravel()
    rows = rows[rows < len(cache.image_ids)]
    refuse_full_disk(cache.directory, len(rows) * cache._parts[0].features.nbytes // len(cache.image_ids))
    photos = [(path_of[cache.image_ids[row]], cache.image_ids[row]) for row in rows]
    progress = Progress(len(cache.image_ids), label="features", unit="photos", show=show_progress)
    progress.skip(len(cache.image_ids) - len(rows))
    with progress, RowWriter(cache.directory, cache._parts[0].features.shape) as writer:
        for start, (images, reasons, seen) in zip(
            itertools.count(0, block_size),
            _read_images(photos, image_size, block_size, cache.manifest.get("view", 0)),
        ):
            block_rows = rows[start : start + len(images)]
            wanted = cache._done[block_rows] != DONE
            bad = {cache.image_ids[row]: text for row, text, want in zip(block_rows, reasons, wanted) if text and want}
            if bad and errors == "raise":
                raise ValueError(f"{next(iter(bad.values()))} {_UNREADABLE_HINT}")
            unreadable |= bad
            states = np.where([cache.image_ids[row] in bad for row in block_rows], UNREADABLE, DONE)
            features = _checked_features(cache, encode(images), block_rows)
            features[states == UNREADABLE] = 0
            writer.write(block_rows[wanted], features[wanted], seen[wanted], states[wanted].astype(np.uint8))
            progress.advance(len(images))
    if unreadable != cache.unreadable:
        write_sealed_json(cache.directory / "manifest.json", cache.manifest | {"unreadable": unreadable})


def _checked_features(cache, grids, rows):
    """Return grids as rows for the disk, and refuse what the dtype cannot hold."""
    if grids.shape != (len(rows), *cache.grid_shape, cache.feature_dim):
        raise ValueError(
            f"The encoder gave grids of another shape than before. Expected: {cache.grid_shape} cells of "
            f"{cache.feature_dim} features. Received: shape={grids.shape}"
        )
    features = grids.reshape(len(rows), -1, cache.feature_dim)
    finite = np.isfinite(features).all(axis=(1, 2))
    if not finite.all():
        raise ValueError(
            f"The features of the photo {cache.image_ids[rows[np.argmin(finite)]]!r} do not fit into "
            f"{features.dtype}. Build with dtype='float32'."
        )
    return features


# === The encoder ===


def describe_encoder(encoder, name, layer, image_size):
    """Return what the manifest says of an encoder: two caches with equal descriptions hold equal features.

    The grid, which any encoder's features tell in the end, is in it where the encoder says it beforehand.
    """
    if not callable(encoder):
        raise ValueError(
            "The encoder must be a keras.Model or a function from photos to grids; keras_sat.ENCODERS has some: "
            f"ENCODERS['vgg16'](). Received: encoder={encoder!r}"
        )
    input_shape = getattr(encoder, "input_shape", None)
    if image_size is None:
        if not isinstance(input_shape, tuple) or None in input_shape[1:3]:
            raise ValueError(
                "The encoder takes photos of any size: pass image_size=224, say. Received: image_size=None"
            )
        image_size = input_shape[1:3]
    height, width = height_and_width(image_size)
    output_shape = getattr(encoder, "output_shape", None)
    is_grid = isinstance(output_shape, tuple) and len(output_shape) == 4 and None not in output_shape[1:3]
    grid = {"grid_shape": [int(side) for side in output_shape[1:3]]} if is_grid else {}
    return grid | {
        "encoder": name or getattr(encoder, "name", None) or getattr(encoder, "__name__", type(encoder).__name__),
        "layer": layer or getattr(encoder, "encoder_layer", None),
        "blur": float(getattr(encoder, "blur", 0)),
        "weights_digest": _weights_digest(encoder),
        "image_size": [int(height), int(width)],
    }


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
    """Return a function from uint8 photos to a numpy array of grids in `dtype`.

    A keras.Model runs compiled, and never in training mode.
    """
    import keras

    tf = import_tensorflow()

    if not isinstance(encoder, keras.layers.Layer):
        return lambda images: _quietly_cast(np.asarray(encoder(images.astype(np.float32))), dtype)

    def encode(images):
        return tf.cast(encoder(tf.cast(images, tf.float32), training=False), dtype)

    encode = tf.function(encode, input_signature=[tf.TensorSpec((None, *encoder.input_shape[1:3], 3), tf.uint8)])
    return lambda images: encode(images).numpy()


def _quietly_cast(array, dtype):
    with np.errstate(over="ignore"):  # what does not fit becomes inf, and is refused where it is written
        return array.astype(dtype)


# === Photos ===


def _try_to_load(path, image_size):
    """Return (image, "") or (zeros, the reason why it cannot be read)."""
    try:
        return load_image(path, image_size), ""
    except FileNotFoundError:
        reason = f"{path}: there is no such file."
    except (OSError, ValueError) as error:
        reason = str(error)
    return np.zeros((*image_size, 3), dtype=np.uint8), reason


def _read_images(photos, image_size, block_size, view):
    """Yield (images, reasons, what is noted) for each block of photos, (path, id) each, read ahead of the encoder."""
    tf = import_tensorflow()

    def load(number):
        path, image_id = photos[number]
        seen = photo_of(path)  # after that, the system has the file in its memory
        image, reason = _try_to_load(path, image_size)
        seen["pixels"] = pixel_digest(image)
        return view_of(image, view, image_id), reason.encode(errors="surrogateescape"), seen.tobytes()

    def load_in_graph(number):
        image, reason, seen = tf.numpy_function(load, [number], [tf.uint8, tf.string, tf.string], stateful=False)
        return tf.ensure_shape(image, (*image_size, 3)), tf.ensure_shape(reason, ()), tf.ensure_shape(seen, ())

    if not photos:
        return
    dataset = tf.data.Dataset.range(len(photos)).map(load_in_graph, num_parallel_calls=NUM_READERS, deterministic=True)
    dataset = dataset.batch(block_size).prefetch(2).with_options(reading_options())
    for images, reasons, seen in dataset.as_numpy_iterator():
        reasons = [reason.decode(errors="surrogateescape") for reason in reasons]
        yield images, reasons, np.frombuffer(b"".join(seen), PHOTO)


def reading_options():
    """Return the tf.data options for datasets whose work is done in numpy and Pillow."""
    tf = import_tensorflow()

    options = tf.data.Options()
    options.threading.private_threadpool_size = NUM_READERS  # leave TensorFlow's own threads to the model
    options.autotune.enabled = False  # nothing to tune, and its thread can hold up the end of an epoch for 10 s
    return options


# === The files ===

_UNREADABLE_HINT = (
    "Mend or remove it, or leave such photos out with errors='skip' (--skip-unreadable on the command line)."
)


def _check_arguments(image_ids, image_paths, dtype, view, errors, batch_size):
    if not image_ids or len(image_ids) != len(image_paths):
        raise ValueError(
            "A cache needs at least one photo, and one path for each id. "
            f"Received: {len(image_ids)} image_ids, {len(image_paths)} image_paths"
        )
    other = [image_id for image_id in image_ids if not isinstance(image_id, str)]
    if other:
        raise ValueError(f"The ids of photos are strings. Received: image_ids with {other[0]!r}")
    if len(set(image_ids)) != len(image_ids):
        twice = next(image_id for image_id, times in Counter(image_ids).items() if times > 1)
        raise ValueError(f"Each photo has one row: the image ids must differ. Received: {twice!r} more than once")
    if dtype not in ("float16", "float32"):
        raise ValueError(f"Expected: 'float16' or 'float32'. Received: dtype={dtype!r}")
    if not isinstance(view, int) or view < 0:
        raise ValueError(f"The number of a view is 0 or above. Received: view={view!r}")
    if errors not in ("raise", "skip"):
        raise ValueError(f"Expected: 'raise' or 'skip'. Received: errors={errors!r}")
    if not isinstance(batch_size, numbers.Integral) or not 1 <= batch_size <= MOST_TOGETHER:
        raise ValueError(
            f"A whole number of photos, from 1 to {MOST_TOGETHER}, is encoded at a time. "
            f"Received: batch_size={batch_size!r}"
        )


def _is_begun(directory):
    """Return whether the folder holds a cache; one whose beginning was interrupted counts as empty."""
    if (directory / "manifest.json").exists():
        return read_manifest(directory, begun=False).get("begun", False)
    if (directory / "features.npy").exists():
        raise ValueError(
            f"{directory} holds a features.npy but no manifest.json, so it is not known what made the features. "
            "Build into another folder, or remove that file."
        )
    return False


def _begin(directory, description, image_ids, encode, batch_size):
    """Lay out the files of a cache without a row done; `begun` in the manifest is set when they are whole."""
    height, width = description["image_size"]
    grid = encode(np.zeros((1, height, width, 3), dtype=np.uint8))
    if grid.ndim != 4:
        raise ValueError(
            "The encoder must give a grid for each photo: (batch, rows, columns, feature_dim). "
            f"Received: shape={grid.shape}"
        )
    manifest = {
        "format": "feature_cache",
        "version": FORMAT_VERSION,
        "begun": False,
        **description,
        "grid_shape": [int(side) for side in grid.shape[1:3]],
        "feature_dim": int(grid.shape[3]),
        "block_size": int(batch_size),
        "unreadable": {},
    }
    shape = row_shape(manifest, len(image_ids))
    refuse_full_disk(directory, int(np.prod(shape)) * np.dtype(manifest["dtype"]).itemsize)
    write_sealed_json(directory / "manifest.json", manifest)
    write_sealed_json(directory / "image_ids.json", {"image_ids": image_ids})
    dtypes = {"features": manifest["dtype"], "checksums": "uint32", "photos": PHOTO, "done": "uint8"}
    for name, dtype in dtypes.items():
        # Zeros that no row has reached yet: most systems store them as a hole, without taking room.
        file_shape = shape if name == "features" else shape[:1]
        array = np.lib.format.open_memmap(directory / f"{name}.npy", mode="w+", dtype=dtype, shape=file_shape)
        array.flush()
        del array
    write_sealed_json(directory / "manifest.json", manifest | {"begun": True})


def refuse_differences(manifest, description, directory):
    if "shard" in description and manifest.get("shard") != description["shard"]:
        raise ValueError(
            f"The folder holds another shard than its name says: {manifest.get('shard')} there, "
            f"{description['shard']} here. Move it away. Received: directory={str(directory)!r}"
        )
    differences = [
        f"{name} {brief(manifest.get(name, 0))} there, {description[name]!r} here"
        for name in (*MADE_WITH, *(["grid_shape"] if "grid_shape" in description else []))
        if manifest.get(name, 0) != description[name]  # caches of before there were views hold view 0
    ]
    if differences:
        other = " (a digest of the encoder's weights)" if "weights_digest" in differences[0] else ""
        raise ValueError(
            f"The cache was made differently: {'; '.join(differences)}{other}. Use another folder for these features: "
            f"another `cache_dir` (--cache-dir). Received: directory={str(directory)!r}"
        )
