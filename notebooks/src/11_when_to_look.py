# %% [markdown]
# # 11 · When to look
#
# The picture that everybody remembers of the paper has light on the dog at the word "dog". Nothing in the paper's loss
# asks for that: it asks for the right words, and a network may find these while it looks elsewhere. On photos it does.
# This story has three changes, and measures each of them:
#
# * attention that is paid **after reading** the last word, not before;
# * a **sentinel**, which lets attention look at nothing at all: "of" needs no photo (Lu et al., *Knowing when to look*,
#   2017);
# * a **guide**: word detectors that learn from captions alone where a word is, and lead attention there.

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
import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import layers, ops
from matplotlib import cbook
from PIL import Image

from data_utils import CaptionedImage, FeatureCache, draw_scenes, load_image, make_batches
from keras_sat import AttentionDisplay, Captioner, equations, ground

plt.rcParams["figure.dpi"] = 80

# %% [markdown]
# ## Before or after reading
#
# To say word $t$, equation (4) of the paper scores the regions with $h_{t-1}$, the state that has *not yet* read word
# $t-1$. After "a brown", attention for the next word is chosen by a state that knows "a" alone; it
# cannot know that a noun comes, let alone one that is brown. With `attends="after"` the network reads first, and then
# looks:
#
# | | before (the paper) | after (Lu et al.) |
# |---|---|---|
# | looks with | $h_{t-1}$ | $h_t$, which has read $y_{t-1}$ |
# | the LSTM reads | $[E y_{t-1}, \hat z_t]$ | $[E y_{t-1}, \bar a]$, the mean of the photo |
# | the word comes from | $y_{t-1}, h_t, \hat z_t$ | $y_{t-1}, h_t, \hat z_t$ |
#
# Something else follows from it. After reading, what was looked at does not enter the LSTM. All the states of a caption
# can be computed first, and attention for all its words at once: only the LSTM is left in the loop.

# %%
trained = Captioner.from_pretrained("scenes")  # lends its encoder: 16 x 16 annotation vectors of 66 numbers
blurred = layers.AveragePooling2D(5, strides=2, padding="same")(trained.encoder_model.output)  # 8 x 8, as on photos:
encoder = keras.Model(trained.encoder_model.input, blurred)  # each cell sees far beyond its own square
training = [scene for scene in draw_scenes(14_000, seed=10_000, twin_share=0) if len(scene.objects) == 2]
images = [CaptionedImage(scene.image_id, scene.image, list(scene.captions[:2]), "train") for scene in training]
ids, pictures = [image.image_id for image in images], [image.image_path for image in images]
cache = FeatureCache.build("features", ids, pictures, encoder, show_progress=False)
batches = make_batches(images, trained.vocabulary, cache, batch_size=128, group_by="image")
print(len(images), "scenes,", len(batches), "batches")


# %%
def train(epochs=6, **options):
    keras.utils.set_random_seed(0)
    captioner = Captioner(
        trained.vocabulary,
        encoder=None,  # it is given features
        embedding_dim=32,
        hidden_dim=128,
        attention_dim=64,
        scoring="bilinear",
        attention_penalty_weight=0.0,
        dropout_before_readout=0.0,
        dropout_after_readout=0.0,
        **options,
    )
    steps = epochs * len(batches)
    rate = keras.optimizers.schedules.CosineDecay(0.0, steps - 50, warmup_target=1e-2, warmup_steps=50)
    captioner.compile(learning_rate=rate, clip_norm=1.0)
    captioner.fit(batches, epochs=epochs, verbose=0)
    return captioner


captioners = {"before": train(attends="before"), "after": train(attends="after")}

# %% [markdown]
# ## Reading captions that people wrote
#
# To ask where a captioner looks, give it the words. `attend` reads a caption word by word and returns the map with
# which each word was predicted: the same words for every captioner, for comparison. `ground` compares the
# maps with the boxes of the objects that the words name.

