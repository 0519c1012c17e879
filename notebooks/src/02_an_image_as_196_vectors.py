# %% [markdown]
# # 02 · An image as 196 vectors
#
# Attention needs something to choose from. This story cuts a photo into 196 places, each described by a vector: the
# *annotation vectors* $a = \{a_1, \dots, a_L\},\ a_i \in \mathbb{R}^D$ of the paper. They come out of a convolutional
# network that was trained for something else, without its last layers. We look at how much of the photo each
# vector has seen, at what it knows, and at how to compute it only once.
#
# The large networks are made with random weights here: sizes and receptive fields do not depend on them, and nothing
# need be downloaded. What a vector *knows* is looked at with the small trained encoder of the drawn scenes.

# %%
import importlib.util
import subprocess
import sys
from pathlib import Path

if importlib.util.find_spec("keras_sat") is None:  # on Colab: install the clone that contains this notebook
    clone = Path("..").resolve()
    if not (clone / "keras_sat").is_dir():
        raise ModuleNotFoundError(
            "keras_sat is not installed. Clone its repository, and open this notebook in the clone's folder notebooks."
        )
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", str(clone)], check=True)

from data_utils.tf_logging import import_tensorflow

_ = import_tensorflow()  # without its greetings, half a dozen lines about the processor

# %%
import tempfile

import keras
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
from matplotlib import cbook

from data_utils import CaptionedImage, FeatureCache, Vocabulary, draw_scenes, load_image, make_batches
from data_utils.scenes import COLOURS
from keras_sat import ENCODERS, Captioner

plt.rcParams["figure.dpi"] = 80
keras.utils.set_random_seed(0)
folder = Path(tempfile.mkdtemp())

# %% [markdown]
# ## From a photo to a grid
#
# `load_image` opens any usual picture as RGB, upright, stretched to the size that is asked for. `ENCODERS["vgg16"]()`
# is VGG16 up to the last convolution of its block 5, before the pooling. Its preprocessing is part of it. The paper
# took VGG19 and its `block5_conv4`.
#
# The photo is Grace Hopper's, which comes with matplotlib as sample data (US Navy, public domain).

# %%
photo = load_image(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False), 224)
vgg16 = ENCODERS["vgg16"](weights=None)
grid = vgg16(photo[None].astype("float32")).numpy()
features = grid.reshape(1, -1, grid.shape[-1])
print("photo", photo.shape, "-> grid", grid.shape, "-> features", features.shape)

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(6.5, 3.3))
left.imshow(photo)
right.imshow(photo)
for edge in range(0, 225, 16):
    right.axvline(edge - 0.5, color="white", linewidth=0.6)
    right.axhline(edge - 0.5, color="white", linewidth=0.6)
left.set_title("224 x 224 pixels")
right.set_title("14 x 14 cells, 512 numbers each")
for ax in (left, right):
    ax.axis("off")

# %% [markdown]
# So $L = 14 \cdot 14 = 196$ and $D = 512$. Cell $i$ of the grid belongs to a square of 16 x 16 pixels, and its vector
# says what is seen around there.
#
# ## Why not the last layer?
#
# Captioners before this paper described the photo by one vector, from a fully connected layer after the grid, or by
# the mean of the grid. One vector has no place in it. Shuffle the cells of the grid, and the mean stays what it was: it
# cannot tell a dog on the left from a dog on the right, and no part of it can be looked at by itself.

# %%
shuffled = np.random.default_rng(0).permutation(features, axis=1)
same_mean = np.abs(shuffled.mean(axis=1) - features.mean(axis=1)).max() < 1e-5 * np.abs(features).max()
same_grid = np.array_equal(shuffled, features)
print("same mean:", same_mean, "  same grid:", same_grid)

# %% [markdown]
# ## How much of the photo has a cell seen?
#
# A convolution of 3 x 3 looks one more cell on each side, a pooling of 2 x 2 doubles what a step means in pixels.
# So the *receptive field* of a layer is computed by hand: with each layer of kernel size $k$ and stride $s$,
# $\text{field} \leftarrow \text{field} + (k - 1) \cdot \text{jump}$ and $\text{jump} \leftarrow \text{jump} \cdot s$.

