"""Caption photos without TensorFlow: run a captioner's LiteRT file with the package
ai-edge-litert.

Loading the file and captioning a photo take less time than importing TensorFlow.
`keras-sat export --tflite` and `--web` write such a file. Saved captioners are
converted once by TensorFlow, with float32 weights; for bundled ones, `litert_graph`
makes the same file without TensorFlow:

    KERAS_HOME/keras_sat/litert-DIGEST/    see `keras_sat.deploy.litert_folder`;
                                           litert8-DIGEST has 8-bit weights

DIGEST is the digest of config.json, which contains the digests of the captioner's other
files. A folder with config.json is a saved captioner: a LiteRT file in it is never run.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import functools
import importlib.util
import itertools
import os
import queue
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from data_utils.atomic_files import clear_half_written, exclusive_lock, file_digest, whole_folder
from data_utils.captions import tokenise
from data_utils.images import load_image, photos_of
from data_utils.photo_regions import checked_regions, regions_for, visible_cells
from data_utils.tf_logging import import_tensorflow, nothing_on_standard_error
from keras_sat.deploy.litert_folder import (
    MANIFEST,
    MODEL,
    PACKED,
    read_index,
    read_litert,
    write_litert,
)
from keras_sat.deploy.litert_graph import filled, has_graph
from keras_sat.files.model_folder import model_directory
from keras_sat.options import CONSENSUS_BEAMS, EXTRAS, SearchOptions, count
from keras_sat.search.result import CaptionResult, with_image_paths
from keras_sat.weight_paths import keras_home

FEWEST_IN_PARALLEL = 32  # photos; for fewer, preparing several interpreters takes longer
PATIENCE = 600  # seconds to wait for another process to convert a captioner, which takes about ten


def is_installed() -> bool:
    """Return whether the package that runs LiteRT files is installed."""
    return importlib.util.find_spec("ai_edge_litert") is not None


def load_litert(
    model: str | os.PathLike | None = None,
    *,
    num_threads: int | None = None,
    eight_bit: bool = False,
) -> LiteRTCaptioner:
    """Load a captioner that runs without TensorFlow, for short scripts and servers.

    Args:
        model: a folder that `Captioner.save` wrote, a bundled name, or an export folder
            with a LiteRT file. The first is converted once, which needs TensorFlow and
            some seconds; other processes wait for it. None: the bundled photo
            captioner, even if the current folder contains a model of that name.
        num_threads: None uses one thread per processor core that the process may use.
        eight_bit: round weights to 8 bits: faster, but a fifth of the captions change.
            Not for exports.

    Raises:
        ValueError: the package ai-edge-litert is missing, there is no such model, or an
            export is damaged.
    """
    if not is_installed():
        raise ValueError(
            "Captioning without TensorFlow requires ai-edge-litert: pip install ai-edge-litert."
        )
    if num_threads is not None:
        count().check("num_threads", num_threads)
    if ready := ready_captioner(model, num_threads=num_threads, eight_bit=eight_bit):
        return ready
    return LiteRTCaptioner(
        make_file(model, wait_s=PATIENCE, eight_bit=eight_bit), num_threads=num_threads
    )


def ready_captioner(model, *, num_threads=None, eight_bit=False):
    """Return a LiteRTCaptioner for a model, or None if its LiteRT file is missing or
    cannot be loaded.

    The file of a bundled captioner is made, without TensorFlow.
    """
    if exported := export_folder(model):
        if eight_bit:
            raise ValueError(
                f"8-bit weights require a saved captioner. Received an export: {model}"
            )
        return LiteRTCaptioner(exported, num_threads=num_threads)
    for folder_of in (made_folder, make_file)[
        : 1 if eight_bit or not has_graph(model_directory(model)) else 2
    ]:
        with contextlib.suppress(OSError, ValueError):
            return LiteRTCaptioner(folder_of(model, eight_bit=eight_bit), num_threads=num_threads)
    return None


def export_folder(model):
    """Return the folder that contains the LiteRT file of an export or a web page, or
    None for a saved captioner.
    """
    given = model_directory(model)
    for folder in (given, given / "photo") if (given / "page.json").is_file() else (given,):
        if os.path.lexists(folder / "config.json"):
            return None
        if any((folder / name).exists() for name in (MANIFEST, MODEL, PACKED)):
            return folder
    return None


def made_folder(model, eight_bit=False):
    """Return the folder in which the LiteRT file of a saved captioner is cached."""
    digest = file_digest(model_directory(model) / "config.json")
    return keras_home() / "keras_sat" / f"litert{8 if eight_bit else ''}-{digest[:32]}"


def is_made(model, eight_bit=False):
    """Return whether the LiteRT file of a saved captioner exists and is intact."""
    try:
        return bool(read_litert(made_folder(model, eight_bit)))
    except (OSError, ValueError):
        return False


def make_file(model, *, wait_s=0, eight_bit=False):
    """Make the LiteRT file of a saved or bundled captioner, unless this was done
    before; return the folder.

    Wait at most `wait_s` seconds for another process that is converting one.
    """
    folder = made_folder(model, eight_bit)
    lock = folder.with_name(".litert.lock")
    with exclusive_lock(lock, f"is making a LiteRT file in {folder.parent}", wait_s=wait_s):
        if not is_made(model, eight_bit):
            clear_half_written(folder)
            shutil.rmtree(folder, ignore_errors=True)
            with whole_folder(folder) as temporary:
                _convert(model_directory(model), temporary, eight_bit)
    return folder


def _convert(directory, folder, eight_bit):
    """Write the LiteRT files of a saved captioner into a folder."""
    if has_graph(directory) and not eight_bit:
        with contextlib.suppress(OSError, ValueError):
            return write_litert(folder, *filled(directory))
    return write_litert(folder, *converted(directory, eight_bit=eight_bit))


def converted(directory, *, eight_bit=False):
    """Use TensorFlow to convert a saved captioner.

    Return its network and the other results of `filled`.
    """
    import_tensorflow()
    from keras_sat.captioner import Captioner
    from keras_sat.deploy.export import check_captioner, search_arguments
    from keras_sat.deploy.litert import litert_file

    captioner = Captioner.load(directory)  # checks the files
    check_captioner(captioner, in_float32=True)
    agreeing = captioner.consensus_options(SearchOptions())
    beams = {"num_beams": CONSENSUS_BEAMS} if agreeing else {}
    content = litert_file(captioner, *search_arguments(captioner, **beams), eight_bit=eight_bit)
    return content, captioner.vocabulary, agreeing and captioner.consensus, agreeing


class LiteRTCaptioner:
    """A captioner that runs on LiteRT: it captions photos as `Captioner` does, without
    batches.

    One photo gets all threads; of several, each thread captions another one. Threads
    may share a captioner: they read photos in parallel and caption them in turn.

    Attributes:
        vocabulary: Vocabulary.
        photo_size: (height, width) to which photos are resized.
        has_confidence: whether its captions have a confidence.
        consensus: chooses among beams, or None.
    """

    def __init__(self, directory: str | os.PathLike, *, num_threads: int | None = None):
        """Load the LiteRT file in a folder after checking the digests in litert.json;
        see `load_litert`.

        LiteRT's parser is not hardened against malicious files: load only files from
        people you trust.
        """
        from ai_edge_litert.interpreter import Interpreter

        self._folder = Path(directory).expanduser()
        content, self.vocabulary = read_litert(self._folder)
        self.consensus = read_index(self._folder, self.vocabulary)
        self._num_threads = num_threads or len(
            os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else [0]
        )
        self._new_interpreter = functools.partial(Interpreter, model_content=content)
        self._open(self._num_threads)
        with self._interpreting():
            shape = self._runners["serving_default"].get_input_details()["images"]["shape"]
            self.photo_size = (int(shape[1]), int(shape[2]))
            beams, attend = self._runners.get("beams"), self._runners.get("attend")
            self._grid = (
                None
                if beams is None
                else tuple(beams.get_input_details()["visible"]["shape"][1:].tolist())
            )
            self.has_confidence = beams is not None and "confidence" in beams.get_output_details()
            self._most_ids = (
                0 if attend is None else int(attend.get_input_details()["token_ids"]["shape"][1])
            )

    def _open(self, num_threads):
        self._lock = threading.Lock()  # concurrent use of the interpreter would give wrong captions
        self._greeted = set()
        with self._interpreting():
            interpreter = self._new_interpreter(num_threads=num_threads)
            names = interpreter.get_signature_list()
            self._runners = {name: interpreter.get_signature_runner(name) for name in names}

    @functools.cached_property
    def _copies(self):
        """As many captioners with one thread each as this one has threads."""
        copies = [copy.copy(self) for _ in range(self._num_threads)]
        for captioner in copies:
            captioner._open(num_threads=1)
        return copies

    @contextlib.contextmanager
    def _interpreting(self):
        """Lock the interpreter within a `with` block, and convert its errors to
        ValueError.
        """
        with self._lock:
            try:
                yield
            except (RuntimeError, ValueError, LookupError, TypeError) as error:
                raise ValueError(
                    f"{self._folder}: LiteRT cannot run this file ({str(error)[:200]}). "
                    "Export the captioner again or, "
                    "if this folder is in KERAS_HOME, remove it."
                ) from None

    def caption(self, images: Any, *, recursive: bool = False, region: Any = None) -> Any:
        """Return the CaptionResult of a photo, or a list of results for several photos.

        The search options are fixed in the file, usually 3 beams. The other beams are
        in `alternatives`.

        Args:
            images: a path, a PIL image or an array with values 0..255, a list of these,
                a folder, or a pattern such as "photos/*.jpg".
            recursive: include photos in subfolders.
            region: describe only this part of each photo, see `Captioner.caption`.
        """
        photos, many = photos_of(images, recursive=recursive)
        regions, is_one = regions_for(photos, region)
        results = self.caption_each(photos, regions=regions)
        results = [result[0] if is_one else result for _, result in results]
        return results if many else results[0]

    def caption_each(
        self, images: Any, *, errors: str = "raise", regions: Any = None
    ) -> Iterator[tuple[Any, Any]]:
        """Yield (image, CaptionResult) for each photo, or (image, list) with `regions`.

        Args:
            images: list of paths, PIL images or arrays.
            errors: what to do if a photo cannot be read: "raise" the error, or "yield"
                (image, error).
            regions: a list of regions for each photo, see `caption`. A photo is encoded
                once for all its regions.
        """
        if regions is None:
            return with_image_paths(self._each(images, errors, LiteRTCaptioner._caption))
        if self._grid is None:
            raise ValueError(
                "This LiteRT file cannot describe a part of a photo; use one from `export --web`."
            )
        regions = checked_regions(regions, len(images), self._grid)
        return with_image_paths(self._each(images, errors, LiteRTCaptioner._phrases, regions))

    def _caption(self, photo):
        if self._grid is None:
            return self._best(self._run("serving_default", images=photo[None]), photo)
        features = self._run("encode", images=photo[None])
        best = self._described(photo, features, np.ones(self._grid), self.vocabulary.start_token_id)
        return (
            self.consensus([best], features["features"], num_results=CONSENSUS_BEAMS)[0]
            if self.consensus
            else best
        )

    def _phrases(self, photo, regions):
        features, results = self._run("encode", images=photo[None]), []
        for region in regions:
            visible = visible_cells(region, self._grid)
            result = self._described(photo, features, visible, self.vocabulary.region_token_id)
            results.append(result.of_region(region))
        return results

    def _described(self, photo, features, visible, start_id):
        inputs = {
            "visible": visible[None].astype(np.uint8),
            "start_id": np.array([start_id], np.int32),
        }
        return self._best(self._run("beams", **features, **inputs), photo)

    def _best(self, found, photo):
        # There may be fewer captions than beams.
        numbers = np.flatnonzero(np.isfinite(found["log_prob"]))
        best, *others = [self._result(found, number, photo) for number in numbers]
        best.alternatives.extend(others)
        return best

    def attend(self, image: Any, caption: str) -> CaptionResult:
        """Return a CaptionResult for a given caption, with an attention map for each
        word.
        """
        return next(result for _, result in self.attend_each([image], caption))

    def attend_each(
        self, images: Any, caption: str, *, errors: str = "raise"
    ) -> Iterator[tuple[Any, Any]]:
        """Yield (image, CaptionResult of the given caption) for each photo.

        See `caption_each`.
        """
        words = tokenise(caption)
        if not 0 < len(words) < self._most_ids:
            raise ValueError(
                f"Expected a caption of 1 to {self._most_ids - 1} words. Received: "
                f"caption={caption!r}"
                if self._most_ids
                else "A LiteRT file from `export --tflite` cannot read a given caption; use "
                "one from `export --web`."
            )
        ids = np.zeros((1, self._most_ids), np.int32)  # padded with `<pad>`
        ids[0, : len(words) + 1] = [
            *self.vocabulary.caption_to_ids(words),
            self.vocabulary.end_token_id,
        ]

        def attend(captioner, photo):
            found = captioner._run(
                "attend", **captioner._run("encode", images=photo[None]), token_ids=ids
            )
            return captioner._result(found, 0, photo, words)

        return with_image_paths(self._each(images, errors, attend))

    def _each(self, images, errors, result_of, *others):
        """Yield (image, result_of(captioner, photo, *of_photo)) for each image, in
        their order; see `caption_each`.
        """
        captioners, idle = (
            self._copies if len(images) >= FEWEST_IN_PARALLEL else [self],
            queue.SimpleQueue(),
        )
        for captioner in captioners:
            idle.put(captioner)

        def describe(image, *of_photo):
            try:
                photo = load_image(image, self.photo_size)
            except (OSError, ValueError) as error:
                if errors == "raise":
                    raise
                return error
            captioner = idle.get()
            try:
                return result_of(captioner, photo, *of_photo)
            finally:
                idle.put(captioner)

        with ThreadPoolExecutor(len(captioners)) as threads:
            tasks = (
                (image, threads.submit(describe, image, *of_photo))
                for image, *of_photo in zip(images, *others)
            )
            running = collections.deque(itertools.islice(tasks, 2 * len(captioners)))
            while running:
                image, task = running.popleft()
                yield image, task.result()
                running.extend(itertools.islice(tasks, 1))

    def _run(self, name, **inputs):
        is_first = name not in self._greeted
        self._greeted.add(name)
        # LiteRT prints a greeting
        quiet = nothing_on_standard_error() if is_first else contextlib.nullcontext()
        with self._interpreting(), quiet:
            return self._runners[name](**inputs)

    def _result(self, found, number, photo, words=None):
        """Build the CaptionResult of one caption from the outputs of a signature."""
        count, ids = int(found["num_words"][number]), found["token_ids"][number]
        tokens = self.vocabulary.tokens
        if ids.max() >= len(tokens):
            problem = f"{self._folder}: vocabulary.txt lacks words of the network."
            raise ValueError(f"{problem} Export the captioner again.")
        words = words or [tokens[token] for token in ids[:count]]
        return CaptionResult(
            " ".join(words),
            words,
            float(found["log_prob"][number]),
            found["attention_weights"][number, :count],
            word_probs=found["word_probs"][number, :count],
            extras={name: found[name][number, :count] for name in EXTRAS if name in found},
            is_finished=count < len(ids),
            confidence=float(found["confidence"][number]) if "confidence" in found else None,
            image=photo,
        )
