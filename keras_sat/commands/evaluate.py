"""The command `evaluate`: score a captioner, or a file of captions.

Dependencies are imported where they are used, which keeps `--help` fast.
"""

from dataclasses import dataclass, field

from data_utils.base import visible
from keras_sat.commands.flags import (
    BOXES_HELP,
    add_data,
    add_models,
    add_options,
    add_ray,
    add_removed,
    add_switches,
    add_values,
    flag_of,
)
from keras_sat.commands.load_captioner import models_or_default
from keras_sat.commands.option_groups import WORKERS, check_workers, parted, reject_alone
from keras_sat.commands.paths import output_paths
from keras_sat.presets import DEFAULT_MODEL
from keras_sat.settings import MEASURED_MAPS, BeamSearch, Encoder, Search

DESCRIPTION = """Caption the photos of a split, and score the captions against the references.
With --captions, score the captions of any other system."""

# Which options belong to what; the others are passed to `keras_sat.evaluate`.
DATA = ("data", "captions")
CAPTIONER = ("models", "encoder_weights", "cache_dir")
BOXES = ("grounding", "regions", "boxes", "map_kind")
FILES = ("json", "csv", "averages_csv", "latex", "coco_results", "gallery")
# What can be combined with --captions.
ABOUT_DATA = ("data", "data_dir", "split", "split_seed", "compare_with")
ALLOWED_WITH_CAPTIONS = ("captions", *ABOUT_DATA, *FILES[:-1])


@dataclass(frozen=True, kw_only=True)
class EvaluationRequest:
    """What `keras-sat evaluate` is asked to do.

    Attributes:
        data: the name of the data set.
        captions: a file of captions to score, or None for those of a captioner.
        models, encoder_weights: the captioner. Several models form an ensemble; None is
            the bundled one.
        cache_dir: the folder of a feature cache, or None.
        grounding, regions, boxes: what is measured on boxes, and their file or folder;
            None for scenes, whose boxes are known.
        map_kind: the maps that `grounding` and faithfulness measure.
        files: dict from FILES to the paths to write.
        workers: dict of the options in WORKERS that were passed.
        options: dict of the other options, which are those of `keras_sat.evaluate`.
    """

    data: str
    captions: str | None = None
    models: list | None = None
    encoder_weights: str | None = None
    cache_dir: str | None = None
    grounding: bool = False
    regions: bool = False
    boxes: str | None = None
    map_kind: str = "attention"
    files: dict = field(default_factory=dict)
    workers: dict = field(default_factory=dict)
    options: dict = field(default_factory=dict)

    @property
    def grounds_scenes(self):
        """Whether attention is measured on the boxes of scenes."""
        return self.grounding and self.boxes is None


