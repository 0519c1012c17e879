# %% [markdown]
# # When to look
#
# **You will be able to**
#
# * say why the paper's loss does not make the model attend to the object that a word names, and measure how often it
#   does
# * add a *visual sentinel*, which allows attention to ignore the photo
# * guide attention to the right region with word detectors, which are trained only on captions
# * test whether a word depends on the attended region, by removing that region
#
# **You need** chapters [3](../03_one_step_of_attention.ipynb) and [4](../04_why_attention.ipynb).
#
# **Time:** 2 minutes to run on two cores, and about 45 minutes to think.
#
# [diagram]
#
# In the paper's best-known figure, attention is on the dog at the word "dog". Nothing in the paper's loss requires
# attention to be on the dog. The loss rewards the right words, and a network may predict the right words while it
# attends to other regions, as often happens on photos. In this notebook, you try three changes that were proposed after
# the paper, and measure the effect of each.

# %%
from data_utils.base import import_tensorflow

import_tensorflow()  # without its startup log

import json
from importlib.resources import files

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import layers, ops
from matplotlib import cbook
from PIL import Image

from data_utils import CaptionedImage, FeatureCache, Vocabulary, draw_scenes, load_image, make_batches
from keras_sat import AttentionDisplay, Captioner, equations, ground

plt.rcParams["figure.dpi"] = 100

# %% [markdown]
# ## Scenes that are like photos
#
# In [chapter 4](../04_why_attention.ipynb), attention found the objects by itself, for two reasons. Each cell saw
# little beyond its own square, and the captions described the position of one object relative to the other. Photos are
# different: each cell of a deep encoder has seen most of the photo, and most captions just name things, as in "a dog
# and a man". The next cell makes the scenes more like photos by averaging overlapping windows of 7 x 7 cells. The
# result is a grid of 8 x 8 cells, each of which sees about half of the picture's width. The captions of the scenes just
# name the two objects, in either order. The features are stored beside the notebook, in the folder
# `features_of_when_to_look` (60 MB, which you may delete afterwards).

# %%
trained = Captioner.from_pretrained("scenes")  # for its encoder: 16 x 16 annotation vectors of 66 numbers
blurred = layers.AveragePooling2D(7, strides=2, padding="same")(trained.encoder_model.output)
encoder = keras.Model(trained.encoder_model.input, blurred)


def named(scene):
    """Return two captions, which name the two objects in one order and in the other."""
    first, second = (f"a {item.colour} {item.shape}" for item in scene.objects)
    return [f"{first} and {second}", f"{second} and {first}"]


def with_two_objects(number, seed):
    return [scene for scene in draw_scenes(number, seed=seed, twin_share=0) if len(scene.objects) == 2]


training = with_two_objects(14_000, seed=10_000)
images = [CaptionedImage(scene.image_id, scene.image, named(scene), "train") for scene in training]
ids, pictures = [image.image_id for image in images], [image.image_path for image in images]
cache = FeatureCache.build("features_of_when_to_look", ids, pictures, encoder, show_progress=False)
vocabulary = Vocabulary.build(images)
batches = make_batches(images, vocabulary, cache, batch_size=128, group_by="image")
print(len(images), "scenes,", len(batches), "batches;", images[0].captions[0])


# %%
def train(batches=batches, vocabulary=vocabulary, epochs=4, **options):
    keras.utils.set_random_seed(0)
    sizes = {"embedding_dim": 32, "hidden_dim": 128, "attention_dim": 64, "scoring": "bilinear"}
    without = {"attention_penalty_weight": 0.0, "dropout_before_readout": 0.0, "dropout_after_readout": 0.0}
    captioner = Captioner(vocabulary, encoder=None, **sizes, **without, **options)
    steps = epochs * len(batches)
    rate = keras.optimizers.schedules.CosineDecay(0.0, steps - 50, warmup_target=1e-2, warmup_steps=50)
    captioner.compile(learning_rate=rate, clip_norm=1.0)
    captioner.fit(batches, epochs=epochs, verbose=0)
    return captioner


captioners = {"before": train(attends="before")}  # the paper's order, explained below

# %% [markdown]
# To compare where captioners look, let all captioners read the same captions. `attend_features` reads a caption word by
# word, and returns the attention map with which each word was predicted. `ground` compares these maps with the boxes of
# the objects that the words name, and counts how often the *peak*, the cell with the greatest weight, is inside the
# right box.
#
# **Predict.** The captioner names both objects correctly for more than half of the unseen scenes. For how many of the
# colour and shape words is the peak of its attention on the object that the word names?

