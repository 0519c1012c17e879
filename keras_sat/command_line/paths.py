"""Checks the output files of the command line, so that errors are reported before any
work is done.
"""

import errno
import os
from pathlib import Path

from data_utils.atomic_files import clear_half_written
from keras_sat.command_line.invocation import flag_of


def drawing_paths(outputs, paths, *, plot_format=None):
    """Return the output files for each picture, and create their folders.

    Args:
        outputs: dict from "plot", "html" and "gif" to a file, or a folder for many
            pictures; from "gallery" to a file for all pictures, or a folder for its
            index.html.
        paths: list of the paths of pictures.
        plot_format: "png", "pdf" or "svg", of the plots in a folder; None is "png".

    Returns: dict from paths to dicts from options to files.
    """
    # Path.resolve raises an error where links go in circles
    pictures = {os.path.realpath(path) for path in paths}
    drawings = {path: {} for path in paths}
    for option, out in outputs.items():
        is_folder = str(out).endswith(("/", os.sep))
        out = Path(out).expanduser()
        ending = {"plot": plot_format or "png", "gallery": "html"}.get(option, option)
        is_file = bool(out.suffix) and not is_folder and not out.is_dir()
        if is_file and out.suffix[1:].lower() not in (endings := _endings(option)):
            raise ValueError(
                f"Expected a folder or a file of type {', '.join(endings)}. Received: "
                f"--{option} {out}"
            )
        if is_file and len(paths) > 1 and option != "gallery":
            raise ValueError(
                f"For many pictures, pass a folder, not a {out.suffix} file. Received: "
                f"--{option} {out}"
            )
        if is_file and option == "plot" and plot_format is not None:
            problem = "--plot-format is for a folder: the ending of a file says its format."
            raise ValueError(f"{problem} Received: --plot {out} --plot-format {plot_format}")
        for path, name in drawing_names(paths).items():
            drawing = (
                out
                if is_file
                else out / f"{'index' if option == 'gallery' else name + '-attention'}.{ending}"
            )
            if os.path.realpath(drawing) in pictures:
                raise ValueError(
                    f"The output would overwrite the picture. Received: --{option} {drawing}"
                )
            drawings[path][option] = drawing
    for of_picture in drawings.values():
        reject_same_file(of_picture)
    prepare_files([drawing for of_picture in drawings.values() for drawing in of_picture.values()])
    return drawings


def _endings(option):
    """Return the possible file types of a drawing."""
    if option != "plot":
        return ["html" if option == "gallery" else option]
    from matplotlib.backend_bases import FigureCanvasBase

    return sorted(FigureCanvasBase.get_supported_filetypes())


def drawing_names(paths):
    """Return a dict from paths to names of drawings: the pictures' names or, if two are
    equal, their relative paths.
    """
    full = {path: os.path.abspath(path) for path in paths}
    names = {path: Path(path).stem for path in paths}
    if len({name.casefold() for name in names.values()}) < len({*full.values()}):
        common = os.path.commonpath([os.path.dirname(path) for path in full.values()])
        names = {path: os.path.relpath(absolute, common) for path, absolute in full.items()}
    return names


def reject_same_file(outputs):
    """Raise ValueError if two options would write the same file; `outputs` is a dict
    from options to paths.
    """
    if len({*map(os.path.realpath, outputs.values())}) < len(outputs):
        received = ", ".join(f"{flag_of(option)} {path}" for option, path in outputs.items())
        raise ValueError(f"Each option must write a different file. Received: {received}")


def prepare_files(paths):
    """Create the folders for output files, and remove half-written ones.

    Raise OSError if one cannot be written.
    """
    for path in paths:
        check_can_be_written(path)
    clear_half_written(*paths)


def check_can_be_written(path):
    """Create the folder of an output file; raise OSError if it cannot be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not os.access(path.parent, os.W_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(path))
