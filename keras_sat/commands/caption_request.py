"""What the command `caption` is asked to do: its options, by what they belong to, and
which of them can be combined.
"""

from dataclasses import dataclass, field

from keras_sat.bounds import probability
from keras_sat.commands.flags import flag_of
from keras_sat.commands.option_groups import WORKERS, check_workers, parted, reject_alone
from keras_sat.settings import ALGORITHM_OPTIONS, BeamSearch

# Which options belong to what; the others are fields of CaptionRequest themselves.
SEARCH = (*BeamSearch.names(), "num_results")
MAPS = ("plot", "html", "gif", "gallery")
DRAWINGS = (*MAPS, "trace")
STYLE = ("words", "width", "shares", "plot_format", "map_kind")
FILES = ("text_files", "csv", "metadata", "overwrite")
# The drawings in MAPS that each option of STYLE is about.
STYLED_DRAWINGS = {
    "words": ("plot", "gif"),
    "width": ("plot",),
    "shares": ("plot",),
    "plot_format": ("plot",),
    "map_kind": MAPS,
}
# What can be combined with --ray.
ALLOWED_WITH_RAY = (
    "images",
    "recursive",
    "models",
    "encoder_weights",
    *ALGORITHM_OPTIONS,
    *WORKERS,
)


@dataclass(frozen=True, kw_only=True)
class CaptionRequest:
    """What `keras-sat caption` is asked to do.

    Attributes:
        images, recursive: pictures, folders and patterns, and whether subfolders count.
        models, encoder_weights: the captioner. Several models form an
            ensemble; None is the bundled one.
        regions: list of the parts of each picture to caption; empty for whole
            pictures.
        say: a caption that is used in place of the captioner's, or None.
        json, maps, min_confidence: what is printed.
        search: dict of the options in SEARCH that were passed.
        drawings: dict from DRAWINGS to files or folders.
        style: dict of the options in STYLE.
        files: dict of the options in FILES.
        workers: dict of the options in WORKERS.
    """

    images: list
    recursive: bool = False
    models: list | None = None
    encoder_weights: str | None = None
    regions: list = field(default_factory=list)
    say: str | None = None
    json: bool = False
    maps: bool = False
    min_confidence: float | None = None
    search: dict = field(default_factory=dict)
    drawings: dict = field(default_factory=dict)
    style: dict = field(default_factory=dict)
    files: dict = field(default_factory=dict)
    workers: dict = field(default_factory=dict)

    @property
    def votes(self):
        """Whether the votes of regions are drawn, or printed with --maps."""
        return self.style.get("map_kind") == "votes"


def read_request(arguments):
    """Return the CaptionRequest for the arguments of the command line, a dict.

    Raise ValueError for options that cannot be combined.
    """
    groups = parted(arguments, SEARCH, DRAWINGS, STYLE, FILES, WORKERS)
    search, drawings, style, files, workers, others = groups
    check_workers(workers)
    if workers:
        _check_workers_can_do(arguments)
    else:
        others["regions"] = _read_regions(others.pop("region", []))
    request = CaptionRequest(
        search=search, drawings=drawings, style=style, files=files, workers=workers, **others
    )
    _check_style(request)
    _check_votes(request)
    _check_trace(request)
    _check_printing(request)
    _check_say(request)
    _check_regions(request)
    return request


def _check_workers_can_do(arguments):
    others = [name for name in arguments if name not in ALLOWED_WITH_RAY]
    if others:
        raise ValueError(f"{flag_of(others[0])} cannot be combined with --ray.")
    if "output" not in arguments:
        raise ValueError("Pass the folder for the captions as --output.")


def _read_regions(texts):
    """Read regions, each written as "left,top,right,bottom"."""
    from data_utils.photos import checked_region

    return [checked_region(text.split(",")) for text in texts]


def _check_style(request):
    for name in request.style:
        is_printed = name == "map_kind" and request.maps
        is_drawn = any(drawing in request.drawings for drawing in STYLED_DRAWINGS[name])
        if not is_printed and not is_drawn:
            reject_alone(name, "plot")


def _check_votes(request):
    if request.votes and len(request.models or ()) > 1:
        raise ValueError("--map-kind votes requires a single model. Pass one --model.")


def _check_trace(request):
    if "trace" not in request.drawings:
        return
    if len(request.models or ()) > 1:
        raise ValueError("--trace requires a single model. Pass one --model.")
    if request.regions:
        raise ValueError("--trace shows the caption of a whole photo: leave out --region.")


def _check_printing(request):
    if request.maps and not request.json:
        raise ValueError("--maps requires --json. To draw the maps, use --plot.")
    if request.min_confidence is not None:
        probability.check("min_confidence", request.min_confidence)


def _check_say(request):
    if request.say is None:
        return
    others = [*request.search, *request.files]
    if request.regions:
        others.append("region")
    if request.min_confidence is not None:
        others.append("min_confidence")
    if others:
        flag = flag_of(others[0])
        raise ValueError(
            f"{flag} has no effect with --say, which gives the caption. Received: --say with {flag}"
        )


def _check_regions(request):
    outputs = [*request.drawings, *request.files]
    if outputs and len(request.regions) > 1:
        raise ValueError(
            f"{flag_of(outputs[0])} takes one result for each picture: pass one --region."
        )
