# %% [markdown]
# # 7 · Words out
#
# **You will be able to**
#
# * write *beam search*, and say when *greedy search* misses the best caption
# * explain why searches prefer short captions, and what a *length penalty* does
# * sample captions with a *temperature*, *top-k* and *top-p*, and say why more variety means more mistakes
#
# **You need** to know the softmax, and that a captioner gives a probability to each possible next word.
#
# **Time:** 1 minute to run on two cores, and about 40 minutes to think.
#
# [diagram]
#
# A trained captioner predicts how probable each possible next word is. These probabilities are not a caption yet: you
# still have to choose the words. This chapter shows several ways of choosing words. All of them use the same loop:
# begin with `<start>`, choose a word, feed it back as the next input, and stop at `<end>` or at a maximum length. In
# this loop the captioner is *free-running*: it reads the words that it has chosen itself.

# %%
from data_utils.base import import_tensorflow

import_tensorflow()  # without its startup log

import textwrap
from collections import Counter
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
from keras import ops

from data_utils import Vocabulary, draw_scenes, is_true
from data_utils.scenes import COLOURS, SIZE_WORDS
from keras_sat import PRESETS, Captioner, beam_search, greedy_search

plt.rcParams["figure.dpi"] = 100

# %% [markdown]
# ## A model with five words
#
# Here is a model that sees no picture and reads only the last word. For each word, `follows` lists the words that can
# come next, with their probabilities. So you can list every caption with its probability, which is the product of its
# words' probabilities.
#
# **Predict.** Greedy search takes the most probable word at each step. Which caption does greedy search find here, and
# is it the most probable of all captions?

# %%
toy = Vocabulary(["a", "the", "dog", "cat", "sun"])
follows = {
    "<start>": {"a": 0.6, "the": 0.4},
    "a": {"dog": 0.4, "cat": 0.35, "sun": 0.25},
    "the": {"sun": 0.9, "dog": 0.1},
    "dog": {"<end>": 1.0},
    "cat": {"<end>": 1.0},
    "sun": {"<end>": 1.0},
}


def every_caption(last="<start>", words=(), probability=1.0):
    if last == "<end>":
        return [(" ".join(words[:-1]), probability)]
    found = []
    for word, share in follows[last].items():
        found += every_caption(word, (*words, word), probability * share)
    return found


listed = sorted(every_caption(), key=lambda pair: -pair[1])
for text, probability in listed:
    print(f"{probability:.2f}  {text}")

# %% [markdown]
# <details><summary>What happened</summary>
#
# Greedy search finds "a dog" (.24). Once it has chosen "a" as the first word, the best caption, "the sun" (.36), is out
# of reach.
#
# </details>
#
# ## Beam search
#
# Keep the best few beginnings of a caption, called *beams*, instead of only one. At each step, continue each beam with
# every word, and keep the best few of all continuations. A beam that has ended stays as it is. Beam search with one
# beam is greedy search; with as many beams as there are captions, it cannot miss any caption.
#
# **Your turn.** Write one step of beam search. A beam is a pair. Its first element is a list of words that starts with
# `<start>`, and its second is the probability of this list. `follows[word].items()` gives the words that can come after
# `word`, with their probabilities.


# %% gap="beam"
def next_beams(beams, num_beams):
    """Return the num_beams best continuations of all beams, the best first."""
    longer = []
    for words, probability in beams:
        if words[-1] == "<end>":
            longer.append((words, probability))
        else:
            ...  # continue with every word that may follow
    return ...  # your turn: the best of `longer`


# %% check="beam" empty="next_beams([(['<start>'], 1.0)], 2)"
first_step = next_beams([(["<start>"], 1.0)], 2)
assert [words for words, _ in first_step] == [["<start>", "a"], ["<start>", "the"]], "Two beginnings, best first."
second_step = next_beams(first_step, 2)
assert second_step[0][0] == ["<start>", "the", "sun"], "The best of ALL continuations: 'the sun' has .4 x .9."
assert abs(second_step[0][1] - 0.36) < 1e-9, "Multiply the probability of the beam by that of the word."
ended = [(["<start>", "sun", "<end>"], 0.5), (["<start>", "a"], 0.1)]
assert next_beams(ended, 1) == ended[:1], "A beam that has ended stays as it is, and competes with the others."


