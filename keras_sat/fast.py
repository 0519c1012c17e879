"""Captions without TensorFlow: a captioner's file for LiteRT, run by the package ai-edge-litert.

It captions a photo before TensorFlow is even imported. The file is that of `keras_sat.files.litert`, with float32
weights. An export has one (`keras-sat export --tflite` or `--web`); for a captioner that was saved, and for those that
are bundled, it is made once, by TensorFlow, and kept where Keras keeps its downloads:

    KERAS_HOME/keras_sat/litert-NAME-DIGEST/    see `keras_sat.files.litert_folder`

NAME is that of a bundled captioner, or "model"; DIGEST is that of config.json, which holds the digests of the other
files of a saved captioner. A folder with config.json is a saved captioner: no file for LiteRT that lies in it is run.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from data_utils.captions import tokenise
from data_utils.files import clear_half_written, exclusive_lock, read_bytes, whole_folder
from data_utils.images import load_image, photos_of
from data_utils.quiet import nothing_on_standard_error
from keras_sat.files.litert_folder import MANIFEST, MODEL, PACKED, read_litert, write_litert
from keras_sat.files.model_folder import PRETRAINED, model_directory
from keras_sat.installed import keras_home
from keras_sat.options import EXTRAS
from keras_sat.search.result import CaptionResult

MISSING = "Captions without TensorFlow need the package ai-edge-litert: pip install ai-edge-litert, or keras_sat[fast]."
PATIENCE = 600  # seconds to wait for another process that makes a file; it takes some ten


class LiteRTError(ValueError):
    """LiteRT cannot run a file, though it is whole."""


def is_installed() -> bool:
    """Return whether the package that runs files for LiteRT is installed."""
    return importlib.util.find_spec("ai_edge_litert") is not None


def load_fast(model: str | os.PathLike | None = None, *, num_threads: int | None = None) -> FastCaptioner:
    """Return a captioner that needs no TensorFlow, for programs that caption a photo now and then, and for servers.

    Args:
        model: a folder that `Captioner.save` wrote, a bundled name, or the folder of an export that has a file for
            LiteRT. For the first two that file is made once, which takes TensorFlow and some seconds; other processes
            that want it wait. None: the bundled captioner of photos, even where the current folder has one of its name.
        num_threads: for each photo; None takes one for each processor core that the process may use.

    Raises:
        ValueError: the package ai-edge-litert is missing, there is no such model, or an export is damaged.
    """
    if not is_installed():
        raise ValueError(f"{MISSING} Received: model={model if model is None else os.fspath(model)!r}")
    ready = ready_captioner(model, num_threads=num_threads)
    return ready or FastCaptioner(make_file(model, wait_s=PATIENCE), num_threads=num_threads)


def ready_captioner(model, *, num_threads=None):
    """Return the FastCaptioner of a model; None where its file was not made yet, or is damaged."""
    folder = export_folder(model)
    if folder is not None:
        return FastCaptioner(folder, num_threads=num_threads)
    folder = made_folder(model_directory(model))
    try:
        return FastCaptioner(folder, num_threads=num_threads)
    except LiteRTError:
        raise
    except (OSError, ValueError) as error:
        if (folder / MANIFEST).exists():
            print(f"keras-sat: {str(error).partition(': ')[0]} is damaged and is made again.", file=sys.stderr)
        return None


def export_folder(model):
    """Return the folder of the export for LiteRT that a user named, itself or as a page; None for a saved captioner."""
    given = model_directory(model)
    for folder in (given, given / "photo") if (given / "page.json").is_file() else (given,):
        if os.path.lexists(folder / "config.json"):
            return None
        if any((folder / name).exists() for name in (MANIFEST, MODEL, PACKED)):
            return folder
    return None


def made_folder(directory):
    """Return where the file of a saved captioner is kept once it was made."""
    if not (directory / "config.json").is_file():
        raise ValueError(
            f"{directory}: this is no model. Expected: a folder that Captioner.save wrote, with config.json in it, or "
            "that of an export for LiteRT, with litert.json."
        )
    digest = hashlib.sha256(read_bytes(directory / "config.json")).hexdigest()
    name = directory.name if directory.parent == PRETRAINED else "model"
    return keras_home() / "keras_sat" / f"litert-{name}-{digest[:32]}"


def is_made(model):
    """Return whether the file of a saved captioner is there, and whole."""
    try:
        return bool(read_litert(made_folder(model_directory(model))))
    except (OSError, ValueError):
        return False


def make_file(model, *, wait_s=0):
    """Make the file of a saved captioner with TensorFlow, unless it is there, and keep it; return its folder.

    Args:
        model: see `model_directory`.
        wait_s: how long to wait for another process that makes one.
    """
    directory = model_directory(model)
    folder = made_folder(directory)
    place = folder.parent
    with exclusive_lock(place / ".litert.lock", f"is making a file for LiteRT in {place}", wait_s=wait_s):
        if not is_made(directory):
            clear_half_written(folder)
            shutil.rmtree(folder, ignore_errors=True)
            content, vocabulary = _converted(directory)
            if made_folder(directory) != folder:
                raise ValueError(f"{directory}: another process has replaced this model meanwhile. Run this again.")
            with whole_folder(folder) as temporary:
                write_litert(temporary, content, vocabulary)
    return folder


def _converted(directory):
    """Return the network of a saved captioner for LiteRT, bytes, and its Vocabulary; this takes TensorFlow."""
    from keras_sat.accelerated.switch import without_fast_twins
    from keras_sat.captioner import Captioner
    from keras_sat.files.export import check_captioner, search_options
    from keras_sat.files.litert import file_with_signatures

    captioner = Captioner.load(directory)  # which checks its files
    check_captioner(captioner, ["litert"])
    options = search_options(captioner)  # the default search
    with without_fast_twins():
        return file_with_signatures(captioner, *options), captioner.vocabulary


class FastCaptioner:
    """A captioner that LiteRT runs: it captions photos as `Captioner` does, one at a time.

    Threads may share it. Each waits for its turn, since all cores work on one photo; photos are read at the same time.

    Attributes:
        vocabulary: Vocabulary.
        photo_size: (height, width) in which it sees photos.
        has_confidence: whether its captions have a confidence.
    """

    def __init__(self, directory: str | os.PathLike, *, num_threads: int | None = None):
        """Load the file in a folder, after its digests were checked.

        Args:
            directory: with litert.json and the files that it names. The network in it runs in a parser that is not made
                for hostile files: take it from somebody whom you trust.
            num_threads: see `load_fast`.
        """
        from ai_edge_litert.interpreter import Interpreter

        self._folder = Path(directory).expanduser()
        content, self.vocabulary = read_litert(self._folder)
        self._lock = threading.Lock()  # of the interpreter: threads at the same time would end in wrong captions
        self._greeted = set()
        num_threads = num_threads or len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else [0])
        with self._interpreting():
            interpreter = Interpreter(model_content=content, num_threads=num_threads)
            names = interpreter.get_signature_list()
            self._runners = {name: interpreter.get_signature_runner(name) for name in names}
            first = self._runners.get("encode") or self._runners["serving_default"]
            height, width = (int(side) for side in first.get_input_details()["images"]["shape"][1:3])
            self.photo_size = (height, width)
            beams, attend = self._runners.get("beams"), self._runners.get("attend")
            self.has_confidence = beams is not None and "confidence" in beams.get_output_details()
            self._most_ids = 0 if attend is None else int(attend.get_input_details()["token_ids"]["shape"][1])

    @contextlib.contextmanager
    def _interpreting(self):
        """Hold the interpreter inside the block, and make one kind of error of those that come of its file."""
        with self._lock:
            try:
                yield
            except (RuntimeError, ValueError, LookupError, TypeError) as error:
                raise LiteRTError(
                    f"{self._folder}: LiteRT cannot run this file ({str(error)[:200]}). Export the captioner again "
                    "with this version of keras_sat, or remove the folder if keras-sat made it by itself."
                ) from None

    def caption(self, images: Any, *, recursive: bool = False) -> Any:
        """Return the CaptionResult of a photo, or the list of them for many.

        Beams and length penalty are those that the file was made with, 3 beams mostly; what else the search has found
        is in `alternatives`.

        Args:
            images: a path, a PIL image or an array with values 0..255, a list of such, a folder, or a pattern such as
                "photos/*.jpg".
            recursive: descend into the subfolders of folders.
        """
        photos, many = photos_of(images, recursive=recursive)
        results = [result for _, result in self.caption_each(photos)]
        return results if many else results[0]

    def caption_each(self, images: Any, *, errors: str = "raise") -> Iterator[tuple[Any, Any]]:
        """Yield (image, CaptionResult) for each of many photos.

        Args:
            images: list of paths, PIL images or arrays.
            errors: "raise" what a photo that cannot be read raises, or "yield": (image, that error) in its turn.
        """
        for image in images:
            photo = self._read(image, errors)
            yield image, photo if isinstance(photo, Exception) else self._caption(photo)

    def attend_each(self, images: Any, caption: str, *, errors: str = "raise") -> Iterator[tuple[Any, Any]]:
        """Yield (image, CaptionResult) of a caption that is given: where it looks while it reads that."""
        ids = self._ids_of(caption)
        for image in images:
            photo = self._read(image, errors)
            yield image, photo if isinstance(photo, Exception) else self._attend(photo, tokenise(caption), ids)

    def attend(self, image: Any, caption: str) -> CaptionResult:
        """Return where it looks while it reads a caption that is given, a CaptionResult."""
        return next(result for _, result in self.attend_each([image], caption))

    def _read(self, image, errors):
        try:
            return load_image(image, self.photo_size)
        except (OSError, ValueError) as error:
            if errors == "raise":
                raise
            return error

    def _caption(self, photo):
        with self._interpreting():
            if "beams" in self._runners:
                found = self._run("beams", features=self._run("encode", images=photo[None])["features"])
            else:
                found = self._run("serving_default", images=photo[None])
            possible = [i for i, log_prob in enumerate(found["log_prob"]) if np.isfinite(log_prob)]
            best, *others = [self._result(found, i, photo) for i in possible]
        best.alternatives.extend(others)
        return best

    def _attend(self, photo, words, ids):
        with self._interpreting():
            features = self._run("encode", images=photo[None])["features"]
            found = self._run("attend", features=features, token_ids=ids)
            return self._result(found, 0, photo, words)

    def _run(self, name, **inputs):
        if name in self._greeted:
            return self._runners[name](**inputs)
        with nothing_on_standard_error():  # LiteRT greets when it first runs
            self._greeted.add(name)
            return self._runners[name](**inputs)

    def _ids_of(self, caption):
        """Return the ids of a caption that is given, int32 (1, max_length), filled up with `<pad>`."""
        if not self._most_ids:
            raise ValueError(
                "This file writes captions and reads none: `keras-sat export MODEL DIRECTORY --web` makes one that "
                f"does both. Received: caption={caption!r}"
            )
        given = self.vocabulary.caption_to_ids(tokenise(caption))
        if not 0 < len(given) < self._most_ids:
            raise ValueError(f"Expected a caption of 1 to {self._most_ids - 1} words. Received: caption={caption!r}")
        ids = np.zeros((1, self._most_ids), np.int32)
        ids[0, : len(given) + 1] = [*given, self.vocabulary.end_token_id]
        return ids

    def _result(self, found, number, photo, words=None):
        """Return one of the captions that were found as CaptionResult; `words` are those that were given."""
        count, ids = int(found["num_words"][number]), found["token_ids"][number]
        words = words or [self.vocabulary.tokens[token] for token in ids[:count]]
        confidence = found.get("confidence")
        return CaptionResult(
            " ".join(words),
            words,
            float(found["log_prob"][number]),
            found["attention_weights"][number, :count],
            word_probs=found["word_probs"][number, :count] if "word_probs" in found else None,
            extras={name: found[name][number, :count] for name in EXTRAS if name in found},
            is_finished=count < len(ids),
            confidence=None if confidence is None else float(confidence[number]),
            image=photo,
        )
