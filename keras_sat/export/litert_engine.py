"""Run a captioner's LiteRT file with the package ai-edge-litert: one photo at a time,
without TensorFlow.
"""

import collections
import contextlib
import functools
import itertools
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from data_utils.base import brief, nothing_on_standard_error
from data_utils.features import in_16_bits
from keras_sat.search import Engine, SearchResult, padded, photos_of_one_size
from keras_sat.settings import EXTRAS, Search

FEWEST_IN_PARALLEL = 32  # photos; for fewer, preparing several interpreters takes longer
OWN_SEARCH = (
    "A LiteRT file has the search with which it was made; Captioner.from_pretrained loads a "
    "captioner that can search otherwise."
)
NO_VOTES = (
    "Votes are computed by the network's layers, which a LiteRT file does not show; "
    "Captioner.from_pretrained loads a captioner that has them."
)
ONLY_GREEDY = "A LiteRT file from `export --tflite` {}; use one from `export --web`."
# The file has all its beams as results, of which any number may be asked for.
OPTIONS_OF_FILE = tuple(name for name in Search.graph_names() if name != "num_results")


class LiteRTEngine(Engine):
    """The Engine of a LiteRTCaptioner.

    One photo gets all threads; of many, each thread takes another one. Threads may
    share an engine, which runs their photos in turn.

    Args:
        folder: of the file, for messages.
        content: the file, bytes.
        vocabulary: Vocabulary.
        num_threads: None: one for each processor core that the process may use.
    """

    photos_together = 1

    def __init__(self, folder, content, vocabulary, *, num_threads=None):
        self._folder, self._content = folder, content
        self._vocabulary = vocabulary
        self._num_threads = _num_cores() if num_threads is None else num_threads
        self._shared = Interpreter(folder, content, self._num_threads)
        self._own = threading.local()  # the interpreter of a thread of `each`
        with self._shared.locked():
            self._read_shapes(self._shared.runners)

    def _read_shapes(self, runners):
        """Set attributes to what the inputs and outputs of the signatures say."""
        self.has_beams = "beams" in runners
        inputs = {name: runner.get_input_details() for name, runner in runners.items()}
        outputs = runners["beams" if self.has_beams else "serving_default"].get_output_details()
        _, height, width, _ = inputs["serving_default"]["images"]["shape"]
        self.photo_sizes = [(int(height), int(width))]
        num_beams, max_length, rows, columns = map(int, outputs["attention_weights"]["shape"])
        self._rows_and_columns = rows, columns
        self.fixed = {"num_beams": num_beams, "max_length": max_length}
        self.cannot = dict.fromkeys(OPTIONS_OF_FILE, OWN_SEARCH) | {"votes": NO_VOTES}
        if not self.has_beams:
            self.cannot["captions"] = ONLY_GREEDY.format("cannot read a given caption")
            self.cannot["features"] = ONLY_GREEDY.format("returns no features")
        else:
            self.feature_shape = tuple(inputs["beams"]["features"]["shape"][1:].tolist())
        self.has_confidence = "confidence" in outputs
        # The file of an export of version 0.1.0 also asks which cells to describe, with
        # which word to start, and what to add to the logits.
        old_inputs = {"visible": 1, "start_id": self._vocabulary.start_token_id, "shifts": 0}
        self._old_inputs = {
            name: np.full(details["shape"], old_inputs[name], details["dtype"])
            for name, details in inputs.get("beams", {}).items()
            if name in old_inputs
        }

    def rows_and_columns(self):
        return self._rows_and_columns

    def check_features(self, features):
        self.check(features=features)
        features = np.asarray(features, np.float32)
        if features.shape[1:] != self.feature_shape:
            expected = f"(photos, {', '.join(map(str, self.feature_shape))})"
            raise ValueError(
                f"This file takes features of shape {expected}. Received: {features.shape=}"
            )
        return features

    # === What it computes ===

    def encode(self, photos):
        photos = photos_of_one_size(photos)
        height, width = self.photo_sizes[0]
        if photos.shape[1:] != (height, width, 3):
            raise ValueError(
                f"Expected an array of photos (photos, {height}, {width}, 3), as "
                f"data_utils.load_image reads them. Received: {brief(photos)}"
            )
        if not self.has_beams:
            return photos
        features = [self._run("encode", images=photo[None])["features"] for photo in photos]
        return in_16_bits(np.concatenate(features))

    def search(self, features, search, *, numbers, with_consensus=False):
        num_results = self.fixed["num_beams"] if with_consensus else search.num_results
        if not self.has_beams:
            found = [self._run("serving_default", images=photo[None]) for photo in features]
        else:
            found = [
                self._run("beams", features=grid[None], **self._old_inputs) for grid in features
            ]
        return _joined([self._search_result(outputs, num_results) for outputs in found])

    def read(self, features, token_ids):
        longest = max(map(len, token_ids))
        max_length = self.fixed["max_length"]
        if longest > max_length:
            raise ValueError(
                f"Expected a caption of 1 to {max_length - 1} words. Received: {longest - 1} words"
            )
        token_ids = padded(token_ids, max_length, self._vocabulary.pad_token_id)
        found = [
            self._run("attend", features=grid[None], token_ids=ids[None])
            for grid, ids in zip(features, token_ids)
        ]
        return _joined([self._search_result(outputs, 1) for outputs in found])

    def _search_result(self, outputs, num_results):
        """Return the SearchResult of one photo, given the outputs of a signature."""
        outputs = {name: array[None, :num_results] for name, array in outputs.items()}
        token_ids, num_words = outputs["token_ids"], outputs["num_words"]
        if token_ids.max() >= len(self._vocabulary):
            raise ValueError(
                f"{self._folder}: vocabulary.txt lacks words of the network. Export the "
                "captioner again."
            )
        max_length = token_ids.shape[-1]
        is_finished = num_words < max_length
        word_probs = outputs["word_probs"]
        is_word = np.arange(max_length) < num_words[..., None]
        is_end = np.arange(max_length) == num_words[..., None]
        # The file gives p of the words alone.
        with np.errstate(divide="ignore", invalid="ignore"):
            of_words = np.log(word_probs, where=is_word, out=np.zeros_like(word_probs)).sum(-1)
            end_probs = np.exp(outputs["log_prob"] - of_words)
        return SearchResult(
            token_ids=token_ids,
            log_probs=outputs["log_prob"],
            lengths=num_words + is_finished,
            is_finished=is_finished,
            attention_weights=outputs["attention_weights"].reshape(*token_ids.shape, -1),
            extras={name: outputs[name][..., None] for name in EXTRAS if name in outputs},
            word_probs=np.where(is_end, end_probs[..., None], word_probs),
            confidences=outputs.get("confidence", ()),
            word_confidences=outputs.get("word_confidence", ()),
        )

    # === On which interpreter, and in which thread ===

    def _run(self, name, **inputs):
        """Run a signature; return its outputs, a dict of arrays."""
        interpreter = getattr(self._own, "interpreter", self._shared)
        return interpreter.run(name, **inputs)

    @functools.cached_property
    def _interpreters(self):
        """As many interpreters with one thread each as the shared one has threads."""
        return [Interpreter(self._folder, self._content, 1) for _ in range(self._num_threads)]

    def each(self, function, items):
        is_few = len(items) < FEWEST_IN_PARALLEL
        interpreters = [self._shared] if is_few else self._interpreters
        untaken = iter(interpreters)

        def take_interpreter():
            self._own.interpreter = next(untaken)

        with ThreadPoolExecutor(len(interpreters), initializer=take_interpreter) as threads:
            tasks = (threads.submit(function, item) for item in items)
            running = collections.deque(itertools.islice(tasks, 2 * len(interpreters)))
            while running:
                yield running.popleft().result()
                running.extend(itertools.islice(tasks, 1))


