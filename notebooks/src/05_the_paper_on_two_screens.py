# %% [markdown]
# # 05 · The paper on two screens
#
# `keras_sat/show_attend_tell.py` is *Show, Attend and Tell* (Xu et al., 2015) and nothing else: attention, the LSTM,
# the loss, the training step and greedy captions, in one file. This notebook shows all of it, trains it on drawn
# scenes, first with soft and then with hard attention, and draws where it looks. Each part says which notebook tells
# more. `keras_sat.Captioner` computes the same, faster and with many options; a test checks that the two agree.

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

tf = import_tensorflow()  # without its greetings, half a dozen lines about the processor

# %%
import inspect

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import layers

from data_utils import CaptionedImage, FeatureCache, draw_scenes, is_true, make_batches, tokenise
from keras_sat import AttentionDisplay, Captioner, CaptionResult, ground, show_attend_tell
from keras_sat.show_attend_tell import ShowAttendTell, caption, objective, train_step

plt.rcParams["figure.dpi"] = 80


def show(*parts):
    print("\n".join(inspect.getsource(part) for part in parts))


# %% [markdown]
# ## Shapes, letters and weights
#
# The letters are the paper's, and numbers in parentheses are its equations. Weights have longer names; a comment gives
# the paper's letter.

# %%
print(inspect.getsource(show_attend_tell).partition("\n\n\nclass")[0])
print("\n")
show(ShowAttendTell.__init__)

# %% [markdown]
# [chapter 1](01_words.ipynb) tells where the words and their ids come from, and
# [chapter 2](02_a_picture_as_vectors.ipynb) how a photo becomes annotation vectors.
#
# ## Attend
#
# An MLP scores each region, given what the LSTM has written so far (4). A softmax turns the scores into weights (5).
# Soft attention takes the weighted mean of all regions (13). Hard attention draws one of them (8), (9).

# %%
show(ShowAttendTell.attend)

# %% [markdown]
# [chapter 3](03_one_step_of_attention.ipynb) computes this step by hand, [what scores
# cost](rooms/what_scores_cost.ipynb) tries other scores,
# and [chapter 4](04_why_attention.ipynb) leaves attention out. [Chapter 6](06_hard_attention.ipynb) is about the draw.
#
# ## Tell
#
# The LSTM reads the last word and the context (1)-(3), and the deep output layer predicts the next word from the word,
# the state and the context (7). `call` does that for all words of a caption.

# %%
show(ShowAttendTell.initial_state, ShowAttendTell.step, ShowAttendTell.call)

# %% [markdown]
# [chapter 3](03_one_step_of_attention.ipynb) has the gates, and [chapter 4](04_why_attention.ipynb) a GRU instead.
#
# ## What is minimised
#
# The loss (14) is the negative log-probability of the caption, plus a penalty for regions that get more or less than
# their share of attention over the whole caption. A draw has no gradient, so hard attention needs one more term: a
# surrogate, whose gradient is that of equation (12) with the baseline and the entropy of section 4.1.

# %%
show(objective)

# %% [markdown]
# [06](06_soft_attention_trained.ipynb) takes the loss (14) apart. [Chapter 6](06_hard_attention.ipynb) compares the
# gradient (12) with the exact one.
#
# ## Train, and write captions
#
# Hard attention draws its noise here, and tosses a coin for each photo: heads, it draws; tails, it takes the weighted
# mean. Captions are greedy: each word is the most probable one.

# %%
show(train_step, caption)

# %% [markdown]
# [06](06_soft_attention_trained.ipynb) does a training step by hand. [chapter 7](07_words_out.ipynb) has beams and
# sampling.
#
# That was all of it. Now it learns.
#
# ## Scenes
#
# Scenes of two objects, as grids of 8 x 8 annotation vectors. The encoder is that of the bundled captioner `scenes`,
# frozen; nothing else of that captioner is used. It has 16 x 16 cells; to save time, the vectors of four neighbours are
# joined here. A graph is compiled for each length of captions, so one length, ten words, saves time too.

# %%
bundled = Captioner.from_pretrained("scenes")
vocabulary, cells = bundled.vocabulary, bundled.encoder_model.output
for layer in (layers.Reshape((8, 2, 8, 2, 66)), layers.Permute((1, 3, 2, 4, 5)), layers.Reshape((8, 8, 264))):
    cells = layer(cells)
