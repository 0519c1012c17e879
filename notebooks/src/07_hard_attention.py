# %% [markdown]
# # 07 · Hard attention
#
# Soft attention looks everywhere at once. Hard attention draws one place for each word and looks there. A drawn place
# has no gradient. Still the model can learn where to look, by trial and reward. This story computes the gradient of
# such learning exactly, on a model so small that all ways of looking can be listed, and shows how well drawing
# estimates it: what the baseline does, what more draws do, what the entropy is for. Then it turns round and asks how
# good soft attention is as an approximation of hard attention.

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
import itertools

import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
from keras import ops

from data_utils import draw_scenes, is_true
from keras_sat import AttentionDisplay, Captioner, equations

plt.rcParams["figure.dpi"] = 80

# %% [markdown]
# ## Draw a place for each word
#
# The attention weights become the parameters of a distribution, and the context is the annotation vector of the place
# that was drawn: equations (8) and (9),
#
# $$p(s_{t,i} = 1 \mid s_{j<t}, a) = \alpha_{t,i}, \qquad \hat z_t = \sum_i s_{t,i}\, a_i.$$
#
# The bundled `scenes-hard` was trained like this. First row: its weights. Second row: places that it drew.

# %%
hard = Captioner.from_pretrained("scenes-hard")
scene = next(scene for scene in draw_scenes(50, seed=1502) if len(scene.objects) == 2)
weighed = hard.caption(scene.image, num_beams=1)
drawn = hard.caption(scene.image, num_beams=1, sample_attention=True, seed=6)
_ = AttentionDisplay.compare([weighed, drawn], names=["weights", "drawn"])

# %% [markdown]
# A draw may go wrong. One place shows little of an object: in the second row the small circle is called big. Captions
# are therefore written with the first row, unless `sample_attention=True` asks for draws.
#
# ## A model so small that everything can be listed
#
# Three regions, three words, random weights. There are $3^3 = 27$ paths $s$ that its attention can take through a
# caption. Very large noise forces each of them once, and the decoder says how probable the path and the caption are.


# %%
def make_tiny(**options):
    sizes = {"embedding_dim": 3, "hidden_dim": 4, "attention_dim": 3}
    quiet = {"dropout_before_readout": 0.0, "dropout_after_readout": 0.0, "attention_penalty_weight": 0.0}
    plain = {"reward_weight": 1.0, "entropy_weight": 0.0, "expectation_probability": 0.0}
    options = {"attention": "hard", **sizes, **quiet, **plain, **options}
    captioner = Captioner(["red", "green", "blue"], encoder=None, **options)
    captioner.build(((None, 3, 4), (None, None)))
    random = np.random.default_rng(1)
    for weight in captioner.trainable_variables:
        weight.assign(random.normal(scale=0.8, size=weight.shape))
    return captioner


features = np.random.default_rng(2).normal(size=(1, 3, 4)).astype("float32")
input_ids, target_ids = np.array([[1, 4, 6]]), np.array([[4, 6, 2]])  # <start> red blue, red blue <end>
batch = (features, input_ids), target_ids, np.ones((1, 3), "float32")
paths = np.eye(3, dtype="float32")[list(itertools.product(range(3), repeat=3))]  # (27, words, regions)


def of_all_paths(captioner):
    """Return p(s | a) and log p(y | s, a) of all 27 paths."""
    decoded = captioner((features, np.repeat(input_ids, 27, axis=0)), noise=1e4 * paths)
    words = equations.word_log_probs(decoded.logits, np.repeat(target_ids, 27, axis=0))
    return ops.prod(ops.sum(decoded.attention_weights * paths, axis=-1), axis=1), ops.sum(words, axis=1)


