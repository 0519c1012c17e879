# %% [markdown]
# # 8 · How good is it
#
# **You will be able to**
#
# * compute BLEU, METEOR and CIDEr-D by hand
# * fool each of these metrics, and say what a score can and cannot tell you
# * judge whether a difference between two captioners is real
#
# **You need** to be able to count words and read a table. No network is trained.
#
# **Time:** 1 minute to run on two cores, and about an hour to think.
#
# [diagram]
#
# Five people have each written a caption of a photo; their captions are the *references*. A captioner writes a sixth
# caption, the *candidate*. How good is the candidate? No program can tell for certain, so metrics measure how much of
# the candidate is found in the references. In this chapter, you compute the usual metrics by hand and get the same
# numbers as the package. Then you look for cases in which the metrics are wrong. You can find such cases among
# synthetic scenes: their objects are known, so a program can check whether a caption is *true*.

# %%
from data_utils.base import import_tensorflow

import_tensorflow()  # without its startup log

import math
from collections import Counter
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
from nltk.translate.meteor_score import meteor_score

import keras_sat
from data_utils import CaptionedImage, draw_scenes, is_true, tokenise
from data_utils.scenes import COLOURS
from keras_sat.measuring import NLTK_WEIGHTS, PUBLISHED, bleu, bleu_counts, bleu_of_counts, cider, rouge_l

plt.rcParams["figure.dpi"] = 100

# %% [markdown]
# ## BLEU by hand
#
# BLEU ([Papineni et al., 2002](https://aclanthology.org/P02-1040/)) was made for machine translation. BLEU splits
# captions into words and counts *n-grams*, which are runs of $n$ words. The precision $p_n$ is the fraction of the
# candidate's n-grams that are found in a reference. The counts are *clipped*: each n-gram counts at most as often as it
# occurs in the reference that has it most often. Without clipping, "a a a a" could get a perfect $p_1$.
#
# **Your turn.** Count the clipped matches. `ngrams(text, n)` returns a `Counter`.

# %%
references = ["a red circle is left of a blue star", "there is a red circle to the left of the star"]
candidate = "a red circle is to the left of the the star"


def ngrams(text, n):
    words = tokenise(text)
    return Counter(tuple(words[first : first + n]) for first in range(len(words) - n + 1))


# %% gap="clipped"
def clipped_matches(references, candidate, n):
    """Return how many of the candidate's n-grams are found in the references, clipped."""
    return ...  # your turn


# %% check="clipped" empty="clipped_matches(['a'], 'a', 1)"
assert clipped_matches(["a dog runs"], "a dog", 2) == 1, "One run of two words is found: 'a dog'."
assert clipped_matches(["a dog runs"], "a a a a", 1) == 1, "'a' counts once: the reference has it once."
assert clipped_matches(["a cat", "a cat and a dog"], "a a a", 1) == 2, "At most as often as in any one reference."
assert clipped_matches(["a cat", "a dog"], "a a", 1) == 1, "Do not add up the references."

# %%
precisions = []
for n in range(1, 5):
    matches, total = clipped_matches(references, candidate, n), ngrams(candidate, n).total()
    precisions.append(matches / total)
    print(f"p_{n} = {matches:2} / {total:2}")

# %% [markdown]
# BLEU-$N$ is the geometric mean of $p_1 \dots p_N$, times a *brevity penalty*. Without this penalty, very short
# captions could get a perfect score. The penalty lowers the score of a candidate that is shorter than the reference
# closest to it in length. If the candidate has $c$ words and this reference has $r$ words, then
#
# $$\text{BLEU-}N = \min(1, e^{1 - r/c}) \cdot \Big(\prod_{n=1}^N p_n\Big)^{1/N}$$
#
# **Your turn.** Write the formula for BLEU-$N$.


# %% gap="bleu"
def bleu_of(precisions, c, r):
    """Return BLEU-N of N precisions, with the brevity penalty."""
    return ...  # your turn


