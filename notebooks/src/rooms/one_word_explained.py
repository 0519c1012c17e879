# %% [markdown]
# # One word, explained
#
# **You will be able to**
#
# * split the score of one word into what the previous word, the memory and the photo give, in numpy
# * compute the *votes* of the places for one word, and say how they differ from attention
# * ask each place what it would say alone
# * take places away, and find out whether a word depends on them
#
# **You need** [chapter 3](../03_one_step_of_attention.ipynb), where one step is computed by hand.
# [Chapter 0](../00_look.ipynb) shows votes on other photos.
#
# **1 minute on two cores**; allow half an hour to think.
#
# [diagram]
#
# Why did the captioner say this word? Three kinds of pictures claim to answer: where it looked, which places spoke for
# the word, and what happens if you take them away. They answer three different questions. Here you compute all three
# for one word that is right and for one that is wrong.

# %%
from data_utils.tf_logging import import_tensorflow

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
photos = Path(keras_sat.__file__).parent / "deploy" / "page" / "examples"

# %% [markdown]
# ## A word that is right
#
# A *trace* keeps what the network computed for each word of a caption. Here is the word "camera". The network divides
# the photo into 14 x 14 *places* (the paper's regions); count rows and columns from 0, beginning at the top left.

# %% stored="JPEG"
trace = captioner.trace(photos / "tripod.jpg")
t = trace.words.index("camera")
step = trace.steps[t]
alpha = step.attention_weights.ravel().astype("float64")  # (196,)

figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
axes[0].imshow(trace.result.image)
axes[0].set(title=trace.result.caption, xticks=[], yticks=[])
shown = axes[1].imshow(alpha.reshape(14, 14))
axes[1].set(title=f"attention α at “{step.word}”", xticks=range(14), yticks=range(14))
figure.colorbar(shown, ax=axes[1], shrink=0.8)
print(f"attention in rows 3 to 6, columns 6 to 8: {alpha.reshape(14, 14)[3:7, 6:9].sum():.0%}")
print(f"attention in rows 12 and 13, columns 8 to 11: {alpha.reshape(14, 14)[12:, 8:12].sum():.0%}")

# %% [markdown]
# The caption is right, if you take "holding" loosely, and three quarters of the attention are on the camera and right
# beside it. The rest is lower down, above all on the foot of the tripod.
#
# ## The score, split in four
#
# The readout adds up three vectors, equation (7): what the previous word, the memory $\mathbf{h}_t$ and the photo say.
# In the paper $\mathbf{L}_o$ is applied to the sum as it is. This captioner puts a tanh in between:
#
# $$\mathbf{s} = \mathbf{E}\mathbf{y}_{t-1} + \mathbf{L}_h \mathbf{h}_t + \mathbf{L}_z \hat{\mathbf{z}}_t \qquad
#   \text{logit} = \mathbf{L}_o \tanh(\mathbf{s}) + \mathbf{b}$$
#
# It differs from the paper in two more ways. It reads the previous word first and looks then, so $\mathbf{h}_t$
# directs the attention. And instead of the gate it has a *sentinel*, a vector that stands for the memory. The context
# is a mixture, $\hat{\mathbf{z}}_t = \beta_t \sum_i \alpha_{ti} \mathbf{a}_i + (1 - \beta_t) \cdot$ sentinel. So
# here too, $\beta_t$ says how much is read from the photo: 1 is all. At "camera" it is nearly 1.
#
# Take the numbers out of the trace and the weights out of the layers. Keras keeps matrices for row vectors, as
# $\mathbf{h}\mathbf{L}$; `.T` turns them to stand on the left, as in the formulas.


# %%
def plain(weight):
    return ops.convert_to_numpy(weight).astype("float64")


