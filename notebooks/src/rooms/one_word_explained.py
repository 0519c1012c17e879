# %% [markdown]
# # One word, explained
#
# **You will be able to**
#
# * split the score of one word into the contributions of the previous word, of memory and of the photo, in numpy
# * compute the *votes* of the regions for one word, and say how they differ from attention
# * find the word that the network would say if it read only one region
# * remove regions, and find out whether a word depends on them
#
# **You need** [chapter 3](../03_one_step_of_attention.ipynb), where one step is computed by hand.
# [Chapter 0](../00_look.ipynb) shows votes on other photos.
#
# **Time:** 1 minute to run on two cores, and about half an hour to think.
#
# [diagram]
#
# Why did the captioner say this word and not another? Three kinds of pictures claim to explain a word: they show where
# the captioner looked, which regions of the photo voted for the word, or what happens if you remove these regions. Each
# kind of picture answers a different question. In this notebook, you compute all three for a correct word and for a
# wrong one.

# %%
from data_utils.base import import_tensorflow

import_tensorflow()  # without its startup log

from collections import Counter
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from keras import ops

import keras_sat
from keras_sat import equations

plt.rcParams["figure.dpi"] = 100
captioner = keras_sat.Captioner.from_pretrained("flickr8k")
photos = Path(keras_sat.__file__).parent / "export" / "page" / "examples"

# %% [markdown]
# ## A word that is right
#
# A *trace* keeps what the network computed for each word of a caption. The next cell shows the attention at the word
# "camera". The network divides the photo into 20 x 20 *regions*. Their annotation vectors, `trace.annotations()`, have
# 512 numbers: the captioner has projected the encoder's 1,280 numbers. Rows and columns are counted from 0, starting at
# the top left.

# %% stored="JPEG"
trace = captioner.trace(photos / "tripod.jpg")
t = trace.words.index("camera")
step = trace.steps[t]
alpha = step.attention_weights.ravel().astype("float64")  # (400,)

figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.4), layout="constrained")
axes[0].imshow(trace.result.image)
axes[0].set(title=trace.result.caption, xticks=[], yticks=[])
shown = axes[1].imshow(alpha.reshape(20, 20))
axes[1].set(title=f"attention α at “{step.word}”", xticks=range(0, 20, 2), yticks=range(0, 20, 2))
figure.colorbar(shown, ax=axes[1], shrink=0.8)
print(f"attention in rows 5 to 8, columns 9 to 12: {alpha.reshape(20, 20)[5:9, 9:13].sum():.0%}")
print(f"attention in rows 12 to 19, columns 9 to 15: {alpha.reshape(20, 20)[12:, 9:16].sum():.0%}")

# %% [markdown]
# The caption is correct, if you take "holding" loosely. Four fifths of the attention is on or next to the camera, and
# most of the rest is on or beside the legs of the tripod.
#
# ## The score, split in four
#
# The readout, equation (7), adds up three vectors: one from the previous word, one from memory ($\mathbf{h}_t$) and one
# from the photo. The paper applies $\mathbf{L}_o$ directly to this sum, whereas this captioner applies a tanh first:
#
# $$\mathbf{s} = \mathbf{E}\mathbf{y}_{t-1} + \mathbf{L}_h \mathbf{h}_t + \mathbf{L}_z \hat{\mathbf{z}}_t \qquad
#   \text{logit} = \mathbf{L}_o \tanh(\mathbf{s}) + \mathbf{b}$$
#
# This captioner differs from the paper in two more ways. It reads the previous word before it looks at the photo, so
# attention depends on $\mathbf{h}_t$ instead of $\mathbf{h}_{t-1}$. And instead of the gate, it has a *sentinel*, a
# vector made from memory. The context is a mixture of the regions and the sentinel: $\hat{\mathbf{z}}_t = \beta_t
# \sum_i \alpha_{ti} \mathbf{a}_i + (1 - \beta_t) \cdot$ sentinel. So $\beta_t$ is the fraction of the context that
# comes from the photo; at "camera", it is nearly 1.
#
# The next cell takes the activations from the trace and the weights from the layers. In Keras, the matrix is to the
# right of the vector, as in $\mathbf{h}\mathbf{L}$. In the formulas above, the matrix is on the left, so the next cell
# transposes each matrix with `.T`.


# %%
def plain(weight):
    return ops.convert_to_numpy(weight).astype("float64")


