"""Captions without TensorFlow: a captioner's file for LiteRT, run by the package ai-edge-litert.

It captions a photo before TensorFlow is even imported. The file is that of `keras_sat.files.litert`, with float32
weights. An export has one (`keras-sat export --tflite` or `--web`); for a captioner that was saved, and for those that
are bundled, it is made once, by TensorFlow, and kept where Keras keeps its downloads:

    KERAS_HOME/keras_sat/litert-DIGEST/model.tflite, vocabulary.txt
"""

from __future__ import annotations

import gzip
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from data_utils.captions import tokenise
from data_utils.files import clear_half_written, exclusive_lock, read_json, whole_folder, write_whole
from data_utils.images import find_pictures, load_image, stands_for_many
from data_utils.quiet import nothing_on_standard_error
from data_utils.vocabulary import SPECIAL_TOKENS, Vocabulary
from keras_sat.files.model_folder import model_directory
from keras_sat.installed import keras_home
from keras_sat.presets import DEFAULT_MODEL
from keras_sat.search.result import CaptionResult

MODEL, PACKED, WORDS = "model.tflite", "model.tflite.gz", "vocabulary.txt"
SEARCH = {"num_beams": 3, "max_length": 20}  # of the files that are made here: what `Captioner.caption` does by itself
MISSING = "Captions without TensorFlow need the package ai-edge-litert: pip install ai-edge-litert, or keras_sat[fast]."


def is_installed() -> bool:
    """Return whether the package that runs files for LiteRT is installed."""
    return importlib.util.find_spec("ai_edge_litert") is not None


def load_fast(model: str | os.PathLike = DEFAULT_MODEL, *, num_threads: int | None = None) -> FastCaptioner:
    """Return a captioner that needs no TensorFlow, for programs that caption a photo now and then, and for servers.

    Args:
        model: a folder that `Captioner.save` wrote, a bundled name, or the folder of an export that has a file for
            LiteRT. For the first two that file is made once, which takes TensorFlow and some seconds.
        num_threads: for each photo; None takes one for each processor core that the process may use.

    Raises:
        ValueError: the package ai-edge-litert is missing, or there is no such model.
    """
    if not is_installed():
        raise ValueError(f"{MISSING} Received: model={os.fspath(model)!r}")
    folder = fast_folder(model) or make_fast(model)
    return FastCaptioner(folder, num_threads=num_threads)


def fast_folder(model: str | os.PathLike) -> Path | None:
    """Return the folder with a model's file for LiteRT; None where it was not made yet."""
    given = Path(model).expanduser()
    for folder in (given, given / "photo"):  # an export, or a page with the captioner in it
        if _has_file(folder) and not (folder / "config.json").exists():
            return folder
    made = _cached(model_directory(model))
    return made if _has_file(made) else None


def make_fast(model: str | os.PathLike) -> Path:
    """Make a model's file for LiteRT with TensorFlow, and keep it; return its folder."""
    from keras_sat.captioner import Captioner
    from keras_sat.files.export import check_captioner, search_options
    from keras_sat.files.litert import file_with_signatures
    from keras_sat.model.fast.switch import without_fast_twins

    captioner = Captioner.from_pretrained(model)
    check_captioner(captioner, ["litert"])
    folder = _cached(model_directory(model))
    usual = {"length_penalty": None, "no_repeat_ngram": None, "allow_unknown": False}
    with exclusive_lock(folder.parent / ".litert.lock", f"is making a file for LiteRT in {folder.parent}"):
        clear_half_written(folder)
        if not _has_file(folder):
            with whole_folder(folder) as temporary, without_fast_twins():
                content = file_with_signatures(captioner, *search_options(captioner, **SEARCH, **usual))
                write_whole(temporary / MODEL, content)
                write_whole(temporary / WORDS, "\n".join(captioner.vocabulary.tokens) + "\n")
    return folder


def _cached(directory):
    """Return the folder for the file of a saved captioner; its name says what the file was made of."""
    if not (directory / "config.json").is_file():
        raise ValueError(
            f"{directory}: this is no model. Expected: a folder that Captioner.save wrote, with config.json in it, or "
            "that of an export for LiteRT, with model.tflite."
        )
    settings = read_json(directory / "config.json", "the settings of a captioner")
    digest = settings.get("digest") if isinstance(settings, dict) else None
    if not isinstance(digest, str) or not digest.isalnum():
        raise ValueError(f"{directory / 'config.json'}: this is something else. Expected: the settings of a captioner.")
    return keras_home() / "keras_sat" / f"litert-{digest}"


