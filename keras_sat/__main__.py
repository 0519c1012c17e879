"""The command line: `python -m keras_sat COMMAND`, installed as `keras-sat`.

TensorFlow is imported by the commands that compute, so that help answers at once. Bad use and bad input end in one
line on standard error and exit status 2.
"""

import argparse
import difflib
import errno
import glob
import itertools
import json
import os
import re
import sys
import warnings
from pathlib import Path

import keras_sat
from data_utils.captions import IMAGE_ENDINGS
from data_utils.datasets import DATASETS, SPLITS
from keras_sat.presets import PRESETS, usual_preset

ENCODER_NAMES = ("vgg16", "vgg19", "resnet50", "mobilenet_v2", "efficientnet_b0", "tiny")
ATTENTION_NAMES = ("soft", "hard", "none")
SCORING_NAMES = ("additive", "dot", "bilinear")
CELL_NAMES = ("lstm", "gru")
BASELINE_NAMES = ("greedy", "others")
SELF_CRITICAL = ("self_critical_rate", "num_drawn", "drawing_temperature", "reward_baseline")
DEFAULT_MODEL = "flickr8k-mobilenet_v2"
MAKE_ROOM = "Make room and run the same command again: it goes on where it was."
NOT_WRITABLE = "Choose a folder that can be written to."
WAYS_OUT = dict.fromkeys((errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)), MAKE_ROOM)
WAYS_OUT |= dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), NOT_WRITABLE)
GONE = "Look whether it is there, and run the same command again."
WAYS_OUT |= dict.fromkeys((errno.ENOENT, errno.EEXIST, errno.ENOTDIR), GONE)  # a folder may vanish while it is made


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
    parser = Parser(prog="keras-sat", description="Show, Attend and Tell: train an image captioner and look into it.")
    parser.add_argument("--version", action="version", version=f"keras-sat {keras_sat.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, add_arguments, run, summary, description in (
        ("demo", _add_demo, run_demo, "train on the built-in scenes, no download", DEMO),
        ("fit", _add_fit, run_fit, "train a captioner", FIT),
        ("caption", _add_caption, run_caption, "write captions for pictures", CAPTION),
        ("evaluate", _add_evaluate, run_evaluate, "score the captions of a data set", EVALUATE),
        ("compare", _add_compare, run_compare, "compare two captioners by their scores", COMPARE),
        ("features", _add_features, run_features, "encode the photos of a data set once", FEATURES),
        ("export", _add_export, run_export, "write a captioner for programs without keras_sat", EXPORT),
        ("info", _add_info, run_info, "print what a bug report needs", INFO),
    ):
        command = commands.add_parser(name, help=summary, description=description, argument_default=argparse.SUPPRESS)
        add_arguments(command)
        command.set_defaults(run=run)
    return parser


DEMO = """Train a captioner on drawn scenes (a few minutes on two CPU cores), score it on scenes that it has never seen,
and draw where it looked. Killed and run again, it goes on."""
FIT = """Train a captioner and keep the best one. Flickr8k, Flickr30k and COCO have settings of their own, see --preset;
the defaults below are those of other data. Killed and run again with the same arguments, it goes on from the last
epoch that was completed; Ctrl-C ends the training."""
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


# === Arguments: an option that is not given is not passed on, so that each default stands in one place ===


def _add_data(parser):
    parser.add_argument("--data", required=True, choices=list(DATASETS), help="which data set")
    parser.add_argument("--data-dir", help="the folder with its photos and captions")
    parser.add_argument("--split-seed", type=int, help="draw a split by photo with this seed")


def _add_encoder_weights(parser):
    parser.add_argument("--encoder-weights", metavar="FILE", help="a weights file to use instead of the download")


def _add_encoder(parser):
    parser.add_argument("--encoder", choices=ENCODER_NAMES, help="default: vgg16")
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


