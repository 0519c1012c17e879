"""The flags of the command line.

Only flags that are given are passed on; functions define their own defaults.
"""

import argparse
import functools
import re

import keras_sat
from data_utils.datasets import DATASETS, SPLITS
from keras_sat.checks import near_name
from keras_sat.command_line.invocation import flag_of, started_as
from keras_sat.options import (
    FIRST,
    KINDS,
    MAP_KINDS,
    MEASURED_MAPS,
    BeamSearchOptions,
    CaptionerOptions,
    ConsensusOptions,
    SearchOptions,
    SelfCriticalOptions,
    TrainingOptions,
)
from keras_sat.presets import DEFAULT_MODEL, PRESETS
from keras_sat.removed_options import REMOVED

METAVARS = {
    "encoder": "NAME",
    "encoder_layer": "LAYER",
    "encoder_weights": "FILE",
    "trained_up_to": "LAYER",
}
METAVARS |= {int: "N", float: "X"}
DEFAULTS = {"encoder": "tiny for scenes; vgg16 with a GPU, else efficientnet_lite0"}
MODEL = "a saved model (folder or .keras file), a bundled name, or hf://owner/name[@revision]"
BOXES = "the folder of Flickr30k Entities, or a JSON file of boxes"
WITH_OPTIONS = ("fit", "caption", "evaluate")  # the commands that had more of them
RUNTIME = (
    "a folder into which npm has installed @litertjs/core; default: downloaded once from "
    "npm's registry"
)


class Parser(argparse.ArgumentParser):
    """An argument parser that reports errors in one line, and suggests the correct name
    for a misspelt one.
    """

    speaker = "keras-sat"  # whose errors they are
    commands = {}  # dict from the names of commands to their parsers

    def error(self, message):
        wrong_word = re.search(r"unrecognized arguments: (\S+)|invalid choice: '(\S+)'", message)
        hint = ""
        if wrong_word:
            flags = self._option_string_actions.items()
            known_words = [flag for flag, action in flags if action.dest not in REMOVED]
            known_words += self.commands
            hint = near_name(wrong_word[1] or wrong_word[2], known_words)
        self.exit(2, f"{self.speaker}: {message}.{hint} See `{self.prog} --help`.\n")

    def parse_args(self, args=None, namespace=None):
        arguments, unknown = self.parse_known_args(args, namespace)
        if unknown:
            # A command's own parser knows the flags that may have been meant.
            parser = self.commands[arguments.command] if self.commands else self
            parser.error(f"unrecognized arguments: {' '.join(unknown)}")
        return arguments


class FirstHelp(argparse.Action):
    """Print only the first group of flags in a command's help, and exit."""

    def __call__(self, parser, namespace, values, option_string=None):
        for group in parser._action_groups[2:]:
            for action in group._group_actions:
                action.help = argparse.SUPPRESS
        parser.print_help()
        parser.exit()


def build_parser():
    """Return the parser, whose result contains the command and the options given, but
    no defaults.
    """
    program = started_as()
    parser = Parser(
        prog=program,
        description="Show, Attend and Tell: train an image captioner and look inside it.",
    )
    parser.add_argument("--version", action="version", version=f"keras-sat {keras_sat.__version__}")
    commands = parser.add_subparsers(prog=program, dest="command", required=True, metavar="COMMAND")
    for name, add_arguments, summary, description in (
        ("demo", _add_demo, "train on the built-in scenes, without a download", DEMO),
        ("fit", _add_fit, "train a captioner", FIT),
        ("caption", _add_caption, "caption pictures", CAPTION),
        ("evaluate", _add_evaluate, "score a captioner on a data set", EVALUATE),
        ("compare", _add_compare, "compare two captioners by their scores", COMPARE),
        ("features", _add_features, "encode the photos of a data set once", FEATURES),
        ("calibrate", _add_calibrate, "calibrate the confidence of captions", CALIBRATE),
        ("index", _add_index, "choose captions by consensus with training photos", INDEX),
        (
            "export",
            _add_export,
            "export a captioner for programs without keras_sat, or for browsers",
            EXPORT,
        ),
        ("app", _add_app, "try a captioner in the browser", APP),
        ("info", _add_info, "print information for a bug report", INFO),
    ):
        description = description.replace("keras-sat ", f"{program} ")
        command = commands.add_parser(
            name,
            help=summary,
            description=description,
            argument_default=argparse.SUPPRESS,
            add_help=name != "fit",
            formatter_class=functools.partial(
                argparse.RawDescriptionHelpFormatter, max_help_position=26
            ),
        )
        command.register("type", None, _path_or_name)  # of every argument without a type
        add_arguments(command)
        if name in WITH_OPTIONS:
            _add_removed(command)
    parser.commands = commands.choices
    return parser


