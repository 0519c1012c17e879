"""The command `app`: try a captioner in the browser.

Dependencies are imported where they are used, which keeps `--help` fast.
"""

import signal
import tempfile
from pathlib import Path

from keras_sat.commands.flags import MODEL_HELP, add_switches
from keras_sat.commands.page_options import (
    add_page_options,
    say_that_it_takes_time,
    shown_name,
)
from keras_sat.presets import DEFAULT_MODEL

DESCRIPTION = """Serve a page on this computer that captions photos and synthetic scenes in the
browser. Photos stay on the computer. Press Ctrl-C to stop."""


def add_arguments(parser):
    text = f"{MODEL_HELP}, or a page that export --web wrote; default: {DEFAULT_MODEL}"
    parser.add_argument("model", metavar="MODEL", nargs="?", help=text)
    parser.add_argument("--host", help="the address to listen on; default: only this computer")
    parser.add_argument("--port", type=int, help="default: any free port")
    add_switches(parser, no_browser="only print the address")
    add_page_options(parser)


def run(model=None, host="127.0.0.1", port=0, no_browser=False, runtime=None, encoder_weights=None):
    """Serve a web page until Ctrl-C is pressed: an existing page, or a temporary page
    for a model.
    """
    from keras_sat.captioner import Captioner
    from keras_sat.export import add_runtime, is_page, page_server, runtime_files, serve, write_page
    from keras_sat.files import model_directory

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
                say_that_it_takes_time(model)
                captioner = Captioner.from_pretrained(model, encoder_weights=encoder_weights)
                write_page(
                    captioner, page, name=shown_name(model), runtime=runtime, show_progress=True
                )
            serve(server, open_browser=not no_browser)


def _end_as_with_ctrl_c():
    """Let a signal that ends the process do what Ctrl-C does, so that the temporary
    page is removed.
    """
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):  # Windows has no SIGHUP
            signal.signal(getattr(signal, name), signal.default_int_handler)
