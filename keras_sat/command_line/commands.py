"""The functions that run the commands with the options parsed by `arguments`.

Each imports its dependencies when it runs, which keeps `--help` fast.
"""

import contextlib
import dataclasses
import json
import os
import sys
import warnings
from pathlib import Path

import keras_sat
from data_utils.atomic_files import write_json
from data_utils.captions import tokenise
from data_utils.datasets import DATASETS
from data_utils.foreign_text import visible, visible_json
from data_utils.tf_logging import import_tensorflow
from keras_sat.checks import reason_without_number
from keras_sat.command_line.invocation import flag_of
from keras_sat.command_line.paths import drawing_paths, prepare_files, reject_same_file
from keras_sat.options import (
    ENCODER_NAMES,
    BeamSearchOptions,
    ConsistencyOptions,
    SearchOptions,
    SelfCriticalOptions,
    count,
    probability,
)
from keras_sat.presets import DEFAULT_MODEL, LIGHT_ENCODERS, default_encoder, without_gpu
from keras_sat.weight_paths import find_installed_weights, keras_home

# Replaces a caption below --min-confidence; on a terminal, precedes one with low
# confidence.
NOT_SURE = "not sure"
# Below this confidence a terminal shows "not sure": the greatest tenth below which
# fewer than one caption in four is right. On the 1,000 dev photos of Flickr8k, 351
# captions are below it, 78 of them right (docs/model-card.md).
LOW_CONFIDENCE = 0.3


def run_demo(**options):
    from keras_sat.command_line.demo import run_demo

    run_demo(**options)


def run_fit(data, gpus=None, hosts=False, **options):
    """Train a captioner with the given options."""
    for epochs, *others in (SelfCriticalOptions.names(), ConsistencyOptions.names()):
        idle = [flag_of(name) for name in others if name in options and not options.get(epochs)]
        if idle:
            raise ValueError(
                f"{idle[0]} has no effect without {flag_of(epochs)}. Pass both or neither."
            )
    if hosts or gpus is not None:  # first: hosts can only be connected before TensorFlow computes
        from keras_sat.training.distributed import several_gpus, several_hosts

        options["strategy"] = several_hosts() if hosts else several_gpus(gpus)
    from keras_sat.training.recipe import fit

    captioner = fit(data, **options)
    if not captioner.history and captioner.history.was_interrupted:
        raise KeyboardInterrupt(
            "no epoch was completed. Run the same command to start again; features are kept."
        )


