"""The options of the command line. One that is not given is not passed on, so that each default stands in one place."""

import argparse
import difflib
import re
from types import MappingProxyType

import keras_sat
from data_utils.datasets import DATASETS, SPLITS
from keras_sat.command_line.invocation import SCRIPT, started_as
from keras_sat.options import CaptionerOptions, SearchOptions, SelfCriticalOptions, SteadyOptions, TrainingOptions
from keras_sat.presets import DEFAULT_MODEL, OWN_PHOTOS, PRESETS

METAVARS = {"encoder_weights": "FILE", "trained_up_to": "LAYER"}  # of options of which the name does not say it
USUAL = {  # as `fit` chooses it
    "encoder": "tiny for scenes; else vgg16 where a GPU is found; where not, efficientnet_lite0 if its weights are "
    "installed, else mobilenet_v2"
}
OF_ENCODER = ("encoder", "encoder_layer", "encoder_weights", "image_size", "grid", "photo_blur")
KNOWN = {*CaptionerOptions.names(), *TrainingOptions.names()}


class Parser(argparse.ArgumentParser):
    """An argument parser that says what is wrong in one line."""

    def error(self, message):
        known = [*self._option_string_actions, *(name for commands in self._command_parsers() for name in commands)]
        wrong = re.search(r"unrecognized arguments: (\S+)|invalid choice: '(\S+)'", message)
        near = difflib.get_close_matches(wrong[1] or wrong[2], known, n=1) if wrong else []
        hint = f" Did you mean {near[0]}?" if near else ""
        self.exit(2, f"keras-sat: {message}.{hint} `{self.prog} --help` says what there is.\n")

    def parse_args(self, args=None, namespace=None):
        arguments, unknown = self.parse_known_args(args, namespace)
        if unknown:  # let the command's own parser complain: it knows the options that may have been meant
            chosen = next((commands[arguments.command] for commands in self._command_parsers()), self)
            chosen.error(f"unrecognized arguments: {' '.join(unknown)}")
        return arguments

    def _command_parsers(self):
        return [action.choices for action in self._actions if isinstance(action, argparse._SubParsersAction)]


def build_parser():
    """Return the parser; what it finds has the name of the command, and those of the options that were given."""
    program = started_as() or SCRIPT
    parser = Parser(prog=program, description="Show, Attend and Tell: train an image captioner and look into it.")
    parser.add_argument("--version", action="version", version=f"keras-sat {keras_sat.__version__}")
    commands = parser.add_subparsers(prog=program, dest="command", required=True, metavar="COMMAND")
    for name, add_arguments, summary, description in (
        ("demo", _add_demo, "train on the built-in scenes, no download", DEMO),
        ("fit", _add_fit, "train a captioner", FIT),
        ("caption", _add_caption, "write captions for pictures", CAPTION),
        ("evaluate", _add_evaluate, "score the captions of a data set", EVALUATE),
        ("compare", _add_compare, "compare two captioners by their scores", COMPARE),
        ("features", _add_features, "encode the photos of a data set once", FEATURES),
        ("calibrate", _add_calibrate, "learn how far captions can be trusted", CALIBRATE),
        ("export", _add_export, "write a captioner for programs without keras_sat, or for browsers", EXPORT),
        ("app", _add_app, "try a captioner in the browser", APP),
        ("info", _add_info, "print what a bug report needs", INFO),
    ):
        description = description.replace("`keras-sat ", f"`{program} ")
        command = commands.add_parser(name, help=summary, description=description, argument_default=argparse.SUPPRESS)
        command.register("type", None, _path_or_name)  # of every argument without a type
        add_arguments(command)
    return parser


def options_of(command):
    """Return a dict from the names of a command's arguments to its options: {"num_beams": "--num-beams", ...}."""
    (commands,) = build_parser()._command_parsers()
    actions = commands[command]._option_string_actions.values()
    return {action.dest: action.option_strings[0] for action in actions if action.dest != "help"}


def _share(text):
    try:
        share = float(text)
    except ValueError:
        share = -1
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"expected a number from 0 to 1, not {text!r}")
    return share


def _path_or_name(text):
    if not text:  # pathlib would take it for the current folder
        raise argparse.ArgumentTypeError("the path or name is empty")
    return text


