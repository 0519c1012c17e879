"""Caption and encode photos on many machines with Ray Data,
https://docs.ray.io/en/latest/data/data.html.

Ray Data sends blocks of photos to workers, processes that hold the model, and sends the
blocks of workers and nodes that died to others. A block may be done twice: it writes
the same bytes again. A folder of captions contains

    _photos.jsonl            the paths, one JSON string a line, as the first run found
                             them
    _settings.json           the settings of the first run, which later runs must share,
                             and a digest of the paths
    part-000000.jsonl ...    the captions of the first block of photos, and so on: whole
                             or not there
"""

from __future__ import annotations

import dataclasses
import errno
import functools
import glob
import hashlib
import inspect
import io
import itertools
import json
import logging
import os
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Unpack

import numpy as np

from data_utils.atomic_files import (
    clear_half_written,
    exclusive_lock,
    file_digest,
    read_sealed_json,
    write_sealed_json,
    write_whole,
)
from data_utils.captions import IMAGE_ENDINGS, pictures_by_folder
from data_utils.features.build import describe_encoder, encoded_batches, encoding_function
from data_utils.features.cache_layout import reject_differences, write_features
from data_utils.images import find_pictures
from data_utils.progress import Progress
from data_utils.tf_logging import import_tensorflow, nothing_on_standard_error
from keras_sat.checks import reason_without_number
from keras_sat.deploy.photo_process import PhotoProcess
from keras_sat.files.model_folder import model_directory
from keras_sat.option_types import BeamSearchKeywords
from keras_sat.options import (
    BeamSearchOptions,
    above_zero,
    at_least_zero,
    count,
    one_of,
    with_options,
)

MOST_IDLE_PASSES = 3  # over the blocks that failed, before giving up
BATCH_SIZE = 64  # of captions, as in `Captioner.caption`
COLUMNS = (
    "image",
    "caption",
    "words",
    "log_prob",
    "is_finished",
    "confidence",
    "from_photo",
    "word_probs",
    "error",
)
COLUMNS += ("consensus", "similar_photos")
# Of Ray: no reports to its makers, no log on the terminal, and a wrong address fails
# soon.
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_NUM_REDIS_GET_RETRIES": "1",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # no lines about dying workers on standard output
}
# A Ray node ends if one of its helpers has not started within 15 s, as on a busy
# computer.
NUM_STARTS = 3