# %%
unseen = with_two_objects(1500, seed=1502)[:300]
grids = ops.convert_to_numpy(encoder(np.stack([scene.image for scene in unseen]).astype("float32"))).reshape(
    300, 64, 66
)
sentences = [named(scene)[0] for scene in unseen]


def measure(captioner):
    """Return the fraction of right captions, the results of reading the sentences, and where their maps are."""
    said = captioner.caption_features(grids, num_beams=1)
    right = np.mean([result.caption in named(scene) for scene, result in zip(unseen, said)])
    looked = captioner.attend_features(grids, sentences, images=[scene.image for scene in unseen])
    return right, looked, ground(looked, unseen)


right, looked, met = {}, {}, {}


def show(name):
    right[name], looked[name], met[name] = measure(captioners[name])
    peaks = {word_class: f"{one.pointing:.0%}" for word_class, one in met[name].word_classes.items()}
    print(f"{name}: {right[name]:.0%} are right; the peak is on it for {met[name].pointing:.0%} of the words,", end=" ")
    print(f"at colours {peaks['colour']}, at shapes {peaks['shape']}")


show("before")
print(f"an even map: {met['before'].uniform_pointing:.0%}")

# %% [markdown]
# <details><summary>What happened</summary>
#
# The peak is on the named object for one word in three. The colours and shapes of both objects can be read from so many
# cells that the loss hardly depends on which cell is read. A captioner may be right for reasons that its attention maps
# do not show.
#
# (No captioner's attention can peak on the named object at every word. At the beginning of a sentence, the captioner
# cannot know which of the two objects will be named first, so the peak at the first colour is a guess. At best, the
# peak is on the named object at half of the first colours and at all second colours, which is 75 % of the colours.)
#
# </details>
#
# ## Before or after reading
#
# For word $t$, equation (4) of the paper computes attention from $\mathbf{h}_{t-1}$. This state has *not yet* read the
# previous word, $\mathbf{y}_{t-1}$. After "a red", attention for the next word is computed from a state that has read
# only "a". From such a state, the network cannot infer that the next word is a shape, let alone the shape of something
# red. With `attends="after"`, the network reads the previous word before it computes attention, as in *Knowing when to
# look* ([Lu et al., 2017](https://arxiv.org/abs/1612.01887)):
#
# | | before (the paper) | after (here) | Lu et al. |
# |---|---|---|---|
# | chooses where to look | $\mathbf{h}_{t-1}$ | $\mathbf{h}_t$, which has read $\mathbf{y}_{t-1}$ | $\mathbf{h}_t$ |
# | the LSTM reads | $\mathbf{y}_{t-1}$ and the context | $\mathbf{y}_{t-1}$ and the mean $\mathbf{a}_i$ | the same |
# | predicts the word, (7) | $\mathbf{y}_{t-1}$, $\mathbf{h}_t$, the context | the same | $\mathbf{h}_t$, the context |
#
# Another consequence of attending after reading is that the context does not enter the LSTM. So in training, the states
# of all words can be computed first; attention is then computed for all words in parallel.
#
# ## A sentinel
#
# The regions' weights sum to 1, so even at "a", attention has to be on some regions. The *visual sentinel* is an
# additional vector that can get attention instead. The sentinel is computed only from the network's memory:
#
# $$\mathbf{m}_t = \mathbf{P}\,\bigl(\sigma(\mathbf{W}_m \mathbf{h}_t) \odot \tanh(\mathbf{c}_t)\bigr).$$
#
# The matrix $\mathbf{P}$ gives the sentinel the dimension of an annotation vector, so that the sentinel can be scored
# like a region; its score is $e_{tm}$. A softmax over the regions *and* the sentinel gives $\beta_t$, the total weight
# of the regions, also called the share from the photo. The network then reads a weighted mean of the context and the
# sentinel:
#
# $$\beta_t = \frac{\sum_i \exp(e_{ti})}{\exp(e_{tm}) + \sum_i \exp(e_{ti})}, \qquad
#   \beta_t \hat{\mathbf{z}}_t + (1 - \beta_t)\,\mathbf{m}_t.$$
#
# So the sentinel replaces the paper's gate, and $\beta_t$ has the same meaning as in the chapters: if $\beta_t = 1$,
# everything that the network reads comes from the photo. Be careful when you read Lu et al.: *their* $\beta_t$ is the
# sentinel's share, which is $1 - \beta_t$ in this course. Lu et al. also write $\mathbf{s}_t$ for the sentinel, whereas
# in this course $\mathbf{s}_t$ is the sampled region. The gate $\sigma$ of their sentinel has the same inputs as the
# LSTM's own gates: $\mathbf{y}_{t-1}$, the mean annotation vector and $\mathbf{h}_{t-1}$. In this course, the input of
# the sentinel's gate is $\mathbf{h}_t$, which is computed from these three inputs.
#
# **Your turn.** Compute $\beta_t$.