def options_of(command):
    """Return a dict from the arguments of a command to their flags, such as
    {"num_beams": "--num-beams", ...}.
    """
    actions = build_parser().commands[command]._option_string_actions.values()
    return {action.dest: action.option_strings[0] for action in actions if action.dest != "help"}


def _path_or_name(text):
    if not text:  # pathlib treats it as the current folder
        raise argparse.ArgumentTypeError("the path or name is empty")
    return text


DEMO = """Train a captioner on synthetic scenes (a few minutes on two CPU cores), score it on
unseen scenes, and draw where it looked. If killed, it resumes when run again."""
FIT = """Train a captioner and keep its best epoch. If killed, it resumes when run again.

  keras-sat fit --data folder --data-dir my_photos --split-seed 0

Flickr8k, Flickr30k and COCO have presets, which change the defaults below."""
CAPTION = """Print a line for each picture: its path, a tab and its caption. On a terminal the
line also shows the confidence, if the model has one, and starts with "not sure" if
it is low. Other results (--num-results) follow on lines that start with a tab. The
exit status is 2 if a picture could not be read."""
EVALUATE = """Caption the photos of a split, and score the captions against the references.
With --captions, score the captions of any other system."""
COMPARE = """Compare two captioners on the same photos: differences of scores, 95 % intervals,
mean and deviation over seeds. FIRST and SECOND are files of `keras-sat evaluate
--json`, or patterns in quotation marks for several seeds: "runs/soft-*.json"."""
FEATURES = (
    "Encode the photos of a data set once and keep their features. If killed, it resumes "
    "when run again."
)
CALIBRATE = """Fit the confidence of captions on photos that the model was not trained on, save
it with the model, and print how well calibrated it is. `keras-sat fit` ends with
the same step, on the dev split."""
INDEX = """Index the photos that a model was trained on, with their captions. Of several beams,
the model then chooses the caption that agrees most with those of similar photos."""
EXPORT = """Write a captioner, including encoder and search, for programs without keras_sat: a
SavedModel for TensorFlow Serving, in DIRECTORY/1 or the next free number."""
APP = """Serve a page on this computer that captions photos and synthetic scenes in the
browser. Photos stay on the computer. Press Ctrl-C to stop."""
INFO = "Print versions, devices, and the data, encoder weights and models that were found."


def _add_options(parser, options, *names):
    """Add the flags of an options class to a parser: the named options or all."""
    for name in names or options.names():
        field = options.fields()[name]
        bound = field.metadata["bound"]
        metavar = _metavar(name, bound)
        text = _help_text(name, field, shows_choices=metavar is not None)
        if bound.kind is bool:
            parser.add_argument(flag_of(name), action=argparse.BooleanOptionalAction, help=text)
        elif bound.kind is not None:
            parser.add_argument(
                flag_of(name),
                # A word is a path or a name, see `build_parser`.
                type=None if bound.kind is str else bound.kind,
                choices=bound.choices or None,
                metavar=metavar,
                help=text,
            )


def _add_removed(parser):
    """Add flags of earlier versions, which the help does not show: with their values
    they are recognised, so that the message about them is `without_removed`'s.
    """
    for name, removed in REMOVED.items():
        if isinstance(removed.value, bool):
            kind = {"action": argparse.BooleanOptionalAction}
        else:
            kind = {"type": type(removed.value)}
        parser.add_argument(flag_of(name), help=argparse.SUPPRESS, **kind)