# %%
scenes = [scene for scene in draw_scenes(1500, seed=1502, twin_share=0) if len(scene.objects) == 2][:300]
grids = encoder(np.stack([scene.image for scene in scenes]).astype("float32"))
grids = ops.convert_to_numpy(ops.reshape(grids, (len(scenes), 64, 66)))
sentences = [scene.captions[0] for scene in scenes]
print(sentences[0], "|", sentences[1])


def look(captioner):
    return captioner.attend_features(grids, sentences, images=[scene.image for scene in scenes])


looked, met = {}, {}
for name, captioner in captioners.items():
    looked[name] = look(captioner)
    met[name] = ground(looked[name], scenes)
print(met["after"])

# %% [markdown]
# ## A sentinel
#
# The regions' weights sum to one: at "of" and "is", attention has to look at something. The sentinel is one more thing
# that it may look at, made of what the network remembers and nothing else:
#
# $$s_t = P\,(\sigma(W h_t) \odot \tanh(c_t)), \qquad
# \hat c_t = \beta_t s_t + (1 - \beta_t) \hat z_t,$$
#
# where $P$ makes it as long as an annotation vector, to be scored as a region is, and $\beta_t$ is its weight in
# a softmax over the regions and itself. So $1 - \beta_t$ says how much of a word came from the photo. By hand, with
# four regions:

# %%
scores, sentinel_score = np.array([[2.0, 0.0, 0.0, 0.0]], "float32"), np.array([[1.0]], "float32")
together = np.exp([2.0, 0.0, 0.0, 0.0, 1.0])
together /= together.sum()
from_photo = ops.convert_to_numpy(equations.share_from_photo(scores, sentinel_score))
print(f"all five: {together.round(3)}; from the photo: {from_photo.item():.3f} = 1 - {together[-1]:.3f}")

# %%
captioners["sentinel"] = train(attends="after", sentinel=True)
looked["sentinel"] = look(captioners["sentinel"])
met["sentinel"] = ground(looked["sentinel"], scenes)


def share_by_word(results):
    """Return a dict from each word to the mean of its share from the photo."""
    shares = {}
    for result in results:
        for word, share in zip(result.words, result.from_photo):
            shares.setdefault(word, []).append(float(share))
    return {word: np.mean(values) for word, values in shares.items()}


shares = {"sentinel": share_by_word(looked["sentinel"])}
print({word: round(float(share), 2) for word, share in sorted(shares["sentinel"].items(), key=lambda item: -item[1])})
print(met["sentinel"])

# %% [markdown]
# Nobody told it, and yet it knows when to look: articles, "of" and "there" come from memory, colours, shapes and places
# from the picture. Reading first brings the peak to the object more often than the paper's order does. But neither is
# ever told *where* to look, and a cell that sees farther shows less: average 7 x 7 cells instead of 5 x 5, and the peak
# is on the object about half of the time. A captioner may be right for reasons that its pictures do not show. On photos
# each cell sees nearly everything.
#
# ## A guide
#
# Nobody has to draw boxes to know where words are. A caption with "star" says that there is one *somewhere* on the
# photo. Give each region a probability $p_{iw}$ that it shows word $w$; the photo has the word unless no region does,
#
# $$p_w = 1 - \prod_i (1 - p_{iw}),$$
#
# and train $p_w$ on which words the captions of the photo have. To be right about photos, the detectors must find out
# which regions make the difference (multiple-instance learning). Here are four regions and one word:

# %%
logits = ops.convert_to_tensor([[[-3.0], [2.0], [-3.0], [-3.0]]])  # photos, regions, words
found = ops.convert_to_numpy(equations.detected(logits)).item()
by_hand = 1 - np.prod(1 - 1 / (1 + np.exp([3.0, -2.0, 3.0, 3.0])))
detector_map = ops.convert_to_numpy(equations.detector_maps(logits))[0, :, 0]
print(f"the photo has the word: {found:.3f} = {by_hand:.3f}; where: {detector_map.round(2)}")

