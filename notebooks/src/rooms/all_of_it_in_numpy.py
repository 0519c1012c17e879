# %% [markdown]
# # All of it in numpy
#
# **You will be able to**
#
# * write the backward pass of a whole captioner by hand, with a handful of rules
# * derive the backward pass of the softmax, and say what it means for attention
# * say where gradients are passed on and where they are added up
# * check a gradient by central differences, and against TensorFlow's tape
#
# **You need** [chapter 3](../03_one_step_of_attention.ipynb), whose step you differentiate here, and the chain rule.
#
# **Time:** 1 minute to run on two cores, and about an hour to think.
#
# [diagram]
#
# A framework computes the gradients for you. This is convenient, but it hides how attention learns where to look. The
# file [show_attend_tell_numpy.py](../../keras_sat/show_attend_tell_numpy.py) has the whole model in numpy, including
# its gradients, without TensorFlow. In this notebook, you write the core of the backward pass yourself, for one
# caption. Then you train a model with the functions in the file.

# %%
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # for matrices as small as these, one thread is fastest

import matplotlib.pyplot as plt
import numpy as np

from keras_sat import show_attend_tell_numpy as whole_model

plt.rcParams["figure.dpi"] = 100
rng = np.random.default_rng(0)

# %% [markdown]
# ## A handful of rules
#
# Training minimises one number, the loss. Write $\text{d}x$ (`d_x` in code) for the derivative of the *loss* with
# respect to $x$, whatever $x$ is. So `d_x` has the shape of `x`. The backward pass goes through the lines of the
# forward pass in reverse order. At each line that computes `y` from `x`, the backward pass already has `d_y`, and
# computes `d_x` from `d_y`. The following rules are enough for nearly all lines of the model (`x`, `y`, `p` and `q` are
# vectors, `W` is a matrix):
#
# | forward | backward |
# |---|---|
# | `y = x @ W` | `d_x = W @ d_y`, `d_W = np.outer(x, d_y)` |
# | `y = p + q` | `d_p = d_y`, `d_q = d_y` |
# | `y = p * q` | `d_p = d_y * q`, `d_q = d_y * p` |
# | `y = tanh(x)` | `d_x = d_y * (1 - y**2)` |
# | `y = sigmoid(x)` | `d_x = d_y * y * (1 - y)` |
# | `x` is used twice | `d_x` is the *sum* of the gradients from both uses |
#
# How do you know that a gradient is right? Change one number slightly, first up and then down, and see how the loss
# changes. These *central differences* are slow, because each number takes two forward passes, but they need no
# derivation.


# %%
def by_differences(loss, x, change=1e-6):
    """Return the derivative of loss() with respect to each number of the array x."""
    gradient = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        value = x[place]
        x[place] = value + change
        above = loss()
        x[place] = value - change
        below = loss()
        x[place] = value
        gradient[place] = (above - below) / (2 * change)
    return gradient


# %% [markdown]
# ## The softmax
#
# One function in the model has no rule in the table: the softmax, which turns scores $e_i$ into weights $\alpha_i$.
# Suppose you know all $\text{d}\alpha_i$. Each score changes all weights, so each $\text{d}e_j$ is a sum over all
# regions. The logarithm of a weight is easier to differentiate than the weight itself:
#
# $$\log \alpha_i = e_i - \log \sum_k \exp e_k \qquad
#   \frac{\partial \log \alpha_i}{\partial e_j} = [i = j] - \alpha_j \qquad
#   \frac{\partial \alpha_i}{\partial e_j} = \alpha_i ([i = j] - \alpha_j)$$
#
# The last equation holds because $\partial\alpha = \alpha\, \partial \log \alpha$. Here $[i = j]$ is 1 if $i = j$, and
# 0 otherwise. Add up the contributions of all $\alpha_i$ to $\text{d}e_j$:
#
# $$\text{d}e_j = \sum_i \text{d}\alpha_i\, \alpha_i ([i = j] - \alpha_j)
#   = \alpha_j \Big(\text{d}\alpha_j - \sum_i \alpha_i\, \text{d}\alpha_i\Big)$$
#
# **Predict.** Suppose a region gets hardly any attention, although more attention to this region would reduce the loss
# more than attention to any other. Does the score of this region get a large gradient?
#
# **Your turn.** Write the backward pass of the softmax.


# %% gap="softmax"
def softmax(e):
    exponentials = np.exp(e - e.max())
    return exponentials / exponentials.sum()


