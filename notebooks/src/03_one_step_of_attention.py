# %% [markdown]
# # 3 · One step of attention
#
# **You will be able to**
#
# * compute one step of the decoder in numpy, from the picture to the next word, and get the same numbers as the
#   package's layer
# * say what the *query*, the *keys* and the *values* are
# * explain why there is a tanh in the score and why three terms are added before the word is chosen
# * compare additive with dot-product attention, and say what a transformer adds
#
# **You need** numpy and the softmax. [Chapter 2](02_a_picture_as_vectors.ipynb) shows how the vectors of a picture are
# made. You do not need to know what an LSTM is.
#
# **Time:** 1 minute to run on two cores, and about an hour to think.
#
# [diagram]
#
# A captioner writes one word at a time. For each word, it decides where to look, reads what is there, updates its
# state and chooses the word. In this chapter, you compute one such step by hand, equation by equation, with the
# weights of a trained captioner. The equations are numbered as in the paper ([Xu et al.,
# 2015](https://arxiv.org/abs/1502.03044)).
#
# In one sentence: *attention* is a weighted mean of *values*, where the weight of each value depends on how well its
# *key* matches a *query*. In this model, the query is made from the decoder's state, which summarises the words so far
# and therefore determines what to look for next. The keys and the values are both made from the same annotation
# vectors, one for each region of the picture. The value is the annotation vector $\mathbf{a}_i$ itself, and the key is
# a projection of this vector, $\mathbf{W}_a\mathbf{a}_i + \mathbf{b}_a$.

# %%
from data_utils.base import import_tensorflow

tf = import_tensorflow()  # without its startup log

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import ops

from data_utils import draw_scenes
from keras_sat import AttentionDisplay, Captioner, equations, ground

plt.rcParams["figure.dpi"] = 100

# %% [markdown]
# ## The picture
#
# The captioner `scenes` comes with the package. It is a small model that generates captions for synthetic scenes of 64
# x 64 pixels. A scene has $L = 256$ regions (16 x 16), each with an annotation vector of $D = 66$ numbers: 64 from
# convolutions, and the region's row and column. The state has $n = 128$ numbers, a word vector has $m = 32$, and the
# vocabulary has $K = 45$ words and other tokens. The scene below was not in the captioner's training data.

# %%
captioner = Captioner.from_pretrained("scenes")
scene = next(scene for scene in draw_scenes(50, seed=1502) if len(scene.objects) == 2)
features = captioner.encode(scene.image[None])  # (1, 256, 66): one picture
a = features[0].astype("float64")  # (256, 66)

figure, ax = plt.subplots(figsize=(3, 3))
ax.imshow(scene.image)
ax.axis("off")
print("annotation vectors:", a.shape)

# %% [markdown]
# All that the decoder has learned is in its weights. The next cell copies the weights into plain numpy arrays, under
# the paper's names.

# %%
decoder = captioner.decoder
attention, cell, readout = decoder.attention_layer, decoder.cells[0], decoder.readout


def plain(weight):
    return ops.convert_to_numpy(weight).astype("float64")


E = plain(decoder.embedding.embeddings)  # (K, m): a row for each word
W_a, b_a = plain(attention.feature_projection.kernel), plain(attention.feature_projection.bias)
W_h, v = plain(attention.state_projection.kernel), plain(attention.score_vector)
W_beta, b_beta = plain(decoder.gate.kernel), plain(decoder.gate.bias)
T_y, b_T = plain(cell.input_projection.kernel), plain(cell.input_projection.bias)
T_h, T_z = plain(cell.recurrent_projection.kernel), plain(cell.context_projection.kernel)
L_h, L_z = plain(readout.state_readout.kernel), plain(readout.context_readout.kernel)
L_o, b_o = plain(readout.word_logits.kernel), plain(readout.word_logits.bias)
tokens = captioner.vocabulary.tokens


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


for name, array in (("E", E), ("W_a", W_a), ("W_h", W_h), ("v", v), ("T_h", T_h), ("L_o", L_o)):
    print(f"{name:4}{array.shape}")

# %% [markdown]
# ## Before the first word
#
# From one word to the next, the decoder keeps two vectors: the state $\mathbf{h}$, which the other parts of the model
# also read, and the cell $\mathbf{c}$, which only the LSTM reads. Before the first word, both vectors are computed from
# the mean annotation vector, each by its own layer:
#
# $$\mathbf{c}_0 = f_{\text{init},c}\Big(\frac{1}{L} \sum_{i=1}^L \mathbf{a}_i\Big) \qquad
#   \mathbf{h}_0 = f_{\text{init},h}\Big(\frac{1}{L} \sum_{i=1}^L \mathbf{a}_i\Big)$$
#
# So the decoder has a rough idea of the picture before it attends to any region. At the first step, the previous word
# is the token `<start>`.

# %%
mean_annotation = a.mean(axis=0)  # (D,)
h_0 = np.tanh(mean_annotation @ plain(decoder.initial_hidden.kernel) + plain(decoder.initial_hidden.bias))  # (n,)
c_0 = np.tanh(mean_annotation @ plain(decoder.initial_cell.kernel) + plain(decoder.initial_cell.bias))  # (n,)
y_0 = captioner.vocabulary.start_token_id
print("h_0", h_0.shape, " c_0", c_0.shape, " y_0", tokens[y_0])

