# %% [markdown]
# # 5 · Build it, train it
#
# **You will be able to**
#
# * write the paper's soft attention model as a Keras class, and check each equation as soon as you have written it
# * write the loss (14) for captions of different lengths
# * explain the parts of a training step: gradient, clipping, Adam
# * train the model until nine captions in ten are true, and see how it chooses its words
# * say what the doubly stochastic penalty rewards, which part of it is constant, and when it does harm
#
# **You need** [chapter 3](03_one_step_of_attention.ipynb), whose equations become methods in this chapter. [Chapter
# 1](01_words.ipynb) explains `<start>`, padding and teacher forcing.
#
# **Time:** 3 minutes to run on two cores, and about 90 minutes to think.
#
# [diagram]
#
# In chapter 3 you computed one step with weights that somebody else had trained. Now you write the model that learns
# such weights. Your class will have about 60 lines, and will compute the same numbers as
# [keras_sat/show_attend_tell.py](../keras_sat/show_attend_tell.py), the package's file with the paper's model.

# %%
from data_utils.base import import_tensorflow

tf = import_tensorflow()  # without its startup log
tf.get_logger().setLevel("ERROR")  # it would warn of each length of captions, see "Train it"

from pathlib import Path

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import layers, ops

from data_utils import CaptionedImage, FeatureCache, draw_scenes, is_true, make_batches
from keras_sat import AttentionDisplay, Captioner, CaptionResult, equations, ground, show_attend_tell

plt.rcParams["figure.dpi"] = 100

# %% [markdown]
# ## The skeleton
#
# Begin with the parts of the model and the way they are connected. `__init__` creates a layer for each learned function
# in the paper, and names it after the paper's symbol. `step` is the step of chapter 3, for B captions at a time. It
# calls four methods that do not exist yet: `score`, `context`, `memory` and `readout`. `call` repeats the step for each
# word.
#
# The comments at the ends of lines give the shapes, for B captions of C words, L regions and a vocabulary of K words.
# D, m, n and A are the sizes of the annotation vectors, the word vectors, the state and the hidden layer of $f_{att}$.
# (The paper uses the letter L for three things: L alone is the number of regions, $\mathbf{L}_h$, $\mathbf{L}_z$ and
# $\mathbf{L}_o$ are matrices, and $L_d$ is the loss.)
#
# `step` uses *dropout* twice. In training, dropout sets a randomly chosen half of a vector's elements to 0 and doubles
# the other half, so that the expected value of each element stays the same. No unit can then rely on the presence of
# another unit, and the model cannot memorise its training captions so easily. When the model generates captions,
# nothing is dropped. The class has dropout because the paper's model does (section 4.3), but in this chapter's training
# it is switched off.


# %%
class SoftAttention(keras.Model):
    """The model of the paper's section 3.1.2, with the soft attention of section 4.2."""

    def __init__(self, K, m=32, n=128, A=64):
        super().__init__()
        self.E = layers.Embedding(K, m)
        self.f_init_h = layers.Dense(n, activation="tanh")
        self.f_init_c = layers.Dense(n, activation="tanh")
        self.W_a = layers.Dense(A)
        self.W_h = layers.Dense(A, use_bias=False)
        self.v = layers.Dense(1, use_bias=False)
        self.f_beta = layers.Dense(1, activation="sigmoid")
        self.T = layers.Dense(4 * n)
        self.L_h = layers.Dense(m, use_bias=False)
        self.L_z = layers.Dense(m, use_bias=False)
        self.L_o = layers.Dense(K)
        self.dropout = layers.Dropout(0.5)

    def initial_state(self, a):
        """Return h_0 and c_0 from the mean annotation vector."""
        mean = ops.mean(a, axis=1)  # (B, D)
        return self.f_init_h(mean), self.f_init_c(mean)  # (B, n), (B, n)

    def step(self, a, keys, y, h, c, training=False):
        """Read y_{t-1}. Return the logits of y_t, and h_t, c_t and alpha_t."""
        alpha = ops.softmax(self.score(keys, h))  # (4) and (5), (B, L)
        z = self.context(a, alpha, h)  # (13), (B, D)
        word = self.E(y)  # (B, m)
        gates = self.T(ops.concatenate([word, h, z], axis=-1))  # in (1), (B, 4n)
        h, c = self.memory(gates, c)  # (1) to (3), (B, n) each
        summed = self.readout(word, self.dropout(h, training=training), z)  # (B, m)
        logits = self.L_o(self.dropout(summed, training=training))  # (7), (B, K)
        return logits, h, c, alpha

    def call(self, a, input_ids, training=False):
        """Read whole captions, (B, C). Return logits (B, C, K) and alpha (B, C, L)."""
        h, c = self.initial_state(a)
        keys = self.W_a(a)  # the same for all words, (B, L, A)
        steps = []
        for t in range(input_ids.shape[1]):
            logits, h, c, alpha = self.step(a, keys, input_ids[:, t], h, c, training)
            steps.append((logits, alpha))
        return [ops.stack(values, axis=1) for values in zip(*steps)]


# %% [markdown]
# To check each method as soon as you have written it, give an instance of your class the weights of chapter 3, which
# are those of the captioner `scenes`. In the list below, each line has a layer of your class on the left and the
# captioner's weights for it on the right. The loop copies these weights. (The captioner's LSTM keeps $T$ in three
# pieces, as chapter 3 did.)

