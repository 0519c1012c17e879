"""Measure whether a word depends on the places that it attends to.

A map may look right and not matter. So for each content word, the cells that it attends
to most are replaced by the mean annotation vector, at every step and in what h_0 is
computed from. The fall of the word's log p under teacher forcing is compared with that
for other cells, for places blurred in the photo, and for other maps in place of
alpha_t.

Sources: Jain and Wallace, 2019, Attention is not Explanation; Wiegreffe and Pinter,
2019, Attention is not not Explanation; Petsiuk et al., 2018, RISE: Randomized Input
Sampling for Explanation of Black-box Models; Sun et al., 2022, Explain and Improve:
LRP-Inference Fine-Tuning for Image Captioning Models. docs/evaluation.md says what
differs.
"""

import numpy as np

from data_utils.datasets.phrase_boxes import content_positions
from data_utils.images import load_image
from data_utils.progress import Progress
from keras_sat.options import count
from keras_sat.scoring.grounding import centred_map
from keras_sat.scoring.scores import Score

CELLS = ("attended", "random", "middle", "other_words", "least")  # which cells are replaced
SWAPS = ("uniform", "other_photo")  # which map replaces alpha_t
FIGURES = {"drop": CELLS, "swap": SWAPS, "area": ("most_first", "least_first"), "pixels": CELLS}
LEVELS = 10  # "drop" and "pixels" replace a tenth of the cells, curves 1 to 10 tenths
PIXEL_PHOTOS = 100  # photos in which places are blurred: five more encodings for each word
BLUR = 1 / 14  # standard deviation, as a fraction of the photo's width
SEED = 0  # of the random cells
# Sums over the words of a photo: 1, falls of log p, p before and after each level of
# two orders; 1 and falls for blur.
SIZES = (1, len(CELLS), len(SWAPS), 1, LEVELS, LEVELS, 1, len(CELLS))


def figures_of(of_photos, num_regions):
    """Return the means over words as a dict for JSON, given the output of `measure`;
    None if nothing was measured.

    "drop" is the fall of a word's log p, in nats, if a tenth of the cells is replaced:
    those that the word attends to most, random ones, those in the middle, those that
    the caption's other content words attend to most, and those that the word attends to
    least. "pixels" has the same for places blurred in the photo. "swap" is the fall if
    alpha_t is replaced by a uniform map, or by that of another photo at the same step.
    "curves" has the word's probability with 0, 10, .. 100 % of the cells replaced, in
    the order of attention and in the opposite one, and "area" the area below. Read
    backwards, "least_first" is an insertion curve: the cells return in the order of
    attention.
    """
    sums = of_photos.sum(axis=0)
    means = {
        name: np.where(np.isnan(values), None, values).tolist()
        for name, values in _means(sums).items()
    }
    figures = {part: dict(zip(names, means[part])) for part, names in FIGURES.items()}
    figures["pixels"]["num_words"] = round(sums[-1 - len(CELLS)])
    if len(of_photos) < 2:
        figures["swap"]["other_photo"] = None
    curves = dict(zip(FIGURES["area"], means["curves"]))
    return {
        "num_words": round(sums[0]),
        "cells": round(num_regions / LEVELS),
        **figures,
        "curves": curves,
    }


def as_table(rows):
    """Format a table from a dict that maps titles to outputs of `figures_of`."""
    columns = (*CELLS, *SWAPS)
    lines = [
        f"{'fall of log p':26}{'words':>7}"
        + "".join(f"{name.replace('_', ' '):>12}" for name in columns)
    ]
    for title, row in rows.items():
        for name, figures in (
            (title, row | row["drop"] | row["swap"]),
            ("  blurred in the photo", row["pixels"]),
        ):
            shown = (
                "-" if figures.get(column) is None else f"{figures[column]:.3f}"
                for column in columns
            )
            lines.append(
                f"{name:26}{figures['num_words']:>7}" + "".join(f"{text:>12}" for text in shown)
            )
    return "\n".join(
        [*lines, "A tenth of the cells is replaced by their mean, or the whole map by another."]
    )


