# %% [markdown]
# # Point and tell
#
# **You will be able to**
#
# * say where a photo enters the decoder, and hide part of the photo from the decoder completely
# * train a captioner on *phrases* that describe regions, together with whole captions
# * measure whether the captioner names what you point at, and whether its captions of whole pictures become worse
#
# **You need** [chapter 3](../03_one_step_of_attention.ipynb), unless you know what attention weights and the mean
# annotation vector are.
#
# **Time:** 1 minute to run on two cores, and about 20 minutes to think.
#
# [diagram]
#
# A caption describes the whole picture. In this notebook, you point at a rectangle, and the captioner describes its
# content. The architecture stays the same. The vocabulary gets one new token, `<region>`, which begins a phrase, just
# as `<start>` begins a caption. The decoder sees only the grid cells that you point at.

# %%
from data_utils.tf_logging import import_tensorflow

import_tensorflow()  # without its startup log

import matplotlib.pyplot as plt
import numpy as np
from keras import ops
from matplotlib.patches import Rectangle

import keras_sat
from data_utils import CaptionedImage, draw_scenes, is_true
from data_utils.datasets.phrase_boxes import Boxes, Phrase
from keras_sat import AttentionDisplay, Captioner, equations

plt.rcParams["figure.dpi"] = 100

# %% [markdown]
# ## What is hidden is as good as absent
#
# In the course's model, the photo enters the decoder in two ways: through attention at each word, and through the mean
# annotation vector before the first word. The initial state, $\mathbf{h}_0$ and $\mathbf{c}_0$, is computed from this
# mean. To hide cells, take the mean of the visible cells only. Then make the attention weights of the hidden cells
# exactly 0, by setting their scores to $-\infty$ *before* the softmax:
#
# $$\alpha_{ti} = \frac{v_i \exp(e_{ti})}{\sum_{k=1}^{L} v_k \exp(e_{tk})}, \qquad
# v_i = \begin{cases} 1 & \text{if cell } i \text{ is visible} \\ 0 & \text{otherwise.} \end{cases}$$
#
# **Your turn.** Compute the weights from the scores and a mask of the visible cells.


# %% gap="visible"
def weights_of_visible(scores, visible):
    """Return the attention weights (regions,): they sum to 1 over the visible regions, and are 0 elsewhere."""
    return ...  # your turn


# %% check="visible" empty="weights_of_visible(np.zeros(2), np.array([True, False]))"
four_scores, two_visible = np.array([2.0, 0.0, 1.0, 3.0]), np.array([True, False, True, False])
of_package = equations.attention_weights(equations.visible_scores(four_scores[None], two_visible[None]))
given, expected = weights_of_visible(four_scores, two_visible), ops.convert_to_numpy(of_package)[0]
assert np.allclose(given, expected, atol=1e-6), "Hide first, then normalise: the sum must be 1."

# %%
weights = weights_of_visible(four_scores, two_visible)
print("weights:", weights.round(3))
vectors = np.array([[[1.0, 4.0], [9.0, 9.0], [3.0, 0.0], [9.0, 9.0]]], "float32")
shown = equations.only_visible(vectors, two_visible[None])
mean = ops.convert_to_numpy(equations.mean_annotation(shown))
print("mean of the visible vectors:", mean[0])

# %% [markdown]
# Does anything from a hidden cell get through? Take the bundled captioner for scenes, and compute the 16 x 16
# annotation vectors of a picture with two shapes. Caption a rectangle twice: first with the vectors as they are, then
# with noise in place of the vectors outside the rectangle.

# %%
before = Captioner.from_pretrained("scenes")
unseen = [scene for scene in draw_scenes(120, seed=1202, twin_share=0) if len(scene.objects) == 2][:40]
scene = unseen[0]


def sides(box):
    """Return a box in pixels as fractions of the picture's sides: left, top, right, bottom."""
    return tuple(float(side) / 64 for side in box)


regions = [sides(item.box) for item in scene.objects]
features = ops.convert_to_numpy(before.encode(scene.image[None]))
is_visible = before.visible_cells(regions[:1])
noise = np.random.default_rng(0).normal(size=features.shape).astype("float32")
changed = np.where(is_visible[:, :, None], features, noise)
options = {"visible": is_visible, "max_length": 12, "num_beams": 3}
whole, hidden = before.search(features, **options), before.search(changed, **options)
print(f"{is_visible.sum()} of {is_visible.size} cells are visible")
print(f"log p {float(whole.log_probs[0, 0]):.6f}, with noise in the others {float(hidden.log_probs[0, 0]):.6f}")

