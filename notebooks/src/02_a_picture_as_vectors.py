# %% [markdown]
# # 2 · A picture as vectors
#
# **You will be able to**
#
# * turn a photo into a grid of *annotation vectors*, and say why they are the output of a convolutional layer
# * compute the *receptive field* of a layer, and check it with a gradient
# * find out what information a vector contains, with cosines and with a *probe*
# * say what shape the data has at each step from the file to the logits
#
# **You need** numpy, and an idea of what convolutional and pooling layers do.
#
# **Time:** 1 minute to run on two cores, and about 45 minutes to think.
#
# [diagram]
#
# Attention needs vectors to choose from. In this chapter, an encoder turns a photo into a set of vectors, one for each
# region. The paper calls them *annotation vectors*: $a = \{\mathbf{a}_1, \dots, \mathbf{a}_L\},\ \mathbf{a}_i \in
# \mathbb{R}^D$.

# %%
from data_utils.base import import_tensorflow

tf = import_tensorflow()  # without its startup log

from pathlib import Path

import keras
import matplotlib.pyplot as plt
import numpy as np
from matplotlib import cbook

import keras_sat
from data_utils import draw_scenes, load_image
from data_utils.scenes import COLOURS
from keras_sat import ENCODERS, Captioner

plt.rcParams["figure.dpi"] = 100
keras.utils.set_random_seed(0)

# %% [markdown]
# ## From a photo to a grid
#
# The paper's encoder is VGG19 ([Simonyan and Zisserman](https://arxiv.org/abs/1409.1556)), a convolutional network that
# classifies photos. The layers after the last convolution of its fifth block are left out. This chapter uses VGG16,
# which has three convolutions fewer and gives a grid of the same shape. The weights of VGG16 are random here, so that
# nothing needs to be downloaded; neither shapes nor receptive fields depend on the weights. The information in a vector
# does depend on the weights. So later, to find out what the vectors contain, you use the trained encoders that come
# with the package.
#
# The photo, which shows Grace Hopper, comes with matplotlib (US Navy, public domain). `load_image` stretches it to 224
# x 224 pixels, the input size of VGG.

# %%
photo_path = cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)
photo = load_image(photo_path, 224)
vgg16 = ENCODERS["vgg16"](weights=None)
grid = vgg16(photo[None].astype("float32")).numpy()
features = grid.reshape(1, -1, grid.shape[-1])
print("photo", photo.shape, "-> grid", grid.shape, "-> features", features.shape)

# %% stored="JPEG"
figure, ax = plt.subplots(figsize=(5, 5), layout="constrained")
ax.imshow(photo)
for edge in range(0, 225, 16):
    ax.axvline(edge - 0.5, color="white", linewidth=0.8)
    ax.axhline(edge - 0.5, color="white", linewidth=0.8)
ax.set_title("14 x 14 cells of 16 x 16 pixels, 512 numbers each")
ax.axis("off")
plt.show()

# %% [markdown]
# So $L = 14 \cdot 14 = 196$ and $D = 512$. Four pooling layers have divided the width and the height by $2^4 = 16$, so
# each cell corresponds to a square of 16 x 16 pixels. The decoder reads the grid as a list, row by row: the cell in row
# $r$ and column $q$ is number $14r + q$. Attention treats the list of cells as a set: the position of a cell affects
# attention only if the cell's vector contains that position.
#
# ## Why not the last layer?
#
# Many earlier captioners represented the photo by a single vector: the output of a fully connected layer after the
# grid, or the mean of the grid. No part of such a vector belongs to a region of the photo, so attention would have
# nothing to choose from.
#
# **Predict.** If you shuffle the 196 cells like the pieces of a jigsaw, what happens to the mean of their vectors?

# %%
shuffled = np.random.default_rng(0).permutation(features, axis=1)
same_mean = np.abs(shuffled.mean(axis=1) - features.mean(axis=1)).max() < 1e-5 * np.abs(features).max()
same_grid = np.array_equal(shuffled, features)
print("same mean:", same_mean, "  same grid:", same_grid)