decoder, readout, vocabulary = captioner.decoder, captioner.decoder.readout, captioner.vocabulary
E = plain(decoder.embedding.embeddings).T  # (m, K): a column for each word
L_h, L_z = plain(readout.state_readout.kernel).T, plain(readout.context_readout.kernel).T  # (m, n) and (m, D)
L_o, b = plain(readout.word_logits.kernel).T, plain(readout.word_logits.bias)  # (K, m) and (K,)
word_id = vocabulary.tokens.index

a = trace.annotations().reshape(400, 512).astype("float64")
h, z, beta = step.hidden_state.astype("float64"), trace.context(t).astype("float64"), step.from_photo
z_photo = beta * (alpha @ a)
z_sentinel = z - z_photo  # counts as memory

summands = {
    "previous word": E[:, word_id(step.previous_word)],
    "memory": L_h @ h + L_z @ z_sentinel,
    "photo": L_z @ z_photo,
}
s = sum(summands.values())  # (m,)
logits = L_o @ np.tanh(s) + b  # (K,)
print(f"beta {beta:.4f}; the logit of camera is {logits[word_id('camera')]:.2f}, in the trace {step.said.logit:.2f}")

# %% [markdown]
# Without the tanh, the logit would be the sum of three parts and the bias. With a tanh, the logit can still be split in
# this way, if you divide the tanh among the three summands in proportion to their values. For each element of
# $\mathbf{s}$, $\tanh(s) = s \cdot \frac{\tanh(s)}{s}$. Call the fraction the *slope*. Each element has its own slope,
# which is the same for the three summands:
#
# $$\text{slope} = \frac{\tanh(\mathbf{s})}{\mathbf{s}} \qquad
#   \text{part of a summand } \mathbf{p} = \mathbf{L}_o (\mathbf{p} \odot \text{slope})$$
#
# **Your turn.** Write the function that computes a part. The sum of the three parts and the bias must be the logit.

# %% gap="parts"
slope = np.tanh(s) / s  # (m,)


def part(p):
    """Return what a summand p (m,) gives to the logit of each word, (K,)."""
    return ...  # your turn


# %% check="parts" empty="part(np.ones(512))"
in_all = sum(part(p) for p in summands.values()) + b
assert np.allclose(in_all, logits, atol=1e-6), "The parts do not add up: is the slope in them?"
parts = {name: part(p) for name, p in summands.items()}

# %% [markdown]
# At each step, every word of the vocabulary is a *candidate*. **Predict.** After "a man in a black jacket is holding
# a", the four most probable candidates were "video", "camera", "microphone" and "drink". Which of these four does
# memory prefer, and which does the photo prefer?

# %%
words = ["camera", "video", "microphone", "drink"]
figure, ax = plt.subplots(figsize=(10, 3))
for number, (name, values) in enumerate(parts.items()):
    given = [values[word_id(word)] for word in words]
    bars = ax.bar(np.arange(4) + 0.27 * (number - 1), given, width=0.27, label=name)
    ax.bar_label(bars, fmt="%.1f")
ax.set_xticks(range(4), [f"{word}, {trace.candidate(t, word).probability:.0%}" for word in words])
ax.set(title="what each part gives to the logit of a candidate", ylim=(0, 6.5))
_ = ax.legend(ncols=3, loc="upper right")

# %% [markdown]
# <details><summary>What happened</summary>
#
# Memory prefers "drink", and the photo prefers "video" (as in "video camera"). Only differences between candidates
# matter: a contribution that is the same for all candidates changes no probability. The photo adds 2.9 more to "camera"
# than to "drink", which outweighs memory's preference for "drink". But the photo adds .85 less to "camera" than to
# "video". Memory adds .85 more to "camera" than to "video", so that these two words are almost equally probable.
# "Camera" has nearly the highest sum, although none of the three parts is highest for "camera".
#
# </details>
#
# The package has functions that compute such parts for any activation function, and a trace also contains the parts.
# The next cell compares them with yours.

# %%
slope_by_function = equations.secant_slopes(s, np.tanh)
photo_by_function = equations.part_of_logits(summands["photo"], slope, L_o.T)
equal = {"slope": np.abs(slope_by_function - slope).max(), "photo": np.abs(photo_by_function - parts["photo"]).max()}
for name, key in (("previous word", "previous_word"), ("memory", "memory"), ("photo", "photo")):
    by_trace = [trace.candidate(t, word).parts[key] for word in words]
    equal[f"{name}, trace"] = max(abs(parts[name][word_id(word)] - part) for word, part in zip(words, by_trace))