# %% [markdown]
# The map of a word that the detectors find is what attention should look like at that word. `guide_weight` adds the
# cross-entropy between the two to the loss; where a sentinel looks away, what it takes is missing from the regions, so
# that looking away costs too. The detectors learn along with the captioner, from the same captions, and captions are
# written without them. On scenes attention has found the objects by itself: a guide that sees no better can only blur
# its maps, and it makes the sentinel useless. The table below has what it does on photos.

# %%
captioners["guided"] = train(attends="after", sentinel=True, guide_weight=0.5)
looked["guided"] = look(captioners["guided"])
met["guided"] = ground(looked["guided"], scenes)
shares["guided"] = share_by_word(looked["guided"])
print({word: round(float(share), 2) for word, share in sorted(shares["guided"].items(), key=lambda item: -item[1])})
print(met["guided"])

# %%
_, axes = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
rows = [*met, "even map"]
mass = [100 * one.mass for one in met.values()] + [100 * met["guided"].uniform_mass]
peaks = [100 * one.pointing for one in met.values()] + [100 * met["guided"].uniform_pointing]
for ax, values, title in zip(axes, (mass, peaks), ("attention on what the word names", "peak on what the word names")):
    ax.barh(rows, values)
    ax.invert_yaxis()
    ax.set(title=title, xlabel="percent of words", xlim=(0, 100))

# %% [markdown]
# And the pictures: the same sentence, read by all four. A word from memory has no map.

# %%
number = next(index for index, words in enumerate(sentences) if len(words.split()) == 9)
read = [results[number] for results in looked.values()]
_ = AttentionDisplay.compare(read, names=list(looked), words="all", width=11)

# %% [markdown]
# ## On photos
#
# The bundled captioner of photos was trained so, and with boxes too: people have drawn them for the phrases of one
# caption in five of Flickr8k, and `box_weight` asks that a word's map is on them. Photos of
# the dev split, 1,776 phrases of captions that people wrote; small boxes take less than a quarter of the photo
# (`keras-sat evaluate --grounding --boxes`, docs/evaluation.md):
#
# | percent | share | peak | small: share | peak |
# |---|---|---|---|---|
# | an even map | 31.1 | 31.1 | 9.2 | 9.1 |
# | one with its maximum in the middle | 37.6 | 49.8 | 13.2 | 23.0 |
# | before reading, trained on words alone (the bundled captioner before) | 35.7 | 45.9 | 12.8 | 21.0 |
# | after reading, with sentinel and guide | 44.3 | 50.6 | 20.4 | 27.7 |
# | with boxes of training photos and rewards as well: the bundled captioner | 61.0 | 66.8 | 43.0 | 50.8 |
# | its twin with hard attention | 60.9 | 66.4 | 40.6 | 48.8 |
#
# Here the bundled captioner reads a sentence of ours, about a photo that comes with matplotlib: Admiral Grace Hopper
# (U.S. Navy, in the public domain).

# %%
photo = Image.open(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False))
for_photos = Captioner.from_pretrained()
read = for_photos.attend(photo, "a woman with a hat in front of a flag")
_ = AttentionDisplay.from_result(read).plot(width=4, columns=4)

# %% [markdown]
# ## Does the word come from there?
#
# A map on the hat does not prove that "hat" was said because of it: the decoder may know hats from the words before, or
# from the mean annotation vector, which has seen the whole photo (Jain and Wallace, *Attention is not explanation*,
# 2019). So take the place away. The tenth of the cells that "hat" looks at most gets the mean of all cells, and the
# decoder reads the same words again: what does it say now? The same number of random cells is the control.

# %%
read = for_photos.attend(photo, "a person wearing glasses and a hat")
position, vocabulary = read.words.index("hat"), for_photos.vocabulary
token_ids = [[vocabulary.start_token_id, *vocabulary.caption_to_ids(read.words[:position])]]
features = np.array(for_photos.decoder_features(load_image(photo, for_photos.photo_sizes[0])[None]))
order = np.argsort(-read.attention_weights[position].ravel())
removed = {
    "nothing": [],
    "what it looks at": order[:20],
    "20 random cells": np.random.default_rng(0).choice(196, 20, False),
}
said = {}
for name, cells in removed.items():
    altered = features.copy()
    altered[0, cells] = features[0].mean(axis=0)
    said[name] = ops.convert_to_numpy(ops.softmax(for_photos.decoder(altered, np.array(token_ids)).logits[0, position]))
