# %% [markdown]
# # What if a transformer decodes?
#
# **You will be able to**
#
# * write a transformer decoder for captions from Keras layers
# * say what its causal mask, its residual connections and its positions are for
# * compare this decoder with an LSTM: how many captions are true, how long training takes, and where the heads look
# * say why keys and values are cached during generation, and write such a cache
# * find out which regions a word depends on, for any captioner
#
# **You need** [chapter 3](../03_one_step_of_attention.ipynb), which explains attention heads, and [chapter
# 4](../04_why_attention.ipynb), which describes the experiment.
#
# **Time:** 3 minutes to run on two cores, and about an hour to think.
#
# [gaps]
#
# Show, Attend and Tell appeared in 2015, and the transformer in 2017 ([Vaswani et
# al.](https://arxiv.org/abs/1706.03762)). A transformer decoder for captions keeps the attention to the photo, and
# replaces the rest of the paper's decoder:
#
# | | the paper's decoder | a transformer decoder |
# |---|---|---|
# | the words so far | the LSTM's state | *self-attention*: each word looks back at all words before it |
# | the photo | one map, from the state as query | *cross-attention*: a map for each head, from the word as query |
# | combining both | the LSTM's gates | a small network for each word, the *feed-forward* layer |
# | the order of the words | follows from the recurrence | a vector for each *position* is added (exercise 1) |
#
# In this notebook, you replace the LSTM decoder with a transformer decoder. The scenes, the encoder, the batches and
# the number of updates stay the same.

# %%
from data_utils.base import import_tensorflow

tf = import_tensorflow()  # without its startup log

import time

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import layers, ops

from data_utils import CaptionedImage, FeatureCache, draw_scenes, is_true, make_batches
from keras_sat import AttentionDisplay, Captioner, explain_words, removal_curves

plt.rcParams["figure.dpi"] = 100

# %% [markdown]
# ## The scenes
#
# The scenes are those of chapter 4, with two objects and two captions each. The encoder of the captioner `scenes` turns
# each scene into 16 x 16 annotation vectors of $D = 66$ numbers, two of which are the row and the column. As in chapter
# 4, each block of 2 x 2 is averaged, which leaves $L = 64$ regions. Their vectors are stored beside the notebook, in
# the folder `features_of_transformer` (60 MB, which you may delete afterwards).

# %%
bundled = Captioner.from_pretrained("scenes")
vocabulary = bundled.vocabulary
training = [scene for scene in draw_scenes(14_000, seed=10_000, twin_share=0) if len(scene.objects) == 2]
captioned = [CaptionedImage(scene.image_id, scene.image, list(scene.captions[:2]), "train") for scene in training]
ids, pictures = [image.image_id for image in captioned], [image.image_path for image in captioned]
averaged = layers.AveragePooling2D(2)(bundled.encoder_model.output)
encoder = keras.Model(bundled.encoder_model.input, averaged)
cache = FeatureCache.build("features_of_transformer", ids, pictures, encoder, show_progress=False)
batches = make_batches(captioned, vocabulary, cache, batch_size=128, group_by="image")  # 128 captions: of 64 scenes
unseen = [scene for scene in draw_scenes(1500, seed=1502, twin_share=0) if len(scene.objects) == 2][:300]
grids = encoder.predict(np.stack([scene.image for scene in unseen]), verbose=0).reshape(-1, 64, 66)
(features, input_ids), target_ids, token_weights = next(iter(batches))
print(len(captioned), "scenes,", len(batches), "batches of", features.shape, "features and", input_ids.shape, "words")

# %% [markdown]
# ## The causal mask
#
# In training, all words of a caption are processed in parallel. At position $t$, the decoder must predict the next word
# only from the words up to $t$, because it has no other words when it generates captions. But self-attention could look
# at any position, even at the very word that has to be predicted. The *causal mask* prevents looking ahead: where the
# mask is false, the score becomes $-\infty$ before the softmax.
#
# **Your turn.** Write the causal mask. Row $t$ is true at the positions that the word at position $t$ may look at,
# including its own position.


# %% gap="mask"
def causal_mask(length):
    """Return booleans (length, length)."""
    return ...  # your turn


