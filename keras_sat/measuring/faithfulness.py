"""Measure whether a word depends on the regions that it attends to.

A map may look right and not matter. So for each content word, the cells that it attends
to most are replaced by the mean annotation vector, at every step and in what h_0 is
computed from. The fall of the word's log p under teacher forcing is compared with that
for other cells, for regions blurred in the photo, and for other maps in place of
alpha_t.

Sources: Jain and Wallace, 2019, Attention is not Explanation; Wiegreffe and Pinter,
2019, Attention is not not Explanation; Petsiuk et al., 2018, RISE: Randomized Input
Sampling for Explanation of Black-box Models; Sun et al., 2022, Explain and Improve:
LRP-Inference Fine-Tuning for Image Captioning Models. docs/evaluation.md says what
differs.
"""

import numpy as np

from data_utils.base import Progress
from data_utils.datasets import content_positions
from data_utils.photos import load_image
from keras_sat.bounds import count
from keras_sat.measuring.explaining import AlteredRegions, log_probs_of, removed_in_order
from keras_sat.measuring.grounding import centred_map
from keras_sat.measuring.measured_maps import maps_to_rank
from keras_sat.measuring.scores import Score

CELLS = ("attended", "random", "middle", "other_words", "least")  # which cells are replaced
SWAPS = ("uniform", "other_photo")  # which map replaces alpha_t
FIGURES = {"drop": CELLS, "swap": SWAPS, "area": ("most_first", "least_first"), "pixels": CELLS}
LEVELS = 10  # "drop" and "pixels" replace a tenth of the cells, curves 1 to 10 tenths
PIXEL_PHOTOS = 100  # photos in which regions are blurred: five more encodings for each word
BLUR = 1 / 14  # standard deviation, as a fraction of the photo's width
SEED = 0  # of the random cells
# Sums over the words of a photo: 1, falls of log p for CELLS and SWAPS, p with nothing
# changed and after each level of two orders; 1 and falls of log p for blur.
SIZES = (1, len(CELLS), len(SWAPS), 1, LEVELS, LEVELS, 1, len(CELLS))


def faithfulness_figures(photo_sums, num_regions):
    """Return the means over words as a dict for JSON, given the output of `measure`;
    None if nothing was measured.

    "drop" is the fall of a word's log p, in nats, if a tenth of the cells is replaced:
    those that the word attends to most, random ones, those in the middle, those that
    the caption's other content words attend to most, and those that the word attends to
    least. "pixels" has the same for regions blurred in the photo. "swap" is the fall if
    alpha_t is replaced by a uniform map, or by that of another photo at the same step.
    "curves" has the word's probability with 0, 10, .. 100 % of the cells replaced, in
    the order of attention and in the opposite one, and "area" the area below. Read
    backwards, "least_first" is an insertion curve: the cells return in the order of
    attention.
    """
    sums = photo_sums.sum(axis=0)
    means = {
        name: np.where(np.isnan(values), None, values).tolist()
        for name, values in _means(sums).items()
    }
    figures = {part: dict(zip(names, means[part])) for part, names in FIGURES.items()}
    figures["pixels"]["num_words"] = round(sums[-1 - len(CELLS)])
    if len(photo_sums) < 2:
        figures["swap"]["other_photo"] = None
    curves = dict(zip(FIGURES["area"], means["curves"]))
    return {
        "num_words": round(sums[0]),
        "cells": round(num_regions / LEVELS),
        **figures,
        "curves": curves,
    }


def faithfulness_table(rows):
    """Format a table from a dict that maps titles to outputs of
    `faithfulness_figures`.
    """
    columns = (*CELLS, *SWAPS)
    titles = "".join(f"{name.replace('_', ' '):>12}" for name in columns)
    lines = [f"{'fall of log p':26}{'words':>7}{titles}"]
    for title, row in rows.items():
        lines.append(_line(title, row["num_words"], row["drop"] | row["swap"], columns))
        pixels = row["pixels"]
        lines.append(_line("  blurred in the photo", pixels["num_words"], pixels, columns))
    lines.append("A tenth of the cells is replaced by their mean, or the whole map by another.")
    return "\n".join(lines)