def _add_fit(parser):
    _add_data(parser)
    _add_encoder(parser)
    parser.add_argument("--trained-up-to", metavar="LAYER", help="train the encoder's layers behind --encoder-layer")
    parser.add_argument("--encoder-rate", type=float, help="their share of the learning rate; default: 1")
    parser.add_argument("--encoder-training", choices=("frozen", "fine-tuned", "scratch"))
    parser.add_argument(
        "--preset",
        choices=list(PRESETS),
        help="settings to begin with, which the other options change; default: that of the data set, if there is one",
    )
    parser.add_argument("--initial-model", help="go on from a saved or a pretrained model")
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
        ("epochs", int, "default: 20"),
        ("batch-size", int, "captions in a batch; default: 64"),
        ("seed", int, "default: 0"),
        ("learning-rate", float, "default: 0.0004"),
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
    _add_model(parser)
    _add_search(parser)
    _add_encoder_weights(parser)
    parser.add_argument("--json", action="store_true", default=False, help="print a JSON object for each picture")
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


# === Commands ===


def run_demo(**options):
    from keras_sat.demo import run_demo

    run_demo(**options)


def run_fit(data, preset=None, dropout=None, gpus=None, hosts=False, **options):
    """Train with the settings of a preset and those that were given."""
    idle = [name for name in SELF_CRITICAL if name in options and not options.get("self_critical_epochs")]
    if idle:
        raise ValueError(
            "This is about self-critical epochs, and there are none: pass --self-critical-epochs too, or leave it out. "
            f"Received: --{idle[0].replace('_', '-')} {options[idle[0]]}"
        )
    strategy = _strategy(gpus, hosts)  # first of all: hosts can only be connected before TensorFlow computes
    from keras_sat.recipe import fit

    if dropout is not None:
        options |= {"dropout_before_readout": dropout, "dropout_after_readout": dropout}
    settings = usual_preset(data, options) if preset is None else PRESETS[preset]
    if strategy is not None:
        options["strategy"] = strategy
    captioner = fit(data, **{**settings, **options})
    if not captioner.history:
        raise KeyboardInterrupt  # that ended it before there was anything to keep


def _strategy(gpus, hosts):
    if gpus is None and not hosts:
        return None
    from keras_sat.distribution import several_gpus, several_hosts

    if gpus is not None and hosts:
        raise ValueError("--hosts takes all GPUs of each host (CUDA_VISIBLE_DEVICES hides some): leave out --gpus.")
    return several_hosts() if hosts else several_gpus(gpus)


def run_caption(images, model, encoder_weights=None, plot=None, html=None, gif=None, **options):
    """Print a caption for each picture; name those that could not be read at the end."""
    as_json = options.pop("json")
    paths = list(dict.fromkeys(_pictures(images)))
    captioner = _captioner_of(model, encoder_weights)
    drawings = {
        option: _drawing_paths(option, out, paths)
        for option, out in (("plot", plot), ("html", html), ("gif", gif))
        if out is not None
    }
    unreadable = []
    for path, result in _results(captioner, paths, options):
        if isinstance(result, Exception):
            unreadable.append(f"{path}: {result}" if path not in str(result) else str(result))
            line = json.dumps({"image": path, "error": str(result)}, ensure_ascii=False) if as_json else None
        elif as_json:
            parts = {"caption": result.caption, "words": result.words, "log_prob": result.log_prob}
            line = json.dumps({"image": path, **parts}, ensure_ascii=False)
        else:
            line = f"{path}\t{result.caption}"
        if line is not None:
            print(line, flush=True)
        if drawings and not isinstance(result, Exception):
            from keras_sat.display import AttentionDisplay

            display = AttentionDisplay.from_result(result, image=path)
            for option, write in (("plot", display.save), ("html", display.to_html), ("gif", display.animate)):
                if option in drawings:
                    write(drawings[option][path])
    for option, out in (("plot", plot), ("html", html), ("gif", gif)):
        if out is not None and len(unreadable) < len(paths):
            print(f"keras-sat: --{option}: {Path(out).expanduser()}", file=sys.stderr)
    if unreadable:
        raise ValueError("; ".join(unreadable))


