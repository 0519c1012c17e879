# %% [markdown]
# # 03 · One step of attention by hand
#
# A captioner writes one word at a time. For each word it decides where to look, takes in what it sees there, remembers
# it, and chooses the word. This story does one such step with numpy alone, equation by equation, in the order and with
# the numbers of the paper (Xu et al., 2015). Then it asks the layer of the package for the same step, and finds the
# same numbers. In the end it writes a whole caption by hand.
#
# In two sentences: the decoder's state is a *query*, the 64 vectors of the picture are the *values*. Attention is the
# weighted sum of the values, with weights that depend on the query.

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

from data_utils import draw_scenes
from keras_sat import AttentionDisplay, Captioner, ground

plt.rcParams["figure.dpi"] = 80

# %% [markdown]
# ## The picture and its annotation vectors
#
# The shipped captioner of drawn scenes is small: $L = 256$ regions (16 x 16), annotation vectors of $D = 66$ numbers,
# states of $n = 128$, word vectors of $m = 32$, and $K = 45$ tokens. It has never seen this scene.
# [02](02_an_image_as_196_vectors.ipynb) has told where the vectors come from.

# %%
scene = next(scene for scene in draw_scenes(50, seed=1502) if len(scene.objects) == 2)
captioner = Captioner.from_pretrained("scenes")
features = captioner.encode(scene.image[None])  # (1, 256, 66)
a = features[0].astype("float64")

figure, ax = plt.subplots(figsize=(2.4, 2.4))
ax.imshow(scene.image)
ax.axis("off")
print("annotation vectors:", a.shape)

# %% [markdown]
# All that has been learned is in matrices. Here they are as plain arrays, under the names of the paper.

# %%
decoder = captioner.decoder
cell = decoder.cells[0]


def plain(weight):
    return ops.convert_to_numpy(weight).astype("float64")


def dense(layer):
    return plain(layer.kernel), plain(layer.bias)


E = plain(decoder.embedding.embeddings)
W_a, b = dense(decoder.attention_layer.feature_projection)
W_h, v = plain(decoder.attention_layer.state_projection.kernel), plain(decoder.attention_layer.score_vector)
f_h, f_c, f_beta = dense(decoder.initial_hidden), dense(decoder.initial_cell), dense(decoder.gate)
T_y, T_bias = dense(cell.input_projection)
T_h, T_z = plain(cell.recurrent_projection.kernel), plain(cell.context_projection.kernel)
L_o, L_bias = dense(decoder.readout.word_logits)
L_h, L_z = plain(decoder.readout.state_readout.kernel), plain(decoder.readout.context_readout.kernel)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


print("E", E.shape, " W_a", W_a.shape, " W_h", W_h.shape, " v", v.shape, " L_o", L_o.shape)

# %% [markdown]
# ## Before the first word
#
# Two small networks make the first state from the mean annotation vector:
#
# $$\mathbf{c}_0 = f_{init,c}\Big(\frac{1}{L} \sum_i^L \mathbf{a}_i\Big) \qquad
#   \mathbf{h}_0 = f_{init,h}\Big(\frac{1}{L} \sum_i^L \mathbf{a}_i\Big)$$
#
# The word before the first one is `<start>`.

# %%
mean_annotation = a.mean(axis=0)
h = np.tanh(mean_annotation @ f_h[0] + f_h[1])
c = np.tanh(mean_annotation @ f_c[0] + f_c[1])
y = captioner.vocabulary.start_token_id
print("h_0", h.shape, " c_0", c.shape)

# %% [markdown]
# ## 1. Score each region, (4)
#
# $$e_{ti} = f_{att}(\mathbf{a}_i, \mathbf{h}_{t-1}) =
#   \mathbf{v}^\top \tanh(\mathbf{W}_a \mathbf{a}_i + \mathbf{b} + \mathbf{W}_h \mathbf{h}_{t-1})$$
#
# $\mathbf{W}_a \mathbf{a}_i + \mathbf{b}$ does not change while a caption is written, so it is computed once for each
# picture: `projected_features`. The query is the state *before* this step.

# %%
projected_features = a @ W_a + b
e = np.tanh(projected_features + h @ W_h) @ v
print("scores", e.shape, "from", e.min().round(1), "to", e.max().round(1))

# %% [markdown]
# ## 2. Make a distribution of it, (5)
#
# $$\alpha_{ti} = \frac{\exp(e_{ti})}{\sum_{k=1}^L \exp(e_{tk})}$$
#
# The weights are positive and sum to one. (The largest score is subtracted first, which changes nothing and keeps `exp`
# from overflowing.)

# %%
alpha = np.exp(e - e.max())
alpha /= alpha.sum()

figure, (left, right) = plt.subplots(1, 2, figsize=(5.6, 2.6))
for ax, values, title in ((left, e, "scores e"), (right, alpha, "weights α")):
    shown = ax.imshow(values.reshape(16, 16))
    figure.colorbar(shown, ax=ax, shrink=0.7)
    ax.set_title(title)
    ax.axis("off")
print("sum of the weights", alpha.sum().round(6), " largest", alpha.max().round(3))