# %% gap="share"
def share_from_photo(scores, sentinel_score):
    """Return beta_t, a number, from the scores (regions,) and the sentinel's score."""
    return ...  # your turn


# %% check="share" empty="share_from_photo(np.zeros(4), 0.0)"
four = np.array([2.0, 0.0, 0.0, 0.0])
expected = equations.share_from_photo(four[None], np.array([[1.0]]))
message = "beta_t is the share of the regions, not that of the sentinel."
assert np.allclose(share_from_photo(four, 1.0), float(expected[0, 0])), message
assert abs(share_from_photo(four, -50.0) - 1) < 1e-6, "If the sentinel's score is very low, beta_t is nearly 1."

# %% [markdown]
# **Predict.** The next cell trains a captioner with a sentinel. For which words will the share from the photo be near
# 0?

# %%
captioners["after"] = train(attends="after")
captioners["sentinel"] = train(attends="after", sentinel=True)
show("after")
show("sentinel")


def share_by_word(results):
    """Return a dict from each word to the mean of its share from the photo."""
    shares = {}
    for result in results:
        for word, share in zip(result.words, result.from_photo):
            shares.setdefault(word, []).append(float(share))
    return {word: np.mean(values) for word, values in sorted(shares.items(), key=lambda item: np.mean(item[1]))}


shares = {"sentinel": share_by_word(looked["sentinel"])}
print({word: round(float(share), 2) for word, share in shares["sentinel"].items()})

# %% [markdown]
# <details><summary>What happened</summary>
#
# In the stored output, the share from the photo is near 0 only for "a". The word "and" does not need the photo either,
# but its share stays high, because the loss does not penalise attention that does no harm. Which words the sentinel
# takes over is a matter of chance: in a run with another seed, it had about half of the weight at "a", but also at
# colours and shapes, and only 63 % of the captions were right.
#
# If attention is computed after the previous word is read, many more captions are right than with the paper's order (in
# the stored output, 91 % instead of 69 %). A state that has read "red" can look for the shape of something red, so the
# peak at shape words is more often on the named object. At colour words, the peak is on the named object *less* often
# (26 % instead of 31 %), since a colour can be read from nearly every cell. The sentinel has a price: 85 % of the
# captions are right, and at colours the peak is on the named object for only 19 % of the words. (Each captioner was
# trained once, so part of such differences may be due to chance.)
#
# </details>
#
# ## A guide
#
# A model can learn which regions show the object that a word names, even without any boxes. A caption with "star" says
# that there is a star *somewhere* in the picture. Let a small network of *detectors* predict $p_{iw}$, the probability
# that region $i$ shows word $w$. Then the probability that at least one region shows the word is
#
# $$p_w = 1 - \prod_i (1 - p_{iw}).$$
#
# The detectors are trained to make $p_w$ high for the words of the picture's captions, and low for all other words.
# Such training is called *multiple-instance learning*: the examples come in bags (a picture is a bag of regions), and
# only the bag has a label. A bag with the word must have at least one region that shows it; in a bag without the word,
# no region may show it. So regions get a high $p_{iw}$ if similar regions occur only in bags with the word; all other
# regions get a low $p_{iw}$. In this way, the detectors learn *which* regions show a word, although they are trained
# only on captions ([Fang et al., 2015](https://arxiv.org/abs/1411.4952)).
#
# **Your turn.** Compute $p_w$ for one word from the probabilities of the regions.


# %% gap="detected"
def detected(p):
    """Return the probability that at least one region shows the word, from those of the regions (regions,)."""
    return ...  # your turn


# %% check="detected" empty="detected(np.full(4, 0.1))"
p = np.array([0.05, 0.88, 0.05, 0.05])
logits = np.log(p / (1 - p))[None, :, None]  # (pictures, regions, words)
expected = float(ops.convert_to_numpy(equations.detected(logits)).item())
assert np.allclose(detected(p), expected), "1 minus the probability that none shows it."

