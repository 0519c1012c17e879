"""Photos made strange, on which a captioner should be less sure of itself."""

import numpy as np
from PIL import Image, ImageDraw

from data_utils.scenes import draw_scenes

FRACTIONS = (0.3, 0.6)  # of a photo's sides that a cut shows
TINTS = (0.3, 1.7)  # factors of red, green and blue


def cut(photo, generator):
    """Return a part of a photo, uint8 (height, width, 3), in its size."""
    height, width, _ = photo.shape
    fraction = generator.uniform(*FRACTIONS)
    top, left = (generator.uniform(0, 1 - fraction) * side for side in (height, width))
    box = (left, top, left + fraction * width, top + fraction * height)
    part = Image.fromarray(photo).crop([int(side) for side in box])
    return np.asarray(part.resize((width, height), Image.Resampling.BILINEAR))


def recoloured(photo, generator):
    """Return a photo with swapped or inverted colours, without colours, or tinted."""
    way = generator.integers(4)
    if way == 0:
        return np.roll(photo, generator.integers(1, 3), axis=-1)
    if way == 1:
        return 255 - photo
    if way == 2:
        return np.repeat(photo.mean(axis=-1, keepdims=True).astype(np.uint8), 3, axis=-1)
    return (photo * generator.uniform(*TINTS, 3)).clip(0, 255).astype(np.uint8)


def scene(size, seed):
    """Return a synthetic scene with shapes, uint8 (height, width, 3)."""
    (drawn,) = draw_scenes(1, seed)
    return np.asarray(Image.fromarray(drawn.image).resize(size[::-1], Image.Resampling.BILINEAR))


def texture(size, generator):
    """Return what is no photo, uint8 (height, width, 3): noise, blots, a gradient, a
    page of text, discs or waves.
    """
    height, width = size
    way = generator.integers(6)
    if way == 0:
        return generator.integers(0, 256, (height, width, 3)).astype(np.uint8)
    if way == 1:
        blots = generator.integers(0, 256, (*generator.integers(3, 30, 2), 3)).astype(np.uint8)
        return np.asarray(Image.fromarray(blots).resize((width, height), Image.Resampling.BILINEAR))
    if way == 2:
        start, end = generator.integers(0, 256, (2, 1, 1, 3))
        share = np.linspace(0, 1, width)[None, :, None]
        return np.repeat((start * (1 - share) + end * share).astype(np.uint8), height, axis=0)
    if way == 5:
        rows, columns = np.mgrid[:height, :width]
        across, down = generator.uniform(0.05, 0.6, 2)
        waves = 128 + 60 * (np.sin(across * columns) + np.sin(down * rows))
        return np.repeat(waves.clip(0, 255).astype(np.uint8)[..., None], 3, axis=-1)
    picture = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(picture)
    if way == 3:
        for top in range(8, height - 8, 12):
            letters = generator.integers(97, 123, 34)
            spaces = generator.random(34) < 0.18
            line = "".join(" " if space else chr(n) for n, space in zip(letters, spaces))
            draw.text((6, top), line, fill="black")
    else:
        for _ in range(12):
            x, y, radius = (int(generator.integers(n)) for n in (width, height, max(width // 3, 1)))
            colour = tuple(map(int, generator.integers(0, 256, 3)))
            draw.ellipse([x - radius, y - radius, x + radius, y + radius], fill=colour)
    return np.asarray(picture)