# %%
scenes_captioner = Captioner.from_pretrained("scenes")
vocabulary, decoder = scenes_captioner.vocabulary, scenes_captioner.decoder
attention, cell, its_readout = decoder.attention_layer, decoder.cells[0], decoder.readout
T = ops.concatenate(
    [part.kernel for part in (cell.input_projection, cell.recurrent_projection, cell.context_projection)]
)

finished = SoftAttention(len(vocabulary))
for layer, *weights in (
    (finished.E, decoder.embedding.embeddings),
    (finished.f_init_h, decoder.initial_hidden.kernel, decoder.initial_hidden.bias),
    (finished.f_init_c, decoder.initial_cell.kernel, decoder.initial_cell.bias),
    (finished.W_a, attention.feature_projection.kernel, attention.feature_projection.bias),
    (finished.W_h, attention.state_projection.kernel),
    (finished.v, ops.expand_dims(attention.score_vector, 1)),
    (finished.f_beta, decoder.gate.kernel, decoder.gate.bias),
    (finished.T, T, cell.input_projection.bias),
    (finished.L_h, its_readout.state_readout.kernel),
    (finished.L_z, its_readout.context_readout.kernel),
    (finished.L_o, its_readout.word_logits.kernel, its_readout.word_logits.bias),
):
    layer.build((None, weights[0].shape[0]))
    layer.set_weights([ops.convert_to_numpy(weight) for weight in weights])

scene = next(scene for scene in draw_scenes(50, seed=1502) if len(scene.objects) == 2)  # chapter 3's scene
pictures = np.stack([scene.image, scene.image[:, ::-1]])  # and its mirror image
a = ops.convert_to_tensor(scenes_captioner.encode(pictures))  # (2, 256, 66)
h_0, c_0 = finished.initial_state(a)
keys = finished.W_a(a)
print("a", a.shape, " h_0", h_0.shape, " keys", keys.shape)

# %% [markdown]
# ## Attend
#
# **Your turn.** Write the score (4), $e_{ti} = \mathbf{v}^\top \tanh(\mathbf{W}_a \mathbf{a}_i + \mathbf{b}_a +
# \mathbf{W}_h \mathbf{h}_{t-1})$, for all captions and regions at once. The query needs an axis for the regions:
# `query[:, None]` has the shape (B, 1, A), and is added to each region's key. (Without this axis, `keys + query` raises
# an error about incompatible shapes.) The layer `self.v` turns the shape (B, L, A) into (B, L, 1). The last line of the
# cell makes your function a method of the class.


# %% gap="score"
def score(self, keys, h):
    """Return e_t (B, L) of (4). keys are (B, L, A): W_a a_i + b_a. h is h_{t-1}, (B, n)."""
    query = self.W_h(h)  # (B, A)
    return ...  # your turn


SoftAttention.score = score

# %% check="score" empty="finished.score(keys, h_0)"
expected = equations.additive_scores(keys, finished.W_h(h_0), attention.score_vector)
e = finished.score(keys, h_0)
assert tuple(e.shape) == (2, 256), f"Expected one score for each region, (2, 256). Received: {tuple(e.shape)}"
assert np.allclose(e, expected, atol=1e-4), "Not (4): is the tanh around the whole sum?"

# %% [markdown]
# **Your turn.** Write the gated context, $\hat{\mathbf{z}}_t = \beta_t \sum_i \alpha_{ti} \mathbf{a}_i$, equation (13)
# with the gate of section 4.2.1. You can use `ops.einsum("bl,bld->bd", ...)`, or broadcasting and `ops.sum`.


# %% gap="context"
def context(self, a, alpha, h):
    """Return the gated context (B, D) of (13). a is (B, L, D), alpha is (B, L), h is h_{t-1}, (B, n)."""
    beta = self.f_beta(h)  # (B, 1)
    return ...  # your turn


SoftAttention.context = context

# %% check="context" empty="finished.context(a, ops.softmax(finished.score(keys, h_0)), h_0)"
alpha = ops.softmax(finished.score(keys, h_0))
z = finished.context(a, alpha, h_0)
assert tuple(z.shape) == (2, 66), f"Expected one vector for each picture, (2, 66). Received: {tuple(z.shape)}"
expected = finished.f_beta(h_0) * equations.attended_features(alpha, a)
assert np.allclose(z, expected, atol=1e-5), "Not (13): beta times the sum of alpha_i a_i."

# %% [markdown]
# ## Remember, and choose
#
# **Your turn.** Write the LSTM. First apply the activation functions of (1): sigmoid to i, f and o, and tanh to g. Then
# compute $\mathbf{c}_t = \mathbf{f}_t \odot \mathbf{c}_{t-1} + \mathbf{i}_t \odot \mathbf{g}_t$ (2) and $\mathbf{h}_t =
# \mathbf{o}_t \odot \tanh(\mathbf{c}_t)$ (3). `ops.sigmoid` and `ops.tanh` work element by element.


# %% gap="memory"
def memory(self, gates, c):
    """Return h_t and c_t, (B, n) each. gates are (B, 4n), before the functions of (1). c is c_{t-1}, (B, n)."""
    i, f, o, g = ops.split(gates, 4, axis=-1)
    return ...  # your turn: h_t, c_t


SoftAttention.memory = memory