def _captioner_of(models, encoder_weights, data=None):
    """Return the captioner that --model names, the usual one without it, or the Ensemble of several."""
    from keras_sat.ensemble import Ensemble
    from keras_sat.recipe import load_captioner

    if models is None:
        models = ["scenes" if data == "scenes" else DEFAULT_MODEL]
        print(f"keras-sat: without --model, {models[0]!r} is used", file=sys.stderr)
    captioners = [load_captioner(model, encoder_weights=encoder_weights) for model in models]
    return captioners[0] if len(captioners) == 1 else Ensemble(captioners)


def _pictures(patterns):
    """Yield the paths that files, folders and patterns stand for."""
    for pattern in patterns:
        path = os.path.expanduser(pattern)
        if os.path.isdir(path):
            # macOS leaves files ._NAME beside pictures, which are none
            entries = [entry for entry in os.scandir(path) if not entry.name.startswith("._")]
            found = sorted(entry.path for entry in entries if entry.name.lower().endswith(IMAGE_ENDINGS))
            yield from found or [path]  # what holds no picture is named with what cannot be read
        elif os.path.exists(path) or not glob.has_magic(path):
            yield path  # one that is not there is named with those that cannot be read
        else:
            yield from sorted(filter(os.path.isfile, glob.glob(path, recursive=True))) or [path]


def _results(captioner, paths, options, batch_size=64):
    """Yield (path, CaptionResult, or the error that kept the picture from being read)."""
    from data_utils.images import load_image

    size, *others = captioner.photo_sizes
    for start in range(0, len(paths), batch_size):
        batch, readable = [], []
        for path in paths[start : start + batch_size]:
            try:
                photo = load_image(path, size)
                readable.append(path if others else photo)
                batch.append((path, None))
            except FileNotFoundError:
                batch.append((path, ValueError(f"{path}: there is no such file.")))
            except IsADirectoryError:
                batch.append((path, ValueError(f"{path}: there is no picture in this folder.")))
            except (OSError, ValueError) as error:
                batch.append((path, error))
        results = iter(captioner.caption(readable, **options) if readable else [])
        for path, error in batch:
            yield path, error or next(results)


def _drawing_paths(option, out, paths):
    """Return where the drawing of each picture goes: the file that was named, or one in that folder for each."""
    from matplotlib.backend_bases import FigureCanvasBase

    out = Path(out).expanduser()
    kinds = {"plot": sorted(FigureCanvasBase.get_supported_filetypes()), "html": ["html", "htm"], "gif": ["gif"]}[
        option
    ]
    if out.suffix and out.suffix[1:].lower() not in kinds:
        raise ValueError(f"A drawing can be one of: {', '.join(kinds)}. Received: --{option} {out}")
    if out.suffix and len(paths) > 1:
        raise ValueError(
            f"Several pictures are drawn into a folder: leave out {out.suffix}. Received: --{option} {out}"
        )
    if out.suffix:
        drawings = {paths[0]: out}
    else:
        drawings, names = {}, set()
        ending = "png" if option == "plot" else option
        for path in dict.fromkeys(paths):
            stem = Path(path).stem
            name = next(
                name
                for number in itertools.count(1)
                if (name := f"{stem}-attention{f'-{number}' if number > 1 else ''}.{ending}") not in names
            )
            names.add(name)
            drawings[path] = out / name
    pictures = {Path(path).resolve() for path in paths}
    for drawing in drawings.values():
        if drawing.resolve() in pictures:
            raise ValueError(f"The drawing would replace the picture itself. Received: --{option} {out}")
        drawing.parent.mkdir(parents=True, exist_ok=True)
    return drawings