def _metavar(name, bound):
    """Return what stands for the value of an option in the help; None lets argparse
    show the choices.
    """
    if name in METAVARS:
        return METAVARS[name]
    return None if bound.choices else METAVARS.get(bound.kind)


def _help_text(name, field, *, shows_choices):
    """Return the help of an option: its meaning, choices and default."""
    choices = field.metadata["bound"].choices
    default = field.metadata["none"] if field.default is None else field.default
    text = field.metadata["help"]
    if choices and shows_choices:
        text += f": {', '.join(choices)}"
    return f"{text}; default: {DEFAULTS.get(name, default or repr(default))}"


def _add_switches(parser, **texts):
    """Add flags without a value, with their help."""
    for name, text in texts.items():
        parser.add_argument(flag_of(name), action="store_true", help=text)


def _add_values(parser, metavar, **texts):
    """Add flags with a path or name, with their help."""
    for name, text in texts.items():
        parser.add_argument(flag_of(name), metavar=metavar, help=text)


def _add_data(parser, group=None, split=None, needs_cache=False):
    """Add the flags that select the data; `split` is the default of --split, and
    `group` gets --skip-unreadable.
    """
    parser.add_argument("--data", required=True, choices=list(DATASETS), help="the data set")
    _add_values(parser, "DIR", data_dir="the folder with its photos and captions")
    parser.add_argument(
        "--split-seed", type=int, metavar="N", help="split the photos at random with this seed"
    )
    if split is not None:
        parser.add_argument("--split", choices=SPLITS, help=f"default: {split}")
    parser.add_argument(
        "--cache-dir", required=needs_cache, metavar="DIR", help="the folder of the feature cache"
    )
    _add_switches(group or parser, skip_unreadable="leave out photos that cannot be read")


def _add_models(parser, default=DEFAULT_MODEL):
    text = f"{MODEL}; if repeated, the models form an ensemble; default: {default}"
    parser.add_argument("--model", dest="models", action="append", help=text)


def _add_ray(parser, part_size=False):
    """Add the flags of work on a Ray cluster; return their group in the help."""
    group = parser.add_argument_group("Many machines (docs/scale.md)")
    text = (
        'work on a Ray cluster: "local" starts one on this computer, "auto" or HOST:PORT joins one'
    )
    _add_values(group, "ADDRESS", ray=text)
    group.add_argument(
        "--worker-cpus", type=float, metavar="X", help="CPUs of each worker process; default: 1"
    )
    group.add_argument(
        "--worker-gpus", type=float, metavar="X", help="GPUs of each worker process; default: 0"
    )
    if part_size:
        group.add_argument(
            "--part-size", type=int, metavar="N", help="photos in a block of work; default: 1024"
        )
    return group


def _add_demo(parser):
    _add_options(parser, CaptionerOptions, "attention")
    parser.add_argument(
        "--max-objects", type=int, choices=(1, 2, 3), help="objects per scene; default: 2"
    )
    _add_options(parser, TrainingOptions, "seed")
    _add_values(parser, "DIR", output_dir="default: demo")


def _add_fit(parser):
    parser.usage = f"{parser.prog} --data DATA [options]"
    parser.add_argument(
        "--help", "-h", nargs=0, action=FirstHelp, help="show the most important options"
    )
    parser.add_argument("--help-all", action="help", help="show all options")
    group = parser.add_argument_group("Data and devices")
    _add_data(parser, group)
    _add_values(parser, "DIR", output_dir="default: runs/DATA-ENCODER-ATTENTION")
    text = "preset settings; default: the preset of the data set"
    parser.add_argument("--preset", choices=list(PRESETS), metavar="NAME", help=text)
    _add_values(parser, "MODEL", initial_model="start from a saved or a bundled model")
    _add_switches(parser, from_scratch=f"for your own photos: do not start from {DEFAULT_MODEL}")
    classes = (CaptionerOptions, SelfCriticalOptions, TrainingOptions)
    owners = {name: options for options in classes for name in options.names()}
    for name in FIRST:
        _add_options(parser, owners[name], name)
    _add_values(group, "PATH", boxes=f"with --box-weight: {BOXES}")
    devices = group.add_mutually_exclusive_group()
    devices.add_argument(
        "--gpus", type=int, metavar="N", help="train on the first N GPUs; default: one"
    )
    _add_switches(devices, hosts="train on all GPUs of the hosts listed in TF_CONFIG")
    for kind, heading in KINDS.items():
        group = parser.add_argument_group(heading)
        for name, options in owners.items():
            if name not in FIRST and name in options.names(kind):
                _add_options(group, options, name)


