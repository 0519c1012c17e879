"""Caption photos without TensorFlow: run a captioner's LiteRT file with the package
ai-edge-litert.

Loading the file and captioning a photo take less time than importing TensorFlow.
`keras-sat export --tflite` and `--web` write such a file. Saved captioners are
converted once by TensorFlow, with float32 weights; for bundled ones, `litert_graph`
makes the same file without TensorFlow:

    KERAS_HOME/keras_sat/litert-VERSION-DIGEST/    see `keras_sat.export.litert_folder`

VERSION is that of the signatures. DIGEST is the digest of config.json, which contains
the digests of the captioner's other files; for bundled captioners, of the graph, which
contains that of config.json. A folder with config.json is a saved captioner: a LiteRT
file in it is never run.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
from pathlib import Path

from data_utils.base import (
    clear_half_written,
    exclusive_lock,
    file_digest,
    import_tensorflow,
    whole_folder,
)
from keras_sat.after_search import Consensus
from keras_sat.bounds import count
from keras_sat.export.litert_engine import LiteRTEngine
from keras_sat.export.litert_folder import (
    MANIFEST,
    MODEL,
    PACKED,
    SIGNATURES_VERSION,
    read_litert,
    write_litert,
)
from keras_sat.export.litert_graph import GRAPH, filled, has_graph
from keras_sat.files import model_digest, model_directory
from keras_sat.network import keras_home
from keras_sat.search import CaptionGenerator
from keras_sat.settings import CONSENSUS_BEAMS, Search

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
    from keras_sat.export.export_formats import check_captioner, exported_searches
    from keras_sat.export.litert import litert_file

    captioner = Captioner.load(directory)  # checks the files
    check_captioner(captioner, in_float32=True)
    search = captioner.search_settings
    if not captioner.uses_consensus(search):
        content = litert_file(captioner, *exported_searches(captioner))
        return content, captioner.vocabulary, None, None
    greedy, beams = exported_searches(captioner, num_beams=CONSENSUS_BEAMS)
    content = litert_file(captioner, greedy, beams)
    choice = {name: getattr(search, name) for name in ("consensus_weight", "length_penalty")}
    return content, captioner.vocabulary, captioner.consensus.arrays, choice


class LiteRTCaptioner(CaptionGenerator):
    """A captioner that runs on LiteRT.

    The options of its search are fixed in the file, usually 3 beams; the other beams
    are in `alternatives`. One photo gets all threads; of several, each thread captions
    another one. Threads may share a captioner: they read photos in parallel and caption
    them in turn.
    """

    def __init__(self, directory: str | os.PathLike, *, num_threads: int | None = None):
        """Load the LiteRT file in a folder after checking the digests in litert.json;
        see `load_litert`.

        LiteRT's parser is not hardened against malicious files: load only files from
        people you trust.
        """
        folder = Path(directory).expanduser()
        content, vocabulary, index, rules = read_litert(folder)
        engine = LiteRTEngine(folder, content, vocabulary, num_threads=num_threads)
        options = {**engine.fixed, "num_results": engine.fixed["num_beams"]}
        if index is not None:
            options |= rules
        super().__init__(engine, vocabulary, Search(**options))
        if index is not None and engine.has_beams:
            self.consensus = Consensus.of(vocabulary, index, engine.feature_shape[-1])

    @property
    def photo_size(self) -> tuple[int, int]:
        """The size (height, width) to which photos are resized."""
        return self.photo_sizes[0]

    @property
    def has_confidence(self) -> bool:
        """Whether its captions have a confidence."""
        return self.engine.has_confidence
