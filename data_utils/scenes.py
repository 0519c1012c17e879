"""Draw the built-in data set: scenes with true captions, and the boxes of the objects
that each word refers to.

A scene has one or two coloured shapes (optionally three) on a soft background. Its
captions come from the grammar below. For every sentence of the grammar we know whether
it is true, and which pixels each word refers to:

    caption := [INTRO] object                                  of one object
             | [INTRO] object ["is"] RELATION object           of two different objects
             | [INTRO] "two" [SIZE] COLOUR SHAPE"s"           of twins, in two positions
             | [INTRO] object "and" ("another" | ARTICLE) [SIZE] COLOUR SHAPE
                                                        of twins, too
             | [INTRO] object ["is"] RELATION object "and" RELATION object
                                                        of three objects
    object  := ARTICLE [SIZE] COLOUR SHAPE
"""

import functools
import io
import itertools
import random
import re
from dataclasses import dataclass

import numpy as np

from data_utils.captions import tokenise
from data_utils.datasets import covered_fraction
from data_utils.photos import height_and_width

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
# The width of an object, as a fraction of the picture's shorter side.
SIZES = {"small": 0.20, "big": 0.34}
SIZE_WORDS = {"small": "small", "little": "small", "big": "big", "large": "big"}
RELATIONS = {
    "left": ("left of", "to the left of"),
    "right": ("right of", "to the right of"),
    "above": ("above", "over"),
    "below": ("below", "under"),
}
RELATION_WORDS = ("left", "right", "above", "over", "below", "under")
INTRODUCTIONS = ("", "there is", "you can see", "a picture of")
_INTRODUCTION_WEIGHTS = (6, 1, 1, 1)
ARTICLES = ("a", "an", "one", "the")
_BACKGROUNDS = ((236, 240, 247), (247, 241, 230), (233, 244, 236), (245, 235, 241), (240, 240, 240))


@dataclass(frozen=True)
class SceneObject:
    """A shape in a scene; `box` is (left, top, right, bottom) in pixels, where right
    and bottom are exclusive.
    """

    shape: str
    colour: str
    size: str
    box: tuple

    @property
    def looks(self):
        return self.size, self.colour, self.shape


@dataclass(frozen=True)
class WordPlace:
    """The part of the picture that a word of a caption refers to.

    Attributes:
        position, word: the index of the word in the caption, and the word.
        word_class: "colour", "shape", "size", "relation" or "number".
        boxes: the boxes of the objects that it refers to, each (left, top, right,
            bottom) in pixels.
        image_size: (height, width) of the picture in pixels.
    """

    position: int
    word: str
    word_class: str
    boxes: tuple
    image_size: tuple

    def cells(self, grid_shape: tuple[int, int]) -> np.ndarray:
        """Return the fraction of each grid cell that the boxes cover, of shape
        `grid_shape`: (rows, columns).
        """
        height, width = self.image_size
        return covered_fraction(np.array(self.boxes) / (width, height, width, height), grid_shape)


