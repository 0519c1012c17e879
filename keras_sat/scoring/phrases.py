"""Measure whether attention for the last content word of a phrase is on the boxes that
annotators drew for it.
"""

from typing import Any

import numpy as np

from data_utils.captions import tokenise
from data_utils.datasets.phrase_boxes import covered_fraction
from data_utils.progress import Progress
from keras_sat.scoring.grounding import FIGURES, MEASURES, figures_of_map, table_of
from keras_sat.scoring.scores import Score

SMALL = 0.25  # fraction of the photo; boxes that cover less are also reported separately


def figures_of(of_photos) -> dict[str, Any]:
    """Return a dict of "num_phrases" and the mean FIGURES (None without phrases);
    "small" has the same for small boxes.

    `of_photos` is (photos, 2, 10): for all phrases and for those with small boxes,
    their count and sums of FIGURES.
    """
    every, small = (_means(sums) for sums in of_photos.sum(axis=0))
    return {**every, "small": small}


def as_table(rows):
    """Format a table from a dict that maps titles to outputs of `figures_of`."""
    small = f"  boxes below {100 * SMALL:.0f} %"
    lines = [
        line
        for title, figures in rows.items()
        for line in ((title, figures), (small, figures["small"]))
    ]
    return table_of([(name, row["num_phrases"], row) for name, row in lines], "phrases")


def _means(sums):
    number, *totals = sums.tolist()
    means = {name: total / number if number else None for name, total in zip(FIGURES, totals)}
    return {"num_phrases": round(number), **means}


def ground_phrases(
    captioner, images, boxes, *, cache=None, batch_size=64, show_progress=False
) -> np.ndarray:
    """Read human captions with teacher forcing; return each photo's contribution to
    `figures_of`.

    Photos of unknown aspect ratio are not measured. For the arguments see `evaluate`;
    `boxes` must be Boxes.
    """
    of_photos = np.zeros((len(images), 2, 1 + len(FIGURES)))
    read = []  # (index of the photo, the phrases of one of its captions)
    for number, image in enumerate(images):
        phrases = measured_phrases(boxes, image)
        for caption in dict.fromkeys(phrase.caption for phrase in phrases):
            read.append((number, [phrase for phrase in phrases if phrase.caption == caption]))
    photos = [images[number] for number, _ in read]
    captions = [images[number].captions[phrases[0].caption] for number, phrases in read]
    results = captioner.attend_each(photos, captions, cache=cache, batch_size=batch_size)
    results = Progress.over(
        results, len(read), label="phrases", unit="captions", show=show_progress
    )
    for (_, result), (number, phrases) in zip(results, read):
        for phrase in phrases:
            if (word := last_content_word(result.words, phrase)) is not None:
                _add(of_photos[number], result.attention_weights[word], phrase.boxes)
    return of_photos


def ground_captions(results, images, boxes) -> np.ndarray:
    """Return each photo's contribution to `figures_of`, for captions that a captioner
    generated.

    A word counts if it is the last content word of an annotated phrase of the photo.
    Its map is compared with the boxes of all phrases that end with this word.
    """
    of_photos = np.zeros((len(images), 2, 1 + len(FIGURES)))
    for sums, result, image in zip(of_photos, results, images):
        named = {}
        for phrase in measured_phrases(boxes, image):
            words = tokenise(image.captions[phrase.caption])
            if (word := last_content_word(words, phrase)) is not None:
                named.setdefault(words[word], []).extend(phrase.boxes)
        for word, attention_map in zip(result.words, result.attention_weights):
            if word in named:
                _add(sums, attention_map, tuple(named[word]))
    return of_photos


def measured_phrases(boxes, image):
    """Return the phrases of a photo on which attention is measured."""
    return [] if image.image_id in boxes.unsure else boxes.phrases.get(image.image_id, [])


def last_content_word(words, phrase):
    """Return the index of a phrase's last content word in a caption, or None."""
    return max(phrase.naming_words(words), default=None)


def _add(sums, attention_map, boxes):
    """Add the figures of an attention map to its photo's sums, an array (2, 10)."""
    covered = covered_fraction(boxes, attention_map.shape)
    sums[: 2 if covered.mean() < SMALL else 1] += [
        1.0,
        *figures_of_map(np.asarray(attention_map, float), covered),
    ]


COLUMNS = dict(zip(MEASURES, ("on boxes", "peak", "coverage")))
COLUMNS |= {f"small_{name}": f"small: {title}" for name, title in COLUMNS.items()}


def _of_sums(sums, num_photos):
    """Return the figures that `compare` shows, given sums of shape (..., 2, 10)."""
    # (..., all or small, measures)
    means = sums[..., 1 : 1 + len(MEASURES)] / np.maximum(sums[..., :1], 1)
    return {
        name: means[..., number // len(MEASURES), number % len(MEASURES)]
        for number, name in enumerate(COLUMNS)
    }


# `compare` uses it if both tables have it. It is not in SCORES because it needs more
# than captions.
_CONTRIBUTIONS = {"contributions": "grounding", "shape": (2, 1 + len(FIGURES))}
GROUNDING = Score(columns=COLUMNS, measure=None, of_sums=_of_sums, **_CONTRIBUTIONS)