def _line(title, num_words, figures, columns):
    """Format a row of a table; "-" stands for a figure that is None or missing."""
    cells = []
    for name in columns:
        figure = figures.get(name)
        text = "-" if figure is None else f"{figure:.3f}"
        cells.append(f"{text:>12}")
    return f"{title:26}{num_words:>7}{''.join(cells)}"


def _means(sums):
    """Return the means over words as a dict of FIGURES and curves, from sums (..., sum
    of SIZES); NaN without words.
    """
    num_words, *parts, num_pixel_words, pixels = np.split(sums, np.cumsum(SIZES)[:-1], axis=-1)
    num_words = np.where(num_words > 0, num_words, np.nan)
    num_pixel_words = np.where(num_pixel_words > 0, num_pixel_words, np.nan)
    drop, swap, unchanged, most_first, least_first = (part / num_words for part in parts)
    curves = np.stack(
        [
            np.concatenate([unchanged, most_first], axis=-1),
            np.concatenate([unchanged, least_first], axis=-1),
        ],
        axis=-2,
    )  # (..., order, 1 + levels)
    return {
        "drop": drop,
        "swap": swap,
        "area": np.trapezoid(curves, dx=1 / LEVELS),
        "curves": curves,
        "pixels": pixels / num_pixel_words,
    }


def reject_unfit_captioner(captioner, pixel_photos):
    """Raise ValueError unless the captioner has attention and `pixel_photos` is a
    number of photos.
    """
    count(0).check("pixel_photos", pixel_photos)
    if not getattr(getattr(captioner, "decoder", None), "has_attention", False):
        received = getattr(captioner, "attention", type(captioner).__name__)
        raise ValueError(
            "Faithfulness requires a single captioner with attention. Received: "
            f"attention={received!r}"
        )


def measure_faithfulness(
    captioner,
    images,
    captions,
    *,
    cache=None,
    batch_size=64,
    pixel_photos=PIXEL_PHOTOS,
    map_kind="attention",
    show_progress=False,
):
    """Return each photo's contribution to `faithfulness_figures`, (photos, sum of
    SIZES); for the other arguments see `evaluate`.

    Args:
        images: list of photos, see `Captioner.caption_each`.
        captions: the words of a caption for each photo. Words that name nothing or are
            unknown are not measured.
        pixel_photos: number of photos, from the first, in which regions are blurred.
        map_kind: the maps that order the cells; see
            `keras_sat.measuring.measured_maps`.
    """
    if not len(images):
        raise ValueError("Faithfulness requires at least one photo. Received: no photos")
    batches = captioner.batches(images, batch_size, cache)
    sums = _each_photo_sums(captioner, batches, images, captions, pixel_photos, map_kind)
    sums = Progress.over(sums, len(images), label="faithfulness", unit="photos", show=show_progress)
    return np.stack([*sums])


def _each_photo_sums(captioner, batches, images, captions, pixel_photos, map_kind):
    """Yield the sums of each photo, (sum of SIZES,); see `_photo_sums`."""
    log_probs = log_probs_of(captioner)
    previous_result = None  # of the photo before, whose maps are those of the "other photo"
    for batch in batches:
        captions_of_batch = [captions[number] for number in batch.numbers]
        votes = map_kind != "attention"
        results = captioner.attend_batch(batch, captions_of_batch, votes)
        grids = np.asarray(captioner.decoder_features(batch.features))
        if previous_result is None:  # the first photo has none before it
            previous_result = results[-1]
        for row, (number, grid, result) in enumerate(zip(batch.numbers, grids, results)):
            photo = None
            if number < pixel_photos and batch.photos is not None:
                photo = batch.photos[row]
            elif number < pixel_photos:  # the features come from a cache
                path = getattr(images[number], "image_path", images[number])
                photo = load_image(path, captioner.photo_sizes[0])
            random = np.random.default_rng([SEED, number])
            maps = maps_to_rank(result, map_kind)
            yield _photo_sums(
                captioner, log_probs, grid, result, maps, previous_result, photo, random
            )
            previous_result = result


