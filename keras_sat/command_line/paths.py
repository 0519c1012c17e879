"""Where the command line writes; what could not be written is rejected before any work."""

import errno
import os
from pathlib import Path

from data_utils.atomic_files import clear_half_written


def drawing_paths(places, paths):
    """Return where each picture is drawn: dict from paths to dicts from options to files; their folders are made.

    Args:
        places: dict from "plot", "html" and "gif" to what was given for them: a file, or a folder for many pictures.
        paths: list of the paths of pictures.
    """
    drawings = {path: {} for path in paths}
    for option, out in places.items():
        out = Path(out).expanduser()
        is_file = bool(out.suffix) and not out.is_dir()
        if is_file and out.suffix[1:].lower() not in _endings(option):
            kinds = ", ".join(_endings(option))
            raise ValueError(f"A drawing can be one of: {kinds}. Received: --{option} {out}")
        if is_file and len(paths) > 1:
            raise ValueError(f"Several pictures need a folder: leave out {out.suffix}. Received: --{option} {out}")
        for path, name in drawing_names(paths).items():
            ending = "png" if option == "plot" else option
            drawings[path][option] = out if is_file else out / f"{name}-attention.{ending}"
    pictures = {os.path.realpath(path) for path in paths}  # Path.resolve raises an error where links go in circles
    every = [place for of_picture in drawings.values() for place in of_picture.items()]
    for option, drawing in every:
        if os.path.realpath(drawing) in pictures:
            raise ValueError(f"The drawing would replace the picture itself. Received: --{option} {drawing}")
    make_places(every)
    return drawings


def _endings(option):
    from matplotlib.backend_bases import FigureCanvasBase

    from keras_sat.pictures.player import PAGE_ENDINGS

    pages = [ending[1:] for ending in PAGE_ENDINGS]
    return {"plot": sorted(FigureCanvasBase.get_supported_filetypes()), "html": pages, "gif": ["gif"]}[option]


def drawing_names(paths):
    """Return a dict from each path to the name of its drawing, without ending.

    That is the picture's name without its ending. If two drawings would have the same name, all keep their endings; if
    that is not enough, as many folders come before the names as it takes. Capital and small letters count as the same,
    as they do on some disks.
    """
    parts = {path: Path(os.path.abspath(path)).parts[1:] for path in paths}
    for depth in range(1, max(map(len, parts.values())) + 1):
        for keeps_ending in (False, True):
            names = {path: Path(*of_path[-depth:]) for path, of_path in parts.items()}
            names = {path: str(name if keeps_ending else name.with_suffix("")) for path, name in names.items()}
            if len({name.casefold() for name in names.values()}) == len({*parts.values()}):
                return names
    return names


def make_places(places):
    """Make the folders of files, a list of (flag, path); raise an error if one could not be written at the end.

    What killed commands have left of these files is removed.
    """
    taken = {}
    for option, path in places:
        path = Path(path).expanduser()
        if (first := taken.setdefault(os.path.realpath(path), option)) != option:
            raise ValueError(f"One file cannot be both. Received: --{first} and --{option} {path}")
        if path.is_dir():
            raise ValueError(f"Expected the name of a file, and this is a folder. Received: --{option} {path}")
        path.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(path.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path.parent))
    clear_half_written(*(Path(path).expanduser() for _, path in places))