# %%
def beam_search_by_hand(num_beams, show=False):
    beams = [(["<start>"], 1.0)]
    while any(words[-1] != "<end>" for words, _ in beams):
        beams = next_beams(beams, num_beams)
        if show:
            print("   ".join(f"{probability:.2f} {' '.join(words[1:])}" for words, probability in beams))
    return " ".join(beams[0][0][1:-1]), beams[0][1]


by_hand = {num_beams: beam_search_by_hand(num_beams, show=num_beams == 2) for num_beams in (1, 2, 5)}

# %% [markdown]
# The package's functions `greedy_search` and `beam_search` need no picture, either. They expect a function that takes
# the last words and a state, and returns logits. The next cell defines such a function for `follows`. With this
# function, the package's searches find the same captions as your own search.

# %%
table = np.full((len(toy), len(toy)), 1e-30, dtype="float32")
for word, shares in follows.items():
    for next_word, share in shares.items():
        table[toy.tokens.index(word), toy.tokens.index(next_word)] = share


def toy_step(input_ids, state):
    logits = ops.take(ops.log(table), input_ids, axis=0)
    return SimpleNamespace(logits=logits, state=state, attention_weights=state)


options = {
    "num_regions": 1,
    "max_length": 5,
    "start_token_id": toy.start_token_id,
    "end_token_id": toy.end_token_id,
    "pad_token_id": toy.pad_token_id,
}
greedy = greedy_search(toy_step, ops.ones((1, 1)), **options)
beams = beam_search(toy_step, ops.ones((2, 1)), num_beams=2, **options)
found = {
    name: (toy.ids_to_caption(result.token_ids[0, 0]), float(np.exp(result.log_probs[0, 0])))
    for name, result in (("greedy", greedy), ("2 beams", beams))
}
for name, (text, probability) in found.items():
    print(f"{name:8} {probability:.2f}  {text}")

# %% [markdown]
# A caption's score is the *product* of its words' probabilities; in practice, the logarithms are added. Only log
# *probabilities* can be added over the steps. The logits of a step, the values before the softmax, can all be raised by
# the same number without changing any probability, so their sum over the steps means nothing.
#
# ## The captioner for scenes
#
# Now use the captioner `scenes` to describe 200 scenes that it has never seen. The objects in a synthetic scene are
# known, so `is_true` can check whether a caption is *true*, which means correct in every detail.
#
# **Predict.** With more beams, beam search finds more probable captions. Does it also find more captions that are true?

# %%
captioner = Captioner.from_pretrained("scenes")
scenes = draw_scenes(200, seed=33)
features = captioner.encode(np.stack([scene.image for scene in scenes]))
greedy_captions = captioner.caption_features(features, num_beams=1)


def facts(results):
    gains = np.array([result.log_prob - other.log_prob for result, other in zip(results, greedy_captions)])
    return {
        "log p": np.mean([result.log_prob for result in results]),
        "better": np.mean(gains > 1e-4),  # how often more probable than the greedy caption
        "worse": np.mean(gains < -1e-4),
        "words": np.mean([len(result.words) for result in results]),
        "different": len({result.caption for result in results}),
        "true": np.mean([is_true(scene, result.caption) is True for scene, result in zip(scenes, results)]),
    }


def show(rows, columns):
    print(f"{'':12}" + "".join(f"{column:>10}" for column in columns))
    for label, row in rows.items():
        print(f"{label:12}" + "".join(f"{row[column]:>10.3g}" for column in columns))


searched = {"greedy": facts(greedy_captions)}
for num_beams in (2, 5, 10):
    searched[f"{num_beams} beams"] = facts(captioner.caption_features(features, num_beams=num_beams))
