"""Batches for training: the one place where captions are shifted, padded, weighted and grouped.

A batch is ((features, input_ids), target_ids, token_weights). For "a dog runs":

    input_ids      <start>  a    dog   runs
    target_ids     a        dog  runs  <end>
    token_weights  1        1    1     1

Each word is predicted from those before it, and the model learns when to end. Where captions of several lengths share a
batch, the shorter ones are padded with `<pad>`, whose weight is 0.
"""

from __future__ import annotations

import itertools
import warnings
from typing import TYPE_CHECKING

import numpy as np

from data_utils.datasets.phrase_boxes import covered_cells
from data_utils.features.build import reading_options
from data_utils.images import height_and_width, load_image
from data_utils.photo_augmentation import jittered
from data_utils.tf_logging import import_tensorflow
from data_utils.views import view_of

if TYPE_CHECKING:
    import tensorflow as tf

    from data_utils.captions import CaptionedImage
    from data_utils.datasets.phrase_boxes import Boxes
    from data_utils.features.cache import FeatureCache
    from data_utils.vocabulary import Vocabulary

GROUPINGS = ("length", "image")


def make_batches(
    captioned_images: list[CaptionedImage],
    vocabulary: Vocabulary,
    cache: FeatureCache | list[FeatureCache] | None = None,
    batch_size: int = 64,
    *,
    split: str | None = None,
    group_by: str = "length",
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
) -> tf.data.Dataset:
    """Return a tf.data.Dataset of ((features, input_ids), target_ids, token_weights).

    Every caption appears once in an epoch. Each pass over the dataset is the next epoch, in another order, which
    depends on the seed and the number of the epoch alone.

    Args:
        captioned_images: list of CaptionedImage.
        vocabulary: Vocabulary.
        cache: FeatureCache with the features of the photos. Captions of photos that it lists as unreadable are left
            out, with a warning that counts them. With a list of caches, each of another view of the photos (see
            `data_utils.views`), one is chosen at random each time a photo is shown. None: the batches hold the photos
            themselves, uint8 (batch, height, width, 3), for an encoder that is trained too.
        batch_size: captions in a batch.
        split: take only the photos of this split, "train", "dev" or "test"; None takes all.
        group_by: "length" makes batches of captions of one length, as the paper does: features (batch, regions,
            feature_dim), the others (batch, time), no padding. "image" keeps all captions of a photo together, and the
            model projects its features once: features (photos, regions, feature_dim), the others (photos, captions,
            time); as many whole photos as have `batch_size` captions, at least one.
        image_size: without a cache, the size that photos are stretched to: a side, or (height, width).
        keep_images: without a cache, decode each photo once and keep it in memory.
        num_views: without a cache, choose one of so many views at random each time a photo is shown.
        jitter: without a cache, the strength of photo augmentation, from 0 to 1: see `data_utils.photo_augmentation`.
        shuffle: False keeps one order, by length, in every epoch.
        seed: of the shuffling.
        first_epoch: the number of the first pass, to resume a training.
        shares: for several devices, (numbers, count): cut each batch into `count` shares, one for each device, and
            yield those of these numbers. All devices get as many shares: where there are more devices than rows, a
            share has one row of weight 0. None: whole batches.
        boxes: Boxes of phrases, see `data_utils.datasets.phrase_boxes.read_boxes`. Batches are then ((features,
            input_ids, covered), target_ids, token_weights): covered is the fraction of each region that the boxes of
            each target word cover, (.., time, regions), 0 where it has none.
        grid_shape: with `boxes`, (rows, columns) of these regions.
    """
    tf = import_tensorflow()

    if group_by not in GROUPINGS:
        raise ValueError(f"Expected one of: {', '.join(GROUPINGS)}. Received: group_by={group_by!r}")
    if (boxes is None) != (grid_shape is None):
        raise ValueError(
            "Pass `boxes` and `grid_shape` together. "
            f"Received: boxes {'of photos' if boxes is not None else '= None'}, grid_shape={grid_shape!r}"
        )
    if batch_size < 1 or num_views < 1:
        raise ValueError(f"Both must be at least 1. Received: batch_size={batch_size}, num_views={num_views}")
    views = cache if isinstance(cache, (list, tuple)) else [] if cache is None else [cache]
    if bool(views) != (image_size is None):
        raise ValueError(
            "Pass either a FeatureCache as `cache`, or `image_size` to get the photos themselves. "
            f"Received: cache={cache}, image_size={image_size}"
        )
    if not 0 <= jitter <= 1 or views and (jitter or num_views > 1):
        raise ValueError(
            "`jitter` is a number from 0 to 1. It and `num_views` are for photos; of features, pass a list of caches. "
            f"Received: jitter={jitter!r}{' with a cache' if views else ''}, num_views={num_views}"
        )
    numbers, count = ([0], 1) if shares is None else shares
    if not len(numbers) or not all(0 <= number < count for number in numbers):
        raise ValueError(f"Expected the numbers of shares, and their count. Received: shares={shares!r}")
    images = [image for image in captioned_images if split is None or image.split == split]
    for view in views:
        images = _readable(images, view)
    images, captions, numbers_of_captions = _captions_as_ids(images, vocabulary)
    if not images:
        raise ValueError(f"There is no caption to make a batch of. Received: split={split!r}")
    source = _CachedFeatures(views, images) if image_size is None else _Photos(images, image_size, keep_images)
    num_views = len(views) or num_views
    grouping = {"length": _OneLength, "image": _WholeImages}[group_by](captions, batch_size)
    epochs = itertools.count(first_epoch)

    def batch_members():
        epoch = next(epochs)
        rng = np.random.default_rng([seed, epoch]) if shuffle else None
        view_rng = np.random.default_rng([seed, epoch, 1])
        for members in grouping.plan(rng):
            chosen = view_rng.integers(num_views, size=len(members)) if num_views > 1 else np.zeros(len(members), int)
            for number in numbers:
                yield members, chosen, number, epoch

    def arrays(members, chosen, number, epoch):
        places = grouping.places(members)
        longest = max(len(captions[image][caption]) for image, caption in filter(None, itertools.chain(*places)))
        rows = np.array_split(np.arange(len(members)), count)[number]
        weight = float(len(rows) > 0)
        rows = rows if weight else [-1]
        places = [places[row] for row in rows]
        every = list(itertools.chain(*places))
        ids = [[] if place is None else captions[place[0]][place[1]] for place in every]
        input_ids, target_ids, token_weights = inputs_and_targets(ids, vocabulary, longest)
        no_caption = np.array([place is None for place in every])  # <pad>, weight 0
        of_words = [input_ids, target_ids, token_weights]
        for array in of_words:
            array[no_caption] = 0
        token_weights *= weight
        if boxes is not None:
            captioned = [place and (images[place[0]], numbers_of_captions[place[0]][place[1]]) for place in every]
            shown = np.repeat(chosen[rows], len(every) // len(rows))
            of_words.append(covered_cells(captioned, shown, boxes, grid_shape, input_ids.shape))
        of_words = [array.reshape(len(rows), *grouping.captions, longest + 1, *array.shape[2:]) for array in of_words]
        photos = source.rows(np.array([place[0][0] for place in places]), chosen[rows])
        if jitter:
            chance = [np.random.default_rng([seed, epoch, 2, member]) for member in members[rows]]
            photos = np.stack([jittered(photo, of_photo, jitter) for photo, of_photo in zip(photos, chance)])
        return photos, *of_words

    def tensors(members, chosen, number, epoch):
        dtypes = (tf.as_dtype(source.dtype), tf.int32, tf.int32, tf.float32, *([] if boxes is None else [tf.float32]))
        features, *ids_and_weights = tf.numpy_function(arrays, [members, chosen, number, epoch], dtypes, stateful=False)
        features.set_shape((None, *source.shape))
        shape = (None, None, *(None for _ in grouping.captions))
        input_ids, target_ids, token_weights, *of_words = ids_and_weights
        for tensor in (input_ids, target_ids, token_weights):
            tensor.set_shape(shape)
        for tensor in of_words:
            tensor.set_shape((*shape, grid_shape[0] * grid_shape[1]))
        return (features, input_ids, *of_words), target_ids, token_weights

    signature = [tf.TensorSpec(shape, tf.int64) for shape in ((None,), (None,), (), ())]
    dataset = tf.data.Dataset.from_generator(batch_members, output_signature=tuple(signature))
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(len(grouping.plan(None)) * len(numbers)))
    return dataset.map(tensors, num_parallel_calls=2, deterministic=True).prefetch(2).with_options(reading_options())