DEMO = """Train a captioner on drawn scenes (a few minutes on two CPU cores), score it on scenes that it has never seen,
and draw where it looked. Killed and run again, it resumes."""
FIT = """Train a captioner and keep the best one. Flickr8k, Flickr30k and COCO have settings of their own, see --preset;
the defaults below are those of other data, and of a captioner that begins from scratch: one that begins from another
keeps its own. Killed and run again with the same arguments, it resumes after the last epoch that was completed; Ctrl-C
ends the training."""
CAPTION = """Write a line for each picture: its path, a tab and its caption. On a terminal the line ends with the
confidence, where the model has learnt one, and begins with "not sure" where that is low. With --num-results the
further captions of a picture follow in lines that begin with a tab. Pictures that cannot be read are named on standard
error, and the exit status is then 2."""
EVALUATE = """Caption the photos of a split, and score the captions against those that people wrote. With --captions,
score what any other system wrote."""
COMPARE = """Compare two captioners on the same photos: the differences of their scores, 95 % intervals over photos, and
mean and deviation over seeds. FIRST and SECOND are files that `keras-sat evaluate --json` wrote, or patterns in
quotation marks for several seeds: "runs/soft-*.json"."""
FEATURES = "Encode the photos of a data set once and keep their features. Killed and run again, it resumes."
CALIBRATE = """Learn how far captions can be trusted, from photos with captions that the model was not trained on, and
save that with it: each caption then has a confidence. Printed is how well that says how many captions are right.
`keras-sat fit` does the same in the end, on the split dev."""
EXPORT = """Write a captioner, encoder and search included, for programs that do not have keras_sat: a SavedModel as
TensorFlow Serving expects it, into DIRECTORY/1, or the next number. It captions pixels and JPEG files."""
APP = """Serve a page on this computer that captions photos in the browser and shows where the model looked, with a
playground of drawn scenes. Photos stay on the computer. Ctrl-C ends it."""
INFO = "Print versions and devices, and which data, encoder weights and models are found."


def _add_data(parser):
    parser.add_argument("--data", required=True, choices=list(DATASETS), help="which data set")
    parser.add_argument("--data-dir", help="the folder with its photos and captions")
    parser.add_argument("--split-seed", type=int, help="draw a split by photo with this seed")


def _add_options(parser, options, *names, usual=MappingProxyType({})):
    """Add the options of a class of keras_sat.options, or some of them, as they stand there.

    Args:
        parser: of a command, or a group of it.
        options: subclass of Options.
        *names: of those to add; none: all that the command line can take.
        usual: dict from names to what the help says is the default.
    """
    for name in names or options.names():
        field = options.fields()[name]
        bound, default = field.metadata["bound"], field.metadata["none"]
        if field.default is not None:
            default = _shown(field.default)
        text = f"{_with_options(field.metadata['help'])}; default: {usual.get(name, default)}"
        if bound.kind is bool:
            parser.add_argument(_option(name), action=argparse.BooleanOptionalAction, help=text)
        elif bound.kind is not None:
            kind = None if bound.kind is str else bound.kind  # a word is a path or a name, see `build_parser`
            taken = {"type": kind, "choices": bound.choices or None, "metavar": METAVARS.get(name)}
            parser.add_argument(_option(name), help=text, **taken)


def _option(name):
    return f"--{name.replace('_', '-')}"


def _with_options(text):
    """Return a help text with options in the place of their names in Python."""
    return re.sub(r"\b[a-z]+(_[a-z]+)+\b", lambda name: _option(name[0]) if name[0] in KNOWN else name[0], text)


def _shown(value):
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.10f}".rstrip("0").rstrip(".")  # never 5e-05
    return value


def _add_search(parser, usual_beams="3"):
    names = ("num_beams", "length_penalty", "no_repeat_ngram", "max_length")
    _add_options(parser, SearchOptions, *names, usual={"num_beams": usual_beams})


def _add_model(parser, usual=DEFAULT_MODEL):
    parser.add_argument(
        "--model",
        action="append",
        default=None,
        help=f"a folder that was saved, or the name of a bundled model; given several times, the models write one "
        f"caption together; default: {usual}",
    )


