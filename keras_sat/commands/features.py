"""The command `features`: encode the photos of a data set once.

Dependencies are imported where they are used, which keeps `--help` fast.
"""

import sys

from data_utils.base import visible
from keras_sat.bounds import count
from keras_sat.commands.flags import add_data, add_options, add_ray, add_switches
from keras_sat.commands.option_groups import WORKERS, check_workers, parted
from keras_sat.presets import default_encoder
from keras_sat.settings import Encoder, FitSettings

DESCRIPTION = (
    "Encode the photos of a data set once and keep their features. If killed, it resumes "
    "when run again."
)
CACHE_OPTIONS = ("batch_size", "verify")  # the other options of `features` are the encoder's


def add_arguments(parser):
    add_data(parser, needs_cache=True)
    add_options(parser, FitSettings, *Encoder.feature_names())
    add_ray(parser, part_size=True)
    parser.add_argument("--batch-size", type=int, metavar="N", help="photos per batch; default: 32")
    add_switches(parser, verify="check all stored features, and repair damaged ones")


def run(data, cache_dir, data_dir=None, split_seed=None, skip_unreadable=False, **options):
    """Build the feature cache of a data set."""
    from data_utils.datasets import read_data
    from data_utils.features import FeatureCache
    from keras_sat.captioner import Captioner

    cache_options, workers, encoder_options = parted(options, CACHE_OPTIONS, WORKERS)
    check_workers(workers)
    count().check("batch_size", cache_options.get("batch_size", 32))
    encoder_options = _with_encoder(encoder_options, data)
    images = read_data(data, data_dir, split_seed=split_seed)
    if workers:
        cache_options["encode_rows"] = _distributed_encoding(workers, encoder_options)
    cache = FeatureCache.build(
        cache_dir,
        [image.image_id for image in images],
        [image.image_path for image in images],
        Captioner(["a"], **encoder_options).encoder_model,
        errors="skip" if skip_unreadable else "raise",
        **cache_options,
    )
    rows, columns = cache.grid_shape
    print(
        f"{visible(cache.directory)}: {len(cache)} photos, {rows} x {columns} x "
        f"{cache.feature_dim} each"
    )
    for reason in cache.unreadable.values():
        print(f"left out: {visible(reason)}", file=sys.stderr)


def _with_encoder(encoder_options, data):
    """Return the options of an encoder, by default the one for the data set."""
    if "encoder" not in encoder_options:
        encoder_options = {**encoder_options, "encoder": default_encoder(data)}
    if encoder_options["encoder"] == "tiny" and "encoder_weights" not in encoder_options:
        raise ValueError(
            "The features of an untrained `tiny` encoder are useless. Pass trained weights as "
            "--encoder-weights, or choose another --encoder."
        )
    return encoder_options


def _distributed_encoding(workers, encoder_options):
    """Return the function with which `FeatureCache.build` encodes photos on a Ray
    cluster.
    """
    from keras_sat.scale import Workers, encoding_on

    block_options, worker_options = parted(workers, ["part_size"])
    return encoding_on(Workers(**worker_options), encoder_options, **block_options)
