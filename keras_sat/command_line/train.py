"""The commands `demo`, `fit` and `features`: train captioners, and encode their photos.

Dependencies are imported where they are used, which keeps `--help` fast.
"""

import sys

from data_utils.foreign_text import visible
from keras_sat.command_line.option_groups import WORKERS, check_workers, parted, reject_alone
from keras_sat.options import SelfCriticalOptions, count
from keras_sat.presets import LIGHT_ENCODER, WITHOUT_GPU, default_encoder

CACHE_OPTIONS = ("batch_size", "verify")  # the other options of `features` are the encoder's


def run_demo(**options):
    """Train on the built-in scenes, see `keras_sat.command_line.demo`."""
    from keras_sat.command_line.demo import run_demo

    run_demo(**options)


def run_fit(data, gpus=None, hosts=False, **options):
    """Train a captioner with the given options."""
    epochs, *settings = SelfCriticalOptions.names()
    for name in settings:
        if name in options and not options.get(epochs):
            reject_alone(name, epochs)
    if hosts or gpus is not None:  # first: hosts can only be connected before TensorFlow computes
        from keras_sat.training.distributed import several_gpus, several_hosts

        options["strategy"] = several_hosts() if hosts else several_gpus(gpus)
    from keras_sat.training.recipe import fit

    captioner = fit(data, **options)
    if not captioner.history and captioner.history.was_interrupted:
        raise KeyboardInterrupt(
            "no epoch was completed. Run the same command to start again; features are kept."
        )


def run_features(data, cache_dir, data_dir=None, split_seed=None, skip_unreadable=False, **options):
    """Build the feature cache of a data set."""
    from data_utils.datasets.read import read_data
    from data_utils.features.cache import FeatureCache
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
        encoder = default_encoder(data)
        if encoder == LIGHT_ENCODER:
            print(f"keras-sat: {WITHOUT_GPU}", file=sys.stderr)
        encoder_options = {**encoder_options, "encoder": encoder}
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
    from keras_sat.deploy.ray_data import Workers, encoding_on

    block_options, worker_options = parted(workers, ["part_size"])
    return encoding_on(Workers(**worker_options), encoder_options, **block_options)