def _means(sums):
    """Return the means over words as a dict of FIGURES and curves, from sums (..., sum
    of SIZES); NaN without words.
    """
    words, *parts, pixel_words, pixels = np.split(sums, np.cumsum(SIZES)[:-1], axis=-1)
    drop, swap, before, most, least = (part / np.where(words > 0, words, np.nan) for part in parts)
    curves = np.stack(
        [np.concatenate([before, curve], axis=-1) for curve in (most, least)], axis=-2
    )
    means = {
        "drop": drop,
        "swap": swap,
        "area": np.trapezoid(curves, dx=1 / LEVELS),
        "curves": curves,
    }
    return means | {"pixels": pixels / np.where(pixel_words > 0, pixel_words, np.nan)}


def reject_unfit(captioner, pixel_photos):
    """Raise ValueError unless the captioner has attention and `pixel_photos` is a
    number of photos.
    """
    count(0).check("pixel_photos", pixel_photos)
    if not getattr(getattr(captioner, "decoder", None), "chooses", False):
        received = getattr(captioner, "attention", type(captioner).__name__)
        raise ValueError(
            "Faithfulness requires a single captioner with attention. Received: "
            f"attention={received!r}"
        )


def measure(
    captioner,
    images,
    captions,
    *,
    cache=None,
    batch_size=64,
    pixel_photos=PIXEL_PHOTOS,
    show_progress=False,
):
    """Return each photo's contribution to `figures_of`, (photos, sum of SIZES); for the
    other arguments see `evaluate`.

    Args:
        images: list of photos, see `Captioner.caption_each`.
        captions: the words of a caption for each photo. Words that name nothing or are
            unknown are not measured.
        pixel_photos: number of photos, from the first, in which places are blurred.
    """
    if not len(images):
        raise ValueError("Faithfulness requires at least one photo. Received: no photos")
    batches = captioner.batches(images, batch_size, cache)
    found = _of_photos(captioner, batches, images, captions, pixel_photos)
    shown = {"label": "faithfulness", "unit": "photos", "show": show_progress}
    return np.stack([*Progress.over(found, len(images), **shown)])


def _of_photos(captioner, batches, images, captions, pixel_photos):
    """Yield the sums of each photo; see `measure` and `_of_photo`."""
    previous = None
    for batch in batches:
        captions_of_batch = [captions[number] for number in batch.numbers]
        results = captioner._given_captions(captions_of_batch, batch.features, batch.photos)
        grids = np.asarray(captioner.decoder_features(batch.features))
        for number, grid, result in zip(batch.numbers, grids, results):
            # Of the first photo, the other one is the last of the batch.
            other = results[-1] if previous is None else previous
            image = getattr(images[number], "image_path", images[number])
            photo = load_image(image, captioner.photo_sizes[0]) if number < pixel_photos else None
            yield _of_photo(
                captioner, grid[None], result, other, photo, np.random.default_rng([SEED, number])
            )
            previous = result


def _of_photo(captioner, grid, result, other, photo, chance):
    """Return a photo's sums, given its adapted features (1, regions, feature_dim) and
    its and another photo's results.

    Places are blurred in `photo`, uint8 (height, width, 3), unless it is None; `chance`
    is a random generator.
    """
    sums, num_replaced = np.zeros(sum(SIZES)), len(CELLS + SWAPS)
    ids, content = (
        captioner.vocabulary.caption_to_ids(result.words),
        content_positions(result.words),
    )
    for t in content:
        if ids[t] == captioner.vocabulary.unk_token_id:
            continue
        own, others = (
            result.attention_weights[t],
            result.attention_weights[[i for i in content if i != t]],
        )
        another = other.attention_weights[min(t, len(other.words) - 1)] if other.words else own
        masks = _masks(own, others.sum(axis=0), chance)
        maps = np.zeros(masks.shape, "float32")
        maps[len(CELLS) : num_replaced] = np.full(own.size, 1 / own.size), another.ravel()
        log_probs = _log_probs(captioner, grid, masks, maps, ids, t)
        before = log_probs[-1]
        found = [
            1,
            *(before - log_probs[:num_replaced]),
            *np.exp([before, *log_probs[num_replaced:-1]]),
        ]
        if photo is not None:
            masks, maps = masks[: len(CELLS)], maps[: len(CELLS)]
            grids = captioner.decoder_features(
                captioner.encode(_blurred(photo, masks.reshape(-1, *own.shape)))
            )
            found += [
                1,
                *(before - _log_probs(captioner, grids, np.zeros_like(masks), maps, ids, t)),
            ]
        sums[: len(found)] += found
    return sums