for name, difference in equal.items():
    print(f"{name:21} differs by at most {difference:.0e}")

# %% [markdown]
# Dividing the tanh in proportion to the summands is a convention; other conventions give other numbers.
#
# ## Votes: the photo's part, split into regions
#
# The photo's part is $\beta_t \sum_i \alpha_{ti} \mathbf{a}_i$, multiplied by $\mathbf{L}_z$, by the slope and by the
# row $\mathbf{w}$ of $\mathbf{L}_o$ that belongs to the candidate. So the photo's part is linear in $\mathbf{a}_i$, and
# for each candidate there is one direction $\mathbf{d}$: the further an annotation vector points along $\mathbf{d}$,
# the more it raises the candidate's logit:
#
# $$\mathbf{d} = \mathbf{L}_z^\top (\text{slope} \odot \mathbf{w}) \qquad
#   \text{photo's part} = \beta_t \sum_i \alpha_{ti}\, \mathbf{d} \cdot \mathbf{a}_i$$
#
# Part of $\mathbf{d} \cdot \mathbf{a}_i$ is the same for all regions, and describes the photo as a whole. The *vote* of
# a region comes from the rest, which depends on how the region's vector differs from the mean vector
# $\bar{\mathbf{a}}$:
#
# $$v_{ti} = \beta_t\, \alpha_{ti}\, \mathbf{d} \cdot (\mathbf{a}_i - \bar{\mathbf{a}})$$
#
# **Predict.** The six regions in rows 16 to 18 and columns 14 and 15 show a foot of the tripod. Together they get 4 %
# of the attention. Do they vote for or against "camera"?
#
# **Your turn.** Write the function that computes the votes of all regions.


# %% gap="votes"
def direction(word):
    """Return d, (D,): in which direction annotation vectors raise the logit of a candidate."""
    return L_z.T @ (slope * L_o[word_id(word)])


def votes(word):
    """Return the votes of the regions for a candidate, (400,)."""
    d = direction(word)
    return ...  # your turn


# %% check="votes" empty="votes('camera')"
for word in ("camera", "drink"):
    message = "Not the votes: they have three factors, beta, alpha, and d times the difference to the mean vector."
    assert np.shape(votes(word)) == (400,), "There must be a vote for each of the 400 regions."
    assert np.allclose(votes(word), trace.votes(t, word).ravel(), atol=1e-3), message
of_mean = beta * direction("camera") @ a.mean(axis=0)
print(f"votes {votes('camera').sum():+.2f}, even attention {of_mean:+.2f}", end=", ")
of_photo = parts["photo"][word_id("camera")]
print(f"together {votes('camera').sum() + of_mean:+.2f}: the photo's part is {of_photo:+.2f}")

# %% stored="JPEG"
foot = [20 * row + column for row in (16, 17, 18) for column in (14, 15)]
print(f"the foot: attention {alpha[foot].sum():.0%}, votes for camera", *votes("camera")[foot].round(3))
trace.plot(t, width=7)

# %% [markdown]
# <details><summary>What happened</summary>
#
# All six regions vote against "camera". Yet they get attention, because all candidates share the same attention
# weights. The attention score of a region, equation (4), and its votes are computed from the same vector
# $\mathbf{a}_i$, but in different ways. The score says how much the region is worth reading at this step, and the votes
# say which candidates it supports.
#
# </details>
#
# So each step has one attention map, but as many vote maps as there are candidates. Which candidates does the foot of
# the tripod support most?

# %%
directions = (slope * L_o) @ L_z  # those of all candidates, (K, D)
votes_of_foot = beta * directions @ (alpha[foot] @ (a[foot] - a.mean(axis=0)))  # (K,), of the six regions together
best = np.argsort(-votes_of_foot)[:6]
print("the foot speaks for", ", ".join(f"{vocabulary.tokens[i]} {votes_of_foot[i]:+.2f}" for i in best))

# %% [markdown]
# ## What each region would say
#
# A region with little attention has a small vote, whatever it shows. So ask a question that leaves attention out: what
# would the network say if *all* attention were on one region, with the same memory? To find out by hand, compute the
# readout with $\mathbf{a}_i$ instead of the weighted mean; `trace.places` does the same.

