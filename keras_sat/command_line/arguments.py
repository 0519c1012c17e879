"""The options of the command line. One that is not given is not passed on, so that each default stands in one place."""

import argparse
import difflib
import re

import keras_sat
from data_utils.datasets import DATASETS, SPLITS
from keras_sat.command_line.invocation import SCRIPT, started_as
from keras_sat.presets import DEFAULT_MODEL, FROM_SCRATCH, OWN_PHOTOS, PRESETS

ENCODER_NAMES = ("vgg16", "vgg19", "resnet50", "mobilenet_v2", "efficientnet_b0", "tiny")
ATTENTION_NAMES = ("soft", "hard", "none")
SCORING_NAMES = ("additive", "dot", "bilinear")
CELL_NAMES = ("lstm", "gru")
BASELINE_NAMES = ("greedy", "others")
SELF_CRITICAL = ("self_critical_rate", "num_drawn", "drawing_temperature", "reward_baseline")


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
        ("export", _add_export, "write a captioner for programs without keras_sat", EXPORT),
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
    actions = commands[command]._option_string_actions.items()
    return {action.dest: option for option, action in actions if option.startswith("--") and action.dest != "help"}


def _path_or_name(text):
    if not text:  # pathlib would take it for the current folder
        raise argparse.ArgumentTypeError("the path or name is empty")
    return text


DEMO = """Train a captioner on drawn scenes (a few minutes on two CPU cores), score it on scenes that it has never seen,
and draw where it looked. Killed and run again, it goes on."""
FIT = """Train a captioner and keep the best one. Flickr8k, Flickr30k and COCO have settings of their own, see --preset;
the defaults below are those of other data, and of a captioner that begins from scratch: one that goes on from another
keeps its own. Killed and run again with the same arguments, it goes on from the last epoch that was completed; Ctrl-C
ends the training."""
CAPTION = """Write a line for each picture: its path, a tab and its caption. Pictures that cannot be read are named on
standard error, and the exit status is then 2."""
EVALUATE = """Caption the photos of a split, and score the captions against those that people wrote. With --captions,
score what any other system wrote."""
COMPARE = """Compare two captioners on the same photos: the differences of their scores, 95 % intervals over photos, and
mean and deviation over seeds. FIRST and SECOND are files that `keras-sat evaluate --json` wrote, or patterns in
quotation marks for several seeds: "runs/soft-*.json"."""
FEATURES = "Encode the photos of a data set once and keep their features. Killed and run again, it goes on."
EXPORT = """Write a captioner, encoder and search included, for programs that do not have keras_sat: a SavedModel as
TensorFlow Serving expects it, into DIRECTORY/1, or the next number. It captions pixels and JPEG files."""
INFO = "Print versions and devices, and which data, encoder weights and models are found."


def _add_data(parser):
    parser.add_argument("--data", required=True, choices=list(DATASETS), help="which data set")
    parser.add_argument("--data-dir", help="the folder with its photos and captions")
    parser.add_argument("--split-seed", type=int, help="draw a split by photo with this seed")


def _add_encoder_weights(parser):
    parser.add_argument("--encoder-weights", metavar="FILE", help="a weights file to use instead of the download")


def _add_encoder(parser):
    parser.add_argument(
        "--encoder",
        choices=ENCODER_NAMES,
        help="default: tiny for scenes; else vgg16 where a GPU is found, mobilenet_v2 where not",
    )
    parser.add_argument("--encoder-layer", help="the layer whose grid is used; default: the encoder's usual one")
    _add_encoder_weights(parser)
    parser.add_argument("--image-size", type=int, help="side of the square that photos are stretched to")


def _add_search(parser):
    parser.add_argument("--num-beams", type=int, help="default: 3; 1 is greedy search")
    parser.add_argument(
        "--length-penalty", type=float, help="above 0 favours longer captions; default: the model's own"
    )
    parser.add_argument("--max-length", type=int, help="most words of a caption; default: 20")


def _add_model(parser, usual=DEFAULT_MODEL):
    parser.add_argument(
        "--model",
        action="append",
        default=None,
        help=f"a folder that was saved, or the name of a pretrained model; given several times, the models write one "
        f"caption together; default: {usual}",
    )


def _add_demo(parser):
    parser.add_argument("--attention", choices=ATTENTION_NAMES, help="default: soft")
    parser.add_argument("--max-objects", type=int, choices=(1, 2, 3), help="in a scene; default: 2")
    parser.add_argument("--seed", type=int, help="of the weights and of all that is drawn; default: 0")
    parser.add_argument("--output-dir", help="default: demo")


def _usual(name):
    return f"default: {FROM_SCRATCH[name]:g}; {OWN_PHOTOS[name]:g} where a folder goes on from the bundled captioner"