# %% check="mask" empty="causal_mask(3)"
expected = [[True, False, False], [True, True, False], [True, True, True]]
message = "Position 0 may look only at itself, and the last position at all positions."
assert np.array_equal(causal_mask(3), expected), message

# %% [markdown]
# ## The residual connection
#
# A block of the decoder has three sublayers: self-attention, cross-attention and the feed-forward layer. Each sublayer
# only *adds* something to the vector of a word. So both the vector of a word and its gradient are passed on through any
# number of blocks. Such a *residual connection* has the same effect as an open forget gate in an LSTM. The input of
# each sublayer is normalised: *layer normalisation* shifts and scales the numbers of a vector so that their mean is 0
# and their variance is 1.
#
# **Your turn.** Write a sublayer with its normalisation and its residual connection.


# %% gap="around"
def around(sublayer, norm, x):
    """Return x, with what the sublayer makes of the normalised x."""
    return ...  # your turn


# %% check="around" empty="around(np.abs, np.abs, np.ones(2))"
x = np.array([1.0, -4.0])
silent, halve = np.zeros_like, lambda x: x / 2
message = "A sublayer that returns 0 must leave x as it is: only the input of the sublayer is normalised."
assert np.allclose(around(silent, halve, x), x), message
assert np.allclose(around(np.abs, halve, x), [1.5, -2.0]), "The sublayer reads norm(x)."

# %% [markdown]
# (In Vaswani et al., the normalisation comes after the sum, $\text{norm}(\mathbf{x} + \text{sublayer}(\mathbf{x}))$.
# Most later transformers normalise first, as in this notebook, because deep transformers are then easier to train:
# [Xiong et al., 2020](https://arxiv.org/abs/2002.04745).)
#
# ## The decoder
#
# The next cell defines the whole decoder, with two blocks of four heads, and vectors of 64 numbers. A photo may have
# several captions, and the words of all these captions attend to the same regions. Cross-attention does not depend on
# the order of the queries. So the decoder concatenates the words of all captions of a photo, and computes the keys and
# values of the photo's regions only once.

# %%
DIM, HEADS, BLOCKS, LONGEST = 64, 4, 2, 20


