"""The commands `export` and `app`: captioners for programs without keras_sat, and in a
browser.

Dependencies are imported where they are used, which keeps `--help` fast.
"""

import signal
import sys
import tempfile
import warnings
from pathlib import Path

from data_utils.foreign_text import visible
from keras_sat.command_line.option_groups import reject_alone


def run_export(
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
        _say_that_it_takes_time(model)
    captioner = Captioner.from_pretrained(model, encoder_weights=encoder_weights)
    if web:
        _export_page(captioner, directory, name=_shown_name(model), runtime=runtime, **options)
        return
    wanted_formats = {"tf_saved_model": True, "litert": tflite, "onnx": onnx}
    formats = [name for name, is_wanted in wanted_formats.items() if is_wanted]
    folder = captioner.export(directory, formats, **options)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for file in files:
        print(f"{visible(file)}: {file.stat().st_size:,} bytes")


def _export_page(captioner, directory, **options):
    from keras_sat.deploy.page_export import MissingRuntime, write_page

    with warnings.catch_warnings():
        # Exit status 2: nobody should publish such a page.
        warnings.simplefilter("error", MissingRuntime)
        folder = write_page(captioner, directory, show_progress=True, **options)
    print(f"{visible(folder)}: a page for any static host, or for `keras-sat app`")


def run_app(
    model=None, host="127.0.0.1", port=0, no_browser=False, runtime=None, encoder_weights=None
):
    """Serve a web page until Ctrl-C is pressed: an existing page, or a temporary page
    for a model.
    """
    from keras_sat.captioner import Captioner
    from keras_sat.deploy.page_export import add_runtime, is_page, write_page
    from keras_sat.deploy.page_runtime import runtime_files
    from keras_sat.deploy.page_server import page_server, serve
    from keras_sat.files.model_folder import model_directory

    model = model or model_directory(None)
    path = Path(model).expanduser()
    page = path.parent if path.name == "index.html" else path
    is_made = is_page(page)
    _end_as_with_ctrl_c()
    with tempfile.TemporaryDirectory(prefix="keras-sat-", ignore_cleanup_errors=True) as temporary:
        page = page if is_made else Path(temporary) / "page"
        with page_server(page, host, port) as server:  # fails at once if the port is in use
            if is_made:
                add_runtime(page, runtime)
            else:
                runtime_files(runtime)  # without it the page could only show an error
                _say_that_it_takes_time(model)
                captioner = Captioner.from_pretrained(model, encoder_weights=encoder_weights)
                write_page(
                    captioner, page, name=_shown_name(model), runtime=runtime, show_progress=True
                )
            serve(server, open_browser=not no_browser)


def _say_that_it_takes_time(model):
    name = visible(_shown_name(model))
    text = (
        f"page: loading {name}; making the page takes half a minute, or minutes on a busy machine"
    )
    print(text, file=sys.stderr, flush=True)


def _end_as_with_ctrl_c():
    """Let a signal that ends the process do what Ctrl-C does, so that the temporary
    page is removed.
    """
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):  # Windows has no SIGHUP
            signal.signal(getattr(signal, name), signal.default_int_handler)


def _shown_name(model):
    """Return the name of a model to show on a page: the name of its folder, or "mine"
    for runs/mine/model.
    """
    path = Path(model).expanduser().resolve()
    return path.parent.name if path.name == "model" else path.name