# %%
summed = summands["previous word"] + L_h @ h + (beta * a + z_sentinel) @ L_z.T  # (400, m): a row for each region
said_alone = (np.tanh(summed) @ L_o.T + b).argmax(axis=1)
places, probabilities = trace.places(t)
same = np.mean([vocabulary.tokens[said] == word for said, word in zip(said_alone, places.ravel())])
print(f"the same word by hand and by the trace: {same:.0%} of the regions")
said_by_places = Counter(places.ravel().tolist())
print(", ".join(f"{word} {number}" for word, number in said_by_places.most_common(8)))

figure, ax = plt.subplots(figsize=(10, 5), layout="constrained")
ax.imshow(places == "camera", cmap="Oranges", vmax=2, aspect="auto")
for (row, column), word in np.ndenumerate(places):
    ax.text(column, row, word, ha="center", va="center", fontsize=8, clip_on=True)
ax.set(xticks=range(20), yticks=range(20), title="a man in a black jacket is holding a ...")
_ = ax.set_xlim(1.5, 17.5)  # the words of all 20 columns would not fit

# %% [markdown]
# For 30 regions, the network would say "camera". All of them are in rows 4 to 11 and columns 9 to 13, around the
# camera. The most frequent word, for 107 regions, is `<unk>`, the token for words that are not in the vocabulary. Some
# of the other words name what is in the photo (city, jacket, man), and some name things that can be held but are not in
# the photo (rope, cigarette, cellphone).
#
# How would the caption have continued after another word? The next cell prints the alternatives to "camera", each with
# the caption that would have followed.

# %%
for other in trace.alternatives(t):
    print(f"{other.word:12} {other.probability:.0%}  {other.caption}")

# %% [markdown]
# The caption with "a video camera" is more probable as a whole, too. But the search also compares the words of a
# caption with the captions of similar training photos, and "a camera" agrees better.
#
# ## Remove it
#
# Neither attention nor votes show what would have happened if the network had *not* seen the camera. The network might
# have found the word in other regions. So remove regions, and let the network read the caption again from its first
# word, so that memory has not seen these regions, either. To remove a region, replace its vector by the mean of all
# vectors. (A vector of zeros would not be neutral: the network has never seen one, and would react to it in some way.)
#
# **Your turn.** Write the function that removes regions.


# %% gap="without"
def without(a, regions):
    """Return the annotation vectors (400, D), those of some regions (numbers) replaced by the mean of all."""
    return ...  # your turn


# %% check="without" empty="without(np.ones((3, 2)), [0])"
three = np.array([[0.0, 3.0], [3.0, 0.0], [6.0, 3.0]])
message = "Region 1 should be the mean of all three, and the others as they were."
assert np.allclose(without(three, [1]), [[0, 3], [3, 2], [6, 3]]), message
assert np.allclose(three[1], [3, 0]), "Change a copy: the annotation vectors are needed again."
assert np.allclose(without(three, np.arange(0)), three), "If no region is removed, nothing changes."

# %% [markdown]
# There are two ways to choose a tenth of the regions: you can remove those with the most attention at "camera", or
# those with the highest votes for "camera".
#
# **Predict.** Which of the two choices lowers the probability of "camera" more?


# %%
def read_without(trace, t, regions):
    """Return the probabilities (K,) of word t and its attention (400,), if some regions are removed."""
    annotations = trace.annotations().reshape(400, 512)
    previous = [vocabulary.start_token_id, *vocabulary.caption_to_ids(trace.words[:t])]
    read = decoder(without(annotations, regions)[None], np.array([previous]))
    return plain(ops.softmax(read.logits[0, t])), plain(read.attention_weights[0, t]).ravel()


def orders(trace, t):
    """Return the regions in three orders: most attention first, highest vote first, and at random."""
    return {
        "attention": np.argsort(-trace.steps[t].attention_weights.ravel(), kind="stable"),
        "votes": np.argsort(-trace.votes(t).ravel(), kind="stable"),
        "random": np.random.default_rng(0).permutation(400),
    }


