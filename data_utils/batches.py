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

import itertools
import numbers
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from data_utils.base import brief, import_tensorflow
from data_utils.batch_groups import GROUPINGS
from data_utils.batch_sources import CachedFeatures, Photos
from data_utils.captions import CaptionedImage, Skipped
from data_utils.datasets import CellBoxes
from data_utils.features import FeatureCache, reading_options
from data_utils.vocabulary import Vocabulary

if TYPE_CHECKING:
    import tensorflow as tf


class TrainingBatch(NamedTuple):
    """The parts of a batch by name; their shapes are those of `make_batches`."""

    features: Any  # or photos
    input_ids: Any
    target_ids: Any
    token_weights: Any
    covered: Any = None  # by the boxes of each target word; None without boxes

    @classmethod
    def of(cls, batch):
        """Return the parts of a batch as Keras passes it, see `make_batches`."""
        (features, input_ids, *covered), target_ids, token_weights = batch
        return cls(features, input_ids, target_ids, token_weights, *covered)


def make_batches(
    captioned_images: list[CaptionedImage],
    vocabulary: Vocabulary,
    cache: FeatureCache | list[FeatureCache] | None = None,
    batch_size: int = 64,
    *,
    split: str | None = None,
    group_by: str | None = None,
    image_size: int | tuple[int, int] | None = None,
    num_views: int = 1,
    shuffle: bool = True,
    seed: int = 0,
    first_epoch: int = 0,
    shares: tuple[list[int], int] | None = None,
    boxes: CellBoxes | None = None,
) -> tf.data.Dataset:
    """Return a tf.data.Dataset of ((features, input_ids), target_ids, token_weights).

    Every caption appears once per epoch. Each pass over the dataset is one epoch; its
    order depends only on the seed and the epoch number.

    The dataset has the attribute `vocabulary_digest`, by which a captioner rejects
    batches of another vocabulary. Datasets that are made from it, by `map` or `take`
    for example, do not have it, and are not checked.

    Args:
        cache: FeatureCache with the features of the photos; unreadable photos are
            skipped, with a warning. Of a list of caches, each of a different view (see
            `data_utils.photos.views`), one is chosen at random each time a photo is
            used.
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
            (height, width). Up to 1 GB of decoded photos stay in memory.
        num_views: without a cache, the number of views; one is chosen at random each
            time a photo is used.
        shuffle: False keeps the same order, by length, in every epoch.
        seed: random seed of the order and the views.
        first_epoch: the epoch number of the first pass, for resuming a training.
        shares: for several devices, (numbers, count): split each batch into `count`
            parts, one for each device, and yield the parts with these numbers. An empty
            part has one row of weight 0. None: whole batches.
        boxes: CellBoxes of the phrases, see `data_utils.datasets.phrase_boxes`. Batches
            are then ((features, input_ids, covered), target_ids, token_weights):
            covered, (.., time, regions), is the fraction of each region that is covered
            by the boxes of each target word; 0 for words without boxes.
    """
    if group_by is None:
        group_by = "length" if image_size is None else "image"
    if group_by not in GROUPINGS:
        raise ValueError(
            f"Expected one of: {', '.join(GROUPINGS)}. Received: group_by={group_by!r}"
        )
    if not isinstance(vocabulary, Vocabulary):
        raise ValueError(
            "Expected a Vocabulary, such as captioner.vocabulary or Vocabulary(words). Received: "
            f"vocabulary={brief(vocabulary)}"
        )
    counts = (batch_size, num_views)
    are_counts = all(isinstance(count, numbers.Integral) and count >= 1 for count in counts)
    if not are_counts:
        raise ValueError(
            "`batch_size` and `num_views` must be whole numbers from 1. "
            f"Received: {batch_size=}, {num_views=}"
        )
    caches = _as_list(cache)
    if bool(caches) != (image_size is None) or (caches and num_views > 1):
        raise ValueError(
            "Pass either `cache`, for features, or `image_size`, for photos, which "
            f"`num_views` needs. Received: cache={cache}, {image_size=}, {num_views=}"
        )
    images = [image for image in captioned_images if split is None or image.split == split]
    images, captions = _captions_as_ids(images, vocabulary, caches)
    if not images:
        raise ValueError(f"There are no captions to train on. Received: split={split!r}")
    if caches:
        source = CachedFeatures(caches, images)
        num_views = len(caches)
    else:
        source = Photos(images, image_size)
    share_numbers, num_shares = ([0], 1) if shares is None else shares
    batches = _Batches(
        images=images,
        captions=captions,
        vocabulary=vocabulary,
        source=source,
        grouping=GROUPINGS[group_by](captions, batch_size),
        num_views=num_views,
        shuffle=shuffle,
        seed=seed,
        epochs=itertools.count(first_epoch),
        share_numbers=share_numbers,
        num_shares=num_shares,
        boxes=boxes,
    )
    return batches.as_dataset()