# === The shift, the padding and the weights ===


def inputs_and_targets(captions, vocabulary, longest=None):
    """Return input_ids, target_ids (int32) and token_weights (float32), each (captions, longest caption + 1).

    Args:
        captions: list of lists of word ids, without special tokens.
        vocabulary: Vocabulary.
        longest: pad to so many words; None: to the longest of these captions.
    """
    time = (max(map(len, captions), default=0) if longest is None else longest) + 1
    input_ids = np.full((len(captions), time), vocabulary.pad_token_id, dtype=np.int32)
    target_ids = np.full_like(input_ids, vocabulary.pad_token_id)
    token_weights = np.zeros(input_ids.shape, dtype=np.float32)
    for i, words in enumerate(captions):
        input_ids[i, : len(words) + 1] = [vocabulary.start_token_id, *words]
        target_ids[i, : len(words) + 1] = [*words, vocabulary.end_token_id]
        token_weights[i, : len(words) + 1] = 1.0
    return input_ids, target_ids, token_weights


def _captions_as_ids(images, vocabulary):
    """Return the images that have a caption with a word, and the ids and the numbers of these captions."""
    as_ids = [list(map(vocabulary.caption_to_ids, image.captions)) for image in images]
    numbers = [[number for number, ids in enumerate(of_image) if ids] for of_image in as_ids]
    num_empty = sum(len(of_image) - len(its_numbers) for of_image, its_numbers in zip(as_ids, numbers))
    if num_empty:
        warnings.warn(f"{num_empty} captions without a word are left out of the batches.", stacklevel=3)
    kept = [number for number, its_numbers in enumerate(numbers) if its_numbers]
    captions = [[as_ids[image][number] for number in numbers[image]] for image in kept]
    return [images[image] for image in kept], captions, [numbers[image] for image in kept]