# %%
field, jump, fields = 1, 1, {}
print(f"{'layer':14}{'grid':>16}{'field':>8}{'jump':>6}")
for layer in vgg16.layers[-1].layers[1:]:
    kernel, stride = (2, 2) if "pool" in layer.name else (3, 1)
    field, jump = field + (kernel - 1) * jump, jump * stride
    fields[layer.name] = field
    if layer.name.endswith(("conv1", "conv3", "pool")):
        _, *shape = layer.output.shape
        print(f"{layer.name:14}{' x '.join(map(str, shape)):>16}{field:>8}{jump:>6}")

# %% [markdown]
# 196 vectors, and each has seen 196 x 196 pixels: nearly the whole photo. (That both are 196 is chance.) Is it true? A
# gradient tells: the pixels that a cell depends on are those where its derivative is not zero.

# %%
pixels = tf.Variable(np.random.default_rng(0).uniform(0, 255, (1, 224, 224, 3)).astype("float32"))
with tf.GradientTape() as tape:
    cell = tf.reduce_sum(vgg16(pixels)[0, 7, 7])
influence = np.abs(tape.gradient(cell, pixels).numpy()[0]).sum(axis=-1)
rows = np.flatnonzero(influence.any(axis=1))
columns = np.flatnonzero(influence.any(axis=0))
measured = (int(np.ptp(rows)) + 1, int(np.ptp(columns)) + 1)
middle = influence[71:169, 71:169].sum() / influence.sum()

figure, ax = plt.subplots(figsize=(3.2, 3.2))
ax.imshow(influence**0.5, cmap="magma")
ax.add_patch(plt.Rectangle((columns[0], rows[0]), measured[1], measured[0], fill=False, color="white"))
ax.add_patch(plt.Rectangle((112, 112), 16, 16, fill=False, color="cyan"))
ax.set_title("what the cell (7, 7) depends on")
print(f"measured: {measured}; the middle 98 x 98 pixels have {middle:.0%} of the influence")

# %% [markdown]
# The white square is the whole receptive field, 196 pixels wide, as computed. But most of the influence comes from
# around the cyan cell: the middle, a quarter of the area, has 70 % of it. So a vector mostly speaks of its place, and
# knows what is around it.
#
# ## Other networks, other layers
#
# A lower layer has more cells that have seen less; a later one fewer that know more. Every encoder lets you choose.

# %%
choices = [
    ("vgg19", "block5_conv4"),
    ("vgg16", "block4_conv3"),
    ("mobilenet_v2", "out_relu"),
    ("mobilenet_v2", "block_13_expand_relu"),
    ("tiny", "coordinates"),
]
shapes = {}
for name, layer in choices:
    encoder = ENCODERS[name](layer=layer, weights=None)
    shapes[name, layer] = encoder.output_shape[1:]
    print(f"{name:14}{layer:22}{' x '.join(map(str, shapes[name, layer])):>16}{encoder.count_params():>12,} weights")

# %% [markdown]
# ## What does a vector know?
#
# For this the weights must be trained. `tiny`, the encoder of the scenes, gives 16 x 16 vectors of 66 numbers; the last
# two are the row and the column. Take the cell in the middle of an object, and compare its vector with all others
# by their cosine.

# %%
captioner = Captioner.from_pretrained("scenes")
scenes = draw_scenes(400, seed=5, max_objects=1)
vectors = captioner.encode(np.stack([scene.image for scene in scenes]))[:, :, :64]  # (scenes, cells, features)


def middle_cell(scene):
    left, top, right, bottom = scene.objects[0].box
    return (top + bottom) // 8 * 16 + (left + right) // 8


cells = np.array([middle_cell(scene) for scene in scenes])
figure, axes = plt.subplots(2, 5, figsize=(9, 3.7))
for (above, below), scene, vector, cell in zip(axes.T, scenes, vectors, cells):
    unit = vector / np.linalg.norm(vector, axis=-1, keepdims=True)
    above.imshow(scene.image)
    below.imshow((unit @ unit[cell]).reshape(16, 16), vmin=0, vmax=1)
    for ax in (above, below):
        ax.axis("off")

# %% [markdown]
# Bright cells are like the one in the middle of the object. The object stands out from the background.
#
# Can the colour be read off? Fit one matrix from the vector of that cell to the eight colours on 300 scenes, and try it
# on the 100 others. Then do the same with a cell far away from the object.

