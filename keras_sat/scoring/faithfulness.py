"""Measure whether a word depends on the places that it attends to.

A map may look right and not matter. So for each content word, the cells that it attends to most are replaced by the
mean annotation vector, at every step and in what h_0 is computed from. The fall of the word's log p under teacher
forcing is compared with that for other cells, for places blurred in the photo, and for other maps in place of alpha_t.

Sources: Jain and Wallace, 2019, Attention is not Explanation; Wiegreffe and Pinter, 2019, Attention is not not
Explanation; Petsiuk et al., 2018, RISE: Randomized Input Sampling for Explanation of Black-box Models; Sun et al.,
2022, Explain and Improve: LRP-Inference Fine-Tuning for Image Captioning Models. docs/evaluation.md says what differs.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from data_utils.datasets.phrase_boxes import content_positions
from data_utils.images import load_image
from data_utils.progress import Progress
from keras_sat.options import count
from keras_sat.scoring.grounding import centred_map
from keras_sat.scoring.scores import Score

CELLS = ("attended", "random", "middle", "other_words", "least")  # the cells that are replaced
SWAPS = ("uniform", "other_photo")  # the maps that replace alpha_t
ORDERS = ("most_first", "least_first")  # in which more and more cells are replaced
LEVELS = 10  # steps from none to all of them; "drop" and "pixels" replace a tenth
PIXEL_PHOTOS = 100  # photos in which places are blurred: five more encodings for each word
BLUR = 1 / 14  # standard deviation, as a fraction of the photo's width
SEED = 0  # of the random cells
LARGEST = 2**24  # numbers in the altered grids of one batch: 64 MiB
# The sums of a photo: number of words, drops, swaps, a curve for each order; number of words and drops of pixels.
SIZES = (1, len(CELLS), len(SWAPS), LEVELS + 1, LEVELS + 1, 1, len(CELLS))


def figures_of(of_photos, num_regions) -> dict[str, Any]:
    """Return the means over words as a dict for JSON, given the output of `measure`; None if nothing was measured.

    "drop" is the fall of a word's log p, in nats, if a tenth of the cells is replaced: those that the word attends to
    most, random ones, those in the middle, those that the caption's other content words attend to most, and those that
    the word attends to least. "pixels" has the same for places blurred in the photo. "swap" is the fall if alpha_t is
    replaced by a uniform map, or by that of another photo at the same step. "curves" has the word's probability with 0,
    10, .. 100 % of the cells replaced, in the order of attention and in the opposite one, and "area" the area below.
    Read backwards, "least_first" is an insertion curve: the cells return in the order of attention.
    """
    words, drops, swaps, *curves, pixel_words, pixels = (part.tolist() for part in _means(of_photos.sum(axis=0)))
    if len(of_photos) < 2:
        swaps[1] = None
    return {
        "num_words": round(words[0]),
        "cells": round(num_regions / LEVELS),
        "drop": _named(CELLS, drops),
        "pixels": {"num_words": round(pixel_words[0]), **_named(CELLS, pixels)},
        "swap": _named(SWAPS, swaps),
        "curves": dict(zip(ORDERS, curves if words[0] else (None, None))),
        "area": _named(ORDERS, map(_area, curves)),
    }


def as_table(rows):
    """Format a table from a dict that maps titles to outputs of `figures_of`."""
    columns = (*CELLS, *SWAPS)
    lines = [f"{'fall of log p':26}{'words':>7}" + "".join(f"{name.replace('_', ' '):>12}" for name in columns)]
    for title, row in rows.items():
        for name, figures in ((title, row | row["drop"] | row["swap"]), ("  blurred in the photo", row["pixels"])):
            shown = ("-" if figures.get(column) is None else f"{figures[column]:.3f}" for column in columns)
            lines.append(f"{name:26}{figures['num_words']:>7}" + "".join(f"{text:>12}" for text in shown))
    return "\n".join([*lines, "A tenth of the cells is replaced by their mean, or the whole map by another."])


def _named(names, values):
    return {name: None if value is None or np.isnan(value) else float(value) for name, value in zip(names, values)}


def _area(curves):
    """Return the area below curves (..., LEVELS + 1), from 0 to 1."""
    return np.trapezoid(curves, dx=1 / LEVELS)


def _means(sums):
    """Split sums (..., sum of SIZES) into their parts, and divide these by the number of words."""
    words, *parts, pixel_words, pixels = np.split(sums, np.cumsum(SIZES)[:-1], axis=-1)
    per_word, per_pixel_word = (1 / np.where(number > 0, number, np.nan) for number in (words, pixel_words))
    return words, *(part * per_word for part in parts), pixel_words, pixels * per_pixel_word


# === Measurement ===


def reject_unfit(captioner, pixel_photos):
    """Raise ValueError unless the captioner has attention and `pixel_photos` is a number of photos."""
    count(0).check("pixel_photos", pixel_photos)
    if not getattr(getattr(captioner, "decoder", None), "chooses", False):
        raise ValueError(
            "Faithfulness can only be measured for a single captioner with attention. "
            f"Received: attention={getattr(captioner, 'attention', type(captioner).__name__)!r}"
        )


def measure(captioner, images, results, *, cache=None, batch_size=64, pixel_photos=PIXEL_PHOTOS, show_progress=False):
    """Return the contribution of each photo to `figures_of`, (photos, sum of SIZES).

    Args:
        captioner: Captioner with attention.
        images: list of photos, see `Captioner.caption_each`.
        results: a CaptionResult for each photo, of a generated or given caption. Words that are not in the vocabulary
            or name nothing are not measured.
        cache, batch_size, show_progress: see `evaluate`.
        pixel_photos: number of photos, from the first, in which places are blurred too.
    """
    reject_unfit(captioner, pixel_photos)
    of_photos = np.zeros((len(images), sum(SIZES)))
    with_words = [number for number, result in enumerate(results) if result.words]
    before = dict(zip(with_words, [*with_words[-1:], *with_words]))  # the other photo is the one before

    def of_batch(features, photos, numbers):
        grids = captioner._run(captioner.adapt, features)
        for place, number in enumerate(numbers):
            if number not in before:
                continue
            photo = None
            if number < pixel_photos:
                path = getattr(images[number], "image_path", images[number])
                photo = load_image(path, captioner.photo_sizes[0]) if photos is None else photos[place]
            other = results[before[number]].attention_weights
            grid = np.asarray(grids[place : place + 1])
            of_photos[number] = _of_photo(captioner, grid, results[number], other, photo, [SEED, number])
        return numbers

    with (
        _maps_from_noise(captioner.decoder.attention_layer),
        Progress(len(images), label="faithfulness", unit="photos", show=show_progress) as progress,
    ):
        for _ in captioner._each(of_batch, images, batch_size, cache):
            progress.advance(1)
    return of_photos


@contextlib.contextmanager
def _maps_from_noise(attention):
    """Let the argument `noise` of an attention layer replace alpha_t, in rows where it is not all 0."""
    from keras import ops

    select = attention.select
    attention.select = lambda alpha, maps, _: ops.where(ops.any(maps > 0, axis=-1, keepdims=True), maps, alpha)
    try:
        yield
    finally:
        attention.select = select


def _of_photo(captioner, grid, result, other, photo, seed):
    """Return the sums of one photo.

    Args:
        grid: output of the adapter, (1, regions, feature_dim).
        result: CaptionResult, whose words are measured.
        other: the maps of another photo, (words, rows, columns).
        photo: uint8 (height, width, 3) to blur places in, or None.
        seed: of the random cells.
    """
    ids, chance = captioner.vocabulary.caption_to_ids(result.words), np.random.default_rng(seed)
    content = content_positions(result.words)
    positions = [t for t in content if ids[t] != captioner.vocabulary.unk_token_id]
    if not positions:
        return np.zeros(sum(SIZES))
    shape = other.shape[1:]
    maps, other = (x.reshape(len(x), -1) for x in (result.attention_weights, other))
    masks = np.stack([_masks(maps[t], maps[[i for i in content if i != t]], shape, chance) for t in positions])
    swaps = np.stack([[np.full_like(other[0], 1 / other.shape[1]), other[min(t, len(other) - 1)]] for t in positions])
    replaced = np.concatenate([masks, np.zeros(swaps.shape, bool)], axis=1)
    given = np.concatenate([np.zeros(masks.shape, swaps.dtype), swaps], axis=1)
    log_probs = _log_probs(captioner, grid, ids, positions, replaced, given)
    before = np.log(result.word_probs[positions])[:, None]
    drops, curves, swaps = np.split(before - log_probs, [len(CELLS), masks.shape[1]], axis=1)
    sums = [np.ones_like(before), drops, swaps]
    sums += [np.exp(before - np.pad(curve, [(0, 0), (1, 0)])) for curve in np.split(curves, len(ORDERS), axis=1)]
    if photo is None:
        sums.append(np.zeros((len(before), 1 + len(CELLS))))
    else:
        nothing = np.zeros_like(masks[:, : len(CELLS)])
        grids = _grids_of_blurred(captioner, photo, masks[:, : len(CELLS)].reshape(-1, *shape))
        log_probs = _log_probs(captioner, grids, ids, positions, nothing, nothing.astype(given.dtype))
        sums += [np.ones_like(before), before - log_probs]
    return np.concatenate(sums, axis=1).sum(axis=0)


def _masks(own, others, shape, chance):
    """Return which cells to replace for one word: masks (len(CELLS) + len(ORDERS) * LEVELS, regions).

    Args:
        own: its map, (regions,).
        others: the maps of the other content words of the caption, (words, regions); there may be none.
        shape: rows and columns.
        chance: random generator.
    """
    num_regions = len(own)
    numbers = np.round(num_regions * np.arange(1, LEVELS + 1) / LEVELS)[:, None]
    rank, random = _rank(own), chance.permutation(num_regions)
    of_others = _rank(others.sum(axis=0)) if len(others) else random
    backwards = num_regions - 1 - rank
    tenths = [ranks < numbers[0] for ranks in (rank, random, _rank(centred_map(shape)), of_others, backwards)]
    return np.concatenate([tenths, rank < numbers, backwards < numbers])


def _rank(weights):
    """Return the rank of each cell, 0 for the greatest weight."""
    return np.argsort(np.argsort(-np.ravel(weights), kind="stable"))


def _grids_of_blurred(captioner, photo, masks):
    """Blur the cells of each mask (masks, rows, columns) in a photo, and return the adapted features of the copies."""
    from PIL import Image, ImageFilter

    size = photo.shape[1::-1]
    blurred = np.array(Image.fromarray(photo).filter(ImageFilter.GaussianBlur(BLUR * size[0])))
    nearest = [np.array(Image.fromarray(mask).resize(size, Image.Resampling.NEAREST)) for mask in masks]
    photos = np.where(np.stack(nearest)[..., None], blurred, photo)
    return np.asarray(captioner._run(captioner.adapt, captioner.encode(photos)))


def _log_probs(captioner, grids, ids, positions, replaced, given):
    """Return log p of words of a caption under teacher forcing, (words, variants).

    Args:
        grids: adapted features, (words * variants, regions, feature_dim) or (1, regions, feature_dim).
        ids: the caption.
        positions: of the words in it, (words,).
        replaced: the cells to replace by their mean, (words, variants, regions).
        given: maps that replace alpha_t at the word's step, of the same shape; 0 for none.
    """
    from keras import ops

    from keras_sat import equations
    from keras_sat.search.generation import LENGTH_STEP

    decoder, vocabulary = captioner.decoder, captioner.vocabulary

    def faithful_log_probs(grids, replaced, given, input_ids, targets, positions):
        altered = ops.where(replaced[..., None], ops.mean(grids, axis=1, keepdims=True), grids)
        time, rows = input_ids.shape[1], ops.shape(input_ids)[0]
        maps = given[:, None] * ops.one_hot(positions, time)[..., None]
        is_read = ops.cast(ops.arange(time) <= positions[:, None], "float32")
        unrolled = decoder.unroll(altered, input_ids, maps, token_weights=is_read)
        at = positions * rows + ops.arange(rows)
        of_words = (ops.take(ops.reshape(x, (-1, x.shape[-1])), at, axis=0) for x in unrolled[:3])
        return equations.word_log_probs(decoder.readout(*of_words), targets)

    inputs = [vocabulary.start_token_id, *ids]
    time = -(-(max(positions) + 1) // LENGTH_STEP) * LENGTH_STEP  # lengths share graphs
    inputs = np.pad(inputs, (0, time), constant_values=vocabulary.pad_token_id)[:time].astype("int32")
    num_words, variants, num_regions = replaced.shape
    rows, at_once = num_words * variants, max(1, LARGEST // grids[0].size)
    of_rows = [replaced.reshape(rows, -1), given.reshape(rows, -1), np.tile(inputs, (rows, 1))]
    of_rows += [np.repeat(np.array(x, "int32"), variants) for x in ([ids[t] for t in positions], positions)]
    found = []
    for start in range(0, rows, at_once):
        some = slice(start, start + at_once)
        of_some = grids if len(grids) == 1 else grids[some]
        found.append(captioner._run(faithful_log_probs, of_some, *(x[some] for x in of_rows)))
    return np.concatenate(found).reshape(num_words, variants).astype(float)


# === Comparison ===

_FIGURES = [f"drop_{name}" for name in CELLS] + [f"swap_{name}" for name in SWAPS] + [f"area_{name}" for name in ORDERS]
_FIGURES += [f"pixels_{name}" for name in CELLS]


def _score(key, prefix):
    """Return the Score for `compare`; it is not in SCORES because it needs more than captions."""
    names = [f"{prefix}{name}" for name in _FIGURES]

    def of_sums(sums, num_photos):
        _, drops, swaps, most, least, _, pixels = _means(sums)
        areas = np.stack([_area(most), _area(least)], axis=-1)
        return dict(zip(names, np.moveaxis(np.concatenate([drops, swaps, areas, pixels], axis=-1), -1, 0)))

    titles = [prefix.replace("_", " ") + name.replace("_", ": ", 1).replace("_", " ") for name in _FIGURES]
    columns, shape = dict(zip(names, titles)), (sum(SIZES),)
    return Score(columns=columns, measure=None, of_sums=of_sums, contributions=key, shape=shape, unit=1, digits=3)


FAITHFULNESS = (_score("faithfulness", ""), _score("faithfulness_references", "human_"))
