# %% [markdown]
# # 06 · Soft attention, trained
#
# Soft attention is a smooth function from end to end: plain back-propagation trains it. This story takes one
# training step apart: batch, forward pass, the two terms of the loss, gradients, clipping, update. Then it does the
# same step with `Captioner.train_step`, and finds the same weights. Then it trains with the second term of the loss and
# without it, lets what it has trained speak, word by word, and shows what that term does.

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
import tensorflow as tf
from keras import layers, ops

from data_utils import CaptionedImage, FeatureCache, draw_scenes, is_true, make_batches
from keras_sat import AttentionDisplay, Captioner, equations, ground

plt.rcParams["figure.dpi"] = 80

# %% [markdown]
# ## A batch
#
# Scenes of two objects, encoded once by the encoder of the bundled captioner `scenes`, with the vectors of four
# neighbouring cells joined, to save time. Only the decoder learns here. (`twin_share=0` leaves out scenes whose two
# objects look alike, as in [what scores cost](rooms/what_scores_cost.ipynb): of a word that means both, nobody can
# say where to look.)
# The captions of a batch have one length, as in the paper, and each word is predicted from those before.

# %%
trained = Captioner.from_pretrained("scenes")
vocabulary, cells = trained.vocabulary, trained.encoder_model.output
for layer in (layers.Reshape((8, 2, 8, 2, 66)), layers.Permute((1, 3, 2, 4, 5)), layers.Reshape((8, 8, 264))):
    cells = layer(cells)
encoder = keras.Model(trained.encoder_model.input, cells)
scenes = [scene for scene in draw_scenes(18_000, seed=10_000, twin_share=0) if len(scene.objects) == 2]
images = [CaptionedImage(scene.image_id, scene.image, list(scene.captions[:2]), "train") for scene in scenes]
ids, pictures = [image.image_id for image in images], [image.image_path for image in images]
cache = FeatureCache.build("features", ids, pictures, encoder, show_progress=False)

batch = next(iter(make_batches(images, vocabulary, cache, batch_size=64)))
(features, input_ids), target_ids, token_weights = batch
print("features", features.shape, " input_ids", input_ids.shape)
for name, row in (("input", input_ids[0]), ("target", target_ids[0])):
    print(f"{name:>7}:", " ".join(vocabulary.tokens[token_id] for token_id in row.numpy()))

# %% [markdown]
# ## A captioner
#
# The second term of the loss weighs $\lambda$ = `attention_penalty_weight`. Dropout is off: two passes give the
# same. The learning rate and the bound for the gradients are those that `compile` takes by itself.


# %%
def make_captioner(penalty_weight):
    keras.utils.set_random_seed(0)
    captioner = Captioner(
        vocabulary,
        encoder=None,  # it is given features
        embedding_dim=32,
        hidden_dim=128,
        attention_dim=64,
        attention_penalty_weight=penalty_weight,
        dropout_before_readout=0.0,
        dropout_after_readout=0.0,
    )
    captioner.build((features.shape, input_ids.shape))
    return captioner


captioner = make_captioner(penalty_weight=0.33)
captioner.compile("adam", learning_rate=4e-4, clip_norm=5.0)
start = [weight.numpy() for weight in captioner.trainable_variables]
print(f"{captioner.count_params():,} weights")

# %% [markdown]
# ## Forward
#
# The captioner reads the whole caption and gives, for each place in it, the logits of all words and the attention
# weights. A tape takes notes of what is computed.

# %%
with tf.GradientTape() as tape:
    decoded = captioner((features, input_ids), training=True)
    word_log_probs = equations.word_log_probs(decoded.logits, target_ids)
    log_probs = equations.caption_log_prob(word_log_probs, token_weights)
    penalties = equations.attention_penalty(decoded.attention_weights, token_weights)
    loss = ops.mean(-log_probs + 0.33 * penalties)
print("logits", decoded.logits.shape, " attention weights", decoded.attention_weights.shape)