def softmax_backward(alpha, d_alpha):
    """Return d_e, (L,)."""
    return ...  # your turn


# %% check="softmax" empty="softmax_backward(np.ones(2), np.ones(2))"
e, weights_of_loss = rng.normal(size=5), rng.normal(size=5)
expected = by_differences(lambda: softmax(e) @ weights_of_loss, e)
found_by_you = softmax_backward(softmax(e), weights_of_loss)
message = "Not the central differences: subtract the mean of d_alpha, weighted by alpha, and multiply by alpha."
assert np.allclose(found_by_you, expected, atol=1e-8), message

# %%
alpha = np.array([0.001, 0.599, 0.4])
d_alpha = np.array([-5.0, 0.0, -0.1])  # the loss falls most if region 0 gets more
d_e = softmax_backward(alpha, d_alpha)
for region in range(3):
    print(f"region {region}: alpha {alpha[region]:.3f}, d_alpha {d_alpha[region]:+.1f}, d_e {d_e[region]:+.4f}")
print(f"sum of d_e: {abs(d_e.sum()):.4f}")

# %% [markdown]
# <details><summary>What happened</summary>
#
# No: the gradient for region 0 is less than a quarter of the one for region 2, although more attention to region 0
# would help fifty times as much. The reason is the factor $\alpha_j$: a model that hardly reads a region can hardly
# find out that reading it would help. So it helps that the initial weights are small and random, which makes attention
# nearly uniform at first. The gradients of the scores sum to 0. Gradient descent raises the score of a region only if
# reading this region is better than reading the current weighted mean. So attention can only be *moved* from region to
# region.
#
# </details>
#
# ## One step, forwards and backwards
#
# Now take a model so small that central differences can check all its gradients. It has $L = 6$ regions of $D = 4$
# numbers, a vocabulary of 7 words, and a state of $n = 5$ numbers. The weights of this model are random, and have the
# same names as in show_attend_tell_numpy.py.

# %%
L, D, K, m, n = 6, 4, 7, 3, 5
w = whole_model.make_weights(K, D, embedding_dim=m, hidden_dim=n, attention_dim=4)
w = {name: rng.normal(size=weight.shape) for name, weight in w.items()}  # in 64 bits, biases too
a = rng.normal(size=(L, D))  # annotation vectors
read, told = [0, 3, 5, 2], [3, 5, 2, 1]  # a caption: the input words, and the target words
for name, weight in w.items():
    print(f"{name:24}{weight.shape}")

# %% [markdown]
# Each function below is followed by its backward pass. The forward function also returns what the backward pass needs
# (`kept`). The backward function adds the gradients of the weights to the dict `d_w`, and returns the gradients of its
# inputs. Compare `attend` with `attend_backward`, which goes through the lines of `attend` in reverse order.


# %%
def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def attend(keys, h):
    """Return beta z, from the keys (L, A) = W_a a_i + b and h_{t-1}."""
    hidden = np.tanh(keys + h @ w["state_projection"])  # (L, A)
    alpha = softmax(hidden @ w["score"])  # (4), (5)
    z = alpha @ a  # (13), (D,)
    beta = sigmoid(h @ w["gate"] + w["gate_bias"])  # (1,)
    return beta * z, (h, hidden, alpha, z, beta)


def attend_backward(d_w, kept, d_gated_z):
    """Return d_h and d_keys."""
    h, hidden, alpha, z, beta = kept
    # gated_z = beta * z
    d_beta, d_z = (d_gated_z * z).sum(), d_gated_z * beta
    # beta = sigmoid(h @ gate + gate_bias)
    d_before = d_beta * beta * (1 - beta)
    d_w["gate"] += np.outer(h, d_before)
    d_w["gate_bias"] += d_before
    # z = alpha @ a: more of region i moves z along a_i
    d_alpha = a @ d_z
    # alpha = softmax(hidden @ score)
    d_e = softmax_backward(alpha, d_alpha)
    d_w["score"] += d_e @ hidden
    d_hidden = np.outer(d_e, w["score"])
    # hidden = tanh(keys + h @ state_projection): all regions use the same h, so d_query is a sum
    d_keys = d_hidden * (1 - hidden**2)
    d_query = d_keys.sum(axis=0)
    d_w["state_projection"] += np.outer(h, d_query)
    d_h = w["gate"] @ d_before + w["state_projection"] @ d_query  # used twice
    return d_h, d_keys