# %% check="bleu" empty="bleu_of([1.0], 1, 1)"
assert np.isclose(bleu_of([0.5, 0.125], 4, 4), 0.25), "The geometric mean of 1/2 and 1/8 is 1/4."
assert np.isclose(bleu_of([1.0], 5, 10), np.exp(-1)), "Half as long as the reference: the penalty is 1/e."
assert np.isclose(bleu_of([1.0], 10, 5), 1), "Longer than the reference: no penalty, and no bonus."

# %%
c = len(tokenise(candidate))
r = min((len(tokenise(reference)) for reference in references), key=lambda length: (abs(length - c), length))
by_hand = [bleu_of(precisions[:n], c, r) for n in range(1, 5)]
scored = bleu([references], [candidate])
for n, value in enumerate(by_hand, start=1):
    print(f"BLEU-{n}  by hand {value:.6f}, the package {scored[f'bleu_{n}']:.6f}")

# %% [markdown]
# BLEU is meant for a whole corpus: the matches and the numbers of n-grams are first summed over all captions, and only
# then divided. The mean of the BLEU scores of single captions is a different number, since a caption that shares no run
# of four words with any reference has a BLEU-4 of zero.
#
# From here on, the captions describe 300 scenes that the captioner has not seen. Four of the five sentences of a scene
# are the references. The fifth sentence plays the part of a person's caption, and is scored, too. (In fact, a grammar
# generates all five sentences, so this "person" is always right.)

# %%
scenes = draw_scenes(300, seed=44)
captioner = keras_sat.Captioner.from_pretrained("scenes")
results = captioner.caption([scene.image for scene in scenes], num_beams=1)
four = [scene.captions[1:] for scene in scenes]
model = [result.caption for result in results]
person = [scene.captions[0] for scene in scenes]

counts = bleu_counts(four, model)
of_corpus = bleu_of_counts(counts.sum(axis=0))["bleu_4"]
of_each = bleu_of_counts(counts)["bleu_4"]
print(f"BLEU-4 of the corpus {of_corpus:.3f}, mean over captions {of_each.mean():.3f}")
print(f"{(of_each < 0.001).mean():.0%} of the captions have BLEU-4 zero")

# %% [markdown]
# ## METEOR by hand
#
# METEOR ([Banerjee and Lavie](https://aclanthology.org/W05-0909/)) matches the words of a caption with the words of one
# reference. Two words match if they are equal, have the same stem, or are synonyms. METEOR gives recall more weight
# than precision, and penalises matches that are broken into many *chunks* (runs of words that are next to each other in
# both sentences). If there are several references, the best score counts. For $m$ matches in $k$ chunks, $c$ words in
# the caption and $r$ words in the reference, the formulas are
#
# $$P = \frac{m}{c}, \quad R = \frac{m}{r}, \quad F = \frac{P R}{0.85 P + 0.15 R}, \quad
#   \text{METEOR} = \Big(1 - 0.6 \Big(\frac{k}{m}\Big)^{0.2}\Big) F$$
#
# The numbers .85, .15, .6 and .2 are the weights for English in METEOR 1.5, a Java program that also matches
# paraphrases. The package uses this program if it is installed, and otherwise nltk's METEOR with the same weights. To
# look up synonyms, nltk's METEOR needs WordNet. The next cell gives it a small dictionary instead, with the synonyms
# that occur in captions of scenes.


# %%
class Synonyms:
    """A dictionary that nltk can ask like WordNet: groups of words that mean the same."""

    def __init__(self, groups):
        self.groups = groups

    def synsets(self, word):
        return [Synset(group) for group in self.groups if word in group]


class Synset:
    def __init__(self, group):
        self.group = group

    def lemmas(self):
        return [SimpleNamespace(name=word.lower) for word in self.group]  # name() is the word