def run_caption(
    images,
    models=None,
    recursive=False,
    as_json=False,
    maps=False,
    say=None,
    min_confidence=None,
    **options,
):
    """Caption each picture, or use the caption given by --say.

    Report unreadable pictures at the end.
    """
    if workers := _workers_options(options):
        others = {"json": as_json, "maps": maps, "say": say, "min_confidence": min_confidence}
        _caption_on_ray(
            images,
            _models_or_default(models),
            {"recursive": recursive, **workers},
            others,
            **options,
        )
        return
    from data_utils.images import find_pictures
    from data_utils.photo_regions import checked_region
    from data_utils.progress import Progress
    from keras_sat.command_line.caption_files import caption_files
    from keras_sat.deploy.litert_captioner import ready_captioner

    outputs = {
        option: options.pop(option)
        for option in ("plot", "html", "gif", "gallery")
        if option in options
    }
    drawing_options = ("words", "width", "shares", "plot_format")
    drawn = {name: options.pop(name) for name in drawing_options if name in options}
    for name in drawn:
        drawings_with_it = {"plot", "gif"} if name == "words" else {"plot"}
        if not outputs.keys() & drawings_with_it:
            raise ValueError(f"{flag_of(name)} has no effect without --plot. Pass both or neither.")
    plot_format = drawn.pop("plot_format", None)
    encoder_weights = options.pop("encoder_weights", None)
    if maps and not as_json:
        raise ValueError("--maps requires --json. To draw the maps, use --plot.")
    if min_confidence is not None:
        probability.check("min_confidence", min_confidence)
    if say is not None and (options or min_confidence is not None):
        other = flag_of(next(iter(options), "min_confidence"))
        raise ValueError(
            f"{other} has no effect with --say, which gives the caption. Received: --say "
            f"with {other}"
        )
    file_options = ("text_files", "csv", "metadata", "overwrite")
    of_files = {name: options.pop(name) for name in file_options if name in options}
    regions = [checked_region(region.split(",")) for region in options.pop("region", ())]
    if regions and min_confidence is not None:
        raise ValueError(
            "--min-confidence cannot be combined with --region: the confidence is that of "
            "captions of whole photos."
        )
    if (outputs or of_files) and len(regions) > 1:
        flag = flag_of(next(iter(outputs | of_files)))
        raise ValueError(f"{flag} takes one result for each picture: pass one --region.")
    paths = find_pictures(images, recursive=recursive)
    files = caption_files(images, paths, **of_files)
    to_do = [
        path for path in paths if outputs or not files or not all(file.has(path) for file in files)
    ]
    if num_done := len(paths) - len(to_do):
        print(
            f"keras-sat: captioned before: {num_done} of {len(paths)} pictures (see --overwrite)",
            file=sys.stderr,
        )
    if not to_do:
        return
    options |= {"regions": [regions] * len(to_do)} if regions else {}
    models = _models_or_default(models)
    fits_litert = _fits_litert(models, encoder_weights, say, options)
    fast = ready_captioner(models[0]) if fits_litert else None
    if options and fast and fast.consensus:
        fast = None  # its file has more beams
    captioner = fast or _captioner_of(models, encoder_weights)
    drawings = drawing_paths(outputs, to_do, plot_format=plot_format)
    if say is None:
        results = captioner.caption_each(to_do, errors="yield", **({} if fast else options))
        results = (
            (path, each)
            for path, found in results
            for each in (found if isinstance(found, list) else [found])
        )
    else:
        unknown = [
            word for word in dict.fromkeys(tokenise(say)) if word not in captioner.vocabulary
        ]
        if unknown:
            print(f"keras-sat: unknown words: {visible(', '.join(unknown))}", file=sys.stderr)
        results = captioner.attend_each(to_do, say, errors="yield")
    results = _kept_in_files(results, files, drawings[to_do[0]].get("gallery"), min_confidence)
    failed, num_drawn = [], 0
    show = sys.stderr.isatty() and not sys.stdout.isatty()  # the captions go to a file
    with Progress(
        len(paths) * max(len(regions), 1), label="captions", unit="pictures", show=show, delay=1
    ) as progress:
        progress.skip(num_done)
        progress.advance(0)  # shows the start until the first batch is complete
        for path, result in results:
            progress.advance(1)
            if isinstance(result, Exception):
                failed.append(_why_unreadable(path, result))
                if files:  # of many pictures
                    print(f"keras-sat: {visible(failed[-1])}", file=sys.stderr)
                if as_json:
                    _print_json({"image": path, "error": failed[-1]})
                continue
            if min_confidence is not None and result.confidence is None:
                raise ValueError(
                    "This model does not estimate confidence. Add this with `keras-sat "
                    "calibrate MODEL --data DATA` "
                    f"(not for several models). Received: --min-confidence {min_confidence:g}"
                )
            others = result.alternatives if "num_results" in options else []
            if as_json:
                parts = {"image": path, **result.to_dict(maps=maps)}
                if not _is_sure(result, min_confidence):
                    parts["is_sure"] = False
                if "num_results" in options:
                    parts["alternatives"] = [other.to_dict(maps=maps) for other in others]
                _print_json(
                    parts | {option: str(drawing) for option, drawing in drawings[path].items()}
                )
            else:
                for prefix, each in [(path, result), *(("", other) for other in others)]:
                    print(_as_line(prefix, each, min_confidence), flush=True)
            if drawings[path].keys() - {"gallery"}:
                problem = _draw(result, path, drawings[path], **drawn)
                if problem is None:
                    num_drawn += 1
                else:
                    failed.append(problem)
    _say_where_drawn(outputs, drawings, num_drawn)
    if failed:
        raise ValueError(
            f"failed: {len(failed)} pictures" if files else "; ".join(map(visible, failed))
        )
    if fits_litert and not fast:
        _prepare_litert(models[0])


def _workers_options(options):
    """Take the options that belong to --ray out of `options`, and return them."""
    names = ("ray", "worker_cpus", "worker_gpus", "part_size", "output", "file_type")
    found = {name: options.pop(name) for name in names if name in options}
    if found and "ray" not in found:
        raise ValueError(
            f"{flag_of(next(iter(found)))} has no effect without --ray. Pass both or neither."
        )
    return found