# %% [markdown]
# ## 1. Score each region, (4)
#
# How well does region $i$ fit the query? The paper's $f_{att}$ is a multilayer perceptron with one hidden layer. Its
# inputs are the annotation vector and the state. This is the *additive* attention of [Bahdanau et
# al.](https://arxiv.org/abs/1409.0473):
#
# $$e_{ti} = f_{att}(\mathbf{a}_i, \mathbf{h}_{t-1}) =
#   \mathbf{v}^\top \tanh(\mathbf{W}_a \mathbf{a}_i + \mathbf{b}_a + \mathbf{W}_h \mathbf{h}_{t-1})$$
#
# The query is made from the state *before* this step: the next state is not known yet, because the LSTM needs the
# context to compute it. The keys do not change from word to word, so they are computed only once for each picture.
#
# **Your turn.** Write equation (4) for all regions at once. `keys` has the shape `(256, 64)`, and `query` has the shape
# `(64,)`. When you add the two, numpy adds the query to each row of the keys.

# %% gap="scores"
keys = a @ W_a + b_a  # (256, 64)
query = h_0 @ W_h  # (64,)

e = ...  # your turn: (256,)

# %% check="scores" empty="e"
in_32_bits = [array.astype("float32") for array in (keys[None], query[None], v)]
expected = equations.additive_scores(*in_32_bits)
assert np.shape(e) == (256,), "There should be a score for each of the 256 regions."
assert np.allclose(e, expected[0], atol=1e-3), "Not the scores of (4): is the tanh around the whole sum?"
print(f"{len(e)} scores, from {e.min():.1f} to {e.max():.1f}")

# %% [markdown]
# ## 2. Normalise the scores, (5)
#
# $$\alpha_{ti} = \frac{\exp(e_{ti})}{\sum_{k=1}^L \exp(e_{tk})}$$
#
# The softmax turns the scores into weights, which are positive and add up to 1. The softmax is *shift-invariant*: if
# you add a number to all scores, the weights stay the same, since the exponential of that number cancels in the
# fraction. So you may subtract the largest score from all scores first, which keeps `exp` from overflowing.
#
# **Predict.** The best score is about 23 above the worst score. How many of the 256 regions share nine tenths of the
# weight: 4, 40 or 140?
#
# **Your turn.** Write equation (5), the softmax of the scores.

# %% gap="weights"
alpha = ...  # your turn: (256,)

# %% check="weights" empty="alpha"
assert np.shape(alpha) == (256,), "There should be a weight for each of the 256 regions."
assert np.isclose(alpha.sum(), 1), "Weights must add up to 1: divide by the sum."
assert np.allclose(alpha, equations.attention_weights(e[None])[0], atol=1e-5), "Not the softmax."
from_the_largest = np.sort(alpha)[::-1]
num_regions = 1 + np.flatnonzero(from_the_largest.cumsum() >= 0.9)[0]
print(f"{num_regions} of {len(alpha)} regions share nine tenths of the weight; ", end="")
print(f"the largest weight is {alpha.max():.2f}")

# %%
figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
axes[0].imshow(scene.image)
axes[0].set_title("the scene")
for ax, values, title in ((axes[1], e, "scores e"), (axes[2], alpha, "weights α")):
    shown = ax.imshow(values.reshape(16, 16))
    figure.colorbar(shown, ax=ax, shrink=0.8)
    ax.set_title(title)
for ax in axes:
    ax.axis("off")

# %% [markdown]
# <details><summary>What happened</summary>
#
# Four regions share nine tenths of the weight. The softmax turns differences into ratios: a region whose score is 5
# below the best score gets $e^{-5}$ times the largest weight, less than a hundredth of it. Only 8 regions have a score
# that is at most 5 below the best. All 8 regions touch the objects, which cover dozens of cells. So the model reads an
# object from a few of its cells, not from all of them.
#
# </details>
#
# ## 3. Compute the context vector, (13), and gate it
#
# $$\hat{\mathbf{z}}_t = \beta_t \sum_{i=1}^L \alpha_{ti} \mathbf{a}_i, \qquad
#   \beta_t = \sigma(\mathbf{W}_\beta \mathbf{h}_{t-1} + b_\beta)$$
#
# The *context vector* $\hat{\mathbf{z}}_t$ is the weighted mean of the values, multiplied by a gate: 256 vectors have
# become one vector. The paper first writes the context vector as $\hat{\mathbf{z}}_t = \phi(\{\mathbf{a}_i\},
# \{\alpha_{ti}\})$, equation (6), and leaves $\phi$ open. In *soft attention*, $\phi$ is this gated mean; in *hard
# attention*, it is the vector of one region, sampled with the probabilities $\alpha_{ti}$. Every kind of soft attention
# has the same three steps: score, normalise, average. Equation (13) is the mean without the gate. The gate $\beta_t$, a
# number between 0 and 1, is from section 4.2.1 of the paper. With a small gate, the model reads less of the picture at
# a word that does not need it. But nothing in the loss asks for a small gate: in this chapter's caption, the gate stays
# above .75, even at "is" and at `<end>` (exercise 1).
#
# **Your turn.** Write the gated context vector. The next cell already computes the gate.

# %% gap="context"
beta = sigmoid(h_0 @ W_beta + b_beta)  # (1,)

z = ...  # your turn: (66,)

# %% check="context" empty="z"
expected = beta * equations.attended_features(alpha[None], features.astype("float64"))[0]
assert np.shape(z) == (66,), "The context should be as long as an annotation vector, 66."
assert np.allclose(z, expected, atol=1e-4), "Not (13), gated: the mean of the rows, weighted by alpha, times beta."
print(f"context {z.shape}, gate {beta[0]:.2f}")