no_synonyms = Synonyms([])
of_scenes = Synonyms([("big", "large"), ("small", "little"), ("above", "over"), ("below", "under"), ("a", "one")])
no_stemmer = SimpleNamespace(stem=str)  # nltk looks up stems in the dictionary, "littl" for "little"


def meteor_by_hand(reference, caption):
    """Return METEOR of equal words only; each word must occur once in the reference."""
    reference, caption = tokenise(reference), tokenise(caption)
    positions = [reference.index(word) for word in caption if word in reference]
    precision, recall = len(positions) / len(caption), len(positions) / len(reference)
    chunks = 1 + sum(after != before + 1 for before, after in zip(positions, positions[1:]))
    f = precision * recall / (0.85 * precision + 0.15 * recall)
    return (1 - 0.6 * (chunks / len(positions)) ** 0.2) * f


def meteor(texts, caption, dictionary=of_scenes):
    texts = [tokenise(text) for text in texts]
    return meteor_score(texts, tokenise(caption), wordnet=dictionary, stemmer=no_stemmer, **NLTK_WEIGHTS)


reference = "a small red circle above one star"
meteors = []
print("by hand   nltk   with synonyms")
for caption in (reference, "one star above a small red circle", "a little red circle over one star"):
    found = (
        meteor_by_hand(reference, caption),
        meteor([reference], caption, no_synonyms),
        meteor([reference], caption),
    )
    meteors.append(found)
    print("   ".join(f"{value:.4f}" for value in found), "  ", caption)

# %% [markdown]
# By this formula, and by nltk, even a caption that is identical to the reference does not get a METEOR of 1, because
# its single chunk is penalised. (The program METEOR 1.5 makes an exception for this case, and gives 1.) The second
# caption has the words of the reference in another order, and means the opposite. The third caption is a correct
# paraphrase, but gets a good score only with the dictionary of synonyms.
#
# ## CIDEr-D by hand
#
# Not all words are worth the same: nearly every caption has "a", and few have "purple". CIDEr ([Vedantam et al.,
# 2015](https://arxiv.org/abs/1411.5726)) turns each caption into a vector with a number for each n-gram: the n-gram's
# count times its weight $\log(N / N_g)$. Here $N$ is the number of photos, and $N_g$ is the number of photos that have
# the n-gram in at least one reference. (This weighting is called *tf-idf*.) The score is 10 times the cosine between
# the vectors of the candidate and of a reference, averaged over the references and over $n = 1 \dots 4$.
#
# Most papers report *CIDEr-D*, which is harder to fool. CIDEr-D clips the counts as BLEU does, so that repeating a word
# does not help. CIDEr-D also multiplies each cosine by $e^{-d^2 / 2\sigma^2}$ with $\sigma = 6$, where $d$ is the
# difference in length between the two captions. Like most papers, this notebook calls CIDEr-D just CIDEr.
#
# **Your turn.** Write the function that returns the weight of an n-gram. If no reference contains the n-gram, use
# $N_g = 1$.

# %%
document_counts = Counter()
for texts in four:
    document_counts.update({ngram for text in texts for n in range(1, 5) for ngram in ngrams(text, n)})


# %% gap="weight"
def weight(ngram):
    """Return log(N / N_g) of an n-gram, a tuple of words; N_g is in document_counts."""
    return ...  # your turn


# %% check="weight" empty="weight(('a',))"
assert np.isclose(weight(("no", "such", "words")), math.log(300)), "In no reference: treat it as if it were in one."
assert np.isclose(weight(("purple",)), math.log(300 / document_counts["purple",])), "Take the logarithm of N / N_g."


# %%
def vector(text, n):
    return {ngram: count * weight(ngram) for ngram, count in ngrams(text, n).items()}


def clipped_cosine(mine, theirs):
    norms = math.hypot(*mine.values()) * math.hypot(*theirs.values())
    return sum(min(x, theirs[g]) * theirs[g] for g, x in mine.items() if g in theirs) / norms if norms else 0.0