def _as_list(cache):
    """Return the list of caches, given one, a list of them or None."""
    if cache is None:
        return []
    return cache if isinstance(cache, (list, tuple)) else [cache]


@dataclass
class _Batches:
    """The batches of all epochs; see `make_batches` for the other attributes.

    Attributes:
        captions: for each image, a dict from the index of a caption to its word ids.
        source: CachedFeatures or Photos.
        grouping: OneLength or WholeImages.
        epochs: iterator of the numbers of the epochs.
        share_numbers, num_shares: which of how many parts of each batch are yielded.
    """

    images: list
    captions: list
    vocabulary: Vocabulary
    source: Any
    grouping: Any
    num_views: int
    shuffle: bool
    seed: int
    epochs: Iterator
    share_numbers: list
    num_shares: int
    boxes: CellBoxes | None

    def as_dataset(self):
        """Return the tf.data.Dataset of `make_batches`."""
        tf = import_tensorflow()
        specs = self._specs()
        dtypes = [dtype for _, dtype in specs]

        def as_tensors(*part):
            tensors = tf.numpy_function(self.arrays, part, dtypes, stateful=False)
            for tensor, (shape, _) in zip(tensors, specs):
                tensor.set_shape(shape)
            photos, input_ids, target_ids, token_weights, *further_inputs = tensors
            return (photos, input_ids, *further_inputs), target_ids, token_weights

        shapes = ((None,), (None,), (), ())  # of what `parts_of_an_epoch` yields
        signature = tuple(tf.TensorSpec(shape, tf.int64) for shape in shapes)
        num_parts = len(self.grouping.plan(None)) * len(self.share_numbers)
        dataset = tf.data.Dataset.from_generator(self.parts_of_an_epoch, output_signature=signature)
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(num_parts))
        dataset = dataset.map(as_tensors, num_parallel_calls=2, deterministic=True)
        dataset = dataset.prefetch(2).with_options(reading_options())
        dataset.vocabulary_digest = self.vocabulary.digest
        return dataset

    def _specs(self):
        """Return a list of the (shape, dtype) of the arrays that `arrays` returns."""
        words_shape = (None, *(None for _ in self.grouping.captions_axis), None)
        specs = [
            ((None, *self.source.shape), self.source.dtype),
            (words_shape, "int32"),
            (words_shape, "int32"),
            (words_shape, "float32"),
        ]
        if self.boxes is not None:
            specs.append(((*words_shape, self.boxes.num_regions), "float32"))
        return specs

    def parts_of_an_epoch(self):
        """Yield the parts of all batches of the next epoch: the members of the batch,
        the view of each, the number of the part, and the epoch.
        """
        epoch = next(self.epochs)
        order = np.random.default_rng([self.seed, epoch]) if self.shuffle else None
        view_chance = np.random.default_rng([self.seed, epoch, 1])
        for members in self.grouping.plan(order):
            views = np.zeros(len(members), int)
            if self.num_views > 1:
                views = view_chance.integers(self.num_views, size=len(members))
            for share_number in self.share_numbers:
                yield members, views, share_number, epoch

    def arrays(self, members, views, share_number, epoch):
        """Return the arrays of one part of a batch, in the order of `_specs`.

        Args: what `parts_of_an_epoch` yields.
        """
        rows = self.grouping.rows(members)
        longest = max(
            len(self.captions[row.photo][caption])
            for row in rows
            for caption in row.captions
            if caption is not None
        )
        places = np.array_split(np.arange(len(members)), self.num_shares)[share_number]
        is_empty = len(places) == 0
        if is_empty:
            places = [-1]  # repeats the last row, with weight 0
        rows = [rows[place] for place in places]
        members, views = members[places], views[places]
        photos = np.array([row.photo for row in rows])

        features = self.source.rows(photos, views)
        return [features, *self._word_arrays(rows, views, longest, is_empty)]

    def _word_arrays(self, rows, views, longest, is_empty):
        """Return input_ids, target_ids and token_weights of rows, padded to `longest`
        words, and with boxes `covered`, see `make_batches`.

        Args:
            views: the number of the view of each row, for `covered`.
            is_empty: whether all weights are 0.
        """
        captions_in_row = len(rows[0].captions)
        captions = [(row.photo, caption) for row in rows for caption in row.captions]
        ids = [
            None if caption is None else self.captions[photo][caption]
            for photo, caption in captions
        ]
        input_ids, target_ids, token_weights = inputs_and_targets(ids, self.vocabulary, longest)
        if is_empty:
            token_weights = token_weights * np.float32(0)
        arrays = [input_ids, target_ids, token_weights]
        if self.boxes is not None:
            captioned = [
                None if caption is None else (self.images[photo], caption)
                for photo, caption in captions
            ]
            views_of_captions = np.repeat(views, captions_in_row)
            arrays.append(self.boxes.covered(captioned, views_of_captions, input_ids.shape))
        # With whole photos: (photos, captions, time), without the second axis else.
        shape = (len(rows), *self.grouping.captions_axis)
        return [array.reshape(*shape, *array.shape[1:]) for array in arrays]


