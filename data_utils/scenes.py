"""The built-in data set: drawn scenes, true captions of them, and the place of every word.

A scene has one or two coloured shapes (three as an option) on a soft background. Its captions come from a small
grammar, so that it can be decided whether any sentence of that grammar is true of a scene, and which pixels each of
its words speaks of:

    caption := [INTRO] object                                  of one object
             | [INTRO] object ["is"] RELATION object           of two different objects
             | [INTRO] "two" [SIZE] COLOUR SHAPE"s"            of twins, which differ only in where they stand
             | [INTRO] object "and" ("another" | ARTICLE) [SIZE] COLOUR SHAPE    of twins likewise
             | [INTRO] object ["is"] RELATION object "and" RELATION object       of three objects
    object  := ARTICLE [SIZE] COLOUR SHAPE

Both orders of mention occur: four of five captions begin with the colour that stands first in COLOURS, one of five
with the other one.
"""

from __future__ import annotations

import functools
import io
import random
from dataclasses import dataclass

import numpy as np

from data_utils.captions import tokenise
from data_utils.images import height_and_width

COLOURS = {
    "red": (214, 48, 49),
    "orange": (240, 134, 36),
    "yellow": (247, 214, 64),
    "green": (62, 160, 78),
    "blue": (54, 108, 206),
    "purple": (136, 72, 172),
    "pink": (246, 150, 190),
    "black": (44, 46, 54),
}
SHAPES = ("circle", "square", "triangle", "star")
SIZES = {"small": 0.20, "big": 0.34}
"""The width of an object as a share of the picture's shorter side."""

SIZE_WORDS = {"small": "small", "little": "small", "big": "big", "large": "big"}
RELATION_PHRASES = {
    ("left", "of"): "left",
    ("to", "the", "left", "of"): "left",
    ("right", "of"): "right",
    ("to", "the", "right", "of"): "right",
    ("above",): "above",
    ("over",): "above",
    ("below",): "below",
    ("under",): "below",
}
RELATION_WORDS = ("left", "right", "above", "over", "below", "under")
INTRODUCTIONS = ((), ("there", "is"), ("you", "can", "see"), ("a", "picture", "of"))
_INTRODUCTION_WEIGHTS = (6, 1, 1, 1)
ARTICLES = ("a", "an", "one", "the")
_OPPOSITES = {"left": "right", "right": "left", "above": "below", "below": "above"}
_BACKGROUNDS = ((236, 240, 247), (247, 241, 230), (233, 244, 236), (245, 235, 241), (240, 240, 240))


@dataclass(frozen=True)
class SceneObject:
    """A shape in a scene; `box` is (left, top, right, bottom) in pixels, right and bottom outside."""

    shape: str
    colour: str
    size: str
    box: tuple

    @property
    def looks(self):
        return self.size, self.colour, self.shape


