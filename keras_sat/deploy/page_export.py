"""A captioner as a page: a folder for any static host.

    DIRECTORY/index.html, *.js, *.css    the page
    DIRECTORY/page.json                  which captioners it shows
    DIRECTORY/photo/                     the captioner: model.tflite.gz, vocabulary.txt, litert.json, model.json,
                                         caption.py
    DIRECTORY/scenes.../                 the bundled captioners of drawn scenes, for the playground
    DIRECTORY/runtime/                   LiteRT.js, see `keras_sat.deploy.page_runtime`

The next export replaces the page. Other files in the folder, such as those of a repository, are left alone. The empty
file .lock lets one process write at a time.
"""

import contextlib
import json
import os
import shutil
import tempfile
import warnings
from pathlib import Path

from data_utils.atomic_files import exclusive_lock, read_json, write_json, write_whole
from data_utils.scenes import COLOURS, SHAPES, SIZES
from keras_sat.deploy.export import CAPTION_SCRIPT, check_captioner, search_arguments
from keras_sat.deploy.litert import litert_file
from keras_sat.deploy.litert_folder import write_litert
from keras_sat.deploy.litert_weights import rounded
from keras_sat.deploy.page_runtime import FILES, README, runtime_files
from keras_sat.files.model_folder import WEIGHTS_LICENSE
from keras_sat.options import one_of
from keras_sat.pictures.player import empty_figure, fill, template_part

PAGE = Path(__file__).parent / "page"
MARK, PHOTO, LOCK, TEMPORARY = "page.json", "photo", ".lock", ".page-"
ABOUT = (
    "Made with keras_sat. The network runs in your browser by LiteRT (Apache License 2.0). Bundled networks of photos "
    "are for research and education only, not for commercial use."
)
SIDE = 64  # pixels of the pictures that the captioners of scenes see
SCENES = {"scenes": "With soft attention", "scenes-hard": "With hard attention", "scenes-none": "Without attention"}


def write_page(
    captioner,
    directory,
    *,
    name="The model",
    scenes=True,
    precision="int8",
    runtime=None,
    show_progress=True,
    **search,
):
    """Write a page that captions photos with a captioner, for any static host; return its folder.

    Args:
        captioner: Captioner.
        directory: made if necessary. A page in it is replaced. A folder with files and no page is rejected.
        name: of the captioner, for readers.
        scenes: put the playground of drawn scenes on the page too.
        precision: of the weights: "float32", or "int8", which rounds them, see `keras_sat.deploy.litert_weights`.
        runtime: a folder into which npm has installed @litertjs/core; None: it is fetched once. Where it cannot be
            fetched, a page that is replaced keeps its own, and a new one is written without, with a warning.
        show_progress: show progress on standard error.
        **search: options of the search, see `search_arguments`. The page offers as many captions as there are beams.
    """
    one_of("float32", "int8").check("precision", precision)
    search_arguments(captioner, **search)
    check_captioner(captioner, for_litert=True)
    directory = Path(directory).expanduser()
    _reject_foreign(directory)
    files = {}
    try:
        files = runtime_files(runtime, show_progress=show_progress)
    except (OSError, ValueError) as error:
        if runtime is not None:
            raise
        if not _has_runtime(directory):
            warnings.warn(f"The page lacks LiteRT.js, which runs the network in a browser. {error}", stacklevel=2)
    playground = [{"folder": bundled, "label": label} for bundled, label in SCENES.items() if scenes]
    page = {"photo": {"folder": PHOTO, "name": name}, "scenes": playground, "about": ABOUT}
    with exclusive_lock(directory / LOCK, f"is writing the page {directory}"):
        for leftover in directory.glob(f"{TEMPORARY}*"):  # of an export that was killed
            shutil.rmtree(leftover, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=directory, prefix=TEMPORARY) as temporary:
            fresh = Path(temporary)
            _write_captioner(captioner, fresh / PHOTO, search, precision)
            write_whole(fresh / PHOTO / "caption.py", CAPTION_SCRIPT.read_bytes())
            for bundled in playground:
                of_scenes = type(captioner).from_pretrained(bundled["folder"])
                _write_captioner(of_scenes, fresh / bundled["folder"], {**search, "num_beams": 1}, precision)
            _write_files(fresh, files)
            write_json(directory / MARK, page)  # first: if this is killed, the next export replaces the folder's page
            for path in filter(Path.is_file, fresh.rglob("*")):
                target = directory / path.relative_to(fresh)
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(path, target)
    return directory


def is_page(directory):
    """Return whether a folder holds a page that was written here."""
    with contextlib.suppress(OSError, ValueError):
        page = read_json(Path(directory) / MARK)
        return isinstance(page, dict) and page.keys() >= {"photo", "scenes"}
    return False


def add_runtime(directory, runtime=None):
    """Put LiteRT.js into a page that lacks it, or another copy, `runtime`; see `runtime_files`."""
    if runtime is not None or not _has_runtime(directory):
        _write_runtime(directory, runtime_files(runtime))


def _has_runtime(directory):
    return all((directory / "runtime" / name).is_file() for name in FILES.values())


def _write_runtime(directory, files):
    for name, content in {"README.txt": README, **files}.items():
        write_whole(directory / "runtime" / name, content)


def _reject_foreign(directory):
    if not directory.exists() or is_page(directory):
        return
    others = [path.name for path in directory.iterdir() if path.name != LOCK and not path.name.startswith(TEMPORARY)]
    if others:
        raise ValueError(
            f"A page needs a folder of its own, and {min(others)!r} is in this one. Name an empty folder or one with a "
            f"page. Received: directory={str(directory)!r}"
        )


def _write_captioner(captioner, folder, search, precision):
    greedy, beams = search_arguments(captioner, **search)
    content = litert_file(captioner, greedy, beams)
    write_litert(folder, rounded(content) if precision == "int8" else content, captioner.vocabulary, packed=True)
    settings = {
        "photo_size": captioner.photo_sizes[0],
        "feature_shape": captioner.feature_shape,
        "grid": captioner.rows_and_columns(),
        "max_length": greedy["max_length"],
    }
    write_json(folder / "model.json", settings)


def _write_files(folder, runtime):
    """Write the page itself with LiteRT.js, and what it shares with Python: the player, and the looks of scenes."""
    for path in PAGE.glob("*.*s"):  # .js and .css
        write_whole(folder / path.name, path.read_bytes())
    write_whole(folder / "player.js", f"{template_part('script').strip()}\n\nexport {{ fillPlayer, startPlayer }};\n")
    looks = {"COLOURS": COLOURS, "SHAPES": SHAPES, "SIDE": SIDE}
    looks["SIZES"] = {name: round(SIDE * share) for name, share in SIZES.items()}
    exports = [f"export const {name} = {json.dumps(value)};\n" for name, value in looks.items()]
    write_whole(folder / "looks.js", "".join(exports))
    write_whole(folder / "player.css", template_part("style").strip() + "\n")
    figure = empty_figure().replace(
        ' style="--aspect: "', ""
    )  # the script sets it; the page's policy allows no such attribute
    write_whole(folder / "index.html", fill((PAGE / "index.html").read_text(encoding="utf-8"), {"figure": figure}))
    write_whole(folder / "WEIGHTS_LICENSE.txt", WEIGHTS_LICENSE.read_bytes())
    _write_runtime(folder, runtime)