def falls(trace, t):
    """Return by how much log p of word t falls without the first 40 regions of each order."""
    said = word_id(trace.words[t])
    p, _ = read_without(trace, t, np.arange(0))  # no region removed
    return {
        name: np.log(p[said]) - np.log(read_without(trace, t, order[:40])[0][said])
        for name, order in orders(trace, t).items()
    }


camera = falls(trace, t)
for name, fall in camera.items():
    print(f"without 40 regions, by {name:9}: log p falls by {fall:5.2f}, p is multiplied by {np.exp(-fall):.3f}")
by_attention, by_votes, _ = orders(trace, t).values()
print(f"{len({*by_attention[:40]} & {*by_votes[:40]})} of the 40 regions are in both of the first two")
p_without_votes, _ = read_without(trace, t, by_votes[:40])
print(f"without those that voted, the most probable word is {vocabulary.tokens[p_without_votes.argmax()]}")

# %% [markdown]
# <details><summary>What happened</summary>
#
# If you remove the regions with the highest votes, the probability of "camera" falls to almost 0. If you remove those
# with the most attention, a twelfth of the probability is left, because 18 of these 40 regions are on or beside the
# legs of the tripod, and voted against "camera". Removing random regions does no harm. So the word "camera" *depends*
# on what the network saw of the camera.
#
# </details>
#
# `keras-sat evaluate --faithfulness` removes regions in this way for every content word, and measures how much log p
# falls. For the photo above, the result must equal the mean fall computed by hand.

# %%
named = [number for number, word in enumerate(trace.words) if word in ("man", "black", "jacket", "holding", "camera")]
by_hand = {kind: np.mean([falls(trace, number)[kind] for number in named]) for kind in ("attention", "votes")}
measured = {
    kind: captioner.faithfulness(photos / "tripod.jpg", trace.result.caption, pixel_photos=0, map_kind=kind)
    for kind in ("attention", "votes")
}
for kind, figures in measured.items():
    print(f"{kind:10} by hand {by_hand[kind]:.3f}, measured {figures['drop']['attended']:.3f}, random ", end="")
    print(f"{figures['drop']['random']:.3f} ({figures['num_words']} words)")

# %% [markdown]
# ## A word that is wrong
#
# The captioner says that the people in the next photo are sitting on a raft, which is right. But it is not far from a
# mistake: after "a group of people are sitting in a yellow", the word "kayak" is more probable (27 %) than the correct
# word "raft" (11 %). To find out why, give `captioner.trace` the caption with the mistake.

# %% stored="JPEG"
right = captioner.trace(photos / "raft.jpg")
raft = captioner.trace(photos / "raft.jpg", "a group of people are sitting in a yellow kayak")
t_raft = raft.words.index("kayak")
print("the captioner:", right.result.caption)
print("after “yellow”:", ", ".join(f"{top.word} {top.probability:.0%}" for top in raft.steps[t_raft].top[:4]))

photo = plt.imread(photos / "raft.jpg")
like_the_photo = {"aspect": photo.shape[0] / photo.shape[1]}
figure, axes = plt.subplots(1, 3, figsize=(8.5, 2.5), layout="constrained")
axes[0].imshow(photo)
axes[1].imshow(raft.steps[t_raft].attention_weights, vmax=0.08, **like_the_photo)
axes[2].imshow(raft.votes(t_raft), vmin=-0.3, vmax=0.3, cmap="PuOr_r", **like_the_photo)
for ax, title in zip(
    axes, (raft.result.caption, "attention at “kayak”", "votes for “kayak” (orange: for, purple: against)")
):
    ax.set_title(title, fontsize=8)
    ax.set(xticks=[], yticks=[])

# %% [markdown]
# The caption above this photo is wrong.
#
# At "kayak", attention and votes agree: 37 of the 40 regions with the most attention are also among the 40 with the
# highest votes. The latter 40 get 86 % of the attention, and their votes add 3.6 to the logit of "kayak". If this logit
# fell by 3.6 and all others stayed the same, the probability would fall to 1 %.
#
# **Predict.** If you remove the 40 regions with the highest votes, how much is left of the 27 % for "kayak"?

# %%
order = orders(raft, t_raft)["votes"]
kayak = falls(raft, t_raft)
p_after, alpha_after = read_without(raft, t_raft, order[:40])
print(f"votes of the 40 regions: {raft.votes(t_raft).ravel()[order[:40]].sum():+.1f}")
print(f"“kayak” without them: {p_after[word_id('kayak')]:.0%}")