decoder, readout, vocabulary = captioner.decoder, captioner.decoder.readout, captioner.vocabulary
E = plain(decoder.embedding.embeddings).T  # (m, K): a column for each word
L_h, L_z = plain(readout.state_readout.kernel).T, plain(readout.context_readout.kernel).T  # (m, n) and (m, D)
L_o, b = plain(readout.word_logits.kernel).T, plain(readout.word_logits.bias)  # (K, m) and (K,)
word_id = vocabulary.tokens.index

a = trace.annotations().reshape(196, 512).astype("float64")
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
# Without the tanh, the logit would be a sum of three parts, and the bias. With it, it still can be, if the tanh is
# shared out in proportion. Element by element, $\tanh(s) = s \cdot \frac{\tanh(s)}{s}$. Call the fraction the *slope*.
# It is one number for each element, the same for the three summands:
#
# $$\text{slope} = \frac{\tanh(\mathbf{s})}{\mathbf{s}} \qquad
#   \text{part of a summand } \mathbf{p} = \mathbf{L}_o (\mathbf{p} \odot \text{slope})$$
#
# **Your turn.** Write the parts. Their sum, with the bias, must be the logit.

# %% gap="parts"
slope = np.tanh(s) / s  # (m,)


def part(p):
    """Return what a summand p (m,) gives to the logit of each word, (K,)."""
    return ...  # your turn


# %% check="parts" empty="part(np.ones(512))"
in_all = sum(part(p) for p in summands.values()) + b
np.testing.assert_allclose(in_all, logits, atol=1e-6, err_msg="The parts do not add up: is the slope in them?")
parts = {name: part(p) for name, p in summands.items()}

# %% [markdown]
# At each step, every word of the vocabulary is a *candidate*. **Predict.** Four candidates, "camera", "video",
# "microphone" and "cigarette", were the most probable. The memory knows "a man in a black jacket is holding a". Which
# of the four does it prefer? And which does the photo prefer?

# %%
words = ["camera", "video", "microphone", "cigarette"]
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
# The memory prefers "cigarette", and the photo "video" (as in "video camera"). Only differences between candidates
# count: what all get alike changes no probability. The photo gives "camera" 3.0 more than "cigarette", which decides
# against the memory. But it gives "camera" .8 less than "video", its nearest rival. There the memory decides, with 1.0
# more. "Camera" is first in no part, only in the sum.
#
# </details>
#
# The functions of the package do the same for any activation, and so does the trace. You find their numbers.

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
# Sharing out in proportion is a convention. Other conventions give other numbers.
#
# ## Votes: the photo's part, split into places
#
# The photo's part is $\beta_t \sum_i \alpha_{ti} \mathbf{a}_i$, put through $\mathbf{L}_z$, the slope and the row
# $\mathbf{w}$ of $\mathbf{L}_o$ that belongs to the candidate. All of this is linear in $\mathbf{a}_i$. So for each
# candidate there is one direction $\mathbf{d}$ in which annotation vectors raise its logit:
#
# $$\mathbf{d} = \mathbf{L}_z^\top (\text{slope} \odot \mathbf{w}) \qquad
#   \text{photo's part} = \beta_t \sum_i \alpha_{ti}\, \mathbf{d} \cdot \mathbf{a}_i$$
#
# Part of $\mathbf{d} \cdot \mathbf{a}_i$ is the same for all places of the photo: it says what the photo is like as a
# whole. The *vote* of a place is what remains, the difference to an average place $\bar{\mathbf{a}}$:
#
# $$v_{ti} = \beta_t\, \alpha_{ti}\, \mathbf{d} \cdot (\mathbf{a}_i - \bar{\mathbf{a}})$$
#
# **Predict.** The place in row 13, column 10, the foot of the tripod, has 7 % of the attention. Does it speak for
# "camera"?
#
# **Your turn.** Write the votes of all places.


# %% gap="votes"
def direction(word):
    """Return d, (D,): in which direction annotation vectors raise the logit of a candidate."""
    return L_z.T @ (slope * L_o[word_id(word)])


def votes(word):
    """Return the votes of the places for a candidate, (196,)."""
    d = direction(word)
    return ...  # your turn


