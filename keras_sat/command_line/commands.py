"""The commands by name. Each is a function of the options that `arguments` parsed."""

from keras_sat.command_line.caption import run_caption
from keras_sat.command_line.evaluate import run_compare, run_evaluate
from keras_sat.command_line.export import run_app, run_export
from keras_sat.command_line.info import run_info
from keras_sat.command_line.saved_models import run_calibrate, run_index
from keras_sat.command_line.train import run_demo, run_features, run_fit

COMMANDS = {
    "demo": run_demo,
    "fit": run_fit,
    "caption": run_caption,
    "evaluate": run_evaluate,
    "compare": run_compare,
    "features": run_features,
    "calibrate": run_calibrate,
    "index": run_index,
    "export": run_export,
    "app": run_app,
    "info": run_info,
}
