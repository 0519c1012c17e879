"""The cartoon of attention: a GIF whose caption appears word by word, while the light moves over the photo."""

import io
import unicodedata
from pathlib import Path

import numpy as np

from data_utils.atomic_files import write_whole
from keras_sat.pictures.player import shown_aspect

MOVES = 2  # frames between a word and the next
MOVE_SECONDS = 0.06
LAST_SECONDS = 2.0
MOST_SECONDS = 60  # the format allows 655
NAN_COLOUR = (230, 0, 160)
INK, SOFT, CURRENT, PAPER = (27, 27, 31), (85, 85, 95), (29, 78, 216), (255, 255, 255)


def write_cartoon(path, image, words, lights, notes, *, seconds_per_word, width, opacity):
    """Write the GIF.

    Args:
        path: of the file, ending in .gif.
        image: the photo, uint8 (height, width, 3).
        words: list of the caption's words.
        lights: list of a map (height, width) for each word, of the photo's size: full light is 1; NaN is marked.
        notes: list of a line below the caption, for the photo alone and for each word.
        seconds_per_word: how long each word stays.
        width: of the picture in pixels.
        opacity: how dark a cell without attention becomes, from 0 to 1.
    """
    path = Path(path).expanduser()
    if path.suffix.lower() != ".gif":
        raise ValueError(f"Expected the name of a GIF, ending in .gif. Received: {str(path)!r}")
    if not 64 <= width <= 2000 or not MOVES * MOVE_SECONDS < seconds_per_word <= MOST_SECONDS:
        raise ValueError(
            f"Expected a width from 64 to 2000, and more than {MOVES * MOVE_SECONDS:.2f} seconds for a word, at most "
            f"{MOST_SECONDS}. Received: width={width}, seconds_per_word={seconds_per_word}"
        )
    draw = _Easel(image, words, notes, round(width))
    pictures, seconds = [draw(image, 0)], [seconds_per_word]
    before = image
    for number, light in enumerate(lights, start=1):
        lit = _lit(image, light, opacity)
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


def _lit(image, light, opacity):
    """Return the photo, uint8, bright where there is light."""
    known = np.isfinite(light)[..., None]
    light = np.where(known, 255 * light[..., None].clip(0, 1), NAN_COLOUR)
    return np.rint((1 - opacity) * image + opacity * light).astype(np.uint8)


class _Easel:
    """Draws the photo with the first words of its caption below it, and a note below them."""

    def __init__(self, image, words, notes, width):
        import matplotlib
        from PIL import ImageFont

        height = round(width / shown_aspect(image))
        font_size = max(min(width, 2 * height) // 16, 10)
        font_file = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"  # many alphabets
        self.font = ImageFont.truetype(str(font_file), font_size)
        self.margin, line_height = font_size // 2, round(1.5 * font_size)
        self.positions, x, y = [], self.margin, height + self.margin
        leftwards = _runs_leftwards("".join(map(str, words)))
        for word in (" ".join(str(word).split()) for word in words):
            length = self.font.getlength(word)
            if x > self.margin and x + length > width - self.margin:
                x, y = self.margin, y + line_height
            self.positions.append((width - x - length if leftwards else x, y, word))
            x += length + self.font.getlength(" ")
        self.photo_size = width, height
        self.notes, self.leftwards, self.note_line = notes, leftwards, y + line_height
        self.size = width, y + 2 * line_height + self.margin

    def __call__(self, photo, num_words):
        from PIL import Image, ImageDraw

        picture = Image.new("RGB", self.size, PAPER)
        picture.paste(Image.fromarray(photo).resize(self.photo_size, Image.Resampling.BICUBIC))
        pen = ImageDraw.Draw(picture)
        for number, (x, y, word) in enumerate(self.positions[:num_words], start=1):
            pen.text((x, y), word, fill=CURRENT if number == num_words else INK, font=self.font)
        self._write_note(pen, self.notes[num_words])
        palette = picture.quantize(256, Image.Quantize.FASTOCTREE)
        # Without dither, fading light would show as rings.
        return picture.quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG)

    def _write_note(self, pen, note):
        """Write the line below the caption, on the side where the caption starts, smaller where it would not fit."""
        room = self.size[0] - 2 * self.margin
        length = self.font.getlength(note)
        font = self.font if length <= room else self.font.font_variant(size=max(int(self.font.size * room / length), 5))
        x = self.size[0] - self.margin - font.getlength(note) if self.leftwards else self.margin
        pen.text((x, self.note_line), note, fill=SOFT, font=font)


def _runs_leftwards(text):
    """Return whether the first letter with a direction is written from right to left."""
    directions = map(unicodedata.bidirectional, text)
    return next((direction != "L" for direction in directions if direction in ("L", "R", "AL")), False)
