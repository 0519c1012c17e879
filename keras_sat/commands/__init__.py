"""The command line: flags, commands, messages and the demo."""

from data_utils.base import attach_lazily

NAMES_BY_MODULE = {
    "commands": ["module_of"],
    "demo": ["DEMO_SETTINGS"],
    "flags": ["flag_of"],
    "messages": [
        "open_closed_streams",
        "report_error",
        "report_stop",
        "show_warning",
        "track_ctrl_c",
    ],
    "parser": ["Parser", "parse"],
}

__getattr__, __dir__, __all__ = attach_lazily(__name__, NAMES_BY_MODULE)