def inputs_and_targets(captions, vocabulary, longest=None):
    """Return input_ids and target_ids (int32) and token_weights (float32), of shape
    (captions, longest caption + 1).

    `captions` is a list of lists of word ids, without special tokens; None gives a row
    of `<pad>` with weight 0. `longest` is the number of words to pad to; None pads to
    the longest of these captions.
    """
    if longest is None:
        longest = max((len(words) for words in captions if words is not None), default=0)
    time = longest + 1  # with `<start>` or `<end>`
    input_ids = np.full((len(captions), time), vocabulary.pad_token_id, dtype=np.int32)
    target_ids = np.full_like(input_ids, vocabulary.pad_token_id)
    token_weights = np.zeros(input_ids.shape, dtype=np.float32)
    for i, words in enumerate(captions):
        if words is not None:
            input_ids[i, : len(words) + 1] = [vocabulary.start_token_id, *words]
            target_ids[i, : len(words) + 1] = [*words, vocabulary.end_token_id]
            token_weights[i, : len(words) + 1] = 1.0
    return input_ids, target_ids, token_weights


def _captions_as_ids(images, vocabulary, caches):
    """Return the images with usable captions, and for each image a dict from caption
    index to word ids.
    """
    skipped, kept, captions = Skipped(), [], []
    unreadable = set().union(*(cache.unreadable for cache in caches))
    for image in images:
        num_captions = len(image.captions)
        if image.image_id in unreadable:
            skipped.add("captions of unreadable photos left out", image.image_id, num_captions)
            continue
        ids = {
            number: words
            for number, words in enumerate(map(vocabulary.caption_to_ids, image.captions))
            if words
        }
        skipped.add("captions without a word left out", image.image_id, num_captions - len(ids))
        if ids:
            kept.append(image)
            captions.append(ids)
    skipped.warn("make_batches")
    return kept, captions
