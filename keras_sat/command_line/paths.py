"""Where the command line writes what was asked for; what could not be written is refused before any work."""

import os
from collections import Counter
from pathlib import Path

from data_utils.captions import IMAGE_ENDINGS


def refuse_other_kind(option, out):
    """Raise ValueError where a drawing is to be a file of a kind that it cannot be."""
    from matplotlib.backend_bases import FigureCanvasBase

    from keras_sat.pictures.player import PAGE_ENDINGS

    pages = [ending[1:] for ending in PAGE_ENDINGS]
    kinds = {"plot": sorted(FigureCanvasBase.get_supported_filetypes()), "html": pages, "gif": ["gif"]}[option]
    if _is_file(out) and Path(out).suffix[1:].lower() not in kinds:
        raise ValueError(f"A drawing can be one of: {', '.join(kinds)}. Received: --{option} {out}")


def _is_file(out):
    """Return whether the name of an output means one file, else a folder."""
    out = Path(out).expanduser()
    return bool(out.suffix) and not out.is_dir()


def drawing_paths(option, out, paths):
    """Return where the drawing of each picture goes: the file that was named, or one in that folder for each."""
    refuse_other_kind(option, out)
    out, is_file = Path(out).expanduser(), _is_file(out)
    if is_file and len(paths) > 1:
        raise ValueError(
            f"Several pictures are drawn into a folder: leave out {out.suffix}. Received: --{option} {out}"
        )
    if is_file:
        drawings = {paths[0]: out}
    else:
        ending = "png" if option == "plot" else option
        drawings = {path: out / f"{name}-attention.{ending}" for path, name in drawing_names(paths).items()}
    pictures = {os.path.realpath(path) for path in paths}  # Path.resolve raises an error where links go in circles
    for drawing in drawings.values():
        if os.path.realpath(drawing) in pictures:
            raise ValueError(f"The drawing would replace the picture itself. Received: --{option} {out}")
        make_place(option, drawing)
    return drawings


def drawing_names(paths):
    """Return a dict from each path to the name of its drawing, without ending, which depends on no order.

    1.jpg is drawn as "1"; where a picture of another ending lies beside it (1.png), as "1.jpg", whether that one is
    captioned along or not. So is a picture of an unusual ending (1.tga). Pictures of one name from several folders get
    as much of their folders before it as distinguishes them: "day/1" and "night/1". Capital and small letters count as
    the same, as they do on some disks: of dog.jpg and Dog.jpg the second in the order of their names is "dog.jpg-2".
    """
    beside, names, depths = {}, {}, dict.fromkeys(paths, 1)
    for path in paths:
        folder, name = os.path.split(os.path.abspath(path))
        if folder not in beside:
            others = os.listdir(folder) if os.path.isdir(folder) else []
            beside[folder] = Counter(
                os.path.splitext(other)[0].casefold() for other in others if other.lower().endswith(IMAGE_ENDINGS)
            )
        stem = os.path.splitext(name)[0]
        is_alone = beside[folder][stem.casefold()] < 2 and name.lower().endswith(IMAGE_ENDINGS)
        names[path] = [*Path(folder).parts[1:], stem if is_alone else name]
    alike = {}
    for path in sorted(paths, key=os.path.abspath):
        same = alike.setdefault("/".join(names[path]).casefold(), [])
        same += [] if os.path.abspath(path) in same else [os.path.abspath(path)]
        if len(same) > 1:
            names[path][-1] += f"-{same.index(os.path.abspath(path)) + 1}"
    while True:
        drawn = {path: "/".join(names[path][-depth:]) for path, depth in depths.items()}
        shared = Counter(name.casefold() for name in drawn.values())
        unclear = [path for path, name in drawn.items() if shared[name.casefold()] > 1]
        unclear = [path for path in unclear if depths[path] < len(names[path])]
        if not unclear:
            return drawn
        depths |= {path: depths[path] + 1 for path in unclear}


def make_place(option, path):
    """Make the folder of a file; raise an error, before any work is done, where none could be written in the end."""
    path = Path(path).expanduser()
    if path.is_dir():
        raise ValueError(f"Expected the name of a file to write, and this is a folder. Received: --{option} {path}")
    nearest = next(filter(os.path.lexists, path.absolute().parents))
    if not nearest.is_dir():
        kind = "a file" if nearest.exists() else "a link that leads nowhere"
        raise ValueError(f"{nearest}: this is {kind}, and a folder is needed there. Received: --{option} {path}")
    if not os.access(nearest, os.W_OK):
        raise ValueError(
            f"{nearest}: this folder cannot be written to. Choose another one. Received: --{option} {path}"
        )
    path.parent.mkdir(parents=True, exist_ok=True)


def refuse_one_place_for_two(places):
    """Raise ValueError where one file would replace another: `places` is a dict from options to paths."""
    taken = {}
    for option, path in places.items():
        first = taken.setdefault(os.path.realpath(Path(path).expanduser()), option)
        if first != option:
            raise ValueError(f"One file cannot be both. Received: --{first} and --{option} {path}")
