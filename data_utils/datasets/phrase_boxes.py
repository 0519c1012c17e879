"""Read the bounding boxes that annotators drew for caption phrases of Flickr30k and
Flickr8k.

Flickr30k Entities (Plummer et al., 2015) is a folder with Sentences/NUMBER.txt, where
phrases are marked in captions,

    [/EN#1/people A girl] holds [/EN#2/other a kite] .

and Annotations/NUMBER.xml with the boxes for each number after EN#. It also has photos
of Flickr8k: the first number in their names is the Flickr30k name. The other format is
one JSON object, {file name: {"caption": index of the caption, "size_known": whether the
photo's aspect ratio is known, "phrases": [{"phrase": words, "first_word": index of its
first word, "boxes": [[left, top, right, bottom] as fractions of width and height]}]}}.
"""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from data_utils.base import brief, read_json, shortened
from data_utils.captions import CaptionedImage, Skipped, image_id_of, load_document, tokenise
from data_utils.datasets.assemble import expecting
from data_utils.photos import boxes_in_view

# Words of a phrase that name no object: attention is not measured on them.
NAMELESS = {
    "a",
    "an",
    "the",
    "his",
    "her",
    "their",
    "its",
    "some",
    "this",
    "that",
    "another",
    "other",
    "many",
}
NAMELESS |= {"several", "one", "two", "three", "four", "five"}
# Function words: attention is not supervised on them.
_SMALL_WORDS = """
    these those each every all both few more and or but while as if then than so of in on at by
    to from with without for into onto over under near next through across along around behind
    between among against above below inside outside off out up down about after before during
    toward towards past beside besides is are was were be been being am has have had having do
    does doing can hers theirs it he she they them him himself herself itself themselves who
    whom whose which what where when there here not no it's
"""
PLACELESS = NAMELESS | {*_SMALL_WORDS.split()}
# Also those of "in front of": they are not drawn.
NOT_CONTENT = PLACELESS | {"front", "left", "right"}
EXPECTED = "a folder of Flickr30k Entities with Annotations and Sentences, or a JSON file of boxes"
MOST_BOXES = 1_000  # per photo; annotators draw fewer than fifty
_MARKED = re.compile(r"\[/EN#(\d+)/\S+ ([^\]]*)\]")


@dataclass(frozen=True)
class Phrase:
    """A caption phrase and its bounding boxes in the photo.

    Attributes:
        caption: the index of the caption among those of its photo.
        first_word, num_words: index of its first word and number of words, as
            `tokenise` counts them.
        boxes: tuple of (left, top, right, bottom), as fractions of the photo's width
            and height.
    """

    caption: int
    first_word: int
    num_words: int
    boxes: tuple

    def naming_words(self, words):
        """Return the indices of the phrase's content words in the caption's `words`."""
        numbers = range(self.first_word, self.first_word + self.num_words)
        return [number for number in numbers if words[number] not in NAMELESS]


@dataclass(frozen=True)
class Boxes:
    """The caption phrases of several photos, with their bounding boxes.

    Attributes:
        phrases: dict from an image id to a list of Phrase, in the order of captions and
            words.
        unsure: ids of photos of unknown aspect ratio: their boxes may be a little off.
    """

    phrases: dict = field(repr=False)
    unsure: frozenset = frozenset()


def content_positions(words: list[str]) -> list[int]:
    """Return the positions of the words that may name something."""
    return [position for position, word in enumerate(words) if word.lower() not in NOT_CONTENT]


def read_boxes(path: str | os.PathLike | Boxes, images: list[CaptionedImage]) -> Boxes:
    """Return the Boxes of photos; a warning counts phrases that no caption contains and
    boxes outside the photo.

    Args:
        path: the folder of Flickr30k Entities, or a JSON file; or Boxes, which are
            returned unchanged.
        images: list of CaptionedImage.
    """
    if isinstance(path, Boxes):
        return path
    path = Path(path).expanduser()
    skipped = Skipped()
    phrases, unsure = {}, set()
    read = _read_entities if path.is_dir() else _read_json
    for image, marked, size_is_known in read(path, images):
        num_boxes = sum(len(boxes) for *_, boxes in marked)
        if num_boxes > MOST_BOXES:
            raise ValueError(
                f"{path}: a photo may have at most {MOST_BOXES} boxes. Received: {num_boxes} for "
                f"{brief(image.image_id)}"
            )
        if not size_is_known:
            unsure.add(image.image_id)
            skipped.add(
                "photos of unknown aspect ratio, on which attention is not measured", image.image_id
            )
        image_phrases = list(_phrases_of(image, marked, skipped))
        if image_phrases:
            phrases[image.image_id] = sorted(
                image_phrases, key=lambda phrase: (phrase.caption, phrase.first_word)
            )
    if not phrases:
        counted = "".join(f"; {reason}: {count}" for reason, count in skipped.counts.items())
        raise ValueError(
            f"{path}: no phrase has boxes for these {len(images)} photos{counted}. "
            f"Expected: {EXPECTED}."
        )
    skipped.warn(path)
    return Boxes(phrases, frozenset(unsure))