# %% check="votes" empty="votes('camera')"
for word in ("camera", "cigarette"):
    message = "Not the votes: they have three factors, beta, alpha, and d times the difference to the mean vector."
    np.testing.assert_allclose(votes(word), trace.votes(t, word).ravel(), atol=1e-3, err_msg=message)
    assert np.shape(votes(word)) == (196,), "There must be a vote for each of the 196 places."
of_mean = beta * direction("camera") @ a.mean(axis=0)
print(f"votes {votes('camera').sum():+.2f}, even attention {of_mean:+.2f}", end=", ")
of_photo = parts["photo"][word_id("camera")]
print(f"together {votes('camera').sum() + of_mean:+.2f}: the photo's part is {of_photo:+.2f}")

# %% stored="JPEG"
foot = 13 * 14 + 10
print(f"the foot: attention {alpha[foot]:.0%}, vote for camera {votes('camera')[foot]:+.2f}")
trace.plot(t, width=10)

# %% [markdown]
# <details><summary>What happened</summary>
#
# It speaks against it. It is read nevertheless: the weights are the same for all candidates. Its score, equation (4),
# and its votes are two readings of the same vector $\mathbf{a}_i$. The score says whether this place is worth reading
# at this step, the votes say for which candidates it speaks.
#
# </details>
#
# (*Known objects*, over the bars: an ImageNet classifier has a say in the search, and took .4 from the log probability
# of "camera". That is no part of the logit.)
#
# So each step has one map of attention, but as many maps of votes as there are candidates. What does this place speak
# for?

# %%
directions = (slope * L_o) @ L_z  # those of all candidates, (K, D)
votes_of_foot = beta * alpha[foot] * directions @ (a[foot] - a.mean(axis=0))  # (K,)
best = np.argsort(-votes_of_foot)[:6]
print("the foot speaks for", ", ".join(f"{vocabulary.tokens[i]} {votes_of_foot[i]:+.2f}" for i in best))

# %% [markdown]
# ## What each place would say
#
# A vote is small where attention is small, whatever is there. Another question leaves attention out: what would the
# network say if *all* attention were on one place, with the same memory? By hand this is the readout with
# $\mathbf{a}_i$ instead of the mean; with the trace it is `trace.places`.

# %%
summed = summands["previous word"] + L_h @ h + (beta * a + z_sentinel) @ L_z.T  # (196, m): a row for each place
said_alone = (np.tanh(summed) @ L_o.T + b).argmax(axis=1)
places, probabilities = trace.places(t)
same = np.mean([vocabulary.tokens[said] == word for said, word in zip(said_alone, places.ravel())])
print(f"the same word by hand and by the trace: {same:.0%} of the places")
said_by_places = Counter(places.ravel().tolist())
print(", ".join(f"{word} {number}" for word, number in said_by_places.most_common(8)))

figure, ax = plt.subplots(figsize=(10, 4.6), layout="constrained")
ax.imshow(places == "camera", cmap="Oranges", vmax=2, aspect="auto")
for (row, column), word in np.ndenumerate(places):
    ax.text(column, row, word, ha="center", va="center", fontsize=8)
_ = ax.set(xticks=range(14), yticks=range(14), title="a man in a black jacket is holding a ...")

# %% [markdown]
# 28 places would say "camera". All but one of them are in rows 2 to 8 and columns 5 to 10, around the camera. Most
# often, 47 times, the answer is `<unk>`: a word that the vocabulary does not have. Some of the others say what is there
# (city, jacket, man), and some what can be held, though nothing of it is there (rope, leash, guitar).
#
# What would have followed after another word? Each alternative is the beginning of another caption.

# %%
for other in trace.alternatives(t):
    print(f"{other.word:12} {other.probability:.0%}  {other.caption}")

