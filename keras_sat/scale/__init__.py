"""Photos on many machines, with Ray."""

from data_utils.base import attach_lazily

NAMES_BY_MODULE = {
    "ray_data": [
        "DistributedCaptioner",
        "distributed_caption",
        "encoding_on",
        "load_models",
        "loading",
        "write_captions",
    ],
    "ray_workers": ["Workers"],
}

__getattr__, __dir__, __all__ = attach_lazily(__name__, NAMES_BY_MODULE)