show(searched, ("log p", "better", "worse", "true"))

# %% [markdown]
# <details><summary>What happened</summary>
#
# With ten beams, the caption is more probable than the greedy one for more than a fifth of the scenes, and less
# probable for none. With two beams, the caption is less probable for a few scenes, because the beginning that greedy
# search follows can be pushed out by two others that turn out to have improbable endings. But beam search does not
# write more true captions than greedy search. The captions that this model finds more probable are more conventional
# and shorter, not more accurate. On photos, which are harder to describe, more beams do help: the CIDEr of a captioner
# for Flickr8k rose from .458 with greedy search to .496 with five beams.
#
# </details>
#
# Beam search ends with several captions, the *n-best list*. Such a list shows what the model is unsure about: for the
# next scene, the sizes and the wording, but neither the shapes nor the colours.

# %%
scene = [scene for scene in scenes if len(scene.objects) == 2][3]
best = captioner.caption(scene.image, num_beams=5, num_results=5)
n_best = [best, *best.alternatives]
figure, ax = plt.subplots(figsize=(3, 3))
ax.imshow(scene.image)
ax.axis("off")
for result in n_best:
    print(f"{np.exp(result.log_prob):.4f}  {result.caption}  ({'true' if is_true(scene, result.caption) else 'false'})")

# %% [markdown]
# ## The length penalty
#
# Probabilities are below 1, so every additional word makes a caption less probable, and a search prefers short
# captions. With a *length penalty* $\kappa$, the search compares captions by $\log p \,/\, \text{length}^{\kappa}$
# instead of $\log p$. For $\kappa = 0$, this score is the log probability itself; for $\kappa = 1$, it is the mean log
# probability of the tokens. (The letter $\kappa$ is ours, not the paper's.)

# %%
penalties = (0.0, 0.5, 1.0, 1.5, 2.0)
longer = {penalty: captioner.caption_features(features, num_beams=5, length_penalty=penalty) for penalty in penalties}
penalised = {f"penalty {penalty:g}": facts(results) for penalty, results in longer.items()}
show(penalised, ("words", "true"))
lengths = [row["words"] for row in penalised.values()]
said = [Counter(word for result in longer[penalty] for word in result.words) for penalty in (0.0, 2.0)]
added = {word: said[1][word] - said[0][word] for word in said[1]}
print("said more often with 2:", *(f"{word} +{count}" for word, count in Counter(added).most_common(8)))

# %% [markdown]
# With a penalty of 2, captions grow from 6.1 to 8.7 words on average, and most of them are still true. The additional
# words add little information. Many are size words, or come from introductions ("you can see", "a picture of") or from
# "to the left of" in place of "left of"; hardly any are colour words. Choose the penalty with the best score on the dev
# split, in the metric that matters to you. The package's preset for Flickr8k uses .5.
#
# ## Sampling
#
# Instead of searching, you can sample each word with the probability that the model gives it. The *temperature* $T$
# divides the logits before the softmax:
#
# $$p_k \propto \exp(\text{logit}_k / T).$$
#
# **Your turn.** Write the softmax with a temperature. (Subtract the largest logit first, so that `exp` does not
# overflow.)


# %% gap="temperature"
def with_temperature(logits, temperature):
    """Return the probabilities of all words at this temperature."""
    return ...  # your turn


# %% check="temperature" empty="with_temperature(np.zeros(2), 1.0)"
trial_logits = np.log([0.5, 0.25, 0.25])
assert np.allclose(with_temperature(trial_logits, 1.0), [0.5, 0.25, 0.25]), "At temperature 1, this is the softmax."
assert np.allclose(with_temperature(trial_logits, 0.5), [2 / 3, 1 / 6, 1 / 6]), "At .5, square and normalise."
assert np.isfinite(with_temperature(np.array([1000.0, 0.0]), 0.1)).all(), "Subtract the largest logit first."