def _has_file(folder):
    return (folder / WORDS).is_file() and ((folder / MODEL).is_file() or (folder / PACKED).is_file())


class FastCaptioner:
    """A captioner that LiteRT runs: it captions photos as `Captioner` does, one at a time.

    Attributes:
        vocabulary: Vocabulary.
        photo_size: (height, width) in which it sees photos.
    """

    def __init__(self, directory: str | os.PathLike, *, num_threads: int | None = None):
        """Load the file in a folder.

        Args:
            directory: with model.tflite, or model.tflite.gz, and vocabulary.txt.
            num_threads: see `load_fast`.
        """
        from ai_edge_litert.interpreter import Interpreter

        folder = Path(directory).expanduser()
        if (folder / MODEL).is_file():
            content = {"model_path": str(folder / MODEL)}  # mapped into memory
        else:
            content = {"model_content": gzip.decompress((folder / PACKED).read_bytes())}
        num_threads = num_threads or len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else [0])
        try:
            self._interpreter = Interpreter(**content, num_threads=num_threads)
            names = self._interpreter.get_signature_list()
            self._runners = {name: self._interpreter.get_signature_runner(name) for name in names}
        except (RuntimeError, ValueError) as error:
            raise ValueError(f"{folder}: this file for LiteRT cannot be read ({error}).") from None
        tokens = (folder / WORDS).read_text(encoding="utf-8").split("\n")[:-1]
        if tuple(tokens[: len(SPECIAL_TOKENS)]) != SPECIAL_TOKENS:
            raise ValueError(f"{folder / WORDS}: this is something else. Expected: the vocabulary of an export.")
        self.vocabulary = Vocabulary(tokens[len(SPECIAL_TOKENS) :])
        self._greeted = set()
        first = self._runners.get("encode") or self._runners["serving_default"]
        self.photo_size = tuple(int(side) for side in first.get_input_details()["images"]["shape"][1:3])

    @property
    def has_confidence(self) -> bool:
        """Whether its captions have a confidence."""
        return "beams" in self._runners and "confidence" in self._runners["beams"].get_output_details()

    def caption(self, images: Any, *, recursive: bool = False) -> Any:
        """Return the CaptionResult of a photo, or the list of them for many.

        Beams and length penalty are those that the file was made with, 3 beams mostly; what else the search has found
        is in `alternatives`.

        Args:
            images: a path, a PIL image or an array with values 0..255, a list of such, a folder, or a pattern such as
                "photos/*.jpg".
            recursive: descend into the subfolders of folders.
        """
        many = isinstance(images, (list, tuple)) or stands_for_many(images)
        paths = find_pictures(images, recursive=recursive) if stands_for_many(images) else images
        results = [result for _, result in self.caption_each(paths if many else [paths])]
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
        if "beams" in self._runners:
            found = self._run("beams", features=self._run("encode", images=photo[None])["features"])
        else:
            found = self._run("serving_default", images=photo[None])
        possible = [i for i, log_prob in enumerate(found["log_prob"]) if np.isfinite(log_prob)]
        best, *others = [self._result(found, i, photo) for i in possible]
        best.alternatives.extend(others)
        return best

    def _attend(self, photo, words, ids):
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
        if "attend" not in self._runners:
            raise ValueError(
                "This file writes captions and reads none: `keras-sat export MODEL DIRECTORY --web` makes one that "
                f"does both. Received: caption={caption!r}"
            )
        most = int(self._runners["attend"].get_input_details()["token_ids"]["shape"][1])
        given = self.vocabulary.caption_to_ids(tokenise(caption))
        if not 0 < len(given) < most:
            raise ValueError(f"Expected a caption of 1 to {most - 1} words. Received: caption={caption!r}")
        ids = np.zeros((1, most), np.int32)
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
            from_photo=found["from_photo"][number, :count] if "from_photo" in found else None,
            is_finished=count < len(ids),
            confidence=None if confidence is None else float(confidence[number]),
            image=photo,
        )
