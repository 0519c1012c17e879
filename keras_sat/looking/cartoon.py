"""Make a GIF of the attention: the photo above the pale caption, whose words turn black
one by one, while the light moves over the photo.
"""

import io
from itertools import pairwise
from pathlib import Path

import numpy as np

from keras_sat.looking.sheet import wrapped
from keras_sat.looking.spotlight import CASING, CASING_WIDTH, LINE

COLOURS = 224
VIVID = 90  # a colour is vivid if its channels differ by more
VIVID_WEIGHT = 5  # it counts so many times more
# Dithering by a fixed pattern: what does not change between frames takes no space in
# the file.
PATTERN = np.array([[0, 8, 2, 10], [12, 4, 14, 6], [3, 11, 1, 9], [15, 7, 13, 5]])
PATTERN = 16 * (PATTERN / 15 - 0.5)[..., None]
MOVE_SECONDS, FIRST_SECONDS, LAST_SECONDS = 0.06, 1.0, 2.0
INK, PALE = (27, 27, 31), (200, 200, 206)  # of words that were said, and of others
NOTE = (95, 95, 100)
LINE_WIDTH = 5  # pixels, in a picture that is twice as large


def cartoon(display, positions, look, seconds_per_word, width, note):
    """Return an AttentionDisplay as an animated GIF (bytes): light moves to the words
    at `positions`, above a line of text, the note; see `animate`.
    """
    from PIL import Image

    if not 16 <= width <= 4096 or not 0 <= seconds_per_word <= 600:
        problem = "Expected a width from 16 to 4096 pixels, and from 0 to 600 seconds per word."
        raise ValueError(f"{problem} Received: width={width}, {seconds_per_word=}")
    drawing = _Drawing(display, width, note)
    photo = Image.fromarray(display.image).resize(drawing.size, Image.Resampling.BICUBIC)
    photos = [photo, *(drawing.lit(position, look) for position in positions)]
    frames, seconds = [drawing.frame(photo, 0)], [FIRST_SECONDS]
    for position, (last_photo, photo) in zip(positions, pairwise(photos)):
        halfway = Image.blend(last_photo, photo, 0.5)
        frames.append(drawing.frame(halfway, position + 1, underlined=position))
        seconds.append(MOVE_SECONDS)
        frames.append(drawing.frame(photo, position + 1, underlined=position))
        seconds.append(seconds_per_word)
    last = positions[-1] if positions else None
    frames.append(drawing.frame(photos[-1], len(display.words), underlined=last))
    seconds.append(LAST_SECONDS)
    _, height = drawing.size
    first, *later = _quantized(frames, height)
    file = io.BytesIO()
    first.save(
        file,
        "GIF",
        save_all=True,
        append_images=later,
        duration=[round(1000 * duration) for duration in seconds],
        loop=0,
        disposal=1,
    )
    return file.getvalue()


class _Drawing:
    """Draws the frames of an AttentionDisplay: a photo `width` pixels wide, with the
    caption and a note below it.

    Attributes:
        size: (width, height) of the photo.
    """

    def __init__(self, display, width, note):
        self.display = display
        self.scale = width / display.image.shape[1]
        height = round(self.scale * display.image.shape[0])
        self.size = (width, height)
        font_size = max(min(width, 2 * height) // 20, 10)
        self.font = _font(font_size)
        self.margin = font_size // 2
        self.line = round(1.5 * font_size)
        line_width = width - 2 * self.margin
        longest = max(map(self.font.getlength, display.words), default=1)
        if longest > line_width:  # a word is never broken
            self.font = _font(max(1, font_size * line_width / longest))
        lengths = [self.font.getlength(word) for word in display.words]
        # The line of each word, and its distance from the left.
        self.places = wrapped(lengths, self.font.getlength(" "), line_width)
        num_lines = self.places[-1][0] + 1 if self.places else 0
        self.bottom = height + 2 * self.margin + self.line * num_lines
        self.note, note_font = note, _font(0.7 * font_size)
        shrink = min(1, line_width / max(note_font.getlength(note), 1))
        self.note_font = _font(max(1, shrink * note_font.size))
        self.note_top = self.bottom
        if note:
            self.bottom += round(1.5 * note_font.size)

    def lit(self, position, look):
        """Return the photo as a word lights it, with its outline and note."""
        from PIL import Image, ImageDraw

        width, height = self.size
        pixels, lines, note = self.display.lit(position, look)
        # Twice as large, for smooth lines.
        large = Image.fromarray(pixels).resize((2 * width, 2 * height), Image.Resampling.BICUBIC)
        pen = ImageDraw.Draw(large)
        borders = [[tuple(2 * self.scale * (point + 0.5)) for point in points] for points in lines]
        casing_width = round(CASING_WIDTH * LINE_WIDTH)
        for colour, line_width in ((CASING, casing_width), (LINE, LINE_WIDTH)):
            for border in borders:
                pen.line(border, colour, width=line_width, joint="curve")
        photo = large.resize(self.size, Image.Resampling.BOX)
        place = (width // 2, height - self.margin)
        ImageDraw.Draw(photo).text(
            place, note, "white", self.font, "mb", stroke_width=2, stroke_fill="black"
        )
        return photo

    def frame(self, photo, num_words, underlined=None):
        """Return a photo with the caption below it, whose first words were said;
        `underlined` is the position of one of them, or None.
        """
        from PIL import Image, ImageDraw

        width, height = self.size
        picture = Image.new("RGB", (width, self.bottom), "white")
        picture.paste(photo)
        pen = ImageDraw.Draw(picture)
        for position, word in enumerate(self.display.words):
            line, left = self.places[position]
            x = self.margin + left
            y = height + self.margin + self.line * line
            pen.text((x, y), word, INK if position < num_words else PALE, self.font)
            if position == underlined:
                below = y + 1.3 * self.font.size
                end = x + self.font.getlength(word)
                pen.line([(x, below), (end, below)], INK, 3)
        pen.text((self.margin, self.note_top), self.note, NOTE, self.note_font)
        return picture


def _font(size):
    """Return a font that covers many alphabets."""
    import matplotlib
    from PIL import ImageFont

    font_file = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    return ImageFont.truetype(str(font_file), size)


def _quantized(frames, height):
    """Give all frames the same palette; the photo above `height` is dithered."""
    from PIL import Image

    pixels = [np.array(frame) for frame in frames]
    # Half of the sample is of the first frame, since most of the others is grey. Vivid
    # colours count more, so that small things keep theirs.
    sampled_frames = [*pixels, *pixels[:1] * len(pixels)]
    sample = np.concatenate([picture[::3, ::3].reshape(-1, 3) for picture in sampled_frames])
    vivid = sample[np.ptp(sample, axis=1) > VIVID]
    sample = np.concatenate([sample, *[vivid] * VIVID_WEIGHT])[None]
    fixed = [*CASING, *PALE, *LINE, *NOTE]
    num_chosen = COLOURS - len(fixed) // 3
    palette = Image.fromarray(sample).quantize(num_chosen)
    palette.putpalette([*palette.getpalette()[: 3 * num_chosen], *fixed])
    rows, columns = np.indices((height, frames[0].width))
    for picture in pixels:
        picture[:height] = (picture[:height] + PATTERN[rows % 4, columns % 4]).clip(0, 255)
    return [
        Image.fromarray(picture).quantize(palette=palette, dither=Image.Dither.NONE)
        for picture in pixels
    ]