def _add_demo(parser):
    _add_options(parser, CaptionerOptions, "attention")
    parser.add_argument("--max-objects", type=int, choices=(1, 2, 3), help="in a scene; default: 2")
    _add_options(parser, TrainingOptions, "seed")
    parser.add_argument("--output-dir", help="default: demo")


def _add_fit(parser):
    _add_data(parser)
    parser.add_argument(
        "--preset",
        choices=list(PRESETS),
        help="settings to begin with, which the other options change; `default` is none; default: that of the data "
        "set, if there is one",
    )
    parser.add_argument("--initial-model", help="begin from a saved or a bundled model")
    parser.add_argument(
        "--from-scratch",
        action="store_true",
        help=f"with --data folder: do not begin from the bundled captioner, {DEFAULT_MODEL}, where photos are few",
    )
    parser.add_argument("--cache-dir", help="the folder for the features; default: beside the photos")
    parser.add_argument("--skip-unreadable", action="store_true", help="leave out photos that cannot be read")
    parser.add_argument(
        "--boxes",
        metavar="PATH",
        help="with --box-weight: the folder of Flickr30k Entities, or a JSON file of boxes",
    )
    parser.add_argument("--output-dir", help="default: runs/DATA-ENCODER-ATTENTION")
    parser.add_argument("--gpus", type=int, metavar="N", help="train on the first N GPUs; default: on one")
    parser.add_argument(
        "--hosts", action="store_true", help="train on the hosts that TF_CONFIG names, on all their GPUs"
    )
    defaults = TrainingOptions.defaults()
    where = "where a folder begins from the bundled captioner"
    own = {name: f"{_shown(defaults[name])}; {_shown(value)} {where}" for name, value in OWN_PHOTOS.items()}
    _add_options(parser.add_argument_group("options of the training"), TrainingOptions, usual=own)
    group = parser.add_argument_group("options of further epochs, which make captions steadier")
    _add_options(group, SteadyOptions)
    group = parser.add_argument_group("options of further epochs, with rewards (self-critical training)")
    _add_options(group, SelfCriticalOptions)
    group = parser.add_argument_group("options of the captioner")
    group.add_argument("--dropout", type=float, help="before and after the readout: both at once; default: 0.5")
    names = [name for name in CaptionerOptions.names() if name not in TrainingOptions.names()]
    _add_options(group, CaptionerOptions, *names, usual=USUAL)


def _add_caption(parser):
    parser.add_argument("images", nargs="+", metavar="IMAGE", help="pictures, folders of pictures, or patterns")
    parser.add_argument("--recursive", action="store_true", default=False, help="descend into subfolders too")
    _add_model(parser)
    _add_search(parser, usual_beams="3, or --num-results where that is more")
    _add_options(parser, SearchOptions, "num_results")
    parser.add_argument(
        "--say", metavar="SENTENCE", help="do not write a caption: show where it looks while it reads this one"
    )
    _add_options(parser, CaptionerOptions, "encoder_weights")
    parser.add_argument(
        "--min-confidence",
        type=_share,
        metavar="SHARE",
        help='print "not sure" for captions of which the confidence, from 0 to 1, is below this; a terminal shows the '
        "confidence anyway",
    )
    parser.add_argument(
        "--json", action="store_true", default=False, dest="as_json", help="print a JSON object for each picture"
    )
    parser.add_argument(
        "--maps", action="store_true", default=False, help="with --json: attention_weights too, [word][row][column]"
    )
    for name, text in (
        ("plot", "draw where it looked: a picture file, or a folder for many"),
        ("html", "the same as a page to play with: a file, or a folder for many"),
        ("gif", "the same as a cartoon: a file, or a folder for many"),
    ):
        parser.add_argument(f"--{name}", default=None, metavar="OUT", help=text)