# %% [markdown]
# ## The two terms of the loss
#
# Equation (14):
#
# $$L_d = -\log p(y \mid x) + \lambda \sum_i^L \Big(1 - \sum_t^C \alpha_{ti}\Big)^2.$$
#
# The first term is summed over the words of a caption. An untrained captioner finds all words about equally probable:
# each costs about the logarithm of their number. The second term asks that each region gets its part: by
# construction the weights of a step sum to 1 over the regions; the term asks that those of a region also sum to 1 over
# the steps. That is why the paper calls the attention *doubly stochastic*.

# %%
words = float(ops.mean(ops.sum(token_weights, axis=1)))
first_term, second_term = -float(ops.mean(log_probs)), float(ops.mean(penalties))
print(f"loss {float(loss):.2f} = {first_term:.2f} + 0.33 * {second_term:.2f}")
print(f"each word costs {first_term / words:.2f}; log {len(vocabulary)} is {np.log(len(vocabulary)):.2f}")

# %% [markdown]
# Ten words cannot give a weight of 1 to each of 64 regions (nor to each of the paper's 196). With
# $s_i = \sum_t \alpha_{ti}$, whose mean is $C/L$, the term is
#
# $$\sum_i (1 - s_i)^2 = L \Big(1 - \frac{C}{L}\Big)^2 + \sum_i \Big(s_i - \frac{C}{L}\Big)^2.$$
#
# Nothing can change the first part. What is left to learn is the second: how unevenly attention falls on the regions.

# %%
L, C = features.shape[1], input_ids.shape[1]
received = ops.sum(decoded.attention_weights, axis=1).numpy()  # s_i, (captions, regions)
floor = L * (1 - C / L) ** 2
uneven = np.square(received - C / L).sum(axis=1)
print(f"{second_term:.3f} = {floor:.3f} that nothing can change + {uneven.mean():.3f}")

# %% [markdown]
# ## Gradients, clipped
#
# One gradient for each weight. Where the norm of all of them together is above the bound, all are made shorter by the
# same factor: the direction stays.

# %%
gradients = [tf.convert_to_tensor(gradient) for gradient in tape.gradient(loss, captioner.trainable_variables)]
norm = float(tf.linalg.global_norm(gradients))
clipped = [gradient * min(1.0, 5.0 / norm) for gradient in gradients]
print(f"{len(gradients)} gradients; norm {norm:.1f} before, {float(tf.linalg.global_norm(clipped)):.1f} after")

# %% [markdown]
# ## Update
#
# Adam keeps two moving averages for each weight, of the gradient and of its square, and divides the one by the root of
# the other. In the first step both are made of this gradient alone, and after the correction for their start at 0
# every weight moves by nearly the learning rate, up or down.

# %%
by_hand = []
for weight, gradient in zip(captioner.trainable_variables, clipped):
    average, square = (1 - 0.9) * gradient, (1 - 0.999) * gradient**2
    correction = np.sqrt(1 - 0.999) / (1 - 0.9)
    by_hand.append(weight.numpy() - 4e-4 * correction * average.numpy() / (np.sqrt(square) + 1e-7))

# %% [markdown]
# ## The same with `train_step`
#
# From the same weights, the same batch.

# %%
metrics = captioner.train_step(batch)
differences = [np.abs(w.numpy() - value).max() for w, value in zip(captioner.trainable_variables, by_hand)]
moved = [np.abs(w.numpy() - before).max() for w, before in zip(captioner.trainable_variables, start)]
print({name: round(float(value), 3) for name, value in metrics.items()})
print(f"weights moved by up to {max(moved):.1e}; ours and theirs differ by up to {max(differences):.1e}")

# %% [markdown]
# ## With the second term, and without
#
# Now the whole training, once with $\lambda = 0.1$ and once with $\lambda = 0$: same seed, same batches, same number
# of updates. (0.33 is for photos. Ten words cannot look at 64 regions once each, and learn more slowly when they must.)
# A few settings are those of the demo: a higher learning rate that rises first and falls later, and
# `group_by="image"`, which keeps the captions of a scene in one batch: its features are projected once
# ([chapter 2](02_a_picture_as_vectors.ipynb) says what that costs). This takes two minutes or so.

# %%
batches = make_batches(images, vocabulary, cache, batch_size=64, group_by="image")
EPOCHS = 6


