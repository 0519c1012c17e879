"""Caption photos without TensorFlow: run a captioner's LiteRT file with the package
ai-edge-litert.

Loading the file and captioning a photo take less time than importing TensorFlow.
`keras-sat export --tflite` and `--web` write such a file. Saved captioners are
converted once by TensorFlow, with float32 weights; for bundled ones, `litert_graph`
makes the same file without TensorFlow:

    KERAS_HOME/keras_sat/litert-VERSION-DIGEST/    see `keras_sat.deploy.litert_folder`

VERSION is that of the signatures. DIGEST is the digest of config.json, which contains
the digests of the captioner's other files; for bundled captioners, of the graph, which
contains that of config.json. A folder with config.json is a saved captioner: a LiteRT
file in it is never run.
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

from data_utils.atomic_files import (
    clear_half_written,
    exclusive_lock,
    file_digest,
    whole_folder,
)
from data_utils.captions import tokenise
from data_utils.foreign_text import brief
from data_utils.images import load_image, photos_of
from data_utils.photo_regions import checked_regions, crops_of, regions_for
from data_utils.tf_logging import import_tensorflow, nothing_on_standard_error
from keras_sat.beyond.consensus import Consensus
from keras_sat.bounds import count
from keras_sat.deploy.litert_folder import (
    MANIFEST,
    MODEL,
    PACKED,
    SIGNATURES_VERSION,
    read_litert,
    write_litert,
)
from keras_sat.deploy.litert_graph import GRAPH, filled, has_graph
from keras_sat.files.model_folder import model_digest, model_directory
from keras_sat.search.result import CaptionResult, by_photo, with_image_paths
from keras_sat.settings import CONSENSUS_BEAMS, EXTRAS, Search
from keras_sat.weight_paths import keras_home

FEWEST_IN_PARALLEL = 32  # photos; for fewer, preparing several interpreters takes longer
PATIENCE = 600  # seconds to wait for another process to convert a captioner, which takes about ten


def is_installed() -> bool:
    """Return whether the package that runs LiteRT files is installed."""
    return importlib.util.find_spec("ai_edge_litert") is not None


def load_litert(
    model: str | os.PathLike | None = None, *, num_threads: int | None = None
) -> LiteRTCaptioner:
    """Load a captioner that runs without TensorFlow, for short scripts and servers.

    Args:
        model: a folder that `Captioner.save` wrote, a bundled name, or an export folder
            with a LiteRT file. The first is converted once, which needs TensorFlow and
            some seconds; other processes wait for it. None: the bundled photo
            captioner, even if the current folder contains a model of that name.
        num_threads: None uses one thread per processor core that the process may use.

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
    ready = ready_captioner(model, num_threads=num_threads)
    if ready is not None:
        return ready
    return LiteRTCaptioner(make_file(model, wait_s=PATIENCE), num_threads=num_threads)


def ready_captioner(model, *, num_threads=None):
    """Return a LiteRTCaptioner for a model, or None if its LiteRT file is missing or
    cannot be loaded.

    The file of a bundled captioner is made, without TensorFlow.
    """
    exported = export_folder(model)
    if exported is not None:
        return LiteRTCaptioner(exported, num_threads=num_threads)
    with contextlib.suppress(OSError, ValueError):
        return LiteRTCaptioner(made_folder(model), num_threads=num_threads)
    if has_graph(model_directory(model)):
        with contextlib.suppress(OSError, ValueError):
            return LiteRTCaptioner(make_file(model), num_threads=num_threads)
    return None


def export_folder(model):
    """Return the folder that contains the LiteRT file of an export or a web page, or
    None for a saved captioner.
    """
    directory = model_directory(model)
    folders = [directory]
    if (directory / "page.json").is_file():
        folders.append(directory / "photo")
    for folder in folders:
        if os.path.lexists(folder / "config.json"):
            return None
        if any((folder / name).exists() for name in (MANIFEST, MODEL, PACKED)):
            return folder
    return None


def made_folder(model):
    """Return the folder in which the LiteRT file of a saved captioner is cached."""
    directory = model_directory(model)
    digest = file_digest(directory / GRAPH) if has_graph(directory) else model_digest(directory)
    return keras_home() / "keras_sat" / f"litert-{SIGNATURES_VERSION}-{digest[:32]}"


def is_made(model):
    """Return whether the LiteRT file of a saved captioner exists and is intact."""
    try:
        read_litert(made_folder(model))
    except (OSError, ValueError):
        return False
    return True


