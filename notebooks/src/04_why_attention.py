# %% [markdown]
# # 4 · Why attention
#
# **You will be able to**
#
# * say what a captioner without attention cannot do, and show it with an experiment
# * explain the *bottleneck* that attention removes, in captioning and in translation
# * train the same captioner with and without attention, and compare the two fairly
# * write a *gated recurrent unit* (GRU), and say how it differs from the LSTM
#
# **You need** [chapter 3](03_one_step_of_attention.ipynb), or an idea of what a context vector and a recurrent
# network are.
#
# **Time:** 2 minutes to run on two cores, and about 45 minutes to think.
#
# [diagram]
#
# Most captioners before the paper gave the decoder the whole photo as one vector. All the information that the decoder
# gets about the photo has to pass through this vector. In this chapter, the vector is a mean, and you find out what
# gets lost.

# %%
from data_utils.base import import_tensorflow

import_tensorflow()  # without its startup log

import dataclasses

import keras
import matplotlib.pyplot as plt
import numpy as np

from data_utils import CaptionedImage, FeatureCache, draw_scenes, is_true, make_batches
from keras_sat import ENCODERS, AttentionDisplay, Captioner, equations

plt.rcParams["figure.dpi"] = 100

# %% [markdown]
# ## Two pictures that need different captions
#
# Take a scene whose two objects are side by side, cut it between them, and swap the two sides. Colours, shapes and
# sizes stay the same. But a sentence such as "a red circle is left of a blue square", which was true before the swap,
# is false after it.


