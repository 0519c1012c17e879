# %% [markdown]
# # 12 · Point and tell
#
# A caption tells of the whole picture. This story turns the question round: you point at a place, and the captioner
# tells what is there. Nothing is added to the network. It gets one new word, `<region>`, with which a phrase starts as
# a caption starts with `<start>`, and it sees only the cells of the grid that you point at.

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
import matplotlib.pyplot as plt
import numpy as np
from keras import ops
from matplotlib.patches import Rectangle

import keras_sat
from data_utils import CaptionedImage, draw_scenes, is_true
from data_utils.datasets.phrase_boxes import Boxes, Phrase
from keras_sat import AttentionDisplay, Captioner, equations

plt.rcParams["figure.dpi"] = 80

# %% [markdown]
# ## What is hidden is as good as absent
#
# The photo enters the network in three places: attention, the mean annotation vector that makes $h_0$, and, if
# attention is paid after reading, the mean that the LSTM reads. A hidden cell gets the score $-\infty$, so that its
# weight in the softmax is exactly 0, and the means are those of the visible cells. By hand, with four cells of which
# two are visible:

# %%
scores, visible = np.array([[2.0, 0.0, 1.0, 3.0]], "float32"), np.array([[True, False, True, False]])
weights = ops.convert_to_numpy(equations.attention_weights(equations.visible_scores(scores, visible)))
by_hand = np.exp([2.0, 1.0]) / np.exp([2.0, 1.0]).sum()
vectors = np.array([[[1.0, 4.0], [9.0, 9.0], [3.0, 0.0], [9.0, 9.0]]], "float32")
shown = equations.only_visible(vectors, visible)
mean = ops.convert_to_numpy(equations.mean_annotation(shown))
print("weights:", weights.round(3), "mean:", mean)

# %% [markdown]
# Now the bundled captioner of scenes, and a picture with two shapes. Its 16 x 16 annotation vectors are computed once.
# Then we replace those outside of a rectangle by noise: neither the words nor one bit of their probabilities change.

# %%
before = Captioner.from_pretrained("scenes")
unseen = [scene for scene in draw_scenes(120, seed=1202, twin_share=0) if len(scene.objects) == 2][:40]
scene = unseen[0]


def sides(box):
    """Return a box in pixels as fractions of the picture's sides."""
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
# What is hidden are annotation vectors, not pixels: a cell at the edge has seen a little of its neighbours before.
#
# Any captioner can be asked about a region. But this one has only ever read captions of whole pictures, half of which
# tell of two shapes. Shown one shape alone, it invents another:

# %%
print("whole picture:", before.caption(scene.image).caption)
for item, result in zip(scene.objects, before.caption(scene.image, region=regions)):
    print(f"{item.size} {item.colour} {item.shape}: {result.caption}")

# %% [markdown]
# ## Training on phrases
#
# Captions are full of phrases: "**a small red star** left of **the blue circle**". Where a data set also says which box
# each phrase belongs to, the phrase is a caption of that box. `region_weight` adds its cross-entropy to the loss of the
# captions, in the same batches. For photos, annotators drew the boxes; of scenes we know them.


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
# Forty scenes that neither captioner has seen, eighty shapes. A phrase *says the noun* if it names the shape; it is
# *the shape alone* if it has the colour too, and nothing else. Captions of whole pictures must not get worse.


# %%
def measure(captioner):
    pictures = [CaptionedImage(one.image_id, one.image, [], "test") for one in unseen]
    asked = [[sides(item.box) for item in one.objects] for one in unseen]
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
# ## Point
#
# The picture with what is said of each rectangle, and the maps of one phrase: outside of its rectangle they are 0.

# %%
_, axes = plt.subplots(1, 4, figsize=(11, 3.2), layout="constrained")
for ax, one in zip(axes, unseen):
    results = captioner.caption(one.image, region=[sides(item.box) for item in one.objects])
    ax.imshow(one.image)
    ax.set_axis_off()
    for colour, result in zip(("tab:red", "tab:blue"), results):
        left, top, right, bottom = (64 * side - 0.5 for side in result.region)
        ax.add_patch(Rectangle((left, top), right - left, bottom - top, fill=False, color=colour, linewidth=2))
    ax.set_title("\n".join(result.caption for result in results), fontsize=10)

# %%
pointed = captioner.caption(scene.image, region=regions[0])
_ = AttentionDisplay.from_result(pointed).plot(width=7)

# %% [markdown]
# ## Exercises
#
# 1. Point at the background, where there is nothing. What is said, and what is `confidence`? Add phrases for empty
#    rectangles ("nothing") to the training.
# 2. Point at both shapes at once, with the smallest rectangle around them. Which phrase would you train for it?
# 3. Halve the rectangles. From which size on is the noun lost?
# 4. Train with `region_weight=0.1` and with `10.0`. What does each do to the captions of whole pictures?
#
# ## Next
#
# That was the last story. [The table of contents](README.md) says where each idea is, and
# [chapter 1](01_words.ipynb) starts again.
#
# The last cell checks what this notebook has claimed.

# %%
np.testing.assert_allclose(weights[0, [0, 2]], by_hand, rtol=1e-6)
assert not weights[0, [1, 3]].any() and mean.tolist() == [[2.0, 2.0]]
for one, other in zip(whole, hidden):
    if not isinstance(one, dict):
        np.testing.assert_array_equal(one, other)  # bit for bit
assert captioner.vocabulary.tokens[-1] == "<region>" and "<region>" not in before.vocabulary
assert measured["trained on phrases"]["noun said"] > 0.9
assert measured["trained on phrases"]["the shape alone"] > 0.8 > 0.2 > measured["before"]["the shape alone"]
assert measured["trained on phrases"]["true captions"] > measured["before"]["true captions"] - 0.15
cells = captioner.visible_cells(regions[:1]).reshape(16, 16)
assert not pointed.attention_weights[:, ~cells].any()