def _phrases_of(image, marked, skipped):
    """Yield a Phrase for each annotated phrase that occurs in the photo's captions.

    `marked` lists (caption, words, first piece, boxes); caption is its index, or the
    list of its pieces. A piece is a part of a word: annotators split "t-shirt" in two.
    """
    captions = [_pieces_of(tokenise(caption)) for caption in image.captions]
    texts = [[piece for piece, _ in pieces] for pieces in captions]
    for caption, words, first, boxes in marked:
        if isinstance(caption, list):
            caption = texts.index(caption) if caption in texts else None
        wanted = [piece for piece, _ in _pieces_of(tokenise(words))]
        pieces = texts[caption] if caption is not None and caption < len(texts) else []
        places = [
            n for n in range(len(pieces) - len(wanted) + 1) if pieces[n : n + len(wanted)] == wanted
        ]
        if not wanted or not places:
            skipped.add(
                "phrases that are not in the photo's captions",
                f"{brief(words)}, photo {image.image_id}",
            )
            continue
        clipped = [tuple(np.clip(np.asarray(box, float), 0, 1).tolist()) for box in boxes]
        fitting = tuple(box for box in clipped if box[0] < box[2] and box[1] < box[3])
        skipped.add("boxes outside the photo", f"photo {image.image_id}", len(boxes) - len(fitting))
        if fitting:
            place = min(places, key=lambda place: abs(place - first))
            numbers = [number for _, number in captions[caption][place : place + len(wanted)]]
            yield Phrase(caption, numbers[0], numbers[-1] - numbers[0] + 1, fitting)


def _pieces_of(words):
    """Split words at punctuation, and return a list of (piece, index of the word)."""
    return [
        (piece, number) for number, word in enumerate(words) for piece in re.findall(r"\w+", word)
    ]


def _read_json(path, images):
    """Yield (image, annotated phrases, whether the aspect ratio is known) from a JSON
    file of boxes.
    """
    expected = (
        "caption, and phrases with phrase, first_word and boxes (four fractions of the "
        "sides, not pixels)"
    )
    with expecting(path, EXPECTED):
        by_id = {image_id_of(name): entry for name, entry in read_json(path, EXPECTED).items()}
    for image in images:
        entry = by_id.get(image.image_id)
        if entry is None:
            continue
        with expecting(path, expected):
            marked = [
                (entry["caption"], phrase["phrase"], phrase["first_word"], phrase["boxes"])
                for phrase in entry["phrases"]
            ]
            if not all(_is_sound(*phrase) for phrase in marked):
                raise TypeError(f"the entry of {brief(image.image_id)} is {brief(entry)}")
        yield image, marked, bool(entry.get("size_known", True))


def _is_sound(caption, words, first_word, boxes):
    """Return whether a phrase has the right types, and boxes in fractions of the
    photo's sides instead of pixels.
    """
    sides = [side for box in boxes for side in box]
    are_boxes = all(len(box) == 4 for box in boxes) and all(
        type(side) in (int, float) for side in sides
    )
    is_phrase = type(caption) is type(first_word) is int and caption >= 0 and isinstance(words, str)
    return is_phrase and are_boxes and all(-1 <= side <= 2 for side in sides)


def _read_entities(path, images):
    """Yield tuples like those of `_read_json`, from the files of Flickr30k Entities."""
    for image in images:
        number = image.image_id.partition("_")[0]
        sentences = path / "Sentences" / f"{number}.txt"
        annotations = path / "Annotations" / f"{number}.xml"
        if not sentences.is_file() or not annotations.is_file():
            continue
        boxes, marked = _boxes_in(annotations), []
        for sentence in filter(str.strip, load_document(sentences).split("\n")):
            pieces = [piece for piece, _ in _pieces_of(tokenise(_MARKED.sub(r"\2", sentence)))]
            for phrase in _MARKED.finditer(sentence):
                number, words = phrase.groups()
                start = _MARKED.sub(r"\2", sentence[: phrase.start()])
                first_piece = len(_pieces_of(tokenise(start)))
                if number in boxes:
                    marked.append((pieces, words, first_piece, boxes[number]))
        yield image, marked, True