# %% check="memory" empty="finished.memory(ops.zeros((2, 512)), c_0)"
gates = finished.T(ops.concatenate([finished.E(np.array([1, 2])), h_0, z], axis=-1))
for name, found, expected in zip(("h_t", "c_t"), finished.memory(gates, c_0), equations.lstm(gates, c_0)):
    assert np.allclose(found, expected, atol=1e-5), f"Not the {name} of (1) to (3). Return h_t, c_t, in this order."

# %% [markdown]
# **Your turn.** Write the sum in (7): $\mathbf{E}\mathbf{y}_{t-1} + \mathbf{L}_h \mathbf{h}_t + \mathbf{L}_z
# \hat{\mathbf{z}}_t$. Each of the three terms can raise or lower the logit of a word, as chapter 3 showed.


# %% gap="readout"
def readout(self, word, h, z):
    """Return what L_o reads in (7), (B, m), from E y_{t-1} (B, m), h_t (B, n) and the context z (B, D)."""
    return ...  # your turn


SoftAttention.readout = readout

# %% check="readout" empty="finished.readout(finished.E(np.array([1, 2])), h_0, z)"
word = finished.E(np.array([1, 2]))
expected = equations.deep_output(word, its_readout.state_readout(h_0), its_readout.context_readout(z))
message = "Not the sum in (7): the word, the state and the context, the last two projected."
assert np.allclose(finished.readout(word, h_0, z), expected, atol=1e-5), message

# %% [markdown]
# The model is complete. To write captions, feed the most probable word of each step into the next step, for all
# pictures at once. With chapter 3's weights, your class must write chapter 3's caption.


# %%
def write(model, a, max_length=20):
    """Return (words, maps, probabilities of all words at each step) of each picture's greedy caption."""
    a = ops.convert_to_tensor(a)
    (h, c), keys = model.initial_state(a), model.W_a(a)
    y = np.full(len(a), vocabulary.start_token_id)
    steps = []
    for _ in range(max_length):
        logits, h, c, alpha = model.step(a, keys, y, h, c)
        y = ops.convert_to_numpy(ops.argmax(logits, axis=-1))
        steps.append((y, ops.convert_to_numpy(alpha), ops.convert_to_numpy(ops.softmax(logits))))
    captions = []
    for ids, maps, probabilities in zip(*(np.stack(values, axis=1) for values in zip(*steps))):
        words = vocabulary.ids_to_words(ids)  # up to the first <end>
        captions.append((words, maps[: len(words)].reshape(-1, 16, 16), probabilities[: len(words) + 1]))
    return captions


(words, maps, _), _ = write(finished, a)
print("your class:    ", " ".join(words))
print("the captioner: ", scenes_captioner.caption(scene.image, num_beams=1).caption)

# %% [markdown]
# ## The loss, (14)
#
# $$L_d = -\log p(\mathbf{y} | \mathbf{a}) + \lambda \sum_{i=1}^L \Big(1 - \sum_{t=1}^C \alpha_{ti}\Big)^2$$
#
# The first term is the negative logarithm of the caption's probability. The probability of a caption is the product of
# the probabilities of its words, so its logarithm is a sum over words. All operations in the model are differentiable,
# so the gradient flows from the words back to all weights, including those of $f_{att}$. Soft attention is therefore
# trained *end to end by backpropagation*, without any data about where to look. The second term, the *doubly
# stochastic* penalty, has a section of its own below.
#
# The captions in a batch may differ in length. The shorter captions are padded, and padding must not count in either
# term. `<end>` counts as a word, because the model has to predict it, too.
#
# **Your turn.** Write both terms of the loss for each caption.


# %% gap="loss"
def loss_terms(word_log_p, alpha, is_word):
    """Return -log p(y | a) and the penalty of each caption, (B,) each: the two terms of (14), without lambda.

    word_log_p are the log probabilities of the true words, (B, C). alpha is (B, C, L). is_word (B, C) is 1 for a
    word and 0 for padding.
    """
    return ...  # your turn


# %% check="loss" empty="loss_terms(np.zeros((1, 2)), np.ones((1, 2, 4)) / 4, np.ones((1, 2)))"
padded_rng = np.random.default_rng(0)
padded = (-padded_rng.random((2, 3)), padded_rng.dirichlet(np.ones(4), (2, 3)), np.array([[1.0, 1, 1], [1, 1, 0]]))
found_nll, found_penalty = loss_terms(*padded)
expected = -(padded[0] * padded[2]).sum(axis=1)
assert np.allclose(found_nll, expected, atol=1e-5), "Not -log p: sum over words, without padding."
expected = equations.attention_penalty(*padded[1:])
message = "Not the penalty: leave out padding, sum over the words first, then square, then sum over regions."
assert np.allclose(found_penalty, expected, atol=1e-5), message

# %% [markdown]
# ## The world it learns
#
# The model learns from scenes of two objects, with two captions each. A caption places the first object on one side of
# the second. The caption is true only if the *whole* first object lies on that side, with a gap between the objects. In
# each scene, only one side meets this condition. The encoder is that of `scenes`, and is frozen; only your decoder is
# trained.
#
# The cell below computes the features of each scene once and stores them beside the notebook, in the folders
# `features_05` and `features_05_unseen` (300 MB, which you may delete afterwards). It then makes batches with one
# caption per row. (`twin_share=0` leaves out scenes whose objects have the same size, colour and shape, because a word
# in their captions could mean either object. `group_by="image"` keeps the captions of a scene in one batch.)