def _caption_on_ray(images, models, workers, others, **options):
    """Write the captions of many pictures in parts."""
    from keras_sat.deploy.ray_data import write_captions

    fitting = (*BeamSearchOptions.names(), "encoder_weights")
    if unfit := [
        name for name in (others | options) if others.get(name) or name in {*options} - {*fitting}
    ]:
        raise ValueError(f"{flag_of(unfit[0])} cannot be combined with --ray.")
    if "output" not in workers:
        raise ValueError("Pass the folder for the captions as --output.")
    try:
        encoder_weights = options.pop("encoder_weights", None)
        paths, num_photos, num_errors = write_captions(
            images, models, **workers, encoder_weights=encoder_weights, options=options
        )
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "finished parts are kept. Run the same command to resume."
        ) from None
    print(f"{visible(workers['output'])}: {num_photos} pictures in {len(paths)} parts")
    if num_errors:
        problem = f"failed: {num_errors} pictures; their rows have an error"
        raise ValueError(f"{problem}. Remove a part to try its pictures again.")


def _models_or_default(models, data=None):
    """Return the models given by --model, or else the bundled model, even if a local
    folder has its name.
    """
    from keras_sat.files.model_folder import PRETRAINED

    if models is None:
        name = "scenes" if data == "scenes" else DEFAULT_MODEL
        print(f"keras-sat: no --model given, using {name!r}", file=sys.stderr)
        models = [PRETRAINED / name]
    return models


def _captioner_of(models, encoder_weights):
    from keras_sat.deploy.ray_data import load_models

    return load_models(models, encoder_weights)


def _fits_litert(models, encoder_weights, say, options):
    """Return whether LiteRT can be used: it supports one model, its own weights,
    default search, short sentences.
    """
    from keras_sat.deploy.litert_captioner import is_installed

    default = SearchOptions()
    is_default = (
        options in ({}, {"num_beams": default.beams})
        and len(tokenise(say or "")) < default.max_length
    )
    return is_default and encoder_weights is None and len(models) == 1 and is_installed()


def _prepare_litert(model):
    """Write the LiteRT file of a model, which can then be used without TensorFlow."""
    from keras_sat.deploy.litert_captioner import is_made, make_file

    if is_made(model):
        return
    if sys.stderr.isatty():
        print(
            "keras-sat: preparing this model (once) to caption without TensorFlow", file=sys.stderr
        )
    with contextlib.suppress(OSError, ValueError):  # captions that were printed remain valid
        make_file(model)


def _draw(result, path, drawings, words="content", **options):
    """Draw a result.

    Return why not if its caption lacks one of the `words`, as some of many captions
    may.
    """
    from keras_sat.pictures.display import AttentionDisplay

    display = AttentionDisplay.from_result(result, image=path)
    try:
        words = display.positions(words)
    except ValueError as error:
        return f"{path}: not drawn: {error}"
    if "plot" in drawings:
        display.save(drawings["plot"], words=words, **options)
    if "html" in drawings:
        display.to_html(drawings["html"])
    if "gif" in drawings:
        display.animate(drawings["gif"], words=words)
    return None


def _say_where_drawn(outputs, drawings, num_drawn):
    """Print where the drawings are; the gallery has been named before."""
    for option, out in outputs.items():
        if option == "gallery" or not num_drawn:
            continue
        if len(drawings) == 1:
            (of_picture,) = drawings.values()
            print(f"{option}: {visible(of_picture[option])}", file=sys.stderr)
        else:
            print(f"{option}: {num_drawn} files in {visible(out)}", file=sys.stderr)


def _kept_in_files(results, files, page_path, min_confidence):
    """Yield results, and write `caption_files` and a gallery: at the end, even after
    Ctrl-C, and often until then.
    """
    page, num_results, num_written = None, 0, 0
    if page_path is not None:
        from keras_sat.pictures.gallery import GalleryPage

        page = GalleryPage(page_path)

    def write():
        problems = []
        # Without photos, an earlier gallery is kept.
        for file in [*files, page] if page and page.photos else files:
            try:
                file.write()
            except (OSError, ValueError) as error:  # write the others too
                problems.append(error)
        if problems:
            raise problems[0]

    try:
        for path, result in results:
            if not isinstance(result, Exception):
                if page:
                    page.add(visible(path), result, path)
                for file in files:
                    if not file.has(path) and _is_sure(result, min_confidence):
                        file.add(path, result.caption)
            elif page:
                page.errors.append(_why_unreadable(path, result))
            yield path, result
            num_results += 1
            if num_results > 1.2 * num_written:  # a killed command loses at most a sixth
                write()
                num_written = num_results
    except KeyboardInterrupt:
        kept = "captions in files are kept. Run the same command to resume." if files else ""
        raise KeyboardInterrupt(kept) from None
    finally:
        write()
        if page and page.photos:
            print(f"gallery: {visible(page.path)}", file=sys.stderr)