# %%
step, state = captioner.steps(captioner.decoder_features(scene.image[None]), 1)
start = np.array([captioner.vocabulary.start_token_id])
logits = ops.convert_to_numpy(step(start, state).logits)[0].astype("float64")
most = np.argsort(-logits)[:6]
first_word = {}
figure, axes = plt.subplots(1, 3, figsize=(10, 2.4), sharey=True, layout="constrained")
for ax, temperature in zip(axes, (0.5, 1.0, 2.0)):
    probabilities = with_temperature(logits, temperature)
    first_word[temperature] = probabilities[most[0]]
    ax.bar([captioner.vocabulary.tokens[token_id] for token_id in most], probabilities[most])
    ax.set_title(f"first word, T = {temperature}")

# %% [markdown]
# Temperatures below 1 make probable words more probable; temperatures above 1 make them less probable. Greedy search is
# the limit of sampling as $T \to 0$.
#
# **Predict.** At $T = 1$, words are sampled with exactly the probabilities that the model has learned, and it has
# learned them from true captions. What fraction of the sampled captions are true?

# %%
temperatures = (0.2, 0.5, 1.0, 1.5, 2.0)
samples = {t: captioner.caption_features(features, temperature=t, seed=1) for t in temperatures}
drawn = {f"T = {t}": facts(results) for t, results in samples.items()}
show(drawn, ("different", "true"))
no_sentence = np.mean([is_true(scene, result.caption) is None for scene, result in zip(scenes, samples[2.0])])
in_training = len({scene.captions[0] for scene in scenes})
print(f"no sentence at T = 2: {no_sentence:.0%}; different true captions, one for each scene: {in_training}")

# %% [markdown]
# <details><summary>What happened</summary>
#
# At $T = 1$, four in five of the sampled captions are true. The sampled captions are about as varied as those that come
# with the scenes. But the model's probabilities are not perfect: many wrong words get a little probability, so now and
# then one of them is sampled. At $T = 2$, about half of the captions are not true, and about a quarter are not even
# sentences.
#
# </details>
#
# Most mistakes come from the *tail*: a large number of words that are each improbable, but together have a considerable
# probability. *Top-k* samples only from the $k$ most probable words. *Top-p* ([nucleus
# sampling](https://arxiv.org/abs/1904.09751)) samples from the smallest set of words whose probabilities add up to at
# least $p$. So top-p allows many words where the model is unsure, and few where it is sure.

# %%
cut = {"T = 1.5": drawn["T = 1.5"]}
for label, choice in (("top_k = 2", {"top_k": 2}), ("top_p = 0.9", {"top_p": 0.9}), ("top_p = 0.5", {"top_p": 0.5})):
    cut[label] = facts(captioner.caption_features(features, temperature=1.5, seed=1, **choice))
show(cut, ("different", "true"))

# %% [markdown]
# Each picture has its own random numbers, which depend only on the seed and on the picture's index. So the same seed
# gives a picture the same caption, whatever else is in the batch.

# %%
few = captioner.caption_features(features[:8], temperature=1.0, seed=1)
one_by_one = [
    captioner.caption_features(features[number : number + 1], temperature=1.0, seed=1, first_photo=number)
    for number in range(8)
]
same_in_any_batch = [result.caption for result in few] == [results[0].caption for results in one_by_one]
print("the same one by one:", same_in_any_batch)
for result in captioner.caption(scene.image, temperature=1.0, num_results=4, seed=0).alternatives:
    print("\n".join(textwrap.wrap(f"{result.log_prob:6.2f}  {result.caption}", 100)))

# %% [markdown]
# ## Where a caption ends
#
# The model treats `<end>` like any other word, and has learned from its training captions where `<end>` belongs.
# `max_length` limits the number of words, in case `<end>` does not come in time. `<pad>` and `<start>` are never
# chosen, and `<unk>` is chosen only if you allow it.