# %% [markdown]
# ## 3. Take in what is there, (13), through a gate
#
# $$\hat{\mathbf{z}}_t = \beta_t \sum_{i=1}^L \alpha_{ti} \mathbf{a}_i, \qquad
#   \beta_t = \sigma(f_\beta(\mathbf{h}_{t-1}))$$
#
# These three steps, score, distribution and weighted sum, are the same in every attention; what differs is the score
# ([04](04_kinds_of_attention.ipynb)), and whether one draws a region instead of taking the sum
# ([07](07_hard_attention.ipynb)). The gate $\beta$ lets the model look less where a word does not need the picture.

# %%
beta = sigmoid(h @ f_beta[0] + f_beta[1])
z = beta * (alpha @ a)
print("context", z.shape, " gate", beta.round(3))

# %% [markdown]
# ## 4. Remember, (1) to (3)
#
# An LSTM with three gates and a modulator. Each of them sees the last word, the last state and the context.
#
# $$\begin{pmatrix} \mathbf{i}_t \\ \mathbf{f}_t \\ \mathbf{o}_t \\ \mathbf{g}_t \end{pmatrix} =
#   \begin{pmatrix} \sigma \\ \sigma \\ \sigma \\ \tanh \end{pmatrix} T_{D+m+n,n}
#   \begin{pmatrix} \mathbf{E}\mathbf{y}_{t-1} \\ \mathbf{h}_{t-1} \\ \hat{\mathbf{z}}_t \end{pmatrix} \quad
#   \mathbf{c}_t = \mathbf{f}_t \odot \mathbf{c}_{t-1} + \mathbf{i}_t \odot \mathbf{g}_t \quad
#   \mathbf{h}_t = \mathbf{o}_t \odot \tanh(\mathbf{c}_t)$$
#
# The forget gate $\mathbf{f}$ says what of the memory is kept, the input gate $\mathbf{i}$ what is added of the new,
# the modulator $\mathbf{g}$, the output gate $\mathbf{o}$ what is shown. $T$ is three matrices side by side,
# one for each input.

# %%
gates = E[y] @ T_y + h @ T_h + z @ T_z + T_bias
i, f, o, g = np.split(gates, 4)
new_c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
new_h = sigmoid(o) * np.tanh(new_c)

# %% [markdown]
# ## 5. Choose a word, (7)
#
# $$p(\mathbf{y}_t | \mathbf{a}, \mathbf{y}_1^{t-1}) \propto
#   \exp(\mathbf{L}_o(\mathbf{E}\mathbf{y}_{t-1} + \mathbf{L}_h \mathbf{h}_t + \mathbf{L}_z \hat{\mathbf{z}}_t))$$

# %%
logits = (E[y] + new_h @ L_h + z @ L_z) @ L_o + L_bias
p = np.exp(logits - logits.max())
p /= p.sum()
best = np.argsort(-p)[:6]

figure, ax = plt.subplots(figsize=(4.5, 2))
ax.barh([captioner.vocabulary.tokens[token_id] for token_id in best[::-1]], p[best[::-1]])
ax.set_title("the first word")
print("first word:", captioner.vocabulary.tokens[best[0]])

# %% [markdown]
# ## The layer, equal
#
# `CaptionDecoder.step` is the same step for many captions at once, in 32 bits.

# %%
state = decoder.initial_state(features)
step = decoder.step(np.array([y]), state, features, decoder.project_features(features))
differences = {
    "h_0": np.abs(plain(state.hidden_states[0])[0] - h).max(),
    "alpha_1": np.abs(plain(step.attention_weights)[0] - alpha).max(),
    "h_1": np.abs(plain(step.state.hidden_states[0])[0] - new_h).max(),
    "c_1": np.abs(plain(step.state.cell_states[0])[0] - new_c).max(),
    "logits": np.abs(plain(step.logits)[0] - logits).max(),
}
for name, difference in differences.items():
    print(f"{name:8} differs by at most {difference:.1e}")

# %% [markdown]
# ## A whole caption
#
# The same lines in a function, called until `<end>`. The most probable word of each step is the input of the next one:
# greedy search. ([08](08_words_out.ipynb) has better ones.)