# %% [markdown]
# <details><summary>What happened</summary>
#
# The mean stays the same, so from the mean you cannot tell a dog on the left from a dog on the right. The output of a
# fully connected layer would change, since such a layer has separate weights for each cell. But none of the 4,096
# numbers in that output belongs to a region, either: each number is computed from all cells. In the grid, each vector
# belongs to one region.
#
# </details>
#
# ## How much of the photo does a cell see?
#
# The *receptive field* of a cell is the square of pixels that it depends on. You can compute its width layer by layer.
# Let `jump` be the distance between neighbouring cells, in pixels. A layer with kernel size $k$ widens the field by
# $k - 1$ cells, each `jump` pixels wide. A stride of $s$ then multiplies the jump by $s$.
#
# **Predict.** Each cell of the last layer corresponds to a square of 16 x 16 pixels. How wide is the receptive field of
# such a cell: 16, 64 or 196 pixels?
#
# **Your turn.** Write the computation for one layer. For example, if field and jump are both 1, a 3 x 3 convolution
# (stride 1) increases the field to 3 and leaves the jump at 1. A 2 x 2 pooling layer with stride 2 then increases the
# field to 4 and the jump to 2.


# %% gap="field"
def after_layer(field, jump, kernel, stride):
    """Return the receptive field and the jump after one more layer."""
    return ...  # your turn: field, jump


# %% check="field" empty="after_layer(1, 1, 3, 1)"
assert tuple(after_layer(1, 1, 3, 1)) == (3, 1), "A 3 x 3 convolution sees one more pixel on each side."
assert tuple(after_layer(3, 1, 2, 2)) == (4, 2), "The pooling adds one jump of 1 pixel, then the jump doubles."
assert tuple(after_layer(4, 2, 3, 1)) == (8, 2), "Two more cells add two jumps of 2 pixels."

# %%
field, jump, fields = 1, 1, {}
print(f"{'layer':14}{'grid':>16}{'field':>8}{'jump':>6}")
for layer in vgg16.layers[-1].layers[1:]:
    kernel, stride = (2, 2) if "pool" in layer.name else (3, 1)
    field, jump = after_layer(field, jump, kernel, stride)
    fields[layer.name] = field
    if layer.name.endswith(("conv1", "conv3", "pool")):
        _, *shape = layer.output.shape
        print(f"{layer.name:14}{' x '.join(map(str, shape)):>16}{field:>8}{jump:>6}")

# %% [markdown]
# The receptive field is 196 pixels wide, nearly as wide as the photo. (It is a coincidence that there are also 196
# cells.) The paper's VGG19 has one more convolution in each of the last three blocks, so its field is 252 pixels wide,
# wider than the photo. You can check the width with a gradient: a cell depends on a pixel if the cell's derivative with
# respect to the pixel is not zero.

# %%
pixels = tf.Variable(np.random.default_rng(0).uniform(0, 255, (1, 224, 224, 3)).astype("float32"))
with tf.GradientTape() as tape:
    cell = tf.reduce_sum(vgg16(pixels)[0, 7, 7])
influence = np.abs(tape.gradient(cell, pixels).numpy()[0]).sum(axis=-1)
rows = np.flatnonzero(influence.any(axis=1))
columns = np.flatnonzero(influence.any(axis=0))
measured = (int(np.ptp(rows)) + 1, int(np.ptp(columns)) + 1)
squares = {"its own square": (112, 128), "the 3 x 3 squares around it": (96, 144), "the middle 98 x 98": (71, 169)}
shares = {name: influence[a:b, a:b].sum() / influence.sum() for name, (a, b) in squares.items()}

figure, ax = plt.subplots(figsize=(3.8, 3.8))
ax.imshow(influence**0.5, cmap="magma")
ax.add_patch(plt.Rectangle((columns[0], rows[0]), measured[1], measured[0], fill=False, color="white"))
ax.add_patch(plt.Rectangle((112, 112), 16, 16, fill=False, color="cyan"))
ax.set_title("what the cell (7, 7) depends on")
print(f"measured: {measured}; influence from", *(f"{name}: {share:.0%};" for name, share in shares.items()))