# %% [markdown]
# ## Take it away
#
# None of this says what would have happened if the network had *not* seen the camera. It might know the word from the
# other places. So take places away, and let the network read the caption again from its first word on: the memory does
# not see them, either. The vectors of the places become the mean of all: a place that looks like every other one.
# (Vectors of zeros would be no neutral choice. The network has never seen them, and they mean something to it.)
#
# **Your turn.** Write what takes the places away.


# %% gap="without"
def without(a, places):
    """Return the annotation vectors (196, D), those of some places (numbers) replaced by the mean of all."""
    return ...  # your turn


# %% check="without" empty="without(np.ones((3, 2)), [0])"
three = np.array([[0.0, 3.0], [3.0, 0.0], [6.0, 3.0]])
message = "Place 1 should be the mean of all three, and the others as they were."
np.testing.assert_allclose(without(three, [1]), [[0, 3], [3, 2], [6, 3]], err_msg=message)
np.testing.assert_allclose(three[1], [3, 0], err_msg="Change a copy: the annotation vectors are needed again.")
np.testing.assert_allclose(without(three, np.arange(0)), three, err_msg="Without any place, nothing changes.")

# %% [markdown]
# Here are two ways to choose a tenth of the places: those that "camera" looked at most, and those with the highest
# votes for it.
#
# **Predict.** Which of the two costs the word more?


# %%
def read_without(trace, t, places):
    """Return the probabilities (K,) of word t and its attention (196,), if some places are taken away."""
    annotations = trace.annotations().reshape(196, 512)
    previous = [vocabulary.start_token_id, *vocabulary.caption_to_ids(trace.words[:t])]
    read = decoder(without(annotations, places)[None], np.array([previous]))
    return plain(ops.softmax(read.logits[0, t])), plain(read.attention_weights[0, t]).ravel()


def orders(trace, t):
    """Return the places in three orders: most attention first, highest vote first, and at random."""
    return {
        "attention": np.argsort(-trace.steps[t].attention_weights.ravel(), kind="stable"),
        "votes": np.argsort(-trace.votes(t).ravel(), kind="stable"),
        "random": np.random.default_rng(0).permutation(196),
    }


def falls(trace, t):
    """Return by how much log p of word t falls without the first 20 places of each order."""
    said = word_id(trace.words[t])
    p, _ = read_without(trace, t, np.arange(0))  # no places
    return {
        name: np.log(p[said]) - np.log(read_without(trace, t, order[:20])[0][said])
        for name, order in orders(trace, t).items()
    }


camera = falls(trace, t)
for name, fall in camera.items():
    print(f"without 20 places, by {name:9}: log p falls by {fall:5.2f}, p is multiplied by {np.exp(-fall):.3f}")
by_attention, by_votes, _ = orders(trace, t).values()
print(f"{len({*by_attention[:20]} & {*by_votes[:20]})} of the 20 places are in both of the first two")
p_without_votes, _ = read_without(trace, t, by_votes[:20])
print(f"without those that voted, the most probable word is {vocabulary.tokens[p_without_votes.argmax()]}")

# %% [markdown]
# <details><summary>What happened</summary>
#
# The places that voted. Without them, hardly anything is left of the word. Without those that were looked at, a tenth
# of its probability is left: eight of these 20 are on the legs of the tripod and beside them, and spoke against
# "camera". Random places cost nothing. So "camera" *depends* on what was seen of the camera.
#
# </details>
#
# `keras-sat evaluate --faithfulness` measures this for every word that names something. For this photo, it must give
# the mean of what you compute by hand.

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
# This boat is a raft. The captioner says "kayak" and gives it 68 %.

# %% stored="JPEG"
raft = captioner.trace(photos / "raft.jpg")
t_raft = raft.words.index("kayak")
photo = plt.imread(photos / "raft.jpg")
like_the_photo = {"aspect": photo.shape[0] / photo.shape[1]}