# %%
def swap_sides(scene):
    """Return the scene with its two sides exchanged, cut between the objects at a multiple of 4 pixels."""
    first = min(scene.objects, key=lambda item: item.box[0])
    cut, width = -(-first.box[2] // 4) * 4, scene.image.shape[1]
    moved = []
    for item in scene.objects:
        left, top, right, bottom = item.box
        shift = width - cut if item is first else -cut
        moved.append(dataclasses.replace(item, box=(left + shift, top, right + shift, bottom)))
    return dataclasses.replace(scene, image=np.roll(scene.image, -cut, axis=1), objects=tuple(moved))


def stand_side_by_side(scene):
    if len(scene.objects) < 2:
        return False
    first, second = sorted(scene.objects, key=lambda item: item.box[0])
    return first.box[2] < second.box[0] and first.colour != second.colour


scenes = [scene for scene in draw_scenes(1500, seed=1502) if stand_side_by_side(scene)][:300]
swapped = [swap_sides(scene) for scene in scenes]
images = [np.stack([scene.image for scene in group]) for group in (scenes, swapped)]

figure, axes = plt.subplots(2, 5, figsize=(10, 4.2), layout="constrained")
for column, pair in zip(axes.T, zip(scenes, swapped)):
    for ax, scene, title in zip(column, pair, ("a scene", "its sides swapped")):
        ax.imshow(scene.image)
        ax.set_title(title, fontsize=10)
        ax.axis("off")

# %% [markdown]
# Two captioners for scenes come with the package: `scenes` has attention, and `scenes-none` has none. At each word,
# `scenes-none` gets the mean annotation vector as its context. Let both captioners caption 300 pairs, each consisting
# of a scene and its swapped twin. A *pair* is right if both of its captions are true.
#
# **Your turn.** `truths` has one row for the scenes and one row for their swapped twins. Compute the fraction of the
# pairs that are right.


# %% gap="pairs"
def pairs_right(truths):
    """Return the fraction of columns of truths (2, pairs) in which both are true."""
    return ...  # your turn


# %% check="pairs" empty="pairs_right(np.ones((2, 3), bool))"
three_pairs = np.array([[True, True, False], [True, False, False]])
assert abs(pairs_right(three_pairs) - 1 / 3) < 1e-9, "Only the first of these three pairs is right."

# %% [markdown]
# **Predict.** Some of each captioner's captions are true. What fraction of its *pairs* are right?


# %%
def caption_pairs(captioner):
    """Return two lists of captions, for the scenes and for their swapped twins."""
    return [[result.caption for result in captioner.caption(list(group), num_beams=1)] for group in images]


def truths_of(captions):
    """Return an array (2, pairs)."""
    return np.array(
        [
            [is_true(scene, caption) is True for scene, caption in zip(group, said)]
            for group, said in zip((scenes, swapped), captions)
        ]
    )


bundled = {name: Captioner.from_pretrained(name) for name in ("scenes-none", "scenes")}
captions, true, right = {}, {}, {}
for name, captioner in bundled.items():
    captions[name] = caption_pairs(captioner)
    true[name], right[name] = truths_of(captions[name]).mean(), pairs_right(truths_of(captions[name]))
    print(f"{name:12} {true[name]:.0%} of the captions are true, {right[name]:.0%} of the pairs are right")
same = {name: np.mean([one == other for one, other in zip(*captions[name])]) for name in bundled}
print(f"the same caption for both of a pair: {same['scenes-none']:.0%} without attention, {same['scenes']:.0%} with it")
for number in range(3):
    for name in bundled:
        print(f"\n{name:12} {captions[name][0][number]}\n{'swapped':>12} {captions[name][1][number]}", end="")
    print()

# %% [markdown]
# <details><summary>What happened</summary>
#
# Without attention, 1 % of the pairs are right; with attention, 95 %. In the examples above, both captioners name the
# right colours and shapes. But without attention, 86 % of the scenes get the same caption as their swapped twins, word
# for word, and none of these captions is true of both scenes.
#
# </details>
#
# ## What is left of the difference
#
# Why does a captioner without attention fail on these pairs? At each word, its context is the mean annotation vector,
#
# $$\hat{\mathbf{z}}_t = \frac{1}{L} \sum_{i=1}^{L} \mathbf{a}_i,$$
#
# whatever the state is. With attention, each region has its own weight for each word, as in equation (13). The two
# pictures of a pair have nearly the same cells at different positions, and a mean does not depend on positions. The
# next cell measures the distance between the two pictures of a pair, relative to the distance between pictures of
# different objects. It first compares their grids of annotation vectors, and then the means of these grids.
#
# **Predict.** If the distance between pictures of different objects is 100 %, how far apart are the two grids of a
# pair, and how far apart are their means?


# %%
def apart(first, second):
    """Return the mean Euclidean distance between the pictures of two lists."""
    difference = (first - second).reshape(len(first), -1)
    return np.linalg.norm(difference, axis=1).mean()


trained = bundled["scenes"]
grids = [trained.encode(group) for group in images]  # (pairs, 256, 66) each
ratio = {}
for name, (one, other) in (("grid", grids), ("mean", [grid.mean(axis=1) for grid in grids])):
    ratio[name] = apart(one, other) / apart(one, np.roll(one, 1, axis=0))
    print(f"{name}: the pictures of a pair are {ratio[name]:.0%} as far apart as pictures of different objects")

# %% [markdown]
# <details><summary>What happened</summary>
#
# The two grids of a pair are as different as the grids of different objects, but their means are nearly the same. The
# grids contain the difference, but the means do not: a mean ignores the order of the cells, and each of these cells
# sees only 8 x 8 pixels.
#
# </details>
#
# The encoder of `scenes` even appends the row and the column to each cell's vector, so that "left" can be learned. But
# both numbers run from -1 to 1, with 0 in the middle of the picture, so their mean is 0 for every picture. (The means
# of a pair differ a little because of the cells at the border, where the convolutions see zero padding.) This encoder
# was trained with attention, but that is not why the means are so close: with random weights, they are just as close.

# %%
coordinates = grids[0][:, :, -2:].mean(axis=1)
print(f"row and column, averaged: at most {np.abs(coordinates).max():.0e}")
keras.utils.set_random_seed(0)
random_encoder = ENCODERS["tiny"]()
means = [random_encoder.predict(group, verbose=0).mean(axis=(1, 2)) for group in images]
ratio["random"] = apart(*means) / apart(means[0], np.roll(means[0], 1, axis=0))
print(f"means of an encoder with random weights: {ratio['random']:.0%}")

# %% [markdown]
# ## The bottleneck, here and in translation
#
# A single vector through which everything must pass is called a *bottleneck*. What a bottleneck loses depends on how
# the vector is computed. A mean loses the order. A fully connected layer has separate weights for each cell, so its
# output vector can encode which object is where. But the vector always has the same size, however much there is in the
# photo.
#
# Attention was invented for translation. A *sequence-to-sequence* model ([Sutskever et al.,
# 2014](https://arxiv.org/abs/1409.3215)) reads a sentence with one recurrent network, the encoder, and writes its
# translation with another, the decoder. The encoder passes its last state, a single vector, to the decoder. Unlike a
# mean, this state depends on the order of the words, but it has the same size for every sentence. Bahdanau et al.
# suspected that the state is too small for long sentences, which were translated badly. So they let the decoder look
# back at all states of the encoder, with weights that depend on the decoder's own state. Show, Attend and Tell does the
# same with a photo: it "translates" regions into words.
#
# Earlier captioners (section 2 of the paper) differ in when the decoder sees the photo, and many of them have a
# bottleneck, too:
#
# * [Mao et al.](https://arxiv.org/abs/1412.6632) and Kiros et al. show the decoder the photo's vector at each word.
# * *Show and Tell* ([Vinyals et al.](https://arxiv.org/abs/1411.4555)) shows the decoder the photo's vector once,
#   before the first word; after that, the LSTM has to remember the photo.
# * The model of [Karpathy and Li](https://arxiv.org/abs/1412.2306) learns which words belong to which parts of the
#   photo, but an object detector, which is trained separately, proposes these parts.
# * [Fang et al.](https://arxiv.org/abs/1411.4952) first detect words in parts of the photo, with detectors that are
#   trained only on captions. A language model then composes sentences from these words.
#
# Show, Attend and Tell needs no object detector and no boxes. From captions alone, the model learns which regions to
# attend to. It can attend to anything, even to the sky or to the gap between two objects.
#
# ## Train both
#
# The two bundled captioners differ not only in attention, but also in their encoders, each of which was trained with
# its decoder. A fair comparison changes only one thing. So train two decoders yourself, on the same scenes of two
# objects, with the same features, the same number of updates and the same seed. Only `attention` differs. A third
# decoder has attention and a different recurrent cell, the GRU, which has a section of its own below. (The features are
# those of `scenes`, whose encoder was trained with attention. Such features may favour the decoders with attention. But
# they do not explain the result for pairs: `scenes-none`, with its own encoder, gets only 1 % of the pairs right.) To
# save time, each block of 2 x 2 cells is averaged, which leaves 8 x 8 regions and does not change the mean of all
# cells. Training takes about a minute. (`twin_share=0` leaves out scenes with two identical objects. `group_by="image"`
# keeps the captions of a scene in one batch, so that the scene's features are read only once.) The next cell stores the
# features beside the notebook, in the folder `features_04` (60 MB, which you may delete afterwards).

# %%
training = [scene for scene in draw_scenes(14_000, seed=10_000, twin_share=0) if len(scene.objects) == 2]
captioned = [CaptionedImage(scene.image_id, scene.image, list(scene.captions[:2]), "train") for scene in training]
ids, pictures = [image.image_id for image in captioned], [image.image_path for image in captioned]
averaged = keras.layers.AveragePooling2D(2)(trained.encoder_model.output)
encoder = keras.Model(trained.encoder_model.input, averaged)
cache = FeatureCache.build("features_04", ids, pictures, encoder, show_progress=False)
batches = make_batches(captioned, trained.vocabulary, cache, batch_size=128, group_by="image")
print(len(captioned), "scenes,", len(batches), "batches")


# %%
def train(attention, cell="lstm", seed=0, epochs=6):
    keras.utils.set_random_seed(seed)
    captioner = Captioner(
        trained.vocabulary,
        encoder=None,  # it is given features
        attention=attention,
        cell=cell,
        embedding_dim=32,
        hidden_dim=128,
        attention_dim=64,
        attention_penalty_weight=0.0,
        dropout_before_readout=0.0,
        dropout_after_readout=0.0,
    )
    steps = epochs * len(batches)
    rate = keras.optimizers.schedules.CosineDecay(0.0, steps - 50, warmup_target=1e-2, warmup_steps=50)
    captioner.compile(learning_rate=rate, clip_norm=1.0)
    captioner.fit(batches, epochs=epochs, verbose=0)
    return captioner


captioners = {"none": train("none"), "soft": train("soft"), "soft, GRU": train("soft", cell="gru")}

# %%
curves = {name: captioner.history.history["cross_entropy"] for name, captioner in captioners.items()}
figure, ax = plt.subplots(figsize=(10, 3))
for name, curve in curves.items():
    ax.plot(range(1, 7), curve, marker="o", label=name)
ax.set(xlabel="epoch", ylabel="cross-entropy for each word")
ax.legend()
plt.show()

# %% [markdown]
# In the stored run, the loss is higher in every epoch without attention. It ends at about .80; the losses of the two
# captioners with attention end at about .65. Is this difference large? Most words can be predicted without knowing
# which object is where: the articles, "is", and even the colours and the shapes.
#
# **Predict.** How many pairs does each of the three captioners get right?

# %%
coarse = [encoder.predict(group, verbose=0).reshape(len(group), 64, 66) for group in images]
for name, captioner in captioners.items():
    captions[name] = [[result.caption for result in captioner.caption_features(grid, num_beams=1)] for grid in coarse]
    true[name], right[name] = truths_of(captions[name]).mean(), pairs_right(truths_of(captions[name]))
    print(f"{name:10} {true[name]:.0%} of the captions are true, {right[name]:.0%} of the pairs are right")
colours_named = {}
for name in captioners:
    pairs = zip((*scenes, *swapped), (*captions[name][0], *captions[name][1]))
    colours_named[name] = np.mean([{item.colour for item in scene.objects} <= {*said.split()} for scene, said in pairs])
    print(f"{name:10} names both colours in {colours_named[name]:.0%} of the captions")

# %% [markdown]
# <details><summary>What happened</summary>
#
# Without attention, none of the pairs are right; with attention, most of them are: 81 % with the LSTM and 78 % with the
# GRU. A few words decide whether a caption is true, and these words contribute little to the mean loss.
#
# Without attention, hardly any pair can be right: the decoder gets nearly the same mean for both pictures, whatever the
# seed. But the 81 % of the LSTM and the 78 % of the GRU are from one run each, and would be different with other seeds
# (exercise 3).
#
# </details>
#
# The next figure shows two pairs with their captions. Captions in red are false.

# %%
for number in (0, 3):
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
    for side, (ax, group) in enumerate(zip(axes, (scenes, swapped))):
        ax.imshow(group[number].image)
        ax.axis("off")
        for height, name in ((1.12, "none"), (1.02, "soft")):
            said = captions[name][side][number]
            colour = "black" if is_true(group[number], said) else "tab:red"
            ax.text(0.5, height, f"{name}: {said}", color=colour, ha="center", transform=ax.transAxes, fontsize=10)

# %% [markdown]
# Without attention, the decoder names the right colours, too, but can only guess which object is where. Guessing
# between "left" and "right" would make half of the captions true. In fact only 26 % are true, since this captioner also
# mixes up which colour belongs to which shape (exercise 2).
#
# What does attention do? The next figure shows the attention maps for the first pair. For each word that describes an
# object, the next cell also prints how much of the attention is on that object and how much is on the other one.


# %%
def attention_on(item, weights):
    """Return the sum of the weights (8, 8) of the regions that the object's box touches."""
    left, top, right, bottom = item.box
    return float(np.asarray(weights)[top // 8 : -(-bottom // 8), left // 8 : -(-right // 8)].sum())


on_named = []
for group, grid in zip((scenes, swapped), coarse):
    (result,) = captioners["soft"].caption_features(grid[:1], num_beams=1, images=[group[0].image])
    print("true: " if is_true(group[0], result.caption) else "false:", result.caption)
    AttentionDisplay.from_result(result).plot(width=10)
    for word, weights in zip(result.words, result.attention_weights):
        for item in group[0].objects:
            if word in (item.colour, item.shape):
                on_named.append(attention_on(item, weights))
                other = next(one for one in group[0].objects if one is not item)
                print(
                    f"    {word:9} on this object {on_named[-1]:.2f}, on the other {attention_on(other, weights):.2f}"
                )

# %% [markdown]
# Compare the words for the first object with those for the second object. Until the decoder has said "left" or "right",
# it needs to know where the *other* object is, so it may attend to that object, too. After "left" or "right", it no
# longer needs the other object.
#
# ## And on photos?
#
# These scenes were made to need attention. On photos, the mean of the cells is often enough. This table has the scores
# of captioners on the dev split of Flickr8k, once with soft attention and once with the mean of all cells in its place:
#
# | attention | BLEU-4 | METEOR | CIDEr |
# |---|---|---|---|
# | soft | 22.2 ± 0.4 | 20.8 ± 0.1 | .550 ± .011 |
# | none | 22.0 ± 0.2 | 20.0 ± 0.1 | .518 ± .008 |
#
# (The numbers after ± are standard deviations over three seeds; [chapter 8](08_how_good_is_it.ipynb) explains the
# scores.) BLEU-4 does not tell the two apart: the 95 % interval of the difference, -0.7 to +1.2, contains 0. METEOR and
# CIDEr are a little higher with attention, by +0.2 to +1.2 and by +.007 to +.056. One reason is that each cell of this
# encoder sees nearly the whole photo, so the mean of all cells is almost as informative as a weighted mean.
# [docs/results.md](../docs/results.md) has the commands that trained these captioners.
#
# ## Could a GRU replace the LSTM?
#
# Yes: the third captioner above has a GRU, and gets most of the pairs right. The *gated recurrent unit* ([Cho et al.,
# 2014](https://arxiv.org/abs/1406.1078)) has two gates and no cell $\mathbf{c}$. Its input (here, the word and the
# context) is projected three times, to $\mathbf{x}^r_t$, $\mathbf{x}^u_t$ and $\mathbf{x}^c_t$. From these and the old
# state, it computes
#
# $$\mathbf{r}_t = \sigma(\mathbf{x}^r_t + \mathbf{U}_r \mathbf{h}_{t-1}) \qquad
#   \mathbf{u}_t = \sigma(\mathbf{x}^u_t + \mathbf{U}_u \mathbf{h}_{t-1}) \qquad
#   \tilde{\mathbf{h}}_t = \tanh(\mathbf{x}^c_t + \mathbf{r}_t \odot \mathbf{U}_c \mathbf{h}_{t-1})$$
#
# The *reset gate* $\mathbf{r}$ decides how much of the old state goes into the candidate $\tilde{\mathbf{h}}$. (In
# another common variant, $\mathbf{r}$ multiplies the state before the matrix does.) The *update gate* $\mathbf{u}$
# decides, element by element, between the old state (where the gate is 1) and the candidate (where the gate is 0). The
# new state is the weighted mean of the old state and the candidate.
#
# **Your turn.** Write the candidate and the new state.


# %% gap="gru"
def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gru(x_r, x_u, x_c, h, U_r, U_u, U_c):
    """Return the next state of a GRU."""
    r = sigmoid(x_r + h @ U_r)
    u = sigmoid(x_u + h @ U_u)
    return ...  # your turn


# %% check="gru" empty="gru(*np.zeros((4, 3)), *np.zeros((3, 3, 3)))"
rng = np.random.default_rng(0)
x_of_gates, h, U_of_gates = rng.normal(size=(3, 8)), rng.normal(size=8), rng.normal(size=(3, 8, 8))
expected = equations.gru(x_of_gates.reshape(1, 24), np.concatenate([h @ U for U in U_of_gates])[None], h[None])
message = "Not the state of a GRU: u keeps the old state, 1 - u takes the candidate; r multiplies h @ U_c."
assert np.allclose(gru(*x_of_gates, h, *U_of_gates), expected[0], atol=1e-6), message

# %% [markdown]
# Where $\mathbf{u}$ is near 1, the state is passed on almost unchanged, and so is its gradient. So the update gate
# counteracts the vanishing gradient, like the forget gate of the LSTM. The GRU has three sets of weights where the LSTM
# has four, so it has a quarter fewer weights.

# %%
for name in ("soft", "soft, GRU"):
    weights = sum(int(np.prod(weight.shape)) for weight in captioners[name].decoder.cells[0].weights)
    print(f"{name:10} {weights:,} weights in the cell, {right[name]:.0%} of the pairs")

# %% [markdown]
# Is the GRU or the LSTM better? A single run of each cannot answer this question. Exercise 3 trains the GRU again, from
# another seed.
#
# ## Exercises
#
# **1.** Swap top and bottom instead of left and right, by rolling all grids by eight rows. How far apart are the means
# of such a pair?
#
# [solution 1]
#
# **2.** How often does each captioner name a shape *with its own colour*? If there is a red circle in the scene, look
# for "red circle" in the caption.
#
# [solution 2]
#
# **3.** Train the GRU again, with another seed (`train("soft", cell="gru", seed=1)`), and count the pairs that it gets
# right. Do the two runs of the GRU differ less from each other than from the LSTM?
#
# [solution 3]
#
# ## In five sentences
#
# The mean of a picture's cells shows which objects there are, but hardly where they are, so a captioner that gets only
# this mean almost never gets both a scene and its swapped twin right. With attention, the decoder reads the regions
# that it needs for each word, so that not everything has to pass through one vector. Attention was invented for
# translation, where the bottleneck was the encoder's last state, a short vector for the whole sentence. On photos, the
# mean is often enough: on Flickr8k, attention hardly changes BLEU-4, and raises METEOR and CIDEr a little. A small
# difference in the loss can mean a large difference between captions, so read the captions.
#
# ## Next
#
# In [chapter 5](05_build_it_train_it.ipynb) you write the model yourself, and train it. For further reading, see [Show
# and Tell](https://arxiv.org/abs/1411.4555), the best captioner without attention in its day, and [Weng, *Attention?
# Attention!*](https://lilianweng.github.io/posts/2018-06-24-attention/), on the history of attention. Later, [Lu et
# al.](https://arxiv.org/abs/1612.01887) let the model decide *when* to look, and [Anderson et
# al.](https://arxiv.org/abs/1707.07998) let it attend to detected objects instead of cells.

# %% maintainers=true
decoder = Captioner(trained.vocabulary, encoder=None, attention="none", hidden_dim=128)
decoder.build((grids[0][:2].shape, (None, None)))
context, weights, *_ = decoder.decoder.attention_layer(np.zeros((2, 128), "float32"), grids[0][:2])
np.testing.assert_allclose(context, grids[0][:2].mean(axis=1), atol=1e-5)
np.testing.assert_allclose(weights, 1 / 256)
for scene, other in zip(scenes, swapped):
    relational = [caption for caption in scene.captions if is_true(scene, caption)]
    assert len(relational) == 5 and not any(is_true(other, caption) for caption in relational)
    assert [item.looks for item in scene.objects] == [item.looks for item in other.objects]
assert len(scenes) == 300 and np.abs(coordinates).max() < 1e-6
assert right["scenes-none"] < 0.02 and 0.92 < right["scenes"] < 0.98
assert 0.83 < same["scenes-none"] < 0.89 and same["scenes"] < 0.02
truths = truths_of(captions["scenes-none"])
assert not any(one == other and both for one, other, both in zip(*captions["scenes-none"], truths.all(axis=0)))
assert captions["scenes-none"][0][:3] == captions["scenes-none"][1][:3]
own_colour = [
    f"{item.colour} {item.shape}" in caption
    for group, said in zip((scenes, swapped), captions["scenes-none"])
    for scene, caption in zip(group, said)
    for item in scene.objects
]
assert 0.79 < np.mean(own_colour) < 0.85
assert ratio["grid"] > 0.8 and ratio["mean"] < 0.25 and ratio["random"] < 0.5
assert max(curves["soft"][-1], curves["soft, GRU"][-1]) < curves["none"][-1] < 0.5 * curves["none"][0]
assert right["none"] < 0.15 and true["none"] < 0.55
assert min(colours_named.values()) > 0.85
assert np.mean(on_named) > 0.5
assert right["soft"] > 0.5 and right["soft, GRU"] > right["none"]  # some seeds of the GRU learn slowly
