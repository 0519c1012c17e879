"""Measure whether attention for the last content word of a phrase is on the boxes that
annotators drew for it.
"""

from typing import Any

import numpy as np

from data_utils.base import Progress
from data_utils.captions import tokenise
from data_utils.datasets import covered_fraction
from keras_sat.measuring.grounding import FIGURES, MEASURES, figures_of_map, table_of
from keras_sat.measuring.measured_maps import measured_maps
from keras_sat.measuring.scores import Score

SMALL = 0.25  # fraction of the photo; boxes that cover less are also reported separately


def grounding_figures(photo_sums) -> dict[str, Any]:
    """Return a dict of "num_phrases" and the mean FIGURES (None without phrases);
    "small" has the same for small boxes.

    `photo_sums` is (photos, 2, 10): for all phrases and for those with small boxes,
    their count and sums of FIGURES.
    """
    all_sums, small_sums = photo_sums.sum(axis=0)
    return {**_means(all_sums), "small": _means(small_sums)}


def grounding_table(rows):
    """Format a table from a dict that maps titles to outputs of `grounding_figures`."""
    lines = []
    for title, figures in rows.items():
        small_figures = figures["small"]
        lines.append((title, figures["num_phrases"], figures))
        lines.append(
            (f"  boxes below {100 * SMALL:.0f} %", small_figures["num_phrases"], small_figures)
        )
    return table_of(lines, "phrases")


def _means(sums):
    num_phrases, *totals = sums.tolist()
    means = dict.fromkeys(FIGURES)
    if num_phrases:
        means = {name: total / num_phrases for name, total in zip(FIGURES, totals)}
    return {"num_phrases": round(num_phrases), **means}


def ground_phrases(
    captioner,
    images,
    boxes,
    *,
    map_kind="attention",
    cache=None,
    batch_size=64,
    show_progress=False,
) -> np.ndarray:
    """Read human captions with teacher forcing; return each photo's contribution to
    `grounding_figures`, (photos, 2, 10).

    Photos of unknown aspect ratio are not measured. For the arguments see `evaluate`;
    `boxes` must be Boxes.
    """
    numbers, photos, captions, phrases_of_captions = [], [], [], []  # one of each per caption
    for number, image in enumerate(images):
        phrases = measured_phrases(boxes, image)
        for caption in dict.fromkeys(phrase.caption for phrase in phrases):
            numbers.append(number)
            photos.append(image)
            captions.append(image.captions[caption])
            phrases_of_captions.append([phrase for phrase in phrases if phrase.caption == caption])
    votes = {} if map_kind == "attention" else {"votes": True}
    results = captioner.attend_each(photos, captions, cache=cache, batch_size=batch_size, **votes)
    results = Progress.over(
        results, len(captions), label="phrases", unit="captions", show=show_progress
    )
    photo_sums = np.zeros((len(images), 2, 1 + len(FIGURES)))
    for number, (_, result), phrases in zip(numbers, results, phrases_of_captions):
        maps = measured_maps(result, map_kind)
        for phrase in phrases:
            position = last_content_word(result.words, phrase)
            if position is not None:
                _add(photo_sums[number], maps[position], phrase.boxes)
    return photo_sums


def ground_captions(results, images, boxes, *, map_kind="attention") -> np.ndarray:
    """Return each photo's contribution to `grounding_figures`, (photos, 2, 10), for
    captions that a captioner generated.

    A word counts if it is the last content word of an annotated phrase of the photo.
    Its map is compared with the boxes of all phrases that end with this word.
    """
    photo_sums = np.zeros((len(images), 2, 1 + len(FIGURES)))
    for sums, result, image in zip(photo_sums, results, images):
        named = boxes_of_words(boxes, image)
        for word, attention_map in zip(result.words, measured_maps(result, map_kind)):
            if word in named:
                _add(sums, attention_map, named[word])
    return photo_sums


def boxes_of_words(boxes, image):
    """Return the boxes of each word that is the last content word of a photo's phrases,
    a dict from words to tuples.
    """
    found = {}
    for phrase in measured_phrases(boxes, image):
        words = tokenise(image.captions[phrase.caption])
        position = last_content_word(words, phrase)
        if position is not None:
            found[words[position]] = found.get(words[position], ()) + tuple(phrase.boxes)
    return found


def measured_phrases(boxes, image):
    """Return the phrases of a photo on which attention is measured."""
    if image.image_id in boxes.unsure:
        return []
    return boxes.phrases.get(image.image_id, [])


def last_content_word(words, phrase):
    """Return the index of a phrase's last content word in a caption; None if it has
    none.
    """
    return max(phrase.naming_words(words), default=None)


def _add(sums, attention_map, boxes):
    """Add the figures of an attention map to its photo's sums, an array (2, 10)."""
    covered = covered_fraction(boxes, attention_map.shape)
    contribution = [1.0, *figures_of_map(np.asarray(attention_map, float), covered)]
    sums[0] += contribution
    if covered.mean() < SMALL:
        sums[1] += contribution


COLUMNS = dict(zip(MEASURES, ("on boxes", "peak", "coverage")))
COLUMNS |= {f"small_{name}": f"small: {title}" for name, title in COLUMNS.items()}


def _figures_of_sums(sums, num_photos):
    """Return the figures that `compare` shows, given sums of shape (..., 2, 10)."""
    num_phrases = sums[..., :1]
    means = sums[..., 1 : 1 + len(MEASURES)] / np.maximum(num_phrases, 1)
    means = means.reshape(*means.shape[:-2], len(COLUMNS))  # (..., 2 * measures)
    return {name: means[..., number] for number, name in enumerate(COLUMNS)}


# `compare` uses it if both tables have it. It is not in SCORES because it needs more
# than captions.
GROUNDING = Score(
    columns=COLUMNS,
    measure=None,
    figures_of_sums=_figures_of_sums,
    contributions="grounding",
    shape=(2, 1 + len(FIGURES)),
)