# %%
def make_examples(scenes, folder, batch_size):
    """Return batches of a (B, L, D), input_ids, target_ids and is_word, (B, C) each."""
    images = [CaptionedImage(scene.image_id, scene.image, list(scene.captions[:2]), "train") for scene in scenes]
    ids, pictures = [image.image_id for image in images], [image.image_path for image in images]
    cache = FeatureCache.build(folder, ids, pictures, scenes_captioner.encoder_model, show_progress=False)
    return make_batches(images, vocabulary, cache, batch_size=batch_size, group_by="image").map(one_caption_a_row)


def one_caption_a_row(inputs, target_ids, is_word):
    features, input_ids = inputs  # (scenes, L, D) and (scenes, 2, C)
    rows = [tf.reshape(values, (-1, tf.shape(values)[-1])) for values in (input_ids, target_ids, is_word)]
    return tf.repeat(features, tf.shape(input_ids)[1], axis=0), *rows


scenes = [scene for scene in draw_scenes(18_000, seed=10_000, twin_share=0) if len(scene.objects) == 2]
unseen = [scene for scene in draw_scenes(1000, seed=1502, twin_share=0) if len(scene.objects) == 2]
batches = make_examples(scenes, "features_05", batch_size=64)
unseen_batch = next(iter(make_examples(unseen[:200], "features_05_unseen", batch_size=400)))
first_batch = next(iter(batches))
print(len(scenes), "scenes,", len(batches), "batches; the first one:")
for name, values in zip(("a", "input_ids", "target_ids", "is_word"), first_batch):
    print(f"    {name:11}{tuple(values.shape)}")
for name, ids in zip(("read", "predict"), first_batch[1:3]):
    print(f"{name:>8}:", " ".join(vocabulary.tokens[token_id] for token_id in ids[0].numpy()))


# %% [markdown]
# At each word the model reads the *true* previous word, which is teacher forcing.
#
# Now make a model with random weights.
#
# **Predict.** There are 45 tokens, and the captions of this batch have at most 11 tokens, including `<end>`. How large
# is the first term of the loss for a model that has not learned anything?


# %%
def losses(model, batch, training=False):
    """Return the two terms of (14), each as a mean over the captions of a batch."""
    a, input_ids, target_ids, is_word = batch
    logits, alpha = model(a, input_ids, training=training)
    word_log_p = -ops.sparse_categorical_crossentropy(target_ids, logits, from_logits=True)  # (B, C)
    nll, penalty = loss_terms(word_log_p, alpha, is_word)
    return ops.mean(nll), ops.mean(penalty)


keras.utils.set_random_seed(0)
model = SoftAttention(len(vocabulary))
model.dropout.rate = 0.0  # dropout is switched off: the end of "Train it" says why
untrained_nll, untrained_penalty = (float(value) for value in losses(model, first_batch))
num_words = float(ops.mean(ops.sum(first_batch[3], axis=1)))
print(f"-log p = {untrained_nll:.1f}, for {num_words:.1f} words: {untrained_nll / num_words:.2f} for each")
print(f"log 45 = {np.log(45):.2f}")

# %% [markdown]
# <details><summary>What happened</summary>
#
# All words are about equally probable, so each word adds $\log 45 = 3.8$ to the loss, and the loss of a caption is 3.8
# times its number of words. If the loss of a new model is far from this number, there is probably a mistake.
#
# </details>
#
# ## Is it the same model?
#
# Give your weights to the package's `ShowAttendTell`, and compare the logits, the maps and the loss. `get_weights`
# lists the weights in the order in which the layers were created, which is the same in both classes. The package's
# class has one more weight, at the beginning of its list: the baseline, a number that only hard attention needs.


# %%
def as_in_the_package(model):
    """Return a ShowAttendTell with the weights of a model of your class."""
    reference = show_attend_tell.ShowAttendTell(len(vocabulary), embedding_dim=32, hidden_dim=128, attention_dim=64)
    reference(a, np.zeros((2, 1), "int32"))  # makes its weights
    reference.set_weights([np.float32(0), *model.get_weights()])
    return reference


equal = {}
for name, candidate in (("random weights", model), ("chapter 3's", finished)):
    reference = as_in_the_package(candidate)
    logits, alpha = candidate(*first_batch[:2])
    its_logits, its_alpha, _ = reference(*first_batch[:2])
    nll, penalty = losses(candidate, first_batch)
    its_loss, *_ = show_attend_tell.objective(reference, (first_batch[:2], *first_batch[2:]))
    equal[name] = {
        "logits": np.abs(logits - its_logits).max(),
        "maps": np.abs(alpha - its_alpha).max(),
        "loss": abs(float(nll + show_attend_tell.PENALTY_WEIGHT * penalty) / float(its_loss) - 1),
    }
    print(f"{name:15}", *(f"{part} differ by at most {difference:.0e}; " for part, difference in equal[name].items()))

# %% [markdown]
# You have written the paper's model. The package's file differs in two ways: it also implements the sampling of hard
# attention ([chapter 6](06_hard_attention.ipynb)), and it computes the keys again at each word, so that each equation
# is in one place. (Your class computes the keys only once, as the authors' code does, which is faster.)
#
# ## A training step, taken apart
#
# A step has three parts: the gradient of the loss, *clipping*, and the update. TensorFlow's `GradientTape` records what
# is computed, and then computes the gradient backwards through the record.
#
# Clipping protects against batches with a very large gradient: if the norm of all gradients together is above a bound,
# all gradients are multiplied by the same factor, so that the norm equals the bound. The direction stays the same.