def cider_by_hand(texts, caption):
    total = 0.0
    for text in texts:
        difference = len(tokenise(caption)) - len(tokenise(text))
        closeness = sum(clipped_cosine(vector(caption, n), vector(text, n)) for n in range(1, 5)) / 4
        total += math.exp(-(difference**2) / (2 * 6**2)) * closeness
    return 10 * total / len(texts)


cider_mean = np.mean([cider_by_hand(texts, caption) for texts, caption in zip(four, model)])
cider_of_package = cider(four, model)["cider"]
print(f"by hand {cider_mean:.6f}, the package {cider_of_package:.6f}")
weights = {word: weight((word,)) for word in ("a", "is", "square", "purple", "another")}
print("what a word is worth:", "  ".join(f"{word} {value:.2f}" for word, value in weights.items()))

# %% [markdown]
# So CIDEr depends on the data set: the same captions get different scores if you evaluate them together with captions
# of other photos. For a single photo, every weight is $\log 1 = 0$, so CIDEr is always 0.
#
# ## Captions that deserve good scores, and captions that do not
#
# Here are five sets of captions for the same scenes:
#
# * **the model**: the captioner's captions, of which 96 % are true
# * **a person**: the sentences that play the part of a person's captions, all of them true
# * **a liar**: the person's sentences, all made false by exchanging "left" and "right", or "above" and "below" (or by
#   changing the colours, if a sentence has none of these words)
# * **shuffled**: the model's words in random order
# * **always the same**: one sentence for all scenes
#
# **Predict.** Which of the five sets of captions has the highest BLEU-4, and how far behind is the liar? How does the
# BLEU-1 of the shuffled words compare with that of the model?

# %%
EXCHANGED = {"left": "right", "right": "left", "above": "below", "below": "above", "over": "under", "under": "over"}
colours = list(COLOURS)
other_colour = dict(zip(colours, [*colours[1:], colours[0]]))


def lie(caption):
    words = caption.split()
    exchange = EXCHANGED if set(words) & set(EXCHANGED) else other_colour
    return " ".join(exchange.get(word, word) for word in words)


rng = np.random.default_rng(0)
candidates = {
    "the model": model,
    "a person": person,
    "a liar": [lie(caption) for caption in person],
    "shuffled": [" ".join(rng.permutation(caption.split())) for caption in model],
    "always the same": ["a small green square is left of a blue circle"] * len(scenes),
}
table = {}
for label, captions in candidates.items():
    scores = bleu(four, captions) | rouge_l(four, captions) | cider(four, captions)
    table[label] = {name: scores[name] for name in ("bleu_1", "bleu_4", "rouge_l", "cider")}
    table[label]["meteor"] = np.mean([meteor(texts, caption) for texts, caption in zip(four, captions)])
    table[label]["true"] = np.mean([is_true(scene, caption) is True for scene, caption in zip(scenes, captions)])
print(f"{'':16}" + "".join(f"{name:>9}" for name in table["a person"]))
for label, row in table.items():
    print(f"{label:16}" + "".join(f"{value:9.3f}" for value in row.values()))

# %%
figure, axes = plt.subplots(1, 4, figsize=(10, 2.4), sharey=True, layout="constrained")
for ax, name in zip(axes, ("true", "bleu_4", "meteor", "cider")):
    bars = ax.barh(list(table)[::-1], [row[name] for row in reversed(table.values())], color="tab:blue")
    bars[2].set_color("tab:red")  # the liar
    ax.set_title(name)