# %% [markdown]
# At a word $w$ such as "star", the target for the attention weights is the map of the word's detector, $p_{iw} / \sum_k
# p_{kw}$. With a `guide_weight` above 0, the loss has another term for every word that has a detector: the
# cross-entropy between this target and the attention weights. The more weight the sentinel has, the less is left for
# the regions, so looking away from the photo raises the loss, too. The detectors are trained together with the
# captioner, on the same captions, and are not needed after training.
#
# **Predict.** What will the guide change: the share from the photo, the position of the peak, or the number of right
# captions?

# %%
captioners["guided"] = train(attends="after", sentinel=True, guide_weight=0.5)
show("guided")
shares["guided"] = share_by_word(looked["guided"])
print({word: round(float(share), 2) for word, share in shares["guided"].items()})

_, axes = plt.subplots(1, 3, figsize=(10, 2.6), layout="constrained", sharey=True)
panels = {"captions that are right": right}
for word_class in ("colour", "shape"):
    panels[f"peak on it, at a {word_class}"] = {
        name: one.word_classes[word_class].pointing for name, one in met.items()
    }
for ax, (title, values) in zip(axes, panels.items()):
    ax.barh([*values], 100 * np.array([*values.values()]))
    ax.set(title=title, xlabel="percent", xlim=(0, 100))
axes[0].invert_yaxis()

# %% [markdown]
# <details><summary>What happened</summary>
#
# The guide changes the position of the peak, but only at *colours*. There, the peak is on the named object about twice
# as often as with the sentinel and without the guide (39 % and 19 %), although no caption says where anything is. That
# is a quarter more than with the paper's order (31 %). At shapes, the peaks change little: they were often on the named
# object already, and a guide that is no more accurate than attention can only make the maps more diffuse. About as many
# captions are right as without the guide, and fewer than without the sentinel.
#
# </details>
#
# The next figure shows the attention maps of three captioners for one sentence: the first in which every attention peak
# of "guided" is on the named object. (A word that comes from memory has no map.)

# %%
compared = ("before", "sentinel", "guided")
number = next(i for i in range(300) if ground(looked["guided"][i : i + 1], unseen[i : i + 1]).pointing == 1)
AttentionDisplay.compare([looked[name][number] for name in compared], names=[*compared], words="all", width=10)
# %% [markdown]
# At the first colour, the map of "guided" is on both objects, because the network cannot know yet which object the
# sentence will name first. At the second colour, only one object is left to be named.
#
# A guide does not always help, because it assumes that each word names something in one part of the picture. The word
# "left" does not. In the captions of chapter 4, the captioner can predict "left of" only if attention is on an object.
# The guide draws attention away from the object, as exercise 2 shows.
#
# ## On photos
#
# The bundled captioner `flickr8k-paper` has the paper's attention, and was trained only on captions. The bundled
# captioner `flickr8k` attends after reading, has a sentinel, and was trained with a guide. `flickr8k` was also trained
# with boxes that people drew for the phrases of about one caption in six. Let both captioners read a sentence about a
# photo that comes with matplotlib (Admiral Grace Hopper; US Navy, in the public domain).

# %% stored="JPEG"
photo = Image.open(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False))
sentence = "a person wearing a white hat and glasses"
read = {name: Captioner.from_pretrained(name).attend(photo, sentence) for name in ("flickr8k-paper", "flickr8k")}
AttentionDisplay.compare([*read.values()], names=[*read], width=10)
# %% [markdown]
# In each picture, the line encloses half of the attention. With `flickr8k-paper`, the line encloses about a quarter of
# the photo or more at every word. With `flickr8k`, most of the attention is on the hat at "hat", but at "glasses" it is
# on the tie and the shirt. The words before matter, too: in "a person wearing glasses and a hat", only a quarter of the
# attention at "hat" is on the hat. The record of `flickr8k` has measurements on photos of Flickr8k that the captioner
# was not trained on. The next cell prints how much of the attention is on the named object, and how often the peak is
# on it.

# %%
record = json.loads((files("keras_sat") / "files/pretrained/flickr8k/record.json").read_text(encoding="utf-8"))
grounding = record["dev"]["grounding"]
print(f"{grounding['num_phrases']:,} phrases of people's captions")
for label, prefix in (
    ("an even map", "uniform_"),
    ("a map with its maximum in the middle", "centre_"),
    ("flickr8k", ""),
):
    on_it, peak = grounding[f"{prefix}mass"], grounding[f"{prefix}pointing"]
    print(f"{label:38} attention on it {on_it:.0%}, peak on it {peak:.0%}")