def _is_sure(result, min_confidence):
    return min_confidence is None or (result.confidence or 0) >= min_confidence


def _as_line(path, result, min_confidence):
    """Return the path, a tab and the caption.

    On a terminal, add the confidence and, if it is low, "not sure".
    """
    caption = visible(result.caption) if _is_sure(result, min_confidence) else NOT_SURE
    line = f"{visible(path)}\t{caption}"
    if result.confidence is None or not sys.stdout.isatty():
        return line
    is_low = min_confidence is None and result.confidence < LOW_CONFIDENCE
    start = f"{NOT_SURE}: " if path and is_low else ""  # other captions of a picture have no path
    return f"{start}{line} (confidence {100 * result.confidence:.0f} %)"


def _print_json(parts):
    print(visible_json(json.dumps(parts, ensure_ascii=False)), flush=True)


def _why_unreadable(path, error):
    is_folder = isinstance(error, IsADirectoryError)
    return f"{path}: this folder has no pictures" if is_folder else reason_without_number(error)


def run_evaluate(
    data,
    models=None,
    captions=None,
    encoder_weights=None,
    grounding=False,
    regions=False,
    **options,
):
    """Score a captioner or a file of captions, and write the requested files."""
    from keras_sat.scoring.evaluate import evaluate, evaluate_captions

    measures_boxes = (grounding and data != "scenes") or regions
    if measures_boxes != ("boxes" in options) and not (grounding and "boxes" in options):
        raise ValueError(
            "Pass --boxes with --grounding or --regions; only --grounding with --data "
            "scenes needs none."
        )
    if "pixel_photos" in options and not options.get("faithfulness"):
        raise ValueError(
            "--pixel-photos has no effect without --faithfulness. Pass both or neither."
        )
    kinds = ("json", "csv", "coco_results", "gallery")
    outputs = {kind: Path(options.pop(kind)).expanduser() for kind in kinds if kind in options}
    if "gallery" in outputs:
        outputs["gallery"] /= "index.html"
    reject_same_file(outputs)
    prepare_files(outputs.values())
    workers = _workers_options(options)
    if captions is None:
        cache = options.pop("cache_dir", None)
        keep_results = "gallery" in outputs or (grounding and "boxes" not in options)
        models = _models_or_default(models, data)
        captioner = _captioner_of(models, encoder_weights)
        if workers:
            from keras_sat.deploy.ray_data import DistributedCaptioner, Workers, loading

            captioner = DistributedCaptioner(
                captioner, loading(models, encoder_weights), Workers(**workers)
            )
        table = evaluate(
            captioner, data, cache=cache, regions=regions, keep_results=keep_results, **options
        )
    else:
        given = {
            "model": models,
            "encoder_weights": encoder_weights,
            "grounding": grounding,
            "regions": regions,
        }
        given |= {"ray": workers, **outputs, **options}
        fitting = ("json", "csv", "coco_results", "data_dir", "split", "split_seed", "compare_with")
        if others := [
            name for name in given if (given[name] or name in options) and name not in fitting
        ]:
            raise ValueError(
                "--captions scores existing captions and cannot be combined with "
                f"{flag_of(others[0])}."
            )
        table = evaluate_captions(captions, data, **options)
    print(table)
    if grounding and "boxes" not in options:
        from keras_sat.scoring.grounding import ground_scenes

        grounded = ground_scenes(table.images, table.results, word_classes=None)
        print(f"\n{grounded}")
        table.statistics["grounding"] = grounded.to_dict()
    for kind, path in outputs.items():
        if kind == "gallery":
            print(f"gallery: {visible(_gallery_of(table, path))}")
        else:
            getattr(table, f"to_{kind}")(path)


def _gallery_of(table, path):
    from keras_sat.pictures.gallery import gallery
    from keras_sat.scoring.evaluate import NUM_REFERENCES

    return gallery(
        table.results,
        path,
        images=[image.image_path for image in table.images],
        names=[image.image_id for image in table.images],
        references=[image.captions[:NUM_REFERENCES] for image in table.images],
        title=f"Captions of {table.settings['data']}, split {table.settings['split']}",
    )


def run_compare(first, second):
    """Compare two captioners and print the differences in their scores."""
    from keras_sat.scoring.comparison import compare

    print(compare(first, second))