# %% [markdown]
# ## What is maximised
#
# The probability of the caption is a sum over all paths, and its logarithm cannot be had without all of them. What is
# maximised instead is a lower bound, the mean of the logarithms, equation (10):
#
# $$L_s = \sum_s p(s \mid a) \log p(y \mid s, a) \;\le\; \log \sum_s p(s \mid a)\, p(y \mid s, a) = \log p(y \mid a).$$
#
# Here both can be computed, and the gradient of $L_s$, equation (11), by back-propagation through all paths.


# %%
def flat(gradients):
    return np.concatenate([np.ravel(tf.convert_to_tensor(gradient)) for gradient in gradients])


tiny = make_tiny()
with tf.GradientTape() as tape:
    path_probs, log_probs = of_all_paths(tiny)
    bound = ops.sum(path_probs * log_probs)
exact = flat(tape.gradient(bound, tiny.trainable_variables))
marginal = float(np.log(np.sum(path_probs * np.exp(log_probs))))
print(f"{len(path_probs)} paths, probabilities sum to {float(sum(path_probs)):.5f}")
print(f"L_s = {float(bound):.3f}, log p(y | a) = {marginal:.3f}; {len(exact)} weights")

# %% [markdown]
# ## REINFORCE
#
# With 196 regions and ten words nobody lists all paths. Equation (12) draws some instead. With what section 4.1 then
# adds to it, the baseline $b$, the entropy $H$ and two weights, it is
#
# $$\frac{\partial L_s}{\partial W} \approx \frac1N \sum_{n=1}^N \Big[ \frac{\partial \log p(y \mid \tilde s^n, a)}
# {\partial W} + \lambda_r \big(\log p(y \mid \tilde s^n, a) - b\big) \frac{\partial \log p(\tilde s^n \mid a)}
# {\partial W} + \lambda_e \frac{\partial H[\tilde s^n]}{\partial W} \Big].$$
#
# The second part makes a path more probable if the caption went well with it: better than the baseline $b$.
# `Captioner.objective` has this gradient. Average many of them, and compare with the exact one, once with
# $\lambda_r = 1$, and once with 0, where only the first part is left: for all weights, and for those of the attention,
# which decide where to look.


# %%
def draw_gradients(captioner, number):
    """Return so many estimates of the gradient: (number, weights)."""

    @tf.function
    def gradient():
        with tf.GradientTape() as tape:
            objective = captioner.objective(batch, training=True)
        return tape.gradient(objective.mean, captioner.trainable_variables)

    return -np.array([flat(gradient()) for _ in range(number)])


def distance(estimates, part):
    return np.linalg.norm((estimates.mean(axis=0) - exact)[part]) / np.linalg.norm(exact[part])


weights = tiny.trainable_variables
everywhere = np.ones(len(exact), dtype=bool)
of_attention = flat([tf.fill(weight.shape, "attention" in weight.path) for weight in weights])
away = {}
for reward_weight in (1.0, 0.0):
    captioner = make_tiny(reward_weight=reward_weight, num_samples=200)
    captioner.baseline.assign(bound)
    estimates = draw_gradients(captioner, 100)
    away[reward_weight] = [distance(estimates, part) for part in (everywhere, of_attention)]
    print(f"lambda_r = {reward_weight}, mean of 20,000 draws: ", end="")
    print("{:.0%} away from the exact gradient, {:.0%} for the attention".format(*away[reward_weight]))

# %% [markdown]
# Without the second part attention learns nothing, however many draws there are: nobody tells it where to look.
#
# ## Variance
#
# A single draw points anywhere. A baseline does not change the mean of the estimates, since the probabilities of all
# paths sum to 1 and their gradients to 0. But it changes how far they scatter: without one, *every* path is punished
# for the same poor caption, some more, some less. More draws help too.

# %%
variance, mean_norm = {}, {}
for name, options in (
    ("no baseline", {"use_baseline": False}),
    ("baseline", {}),
    ("baseline, 10 draws", {"num_samples": 10}),
    ("baseline, $\\lambda_r$ = 0.1", {"reward_weight": 0.1}),
):
    captioner = make_tiny(**options)
    captioner.baseline.assign(bound)
    estimates = draw_gradients(captioner, 1000)[:, of_attention]
    variance[name], mean_norm[name] = estimates.var(axis=0).sum(), np.linalg.norm(estimates.mean(axis=0))