def _add_caption(parser):
    parser.add_argument(
        "images", nargs="+", metavar="IMAGE", help="pictures, folders of pictures, or patterns"
    )
    _add_switches(parser, recursive="include subfolders")
    _add_models(parser)
    _add_options(parser, ConsensusOptions)
    _add_options(parser, SearchOptions, "num_results")
    text = (
        "caption only this part: left,top,right,bottom, as fractions of the sides, such as "
        ".1,.2,.4,.9; repeatable"
    )
    parser.add_argument("--region", action="append", metavar="SIDES", help=text)
    _add_values(
        parser,
        "SENTENCE",
        say="do not caption; show where the model looks for each word of this sentence",
    )
    _add_options(parser, CaptionerOptions, "encoder_weights")
    _add_printing(parser)
    _add_drawings(parser)
    _add_caption_files(parser)
    _add_style(parser)
    group = _add_ray(parser, part_size=True)
    _add_values(
        group, "FOLDER", output="with --ray: write the captions of each block into this folder"
    )
    group.add_argument(
        "--file-type", choices=("jsonl", "parquet"), help="of these files; default: jsonl"
    )


def _add_printing(parser):
    parser.add_argument(
        "--min-confidence", type=float, metavar="X", help='print "not sure" below this confidence'
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object for each picture")
    _add_switches(parser, maps="with --json: add attention_weights, [word][row][column]")


def _add_drawings(parser):
    _add_values(
        parser,
        "OUT",
        plot="draw where the model looked: a picture file, or a folder for many",
        html="the same as an interactive page: a file, or a folder for many",
        gif="the same as an animation: a file, or a folder for many",
        trace="write an interactive page that follows each word from the photo to its "
        "probability: a file, or a folder for many",
        gallery="write one page with all pictures into this folder",
    )


def _add_caption_files(parser):
    _add_switches(parser, text_files="write the caption of photo.jpg into photo.txt next to it")
    _add_values(parser, "FILE", csv="write a table for `fit --data folder`")
    _add_switches(
        parser,
        metadata="write metadata.jsonl into the folder of the pictures, as Hugging Face's "
        "imagefolder reads it",
        overwrite="replace the captions that these files have of these pictures; default: keep "
        "them, and caption only what is missing",
    )


def _add_style(parser):
    """Add the flags that say how pictures are drawn."""
    _add_values(
        parser,
        "WORDS",
        words='words to draw: "content" (default), "all", or some, such as "dog,ball"',
    )
    parser.add_argument(
        "--width", type=float, metavar="INCHES", help="with --plot: 3.3 for a column of a paper"
    )
    _add_switches(
        parser, shares='with --plot: write above each word, for example, "10 %% of the photo"'
    )
    text = "with a folder as --plot: the format of its files; default: png"
    parser.add_argument("--plot-format", choices=("png", "pdf", "svg"), help=text)
    text = (
        "what is drawn, and added by --maps: attention, where the model looked (default), or "
        "votes, the regions that spoke for each word; one model, with TensorFlow"
    )
    parser.add_argument("--map-kind", choices=MAP_KINDS, help=text)


def _add_evaluate(parser):
    _add_models(parser, f'{DEFAULT_MODEL}, or "scenes" with --data scenes')
    _add_values(
        parser,
        "FILE",
        captions="score the captions in this JSON list of objects with image_id and caption",
    )
    _add_data(parser, split="test")
    _add_options(parser, ConsensusOptions)
    _add_options(parser, CaptionerOptions, "encoder_weights")
    _add_switches(
        parser, allow_training_photos="also score photos that the captioner was trained on"
    )
    parser.add_argument(
        "--compare-with", nargs="+", choices=("paper", "human"), help="print these scores as well"
    )
    _add_values(
        parser,
        "OUT",
        json="write scores, settings and captions as JSON",
        csv="write the scores of each photo",
        averages_csv="write the averages as a CSV table",
        latex="write the averages as a LaTeX table",
        coco_results="write the captions in coco-caption's format",
        gallery="write a page with the captions, attention and scores of all photos into this "
        "folder",
    )
    _add_switches(parser, grounding="measure whether the model looks at the objects that it names")
    _add_switches(parser, regions="with --boxes: measure whether it names what is in a region")
    text = (
        "with --grounding or --faithfulness: the maps that are measured, attention (default) or "
        "votes, the regions that spoke for each word; votes-blurred is a control; one model"
    )
    parser.add_argument("--map-kind", choices=MEASURED_MAPS, help=text)
    _add_values(parser, "PATH", boxes=f"with --regions, or --grounding on photos: {BOXES}")
    _add_switches(
        parser, faithfulness="measure whether words depend on the regions that the model looks at"
    )
    pixels = (
        "with --faithfulness: blur these regions in N photos too, each encoded some twenty "
        "times; default: 100"
    )
    parser.add_argument("--pixel-photos", type=int, metavar="N", help=pixels)
    _add_ray(parser)


def _add_compare(parser):
    parser.add_argument("first", metavar="FIRST", help="JSON file or pattern")
    parser.add_argument("second", metavar="SECOND", help="JSON file or pattern")
    _add_values(parser, "OUT", csv="write the comparison as CSV", latex="write it as a LaTeX table")


def _add_features(parser):
    _add_data(parser, needs_cache=True)
    _add_options(parser, CaptionerOptions, *CaptionerOptions.names("encoder", "photos"))
    _add_ray(parser, part_size=True)
    parser.add_argument("--batch-size", type=int, metavar="N", help="photos per batch; default: 32")
    _add_switches(parser, verify="check all stored features, and repair damaged ones")


def _add_index(parser, split="train"):
    parser.add_argument("model", metavar="MODEL", help=MODEL)
    _add_data(parser, split=split)
    _add_options(parser, CaptionerOptions, "encoder_weights")
    _add_values(
        parser,
        "DIR",
        output_dir="save a copy of the model in this folder; default: change MODEL itself",
    )
    if split == "train":
        _add_options(parser, CaptionerOptions, "consensus_weight")


def _add_calibrate(parser):
    _add_index(parser, split="dev")
    parser.add_argument("--json", metavar="OUT", help="write the figures as JSON")


def _add_export(parser):
    parser.add_argument("model", metavar="MODEL", help=MODEL)
    parser.add_argument(
        "directory", metavar="DIRECTORY", help="the folder for exports of this model"
    )
    _add_options(parser, BeamSearchOptions)
    _add_switches(
        parser.add_mutually_exclusive_group(),
        web="write a web page instead, which any static host can serve",
        tflite="also write model.tflite, for greedy search with LiteRT",
        onnx="also write model.onnx, for beam search with onnxruntime",
    )
    _add_values(parser, "FOLDER", runtime=RUNTIME)
    _add_options(parser, CaptionerOptions, "encoder_weights")


def _add_app(parser):
    text = f"{MODEL}, or a page that export --web wrote; default: {DEFAULT_MODEL}"
    parser.add_argument("model", metavar="MODEL", nargs="?", help=text)
    parser.add_argument("--host", help="the address to listen on; default: only this computer")
    parser.add_argument("--port", type=int, help="default: any free port")
    _add_switches(parser, no_browser="only print the address")
    _add_values(parser, "FOLDER", runtime=RUNTIME)
    _add_options(parser, CaptionerOptions, "encoder_weights")


def _add_info(parser):
    _add_values(parser, "DIR", data_dir="look for data sets in this folder")
