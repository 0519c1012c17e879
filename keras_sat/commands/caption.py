"""The command `caption`: read the options, load a captioner, caption pictures, and
print, draw and write the captions.

Dependencies are imported where they are used, which keeps `--help` fast.
"""

import contextlib
import json
import sys

from data_utils.base import reason_without_number, visible, visible_json
from data_utils.captions import tokenise
from keras_sat.commands.caption_request import read_request
from keras_sat.commands.flags import (
    add_models,
    add_options,
    add_ray,
    add_removed,
    add_switches,
    add_values,
)
from keras_sat.commands.load_captioner import (
    fits_litert,
    load_captioner,
    models_or_default,
    prepare_litert,
)
from keras_sat.commands.paths import drawing_paths
from keras_sat.settings import MAP_KINDS, BeamSearch, Encoder, Search

DESCRIPTION = """Print a line for each picture: its path, a tab and its caption. On a terminal the
line also shows the confidence, if the model has one, and starts with "not sure" if
it is low; nouns with (?) may be made up. Other results (--num-results) follow on
lines that start with a tab. The exit status is 2 if a picture could not be read."""

# Replaces a caption below --min-confidence; on a terminal, precedes one with low
# confidence.
NOT_SURE = "not sure"
# Below this confidence a terminal shows "not sure". On the 1,000 dev photos of
# Flickr8k, 235 captions are below it, 27 % of them right (docs/model-card.md).
LOW_CONFIDENCE = 0.3
# Files are written again when there are this many times as many results: a killed
# command loses at most a sixth.
GROWTH = 1.2


def add_arguments(parser):
    parser.add_argument(
        "images", nargs="+", metavar="IMAGE", help="pictures, folders of pictures, or patterns"
    )
    add_switches(parser, recursive="include subfolders")
    add_models(parser)
    add_options(parser, Search, *BeamSearch.names(), "num_results")
    text = (
        "caption only this part: left,top,right,bottom, as fractions of the sides, such as "
        ".1,.2,.4,.9; repeatable"
    )
    parser.add_argument("--region", action="append", metavar="SIDES", help=text)
    add_values(
        parser,
        "SENTENCE",
        say="do not caption; show where the model looks for each word of this sentence",
    )
    add_options(parser, Encoder, "encoder_weights")
    _add_printing(parser)
    _add_drawings(parser)
    _add_caption_files(parser)
    _add_style(parser)
    group = add_ray(parser, part_size=True)
    add_values(
        group, "FOLDER", output="with --ray: write the captions of each block into this folder"
    )
    group.add_argument(
        "--file-type", choices=("jsonl", "parquet"), help="of these files; default: jsonl"
    )
    add_removed(parser)