# %% [markdown]
# The white square is the whole receptive field, 196 pixels wide, as computed. The influence of the pixels falls off
# from the middle to the border. (The picture shows the square root of the influence, so that you can see small values.)
# Only 3 % of the influence comes from the cell's own square (cyan). Together, this square and the eight squares around
# it account for 25 % of the influence. About 70 % comes from the middle 98 x 98 pixels, which are a quarter of the
# field. So this annotation vector is centred on its square, but depends mostly on the surroundings of the square. (The
# weights in this example are random. They affect how the influence is distributed within the field, but not how wide
# the field is.)
#
# A lower layer has more cells, each with a smaller receptive field; a higher layer has fewer cells with larger fields.
# For each encoder in the package, you can choose the layer that gives the grid.

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
# ## Where the weights come from
#
# The 6,000 training photos of Flickr8k are too few for learning to recognise objects. So the encoder is first trained
# on a task with far more data: classifying the 1.2 million photos of *ImageNet* into 1,000 classes. Then its last
# layers, which predict the class, are dropped. The remaining layers have learned to recognise edges, fur, wheels and
# faces, which is just as useful for captioning. This method is called *transfer learning*. In the paper, the encoder is
# *frozen*: its weights do not change, and only the decoder is trained. Training the encoder further, together with the
# decoder and with a small learning rate, is called *fine-tuning*. Fine-tuning improves the captions if there are enough
# training photos.
#
# ## What the vectors of a real photo know
#
# The encoder of the bundled photo captioner is an EfficientNet-Lite0. It reads photos of 320 x 320 pixels, and gives
# 20 x 20 cells of 1,280 numbers each. This encoder was trained on ImageNet, and then fine-tuned on Flickr8k together
# with the decoder. The fine-tuning used the captions, and boxes that people had drawn around the objects in the photos.
# (Before the decoder reads the vectors, the captioner normalises them and projects them to 512 numbers.) Take the
# vector of one cell and compare it with the vectors of all cells. The usual measure of similarity is the *cosine* of
# the angle between two vectors, $\cos(\mathbf{u}, \mathbf{w}) = \mathbf{u}^\top \mathbf{w} /
# (|\mathbf{u}||\mathbf{w}|)$. The cosine is 1 if the vectors point in the same direction, and 0 if they are orthogonal.
# The code below first subtracts the mean of all vectors, because this part is common to all cells.
#
# **Your turn.** Compute the cosine between one vector and each row of `vectors`.


# %% gap="cosines"
def cosines(vectors, vector):
    """Return the cosine (L,) of each row of vectors (L, D) with one vector (D,)."""
    return ...  # your turn


# %% check="cosines" empty="cosines(np.eye(2), np.ones(2))"
trial_vectors = np.array([[2.0, 0.0], [0.0, 3.0], [1.0, 1.0], [-1.0, 0.0]])
expected = [1, 0, 0.5**0.5, -1]
message = "Not the cosines: divide by the length of the vector and by the length of each row."
assert np.allclose(cosines(trial_vectors, np.array([5.0, 0.0])), expected), message

# %% stored="JPEG"
for_photos = Captioner.from_pretrained()
examples = Path(keras_sat.__file__).parent / "export" / "page" / "examples"
marked = {  # the row and the column of a cell
    "face": (photo_path, 7, 10),
    "crew": (examples / "raft.jpg", 9, 11),
    "people": (examples / "beach.jpg", 6, 5),
}
similar = {}
figure, axes = plt.subplots(2, 3, figsize=(10, 6.8), layout="constrained")
for (above, below), (name, (path, row, column)) in zip(axes.T, marked.items()):
    image = load_image(path, 320)
    vectors = for_photos.encode(image[None])[0]
    vectors = vectors - vectors.mean(axis=0)
    similar[name] = cosines(vectors, vectors[20 * row + column]).reshape(20, 20)
    above.imshow(image)
    above.add_patch(plt.Rectangle((16 * column, 16 * row), 16, 16, fill=False, color="cyan", linewidth=2))
    below.imshow(similar[name], vmin=0, vmax=1)
    above.set_title(name)
    for ax in (above, below):
        ax.axis("off")
for name, cosine in similar.items():
    rows, columns = np.nonzero(cosine > 0.5)
    print(f"{name:7}{len(rows):3} cells with a cosine above .5, in rows {rows.min()}-{rows.max()}, ", end="")
    print(f"columns {columns.min()}-{columns.max()}")

# %% [markdown]
# In the map below each photo, bright cells resemble the marked cell. In the first photo, the cells that resemble the
# face are on the face and the brim of the hat, but not on the uniform or the flag. In the photo of the raft, the marked
# cell is at the edge of a life vest, and the cells that resemble it follow the crew across the photo. In the photo of
# the beach, the marked cell is on the man's chest, and the cells that resemble it are on the heads and chests of both
# people, but hardly on their legs. The encoder was not trained on these photos. In training, it was never given the
# outline of an object, but the boxes did tell it roughly where objects are. The borders of the bright areas are
# blurred, since neighbouring cells see nearly the same pixels. (The photos of the raft and the beach are from the Kodak
# Lossless True Color Image Suite.)
#
# ## Can a classifier read the colour?
#
# Vectors can be similar without containing the information that you need, such as a colour. A *probe* is a small
# classifier that tries to read one fact from a vector. If a linear probe can read the fact, so can the decoder. To
# train a probe, you need many pictures for which the fact is known, such as the synthetic scenes. The small encoder
# `tiny`, which was trained on such scenes, gives a grid of 16 x 16 vectors. Each vector has 66 numbers; the last two
# are the cell's row and column.

