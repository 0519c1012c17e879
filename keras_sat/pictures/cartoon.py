"""Make a GIF of the attention: the caption appears word by word, while the bright area moves over the photo."""

import io
from itertools import pairwise
from pathlib import Path

import numpy as np

from keras_sat.pictures.brightness import NAN_COLOUR

MOVES = 2  # frames between one word and the next
MOVE_SECONDS, LAST_SECONDS = 0.06, 2.0
INK, SOFT = (27, 27, 31), (85, 85, 95)


def cartoon(image, words, lights, notes, seconds_per_word, width, opacity):
    """Return an animated GIF of a photo, its caption and its attention maps, as bytes.

    Args:
        image, words: see `AttentionDisplay`.
        lights: for each word a map (height, width) of the photo's size: 1 is fully bright; NaN is marked.
        notes: for each word a line of text below the caption.
        seconds_per_word, width, opacity: see `AttentionDisplay.animate`.
    """
    import matplotlib
    from PIL import Image, ImageDraw, ImageFont

    if not 16 <= width <= 4096 or not 0 <= seconds_per_word <= 600:
        raise ValueError(
            "Expected a width from 16 to 4096 pixels, and from 0 to 600 seconds per word. "
            f"Received: width={width}, seconds_per_word={seconds_per_word}"
        )
    photo = Image.fromarray(image)
    height = round(width * photo.height / photo.width)
    font_file = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"  # covers many alphabets
    font = ImageFont.truetype(str(font_file), max(min(width, 2 * height) // 16, 10))
    margin, line = font.size // 2, round(1.5 * font.size)
    note_top = height + margin + line * len(_wrapped(words, font, width - 2 * margin).splitlines())

    def frame(lit, num_words, note):
        picture = Image.new("RGB", (width, note_top + line + margin), "white")
        picture.paste(lit.resize((width, height), Image.Resampling.BICUBIC))
        pen = ImageDraw.Draw(picture)
        caption = _wrapped(words[:num_words], font, width - 2 * margin)
        pen.multiline_text((margin, height + margin), caption, fill=INK, font=font, spacing=font.size // 2)
        pen.text((margin, note_top), note, fill=SOFT, font=font)
        palette = picture.quantize(256, Image.Quantize.FASTOCTREE)
        # Without dithering, gradients of light would show as rings.
        return picture.quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG)

    steps = [photo] + [_lit(photo, light, opacity) for light in lights]
    frames, seconds = [frame(photo, 0, "")], [seconds_per_word]
    for number, (before, after) in enumerate(pairwise(steps), start=1):
        for move in range(1, MOVES + 2):
            frames.append(frame(Image.blend(before, after, move / (MOVES + 1)), number, notes[number - 1]))
        seconds += [MOVE_SECONDS] * MOVES + [seconds_per_word]
    durations = [round(1000 * duration) for duration in (*seconds[:-1], LAST_SECONDS)]
    file = io.BytesIO()
    frames[0].save(file, format="GIF", save_all=True, append_images=frames[1:], duration=durations, loop=0, disposal=1)
    return file.getvalue()


def _lit(photo, light, opacity):
    """Shade the photo according to an attention map; cells with NaN get the colour NAN_COLOUR."""
    from PIL import Image

    light = light[..., None]
    colours = np.where(np.isfinite(light), 255 * light.clip(0, 1), NAN_COLOUR)
    return Image.blend(photo, Image.fromarray(np.rint(colours).astype(np.uint8)), opacity)


def _wrapped(words, font, width):
    """Wrap words into lines that fit the width; adding words does not change earlier line breaks."""
    lines = [""]
    for word in words:
        longer = f"{lines[-1]} {word}".strip()
        lines = [*lines[:-1], longer] if font.getlength(longer) <= width else [*lines, word]
    return "\n".join(lines)
