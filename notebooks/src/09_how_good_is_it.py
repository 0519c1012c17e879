# %% [markdown]
# # 09 · How good is it
#
# Five people have written five captions of a photo, and a captioner writes a sixth. How good is it? No machine can
# tell, so one counts how much of the sixth is found in the five. This story computes the usual scores by hand, BLEU,
# METEOR and CIDEr, finds the same numbers as the package, and then looks for cases where they are wrong. On drawn
# scenes that can be done, since there the truth is known.

# %%
import importlib.util
import subprocess
import sys
from pathlib import Path

if importlib.util.find_spec("keras_sat") is None:  # on Colab: install the clone that contains this notebook
    clone = Path("..").resolve()
    if not (clone / "keras_sat").is_dir():
        raise ModuleNotFoundError(
            "keras_sat is not installed. Clone its repository, and open this notebook in the clone's folder notebooks."
        )
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", str(clone)], check=True)

from data_utils.tf_logging import import_tensorflow

_ = import_tensorflow()  # without its greetings, half a dozen lines about the processor

# %%
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
from keras_sat.scoring.scores import meteor

plt.rcParams["figure.dpi"] = 80

# %% [markdown]
# ## BLEU by hand
#
# Cut the captions into words, and count the *n-grams*, the runs of $n$ words. The precision $p_n$ is the share of the
# candidate's n-grams that stand in a reference, each counted at most as often as in the reference that has it most
# often (else "a a a a" would be perfect).

# %%
references = ["a red circle is left of a blue star", "there is a red circle to the left of the star"]
candidate = "a red circle is to the left of the the star"


def ngrams(text, n):
    words = tokenise(text)
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


precisions = []
for n in range(1, 5):
    most = Counter()
    for reference in references:
        most |= ngrams(reference, n)
    counted = ngrams(candidate, n)
    matches = {ngram: min(count, most[ngram]) for ngram, count in counted.items()}
    precisions.append(sum(matches.values()) / counted.total())
    missing = [" ".join(ngram) for ngram, count in counted.items() if matches[ngram] < count]
    print(f"p_{n} = {sum(matches.values()):2} / {counted.total():2}   not there: {', '.join(missing)}")

# %% [markdown]
# BLEU-$N$ is the geometric mean of $p_1 \dots p_N$. A very short caption could have perfect precision, so there is a
# *brevity penalty*: with $c$ words in the candidate and $r$ in the reference that is closest in length,
#
# $$\text{BLEU-}N = \min(1, e^{1 - r/c}) \cdot \Big(\prod_{n=1}^N p_n\Big)^{1/N}$$

# %%
c = len(tokenise(candidate))
r = min((len(tokenise(reference)) for reference in references), key=lambda length: (abs(length - c), length))
penalty = min(1.0, math.exp(1 - r / c))
by_hand = [penalty * math.prod(precisions[:n]) ** (1 / n) for n in range(1, 5)]
scored = bleu([references], [candidate])
for n, value in enumerate(by_hand, start=1):
    print(f"BLEU-{n}  by hand {value:.6f}  scores.bleu {scored[f'bleu_{n}']:.6f}")

# %% [markdown]
# ## A score of a corpus
#
# BLEU is meant for many captions at once: matches and counts are summed first, and divided then. The mean of the BLEU
# of single captions is something else, since one without a common run of four words has BLEU-4 zero.
#
# From here on the captions are of 300 scenes that the captioner has not seen. To be fair to people, four of the five
# sentences of a scene are the references, and the fifth is the person that is scored.

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
print(f"BLEU-4 of the corpus {of_corpus:.3f}, mean over captions {of_each.mean():.3f}; ", end="")
print(f"{(of_each < 0.001).mean():.0%} of the captions have 0")