# %%
def losses_and_gradients(batch, penalty_weight):
    with tf.GradientTape() as tape:
        nll, penalty = losses(model, batch, training=True)
        loss = nll + penalty_weight * penalty  # (14)
    gradients = tape.gradient(loss, model.trainable_variables)
    # That of the word vectors is sparse: the rows of a word that occurs twice have to be added.
    return nll, penalty, [tf.convert_to_tensor(gradient) for gradient in gradients]


def clip(gradients, bound=1.0):
    norm = ops.sqrt(sum(ops.sum(gradient**2) for gradient in gradients))
    return [gradient * ops.minimum(1.0, bound / norm) for gradient in gradients]


def norm_of(gradients):
    return float(np.sqrt(sum(np.square(gradient).sum() for gradient in gradients)))


nll, _, gradients = losses_and_gradients(first_batch, 0.0)
clipped = clip(gradients)
print(f"{len(gradients)} gradients; their norm is {norm_of(gradients):.1f}, after clipping {norm_of(clipped):.1f}")

# %% [markdown]
# *Adam* keeps two moving averages for each weight $\theta$: $\bar{d}$ of its gradient $d$, and $\overline{d^2}$ of the
# gradient's square. The step is the first average divided by the square root of the second:
#
# $$\bar{d} \leftarrow .9\, \bar{d} + .1\, d \qquad
#   \overline{d^2} \leftarrow .999\, \overline{d^2} + .001\, d^2 \qquad
#   \theta \leftarrow \theta - \eta\, \frac{\sqrt{1 - .999^k}}{1 - .9^k}\,
#   \frac{\bar{d}}{\sqrt{\overline{d^2}} + \epsilon}$$
#
# Both averages start at 0. The first fraction, in which $k$ is the number of the update, corrects for this;
# $\epsilon = 10^{-7}$ prevents division by zero. *RMSProp* divides the gradient $d$ itself by the square root of a
# moving average of $d^2$, without a correction. The paper found RMSProp to work best on Flickr8k, and used Adam on the
# larger Flickr30k and COCO (section 4.3). Both optimizers give each weight a step size of its own. Plain *stochastic
# gradient descent*, $\theta \leftarrow \theta - \eta\, d$, takes longer steps where the gradient is larger.
#
# **Predict.** Some gradients are a thousand times larger than others. In the very first update, with $\eta = .01$, how
# far do the weights move? Does clipping change this distance?

# %%
eta = 1e-2
start = model.get_weights()
by_hand = []
for weight, gradient in zip(start, clipped):
    average, average_square = 0.1 * np.array(gradient), 0.001 * np.array(gradient) ** 2  # both were 0
    by_hand.append(weight - eta * np.sqrt(1 - 0.999) / (1 - 0.9) * average / (np.sqrt(average_square) + 1e-7))

optimizer = keras.optimizers.Adam(eta)
optimizer.apply(clipped, model.trainable_variables)
difference = max(np.abs(weight - ours).max() for weight, ours in zip(model.get_weights(), by_hand))
moves = np.concatenate([np.abs(weight - before).ravel() for weight, before in zip(model.get_weights(), start)])
sizes = np.concatenate([np.abs(gradient).ravel() for gradient in clipped])
print(f"by hand and by Keras: different by at most {difference:.0e}")

figure, axes = plt.subplots(1, 2, figsize=(10, 2.6), layout="constrained")
for ax, values, title in zip(axes, (sizes, moves), ("size of the gradient", "how far the weight moves")):
    ax.hist(values[values > 0], bins=np.logspace(-9, 0, 91))
    ax.set(xscale="log", xlabel=title, ylabel="weights")

# %% [markdown]
# <details><summary>What happened</summary>
#
# Most weights move by $\eta$: after the first gradient, the product of the two fractions is just the gradient's sign.
# The gradients differ by several orders of magnitude, but most of the updates have the same size. (Weights whose
# gradient is below about $10^{-5}$ move noticeably less, because $\epsilon$ is then no longer small compared with the
# root. The figure leaves out weights whose gradient is exactly 0, such as the vectors of words that do not occur in the
# batch.) Where $\epsilon$ is negligible, clipping changes nothing in the first update, because a common factor of all
# gradients cancels. In later updates the factor does not cancel, since the averages also contain the gradients of other
# batches. Clipping then limits the influence of a single batch on the averages.
#
# </details>
#
# ## Train it
#
# `tf.function` turns the step into a graph, which is much faster. TensorFlow builds one graph for each caption length.
# The learning rate rises for the first 50 updates, while Adam's averages still depend on only a few batches, and then
# falls to 0 along a cosine. The next cell is the slowest in the chapter: it takes about a minute and a half.


# %%
@tf.function
def train_step(batch, penalty_weight):
    nll, penalty, gradients = losses_and_gradients(batch, penalty_weight)
    optimizer.apply(clip(gradients), model.trainable_variables)
    return nll, penalty


def restart(weights=start):
    """Put the model back to these weights, and the optimiser to its beginning."""
    model.set_weights(weights)
    for variable in optimizer.variables:
        variable.assign(ops.zeros_like(variable))


def train(updates, penalty_weight=0.0, rate=1e-2):
    """Train, and return the loss terms of each update, (updates, 2)."""
    terms = []
    for update, batch in enumerate(batches.repeat().take(updates)):
        warm_up, fall = min(1, (update + 1) / 50), 0.5 + 0.5 * np.cos(np.pi * update / updates)
        optimizer.learning_rate.assign(rate * min(warm_up, fall))
        terms.append(train_step(batch, tf.constant(penalty_weight)))
    return np.array(terms)


