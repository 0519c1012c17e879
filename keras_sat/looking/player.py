"""Build the player: an HTML page that shows a photo, its caption and the attention, and
needs no other files.

player.html has the page, its style and its script. All inserted values are escaped:
words and names as HTML, maps as JSON without "<". The page allows no other script and
no network request.
"""

import base64
import functools
import hashlib
import html
import io
import json
import re
from collections import defaultdict
from pathlib import Path

import numpy as np

from data_utils.datasets import NOT_CONTENT
from keras_sat.looking import dots
from keras_sat.looking.spotlight import (
    AMBER,
    CASING,
    CASING_WIDTH,
    COLOURED,
    DARK,
    DIM,
    FEW,
    FROM_MEMORY,
    LARGEST_SPECK,
    LINE,
    NAN_COLOUR,
    WARMTH,
    is_grey,
)
from keras_sat.search import DOUBTFUL

# What player.html has from other files.
LOOK = {"dim": DIM, "shade": 3 * [DARK], "nan": NAN_COLOUR, "speck": LARGEST_SPECK}
LOOK |= {"line": LINE, "casing": CASING, "casingWidth": CASING_WIDTH}
LOOK |= {"amber": AMBER, "warmth": WARMTH, "coloured": COLOURED, "few": FEW}
LOOK |= {"dots": dots.LOOK, "memory": FROM_MEMORY, "placeless": sorted(NOT_CONTENT)}
LOOK |= {"doubt": DOUBTFUL}
LARGEST_SIDE, QUALITY = 640, 85  # of the photo in a page: in pixels, and of the JPEG
SMALL_SIDE = 128  # in pixels; smaller images are drawings, and kept as PNG
NAN_BYTE = 255
TEMPLATE = Path(__file__).with_name("player.html")
# Of pages, by what their maps show.
HEADINGS = {
    "attention": "Where the captioner looked for each word",
    "votes": "Which parts of the photo spoke for each word",
}
READINGS = {
    "attention": "The brighter and more colourful a part of the photo is, the more the captioner "
    "attended to it. The line encloses half of the attention.",
    "votes": "Each region that voted for the word has a disc: the larger it is, the more the "
    "region adds to the word, compared with an average region. Votes against the word are not "
    "shown.",
}
TINT_READING = " In this black-and-white photo, a warm tint shows where that is."
DOUBT_READING = " Nouns with a question mark may be made up."
MEMORY_READING = " Words in grey italics came from memory rather than from the photo."


def player_page(display, *, title=None):
    """Return the player of an AttentionDisplay as an HTML page.

    See `AttentionDisplay.to_html`.
    """
    data = figure_data(display)
    values = {name: data.pop(name) for name in ("aspect", "photo")}
    buttons = [
        f'<button type="button" data-step="{step}">{escaped(word)}</button>'
        for step, word in enumerate(display.words)
    ]
    reading = READINGS[display.map_kind]
    if display.map_kind == "attention" and is_grey(display.image):
        reading += TINT_READING
    if display.from_photo is not None and (np.asarray(display.from_photo) < FROM_MEMORY).any():
        reading += MEMORY_READING
    if any(display.doubtful):
        reading += DOUBT_READING
    values |= {
        "heading": escaped(HEADINGS[display.map_kind] if title is None else title),
        "reading": reading,
        "buttons": " ".join(buttons),
        "maps": as_json(data),
        "policy": policy(template_part("script")),
        "title": escaped(" ".join(display.words) if title is None else title),
    }
    return fill(template(), values)


def player_frame(display):
    """Return a player as a sandboxed <iframe>, for a page such as a notebook."""
    height, width = display.image.shape[:2]
    lines = sum(len(word) + 2 for word in display.words) // 40 + 1  # about, as buttons wrap
    style = (
        "width: 100%; max-width: 31rem; height: "
        f"{464 * height // width + 37 * lines + 290}px; border: 0"
    )
    page = html.escape(player_page(display))
    return (
        f'<iframe srcdoc="{page}" sandbox="allow-scripts" title="Attention player" '
        f'style="{style}"></iframe>'
    )


def figure_data(display, *, largest_side=LARGEST_SIDE, quality=QUALITY):
    """Return the content of a player, not yet escaped, as a dict for JSON.

    For the options see `data_uri`.
    """
    image, from_photo = display.image, display.from_photo
    _, rows, columns = display.attention_weights.shape
    return {
        "aspect": f"{image.shape[1] / image.shape[0]:.4f}",
        "photo": data_uri(image, largest_side, quality),
        "words": display.words,
        "rows": rows,
        "columns": columns,
        "maps": encoded_maps(display.attention_weights),
        "fromPhoto": None if from_photo is None else np.nan_to_num(from_photo).round(3).tolist(),
        "confidence": display.confidence,
        "mapKind": display.map_kind,
        "doubtful": display.doubtful,
    }


def encoded_maps(attention_weights):
    """Encode maps (words, rows, columns) in base64, with one byte per cell: 254 is a
    map's maximum, 255 is NaN.
    """
    cells = b""
    for attention_map in attention_weights:
        peak = max(np.max(attention_map, where=np.isfinite(attention_map), initial=0), 1e-12)
        light = np.rint(254 * attention_map.clip(min=0) / peak)
        cells += np.where(np.isfinite(light), light, NAN_BYTE).astype(np.uint8).tobytes()
    return base64.b64encode(cells).decode()


def data_uri(image, largest_side=LARGEST_SIDE, quality=QUALITY):
    """Return a photo, shrunk to `largest_side` pixels, as a data URI: a JPEG, or a PNG
    for small drawings.
    """
    from PIL import Image

    picture = Image.fromarray(image)
    picture.thumbnail((largest_side, largest_side))
    if max(picture.size) <= SMALL_SIDE:
        kind, options = "png", {}
    else:
        kind, options = "jpeg", {"quality": quality}
    file = io.BytesIO()
    picture.save(file, kind, optimize=True, **options)
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"


@functools.cache
def template(path=TEMPLATE):
    return path.read_text(encoding="utf-8").replace("{{look}}", json.dumps(LOOK))


@functools.cache
def template_part(name, path=TEMPLATE):
    """Return the content of the <style> or <script> element of a template, or its whole
    <figure> element.
    """
    pattern = r"<figure\b.*?</figure>" if name == "figure" else rf"(?<=<{name}>).*?(?=</{name}>)"
    return re.search(pattern, template(path), re.DOTALL)[0]


def fill(text, values):
    """Replace each {{name}} in a template with its value.

    Any {{name}} within a value is left as it is.
    """
    return re.sub(r"\{\{(\w+)\}\}", lambda name: values[name[1]], text)


def empty_figure():
    """Return an empty player, which a script fills in."""
    return fill(template_part("figure"), defaultdict(str))


def as_json(value):
    """Return a value as JSON that is safe in a <script> element."""
    return json.dumps(value).replace("<", "\\u003c")


def policy(script):
    """Return a content security policy that allows only this script, styles, and
    embedded pictures.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode()
    return (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src "
        f"'sha256-{digest}'"
    )


def escaped(text):
    """Escape text for HTML elements and attributes.

    Undecodable bytes in file names become "?".
    """
    return html.escape(str(text).encode("utf-8", "replace").decode("utf-8"))