def _add_evaluate(parser):
    _add_model(parser, f'{DEFAULT_MODEL}, or "scenes" with --data scenes')
    parser.add_argument(
        "--captions",
        default=None,
        metavar="FILE",
        help="score these captions instead: a JSON list of objects with image_id and caption",
    )
    _add_data(parser)
    parser.add_argument("--split", choices=SPLITS, help="default: test")
    parser.add_argument("--cache-dir", dest="cache", help="a folder of features that fit or features has built")
    _add_search(parser)
    _add_options(parser, CaptionerOptions, "encoder_weights")
    parser.add_argument("--skip-unreadable", action="store_true", help="leave out photos that cannot be read")
    parser.add_argument(
        "--allow-training-photos", action="store_true", help="score photos that the captioner has learnt from, too"
    )
    parser.add_argument(
        "--beside", nargs="+", choices=("paper", "human"), help="rows to compare with: the paper's, a person's"
    )
    for name, text in (
        ("json", "write scores, settings and captions as JSON"),
        ("csv", "write the scores of each photo"),
        ("coco-results", "write the captions as coco-caption reads them"),
    ):
        parser.add_argument(f"--{name}", default=None, metavar="OUT", help=text)
    parser.add_argument(
        "--gallery",
        default=None,
        metavar="DIR",
        help="write a page of all photos into this folder: captions, where it looked, and each one's scores",
    )
    parser.add_argument("--grounding", action="store_true", default=False, help="say whether it looks at what it names")
    parser.add_argument(
        "--boxes",
        metavar="PATH",
        help="with --grounding on photos: the folder of Flickr30k Entities, or a JSON file of boxes",
    )


def _add_compare(parser):
    parser.add_argument("first", metavar="FIRST", help="JSON file or pattern")
    parser.add_argument("second", metavar="SECOND", help="JSON file or pattern")


def _add_features(parser):
    _add_data(parser)
    _add_options(parser, CaptionerOptions, *OF_ENCODER, usual=USUAL)
    parser.add_argument("--cache-dir", required=True, help="the folder for the features")
    parser.add_argument(
        "--shard", metavar="I/N", help="encode only part I of N, as other machines do the others; see docs/scale.md"
    )
    parser.add_argument("--batch-size", type=int, default=32, help="photos encoded together; default: 32")
    parser.add_argument("--skip-unreadable", action="store_true", default=False, help="leave out unreadable photos")
    parser.add_argument("--verify", action="store_true", default=False, help="read all rows again, mend damaged ones")


def _add_calibrate(parser):
    parser.add_argument("model", metavar="MODEL", help="a folder that was saved, or the name of a bundled model")
    _add_data(parser)
    parser.add_argument("--split", choices=SPLITS, help="default: dev")
    parser.add_argument("--cache-dir", help="a folder of features that fit or features has built")
    _add_options(parser, CaptionerOptions, "encoder_weights")
    parser.add_argument("--skip-unreadable", action="store_true", help="leave out photos that cannot be read")
    parser.add_argument("--output-dir", help="the folder for a copy of the model; default: MODEL itself")
    parser.add_argument("--json", dest="report", metavar="OUT", help="write the figures as JSON")


def _add_export(parser):
    parser.add_argument("model", metavar="MODEL", help="a folder that was saved, or the name of a bundled model")
    parser.add_argument("directory", metavar="DIRECTORY", help="the folder for exports of this model")
    _add_search(parser)
    parser.add_argument(
        "--web", action="store_true", default=False, help="write a page for browsers instead, for any static host"
    )
    _add_runtime(parser)
    parser.add_argument(
        "--tflite", action="store_true", default=False, help="write model.tflite too, for LiteRT: greedy search"
    )
    _add_options(parser, CaptionerOptions, "encoder_weights")


def _add_app(parser):
    parser.add_argument(
        "model",
        metavar="MODEL",
        nargs="?",
        default=None,
        help=f"a folder that was saved, the name of a bundled model, or a page that export --web wrote; default: "
        f"{DEFAULT_MODEL}",
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on; default: this computer only")
    parser.add_argument("--port", type=int, default=0, help="default: one that is free")
    parser.add_argument("--no-browser", action="store_true", default=False, help="only name the address")
    _add_runtime(parser)
    _add_options(parser, CaptionerOptions, "encoder_weights")


def _add_runtime(parser):
    parser.add_argument(
        "--runtime",
        default=None,
        metavar="FOLDER",
        help="a folder into which npm has installed @litertjs/core; default: it is fetched once from npm's registry",
    )


def _add_info(parser):
    parser.add_argument("--data-dir", default=None, help="look for data sets in this folder")