# %%
def one_step(y, h, c):
    e = np.tanh(projected_features + h @ W_h) @ v
    alpha = np.exp(e - e.max()) / np.exp(e - e.max()).sum()
    z = sigmoid(h @ f_beta[0] + f_beta[1]) * (alpha @ a)
    i, f, o, g = np.split(E[y] @ T_y + h @ T_h + z @ T_z + T_bias, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    h = sigmoid(o) * np.tanh(c)
    logits = (E[y] + h @ L_h + z @ L_z) @ L_o + L_bias
    return logits - np.log(np.exp(logits).sum()), alpha, h, c, sigmoid(f)


token_ids, maps, queries, forget_gates, log_prob = [], [], [], [], 0.0
y, state_h, state_c = captioner.vocabulary.start_token_id, h, c
while y != captioner.vocabulary.end_token_id and len(token_ids) < 20:
    queries.append(state_h)
    log_p, alpha, state_h, state_c, forget = one_step(y, state_h, state_c)
    y = int(log_p.argmax())
    log_prob += log_p[y]
    token_ids.append(y)
    maps.append(alpha.reshape(16, 16))
    forget_gates.append(forget)
words = captioner.vocabulary.ids_to_words(token_ids)
result = captioner.caption(scene.image, num_beams=1)
print("by hand:     ", " ".join(words), f"(log p {log_prob:.4f})")
print("by the layer:", result.caption, f"(log p {result.log_prob:.4f})")

# %% [markdown]
# ## Where it looked
#
# The words that may name something, each with its map laid over the picture: what has its colours got weight, and the
# line encloses the smallest region that has half of it. Nobody has ever told the model where the things are; it has
# only seen pictures and sentences.

# %%
display = AttentionDisplay(scene.image, words, np.array(maps[: len(words)]))
_ = display.plot()

# %% [markdown]
# In drawn scenes the place of each word is known, so we can measure how much of the weight is on the object that a word
# for a colour or a shape names. (Each weight is spread over the pixels of its cell.)

# %%
others = draw_scenes(100, seed=7)
grounding = ground(captioner.caption([other.image for other in others], num_beams=1), others)
print(f"weight on the object {grounding.mass:.0%}, if it looked everywhere alike {grounding.uniform_mass:.0%}")
print(f"the largest weight is on the object for {grounding.pointing:.0%} of {grounding.num_words} words")

# %% [markdown]
# ## Why the tanh is there
#
# Leave it out, as a "simplification":
# $e_{ti} = \mathbf{v}^\top(\mathbf{W}_a \mathbf{a}_i + \mathbf{b} + \mathbf{W}_h \mathbf{h}_{t-1})$. The second part is
# the same for all regions, and the softmax takes no notice of what is added to all scores alike. The attention then
# never moves, whatever the state. Below are the maps before each word, with the tanh and without, and how much of the
# weight moves between the two maps that differ most.


# %%
def softmax(scores):
    return np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()


with_tanh = np.array([softmax(np.tanh(projected_features + query @ W_h) @ v) for query in queries])
without = np.array([softmax((projected_features + query @ W_h) @ v) for query in queries])
moved, moved_without = (np.abs(maps[:, None] - maps).sum(axis=-1).max() / 2 for maps in (with_tanh, without))
figure, axes = plt.subplots(2, len(words), figsize=(9, 2.3))
for row, maps_of_row in zip(axes, (with_tanh, without)):
    for ax, word, map_of_word in zip(row, words, maps_of_row):
        ax.imshow(map_of_word.reshape(16, 16))
        ax.set_title(word, fontsize=9)
        ax.axis("off")
print(f"share of the weight that moves: {moved:.2f} with tanh, {moved_without:.2f} without")

# %% [markdown]
# ## What the forget gate is for
#
# Through a plain recurrent network a gradient is multiplied with the same matrix at each step, and fades away: the
# network cannot learn what is far apart. In an LSTM the way from $\mathbf{c}_{t-1}$ to $\mathbf{c}_t$ is a
# multiplication with $\mathbf{f}_t$, number by number. Where the gate is open, the memory and its gradient pass. The
# product of all forget gates says how much of the first memory is left at the end of the caption.

# %%
left_over = np.prod(forget_gates, axis=0)
figure, ax = plt.subplots(figsize=(5, 2))
ax.hist(left_over, bins=40, range=(0, 1))
ax.set_xlabel(f"share of a number of the memory that is left after {len(forget_gates)} steps")
print(f"largest {left_over.max():.2f}, median {np.median(left_over):.1e}")

# %% [markdown]
# Most numbers forget within a few words; some are kept nearly whole to the end. Each number has learned its own pace.
#
# ## Exercises
#
# 1. Set $\beta_t = 1$ in `one_step`. Does the caption change? For how many of 100 scenes?
# 2. Replace the weights by 1/256 everywhere, which is the vanilla model's way of looking, and write the caption again.
#    The model was not trained like that; [05](05_without_attention.ipynb) has one that was.
# 3. Replace the weights by a one where they are largest and zeros elsewhere. What does that change? It is what hard
#    attention comes close to.
# 4. `keras_sat.equations` has each equation as a function. Rewrite `one_step` with them.
#
# ## Next
#
# [04 · Kinds of attention](04_kinds_of_attention.ipynb) changes the score.
#
# The last cell checks what this notebook has claimed.

# %%
assert (a.shape, len(h), E.shape) == ((256, 66), 128, (45, 32))
assert abs(alpha.sum() - 1) < 1e-6 and (alpha > 0).all()
assert max(differences.values()) < 1e-4
assert words == result.words and token_ids[-1] == captioner.vocabulary.end_token_id
assert abs(log_prob - result.log_prob) < 1e-3
np.testing.assert_allclose(maps[: len(words)], result.attention_weights, atol=1e-4)
assert grounding.mass > 0.7 > 0.1 > grounding.uniform_mass and grounding.pointing > 0.9
assert moved > 0.7 and moved_without < 1e-9
assert left_over.max() > 0.8 and np.median(left_over) < 0.05