def make_file(model, *, wait_s=0):
    """Make the LiteRT file of a saved or bundled captioner, unless this was done
    before; return the folder.

    Wait at most `wait_s` seconds for another process that is converting one.
    """
    folder = made_folder(model)
    lock = folder.with_name(".litert.lock")
    with exclusive_lock(lock, f"is making a LiteRT file in {folder.parent}", wait_s=wait_s):
        if not is_made(model):
            clear_half_written(folder)
            shutil.rmtree(folder, ignore_errors=True)
            with whole_folder(folder) as temporary:
                _convert(model_directory(model), temporary)
    return folder


def _convert(directory, folder):
    """Write the LiteRT files of a saved captioner into a folder."""
    if has_graph(directory):
        with contextlib.suppress(OSError, ValueError):
            write_litert(folder, *filled(directory))
            return
    write_litert(folder, *converted(directory))


def converted(directory):
    """Use TensorFlow to convert a saved captioner.

    Return the arguments of `write_litert`, as `filled` does.
    """
    import_tensorflow()
    from keras_sat.captioner import Captioner
    from keras_sat.deploy.export import check_captioner, search_arguments
    from keras_sat.deploy.litert import litert_file

    captioner = Captioner.load(directory)  # checks the files
    check_captioner(captioner, in_float32=True)
    search = captioner.search_settings
    if not captioner.uses_consensus(search):
        content = litert_file(captioner, *search_arguments(captioner))
        return content, captioner.vocabulary, None, None
    greedy, beams = search_arguments(captioner, num_beams=CONSENSUS_BEAMS)
    content = litert_file(captioner, greedy, beams)
    choice = {name: getattr(search, name) for name in ("consensus_weight", "length_penalty")}
    return content, captioner.vocabulary, captioner.consensus.arrays, choice


