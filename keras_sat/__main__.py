"""The command line: `python -m keras_sat COMMAND`, installed as `keras-sat`.

TensorFlow is imported by the commands that compute, so that help answers at once. Bad use and bad input end in one
line on standard error and exit status 2.
"""

import argparse
import sys
import warnings
from pathlib import Path

import keras_sat
from data_utils.datasets import DATASETS

ENCODER_NAMES = ("vgg16", "vgg19", "resnet50", "mobilenet_v2", "efficientnet_b0", "tiny")


def build_parser():
    parser = argparse.ArgumentParser(
        prog="keras-sat", description="Show, Attend and Tell: train an image captioner and look into it."
    )
    parser.add_argument("--version", action="version", version=f"keras-sat {keras_sat.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    features = commands.add_parser(
        "features",
        help="encode the photos of a data set once and keep their features",
        description="Encode the photos of a data set once and keep their features. Killed and run again, it goes on.",
    )
    features.add_argument("--data", required=True, choices=list(DATASETS), help="which data set")
    features.add_argument("--data-dir", required=True, help="the folder with its photos and captions")
    features.add_argument("--split-seed", type=int, help="draw a split by photo with this seed")
    features.add_argument("--encoder", default="vgg16", choices=ENCODER_NAMES, help="default: vgg16")
    features.add_argument("--encoder-layer", help="the layer whose grid is kept; default: the encoder's usual one")
    features.add_argument("--encoder-weights", help="a weights file to use instead of the download")
    features.add_argument("--image-size", type=int, help="side of the square that photos are stretched to")
    features.add_argument("--cache-dir", required=True, help="the folder for the features")
    features.add_argument("--batch-size", type=int, default=32, help="photos encoded together; default: 32")
    features.add_argument("--skip-unreadable", action="store_true", help="leave out photos that cannot be read")
    features.add_argument("--verify", action="store_true", help="read all rows again and mend damaged ones")
    features.set_defaults(run=run_features)

    info = commands.add_parser("info", help="print versions and devices: what a bug report needs")
    info.set_defaults(run=run_info)
    return parser


def run_features(arguments):
    """Build the feature cache of a data set."""
    from data_utils.feature_cache import FeatureCache
    from keras_sat.encoders import ENCODERS

    if arguments.encoder == "tiny" and arguments.encoder_weights is None:
        raise ValueError(
            "`tiny` is trained along with the decoder, and its features before that are worth nothing. Pass the "
            "weights of a trained one as --encoder-weights, or choose another encoder. Received: --encoder tiny"
        )
    options = {} if arguments.split_seed is None else {"split_seed": arguments.split_seed}
    if arguments.data == "scenes" and options:
        raise ValueError("The built-in scenes have their splits. Received: --split-seed")
    captioned_images = DATASETS[arguments.data](arguments.data_dir, **options)
    chosen = {
        "layer": arguments.encoder_layer,
        "weights": arguments.encoder_weights,
        "image_size": arguments.image_size,
    }
    encoder = ENCODERS[arguments.encoder](**{name: value for name, value in chosen.items() if value is not None})
    cache = FeatureCache.build(
        arguments.cache_dir,
        [image.image_id for image in captioned_images],
        [image.image_path for image in captioned_images],
        encoder,
        batch_size=arguments.batch_size,
        errors="skip" if arguments.skip_unreadable else "raise",
        verify=arguments.verify,
    )
    rows, columns = cache.grid_shape
    print(f"{cache.directory}: {len(cache)} photos, {rows} x {columns} x {cache.feature_dim} each")
    for reason in cache.unreadable.values():
        print(f"left out: {reason}", file=sys.stderr)


def run_info(arguments):
    """Print what a bug report needs."""
    import os
    import platform
    from importlib.metadata import version

    print(f"keras_sat {keras_sat.__version__} in {Path(__file__).parent}")
    print(f"Python {platform.python_version()} on {platform.platform()}")
    for package in ("tensorflow", "keras", "numpy", "pillow", "matplotlib", "nltk"):
        print(f"{package} {version(package)}")
    import tensorflow as tf

    devices = [device.name for device in tf.config.list_physical_devices()]
    print(f"devices: {', '.join(devices)}; {os.cpu_count()} CPU cores")
    folder = Path(os.environ.get("KERAS_HOME", "~/.keras")).expanduser() / "models"
    weights = sorted(path.name for path in folder.glob("*.h5")) if folder.is_dir() else []
    print(f"encoder weights in {folder}: {', '.join(weights) or 'none'}")


def main(argv=None):
    """Run a command; return the exit status."""
    arguments = build_parser().parse_args(argv)
    warnings.showwarning = _show_warning
    try:
        arguments.run(arguments)
    except (ValueError, OSError) as error:
        print(f"keras-sat: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("keras-sat: stopped; run the same command again to go on.", file=sys.stderr)
        return 130
    return 0


def _show_warning(message, category, filename, lineno, file=None, line=None):
    print(f"keras-sat: {message}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
