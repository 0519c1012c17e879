"""Make training batches: shift, pad, weight and group the captions.

A batch is ((features, input_ids), target_ids, token_weights). For "a dog runs":

    input_ids      <start>  a    dog   runs
    target_ids     a        dog  runs  <end>
    token_weights  1        1    1     1

Each word is predicted from the words before it, and `<end>` teaches the model when to
stop. In a batch with captions of several lengths, shorter captions are padded with
`<pad>`, which has weight 0.
"""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING

import numpy as np

from data_utils.captions import CaptionedImage, Skipped
from data_utils.datasets.phrase_boxes import Boxes, covered_cells, described_regions
from data_utils.features.build import reading_options
from data_utils.features.cache import FeatureCache
from data_utils.images import height_and_width, load_image
from data_utils.photo_augmentation import jittered
from data_utils.photo_regions import visible_cells
from data_utils.tf_logging import import_tensorflow
from data_utils.views import region_in_view, view_of
from data_utils.vocabulary import Vocabulary

if TYPE_CHECKING:
    import tensorflow as tf


def make_batches(
    captioned_images: list[CaptionedImage],
    vocabulary: Vocabulary,
    cache: FeatureCache | list[FeatureCache] | None = None,
    batch_size: int = 64,
    *,
    split: str | None = None,
    group_by: str | None = None,
    image_size: int | tuple[int, int] | None = None,
    keep_images: bool = False,
    num_views: int = 1,
    jitter: float = 0.0,
    shuffle: bool = True,
    seed: int = 0,
    first_epoch: int = 0,
    shares: tuple[list[int], int] | None = None,
    boxes: Boxes | None = None,
    grid_shape: tuple[int, int] | None = None,
    num_phrases: int = 0,
) -> tf.data.Dataset:
    """Return a tf.data.Dataset of ((features, input_ids), target_ids, token_weights).

    Every caption appears once per epoch. Each pass over the dataset is one epoch; its
    order depends only on the seed and the epoch number.

    Args:
        cache: FeatureCache with the features of the photos; unreadable photos are
            skipped, with a warning. Of a list of caches, each of a different view (see
            `data_utils.views`), one is chosen at random each time a photo is used.
            None: batches contain photos, uint8 (batch, height, width, 3), for training
            the encoder too.
        batch_size: captions per batch.
        split: use only the photos of this split, "train", "dev" or "test"; None uses
            all.
        group_by: "length" makes batches of captions of equal length, as in the paper:
            features (batch, regions, feature_dim), the other arrays (batch, time), no
            padding. "image" keeps all captions of a photo in one batch, and the model
            projects its features once: features (photos, regions, feature_dim), the
            other arrays (photos, captions, time). A batch has whole photos, with at
            most `batch_size` captions or a single photo. None: "length" with a cache;
            "image" without, so that the encoder runs once for each photo.
        image_size: without a cache, the size of the photos: the side of a square, or
            (height, width).
        keep_images: without a cache, decode each photo once and keep it in memory.
        num_views: without a cache, the number of views; one is chosen at random each
            time a photo is used.
        jitter: without a cache, the strength of photo augmentation, from 0 to 1: see
            `data_utils.photo_augmentation`.
        shuffle: False keeps the same order, by length, in every epoch.
        seed: random seed of the order, the views and the augmentation.
        first_epoch: the epoch number of the first pass, for resuming a training.
        shares: for several devices, (numbers, count): split each batch into `count`
            parts, one for each device, and yield the parts with these numbers. An empty
            part has one row of weight 0. None: whole batches.
        boxes: Boxes of phrases, see `data_utils.datasets.phrase_boxes.read_boxes`.
            Batches are then ((features, input_ids, covered), target_ids,
            token_weights): covered, (.., time, regions), is the fraction of each region
            that is covered by the boxes of each target word; 0 for words without boxes.
        grid_shape: (rows, columns) of the regions; only with `boxes`.
        num_phrases: with `boxes`, the number of phrases to draw for each photo, see
            `described_regions`. The inputs then end with phrase_ids (photos,
            num_phrases, time), words and `<end>`, and visible (photos, num_phrases,
            regions), see `visible_cells`. Missing phrases have only `<pad>`.
    """
    tf = import_tensorflow()

    if group_by is None:
        group_by = "length" if image_size is None else "image"
    if group_by not in GROUPINGS:
        raise ValueError(
            f"Expected one of: {', '.join(GROUPINGS)}. Received: group_by={group_by!r}"
        )
    is_complete = (boxes is None) == (grid_shape is None) and not (num_phrases and boxes is None)
    if batch_size < 1 or num_views < 1 or not 0 <= jitter <= 1 or not is_complete:
        raise ValueError(
            "`batch_size` and `num_views` must be at least 1, `jitter` must be from 0 to "
            "1, `boxes` and `grid_shape` "
            "must be passed together, and `num_phrases` requires both. Received: "
            f"{batch_size=}, {num_views=}, "
            f"{jitter=}, boxes of type {type(boxes).__name__}, {grid_shape=}, {num_phrases=}"
        )
    views = cache if isinstance(cache, (list, tuple)) else [] if cache is None else [cache]
    if bool(views) != (image_size is None) or views and (jitter or num_views > 1):
        problem = (
            "Pass either `cache`, for features, or `image_size`, for photos, which "
            "`num_views` and `jitter` need."
        )
        raise ValueError(
            f"{problem} Received: cache={cache}, {image_size=}, {num_views=}, {jitter=}"
        )
    numbers, count = ([0], 1) if shares is None else shares
    images = [image for image in captioned_images if split is None or image.split == split]
    images, captions = _captions_as_ids(images, vocabulary, views)
    if not images:
        raise ValueError(f"There are no captions to train on. Received: split={split!r}")
    source = (
        _CachedFeatures(views, images)
        if image_size is None
        else _Photos(images, image_size, keep_images)
    )
    num_views = len(views) or num_views
    described = [described_regions(image, boxes) for image in images] if num_phrases else []
    phrases = [
        [(vocabulary.caption_to_ids(words), region) for words, region in of_image]
        for of_image in described
    ]
    grouping = GROUPINGS[group_by](captions, batch_size)
    epochs = itertools.count(first_epoch)

    def batch_members():
        epoch = next(epochs)
        rng = np.random.default_rng([seed, epoch]) if shuffle else None
        view_rng = np.random.default_rng([seed, epoch, 1])
        for members in grouping.plan(rng):
            chosen = (
                view_rng.integers(num_views, size=len(members))
                if num_views > 1
                else np.zeros(len(members), int)
            )
            for number in numbers:
                yield members, chosen, number, epoch

    def phrases_and_regions(photos, chosen, chance, is_used):
        """Draw phrases of photos; return phrase_ids and visible, see `num_phrases`."""
        drawn = []
        for photo, view, of_photo in zip(photos, chosen, chance):
            seen = (
                (words, region_in_view(box, view, images[photo].image_id))
                for words, box in phrases[photo]
            )
            seen = [(words, region) for words, region in seen if region]
            of_photo.shuffle(seen)
            drawn += [
                (words, visible_cells(region, grid_shape)) for words, region in seen[:num_phrases]
            ]
            drawn += [(None, np.ones(grid_shape, bool))] * (num_phrases - len(seen))
        ids, visible = zip(*drawn)
        _, phrase_ids, _ = inputs_and_targets(ids if is_used else [None] * len(ids), vocabulary)
        return [
            np.reshape(array, (len(photos), num_phrases, -1)) for array in (phrase_ids, visible)
        ]

    def arrays(members, chosen, number, epoch):
        places = grouping.places(members)
        longest = max(
            len(captions[image][caption])
            for image, caption in filter(None, itertools.chain(*places))
        )
        rows = np.array_split(np.arange(len(members)), count)[number]
        weight = np.float32(len(rows) > 0)
        rows = rows if weight else [-1]  # an empty share repeats the last row, with weight 0
        every = list(itertools.chain(*(places[row] for row in rows)))
        ids = [place and captions[place[0]][place[1]] for place in every]
        input_ids, target_ids, token_weights = inputs_and_targets(ids, vocabulary, longest)
        of_words = [input_ids, target_ids, token_weights * weight]
        if boxes is not None:
            captioned = [place and (images[place[0]], place[1]) for place in every]
            shown = np.repeat(chosen[rows], len(every) // len(rows))
            of_words.append(covered_cells(captioned, shown, boxes, grid_shape, input_ids.shape))
        of_words = [
            array.reshape(len(rows), *grouping.captions, *array.shape[1:]) for array in of_words
        ]
        photos = source.rows(np.array([places[row][0][0] for row in rows]), chosen[rows])
        if jitter:
            chance = [np.random.default_rng([seed, epoch, 2, member]) for member in members[rows]]
            photos = np.stack(
                [jittered(photo, of_photo, jitter) for photo, of_photo in zip(photos, chance)]
            )
        if num_phrases:
            chance = [np.random.default_rng([seed, epoch, 3, member]) for member in members[rows]]
            of_words += phrases_and_regions(
                [places[row][0][0] for row in rows], chosen[rows], chance, weight > 0
            )
        return photos, *of_words

    of_words = (None, *(None for _ in grouping.captions), None)  # shape of these arrays
    specs = [
        ((None, *source.shape), source.dtype),
        (of_words, "int32"),
        (of_words, "int32"),
        (of_words, "float32"),
    ]
    if boxes is not None:
        specs.append(((*of_words, grid_shape[0] * grid_shape[1]), "float32"))
    if num_phrases:
        specs += [
            ((None, num_phrases, None), "int32"),
            ((None, num_phrases, grid_shape[0] * grid_shape[1]), "bool"),
        ]

    def tensors(*plan):
        made = tf.numpy_function(arrays, plan, [dtype for _, dtype in specs], stateful=False)
        for tensor, (shape, _) in zip(made, specs):
            tensor.set_shape(shape)
        photos, input_ids, target_ids, token_weights, *covered = made
        return (photos, input_ids, *covered), target_ids, token_weights

    signature = tuple(tf.TensorSpec(shape, tf.int64) for shape in ((None,), (None,), (), ()))
    dataset = tf.data.Dataset.from_generator(batch_members, output_signature=signature)
    dataset = dataset.apply(
        tf.data.experimental.assert_cardinality(len(grouping.plan(None)) * len(numbers))
    )
    return (
        dataset.map(tensors, num_parallel_calls=2, deterministic=True)
        .prefetch(2)
        .with_options(reading_options())
    )


def inputs_and_targets(captions, vocabulary, longest=None):
    """Return input_ids and target_ids (int32) and token_weights (float32), of shape
    (captions, longest caption + 1).

    `captions` is a list of lists of word ids, without special tokens; None gives a row
    of `<pad>` with weight 0. `longest` is the number of words to pad to; None pads to
    the longest of these captions.
    """
    time = (max(map(len, filter(None, captions)), default=0) if longest is None else longest) + 1
    input_ids = np.full((len(captions), time), vocabulary.pad_token_id, dtype=np.int32)
    target_ids = np.full_like(input_ids, vocabulary.pad_token_id)
    token_weights = np.zeros(input_ids.shape, dtype=np.float32)
    for i, words in enumerate(captions):
        if words is not None:
            input_ids[i, : len(words) + 1] = [vocabulary.start_token_id, *words]
            target_ids[i, : len(words) + 1] = [*words, vocabulary.end_token_id]
            token_weights[i, : len(words) + 1] = 1.0
    return input_ids, target_ids, token_weights


def _captions_as_ids(images, vocabulary, views):
    """Return the images with usable captions, and for each image a dict from caption
    index to word ids.
    """
    skipped, kept, captions = Skipped(), [], []
    unreadable = set().union(*(view.unreadable for view in views))
    for image in images:
        if image.image_id in unreadable:
            skipped.add(
                "captions of unreadable photos left out", image.image_id, len(image.captions)
            )
            continue
        ids = {
            number: words
            for number, words in enumerate(map(vocabulary.caption_to_ids, image.captions))
            if words
        }
        skipped.add(
            "captions without a word left out", image.image_id, len(image.captions) - len(ids)
        )
        if ids:
            kept.append(image)
            captions.append(ids)
    skipped.warn("make_batches")
    return kept, captions


class _OneLength:
    """Group captions of equal length into batches; `members` are caption indices."""

    captions = ()  # axis of captions in a row: none

    def __init__(self, captions, batch_size):
        self.every = [
            (image, number) for image, of_image in enumerate(captions) for number in of_image
        ]
        lengths = np.array([len(captions[image][number]) for image, number in self.every])
        self.same_length = [np.flatnonzero(lengths == length) for length in np.unique(lengths)]
        self.batch_size = batch_size

    def plan(self, rng):
        """Return the batches of one epoch as a list, in random order, or in a fixed
        order if `rng` is None.
        """
        batches = []
        for members in self.same_length:
            members = members if rng is None else rng.permutation(members)
            batches += [
                members[i : i + self.batch_size] for i in range(0, len(members), self.batch_size)
            ]
        return batches if rng is None else [batches[i] for i in rng.permutation(len(batches))]

    def places(self, members):
        """For each row of a batch, return a list of (photo index, caption index)."""
        return [[self.every[member]] for member in members]


class _WholeImages:
    """Group photos of similar length, with all their captions, longest first, into
    batches of photo indices.
    """

    captions = (-1,)

    def __init__(self, captions, batch_size):
        lengths = [[*map(len, of_photo.values())] for of_photo in captions]
        self.order = [
            sorted(of_photo, key=lambda number: -len(of_photo[number])) for of_photo in captions
        ]
        self.num_captions = np.array([len(of_photo) for of_photo in lengths])
        self.longest = np.array([max(of_photo) for of_photo in lengths])
        self.num_words = np.array([sum(of_photo) for of_photo in lengths])
        self.batch_size = batch_size

    def plan(self, rng):
        """Return the batches of one epoch as a list, in random order, or in a fixed
        order if `rng` is None.
        """
        # Sorting by number of captions first makes every epoch have as many batches;
        # the noise mixes similar lengths.
        noise = 0.0 if rng is None else rng.uniform(0, 8, len(self.order))
        batches, batch, size = [], [], 0
        for number in np.lexsort((self.num_words + noise, self.longest, self.num_captions)):
            if batch and size + self.num_captions[number] > self.batch_size:
                batches.append(np.array(batch))
                batch, size = [], 0
            batch.append(number)
            size += self.num_captions[number]
        batches.append(np.array(batch))
        return batches if rng is None else [batches[i] for i in rng.permutation(len(batches))]

    def places(self, members):
        """Return lists like those of `_OneLength.places`, padded with None for photos
        with fewer captions.
        """
        most = self.num_captions[members].max()
        of_photos = [[(member, number) for number in self.order[member]] for member in members]
        return [captions + [None] * (most - len(captions)) for captions in of_photos]


GROUPINGS = {"length": _OneLength, "image": _WholeImages}


class _CachedFeatures:
    def __init__(self, views, images):
        ids = [image.image_id for image in images]
        self.views = [(cache, cache.rows_of(ids)) for cache in views]
        first = views[0]
        self.shape = (first.grid_shape[0] * first.grid_shape[1], first.feature_dim)
        self.dtype = first.manifest["dtype"]

    def rows(self, image_numbers, chosen):
        if len(self.views) == 1:
            cache, cache_rows = self.views[0]
            return cache.features_of_rows(cache_rows[image_numbers])
        features = np.empty((len(image_numbers), *self.shape), self.dtype)
        for view in np.unique(chosen):
            cache, cache_rows = self.views[view]
            features[chosen == view] = cache.features_of_rows(
                cache_rows[image_numbers[chosen == view]]
            )
        return features


class _Photos:
    dtype = "uint8"

    def __init__(self, images, image_size, keep):
        size = height_and_width(image_size)
        self.shape = (*size, 3)
        self.images = images

        def photo(number):
            return load_image(images[number].image_path, size)

        self.photo = functools.cache(photo) if keep else photo

    def rows(self, image_numbers, chosen):
        shown = zip(image_numbers, chosen)
        return np.stack(
            [
                view_of(self.photo(number), view, self.images[number].image_id)
                for number, view in shown
            ]
        )