def _readable(images, cache):
    """Return the images that the cache has features of; those that could not be read are counted in a warning."""
    unknown = [image for image in images if image.image_id not in cache and image.image_id not in cache.unreadable]
    if unknown:
        raise ValueError(
            f"The cache has no features of {len(unknown)} of the {len(images)} photos (first: "
            f"{unknown[0].image_id!r}). Run FeatureCache.build with them. Received: cache={str(cache.directory)!r}"
        )
    left_out = [image for image in images if image.image_id in cache.unreadable]
    if left_out:
        warnings.warn(
            f"{sum(len(image.captions) for image in left_out)} captions of {len(left_out)} photos that cannot be read "
            f"are left out of the batches (first: {left_out[0].image_id}).",
            stacklevel=3,
        )
    return [image for image in images if image.image_id not in cache.unreadable]


# === Which captions share a batch ===


class _OneLength:
    """Batches of captions of one length: `members` are numbers of captions."""

    captions = ()  # of a row

    def __init__(self, captions, batch_size):
        self.every = [(image, number) for image, of_image in enumerate(captions) for number in range(len(of_image))]
        lengths = np.array([len(captions[image][number]) for image, number in self.every])
        self.same_length = [np.flatnonzero(lengths == length) for length in np.unique(lengths)]
        self.batch_size = batch_size

    def plan(self, rng):
        """Return the list of batches of an epoch; rng None leaves everything in order."""
        batches = []
        for members in self.same_length:
            members = members if rng is None else rng.permutation(members)
            batches += [members[i : i + self.batch_size] for i in range(0, len(members), self.batch_size)]
        return batches if rng is None else [batches[i] for i in rng.permutation(len(batches))]

    def places(self, members):
        """Return for each row of a batch the list of its captions, as (number of the photo, number of the caption)."""
        return [[self.every[member]] for member in members]