# %%
captioner = Captioner.from_pretrained("scenes")
scenes = draw_scenes(400, seed=5, max_objects=1)
vectors = captioner.encode(np.stack([scene.image for scene in scenes]))[:, :, :64]  # (scenes, cells, features)


def middle_cell(scene):
    left, top, right, bottom = scene.objects[0].box
    return (top + bottom) // 8 * 16 + (left + right) // 8


cells = np.array([middle_cell(scene) for scene in scenes])
figure, axes = plt.subplots(2, 5, figsize=(10, 4.1), layout="constrained")
for (above, below), scene, vectors_of_scene, cell in zip(axes.T, scenes, vectors, cells):
    above.imshow(scene.image)
    below.imshow(cosines(vectors_of_scene, vectors_of_scene[cell]).reshape(16, 16), vmin=0, vmax=1)
    for ax in (above, below):
        ax.axis("off")

# %% [markdown]
# Each map shows how similar the cells are to the middle cell of the object. In a large circle or square, most cells are
# similar to each other, but the cells at the edge are different. The background is dark, although no mean was
# subtracted here: the background's vectors have next to nothing in common with the object's vectors. The cells at the
# picture's border are a little brighter, because the encoder pads the picture with zeros, which look like an edge.
#
# The next cell fits a probe on 300 scenes, and tests it on 100 other scenes. The probe is a matrix that maps the vector
# of the object's middle cell to the eight colours. A second probe reads the cell that is eight rows and eight columns
# away. (If that position is outside the grid, it wraps around to the opposite side.)
#
# **Predict.** The first probe reads the object's cell, and the second probe reads the distant cell. How often does each
# of them name the right colour?

# %%
names = list(COLOURS)
labels = np.array([names.index(scene.objects[0].colour) for scene in scenes])


def accuracy(inputs, labels, num_classes=8):
    """Fit a linear classifier to the first 300, and return how often it is right on the others."""
    inputs = np.concatenate([inputs, np.ones((len(inputs), 1))], axis=1)
    matrix, *_ = np.linalg.lstsq(inputs[:300], np.eye(num_classes)[labels[:300]], rcond=None)
    return np.mean((inputs[300:] @ matrix).argmax(axis=1) == labels[300:])