@dataclass(frozen=True, eq=False)
class Scene:
    """A drawn picture with its objects and true captions.

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
        """Return a WordPlace for each content word of a true caption.

        See `word_places`.
        """
        return word_places(self, caption)

    def png(self) -> bytes:
        """Return the picture as PNG-encoded bytes."""
        from PIL import Image

        file = io.BytesIO()
        Image.fromarray(self.image).save(file, format="PNG")
        return file.getvalue()


def draw_scenes(
    num_scenes: int, seed: int = 0, image_size=64, *, max_objects: int = 2, twin_share: float = 0.1
) -> list[Scene]:
    """Draw scenes with true captions; return a list. The same seed gives the same
    pixels and captions.

    Scene number i does not depend on `num_scenes`: a longer list starts with the
    shorter one.

    Args:
        image_size: the side of the square pictures in pixels, or (height, width).
        max_objects: 1, 2 or 3; each number of objects is equally frequent.
        twin_share: the fraction of twins among the scenes with two objects.
    """
    height, width = height_and_width(image_size)
    if min(height, width) < 32 or not 1 <= max_objects <= 3:
        expected = "Scenes must be at least 32 pixels on each side and have 1 to 3 objects."
        raise ValueError(f"{expected} Received: {image_size=}, {max_objects=}")
    looks = list(itertools.product(SIZES, COLOURS, SHAPES))
    scenes = []
    for index in range(num_scenes):
        image_id = f"scene-{seed}-{index:06d}"
        # a string seed gives the same stream on every machine
        rng = random.Random(f"{image_id} {height}x{width}")
        objects = _place_objects(rng, looks, rng.randint(1, max_objects), twin_share, height, width)
        split = {8: "dev", 9: "test"}.get(index % 10, "train")
        image = _draw(rng, objects, height, width)
        captions = _captions(rng, objects)
        scenes.append(Scene(image_id, image, objects, captions, split))
    return scenes


# === Placing and drawing ===


def _place_objects(rng, looks, num_objects, twin_share, height, width):
    """Place objects with gaps between them.

    If there are two, exactly one relation holds.
    """
    side = min(height, width)
    gap = side // 12
    while True:  # rejection sampling
        chosen = rng.sample(looks, num_objects)
        if num_objects == 2 and rng.random() < twin_share:
            chosen[1] = chosen[0]
        objects = []
        for size, colour, shape in chosen:
            extent = round(SIZES[size] * side) + rng.randint(-side // 64, side // 64)
            left = rng.randint(2, width - extent - 2)
            top = rng.randint(2, height - extent - 2)
            objects.append(
                SceneObject(shape, colour, size, (left, top, left + extent, top + extent))
            )
        pairs = itertools.combinations(objects, 2)
        if all(_are_placed_clearly(*pair, gap, num_objects) for pair in pairs):
            return tuple(objects)


def _are_placed_clearly(first, second, gap, num_objects):
    """Return whether every relation of two objects, and at least one, holds with the
    gap; if there are only two objects, exactly one.
    """
    relations = _relations(first, second)
    clear_relations = _relations(first, second, gap)
    is_one = len(clear_relations) == 1
    return clear_relations == relations and (is_one or (num_objects == 3 and bool(relations)))


def _relations(first, second, gap=0):
    """Return a set of relations, such as "left" if the first object is at least `gap`
    pixels left of the second.
    """
    (left, top, right, bottom), other = first.box, second.box
    spaces = {
        "left": other[0] - right,
        "right": left - other[2],
        "above": other[1] - bottom,
        "below": top - other[3],
    }
    return {relation for relation, space in spaces.items() if space >= gap}


_STAR = [
    (50, 0),
    (62, 36),
    (100, 38),
    (70, 61),
    (81, 98),
    (50, 76),
    (19, 98),
    (30, 61),
    (0, 38),
    (38, 36),
]
_SMOOTHING = 4  # shapes are drawn this many times larger, and averaged


def _draw(rng, objects, height, width):
    """Draw a soft gradient, and each object with a faint shadow, using integer
    arithmetic only.
    """
    from PIL import Image

    first, second = (np.array(colour) for colour in rng.sample(_BACKGROUNDS, 2))
    rows, columns = np.arange(height)[:, None, None], np.arange(width)[None, :, None]
    weight = rng.randint(0, 8) * rows * width + rng.randint(0, 8) * columns * height
    background = first - rng.randint(0, 12) + (second - first) * weight // (16 * height * width)
    picture = Image.fromarray(background.clip(0, 255).astype(np.uint8))
    for item in objects:
        left, top, right, bottom = item.box
        mask = _shape_mask(item.shape, right - left)
        offset = max(min(height, width) // 48, 1)
        picture.paste(
            (150, 150, 160), (left + offset, top + offset), mask.point(lambda value: value * 2 // 5)
        )
        shade = rng.randint(-8, 8)
        picture.paste(
            tuple(min(max(c + shade, 0), 255) for c in COLOURS[item.colour]), (left, top), mask
        )
    return np.array(picture)


@functools.cache
def _shape_mask(shape, extent):
    """Return the antialiased mask (mode L) of a shape that fills a square of `extent`
    pixels.
    """
    from PIL import Image, ImageDraw

    end = extent * _SMOOTHING - 1
    mask = Image.new("L", (end + 1, end + 1))
    draw = ImageDraw.Draw(mask)
    if shape == "circle":
        draw.ellipse((0, 0, end, end), fill=255)
    elif shape == "square":
        draw.rectangle((end // 16, end // 16, end - end // 16, end - end // 16), fill=255)
    elif shape == "triangle":
        draw.polygon(
            [(end // 2, end // 24), (end, end - end // 24), (0, end - end // 24)], fill=255
        )
    else:
        draw.polygon([(x * end // 100, y * end // 100) for x, y in _STAR], fill=255)
    return mask.reduce(_SMOOTHING)


# === Writing captions ===


def _captions(rng, objects):
    """Return five different true captions of a scene."""
    captions = {}
    while len(captions) < 5:
        captions[" ".join(_sentence(rng, objects))] = None
    return tuple(captions)


def _sentence(rng, objects):
    introduction = rng.choices(INTRODUCTIONS, weights=_INTRODUCTION_WEIGHTS)[0].split()
    if len(objects) == 1:
        return introduction + _noun_phrase(rng, objects[0])
    # Attention must find the first object before a word names it. If both orders were
    # equally likely, it would guess.
    order = sorted(objects, key=lambda item: [*COLOURS].index(item.colour))
    order = order if rng.random() < 0.8 else order[::-1]
    if len(objects) == 2 and order[0].looks == order[1].looks:
        return introduction + _twin_phrase(rng, order[0], introduction)
    # "there is a red circle is left of ..." is wrong: "is" needs a sentence without an
    # introduction
    verb = [] if introduction else ["is"]
    kinds = [item.looks[1:] for item in objects]  # if two are equal, their sizes differ
    first, *others = order
    name = _noun_phrase(rng, first, sized=kinds.count(first.looks[1:]) > 1)
    words = introduction + name + verb
    for number, other in enumerate(others):
        relation = rng.choice(sorted(_relations(first, other)))
        phrase = rng.choice(RELATIONS[relation])
        name = _noun_phrase(rng, other, sized=kinds.count(other.looks[1:]) > 1)
        if number:
            words.append("and")
        words += phrase.split() + name
    return words


def _noun_phrase(rng, item, *, articles=("a", "the", "one"), sized=False):
    words = [item.colour, item.shape]
    if sized or rng.random() < 0.5:
        size_words = [word for word, size in SIZE_WORDS.items() if size == item.size]
        words.insert(0, rng.choice(size_words))
    (article,) = rng.choices(articles, weights=[4, 2, 1][: len(articles)])
    if article == "a" and words[0][0] in "aeiou":
        article = "an"
    return [article, *words]


def _twin_phrase(rng, item, introduction):
    if introduction != ["there", "is"] and rng.random() < 0.5:
        _, *words = _noun_phrase(rng, item, articles=("a",))
        return ["two", *words[:-1], words[-1] + "s"]
    first, second = (_noun_phrase(rng, item, articles=("a",)) for _ in range(2))
    if rng.random() < 0.5:
        second[0] = "another"
    return [*first, "and", *second]


# === Reading captions ===


def _looks(number):
    words = {"size": SIZE_WORDS, "colour": COLOURS, "shape": SHAPES}
    size, colour, shape = (f"(?P<{name}{number}>{'|'.join(words[name])})" for name in words)
    return f"(?:{size} )?{colour} {shape}"


def _object(number, articles=ARTICLES):
    return f"(?:{'|'.join(articles)}) {_looks(number)}"


def _relation(number):
    phrases = "|".join(itertools.chain(*RELATIONS.values()))
    return f"(?P<relation{number}>{phrases}) {_object(number)}"


_INTRODUCTION = f"(?P<introduction>(?:{'|'.join(INTRODUCTIONS[1:])}) )?"
_SENTENCES = [  # "is" is allowed only without an introduction
    re.compile(f"{_INTRODUCTION}(?P<number0>two) {_looks(0)}s"),
    re.compile(f"{_INTRODUCTION}{_object(0)}(?: and {_object(1, [*ARTICLES, 'another'])})?"),
    re.compile(
        f"{_INTRODUCTION}{_object(0)}(?(introduction)|(?: is)?) {_relation(1)}(?: and "
        f"{_relation(2)})?"
    ),
]


def _parsed(caption):
    """Return the regular expression match of a caption; None if it does not follow the
    grammar.
    """
    text = " ".join(tokenise(caption))
    for sentence in _SENTENCES:
        match = sentence.fullmatch(text)
        if match is not None:
            return match
    return None


def _assignments(scene, match):
    """Return every assignment of objects to the noun phrases for which the sentence is
    true, as a list of tuples of objects.

    Args:
        match: the result of `_parsed`.
    """
    words = match.groupdict()
    candidates = []  # for each noun phrase, the objects that look like it
    for number in range(3):
        colour = words.get(f"colour{number}")
        if colour is None:
            continue
        size_word = words[f"size{number}"]
        sizes = SIZES if size_word is None else [SIZE_WORDS[size_word]]
        looks = [(size, colour, words[f"shape{number}"]) for size in sizes]
        candidates.append([item for item in scene.objects if item.looks in looks])
    if "number0" in words:
        twins = candidates[0]
        return [tuple(twins)] if len(twins) == 2 else []
    phrases = [words[name] for name in ("relation1", "relation2") if words.get(name)]
    assignments = []
    for objects in itertools.product(*candidates):
        first, *others = objects
        are_different = len(set(objects)) == len(objects)
        are_related = all(
            _is_related(phrase, first, other) for phrase, other in zip(phrases, others)
        )
        if are_different and are_related:
            assignments.append(objects)
    return assignments


def _is_related(phrase, first, other):
    """Return whether a phrase such as "left of" is true of the first object and another
    one.
    """
    return any(phrase in RELATIONS[relation] for relation in _relations(first, other))


def is_true(scene: Scene, caption: str) -> bool | None:
    """Return whether a caption is true of a scene: True, False, or None if it does not
    follow the grammar.

    "a red circle" is true of a scene with a red circle and something else; "two red
    circles" needs exactly two; "a red circle and a red circle" needs two different
    ones.
    """
    match = _parsed(caption)
    return None if match is None else bool(_assignments(scene, match))


def word_places(scene: Scene, caption: str) -> list[WordPlace]:
    """Return a WordPlace for each content word of a true caption, in order.

    Words for colour, shape and size refer to one object; words for a relation, and
    "two", refer to both objects. The list is empty for a caption that is false or does
    not follow the grammar.
    """
    match = _parsed(caption)
    assignments = [] if match is None else _assignments(scene, match)
    if not assignments:
        return []
    words, groups = match.string.split(), match.groupdict()
    places = []
    for name, phrase in groups.items():
        if phrase is None or name == "introduction":
            continue
        word_class, number = name[:-1], int(name[-1])
        entries = (number,)  # of an assignment: the objects that the word refers to
        if "number0" in groups:
            entries = (0, 1)
        elif word_class == "relation":
            entries = (0, number)
        boxes = [objects[entry].box for objects in assignments for entry in entries]
        boxes = tuple(dict.fromkeys(boxes))
        first_position = match.string.count(" ", 0, match.start(name))
        for position in range(first_position, first_position + len(phrase.split())):
            word = words[position]
            if word_class != "relation" or word in RELATION_WORDS:
                places.append(WordPlace(position, word, word_class, boxes, scene.image.shape[:2]))
    return sorted(places, key=lambda place: place.position)