taken = np.isin(np.arange(400), order[:40]).reshape(20, 20)
figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.2), layout="constrained")
axes[0].imshow(raft.steps[t_raft].attention_weights, vmax=0.08, **like_the_photo)
axes[1].imshow(np.ma.masked_array(alpha_after.reshape(20, 20), taken), vmax=0.08, **like_the_photo)
axes[1].set_facecolor("lightgrey")
for ax, title in zip(axes, ("attention", "attention without 40 regions (grey)")):
    ax.set(title=title, xticks=[], yticks=[])

# %% [markdown]
# <details><summary>What happened</summary>
#
# More than half of the 27 % is left. The network now looks at neighbouring regions, nearly all of which support
# "kayak", too.
#
# </details>
#
# The next cell removes more and more regions, and plots the probabilities of "camera" and "kayak".

# %%
figure, axes = plt.subplots(1, 2, figsize=(8.5, 2.5), layout="constrained")
numbers = 40 * np.arange(10)
chosen_by = {"attention": "most attention first", "votes": "highest vote first", "random": "at random"}
curves = {}
for ax, (of, number) in zip(axes, ((trace, t), (raft, t_raft))):
    word = of.words[number]
    for name, order in orders(of, number).items():
        curves[word, name] = [read_without(of, number, order[:taken])[0][word_id(word)] for taken in numbers]
        ax.plot(numbers / 400, curves[word, name], marker="o", label=chosen_by[name])
    ax.set(title=f"p of “{word}”", xlabel="fraction of the regions removed", ylim=(0, 0.3))
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center")
for (word, name), curve in curves.items():
    print(f"{word:7} by {name:10}", *(f"{p:.3f}" for p in curve))
left_at_random = orders(trace, t)["random"][numbers[-1] :]
_, alpha_at_random = read_without(trace, t, orders(trace, t)["random"][: numbers[-1]])
of_camera = [place for place in left_at_random if places.ravel()[place] == "camera"]
print(f"camera, 40 regions left at random: {alpha_at_random[of_camera].sum():.0%} of the attention on {len(of_camera)}")

# %% [markdown]
# "Camera" depends on a few regions. The probability of "kayak" falls below 6 % only when a second tenth of the photo is
# removed, and with it most of the front of the boat. The votes for "kayak" were not wrong: they show what was read, and
# how much it added. But votes cannot show what the network would have read *instead*.
#
# The curves for "camera" sometimes rise, because attention is redistributed among the remaining regions. In the random
# order, two of the last 40 regions happen to be ones for which the network would say "camera". These two regions get
# 65 % of the attention, because most other regions with high scores have been removed. If you remove the tenth with the
# most attention, the network reads the second tenth. More than half of its attention is then on or beside the legs of
# the tripod, and these regions would say "swing" or "pole", among other words. If you remove the second tenth, too,
# "camera" becomes more probable again.
#
# So attention, votes and the removal of regions answer three different questions:
#
# | question | ask | "camera" | "kayak" |
# |---|---|---|---|
# | where did it read? | attention | the camera, and the legs of the tripod | the front of the boat |
# | what did each region add to *this* word? | votes | the camera for it, the legs against it | the front of the boat |
# | what would have happened without these regions? | remove them | hardly any of p is left | most of p is left |
#
# ## Both tests on six photos
#
# Is "camera" an exception? The next cell tests all content words in the captions of six photos that come with the
# package.

# %%
left_out = {"a", "of", "and", "are", "is", "in", "on", "the"}
traces = [captioner.trace(photos / f"{name}.jpg") for name in ("hat", "beach", "motorcycles", "cat")]
labels, pairs = [], []
for one in [trace, right, *traces]:
    for number, word in enumerate(one.words):
        if word not in left_out:
            found = falls(one, number)
            labels.append(word)
            pairs.append([found["attention"], found["votes"], found["random"]])
pairs = np.array(pairs)

figure, ax = plt.subplots(figsize=(8.5, 5.2), layout="constrained")
largest_last = np.argsort(pairs[:, 1])
for column, label in enumerate(chosen_by.values()):
    heights = np.arange(len(labels)) + 0.27 * (1 - column)
    ax.barh(heights, pairs[largest_last, column], height=0.27, label=label)