restart()
terms = train(2000)
trained = model.get_weights()

# %%
results = write(model, scenes_captioner.encode(np.stack([scene.image for scene in unseen])))
truths = np.array([is_true(scene, " ".join(words)) is True for scene, (words, _, _) in zip(unseen, results)])
print(f"{truths.mean():.0%} of {len(unseen)} captions of unseen scenes are true")

smooth = terms[:, 0].reshape(-1, 50).mean(axis=1)  # of 50 updates each
unseen_nll = float(losses(model, unseen_batch)[0])
figure, ax = plt.subplots(figsize=(10, 3), layout="constrained")
ax.plot(np.arange(50, 2001, 50), smooth, label="training scenes")
ax.axhline(unseen_nll, color="tab:orange", linestyle="--", label="unseen scenes, in the end")
ax.set(xlabel="updates", ylabel="-log p for each caption", ylim=(0, 25))
ax.legend()
print(f"-log p: {smooth[-1]:.1f} for training scenes in the end, {unseen_nll:.1f} for unseen ones")

# %% [markdown]
# About nine captions in ten are true. The loss cannot come near 0: "left of" and "to the left of" mean the same, so no
# model can predict which of them a caption will use.
#
# The loss on the unseen scenes is a little higher than on the training scenes. The difference may be due to chance
# (there are only 400 unseen captions), or the model may have begun to memorise its training captions (*overfitting*).
# With 9,000 scenes and a small model, overfitting is so small that this chapter does nothing about it: dropout is
# switched off, and training ends after 2,000 updates. On Flickr8k, with 6,000 training photos and a large model, there
# is more overfitting: the loss of the training captions keeps falling, while the loss of unseen captions rises. Dropout
# delays overfitting. *Early stopping* ends training before overfitting does harm: score the dev split after each epoch,
# stop when the score has not improved for a while, and keep the weights of the best epoch. The paper uses BLEU as this
# score, because captions with a lower loss are not always better (section 4.3). In exercise 2 you train on so few
# scenes that the model overfits.
#
# ## It speaks
#
# The next figure shows two captions word by word, with the three most probable words of each step. The true caption is
# the first one that your own model writes (in the stored output, for the scene of chapter 3). The false caption is
# about a scene whose objects have different colours, so that each colour word refers to only one of them.

# %%
two_colours = np.array([scene.objects[0].colour != scene.objects[1].colour for scene in unseen])
true_one, false_one = np.flatnonzero(truths)[0], np.flatnonzero(~truths & two_colours)[0]
figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
for ax, number in zip(axes, (true_one, false_one)):
    words, _, probabilities = results[number]
    verdict = "true" if truths[number] else "false"
    ax.imshow(unseen[number].image)
    ax.set_title(f"{verdict}: {' '.join(words)}", fontsize=10)
    ax.axis("off")
    print(f"{verdict}:")
    for p in probabilities:
        print("".join(f"{vocabulary.tokens[token_id]:>10} {p[token_id]:6.1%}" for token_id in np.argsort(-p)[:3]))

# %% [markdown]
# Where the grammar allows only one word ("of" after "picture"), the model is nearly certain. Where several words would
# be true ("under", "below"), they share the probability. Either object may be named first, but four in five training
# captions name the colours in a fixed order (yellow before blue, red before black).
#
# The caption on the right is false. Find its first false word. How probable was this word, and was there a true word
# among the three most probable words?
#
# <details><summary>What happened</summary>
#
# In the stored output, the beginning "a picture of a red" could still become a true caption. The next word is "star",
# but the red object is a square. The model was almost certain of "star" (99.5 %). The true word, "square", is second,
# with .5 %. If your model wrote another caption, there may be no true word among the three. In that case the mistake
# was made at an earlier word. After "to the", for instance, only "left" and "right" can follow.
#
# </details>
#
# ## Where it looks

# %%
true_ones = np.flatnonzero(truths)[:2]
for number in true_ones:
    words, maps, _ = results[number]
    AttentionDisplay(unseen[number].image, words, maps).plot(width=10)

# %% [markdown]
# Both captions are true. The model was never given the positions of
# objects, and yet its attention at a colour word or a shape word is on the object that the word names. The attention
# lies a little to the left of the middle of the object; [chapter 3](03_one_step_of_attention.ipynb) finds out why. At
# the words for the first object, part of the attention lies on the second object, perhaps because one of the next words
# has to say which object is on the left, or above.
#
# The next cell computes the mean attention on the named object over all true captions. (In a false caption, a word may
# name an object that is not in the scene.)


# %%
def as_results(written):
    return [CaptionResult(" ".join(words), words, 0.0, maps) for words, maps, _ in written]


grounding = ground(as_results(results), unseen)
print(f"the largest weight is on the named object for {grounding.pointing:.0%} of {grounding.num_words} words")
print(f"attention on the object: {grounding.mass:.0%} (a uniform map: {grounding.uniform_mass:.0%})")

# %% [markdown]
# The player shows the map of every word: point at a word, or press play. (GitHub does not show the player; the figures
# above show the same maps.)

# %%
words, maps, _ = results[true_ones[0]]
AttentionDisplay(unseen[true_ones[0]].image, words, maps)

