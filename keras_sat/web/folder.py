"""A captioner as a page: a folder that any static host can serve, with nothing behind it.

DIRECTORY/index.html, *.js, *.css    the page
DIRECTORY/page.json                  which captioners it shows, and which files are its own
DIRECTORY/photo/                     the captioner: model.tflite.gz, vocabulary.txt, litert.json, model.json, caption.py
DIRECTORY/scenes-.../                the bundled captioners of drawn scenes, for the playground
DIRECTORY/runtime/                   LiteRT.js, see `keras_sat.web.runtime`

Other files that lie there beside a page, such as those of a repository, are left alone. The file .lock is empty; it
lets one process write at a time.
"""

import contextlib
import os
import shutil
import tempfile
import warnings
from pathlib import Path

from data_utils.files import exclusive_lock, read_json, write_json, write_whole
from keras_sat.accelerated.switch import without_fast_twins
from keras_sat.files.export import check_captioner, search_options, write_caption_script
from keras_sat.files.litert import file_with_signatures
from keras_sat.files.litert_folder import write_litert
from keras_sat.files.litert_weights import rounded
from keras_sat.files.model_folder import WEIGHTS_LICENSE
from keras_sat.pictures.gallery import EMPTY_FIGURE
from keras_sat.pictures.player import fill, template_part
from keras_sat.web.runtime import FILES, README, VERSION, runtime_files

PAGE = Path(__file__).parent / "page"
MARK, PHOTO, LOCK = "page.json", "photo", ".lock"
TEMPORARY = (".page-", ".part")  # the beginning and the end of its name
ABOUT = (
    "Made with keras_sat. The network runs in your browser by LiteRT (Apache License 2.0). Bundled networks of photos "
    "are for research and education only, not for commercial use."
)
OF_RUNTIME = {f"runtime/{name}" for name in FILES.values()}
SCENES = {"scenes": "With soft attention", "scenes-hard": "With hard attention", "scenes-none": "Without attention"}
PRECISIONS = ("float32", "int8")


def write_page(
    captioner,
    directory,
    *,
    name="The model",
    scenes=True,
    precision="int8",
    runtime=None,
    show_progress=True,
    **options,
):
    """Write a page that captions photos with a captioner, for any static host; return its folder.

    Args:
        captioner: Captioner.
        directory: made if it is not there; a page that is there already is replaced, and what lies beside it is left
            alone. Any other folder with something in it is refused.
        name: of the captioner, for readers.
        scenes: put the playground of drawn scenes on the page too.
        precision: "int8": weights are rounded, see `keras_sat.files.litert_weights`; "float32": they are not.
        runtime: a folder into which npm has installed @litertjs/core; None: it is fetched once. Where it cannot be had,
            that of the page before stays, and without one the page is written without it, with a warning, and says
            itself what is missing.
        show_progress: show progress on standard error.
        **options: see `keras_sat.options.BeamSearchOptions`. The page offers as many captions as there are beams.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"Expected one of: {', '.join(PRECISIONS)}. Received: precision={precision!r}")
    search_options(captioner, **options)
    check_captioner(captioner, ["litert"])
    directory = Path(directory).expanduser()
    _refuse_foreign(directory)
    files, problem = {}, None
    try:
        files = runtime_files(runtime, show_progress=show_progress)
    except (OSError, ValueError) as error:
        if runtime is not None:
            raise
        files = _runtime_of(directory)  # of the page that was there before
        problem = None if files else error
    with exclusive_lock(directory / LOCK, f"is writing the page {directory}"):
        _refuse_foreign(directory)
        for leftover in directory.glob(f"{TEMPORARY[0]}*{TEMPORARY[1]}"):  # of an export that was killed
            shutil.rmtree(leftover, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=directory, prefix=TEMPORARY[0], suffix=TEMPORARY[1]) as temporary:
            fresh = Path(temporary)
            playground = [{"folder": bundled, "label": label} for bundled, label in SCENES.items() if scenes]
            _write_captioner(captioner, fresh / PHOTO, name, options, precision)
            write_caption_script(fresh / PHOTO)
            for bundled in playground:
                of_scenes = type(captioner).from_pretrained(bundled["folder"])
                greedy = {**options, "num_beams": 1}
                _write_captioner(of_scenes, fresh / bundled["folder"], bundled["label"], greedy, precision)
            _write_files(fresh, files)
            page = {"photo": {"folder": PHOTO, "name": name}, "scenes": playground, "about": ABOUT}
            page["runtime"] = VERSION if files else None
            _take_place(fresh, directory, page)
    if problem is not None:
        warnings.warn(
            f"The page lacks LiteRT.js, which runs the network in a browser: {problem} `keras-sat app` puts it into "
            f"the page when it can be had, and {directory / 'runtime' / 'README.txt'} names the files.",
            stacklevel=2,
        )
    return directory


def size_of_page(directory):
    """Return the bytes of a page's own files."""
    return sum((Path(directory) / name).stat().st_size for name in _files_of(directory))


def is_page(directory):
    """Return whether a folder holds a page that was written here."""
    return bool(_files_of(directory))