ax.set_yticks(range(len(labels)), [labels[number] for number in largest_last], fontsize=9)
ax.set(xlabel="fall of log p without 40 regions (“camera”, highest votes: 5.8)", xlim=(-0.7, 3))
ax.legend(loc="lower right")
ahead = np.mean(pairs[:, 1] > pairs[:, 0])
print(f"{len(labels)} words; votes cost more than attention for {ahead:.0%}")
print("mean falls, by attention, votes, at random:", *pairs.mean(axis=0).round(2))

# %% [markdown]
# For 27 of the 28 words, removing the regions with the highest votes lowers log p more than removing those with the
# most attention. This was to be expected, since votes belong to one candidate, whereas all candidates share the
# attention. (The exception is "walking"; for "man" and "dog", there is hardly a difference.) But for most words, log p
# falls by less than 0.5, whichever way the regions are chosen. So these words keep more than 60 % of their probability.
# Such words can be read from other regions, or memory suffices. And "raft" is *more* probable without the regions with
# the most attention.
#
# Removing regions has its limits, too. No real photo would produce such a set of vectors. And each region's vector
# depends on more of the photo than its own square, so the neighbours of a removed region still contain information
# about it. [docs/evaluation.md](../../docs/evaluation.md) describes more controls, and a test that blurs regions in the
# photo itself.
#
# ## Exercises
#
# **1.** The caption of `beach.jpg` is "two men are walking on the beach", but the photo shows a woman and a man. For
# the word "men", remove the 40 regions with the highest votes for "men"; then, in a second run, remove the 40 with the
# highest votes for "girls" instead. Which word is the most probable in each run? Which regions does the network read,
# and what would it say if it read only one of them?
#
# [solution 1]
#
# **2.** Which word would have been the most probable in place of "kayak" if attention had been uniform (alpha = 1/400)?
# First estimate the logits of "kayak" and "raft" with `raft.candidate` and `raft.vote_of_mean`. Then compute all logits
# by hand.
#
# [solution 2]
#
# ## In five sentences
#
# The score of a word is a sum: the previous word, memory and the photo each add a part, and the photo's part is a sum
# over regions. Attention shows which regions the network read at a step, with the same weights for all candidates.
# Votes show how much more or less a region added to one candidate than an average region would have added. Neither
# attention nor votes show what the network would have said without a region; to find out, remove the region and let the
# network read again. Even a word with strong votes may keep most of its probability if the regions that voted for it
# are removed, because other regions support the word, too.
#
# ## Next
#
# [All of it in numpy](all_of_it_in_numpy.ipynb) shows how attention is learned. [docs/trace.md](../../docs/trace.md)
# describes everything that a trace holds. [docs/does-it-explain.md](../../docs/does-it-explain.md) tests votes,
# attention and seven other kinds of maps on hundreds of words, as you did here. On attention as an explanation, read
# [*Attention is not Explanation*](https://arxiv.org/abs/1902.10186) (Jain and Wallace, 2019) and [*Attention is not not
# Explanation*](https://arxiv.org/abs/1908.04626) (Wiegreffe and Pinter, 2019).
# [*RISE*](https://arxiv.org/abs/1806.07421) (Petsiuk et al., 2018) has curves like those in this notebook.
#
# The photo of the camera is by Lav Varshney (CC0); the photo of the raft is from the Kodak Lossless True Color Image
# Suite.