# %% [markdown]
# ## The penalty: what it asks for
#
# By construction, the attention weights of a word sum to 1 over the regions. The second term of (14), $\sum_i (1 -
# \sum_t \alpha_{ti})^2$, also asks that the weights of a *region* sum to 1 over the words: hence the name *doubly
# stochastic*. Each region should get a total attention of 1 over the caption.
#
# Is this possible? Let $S_i = \sum_t \alpha_{ti}$ be the total attention of region $i$ over the caption. All regions
# together get $\sum_i S_i = C$, one for each word, so the mean of $S_i$ is $C/L$: in this chapter about 11.5/256. Split
# off this mean:
#
# $$\sum_i (1 - S_i)^2 = \sum_i \Big( \big(1 - \tfrac{C}{L}\big) - \big(S_i - \tfrac{C}{L}\big) \Big)^2
#   = L \big(1 - \tfrac{C}{L}\big)^2 + \sum_i \big(S_i - \tfrac{C}{L}\big)^2 .$$
#
# The cross term vanishes, because $\sum_i (S_i - C/L) = 0$. The first part is constant: it depends only on the length
# of the caption. The second part measures how *unevenly* the attention is distributed over the regions. The target of 1
# is out of reach, and what the penalty really asks for is *the same total attention for each region*.


# %%
def unevenness(alpha, is_word):
    """Return the part of the penalty that can change, as a mean over captions. alpha is (B, C, L)."""
    received = np.sum(alpha * is_word[:, :, None], axis=1)  # S_i, (B, L)
    return np.mean(np.sum(np.square(received - received.mean(axis=1, keepdims=True)), axis=1))


_, alpha = model(*unseen_batch[:2])
_, _, _, is_word = unseen_batch
C = is_word.numpy().sum(axis=1)
fixed = np.mean(256 * (1 - C / 256) ** 2)
free = unevenness(alpha, is_word)
penalty = float(losses(model, unseen_batch)[1])
print(f"the penalty is {penalty:.1f} = {fixed:.1f} that nothing can change + {free:.1f}; -log p is {unseen_nll:.1f}")

# %% [markdown]
# With $\lambda = .33$, the constant part adds 77 to the loss. So compare models by $-\log p$, not by the loss.
#
# **Predict.** Your model was trained with $\lambda = 0$. If you continue training it with $\lambda = .33$, what will
# the maps look like? Will more captions be true? How much of the attention will be on the object that a word names?
#
# For a fair comparison, the next cell also continues training with $\lambda = 0$, for the same number of updates. Both
# runs start from your weights.

# %%
more = {}
for penalty_weight in (0.0, 0.33):
    restart(trained)
    train(400, penalty_weight, rate=5e-3)
    more[penalty_weight] = model.get_weights()

# %%
figure, axes = plt.subplots(2, 6, figsize=(10, 3.8), layout="constrained")
summary = {}
for row, penalty_weight in zip(axes, more):
    model.set_weights(more[penalty_weight])
    written = write(model, scenes_captioner.encode(np.stack([scene.image for scene in unseen])))
    true = np.mean([is_true(scene, " ".join(words)) is True for scene, (words, _, _) in zip(unseen, written)])
    nll, _ = losses(model, unseen_batch)
    _, alpha = model(*unseen_batch[:2])
    uneven = unevenness(alpha, is_word)  # of the true captions, as above
    summary[penalty_weight] = {"true": true, "nll": float(nll), "uneven": uneven}
    summary[penalty_weight]["on object"] = ground(as_results(written), unseen).mass
    print(f"lambda = {penalty_weight:4}: {true:.0%} true, -log p {float(nll):.1f}, unevenness {uneven:.1f},", end="")
    print(f" attention on the object {summary[penalty_weight]['on object']:.0%}")
    for number, ax in enumerate(row):
        ax.imshow(written[number][1].sum(axis=0), vmin=0, vmax=0.5)
        ax.set(xticks=[], yticks=[], title=f"scene {number}")
    row[0].set_ylabel(f"λ = {penalty_weight}")

# %% [markdown]
# The figure shows how much attention each region gets in total over a whole caption: dark purple is 0, yellow is .5 or
# more. The next figure shows the first scene of "Where it looks" again, with the same words, but for the model trained
# with $\lambda = .33$.

# %%
words, _, _ = results[true_ones[0]]
model.set_weights(more[0.33])
read = np.array([[vocabulary.start_token_id, *vocabulary.caption_to_ids(words)]])
_, alpha = model(scenes_captioner.encode(unseen[true_ones[0]].image[None]), read)
_ = AttentionDisplay(unseen[true_ones[0]].image, words, alpha[0, : len(words)].numpy().reshape(-1, 16, 16)).plot(
    width=10
)