def _boxes_in(path):
    """Read an annotation file into a dict from phrase numbers to boxes."""
    document = load_document(path)
    if "<!" in document:  # XML entities could make a small file fill the memory
        raise ValueError(f"{path}: expected plain XML, without declarations. Received: '<!'")
    try:
        root, boxes = ElementTree.fromstring(document), {}
        size = [float(root.findtext(f"size/{side}")) for side in ("width", "height")]
        for thing in root.findall("object"):
            for place in thing.findall("bndbox"):
                sides = [float(place.findtext(side)) for side in ("xmin", "ymin", "xmax", "ymax")]
                for name in thing.findall("name"):
                    boxes.setdefault(name.text, []).append(
                        [side / whole for side, whole in zip(sides, size + size)]
                    )
    except (ElementTree.ParseError, TypeError, ValueError, ZeroDivisionError) as error:
        raise ValueError(
            f"{path}: expected an annotation file of Flickr30k Entities. Received: "
            f"{shortened(str(error))}"
        ) from None
    return boxes


@dataclass(frozen=True)
class CellBoxes:
    """The boxes of phrases on the grid of an encoder.

    Attributes:
        boxes: Boxes.
        grid_shape: (rows, columns).
    """

    boxes: Boxes
    grid_shape: tuple[int, int]

    @property
    def num_regions(self):
        """The number of cells."""
        rows, columns = self.grid_shape
        return rows * columns

    def covered(self, rows, views, shape):
        """Return the fraction of each region covered by each word's boxes, as an array
        of shape (rows, time, regions).

        A row is (CaptionedImage, index of one of its captions) or None; `shape` is
        (rows, time). `views` has the view number of each photo, see
        `data_utils.photos.views`.
        """
        covered = np.zeros((*shape, self.num_regions), np.float32)
        for row_of_covered, row, view in zip(covered, rows, views):
            if row is None:
                continue
            image, caption = row
            for number, word_boxes in _boxes_of_words(image, caption, self.boxes).items():
                visible_boxes = boxes_in_view(word_boxes, view, image.image_id)
                row_of_covered[number] = covered_fraction(visible_boxes, self.grid_shape).ravel()
        return covered


def covered_fraction(boxes, grid_shape):
    """Return the fraction of each grid cell that is covered by boxes, as an array of
    shape (rows, columns).

    >>> covered_fraction([(0.0, 0.0, 0.5, 0.25)], (2, 2)).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    left, top, right, bottom = np.reshape(np.asarray(boxes, float), (-1, 4)).T
    heights, row_of, y = _strips(grid_shape[0], top, bottom)
    widths, column_of, x = _strips(grid_shape[1], left, right)
    is_covered = np.zeros((len(y), len(x)), bool)
    for box in range(len(left)):  # one at a time: all boxes at once would fill the memory
        is_covered |= np.outer(
            (top[box] <= y) & (y < bottom[box]), (left[box] <= x) & (x < right[box])
        )
    return (
        row_of.T
        @ (is_covered * heights[:, None] * widths)
        @ column_of
        * (grid_shape[0] * grid_shape[1])
    )


def _boxes_of_words(image, caption, boxes):
    """Return each word's boxes by its index: its phrase's or, if all agree, those of
    the word in other captions.
    """
    phrases = boxes.phrases.get(image.image_id, ())
    if not phrases:
        return {}
    captions = {caption, *(phrase.caption for phrase in phrases)}
    words = {number: tokenise(image.captions[number]) for number in captions}
    boxes_by_number = {}  # in this caption
    boxes_by_word = {}  # in all captions, where phrases may disagree
    for phrase in phrases:
        for number in phrase.naming_words(words[phrase.caption]):
            word = words[phrase.caption][number]
            if word in PLACELESS:
                continue
            boxes_by_word.setdefault(word, set()).add(phrase.boxes)
            if phrase.caption == caption:
                boxes_by_number[number] = phrase.boxes
    agreed = {
        word: next(iter(several)) for word, several in boxes_by_word.items() if len(several) == 1
    }
    by_agreement = {
        number: agreed[word] for number, word in enumerate(words[caption]) if word in agreed
    }
    return by_agreement | boxes_by_number


def _strips(cells, starts, ends):
    """Divide one side of a photo into strips at the edges of all cells and boxes.

    Returns: sizes (strips,), the cell of each as one-hot vectors (strips, cells), and
    centres (strips,).
    """
    edges = np.unique(np.concatenate([np.linspace(0, 1, cells + 1), starts, ends]))
    middles = (edges[1:] + edges[:-1]) / 2
    return (
        np.diff(edges),
        np.eye(cells)[np.minimum((middles * cells).astype(int), cells - 1)],
        middles,
    )
