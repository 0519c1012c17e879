"""Export a captioner as a web page: a folder of files that any static web host can
serve.

    DIRECTORY/index.html, *.js, *.css    the page
    DIRECTORY/page.json                  list of the captioners on the page
    DIRECTORY/photo/                     the captioner: see `litert_folder`, with
                                         model.json and caption.py
    DIRECTORY/scenes.../                 the bundled captioners of synthetic scenes, for
                                         the playground
    DIRECTORY/examples/                  six free photos
    DIRECTORY/runtime/                   LiteRT.js, see `keras_sat.export.page_runtime`

The next export replaces the page. Other files in the folder, such as those of a
repository, are kept. An empty file .lock ensures that only one process writes at a
time.
"""

import contextlib
import json
import sys
import warnings
from pathlib import Path

from data_utils.base import exclusive_lock, read_json, write_json, write_whole
from data_utils.captions import WORD_RULES
from data_utils.scenes import COLOURS, SHAPES, SIZES
from keras_sat.bounds import one_of
from keras_sat.export.export_formats import caption_py, check_captioner, exported_searches
from keras_sat.export.litert import litert_file
from keras_sat.export.litert_folder import write_litert
from keras_sat.export.litert_weights import rounded
from keras_sat.export.page_runtime import FILES, runtime_files
from keras_sat.files import WEIGHTS_LICENSE
from keras_sat.looking import empty_figure, fill, template_part

PAGE = Path(__file__).parent / "page"
MARK, PHOTO, LOCK = "page.json", "photo", ".lock"
SIDE = 64  # height and width of a scene in pixels
SCENES = [
    {"folder": "scenes", "label": "With soft attention"},
    {"folder": "scenes-hard", "label": "With hard attention"},
    {"folder": "scenes-none", "label": "Without attention"},
]


class MissingRuntime(UserWarning, ValueError):
    """A page was written without LiteRT.js, so it cannot caption yet."""


def write_page(
    captioner,
    directory,
    *,
    name="",
    scenes=True,
    examples=None,
    precision="int8",
    runtime=None,
    show_progress=False,
    **search,
):
    """Write a web page that captions photos in the browser; return its folder, which
    any static host can serve.

    Args:
        captioner: Captioner.
        directory: created if necessary. A page in it is replaced. A non-empty folder
            without a page is rejected.
        name: name of the captioner shown on the page; "" for none.
        scenes: also include the playground of synthetic scenes.
        examples: also include six free photos. None: only if the captioner knows the
            word "people".
        precision: of the weights: "float32", or "int8" to quantise them, see
            `keras_sat.export.litert_weights`.
        runtime: a folder into which npm has installed @litertjs/core. None fetches it
            once; if that fails, a replaced page keeps its copy, and a new page is
            written without it, with the warning MissingRuntime.
        show_progress: print a line on standard error before each step.
        **search: search options, see `exported_searches`. The page offers as many
            captions as there are beams.
    """
    one_of("float32", "int8").check("precision", precision)
    exported_searches(captioner, **search)
    check_captioner(captioner, in_float32=True)
    directory = Path(directory).expanduser()
    _reject_foreign(directory)
    runtime_js, missing = {}, None

    def say(step):
        if show_progress:
            print(f"page: {step}", file=sys.stderr, flush=True)

    say("reading LiteRT.js")
    try:
        runtime_js = runtime_files(runtime)
    except (OSError, ValueError) as error:
        if runtime is not None:
            raise
        missing = error
    if examples is None:
        examples = "people" in captioner.vocabulary
    # The page has no index, and says so.
    has_index = captioner.uses_consensus(captioner.search_settings)
    photo = {"folder": PHOTO, "name": name, "has_index": has_index}
    page = {"photo": photo, "scenes": SCENES if scenes else [], "examples": examples}
    # Nothing is written before all networks are converted.
    number = 1 + len(page["scenes"])
    say(f"converting the captioner of photos (1 of {number})")
    captioners = {PHOTO: _converted(captioner, search, precision)}
    for i, scene in enumerate(page["scenes"], 2):
        say(f"converting the captioner {scene['folder']} ({i} of {number})")
        scene_captioner = type(captioner).from_pretrained(scene["folder"])
        greedy_search = {**search, "num_beams": 1}
        captioners[scene["folder"]] = _converted(scene_captioner, greedy_search, precision)
    say("writing the files")
    with exclusive_lock(directory / LOCK, f"is writing the page {directory}"):
        # first: the next export can then replace a half-written page
        write_json(directory / MARK, page)
        for folder, (content, vocabulary, settings) in captioners.items():
            write_litert(directory / folder, content, vocabulary, packed=True)
            write_json(directory / folder / "model.json", settings)
        write_whole(directory / PHOTO / "caption.py", caption_py())
        for file, content in _page_files(examples).items():
            write_whole(directory / file, content)
        _write_runtime(directory, runtime_js)
    if not _has_runtime(directory):
        message = (
            f"The page {directory} lacks LiteRT.js, which runs the network in a browser. {missing}"
        )
        warnings.warn(MissingRuntime(message), stacklevel=2)
    return directory


