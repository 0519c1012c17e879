"""Why this word? Maps for the words of any captioner, and what its probabilities lose
without the regions of a map.

The captioner is a function `log_probs(regions, words)`: it reads the vectors of a
photo's regions, (n, regions, dim), and the words of one sentence, and returns log p of
each word given the words before it, (n, words). It may be written in any framework.
`log_probs_of` is that of a Captioner.

Sources: Zeiler and Fergus, 2014, Visualizing and Understanding Convolutional Networks
(occlusion, and removal with curves); Petsiuk et al., 2018, RISE: Randomized Input
Sampling for Explanation of Black-box Models.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from data_utils.base import Progress
from keras_sat.bounds import count, one_of
from keras_sat.checks import ArgumentError

KEPT = 0.5  # of the regions, in each mask of RISE
COARSE = 2  # rows and columns of the grid that a cell of such a mask is wide


def explain_words(
    log_probs: Callable,
    regions: Any,
    words: Sequence[str],
    *,
    methods: Sequence[str] = ("occlusion", "rise"),
    gradients: Any = None,
    substitute: Any = None,
    grid_shape: tuple[int, int] | None = None,
    num_masks: int = 400,
    seed: int = 0,
    batch_size: int = 64,
    show_progress: bool = False,
) -> dict[str, np.ndarray]:
    """Return maps that say how much each region raised log p of each word: a dict from
    names of methods to arrays (words, regions), or (words, rows, columns) with
    `grid_shape`.

    Args:
        log_probs: the captioner, see above.
        regions: the vectors of the photo's regions, (regions, dim).
        words: of the sentence, in the form that `log_probs` takes.
        methods: names in METHODS. "occlusion": what log p loses if the region alone is
            removed. "rise": how log p depends on the region if random halves of all are
            removed. "gradient": the gradient times the difference from the substitute.
            "random": random numbers, with which the others are compared.
        gradients: of each word's log p by the regions, (words, regions, dim), which
            "gradient" needs. Their mean along the way from the substitute to the
            regions gives integrated gradients.
        substitute: what stands in the place of a removed region, (dim,), or (regions,
            dim); None: the mean of the regions.
        grid_shape: (rows, columns) of the regions. With it, "rise" removes
            neighbouring regions together.
        num_masks: of "rise".
        seed: of "rise" and "random".
        batch_size: number of altered photos that are computed together.
    """
    altered = AlteredRegions(
        log_probs, regions, words, substitute, batch_size=batch_size, show_progress=show_progress
    )
    for name in methods:
        one_of(*METHODS).check("methods", name)
    count(2).check("num_masks", num_masks)
    if grid_shape is not None and math.prod(grid_shape) != altered.num_regions:
        raise ArgumentError(
            f"The grid must have {altered.num_regions} regions.", grid_shape=grid_shape
        )
    options = {
        "gradients": gradients,
        "grid_shape": grid_shape,
        "num_masks": num_masks,
        "random": np.random.default_rng(seed),
    }
    shape = (len(words), *(grid_shape or [altered.num_regions]))
    return {name: METHODS[name](altered, options).reshape(shape) for name in methods}


def removal_curves(
    log_probs: Callable,
    regions: Any,
    words: Sequence[str],
    maps: Any,
    *,
    levels: int = 20,
    substitute: Any = None,
    batch_size: int = 64,
    show_progress: bool = False,
) -> np.ndarray:
    """Return p of each word with 0, 1/levels, .. and all of the regions removed, those
    first that have the greatest value on the word's map: (words, levels + 1).

    Read backwards, the curve of `-maps` is an insertion curve.

    Args:
        maps: a map for each word, (words, regions) or (words, rows, columns).
        levels: number of steps from none to all of the regions.
        log_probs, regions, words, substitute, batch_size: see `explain_words`.
    """
    altered = AlteredRegions(
        log_probs, regions, words, substitute, batch_size=batch_size, show_progress=show_progress
    )
    count(1).check("levels", levels)
    maps = np.asarray(maps, float)
    if maps.size != len(words) * altered.num_regions or len(maps) != len(words):
        raise ArgumentError(
            f"Expected a map of {altered.num_regions} regions for each of {len(words)} words.",
            **{"maps.shape": maps.shape},
        )
    kept = ~removed_in_order(maps.reshape(len(words), -1), levels)  # (words, levels, regions)
    found = altered.log_probs(kept.reshape(-1, altered.num_regions))
    found = found.reshape(len(words), levels, len(words))
    of_words = np.einsum("wlw->wl", found)
    return np.exp(np.column_stack([altered.unchanged(), of_words]))


def removed_in_order(maps, levels):
    """Return which regions are removed at each level, those with the greatest values
    first: boolean (..., levels, regions).

    Args:
        maps: (..., regions).
    """
    order = np.argsort(-maps, axis=-1, kind="stable")
    ranks = np.argsort(order, axis=-1)  # 0 for the greatest
    numbers = np.round(maps.shape[-1] * np.arange(1, levels + 1) / levels)
    return ranks[..., None, :] < numbers[:, None]


def log_probs_of(captioner: Any) -> Callable:
    """Return a Captioner as the function that `explain_words` takes.

    The regions are those of `captioner.decoder_features`. Where they are altered, they
    are so at every step, and in what h_0 is computed from.

    The function has a third argument, `forced_maps` (n, words, regions): where such a
    map is not 0 everywhere, it replaces alpha_t.
    """
    from keras_sat.search import LENGTH_STEP

    vocabulary = captioner.vocabulary

    def log_probs(regions, words, forced_maps=None):
        ids = vocabulary.caption_to_ids(words)
        rows, padding = len(regions), -len(ids) % LENGTH_STEP  # lengths share graphs
        said = np.pad(np.array(ids, "int32"), (0, padding))
        read = np.array([vocabulary.start_token_id, *said[:-1]], "int32")
        tensors = [np.asarray(regions, "float32"), np.tile(read, (rows, 1))]
        tensors.append(np.tile(said, (rows, 1)))
        if forced_maps is not None:
            padded = np.pad(forced_maps, ((0, 0), (0, padding), (0, 0)))
            tensors.append(padded.astype("float32"))
        found = captioner.engine.run(altered_log_probs, *tensors)
        return np.asarray(found)[:, : len(ids)]

    def altered_log_probs(regions, input_ids, target_ids, forced_maps=None):
        """Return log p of the target words, (rows, time), as tensors."""
        from keras import ops

        from keras_sat import equations

        decoder = captioner.decoder
        unrolled = decoder.unroll(regions, input_ids, forced_maps=forced_maps)
        logits = decoder.readout(unrolled.embedded, unrolled.hidden_states, unrolled.context)
        by_time = equations.word_log_probs(logits, ops.transpose(target_ids))  # (time, rows)
        return ops.transpose(by_time)

    return log_probs


class AlteredRegions:
    """A captioner's probabilities for a photo some of whose regions are replaced.

    Attributes:
        regions, substitute: (regions, dim).
    """

    def __init__(
        self, log_probs, regions, words, substitute=None, *, batch_size=64, show_progress=False
    ):
        regions = np.asarray(regions, np.float32)
        if regions.ndim != 2 or not len(regions) or not np.isfinite(regions).all():
            raise ArgumentError(
                "Expected the vectors of one photo's regions, finite numbers (regions, dim).",
                **{"regions.shape": regions.shape},
            )
        if isinstance(words, str) or not len(words):
            raise ArgumentError("Expected the words of a sentence, in a list.", words=words)
        count(1).check("batch_size", batch_size)
        if substitute is None:
            substitute = regions.mean(axis=0)
        substitute = np.asarray(substitute, np.float32)
        if substitute.shape not in (regions.shape, regions.shape[1:]):
            raise ArgumentError(
                f"Expected a substitute of shape {regions.shape[1:]} or {regions.shape}.",
                **{"substitute.shape": substitute.shape},
            )
        self.regions, self.words = regions, words
        self.substitute = np.broadcast_to(substitute, regions.shape)
        self._log_probs, self._batch_size, self._show = log_probs, batch_size, show_progress

    @property
    def num_regions(self):
        return len(self.regions)

    def unchanged(self):
        """Return log p of each word for the photo as it is, (words,)."""
        return self.log_probs(np.ones((1, self.num_regions)))[0]

    def log_probs(self, kept):
        """Return log p of each word, (n, words).

        Args:
            kept: how much of each region is kept, from 0 to 1, (n, regions).
        """
        found = []
        with Progress(len(kept), label="words", unit="altered photos", show=self._show) as progress:
            for start in range(0, len(kept), self._batch_size):
                share = np.asarray(kept[start : start + self._batch_size], np.float32)[..., None]
                altered = self.substitute + share * (self.regions - self.substitute)
                found.append(self._checked(self._log_probs(altered, self.words), len(share)))
                progress.advance(len(share))
        return np.concatenate(found)

    def _checked(self, log_probs, rows):
        log_probs = np.asarray(log_probs, np.float64)
        expected = (rows, len(self.words))
        if log_probs.shape != expected or not (log_probs <= 1e-3).all():
            raise ValueError(
                "`log_probs` must return log p of each word for each photo, at most 0 and of "
                f"shape {expected}. Received: shape {log_probs.shape}, "
                f"greatest {log_probs.max(initial=-np.inf):.3g}"
            )
        return log_probs


def _occlusion(altered, options):
    """Return what log p of each word loses without each region, (words, regions)."""
    return (altered.unchanged() - altered.log_probs(1 - np.eye(altered.num_regions))).T


def _rise(altered, options):
    """Return the covariance of log p with how much of a region is kept, divided by the
    variance of that: (words, regions).

    Petsiuk et al. do not subtract the means. For p of a class, which is near 0 in most
    masks, that is nearly the same; log p is far from 0 in all.
    """
    masks = random_masks(
        options["num_masks"], altered.num_regions, options["grid_shape"], options["random"]
    )
    log_probs = altered.log_probs(masks)
    masks = masks - masks.mean(axis=0)
    covariance = (log_probs - log_probs.mean(axis=0)).T @ masks
    return covariance / np.maximum(np.sum(masks**2, axis=0), 1e-9)


def _gradient(altered, options):
    gradients = options["gradients"]
    expected = (len(altered.words), *altered.regions.shape)
    if np.shape(gradients) != expected:
        raise ArgumentError(
            f'"gradient" needs the gradients of each word\'s log p, of shape {expected}.',
            gradients=gradients,
        )
    return np.sum(np.asarray(gradients) * (altered.regions - altered.substitute), axis=-1)


def _random(altered, options):
    return options["random"].random((len(altered.words), altered.num_regions))


METHODS = {"occlusion": _occlusion, "rise": _rise, "gradient": _gradient, "random": _random}


def random_masks(number, num_regions, grid_shape, random):
    """Return the masks of RISE, how much of each region is kept, (number, regions).

    Half of the cells of a coarse grid are kept, which is moved at random and smoothly
    enlarged to that of the regions; without a grid, half of the regions.

    Args:
        grid_shape: (rows, columns), or None.
        random: numpy generator.
    """
    if grid_shape is None:
        return (random.random((number, num_regions)) < KEPT).astype(np.float32)
    coarse_shape = [math.ceil(size / COARSE) + 1 for size in grid_shape]
    coarse = random.random((number, *coarse_shape)) < KEPT
    rows, columns = (
        _enlargements(size, coarse_size, random.random(number))
        for size, coarse_size in zip(grid_shape, coarse_shape)
    )
    masks = np.einsum("nrp,npq,ncq->nrc", rows, coarse, columns)
    return masks.reshape(number, num_regions).astype(np.float32)


def _enlargements(size, coarse_size, shifts):
    """Return matrices that enlarge coarse rows by linear interpolation, each moved by
    a part of a coarse cell: (shifts, size, coarse_size).
    """
    places = np.arange(size) / COARSE + shifts[:, None]  # (shifts, size)
    distances = np.abs(places[..., None] - np.arange(coarse_size))
    return np.maximum(1 - distances, 0)