# %% [markdown]
# <details><summary>What happened</summary>
#
# * **The model beats the person** in every metric, although 4 % of the model's captions are false and none of the
#   person's are. (In METEOR, which matches synonyms, the model is only just ahead.) The model uses the most common
#   wording, whereas the person varies it.
# * **The liar is not found out.** None of the liar's sentences are true, but they still get two thirds of the person's
#   BLEU-4, and half of the person's CIDEr. One wrong word in ten costs only a few n-grams, even if it is the most
#   important word of the sentence.
# * **BLEU-1 ignores the order of words.** The shuffled words get exactly the same BLEU-1 as the original sentences.
#   BLEU-4 does depend on the order.
#
# </details>
#
# On photos, BLEU ranks a model above a person: scored against the same four references of each photo of Flickr8k's dev
# split, the bundled captioner has a BLEU-4 of 21.9, and a person has 21.2. But the captioner is behind the person in
# METEOR (21.1 against 25.5) and in CIDEr (.66 against .80). If you read the captions, you will agree with these two
# metrics. (Against all five references, the captioner has a BLEU-4 of 26.2. So never compare scores with different
# numbers of references; exercise 2 measures what the number does.)
#
# Single captions show even more clearly that scores do not measure truth. Here are two captions of the same scene:

# %%
shown = next(scene for scene in scenes if {"left", "is"} <= set(scene.captions[0].split()))
print("references:", *shown.captions[1:], sep="\n    ")
first, second = sorted(shown.objects, key=lambda item: item.box[0])
paraphrase = f"one {second.colour} {second.shape} right of one {first.colour} {first.shape}"
false = lie(shown.captions[1])
one_by_one = {text: bleu([shown.captions[1:]], [text])["bleu_4"] for text in (paraphrase, false)}
for text, score in one_by_one.items():
    print(f"BLEU-4 {score:.2f}  {'true ' if is_true(shown, text) else 'false'}  {text}")

# %% [markdown]
# ## How to get more BLEU without a better model
#
# One trick is to keep the full stop as a word: people end nearly every caption with a full stop, so it nearly always
# matches. Another trick is to leave out the brevity penalty: then captions that are cut off after four words score
# higher than whole captions.

# %%
with_stop = bleu(
    [[[*tokenise(text), "."] for text in texts] for texts in four], [[*tokenise(text), "."] for text in model]
)
cut_off = bleu(four, [" ".join(caption.split()[:4]) for caption in model])
print(f"BLEU-4 of the model             {table['the model']['bleu_4']:.3f}")
print(f"    a full stop on both sides   {with_stop['bleu_4']:.3f}")
print(f"its captions after four words   {cut_off['bleu_4']:.3f}")
print(f"    without brevity penalty     {cut_off['bleu_4_no_penalty']:.3f}")

# %% [markdown]
# So scores can only be compared if they were computed with the same tokenisation, the same brevity penalty and the same
# number of references. The paper always uses five references, and drops the additional ones that some photos of COCO
# have. Section 5.2 of the paper adds three more reasons why the scores of different papers are hard to compare. Papers
# differ in the encoder (a better CNN alone gives better captions), in the splits of the data, and in whether they use a
# single model or an *ensemble* of several. The next cell prints the paper's own table for Flickr8k: BLEU-1 to BLEU-4,
# without a brevity penalty, and METEOR.

# %%
for label, row in PUBLISHED["flickr8k"].items():
    print(f"{label:34}" + "  ".join(f"{100 * value:5.2f}" for value in row.values()))

# %% [markdown]
# Was it chance that hard attention was a little better than soft attention in every metric but BLEU-1?
#
# The paper's captioners are not trained on any of these metrics. Their loss is the cross-entropy, the logarithm of the
# perplexity that you computed in chapter 1. According to the paper, the correlation between likelihood and BLEU on the
# dev split breaks down late in training. So the authors use *early stopping*: they stop training when BLEU on the dev
# split no longer rises, and keep the weights with the best BLEU.
#
# ## Is the difference real?
#
# The next cell compares the two bundled captioners for scenes, one with soft and one with hard attention, on 100
# scenes. On 100 other scenes, the scores of both captioners would be different. The *bootstrap* simulates other sets of
# scenes: again and again, it samples 100 of the scenes with replacement, and computes the difference between the
# captioners. The *95 % interval* contains 95 % of these differences.
#
# **Predict.** The two captioners differ by about 1 point in BLEU-1. How wide is the 95 % interval of this difference?