# %% [markdown]
# ## 4. Update the state and the cell, (1) to (3)
#
# The LSTM has three *gates*, $\mathbf{i}$, $\mathbf{f}$ and $\mathbf{o}$, and candidate values $\mathbf{g}$. Each of
# the four is computed from the previous word, the previous state and the context. The code multiplies each of these
# three inputs by a matrix of its own and adds the products. The paper stacks the inputs and multiplies them by one big
# matrix, with the same result:
#
# $$\begin{pmatrix} \mathbf{i}_t \\ \mathbf{f}_t \\ \mathbf{o}_t \\ \mathbf{g}_t \end{pmatrix} =
#   \begin{pmatrix} \sigma \\ \sigma \\ \sigma \\ \tanh \end{pmatrix} T_{D+m+n,n}
#   \begin{pmatrix} \mathbf{E}\mathbf{y}_{t-1} \\ \mathbf{h}_{t-1} \\ \hat{\mathbf{z}}_t \end{pmatrix} \qquad (1)$$
#
# $$\mathbf{c}_t = \mathbf{f}_t \odot \mathbf{c}_{t-1} + \mathbf{i}_t \odot \mathbf{g}_t \quad (2) \qquad
#   \mathbf{h}_t = \mathbf{o}_t \odot \tanh(\mathbf{c}_t) \quad (3)$$
#
# (The paper writes $T_{D+m+n,n}$, but the result has $4n$ numbers: $n$ for each of the three gates, and $n$ for the
# candidates. So `T_h`, the part of the matrix that multiplies the state, is 128 x 512. The code also adds biases that
# the paper leaves out: `b_T` here and `b_o` in (7).)
#
# The gates act element by element ($\odot$). The *forget gate* $\mathbf{f}$ decides how much of the cell is kept. The
# *input gate* $\mathbf{i}$ decides how much of the candidates $\mathbf{g}$ is added, and the *output gate* $\mathbf{o}$
# decides how much of the cell becomes the new state.
#
# **Your turn.** Write equations (2) and (3). The next cell already computes the gates and the candidates, including the
# sigmoid and the tanh of (1).

# %% gap="memory"
summed = E[y_0] @ T_y + h_0 @ T_h + z @ T_z + b_T  # (4n,)
i, f, o, g = np.split(summed, 4)  # (n,) each
i, f, o, g = sigmoid(i), sigmoid(f), sigmoid(o), np.tanh(g)

c_1 = ...  # your turn: (n,)
h_1 = ...  # your turn: (n,)

# %% check="memory" empty="h_1"
expected_h, expected_c = equations.lstm(summed[None], c_0[None])
assert np.shape(c_1) == np.shape(h_1) == (128,), "The cell and the state should have 128 numbers each."
assert np.allclose(c_1, expected_c[0], atol=1e-5), "Not the cell of (2): f keeps the old, i adds the new."
assert np.allclose(h_1, expected_h[0], atol=1e-5), "Not the state of (3): o times tanh of the new cell."
print(f"the forget gates are between {f.min():.2f} and {f.max():.2f}")

# %% [markdown]
# ## 5. Choose a word, (7)
#
# $$p(\mathbf{y}_t | \mathbf{a}, \mathbf{y}_1, \dots, \mathbf{y}_{t-1}) \propto
#   \exp(\mathbf{L}_o(\mathbf{E}\mathbf{y}_{t-1} + \mathbf{L}_h \mathbf{h}_t + \mathbf{L}_z \hat{\mathbf{z}}_t))$$
#
# The exponent is a vector with one number for each word of the vocabulary: the word's *logit*. A softmax turns the
# logits into probabilities. The paper calls this a *deep output* layer, after [Pascanu et
# al.](https://arxiv.org/abs/1312.6026), who put further layers between the state and the output. In this model, the
# layer also reads the context and the previous word.

# %%
logits = (E[y_0] + h_1 @ L_h + z @ L_z) @ L_o + b_o  # (K,)
p = np.exp(logits - logits.max())
p /= p.sum()
best = np.argsort(-p)[:6]

figure, ax = plt.subplots(figsize=(10, 2.4))
ax.bar([tokens[token_id] for token_id in best], p[best])
ax.set_title("the most probable first words")
print("first word:", tokens[best[0]])

# %% [markdown]
# ## Check against the layer
#
# `CaptionDecoder.step` computes the same step for many captions at once, with 32-bit floats. The next cell shows that
# your numbers agree with the layer's.

# %%
state = decoder.initial_state(features)
step = decoder.step(np.array([y_0]), state, features, decoder.project_features(features))
differences = {
    "h_0": np.abs(plain(state.hidden_states[0])[0] - h_0).max(),
    "alpha_1": np.abs(plain(step.attention_weights)[0] - alpha).max(),
    "h_1": np.abs(plain(step.state.hidden_states[0])[0] - h_1).max(),
    "c_1": np.abs(plain(step.state.cell_states[0])[0] - c_1).max(),
    "logits": np.abs(plain(step.logits)[0] - logits).max(),
}
for name, difference in differences.items():
    print(f"{name:8} differs by at most {difference:.0e}")

# %% [markdown]
# Keras, too, has a layer for additive attention, `keras.layers.AdditiveAttention`. Its inputs are the query, the values
# and the keys. This layer has no projections of its own, so you pass the projected query and keys; $\mathbf{v}$ is its
# `scale`.