# %% [markdown]
# For seven phrases in ten, the peak of `flickr8k` is on the named object. A map whose maximum is always in the middle
# of the photo is right for half of the phrases, because people put things in the middle of their photos. So compare the
# captioner with this fixed map, not with an even map. [docs/results.md](../../docs/results.md) shows the effect of each
# change on photos.
#
# ## Does the word depend on what is attended to?
#
# Attention on the hat does not prove that the decoder said "hat" because of the hat. The decoder may infer the hat from
# the previous words, or from the mean annotation vector, which is computed from the whole photo ([Jain and Wallace,
# 2019](https://arxiv.org/abs/1902.10186), *Attention is not explanation*). To find out, remove the attended region:
# take the 10 % of the cells with the most attention at "hat", and replace their vectors with the mean of all vectors.
# Then let the decoder read the same words again. As a control, replace the same number of random cells.
#
# **Predict.** By what factor does the probability of "hat" fall in each case?

# %%
for_photos, reading = Captioner.from_pretrained("flickr8k"), read["flickr8k"]
position, photo_words = reading.words.index("hat"), for_photos.vocabulary
token_ids = [[photo_words.start_token_id, *photo_words.caption_to_ids(reading.words[:position])]]
features = np.array(for_photos.decoder_features(load_image(photo, for_photos.photo_sizes[0])[None]))
order = np.argsort(-reading.attention_weights[position].ravel())
removed = {
    "nothing": [],
    "what it looks at": order[:40],
    "40 random cells": np.random.default_rng(0).choice(400, 40, False),
}
said = {}
for name, cells in removed.items():
    altered = features.copy()
    altered[0, cells] = features[0].mean(axis=0)
    said[name] = ops.convert_to_numpy(ops.softmax(for_photos.decoder(altered, np.array(token_ids)).logits[0, position]))
p_hat = {name: float(probabilities[photo_words.caption_to_ids("hat")[0]]) for name, probabilities in said.items()}
print({name: round(p, 3) for name, p in p_hat.items()})

# %% stored="JPEG"
_, axes = plt.subplots(1, 3, figsize=(10, 2.9), layout="constrained", width_ratios=(1, 1, 1.6))
axes[0].imshow(AttentionDisplay.from_result(reading).lit(position)[0])
is_removed = np.isin(np.arange(400), order[:40]).reshape(20, 20).repeat(16, axis=0).repeat(16, axis=1)
axes[1].imshow(np.where(is_removed[..., None], 128, reading.image))
for ax, title in zip(axes, ("hat", "without it", "the next word: probability")):
    ax.set_title(title)
    ax.set_axis_off() if ax is not axes[2] else ax.spines[["top", "right"]].set_visible(False)
likely = [token_id for token_id in np.argsort(-said["nothing"]) if token_id != photo_words.unk_token_id][:4]
for number, (name, probabilities) in enumerate(said.items()):
    axes[2].bar(np.arange(4) + 0.27 * (number - 1), probabilities[likely], 0.25, label=name)