def run_evaluate(
    model,
    data,
    captions=None,
    encoder_weights=None,
    json=None,
    csv=None,
    coco_results=None,
    gallery=None,
    grounding=False,
    **options,
):
    """Score a captioner, or captions, and write what was asked for."""
    from keras_sat.evaluation import evaluate, evaluate_captions

    for name, path in (("json", json), ("csv", csv), ("coco-results", coco_results)):
        if path is not None and Path(path).expanduser().is_dir():
            raise ValueError(f"Expected the name of a file to write, and this is a folder. Received: --{name} {path}")
    if gallery is not None and Path(gallery).expanduser().is_file():
        raise ValueError(f"Expected the name of a folder, and this is a file. Received: --gallery {gallery}")
    if grounding and data != "scenes":
        raise ValueError(f"Only of the scenes is the place of every word known. Received: --grounding --data {data}")
    if captions is None:
        keep_results = gallery is not None or grounding
        table = evaluate(_captioner_of(model, encoder_weights, data), data, keep_results=keep_results, **options)
    else:
        searching = [
            "cache_dir" if name == "cache" else name
            for name in options
            if name not in ("data_dir", "split", "split_seed", "beside")
        ]
        searching += ["model"] * (model is not None) + ["encoder_weights"] * (encoder_weights is not None)
        searching += ["gallery"] * (gallery is not None) + ["grounding"] * grounding
        if searching:
            raise ValueError(
                "With --captions nothing is captioned, so that --model and its options have no place. "
                f"Received: --captions with --{searching[0].replace('_', '-')}"
            )
        table = evaluate_captions(captions, data, **options)
    print(table)
    if grounding:
        from keras_sat.grounding import ground_scenes

        grounded = ground_scenes(table.images, table.results, word_classes=None)
        print(f"\n{grounded}")
        table.statistics["grounding"] = grounded.to_dict()
    for path, write in ((json, table.to_json), (csv, table.to_csv), (coco_results, table.to_coco_results)):
        if path is not None:
            write(path)
    if gallery is not None:
        _write_gallery(table, Path(gallery).expanduser() / "index.html")


def _write_gallery(table, path):
    from keras_sat.evaluation import NUM_REFERENCES
    from keras_sat.overview import gallery

    page = gallery(
        table.results,
        path,
        images=[image.image_path for image in table.images],
        names=[image.image_id for image in table.images],
        references=[image.captions[:NUM_REFERENCES] for image in table.images],
        title=f"Captions of {table.settings['data']}, split {table.settings['split']}",
    )
    print(f"gallery: {page}")


def run_compare(first, second):
    """Print how much better the second captioner is than the first."""
    from keras_sat.comparison import compare

    print(compare(first, second))


def run_features(data, cache_dir, batch_size, skip_unreadable, verify, encoder="vgg16", **options):
    """Build the feature cache of a data set, or a shard of it."""
    from data_utils.feature_cache import FeatureCache
    from data_utils.feature_shards import Shard
    from data_utils.sources import read_data
    from keras_sat.encoders import make_encoder

    if encoder == "tiny" and "encoder_weights" not in options:
        raise ValueError(
            "`tiny` is trained along with the decoder, and its features before that are worth nothing. Pass the "
            "weights of a trained one as --encoder-weights, or choose another encoder. Received: --encoder tiny"
        )
    if "shard" in options:
        Shard.parse(options["shard"])  # before anything that takes its time
    images = read_data(data, options.get("data_dir"), split_seed=options.get("split_seed"))
    cache = FeatureCache.build(
        cache_dir,
        [image.image_id for image in images],
        [image.image_path for image in images],
        make_encoder(
            encoder,
            layer=options.get("encoder_layer"),
            weights=options.get("encoder_weights", "imagenet"),
            image_size=options.get("image_size"),
        ),
        batch_size=batch_size,
        shard=options.get("shard"),
        errors="skip" if skip_unreadable else "raise",
        verify=verify,
    )
    rows, columns = cache.grid_shape
    print(f"{cache.directory}: {len(cache)} photos, {rows} x {columns} x {cache.feature_dim} each")
    for reason in cache.unreadable.values():
        print(f"left out: {reason}", file=sys.stderr)