# %%
keras_attention = keras.layers.AdditiveAttention()
inputs = [array[None].astype("float32") for array in (query[None], a, keys)]  # query, values, keys
keras_attention(inputs)  # creates the weight
keras_attention.set_weights([v])
by_keras, weights_of_keras = keras_attention(inputs, return_attention_scores=True)
keras_difference = np.abs(plain(weights_of_keras)[0, 0] - alpha).max()
context_difference = np.abs(beta * plain(by_keras)[0, 0] - z).max()
print(f"weights differ by at most {keras_difference:.0e}, contexts by {context_difference:.0e}")

# %% [markdown]
# ## A whole caption
#
# The next cell puts the code of one step into a function, and calls it until the chosen word is `<end>`. The most
# probable word of each step is the input of the next step. Choosing words in this way is called *greedy search*;
# [chapter 7](07_words_out.ipynb) shows better ways.


# %%
def softmax(scores):
    exponentials = np.exp(scores - scores.max())
    return exponentials / exponentials.sum()


def one_step(y, h, c, attend=lambda query: softmax(np.tanh(keys + query) @ v), gate=None):
    """Return the log probabilities of the next word, and alpha, z, h, c and the forget gate of this step."""
    alpha = attend(h @ W_h)
    beta = sigmoid(h @ W_beta + b_beta) if gate is None else gate
    z = beta * (alpha @ a)
    i, f, o, g = np.split(E[y] @ T_y + h @ T_h + z @ T_z + b_T, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    h = sigmoid(o) * np.tanh(c)
    logits = (E[y] + h @ L_h + z @ L_z) @ L_o + b_o
    return np.log(softmax(logits)), alpha, z, h, c, sigmoid(f)


def write(**options):
    """Return the words of the greedy caption, its log probability, and what `one_step` returned for each word."""
    y, h, c, words, log_prob, steps = y_0, h_0, c_0, [], 0.0, []
    while len(words) < 20:
        steps.append((h, *one_step(y, h, c, **options)))
        _, log_p, _, _, h, c, _ = steps[-1]
        y = int(log_p.argmax())
        log_prob += log_p[y]
        if tokens[y] == "<end>":
            break
        words.append(tokens[y])
    return words, log_prob, steps


words, log_prob, steps = write()
states_before, _, maps, contexts, states, _, forget_gates = (list(column) for column in zip(*steps))
maps = np.array(maps)
result = captioner.caption(scene.image, num_beams=1)
print("by hand:     ", " ".join(words), f"(log p {log_prob:.4f})")
print("by the layer:", result.caption, f"(log p {result.log_prob:.4f})")

# %% [markdown]
# The caption is true. The next cell shows where the attention was at each word that could name something in the
# picture. Nobody marked the objects in the training data: the model was trained only on pictures and sentences.

# %%
display = AttentionDisplay(scene.image, words, maps[: len(words)].reshape(-1, 16, 16))
_ = display.plot(width=10)

# %% [markdown]
# How is such an overlay made? The map has 16 x 16 weights, and the picture has 64 x 64 pixels, so each weight is spread
# over the pixels around its cell. (The paper enlarges its 14 x 14 weights by $2^4 = 16$ and blurs them with a Gaussian
# filter.) Regions with large weights keep their colours, and the line encloses the smallest area that has half of the
# total weight.
#
# In a synthetic scene, you know where each object is. So you can measure, for each word that names a colour or a shape,
# how much of the attention is on the object that it describes. The next cell does this for 100 other scenes.

# %%
others = draw_scenes(100, seed=7)
grounding = ground(captioner.caption([other.image for other in others], num_beams=1), others)
print(f"attention on the object: {grounding.mass:.0%} (a uniform map: {grounding.uniform_mass:.0%})")
print(f"the largest weight is on the object for {grounding.pointing:.0%} of {grounding.num_words} words")

# %% [markdown]
# ### Is the map shifted?
#
# Look closely at the maps of the shape words: the attention is to the left of the object's centre. Is this due to the
# pictures, or is the map itself shifted? Two tests answer this question. First, mirror the scenes, so that left becomes
# right: if something in the pictures attracted attention to the left, the attention would now be on the right. Second,
# train a linear classifier (a *probe*) to predict the shape from the vector of a single cell, and try cells in several
# columns around the object's centre. If the map were shifted, the cells that predict the shape best would be shifted,
# too.
#
# **Predict.** From which cell can the shape be predicted better: from a cell in the middle of the object, or from a
# cell at its edge?

# %%
singles = draw_scenes(1500, seed=5, max_objects=1)
boxes = np.array([single.objects[0].box for single in singles])  # left, top, right, bottom
centres = (boxes[:, :2] + boxes[:, 2:]) / 2  # column and row, in pixels
images = np.stack([single.image for single in singles])


def mean_offset(images, centres):
    """Return how far right of the object's centre attention is at the word for the shape, in cells of 4 pixels."""
    offsets = []
    for result, centre in zip(captioner.caption(list(images), num_beams=1), centres):
        for word, weights in zip(result.words, result.attention_weights):
            if word in ("circle", "square", "star", "triangle"):
                column = (np.asarray(weights).sum(axis=0) * (np.arange(16) + 0.5)).sum()
                offsets.append(column - centre[0] / 4)
    return np.mean(offsets)


mirrored, mirrored_centres = images[:, :, ::-1], np.array([64, 0]) + centres * np.array([-1, 1])
offset = mean_offset(images[:300], centres[:300])
offset_mirrored = mean_offset(mirrored[:300], mirrored_centres[:300])
print(f"attention is {offset:+.1f} cells off the centre, in mirrored scenes {offset_mirrored:+.1f}")

shapes = np.array([["circle", "square", "star", "triangle"].index(single.objects[0].shape) for single in singles])


def readable(images, centres):
    """Return how often a probe reads the shape from one cell, by how many cells it is right of the centre."""
    vectors = captioner.encode(images)[:, :, :64]  # without row and column
    rows, columns = (centres[:, 1] // 4).astype(int), (centres[:, 0] // 4).astype(int)
    accuracy = {}
    for move in range(-4, 5):
        inputs = vectors[np.arange(1500), rows * 16 + np.clip(columns + move, 0, 15)]
        inputs = np.concatenate([inputs, np.ones((1500, 1))], axis=1)
        matrix, *_ = np.linalg.lstsq(inputs[:1000], np.eye(4)[shapes[:1000]], rcond=None)
        accuracy[move] = np.mean((inputs[1000:] @ matrix).argmax(axis=1) == shapes[1000:])
    return accuracy


accuracy, accuracy_mirrored = readable(images, centres), readable(mirrored, mirrored_centres)
figure, ax = plt.subplots(figsize=(10, 2.8))
for number, (values, label) in enumerate(((accuracy, "as drawn"), (accuracy_mirrored, "mirrored"))):
    ax.bar(np.array(list(values)) + 0.4 * (number - 0.5), list(values.values()), width=0.4, label=label)
    print(f"{label}: middle {values[0]:.0%}, one cell left {values[-1]:.0%}, one cell right {values[1]:.0%}")
ax.axhline(0.25, color="black", linestyle="--", linewidth=1)
ax.set(xlabel="cells to the right of the object's centre", title="how often the shape can be read from that one cell")
ax.set(ylabel="fraction of scenes", xticks=list(accuracy))
_ = ax.legend()

# %% [markdown]
# <details><summary>What happened</summary>
#
# The cells at both edges predict the shape better than the cell in the middle: a cell of this encoder sees only 8 x 8
# pixels, and the middle of a square looks like the middle of a circle. So the map is not shifted. Nor are the pictures
# the reason: in mirrored scenes, attention is still left of the middle. The model could read the shape from either
# edge, but with this encoder the left edge predicts the shape better, even in mirrored scenes. The encoder and the
# decoder were trained together, and have settled on the left edge.
#
# </details>
#
# ## Why there is a tanh in the score
#
# Suppose that you "simplify" the score by leaving out the tanh: $e_{ti} = \mathbf{v}^\top(\mathbf{W}_a \mathbf{a}_i +
# \mathbf{b}_a + \mathbf{W}_h \mathbf{h}_{t-1})$.
#
# **Predict.** How do the maps change from word to word without the tanh?

# %%
without = np.array([softmax((keys + h @ W_h) @ v) for h in states_before])


def moved(maps):
    """Return which fraction of the weight moves between the two maps that differ most."""
    return np.abs(maps[:, None] - maps).sum(axis=-1).max() / 2


figure, axes = plt.subplots(2, len(words), figsize=(10, 2.9), layout="constrained")
for row, maps_of_row, label in zip(axes, (maps, without), ("tanh", "no tanh")):
    for ax, word, weights in zip(row, words, maps_of_row):
        ax.imshow(weights.reshape(16, 16))
        ax.set(title=word, xticks=[], yticks=[])
    row[0].set_ylabel(label)
print(f"fraction of the weight that moves: {moved(maps):.2f} with tanh, {moved(without):.2f} without")

# %% [markdown]
# <details><summary>What happened</summary>
#
# Without the tanh, the maps do not change at all from word to word. The score splits into two terms. The first,
# $\mathbf{v}^\top (\mathbf{W}_a \mathbf{a}_i + \mathbf{b}_a)$, is the same for every word. The second, $\mathbf{v}^\top
# \mathbf{W}_h \mathbf{h}_{t-1}$, is the same for every region, so it cancels in the softmax. So without the tanh, the
# region and the state cannot interact. It is easy to overlook a missing tanh, because the model still trains without
# it.
#
# </details>
#
# ## What the LSTM keeps, and what it forgets
#
# In a plain recurrent network, the gradient is multiplied by the same matrix at every step on its way back. Usually the
# gradient shrinks. This *vanishing gradient* keeps plain recurrent networks from learning long-range dependencies. In
# an LSTM, each element of $\mathbf{c}_{t-1}$ is merely multiplied by a forget gate on its way to $\mathbf{c}_t$, as in
# equation (2). Where the forget gate is open, the element is passed on almost unchanged, and its gradient is passed
# back almost unchanged. So an LSTM can remember a number throughout a caption. Does this LSTM remember anything for
# that long? For each element of $\mathbf{c}_0$, multiply the forget gates of all steps: the product is the fraction of
# the element that is left at the end of the caption.
#
# **Predict.** For how many of the 128 elements is this fraction more than one half?

# %%
left_over = np.prod(forget_gates, axis=0)
figure, ax = plt.subplots(figsize=(10, 2.4))
ax.hist(left_over, bins=40, range=(0, 1))
ax.set(xlabel=f"fraction of an element of c_0 that is left after {len(forget_gates)} steps", ylabel="elements")
print(f"more than half is left of {np.sum(left_over > 0.5)}, less than a hundredth of {np.sum(left_over < 0.01)}")
print(f"largest {left_over.max():.2f}, median {np.median(left_over):.0e}")

# %% [markdown]
# <details><summary>What happened</summary>
#
# The fraction is more than one half for three elements, and close to 1 for one of them. For most elements, it is close
# to 0. So the LSTM *can* remember a number, but in this caption it keeps little of $\mathbf{c}_0$.
#
# </details>
#
# ## Why three terms are added, (7)
#
# In equation (7), you can multiply each of the three terms by $\mathbf{L}_o$ separately. Each term then gives every
# word a number, and the three numbers are added. So each term can raise or lower the logit of a word, and a large
# number can outweigh the other two. (Within one step, adding terms of the logits means multiplying unnormalised
# probabilities.) The term of the state, $\mathbf{L}_h \mathbf{h}_t$, is called *memory* below, because $\mathbf{h}_t$
# depends on everything that has been written and read so far.
#
# The LSTM has already read the previous word and the context, so why are they added again? After "left" comes "of",
# whatever the picture shows. The readout can predict such a word from the previous word alone, which leaves the state
# free for other information. The context is added again so that a colour, for example, can be read from the picture
# directly. But the context is also in $\mathbf{h}_t$, by equation (1). So if the memory term is large, part of it may
# come from what was read at this very step.
#
# **Predict.** The model has just said "a yellow circle is under a", and the next two words are "blue star". Which of
# the three terms favours "blue" over the other colours most strongly? Which term favours "star" over the other shapes?


# %%
def parts(position):
    """Return what the word, the memory and the picture give to each token at one position, next to the mean token."""
    y = y_0 if position == 0 else tokens.index(words[position - 1])
    terms = {"word": E[y], "memory": states[position] @ L_h, "picture": contexts[position] @ L_z}
    return {name: term @ L_o - (term @ L_o).mean() for name, term in terms.items()}


compared = {
    "blue": ["blue", "green", "orange", "purple", "red", "yellow"],
    "star": ["star", "circle", "square", "triangle"],
}
ahead = {}
figure, axes = plt.subplots(1, 2, figsize=(10, 3), layout="constrained")
for ax, (said, candidates) in zip(axes, compared.items()):
    found = parts(words.index(said))
    for number, (name, part) in enumerate(found.items()):
        given = [part[tokens.index(word)] for word in candidates]
        ahead[said, name] = given[0] - max(given[1:])
        ax.bar(np.arange(len(given)) + 0.27 * (number - 1), given, width=0.27, label=name)
    ax.axhline(0, color="black", linewidth=1)
    ax.set_xticks(range(len(candidates)), candidates)
    ax.set_title(f"... {words[words.index(said) - 1]} → {said}")
axes[1].legend(loc="upper center")
for (said, name), lead in ahead.items():
    print(f"{said}: the {name:8} puts it {lead:+.1f} ahead of the next best")

# %% [markdown]
# <details><summary>What happened</summary>
#
# The memory term favours colours in general, but it is mainly the picture term that favours *blue* over the other
# colours. For *star*, the memory term is decisive. Did the LSTM read the shape at this step, or at an earlier one? To
# find out, blindfold the model for this one step: with the gate at 0, neither the LSTM nor the readout gets anything
# from the picture. The model still says "star", so it must have read the shape at an earlier step.
#
# </details>
#
# %%
position = words.index("star")
_, _, _, _, _, cell_before, _ = steps[position - 1]
log_p_blind, *_ = one_step(tokens.index("blue"), states_before[position], cell_before, gate=0.0)
log_p_seeing = steps[position][1]
for name, log_p in (("seeing", log_p_seeing), ("blind", log_p_blind)):
    print(f"{name:8} {tokens[log_p.argmax()]} with probability {np.exp(log_p.max()):.3f}")

# %% [markdown]
# The package can compute the three terms for you: `captioner.trace` splits each logit into these parts. The picture's
# part is itself a sum over regions, because $\hat{\mathbf{z}}_t$ is a sum over regions. `captioner.trace` shows this
# sum as the *votes* of the regions for a word ([docs/trace.md](../docs/trace.md) has the formulas).

# %%
trace = captioner.trace(scene.image, " ".join(words))
position = words.index("blue")
blue, yellow = (trace.candidate(position, word) for word in ("blue", "yellow"))
lead_by_trace = {name: blue.parts[name] - yellow.parts[name] for name in ("previous_word", "memory", "photo")}
by_hand = [parts(position)[name] for name in ("word", "memory", "picture")]
lead_by_hand = [part[tokens.index("blue")] - part[tokens.index("yellow")] for part in by_hand]
print("blue before yellow, by trace:", *(f"{lead:.2f}" for lead in lead_by_trace.values()))
print("                    by hand:", *(f"{lead:.2f}" for lead in lead_by_hand))

# %% [markdown]
# ### What a map does not tell you
#
# An attention map shows how much of each region is *read* at one step. The map does not show which word a region
# supports, because all words of the vocabulary share the map. Nor does a map show what was read from a region, or
# whether the model needed the region: at "star", the map highlights the star, but the blindfolded model said "star",
# too. A word may come from memory, that is, from what was read at earlier steps. The votes show which word a region
# supports. To find out whether a word *depends* on a region, remove the region and run the model again.
#
# ## Other scores
#
# Kinds of soft attention differ in the first of the three steps, the score. Two other scores are common ([Luong et
# al.](https://arxiv.org/abs/1508.04025)):
#
# * *Dot-product* attention, $e_{ti} = \mathbf{a}_i^\top \mathbf{h}_{t-1}$: a region scores high if its vector points in
#   the same direction as the state. This score has no weights to learn.
# * *Bilinear* (or multiplicative) attention, $e_{ti} = \mathbf{a}_i^\top \mathbf{W} \mathbf{h}_{t-1}$: a matrix first
#   maps the state into the space of the annotation vectors.
#
# Dot-product attention needs the state and the annotation vectors to have the same dimension. The next cell computes
# the attention weights by hand, with the dot-product score and with the bilinear score. It compares them with the
# weights from the package's layers and, for the dot product, from `keras.layers.Attention`.

# %%
from keras_sat import BilinearAttention, DotAttention

short_state = np.random.default_rng(0).normal(size=66)  # as long as an annotation vector
W = np.random.default_rng(1).normal(size=(128, 66)) / 10


def largest_difference(one, other):
    return np.abs(plain(one).ravel() - plain(other).ravel()).max()


dot_by_hand = softmax(a @ short_state)
_, dot_by_layer, *_ = DotAttention()(short_state[None].astype("float32"), features)
inputs = [array[None].astype("float32") for array in (short_state[None], a)]  # query, and keys that are the values
_, dot_by_keras = keras.layers.Attention()(inputs, return_attention_scores=True)

bilinear = BilinearAttention()
bilinear.build((1, 128), (1, 256, 66))
bilinear.state_projection.set_weights([W])
bilinear_by_hand = softmax(a @ (h_0 @ W))
_, bilinear_by_layer, *_ = bilinear(h_0[None].astype("float32"), features)

equal = {
    "dot, the package": largest_difference(dot_by_hand, dot_by_layer),
    "dot, Keras": largest_difference(dot_by_hand, dot_by_keras),
    "bilinear, the package": largest_difference(bilinear_by_hand, bilinear_by_layer),
}
for name, difference in equal.items():
    print(f"{name:22} differs by at most {difference:.0e}")

# %% [markdown]
# Take the paper's sizes: 196 regions, and 512 numbers in every vector. How much computation does each of the three
# scores need? The next cell counts the multiplications that are needed once for each photo, and those that are needed
# for each word. (The additive score also computes 196 x 512 tanhs for each word.)

# %%
L, D, n, k = 196, 512, 512, 512
costs = {"additive": (L * D * k, n * k + L * k), "dot": (0, L * D), "bilinear": (0, n * D + L * D)}
for name, (once, each_word) in costs.items():
    print(f"{name:10}{once:>12,} multiplications once, {each_word:>8,} at each word")

# %% [markdown]
# ## From here to the transformer
#
# Each part of a transformer's attention ([Vaswani et al., 2017](https://arxiv.org/abs/1706.03762)) is a small change to
# what you have just computed:
#
# * *Scaled* dot products: the dot products of random vectors grow with the dimension $d$ of the vectors, which makes
#   their softmax nearly one-hot and its gradient nearly 0. So a transformer divides the dot products by $\sqrt{d}$.
# * *Projections* for the queries, the keys and the values: $\mathbf{Q} = \mathbf{X}\mathbf{W}_Q$, $\mathbf{K} =
#   \mathbf{A}\mathbf{W}_K$, $\mathbf{V} = \mathbf{A}\mathbf{W}_V$. Here, each row of $\mathbf{X}$ is a state, and each
#   row of $\mathbf{A}$ is an annotation vector. In the additive score, the query and the keys had projections, but the
#   values had none.
# * *Multi-head attention*: several small *heads* of attention work side by side, each with a map of its own. The
#   contexts of the heads are concatenated and projected.
# * *Cross-attention* attends to the picture, as in this chapter. *Self-attention* attends to the caption itself and
#   replaces the LSTM. Without an LSTM, no word has to wait for the state of the previous word, and in training all
#   words of a caption are computed in parallel.
#
# $$\text{head} = \text{softmax}\Big(\frac{\mathbf{Q}\mathbf{K}^\top}{\sqrt{d}}\Big)\mathbf{V}$$
#
# **Your turn.** Write one head. `Q` has the shape `(C, d)`, for `C` queries; `K` and `V` have the shape `(256, d)`. The
# function `softmax_rows` applies the softmax to each row.


# %% gap="head"
def softmax_rows(scores):
    return np.array([softmax(row) for row in scores])


def head(Q, K, V):
    """Return the contexts (C, d) of C queries, by scaled dot-product attention."""
    return ...  # your turn


# %% check="head" empty="head(np.ones((2, 4)), np.ones((3, 4)), np.ones((3, 4)))"
trial_rng = np.random.default_rng(0)
trial_Q, trial_K, trial_V = (trial_rng.normal(size=(number, 16)) for number in (2, 5, 5))
expected = [softmax(row) @ trial_V for row in trial_Q @ trial_K.T / 4]
trial_context = head(trial_Q, trial_K, trial_V)
assert np.shape(trial_context) == (2, 16), "There should be a context of length d for each query."
assert np.allclose(trial_context, expected), "Not a head: do you divide by sqrt(d)?"

# %% [markdown]
# Now let all states of the caption attend to the picture in parallel, with two heads, and compare the result with
# `keras.layers.MultiHeadAttention`. (Instead of concatenating the heads and projecting the result, you can project each
# head with its part of $\mathbf{W}_O$ and add the projections. The weights are random, since only the shapes and the
# formulas matter here.)

# %%
multi_head = keras.layers.MultiHeadAttention(num_heads=2, key_dim=16, use_bias=False)
X, A = np.array(states_before), a  # (C, 128) and (256, 66)
by_layer = plain(multi_head(X[None].astype("float32"), A[None].astype("float32")))[0]
W_Q, W_K, W_V, W_O = (plain(weight) for weight in multi_head.weights)  # (128, 2, 16), (66, 2, 16), ..., (2, 16, 128)
heads = [head(X @ W_Q[:, number], A @ W_K[:, number], A @ W_V[:, number]) for number in range(2)]
by_heads = sum(context @ W_O[number] for number, context in enumerate(heads))
multi_head_difference = np.abs(by_heads - by_layer).max()
print(f"{by_heads.shape[0]} queries, 2 heads: differs from the layer by at most {multi_head_difference:.0e}")

# %% [markdown]
# ## Exercises
#
# **1.** Set the gate to 1 (`write(gate=1.0)`). Does the caption change? And does it change with the gate at 0, so that
# the model gets nothing from the picture but its initial state?
#
# [solution 1]
#
# **2.** Replace all attention weights by 1/256, as a model without attention does. (This model was not trained with
# uniform weights; [chapter 4](04_why_attention.ipynb) has a model that was.) How much of the caption is still true?
#
# [solution 2]
#
# **3.** Let the model attend to one region only: give weight 1 to the region with the largest $\alpha$, and weight 0 to
# all others. (*Hard attention* comes close to this.) Is the caption still true?
#
# [solution 3]
#
# **4.** With `rng.normal`, sample 196 random keys and a random query of dimension $d = 4$; then do the same for
# $d = 64$ and $d = 512$. What is the largest attention weight for each dimension, with and without the division by
# $\sqrt{d}$?
#
# [solution 4]
#
# ## In five sentences
#
# Attention scores the regions, normalises the scores and takes the weighted mean of the regions' vectors. The query is
# made from the decoder's state; the keys and the values are made from the annotation vectors. The additive score needs
# its tanh, because without it the region and the state cannot interact. The logits of the next word are the sum of
# three terms (the previous word, the memory and the picture), and the map shows only where the picture was read at this
# step. Scale a dot product, project queries, keys and values, put several heads side by side, and you have the
# attention of a transformer.
#
# ## Next
#
# [Chapter 4](04_why_attention.ipynb) removes attention, and shows what is lost. For further reading, see [Bahdanau et
# al., 2014](https://arxiv.org/abs/1409.0473), who invented this attention for translation, and [The Annotated
# Transformer](https://nlp.seas.harvard.edu/annotated-transformer/). [docs/symbols.md](../docs/symbols.md) lists all
# symbols.

# %% maintainers=true
assert "is" in words and all(sigmoid(before @ W_beta + b_beta) > 0.75 for before in states_before)
assert (a.shape, len(h_0), E.shape) == ((256, 66), 128, (45, 32))
assert 22 < e.max() - e.min() < 24 and num_regions == 4 and np.exp(-5) < 0.01
on_objects = np.zeros((16, 16), bool)
for left, top, right, bottom in (item.box for item in scene.objects):
    on_objects[top // 4 : -(-bottom // 4), left // 4 : -(-right // 4)] = True
assert (e > e.max() - 5).sum() == 8 and on_objects.ravel()[e > e.max() - 5].all() and on_objects.sum() == 52
assert max(differences.values()) < 1e-4 and max(keras_difference, context_difference) < 1e-4
assert words == result.words and abs(log_prob - result.log_prob) < 1e-3
assert " ".join(words).startswith("a yellow circle is under a blue star")
np.testing.assert_allclose(maps[: len(words)], result.attention_weights.reshape(-1, 256), atol=1e-4)
assert grounding.mass > 0.7 > 0.1 > grounding.uniform_mass and grounding.pointing > 0.9
assert offset < -0.5 and offset_mirrored < -0.5
for values in (accuracy, accuracy_mirrored):
    assert values[-1] > values[1] > values[0] + 0.1 and values[-2] > values[2]
assert moved(maps) > 0.7 and moved(without) < 1e-9
assert left_over.max() > 0.9 and (left_over > 0.5).sum() == 3 and 85 < (left_over < 0.01).sum() < 105
assert max(("word", "memory", "picture"), key=lambda name: ahead["blue", name]) == "picture"
assert max(("word", "memory", "picture"), key=lambda name: ahead["star", name]) == "memory"
assert tokens[log_p_blind.argmax()] == "star" and np.exp(log_p_blind.max()) > 0.9
np.testing.assert_allclose(list(lead_by_trace.values()), lead_by_hand, atol=1e-3)
assert max(equal.values()) < 1e-5 and multi_head_difference < 1e-5
pixels = tf.Variable(np.random.default_rng(0).uniform(0, 255, (8, 64, 64, 3)).astype("float32"))
with tf.GradientTape() as tape:
    vectors_of_cell = tf.reshape(captioner.encoder_model(pixels), (8, 16, 16, -1))[:, 8, 8, :64]
    squares = tf.reduce_sum(vectors_of_cell**2)
influence = np.abs(tape.gradient(squares, pixels).numpy()).sum(axis=(0, 3))
for axis in (0, 1):
    assert np.ptp(np.flatnonzero(influence.any(axis=axis))) + 1 == 8  # a cell sees 8 x 8 pixels