no_baseline, with_baseline, ten_draws, tenth = variance.values()
_, ax = plt.subplots(figsize=(5, 2))
ax.plot(list(variance.values()), list(variance), "o")
ax.set_xscale("log")
ax.grid(axis="y")
ax.margins(y=0.15)
ax.invert_yaxis()
ax.set_xlabel("variance of the attention's gradient, summed over its weights")
plt.show()

# %% [markdown]
# The baseline does most of the work. With a $\lambda_r$ of 0.1 the estimates scatter a hundredth as much, but the
# attention's gradient is also only a tenth as long: it learns where to look more slowly than what to say. The paper set
# $\lambda_r$ by cross-validation.
#
# ## The baseline that is used
#
# Nobody knows $L_s$ while training. The paper takes a moving average of what was drawn, section 4.1:
# $b_k = 0.9\, b_{k-1} + 0.1 \log p(y \mid \tilde s_k, a)$.

# %%
captioner = make_tiny()
draw = tf.function(lambda: captioner.objective(batch, training=True).after_step())
baselines = []
for _ in range(150):
    draw()
    baselines.append(float(captioner.baseline))

_, ax = plt.subplots(figsize=(5, 2))
ax.plot(baselines, label="baseline")
ax.axhline(float(bound), color="black", linewidth=1, label="$L_s$")
ax.set_xlabel("draws")
ax.legend()
plt.show()

# %% [markdown]
# ## The entropy
#
# Once a place is drawn almost always, the others are no longer tried. The term with $\lambda_e$ pays for indecision.
# Take two photos that only a look can tell apart: the first word is *red* for one and *blue* for the other, two of
# their three regions tell which it is, and the means of their regions are the same.

# %%
two_photos = np.tile(np.eye(3, 4, dtype="float32"), (2, 1, 1))
two_photos[:, 0, 3], two_photos[:, 1, 3] = (1, -1), (-1, 1)
first_word = (two_photos, np.array([[1], [1]])), np.array([[4], [6]]), np.ones((2, 1), "float32")
entropies, word_losses = {}, {}
for entropy_weight in (0.0, 0.2):
    captioner = make_tiny(entropy_weight=entropy_weight, num_samples=10)
    captioner.compile("adam", learning_rate=0.02)
    step = tf.function(captioner.train_step)
    entropies[entropy_weight], word_losses[entropy_weight] = [], []
    for _ in range(300):
        step(first_word)
        decoded = captioner(first_word[0])
        entropies[entropy_weight].append(np.mean(equations.attention_entropy(decoded.attention_weights)))
        word_losses[entropy_weight].append(-np.mean(equations.word_log_probs(decoded.logits, first_word[1])))

_, (left, right) = plt.subplots(1, 2, figsize=(9, 2.4), layout="constrained")
left.axhline(np.log(3), color="black", linewidth=1, label="all regions alike")
right.axhline(np.log(2), color="black", linewidth=1, label="guessing")
for entropy_weight in entropies:
    left.plot(entropies[entropy_weight], label=rf"$\lambda_e$ = {entropy_weight:g}")
    right.plot(word_losses[entropy_weight], label=rf"$\lambda_e$ = {entropy_weight:g}")
left.set(xlabel="update", ylabel="entropy of the attention")
right.set(xlabel="update", ylabel="cross-entropy of the word")
left.legend()
right.legend()
plt.show()