# %% [markdown]
# Nothing gets through: the log-probabilities of the two captions agree to the last bit. But the mask hides annotation
# vectors, not pixels. The vector of a visible cell at the rectangle's edge still depends a little on the hidden
# neighbours, because a cell's *receptive field* ([chapter 2](../02_a_picture_as_vectors.ipynb)) is larger than the cell
# itself.
#
# With such a mask, you can ask any captioner to describe part of a picture.
#
# **Predict.** The bundled captioner for scenes was trained only on captions of whole pictures, most of which describe
# two shapes and their relative position. What does the captioner say when it sees only one shape?

# %%
print("whole picture:", before.caption(scene.image).caption)
said_before = [result.caption for result in before.caption(scene.image, region=regions)]
for item, said in zip(scene.objects, said_before):
    print(f"{item.size} {item.colour} {item.shape}: {said}")

# %% [markdown]
# <details><summary>What happened</summary>
#
# The captioner recognises the colour and the shape, but invents other shapes: for a single purple star, it writes "two
# purple stars is to the left of a purple star". Most of the captioner's training captions describe two shapes, and it
# was never trained to describe part of a picture.
#
# </details>
#
# ## Training on phrases
#
# Captions are full of phrases: "**a small red star** left of **the blue circle**". If a data set also gives a box for a
# phrase, the phrase is a caption of that box. For photos, annotators drew boxes for the phrases of Flickr8k's captions
# ([Plummer et al., 2015](https://arxiv.org/abs/1505.04870)); for scenes, the boxes are known. `region_weight` is the
# weight with which the cross-entropy of the phrases is added to the cross-entropy of the captions in each batch. So the
# captioner continues to be trained on whole captions, and does not forget how to write them.


# %%
def phrases_of(scene):
    """Return a Phrase for each shape that the first two captions name: from its article to its last word."""
    found = []
    for number, caption in enumerate(scene.captions[:2]):
        words = caption.split()
        for place in scene.places(caption):
            if place.word_class == "shape":
                first = max(word for word in range(place.position) if words[word] in ("a", "an", "one", "the"))
                found.append(Phrase(number, first, place.position - first + 1, tuple(map(sides, place.boxes))))
    return found


scenes = draw_scenes(1050, seed=20_000, twin_share=0)
images = [
    CaptionedImage(one.image_id, one.image, list(one.captions[:2]), "train" if number < 1000 else "dev")
    for number, one in enumerate(scenes)
]
boxes = Boxes({one.image_id: phrases_of(one) for one in scenes})
captioner = keras_sat.fit(
    images,
    initial_model="scenes",
    encoder_training="frozen",
    boxes=boxes,
    region_weight=1.0,
    group_by="image",
    batch_size=40,
    epochs=2,
    learning_rate=1e-3,
    output_dir="phrases",
    show_progress=False,
)
print("cross-entropy of phrases per word:", [round(value, 2) for value in captioner.history["phrase_cross_entropy"]])
print("new word:", [token for token in captioner.vocabulary.tokens if token not in before.vocabulary.tokens])

# %%
for item, result in zip(scene.objects, captioner.caption(scene.image, region=regions)):
    print(f"{item.size} {item.colour} {item.shape}: {result.caption}")

# %% [markdown]
# ## How often is it right?
#
# The next cell tests both captioners on the eighty shapes of forty unseen scenes. A phrase counts as *noun said* if it
# names the shape. It counts as *the shape alone* if it names the shape and its colour in fewer than five words.
#
# **Predict.** How often does each captioner name the shape alone? Does training on phrases make the captions of whole
# pictures worse?


# %%
def measure(captioner, box_of=lambda item: item.box):
    """Return three fractions. `box_of` returns the rectangle to ask about, given an object."""
    pictures = [CaptionedImage(one.image_id, one.image, [], "test") for one in unseen]
    asked = [[sides(box_of(item)) for item in one.objects] for one in unseen]
    found = [results for _, results in captioner.caption_each(pictures, regions=asked)]
    pairs = [(item, result.words) for one, results in zip(unseen, found) for item, result in zip(one.objects, results)]
    captions = [(one, result.caption) for one, (_, result) in zip(unseen, captioner.caption_each(pictures))]
    return {
        "noun said": np.mean([item.shape in words for item, words in pairs]),
        "the shape alone": np.mean([{item.colour, item.shape} < {*words} and len(words) < 5 for item, words in pairs]),
        "true captions": np.mean([is_true(one, caption) is True for one, caption in captions]),
    }


measured = {"before": measure(before), "trained on phrases": measure(captioner)}
for name, values in measured.items():
    print(f"{name:20}" + ", ".join(f"{what} {100 * value:.0f} %" for what, value in values.items()))