figure, axes = plt.subplots(1, 3, figsize=(10, 2.9), layout="constrained")
axes[0].imshow(photo)
axes[1].imshow(raft.steps[t_raft].attention_weights, vmax=0.18, **like_the_photo)
axes[2].imshow(raft.votes(t_raft), vmin=-0.8, vmax=0.8, cmap="PuOr_r", **like_the_photo)
for ax, title in zip(
    axes, (raft.result.caption, "attention at “kayak”", "votes for “kayak” (orange: for, purple: against)")
):
    ax.set_title(title, fontsize=10)
    ax.set(xticks=[], yticks=[])

# %% [markdown]
# The caption over this figure is wrong. ([Chapter 0](../00_look.ipynb) shows the other words that were weighed.)
#
# Attention and votes agree here: the 20 places with the most attention are those with the highest votes. They have 91 %
# of the attention, and their votes add 4.1 to the logit of "kayak".
#
# **Predict.** Take these 20 places away. What is left of the 68 %?

# %%
order = orders(raft, t_raft)["votes"]
kayak = falls(raft, t_raft)
p_after, alpha_after = read_without(raft, t_raft, order[:20])
print(f"votes of the 20 places: {raft.votes(t_raft).ravel()[order[:20]].sum():+.1f}")
print(f"“kayak” without them: {p_after[word_id('kayak')]:.0%}")

taken = np.isin(np.arange(196), order[:20]).reshape(14, 14)
figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
axes[0].imshow(raft.steps[t_raft].attention_weights, vmax=0.18, **like_the_photo)
axes[1].imshow(np.ma.masked_array(alpha_after.reshape(14, 14), taken), vmax=0.18, **like_the_photo)
axes[1].set_facecolor("lightgrey")
for ax, title in zip(axes, ("attention", "attention without 20 places (grey)")):
    ax.set(title=title, xticks=[], yticks=[])

# %% [markdown]
# <details><summary>What happened</summary>
#
# Nearly all. The network looks at the places around them, most of them on the same yellow tube, and they say "kayak",
# too.
#
# </details>
#
# Here is what happens as more and more places are taken away.

# %%
figure, axes = plt.subplots(1, 2, figsize=(10, 2.8), layout="constrained")
numbers = np.round(196 * np.arange(10) / 10).astype(int)
chosen_by = {"attention": "most attention first", "votes": "highest vote first", "random": "at random"}
curves = {}
for ax, (of, number) in zip(axes, ((trace, t), (raft, t_raft))):
    word = of.words[number]
    for name, order in orders(of, number).items():
        curves[word, name] = [read_without(of, number, order[:taken])[0][word_id(word)] for taken in numbers]
        ax.plot(numbers / 196, curves[word, name], marker="o", label=chosen_by[name])
    ax.set(title=f"p of “{word}”", xlabel="fraction of the places taken away", ylim=(0, 0.75))
axes[0].legend()
for (word, name), curve in curves.items():
    print(f"{word:7} by {name:10}", *(f"{p:.3f}" for p in curve))
left_at_random = orders(trace, t)["random"][numbers[-1] :]
_, alpha_at_random = read_without(trace, t, orders(trace, t)["random"][: numbers[-1]])
of_camera = [place for place in left_at_random if places.ravel()[place] == "camera"]
print(f"camera, 20 places left at random: {alpha_at_random[of_camera].sum():.0%} of the attention on {len(of_camera)}")

# %% [markdown]
# "Camera" hangs on a few places. "Kayak" falls only when a second tenth of the photo is gone, and with it most of the
# tube. The votes were not wrong: this is what was read, and what it added. But they cannot say what the network would
# have read *instead*.
#
# The curves of "camera" do not only fall: attention is shared out anew among what is left. By chance, five of the last
# 20 places would say "camera". They get 91 % of the attention, as most other places with high scores are gone. By
# attention, without the first tenth the second is read, more than half of it on the tripod ("swing", "pole"). Without
# that, too, "camera" comes up again.
#
# So there are three questions, and three answers:
#
# | question | ask | "camera" | "kayak" |
# |---|---|---|---|
# | where did it read? | attention | the camera, and the foot of the tripod | the front of the tube |
# | what did each place add to *this* word? | votes | the camera for it, the foot against it | the front of the tube |
# | what would have happened without them? | take them away | another word | the same word |
#
# ## Both tests on six photos
#
# Is "camera" an exception? Here are all words that may name something, in the captions of six photos that come with the
# package.

