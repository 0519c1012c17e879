"""Drawn scenes in the layout and the size of Flickr30k or COCO: `python
benchmarks/drawn_data_set.py flickr30k DIR`.

The photos are JPEG files of 500 x 375 under names as the data set has them, the
captions and splits a file as Karpathy published it. With this folder a preset can run
from the photos to the scores where the real data cannot be had. It takes the time,
memory and disk of the real photos, but for their larger files; the captioner that it
trains is useless. Killed and run again, it resumes.
"""

import argparse
import io
import json
from pathlib import Path

from PIL import Image

from data_utils import draw_scenes
from data_utils.base import Progress, write_whole

SIZE = (375, 500)  # height and width
DRAWN_AT_ONCE = 500
# How many photos Karpathy's file puts into each split; Flickr30k has 769 more, which it
# does not list.
SPLITS = {
    "flickr30k": {"train": 29_000, "val": 1_014, "test": 1_000, None: 769},
    "coco": {"train": 82_783, "restval": 30_504, "val": 5_000, "test": 5_000},
}


def layout(data, number, split):
    """Return the folder and the name of a photo."""
    if data == "flickr30k":
        return "flickr30k-images", f"{1_000_000_000 + number}.jpg"
    part = "train" if split == "train" else "val"
    return f"{part}2014", f"COCO_{part}2014_{number + 1:012d}.jpg"


def write_data_set(data, directory, fraction=1.0):
    """Write this fraction of the photos of a data set, and its captions.

    Photos that exist already stay.
    """
    splits = [
        split for split, count in SPLITS[data].items() for _ in range(round(fraction * count))
    ]
    entries = []
    with Progress(len(splits), label="photos drawn", unit="photos") as progress:
        for start in range(0, len(splits), DRAWN_AT_ONCE):
            of_batch = splits[start : start + DRAWN_AT_ONCE]
            for number, (scene, split) in enumerate(
                zip(draw_scenes(len(of_batch), start, SIZE), of_batch), start
            ):
                folder, name = layout(data, number, split)
                path = Path(directory) / folder / name
                if not path.exists():
                    content = io.BytesIO()
                    Image.fromarray(scene.image).save(content, format="JPEG", quality=85)
                    write_whole(path, content.getvalue())
                if split is not None:
                    sentences = [
                        {"raw": caption, "tokens": caption.split()} for caption in scene.captions
                    ]
                    place = {"filepath": folder} if data == "coco" else {}
                    entries.append(
                        {"filename": name, **place, "split": split, "sentences": sentences}
                    )
            progress.advance(len(of_batch))
    write_whole(
        Path(directory) / f"dataset_{data}.json", json.dumps({"images": entries, "dataset": data})
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", choices=list(SPLITS))
    parser.add_argument("directory")
    parser.add_argument(
        "--fraction", type=float, default=1.0, help="fraction of the photos; default: 1"
    )
    arguments = parser.parse_args()
    write_data_set(arguments.data, arguments.directory, arguments.fraction)