class LiteRTCaptioner:
    """A captioner that runs on LiteRT: like `Captioner`, but without batches.

    One photo gets all threads; of several, each thread captions another one. Threads
    may share a captioner: they read photos in parallel and caption them in turn.

    Attributes:
        vocabulary: Vocabulary.
        photo_size: (height, width) to which photos are resized.
        has_confidence: whether its captions have a confidence.
        consensus: Consensus that chooses among beams, or None.
        search_settings: the Search by which it chooses, if there is a consensus.
    """

    def __init__(self, directory: str | os.PathLike, *, num_threads: int | None = None):
        """Load the LiteRT file in a folder after checking the digests in litert.json;
        see `load_litert`.

        LiteRT's parser is not hardened against malicious files: load only files from
        people you trust.
        """
        self._folder = Path(directory).expanduser()
        self._network, self.vocabulary, index, choice = read_litert(self._folder)
        self.consensus = None
        if index is not None:
            self.consensus = Consensus(self.vocabulary, index, index["mean"].size)
            self.search_settings = Search(
                consensus_weight=choice["consensus_weight"],
                length_penalty=choice["length_penalty"],
                num_results=CONSENSUS_BEAMS,
            )
        self._num_threads = _num_cores() if num_threads is None else num_threads
        self._open_network(self._num_threads)
        with self._interpreting():
            self._read_shapes()

    def _open_network(self, num_threads):
        """Give this captioner an interpreter of its own, with a lock."""
        from ai_edge_litert.interpreter import Interpreter

        self._lock = threading.Lock()  # concurrent use of the interpreter would give wrong captions
        self._greeted = set()
        with self._interpreting():
            interpreter = Interpreter(model_content=self._network, num_threads=num_threads)
            names = interpreter.get_signature_list()
            self._runners = {name: interpreter.get_signature_runner(name) for name in names}

    def _read_shapes(self):
        """Set attributes to what the inputs and outputs of the signatures say."""
        inputs = {name: runner.get_input_details() for name, runner in self._runners.items()}
        _, height, width, _ = inputs["serving_default"]["images"]["shape"]
        self.photo_size = (int(height), int(width))
        self.has_confidence = False
        if "beams" in inputs:
            self.has_confidence = "confidence" in self._runners["beams"].get_output_details()
        # The file of an export of version 0.1.0 also asks which cells to describe, with
        # which word to start, and what to add to the logits.
        old_inputs = {"visible": 1, "start_id": self.vocabulary.start_token_id, "shifts": 0}
        self._old_inputs = {
            name: np.full(details["shape"], old_inputs[name], details["dtype"])
            for name, details in inputs.get("beams", {}).items()
            if name in old_inputs
        }
        self._most_ids = 0  # a file from `export --tflite` cannot read captions
        if "attend" in inputs:
            _, most_ids = inputs["attend"]["token_ids"]["shape"]
            self._most_ids = int(most_ids)

    @functools.cached_property
    def _copies(self):
        """As many captioners with one thread each as this one has threads."""
        copies = [copy.copy(self) for _ in range(self._num_threads)]
        for captioner in copies:
            captioner._open_network(num_threads=1)
        return copies

    @contextlib.contextmanager
    def _interpreting(self):
        """Lock the interpreter, and turn its errors into ValueError, in a `with`."""
        with self._lock:
            try:
                yield
            except (RuntimeError, ValueError, LookupError, TypeError) as error:
                raise ValueError(
                    f"{self._folder}: LiteRT cannot run this file ({str(error)[:200]}). "
                    "Export the captioner again or, "
                    "if this folder is in KERAS_HOME, remove it."
                ) from None

    # === Features of photos ===

    def encode(self, photos: np.ndarray) -> np.ndarray:
        """Return the features of photos, (photos, regions, feature_dim).

        Args:
            photos: uint8 (photos, height, width, 3) in `photo_size`, as
                data_utils.load_image reads them.
        """
        expected = (*self.photo_size, 3)
        if getattr(photos, "shape", ())[1:] != expected:
            raise ValueError(
                f"Expected an array of photos (photos, {', '.join(map(str, expected))}), as "
                f"data_utils.load_image reads them. Received: {brief(photos)}"
            )
        if "encode" not in self._runners:
            raise ValueError(
                "A LiteRT file from `export --tflite` returns no features; use one from "
                "`export --web`."
            )
        features = [self._run("encode", images=photo[None])["features"] for photo in photos]
        return np.concatenate(features)

    # === Captions of photos ===

    def caption(self, images: Any, *, recursive: bool = False, region: Any = None) -> Any:
        """Return the CaptionResult of a photo, or a list of results for several photos.

        The search options are fixed in the file, usually 3 beams. The other beams are
        in `alternatives`.

        Args:
            images: a path, a PIL image or an array with values 0..255, a list of these,
                a folder, or a pattern such as "photos/*.jpg".
            recursive: include photos in subfolders.
            region: caption only this part of each photo, see `Captioner.caption`.
        """
        photos, many = photos_of(images, recursive=recursive)
        regions, is_one = regions_for(photos, region)
        results = [result for _, result in self.caption_each(photos, regions=regions)]
        if is_one:
            results = [result for (result,) in results]
        return results if many else results[0]

    def caption_each(
        self, images: Any, *, errors: str = "raise", regions: Any = None
    ) -> Iterator[tuple[Any, Any]]:
        """Yield (image, CaptionResult) for each photo, or (image, list) with `regions`.

        Args:
            images: list of paths, PIL images or arrays.
            errors: what to do if a photo cannot be read: "raise" the error, or "yield"
                (image, error).
            regions: a list of regions for each photo, see `caption`.
        """
        if regions is None:
            return with_image_paths(self._each(images, errors, LiteRTCaptioner._caption))
        regions = checked_regions(regions, len(images))
        results = self._each(crops_of(images, regions), errors, LiteRTCaptioner._caption)
        return with_image_paths(by_photo(images, regions, results))

    def _caption(self, photo):
        """Return the CaptionResult of a photo, (height, width, 3)."""
        if "beams" not in self._runners:
            outputs = self._run("serving_default", images=photo[None])
            return self._best_result(outputs, photo)
        features = self._run("encode", images=photo[None])
        outputs = self._run("beams", **features, **self._old_inputs)
        best = self._best_result(outputs, photo)
        if self.consensus is None:
            return best
        (chosen,) = self.consensus([best], features["features"], self.search_settings)
        return chosen

    # === Attention for given captions ===

    def attend(self, image: Any, caption: str) -> CaptionResult:
        """Return the CaptionResult of a given caption, with a map for each word."""
        ((_, result),) = self.attend_each([image], caption)
        return result

    def attend_each(
        self, images: Any, caption: str, *, errors: str = "raise"
    ) -> Iterator[tuple[Any, Any]]:
        """Yield (image, CaptionResult of the given caption) for each photo.

        See `caption_each`.
        """
        if not self._most_ids:
            raise ValueError(
                "A LiteRT file from `export --tflite` cannot read a given caption; use one "
                "from `export --web`."
            )
        words = tokenise(caption)
        most_words = self._most_ids - 1  # and `<end>`
        if not 1 <= len(words) <= most_words:
            raise ValueError(
                f"Expected a caption of 1 to {most_words} words. Received: caption={caption!r}"
            )
        captions = [words] * len(images)
        return with_image_paths(self._each(images, errors, LiteRTCaptioner._attention, captions))

    def _attention(self, photo, words):
        """Return the CaptionResult of a given caption of a photo."""
        vocabulary = self.vocabulary
        ids = [*vocabulary.caption_to_ids(words), vocabulary.end_token_id]
        token_ids = np.full((1, self._most_ids), vocabulary.pad_token_id, np.int32)
        token_ids[0, : len(ids)] = ids
        features = self._run("encode", images=photo[None])
        outputs = self._run("attend", **features, token_ids=token_ids)
        return self._result(outputs, 0, photo, words)

    # === One photo after the other, and several at a time ===

    def _each(self, images, errors, describe, *arguments):
        """Read and describe photos in parallel; yield (image, description or error) for
        each, in their order.

        Args:
            images, errors: see `caption_each`.
            describe: method of this class that takes a photo and its arguments. A
                thread calls it for a captioner that no other thread uses meanwhile.
            arguments: lists with an argument for each photo.
        """
        captioners = self._copies if len(images) >= FEWEST_IN_PARALLEL else [self]
        idle_captioners = queue.SimpleQueue()
        for captioner in captioners:
            idle_captioners.put(captioner)

        def read_and_describe(image, *photo_arguments):
            try:
                photo = load_image(image, self.photo_size)
            except (OSError, ValueError) as error:
                if errors == "raise":
                    raise
                return error
            captioner = idle_captioners.get()
            try:
                return describe(captioner, photo, *photo_arguments)
            finally:
                idle_captioners.put(captioner)

        with ThreadPoolExecutor(len(captioners)) as threads:
            tasks = (
                (image, threads.submit(read_and_describe, image, *photo_arguments))
                for image, *photo_arguments in zip(images, *arguments)
            )
            running = collections.deque(itertools.islice(tasks, 2 * len(captioners)))
            while running:
                image, task = running.popleft()
                yield image, task.result()
                running.extend(itertools.islice(tasks, 1))

    def _run(self, name, **inputs):
        """Run a signature; return its outputs, a dict of arrays."""
        is_first = name not in self._greeted
        self._greeted.add(name)
        # LiteRT prints a greeting
        quiet = nothing_on_standard_error() if is_first else contextlib.nullcontext()
        with self._interpreting(), quiet:
            return self._runners[name](**inputs)

    # === Outputs -> CaptionResult ===

    def _best_result(self, outputs, photo):
        """Return the CaptionResult of the best beam, with the others as
        `alternatives`.
        """
        # There may be fewer captions than beams.
        numbers = np.flatnonzero(np.isfinite(outputs["log_prob"]))
        best, *others = [self._result(outputs, number, photo) for number in numbers]
        best.alternatives.extend(others)
        return best

    def _result(self, outputs, number, photo, words=None):
        """Return the CaptionResult of one caption in the outputs of a signature.

        `words` are those of a given caption, which may be unknown to the network.
        """
        num_words = int(outputs["num_words"][number])
        token_ids = outputs["token_ids"][number]
        tokens = self.vocabulary.tokens
        if token_ids.max() >= len(tokens):
            problem = f"{self._folder}: vocabulary.txt lacks words of the network."
            raise ValueError(f"{problem} Export the captioner again.")
        if words is None:
            words = [tokens[token_id] for token_id in token_ids[:num_words]]
        extras = {name: outputs[name][number, :num_words] for name in EXTRAS if name in outputs}
        confidence = None
        if "confidence" in outputs:
            confidence = float(outputs["confidence"][number])
        return CaptionResult(
            caption=" ".join(words),
            words=words,
            log_prob=float(outputs["log_prob"][number]),
            attention_weights=outputs["attention_weights"][number, :num_words],
            extras=extras,
            word_probs=outputs["word_probs"][number, :num_words],
            is_finished=num_words < len(token_ids),
            confidence=confidence,
            image=photo,
        )


def _num_cores():
    """Return the number of processor cores that this process may use, or 1 where the
    system does not tell.
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return 1