# %% [markdown]
# ## Captions that should get good marks, and bad ones
#
# * **the model**,
# * **a person**, who by construction tells the truth,
# * **a liar**: the person's sentence with left and right, above and below exchanged, or other colours where there are
#   no such words; never true,
# * **shuffled**: the model's words in random order,
# * **always the same**: one sentence for all pictures.

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
    table[label]["true"] = np.mean([is_true(scene, caption) is True for scene, caption in zip(scenes, captions)])
print(f"{'':16}" + "".join(f"{name:>9}" for name in table["a person"]))
for label, row in table.items():
    print(f"{label:16}" + "".join(f"{value:9.3f}" for value in row.values()))

# %%
figure, axes = plt.subplots(1, 3, figsize=(10, 2.2), sharey=True, layout="constrained")
for ax, name in zip(axes, ("true", "bleu_4", "cider")):
    ax.barh(list(table)[::-1], [row[name] for row in reversed(table.values())], color="tab:blue")
    ax.set_title(name)

# %% [markdown]
# ## Where BLEU is wrong
#
# * **The model is better than a person**, by BLEU-4, ROUGE-L and CIDEr alike, though one in twenty of its captions is
#   false, and none of the person's. It writes what is usual, the person now this and now that. On photos it is the same
#   with BLEU: on Flickr8k's dev split the shipped captioner has BLEU-4 26.3 and a person 21.2 (docs/model-card.md).
#   There METEOR (21.8 and 25.5) and CIDEr (.64 and .80) put the person first, as anybody would who reads them.
# * **The liar is not found out.** Not one sentence is true, and BLEU-4 is still two thirds of the person's. One wrong
#   word in ten costs a few n-grams, whether it is an article or the whole point.
# * **BLEU-1 sees no order.** Shuffled words get what the sentence got. BLEU-4 does see it.
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
# Leave the full stop in: nearly every caption ends with one, and so it matches. Leave the brevity penalty out: then
# captions that stop after four words score more than whole ones. (The paper's table is without it; `bleu` returns both,
# and says which.) So figures can only be compared where words are cut and penalties taken in the same way,
# and where there are as many references: five in `evaluate` and in the paper, which leave out COCO's additional ones.

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
# ## METEOR by hand
#
# METEOR aligns the words of a caption with those of one reference, weighs recall above precision, and punishes an
# alignment in many pieces (*chunks*); the best reference counts. With $m$ words aligned in $k$ chunks,
#
# $$P = \frac{m}{c}, \quad R = \frac{m}{r}, \quad F = \frac{P R}{\alpha P + (1 - \alpha) R}, \quad
#   \text{METEOR} = \Big(1 - \gamma \Big(\frac{k}{m}\Big)^\beta\Big) F$$
#
# The real one (METEOR 1.5) also aligns words of the same stem, synonyms and paraphrases. By hand we only take equal
# words; then it is nltk's with a WordNet that knows no synonym.


# %%
def meteor_by_hand(reference, candidate, alpha, beta, gamma):
    reference, candidate = tokenise(reference), tokenise(candidate)
    places = [reference.index(word) for word in candidate if word in reference]  # each word once in both
    precision, recall = len(places) / len(candidate), len(places) / len(reference)
    chunks = 1 + sum(after != before + 1 for before, after in zip(places, places[1:]))
    return (
        (1 - gamma * (chunks / len(places)) ** beta) * precision * recall / (alpha * precision + (1 - alpha) * recall)
    )


pairs = [
    ("a small red circle above one star", "a small red circle above one star"),
    ("a small red circle above one star", "one star above a small red circle"),
    ("a small red circle above one star", "a little crimson disc above one star"),
]
no_synonyms = SimpleNamespace(synsets=lambda word: [])
meteors = []
for reference, caption in pairs:
    ours = meteor_by_hand(reference, caption, **NLTK_WEIGHTS)
    theirs = meteor_score([tokenise(reference)], tokenise(caption), wordnet=no_synonyms, **NLTK_WEIGHTS)
    meteors.append((ours, theirs))
    print(f"{ours:.4f} {theirs:.4f}  {caption}")