every = np.arange(len(scenes))
cells_far_away = (cells // 16 + 8) % 16 * 16 + (cells % 16 + 8) % 16
in_object, far_away = accuracy(vectors[every, cells], labels), accuracy(vectors[every, cells_far_away], labels)
print(f"colour right: {in_object:.0%} from the object's cell, {far_away:.0%} from the one far away")

# %% [markdown]
# <details><summary>What happened</summary>
#
# The first probe is always right. The second probe can only guess among eight colours. So the decoder needs attention:
# it has to find a cell that contains the colour.
#
# </details>
#
# ## Every shape on the way
#
# The next cell prints every shape on the way from the file to the logits, for the paper's grid of 14 x 14 cells. The
# word vectors, the state and the hidden layer of the attention network each have the package's default size of 512. The
# decoder here is not trained. (Chapter 3 explains the parts of the decoder, beginning with the keys; you can then come
# back to this table to look up their shapes.)

# %%
vocabulary = Captioner.from_pretrained("flickr8k-paper").vocabulary
paper_sized = Captioner(vocabulary, encoder=None, embedding_dim=512, hidden_dim=512, attention_dim=512)
paper_sized.build((features.shape, (None, None)))
decoder = paper_sized.decoder
keys = decoder.attention_layer.project(features)
state = decoder.initial_state(features)
step = decoder.step(np.array([vocabulary.start_token_id]), state, features, decoder.project_features(features))
path_of_shapes = {
    "photo": photo.shape,
    "grid of the encoder": grid.shape[1:],
    "annotation vectors a": features.shape[1:],
    "keys W_a a + b": keys.shape[1:],
    "h_0 and c_0": state.hidden_states[0].shape[1:],
    "word vector E y_0": decoder.embedding(np.array([vocabulary.start_token_id])).shape[1:],
    "weights alpha_1": step.attention_weights.shape[1:],
    "context z_1": keras_sat.equations.attended_features(step.attention_weights, features).shape[1:],
    "h_1 and c_1": step.state.hidden_states[0].shape[1:],
    "logits": step.logits.shape[1:],
}
for name, shape in path_of_shapes.items():
    print(f"{name:22}{' x '.join(map(str, shape))}")

# %% [markdown]
# There is one logit for each token of the vocabulary. The vocabulary in this example, which belongs to a captioner
# bundled with the package, has 2,542 tokens; the paper's vocabulary has 10,000 words.
#
# ## Encode every photo once
#
# A frozen encoder computes the same vectors for a photo in each epoch. How much work is it to compute the vectors, and
# how much space does it take to store them? The next cell counts the multiplications in VGG16's convolutions and the
# bytes of the vectors.

# %%
convolutions = [layer for layer in vgg16.layers[-1].layers if "conv" in layer.name]
multiplications = sum(
    int(np.prod(layer.kernel.shape)) * layer.output.shape[1] * layer.output.shape[2] for layer in convolutions
)
bytes_of_a_photo = 14 * 14 * 512 * 2
print(f"{multiplications / 1e9:.1f} billion multiplications for a photo")
print(f"{bytes_of_a_photo / 1e6:.1f} MB in 16 bits, {8000 * bytes_of_a_photo / 1e9:.1f} GB for Flickr8k")

# %% [markdown]
# With five captions per photo and 20 epochs, each photo would have to be encoded 100 times. So the vectors are computed
# once and stored on disk, in a *feature cache*.
#
# ## Exercises
#
# **1.** Compute the gradient of the corner cell, (0, 0), instead of cell (7, 7). How much of its receptive field is
# inside the photo, and what fills the rest?
#
# [solution 1]
#
# **2.** Train a probe to read the *shape* of the object from the middle cell, and another to read it from the mean of
# all 256 vectors. Which probe is better, and why? (The receptive field of a cell of `tiny` has 8 x 8 pixels.)
#
# [solution 2]
#
# **3.** Which cells of the photo of Grace Hopper resemble the cell in row 17 and column 8, which is on the uniform?
#
# [solution 3]
#
# ## In five sentences
#
# The encoder is a network that was trained on ImageNet and then lost its last layers. It turns a photo into a grid of
# annotation vectors: in the paper, 196 vectors of 512 numbers. Each vector corresponds to a square of the photo, but
# its receptive field is much wider. Neighbouring parts of one object have similar vectors, and a linear probe can read
# an object's colour from one of the object's cells. A single vector for the whole photo has no parts that belong to
# regions, but a grid has a vector for each region, so attention can choose among them.
#
# ## Next
#
# In [chapter 3](03_one_step_of_attention.ipynb), attention chooses among these vectors. For further reading, see
# [Computing receptive fields](https://distill.pub/2019/computing-receptive-fields/) (Araujo et al.), and [Alain and
# Bengio](https://arxiv.org/abs/1610.01644), who introduced linear probes.

# %% maintainers=true
assert features.shape == (1, 196, 512)
assert same_mean and not same_grid
assert fields["block5_conv3"] == 196 and measured == (196, 196) and jump == 16
field, jump = 1, 1  # of VGG19
for block, convolutions in enumerate((2, 2, 4, 4, 4)):
    for kernel, stride in [(2, 2)] * (block > 0) + [(3, 1)] * convolutions:
        field, jump = after_layer(field, jump, kernel, stride)
assert field == 252
assert (98 / 196) ** 2 == 1 / 4 and np.abs(np.array([*shares.values()]) - (0.033, 0.25, 0.7)).max() < 0.03
assert shares["its own square"] < 0.05
assert shapes["vgg19", "block5_conv4"] == (14, 14, 512) and shapes["mobilenet_v2", "out_relu"] == (7, 7, 1280)
for name, (top, bottom, left, right) in {"face": (3, 10, 5, 15), "people": (2, 10, 0, 8)}.items():
    rows, columns = np.nonzero(similar[name] > 0.5)
    assert top <= rows.min() and rows.max() <= bottom and left <= columns.min() and columns.max() <= right
assert similar["face"][13:].max() < 0.2 and similar["face"][:, :5].max() < 0.2  # the uniform, the flag
assert np.sum(similar["crew"][9] > 0.3) >= 12 and similar["crew"][:4].max() < 0  # the raft, the water
assert similar["people"][6, [2, 3, 6]].min() > 0.5  # both people
assert similar["people"][10:].max() < 0.4  # their legs
assert for_photos.encoder_model.output_shape == (None, 20, 20, 1280) and for_photos.photo_sizes == [(320, 320)]
assert in_object > 0.95 and far_away < 0.3
assert path_of_shapes["context z_1"] == path_of_shapes["word vector E y_0"] == (512,)
assert path_of_shapes["logits"] == (2542,) and path_of_shapes["keys W_a a + b"] == (196, 512)
assert 15e9 < multiplications < 16e9 and 1.5e9 < 8000 * bytes_of_a_photo < 1.7e9