# %%
images = [CaptionedImage(scene.image_id, scene.image, list(scene.captions), "test") for scene in scenes[:100]]
tables = {
    name: keras_sat.evaluate(
        keras_sat.Captioner.from_pretrained(name), images, split="test", num_beams=1, show_progress=False
    )
    for name in ("scenes", "scenes-hard")
}
comparison = keras_sat.compare(tables["scenes"], tables["scenes-hard"])
print(comparison)

# %% [markdown]
# <details><summary>What happened</summary>
#
# The interval is more than five points wide. The intervals of all rows contain 0, so 100 scenes are too few to tell
# which of the two captioners is better. (The table has a row for METEOR only if METEOR is installed. The scores in this
# row cannot be compared with the METEOR scores earlier in this chapter, which were computed with another dictionary.)
#
# </details>
#
# So the number of photos decides whether a difference of .01 means anything. The width of the interval shrinks with the
# square root of the number of photos. How many photos do you need before the interval of a difference of .01 (one point
# of BLEU) no longer contains 0?

# %%
photos_needed = {}
for name in ("bleu_4", "cider"):
    low, high = comparison.rows[name]["interval"]
    photos_needed[name] = 100 * ((high - low) / 2 / 0.01) ** 2
    print(f"{name:7} about {photos_needed[name]:,.0f} photos for a difference of .01")

# %% [markdown]
# For two captioners as similar as these, it takes thousands of scenes. And on photos?
# [docs/results.md](../docs/results.md) compares captioners with and without attention, three seeds of each, on the
# 1,000 dev photos of Flickr8k. There, the interval reaches about one point of BLEU-4 to either side, and .025 of CIDEr.
# So 1,000 photos are just enough for a difference of one point of BLEU-4, and a difference of .01 in CIDEr would take
# about 6,000. Moreover, the same network trained with another seed ends up with different weights: on Flickr8k, the
# seed alone can change BLEU-4 by half a point. So it means little if a single run is one point better than another.
# Train with several seeds, report intervals, and look at the captions.
#
# ## Look at the mistakes
#
# No score says why a caption is wrong. Attention sometimes helps, because it shows where the model was looking when it
# said the wrong word. The caption below is **false**.

# %%
wrong = [(scene, result) for scene, result in zip(scenes, results) if is_true(scene, result.caption) is not True]
scene, result = wrong[0]
display = keras_sat.AttentionDisplay.from_result(result)
display.plot(width=10)
print(f"{len(wrong)} of {len(scenes)} captions are false. One of them: {result.caption}")
print("What is there:", "; ".join(" ".join(item.looks) for item in scene.objects))
circle, square = (scene.places(f"a blue {shape}")[-1].cells((16, 16)) for shape in ("circle", "square"))
on_both = [[float((result.attention_weights[n] * cells).sum()) for cells in (circle, square)] for n in (1, 9)]
for which, masses in zip(("first", "second"), on_both):
    print(f"weight on circle and square at the {which} 'blue':", " and ".join(f"{mass:.2f}" for mass in masses))