# %% [markdown]
# Both learn the words. Without the term the entropy falls to nothing as soon as one place has helped: for each photo
# one region is drawn, always, and whatever another might have said is never found out. With it attention stays open,
# and pays for that with a slower start: before it has found a place that helps, the term alone pulls it towards
# looking everywhere alike. (So large a $\lambda_e$ suits so small a model. The captioners here were trained with
# .002.)
#
# ## Soft attention is the expectation
#
# Turn round. Soft attention takes the mean of all that could be drawn, equation (13):
# $\mathbb{E}_{p(s_t \mid a)}[\hat z_t] = \sum_i \alpha_{t,i}\, a_i$. The mean of $N$ drawn contexts comes closer to it
# as $1 / \sqrt N$.

# %%
grid = hard.encode(scene.image[None])
(a,), decoder = grid, hard.decoder
projected = decoder.project_features(grid)
state = decoder.initial_state(grid)
start_id = np.array([hard.vocabulary.start_token_id])
alpha = decoder.step(start_id, state, grid, projected).attention_weights[0].numpy()
expectation = alpha @ a
random, counts = np.random.default_rng(0), [1, 10, 100, 1000]
chances = alpha.astype("float64") / alpha.sum(dtype="float64")  # which sum to 1 exactly enough for NumPy
errors = [
    np.mean([np.linalg.norm(random.multinomial(n, chances) / n @ a - expectation) for _ in range(200)]) for n in counts
]
for n, error in zip(counts, errors):
    print(f"{n:>4} draws: {error:.3f} away, {error * n**0.5:.2f} / sqrt({n})")

# %% [markdown]
# ## How good an approximation is it?
#
# What is wanted is the mean of the *word probabilities* over all places, not of the contexts. Section 4.2 argues in two
# steps: the normalised weighted geometric mean of the probabilities is near their mean, and, since the logits $n$ are
# nearly linear in the context, it is near the softmax of the logits of the mean context:
#
# $$\mathrm{NWGM}[p(y_t = k \mid a)] = \frac{\prod_i \exp(n_{t,k,i})^{\alpha_{t,i}}}{\sum_j \prod_i
# \exp(n_{t,j,i})^{\alpha_{t,i}}} \approx \mathbb{E}[p(y_t = k \mid a)].$$
#
# With 256 regions all places of one step can be tried. Measure, at each word of some captions, how much probability
# is elsewhere (the total variation distance, 0 to 1): for the captioner trained with soft attention, and for the one
# trained with hard attention.


# %%
def three_answers(captioner, scenes):
    """Return E[p], NWGM and soft attention's p at each word of the captioner's own captions: (words, vocabulary)."""
    decoder, every_place = captioner.decoder, 1e4 * np.eye(256, dtype="float32")
    answers = []
    for scene in scenes:
        grid = captioner.encode(scene.image[None])
        projected, state = decoder.project_features(grid), decoder.initial_state(grid)
        word = start_id
        for _ in range(20):
            soft = decoder.step(word, state, grid, projected)
            rows = [tf.nest.map_structure(lambda x: ops.repeat(x, 256, axis=0), x) for x in (word, state)]
            logits = decoder.step(*rows, grid, projected, noise=every_place).logits  # (places, vocabulary)
            alpha = soft.attention_weights
            mean, geometric = alpha @ ops.softmax(logits), ops.softmax(alpha @ logits)
            answers.append([x[0].numpy() for x in (mean, geometric, ops.softmax(soft.logits))])
            word, state = ops.argmax(soft.logits, axis=-1), soft.state
            if word[0] == captioner.vocabulary.end_token_id:
                break
    return np.swapaxes(answers, 0, 1)


# %%
soft_as_hard = Captioner.from_pretrained("scenes").adapted(attention="hard")  # the weights of `scenes`, able to draw
some = draw_scenes(15, seed=1502)
variation, same_word = {}, {}
for name, captioner in (("scenes", soft_as_hard), ("scenes-hard", hard)):
    mean, geometric, soft = three_answers(captioner, some)
    pairs = {"NWGM to mean": (geometric, mean), "soft to NWGM": (soft, geometric), "soft to mean": (soft, mean)}
    variation[name] = {pair: float(np.abs(x - y).sum(axis=1).mean() / 2) for pair, (x, y) in pairs.items()}
    same_word[name] = np.mean(soft.argmax(axis=1) == mean.argmax(axis=1))
    print(f"{name}: {len(mean)} words, the same most probable word in {same_word[name]:.0%}")
    print("   ", ", ".join(f"{pair} {value:.3f}" for pair, value in variation[name].items()))