# %% [markdown]
# The rest of the step consists of the LSTM (equations 1 to 3), the readout (equation 7) and the loss of the word,
# $-\log p$. You have already derived the gradient of the log of a softmax. So the gradient of logit $k$ is $p_k - [k
# \text{ is the word}]$, the amount by which word $k$ was too probable.


# %%
def step(keys, y, target, h, c):
    """Return -log p(target), and the next h and c."""
    gated_z, kept_by_attend = attend(keys, h)
    word = w["embedding"][y]
    x = np.concatenate([word, h, gated_z])
    i, f, o, g = np.split(x @ w["lstm_gates"] + w["lstm_gates_bias"], 4)
    i, f, o, g = sigmoid(i), sigmoid(f), sigmoid(o), np.tanh(g)
    new_c = f * c + i * g
    tanh_c = np.tanh(new_c)
    new_h = o * tanh_c
    readout = word + new_h @ w["state_readout"] + gated_z @ w["context_readout"]
    p = softmax(readout @ w["word_logits"] + w["word_logits_bias"])
    kept = (kept_by_attend, y, target, gated_z, x, (i, f, o, g), c, tanh_c, new_h, readout, p)
    return -np.log(p[target]), new_h, new_c, kept


def step_backward(d_w, kept, d_h_from_next, d_c_from_next):
    """Return d_old_h, d_old_c and d_keys, from the gradients of new_h and new_c that come from the next word."""
    kept_by_attend, y, target, gated_z, x, (i, f, o, g), c, tanh_c, new_h, readout, p = kept
    # loss = -log p[target], with p = softmax(logits)
    d_logits = p - np.eye(K)[target]
    # logits = readout @ word_logits + word_logits_bias
    d_w["word_logits"] += np.outer(readout, d_logits)
    d_w["word_logits_bias"] += d_logits
    d_readout = w["word_logits"] @ d_logits
    # readout = word + new_h @ state_readout + gated_z @ context_readout
    d_w["state_readout"] += np.outer(new_h, d_readout)
    d_w["context_readout"] += np.outer(gated_z, d_readout)
    d_h = d_h_from_next + w["state_readout"] @ d_readout  # used twice: by the next word, and by the readout
    # new_h = o * tanh_c, tanh_c = tanh(new_c)
    d_o = d_h * tanh_c
    d_c = d_c_from_next + d_h * o * (1 - tanh_c**2)  # used twice
    # new_c = f * c + i * g
    d_f, d_old_c, d_i, d_g = d_c * c, d_c * f, d_c * g, d_c * i
    # i, f, o, g = sigmoid, sigmoid, sigmoid, tanh of x @ lstm_gates + lstm_gates_bias
    d_gates = np.concatenate([d_i * i * (1 - i), d_f * f * (1 - f), d_o * o * (1 - o), d_g * (1 - g**2)])
    d_w["lstm_gates"] += np.outer(x, d_gates)
    d_w["lstm_gates_bias"] += d_gates
    # x = concatenate([word, h, gated_z])
    d_word, d_old_h, d_gated_z = np.split(w["lstm_gates"] @ d_gates, [m, m + n])
    # word = embedding[y], used by the readout and by the LSTM; gated_z, too
    d_w["embedding"][y] += d_word + d_readout
    d_gated_z = d_gated_z + w["context_readout"] @ d_readout
    d_old_h_from_attend, d_keys = attend_backward(d_w, kept_by_attend, d_gated_z)
    return d_old_h + d_old_h_from_attend, d_old_c, d_keys


# %% [markdown]
# ## All words of a caption
#
# In the forward pass, each step passes its $\mathbf{h}$ and $\mathbf{c}$ on to the next one. The loss of the caption is
# the sum of the losses of its words.


# %%
def forward():
    """Return the loss of the caption, and what its backward pass needs."""
    keys = a @ w["feature_projection"] + w["feature_projection_bias"]  # once for all words
    h = h_0 = np.tanh(a.mean(axis=0) @ w["initial_hidden"] + w["initial_hidden_bias"])
    c = c_0 = np.tanh(a.mean(axis=0) @ w["initial_cell"] + w["initial_cell_bias"])
    loss, kept_by_words = 0.0, []
    for y, target in zip(read, told):
        word_loss, h, c, kept = step(keys, y, target, h, c)
        loss += word_loss
        kept_by_words.append(kept)
    return loss, (h_0, c_0, kept_by_words)