# %%
names = list(COLOURS)
labels = np.array([names.index(scene.objects[0].colour) for scene in scenes])


def accuracy(inputs):
    inputs = np.concatenate([inputs, np.ones((len(inputs), 1))], axis=1)
    matrix, *_ = np.linalg.lstsq(inputs[:300], np.eye(8)[labels[:300]], rcond=None)
    return np.mean((inputs[300:] @ matrix).argmax(axis=1) == labels[300:])


every = np.arange(len(scenes))
rows_apart = (cells // 16 + 8) % 16 * 16 + (cells % 16 + 8) % 16
in_object, far_away = accuracy(vectors[every, cells]), accuracy(vectors[every, rows_apart])
print(f"colour right: {in_object:.0%} from the object's cell, {far_away:.0%} from one eight rows and columns away")

# %% [markdown]
# The vector in the object knows its colour, one elsewhere can only guess among eight. That is what attention is for: it
# must find the cell that knows. ([04](04_kinds_of_attention.ipynb) and the others show how.)
#
# ## Encode every photo once
#
# The encoder is *frozen*: its weights do not change while the captioner learns, so a photo has the same vectors in each
# epoch. How much work is it to make them again? Count the multiplications of VGG16's convolutions.

# %%
convolutions = [layer for layer in vgg16.layers[-1].layers if "conv" in layer.name]
multiplications = sum(
    int(np.prod(layer.kernel.shape)) * layer.output.shape[1] * layer.output.shape[2] for layer in convolutions
)
bytes_of_a_photo = 14 * 14 * 512 * 2
print(f"{multiplications / 1e9:.1f} billion multiplications for a photo")
print(f"{bytes_of_a_photo / 1e6:.1f} MB in 16 bits, {8000 * bytes_of_a_photo / 1e9:.1f} GB for Flickr8k")

# %% [markdown]
# With five captions a photo and 20 epochs, each photo would be encoded 100 times. A `FeatureCache` keeps the vectors on
# the disk, a row for each photo. It is made in blocks, and a row counts only when it has reached the disk: so a build
# that is killed goes on where it was. Here is one that is stopped in the middle on purpose.

# %%
drawn = draw_scenes(300, seed=0)
images = [CaptionedImage(scene.image_id, scene.image, list(scene.captions), scene.split) for scene in drawn]
encoded = []
limit = 100


def scenes_encoder(photos):
    if len(encoded) >= limit:
        raise RuntimeError("somebody has pulled the plug")
    encoded.extend(photos)
    return captioner.encoder_model(photos).numpy()


photos_of = [image.image_id for image in images], [image.image_path for image in images]
options = {"image_size": 64, "show_progress": False}
try:
    FeatureCache.build(folder / "features", *photos_of, scenes_encoder, **options)
except RuntimeError as error:
    stopped = FeatureCache.open(folder / "features")
    print(f"{error}: {len(stopped)} of {len(images)} photos are done")

# %%
done_before, limit = len(stopped), 10_000
encoded.clear()
cache = FeatureCache.build(folder / "features", *photos_of, scenes_encoder, **options)
encoded_after = len(encoded)
encoded.clear()
cache = FeatureCache.build(folder / "features", *photos_of, scenes_encoder, **options)
print(f"the second build encoded {encoded_after} photos, the third {len(encoded)}")
print(len(cache), "photos,", cache.grid_shape, "cells,", cache.feature_dim, "features each")

# %% [markdown]
# ## Batches with tf.data
#
# `make_batches` joins words and vectors into a `tf.data.Dataset`. The captions of a batch have one length
# ([01](01_words_and_ids.ipynb) has shown what that saves), the inputs start with `<start>`, the targets end with
# `<end>`. While a batch is trained on, the next ones are already being read (`prefetch`).

# %%
vocabulary = Vocabulary.build(images)
batches = make_batches(images, vocabulary, cache, batch_size=64, split="train", seed=0)
(first_features, input_ids), target_ids, token_weights = next(iter(batches))
for name, array in (("features", first_features), ("input_ids", input_ids), ("target_ids", target_ids)):
    print(f"{name:11}{tuple(array.shape)!s:15}{array.dtype.name}")
for name, row in (("input", input_ids[0]), ("target", target_ids[0])):
    print(f"{name:>7}:", " ".join(vocabulary.tokens[token_id] for token_id in row.numpy()))

# %% [markdown]
# Each pass over the dataset is another epoch in another order, and the same seed gives the same orders again. Every
# caption comes exactly once.
#
# A photo has five captions of different lengths, and `group_by` says which captions share a batch:
#
# * `"length"`, as here and in the paper: captions of one length. No step is spent on padding, and a batch has many
#   photos. But the vectors of a photo are read, and projected by the decoder, once for each of its captions: five times
#   in an epoch.
# * `"image"`: all captions of a photo. Its vectors are read and projected once in an epoch. But a batch has fewer
#   photos and says less about all of them, and shorter captions are padded with `<pad>`, which weighs nothing.
#
# Both show every caption once in an epoch.

# %%
orders = [[tuple(ids.numpy().ravel()) for (_, ids), _, _ in batches] for _ in range(2)]
again = make_batches(images, vocabulary, cache, batch_size=64, split="train", seed=0)
next(iter(again))  # the first pass, as above
same_seed = [tuple(ids.numpy().ravel()) for (_, ids), _, _ in again]
num_captions = sum(len(targets) for _, targets, _ in batches)
by_image = make_batches(images, vocabulary, cache, batch_size=64, split="train", group_by="image")
(grouped, grouped_ids), _, grouped_weights = next(iter(by_image))
print("captions in an epoch:", num_captions)
for name, vectors_read, ids, weights in (
    ("length", first_features, input_ids, token_weights),
    ("image", grouped, grouped_ids, grouped_weights),
):
    padding = 1 - float(tf.reduce_mean(weights))
    print(f"{name:7} features {tuple(vectors_read.shape)}  input_ids {tuple(ids.shape)}  padding {padding:.0%}")

# %% [markdown]
# ## Exercises
#
# 1. Compute the receptive field of the layers `conv1`, `conv2` and `conv3` of `tiny` by hand. (It first gathers 2 x 2
#    pixels; then come convolutions of 3 x 3, of 2 x 2 with a stride of 2, and of 1 x 1.) Check it with a gradient.
# 2. Move the cell whose gradient is taken into a corner of the photo. How large is its field now, and what fills the
#    rest?
# 3. Read the *shape* of the object from its cell, and from the mean of all 256 vectors. Which is better, and why might
#    that be? Think of what a cell of `tiny` has seen.
# 4. Draw scenes with two objects, and try to read the colour of the *left* one from the mean of the vectors. From which
#    cell can it be read?
#
# ## Next
#
# [03 · One step of attention by hand](03_one_step_of_attention.ipynb) takes these vectors and chooses among them.
#
# The last cell checks what this notebook has claimed.

# %%
assert features.shape == (1, 196, 512)
assert same_mean and not same_grid
assert fields["block5_conv3"] == 196 and measured == (196, 196) and jump == 16
assert (98 / 196) ** 2 == 1 / 4 and abs(middle - 0.7) < 0.03
assert shapes["vgg19", "block5_conv4"] == (14, 14, 512) and shapes["mobilenet_v2", "out_relu"] == (7, 7, 1280)
assert in_object > 0.95 and far_away < 0.3
assert 15e9 < multiplications < 16e9 and 1.5e9 < 8000 * bytes_of_a_photo < 1.7e9
assert done_before == 128 and done_before + encoded_after == 300 and not encoded
np.testing.assert_allclose(
    cache.features([drawn[7].image_id])[0], captioner.encode(drawn[7].image[None])[0], rtol=1e-2, atol=1e-2
)
np.testing.assert_array_equal(input_ids[:, 1:], target_ids[:, :-1])
assert num_captions == 5 * sum(image.split == "train" for image in images)
assert orders[0] != orders[1] and sorted(sum(orders[0], ())) == sorted(sum(orders[1], ()))
assert orders[0] == same_seed
assert grouped_ids.shape[:2] == (grouped.shape[0], 5) and grouped.shape[0] < first_features.shape[0]
assert tf.reduce_all(token_weights == 1) and 0.1 < 1 - float(tf.reduce_mean(grouped_weights)) < 0.6
