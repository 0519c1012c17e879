"""The command line: `python -m keras_sat COMMAND`, installed as `keras-sat`.

TensorFlow is imported by the commands that compute, so that help answers at once. Bad use and bad input end in one
line on standard error and exit status 2.
"""

import contextlib
import errno
import functools
import json
import os
import re
import signal
import sys
import threading
import warnings
from collections import Counter
from pathlib import Path

import keras_sat
from data_utils.captions import IMAGE_ENDINGS
from data_utils.datasets import DATASETS
from data_utils.quiet import LOG_LEVEL, QUIET, import_tensorflow
from keras_sat.checks import NO_EPOCH, STOPPED_EARLY, WHOSE_ENCODER_WEIGHTS
from keras_sat.command_line.arguments import SELF_CRITICAL, build_parser, options_of
from keras_sat.presets import DEFAULT_MODEL, LIGHT_ENCODER, PRESETS, WITHOUT_GPU, usual_encoder, usual_preset

GO_ON = "and run the same command again: it goes on where it was."
WAYS_OUT = {
    errno.ENOSPC: f"Make room {GO_ON}",
    getattr(errno, "EDQUOT", errno.ENOSPC): f"Make room {GO_ON}",  # Windows has none
    errno.EFBIG: f"Allow larger files (`ulimit -f` shows the limit) {GO_ON}",
    errno.EISDIR: "Name a file instead.",
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "Choose a folder that can be written to."),
    **dict.fromkeys(  # a folder may vanish while it is made, or it is a file
        (errno.ENOENT, errno.EEXIST, errno.ENOTDIR),
        "Look whether it is there, and a file or a folder as it should be, and run the same command again.",
    ),
}


# What Ctrl-C leaves of a command, and what the same command does next. A training that has a captioner goes on instead.
BEGINS_ANEW = "nothing was written, and the same command begins anew."
KEPT = {
    "demo": "epochs that were complete are kept, and the same command goes on after them.",
    "fit": "epochs and features that were complete are kept, and the same command goes on after them.",
    "caption": "captions and drawings so far are whole, and the same command begins at the first picture again.",
    "evaluate": "no scores are kept, and the same command begins anew.",
    "compare": BEGINS_ANEW,
    "features": "the features so far are kept, and the same command goes on with the other photos.",
    "export": "only a whole export is kept, and the same command begins a new one.",
    "info": BEGINS_ANEW,
}


def run_demo(**options):
    from keras_sat.command_line.demo import run_demo

    with _without_a_second_line():
        run_demo(**options)