# %% [markdown]
# Soft attention is close to the NWGM in both: the logits are nearly linear in the context. How close that is to what is
# wanted depends on the model. The one that drew places in training had to be right at single places too, and its
# answer to their mean is nearly the mean of its answers. The other one never saw a single place, and is a little
# farther off; its maps are sharp too, and the most probable word is nearly always the same.
#
# ## Exercises
#
# 1. Is the distance greater where attention is spread? Let `three_answers` return the entropy of `alpha` too, and plot
#    one against the other.
# 2. Give `draw_gradients` a baseline that is far too high (`captioner.baseline.assign(10.0)`). What happens to the
#    variance, and what to the mean?
# 3. `hard.caption(..., sample_attention=True)` looks at one place for each word. Caption 200 scenes with it and without
#    it, and count the true captions (`data_utils.is_true`).
# 4. Gumbel-softmax. A place is drawn as the largest of $\log \alpha_{t,i} + g_i$, with Gumbel noise $g_i$
#    (`equations.sample_locations`). Replace "the largest" by a softmax with a temperature $\tau$,
#    $\mathrm{softmax}((\log \alpha_t + g) / \tau)$: it has a gradient, and for small $\tau$ it is nearly one-hot.
#    Hint: write a function of `(attention_weights, noise, sampled)` like `selections.hard` that does it,
#    name it in `keras_sat.ATTENTIONS` as a `Selection` that `draws_places`, and take
#    `make_tiny(attention=..., reward_weight=0.0)`: the gradient goes through the draw. Is it that of $L_s$? How does
#    its variance change with $\tau$?
#
# ## Next
#
# [chapter 7](07_words_out.ipynb) is about the other choice: which word, when the probabilities are there.
#
# The last cell checks what this notebook has claimed, and shows the first row above as a player: point at a word, or
# press play (where scripts run: GitHub shows none).

# %%
assert np.abs(drawn.attention_weights).max(axis=(1, 2)).min() == 1  # one place for each word
assert is_true(scene, weighed.caption) and not is_true(scene, drawn.caption)
assert drawn.words[1:4] == ["big", "yellow", "circle"]
assert len(path_probs) == 27 and abs(float(sum(path_probs)) - 1) < 1e-5 and float(bound) < marginal
assert away[1.0][0] < 0.05 and away[1.0][1] < 0.15 and away[0.0][1] > 0.999
assert with_baseline < 0.1 * no_baseline and abs(with_baseline / ten_draws / 10 - 1) < 0.4
assert abs(with_baseline / tenth / 100 - 1) < 0.4 and mean_norm["baseline"] > 3 * list(mean_norm.values())[3]
assert np.abs(np.array(baselines[50:]) - float(bound)).max() < 0.5
assert hard.entropy_weight == 0.002 and np.abs(np.diff(two_photos.mean(axis=1), axis=0)).max() == 0
assert entropies[0.0][0] > 1 and entropies[0.0][-1] < 0.05 and entropies[0.2][-1] > 0.3
assert max(curve[-1] for curve in word_losses.values()) < 0.05
assert np.argmax(np.array(word_losses[0.2]) < 0.3) > np.argmax(np.array(word_losses[0.0]) < 0.3)
assert 0.8 < errors[0] / (errors[3] * 1000**0.5) < 1.25
for name, values in variation.items():
    assert values["soft to NWGM"] < values["NWGM to mean"] < 0.1 and same_word[name] > 0.9
assert variation["scenes-hard"]["soft to mean"] < 0.9 * variation["scenes"]["soft to mean"] < 0.1
AttentionDisplay.from_result(weighed)