def add_runtime(directory, runtime=None, *, show_progress=True):
    """Put LiteRT.js into a page that lacks it, and leave one that has it as it is.

    Args:
        directory: the folder of the page.
        runtime, show_progress: see `runtime_files`.
    """
    if all((directory / name).is_file() for name in OF_RUNTIME):
        if runtime is not None:
            raise ValueError(f"This page has its runtime already. Received: runtime={str(runtime)!r}")
        return
    files = runtime_files(runtime, show_progress=show_progress)
    with exclusive_lock(directory / LOCK, f"is writing the page {directory}"):
        for name, content in files.items():
            write_whole(directory / "runtime" / name, content)
        page = read_json(directory / MARK, "the list of a page")
        write_json(directory / MARK, {**page, "runtime": VERSION, "files": sorted({*page["files"], *OF_RUNTIME})})


def _runtime_of(directory):
    """Return the runtime's files of the page in a folder, if they are of the pinned version; else an empty dict."""
    with contextlib.suppress(OSError, ValueError):
        if is_page(directory) and read_json(directory / MARK).get("runtime") == VERSION:
            return {name: (directory / "runtime" / name).read_bytes() for name in FILES.values()}
    return {}


def _files_of(directory):
    """Return the set of the files of the page in a folder, as paths within it; empty where there is none."""
    with contextlib.suppress(OSError, ValueError):
        page = read_json(Path(directory) / MARK)
        if isinstance(page, dict) and isinstance(page.get("files"), list) and "index.html" in page["files"]:
            return {name for name in page["files"] if isinstance(name, str) and _lies_within(Path(directory), name)}
    return set()


def _lies_within(directory, name):
    """Return whether a path from a list that anybody may have written stays in the folder, links followed."""
    return not Path(name).anchor and (directory / name).parent.resolve().is_relative_to(directory.resolve())


def _refuse_foreign(directory):
    if directory.is_file():
        raise ValueError(f"Expected the name of a folder, and this is a file. Received: directory={str(directory)!r}")
    if not directory.is_dir() or is_page(directory):
        return
    others = [path.name for path in directory.iterdir() if path.name != LOCK and not path.name.startswith(TEMPORARY[0])]
    if others:
        raise ValueError(
            f"A page is written into a folder of its own, and there are other files in this one, {min(others)!r} among "
            f"them. Name an empty folder, or one with a page. Received: directory={str(directory)!r}"
        )


def _take_place(fresh, directory, page):
    """Move a new page into its folder. Whoever is stopped in between leaves a page that the next export replaces."""
    before = _files_of(directory)
    files = {path.relative_to(fresh).as_posix() for path in fresh.rglob("*") if path.is_file()}
    in_the_way = sorted(name for name in files - before - OF_RUNTIME if (directory / name).exists())
    if in_the_way:
        raise ValueError(
            f"There is a file in this folder that the page needs the name of, {in_the_way[0]!r}. Move it away, or name "
            f"another folder. Received: directory={str(directory)!r}"
        )
    write_json(directory / MARK, {**page, "runtime": None, "files": sorted(before | files)})
    for name in sorted(files):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(fresh / name, directory / name)
    for name in before - files:
        with contextlib.suppress(OSError):  # it is gone already
            (directory / name).unlink()
    write_json(directory / MARK, {**page, "files": sorted(files)})


def _write_captioner(captioner, folder, name, options, precision):
    greedy, beams = search_options(captioner, **options)
    with without_fast_twins():
        content = file_with_signatures(captioner, greedy, beams)
    if precision == "int8":
        content = rounded(content)
    folder.mkdir()
    write_litert(folder, content, captioner.vocabulary, packed=True)
    height, width = captioner.photo_sizes[0]
    settings = {
        "name": name,
        "photo_size": [height, width],
        "feature_shape": list(captioner.feature_shape),
        "grid": list(captioner.rows_and_columns()),
        "max_length": greedy["max_length"],
    }
    write_json(folder / "model.json", settings)


def _write_files(folder, runtime):
    """Write the page itself, the player that it shares with the pages of `to_html`, and LiteRT."""
    for path in sorted(PAGE.iterdir()):
        if path.suffix in (".js", ".css"):
            write_whole(folder / path.name, path.read_bytes())
    write_whole(folder / "player.js", f"{template_part('script').strip()}\n\nexport {{ fillPlayer, startPlayer }};\n")
    write_whole(folder / "player.css", template_part("style").strip() + "\n")
    figure = fill(template_part("figure"), EMPTY_FIGURE)
    figure = figure.replace(' style="--aspect: "', "")  # the script sets it; the page's policy allows no such attribute
    write_whole(folder / "index.html", fill((PAGE / "index.html").read_text(encoding="utf-8"), {"figure": figure}))
    write_whole(folder / "WEIGHTS_LICENSE.txt", WEIGHTS_LICENSE.read_bytes())
    write_whole(folder / "runtime" / "README.txt", README)
    for name, content in runtime.items():
        write_whole(folder / "runtime" / name, content)