# %%
short = captioner.caption_features(features, num_beams=1, max_length=5)
unfinished = [result for result in short if not result.is_finished]
all_end = all(result.is_finished for result in greedy_captions)
print(
    f"with max_length=5, {len(unfinished)} of {len(short)} captions are unfinished, such as: {unfinished[0].caption!r}"
)

# %% [markdown]
# ## Exercises
#
# **1.** Change `follows` so that beam search misses the best caption with two beams, but finds it with three.
#
# [solution 1]
#
# **2.** Sample 20 captions of one scene with $T = 1$ (`temperature=1.0, num_results=20`). Is the most probable of these
# samples the caption that beam search finds?
#
# [solution 2]
#
# **3.** At a temperature of 2, some captions are not sentences. Print five of these captions, and find the words that
# spoil them.
#
# [solution 3]
#
# ## In five sentences
#
# A captioner gives probabilities, and a search turns them into a caption. Greedy search is beam search with one beam;
# with more beams, the captions become more probable, but not necessarily better. Every additional word makes a caption
# less probable, so a search prefers short captions unless a length penalty makes up for this. Sampling gives more
# varied captions, but fewer of them are true; the temperature balances variety and truth. Top-k and top-p cut off the
# tail, where most of the mistakes come from.
#
# ## Next
#
# For synthetic scenes, it is easy to say which captions are true. [Chapter 8](08_how_good_is_it.ipynb) shows how
# captions are scored when all you know about a photo is what five people have written. For further reading, see
# [Holtzman et al.](https://arxiv.org/abs/1904.09751) on why the most probable text is dull.

# %% maintainers=true
assert abs(sum(probability for _, probability in listed) - 1) < 1e-9 and listed[0][0] == "the sun"
assert found["greedy"][0] == "a dog" and found["2 beams"][0] == "the sun"
assert abs(found["greedy"][1] - 0.24) < 1e-6 and abs(found["2 beams"][1] - 0.36) < 1e-6
assert by_hand[1][0] == found["greedy"][0] and by_hand[2][0] == by_hand[5][0] == found["2 beams"][0]
assert searched["10 beams"]["better"] > 0.2 and searched["10 beams"]["worse"] == 0 < searched["2 beams"]["worse"]
assert searched["10 beams"]["true"] <= searched["greedy"]["true"] and searched["greedy"]["true"] > 0.95
assert searched["10 beams"]["words"] < searched["greedy"]["words"]
assert all(is_true(scene, result.caption) for result in n_best) and len(n_best) == 5
assert len({tuple(sorted(set(result.words) & {"red", "orange", "triangle", "square"})) for result in n_best}) == 1
assert lengths == sorted(lengths) and abs(lengths[0] - 6.1) < 0.1 and abs(lengths[-1] - 8.7) < 0.1
assert min(row["true"] for row in penalised.values()) > 0.9
assert sum(added[word] for word in COLOURS) < 0.05 * (said[1].total() - said[0].total())
assert added["see"] > 10 and added["picture"] > 10 and added["to"] > 10 and sum(added[word] for word in SIZE_WORDS) > 50
assert PRESETS["flickr8k"]["length_penalty"] == 0.5
assert first_word[0.5] > first_word[1.0] > first_word[2.0]
truths = [row["true"] for row in drawn.values()]
assert truths == sorted(truths, reverse=True) and 0.76 < drawn["T = 1.0"]["true"] < 0.87
assert drawn["T = 0.2"]["different"] < drawn["T = 1.0"]["different"] and abs(drawn["T = 2.0"]["true"] - 0.5) < 0.06
assert abs(no_sentence - 0.25) < 0.05 and 0.9 * in_training < drawn["T = 1.0"]["different"] <= in_training
assert all(cut[label]["true"] > cut["T = 1.5"]["true"] + 0.1 for label in ("top_k = 2", "top_p = 0.9", "top_p = 0.5"))
assert same_in_any_batch and all_end
assert 100 < len(unfinished) < 140