def run_export(model, directory, tflite, encoder_weights=None, **options):
    """Write a captioner for programs without keras_sat, and name the files."""
    from keras_sat.recipe import load_captioner

    captioner = load_captioner(model, encoder_weights=encoder_weights)
    folder = captioner.export(directory, ["tf_saved_model", "litert"] if tflite else "tf_saved_model", **options)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        print(f"{path}: {path.stat().st_size:,} bytes")


def run_info(data_dir=None):
    """Print what a bug report needs."""
    import platform
    from importlib.metadata import version

    print(f"keras_sat {keras_sat.__version__} in {Path(__file__).parent}")
    print(f"Python {platform.python_version()} on {platform.platform()}")
    for package in ("tensorflow", "keras", "numpy", "pillow", "matplotlib", "nltk"):
        print(f"{package} {version(package)}")
    import tensorflow as tf

    from keras_sat.saved_model import pretrained_names

    devices = [device.name for device in tf.config.list_physical_devices()]
    print(f"devices: {', '.join(devices)}; {os.cpu_count()} CPU cores")
    folder = Path(os.environ.get("KERAS_HOME", "~/.keras")).expanduser() / "models"
    weights = sorted(path.name for path in folder.glob("*.h5")) if folder.is_dir() else []
    print(f"encoder weights in {folder}: {', '.join(weights) or 'none'}")
    print(f"pretrained models: {', '.join(pretrained_names()) or 'none'}")
    if data_dir is None:
        print("data: not looked for (--data-dir)")
        return
    for name, read in DATASETS.items():
        if name == "scenes":
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                images = read(data_dir, split_seed=0)
            print(f"data: {name}: {len(images)} photos, {sum(len(image.captions) for image in images)} captions")
        except (ValueError, OSError) as error:
            print(f"data: {name}: {str(error).partition(' Received: ')[0]}")


def main(argv=None):
    """Run a command; return the exit status."""
    arguments = vars(build_parser().parse_args(argv))
    run = arguments.pop("run")
    del arguments["command"]
    warnings.showwarning = _show_warning
    for stream in (sys.stdout, sys.stderr):  # a console that lacks a letter must not end a training
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        _import_tensorflow_quietly()
        run(**arguments)
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError) as error:
        print(f"keras-sat: {_as_options(one_line(error), arguments)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("keras-sat: stopped; run the same command again to go on.", file=sys.stderr)
        return 130
    except Exception as error:
        if not type(error).__module__.startswith("tensorflow."):
            raise
        from keras_sat.callbacks import reason_of

        # TensorFlow wraps what went wrong in its threads, a photo that vanished for example, into an error of its own.
        wrapped = re.search(r"(?:ValueError|\w*Error): (.+)", str(error))
        reason = wrapped[1] if wrapped else reason_of(error)
        way_out = next((f". {way}" for number, way in WAYS_OUT.items() if reason.endswith(os.strerror(number))), "")
        print(f"keras-sat: {reason}{way_out}", file=sys.stderr)
        return 2
    return 0


def one_line(error):
    """Return what an error says, and what to do about it, in one line."""
    text = str(error)
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        text = f"{error.filename}: {error.strerror}"  # without the number that Python puts before
    if isinstance(error, OSError) and error.errno in WAYS_OUT:
        text += f". {WAYS_OUT[error.errno]}"
    return " ".join(text.split())


def _as_options(text, arguments):
    """Return a message that names arguments in Python's way, with options in their place: num_beams is --num-beams."""
    for name in filter(lambda name: "_" in name, arguments):
        text = re.sub(rf"(?<![\w./-]){name}(?=[`=\s,;:.]|$)", f"--{name.replace('_', '-')}", text)
    return text


def _import_tensorflow_quietly():
    """TensorFlow greets on standard error from C++, before any setting of its own could keep it from that."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stderr.flush()
    standard_error, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        import tensorflow as tf

        tf.config.list_physical_devices("GPU")  # looks for drivers, and complains where there are none
    finally:
        os.dup2(standard_error, 2)
        os.close(standard_error)
        os.close(nowhere)


def _show_warning(message, category, filename, lineno, file=None, line=None):
    print(f"keras-sat: {message}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
