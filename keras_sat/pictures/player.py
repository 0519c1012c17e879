"""The player: photo, caption and attention as one HTML page that needs nothing else.

player.html has the page, its style and its script. Whatever is written into it is escaped: words and names as HTML,
maps as JSON without "<". The page allows no other script, and no request.
"""

import base64
import functools
import hashlib
import html
import io
import json
import re
import textwrap
from pathlib import Path

import numpy as np

from keras_sat.pictures.brightness import full_light, times_even

OPACITY = 0.75
"""Of the map over the photo, by default."""

PAGE_ENDINGS = (".html", ".htm")
LARGEST_SIDE = 640  # of the photo in a page, in pixels
QUALITIES = (85, 70, 50, 30, 10)  # of a JPEG: the first whose file is not too large
SMALL_SIDE, SMALL_FILE = 128, 12_000  # pixels and bytes of PNG: what is smaller, a drawing, stays PNG
STEEPEST_ASPECT = 5  # a longer panorama would be drawn as a line
NAN_BYTE = 255
TEMPLATE = Path(__file__).with_name("player.html")


def player_page(display, *, title=None, opacity=OPACITY):
    """Return a whole page, as text.

    Args:
        display: AttentionDisplay.
        title, opacity: see `AttentionDisplay.to_html`.
    """
    data = figure_data(display)
    maps = data["maps"]
    buttons = (
        f'<button type="button" data-step="{step}">{escaped(word)}</button>' for step, word in enumerate(data["words"])
    )
    values = {name: data[name] for name in ("aspect", "photo", "note")}
    values |= {"rows": str(maps["rows"]), "columns": str(maps["columns"]), "maps": as_json(maps)}
    values |= {"buttons": " ".join(buttons), "opacity": str(round(100 * opacity))}
    values["title"] = escaped(" ".join(data["words"]) if title is None else title)
    return fill(template(), {**values, "policy": policy(template_part("script"))})


def player_frame(page, words, aspect):
    """Return a page as an isolated element of another page, such as a notebook."""
    lines = len(textwrap.wrap(" ".join("x" * (len(word) + 2) for word in words), 52))  # about, as buttons wrap
    height = round(448 / aspect + 41 * lines + 180)
    return (
        f'<iframe srcdoc="{html.escape(page, quote=True)}" sandbox="allow-scripts" title="Attention player" '
        f'style="width: 100%; max-width: 31rem; height: {height}px; border: 0"></iframe>'
    )


def figure_data(display, *, largest_side=LARGEST_SIDE, quality=QUALITIES[0]):
    """Return what one player shows, unescaped: a dict for JSON; `quality` is that of the JPEG at best."""
    image, words, attention_weights, from_photo = (
        getattr(display, name) for name in ("image", "words", "attention_weights", "from_photo")
    )
    _, rows, columns = attention_weights.shape
    sure = None if display.confidence is None else confidence_in_words(display.confidence)
    alone = "; ".join(filter(None, ("The photo alone", stretch_note(display.aspect), sure)))
    notes = [where(attention_map) for attention_map in attention_weights]
    maps = {"rows": rows, "columns": columns, "maps": encoded_maps(attention_weights, from_photo), "notes": notes}
    if from_photo is not None:
        maps["fromPhoto"] = [round(100 * float(share)) if np.isfinite(share) else None for share in from_photo]
        maps["notes"] = [
            note if share is None else f"{share} % from the photo; {note}"
            for share, note in zip(maps["fromPhoto"], notes)
        ]
    return {
        "aspect": f"{shown_aspect(image):.4f}",
        "photo": data_uri(image, largest_side, quality),
        "words": list(words),
        "note": f"{alone}." if words else "The caption is empty.",
        "maps": maps,
    }


def confidence_in_words(confidence):
    """Return a confidence as pages show it.

    >>> confidence_in_words(0.624)
    'confidence 62 %'
    """
    return f"confidence {100 * confidence:.0f} %"


def encoded_maps(attention_weights, from_photo=None):
    """Return maps as base64: a byte for each cell, 254 for full light, 255 for NaN."""
    maps = np.asarray(attention_weights, dtype=float)
    known = np.isfinite(maps)
    shares_of_words = [1.0] * len(maps) if from_photo is None else from_photo
    full = np.array([full_light(*pair) for pair in zip(maps, shares_of_words)]).reshape(-1, 1, 1)
    shares = np.rint(254 * np.where(known, maps, 0).clip(min=0) / full)
    return base64.b64encode(np.where(known, shares, NAN_BYTE).astype(np.uint8).tobytes()).decode()


