"""The cartoon of attention: a GIF in which the caption appears word by word, while the light moves over the photo."""

import io
import unicodedata
from pathlib import Path

import numpy as np

from data_utils.files import write_whole

MOVES = 2  # pictures on the way from a word to the next
MOVE_SECONDS = 0.06
LAST_SECONDS = 2.0
MOST_SECONDS = 60  # GIF has room for 655
NO_NUMBER = (230, 0, 160)
INK, CURRENT, PAPER = (27, 27, 31), (29, 78, 216), (255, 255, 255)


def write_cartoon(path, image, words, maps, *, seconds_per_word, width, opacity):
    """Write the GIF.

    Args:
        path: of the file, ending in .gif.
        image: the photo, uint8 (height, width, 3).
        words: list of the caption's words.
        maps: list with a map (height, width) for each word, of the photo's size; NaN is marked.
        seconds_per_word: how long each word stays.
        width: of the picture in pixels.
        opacity: how dark a place becomes that was not looked at, from 0 to 1.
    """
    path = Path(path).expanduser()
    if path.suffix.lower() != ".gif":
        raise ValueError(f"Expected the name of a GIF, ending in .gif. Received: {str(path)!r}")
    if not 64 <= width <= 2000 or not MOVES * MOVE_SECONDS < seconds_per_word <= MOST_SECONDS:
        raise ValueError(
            f"Expected a width from 64 to 2000, and more than {MOVES * MOVE_SECONDS:.2f} seconds for a word, at most "
            f"{MOST_SECONDS}. Received: width={width}, seconds_per_word={seconds_per_word}"
        )
    draw = _Easel(image, words, round(width))
    pictures, seconds = [draw(image, 0)], [seconds_per_word]
    before = image
    for number, attention_map in enumerate(maps, start=1):
        lit = _lit(image, attention_map, opacity)
        for move in range(1, MOVES + 1):
            share = move / (MOVES + 1)
            pictures.append(draw(np.rint((1 - share) * before + share * lit).astype(np.uint8), number))
            seconds.append(MOVE_SECONDS)
        pictures.append(draw(lit, number))
        seconds.append(seconds_per_word - MOVES * MOVE_SECONDS)
        before = lit
    seconds[-1] = LAST_SECONDS
    file = io.BytesIO()
    first, *others = pictures
    durations = [round(1000 * value) for value in seconds]
    first.save(file, format="GIF", save_all=True, append_images=others, duration=durations, loop=0, disposal=1)
    write_whole(path, file.getvalue())


def _lit(image, attention_map, opacity):
    """Return the photo, uint8, bright where the map is great and dark elsewhere."""
    known = np.isfinite(attention_map)
    greatest = max(attention_map[known].max(initial=0), 1e-12)
    light = 255 * np.where(known, attention_map, 0)[..., None] / greatest
    light = np.where(known[..., None], light, NO_NUMBER)
    return np.rint((1 - opacity) * image + opacity * light).astype(np.uint8)


class _Easel:
    """Draws the photo with the first words of its caption below it."""

    def __init__(self, image, words, width):
        import matplotlib
        from PIL import ImageFont

        height = round(width * min(max(image.shape[0] / image.shape[1], 0.1), 4))
        font_size = max(width // 16, 10)
        font_file = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"  # many alphabets
        self.font = ImageFont.truetype(str(font_file), font_size)
        self.margin, line_height = font_size // 2, round(1.5 * font_size)
        self.places, x, y = [], self.margin, height + self.margin
        leftwards = _runs_leftwards("".join(map(str, words)))
        for word in (" ".join(str(word).split()) for word in words):
            length = self.font.getlength(word)
            if x > self.margin and x + length > width - self.margin:
                x, y = self.margin, y + line_height
            self.places.append((width - x - length if leftwards else x, y, word))
            x += length + self.font.getlength(" ")
        self.photo_size = width, height
        self.size = width, y + line_height + self.margin

    def __call__(self, photo, num_words):
        from PIL import Image, ImageDraw

        picture = Image.new("RGB", self.size, PAPER)
        picture.paste(Image.fromarray(photo).resize(self.photo_size, Image.Resampling.BICUBIC))
        pen = ImageDraw.Draw(picture)
        for number, (x, y, word) in enumerate(self.places[:num_words], start=1):
            pen.text((x, y), word, fill=CURRENT if number == num_words else INK, font=self.font)
        palette = picture.quantize(256, Image.Quantize.FASTOCTREE)
        # Without dither, light that fades would show the few greys of the palette as rings.
        return picture.quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG)


def _runs_leftwards(text):
    """Return whether the first letter with a direction is of a script that is written from right to left."""
    directions = map(unicodedata.bidirectional, text)
    return next((direction != "L" for direction in directions if direction in ("L", "R", "AL")), False)
