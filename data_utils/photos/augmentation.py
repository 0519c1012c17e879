"""Augment photos by varying resolution and lighting and adding noise.

Geometric changes are in `data_utils.photos.views`.
"""

import numpy as np
from PIL import Image

# Smallest fraction of its size to which a photo is shrunk before it is enlarged again.
SMALLEST = 0.5
FILTERS = (
    Image.Resampling.BOX,
    Image.Resampling.BILINEAR,
    Image.Resampling.BICUBIC,
    Image.Resampling.LANCZOS,
)
MOST_NOISE = 5.0  # standard deviation, in grey levels 0..255
MOST_LIGHT = 0.15  # relative change of brightness, colour channels and contrast


def jittered(photo, chance, strength=1.0):
    """Apply random blur, light and noise to a uint8 photo (height, width, 3); `chance`
    is a numpy Generator.
    """
    height, width, _ = photo.shape
    fraction = 1 - strength * (1 - SMALLEST) * chance.uniform()
    smaller = max(1, round(fraction * width)), max(1, round(fraction * height))
    down, up = (FILTERS[number] for number in chance.integers(len(FILTERS), size=2))
    pixels = np.asarray(
        Image.fromarray(photo).resize(smaller, down).resize((width, height), up), np.float32
    )
    contrast, *light = 1 + strength * MOST_LIGHT * chance.uniform(-1, 1, 5)
    pixels = (pixels - 127.5) * np.float32(contrast) + 127.5
    pixels = pixels * np.float32(light[0]) * np.asarray(light[1:], np.float32) ** 0.5
    noise = np.float32(strength * MOST_NOISE * chance.uniform())
    pixels = pixels + noise * chance.standard_normal(photo.shape, dtype=np.float32)
    return np.rint(pixels).clip(0, 255).astype(np.uint8)