def _photo_sums(captioner, log_probs, grid, result, maps, other_result, photo, random):
    """Return a photo's sums, (sum of SIZES,).

    Args:
        log_probs: the output of `log_probs_of`.
        grid: its adapted features, (regions, feature_dim).
        result, other_result: CaptionResult of its caption, and that of another photo.
        maps: by which the cells are ordered for each word, (words, rows, columns).
        photo: uint8 (height, width, 3), in which regions are blurred, or None.
        random: numpy generator.
    """
    sums = np.zeros(sum(SIZES))
    words = result.words
    ids = captioner.vocabulary.caption_to_ids(words)
    content = content_positions(words)
    if not content:
        return sums
    altered = AlteredRegions(log_probs, grid, words)
    for t in content:
        if ids[t] == captioner.vocabulary.unk_token_id:
            continue
        other_words = [position for position in content if position != t]
        masks = _masks(maps[t], maps[other_words].sum(axis=0), random)
        # With nothing changed, and for each mask.
        log_prob, *changed = altered.log_probs(1 - np.insert(masks, 0, 0, axis=0))[:, t]
        changed = np.array(changed)
        forced_maps = np.zeros((len(SWAPS), len(words), len(grid)))
        forced_maps[:, t] = np.full(len(grid), 1 / len(grid)), _map_at(other_result, t, result)
        swapped = log_probs(np.stack([grid] * len(SWAPS)), words, forced_maps)[:, t]
        falls = log_prob - np.append(changed[: len(CELLS)], swapped)
        word_sums = [1, *falls, *np.exp([log_prob, *changed[len(CELLS) :]])]
        if photo is not None:
            places = masks[: len(CELLS)].reshape(-1, *captioner.rows_and_columns())
            grids = captioner.decoder_features(captioner.encode(_blurred(photo, places)))
            word_sums += [1, *(log_prob - log_probs(np.asarray(grids), words)[:, t])]
        sums[: len(word_sums)] += word_sums
    return sums


def _map_at(other_result, t, result):
    """Return the map of another photo's caption at the same step, or at its last one,
    (regions,); without words, that of this caption.
    """
    if not other_result.words:
        return result.attention_weights[t].ravel()
    return other_result.attention_weights[min(t, len(other_result.words) - 1)].ravel()


def _masks(word_map, other_words_map, random):
    """Return the cells to replace, boolean (masks, regions).

    The masks are those for CELLS, and those for the levels of both orders.

    Args:
        word_map: map of a word, (rows, columns).
        other_words_map: sum of the maps of the caption's other content words, 0 if
            there are none.
        random: numpy generator.
    """
    size = word_map.size
    random_rank = random.permutation(size)
    ranks = [
        _rank(word_map),
        random_rank,
        _rank(centred_map(word_map.shape)),
        _rank(other_words_map) if other_words_map.any() else random_rank,
        _rank(-word_map),
    ]  # in the order of CELLS
    tenths = np.stack(ranks) < round(size / LEVELS)
    in_order = [removed_in_order(one.ravel(), LEVELS) for one in (word_map, -word_map)]
    return np.concatenate([tenths, *in_order])


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


def _score(key, prefix):
    """Return the Score for `compare`.

    It is not in SCORES because it needs more than captions.
    """
    titles = {}
    for part, names in FIGURES.items():
        for name in names:
            titles[f"{key}_{part}_{name}"] = f"{prefix}{part}: {name.replace('_', ' ')}"

    def figures_of_sums(sums, num_photos):
        means = _means(sums)
        figures = {}
        for part, names in FIGURES.items():
            for number, name in enumerate(names):
                figures[f"{key}_{part}_{name}"] = means[part][..., number]
        return figures

    return Score(
        columns=titles,
        measure=None,
        figures_of_sums=figures_of_sums,
        contributions=key,
        shape=(sum(SIZES),),
        unit=1,
        digits=3,
    )


FAITHFULNESS = (_score("faithfulness", ""), _score("faithfulness_references", "human "))
