"""Made by docs/make_stubs.py: where the exported names are."""

from keras_sat.scale.ray_data import DistributedCaptioner as DistributedCaptioner
from keras_sat.scale.ray_data import distributed_caption as distributed_caption
from keras_sat.scale.ray_data import encoding_on as encoding_on
from keras_sat.scale.ray_data import load_models as load_models
from keras_sat.scale.ray_data import loading as loading
from keras_sat.scale.ray_data import write_captions as write_captions
from keras_sat.scale.ray_workers import Workers as Workers

__all__ = [
    "DistributedCaptioner",
    "Workers",
    "distributed_caption",
    "encoding_on",
    "load_models",
    "loading",
    "write_captions",
]