class Interpreter:
    """LiteRT's interpreter of a file, for one thread at a time: others wait.

    Args:
        folder, content, num_threads: see LiteRTEngine.

    Attributes:
        runners: dict from the names of the signatures to functions that run them.
    """

    def __init__(self, folder, content, num_threads):
        from ai_edge_litert import interpreter

        self._folder = folder
        self._lock = threading.Lock()  # concurrent use would give wrong captions
        self._greeted = set()
        with self.locked():
            opened = interpreter.Interpreter(model_content=content, num_threads=num_threads)
            names = opened.get_signature_list()
            self.runners = {name: opened.get_signature_runner(name) for name in names}

    def run(self, name, **inputs):
        """Run a signature; return its outputs, a dict of arrays."""
        is_first = name not in self._greeted
        self._greeted.add(name)
        # LiteRT prints a greeting
        quiet = nothing_on_standard_error() if is_first else contextlib.nullcontext()
        with self.locked(), quiet:
            return self.runners[name](**inputs)

    @contextlib.contextmanager
    def locked(self):
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


def _joined(found):
    """Return the SearchResults of single photos as one."""
    if len(found) == 1:
        return found[0]
    extras = {name: np.concatenate([one.extras[name] for one in found]) for name in found[0].extras}
    arrays = zip(*(one._replace(extras=()) for one in found))
    return SearchResult(*map(np.concatenate, arrays))._replace(extras=extras)


def _num_cores():
    """Return the number of processor cores that the process may use, or 1 where the
    system does not tell.
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return 1
