# %% [markdown]
# # 8 · How good is it
#
# **You will be able to**
#
# * compute BLEU, METEOR and CIDEr-D by hand
# * fool each of them, and say what a score can and cannot tell
# * judge whether a difference between two captioners is real
#
# **You need** to count words and to read a table. No network is trained.
#
# **1 minute on two cores**; allow an hour to think.
#
# [diagram]
#
# Five people have written five captions of a photo, the *references*, and a captioner writes a sixth, the
# *candidate*. How good is it? No program can tell, so one counts how much of the sixth is found in the five. You
# compute the usual metrics by hand, get the package's numbers, and then look for cases in which they are wrong. In
# synthetic scenes you can, since there the truth is known.

# %%
from data_utils.tf_logging import import_tensorflow

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
from keras_sat.scoring.bleu import bleu, bleu_counts, bleu_of_counts
from keras_sat.scoring.cider import cider
from keras_sat.scoring.meteor import NLTK_WEIGHTS
from keras_sat.scoring.published import PUBLISHED
from keras_sat.scoring.rouge import rouge_l

plt.rcParams["figure.dpi"] = 100

# %% [markdown]
# ## BLEU by hand
#
# BLEU ([Papineni et al., 2002](https://aclanthology.org/P02-1040/)) comes from translation. It cuts the captions into
# words and counts the *n-grams*, the runs of $n$ words. The precision $p_n$ is the fraction of the candidate's
# n-grams that are found in a reference. Each counts at most as often as in the reference that has it most often, or
# else "a a a a" would be perfect: the counts are *clipped*.
#
# **Your turn.** Count the clipped matches. `ngrams(text, n)` is a `Counter`.

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
assert clipped_matches(["a dog runs"], "a dog", 2) == 1, "One run of two words is found."
assert clipped_matches(["a dog runs"], "a a a a", 1) == 1, "'a' counts once: that is how often the reference has it."
assert clipped_matches(["a cat", "a cat and a dog"], "a a a", 1) == 2, "At most as often as in the best reference."
assert clipped_matches(["a cat", "a dog"], "a a", 1) == 1, "References are not added up."

# %%
precisions = []
for n in range(1, 5):
    matches, total = clipped_matches(references, candidate, n), ngrams(candidate, n).total()
    precisions.append(matches / total)
    print(f"p_{n} = {matches:2} / {total:2}")

# %% [markdown]
# BLEU-$N$ is the geometric mean of $p_1 \dots p_N$. A very short caption could have perfect precision. So there is a
# *brevity penalty*, for candidates that are shorter than the reference closest to them in length: with $c$ words in
# the candidate and $r$ in that reference,
#
# $$\text{BLEU-}N = \min(1, e^{1 - r/c}) \cdot \Big(\prod_{n=1}^N p_n\Big)^{1/N}$$
#
# **Your turn.**


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
# BLEU is meant for a whole corpus: matches and counts are summed over all captions first, and divided then. The mean
# of the BLEU of single captions is something else, since a caption without a common run of four words has BLEU-4
# zero.
#
# From here on, the captions are of 300 scenes that the captioner has not seen. Four of the five sentences of a scene
# are the references. The fifth is a person's caption, to be scored as well. (The person is the grammar of the scenes:
# always right.)

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
# METEOR ([Banerjee and Lavie](https://aclanthology.org/W05-0909/)) pairs the words of a caption with those of one
# reference. Words pair if they are equal, have the same stem, or are synonyms. It weighs recall above precision, and
# punishes pairings in many pieces (*chunks*: runs of words that are next to each other in both). The best reference
# counts. With $m$ pairs in $k$ chunks, $c$ words in the caption and $r$ in the reference,
#
# $$P = \frac{m}{c}, \quad R = \frac{m}{r}, \quad F = \frac{P R}{0.85 P + 0.15 R}, \quad
#   \text{METEOR} = \Big(1 - 0.6 \Big(\frac{k}{m}\Big)^{0.2}\Big) F$$
#
# (These are the weights of METEOR 1.5 for English, which also knows paraphrases. It is a Java program; the package
# uses it if it is installed, and nltk's METEOR with the same weights if that has its dictionary, WordNet.) Here is
# nltk's, with a dictionary of your own that has the synonyms of the scenes.


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
# Even the very same sentence does not get 1: its one chunk counts. The second caption has the same words in other
# places, and means the opposite. The third is a true paraphrase, and needs the synonyms.
#
# ## CIDEr-D by hand
#
# Not all words are worth the same: nearly every caption has "a", and few have "purple". CIDEr ([Vedantam et al.,
# 2015](https://arxiv.org/abs/1411.5726)) makes a vector of each caption, with a number for each n-gram: its count,
# times its weight $\log(N / N_g)$, where $N$ is the number of photos and $N_g$ the number of those with this n-gram
# in a reference (*tf-idf*). The score is the cosine of two such vectors, averaged over the references and over $n = 1
# \dots 4$, times 10.
#
# What everybody reports is *CIDEr-D*, which cannot be fooled as easily. It clips the counts as BLEU does, so that
# repeating a word does not help, and multiplies by $e^{-d^2 / 2\sigma^2}$ with $\sigma = 6$, where $d$ is the
# difference in length. When this notebook or a paper says CIDEr, it is CIDEr-D.
#
# **Your turn.** How much is each n-gram worth? An n-gram that is in no reference counts as being in one.