# %% [markdown]
# The backward pass begins with the last word. The gradient of $\mathbf{h}_t$ comes partly from the next word, which
# reads $\mathbf{h}_t$, so the backward step of the next word has to come first. Gradients flow from word to word in two
# ways. The state is a different array at each word, and its gradient is *passed on* to the previous word. The keys are
# the same array for all words, so their gradients from all words are *added up*. The weights are the same for all
# words, too, so the code adds up their gradients with `+=`.
#
# **Your turn.** `of_word` is what `step_backward` returned for a word. Which three things are passed on to the previous
# word?


# %% gap="time"
def to_the_word_before(d_keys, of_word):
    """Return d_h, d_c and d_keys for the word before. `d_keys` is the sum over the words after this one."""
    d_old_h, d_old_c, d_keys_of_word = of_word
    return ...  # your turn: three things


def backward(kept):
    """Return the gradients of all weights, as a dict."""
    h_0, c_0, kept_by_words = kept
    d_w = {name: np.zeros_like(weight) for name, weight in w.items()}
    d_h, d_c, d_keys = np.zeros(n), np.zeros(n), np.zeros((L, 4))  # nothing reads the state after the last word
    for kept_by_word in reversed(kept_by_words):
        d_h, d_c, d_keys = to_the_word_before(d_keys, step_backward(d_w, kept_by_word, d_h, d_c))
    # keys = a @ feature_projection + feature_projection_bias
    d_w["feature_projection"] += a.T @ d_keys
    d_w["feature_projection_bias"] += d_keys.sum(axis=0)
    # h_0 and c_0 = tanh(mean of a @ .. + ..)
    for name, d_state, state in (("initial_hidden", d_h, h_0), ("initial_cell", d_c, c_0)):
        d_before = d_state * (1 - state**2)
        d_w[name] += np.outer(a.mean(axis=0), d_before)
        d_w[f"{name}_bias"] += d_before
    return d_w


# %% check="time" empty="to_the_word_before(0.0, (0.0, 0.0, 0.0))"
loss, kept = forward()
found_by_you = backward(kept)
for name, weight in w.items():
    message = f"d_{name} differs from central differences. The state is passed on; the keys are used by every word."
    assert np.allclose(found_by_you[name], by_differences(lambda: forward()[0], weight), atol=1e-6), message
num_weights = sum(weight.size for weight in w.values())
print(f"loss {loss:.3f}; the gradients of all {num_weights} weights agree with differences")

# %% [markdown]
# ## Against the file, and against TensorFlow
#
# The file show_attend_tell_numpy.py computes the same gradients for many captions at once. With TensorFlow, you write
# no backward pass: its *tape* records what the forward pass does, and then applies the same rules in reverse order.
#
# **Predict.** TensorFlow's gradients are computed in 32 bits, yours in 64. By how much do TensorFlow's gradients differ
# from yours?

# %%
from data_utils.base import import_tensorflow

tf = import_tensorflow()  # without its startup log

from keras_sat import show_attend_tell

d_w = backward(forward()[1])
batch = (a[None], np.array([[read]])), np.array([[told]]), np.ones((1, 1, len(read)))
*_, kept_by_file = whole_model.objective(w, batch, penalty_weight=0.0)
d_w_of_file, _ = whole_model.objective_backward(w, kept_by_file)

model = show_attend_tell.ShowAttendTell(K, embedding_dim=m, hidden_dim=n, attention_dim=4)
model(np.ones((1, L, D), "float32"), np.ones((1, 1), "int32"))  # creates its weights
variables = {name: getattr(model, name.removesuffix("_bias")) for name in w}
variables = {name: layer.bias if name.endswith("_bias") else layer.weights[0] for name, layer in variables.items()}
for name, variable in variables.items():
    variable.assign(w[name].reshape(variable.shape))  # v is a column there
with tf.GradientTape() as tape:
    logits, *_ = model(a[None].astype("float32"), np.array([read]))
    loss_of_tape = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits([told], logits))
d_w_of_tape = tape.gradient(loss_of_tape, variables)

difference = {"the file": 0.0, "TensorFlow": 0.0}
for name, gradient in d_w.items():
    of_tape = np.array(tf.convert_to_tensor(d_w_of_tape[name])).reshape(gradient.shape)
    for who, theirs in (("the file", d_w_of_file[name]), ("TensorFlow", of_tape)):
        difference[who] = max(difference[who], np.abs(theirs - gradient).max())
