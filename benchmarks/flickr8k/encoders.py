"""Which encoder? A short training for each, frozen and fine-tuned, on the default grid
and a finer one.

Each trains a small captioner on half of the photos: this compares encoders, not
captioners.

    python encoders.py FLICKR8K RUNS --weights DIR --boxes BOXES
    python encoders.py FLICKR8K RUNS --weights DIR --boxes BOXES --speed

DIR holds mobilenet_v2_notop.weights.h5, efficientnet_lite0_imagenet.npz and
efficientnet_lite2_imagenet.npz. Killed and run again, it resumes. Prints a table in
Markdown: the dev scores of the best epoch, and how well the maps of people's captions
fit the boxes that people drew for their phrases. `--speed` prints photos encoded in a
second instead.
"""

import argparse
import dataclasses
import statistics
import time
from pathlib import Path

import numpy as np

import keras_sat
from data_utils import photos_of_split
from data_utils.datasets import read_boxes, read_data
from keras_sat.network import make_encoder
from keras_sat.presets import PRESETS

WEIGHTS = {
    "mobilenet_v2": "mobilenet_v2_notop.weights.h5",
    "efficientnet_lite0": "efficientnet_lite0_imagenet.npz",
    "efficientnet_lite2": "efficientnet_lite2_imagenet.npz",
}
SMALL = {
    "hidden_dim": 256,
    "embedding_dim": 256,
    "attention_dim": 256,
    "feature_projection_dim": 256,
}
TRAINING = {
    "epochs": 4,
    "num_views": 1,
    "patience": None,
    "dtype": "mixed_bfloat16",
    "image_size": 224,
}
KINDS = {
    "frozen": {},
    "fine-tuned": {"encoder_training": "fine-tuned", "encoder_rate": 0.1, "first_layer_rate": 0.1},
}
GRIDS = ("7x7", "14x14")


def with_fewer_to_train_on(images, count):
    """Return the photos with only the first `count` of the training split."""
    kept = {image.image_id for image in photos_of_split(images, "train")[:count]}
    return [
        image
        if image.split != "train" or image.image_id in kept
        else dataclasses.replace(image, split=None)
        for image in images
    ]


def captioner_of(name, kind, grid, images, arguments):
    """Return the trained captioner of a row.

    A training that is complete is only loaded.
    """
    options = {**PRESETS["flickr8k"], **SMALL, **TRAINING, **KINDS[kind]}
    return keras_sat.fit(
        images,
        encoder=name,
        encoder_weights=arguments.weights / WEIGHTS[name],
        grid=grid,
        cache_dir=arguments.output_dir / f"features-{name}-{grid}",
        output_dir=arguments.output_dir / f"{name}-{kind}-{grid}",
        **options,
    )


def speed(name, grid, arguments, rounds=7, batch_size=32):
    """Return photos encoded in a second: the median of some rounds."""
    encoder = make_encoder(
        name, weights=arguments.weights / WEIGHTS[name], grid=grid, image_size=224
    )
    photos = np.random.default_rng(0).integers(0, 256, (batch_size, 224, 224, 3)).astype(np.float32)
    seconds = []
    for _ in range(rounds + 2):
        before = time.perf_counter()
        encoder.predict_on_batch(photos)
        seconds.append(time.perf_counter() - before)
    return batch_size / statistics.median(seconds[2:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("output_dir", type=Path)
    parser.add_argument("--weights", type=Path, required=True, metavar="DIR")
    parser.add_argument("--boxes", type=Path, required=True)
    parser.add_argument(
        "--photos", type=int, default=3000, help="number to train on; default: 3000"
    )
    parser.add_argument("--speed", action="store_true")
    parser.add_argument(
        "--only", nargs="+", default=[f"{kind}-{grid}" for kind in KINDS for grid in GRIDS]
    )
    arguments = parser.parse_args()
    images = with_fewer_to_train_on(read_data("flickr8k", arguments.data_dir), arguments.photos)
    dev = photos_of_split(images, "dev")
    boxes = read_boxes(arguments.boxes, dev)
    for kind in KINDS:
        for grid in GRIDS:
            for name in WEIGHTS:
                if f"{kind}-{grid}" not in arguments.only:
                    continue
                if arguments.speed:
                    if kind == "frozen":  # fine-tuned, it is the same network
                        print(
                            f"{name} {grid}: {speed(name, grid, arguments):.0f} photos/s",
                            flush=True,
                        )
                    continue
                captioner = captioner_of(name, kind, grid, images, arguments)
                table = keras_sat.evaluate(
                    captioner, dev, split="dev", num_beams=3, length_penalty=0.5, boxes=boxes
                )
                bleu_4, meteor, cider = (
                    table.scores[score] for score in ("bleu_4", "meteor", "cider")
                )
                scores = f"{100 * bleu_4:.1f} | {meteor:.3f} | {cider:.3f}"
                sizes = (table.grounding, table.grounding["small"])
                where = " | ".join(
                    f"{figures[what]:.3f}" for figures in sizes for what in ("mass", "pointing")
                )
                print(f"| {name} | {kind} | {grid} | {scores} | {where} |", flush=True)


if __name__ == "__main__":
    main()