axes[2].set_xticks(range(4), [photo_words.tokens[token_id] for token_id in likely])
axes[2].legend(title="removed")
# %% [markdown]
# <details><summary>What happened</summary>
#
# Without the attended cells, the probability of "hat" is about a tenth of what it was; without a random tenth of the
# cells, it is nearly the same as before. So this word depends on the cells that attention is on.
#
# </details>
#
# One word in one photo is not enough to draw a general conclusion. `keras-sat evaluate --faithfulness` runs this test
# for every word that names something, and [docs/evaluation.md](../../docs/evaluation.md) explains the result.
#
# ## Exercises
#
# **1.** Let `flickr8k` read a false sentence about the photo of Grace Hopper, "a dog running on a beach". Where does
# the captioner look at the word "dog", and how much less probable is the false sentence than the true one (`log_prob`)?
#
# [solution 1]
#
# **2.** Train "sentinel" and "guided" again, on the scenes' own captions, `scene.captions[:2]`, which say "left of" and
# "above". How does the guide change the fraction of true captions (`data_utils.is_true`)?
#
# [solution 2]
#
# **3.** Do the words of the captioner "guided" depend on the attended cells, too? For 50 scenes, remove the ten cells
# with the most attention at the first shape, and then ten random cells instead. How much does the log-probability of
# the shape fall each time?
#
# [solution 3]
#
# ## In five sentences
#
# The loss rewards the right words, so if every cell has seen nearly everything, attention need not be on what a word
# names. Attending after reading lets attention depend on the previous word, and a sentinel lets the network predict
# words such as "a" without the photo, but neither change tells the network *where* to look. Word detectors learn from
# captions which regions show a word, and can guide attention to these regions if the word names something in one part
# of the picture. On photos, training with human-drawn boxes improves the maps further, but three peaks in ten are still
# wrong. To find out whether a word depends on the region that attention is on, remove that region.
#
# ## Next
#
# In [Point and tell](point_and_tell.ipynb), you choose the region, and the captioner describes it. For further reading,
# see [Lu et al., 2017](https://arxiv.org/abs/1612.01887); [Liu et al., 2017](https://arxiv.org/abs/1605.09553), who
# supervised the attention of captioners, and measured how often it is on the right region; and
# [docs/training.md](../../docs/training.md), for the options used in this notebook.

# %% maintainers=true
parts = np.exp([2.0, 0.0, 0.0, 0.0, 1.0])
np.testing.assert_allclose(share_from_photo(four, 1.0), parts[:4].sum() / parts.sum(), rtol=1e-5)
detector_map = ops.convert_to_numpy(equations.detector_maps(logits))[0, :, 0]
np.testing.assert_allclose(detector_map, p / p.sum(), rtol=1e-4)
assert encoder.output_shape == (None, 8, 8, 66) and looked["before"][0].from_photo is None
assert right["before"] > 0.4 and 0.15 < met["before"].pointing < 0.5
assert abs(met["before"].uniform_pointing - 0.07) < 0.01
content_words = [word for word in shares["guided"] if word not in ("a", "and")]
assert len(content_words) == 12
assert min(shares["sentinel"]["a"], shares["guided"]["a"]) < 0.7  # a sentinel is used
assert min(shares["guided"][word] for word in content_words) > 0.6  # the guide keeps it from the words it guides
at_colours, at_shapes = (
    {name: one.word_classes[word_class].pointing for name, one in met.items()} for word_class in ("colour", "shape")
)
assert right["after"] > right["before"] + 0.05
assert at_shapes["after"] > at_shapes["before"] + 0.05
assert at_colours["sentinel"] < at_colours["guided"] < 0.75 and at_colours["after"] < at_colours["guided"]
assert max(right["sentinel"], right["guided"]) < right["after"] + 0.03


def attention_on(item, weights):
    left, top, right, bottom = item.box
    return weights[top // 8 : -(-bottom // 8), left // 8 : -(-right // 8)].sum()


on_named, on_other = np.zeros(2), np.zeros(2)  # at the first and at the second colour
for scene, result in zip(unseen, looked["guided"]):
    for order_of_colour, t in enumerate((1, 5)):
        one, other = scene.objects[:: 1 - 2 * order_of_colour]
        on_named[order_of_colour] += attention_on(one, result.attention_weights[t])
        on_other[order_of_colour] += attention_on(other, result.attention_weights[t])
ratio_of_first, ratio_of_second = on_named / on_other
assert 0.6 < ratio_of_first < 1.6 and ratio_of_second > ratio_of_first
hat, glasses = (read["flickr8k"].attention_weights[read["flickr8k"].words.index(word)] for word in ("hat", "glasses"))
assert hat[:5, 6:16].sum() > 0.65 and glasses[13:18, 8:12].sum() > 0.4 > 0.05 > glasses[5:8, 6:15].sum()
glasses_first = for_photos.attend(photo, "a person wearing glasses and a hat")
assert abs(glasses_first.attention_weights[glasses_first.words.index("hat")][:5, 6:16].sum() - 0.25) < 0.03
display = AttentionDisplay.from_result(read["flickr8k-paper"])
assert min(display.share(t) for t in range(len(sentence.split()))) > 0.24
assert round(grounding["pointing"], 2) == 0.71 and round(grounding["centre_pointing"], 2) == 0.50
assert abs(p_hat["what it looks at"] / p_hat["nothing"] - 0.1) < 0.03
assert abs(p_hat["40 random cells"] / p_hat["nothing"] - 1) < 0.1
assert photo_words.tokens[likely[0]] == "hat"