def _masks(own, others, chance):
    """Return the cells to replace, given the maps of a word and, summed, of the
    caption's other content words, if any.

    The masks (rows, regions) are those for CELLS, none for SWAPS, those for the levels
    of both orders, and none.
    """
    rank, random = _rank(own), chance.permutation(own.size)
    ranks = [
        rank,
        random,
        _rank(centred_map(own.shape)),
        _rank(others) if others.any() else random,
        _rank(-own),
    ]
    numbers = np.round(own.size * np.arange(1, LEVELS + 1) / LEVELS)[:, None]
    none = np.zeros((len(SWAPS), own.size), bool)
    return np.concatenate(
        [np.stack(ranks) < numbers[0], none, rank < numbers, ranks[-1] < numbers, none[:1]]
    )


def _rank(weights):
    """Return the rank of each cell, 0 for the greatest weight."""
    return np.argsort(np.argsort(-weights.ravel(), kind="stable"))


def _blurred(photo, masks):
    """Return copies of a photo in which the cells of the masks (copies, rows, columns)
    are blurred.
    """
    from PIL import Image, ImageFilter

    size = photo.shape[1::-1]
    blurred = np.array(Image.fromarray(photo).filter(ImageFilter.GaussianBlur(BLUR * size[0])))
    places = [
        np.array(Image.fromarray(mask).resize(size, Image.Resampling.NEAREST)) for mask in masks
    ]
    return np.where(np.stack(places)[..., None], blurred, photo)


def _log_probs(captioner, grids, replaced, maps, ids, position):
    """Return log p of the word at a position of a caption, (rows,).

    The adapted features `grids` are (rows, regions, feature_dim), or (1, ..) for all
    rows; the mask `replaced` and the maps that replace alpha_t at this word, unless
    they are 0, are (rows, regions).
    """
    from keras import ops

    from keras_sat import equations
    from keras_sat.search.generation import LENGTH_STEP

    decoder, attention = captioner.decoder, captioner.decoder.attention_layer

    def altered_log_probs(grids, replaced, maps, input_ids, targets, positions):
        altered = ops.where(replaced[..., None], ops.mean(grids, axis=1, keepdims=True), grids)
        times, t = ops.arange(input_ids.shape[1]), positions[0]
        given = maps[:, None] * ops.cast(times == t, "float32")[:, None]
        attention.select, own = (
            lambda a, x, _: ops.where(ops.any(x > 0, -1, keepdims=True), x, a),
            attention.select,
        )
        try:
            is_read = ops.cast(times <= positions[:, None], "float32")
            unrolled = decoder.unroll(altered, input_ids, given, token_weights=is_read)
        finally:
            attention.select = own
        return equations.word_log_probs(decoder.readout(*(x[t] for x in unrolled[:3])), targets)

    rows, padding = len(maps), [0] * (-len(ids) % LENGTH_STEP)  # lengths share graphs
    input_ids = [captioner.vocabulary.start_token_id, *ids[:-1], *padding]
    of_rows = (
        np.tile(np.array(input_ids, "int32"), (rows, 1)),
        *np.full((2, rows), [[ids[position]], [position]], "int32"),
    )
    return np.asarray(captioner._run(altered_log_probs, grids, replaced, maps, *of_rows))


def _score(key, prefix):
    """Return the Score for `compare`.

    It is not in SCORES because it needs more than captions.
    """
    columns = [
        (f"{key}_{part}_{name}", part, name) for part, names in FIGURES.items() for name in names
    ]

    def of_sums(sums, num_photos):
        means = _means(sums)
        return {
            column: means[part][..., FIGURES[part].index(name)] for column, part, name in columns
        }

    titles = {column: f"{prefix}{part}: {name.replace('_', ' ')}" for column, part, name in columns}
    shown = {"shape": (sum(SIZES),), "unit": 1, "digits": 3}
    return Score(columns=titles, measure=None, of_sums=of_sums, contributions=key, **shown)


FAITHFULNESS = (_score("faithfulness", ""), _score("faithfulness_references", "human "))