# %% [markdown]
# Even the very same sentence does not get 1 by this formula: its one chunk counts. The second caption has the same
# words in other places; the third is a true paraphrase, and only synonyms would help. They need a dictionary: METEOR
# 1.5 is a Java program (`pip install "keras_sat[coco]"` and Java), nltk's needs WordNet (`python -m nltk.downloader
# wordnet`). `meteor` takes what is there and says which one it was; where there is neither, it returns no score and
# says what to install. Nothing else in this notebook depends on it.

# %%
synonyms = [
    meteor([[reference]], [caption])
    for reference, caption in (("a small dog", "a little dog"), ("a small dog", "a green dog"))
]
print(synonyms[0]["meteor_kind"])
for text, found in zip(("a little dog", "a green dog"), synonyms):
    print(f"{text}: {'no score' if found['meteor'] is None else format(found['meteor'], '.3f')}")

# %% [markdown]
# ## CIDEr by hand
#
# Not all words are worth the same: nearly every caption has "a", and few have "purple". CIDEr writes each caption as a
# vector with a number for each n-gram: how often it occurs, times $\log\,(N / N_g)$, where $N$ is the number of photos
# and $N_g$ that of those with this n-gram in a reference. The score is the cosine of two such vectors, averaged over
# references and over $n = 1 \dots 4$, times 10; counts are clipped as in BLEU, and a difference in length costs a
# little.


# %%
document_counts = Counter()
for texts in four:
    document_counts.update({ngram for text in texts for n in range(1, 5) for ngram in ngrams(text, n)})


def vector(text, n):
    return {
        ngram: count * math.log(len(four) / max(document_counts[ngram], 1)) for ngram, count in ngrams(text, n).items()
    }


def cosine(mine, theirs):
    norms = math.hypot(*mine.values()) * math.hypot(*theirs.values())
    return sum(min(x, theirs[g]) * theirs[g] for g, x in mine.items() if g in theirs) / norms if norms else 0.0


def cider_by_hand(texts, caption):
    total = 0.0
    for text in texts:
        difference = len(tokenise(caption)) - len(tokenise(text))
        closeness = sum(cosine(vector(caption, n), vector(text, n)) for n in range(1, 5)) / 4
        total += math.exp(-(difference**2) / 72) * closeness
    return 10 * total / len(texts)


cider_mean = np.mean([cider_by_hand(texts, caption) for texts, caption in zip(four, model)])
print(f"CIDEr by hand {cider_mean:.6f}, scores.cider {table['the model']['cider']:.6f}")
weights = {word: vector(word, 1)[word,] for word in ("a", "is", "square", "purple", "another")}
print("what a word weighs:", "  ".join(f"{word} {weight:.2f}" for word, weight in weights.items()))

# %% [markdown]
# So CIDEr is a score *within a data set*: the same captions score differently among other photos, and a single photo
# always has 0. It is harder on the liar than BLEU is, but he still gets half of the person's score.
#
# ## Is the difference real?
#
# `evaluate` captions a split and prints all scores with what they depend on. The challenges that the paper names when
# it compares itself with others are all in that line: the encoder, whether several models vote (`keras_sat.Ensemble`),
# the split. Below are the two shipped captioners of scenes, with soft and with hard attention, on 100 scenes.
# `compare` draws the photos again and again, and shows an interval for the difference.

# %%
images = [CaptionedImage(scene.image_id, scene.image, list(scene.captions), "test") for scene in scenes[:100]]
tables = {
    name: keras_sat.evaluate(
        keras_sat.Captioner.from_pretrained(name), images, split="test", num_beams=1, show_progress=False
    )
    for name in ("scenes", "scenes-hard")
}
print(tables["scenes"])
comparison = keras_sat.compare(tables["scenes"], tables["scenes-hard"])
print(f"\n{comparison}")

# %% [markdown]
# Every interval has 0 in it: from 100 scenes one cannot tell which of the two is better.
#
# And this is the paper's own table for Flickr8k, BLEU-1 to BLEU-4 and METEOR: hard attention was a little better there
# in all but BLEU-1.