@dataclass(frozen=True)
class WordPlace:
    """Where a word of a caption lies in the picture.

    Attributes:
        position: the word's index in the caption's words.
        word: the word.
        word_class: "colour", "shape", "size", "relation" or "number".
        boxes: the boxes of the objects that it speaks of, each (left, top, right, bottom) in pixels.
        image_size: (height, width) of the picture in pixels.
    """

    position: int
    word: str
    word_class: str
    boxes: tuple
    image_size: tuple

    def cells(self, grid_shape: tuple[int, int], *, enlarge: int = 0) -> np.ndarray:
        """Return a bool array of `grid_shape`: the cells of a feature grid that the boxes touch.

        Args:
            grid_shape: (rows, columns) of the grid.
            enlarge: take in so many cells more on each side.
        """
        rows, columns = grid_shape
        height, width = self.image_size
        cells = np.zeros((rows, columns), dtype=bool)
        for left, top, right, bottom in self.boxes:
            first_row, first_column = top * rows // height - enlarge, left * columns // width - enlarge
            end_row, end_column = -(-bottom * rows // height) + enlarge, -(-right * columns // width) + enlarge
            cells[max(first_row, 0) : end_row, max(first_column, 0) : end_column] = True
        return cells


@dataclass(frozen=True, eq=False)
class Scene:
    """A drawn picture and what is known about it.

    Attributes:
        image_id: "scene-SEED-NUMBER".
        image: uint8 array (height, width, 3).
        objects: tuple of SceneObject.
        captions: tuple of five different true captions.
        split: "train" (8 of 10), "dev" or "test" (1 of 10 each).
    """

    image_id: str
    image: np.ndarray
    objects: tuple
    captions: tuple
    split: str

    def places(self, caption: str) -> list[WordPlace]:
        """Return a WordPlace for each content word of a caption that is true of the scene; see `word_places`."""
        return word_places(self, caption)

    def png(self) -> bytes:
        """Return the picture as the bytes of a PNG file."""
        from PIL import Image

        file = io.BytesIO()
        Image.fromarray(self.image).save(file, format="PNG")
        return file.getvalue()


def draw_scenes(
    num_scenes: int,
    seed: int = 0,
    image_size=64,
    *,
    max_objects: int = 2,
    num_colours: int = len(COLOURS),
    num_shapes: int = len(SHAPES),
    num_sizes: int = len(SIZES),
    twin_share: float = 0.1,
) -> list[Scene]:
    """Draw scenes with true captions: the same seed gives the same pixels and the same captions.

    Scene number i does not depend on `num_scenes`, so that a longer list begins with the shorter one.

    Args:
        num_scenes: how many.
        seed: an int; scenes of another seed are other scenes.
        image_size: the side of the square pictures in pixels, or (height, width).
        max_objects: 1, 2 or 3; each number of objects is equally frequent.
        num_colours, num_shapes, num_sizes: use so many of COLOURS, SHAPES and SIZES.
        twin_share: the share of the scenes with two objects in which the two are twins.

    Returns: list of Scene.
    """
    height, width = height_and_width(image_size)
    if min(height, width) < 32:
        raise ValueError(f"Scenes need at least 32 pixels each way. Received: image_size={image_size}")
    for name, value, limit in (
        ("max_objects", max_objects, 3),
        ("num_colours", num_colours, len(COLOURS)),
        ("num_shapes", num_shapes, len(SHAPES)),
        ("num_sizes", num_sizes, len(SIZES)),
    ):
        if not 1 <= value <= limit:
            raise ValueError(f"`{name}` must be at least 1 and at most {limit}. Received: {name}={value}")
    if max_objects > 1 and num_colours * num_shapes * num_sizes < 3:
        raise ValueError("Scenes of several objects need at least 3 different looks: more colours, shapes or sizes.")
    looks = [
        (size, colour, shape)
        for size in list(SIZES)[:num_sizes]
        for colour in list(COLOURS)[:num_colours]
        for shape in SHAPES[:num_shapes]
    ]
    scenes = []
    for index in range(num_scenes):
        image_id = f"scene-{seed}-{index:06d}"
        rng = random.Random(f"{image_id} {height}x{width}")  # seeded by text: the same stream on every machine
        objects = _place_objects(rng, looks, rng.randint(1, max_objects), twin_share, height, width)
        split = {8: "dev", 9: "test"}.get(index % 10, "train")
        scenes.append(Scene(image_id, _draw(rng, objects, height, width), objects, _captions(rng, objects), split))
    return scenes


# === Placing and drawing ===


def _place_objects(rng, looks, num_objects, twin_share, height, width):
    """Return objects that stand apart, two of them on exactly one axis, so that exactly one relation holds."""
    side = min(height, width)
    gap = side // 12
    while True:  # rejection: a placement that is not clear is thrown away
        chosen = rng.sample(looks, num_objects)
        if num_objects == 2 and rng.random() < twin_share:
            chosen[1] = chosen[0]
        objects = []
        for size, colour, shape in chosen:
            extent = round(SIZES[size] * side) + rng.randint(-side // 64, side // 64)
            left = rng.randint(2, width - extent - 2)
            top = rng.randint(2, height - extent - 2)
            objects.append(SceneObject(shape, colour, size, (left, top, left + extent, top + extent)))
        pairs = [(a, b) for i, a in enumerate(objects) for b in objects[i + 1 :]]
        clear = all(_relations(a, b, gap) and _relations(a, b, gap) == _relations(a, b) for a, b in pairs)
        if clear and (num_objects == 3 or all(len(_relations(a, b)) == 1 for a, b in pairs)):
            return tuple(objects)


def _relations(first, second, gap=0):
    """Return the set of relations of the first object to the second; on each axis they must not overlap."""
    relations = set()
    if first.box[2] + gap <= second.box[0]:
        relations.add("left")
    if second.box[2] + gap <= first.box[0]:
        relations.add("right")
    if first.box[3] + gap <= second.box[1]:
        relations.add("above")
    if second.box[3] + gap <= first.box[1]:
        relations.add("below")
    return relations


_STAR = [(50, 0), (62, 36), (100, 38), (70, 61), (81, 98), (50, 76), (19, 98), (30, 61), (0, 38), (38, 36)]
_SMOOTHING = 4  # shapes are drawn so many times larger and averaged down


def _draw(rng, objects, height, width):
    """Return the picture: a soft gradient, and each object with a faint shadow. Only whole numbers are used."""
    from PIL import Image

    first, second = (np.array(colour) for colour in rng.sample(_BACKGROUNDS, 2))
    rows, columns = np.arange(height)[:, None, None], np.arange(width)[None, :, None]
    slope_down, slope_right = rng.randint(0, 8), rng.randint(0, 8)
    weight = slope_down * rows * width + slope_right * columns * height
    total = max(8 * 2 * height * width, 1)
    background = first - (rng.randint(0, 12)) + (second - first) * weight // total
    picture = Image.fromarray(background.clip(0, 255).astype(np.uint8))
    for item in objects:
        left, top, right, bottom = item.box
        mask = _shape_mask(item.shape, right - left)
        offset = max(min(height, width) // 48, 1)
        picture.paste((150, 150, 160), (left + offset, top + offset), mask.point(lambda value: value * 2 // 5))
        shade = rng.randint(-8, 8)
        picture.paste(tuple(min(max(c + shade, 0), 255) for c in COLOURS[item.colour]), (left, top), mask)
    return np.array(picture)


@functools.cache
def _shape_mask(shape, extent):
    """Return the smooth mask (mode L) of a shape that fills a square of `extent` pixels."""
    from PIL import Image, ImageDraw

    end = extent * _SMOOTHING - 1
    mask = Image.new("L", (end + 1, end + 1))
    draw = ImageDraw.Draw(mask)
    if shape == "circle":
        draw.ellipse((0, 0, end, end), fill=255)
    elif shape == "square":
        draw.rectangle((end // 16, end // 16, end - end // 16, end - end // 16), fill=255)
    elif shape == "triangle":
        draw.polygon([(end // 2, end // 24), (end, end - end // 24), (0, end - end // 24)], fill=255)
    else:
        draw.polygon([(x * end // 100, y * end // 100) for x, y in _STAR], fill=255)
    return mask.reduce(_SMOOTHING)


# === Writing captions ===


def _captions(rng, objects):
    """Return five different true captions of a scene."""
    captions = []
    while len(captions) < 5:
        caption = " ".join(_sentence(rng, objects))
        if caption not in captions:
            captions.append(caption)
    return tuple(captions)


def _sentence(rng, objects):
    introduction = list(rng.choices(INTRODUCTIONS, weights=_INTRODUCTION_WEIGHTS)[0])
    if len(objects) == 1:
        return introduction + _noun_phrase(rng, objects[0])
    order = _order_of_mention(rng, objects)
    if len(objects) == 2 and order[0].looks == order[1].looks:
        return introduction + _twin_phrase(rng, order[0], introduction)
    # "there is a red circle is left of ..." is not a sentence: only a bare one takes the verb
    verb = [] if introduction else ["is"]
    words = introduction + _noun_phrase(rng, order[0], sized=_size_needed(order[0], objects)) + verb
    for number, other in enumerate(order[1:]):
        relation = rng.choice(sorted(_relations(order[0], other)))
        phrase = rng.choice([phrase for phrase, meaning in RELATION_PHRASES.items() if meaning == relation])
        words += ["and"] * bool(number) + [*phrase, *_noun_phrase(rng, other, sized=_size_needed(other, objects))]
    return words


def _order_of_mention(rng, objects):
    """Bright colours catch the eye: four of five captions name objects in the order of COLOURS, one in the reverse.

    Attention has to settle on the first object before a word names it. If both orders were equally likely, it could
    only guess.
    """
    colours = list(COLOURS)
    order = sorted(objects, key=lambda item: colours.index(item.colour))
    return order if rng.random() < 0.8 else order[::-1]


def _size_needed(item, objects):
    """An object is named with its size where another has the same colour and shape."""
    return sum((other.colour, other.shape) == (item.colour, item.shape) for other in objects) > 1


def _noun_phrase(rng, item, *, articles=("a", "the", "one"), sized=False):
    words = [item.colour, item.shape]
    if sized or rng.random() < 0.5:
        words.insert(0, rng.choice([word for word, size in SIZE_WORDS.items() if size == item.size]))
    article = rng.choices(articles, weights=[4, 2, 1][: len(articles)])[0]
    return ["an" if article == "a" and words[0][0] in "aeiou" else article, *words]


def _twin_phrase(rng, item, introduction):
    if introduction != ["there", "is"] and rng.random() < 0.5:
        _, *words = _noun_phrase(rng, item, articles=("a",))
        return ["two", *words[:-1], words[-1] + "s"]
    first, second = (_noun_phrase(rng, item, articles=("a",)) for _ in range(2))
    return [*first, "and", *(["another", *second[1:]] if rng.random() < 0.5 else second)]


# === Reading captions ===


@dataclass(frozen=True)
class _NounPhrase:
    """What a noun phrase says (None: nothing about the size), and where its words stand."""

    size: str | None
    colour: str
    shape: str
    positions: tuple  # of (position, word class)

    def fits(self, item):
        return (self.colour, self.shape) == (item.colour, item.shape) and self.size in (None, item.size)


def _parse(words):
    """Return what a sentence of the grammar says, or None for any other sentence.

    Returns: (noun phrases, relations of the first to each other one, positions of each relation's words, number):
        `number` is "two" for twins in the plural, "and" for twins named one after the other, otherwise None.
    """
    for introduction in sorted(INTRODUCTIONS, key=len, reverse=True):
        if tuple(words[: len(introduction)]) == introduction:
            parsed = _parse_from(words, len(introduction), introduction)
            if parsed is not None:
                return parsed
    return None


def _parse_from(words, start, introduction):
    if words[start : start + 1] == ["two"]:
        phrase, end = _parse_looks(words, start + 1, plural=True)
        if phrase is None or end != len(words):
            return None
        return [phrase], [], [((start, "number"),)], "two"
    phrase, position = _parse_noun_phrase(words, start)
    if phrase is None:
        return None
    if position == len(words):
        return [phrase], [], [], None
    if words[position] == "and":
        second, end = _parse_noun_phrase(words, position + 1, articles=(*ARTICLES, "another"))
        return ([phrase, second], [], [], "and") if second is not None and end == len(words) else None
    if words[position] == "is":
        if introduction:
            return None
        position += 1
    phrases, relations, relation_positions = [phrase], [], []
    while True:
        relation, length = _parse_relation(words, position)
        if relation is None:
            return None
        relation_positions.append(
            tuple((position + i, "relation") for i in range(length) if words[position + i] in RELATION_WORDS)
        )
        other, position = _parse_noun_phrase(words, position + length)
        if other is None:
            return None
        phrases.append(other)
        relations.append(relation)
        if position == len(words):
            return phrases, relations, relation_positions, None
        if words[position] != "and" or len(phrases) == 3:
            return None
        position += 1


def _parse_relation(words, position):
    for phrase, relation in RELATION_PHRASES.items():
        if tuple(words[position : position + len(phrase)]) == phrase:
            return relation, len(phrase)
    return None, 0


def _parse_noun_phrase(words, position, articles=ARTICLES):
    if words[position : position + 1] and words[position] in articles:
        return _parse_looks(words, position + 1)
    return None, position


def _parse_looks(words, position, plural=False):
    size, positions = None, []
    if position < len(words) and words[position] in SIZE_WORDS:
        size = SIZE_WORDS[words[position]]
        positions.append((position, "size"))
        position += 1
    looks = words[position : position + 2]
    if len(looks) < 2 or looks[0] not in COLOURS:
        return None, position
    shape = looks[1].removesuffix("s") if plural and looks[1].endswith("s") else None if plural else looks[1]
    if shape not in SHAPES:
        return None, position
    positions += [(position, "colour"), (position + 1, "shape")]
    return _NounPhrase(size, looks[0], shape, tuple(positions)), position + 2


def _assignments(scene, parsed):
    """Return every choice of objects, one for each noun phrase, for which the sentence is true."""
    phrases, relations, _, number = parsed
    if number == "two":
        fitting = tuple(item for item in scene.objects if phrases[0].fits(item))
        return [fitting] if len(fitting) == 2 else []
    choices = [()]
    for index, phrase in enumerate(phrases):
        choices = [
            (*chosen, item)
            for chosen in choices
            for item in scene.objects
            if phrase.fits(item)
            and item not in chosen
            and (index == 0 or not relations or relations[index - 1] in _relations(chosen[0], item))
        ]
    return choices


def is_true(scene: Scene, caption: str) -> bool | None:
    """Return whether a caption is true of a scene: True, False, or None if it is not a sentence of the grammar.

    A sentence is true if objects can be found that look as it says and stand as it says: "a red circle" is true of a
    scene with a red circle and something else; "two red circles" needs exactly two; "a red circle and a red circle"
    needs two different ones.
    """
    parsed = _parse(tokenise(caption))
    return None if parsed is None else bool(_assignments(scene, parsed))


def mentions_relation(caption):
    """Return whether a caption is a sentence of the grammar that says how two objects stand to each other."""
    parsed = _parse(tokenise(caption))
    return parsed is not None and bool(parsed[1])


def word_places(scene: Scene, caption: str) -> list[WordPlace]:
    """Return a WordPlace for each content word of a caption that is true of the scene, in their order.

    Words for colour, shape and size speak of their object, words for a relation of both its objects, "two" of both.
    For a caption that is not true, or is not a sentence of the grammar, the list is empty.
    """
    words = tokenise(caption)
    parsed = _parse(words)
    assignments = _assignments(scene, parsed) if parsed else []
    if not assignments:
        return []
    phrases, _, other_positions, number = parsed
    spoken_of = []  # (positions, which entries of an assignment they speak of)
    for index, phrase in enumerate(phrases):
        spoken_of.append((phrase.positions, range(2) if number == "two" else [index]))
    for index, positions in enumerate(other_positions):
        spoken_of.append((positions, range(2) if number == "two" else [0, index + 1]))
    places = []
    for positions, entries in spoken_of:
        boxes = tuple(dict.fromkeys(chosen[entry].box for chosen in assignments for entry in entries))
        for position, word_class in positions:
            places.append(WordPlace(position, words[position], word_class, boxes, scene.image.shape[:2]))
    return sorted(places, key=lambda place: place.position)