def _add_fit(parser):
    _add_data(parser)
    _add_encoder(parser)
    parser.add_argument("--trained-up-to", metavar="LAYER", help="train the encoder's layers behind --encoder-layer")
    parser.add_argument(
        "--encoder-rate", type=float, help=f"their share of the learning rate; {_usual('encoder_rate')}"
    )
    parser.add_argument("--encoder-training", choices=("frozen", "fine-tuned", "scratch"))
    parser.add_argument(
        "--preset",
        choices=list(PRESETS),
        help="settings to begin with, which the other options change; default: that of the data set, if there is one",
    )
    parser.add_argument("--initial-model", help="go on from a saved or a pretrained model")
    parser.add_argument(
        "--from-scratch",
        action="store_true",
        help=f"with --data folder: do not go on from the bundled captioner, {DEFAULT_MODEL}, where photos are few",
    )
    parser.add_argument("--attention", choices=ATTENTION_NAMES, help="default: soft")
    parser.add_argument("--scoring", choices=SCORING_NAMES, help="default: additive (Bahdanau)")
    parser.add_argument("--cell", choices=CELL_NAMES, help="default: lstm")
    for name, kind, text in (
        ("num-layers", int, "recurrent layers; default: 1"),
        ("embedding-dim", int, "length of a word's vector"),
        ("hidden-dim", int, "size of the recurrent layers"),
        ("attention-dim", int, "size of the attention's hidden layer"),
        ("dropout", float, "before and after the readout"),
        ("dropout-embedding", float, "of the numbers in word vectors; default: 0"),
        ("dropout-words", float, "of whole words before the one that is predicted; default: 0"),
        ("feature-dropout", float, "of the features; default: 0"),
        ("feature-projection-dim", int, "map each feature vector to one of this length first"),
        ("attention-penalty-weight", float, "lambda of the paper's penalty"),
        ("label-smoothing", float, "default: 0"),
        ("num-samples", int, "hard attention: draws for each caption"),
        ("expectation-epochs", int, "hard attention: epochs with expectations only, before it draws"),
        ("epochs", int, _usual("epochs")),
        ("batch-size", int, f"captions in a batch; {_usual('batch_size')}"),
        ("seed", int, "default: 0"),
        ("learning-rate", float, _usual("learning_rate")),
        ("warmup-steps", int, "updates in which the learning rate rises from 0"),
        ("clip-norm", float, "bound of the norm of all gradients; default: 5"),
        ("weight-decay", float, "how fast matrices shrink by themselves; default: not at all"),
        ("average-momentum", float, "keep a moving average of the weights, such as 0.998"),
        ("num-views", int, "of each training photo: 2 with the mirrored one, more with parts of it; default: 1"),
        ("patience", int, "stop after so many epochs without a better BLEU-4 on dev; default: 5"),
        ("min-count", int, "a word of the vocabulary occurs at least so often; default: 1"),
        ("max-words", int, "size of the vocabulary; default: 10000"),
        ("num-beams", int, "for the captions of the dev split after each epoch; default: 1"),
        ("self-critical-epochs", int, "further epochs with CIDEr as the reward of whole captions; default: 0"),
        ("self-critical-rate", float, "their learning rate; default: 0.00005"),
        ("num-drawn", int, "captions drawn for each photo in these epochs; default: 5"),
        ("drawing-temperature", float, "below 1 they are closer to those of a search; default: 0.5"),
    ):
        parser.add_argument(f"--{name}", type=kind, help=text)
    parser.add_argument(
        "--reward-baseline", choices=BASELINE_NAMES, help="what a drawn caption must beat; default: greedy"
    )
    parser.add_argument(
        "--deterministic", action="store_true", help="the same seed gives the same weights bit for bit; slower"
    )
    parser.add_argument("--normalise-features", action=argparse.BooleanOptionalAction)
    parser.add_argument("--readout-activation", choices=("tanh", "relu"), help="default: none, as in the paper")
    parser.add_argument("--length-penalty", type=float, help="of the finished captioner's searches; default: 0")
    parser.add_argument("--dtype", choices=("float32", "mixed_bfloat16"), help="default: float32")
    parser.add_argument("--group-by", choices=("length", "image"), help="what shares a batch; default: length")
    parser.add_argument("--optimizer", choices=("adam", "adamw", "rmsprop", "sgd"), help="default: adam")
    parser.add_argument("--schedule", choices=("constant", "cosine"), help="of the learning rate; default: constant")
    parser.add_argument("--cache-dir", help="the folder for the features; default: beside the photos")
    parser.add_argument("--skip-unreadable", action="store_true", help="leave out photos that cannot be read")
    parser.add_argument("--output-dir", help="default: runs/DATA-ENCODER-ATTENTION")
    parser.add_argument("--gpus", type=int, metavar="N", help="train on the first N GPUs; default: on one")
    parser.add_argument(
        "--hosts", action="store_true", help="train on the hosts that TF_CONFIG names, on all their GPUs"
    )


def _add_caption(parser):
    parser.add_argument("images", nargs="+", metavar="IMAGE", help="pictures, folders of pictures, or patterns")
    parser.add_argument("--recursive", action="store_true", default=False, help="descend into subfolders too")
    _add_model(parser)
    _add_search(parser)
    _add_encoder_weights(parser)
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
    _add_encoder_weights(parser)
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
    parser.add_argument(
        "--grounding", action="store_true", default=False, help="say whether it looks at what it names (scenes only)"
    )


def _add_compare(parser):
    parser.add_argument("first", metavar="FIRST", help="JSON file or pattern")
    parser.add_argument("second", metavar="SECOND", help="JSON file or pattern")


def _add_features(parser):
    _add_data(parser)
    _add_encoder(parser)
    parser.add_argument("--cache-dir", required=True, help="the folder for the features")
    parser.add_argument(
        "--shard", metavar="I/N", help="encode only part I of N, as other machines do the others; see docs/scale.md"
    )
    parser.add_argument("--batch-size", type=int, default=32, help="photos encoded together; default: 32")
    parser.add_argument("--skip-unreadable", action="store_true", default=False, help="leave out unreadable photos")
    parser.add_argument("--verify", action="store_true", default=False, help="read all rows again, mend damaged ones")


def _add_export(parser):
    parser.add_argument("model", metavar="MODEL", help="a folder that was saved, or the name of a pretrained model")
    parser.add_argument("directory", metavar="DIRECTORY", help="the folder for exports of this model")
    _add_search(parser)
    parser.add_argument(
        "--tflite", action="store_true", default=False, help="write model.tflite too, for LiteRT: greedy search"
    )
    _add_encoder_weights(parser)


def _add_info(parser):
    parser.add_argument("--data-dir", default=None, help="look for data sets in this folder")