class Workers:
    """Processes on a Ray cluster that do blocks of work.

    Args:
        ray: "local" starts a cluster that only this computer can reach; "auto" or
            host:port joins a running one. If `ray.init` was called before, its cluster
            is used.
        worker_cpus, worker_gpus: what each process gets; a fraction of a GPU lets
            several share it.
    """

    def __init__(self, ray: str = "local", *, worker_cpus: float = 1, worker_gpus: float = 0):
        above_zero.check("worker_cpus", worker_cpus)
        at_least_zero.check("worker_gpus", worker_gpus)
        self.resources = {"num_cpus": worker_cpus, "num_gpus": worker_gpus}
        self.ray = _connected(ray)
        has = self.ray.cluster_resources()
        if worker_cpus > has.get("CPU", 0) or worker_gpus > has.get("GPU", 0):
            problem = (
                f"The cluster has {has.get('CPU', 0):g} CPUs and {has.get('GPU', 0):g} GPUs, "
                "too few for a worker"
            )
            if ray == "local":
                raise ValueError(f"{problem}. Received: {worker_cpus=}, {worker_gpus=}")
            warnings.warn(f"{problem}: waiting for more.", stacklevel=2)

    def do(self, make, blocks):
        """Yield (block, result) for each block, in the order in which they are done.

        Args:
            make: function that each worker calls once; it returns a function from a
                block to its result.
            blocks: list of anything that Ray can send.
        """
        remaining, passes_left, problem = (
            dict(enumerate(blocks)),
            MOST_IDLE_PASSES,
            "its worker did not start or died",
        )
        while remaining and passes_left:
            passes_left -= 1
            for row in self._pass(make, remaining):
                problem = row["problem"] or problem
                if row["is_final"]:
                    raise ValueError(f"{problem} (Finished blocks are kept.)")
                if not row["problem"] and row["number"] in remaining:  # a block may be done twice
                    passes_left = MOST_IDLE_PASSES
                    yield remaining.pop(row["number"]), row["result"].value
        if remaining:
            raise ValueError(
                f"{len(remaining)} of {len(blocks)} blocks of photos could not be done; "
                "one of them: "
                f"{problem.rstrip('.')}. The others are kept. Run the same command to do the rest."
            )

    def _pass(self, make, blocks):
        """Try each block once, or more often if its worker or node dies.

        Yield rows with a result or a problem.
        """
        # A SimpleNamespace keeps Ray from converting its value.
        rows = [
            {"number": number, "block": SimpleNamespace(value=block)}
            for number, block in blocks.items()
        ]
        num_workers = int(self.ray.cluster_resources().get("CPU", 0) // self.resources["num_cpus"])
        pool = self.ray.data.ActorPoolStrategy(
            min_size=1, initial_size=min(max(1, num_workers), len(rows))
        )
        options = {"compute": pool, "max_restarts": -1, "max_task_retries": 2, **self.resources}
        dataset = self.ray.data.from_items(rows, override_num_blocks=len(rows))
        # Ray 2.60 deprecates the retries without a replacement.
        with warnings.catch_warnings(action="ignore"):
            dataset = dataset.map(
                _Worker, fn_constructor_args=(make, self.resources["num_cpus"]), **options
            )
        dataset.context.max_errored_blocks = -1  # they remain
        dataset.context.enable_progress_bars = dataset.context.print_on_execution_start = False
        try:
            yield from dataset.iter_rows()
        except Exception as error:  # a node that died may also end a pass
            yield {
                "problem": f"the Ray cluster failed: {str(error).strip()[:200]}",
                "is_final": False,
            }


class _Worker:
    def __init__(self, make, num_cpus):
        os.environ.setdefault("TF_NUM_INTRAOP_THREADS", str(max(1, int(num_cpus))))
        self.make = functools.cache(make)

    def __call__(self, row):
        result, problem, is_final = None, "", False
        try:
            result = self.make()(row["block"].value)
        except Exception as error:  # such as a full disk: another worker may succeed
            problem, is_final = reason_without_number(error), isinstance(error, ValueError)
        result = SimpleNamespace(value=result)
        return {"number": row["number"], "result": result, "problem": problem, "is_final": is_final}


def _connected(address):
    """Connect to a Ray cluster; return the package `ray`."""
    if address.startswith(("local", "127.")):
        # On every system: loopback only.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    os.environ |= ENVIRONMENT | os.environ
    try:
        import ray
        import ray.data
    except ImportError:
        raise ValueError(
            'Ray is not installed. Run `pip install "keras_sat[ray]"` on every machine.'
        ) from None
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # `Workers.do` reports problems
    if not ray.is_initialized():
        _initialise(ray, address)
    return ray


def _initialise(ray, address):
    """Start a Ray cluster on this computer, or connect to a running one."""
    is_local = address == "local"
    options = {"include_dashboard": False} if is_local else {}
    for number in range(NUM_STARTS if is_local else 1):
        if number:
            warnings.warn("Ray did not start: trying again.", stacklevel=2)
        try:
            with nothing_on_standard_error():  # Ray says that its log is off
                ray.init(address=address, logging_level="ERROR", log_to_driver=False, **options)
            return
        except Exception as error:  # Ray raises many kinds
            lines = (str(error).strip() or type(error).__name__).splitlines()
            reason = lines[0].rstrip(".")
        ray.shutdown()
    if is_local:
        problem = "Ray did not start on this computer, which may be busy"
        raise ValueError(f"{problem}: run the same command again. Ray's reason: {reason}.")
    expected = 'Expected: "local", "auto" or host:port'
    raise ValueError(f"The Ray cluster did not answer: {reason}. {expected}. Received: {address}")


@with_options(BeamSearchOptions)
def distributed_caption(
    images: Any,
    model: Any = None,
    *,
    output: str | os.PathLike,
    ray: str = "local",
    recursive: bool = False,
    file_type: str = "jsonl",
    part_size: int = 1024,
    worker_cpus: float = 1,
    worker_gpus: float = 0,
    encoder_weights: str | os.PathLike | None = None,
    show_progress: bool = True,
    **options: Unpack[BeamSearchKeywords],
) -> Any:
    """Caption photos on a Ray cluster, write the captions in parts, and return a Ray
    Dataset that reads them.

    Whole parts are kept: remove a part to have it done again. A photo that cannot be
    read has a row with an error. All nodes must see the photos, the model and `output`
    under the same paths.

    Args:
        images: a folder, a pattern, a photo, a file with the path of a photo in each
            line (.txt), or the address of a folder, pattern or photo, such as
            s3://bucket/photos; or a list of these.
        model: see `Captioner.from_pretrained`; a list of models forms an ensemble.
        output: the folder for the parts.
        ray, worker_cpus, worker_gpus: see `keras_sat.deploy.ray_data.Workers`.
        recursive: include subfolders.
        file_type: "jsonl" or "parquet".
        part_size: photos in a part, rounded up to whole batches of 64.
        encoder_weights: see `Captioner.load`.
        show_progress: show progress on standard error.
        **options: see `keras_sat.options.BeamSearchOptions`.
    """
    given = {
        "output": output,
        "recursive": recursive,
        "file_type": file_type,
        "part_size": part_size,
    }
    given |= {
        "encoder_weights": encoder_weights,
        "show_progress": show_progress,
        "options": options,
    }
    paths, *_ = write_captions(
        images, model, **given, ray=ray, worker_cpus=worker_cpus, worker_gpus=worker_gpus
    )
    return _connected(ray).data.from_items([{"path": path} for path in paths]).flat_map(_rows_in)


def write_captions(
    images,
    model,
    *,
    output,
    recursive=False,
    file_type="jsonl",
    part_size=1024,
    encoder_weights=None,
    show_progress=True,
    options=None,
    **of_workers,
):
    """Do what `distributed_caption` does, with its `**options` as a dict.

    Return the paths of the parts, and the numbers of photos and of errors.
    """
    options = {} if options is None else options
    known = inspect.signature(distributed_caption).parameters
    BeamSearchOptions.of("distributed_caption", options, also=known)
    one_of("jsonl", "parquet").check("file_type", file_type)
    count().check("part_size", part_size)
    part_size = -(-part_size // BATCH_SIZE) * BATCH_SIZE
    images = [
        _absolute(image)
        for image in ([images] if isinstance(images, (str, os.PathLike)) else images)
    ]
    if others := [image for image in images if not isinstance(image, str)]:
        raise ValueError(
            f"Expected the paths of photos, lists and folders. Received: {type(others[0]).__name__}"
        )
    if "://" in os.fspath(output):
        raise ValueError(
            f"Captions are written into a folder that all nodes see. Received: {output=}"
        )
    output, load = Path(_absolute(output)), loading(model, encoder_weights)
    settings = {
        "images": images,
        "recursive": recursive,
        "file_type": file_type,
        "part_size": part_size,
    }
    models, weights = load.args
    settings |= {"models": _digests(models), "options": options, "encoder_weights": weights}
    with exclusive_lock(output / "_lock", f"is captioning into {output}"):
        parts = list(_parts_of(_list_of_photos(output, settings), part_size))
        paths = [str(output / f"part-{number:06d}.{file_type}") for number in range(len(parts))]
        to_do, num_errors = _unfinished(paths, parts)
        if to_do:
            clear_half_written(*(path for path, *_ in to_do))
            workers = Workers(**of_workers)
            make = functools.partial(_captioning_parts, load, settings["models"], options)
            with Progress(
                len(parts), label="captions", unit="parts", show=show_progress
            ) as progress:
                progress.skip(len(parts) - len(to_do))
                progress.advance(0)
                for _, errors in workers.do(make, to_do):
                    num_errors += errors
                    progress.advance(1)
    return paths, sum(num_photos for *_, num_photos in parts), num_errors


def _unfinished(paths, parts):
    """Return (path, *part) of each part to do, and the number of errors in others."""
    to_do, damaged, num_errors = [], [], 0
    for path, part in zip(paths, parts):
        if not os.path.exists(path):
            to_do.append((path, *part))
            continue
        *_, num_photos = part
        try:
            num_errors += _num_errors(path, num_photos)
        except (ValueError, LookupError, TypeError):
            damaged.append(path)
            to_do.append((path, *part))
    if damaged:
        problem = f"{len(damaged)} parts are damaged and made again (first: {damaged[0]})"
        warnings.warn(f"{problem}.", stacklevel=2)
    return to_do, num_errors


def _num_errors(path, num_photos):
    """Return the number of rows with an error in a part.

    Raise ValueError, LookupError or TypeError if the part is damaged.
    """
    content = Path(path).read_bytes()
    if path.endswith("jsonl"):
        lines = content.splitlines()
        unlike_a_caption = [line for line in lines if b'"error": null' not in line]
        num_errors = sum(json.loads(line)["error"] is not None for line in unlike_a_caption)
        num_rows = len(lines) if content.endswith(b"\n") else None
    else:
        from pyarrow import parquet

        try:
            errors = parquet.read_table(io.BytesIO(content), columns=["error"])["error"]
        except OSError as error:
            raise ValueError(f"{path}: {error}") from None
        num_rows, num_errors = len(errors), len(errors) - errors.null_count
    if num_rows != num_photos:
        raise ValueError(f"{path}: the part has another number of rows. Expected: {num_photos}.")
    return num_errors


def load_models(models, encoder_weights):
    """Load a list of one model as a Captioner, or of several as an Ensemble.

    See `Captioner.load`.
    """
    import_tensorflow()
    from keras_sat.beyond.ensemble import Ensemble
    from keras_sat.captioner import Captioner

    captioners = [
        Captioner.from_pretrained(model, encoder_weights=encoder_weights) for model in models
    ]
    return captioners[0] if len(captioners) == 1 else Ensemble(captioners)


def loading(models, encoder_weights):
    """Return a function that calls `load_models` in any process: relative paths of
    files become absolute.
    """
    models = models if isinstance(models, (list, tuple)) else [models]
    return functools.partial(
        load_models, list(map(_absolute_file, models)), _absolute_file(encoder_weights)
    )


def _absolute_file(name):
    """Return the absolute path of a file or folder.

    The name of a bundled model, for example, stays as it is.
    """
    if name is not None and not isinstance(name, (str, os.PathLike)):
        raise ValueError(
            f"Expected a folder or name, which each worker loads. Received: {type(name).__name__}"
        )
    return (
        _absolute(name) if name is not None and os.path.exists(os.path.expanduser(name)) else name
    )


def _digests(models):
    """Return digests of saved models: of their config.json, which contains the digests
    of the other files.
    """
    return [file_digest(model_directory(model) / "config.json") for model in models]


def _absolute(path):
    """Return a path or address that means the same in all processes.

    Anything else stays as it is.
    """
    is_path = isinstance(path, (str, os.PathLike)) and "://" not in os.fspath(path)
    return os.path.abspath(os.path.expanduser(path)) if is_path else path


def _captioner_on_node(load, digests):
    if (found := _digests(load.args[0])) != digests:
        raise ValueError(f"This node has another model. Expected: {digests}. Received: {found}")
    captioner = load()
    captioner.photo_loader = PhotoProcess().load
    return captioner


def _captioning_parts(load, digests, options):
    """Return the function that captions a part, writes its file, and returns the number
    of errors.
    """
    captioner = _captioner_on_node(load, digests)

    def caption(part):
        path, photos = part[0], _photos_of_part(part)
        results = captioner.caption_each(photos, errors="yield", batch_size=BATCH_SIZE, **options)
        rows = [_row(*result) for result in results]
        write_whole(path, _encoded(rows, is_parquet=path.endswith("parquet")))
        return sum(row["error"] is not None for row in rows)

    return caption


def _photos_of_part(part):
    """Return the paths of the photos of a part, given as (path, first byte, number of
    bytes, number of photos).
    """
    path, start, num_bytes, _ = part
    with open(Path(path).parent / "_photos.jsonl", "rb") as file:
        file.seek(start)
        return list(map(json.loads, file.read(num_bytes).splitlines()))


def _captioning(load, digests, options):
    """Return the function that captions a block of photos, (number, paths)."""
    captioner = _captioner_on_node(load, digests)

    def caption(block):
        results = captioner.caption_each(block[1], batch_size=len(block[1]), **options)
        return [dataclasses.replace(result, image=None) for _, result in results]

    return caption


def _row(photo, result):
    is_error = isinstance(result, Exception)
    found = (
        {"error": reason_without_number(result)}
        if is_error
        else {"is_finished": True, **result.to_dict()}
    )
    return dict.fromkeys(COLUMNS) | {"image": photo} | found


def _encoded(rows, is_parquet):
    if not is_parquet:
        return b"".join(
            json.dumps(row, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
            for row in rows
        )
    import pandas

    rows = [{name: _as_utf8(value) for name, value in row.items()} for row in rows]
    return pandas.DataFrame(rows).to_parquet()


def _as_utf8(value):
    """Escape the bytes of file names that are not UTF-8, which Parquet cannot store."""
    if isinstance(value, list):
        return [_as_utf8(each) for each in value]
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _rows_in(part):
    if part["path"].endswith("jsonl"):
        return list(map(json.loads, Path(part["path"]).read_bytes().splitlines()))
    from pyarrow import parquet

    return parquet.read_table(part["path"]).to_pylist()


# === Lists of photos, which need not fit into memory ===


def _list_of_photos(output, settings):
    """Return the path of the list of photos, written by the first run.

    Reject other settings than those of that run.
    """
    path, settings_path = output / "_photos.jsonl", output / "_settings.json"
    if not settings_path.exists():
        if any(output.glob("part-*")):
            problem = f"{output} contains parts of captions, but not their settings"
            raise ValueError(f"{problem}. Choose another folder (--output).")
        with open(path, "wb") as file:
            file.writelines(_lines(settings))
            file.flush()
            os.fsync(file.fileno())
        write_sealed_json(settings_path, {**settings, "photos_digest": _digest_of(path)})
        return path
    way_out = f"Choose another folder (--output); the parts in {output} can still be read."
    first = read_sealed_json(settings_path, "settings of captions", way_out)
    reject_differences(first, settings, output)
    recorded = first.get("photos_digest")  # none in folders from before there was one
    if not path.is_file() or recorded not in (None, _digest_of(path)):
        problem = f"{path}: the list of photos is missing or was changed"
        raise ValueError(f"{problem}, so the rest of it cannot be captioned. {way_out}")
    _warn_of_added_photos(path, settings)
    return path


def _lines(settings):
    """Yield the lines of the list of photos."""
    if not settings["images"]:
        raise ValueError("No photos were found. Received: images=[]")
    for photo in _photos_in(settings["images"], settings["recursive"]):
        yield json.dumps(photo).encode() + b"\n"


def _digest_of(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _warn_of_added_photos(path, settings):
    """Warn of photos that the first run did not find.

    Ten million photos take 160 MB of memory: two hashes each.
    """
    with open(path, "rb") as lines:
        known = np.fromiter(map(hash, lines), np.int64)
    try:
        found = np.fromiter(map(hash, _lines(settings)), np.int64)
    except Exception:  # they were moved since; file systems have their own kinds of errors
        return
    if num_added := len(np.setdiff1d(found, known)):
        problem = f"{num_added} photos were added after the first run and are left out"
        way_out = "list their paths in a .txt file, and choose another folder (--output)"
        warnings.warn(f"{problem}. To caption them, {way_out}.", stacklevel=2)


def _photos_in(images, recursive):
    """Yield the paths and addresses of photos; see `distributed_caption`."""
    for image in images:
        photos = _photos_of(image, recursive)
        first = next(photos, None)
        if first is None:
            raise ValueError(f"{image}: no pictures were found here.")
        yield first
        yield from photos


def _photos_of(image, recursive):
    """Yield the photos that one of `images` stands for."""
    if "://" in image:
        yield from _photos_at(image, recursive)
    elif image.endswith(".txt") and not os.path.isdir(image):
        with open(image, encoding="utf-8-sig", errors="surrogateescape") as lines:
            yield from (_absolute(line.rstrip("\r\n")) for line in lines if line.strip())
    elif recursive and os.path.isdir(image):
        yield from itertools.chain.from_iterable(pictures_by_folder(image))
    else:
        found = find_pictures(image)
        if found == [image] and not os.path.exists(image):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), image)
        yield from (path for path in found if not os.path.isdir(path))


def _photos_at(address, recursive):
    """Yield the addresses of photos: of one, of those that match a pattern, or of those
    in a folder.
    """
    try:
        import fsspec

        files, root = fsspec.url_to_fs(address)
    # The package for s3 or gcs is missing, or the protocol is unknown.
    except (ImportError, ValueError) as error:
        raise ValueError(f"{address}: {error}") from None
    if glob.has_magic(root) or files.isfile(root):
        yield from map(files.unstrip_protocol, sorted(files.glob(root)))
        return
    for folder, _, names in files.walk(root, maxdepth=None if recursive else 1, on_error="raise"):
        photos = (
            f"{folder}/{name}" for name in sorted(names) if name.lower().endswith(IMAGE_ENDINGS)
        )
        yield from map(files.unstrip_protocol, photos)


def _parts_of(path, part_size):
    """Yield first byte, number of bytes and of photos of each part of a list."""
    with open(path, "rb") as lines:
        start = 0
        while sizes := [*map(len, itertools.islice(lines, part_size))]:
            yield start, sum(sizes), len(sizes)
            start += sum(sizes)


class DistributedCaptioner:
    """A captioner for `evaluate` whose `caption_each` runs on Workers.

    Everything else is the captioner's own.
    """

    def __init__(self, captioner, load, workers):
        self._captioner, self._load, self._workers = captioner, load, workers

    def __getattr__(self, name):
        return getattr(self._captioner, name)

    def caption_each(self, images, *, cache=None, batch_size=64, **options):
        """Do what `CaptionGenerator.caption_each` does, without the pictures."""
        if cache is not None:
            raise ValueError(
                "Ray workers read the photos. Leave out the feature cache (--cache-dir)."
            )
        photos, starts = (
            [_absolute(image.image_path) for image in images],
            range(0, len(images), batch_size),
        )
        blocks = [(start, photos[start : start + batch_size]) for start in starts]
        make = functools.partial(_captioning, self._load, _digests(self._load.args[0]), options)
        results = {start: results for (start, _), results in self._workers.do(make, blocks)}
        return zip(
            images, itertools.chain.from_iterable(results[start] for start in starts), strict=True
        )


# === Features ===


def encoding_on(workers, encoder_options, part_size=1024):
    """Return an `encode_rows` for `FeatureCache.build`: Workers write features, the
    caller which rows are done.

    Args:
        workers: Workers. All nodes must see the photos and the cache under the same
            paths.
        encoder_options: dict of CaptionerOptions.
        part_size: photos in a block, rounded up to whole batches.
    """

    if "encoder_weights" in encoder_options:
        encoder_options = encoder_options | {
            "encoder_weights": _absolute_file(encoder_options["encoder_weights"])
        }

    def encode_rows(files, photos, encode, batch_size, errors, progress):
        size = -(-part_size // batch_size) * batch_size
        photos = [(row, image_id, _absolute(path)) for row, image_id, path in photos]
        blocks = [photos[start : start + size] for start in range(0, len(photos), size)]
        cache = (files.directory.resolve(), len(files.rows), files.manifest)
        make = functools.partial(_encoding, *cache, encoder_options, batch_size, errors)
        for block, batches in workers.do(make, blocks):
            for rows, checksums, records, unreadable in batches:
                if unreadable:
                    files.record_unreadable(unreadable)
                files.mark(rows, checksums, records)
            progress.advance(len(block))

    return encode_rows


def _encoding(directory, num_rows, manifest, encoder_options, batch_size, errors):
    """Return the function that encodes a block of photos and writes their features."""
    from keras_sat.captioner import Captioner

    encoder, reader = Captioner(["a"], **encoder_options).encoder_model, PhotoProcess()
    names = (manifest[name] for name in ("encoder", "layer", "image_size"))
    reject_differences(manifest, describe_encoder(encoder, *names), directory)
    options = (encoding_function(encoder, manifest["dtype"]), batch_size, errors, reader.load)
    return lambda photos: [
        (rows, write_features(directory, num_rows, rows, features), *others)
        for rows, features, *others in encoded_batches(manifest, photos, *options)
    ]