p_hat = {name: float(probabilities[vocabulary.caption_to_ids("hat")[0]]) for name, probabilities in said.items()}
print({name: round(p, 3) for name, p in p_hat.items()})

# %%
_, axes = plt.subplots(1, 3, figsize=(7.5, 2.2), layout="constrained", width_ratios=(1, 1, 1.6))
axes[0].imshow(AttentionDisplay.from_result(read).lit(position)[0])
is_removed = np.isin(np.arange(196), order[:20]).reshape(14, 14).repeat(16, axis=0).repeat(16, axis=1)
axes[1].imshow(np.where(is_removed[..., None], 128, read.image))
for ax, title in zip(axes, ("hat", "without it", "the next word: probability")):
    ax.set_title(title)
    ax.set_axis_off() if ax is not axes[2] else ax.spines[["top", "right"]].set_visible(False)
candidates = [token_id for token_id in np.argsort(-said["nothing"]) if token_id != vocabulary.unk_token_id][:4]
for number, (name, probabilities) in enumerate(said.items()):
    axes[2].bar(np.arange(4) + 0.27 * (number - 1), probabilities[candidates], 0.25, label=name)
axes[2].set_xticks(range(4), [vocabulary.tokens[token_id] for token_id in candidates])
_ = axes[2].legend(title="removed", fontsize="small")

# %% [markdown]
# The word goes with its place, and a random tenth of the photo changes nothing. `keras-sat evaluate --faithfulness`
# asks this of every word that names something (docs/results.md has the answer, for each captioner of this package).
#
# ## Exercises
#
# 1. Which of the four writes true captions most often? Caption the scenes with all of them (`caption_features`), and
#    count with `data_utils.is_true`. Does the one that looks best write best?
# 2. Train with `guide_weight=0.1` and with `2.0`. What does each do to `ground`, and what to the truth of the captions?
# 3. Average 7 x 7 cells, or none (`encoder = trained.encoder_model`: 16 x 16 cells, four times as slow). Where is the
#    attention then?
# 4. Read a sentence that is wrong ("a dog on a beach") to the captioner of photos. Where does it look, and what does
#    `log_prob` say?
# 5. Is the same true of the captioners that this notebook has trained? `captioners["before"]` reads features: pass
#    `grids` to `decoder(grids, token_ids)`.
#
# ## Next
#
# [12](12_point_and_tell.ipynb) points at a place and asks what is there.
#
# The last cell checks what this notebook has claimed.

# %%
np.testing.assert_allclose(from_photo.item(), 1 - together[-1], rtol=1e-5)
np.testing.assert_allclose(found, by_hand, rtol=1e-5)
assert detector_map.argmax() == 1 and np.isclose(detector_map.sum(), 1)
colours = {name: one.word_classes["colour"] for name, one in met.items()}
shapes = {name: one.word_classes["shape"] for name, one in met.items()}
even = colours["guided"].uniform_mass
assert min(one.mass for one in shapes.values()) > 2 * even  # all look at shapes
assert min(colours[name].pointing for name in ("after", "sentinel")) > colours["before"].pointing > 0.6
assert met["guided"].mass < met["sentinel"].mass
assert max(shares["sentinel"][word] for word in ("a", "the", "of", "there")) < 0.2
assert all(0 <= share <= 1 for result in looked["sentinel"] for share in result.from_photo)
assert looked["before"][0].from_photo is None
assert min(shares[name][word] for name in shares for word in ("star", "red", "blue")) > 0.9
assert min(shares["guided"][word] for word in ("a", "the", "of")) > 0.9
assert p_hat["what it looks at"] < 0.4 * p_hat["nothing"] and p_hat["20 random cells"] > 0.8 * p_hat["nothing"]
