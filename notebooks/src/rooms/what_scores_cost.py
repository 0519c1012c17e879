# %% [markdown]
# # What scores cost
#
# Attention has three steps: score the regions, make a distribution of the scores, take the mean of the regions that it
# weighs. Only the first step leaves a choice. This story compares three ways of scoring: additive, dot and
# bilinear. It computes each by hand, counts what it costs, trains a decoder with it, and looks at the maps.

# %%
from data_utils.tf_logging import import_tensorflow

_ = import_tensorflow()  # without its startup log

# %%
import keras
import matplotlib.pyplot as plt
import numpy as np

import data_utils
import keras_sat
from data_utils import FeatureCache, draw_scenes, is_true, make_batches
from keras_sat import BahdanauAttention, BilinearAttention, Captioner, DotAttention

plt.rcParams["figure.dpi"] = 80
keras.utils.set_random_seed(0)

# %% [markdown]
# ## Something to attend to
#
# The captioner `scenes` ships with the package. Its encoder turns a drawn scene into a grid of 16 x 16 annotation
# vectors $a_i$ of 66 numbers. The state $h_{t-1}$ is what the decoder has in mind. Here it is drawn at random: the
# formulas do not care where it comes from.

# %%
trained = Captioner.from_pretrained("scenes")
scene = draw_scenes(5, seed=1502)[1]
features = trained.encode(scene.image[None])
states = np.random.default_rng(0).normal(size=(2, 66)).astype("float32")
a, h = features[0], states[0]
print("a:", a.shape, " h:", h.shape)

# %% [markdown]
# ## Additive
#
# The paper leaves $f_{att}$ of equation (4) to "a multilayer perceptron". It is that of Bahdanau et al.: one hidden
# layer for the region and the state together,
#
# $$e_{ti} = v^\top \tanh(W_a a_i + W_h h_{t-1} + b).$$
#
# $W_a a_i + b$ depends on the photo alone. The layer computes it once and not at each word.


# %%
def softmax(scores):
    exponentials = np.exp(scores - scores.max())
    return exponentials / exponentials.sum()


additive = BahdanauAttention(attention_dim=64)
context, weights, *_ = additive(states[:1], features)
w_a, b = additive.feature_projection.get_weights()
(w_h,) = additive.state_projection.get_weights()
v = additive.score_vector.numpy()

by_hand = {"additive": softmax(np.tanh(a @ w_a + b + h @ w_h) @ v)}
by_layer = {"additive": weights[0]}
print("greatest difference:", np.abs(by_hand["additive"] - by_layer["additive"]).max())

# %% [markdown]
# ## Dot
#
# A region fits the better, the more it points in the direction of the state: $e_{ti} = a_i^\top h_{t-1}$. There is
# nothing to learn in it. The state itself has to become a picture of what is looked for.

# %%
dot = DotAttention()
by_layer["dot"] = dot(states[:1], features)[1][0]
by_hand["dot"] = softmax(a @ h)
print("greatest difference:", np.abs(by_hand["dot"] - by_layer["dot"]).max())

# %% [markdown]
# Both vectors must be equally long. Where they are not, the layer says so.

# %%
try:
    DotAttention()(np.zeros((1, 128), "float32"), features)
except ValueError as error:
    message = str(error)
print(message)

# %% [markdown]
# ## Bilinear
#
# A matrix between the two frees the sizes and learns what in a state asks for what in a region:
# $e_{ti} = a_i^\top W h_{t-1}$. With $W = 1$ it is dot attention.

# %%
bilinear = BilinearAttention()
by_layer["bilinear"] = bilinear(states[:1], features)[1][0]
(w,) = bilinear.state_projection.get_weights()
by_hand["bilinear"] = softmax(a @ (h @ w))
print("greatest difference:", np.abs(by_hand["bilinear"] - by_layer["bilinear"]).max())

bilinear.state_projection.set_weights([np.eye(66)])
with_identity = bilinear(states[:1], features)[1][0]

# %% [markdown]
# ## Why the tanh
#
# Leave the tanh out, and the additive score falls apart: $v^\top W_a a_i + v^\top W_h h_{t-1}$. The second part is the
# same for every region, and a softmax does not see what is added to all scores alike. Such attention never moves,
# whatever the state is. (A popular implementation has this fault. Its users wonder why all maps look the same.)

# %%
moves = {}
for name, activation in (("with tanh", np.tanh), ("without", lambda x: x)):
    first, second = (softmax(activation(a @ w_a + b + state @ w_h) @ v) for state in states)
    moves[name] = np.abs(first - second).max()
    print(f"{name:>9}: another state changes a weight by up to {moves[name]:.1e}")

# %% [markdown]
# ## What they cost
#
# With the paper's sizes: $L$ = 196 regions, all other lengths 512. "Once" is for each photo, "each word" for each step
# of each caption, in multiplications; additive scores also need $L k$ = 100,352 tanh, which cost several
# multiplications each.

# %%
L, D, n, k = 196, 512, 512, 512
costs = {  # weights, multiplications once, at each word
    "additive": (D * k + k + n * k + k, L * D * k, n * k + L * k),
    "dot": (0, 0, L * D),
    "bilinear": (n * D, 0, n * D + L * D),
}
layers = {"additive": BahdanauAttention(k), "dot": DotAttention(), "bilinear": BilinearAttention()}
counted = {}
print(f"{'':>8} {'weights':>9} {'once':>12} {'each word':>10}")
for name, layer in layers.items():
    layer(np.zeros((1, n), "float32"), np.zeros((1, L, D), "float32"))
    counted[name] = layer.count_params()
    print(f"{name:>8} {counted[name]:>9,} {costs[name][1]:>12,} {costs[name][2]:>10,}")