def is_page(directory):
    """Return whether a folder contains a page written by `write_page`."""
    with contextlib.suppress(OSError, ValueError):
        page = read_json(Path(directory) / MARK)
        return isinstance(page, dict) and page.keys() >= {"photo", "scenes"}
    return False


def add_runtime(directory, runtime=None):
    """Add LiteRT.js to a page that lacks it, or replace it with the copy in `runtime`.
    See `runtime_files`.
    """
    if runtime is not None or not _has_runtime(directory):
        _write_runtime(directory, runtime_files(runtime))


def _has_runtime(directory):
    return all((directory / "runtime" / name).is_file() for name in FILES.values())


def _write_runtime(directory, files):
    for name, content in files.items():
        write_whole(directory / "runtime" / name, content)


def _reject_foreign(directory):
    """Raise ValueError for a folder with files, but without a page."""
    if not directory.exists() or is_page(directory):
        return
    names = [path.name for path in directory.iterdir() if path.name != LOCK]
    if names:
        raise ValueError(
            f"A page needs a folder of its own, but this one contains {min(names)!r}. "
            "Choose an empty folder "
            f"or the folder of an earlier page. Received: directory={str(directory)!r}"
        )


def _converted(captioner, search, precision):
    """Return a captioner's LiteRT network (bytes), Vocabulary, and page settings."""
    greedy, beams = exported_searches(captioner, **search)
    network = litert_file(captioner, greedy, beams)
    if precision == "int8":
        network = rounded(network)
    settings = {
        "photo_size": captioner.photo_sizes[0],
        "feature_shape": captioner.feature_shape,
        "grid": captioner.rows_and_columns(),
        "max_length": greedy.max_length,
    }
    return network, captioner.vocabulary, settings


def _page_files(examples):
    """Return the page's own files as a dict from names to contents.

    Some are generated, such as player.js.
    """
    files = {path.name: path.read_bytes() for path in PAGE.glob("*.*s")}
    # The script sets the aspect ratio: the page's security policy forbids style
    # attributes.
    figure = empty_figure().replace(' style="--aspect: "', "")
    page = (PAGE / "index.html").read_text(encoding="utf-8")
    files["index.html"] = fill(page, {"figure": figure})
    exports = "export { doubt, fillPlayer, memory, placeless, startPlayer };"
    files["player.js"] = f"{template_part('script')}\n{exports}\n"
    files["player.css"] = template_part("style")
    if examples:
        for photo in (PAGE / "examples").glob("*"):
            files[f"examples/{photo.name}"] = photo.read_bytes()
    looks = {
        "COLOURS": COLOURS,
        "SHAPES": SHAPES,
        "SIDE": SIDE,
        "SIZES": {name: round(SIDE * fraction) for name, fraction in SIZES.items()},
    }
    files["looks.js"] = "".join(
        f"export const {name} = {json.dumps(value)};\n" for name, value in looks.items()
    )
    files["rules.js"] = f"export const WORD_RULES = {json.dumps('|'.join(WORD_RULES))};\n"
    files["WEIGHTS_LICENSE.txt"] = WEIGHTS_LICENSE.read_bytes()
    return files