# %%
for label, row in PUBLISHED["flickr8k"].items():
    print(f"{label:34}" + "  ".join(f"{100 * value:5.2f}" for value in row.values()))

# %% [markdown]
# ## Look at the mistakes
#
# No score says *why* a caption is wrong. The attention does, sometimes: it shows what the model was looking at when it
# said the wrong word. Here is one of the false captions.

# %%
wrong = [(scene, result) for scene, result in zip(scenes, results) if is_true(scene, result.caption) is not True]
scene, result = wrong[0]
display = keras_sat.AttentionDisplay.from_result(result)
display.plot()
print(f"{len(wrong)} of {len(scenes)} captions are false. One of them: {result.caption}")
print("What is there:", "; ".join(" ".join(item.looks) for item in scene.objects))
circle, square = (scene.places(f"a blue {shape}")[-1].cells((16, 16)) for shape in ("circle", "square"))
on_both = [[float((result.attention_weights[n] * cells).sum()) for cells in (circle, square)] for n in (1, 9)]
for which, masses in zip(("first", "second"), on_both):
    print(f"weight on circle and square at the {which} 'blue':", " and ".join(f"{mass:.2f}" for mass in masses))

# %% [markdown]
# Both objects are blue, and the attention is on both of them at once, mostly on the circle, when the first one is named
# and when the second one is: the square never gets its word.
#
# ## Pros and cons
#
# | score | for it | against it |
# |---|---|---|
# | BLEU | simple, fast, any language, in every paper | no meaning, no truth; all words alike; not for one caption |
# | ROUGE-L | order counts, gaps are allowed | as BLEU |
# | METEOR | stems, synonyms, recall before precision | needs a program and dictionaries; versions differ |
# | CIDEr | what is rare weighs more | depends on the data set; nothing for a single photo |
#
# Report several, say how the words were cut, give the split, and read the captions.
#
# ## Exercises
#
# 1. Write a caption of the scene `scenes[0]` that is false and has BLEU-4 of 1 against `four[0]`. Why is that not
#    possible? How close can you get?
# 2. Find the single sentence that, used for all scenes, has the highest CIDEr. Is it the one with the highest BLEU-4?
# 3. Score each person against four, three, two and one reference. How much of BLEU is the number of references?
# 4. Define a liar whose captions are all false and who is above the model in BLEU-4. Begin with the references.
#
# ## Next
#
# [10 · Your own photos and Flickr8k](10_your_own_photos.ipynb) leaves the drawn world.
#
# The last cell checks what this notebook has claimed.

# %%
np.testing.assert_allclose(by_hand, [scored[f"bleu_{n}"] for n in range(1, 5)], atol=1e-6)
assert abs(bleu([["a dog runs"]], ["a a a a"])["bleu_1"] - 1 / 4) < 1e-6
assert of_corpus > 1.5 * of_each.mean() and (of_each < 0.001).mean() > 0.2
for name in ("bleu_4", "rouge_l", "cider"):
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
np.testing.assert_allclose(*zip(*meteors), rtol=1e-6)
assert meteors[0][0] > meteors[1][0] > meteors[2][0]
if synonyms[0]["meteor"] is not None:
    assert synonyms[0]["meteor"] > synonyms[1]["meteor"]
assert abs(cider_mean - table["the model"]["cider"]) < 1e-6
assert list(weights.values()) == sorted(weights.values()) and cider([["a dog"]], ["a dog"])["cider"] == 0
assert all(row["interval"][0] < 0 < row["interval"][1] for row in comparison.rows.values())
assert result.caption == "a blue circle is to the left of a blue circle" and all(c > 1.5 * s > 0.2 for c, s in on_both)
soft, hard = PUBLISHED["flickr8k"].values()
assert all(hard[name] > soft[name] for name in soft if name != "bleu_1_no_penalty")