largest = max(np.abs(gradient).max() for gradient in d_w.values())
print(f"the largest gradient is {largest:.2f}")
for who, number in difference.items():
    print(f"{who:10} differs by at most {number:.0e}")

# %% [markdown]
# <details><summary>What happened</summary>
#
# TensorFlow's gradients differ from yours in the seventh digit, which is the precision of 32 bits. Your gradients and
# the file's, both in 64 bits, agree to 14 digits.
#
# </details>
#
# ## Train with it
#
# For training, the file has three more short functions. `clip` scales the gradients down if their global norm is above
# 5, `adam` updates the weights from moving averages of the gradients, and `train_step` does a whole training step. They
# are in [show_attend_tell_numpy.py](../../keras_sat/show_attend_tell_numpy.py), under "Training". Each scene in this
# section has two objects and two captions. A trained encoder turns each scene into 8 x 8 = 64 annotation vectors of 264
# numbers. To train for longer, run `python -m keras_sat.show_attend_tell_numpy`; add `--hard` to continue with hard
# attention afterwards.

# %%
from keras_sat import train_in_numpy
from keras_sat.export import load_litert

encoder = load_litert("scenes", num_threads=1)  # a small runtime: not TensorFlow either
scenes = train_in_numpy.scenes_of_two_objects(6000, seed=10_000)
unseen = train_in_numpy.scenes_of_two_objects(400, seed=1502)
features = train_in_numpy.encode(encoder, unseen)  # (scenes, 64, 264)
random = np.random.default_rng(0)
trained = whole_model.make_weights(len(encoder.vocabulary), 264, embedding_dim=32, hidden_dim=128, attention_dim=64)
state = whole_model.make_train_state(trained)
at_first = {name: weight.copy() for name, weight in trained.items()}

num_updates = 900
losses = []
batches = train_in_numpy.batches(encoder, scenes, epochs=99, random=random)
for update, batch in zip(range(1, num_updates + 1), batches):
    rate = train_in_numpy.learning_rate_of(update, num_updates, highest=1e-2)
    options = {"dropout": 0.0, "penalty_weight": 0.0, "learning_rate": rate}
    losses.append(whole_model.train_step(trained, state, batch, random, **options))

figure, ax = plt.subplots(figsize=(10, 3))
ax.plot(np.arange(10, num_updates + 1, 10), np.reshape(losses, (-1, 10)).mean(axis=1))
_ = ax.set(xlabel="update", ylabel="loss of a caption, in nats", ylim=(0, 30))

# %%
captions = whole_model.caption(trained, features, encoder.vocabulary)
true = train_in_numpy.share_of_true_captions(unseen, captions)
print(f"{len(scenes)} scenes, {num_updates} updates, {sum(weight.size for weight in trained.values()):,} weights")
print(f"{true:.0%} of the captions of {len(unseen)} unseen scenes are true")
for words, _ in captions[:4]:
    print("   ", " ".join(words))

# %% [markdown]
# You have now seen every derivative in this model. It describes four out of five scenes correctly. Where does the model
# look?

# %%
from data_utils import is_true
from keras_sat import AttentionDisplay

for scene, (words, maps) in list(zip(unseen, captions))[:2]:
    print("true: " if is_true(scene, " ".join(words)) else "false:", " ".join(words))
    AttentionDisplay(scene.image, words, maps.reshape(-1, 8, 8)).plot(width=10)

# %% [markdown]
# At the words for the second object of a caption, attention is only on this object. At the words for the first object,
# attention may also be on the second one, because the decoder must know where the second object is before it says
# "below" or "left" ([chapter 4](../04_why_attention.ipynb)). Attention is to the left of an object's middle, because
# this encoder recognises a shape by its edges ([chapter 3](../03_one_step_of_attention.ipynb)).
#
# ## How attention learns where to look
#
# Nobody marked the objects in the training scenes. So how does attention learn where the objects are? Train again for
# 150 updates, from the same initial weights. Then let the model read one ground-truth caption for each of two unseen
# scenes. At each word for a colour or a shape, look at $-\text{d}e_{ti}$, the direction in which gradient descent moves
# the scores.
#
# **Predict.** Which regions should get more attention (orange) at "yellow", and which less (purple)?

