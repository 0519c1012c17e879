"""How stable are a captioner's captions? `python benchmarks/flickr8k/stability.py
FLICKR8K MODEL`.

The dev photos are captioned as they are, with invisible noise, and in two other sizes.
Prints for each the fraction of photos whose caption stays the same word for word, and
CIDEr.
"""

import argparse

import numpy as np
from PIL import Image

from data_utils import DATASETS, photos_of_split
from keras_sat.captioner import Captioner
from keras_sat.measuring import cider

NOISE = 2.0  # standard deviation, of 255 grey levels


def changed(photo, rng):
    """Return a photo, (height, width, 3) of uint8, unchanged and changed: dict of
    arrays by the name of the change.
    """
    noise = rng.normal(0, NOISE, photo.shape)
    height, width = photo.shape[:2]
    sizes = {
        f"{scale:.0%} of the size": (round(scale * width), round(scale * height))
        for scale in (0.7, 1.5)
    }
    resized = {
        name: np.asarray(Image.fromarray(photo).resize(size)) for name, size in sizes.items()
    }
    noisy = np.round(photo + noise).clip(0, 255).astype(np.uint8)
    return {"as they are": photo, f"noise of {NOISE:.0f} grey levels": noisy, **resized}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data_dir")
    parser.add_argument("model")
    parser.add_argument("--encoder-weights")
    parser.add_argument("--photos", type=int, default=1000)
    arguments = parser.parse_args()
    photos = photos_of_split(DATASETS["flickr8k"](arguments.data_dir), "dev")[: arguments.photos]
    captioner = Captioner.from_pretrained(
        arguments.model, encoder_weights=arguments.encoder_weights
    )
    references = [image.captions for image in photos]
    rng = np.random.default_rng(0)
    pictures = {}
    for image in photos:
        for name, picture in changed(
            np.asarray(Image.open(image.image_path).convert("RGB")), rng
        ).items():
            pictures.setdefault(name, []).append(picture)
    captions = {
        name: [result.caption for result in captioner.caption(some)]
        for name, some in pictures.items()
    }
    print("| photos | captions that stay the same | CIDEr |\n|---|---|---|")
    for name, said in captions.items():
        same = np.mean([one == other for one, other in zip(said, captions["as they are"])])
        print(f"| {name} | {same:.1%} | {cider(references, said)['cider']:.3f} |")


if __name__ == "__main__":
    main()