def add_arguments(parser):
    add_models(parser, f'{DEFAULT_MODEL}, or "scenes" with --data scenes')
    add_values(
        parser,
        "FILE",
        captions="score the captions in this JSON list of objects with image_id and caption",
    )
    add_data(parser, split="test")
    add_options(parser, Search, *BeamSearch.names())
    add_options(parser, Encoder, "encoder_weights")
    add_switches(
        parser, allow_training_photos="also score photos that the captioner was trained on"
    )
    parser.add_argument(
        "--compare-with", nargs="+", choices=("paper", "human"), help="print these scores as well"
    )
    add_values(
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
    add_switches(parser, grounding="measure whether the model looks at the objects that it names")
    add_switches(parser, regions="with --boxes: measure whether it names what is in a region")
    text = (
        "with --grounding or --faithfulness: the maps that are measured, attention (default) or "
        "votes, the regions that spoke for each word; votes-blurred is a control; one model"
    )
    parser.add_argument("--map-kind", choices=MEASURED_MAPS, help=text)
    add_values(parser, "PATH", boxes=f"with --regions, or --grounding on photos: {BOXES_HELP}")
    add_switches(
        parser, faithfulness="measure whether words depend on the regions that the model looks at"
    )
    pixels = (
        "with --faithfulness: blur these regions in N photos too, each encoded some twenty "
        "times; default: 100"
    )
    parser.add_argument("--pixel-photos", type=int, metavar="N", help=pixels)
    add_ray(parser)
    add_removed(parser)


def run(**arguments):
    """Score a captioner or a file of captions, and write the requested files."""
    from keras_sat.measuring import evaluate_captions

    request = _read_request(arguments)
    files = output_paths(request.files)
    if request.captions is None:
        table = _score_captioner(request)
    else:
        table = evaluate_captions(request.captions, request.data, **request.options)
    print(table)
    if request.grounds_scenes:
        _ground_scenes(table, request.map_kind)
    _write(table, files)


# === Reading the options ===


def _read_request(arguments):
    """Return the EvaluationRequest for the arguments of the command line, a dict.

    Raise ValueError for options that cannot be combined.
    """
    if "captions" in arguments:
        _check_fits_captions(arguments)
    files, workers, fields, options = parted(arguments, FILES, WORKERS, (*DATA, *CAPTIONER, *BOXES))
    request = EvaluationRequest(files=files, workers=workers, options=options, **fields)
    _check_boxes(request)
    measures_maps = request.grounding or "faithfulness" in options
    if "map_kind" in fields and not measures_maps:
        reject_alone("map_kind", "grounding")
    if "pixel_photos" in options and "faithfulness" not in options:
        reject_alone("pixel_photos", "faithfulness")
    check_workers(workers)
    return request


def _check_fits_captions(arguments):
    others = [name for name in arguments if name not in ALLOWED_WITH_CAPTIONS]
    if others:
        flag = "--model" if others[0] == "models" else flag_of(others[0])
        raise ValueError(f"--captions scores existing captions and cannot be combined with {flag}.")


def _check_boxes(request):
    """Raise ValueError if there are boxes without a measure on them, or the reverse."""
    grounds_photos = request.grounding and request.data != "scenes"
    needs_boxes = grounds_photos or request.regions
    can_use_boxes = request.grounding or request.regions
    has_boxes = request.boxes is not None
    if (needs_boxes and not has_boxes) or (has_boxes and not can_use_boxes):
        raise ValueError(
            "Pass --boxes with --grounding or --regions; only --grounding with --data "
            "scenes needs none."
        )


# === Scoring ===


def _score_captioner(request):
    """Return the ScoreTable of a captioner."""
    from keras_sat.measuring import evaluate
    from keras_sat.scale import load_models

    models = models_or_default(request.models, request.data)
    captioner = load_models(models, request.encoder_weights)
    if request.workers:
        captioner = _distributed(captioner, models, request)
    return evaluate(
        captioner,
        request.data,
        cache=request.cache_dir,
        boxes=request.boxes,
        regions=request.regions,
        map_kind=request.map_kind,
        keep_results="gallery" in request.files or request.grounds_scenes,
        **request.options,
    )


def _distributed(captioner, models, request):
    """Return a captioner whose captions are made on a Ray cluster."""
    from keras_sat.scale import DistributedCaptioner, Workers, loading

    load = loading(models, request.encoder_weights)
    return DistributedCaptioner(captioner, load, Workers(**request.workers))


def _ground_scenes(table, map_kind):
    """Print how much of the maps is on the objects that captions of scenes name, and
    add it to the table.
    """
    from keras_sat.measuring import ground_scenes

    grounding = ground_scenes(table.images, table.results, word_classes=None, map_kind=map_kind)
    print(f"\n{grounding}")
    table.statistics["grounding"] = grounding.to_dict()


# === Writing files ===


def _write(table, files):
    if "json" in files:
        table.to_json(files["json"])
    if "csv" in files:
        table.to_csv(files["csv"])
    if "averages_csv" in files:
        table.averages_to_csv(files["averages_csv"])
    if "latex" in files:
        table.to_latex(files["latex"])
    if "coco_results" in files:
        table.to_coco_results(files["coco_results"])
    if "gallery" in files:
        print(f"gallery: {visible(_write_gallery(table, files['gallery']))}")


def _write_gallery(table, path):
    """Write a page with the captions of all photos; return its path."""
    from keras_sat.looking import gallery
    from keras_sat.measuring import NUM_REFERENCES

    return gallery(
        table.results,
        path,
        images=[image.image_path for image in table.images],
        names=[image.image_id for image in table.images],
        references=[image.captions[:NUM_REFERENCES] for image in table.images],
        title=f"Captions of {table.settings['data']}, split {table.settings['split']}",
    )