@contextlib.contextmanager
def _without_a_second_line():
    """Inside the block nobody warns of what Ctrl-C has ended: `main` says it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=STOPPED_EARLY)
        yield


def run_fit(data, preset=None, dropout=None, gpus=None, hosts=False, **options):
    """Train with the settings of a preset and those that were given."""
    idle = [name for name in SELF_CRITICAL if name in options and not options.get("self_critical_epochs")]
    if idle:
        raise ValueError(
            "This is about self-critical epochs, and there are none: pass --self-critical-epochs too, or leave it out. "
            f"Received: --{idle[0].replace('_', '-')} {options[idle[0]]}"
        )
    strategy = _strategy(gpus, hosts)  # first of all: hosts can only be connected before TensorFlow computes
    from keras_sat.training.folder import noted_encoder
    from keras_sat.training.recipe import fit

    if dropout is not None:
        options |= {"dropout_before_readout": dropout, "dropout_after_readout": dropout}
    before = noted_encoder(options["output_dir"]) if "output_dir" in options else None
    named = options if before is None else {"encoder": before, **options}
    settings = usual_preset(data, named) if preset is None else PRESETS[preset]
    if strategy is not None:
        options["strategy"] = strategy
    with _without_a_second_line():
        captioner = fit(data, **{**settings, **options})
    if not captioner.history:
        raise KeyboardInterrupt(NO_EPOCH)


def _strategy(gpus, hosts):
    if gpus is None and not hosts:
        return None
    from keras_sat.training.team import several_gpus, several_hosts

    if gpus is not None and hosts:
        raise ValueError("--hosts takes all GPUs of each host (CUDA_VISIBLE_DEVICES hides some): leave out --gpus.")
    return several_hosts() if hosts else several_gpus(gpus)


def run_caption(
    images, model, recursive, as_json, maps, encoder_weights=None, plot=None, html=None, gif=None, **options
):
    """Print a caption for each picture; name those that could not be read at the end."""
    from data_utils.images import find_pictures

    if maps and not as_json:
        raise ValueError("Maps are numbers for programs: pass --json too, or --plot to see them. Received: --maps")
    paths = find_pictures(images, recursive=recursive)
    captioner = _captioner_of(model, encoder_weights)
    places = {option: out for option, out in (("plot", plot), ("html", html), ("gif", gif)) if out is not None}
    drawings = {option: _drawing_paths(option, out, paths) for option, out in places.items()}
    _refuse_one_place_for_two({option: drawn[paths[0]] for option, drawn in drawings.items()})
    unreadable = []
    with _progress(len(paths)) as progress:
        for path, result in _results(captioner, paths, options, progress):
            if isinstance(result, Exception):
                unreadable.append(f"{path}: {result}" if path not in str(result) else str(result))
                if as_json:
                    _print_json({"image": path, "error": str(result)})
                progress.advance(1)
                continue
            if not as_json:
                print(f"{_visible(path)}\t{result.caption}", flush=True)
            drawn = {}
            try:
                _draw(result, path, {option: drawing[path] for option, drawing in drawings.items()}, drawn)
            finally:  # the caption is there, even if the disk is full
                if as_json:
                    _print_json({"image": path, **_as_json(result, maps), **drawn})
            progress.advance(1)
    if len(unreadable) < len(paths):
        for option, out in places.items():
            print(f"keras-sat: --{option}: {_visible(Path(out).expanduser())}", file=sys.stderr)
    if unreadable:
        raise ValueError("; ".join(map(_visible, unreadable)))


def _progress(num_pictures):
    """Return the Progress of captions: on a terminal that does not get the captions too, after a second."""
    from data_utils.progress import Progress

    show = sys.stderr.isatty() and not sys.stdout.isatty()
    return Progress(num_pictures, label="captions", unit="pictures", show=show, delay=1)


def _draw(result, path, drawings, drawn):
    """Draw a result on the photo; add what was written to the dict `drawn`, by the name of the option."""
    if not drawings:
        return
    from keras_sat.pictures.display import AttentionDisplay

    display = AttentionDisplay.from_result(result, image=path)
    for option, write in (("plot", display.save), ("html", display.to_html), ("gif", display.animate)):
        if option in drawings:
            write(drawings[option])
            drawn[option] = str(drawings[option])


def _as_json(result, maps):
    """Return a CaptionResult as a dict for JSON; its maps, if they are wanted, in millionths."""
    parts = {"caption": result.caption, "words": result.words, "log_prob": result.log_prob}
    if maps:
        _, rows, columns = result.attention_weights.shape
        weights = result.attention_weights.astype("float64").round(6).tolist()
        parts |= {"rows": rows, "columns": columns, "attention_weights": weights}
    return parts


def _print_json(parts):
    print(json.dumps(parts, ensure_ascii=False), flush=True)


def _captioner_of(models, encoder_weights, data=None):
    """Return the captioner that --model names, the usual one without it, or the Ensemble of several."""
    from keras_sat.search.ensemble import Ensemble
    from keras_sat.training.recipe import load_captioner

    if models is None:
        models = ["scenes" if data == "scenes" else DEFAULT_MODEL]
        print(f"keras-sat: without --model, {models[0]!r} is used", file=sys.stderr)
    captioners = [load_captioner(model, encoder_weights=encoder_weights) for model in models]
    return captioners[0] if len(captioners) == 1 else Ensemble(captioners)


def _results(captioner, paths, options, progress, batch_size=64):
    """Yield (path, CaptionResult, or the error that kept the picture from being read)."""
    from data_utils.images import load_image

    size, *others = captioner.photo_sizes
    for start in range(0, len(paths), batch_size):
        progress.advance(0)  # the first captions come only after a whole batch
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
                batch.append((path, ValueError(_without_number(error))))
        results = iter(captioner.caption(readable, **options) if readable else [])
        for path, error in batch:
            yield path, error or next(results)


def _drawing_paths(option, out, paths):
    """Return where the drawing of each picture goes: the file that was named, or one in that folder for each."""
    from matplotlib.backend_bases import FigureCanvasBase

    from keras_sat.pictures.player import PAGE_ENDINGS

    out = Path(out).expanduser()
    is_file = bool(out.suffix) and not out.is_dir()
    pages = [ending[1:] for ending in PAGE_ENDINGS]
    kinds = {"plot": sorted(FigureCanvasBase.get_supported_filetypes()), "html": pages, "gif": ["gif"]}[option]
    if is_file and out.suffix[1:].lower() not in kinds:
        raise ValueError(f"A drawing can be one of: {', '.join(kinds)}. Received: --{option} {out}")
    if is_file and len(paths) > 1:
        raise ValueError(
            f"Several pictures are drawn into a folder: leave out {out.suffix}. Received: --{option} {out}"
        )
    if is_file:
        drawings = {paths[0]: out}
    else:
        ending = "png" if option == "plot" else option
        drawings = {path: out / f"{name}-attention.{ending}" for path, name in _drawing_names(paths).items()}
    pictures = {os.path.realpath(path) for path in paths}  # Path.resolve raises an error where links go in circles
    for drawing in drawings.values():
        if os.path.realpath(drawing) in pictures:
            raise ValueError(f"The drawing would replace the picture itself. Received: --{option} {out}")
        _make_place(option, drawing)
    return drawings


def _drawing_names(paths):
    """Return a dict from each path to the name of its drawing, without ending, which depends on no order.

    1.jpg is drawn as "1"; where a picture of another ending lies beside it (1.png), as "1.jpg", whether that one is
    captioned along or not. Pictures of one name from several folders get as much of their folders before it as tells
    them apart: "day/1" and "night/1". Capital letters and small ones count as the same, as they do on some disks.
    """
    beside, names, depths = {}, {}, dict.fromkeys(paths, 1)
    for path in paths:
        folder, name = os.path.split(os.path.abspath(path))
        if folder not in beside:
            others = os.listdir(folder) if os.path.isdir(folder) else []
            beside[folder] = Counter(
                os.path.splitext(other)[0].casefold() for other in others if other.lower().endswith(IMAGE_ENDINGS)
            )
        stem = os.path.splitext(name)[0]
        names[path] = [*Path(folder).parts[1:], stem if beside[folder][stem.casefold()] < 2 else name]
    while True:
        drawn = {path: "/".join(names[path][-depth:]) for path, depth in depths.items()}
        shared = Counter(name.casefold() for name in drawn.values())
        unclear = [path for path, name in drawn.items() if shared[name.casefold()] > 1]
        unclear = [path for path in unclear if depths[path] < len(names[path])]
        if not unclear:
            return drawn
        depths |= {path: depths[path] + 1 for path in unclear}


def _make_place(option, path):
    """Make the folder of a file; raise an error, before any work is done, where none could be written in the end."""
    path = Path(path).expanduser()
    if path.is_dir():
        raise ValueError(f"Expected the name of a file to write, and this is a folder. Received: --{option} {path}")
    nearest = next(filter(os.path.lexists, path.absolute().parents))
    if not nearest.is_dir():
        kind = "a file" if nearest.exists() else "a link that leads nowhere"
        raise ValueError(f"{nearest}: this is {kind}, and a folder is needed there. Received: --{option} {path}")
    if not os.access(nearest, os.W_OK):
        raise ValueError(
            f"{nearest}: this folder cannot be written to. Choose another one. Received: --{option} {path}"
        )
    path.parent.mkdir(parents=True, exist_ok=True)


def _refuse_one_place_for_two(places):
    """Raise ValueError where one file would replace another: `places` is a dict from options to paths."""
    taken = {}
    for option, path in places.items():
        first = taken.setdefault(os.path.realpath(Path(path).expanduser()), option)
        if first != option:
            raise ValueError(f"One file cannot be both. Received: --{first} and --{option} {path}")


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
    from keras_sat.scoring.evaluation import evaluate, evaluate_captions

    if gallery is not None and Path(gallery).expanduser().is_file():
        raise ValueError(f"Expected the name of a folder, and this is a file. Received: --gallery {gallery}")
    if grounding and data != "scenes":
        raise ValueError(f"Only of the scenes is the place of every word known. Received: --grounding --data {data}")
    page = None if gallery is None else Path(gallery) / "index.html"
    places = {"json": json, "csv": csv, "coco-results": coco_results, "gallery": page}
    places = {option: path for option, path in places.items() if path is not None}
    _refuse_one_place_for_two(places)
    for option, path in places.items():
        _make_place(option, path)
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
        from keras_sat.scoring.grounding import ground_scenes

        grounded = ground_scenes(table.images, table.results, word_classes=None)
        print(f"\n{grounded}")
        table.statistics["grounding"] = grounded.to_dict()
    for path, write in ((json, table.to_json), (csv, table.to_csv), (coco_results, table.to_coco_results)):
        if path is not None:
            write(path)
    if page is not None:
        _write_gallery(table, page)


def _write_gallery(table, path):
    from keras_sat.pictures.gallery import gallery
    from keras_sat.scoring.evaluation import NUM_REFERENCES

    page = gallery(
        table.results,
        path,
        images=[image.image_path for image in table.images],
        names=[image.image_id for image in table.images],
        references=[image.captions[:NUM_REFERENCES] for image in table.images],
        title=f"Captions of {table.settings['data']}, split {table.settings['split']}",
    )
    print(f"gallery: {_visible(page)}")


def run_compare(first, second):
    """Print how much better the second captioner is than the first."""
    from keras_sat.scoring.comparison import compare

    print(compare(first, second))


def run_features(data, cache_dir, batch_size, skip_unreadable, verify, encoder=None, **options):
    """Build the feature cache of a data set, or a shard of it."""
    from data_utils.datasets.read import read_data
    from data_utils.features.cache import FeatureCache
    from data_utils.features.shards import Shard
    from keras_sat.model.encoders import make_encoder, weights_called

    received = f"--encoder {encoder}" if encoder else f"--data {data} without --encoder"
    if encoder is None:
        encoder = usual_encoder(data)
        if encoder == LIGHT_ENCODER:
            print(f"keras-sat: {WITHOUT_GPU}", file=sys.stderr)
    if encoder == "tiny" and "encoder_weights" not in options:
        raise ValueError(
            "`tiny` is trained along with the decoder, and its features before that are worth nothing. Pass the "
            f"weights of a trained one as --encoder-weights, or choose another encoder. Received: {received}"
        )
    if "shard" in options:
        Shard.parse(options["shard"])  # before anything that takes its time
    images = read_data(data, options.get("data_dir"), split_seed=options.get("split_seed"))
    with weights_called("encoder_weights"):
        encoder = make_encoder(
            encoder,
            layer=options.get("encoder_layer"),
            weights=options.get("encoder_weights", "imagenet"),
            image_size=options.get("image_size"),
        )
    cache = FeatureCache.build(
        cache_dir,
        [image.image_id for image in images],
        [image.image_path for image in images],
        encoder,
        batch_size=batch_size,
        shard=options.get("shard"),
        errors="skip" if skip_unreadable else "raise",
        verify=verify,
    )
    rows, columns = cache.grid_shape
    print(f"{_visible(cache.directory)}: {len(cache)} photos, {rows} x {columns} x {cache.feature_dim} each")
    for reason in cache.unreadable.values():
        print(f"left out: {_visible(reason)}", file=sys.stderr)


def run_export(model, directory, tflite, encoder_weights=None, **options):
    """Write a captioner for programs without keras_sat, and name the files."""
    from keras_sat.training.recipe import load_captioner

    captioner = load_captioner(model, encoder_weights=encoder_weights)
    folder = captioner.export(directory, ["tf_saved_model", "litert"] if tflite else "tf_saved_model", **options)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        print(f"{_visible(path)}: {path.stat().st_size:,} bytes")


def run_info(data_dir=None):
    """Print what a bug report needs."""
    import platform
    from importlib.metadata import version

    print(f"keras_sat {keras_sat.__version__} in {Path(keras_sat.__file__).parent}")
    print(f"Python {platform.python_version()} on {platform.platform()}")
    for package in ("tensorflow", "keras", "numpy", "pillow", "matplotlib", "nltk"):
        print(f"{package} {version(package)}")
    from keras_sat.files.model_folder import pretrained_names

    tf = import_tensorflow()

    devices = [device.name for device in tf.config.list_physical_devices()]
    print(f"devices: {', '.join(devices)}; {os.cpu_count()} CPU cores")
    if os.environ[LOG_LEVEL] == QUIET:
        print(f"messages of TensorFlow itself, such as why it finds no GPU: hidden; {LOG_LEVEL}=0 shows them")
    folder = Path(os.environ.get("KERAS_HOME", "~/.keras")).expanduser() / "models"
    weights = sorted(path.name for path in folder.glob("*.h5")) if folder.is_dir() else []
    print(f"encoder weights in {_visible(folder)}: {', '.join(weights) or 'none'}")
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
            print(f"data: {name}: {_visible(str(error).partition(' Received: ')[0])}")


COMMANDS = {
    "demo": run_demo,
    "fit": run_fit,
    "caption": run_caption,
    "evaluate": run_evaluate,
    "compare": run_compare,
    "features": run_features,
    "export": run_export,
    "info": run_info,
}


def main(argv=None):
    """Run a command; return the exit status."""
    arguments = vars(build_parser().parse_args(argv))
    command = arguments.pop("command")
    warnings.showwarning = functools.partial(_show_warning, command)
    for stream in (sys.stdout, sys.stderr):  # a console that lacks a letter must not end a training
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    with _ctrl_c_noted() as pressed:
        try:
            os.environ["KERAS_BACKEND"] = "tensorflow"  # whatever else is usual on this computer
            import_tensorflow()
            if pressed:
                raise KeyboardInterrupt  # that an import has passed over
            COMMANDS[command](**arguments)
        except KeyboardInterrupt as stop:
            return _say_what_is_kept(command, str(stop))
        except Exception as error:
            if _is_ctrl_c(error, pressed):
                return _say_what_is_kept(command)
            return _say_what_is_wrong(command, error)
    return 0


@contextlib.contextmanager
def _ctrl_c_noted():
    """Yield a list that is empty as long as Ctrl-C has not been pressed, which is a KeyboardInterrupt as always."""
    pressed = []

    def note(number, frame):
        pressed.append(number)
        raise KeyboardInterrupt

    is_usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is not ours to change
    if not is_usual or threading.current_thread() is not threading.main_thread():
        yield pressed
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_ctrl_c(error, pressed):
    """Return whether an error came of Ctrl-C: TensorFlow, and an import that was broken off, make another one of it."""
    if pressed and isinstance(error, ImportError):
        return True
    while error is not None:
        if isinstance(error, KeyboardInterrupt) or "KeyboardInterrupt" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _say_what_is_kept(command, kept=""):
    """Say what Ctrl-C has left, and what the same command does next; return the exit status."""
    new_line = "\n" if sys.stderr.isatty() else ""  # the terminal has written ^C
    print(f"{new_line}keras-sat: stopped: {kept or KEPT[command]}", file=sys.stderr)
    return 130


def _say_what_is_wrong(command, error):
    """Say in one line what is wrong, and return the exit status; raise an error again that no user could mend."""
    if isinstance(error, BrokenPipeError):  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if isinstance(error, (ValueError, OSError)):
        line = _as_options(one_line(error), command)
    elif isinstance(error, MemoryError):
        reason = f" ({one_line(error)})" if str(error) else ""
        line = f"There is not enough memory for this{reason}. Use smaller numbers."
    elif isinstance(error, RuntimeError) and "home directory" in str(error):  # as Path.expanduser says it
        line = "A path begins with ~ and the name of no user here. Write it out."
    elif type(error).__module__.startswith("tensorflow."):
        from keras_sat.training.callbacks import reason_of

        # TensorFlow wraps what went wrong in its threads, a photo that vanished for example, into an error of its own.
        wrapped = re.search(r"(?:ValueError|\w*Error): (.+)", str(error))
        reason = wrapped[1] if wrapped else reason_of(error)
        way_out = next((f". {way}" for number, way in WAYS_OUT.items() if reason.endswith(os.strerror(number))), "")
        line = f"{_visible(reason)}{way_out}"
    else:
        raise error
    print(f"keras-sat: {line}", file=sys.stderr)
    return 2


def one_line(error):
    """Return what an error says, and what to do about it, in one line."""
    text = _without_number(error)
    if isinstance(error, OSError) and error.errno in WAYS_OUT:
        text += f". {WAYS_OUT[error.errno]}"
    return _visible(" ".join(text.split()))


def _visible(text):
    """Return a text, such as a path, with escapes for what would break its line or steer the terminal."""
    return re.sub("[\x00-\x1f\x7f-\x9f\u2028\u2029]", lambda odd: odd[0].encode("unicode_escape").decode(), str(text))


def _without_number(error):
    """Return what an error says; of the operating system's, without the number that Python puts before."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{_visible(error.filename)}: {error.strerror}"
    return str(error)


def _as_options(text, command):
    """Return a message that names arguments in Python's way, with options of a command in their place.

    `num_beams` is --num-beams; what is said of the command line in parentheses takes the place of what stands before.
    """
    text = text.replace(WHOSE_ENCODER_WEIGHTS, "")
    text = re.sub(r"`?\b\w+`?(?:=[^\s(]+)? \((--[^)]*?)(?: on the command line)?\)", r"\1", text)
    for name, option in options_of(command).items():
        if "_" in name:
            text = re.sub(rf"(?<![\w./-]){name}(?=[`=\s,;:.]|$)", option, text)
    return text


def _show_warning(command, message, category, filename, lineno, file=None, line=None):
    print(f"keras-sat: {_as_options(one_line(message), command)}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
