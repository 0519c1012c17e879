# %% [markdown]
# # Encode every photo once
#
# **You will be able to** build a feature cache, and resume a build that was interrupted; read batches from the cache;
# and choose between batches of captions of the same length and batches with all captions of each photo.
#
# **You need** chapters [1](../01_words.ipynb) and [2](../02_a_picture_as_vectors.ipynb).
#
# **Time:** 1 minute to run on two cores.
#
# The encoder is frozen: its weights do not change while the captioner learns, so a photo has the same vectors in each
# epoch. With five captions per photo and 20 epochs, each photo would be encoded 100 times without a cache. A *feature
# cache* keeps the vectors on disk, with one row for each photo.

# %%
from data_utils.base import import_tensorflow

tf = import_tensorflow()  # without its startup log

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from data_utils import CaptionedImage, FeatureCache, Vocabulary, draw_scenes, make_batches
from keras_sat import Captioner

plt.rcParams["figure.dpi"] = 100
folder = Path(tempfile.mkdtemp())

# %% [markdown]
# ## An interrupted build
#
# The cache is built in blocks, and a row counts as done only when it has reached the disk. So if a build is killed, the
# next build resumes where the killed one stopped. Here is a build that is interrupted on purpose, by an encoder that
# fails.

# %%
captioner = Captioner.from_pretrained("scenes")
scenes = draw_scenes(300, seed=0)
images = [CaptionedImage(scene.image_id, scene.image, list(scene.captions), scene.split) for scene in scenes]
photos = [image.image_id for image in images], [image.image_path for image in images]
options = {"image_size": 64, "show_progress": False}
encoded = []
limit = 100


def scenes_encoder(photos):
    if len(encoded) >= limit:
        raise RuntimeError("somebody has pulled the plug")
    encoded.extend(photos)
    return captioner.encoder_model(photos).numpy()


try:
    FeatureCache.build(folder / "features", *photos, scenes_encoder, **options)
except RuntimeError as error:
    stopped = FeatureCache.open(folder / "features")
    print(f"{error}: {len(stopped)} of {len(images)} photos are done")

# %% [markdown]
# A second build encodes the remaining photos, and a third build encodes nothing at all.

# %%
encoded_by_build = [len(stopped)]
limit = 10_000
for _ in range(2):
    encoded.clear()
    cache = FeatureCache.build(folder / "features", *photos, scenes_encoder, **options)
    encoded_by_build.append(len(encoded))
print(len(cache), "photos,", cache.grid_shape, "cells,", cache.feature_dim, "features each")

figure, ax = plt.subplots(figsize=(10, 2.2))
ax.barh(["third build", "second build", "stopped build"], encoded_by_build[::-1])
ax.set_title("photos that each build encoded")
plt.show()

# %% [markdown]
# ## Batches with tf.data
#
# `make_batches` combines captions and vectors in a `tf.data.Dataset`. In this example, all captions of a batch have the
# same length. The inputs begin with `<start>`, and the targets end with `<end>`. While the model trains on one batch,
# the next ones are being read (*prefetching*).

# %%
vocabulary = Vocabulary.build(images)
batches = make_batches(images, vocabulary, cache, batch_size=64, split="train", seed=0)
(first_features, input_ids), target_ids, token_weights = next(iter(batches))
for name, array in (("features", first_features), ("input_ids", input_ids), ("target_ids", target_ids)):
    print(f"{name:11}{tuple(array.shape)!s:15}{array.dtype.name}")
for name, row in (("input", input_ids[0]), ("target", target_ids[0])):
    print(f"{name:>7}:", " ".join(vocabulary.tokens[token_id] for token_id in row.numpy()))

# %% [markdown]
# Each pass over the dataset is one epoch. The order of the captions changes from epoch to epoch, but if you start again
# with the same seed, each epoch has the same order as before. In each epoch, every caption occurs exactly once.
#
# A photo has five captions of different lengths, and the argument `group_by` determines which captions share a batch:
#
# * `group_by="length"`, as in the cell above and in the paper, puts captions of the same length into a batch. No
#   computation is wasted on padding, and a batch has many photos. But for each caption of a photo, the photo's vectors
#   are read again, and projected again by the decoder.
# * `group_by="image"` puts all captions of a photo into the same batch. The photo's vectors are read and projected only
#   once per epoch. But a batch has fewer photos, so its gradient is less representative of the whole training split,
#   and shorter captions are padded.

# %%
orders = [[tuple(ids.numpy().ravel()) for (_, ids), _, _ in batches] for _ in range(2)]
again = make_batches(images, vocabulary, cache, batch_size=64, split="train", seed=0)
next(iter(again))  # the first pass, as above
same_seed = [tuple(ids.numpy().ravel()) for (_, ids), _, _ in again]
num_captions = sum(len(targets) for _, targets, _ in batches)
by_image = make_batches(images, vocabulary, cache, batch_size=64, split="train", group_by="image")
(grouped, grouped_ids), _, grouped_weights = next(iter(by_image))
print("captions in an epoch:", num_captions)
for name, vectors, ids, weights in (
    ("length", first_features, input_ids, token_weights),
    ("image", grouped, grouped_ids, grouped_weights),
):
    padding = 1 - float(tf.reduce_mean(weights))
    print(f"{name:7} features {tuple(vectors.shape)}  input_ids {tuple(ids.shape)}  padding {padding:.0%}")

# %% [markdown]
# ## In short
#
# A frozen encoder needs to run only once for each photo. If the build of a cache is killed, you can resume it. For
# Flickr8k with the paper's encoder, the cache takes 1.6 GB. Group captions by length to avoid padding, or by image to
# read each photo's vectors only once per epoch.
#
# ## Next
#
# Go on with [the course](../README.md), or read [TensorFlow's guide](https://www.tensorflow.org/guide/data_performance)
# to fast input pipelines with tf.data.

# %% maintainers=true
assert encoded_by_build == [128, 172, 0]
np.testing.assert_allclose(
    cache.features([scenes[7].image_id])[0], captioner.encode(scenes[7].image[None])[0], rtol=1e-2, atol=1e-2
)
np.testing.assert_array_equal(input_ids[:, 1:], target_ids[:, :-1])
assert num_captions == 5 * sum(image.split == "train" for image in images)
assert orders[0] != orders[1] and sorted(sum(orders[0], ())) == sorted(sum(orders[1], ()))
assert orders[0] == same_seed
assert grouped_ids.shape[:2] == (grouped.shape[0], 5) and grouped.shape[0] < first_features.shape[0]
assert tf.reduce_all(token_weights == 1) and 0.1 < 1 - float(tf.reduce_mean(grouped_weights)) < 0.6