def train(penalty_weight):
    captioner = make_captioner(penalty_weight)
    steps = EPOCHS * len(batches)
    rate = keras.optimizers.schedules.CosineDecay(0.0, steps - 50, warmup_target=1e-2, warmup_steps=50)
    captioner.compile("adam", learning_rate=rate, clip_norm=1.0)
    captioner.fit(batches, epochs=EPOCHS, verbose=0)
    return captioner


captioners = {"with penalty": train(0.1), "without": train(0.0)}

# %%
_, axes = plt.subplots(1, 3, figsize=(9, 2.6), layout="constrained")
for ax, name in zip(axes, ("cross_entropy", "penalty", "attention_entropy")):
    for label, captioner in captioners.items():
        ax.plot(range(1, EPOCHS + 1), captioner.history.history[name], marker="o", label=label)
    ax.set(title=name, xlabel="epoch")
axes[0].legend()
plt.show()

# %% [markdown]
# Both learn the words. The penalty is lower where it is asked to be, and the entropy of the attention higher: it is
# spread over more regions.
#
# ## It speaks
#
# These are captions of scenes that neither of them has seen. `num_beams=1` takes the most probable word each time.

# %%
unseen = [scene for scene in draw_scenes(400, seed=1502, twin_share=0) if len(scene.objects) == 2]
grids = encoder(np.stack([scene.image for scene in unseen]).astype("float32"))
grids = ops.convert_to_numpy(ops.reshape(grids, (-1, *features.shape[1:])))
captions = {
    label: captioner.caption_features(grids, num_beams=1, images=[scene.image for scene in unseen])
    for label, captioner in captioners.items()
}
for number in range(4):
    print(f"scene {number}, a true caption: {unseen[number].captions[0]}")
    for label, results in captions.items():
        caption = results[number].caption
        print(f"{label:>14}: {caption} ({'true' if is_true(unseen[number], caption) else 'not true'})")

# %% [markdown]
# How does such a caption come about? The captioner gets `<start>` and says how probable each word is to come next. The
# most probable one is appended, and it is asked again, until that word is `<end>`. Here is the loop, in
# the open, with the three most probable words of each step. Where only one word can follow ("of" after "picture"), it
# is nearly certain. Where several would be true ("under", "below"), they share what there is; and where it is not sure
# what it sees, the second word says what else it might be.


# %%
def speak(captioner, grid):
    """Return the words of a caption, the probability of each, and where the captioner looked for each."""
    token_ids, chances, maps = [vocabulary.start_token_id], [], []
    while token_ids[-1] != vocabulary.end_token_id and len(token_ids) < 20:
        decoded = captioner((grid[None], np.array([token_ids])))
        probabilities = ops.softmax(decoded.logits[0, -1]).numpy()  # of the word after the last one
        best = probabilities.argsort()[::-1][:3]
        print("".join(f"{vocabulary.tokens[i]:>10} {probabilities[i]:6.1%}" for i in best))
        token_ids.append(int(best[0]))
        chances.append(float(probabilities[best[0]]))
        maps.append(decoded.attention_weights[0, -1].numpy().reshape(8, 8))
    return [vocabulary.tokens[i] for i in token_ids[1:]], chances, maps


said = {}
for number in (0, 1):
    print(f"scene {number}:")
    said[number] = speak(captioners["without"], grids[number])

# %% [markdown]
# And where did it look, one word at a time? The line encloses half of the attention; above each picture stand the word
# and how probable it was.

# %%
for number, (spoken, chances, maps) in said.items():
    axes = AttentionDisplay(unseen[number].image, spoken[:-1], maps[:-1]).plot(words="all")  # without `<end>`
    for ax, word, chance in zip(axes[1:], spoken, chances):
        ax.set_title(f"{word} {chance:.0%}", size=9, pad=3)

# %% [markdown]
# For a colour or a shape it looks at the object that it names.
#
# ## How much does each region get?
#
# Summed over a whole caption: how much attention does each region of an unseen scene get, with the penalty and without?