# %% maintainers=true
assert trace.result.caption == "a man in a black jacket is holding a camera"
assert right.result.caption == "a group of people are sitting on a raft in the water"
attention_map = alpha.reshape(20, 20)
assert 0.8 < attention_map[5:9, 9:13].sum() < 0.82 and 0.5 < attention_map[12:, 9:16].sum() / (1 - 0.81) < 1
assert step.from_photo > 0.99 and round(alpha[foot].sum(), 2) == 0.04
assert {candidate.word for candidate in step.top[:4]} == set(words) and step.top[0].word == "video"
by_part = {name: [values[word_id(word)] for word in words] for name, values in parts.items()}
assert np.argmax(by_part["memory"]) == 3 and np.argmax(by_part["photo"]) == 1 and np.argmin(by_part["photo"]) == 3
ahead_of = {name: np.round(values[0] - np.array(values), 2) for name, values in by_part.items()}
assert round(ahead_of["photo"][3], 1) == 2.9 and ahead_of["photo"][1] == -0.85 and ahead_of["memory"][1] == 0.85
assert all(np.argmax(values) != 0 for values in by_part.values()) and max(equal.values()) < 1e-4
assert 0 < logits[word_id("video")] - logits[word_id("camera")] < 0.06
np.testing.assert_allclose(equations.votes(alpha[None], a[None], direction("camera")[None], beta)[0], votes("camera"))
assert max(votes("camera")[foot]) < 0 and votes("camera").argmin() in foot and abs(votes("camera").sum() - 4.48) < 0.05
assert same > 0.99 and (places == "camera").sum() == (places[4:12, 9:14] == "camera").sum() == 30
assert said_by_places.most_common(1) == [("<unk>", 107)]
assert {"rope", "cigarette", "cellphone", "city", "jacket", "man"} <= {*said_by_places}
video = trace.alternatives(t)[0]
assert video.caption.endswith("a video camera") and video.log_prob > trace.result.log_prob
compared = {" ".join(one.words): one.agreement for one in trace.result.compared}
assert compared[trace.result.caption] > compared[video.caption]
assert 2.4 < camera["attention"] < 2.6 and camera["votes"] > 5.5 and camera["random"] < 0.05
against = [place for place in by_attention[:40] if votes("camera")[place] < 0]
assert len(against) == 18 and not {*against} & {*by_votes[:40]}
assert all(place // 20 >= 12 and 11 <= place % 20 <= 15 for place in against)
for kind, figures in measured.items():
    assert figures["num_words"] == 5 and abs(figures["drop"]["attended"] - by_hand[kind]) < 1e-3
in_order = orders(raft, t_raft)
first = in_order["votes"][:40]
assert len({*in_order["attention"][:40]} & {*first}) == 37
assert round(raft.steps[t_raft].attention_weights.ravel()[first].sum(), 2) == 0.86
assert round(raft.votes(t_raft).ravel()[first].sum(), 1) == 3.6
p_kayak, p_raft = (raft.candidate(t_raft, word).probability for word in ("kayak", "raft"))
assert round(p_kayak, 2) == 0.27 and round(p_raft, 2) == 0.11
assert round(1 / (1 + (1 / p_kayak - 1) * np.exp(3.6)), 2) == 0.01
assert 0.55 < p_after[word_id("kayak")] / p_kayak < 0.6 and np.exp(-kayak["attention"]) > 0.84
assert alpha_after[first].sum() < 0.02 and alpha_after[raft.votes(t_raft).ravel() > 0].sum() > 0.92
assert max(curves["camera", "votes"][1:]) < 0.01 and max(curves["camera", "attention"][1:]) < 0.08
assert len(of_camera) == 2 and round(alpha_at_random[of_camera].sum(), 2) == 0.65
assert min(curves["camera", "random"][:7]) > 0.17 and curves["camera", "random"][9] > 4 * curves["camera", "random"][8]
assert alpha[left_at_random].sum() < 0.05  # most regions with high scores have been removed
second, (_, alpha_without) = by_attention[40:80], read_without(trace, t, by_attention[:40])
legs = [place for place in second if place // 20 >= 12 and 9 <= place % 20 <= 15]
assert alpha_without[second].sum() > 0.85 and alpha_without[legs].sum() > 0.5
assert {"swing", "pole"} <= {*places.ravel()[legs]}
assert curves["camera", "attention"][2] > 4 * curves["camera", "attention"][1]
for kind in ("attention", "votes"):
    assert curves["kayak", kind][1] > 0.15 and curves["kayak", kind][2] < 0.06
    assert np.isin(np.arange(400), in_order[kind][:80]).reshape(20, 20)[15:20, 4:15].mean() > 0.8
assert min(curves["kayak", "random"][:9]) > 0.22
exceptions = [label for label, (attended, voted, _) in zip(labels, pairs) if voted <= attended]
assert len(labels) == 28 and exceptions == ["walking"] and np.abs(pairs[:, 2]).max() < 0.06
assert all(abs(pairs[labels.index(word), 1] - pairs[labels.index(word), 0]) < 0.03 for word in ("man", "dog"))
assert np.mean(pairs[:, :2].max(axis=1) < 0.5) > 0.55 and pairs[labels.index("raft"), 0] < -0.5
assert round(pairs[labels.index("camera"), 1], 1) == 5.8 and np.sort(pairs[:, :2].max(axis=1))[-2] < 3