# %%
left_out = {"a", "of", "are", "is", "in", "on", "the"}
traces = [captioner.trace(photos / f"{name}.jpg") for name in ("hat", "beach", "motorcycles", "cat")]
labels, pairs = [], []
for one in [trace, raft, *traces]:
    for number, word in enumerate(one.words):
        if word not in left_out:
            found = falls(one, number)
            labels.append(word)
            pairs.append([found["attention"], found["votes"], found["random"]])
pairs = np.array(pairs)

figure, ax = plt.subplots(figsize=(10, 5.4), layout="constrained")
largest_last = np.argsort(pairs[:, 1])
for column, label in enumerate(chosen_by.values()):
    heights = np.arange(len(labels)) + 0.27 * (1 - column)
    ax.barh(heights, pairs[largest_last, column], height=0.27, label=label)
ax.set_yticks(range(len(labels)), [labels[number] for number in largest_last], fontsize=9)
ax.set(xlabel="fall of log p without 20 places (“camera”, highest votes: 5.1)", xlim=(-0.6, 2.5))
ax.legend(loc="lower right")
ahead = np.mean(pairs[:, 1] > pairs[:, 0])
print(f"{len(labels)} words; votes cost more than attention for {ahead:.0%}")
print("mean falls, by attention, votes, at random:", *pairs.mean(axis=0).round(2))

# %% [markdown]
# Places chosen by votes cost more than places chosen by attention for 23 of the 24 words, as they should: votes belong
# to one candidate, attention is shared by all. (The exception is "kayak", where both choose the same 20 places.) But
# most words fall by less than 0.5, so they keep more than 60 % of their probability, however the places are chosen.
# They can be read elsewhere, or the memory knows them. And "dirt" (of "dirt bike") is *more* probable without the
# places that it looked at.
#
# Taking away has limits, too. The altered photo is one that no camera takes. A place sees beyond its own square, so its
# neighbours still know something of it. [docs/evaluation.md](../../docs/evaluation.md) has more controls, and blurs
# places in the photo itself.
#
# ## Exercises
#
# **1.** Trace `beach.jpg`. For the word "girls", take away the 20 places with the most attention and then, instead, the
# 20 with the highest votes. The 20 with the most attention voted +0.9 for "girls" in sum, and yet they cost it nothing.
# Where does the network look without them, and what would those places say?
#
# [solution 1]
#
# **2.** What would have been said at "kayak" with even attention, alpha = 1/196? First estimate it for "kayak" and
# "raft" with `raft.candidate` and `raft.vote_of_mean`. Then compute it by hand.
#
# [solution 2]
#
# ## In five sentences
#
# The score of a word is a sum: the previous word, the memory and the photo each give a part, and the photo's part is a
# sum over places. Attention says where the network read at this step, with the same weights for all candidates. Votes
# say what each place contributed to one candidate, more or less than an average place, and they can be against it.
# Neither says what would have happened otherwise: take the places away, and read again. A word with strong votes may
# lose nothing, because other places say the same.
#
# ## Next
#
# [All of it in numpy](all_of_it_in_numpy.ipynb) computes how these weights are learned. To read:
# [docs/trace.md](../../docs/trace.md), on all that a trace holds; [*Attention is not
# Explanation*](https://arxiv.org/abs/1902.10186) (Jain and Wallace, 2019) and [*Attention is not not
# Explanation*](https://arxiv.org/abs/1908.04626) (Wiegreffe and Pinter, 2019); and
# [*RISE*](https://arxiv.org/abs/1806.07421) (Petsiuk et al., 2018), on curves like those above.
#
# The photo of the camera is by Lav Varshney (CC0), that of the raft is from the Kodak Lossless True Color Image Suite.

