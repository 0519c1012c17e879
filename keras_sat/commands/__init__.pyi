"""Made by docs/make_stubs.py: where the exported names are."""

from keras_sat.commands.commands import module_of as module_of
from keras_sat.commands.demo import DEMO_SETTINGS as DEMO_SETTINGS
from keras_sat.commands.flags import flag_of as flag_of
from keras_sat.commands.messages import open_closed_streams as open_closed_streams
from keras_sat.commands.messages import report_error as report_error
from keras_sat.commands.messages import report_stop as report_stop
from keras_sat.commands.messages import show_warning as show_warning
from keras_sat.commands.messages import track_ctrl_c as track_ctrl_c
from keras_sat.commands.parser import Parser as Parser
from keras_sat.commands.parser import parse as parse

__all__ = [
    "DEMO_SETTINGS",
    "Parser",
    "flag_of",
    "module_of",
    "open_closed_streams",
    "parse",
    "report_error",
    "report_stop",
    "show_warning",
    "track_ctrl_c",
]
