"""The command `export`: a captioner for programs without keras_sat, or for browsers.

Dependencies are imported where they are used, which keeps `--help` fast.
"""

import warnings

from data_utils.base import visible
from keras_sat.commands.flags import MODEL_HELP, add_options, add_switches
from keras_sat.commands.option_groups import reject_alone
from keras_sat.commands.page_options import (
    add_page_options,
    say_that_it_takes_time,
    shown_name,
)
from keras_sat.settings import ALGORITHM_OPTIONS, Search

DESCRIPTION = """Write a captioner, including encoder and search, for programs without keras_sat: a
SavedModel for TensorFlow Serving, in DIRECTORY/1 or the next free number."""


def add_arguments(parser):
    parser.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    parser.add_argument(
        "directory", metavar="DIRECTORY", help="the folder for exports of this model"
    )
    add_options(parser, Search, *ALGORITHM_OPTIONS)
    add_switches(
        parser.add_mutually_exclusive_group(),
        web="write a web page instead, which any static host can serve",
        tflite="also write model.tflite, for greedy search with LiteRT",
        onnx="also write model.onnx, for beam search with onnxruntime",
    )
    add_page_options(parser)


def run(
    model,
    directory,
    tflite=False,
    onnx=False,
    web=False,
    runtime=None,
    encoder_weights=None,
    **options,
):
    """Export a captioner for programs without keras_sat or as a web page, and print the
    paths of the files.
    """
    from keras_sat.captioner import Captioner

    if runtime is not None and not web:
        reject_alone("runtime", "web")
    if web:
        say_that_it_takes_time(model)
    captioner = Captioner.from_pretrained(model, encoder_weights=encoder_weights)
    if web:
        _export_page(captioner, directory, name=shown_name(model), runtime=runtime, **options)
        return
    wanted_formats = {"tf_saved_model": True, "litert": tflite, "onnx": onnx}
    formats = [name for name, is_wanted in wanted_formats.items() if is_wanted]
    folder = captioner.export(directory, formats, **options)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for file in files:
        print(f"{visible(file)}: {file.stat().st_size:,} bytes")


def _export_page(captioner, directory, **options):
    from keras_sat.export import MissingRuntime, write_page

    with warnings.catch_warnings():
        # Exit status 2: nobody should publish such a page.
        warnings.simplefilter("error", MissingRuntime)
        folder = write_page(captioner, directory, show_progress=True, **options)
    print(f"{visible(folder)}: a page for any static host, or for `keras-sat app`")