class _WholeImages:
    """Batches of photos with all their captions: `members` are numbers of photos.

    Photos whose captions are about as long share a batch, which keeps the padding small. The captions of a photo come
    longest first: a decoder can leave out those that have ended.
    """

    captions = (-1,)

    def __init__(self, captions, batch_size):
        lengths = [[len(ids) for ids in of_photo] for of_photo in captions]
        self.order = [sorted(range(len(of_photo)), key=lambda number: -of_photo[number]) for of_photo in lengths]
        self.num_captions = np.array([len(of_photo) for of_photo in lengths])
        self.longest = np.array([max(of_photo) for of_photo in lengths])
        self.num_words = np.array([sum(of_photo) for of_photo in lengths])
        self.batch_size = batch_size

    def plan(self, rng):
        """Return the list of batches of an epoch; rng None leaves everything in order."""
        # Sorted by number of captions first: every epoch has as many batches. The noise mixes them over 8 words.
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
        """Return the same as `_OneLength.places`, with None where a photo has fewer captions than others."""
        most = self.num_captions[members].max()
        of_photos = [[(member, number) for number in self.order[member]] for member in members]
        return [captions + [None] * (most - len(captions)) for captions in of_photos]


# === What the model sees of each photo ===


class _CachedFeatures:
    def __init__(self, views, images):
        ids = [image.image_id for image in images]
        self.views = [(cache, cache.rows_of(ids)) for cache in views]
        first = views[0]
        self.shape = (first.grid_shape[0] * first.grid_shape[1], first.feature_dim)
        self.dtype = first.manifest["dtype"]
        for cache in views[1:]:
            shape = (cache.grid_shape[0] * cache.grid_shape[1], cache.feature_dim)
            if (shape, cache.manifest["dtype"]) != (self.shape, self.dtype):
                raise ValueError(
                    f"The views must have been made by one encoder. Expected: features {self.shape} of {self.dtype}. "
                    f"Received: {shape} of {cache.manifest['dtype']} in {str(cache.directory)!r}"
                )

    def rows(self, image_numbers, chosen):
        if len(self.views) == 1:
            cache, cache_rows = self.views[0]
            return cache.features_of_rows(cache_rows[image_numbers])
        features = np.empty((len(image_numbers), *self.shape), self.dtype)
        for view in np.unique(chosen):
            cache, cache_rows = self.views[view]
            features[chosen == view] = cache.features_of_rows(cache_rows[image_numbers[chosen == view]])
        return features


class _Photos:
    dtype = "uint8"

    def __init__(self, images, image_size, keep):
        self.shape = (*height_and_width(image_size), 3)
        self.paths = [image.image_path for image in images]
        self.ids = [image.image_id for image in images]
        self.kept = np.zeros((len(images), *self.shape), dtype=np.uint8) if keep else None
        self.is_kept = np.zeros(len(images), dtype=bool)

    def rows(self, image_numbers, chosen):
        return np.stack(
            [view_of(self._photo(number), view, self.ids[number]) for number, view in zip(image_numbers, chosen)]
        )

    def _photo(self, number):
        if self.kept is None:
            return load_image(self.paths[number], self.shape[:2])
        if not self.is_kept[number]:
            self.kept[number] = load_image(self.paths[number], self.shape[:2])
            self.is_kept[number] = True
        return self.kept[number]