def where(attention_map):
    """Return in words where a map (rows, columns) has its maximum, for readers who cannot see it.

    >>> where(np.array([[0.1, 0.0], [0.0, 0.9]]))
    'looks most at the bottom right; one of 4 cells gets 90 %: 3.6 times an even share.'
    """
    unknown = np.count_nonzero(~np.isfinite(attention_map))
    if unknown:
        return f"the attention is NaN in {unknown} of {attention_map.size} cells."
    peak, least = attention_map.max(), attention_map.min()
    if peak <= 0:
        return "looks nowhere."
    if peak - least <= 1e-6 * max(abs(peak), 1e-12):
        return "looks everywhere alike."
    row, column = np.unravel_index(attention_map.argmax(), attention_map.shape)
    rows, columns = attention_map.shape
    vertical = ("top", "", "bottom")[int(3 * (row + 0.5) / rows)]
    horizontal = ("left", "", "right")[int(3 * (column + 0.5) / columns)]
    corner = " ".join(filter(None, (vertical, horizontal))) or "centre"
    size = attention_map.size
    times = times_even(attention_map)
    in_cell = f"one of {size} cells gets {100 * times / size:.0f} %: {times:.1f} times an even share"
    return f"looks most at the {corner}; {in_cell}."


def data_uri(image, largest_side=LARGEST_SIDE, quality=QUALITIES[0]):
    """Return a photo as a data URI: as PNG if that is small, else as JPEG of bounded size."""
    from PIL import Image

    height, width = bounded_size(*image.shape[:2], largest_side)
    picture = Image.fromarray(image)
    if picture.size != (width, height):
        picture = picture.resize((width, height), Image.Resampling.BICUBIC, reducing_gap=2)
    if max(picture.size) <= SMALL_SIDE:
        content = _file_of(picture, format="PNG", optimize=True)
        if len(content) <= SMALL_FILE:
            return f"data:image/png;base64,{base64.b64encode(content).decode()}"
    bound = max(32_000, picture.width * picture.height // 2)
    for quality in (value for value in QUALITIES if value <= quality):
        content = _file_of(picture, format="JPEG", quality=quality, optimize=True)
        if len(content) <= bound:
            break
    return f"data:image/jpeg;base64,{base64.b64encode(content).decode()}"


def _file_of(picture, **options):
    file = io.BytesIO()
    picture.save(file, **options)
    return file.getvalue()


def shown_aspect(image):
    """Return the aspect ratio, width by height, in which a photo is shown: bounded, for panoramas."""
    height, width = image.shape[:2]
    return min(max(width / height, 1 / STEEPEST_ASPECT), STEEPEST_ASPECT)


def bounded_size(height, width, largest):
    """Return (height, width) with no side above `largest`. A panorama keeps more of its short side: it is stretched.

    >>> bounded_size(1500, 2000, 1000), bounded_size(60, 4000, 1000)
    ((750, 1000), (60, 1000))
    """
    share = min(largest / max(height, width, 1), 1)
    least = largest // STEEPEST_ASPECT
    return tuple(max(round(share * side), min(side, least)) for side in (height, width))


def stretch_note(aspect):
    """Return how a photo of this aspect ratio is stretched when it is shown; mostly "".

    >>> stretch_note(4000 / 60)
    'height stretched 13.3 ×'
    """
    stretched = {"height": aspect / STEEPEST_ASPECT, "width": 1 / aspect / STEEPEST_ASPECT} if aspect else {}
    return next((f"{side} stretched {times:.1f} ×" for side, times in stretched.items() if times >= 1.05), "")


# === Templates ===


@functools.cache
def template(path=TEMPLATE):
    return path.read_text(encoding="utf-8")


@functools.cache
def template_part(name, path=TEMPLATE):
    """Return a template's "style" or "script" without its tags, or its "figure" with them, to be filled."""
    pattern = r"<figure\b.*?</figure>" if name == "figure" else rf"(?<=<{name}>).*?(?=</{name}>)"
    return re.search(pattern, template(path), re.DOTALL)[0]


def fill(text, values):
    """Return a template with each {{name}} replaced, once: values are not searched for names."""
    return re.sub(r"\{\{(\w+)\}\}", lambda name: values[name[1]], text)


def as_json(value):
    """Return a value as JSON that is safe in a <script> element."""
    return json.dumps(value).replace("<", "\\u003c")


def policy(script):
    """Return a content security policy that allows this one script, styles, and pictures in the page itself."""
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode()
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def escaped(text):
    """Return any text as HTML, for elements and attributes; undecodable bytes of file names become "?"."""
    return html.escape(str(text).encode("utf-8", "replace").decode("utf-8"), quote=True)