# %% [markdown]
# <details><summary>What happened</summary>
#
# Nearly all of the unevenness is gone. Only about half of the attention that was on the named object is still there.
# The rest is now on the other object and on the empty background. Of the four maps above, only that of "star" is spread
# over the background. The other maps have become wider, but are still brightest on the objects, and those of "yellow"
# and "circle" are bright on both objects. Looking away costs least at words that do not need the picture. Chapter 3's
# model, for instance, said "star" from memory.
#
# With the penalty, fewer captions are true (89 % in the stored output, and 94 % without the penalty), and $-\log p$ is
# a little higher. A single run of each kind cannot show how much of the difference is due to chance.
#
# </details>
#
# So the penalty rewards attention that is spread evenly, whatever the picture shows. It suits photos in which many
# regions are worth describing: the paper reports higher BLEU and richer captions with the penalty. The penalty does
# harm if most regions are background, or if you want to read the maps, because less of the attention is on the object
# that a word names. The bundled captioners for scenes were trained without the penalty.
#
# Where does .33 come from? The paper gives no value. In the authors' code, the script for COCO sets the weight to 1,
# but averages the penalty over the 196 regions and sums it over the 64 captions of a batch. Equation (14) sums over the
# regions, and the package averages the loss over captions. So the corresponding weight in (14) is $64 / 196 = .33$,
# which is the package's default. (With the 256 regions of this chapter, the weight would be .25. The preset `paper` of
# `fit` has the script's number, 1, as $\lambda$ itself, so its penalty is three times as strong as the script's.)
#
# ## Keep your weights
#
# [Chapter 6](06_hard_attention.ipynb) starts from the weights that you have trained (with $\lambda = 0$). The next cell
# saves these weights beside the notebook, in the package's order, with names from the paper's symbols. (The package has
# weights of the same kind for readers who begin with chapter 6.)

# %%
model.set_weights(trained)
arrays = {"baseline": np.float32(0)}  # which only hard attention changes
for name in ("E", "f_init_h", "f_init_c", "W_a", "W_h", "v", "f_beta", "T", "L_h", "L_z", "L_o"):
    for weight in getattr(model, name).weights:
        arrays[f"{name}.{weight.name}"] = ops.convert_to_numpy(weight)
np.savez("chapter_5.npz", **arrays)
print(len(arrays), "arrays:", *arrays)

# %% [markdown]
# ## Exercises
#
# **1.** Compute the first update of RMSProp by hand for one weight matrix, and compare it with
# `keras.optimizers.RMSprop(1e-3, rho=0.9, epsilon=1e-7)`. (Its $\epsilon$ is added inside the root.) How far does a
# weight move, in units of the learning rate, and why?
#
# [solution 1]
#
# **2.** Train on the same three batches again and again, and watch the loss on the unseen scenes. When would you stop?
#
# [solution 2]
#
# **3.** Replace the penalty's target of 1 by $C/L$, which can be reached. Which gradients change?
#
# [solution 3]
#
# ## In five sentences
#
# Soft attention is differentiable, so one loss trains the whole decoder, without data about where to look. A training
# step computes the gradient, clips it, and lets Adam give each weight its own step size. Dropout and early stopping
# keep a model from memorising its training captions; this chapter's model needed neither, because there were enough
# scenes. One part of the doubly stochastic penalty is constant, and the other part asks for attention that is spread
# evenly. On scenes that are mostly background, the penalty moves about half of the attention away from the object that
# a word names, and does not make more captions true.
#
# ## Next
#
# In [chapter 6](06_hard_attention.ipynb), the model attends to one region at a time, and backpropagation alone cannot
# train it. For further reading, see [Kingma and Ba](https://arxiv.org/abs/1412.6980) on Adam, [Srivastava et
# al.](https://jmlr.org/papers/v15/srivastava14a.html) on dropout, and [Karpathy, *A Recipe for Training Neural
# Networks*](https://karpathy.github.io/2019/04/25/recipe/), on how to find mistakes by looking at losses.
# [docs/backward.md](../docs/backward.md) derives every gradient of this model by hand.

# %% maintainers=true
for differences in equal.values():
    assert max(differences["logits"], differences["maps"], differences["loss"]) < 3e-5
assert " ".join(write(finished, a)[0][0]) == scenes_captioner.caption(scene.image, num_beams=1).caption
assert abs(untrained_nll / num_words - np.log(45)) < 0.1 and len(vocabulary) == 45 and 10 < num_words < 11
assert difference < 1e-5 and norm_of(clipped) < 1.001
assert np.mean(moves > 0.5 * eta) > 0.8 and moves.max() < 1.01 * eta
assert sizes.max() > 1e3 * np.median(sizes)
assert (
    truths.mean() > 0.8
    and len(unseen) > 400
    and not {one.image_id for one in unseen} & {one.image_id for one in scenes}
)
assert 295e6 < sum(file.stat().st_size for file in Path("features_05").rglob("*")) < 310e6
assert truths[true_one] and not truths[false_one]
np.testing.assert_array_equal(unseen[0].image, scene.image)  # chapter 3's
assert smooth[-1] > 5 and abs(unseen_nll - smooth[-1]) < 1.5
assert grounding.pointing > 0.8 and grounding.mass > 0.55 > 0.1 > grounding.uniform_mass
assert abs(penalty - fixed - free) < 0.1 and fixed > 5 * free and round(0.33 * fixed) == 77
assert summary[0.33]["uneven"] < 0.15 * summary[0.0]["uneven"]
assert summary[0.33]["on object"] < 0.75 * summary[0.0]["on object"]
assert summary[0.33]["true"] < summary[0.0]["true"] + 0.05  # "does not make more captions true"
assert summary[0.33]["nll"] > summary[0.0]["nll"] - 0.1
assert round(64 / 196, 2) == show_attend_tell.PENALTY_WEIGHT
with np.load("chapter_5.npz") as stored:
    loaded = [stored[name] for name in stored.files]
for one, other in zip(loaded, as_in_the_package(model).get_weights(), strict=True):
    np.testing.assert_array_equal(one, other)