# %%
early = {name: weight.copy() for name, weight in at_first.items()}
state, random = whole_model.make_train_state(early), np.random.default_rng(0)
for _, batch in zip(range(150), train_in_numpy.batches(encoder, scenes, epochs=1, random=random)):
    whole_model.train_step(early, state, batch, random, dropout=0.0, penalty_weight=0.0, learning_rate=5e-3)

figure, axes = plt.subplots(2, 5, figsize=(10, 4.2), layout="constrained")
towards = []
for row, scene in zip(axes, unseen[:2]):
    (photo_features, ids), targets, weights = train_in_numpy.make_batch(encoder, [scene])
    *_, kept = whole_model.objective(early, ((photo_features, ids), targets, weights), penalty_weight=0.0)
    _, d_scores = whole_model.objective_backward(early, kept)
    caption_words = [encoder.vocabulary.tokens[number] for number in targets[0, 0]]
    row[0].imshow(scene.image)
    naming = [t for t, word in enumerate(caption_words) if any(word in item.looks for item in scene.objects)]
    for ax, t in zip(row[1:], naming):
        wanted = -d_scores[0, t].reshape(8, 8)
        limit = np.abs(wanted).max()
        ax.imshow(wanted, cmap="PuOr_r", vmin=-limit, vmax=limit)
        ax.set_title(caption_words[t])
        for item in scene.objects:
            left, top, right, bottom = item.box  # in pixels; a region has 8 x 8 of them
            is_named = caption_words[t] in item.looks
            towards.append((is_named, wanted[top // 8 : -(-bottom // 8), left // 8 : -(-right // 8)].sum()))
    for ax in row:
        ax.set(xticks=[], yticks=[])

# %% [markdown]
# <details><summary>What happened</summary>
#
# At each word, the gradient moves attention to the object that the word names, and away from the other object. The
# cause is one line of `attend_backward`, $\text{d}\alpha_i = \text{d}\mathbf{z} \cdot \mathbf{a}_i$. The word "yellow"
# was not probable enough, so $-\text{d}\mathbf{z}$ points in a direction that makes "yellow" more probable. The
# $\mathbf{a}_i$ of the yellow object point in such a direction, too. So the model learns where to look from the words
# that it should have said.
#
# </details>
#
# ## Exercises
#
# **1.** Leave out the mean in the softmax's backward pass: `return alpha * d_alpha`. Which gradients of the small model
# become wrong, which stay right, and why?
#
# [solution 1]
#
# **2.** *Hard attention* samples one region. With Gumbel noise, the sample $s$ is the region with the largest
# $\log \alpha_i + \text{noise}_i$. Let $R_i$ be the loss if the model reads only region $i$. Use central differences to
# compute two derivatives with respect to the scores: that of $R_s$ for fixed noise, and that of the mean over all
# samples, $\sum_i \alpha_i R_i$. Which function above computes the derivative of the mean?
#
# [solution 2]
#
# ## In five sentences
#
# A backward pass goes through the lines of the forward pass in reverse order, with one rule for each kind of line.
# Because of the softmax, gradient descent raises the score of a region only if reading this region is better than
# reading the current weighted mean, and the gradient of the score is proportional to the region's attention weight. The
# gradient of an array that is used several times is the sum over its uses: the readout and the next word use the state,
# and all words use the keys and the weights. Central differences check a gradient without any derivation, and
# TensorFlow's tape computes the same gradient. With these gradients, a model in numpy learns within a minute where to
# look and what to say.
#
# ## Next
#
# [docs/backward.md](../../docs/backward.md) explains the derivations in more detail, and adds one that this notebook
# leaves out: it shows how hard attention learns, although the derivative of a sample is 0 almost everywhere. For
# further reading, see [Karpathy, *Yes you should understand
# backprop*](https://karpathy.medium.com/yes-you-should-understand-backprop-e2f06eab496b), and [his lecture, in which he
# builds a tape](https://github.com/karpathy/micrograd).

# %% maintainers=true
assert abs(d_e.sum()) < 1e-9 and 4 < d_e[2] / d_e[0] < 5
assert difference["the file"] < 1e-13 and difference["TensorFlow"] < 1e-5 and 1 < largest < 10
np.testing.assert_allclose(float(loss_of_tape), loss, rtol=1e-5)
assert 0.65 < true < 0.95 and len(unseen) > 200
assert np.mean(losses[-50:]) < 0.8 * np.mean(losses[100:150])
assert len(towards) == 16 and sum((change > 0) == is_named for is_named, change in towards) >= 14
