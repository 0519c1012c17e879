"""Which encoder? A short training for each, on frozen features and trained along, on the usual grid and a finer one.

    python benchmarks/flickr8k/encoders.py flickr8k runs/encoders --weights DIR --boxes flickr8k_boxes.json
    python benchmarks/flickr8k/encoders.py flickr8k runs/encoders --weights DIR --boxes flickr8k_boxes.json --speed

DIR holds mobilenet_v2_notop.weights.h5, efficientnet_lite0_imagenet.npz and efficientnet_lite2_imagenet.npz. Killed and
called again, it resumes. Printed are, as a table in Markdown, the scores of dev of the best epoch; where the maps of
people's captions lie, on the boxes that people drew for their phrases; and with `--speed`, on a machine that does
nothing else, photos encoded in a second.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np

import keras_sat
from data_utils import load_image, photos_of_split, tokenise
from data_utils.batches import inputs_and_targets
from data_utils.datasets.read import read_data
from keras_sat.model.encoders import make_encoder
from keras_sat.presets import PRESETS
from keras_sat.scoring.grounding import centred_map

WEIGHTS = {
    "mobilenet_v2": "mobilenet_v2_notop.weights.h5",
    "efficientnet_lite0": "efficientnet_lite0_imagenet.npz",
    "efficientnet_lite2": "efficientnet_lite2_imagenet.npz",
}
SMALL = {"hidden_dim": 256, "embedding_dim": 256, "attention_dim": 256, "feature_projection_dim": 256}
TRAINING = {"epochs": 4, "num_views": 1, "patience": None, "dtype": "mixed_bfloat16", "image_size": 224}
KINDS = {
    "frozen": {},
    "fine-tuned": {"encoder_training": "fine-tuned", "encoder_rate": 0.1, "first_layer_rate": 0.1},
}
GRIDS = ("7x7", "14x14")
# Words of a phrase that name nothing.
EMPTY = {"a", "an", "the", "his", "her", "their", "its", "some", "this", "that", "another", "other", "many", "several"}
EMPTY |= {"one", "two", "three", "four", "five"}


def captioner_of(name, kind, grid, arguments):
    """Return the trained captioner of a row, from the folder of its training where it has one."""
    options = {**PRESETS["flickr8k"], **SMALL, **TRAINING, **KINDS[kind]}
    return keras_sat.fit(
        "flickr8k",
        data_dir=arguments.data_dir,
        encoder=name,
        encoder_weights=arguments.weights / WEIGHTS[name],
        grid=grid,
        cache_dir=arguments.output_dir / f"features-{name}-{grid}",
        output_dir=arguments.output_dir / f"{name}-{kind}-{grid}",
        **options,
    )


def looking(captioner, images, boxes):
    """Return {"all" or "small": (mass, pointing, even mass, even pointing, ...)} of captions that people wrote.

    Args:
        captioner: Captioner.
        images: list of CaptionedImage.
        boxes: dict from file names to what is known of a photo's phrases.
    """
    rows = {"all": [], "small": []}
    for image in images:
        known = boxes.get(Path(image.image_path).name)
        if known is None or not known["size_known"]:
            continue
        words = tokenise(image.captions[known["caption"]])
        photo = load_image(image.image_path, captioner.photo_encoder.photo_size)[None]
        ids, *_ = inputs_and_targets([captioner.vocabulary.caption_to_ids(" ".join(words))], captioner.vocabulary)
        maps = np.asarray(captioner((photo, ids)).attention_weights)[0].reshape(-1, *captioner.rows_and_columns())
        for phrase in known["phrases"]:
            its_words = tokenise(phrase["phrase"])
            content = [number for number, word in enumerate(its_words) if word not in EMPTY]
            first = phrase["first_word"]
            if not content or words[first : first + len(its_words)] != its_words:
                continue
            covered = covered_share(phrase["boxes"], maps.shape[1:])
            even = np.full(covered.shape, 1 / covered.size)
            figures = [met(one, covered) for one in (maps[first + content[-1]], even, centred_map(covered.shape))]
            rows["all"].append(np.ravel(figures))
            if covered.mean() < 0.25:
                rows["small"].append(np.ravel(figures))
    return {name: np.mean(figures, axis=0) for name, figures in rows.items()} | {"phrases": len(rows["all"])}


def covered_share(boxes, grid):
    """Return how much of each cell of a grid boxes cover together, each as shares (left, top, right, bottom)."""
    fine = 16  # points of a cell each way
    down, across = ((np.arange(side * fine) + 0.5) / (side * fine) for side in grid)
    inside = np.zeros((len(down), len(across)), bool)
    for left, top, right, bottom in boxes:
        inside |= ((top <= down) & (down < bottom))[:, None] & (left <= across) & (across < right)
    return inside.reshape(grid[0], fine, grid[1], fine).mean(axis=(1, 3))


def met(attention_map, covered):
    """Return (share of the map on what is covered, whether its greatest cells are covered by half or more)."""
    peaks = attention_map >= attention_map.max() * (1 - 1e-9)
    return (attention_map * covered).sum(), (covered[peaks] >= 0.5).mean()


def speed(name, grid, arguments, rounds=7, batch_size=32):
    """Return photos encoded in a second: the median of some rounds."""
    encoder = make_encoder(name, weights=arguments.weights / WEIGHTS[name], grid=grid, image_size=224)
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
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--only", nargs="+", default=[f"{kind}-{grid}" for kind in KINDS for grid in GRIDS])
    arguments = parser.parse_args()
    boxes = json.loads(arguments.boxes.read_text())
    dev = photos_of_split(read_data("flickr8k", arguments.data_dir), "dev")
    for kind in KINDS:
        for grid in GRIDS:
            for name in WEIGHTS:
                if f"{kind}-{grid}" not in arguments.only:
                    continue
                if arguments.speed:
                    if kind == "frozen":  # the encoder is the same one
                        print(f"{name} {grid}: {speed(name, grid, arguments):.0f} photos/s", flush=True)
                    continue
                captioner = captioner_of(name, kind, grid, arguments)
                table = keras_sat.evaluate(captioner, dev, split="dev", num_beams=3, length_penalty=0.5)
                found = looking(captioner, dev, boxes)
                scores = (
                    f"{100 * table.scores['bleu_4']:.1f} | {table.scores['meteor']:.3f} | {table.scores['cider']:.3f}"
                )
                where = " | ".join(f"{figure:.3f}" for size in ("all", "small") for figure in found[size][:2])
                print(f"| {name} | {kind} | {grid} | {scores} | {where} | {found['phrases']}", flush=True)
                print(f"even and middle: {found['all'][2:]}, small {found['small'][2:]}", flush=True)


if __name__ == "__main__":
    main()
