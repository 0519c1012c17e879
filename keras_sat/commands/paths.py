"""Checks the output files of the command line, so that errors are reported before any
work is done.
"""

import errno
import os
from pathlib import Path

from data_utils.base import clear_half_written
from keras_sat.commands.flags import flag_of


def drawing_paths(outputs, paths, *, plot_format=None):
    """Return the output files for each picture, and create their folders.

    Args:
        outputs: dict from "plot", "html", "gif" and "trace" to a file, or a folder for
            many pictures; from "gallery" to a file for all pictures, or a folder for
            its index.html.
        paths: list of the paths of pictures.
        plot_format: "png", "pdf" or "svg", of the plots in a folder; None is "png".

    Returns: dict from paths to dicts from options to files.
    """
    # Path.resolve raises an error where links go in circles
    pictures = {os.path.realpath(path) for path in paths}
    drawings = {path: {} for path in paths}
    for option, output in outputs.items():
        is_file = _is_file(output)
        output = Path(output).expanduser()
        if is_file:
            _check_file(output, option, len(paths), plot_format)
        for path, name in drawing_names(paths).items():
            file = output if is_file else output / _file_name(option, name, plot_format)
            if os.path.realpath(file) in pictures:
                raise ValueError(
                    f"The output would overwrite the picture. Received: --{option} {file}"
                )
            drawings[path][option] = file
    for files in drawings.values():
        reject_same_file(files)
    prepare_files([file for files in drawings.values() for file in files.values()])
    return drawings


def _is_file(output):
    """Return whether an output is a file, not a folder: it has an ending."""
    ends_as_folder = str(output).endswith(("/", os.sep))
    path = Path(output).expanduser()
    return bool(path.suffix) and not ends_as_folder and not path.is_dir()


def _check_file(path, option, num_pictures, plot_format):
    """Raise ValueError unless an option can write its drawings into this file."""
    endings = _endings(option)
    if path.suffix[1:].lower() not in endings:
        raise ValueError(
            f"Expected a folder or a file of type {', '.join(endings)}. Received: --{option} {path}"
        )
    if num_pictures > 1 and option != "gallery":
        raise ValueError(
            f"For many pictures, pass a folder, not a {path.suffix} file. Received: "
            f"--{option} {path}"
        )
    if option == "plot" and plot_format is not None:
        raise ValueError(
            "--plot-format is for a folder: the ending of a file says its format. Received: "
            f"--plot {path} --plot-format {plot_format}"
        )


def _file_name(option, picture_name, plot_format):
    """Return the name of a drawing in a folder."""
    if option == "gallery":
        return "index.html"
    if option == "trace":
        return f"{picture_name}-trace.html"
    ending = (plot_format or "png") if option == "plot" else option
    return f"{picture_name}-attention.{ending}"


def _endings(option):
    """Return the possible file types of a drawing."""
    if option in ("gallery", "trace"):
        return ["html"]
    if option != "plot":
        return [option]
    from matplotlib.backend_bases import FigureCanvasBase

    return sorted(FigureCanvasBase.get_supported_filetypes())


def drawing_names(paths):
    """Return a dict from paths to names of drawings: the pictures' names or, if two are
    equal, their relative paths.
    """
    absolute_paths = {path: os.path.abspath(path) for path in paths}
    names = {path: Path(path).stem for path in paths}
    distinct_names = {name.casefold() for name in names.values()}  # for Windows and macOS
    if len(distinct_names) == len({*absolute_paths.values()}):
        return names
    folders = [os.path.dirname(path) for path in absolute_paths.values()]
    common_folder = os.path.commonpath(folders)
    return {
        path: os.path.relpath(absolute_path, common_folder)
        for path, absolute_path in absolute_paths.items()
    }


def reject_same_file(outputs):
    """Raise ValueError if two options would write the same file; `outputs` is a dict
    from options to paths.
    """
    if len({*map(os.path.realpath, outputs.values())}) < len(outputs):
        received = ", ".join(f"{flag_of(option)} {path}" for option, path in outputs.items())
        raise ValueError(f"Each option must write a different file. Received: {received}")


def output_paths(files):
    """Return a dict from options to paths that can be written, from what was passed."""
    paths = {kind: Path(path).expanduser() for kind, path in files.items()}
    if "gallery" in paths:
        paths["gallery"] /= "index.html"
    reject_same_file(paths)
    prepare_files(paths.values())
    return paths


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
