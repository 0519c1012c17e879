"""Make a GIF of the attention: the photo, then the caption word by word, while the
light moves over the photo.
"""

import io
from itertools import pairwise
from pathlib import Path

import numpy as np

from keras_sat.pictures.sheet import wrapped
from keras_sat.pictures.spotlight import AMBER

COLOURS = 128
# Dithering by a fixed pattern: what does not change between frames takes no space in
# the file.
PATTERN = (
    16
    * (np.array([[0, 8, 2, 10], [12, 4, 14, 6], [3, 11, 1, 9], [15, 7, 13, 5]]) / 15 - 0.5)[
        ..., None
    ]
)
MOVE_SECONDS, FIRST_SECONDS, LAST_SECONDS = 0.06, 1.0, 2.0
INK = (27, 27, 31)


def cartoon(display, positions, look, seconds_per_word, width):
    """Return an AttentionDisplay as an animated GIF (bytes): light moves to the words
    at `positions`; see `animate`.
    """
    import matplotlib
    from PIL import Image, ImageDraw, ImageFont

    if not 16 <= width <= 4096 or not 0 <= seconds_per_word <= 600:
        problem = "Expected a width from 16 to 4096 pixels, and from 0 to 600 seconds per word."
        raise ValueError(f"{problem} Received: width={width}, {seconds_per_word=}")
    words, scale = display.words, width / display.image.shape[1]
    height = round(scale * display.image.shape[0])
    # Covers many alphabets.
    font_file = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    font = ImageFont.truetype(str(font_file), max(min(width, 2 * height) // 20, 10))
    margin, line = font.size // 2, round(1.5 * font.size)
    longest = max([font.getlength(word) for word in words], default=1)
    if longest > width - 2 * margin:  # a word is never broken
        font = ImageFont.truetype(
            str(font_file), max(1, font.size * (width - 2 * margin) / longest)
        )
    places = wrapped(
        [font.getlength(word) for word in words], font.getlength(" "), width - 2 * margin
    )
    bottom = height + 2 * margin + line * (places[-1][0] + 1 if places else 0)

    def lit(position):
        photo, lines, note = display.lit(position, look)
        # For smooth lines.
        big = Image.fromarray(photo).resize((2 * width, 2 * height), Image.Resampling.BICUBIC)
        pen = ImageDraw.Draw(big)
        for points in lines:
            pen.line(
                [tuple(2 * scale * (point + 0.5)) for point in points],
                AMBER,
                width=6,
                joint="curve",
            )
        photo, middle = (
            big.resize((width, height), Image.Resampling.BOX),
            (width // 2, height - margin),
        )
        ImageDraw.Draw(photo).text(
            middle, note, "white", font, "mb", stroke_width=2, stroke_fill="black"
        )
        return photo

    def frame(photo, shown, num_words):
        picture = Image.new("RGB", (width, bottom), "white")
        picture.paste(photo)
        pen = ImageDraw.Draw(picture)
        for i in range(num_words):
            x, y = margin + places[i][1], height + margin + line * places[i][0]
            pen.text((x, y), words[i], INK, font)
            if i == shown:
                pen.line(
                    [(x, y + 1.3 * font.size), (x + font.getlength(words[i]), y + 1.3 * font.size)],
                    AMBER,
                    3,
                )
        return picture

    photos = [
        Image.fromarray(display.image).resize((width, height), Image.Resampling.BICUBIC),
        *map(lit, positions),
    ]
    frames, seconds = [frame(photos[0], None, 0)], [FIRST_SECONDS]
    for position, (before, after) in zip(positions, pairwise(photos)):
        frames += [
            frame(photo, position, position + 1)
            for photo in (Image.blend(before, after, 0.5), after)
        ]
        seconds += [MOVE_SECONDS, seconds_per_word]
    frames.append(frame(photos[-1], None, len(words)))
    milliseconds = [round(1000 * duration) for duration in (*seconds, LAST_SECONDS)]
    file, (first, *others) = io.BytesIO(), _quantized(frames, height)
    first.save(
        file, "GIF", save_all=True, append_images=others, duration=milliseconds, loop=0, disposal=1
    )
    return file.getvalue()


def _quantized(frames, height):
    """Give all frames the same palette; the photo above `height` is dithered."""
    from PIL import Image

    pixels = [np.array(frame) for frame in frames]
    # Half of the first: most is grey.
    some = [picture[::3, ::3] for picture in (*pixels, *pixels[:1] * len(pixels))]
    palette = Image.fromarray(np.concatenate(some)).quantize(COLOURS - 2)
    palette.putpalette([*palette.getpalette()[: 3 * (COLOURS - 2)], *AMBER, 255, 255, 255])
    rows, columns = np.indices((height, frames[0].width))
    for picture in pixels:
        picture[:height] = (picture[:height] + PATTERN[rows % 4, columns % 4]).clip(0, 255)
    return [
        Image.fromarray(picture).quantize(palette=palette, dither=Image.Dither.NONE)
        for picture in pixels
    ]