# %% [markdown]
# ## Train a decoder with each
#
# Scenes of two objects, encoded once by the encoder that is there. Only the decoder learns: about a minute and a half
# for all three. All start with the same seed and see the same batches; `hidden_dim=66` lets dot attention take part.
#
# Two options need a word. `twin_share` is the fraction of the scenes with two objects in which both look alike (twins:
# "two red circles"). With 0 every word means one object, and we can measure whether the attention is on it.
# `group_by="image"` keeps the captions of a scene in one batch: its features are projected once for all of them
# ([chapter 2](../02_a_picture_as_vectors.ipynb) tells what that costs).

# %%
scenes = [scene for scene in draw_scenes(14_000, seed=10_000, twin_share=0) if len(scene.objects) == 2]
images = [data_utils.CaptionedImage(s.image_id, s.image, list(s.captions[:2]), "train") for s in scenes]
ids, pictures = [image.image_id for image in images], [image.image_path for image in images]
cache = FeatureCache.build("features", ids, pictures, trained.encoder_model, show_progress=False)
batches = make_batches(images, trained.vocabulary, cache, batch_size=128, group_by="image")
print(len(scenes), "scenes,", len(batches), "batches")


# %%
def train(scoring, epochs=5):
    keras.utils.set_random_seed(0)
    captioner = Captioner(
        trained.vocabulary,
        encoder=None,  # it is given features
        scoring=scoring,
        embedding_dim=32,
        hidden_dim=66,
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


captioners = {scoring: train(scoring) for scoring in ("additive", "dot", "bilinear")}

# %%
curves = {name: captioner.history.history["cross_entropy"] for name, captioner in captioners.items()}
_, ax = plt.subplots(figsize=(5, 3))
for name, curve in curves.items():
    ax.plot(range(1, 6), curve, marker="o", label=name)
ax.set(xlabel="epoch", ylabel="cross-entropy for each word", xticks=range(1, 6))
ax.legend()
plt.show()

# %% [markdown]
# ## Do they speak the truth, and look at what they speak of?
#
# For a drawn scene we know whether a caption is true, and the place of each word. "Attention on the object" is the
# fraction of the attention on the object that a colour or shape word names; "peak" says how often the greatest weight
# is on it. Looking everywhere alike would give "everywhere alike": the fraction of the picture that the object's box
# takes.

# %%
unseen = [scene for scene in draw_scenes(400, seed=1502, twin_share=0) if len(scene.objects) == 2]
unseen_features = trained.encode(np.stack([scene.image for scene in unseen]))
truth, grounding = {}, {}
for name, captioner in captioners.items():
    results = captioner.caption_features(unseen_features, num_beams=1)
    truth[name] = np.mean([is_true(scene, result.caption) is True for scene, result in zip(unseen, results)])
    grounding[name] = keras_sat.ground(results, unseen)
    print(
        f"{name:>8}: {truth[name]:.0%} true, attention on the object {grounding[name].mass:.0%}, peak "
        f"{grounding[name].pointing:.0%} (everywhere alike: {grounding[name].uniform_mass:.0%})"
    )

# %% [markdown]
# All three learn, and all three look where the word is. Which one speaks the truth most often depends on the seed and
# on how long they learn: a difference of a few points between single runs says nothing. How sharp the maps are differs
# more. Dot attention, which learns nothing of its own, spreads its weights the widest.

# %%
scene = unseen[3]
features = trained.encode(scene.image[None])
said = [captioner.caption_features(features, num_beams=1, images=[scene.image])[0] for captioner in captioners.values()]
_ = keras_sat.AttentionDisplay.compare(said, names=list(captioners))

# %% [markdown]
# ## Exercises
#
# 1. Dot scores of long vectors are large, and the softmax then gives nearly all its weight to one region. Draw
#    `np.random.default_rng(0).normal(size=(196, D))` and a state for `D` = 4, 64 and 512, and plot the greatest weight.
#    Divide the scores by $\sqrt D$ (as transformers do) and plot again.
# 2. Write a scoring of your own: a subclass of `keras_sat.model.attention.Attention` with a method `score`, such as the
#    dot product of vectors of length 1 (cosine) times 10. Name it in `keras_sat.SCORINGS` and train with it.
# 3. Give `train` another seed, and see how far the true captions of one scoring differ from seed to seed.
# 4. What does `hidden_dim=128` change for additive and bilinear attention? What does it do to dot attention?
#
# ## Next
#
# [chapter 4](../04_why_attention.ipynb) takes it away, and shows what is lost.
#
# The last cell checks what this notebook has claimed.

# %%
for name in ("additive", "dot", "bilinear"):
    np.testing.assert_allclose(by_hand[name], by_layer[name], rtol=1e-3, atol=1e-6)
    assert by_hand[name].shape == (256,) and abs(by_hand[name].sum() - 1) < 1e-5
    assert costs[name][0] == counted[name]  # the weights were counted rightly
    assert curves[name][-1] < 0.5 * curves[name][0]  # all learn
    assert truth[name] > 0.5  # all speak the truth mostly
    assert grounding[name].mass > 1.25 * grounding[name].uniform_mass and grounding[name].pointing > 0.75
np.testing.assert_allclose(with_identity, by_hand["dot"], rtol=1e-3, atol=1e-6)
assert "feature_dim=66, hidden_dim=128" in message and "bilinear" in message
assert grounding["dot"].mass < min(grounding[name].mass for name in ("additive", "bilinear"))
assert moves["with tanh"] > 1e-3 and moves["without"] < 1e-6
assert L * k == 100_352 and costs["dot"][2] < costs["bilinear"][2] <= costs["additive"][2]
