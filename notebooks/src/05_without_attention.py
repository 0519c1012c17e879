# %% [markdown]
# # 05 · Without attention
#
# The captioners before the paper gave the decoder the whole picture as one vector. All that it will ever know of the
# picture has to pass through that bottleneck. This story shows what gets stuck there: two pictures that need
# different captions, and that are nearly the same to a decoder without attention. Then it trains two decoders on the
# same scenes, one without and one with attention, and lets both caption the same pictures.

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
import dataclasses

import keras
import matplotlib.pyplot as plt
import numpy as np

from data_utils import CaptionedImage, FeatureCache, draw_scenes, is_true, make_batches
from keras_sat import ENCODERS, AttentionDisplay, Captioner

plt.rcParams["figure.dpi"] = 80

# %% [markdown]
# ## The vanilla model
#
# It is the same network as with attention, but for one thing: at each word the context is the mean annotation vector,
#
# $$\hat z_t = \frac{1}{L} \sum_{i=1}^{L} a_i,$$
#
# whatever the state is. With attention, each region has a weight of its own for each word, equation (13). The initial
# state comes from the same mean in both models.

# %%
trained = Captioner.from_pretrained("scenes")  # lends its encoder: 16 x 16 annotation vectors of 66 numbers
vanilla = Captioner(trained.vocabulary, encoder=None, attention="none", hidden_dim=128)
some = trained.encode(np.stack([scene.image for scene in draw_scenes(2, seed=1502)]))
vanilla.build((some.shape, (None, None)))
states = np.random.default_rng(0).normal(size=(2, 128)).astype("float32")
context, weights, *_ = vanilla.decoder.attention_layer(states, some)
print("context is the mean:", np.allclose(context, some.mean(axis=1), atol=1e-5))
print("weights:", np.unique(weights), "= 1/256")

# %% [markdown]
# ## Two pictures that need different captions
#
# Take a scene whose objects stand side by side, cut it between them, and let the parts change places. "A red circle is
# left of a blue square" was true, and now the opposite is. Neither colour nor shape nor size has changed.


