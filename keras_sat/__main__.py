"""The command line, `python -m keras_sat COMMAND` or `keras-sat`; --help does not
import TensorFlow.
"""

import atexit
import functools
import gc
import os
import sys
import warnings

from data_utils.base import import_tensorflow
from keras_sat.checks import STOPPED_EARLY
from keras_sat.commands import (
    flag_of,
    module_of,
    open_closed_streams,
    parse,
    report_error,
    report_stop,
    show_warning,
    track_ctrl_c,
)
from keras_sat.removed_options import without_removed


def main(argv=None):
    """Run a keras-sat command and return its exit status."""
    # Otherwise Python would search all of TensorFlow's objects for cycles when it ends,
    # after everything is written, which takes a tenth as long as the first caption.
    atexit.register(gc.freeze)
    open_closed_streams()
    arguments = parse(argv)
    command = arguments.pop("command")
    warnings.showwarning = functools.partial(show_warning, command)
    warnings.filterwarnings("ignore", message=STOPPED_EARLY)  # `report_stop` reports it
    # a character that the console lacks must not end a training, whose lines shall be
    # in a log file at once
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace", line_buffering=True)
    with track_ctrl_c() as pressed:
        try:
            arguments = without_removed(command, arguments, called=flag_of)
            os.environ["KERAS_BACKEND"] = "tensorflow"  # overrides Keras' settings
            if not os.environ.get("KERAS_HOME"):
                os.environ.pop("KERAS_HOME", None)  # "" would be the current folder
            if command != "caption":  # which may not need it
                import_tensorflow()
            if pressed:
                raise KeyboardInterrupt  # an import swallowed it
            module_of(command).run(**arguments)
        except KeyboardInterrupt as stop:
            return report_stop(command, str(stop))
        except Exception as error:
            # Raised by TensorFlow or an import.
            if pressed and not isinstance(error, (ValueError, OSError)):
                return report_stop(command)
            return report_error(command, error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
