"""Rectangles within a photo, and the cells of a grid that they cover."""

import contextlib
import warnings

import numpy as np

from data_utils.foreign_text import brief

HALF = 0.5 - 1e-9  # of a cell, up to rounding


def checked_region(region):
    """Return a region as a tuple (left, top, right, bottom).

    Reject all that is not a rectangle within the photo.
    """
    with contextlib.suppress(TypeError, ValueError):
        left, top, right, bottom = map(float, region)
        # False for NaN.
        if 0 <= left < right <= 1 and 0 <= top < bottom <= 1 and not isinstance(region, str):
            return left, top, right, bottom
    raise ValueError(
        "A region must be a rectangle within the photo: four fractions of its sides "
        "(left, top, right, bottom), "
        f"such as (0.1, 0.2, 0.4, 0.9). Received: region={brief(region)}"
    )


def regions_for(photos, region):
    """Return `region`, one or a list, as a list for each photo (None if there is none),
    and whether it is one.
    """
    if region is None:
        return None, False
    is_list = isinstance(region, list) and bool(region)
    is_one = not is_list or any(isinstance(side, (int, float)) for side in region)
    photo_regions = [region] if is_one else region
    return [photo_regions] * len(photos), is_one


def checked_regions(regions, num_photos, grid_shape):
    """Return the regions of each photo, checked.

    Warn of those that cover less than half of any cell.
    """
    if len(regions) != num_photos:
        raise ValueError(
            f"Expected a list of regions for each of {num_photos} photos. Received: "
            f"{len(regions)} lists"
        )
    regions = [[*map(checked_region, photo_regions)] for photo_regions in regions]
    for region in {region for photo_regions in regions for region in photo_regions}:
        if covered_fraction([region], grid_shape).max() < HALF:
            warnings.warn(
                f"The region {region} covers less than half of any cell of the grid: the "
                "cells that it covers most are used.",
                stacklevel=4,
            )
    return regions


def visible_cells(region, grid_shape):
    """Return the cells of a region, boolean (rows, columns): those it covers by half,
    or else those it covers most.
    """
    covered = covered_fraction([region], grid_shape)
    return covered >= min(HALF, covered.max() * (1 - 1e-9))


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