def _add_printing(parser):
    parser.add_argument(
        "--min-confidence", type=float, metavar="X", help='print "not sure" below this confidence'
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object for each picture")
    add_switches(parser, maps="with --json: add attention_weights, [word][row][column]")


def _add_drawings(parser):
    add_values(
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
    add_switches(parser, text_files="write the caption of photo.jpg into photo.txt next to it")
    add_values(parser, "FILE", csv="write a table for `fit --data folder`")
    add_switches(
        parser,
        metadata="write metadata.jsonl into the folder of the pictures, as Hugging Face's "
        "imagefolder reads it",
        overwrite="replace the captions that these files have of these pictures; default: keep "
        "them, and caption only what is missing",
    )


def _add_style(parser):
    """Add the flags that say how pictures are drawn."""
    add_values(
        parser,
        "WORDS",
        words='words to draw: "content" (default), "all", or some, such as "dog,ball"',
    )
    parser.add_argument(
        "--width", type=float, metavar="INCHES", help="with --plot: 3.3 for a column of a paper"
    )
    add_switches(
        parser, shares='with --plot: write above each word, for example, "10 %% of the photo"'
    )
    text = "with a folder as --plot: the format of its files; default: png"
    parser.add_argument("--plot-format", choices=("png", "pdf", "svg"), help=text)
    text = (
        "what is drawn, and added by --maps: attention, where the model looked (default), or "
        "votes, the regions that spoke for each word; one model, with TensorFlow"
    )
    parser.add_argument("--map-kind", choices=MAP_KINDS, help=text)


def run(**arguments):
    """Caption each picture, or use the caption given by --say.

    Report unreadable pictures at the end.
    """
    from data_utils.photos import find_pictures
    from keras_sat.commands.caption_files import caption_files

    request = read_request(arguments)
    if request.workers:
        _caption_on_workers(request)
        return

    paths = find_pictures(request.images, recursive=request.recursive)
    files = caption_files(request.images, paths, **request.files)
    remaining_paths = _pictures_to_caption(paths, files, request)
    if not remaining_paths:
        return

    models = models_or_default(request.models)
    captioner, is_light = load_captioner(models, request)
    drawings = drawing_paths(
        request.drawings, remaining_paths, plot_format=request.style.get("plot_format")
    )
    results = _results(captioner, remaining_paths, request)

    page = _gallery_page(drawings[remaining_paths[0]], request.style)
    results = kept_in_files(results, files, page, request.min_confidence)
    with contextlib.closing(results), _progress(paths, remaining_paths, request) as progress:
        problems, num_drawn = _print_and_draw(captioner, results, drawings, request, progress)
    _print_places_of_drawings(request.drawings, drawings, num_drawn)
    if problems and files:  # each was printed before
        raise ValueError(f"failed: {len(problems)} pictures")
    if problems:
        raise ValueError("; ".join(map(visible, problems)))
    if fits_litert(models, request) and not is_light:
        prepare_litert(models[0])


# === On many machines ===


def _caption_on_workers(request):
    """Write the captions of many pictures in parts."""
    from keras_sat.scale import write_captions

    try:
        paths, num_photos, num_errors = write_captions(
            request.images,
            models_or_default(request.models),
            recursive=request.recursive,
            encoder_weights=request.encoder_weights,
            options=request.search,
            **request.workers,
        )
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "finished parts are kept. Run the same command to resume."
        ) from None
    output = request.workers["output"]
    print(f"{visible(output)}: {num_photos} pictures in {len(paths)} parts")
    if num_errors:
        raise ValueError(
            f"failed: {num_errors} pictures; their rows have an error. Remove a part to try "
            "its pictures again."
        )


# === Captioning ===


def _pictures_to_caption(paths, files, request):
    """Return the paths of the pictures whose captions the files lack; all of them if
    there are drawings to make.
    """
    if request.drawings or not files:
        return paths
    remaining_paths = [path for path in paths if not all(file.has(path) for file in files)]
    num_done = len(paths) - len(remaining_paths)
    if num_done:
        print(
            f"keras-sat: captioned before: {num_done} of {len(paths)} pictures (see --overwrite)",
            file=sys.stderr,
        )
    return remaining_paths


def _results(captioner, paths, request):
    """Return an iterator of (path, CaptionResult) for each picture, or for each of its
    regions, and of (path, error) for a picture that cannot be read.
    """
    options = {"errors": "yield", "votes": request.votes}
    if request.say is not None:
        _print_unknown_words(request.say, captioner.vocabulary)
        return captioner.attend_each(paths, request.say, **options)
    if request.regions:
        options["regions"] = [request.regions] * len(paths)
    results = captioner.caption_each(paths, **options, **request.search)
    return _one_by_one(results) if request.regions else results


def _print_unknown_words(sentence, vocabulary):
    words = dict.fromkeys(tokenise(sentence))
    unknown_words = [word for word in words if word not in vocabulary]
    if unknown_words:
        print(f"keras-sat: unknown words: {visible(', '.join(unknown_words))}", file=sys.stderr)


def _one_by_one(results):
    """Yield (path, result) for each result of a picture, from (path, list of results)
    or (path, error).
    """
    for path, region_results in results:
        if isinstance(region_results, Exception):
            yield path, region_results
            continue
        for result in region_results:
            yield path, result


def _progress(paths, remaining_paths, request):
    """Return the progress bar, which is shown if the captions go to a file."""
    from data_utils.base import Progress

    progress = Progress(
        len(paths) * max(len(request.regions), 1),
        label="captions",
        unit="pictures",
        show=sys.stderr.isatty() and not sys.stdout.isatty(),
        delay=1,
    )
    progress.skip(len(paths) - len(remaining_paths))
    progress.advance(0)  # shows the start until the first batch is complete
    return progress


# === Printing and drawing ===


def _print_and_draw(captioner, results, drawings, request, progress):
    """Print each result, and draw it where that was requested.

    Return a list of problems, one text for each picture that was not read or not drawn,
    and the number of pictures that were drawn.
    """
    problems, num_drawn = [], 0
    for path, result in results:
        progress.advance(1)
        if isinstance(result, Exception):
            problem = _why_unreadable(path, result)
            problems.append(problem)
            _print_problem(problem, request)
            if request.json:
                _print_json({"image": path, "error": problem})
            continue
        _check_confidence(result, request.min_confidence)
        _print_result(path, result, drawings[path], request)
        if not drawings[path].keys() - {"gallery"}:
            continue
        if "trace" in drawings[path]:
            _save_trace(captioner, result, path, drawings[path]["trace"], request)
        problem = _draw(result, path, drawings[path], request.style)
        if problem is None:
            num_drawn += 1
        else:
            problems.append(problem)
            _print_problem(problem, request)
    return problems, num_drawn


def _print_problem(problem, request):
    """Print a problem at once if captions are written to files, which may be those of
    many pictures. Otherwise the problems are printed at the end.
    """
    if request.files:
        print(f"keras-sat: {visible(problem)}", file=sys.stderr)


def _check_confidence(result, min_confidence):
    if min_confidence is not None and result.confidence is None:
        raise ValueError(
            "This model does not estimate confidence. Add this with `keras-sat calibrate MODEL "
            "--data DATA` (not for several models). Received: --min-confidence "
            f"{min_confidence:g}"
        )


def _print_result(path, result, drawing, request):
    """Print the result of a picture as a line, or as JSON, and its alternatives if
    --num-results was passed. `drawing` is a dict from DRAWINGS to files.
    """
    shows_alternatives = "num_results" in request.search
    alternatives = result.alternatives if shows_alternatives else []
    if not request.json:
        print(line_of(path, result, request.min_confidence), flush=True)
        for alternative in alternatives:
            print(line_of("", alternative, request.min_confidence), flush=True)
        return
    parts = {"image": path, **result.to_dict(maps=request.maps)}
    if not is_sure(result, request.min_confidence):
        parts["is_sure"] = False
    if shows_alternatives:
        parts["alternatives"] = [
            alternative.to_dict(maps=request.maps) for alternative in alternatives
        ]
    for option, file in drawing.items():
        parts[option] = str(file)
    _print_json(parts)


def is_sure(result, min_confidence):
    """Return whether the confidence of a result is at least --min-confidence."""
    return min_confidence is None or (result.confidence or 0) >= min_confidence


def line_of(path, result, min_confidence):
    """Return the path, a tab and the caption.

    On a terminal, add the confidence and, if it is low, "not sure", and mark nouns that
    may be made up.
    """
    is_terminal = sys.stdout.isatty()
    caption = result.caption
    if is_terminal and any(result.doubtful):
        from keras_sat.search import DOUBT_MARK

        marks = [DOUBT_MARK if is_doubtful else "" for is_doubtful in result.doubtful]
        caption = " ".join(word + mark for word, mark in zip(result.words, marks))
    caption = visible(caption) if is_sure(result, min_confidence) else NOT_SURE
    line = f"{visible(path)}\t{caption}"
    if result.confidence is None or not is_terminal:
        return line
    is_low = min_confidence is None and result.confidence < LOW_CONFIDENCE
    start = f"{NOT_SURE}: " if path and is_low else ""  # other captions of a picture have no path
    return f"{start}{line} (confidence {100 * result.confidence:.0f} %)"


def _print_json(parts):
    print(visible_json(json.dumps(parts, ensure_ascii=False)), flush=True)


def _why_unreadable(path, error):
    if isinstance(error, IsADirectoryError):
        return f"{path}: this folder has no pictures"
    return reason_without_number(error)


def _save_trace(captioner, result, path, page, request):
    """Write the explorer of a result to the file `page`."""
    from keras_sat.looking import trace_of_result

    is_given = request.say is not None
    trace_of_result(captioner, result, path, is_given=is_given, **request.search).save(page)


def _draw(result, path, drawing, style):
    """Draw a result into the files `drawing`, a dict from DRAWINGS.

    Return why not if its caption lacks one of the --words, as some of many captions
    may, else None.
    """
    from data_utils.photos import crop_of
    from keras_sat.looking import AttentionDisplay

    map_kind = style.get("map_kind", "attention")
    image = crop_of(path, result.region)
    display = AttentionDisplay.from_result(result, image=image, map_kind=map_kind)
    try:
        words = display.positions(style.get("words", "content"))
    except ValueError as error:
        return f"{path}: not drawn: {error}"
    if "plot" in drawing:
        plot_options = {name: style[name] for name in ("width", "shares") if name in style}
        display.save(drawing["plot"], words=words, **plot_options)
    if "html" in drawing:
        display.to_html(drawing["html"])
    if "gif" in drawing:
        display.animate(drawing["gif"], words=words)
    return None


def _print_places_of_drawings(outputs, drawings, num_drawn):
    """Print where the drawings are; the gallery has been named before."""
    for option, output in outputs.items():
        if option == "gallery" or not num_drawn:
            continue
        if len(drawings) == 1:
            (drawing,) = drawings.values()
            print(f"{option}: {visible(drawing[option])}", file=sys.stderr)
        else:
            print(f"{option}: {num_drawn} files in {visible(output)}", file=sys.stderr)


# === Writing files ===


def _gallery_page(drawing, style):
    """Return the page that --gallery writes, or None without --gallery; `style` has the
    options of STYLE.
    """
    if "gallery" not in drawing:
        return None
    from keras_sat.looking import GalleryPage

    return GalleryPage(drawing["gallery"], map_kind=style.get("map_kind", "attention"))


def kept_in_files(results, files, page, min_confidence):
    """Yield results, and write `caption_files` and a gallery: at the end, even after
    Ctrl-C, and often until then.

    Args:
        results: pairs of a path and a CaptionResult or an error.
        files: list of TextFiles and Tables.
        page: GalleryPage or None.
        min_confidence: captions with less confidence are kept out of `files`.
    """
    num_results, num_written = 0, 0
    try:
        for path, result in results:
            if page is not None:
                _add_to_page(page, path, result)
            if not isinstance(result, Exception) and is_sure(result, min_confidence):
                _add_to_files(files, path, result.caption)
            yield path, result
            num_results += 1
            if num_results > GROWTH * num_written:
                _write(files, page)
                num_written = num_results
    except KeyboardInterrupt:
        kept = "captions in files are kept. Run the same command to resume." if files else ""
        raise KeyboardInterrupt(kept) from None
    finally:
        _write(files, page)
        if page is not None and page.photos:
            print(f"gallery: {visible(page.path)}", file=sys.stderr)


def _add_to_page(page, path, result):
    from data_utils.photos import crop_of

    if isinstance(result, Exception):
        page.errors.append(_why_unreadable(path, result))
    else:
        page.add(visible(path), result, crop_of(path, result.region))


def _add_to_files(files, path, caption):
    for file in files:
        if not file.has(path):
            file.add(path, caption)


def _write(files, page):
    """Write all files and the page; if some fail, raise the first error at the end."""
    errors = []
    has_photos = page is not None and page.photos  # without photos, an earlier gallery is kept
    for file in [*files, page] if has_photos else files:
        try:
            file.write()
        except (OSError, ValueError) as error:
            errors.append(error)
    if errors:
        raise errors[0]