# %%
document_counts = Counter()
for texts in four:
    document_counts.update({ngram for text in texts for n in range(1, 5) for ngram in ngrams(text, n)})


# %% gap="weight"
def weight(ngram):
    """Return log(N / N_g) of an n-gram, a tuple of words; N_g is in document_counts."""
    return ...  # your turn


# %% check="weight" empty="weight(('a',))"
assert np.isclose(weight(("no", "such", "words")), math.log(300)), "In no reference: as if it were in one of the 300."
assert np.isclose(weight(("purple",)), math.log(300 / document_counts["purple",])), "The logarithm of N / N_g."


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
# So CIDEr depends on the data set: the same captions score differently among other photos, and a single photo always
# has 0.
#
# ## Captions that deserve good scores, and others
#
# * **the model**, whose captions are true for 19 of 20 scenes
# * **a person**, who always tells the truth
# * **a liar**: the person's sentence with left and right, above and below exchanged, or other colours where there are
#   no such words; never true
# * **shuffled**: the model's words in random order
# * **always the same**: one sentence for all scenes
#
# **Predict.** Order the five by BLEU-4. Who is first? How far behind is the liar? And what is BLEU-1 of the shuffled
# words?

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
# * **The model beats the person** by every metric (by METEOR, which knows synonyms, only just), though one in twenty
#   of its captions is false and none of the person's. It writes what is usual; the person writes now this, now that.
# * **The liar is not found out.** Not one sentence is true, and his BLEU-4 is still two thirds of the person's, his
#   CIDEr half. One wrong word in ten costs a few n-grams, whether it is an article or the whole point.
# * **BLEU-1 sees no order.** Shuffled words get exactly what the sentence got. BLEU-4 does see it.
#
# </details>
#
# On photos it is the same with BLEU: on Flickr8k's dev split the bundled captioner has BLEU-4 25.1 and a person 21.2.
# There METEOR (21.8 and 25.5) and CIDEr (.62 and .80) put the person first, as you would if you read the captions.
#
# Single captions show it more clearly still. Both of these speak of the same scene:

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
# Leave the full stop in: nearly every caption ends with one, and so it matches. Or leave the brevity penalty out:
# then captions that stop after four words score more than whole ones.

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
# So scores can only be compared where words are cut and penalties taken in the same way, and where there are as many
# references (five in the paper, which drops COCO's additional ones). The paper's section 5.2 adds three more reasons
# why scores of different papers are hard to compare: the encoder (a better CNN alone gives better captions), one
# model or an *ensemble* of several, and the split of the data. And here is the paper's own table for Flickr8k, BLEU-1
# to BLEU-4 (without brevity penalty) and METEOR:

# %%
for label, row in PUBLISHED["flickr8k"].items():
    print(f"{label:34}" + "  ".join(f"{100 * value:5.2f}" for value in row.values()))

# %% [markdown]
# Hard attention was a little better in all but BLEU-1. Was that chance?
#
# (The network is trained for none of these metrics, but for the cross-entropy: the logarithm of the perplexity that
# chapter 1 computes. Late in training, the paper says, likelihood and BLEU on the dev split no longer go together. So
# it keeps the epoch with the best BLEU on dev, and stops when that no longer rises: *early stopping*.)
#
# ## Is the difference real?
#
# Here are the two bundled captioners of scenes, with soft and with hard attention, on 100 scenes. Had there been 100
# other scenes, the scores would be others. The *bootstrap* imitates that: it draws 100 of the scenes with
# replacement, again and again, and looks at how the difference varies. 95 of 100 draws give a difference inside the
# interval.
#
# **Predict.** The two differ by about 1 point in BLEU-1. How wide is the interval of that difference?

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
# More than five points, and 0 is in it, as it is in every other row: from 100 scenes you cannot tell which of the two
# is better. (A row for METEOR is there only if its program is installed; it is another version than the one above.)
#
# </details>
#
# So what a difference of .01 is worth depends on the number of photos. The width of such an interval shrinks with the
# root of that number. How many photos are needed until a difference of .01 (one point of BLEU) is outside of it?

# %%
photos_needed = {}
for name in ("bleu_4", "cider"):
    low, high = comparison.rows[name]["interval"]
    photos_needed[name] = 100 * ((high - low) / 2 / 0.01) ** 2
    print(f"{name:7} about {photos_needed[name]:,.0f} photos for a difference of .01")

# %% [markdown]
# Thousands, for two captioners as similar as these; Flickr8k's test split has 1,000 photos. And the same network,
# trained from another seed, has other weights: on Flickr8k, that alone can change BLEU-4 by half a point. A single
# run that is one point better says little. Train several seeds, show intervals, and look at the captions.
#
# ## Look at the mistakes
#
# No score says why a caption is wrong. The attention does, sometimes: it shows what the model was looking at when it
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
# Both objects are blue. The attention is on both at once, mostly on the circle, when the first one is named and again
# when the second one is: the square never gets its word.
#
# ## For and against
#
# | metric | for it | against it |
# |---|---|---|
# | BLEU | simple, fast, any language, in every paper | no meaning, no truth; not for one caption |
# | ROUGE-L | order counts, gaps are allowed | as BLEU |
# | METEOR | stems, synonyms, recall before precision | needs dictionaries; versions differ |
# | CIDEr-D | what is rare counts more | depends on the data set; nothing for a single photo |
#
# All of them compare words with words. Newer ones look further: SPICE compares what is said of which object, and
# CLIPScore asks a network that has seen millions of photos whether the caption fits. Report several, say how words
# were cut, give the split, and read the captions.
#
# ## Exercises
#
# **1.** Which single sentence of all references, used for every scene, has the highest CIDEr? Try the first sentence
# of each of the first 40 scenes.
#
# [solution 1]
#
# **2.** Score each person against four, three, two and one reference. How much of BLEU-4 is the number of references?
#
# [solution 2]
#
# **3.** Define a liar whose captions are all false and who beats the model in BLEU-4. Begin with the references.
#
# [solution 3]
#
# ## In five sentences
#
# Metrics count how much of a caption is found in what people wrote. BLEU counts runs of words, METEOR pairs words and
# synonyms, CIDEr-D lets rare words count more. None of them knows what is true, so a liar does well and a model can
# beat a person. Scores can only be compared where everything around them is equal, and a difference of a point needs
# thousands of photos. Read the captions, and look at the attention where they are wrong.
#
# ## Next
#
# [Your own photos and Flickr8k](rooms/your_own_photos_and_flickr8k.ipynb) leaves the synthetic world. To read:
# [Anderson et al., *SPICE*](https://arxiv.org/abs/1607.08822), and
# [Hessel et al., *CLIPScore*](https://arxiv.org/abs/2104.08718).

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