# %%
received, unevenness = {}, {}
for label, captioner in captioners.items():
    totals, spread = [], []
    for scene, grid in zip(unseen[:100], grids):
        token_ids = [vocabulary.start_token_id, *vocabulary.caption_to_ids(scene.captions[0])]
        maps = captioner((grid[None], np.array([token_ids]))).attention_weights[0].numpy()
        totals.append(maps.sum(axis=0))
        spread.append(np.square(totals[-1] - len(token_ids) / L).sum())
    received[label], unevenness[label] = totals, np.mean(spread)
    print(f"{label:>12}: unevenness {unevenness[label]:.2f}")

# %%
_, axes = plt.subplots(3, 5, figsize=(7, 4.6), layout="constrained")
for number, column in enumerate(axes.T):
    column[0].imshow(unseen[number].image)
    for ax, label in zip(column[1:], captioners):
        ax.imshow(received[label][number].reshape(8, 8), cmap="gray", vmin=0, vmax=1)
        ax.set_title(label, fontsize=8)
    for ax in column:
        ax.axis("off")

# %% [markdown]
# ## What it costs
#
# A photo has something to say in many places. On scenes of two objects most regions are background, and attention that
# has to be fair to all of them points less clearly: less of it is on the object that a word names. (The captions are
# about as often true; which of the two is ahead differs from seed to seed.) The bundled captioners of scenes were
# trained without the term.

# %%
truth, grounding = {}, {}
for label, results in captions.items():
    truth[label] = np.mean([is_true(scene, result.caption) is True for scene, result in zip(unseen, results)])
    grounding[label] = ground(results, unseen)
    print(f"{label:>12}: {truth[label]:.0%} true, attention on the object {grounding[label].mass:.0%}", end="")
    print(f" (everywhere alike: {grounding[label].uniform_mass:.0%})")

# %% [markdown]
# ## Exercises
#
# 1. Train with $\lambda = 3$. What does the attention look like, and are the captions still true?
# 2. A published program counts the term over the padding too. Where is the mistake here, if `attention_penalty` is
#    given ones for `token_weights`, and a batch holds captions of several lengths?
# 3. Replace Adam by plain gradient descent: `compile("sgd", learning_rate=0.1)`. What is the update by hand then?
# 4. Set the target to $C/L$ instead of 1 (write the term yourself). Which part of the loss changes, and which gradient?
#
# ## Next
#
# [Chapter 6](06_hard_attention.ipynb) looks at one place only, and has to learn without a smooth way.
#
# The last cell checks what this notebook has claimed, and shows a caption as a player: point at a word, or press play
# (where scripts run: GitHub shows none).

# %%
np.testing.assert_allclose(float(loss), first_term + 0.33 * second_term, rtol=1e-5)
np.testing.assert_allclose(float(metrics["loss"]), float(loss), rtol=1e-4)
assert abs(first_term / words - np.log(len(vocabulary))) < 0.5
np.testing.assert_allclose(second_term, floor + uneven.mean(), rtol=1e-4)
assert (input_ids[:, 1:].numpy() == target_ids[:, :-1].numpy()).all() and (token_weights.numpy() == 1).all()
assert float(tf.linalg.global_norm(clipped)) < 5.001
assert max(differences) < 1e-5 < 3e-4 < min(moved) and max(moved) < 4.01e-4
for number, (spoken, chances, maps) in said.items():  # the loop in the open says what the search says
    assert [*captions["without"][number].words, "<end>"] == spoken and min(chances) > 1 / len(vocabulary)
    np.testing.assert_allclose(maps[:-1], captions["without"][number].attention_weights, atol=1e-4)
curves = {label: captioner.history.history for label, captioner in captioners.items()}
for label in curves:
    assert curves[label]["cross_entropy"][-1] < 0.5 * curves[label]["cross_entropy"][0] and truth[label] > 0.5
assert curves["with penalty"]["penalty"][-1] < curves["without"]["penalty"][-1]
assert curves["with penalty"]["attention_entropy"][-1] > curves["without"]["attention_entropy"][-1]
assert unevenness["with penalty"] < 0.5 * unevenness["without"]
assert grounding["without"].mass > 1.5 * grounding["without"].uniform_mass
assert grounding["with penalty"].mass < grounding["without"].mass - 0.05
AttentionDisplay.from_result(captions["without"][0])