# %% maintainers=true
assert trace.result.caption == "a man in a black jacket is holding a camera"
assert raft.result.caption == "a group of people are in a yellow kayak"
assert 0.7 < alpha.reshape(14, 14)[3:7, 6:9].sum() < 0.77 and step.from_photo > 0.99 and round(alpha[foot], 2) == 0.07
assert {candidate.word for candidate in step.top[:4]} == set(words)
by_part = {name: [values[word_id(word)] for word in words] for name, values in parts.items()}
assert np.argmax(by_part["memory"]) == 3 and np.argmax(by_part["photo"]) == 1 and np.argmin(by_part["photo"]) == 3
ahead_of = {name: np.round(values[0] - np.array(values), 1) for name, values in by_part.items()}
assert ahead_of["photo"][3] == 3.0 and ahead_of["photo"][1] == -0.8 and ahead_of["memory"][1] == 1.0
assert all(np.argmax(values) != 0 for values in by_part.values()) and max(equal.values()) < 1e-4
assert round(step.bonus, 1) == -0.4
np.testing.assert_allclose(equations.votes(alpha[None], a[None], direction("camera")[None], beta)[0], votes("camera"))
assert votes("camera")[foot] == votes("camera").min() < -0.3 and abs(votes("camera").sum() - 4.05) < 0.05
assert same > 0.99 and (places == "camera").sum() == 28 and (places[2:9, 5:11] == "camera").sum() == 27
assert said_by_places.most_common(1) == [("<unk>", 47)]
assert {"rope", "leash", "guitar", "city", "jacket", "man"} <= {*said_by_places}
assert 2.2 < camera["attention"] < 2.5 and camera["votes"] > 4.8 and camera["random"] < 0.05
against = [place for place in by_attention[:20] if votes("camera")[place] < 0]
assert len(against) == 8 and all(place // 14 >= 10 for place in against) and not {*against} & {*by_votes[:20]}
for kind, figures in measured.items():
    assert figures["num_words"] == 5 and abs(figures["drop"]["attended"] - by_hand[kind]) < 1e-3
in_order = orders(raft, t_raft)
assert {*in_order["attention"][:20]} == {*in_order["votes"][:20]}
assert round(raft.steps[t_raft].attention_weights.ravel()[in_order["votes"][:20]].sum(), 2) == 0.91
assert round(raft.votes(t_raft).ravel()[in_order["votes"][:20]].sum(), 1) == 4.1
assert round(raft.steps[t_raft].said.probability, 2) == 0.68 and p_after[word_id("kayak")] > 0.63
assert all(max(curves["camera", kind][1:]) < 0.12 for kind in ("attention", "votes"))
assert curves["camera", "random"][-1] > 0.35 and len(of_camera) == 5 and alpha_at_random[of_camera].sum() > 0.88
speak_against = np.minimum(votes("camera"), 0)
assert speak_against[left_at_random].sum() > 0.15 * speak_against.sum()  # both are negative
second, (_, alpha_without) = by_attention[20:39], read_without(trace, t, by_attention[:20])
tripod = [place for place in second if place // 14 >= 9]
assert alpha_without[second].sum() > 0.85 and alpha_without[tripod].sum() > 0.5
assert {"swing", "pole"} <= {*places.ravel()[tripod]}
assert curves["camera", "attention"][2] > 3 * curves["camera", "attention"][1]
assert all(curves["kayak", kind][2] < 0.25 for kind in ("attention", "votes")) and min(curves["kayak", "random"]) > 0.6
assert len(labels) == 24 and (pairs[:, 1] > pairs[:, 0]).sum() == 23
assert labels[np.argmin(pairs[:, 1] > pairs[:, 0])] == "kayak" and np.abs(pairs[:, 2]).max() < 0.2
assert np.mean(pairs[:, 1] < 0.5) > 0.6 and pairs[labels.index("dirt"), 0] < -0.3
