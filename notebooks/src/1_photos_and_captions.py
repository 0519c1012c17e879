# %% [markdown]
# # From photos and captions to batches
#
# A captioner learns from pairs of a photo and a sentence. This notebook walks from such pairs to the arrays that a
# model trains on: read captions, clean them, build a vocabulary, encode the photos, make batches. It uses the built-in
# scenes, so nothing is downloaded; with Flickr8k on your disk, `data_utils.flickr8k("path")` takes the place of
# `DATASETS["scenes"]`, and the rest stays as it is.

# %%
import textwrap

import matplotlib.pyplot as plt
import numpy as np

import data_utils
from data_utils import DATASETS, FeatureCache, Vocabulary, draw_scenes, is_true, make_batches
from keras_sat import ENCODERS

# %% [markdown]
# ## Look at the scenes
#
# Each scene shows one or two coloured shapes, and five sentences say what is true of it.

# %%
scenes = draw_scenes(8, seed=4, image_size=128)
figure, axes = plt.subplots(2, 4, figsize=(11, 6.2))
for ax, scene in zip(axes.flat, scenes):
    ax.imshow(scene.image)
    ax.set_title(textwrap.fill(scene.captions[0], 30), fontsize=9)
    ax.axis("off")

# %% [markdown]
# Since a scene knows its objects, it can be decided whether a sentence is true of it, and where each word lies. That
# is how it will be measured whether the model looks where the word is.

# %%
scene = scenes[4]
for caption in (*scene.captions, "a green dog"):
    print(is_true(scene, caption), "|", caption)

caption = scene.captions[0]
figure, axes = plt.subplots(1, 1 + len(scene.places(caption)), figsize=(11, 2))
axes[0].imshow(scene.image)
for ax, place in zip(axes[1:], scene.places(caption)):
    ax.imshow(place.cells((8, 8)), cmap="gray", vmin=0, vmax=1)
    ax.set_title(place.word)
for ax in axes:
    ax.axis("off")

# %% [markdown]
# ## Read, clean and save captions
#
# Caption files come as `name.jpg#0<TAB>sentence`. Each function does one step.

# %%
with open("token.txt", "w", encoding="utf-8") as file:
    file.write("1000268201_693b08cb0e.jpg#0\tA child in a pink dress is climbing up a set of stairs .\n")
    file.write("1000268201_693b08cb0e.jpg#1\tA little girl's wooden playhouse .\n")

document = data_utils.load_document("token.txt")
descriptions = data_utils.load_descriptions(document)
cleaned = data_utils.clean_descriptions(descriptions)
words = data_utils.vocabulary_words(cleaned)
data_utils.save_descriptions(cleaned, "descriptions.txt")
print(descriptions)
print(cleaned)
print(sorted(words))

# %% [markdown]
# ## Build the vocabulary
#
# Only words of the training split count: a model that knew the words of the test captions would be measured wrongly.

# %%
captioned_images = DATASETS["scenes"]("scenes", num_scenes=300, seed=0)
vocabulary = Vocabulary.build(captioned_images)
ids = vocabulary.caption_to_ids("a red circle above a purple elephant")
print(vocabulary)
print(ids, "->", vocabulary.ids_to_caption(ids))
dev_captions = [caption for image in captioned_images if image.split == "dev" for caption in image.captions]
print(f"unknown words in the dev split: {vocabulary.unknown_share(dev_captions):.1%}")

# %% [markdown]
# ## Encode every photo once
#
# An encoder turns a photo into a grid of features, the annotation vectors $a_i$ of the paper. A frozen encoder gives
# the same grid each time, so a `FeatureCache` keeps one row for each photo on the disk. Killed and called again, it
# goes on where it was. With `ENCODERS["vgg16"]()` these would be the 14 x 14 x 512 features of the paper; here the
# small encoder with random weights serves to show the shapes.

# %%
encoder = ENCODERS["tiny"]()
cache = FeatureCache.build(
    "features",
    [image.image_id for image in captioned_images],
    [image.image_path for image in captioned_images],
    encoder,
    show_progress=False,
)
print(len(cache), "photos,", cache.grid_shape, "cells,", cache.feature_dim, "features each")

# %% [markdown]
# ## Make batches
#
# The captions of a batch have one length, so nothing is padded. The inputs begin with `<start>`, the targets end with
# `<end>`, and each target is the word after its input.

# %%
batches = make_batches(captioned_images, vocabulary, cache, batch_size=64, split="train", seed=0)
(features, input_ids), target_ids, token_weights = next(iter(batches))
print("features", features.shape, "input_ids", input_ids.shape)
for name, row in (("input", input_ids[0]), ("target", target_ids[0])):
    print(f"{name:>7}:", " ".join(vocabulary.tokens[token_id] for token_id in row.numpy()))

# %% [markdown]
# ## Check what this notebook claims

# %%
assert data_utils.load_descriptions(data_utils.load_document("descriptions.txt")) == cleaned
assert all(is_true(scene, caption) for scene in scenes for caption in scene.captions)
assert is_true(scenes[0], "a green dog") is None
assert vocabulary.ids_to_caption(ids).endswith("<unk>")
assert len(cache) == 300 and features.shape[1:] == (64, 66)
np.testing.assert_array_equal(input_ids[:, 1:], target_ids[:, :-1])
num_captions = sum(len(targets) for _, targets, _ in batches)
assert num_captions == sum(len(image.captions) for image in captioned_images if image.split == "train")
print(num_captions, "training captions, each exactly once")