# %% [markdown]
# Both objects in this scene are blue. At both occurrences of "blue" in the caption, the attention is on both objects,
# but mostly on the circle. So the caption names the circle twice, and the square not at all.
#
# ## For and against
#
# | metric | for it | against it |
# |---|---|---|
# | BLEU | simple, fast, for any language, in every paper | ignores meaning and truth; not for single captions |
# | ROUGE-L | order counts, but gaps are allowed | as for BLEU |
# | METEOR | knows stems and synonyms; recall counts more than precision | needs dictionaries; versions differ |
# | CIDEr-D | rare words count more | depends on the data set; always 0 for a single photo |
#
# All of these metrics compare words with words. Newer metrics go further: SPICE compares what captions say about each
# object, and CLIPScore uses a network trained on millions of photos to judge how well the caption fits the photo.
# Report several metrics, say how the captions were tokenised and which split was used, and read the captions.
#
# ## Exercises
#
# **1.** Which single sentence has the highest CIDEr if it is used for every scene? Try the person's captions of the
# first 40 scenes.
#
# [solution 1]
#
# **2.** Score the person's captions against four, three, two and one reference. How much of BLEU-4 is due to the number
# of references?
#
# [solution 2]
#
# **3.** Write a liar whose captions are all false, but have a higher BLEU-4 than the model's captions. Start from the
# references.
#
# [solution 3]
#
# ## In five sentences
#
# Metrics measure how much of a caption is found in what people wrote. BLEU counts runs of words, METEOR matches words
# and synonyms, and CIDEr-D gives rare words more weight. None of these metrics measures whether a caption is true, so a
# liar gets good scores, and a model can beat a person. Scores can only be compared if everything else is equal, and it
# takes a thousand photos or more to be sure of a difference of one point. Read the captions, and where they are wrong,
# look at the attention.
#
# ## Next
#
# [Your own photos and Flickr8k](rooms/your_own_photos_and_flickr8k.ipynb) goes on with real photos. For further
# reading, see [Anderson et al., *SPICE*](https://arxiv.org/abs/1607.08822), and [Hessel et al.,
# *CLIPScore*](https://arxiv.org/abs/2104.08718).

# %% maintainers=true
np.testing.assert_allclose(by_hand, [scored[f"bleu_{n}"] for n in range(1, 5)], atol=1e-6)
assert abs(bleu([["a dog runs"]], ["a a a a"])["bleu_1"] - 1 / 4) < 1e-6
assert of_corpus > 1.5 * of_each.mean() and (of_each < 0.001).mean() > 0.2
for name in ("bleu_4", "rouge_l", "cider", "meteor"):
    assert table["the model"][name] > table["a person"][name] > table["a liar"][name] > table["always the same"][name]
assert 0.94 < table["the model"]["true"] < 0.97 and table["a person"]["true"] == 1 and table["a liar"]["true"] == 0
assert abs(table["a liar"]["bleu_4"] / table["a person"]["bleu_4"] - 2 / 3) < 0.05
assert abs(table["a liar"]["cider"] / table["a person"]["cider"] - 1 / 2) < 0.05
assert table["shuffled"]["bleu_1"] == table["the model"]["bleu_1"]
assert table["shuffled"]["bleu_4"] < 0.2 * table["the model"]["bleu_4"]
assert one_by_one[paraphrase] < 0.01 < 0.5 < one_by_one[false]
assert is_true(shown, paraphrase) and not is_true(shown, false)
assert with_stop["bleu_4"] > table["the model"]["bleu_4"] + 0.03
assert cut_off["bleu_4_no_penalty"] > table["the model"]["bleu_4"] > 1.5 * cut_off["bleu_4"]
assert all(abs(hand - nltk) < 1e-6 for hand, nltk, _ in meteors)
assert meteors[0][0] > meteors[1][0] and meteors[2][2] > meteors[2][1] + 0.05
assert NLTK_WEIGHTS == {"alpha": 0.85, "beta": 0.2, "gamma": 0.6}
assert abs(cider_mean - cider_of_package) < 1e-6
assert list(weights.values()) == sorted(weights.values()) and cider([["a dog"]], ["a dog"])["cider"] == 0
assert all(row["interval"][0] < 0 < row["interval"][1] for row in comparison.rows.values())
assert np.ptp(comparison.rows["bleu_1"]["interval"]) > 0.05
assert 1000 < photos_needed["bleu_4"] < photos_needed["cider"]
assert result.caption == "a blue circle is to the left of a blue circle" and all(c > 1.5 * s > 0.2 for c, s in on_both)
soft, hard = PUBLISHED["flickr8k"].values()
assert all(hard[name] > soft[name] for name in soft if name != "bleu_1_no_penalty")