def run_features(data, cache_dir, data_dir=None, split_seed=None, skip_unreadable=False, **options):
    """Build the feature cache of a data set."""
    from data_utils.datasets.read import read_data
    from data_utils.features.cache import FeatureCache
    from keras_sat.captioner import Captioner

    of_cache = {name: options.pop(name) for name in ("batch_size", "verify") if name in options}
    workers = _workers_options(options)
    count().check("batch_size", of_cache.get("batch_size", 32))
    if "encoder" not in options:
        options["encoder"] = default_encoder(data)
        if options["encoder"] in LIGHT_ENCODERS:
            print(f"keras-sat: {without_gpu(options['encoder'])}", file=sys.stderr)
    if options["encoder"] == "tiny" and "encoder_weights" not in options:
        raise ValueError(
            "The features of an untrained `tiny` encoder are useless. Pass trained "
            "weights as --encoder-weights, "
            "or choose another --encoder."
        )
    images = read_data(data, data_dir, split_seed=split_seed)
    if workers:
        from keras_sat.deploy.ray_data import Workers, encoding_on

        part_size = {"part_size": workers.pop("part_size")} if "part_size" in workers else {}
        of_cache["encode_rows"] = encoding_on(Workers(**workers), options, **part_size)
    cache = FeatureCache.build(
        cache_dir,
        [image.image_id for image in images],
        [image.image_path for image in images],
        Captioner(["a"], **options).encoder_model,
        errors="skip" if skip_unreadable else "raise",
        **of_cache,
    )
    rows, columns = cache.grid_shape
    print(
        f"{visible(cache.directory)}: {len(cache)} photos, {rows} x {columns} x "
        f"{cache.feature_dim} each"
    )
    for reason in cache.unreadable.values():
        print(f"left out: {visible(reason)}", file=sys.stderr)


def run_calibrate(model, data, split="dev", report=None, skip_unreadable=False, **options):
    """Fit and save the confidence of a captioner; print how well calibrated it is."""
    from keras_sat.beyond.calibration import calibrate

    if report is not None:
        prepare_files([Path(report).expanduser()])
    with _model_to_change(model, data, split, **options) as (captioner, images, cache):
        calibration = calibrate(captioner, images, cache=cache, skip_unreadable=skip_unreadable)
        print(calibration)
    if report is not None:
        write_json(Path(report).expanduser(), calibration.to_dict())


def run_index(model, data, split="train", skip_unreadable=False, consensus_weight=None, **options):
    """Index photos and captions for a choice by consensus, and save the index with the
    model.
    """
    from data_utils.images import readable_photos
    from keras_sat.beyond.consensus import WEIGHT, Consensus

    weight = WEIGHT if consensus_weight is None else consensus_weight
    with _model_to_change(model, data, split, **options) as (captioner, images, cache):
        captioner.options = dataclasses.replace(captioner.options, consensus_weight=weight)
        images = images if cache else readable_photos(images, skip=skip_unreadable)
        captioner.consensus = Consensus.build(captioner, images, cache=cache)
        print(f"{len(captioner.consensus.photo_ids)} photos indexed; consensus weight {weight:g}")


@contextlib.contextmanager
def _model_to_change(
    model, data, split, cache_dir=None, encoder_weights=None, output_dir=None, **reading
):
    """Yield a saved captioner, photos and a cache.

    Then save the captioner's records with it, or with a copy.
    """
    from data_utils.datasets.read import photos_of_split, read_data
    from data_utils.features.cache import FeatureCache
    from keras_sat.captioner import Captioner
    from keras_sat.files.hub import is_on_hub
    from keras_sat.files.model_folder import (
        PRETRAINED,
        copy_of_model,
        model_directory,
        reject_taken_folder,
    )
    from keras_sat.files.saving import save_records

    folder = model_directory(model)
    if output_dir is None and (folder.parent == PRETRAINED or is_on_hub(model)):
        raise ValueError(
            "A bundled or downloaded model cannot be changed. For a copy, pass a folder "
            "as --output-dir. "
            f"Received: {visible(model)}"
        )
    if output_dir is not None:
        reject_taken_folder(output_dir)  # before anything is captioned
    captioner = Captioner.load(folder, encoder_weights=encoder_weights)
    images = [
        image for image in photos_of_split(read_data(data, **reading), split) if image.captions
    ]
    cache = (
        None if cache_dir is None else FeatureCache.open(cache_dir, encoder=captioner.encoder_model)
    )
    yield captioner, images, cache
    save_records(captioner, folder if output_dir is None else copy_of_model(folder, output_dir))


