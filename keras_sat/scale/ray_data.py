"""Caption and encode photos on many machines with Ray Data,
https://docs.ray.io/en/latest/data/data.html.

Ray sends blocks of photos to workers, processes that hold the model. A block may be
done twice: it writes the same bytes again. A folder of captions contains

    _photos.jsonl, _settings.json    the photos and settings of the first run, see
                                     `keras_sat.scale.photo_list`
    part-000000.jsonl ...            the captions of the first block of photos, and so
                                     on: whole or not there
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import io
import itertools
import json
import os
import warnings
from pathlib import Path
from typing import Any

from data_utils.base import (
    Progress,
    clear_half_written,
    exclusive_lock,
    import_tensorflow,
    reason_without_number,
    write_whole,
)
from data_utils.features import (
    describe_encoder,
    encoded_batches,
    encoding_function,
    reject_differences,
    write_features,
)
from data_utils.photos import PhotoProcess
from keras_sat.bounds import count, one_of
from keras_sat.files import model_digest, model_directory
from keras_sat.scale.photo_list import absolute, list_of_photos, parts_of, photos_of_part
from keras_sat.scale.ray_workers import Workers, connected
from keras_sat.settings import ALGORITHM_OPTIONS, Search, with_options

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
    "consensus",
    "likely_words",
)


@with_options(Search, ALGORITHM_OPTIONS)
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
    **options: Any,
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
        ray, worker_cpus, worker_gpus: see `keras_sat.scale.ray_workers.Workers`.
        recursive: include subfolders.
        file_type: "jsonl" or "parquet".
        part_size: photos in a part, rounded up to whole batches of 64.
        encoder_weights: see `Captioner.load`.
        show_progress: show progress on standard error.
        **options: see `keras_sat.settings.Search`.
    """
    paths, _, _ = write_captions(
        images,
        model,
        output=output,
        recursive=recursive,
        file_type=file_type,
        part_size=part_size,
        encoder_weights=encoder_weights,
        show_progress=show_progress,
        options=options,
        ray=ray,
        worker_cpus=worker_cpus,
        worker_gpus=worker_gpus,
    )
    rows = [{"path": path} for path in paths]
    return connected(ray).data.from_items(rows).flat_map(_rows_of_part)


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
    **worker_options,
):
    """Do what `distributed_caption` does, with its `**options` as a dict.

    Args:
        worker_options: the arguments of Workers.

    Return the paths of the parts, and the numbers of photos and of errors.
    """
    options = {} if options is None else options
    other_arguments = inspect.signature(distributed_caption).parameters
    Search.of("distributed_caption", options, names=ALGORITHM_OPTIONS, also=other_arguments)
    one_of("jsonl", "parquet").check("file_type", file_type)
    count().check("part_size", part_size)
    part_size = -(-part_size // BATCH_SIZE) * BATCH_SIZE
    images = _absolute_images(images)
    if "://" in os.fspath(output):
        raise ValueError(
            f"Captions are written into a folder that all nodes see. Received: {output=}"
        )
    output = Path(absolute(output))
    source = loading(model, encoder_weights)
    settings = {
        "images": images,
        "recursive": recursive,
        "file_type": file_type,
        "part_size": part_size,
        "models": source.digests(),
        "options": options,
        "encoder_weights": source.encoder_weights,
    }
    with exclusive_lock(output / "_lock", f"is captioning into {output}"):
        photos_path = list_of_photos(output, settings)
        parts = list(parts_of(photos_path, part_size))
        paths = [str(output / f"part-{number:06d}.{file_type}") for number in range(len(parts))]
        unfinished, num_errors = _unfinished(paths, parts)
        if unfinished:
            clear_half_written(*(path for path, _ in unfinished))
            workers = Workers(**worker_options)
            make = functools.partial(_captioning_parts, source, settings["models"], options)
            with Progress(
                len(parts), label="captions", unit="parts", show=show_progress
            ) as progress:
                progress.skip(len(parts) - len(unfinished))
                progress.advance(0)
                for _, num_errors_of_part in workers.do(make, unfinished):
                    num_errors += num_errors_of_part
                    progress.advance(1)
    num_photos = sum(part.num_photos for part in parts)
    return paths, num_photos, num_errors


def _absolute_images(images):
    """Return the images of `distributed_caption` as absolute paths and addresses."""
    if isinstance(images, (str, os.PathLike)):
        images = [images]
    images = [absolute(image) for image in images]
    for image in images:
        if not isinstance(image, str):
            raise ValueError(
                f"Expected the paths of photos, lists and folders. Received: {type(image).__name__}"
            )
    return images


# === The model, on all nodes ===


@dataclasses.dataclass(frozen=True)
class ModelSource:
    """Where each process on each node finds the models; `loading` makes it.

    Attributes:
        models: list of folders and names, see `Captioner.from_pretrained`.
        encoder_weights: see `Captioner.load`.
    """

    models: list
    encoder_weights: Any

    def load(self):
        """Return a Captioner or, of several models, an Ensemble."""
        return load_models(self.models, self.encoder_weights)

    def digests(self):
        """Return digests of the models: of their config.json, which contains the
        digests of the other files.
        """
        return [model_digest(model_directory(model)) for model in self.models]


def loading(models, encoder_weights):
    """Return the ModelSource of one model or a list; paths become absolute."""
    models = models if isinstance(models, (list, tuple)) else [models]
    return ModelSource([_absolute_file(model) for model in models], _absolute_file(encoder_weights))


def load_models(models, encoder_weights):
    """Load a list of one model as a Captioner, or of several as an Ensemble.

    See `Captioner.load`.
    """
    import_tensorflow()
    from keras_sat.captioner import Captioner
    from keras_sat.search import Ensemble

    captioners = [
        Captioner.from_pretrained(model, encoder_weights=encoder_weights) for model in models
    ]
    return captioners[0] if len(captioners) == 1 else Ensemble(captioners)


def _absolute_file(name):
    """Return the absolute path of a file or folder.

    The name of a bundled model, for example, stays as it is, and so does None.
    """
    if name is None:
        return None
    if not isinstance(name, (str, os.PathLike)):
        raise ValueError(
            f"Expected a folder or name, which each worker loads. Received: {type(name).__name__}"
        )
    return absolute(name) if os.path.exists(os.path.expanduser(name)) else name


def _captioner_on_node(source, digests):
    """Load the captioner in a worker, where a PhotoProcess reads the photos.

    Raise ValueError if the models have other digests than where the run was started.
    """
    digests_here = source.digests()
    if digests_here != digests:
        raise ValueError(
            f"This node has another model. Expected: {digests}. Received: {digests_here}"
        )
    captioner = source.load()
    captioner.photo_loader = PhotoProcess().load
    return captioner


# === Captions in parts ===


def _captioning_parts(source, digests, options):
    """Return the function that captions a part, given as (path of its file, Part).

    It writes the file, and returns the number of errors.
    """
    captioner = _captioner_on_node(source, digests)

    def caption(path_and_part):
        path, part = path_and_part
        photos = photos_of_part(Path(path).with_name("_photos.jsonl"), part)
        results = captioner.caption_each(photos, errors="yield", batch_size=BATCH_SIZE, **options)
        rows = [_row(photo, result) for photo, result in results]
        write_whole(path, _encoded(rows, is_parquet=path.endswith("parquet")))
        return sum(row["error"] is not None for row in rows)

    return caption


def _row(photo, result):
    """Return a dict with all COLUMNS, given a photo and its result or error."""
    row = dict.fromkeys(COLUMNS)
    row["image"] = photo
    if isinstance(result, Exception):
        row["error"] = reason_without_number(result)
    else:
        row |= {"is_finished": True, **result.to_dict()}
    return row


def _encoded(rows, is_parquet):
    """Return the bytes of a part."""
    if not is_parquet:
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        return "".join(lines).encode("utf-8", "backslashreplace")
    import pandas

    rows = [{name: _as_utf8(value) for name, value in row.items()} for row in rows]
    return pandas.DataFrame(rows).to_parquet()


def _as_utf8(value):
    """Escape the bytes of file names that are not UTF-8, which Parquet cannot store."""
    if isinstance(value, list):
        return [_as_utf8(each) for each in value]
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return value


def _rows_of_part(row):
    """Return the rows of a part, given {"path": path}, a row of a Ray Dataset."""
    if row["path"].endswith("jsonl"):
        return [json.loads(line) for line in Path(row["path"]).read_bytes().splitlines()]
    from pyarrow import parquet

    return parquet.read_table(row["path"]).to_pylist()


def _unfinished(paths, parts):
    """Return (path, Part) of each part to do, and the number of errors in the others.

    Warn of parts that are damaged.
    """
    unfinished, damaged, num_errors = [], [], 0
    for path, part in zip(paths, parts):
        if not os.path.exists(path):
            unfinished.append((path, part))
            continue
        try:
            num_errors += _num_errors(path, part.num_photos)
        except (ValueError, LookupError, TypeError):
            damaged.append(path)
            unfinished.append((path, part))
    if damaged:
        problem = f"{len(damaged)} parts are damaged and made again (first: {damaged[0]})"
        warnings.warn(f"{problem}.", stacklevel=2)
    return unfinished, num_errors


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
        num_rows = len(errors)
        num_errors = num_rows - errors.null_count
    if num_rows != num_photos:
        raise ValueError(f"{path}: the part has another number of rows. Expected: {num_photos}.")
    return num_errors


# === Captions for `evaluate` ===


class DistributedCaptioner:
    """A captioner for `evaluate` whose `caption_images` runs on Workers.

    Everything else is the captioner's own.

    Args:
        captioner: Captioner or Ensemble.
        source: its ModelSource, from which each worker loads it.
        workers: Workers.
    """

    def __init__(self, captioner, source, workers):
        self._captioner = captioner
        self._source = source
        self._workers = workers

    def __getattr__(self, name):
        return getattr(self._captioner, name)

    def caption_images(self, images, search, *, cache=None, regions=None):
        """Do what `CaptionGenerator.caption_images` does, without the pictures."""
        if regions is not None:
            raise ValueError("Ray workers caption whole photos. Leave out the regions (--regions).")
        if cache is not None:
            raise ValueError(
                "Ray workers read the photos. Leave out the feature cache (--cache-dir)."
            )
        photos = [absolute(image.image_path) for image in images]
        starts = range(0, len(photos), search.batch_size)
        blocks = [(start, photos[start : start + search.batch_size]) for start in starts]
        make = functools.partial(_captioning, self._source, self._source.digests(), search)
        results = {start: results for (start, _), results in self._workers.do(make, blocks)}
        results_in_order = itertools.chain.from_iterable(results[start] for start in starts)
        return zip(images, results_in_order, strict=True)


def _captioning(source, digests, search):
    """Return the function that captions a block of photos, given as (number, paths).

    It returns a list of CaptionResults.
    """
    captioner = _captioner_on_node(source, digests)

    def caption(block):
        _, photos = block
        results = captioner.caption_images(photos, search)
        return [dataclasses.replace(result, image=None) for _, result in results]

    return caption


# === Features ===


def encoding_on(workers, encoder_options, part_size=1024):
    """Return an `encode_rows` for `FeatureCache.build`: Workers write features, the
    caller which rows are done.

    Args:
        workers: Workers. All nodes must see the photos and the cache under the same
            paths.
        encoder_options: dict of CaptionerSettings.
        part_size: photos in a block, rounded up to whole batches.
    """
    if "encoder_weights" in encoder_options:
        encoder_weights = _absolute_file(encoder_options["encoder_weights"])
        encoder_options = {**encoder_options, "encoder_weights": encoder_weights}

    def encode_rows(files, photos, encode, batch_size, progress):
        size = -(-part_size // batch_size) * batch_size
        photos = [(row, image_id, absolute(path)) for row, image_id, path in photos]
        blocks = [photos[start : start + size] for start in range(0, len(photos), size)]
        make = functools.partial(
            _encoding,
            files.directory.resolve(),
            len(files.rows),
            files.manifest,
            encoder_options,
            batch_size,
        )
        for block, batches in workers.do(make, blocks):
            for rows, checksums, records, unreadable in batches:
                if unreadable:
                    files.record_unreadable(unreadable)
                files.mark(rows, checksums, records)
            progress.advance(len(block))

    return encode_rows


def _encoding(directory, num_rows, manifest, encoder_options, batch_size):
    """Return the function that encodes a block of photos and writes their features.

    It returns a list with the rows, checksums, records and unreadable photos of each
    batch.

    Args:
        directory, num_rows, manifest: of the feature cache.
        encoder_options, batch_size: see `encoding_on`.
    """
    from keras_sat.captioner import Captioner

    encoder = Captioner(["a"], **encoder_options).encoder_model
    description = describe_encoder(
        encoder, manifest["encoder"], manifest["layer"], manifest["image_size"]
    )
    reject_differences(manifest, description, directory)
    encode = encoding_function(encoder)
    load = PhotoProcess().load

    def encode_block(photos):
        written = []
        batches = encoded_batches(manifest, photos, encode, batch_size, load)
        for rows, features, records, unreadable in batches:
            checksums = write_features(directory, num_rows, rows, features)
            written.append((rows, checksums, records, unreadable))
        return written

    return encode_block