class Block(layers.Layer):
    """Look back at the words, look at the photo, and make something of it."""

    def __init__(self):
        super().__init__()
        self.look_back = layers.MultiHeadAttention(HEADS, DIM // HEADS)
        self.look = layers.MultiHeadAttention(HEADS, DIM // HEADS)
        self.feed_forward = keras.Sequential([layers.Dense(4 * DIM, activation="relu"), layers.Dense(DIM)])
        self.norms = [layers.LayerNormalization() for _ in range(3)]

    def call(self, x, features, mask):
        """Return x (captions, C, DIM), and the maps (photos, HEADS, captions of a photo * C, L)."""
        x = around(lambda y: self.look_back(y, y, attention_mask=mask), self.norms[0], x)
        maps = []

        def look(y):
            y = ops.reshape(y, (ops.shape(features)[0], -1, DIM))  # (photos, captions of a photo * C, DIM)
            seen, maps_of_heads = self.look(y, features, return_attention_scores=True)  # seen: as y
            maps.append(maps_of_heads)
            return ops.reshape(seen, ops.shape(x))  # (captions, C, DIM)

        x = around(look, self.norms[1], x)
        return around(self.feed_forward, self.norms[2], x), maps[0]


class Transformer(keras.Model):
    """Return the logits (photos, captions, C, K) of the next words."""

    def __init__(self):
        super().__init__()
        self.words = layers.Embedding(len(vocabulary.tokens), DIM)
        self.positions = layers.Embedding(LONGEST, DIM)
        self.blocks = [Block() for _ in range(BLOCKS)]
        self.norm = layers.LayerNormalization()
        self.logits = layers.Dense(len(vocabulary.tokens))
        self.mask = causal_mask(LONGEST)

    def call(self, inputs):
        return self.read(inputs)[0]

    def read(self, inputs):
        """Return the logits, and a list with the maps of each block."""
        features, input_ids = inputs  # (photos, L, D) and (photos, captions, C)
        length = ops.shape(input_ids)[-1]
        x = self.words(ops.reshape(input_ids, (-1, length))) + self.positions(ops.arange(length))
        mask = ops.convert_to_tensor(self.mask)[None, :length, :length]
        maps = []
        for block in self.blocks:
            x, maps_of_block = block(x, features, mask)
            maps.append(maps_of_block)
        logits = self.logits(self.norm(x))
        return ops.reshape(logits, (*ops.shape(input_ids), -1)), maps


# %% [markdown]
# Before training, test the causal mask: if you change the last word of a caption, the logits at earlier positions must
# not change.

# %%
keras.utils.set_random_seed(0)
transformer = Transformer()
as_read = transformer((features[:1], input_ids[:1, :1]))
changed_ids = np.array(input_ids[:1, :1])
changed_ids[0, 0, -1] = (changed_ids[0, 0, -1] + 1) % len(vocabulary.tokens)  # another word
changes = np.abs(transformer((features[:1], changed_ids)) - as_read).max(axis=(0, 1, 3))
print("changes of the logits, by position:", *(f"{change:.1g}" for change in changes))

# %% [markdown]
# ## Train both
#
# Both decoders are trained on the same batches, with the same number of updates. The learning rate rises and falls in
# the same way for both. The highest rate is .01 for the LSTM, as in chapter 4, and .003 for the transformer, because
# the best rate may be different for each decoder. A fair comparison would try several rates and several seeds for each
# decoder. Moreover, the features may favour the LSTM, because their encoder was trained together with an LSTM. The next
# cells train each decoder once.
#
# **Predict.** The LSTM processes a caption word by word, while the transformer processes all words in parallel. How
# long does an epoch of the transformer take on your machine, compared with an epoch of the LSTM?

# %%
EPOCHS = 12


def learning_rate(highest):
    steps = EPOCHS * len(batches)
    return keras.optimizers.schedules.CosineDecay(0.0, steps - 50, warmup_target=highest, warmup_steps=50)


class Clock(keras.callbacks.Callback):
    """Keep how long each epoch takes, by the clock on the wall."""

    def on_train_begin(self, logs=None):
        self.seconds = []

    def on_epoch_begin(self, epoch, logs=None):
        self.start = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds.append(time.perf_counter() - self.start)


lstm = Captioner(
    vocabulary,
    encoder=None,  # it is given features
    embedding_dim=32,
    hidden_dim=128,
    attention_dim=64,
    attention_penalty_weight=0.0,
    dropout_before_readout=0.0,
    dropout_after_readout=0.0,
)
lstm.compile(learning_rate=learning_rate(1e-2), clip_norm=1.0)
clocks = {"LSTM": Clock(), "transformer": Clock()}
histories = {"LSTM": lstm.fit(batches, epochs=EPOCHS, verbose=0, callbacks=[clocks["LSTM"]])}

# %%
transformer.compile(
    keras.optimizers.Adam(learning_rate(3e-3), global_clipnorm=1.0),
    # The mean over all words but padding, as the LSTM's "cross_entropy".
    keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight"),
)
histories["transformer"] = transformer.fit(
    batches, epochs=EPOCHS, shuffle=False, verbose=0, callbacks=[clocks["transformer"]]
)
num_weights = {"LSTM": lstm.decoder.count_params(), "transformer": transformer.count_params()}
curves = {
    "LSTM": histories["LSTM"].history["cross_entropy"],
    "transformer": histories["transformer"].history["loss"],
}
for name, number in num_weights.items():
    print(f"{name:12} {number:,} weights, loss in the last epoch {curves[name][-1]:.3f}")
seconds = {name: np.median(clock.seconds[2:]) for name, clock in clocks.items()}  # the first builds TensorFlow's graph
print(f"time of an epoch, transformer to LSTM: {seconds['transformer'] / seconds['LSTM']:.1f}")

# %% [markdown]
# <details><summary>What happened</summary>
#
# The ratio of the two times depends on the machine and its load; the stored ratio was measured on two cores that other
# programs also used. In the transformer, no position waits for another position, so a processor with enough cores can
# compute all positions at the same time. With only two cores, most multiplications are done one after the other anyway.
#
# </details>
#
# Both losses end at nearly the same value.
#
# ## Generate captions
#
# To generate a caption, the transformer reads the words so far, predicts one more word, and then reads *all* words
# again. The function `write` generates captions word by word, and counts the words that the transformer reads.

# %%
START = vocabulary.start_token_id


def plain(tensor):
    return ops.convert_to_numpy(tensor).astype("float32")


def write(features, num_words=LONGEST):
    """Return the token ids (photos, num_words) of greedy captions, and how many words were read for each caption."""
    said, num_read = np.full((len(features), 1, 1), START, "int32"), 0
    for _ in range(num_words):
        logits = plain(transformer((features, said)))  # (photos, 1, words said, K)
        num_read += said.shape[-1]
        said = np.concatenate([said, logits[:, :, -1:].argmax(axis=-1)], axis=-1)
    return said[:, 0, 1:], num_read


def truths(captions):
    return np.array([is_true(scene, caption) is True for scene, caption in zip(unseen, captions)])


results = lstm.caption_features(grids, num_beams=1)
written, read_again = write(grids)
captions = {
    "LSTM": [result.caption for result in results],
    "transformer": [vocabulary.ids_to_caption(row) for row in written],
}
true = {name: truths(said) for name, said in captions.items()}
for name, said in captions.items():
    print(f"{name:12} {true[name].mean():.0%} of its captions of {len(unseen)} unseen scenes are true: {said[0]}")

# %% [markdown]
# About nine in ten of each decoder's captions are true. The ranking may depend on the seed, so train each decoder again
# with another seed before you draw conclusions from a difference of a few percentage points.
#
# ## Cached keys and values
#
# It is wasteful to read all words again at each step. Because of the causal mask, the keys and values of earlier words
# do not change when a word is added, so you can keep them in a *cache*. For a new word, the decoder computes a query, a
# key and a value, and attends to the cached keys and values of earlier words. The keys and values of the regions are
# computed once, before the first word.
#
# **Predict.** `write` generates 20 words for each scene (words after the end of a caption are dropped). How many words
# does `write` read in total for each scene, and how many would be read with a cache?
#
# Keras' attention layer has no such cache, so the next cell implements one in numpy, with the weights of the trained
# layers.


# %%
def normalise(x, layer):
    scaled = (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + layer.epsilon)
    return scaled * plain(layer.gamma) + plain(layer.beta)


class Attention:
    """Multi-head attention for one query, with the keys and values kept."""

    def __init__(self, layer):
        self.W_q, self.b_q, self.W_k, self.b_k, self.W_v, self.b_v, self.W_o, self.b_o = map(plain, layer.weights)
        self.kept = None  # keys and values, (photos, HEADS, number, DIM / HEADS) each

    def keep(self, x):
        """Add the keys and values of x (photos, number, dim) to the kept ones."""
        new = [np.tensordot(x, W, 1) + b for W, b in ((self.W_k, self.b_k), (self.W_v, self.b_v))]
        new = [array.transpose(0, 2, 1, 3) for array in new]
        self.kept = new if self.kept is None else [np.concatenate(both, axis=2) for both in zip(self.kept, new)]

    def __call__(self, x):
        """Return what x (photos, DIM) reads, (photos, DIM)."""
        keys, values = self.kept
        query = np.tensordot(x, self.W_q, 1) + self.b_q  # (photos, HEADS, DIM / HEADS)
        scores = (keys @ query[..., None])[..., 0] / np.sqrt(query.shape[-1])
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)  # (photos, HEADS, number)
        read = (weights[:, :, None] @ values)[:, :, 0]  # (photos, HEADS, DIM / HEADS)
        return np.tensordot(read, self.W_o, 2) + self.b_o


def write_with_kept(features, num_words=LONGEST):
    """Return the same as `write`, but read each word once."""
    E, P = plain(transformer.words.embeddings), plain(transformer.positions.embeddings)
    parts = [(block, Attention(block.look_back), Attention(block.look)) for block in transformer.blocks]
    for _, _, look in parts:
        look.keep(features)
    said, num_read = np.full(len(features), START), 0
    rows = []
    for t in range(num_words):
        x = E[said] + P[t]  # (photos, DIM): of the last word alone
        num_read += 1
        for block, look_back, look in parts:
            y = normalise(x, block.norms[0])
            look_back.keep(y[:, None])
            x = x + look_back(y)
            x = x + look(normalise(x, block.norms[1]))
            W_1, b_1, W_2, b_2 = map(plain, block.feed_forward.weights)
            x = x + np.maximum(normalise(x, block.norms[2]) @ W_1 + b_1, 0) @ W_2 + b_2
        logits = normalise(x, transformer.norm) @ plain(transformer.logits.kernel) + plain(transformer.logits.bias)
        said = logits.argmax(axis=-1)
        rows.append(said)
    return np.stack(rows, axis=1), num_read


written_with_kept, read_with_kept = write_with_kept(grids)
same = np.mean([one == vocabulary.ids_to_caption(row) for one, row in zip(captions["transformer"], written_with_kept)])
print(f"the same caption as before: {same:.1%}")
print(f"words read for {LONGEST}: {read_again} when all are read again, {read_with_kept} with keys and values kept")

_, L, D = grids.shape
of_regions = BLOCKS * 2 * L * D * DIM  # multiplications for the keys and values of the regions
of_word = BLOCKS * (4 + 2 + 8) * DIM**2  # look_back, look (query and output) and feed_forward
of_word += BLOCKS * 2 * L * DIM + DIM * len(vocabulary.tokens)  # scores and mixture of the regions, logits
multiplications = {
    "all read again": LONGEST * of_regions + read_again * of_word,
    "kept": of_regions + read_with_kept * of_word,
}
for name, number in multiplications.items():
    print(f"multiplications, {name:14}: {number / 1e6:5.1f} million")

# %% [markdown]
# <details><summary>What happened</summary>
#
# Without a cache, the transformer reads 210 words for each scene; with a cache, it reads 20. The cache also saves
# computing the keys and values of the regions again, so only a thirteenth of the multiplications remains. (The count
# leaves out the few multiplications for the scores of earlier words.) Large language models generate text with the same
# kind of cache, which is called a *KV cache*. The disadvantage of a KV cache is that it grows with every word, whereas
# the state of an LSTM has the same size for captions of any length.
#
# </details>
#
# ## Where the heads look
#
# Each of the two blocks has four heads, and each head has its own map for every word, so there are eight maps instead
# of one. For the true captions, the next cell measures how much of each head's attention is on the object that a word
# names, and how much is on the other object.
#
# **Predict.** Do all heads look at the object that a word names?


# %%
def on_box(item, weights):
    """Return the sum of the weights (.., 8, 8) of the regions that an object's box touches."""
    left, top, right, bottom = item.box
    return weights[..., top // 8 : -(-bottom // 8), left // 8 : -(-right // 8)].sum(axis=(-2, -1))


input_ids = np.concatenate([np.full((len(unseen), 1), START), written[:, :-1]], axis=1)[:, None]
_, maps = transformer.read((grids, input_ids))
maps = np.stack([plain(one) for one in maps], axis=1)  # (scenes, BLOCKS, HEADS, C, L)
maps = maps.reshape(len(unseen), BLOCKS * HEADS, -1, 8, 8)
on_named, on_other, of_lstm = [], [], []
for number, scene in enumerate(unseen):
    for t, word in enumerate(captions["transformer"][number].split()):
        named = [word in item.looks for item in scene.objects]
        if true["transformer"][number] and sum(named) == 1:
            item, other = scene.objects if named[0] else scene.objects[::-1]
            on_named.append(on_box(item, maps[number, :, t]))
            on_other.append(on_box(other, maps[number, :, t]))
    for word, weights in zip(results[number].words, results[number].attention_weights):
        named = [word in item.looks for item in scene.objects]
        if true["LSTM"][number] and sum(named) == 1:
            of_lstm.append(on_box(scene.objects[named.index(True)], np.asarray(weights)))
on_named, on_other = np.mean(on_named, axis=0), np.mean(on_other, axis=0)  # (heads,)

figure, ax = plt.subplots(figsize=(10, 3))
labels = [f"block {1 + head // HEADS}\nhead {1 + head % HEADS}" for head in range(BLOCKS * HEADS)]
ax.bar(np.arange(8) - 0.2, on_named, width=0.4, label="on the object that is named")
ax.bar(np.arange(8) + 0.2, on_other, width=0.4, label="on the other object")
ax.axhline(np.mean(of_lstm), color="black", linestyle="--", linewidth=1, label="LSTM, on the object that is named")
ax.set_xticks(range(8), labels)
ax.set(ylabel="fraction of the attention", ylim=(0, 1))
_ = ax.legend(ncols=3)

# %% [markdown]
# <details><summary>What happened</summary>
#
# Not all heads look mainly at the named object. In the stored run, five of the eight heads have more than half of their
# attention on the named object, and two have only about a third, whereas the LSTM has nearly nine tenths. Every head
# also looks at the other object. Nothing in the loss requires the heads to divide the work like this.
#
# </details>
#
# So for each word, the question of where the model looked has eight answers. And a map shows only what a head *reads*:
# what it has read may matter a lot for the word, or not at all.
#
# ## Why this word?
#
# To find out which regions a word depends on, remove regions, as in [One word, explained](one_word_explained.ipynb).
# `keras_sat.explain_words` and `keras_sat.removal_curves` do this for any captioner: they need only a function that
# returns log p of the words of a sentence. The next cell defines this function for the transformer. (For a vision
# encoder-decoder of the package `transformers`, the regions are the states of its encoder, and the function calls
# `model(encoder_outputs=(regions,), decoder_input_ids=read)`.)


# %%
def log_probs(regions, words):
    """Return log p of each word given the words before it, (n, words), for regions (n, L, D)."""
    token_ids = vocabulary.caption_to_ids(words)
    read = np.tile([START, *token_ids[:-1]], (len(regions), 1, 1))  # one caption for each photo
    logits = transformer.predict_on_batch((regions, read))  # (n, 1, words, K)
    return plain(ops.log_softmax(logits))[:, 0, np.arange(len(words)), token_ids]


# %% [markdown]
# A map of *occlusion* shows how much log p falls if a region is removed alone. A map of *RISE* ([Petsiuk et al.,
# 2018](https://arxiv.org/abs/1806.07421)) comes from 400 runs, each without a random half of the regions, and shows how
# much higher log p is with a region than without it. The next cell tests these maps, those of the heads and random ones
# on 50 captions: it removes the tenth of the regions with the highest values of a map, 6 of 64, all at once.
#
# **Predict.** Without the regions of which map does log p fall most: that of a head, the mean of the eight heads,
# occlusion or RISE?

# %%
explained, falls, one_by_one = {}, [], []
for number in np.flatnonzero(true["transformer"]):
    words = captions["transformer"][number].split()
    named = [t for t, word in enumerate(words) if sum(word in item.looks for item in unseen[number].objects) == 1]
    if named and len(falls) < 50:
        options = {"methods": ("random", "occlusion", "rise"), "grid_shape": (8, 8), "seed": number}
        found = explain_words(log_probs, grids[number], words, **options)  # maps by method, (words, 8, 8) each
        of_heads = maps[number, :, : len(words)]  # (heads, words, 8, 8)
        explained[number] = found | dict(zip(labels, of_heads)) | {"mean of heads": of_heads.mean(axis=0)}
        falls.append({})  # of log p, for each kind of map: the mean over the words that name one object
        for name, tested in explained[number].items():
            p = removal_curves(log_probs, grids[number], words, tested, levels=10)[named]  # without 0, 10, .. 100 %
            falls[-1][name] = np.log(p[:, 0] / p[:, 1]).mean()
        one_by_one.append(np.sort(found["occlusion"][named].reshape(-1, 64))[:, -6:].sum(axis=1).mean())

falls = {name: np.array([fall[name] for fall in falls]) for name in falls[0]}  # (captions,) each
for name, values in sorted(falls.items(), key=lambda item: item[1].mean()):
    margin = 1.96 * values.std(ddof=1) / np.sqrt(len(values))  # of the 95 % interval
    print(f"{name:15} log p falls by {values.mean():.2f} ± {margin:.2f}".replace("\n", " "))
print(f"the six regions of occlusion, removed one by one: {np.mean(one_by_one):.2f} in all")

# %% [markdown]
# <details><summary>What happened</summary>
#
# In the stored run, removing random regions does almost nothing. Without the regions where one head looks most, log p
# falls by 1.0 to 2.2, so the words depend on what the heads read, but on some heads' regions more than on others'. The
# mean of the eight maps does as well as occlusion, and needs no further runs of the transformer. RISE does best by far:
# log p falls by 3.7, so p is divided by about 40. Occlusion underestimates regions whose neighbours show the same
# object: removed one by one, its six regions lower log p by 1.0 in all, but together by 2.3. RISE removes many regions
# at once. (The test is not neutral: occlusion and RISE are made by removing regions, and attention maps are not.)
#
# </details>
#
# The next figure shows maps of the first caption, for two words that describe an object, and for the word that says
# where one object is relative to the other.

# %% stored="JPEG"
shown = next(iter(explained))
words = captions["transformer"][shown].split()
names = [*labels[:HEADS], "mean of heads", "occlusion", "rise"]
figure, axes = plt.subplots(3, len(names), figsize=(10, 4.8), layout="constrained")
figure.suptitle(" ".join(words))
for name, column in zip(names, axes.T):
    display = AttentionDisplay(unseen[shown].image, words, np.maximum(explained[shown][name], 0))
    column[0].set_title(name, fontsize=9)
    for ax, t in zip(column, range(1, len(words), 3)):
        ax.imshow(display.lit(t)[0])
        ax.set(xticks=[], yticks=[], ylabel=words[t] if name == names[0] else "")

# %% [markdown]
# At "yellow", heads 2 and 3 look at the star, occlusion marks one side of the circle, and RISE marks all of it. At
# "below", head 2 looks at the background around both objects.
#
# ## Exercises
#
# **1.** What do the position vectors contribute? Set the position vectors to 0 in the trained model
# (`transformer.positions.embeddings.assign`), and generate captions. (Restore them afterwards.)
#
# [solution 1]
#
# **2.** Does the transformer need all of its heads? Remove one head at a time, by setting its part of `block.look`'s
# output weights to 0 (`block.look.weights[6]`, of shape `(HEADS, DIM // HEADS, DIM)`). For each head, count how many
# captions of 100 scenes are true without it. Is the head with the most attention on the named object also the head that
# is needed most?
#
# [solution 2]
#
# ## In five sentences
#
# A transformer decoder keeps attention over the regions, and replaces the LSTM's state with self-attention over all
# previous words. Thanks to the causal mask, training can process all words of a caption in parallel, although each word
# is predicted only from the words before it. After one training run on the scenes, about nine in ten of each decoder's
# captions are true. During generation, the keys and values of earlier words can be cached, because the causal mask
# keeps them from changing. A transformer has a map for each head of each block; to find out which regions a word
# depends on, remove regions.
#
# ## Next
#
# [One word, explained](one_word_explained.ipynb) asks how much an attention map explains. For further reading, see [The
# Annotated Transformer](https://nlp.seas.harvard.edu/annotated-transformer/), which explains the code line by line;
# [Cornia et al., 2020](https://arxiv.org/abs/1912.08226), a transformer for captions; and
# [ViT](https://arxiv.org/abs/2010.11929), a transformer that replaces the encoder. In
# [docs/questions.md](../../docs/questions.md), the answer to "Can I replace the LSTM by a transformer?" has an example
# that trains an encoder and a transformer together.

# %% maintainers=true
assert len(unseen) == 300 and features.shape[1:] == (64, 66) and input_ids.shape[-1] == LONGEST
assert changes[-1] > 0.01 and changes[:-1].max() < 1e-5
assert 0.8 < num_weights["transformer"] / num_weights["LSTM"] < 1
assert max(curves["transformer"][-1], curves["LSTM"][-1]) < 0.7
assert all(right.mean() > 0.75 for right in true.values())
assert same > 0.99
assert (read_again, read_with_kept) == (210, 20)
assert 12.5 < multiplications["all read again"] / multiplications["kept"] < 13.5
assert on_named.max() > 0.35 and on_named.min() < 0.5 < np.mean(of_lstm)
fall = {name: values.mean() for name, values in falls.items()}
of_heads = [fall[label] for label in labels]
assert len(explained) == 50 and abs(fall["random"]) < 0.3 and 0.6 < min(of_heads) < max(of_heads) / 1.3 < 2.3
assert np.median(of_heads) < fall["mean of heads"] and abs(fall["mean of heads"] - fall["occlusion"]) < 0.6
assert fall["rise"] > 3 and np.mean(one_by_one) < 0.7 * fall["occlusion"]
for name in ("occlusion", "mean of heads", *labels):
    for ahead in (falls["rise"] - falls[name], falls[name] - falls["random"]):
        assert ahead.mean() > 1.96 * ahead.std(ddof=1) / np.sqrt(50), name