def run_export(
    model,
    directory,
    tflite=False,
    onnx=False,
    web=False,
    runtime=None,
    encoder_weights=None,
    **options,
):
    """Export a captioner for programs without keras_sat or as a web page, and print the
    paths of the files.
    """
    from keras_sat.captioner import Captioner

    if runtime is not None and not web:
        raise ValueError("--runtime has no effect without --web. Pass both or neither.")
    captioner = Captioner.from_pretrained(model, encoder_weights=encoder_weights)
    if web:
        from keras_sat.deploy.page_export import MissingRuntime, write_page

        with warnings.catch_warnings():
            # Exit status 2: nobody should publish such a page.
            warnings.simplefilter("error", MissingRuntime)
            folder = write_page(
                captioner, directory, name=_shown_name(model), runtime=runtime, **options
            )
        print(f"{visible(folder)}: a page for any static host, or for `keras-sat app`")
        return
    formats = {"tf_saved_model": True, "litert": tflite, "onnx": onnx}
    folder = captioner.export(
        directory, [name for name, is_wanted in formats.items() if is_wanted], **options
    )
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        print(f"{visible(path)}: {path.stat().st_size:,} bytes")


def run_app(
    model=None, host="127.0.0.1", port=0, no_browser=False, runtime=None, encoder_weights=None
):
    """Serve a web page until Ctrl-C is pressed: an existing page, or a temporary page
    for a model.
    """
    import signal
    import tempfile

    from keras_sat.captioner import Captioner
    from keras_sat.deploy.page_export import add_runtime, is_page, write_page
    from keras_sat.deploy.page_runtime import runtime_files
    from keras_sat.deploy.page_server import page_server, serve
    from keras_sat.files.model_folder import model_directory

    model = model or model_directory(None)
    page = Path(model).expanduser()
    page = page.parent if page.name == "index.html" else page
    for name in ("SIGTERM", "SIGHUP"):  # Windows has no SIGHUP
        if hasattr(signal, name):
            # Like Ctrl-C, which removes the page.
            signal.signal(getattr(signal, name), signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="keras-sat-", ignore_cleanup_errors=True) as temporary:
        exists = is_page(page)
        page = page if exists else Path(temporary) / "page"
        with page_server(page, host, port) as server:  # fails at once if the port is in use
            if exists:
                add_runtime(page, runtime)
            else:
                runtime_files(runtime)  # without it the page could only show an error
                captioner = Captioner.from_pretrained(model, encoder_weights=encoder_weights)
                print("making the page; this takes about half a minute", file=sys.stderr)
                write_page(captioner, page, name=_shown_name(model), runtime=runtime)
            serve(server, open_browser=not no_browser)


def _shown_name(model):
    """Return the name of a model to show on a page: the name of its folder, or "mine"
    for runs/mine/model.
    """
    path = Path(model).expanduser().resolve()
    return path.parent.name if path.name == "model" else path.name


def run_info(data_dir=None):
    """Print the versions, devices and files that a bug report needs."""
    import platform
    from importlib.metadata import version

    print(f"keras_sat {keras_sat.__version__} in {Path(keras_sat.__file__).parent}")
    print(f"Python {platform.python_version()} on {platform.platform()}")
    for package in ("tensorflow", "keras", "numpy", "pillow", "matplotlib", "nltk"):
        print(f"{package} {version(package)}")
    from keras_sat.files.model_folder import WEIGHTS_LICENSE, pretrained_names

    devices = [device.name for device in import_tensorflow().config.list_physical_devices()]
    print(f"devices: {', '.join(devices)}; {os.cpu_count()} CPU cores")
    folder = keras_home() / "models"
    weights = sorted(path.name for path in folder.glob("*.h5"))
    print(f"encoder weights in {visible(folder)}: {visible(', '.join(weights)) or 'none'}")
    if packages := [name for name in ENCODER_NAMES if find_installed_weights(name)]:
        print(f"encoder weights in installed packages: {', '.join(packages)}")
    print(f"bundled models: {', '.join(pretrained_names())}")
    print(
        f"their licence: {WEIGHTS_LICENSE}; photo captioners are for non-commercial "
        "research and education only"
    )
    for name, read in DATASETS.items():
        if name == "scenes" or data_dir is None:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                images = read(data_dir)
            print(
                f"data: {name}: {len(images)} photos, "
                f"{sum(len(image.captions) for image in images)} captions"
            )
        except (ValueError, OSError) as error:
            print(f"data: {name}: {visible(str(error).partition(' Received: ')[0])}")


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