# %%
def swap_sides(scene):
    """Return the scene with its two halves exchanged, cut between the objects at a multiple of 4 pixels."""
    first = min(scene.objects, key=lambda item: item.box[0])
    cut, width = -(-first.box[2] // 4) * 4, scene.image.shape[1]
    moved = []
    for item in scene.objects:
        left, top, right, bottom = item.box
        way = width - cut if item is first else -cut
        moved.append(dataclasses.replace(item, box=(left + way, top, right + way, bottom)))
    return dataclasses.replace(scene, image=np.roll(scene.image, -cut, axis=1), objects=tuple(moved))


def stand_side_by_side(scene):
    if len(scene.objects) < 2:
        return False
    first, second = sorted(scene.objects, key=lambda item: item.box[0])
    return first.box[2] < second.box[0] and first.colour != second.colour


scenes = [scene for scene in draw_scenes(1500, seed=1502) if stand_side_by_side(scene)][:300]
swapped = [swap_sides(scene) for scene in scenes]

# %%
_, axes = plt.subplots(2, 5, figsize=(8, 3.6), layout="constrained")
for column, pair in zip(axes.T, zip(scenes, swapped)):
    for ax, scene in zip(column, pair):
        ax.imshow(scene.image)
        ax.axis("off")

# %% [markdown]
# ## What is left of the difference
#
# The same cells are there, in other places. A mean does not care about places. Let us measure how far the two pictures
# of a pair are apart, and compare it with the distance between pictures of different objects: for the grid, which
# attention sees, and for its mean, which is all that the vanilla decoder sees.


# %%
def apart(first, second):
    """Return the mean Euclidean distance between the pictures of two lists."""
    difference = (first - second).reshape(len(first), -1)
    return np.linalg.norm(difference, axis=1).mean()


grids = [trained.encode(np.stack([scene.image for scene in group])) for group in (scenes, swapped)]
ratio = {}
for name, (one, other) in (("grid", grids), ("mean", [grid.mean(axis=1) for grid in grids])):
    ratio[name] = apart(one, other) / apart(one, np.roll(one, 1, axis=0))
    print(f"{name}: a swapped picture is {ratio[name]:.0%} as far away as a picture of other objects")

# %% [markdown]
# The encoder appends row and column to each cell: "left" can be learned. In the mean they cancel: it is 0 for
# every picture there is. (The little that does differ comes from the rim of the picture, where a convolution sees
# zeros.) Nor is it the fault of this encoder, which was trained with attention: one with random weights does the same.

# %%
coordinates = grids[0][:, :, -2:].mean(axis=1)
print("row and column, averaged:", np.abs(coordinates).max())
fresh = ENCODERS["tiny"]()
means = [np.mean(fresh.predict(np.stack([s.image for s in group]), verbose=0), (1, 2)) for group in (scenes, swapped)]
ratio["mean, random weights"] = apart(*means) / apart(means[0], np.roll(means[0], 1, axis=0))
print(f"random weights: {ratio['mean, random weights']:.0%}")

# %% [markdown]
# ## Train both
#
# The same scenes of two objects, the same features, the same number of updates, the same seed. Only `attention`
# differs. This takes about a minute. (`twin_share=0` leaves out scenes whose two objects look alike, and
# `group_by="image"` keeps the captions of a scene in one batch: [04](04_kinds_of_attention.ipynb) has told why.)

# %%
training = [scene for scene in draw_scenes(14_000, seed=10_000, twin_share=0) if len(scene.objects) == 2]
images = [CaptionedImage(scene.image_id, scene.image, list(scene.captions[:2]), "train") for scene in training]
ids, pictures = [image.image_id for image in images], [image.image_path for image in images]
cache = FeatureCache.build("features", ids, pictures, trained.encoder_model, show_progress=False)
batches = make_batches(images, trained.vocabulary, cache, batch_size=128, group_by="image")
print(len(images), "scenes,", len(batches), "batches")


# %%
def train(attention, epochs=6):
    keras.utils.set_random_seed(0)
    captioner = Captioner(
        trained.vocabulary,
        encoder=None,  # it is given features
        attention=attention,
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


captioners = {"none": train("none"), "soft": train("soft")}

# %%
curves = {name: captioner.history.history["cross_entropy"] for name, captioner in captioners.items()}
_, ax = plt.subplots(figsize=(5, 3))
for name, curve in curves.items():
    ax.plot(range(1, 7), curve, marker="o", label=name)
ax.set(xlabel="epoch", ylabel="cross-entropy for each word")
ax.legend()
plt.show()

# %% [markdown]
# The curves are not far apart: most words (articles, "is", the colours, the shapes) can be said without knowing what
# is where. A few words decide whether a caption is true.
#
# ## The same pictures, captioned by both
#
# A pair is right if both its captions are true. The third captioner, `scenes`, is the bundled one; it had ten
# times as many updates and trained its encoder with its decoder.

# %%
captioners["shipped"] = trained
captions, true, both = {}, {}, {}
for name, captioner in captioners.items():
    results = [captioner.caption_features(grid, num_beams=1) for grid in grids]
    captions[name] = [[result.caption for result in group] for group in results]
    pairs = zip((scenes, swapped), captions[name])
    truths = np.array([[is_true(*x) is True for x in zip(group, said)] for group, said in pairs])
    true[name], both[name] = truths.mean(), truths.all(axis=0).mean()
    print(f"{name:>7}: {true[name]:.0%} of the captions are true, both of a pair in {both[name]:.0%} of the pairs")

# %%
for number in (0, 3):
    _, axes = plt.subplots(1, 2, figsize=(9, 2.1), layout="constrained")
    for side, (ax, group) in enumerate(zip(axes, (scenes, swapped))):
        ax.imshow(group[number].image)
        ax.set_title("\n".join(f"{name}: {captions[name][side][number]}" for name in ("none", "soft")), fontsize=8)
        ax.axis("off")

# %%
colours = {}
for name in ("none", "soft"):
    pairs = zip((*scenes, *swapped), (*captions[name][0], *captions[name][1]))
    colours[name] = np.mean([{item.colour for item in scene.objects} <= {*said.split()} for scene, said in pairs])
    print(f"{name}: both colours are named in {colours[name]:.0%} of the captions")

# %% [markdown]
# Without attention the decoder knows the colours too, and guesses what is where. One of the two captions of a pair can
# be true by luck; both hardly ever are. With attention it looks at one object, names it, looks at the other, and
# has seen the place of both.

# %%
for group in (scenes, swapped):
    grid = trained.encode(group[0].image[None])
    (result,) = captioners["soft"].caption_features(grid, num_beams=1, images=[group[0].image])
    AttentionDisplay.from_result(result).plot(width=7)

# %% [markdown]
# ## Exercises
#
# 1. Swap above and below instead of left and right (`np.roll(..., axis=0)`), and measure `ratio` again.
# 2. How often does each captioner name both shapes, and how often each shape with its own colour? Count as above.
# 3. Give the vanilla decoder a bigger bottleneck: reshape `grids` to one region of 256 * 66 numbers, and train
#    `attention="none"` on them. (Give `FeatureCache.build` a function that encodes and reshapes, and `image_size=64`.)
#    What gets better, and how many weights does it take?
# 4. Train `attention="none"` for twice as many epochs. Does the number of pairs that are right change?
#
# ## Next
#
# [06 · Soft attention, trained](06_soft_attention_trained.ipynb) opens the training step.
#
# The last cell checks what this notebook has claimed.

# %%
np.testing.assert_allclose(context, some.mean(axis=1), atol=1e-5)
np.testing.assert_allclose(weights, 1 / 256)
for scene, other in zip(scenes, swapped):
    relational = [caption for caption in scene.captions if is_true(scene, caption)]
    assert len(relational) == 5 and not any(is_true(other, caption) for caption in relational)
    assert [item.looks for item in scene.objects] == [item.looks for item in other.objects]
assert len(scenes) == 300 and np.abs(coordinates).max() < 1e-6
assert ratio["grid"] > 0.8 and ratio["mean"] < 0.25 and ratio["mean, random weights"] < 0.5
assert curves["soft"][-1] < curves["none"][-1] < 0.5 * curves["none"][0]
assert both["none"] < 0.15 and true["none"] < 0.55
assert min(colours.values()) > 0.9
assert both["soft"] > 0.6 and both["shipped"] > 0.8