encoder = keras.Model(bundled.encoder_model.input, cells)
scenes = [scene for scene in draw_scenes(28_000, seed=10_000, twin_share=0) if len(scene.objects) == 2]
of_ten_words = {scene.image_id: [text for text in scene.captions if len(tokenise(text)) == 10] for scene in scenes}
images = [
    CaptionedImage(scene.image_id, scene.image, captions, "train")
    for scene in scenes
    if (captions := of_ten_words[scene.image_id][:1])
]
images = images[: len(images) // 64 * 64]  # whole batches
ids, pictures = [image.image_id for image in images], [image.image_path for image in images]
cache = FeatureCache.build("features", ids, pictures, encoder, show_progress=False)
batches = make_batches(images, vocabulary, cache, batch_size=64)

(features, input_ids), target_ids, token_weights = first_batch = next(iter(batches))
print(len(images), "captions; features", features.shape, " input_ids", input_ids.shape)
print(images[0].captions[0])

# %% [markdown]
# ## Soft attention learns
#
# The sizes are small, and so is the world of the scenes: dropout is off, and the learning rate is higher than for
# photos. It rises first and falls later. The first call of `train_step` makes the weights; `tf.function` then compiles
# it. This takes a minute or so.


# %%
def train(model, epochs, learning_rate):
    """Train, and return the mean loss of each epoch."""
    steps = epochs * len(batches)
    rate = keras.optimizers.schedules.CosineDecay(0.0, steps - 50, warmup_target=learning_rate, warmup_steps=50)
    model.optimizer = keras.optimizers.Adam(rate, global_clipnorm=5.0)
    model.dropout.rate = 0
    train_step(model, first_batch)
    step = tf.function(train_step)
    return [np.mean([step(model, batch) for batch in batches]) for _ in range(epochs)]


keras.utils.set_random_seed(0)
sizes = {"embedding_dim": 32, "hidden_dim": 128, "attention_dim": 64}
soft = ShowAttendTell(len(vocabulary), "soft", **sizes)
losses = {"soft": train(soft, 8, learning_rate=1e-2)}
print(f"{soft.count_params():,} weights; loss of each epoch:", *(f"{loss:.1f}" for loss in losses["soft"]))

# %% [markdown]
# It has never seen these scenes.

# %%
unseen = [scene for scene in draw_scenes(400, seed=1502, twin_share=0) if len(scene.objects) == 2]
grids = encoder(np.stack([scene.image for scene in unseen]).astype("float32"))
grids = keras.ops.reshape(grids, (-1, *features.shape[1:]))
captions, true = {"soft": caption(soft, grids, vocabulary)}, {}


def check(name):
    """Count the true captions. Return how often attention is on the object that a colour or a shape is said of."""
    results = [CaptionResult(" ".join(words), words, 0.0, maps.reshape(-1, 8, 8)) for words, maps in captions[name]]
    true[name] = np.mean([is_true(scene, result.caption) is True for scene, result in zip(unseen, results)])
    return ground(results, unseen)


grounding = check("soft")
print(f"{true['soft']:.0%} of {len(unseen)} captions are true.")
print(f"In these, for {grounding.pointing:.0%} of the colours and shapes the peak is on the object's box,")
print(f"with {grounding.mass:.0%} of the attention. These boxes are {grounding.uniform_mass:.0%} of the picture.")


def draw(name, number):
    words, maps = captions[name][number]
    AttentionDisplay(unseen[number].image, words, maps.reshape(-1, 8, 8)).plot(width=7)


for number in range(3):
    draw("soft", number)

# %% [markdown]
# What keeps its colours is where the attention was, and the line encloses half of it. It is spread widely, since the
# penalty asks that each of the 64 regions gets some. Still, in true captions its peak is mostly on the object
# that a colour or shape names, although nobody told it where that is. [chapter 4](04_why_attention.ipynb) has more
# of that
# measure, and [chapter 8](08_how_good_is_it.ipynb) scores captions.
#
# ## Hard attention, briefly
#
# It starts from the weights of soft attention and trains for two more epochs, now with draws. First row: the weights
# that it draws from. Second row: the regions that it drew while it read the same caption.

# %%
hard = ShowAttendTell(len(vocabulary), "hard", **sizes)
hard(features, input_ids)  # makes the weights
hard.set_weights(soft.get_weights())
losses["hard"] = train(hard, 2, learning_rate=2e-3)
captions["hard"] = caption(hard, grids, vocabulary)
check("hard")
print(f"{true['hard']:.0%} are true; baseline {float(hard.baseline):.1f}")

# %%
words, _ = captions["hard"][0]
read = np.array([[vocabulary.start_token_id, *vocabulary.caption_to_ids(words)]])
noise = np.random.default_rng(0).gumbel(size=(1, read.shape[1], 64)).astype("float32")
_, _, drawn = hard(grids[:1], read, noise, np.ones(1, "float32"))
captions["drawn"] = [(words, drawn[0, :-1].numpy())]
draw("hard", 0)
draw("drawn", 0)

# %% [markdown]
# ## Exercises
#
# 1. Let the gate see nothing but a constant: `self.gate(ops.zeros_like(h)) * z`. Are the captions still true?
# 2. Set `show_attend_tell.PENALTY_WEIGHT = 0.0` before you train. What do the maps look like?
# 3. Change one line of the file and run tests/test_show_attend_tell.py. Which test notices?
#
# ## Next
#
# [chapter 1](01_words.ipynb) starts at the beginning: how a caption becomes numbers.
#
# The last cell checks what this notebook has claimed.

# %%
source = inspect.getsource(show_attend_tell)
assert "keras_sat.Captioner" in source.partition('"""\n\n')[0]
assert {len(image.captions[0].split()) for image in images} == {10} and features.shape == (64, 64, 264)
assert len(unseen) > 100 and not {scene.image_id for scene in unseen} & set(ids)
assert losses["soft"][-1] < losses["soft"][0] - 5 and true["soft"] > 0.5
assert grounding.pointing > 0.65 and grounding.mass > 1.3 * grounding.uniform_mass
entropy = np.mean([-np.sum(maps * np.log(maps + 1e-30), axis=1).mean() for words, maps in captions["soft"]])
assert 0.7 * np.log(64) < entropy < np.log(64)  # spread widely, but not evenly
assert true["hard"] > 0.3 and float(hard.baseline) < -1 and float(soft.baseline) == 0
np.testing.assert_allclose(captions["drawn"][0][1].max(axis=1), 1)  # one region for each word
assert (captions["hard"][0][1].max(axis=1) < 1).all()