# %% [markdown]
# <details><summary>What happened</summary>
#
# Before training on phrases, the captioner never named the shape alone; after two epochs on 1,000 scenes, it always or
# nearly always does. The number of true captions of whole pictures, out of forty, has changed by at most two. The
# captioner could already recognise the shapes; the two epochs taught it when to stop.
#
# </details>
#
# ## Point
#
# The next figure has four pictures, with a phrase for each rectangle. The phrase printed in red describes what is
# inside the red rectangle, and the phrase in blue what is inside the blue one.

# %%
_, axes = plt.subplots(1, 4, figsize=(10, 3.1), layout="constrained")
for ax, one in zip(axes, unseen):
    results = captioner.caption(one.image, region=[sides(item.box) for item in one.objects])
    ax.imshow(one.image)
    ax.set_axis_off()
    for height, colour, result in zip((1.12, 1.02), ("tab:red", "tab:blue"), results):
        left, top, right, bottom = (64 * side - 0.5 for side in result.region)
        ax.add_patch(Rectangle((left, top), right - left, bottom - top, fill=False, color=colour, linewidth=2))
        ax.text(0.5, height, result.caption, color=colour, ha="center", transform=ax.transAxes, fontsize=10)

# %% [markdown]
# The next figure shows the attention maps of one phrase. Attention can only be inside the rectangle; outside, the
# weights are 0. (Attention is a little to the left of the object's centre; [chapter
# 3](../03_one_step_of_attention.ipynb) explains why.)

# %%
pointed = captioner.caption(scene.image, region=regions[0])
AttentionDisplay.from_result(pointed).plot(width=10)
# %% [markdown]
# ## Exercises
#
# **1.** Point at an empty part of the background. What does the captioner say, and why?
#
# [solution 1]
#
# **2.** Point at both shapes at once, with the smallest rectangle around them. Do you get a phrase or a caption?
#
# [solution 2]
#
# **3.** Shrink the rectangles around their centres. At what size does the captioner no longer name the shape? You can
# pass a function `box_of` to `measure`.
#
# [solution 3]
#
# ## In five sentences
#
# A captioner that sees only some of the cells describes only what these cells show, and nothing from the hidden cells
# gets through. To hide cells, give them an attention weight of exactly 0 and leave them out of the mean annotation
# vector. But a captioner trained only on captions of whole pictures adds a second shape, because most such captions
# describe two. Phrases with boxes are captions of regions, and two short epochs on phrases and whole captions teach the
# captioner to name one thing and stop. Only the training captions changed, not the architecture.
#
# ## Look back
#
# In [chapter 3](../03_one_step_of_attention.ipynb), attention chose what the decoder reads, word by word. In [chapter
# 4](../04_why_attention.ipynb), a captioner without attention could not say which object is where. In this notebook,
# *you* chose what the decoder reads, once per phrase. The architecture did not have to change, because attention is
# just a weighted mean, and you can set some of its weights to 0.
#
# ## Next
#
# The bundled photo captioner was also trained on phrases. To describe part of a photo, use
# `captioner.caption("photo.jpg", region=(0.1, 0.2, 0.4, 0.9))`, or `keras-sat caption photo.jpg --region .1,.2,.4,.9`.
# [docs/training.md](../../docs/training.md) describes the options, and [When to look](when_to_look.ipynb) uses the same
# boxes to supervise attention.
#
# For further reading, see [DenseCap](https://arxiv.org/abs/1511.07571) (Johnson et al., 2016), which finds the regions
# by itself, and [Show, Control and Tell](https://arxiv.org/abs/1811.10652) (Cornia et al., 2019), in which the user
# chooses the regions and their order.

# %% maintainers=true
np.testing.assert_allclose(weights, [0.731, 0, 0.269, 0], atol=1e-3)
assert not weights[[1, 3]].any() and mean.tolist() == [[2.0, 2.0]]
for one, other in zip(whole, hidden):
    if not isinstance(one, dict):
        np.testing.assert_array_equal(one, other)  # bit for bit
assert sum(len(scene.objects) == 2 for scene in scenes) > 500
assert all(said.startswith("two ") and "to the" in said for said in said_before)
assert said_before[0].startswith("two purple stars")
assert captioner.vocabulary.tokens[-1] == "<region>" and "<region>" not in before.vocabulary
assert measured["trained on phrases"]["noun said"] > 0.9
assert measured["before"]["the shape alone"] == 0 and measured["trained on phrases"]["the shape alone"] > 0.93
assert measured["trained on phrases"]["true captions"] > measured["before"]["true captions"] - 0.06
cells = captioner.visible_cells(regions[:1]).reshape(16, 16)
assert not pointed.attention_weights[:, ~cells].any()
