# %% [markdown]
# # 01 · Words and ids
#
# A captioner writes words, and a network computes with numbers. This story goes from the sentences that people wrote
# about photos to the arrays that a network is trained on, and measures what the one compromise on the way costs: the
# unknown word, `<unk>`.
#
# Everything is read from files that are written here, or from the drawn scenes that come with the package. Nothing is
# downloaded.

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

# %%
import re
import tempfile
import textwrap
from collections import Counter

import matplotlib.pyplot as plt
import numpy as np

import data_utils
from data_utils import CaptionedImage, Vocabulary, draw_scenes, tokenise
from data_utils.batches import inputs_and_targets
from keras_sat.files.model_folder import pretrained_directory
from keras_sat.scoring.bleu import bleu

plt.rcParams["figure.dpi"] = 80
folder = Path(tempfile.mkdtemp())

# %% [markdown]
# ## Read a caption file
#
# Flickr8k, Flickr30k and many others come as text: the name of a photo, `#` and the number of the caption, a tab, and
# the sentence. Flickr8k has 8,000 photos (6,000 to train on, 1,000 each for dev and test) with five captions each. Here
# are four lines of our own in the same form. `load_document` returns the text of the file, `load_descriptions` a map
# from each photo to its sentences.

# %%
lines = [
    "beach.jpg#0\tTwo children's buckets , left in the sand .",
    "beach.jpg#1\tA snow-white dog isn't far from 2 buckets !",
    "street.jpg#0\tA man waits for the 5:30 bus .",
    "street.jpg#1\tA U.S. flag above a café",
]
(folder / "token.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")

document = data_utils.load_document(folder / "token.txt")
descriptions = data_utils.load_descriptions(document)
print(descriptions)

# %% [markdown]
# ## Clean it
#
# `clean_descriptions` cuts each sentence into words with `tokenise`: lower case, no punctuation, and everything else
# stays. `vocabulary_words` is the set of the words, and `save_descriptions` writes one sentence a line: the cleaning is
# done once.

# %%
cleaned = data_utils.clean_descriptions(descriptions)
words = data_utils.vocabulary_words(cleaned)
data_utils.save_descriptions(cleaned, folder / "descriptions.txt")
for image_id, texts in cleaned.items():
    for text in texts:
        print(f"{image_id:7} {text}")
print(len(words), "different words")

# %% [markdown]
# Many tutorials clean more: they also throw away every word of one letter and everything with a digit in it. It looks
# tidy. Let us see what is lost.


# %%
def tidy(text):
    words = (re.sub(r"[^a-z]", "", word.lower()) for word in text.split())
    return [word for word in words if len(word) > 1]


for text in ("A snow-white dog isn't far from 2 buckets !", "A man waits for the 5:30 bus ."):
    print(f"{'tidied':9} {' '.join(tidy(text))}\n{'tokenised':9} {' '.join(tokenise(text))}\n")

# %% [markdown]
# The articles and the number are gone, and *isn't* has become a word of its own, *isnt*. A captioner that was trained
# on such text never says "a". Its captions are then compared with what people really wrote, and they say "a" all the
# time. The next cells measure it, on sentences that are plentiful: the drawn scenes.

# %%
scenes = draw_scenes(1000, seed=1)
images = [CaptionedImage(scene.image_id, scene.image, list(scene.captions), scene.split) for scene in scenes]
figure, axes = plt.subplots(1, 4, figsize=(10, 3))
for ax, scene in zip(axes, scenes):
    ax.imshow(scene.image)
    ax.set_title(textwrap.fill(scene.captions[0], 24), fontsize=9)
    ax.axis("off")

# %% [markdown]
# Every scene has five true sentences, made by a small grammar. (Before there were networks, captions of photos were
# made like that too: templates, filled in with what a detector had found; or the caption of a similar photo was taken.)
# To measure what cleaning costs, take the first sentence of each scene of the dev split as if a captioner had written
# it, and score it against the other four with BLEU-4, the usual score; [09](09_how_good_is_it.ipynb) explains it. Who
# tidies loses 7 points of 49 (a point is a hundredth) without having said anything wrong.

# %%
dev = [image for image in images if image.split == "dev"]
others = [image.captions[1:] for image in dev]
as_written = bleu(others, [tokenise(image.captions[0]) for image in dev])["bleu_4"]
as_tidied = bleu(others, [tidy(image.captions[0]) for image in dev])["bleu_4"]
print(f"BLEU-4 as written {as_written:.3f}, tidied {as_tidied:.3f}")

# %% [markdown]
# ## Build the vocabulary
#
# A vocabulary gives each word a number, its id. Four tokens come first: `<pad>` is padding, `<start>` and `<end>` frame
# a caption, `<unk>` replaces every word that the vocabulary does not have. The words follow, the most frequent first.
#
# Only the training split is counted. A model that has seen the words of the test captions would be measured wrongly.

# %%
animals = [
    CaptionedImage("a", "a.jpg", ["a dog sees a cat"], "train"),
    CaptionedImage("b", "b.jpg", ["an elephant sees a dog"], "test"),
]
small = Vocabulary.build(animals)
ids = small.caption_to_ids("an elephant sees a dog")
print(small.tokens)
print(ids, "->", small.ids_to_caption(ids))

# %% [markdown]
# The captioner for photos that comes with the package has the words that occur at least five times in Flickr8k's
# training captions (the paper kept 10,000 words at most). Real language is long-tailed: a few words are everywhere, and
# most are rare.

# %%
path = next(pretrained_directory("flickr8k-paper").glob("vocabulary-*.json"))
flickr8k = Vocabulary.load(path)
print(flickr8k)
print("most frequent:", *flickr8k.words[:10])
print("least frequent:", *flickr8k.words[-5:])
print("unknown:", *(word for word in ("dog", "elephant", "giraffe", "unicorn") if word not in flickr8k))

# %% [markdown]
# ## What `<unk>` costs
#
# A smaller vocabulary makes a smaller and faster model, and rare words are hard to learn anyway. So keep fewer and
# fewer of the scenes' 41 words, and measure three things on the dev split:
#
# * the share of **words** that become `<unk>`,
# * the share of **captions** with at least one `<unk>`,
# * BLEU-4 of the same sentences as before, written with those words alone.

# %%
sizes = (41, 36, 32, 28, 24, 20, 16, 12, 8)
every_caption = [caption for image in dev for caption in image.captions]
rows = []
for size in sizes:
    limited = Vocabulary.build(images, max_size=size)

    def in_its_words(caption, limited=limited):
        return limited.ids_to_words(limited.caption_to_ids(caption))

    candidates = [in_its_words(image.captions[0]) for image in dev]
    rows.append(
        {
            "words": limited.unknown_share(every_caption),
            "captions": np.mean(["<unk>" in in_its_words(caption) for caption in every_caption]),
            "honest": bleu(others, candidates)["bleu_4"],
            "cheated": bleu([[in_its_words(text) for text in texts] for texts in others], candidates)["bleu_4"],
        }
    )
unk = {name: np.array([row[name] for row in rows]) for name in rows[0]}

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.2), layout="constrained")
left.plot(sizes, unk["captions"], "o-", label="captions with an unknown word")
left.plot(sizes, unk["words"], "o-", label="words that are unknown")
right.plot(sizes, unk["cheated"], "o--", color="tab:red", label="BLEU-4, <unk> matches <unk>")
right.plot(sizes, unk["honest"], "o-", color="tab:green", label="BLEU-4, against what was written")
for ax in (left, right):
    ax.set_xlabel("words in the vocabulary")
    ax.legend()
    ax.set_ylim(0, 1)

# %% [markdown]
# Two lessons:
#
# * A small fraction of words is a large fraction of captions. With 32 words 3 % of the words are unknown, and 15 % of
#   the captions have one; with 28, 6 % and 37 %.
# * The red curve is a mistake that is easily made: the references went through the vocabulary too, and `<unk>`
#   matches `<unk>`. The less such a captioner can say, the better it seems to be: with 8 words the cheated score is
#   .72, and the honest one 0. In this package references always are what people wrote, and `<unk>` in a caption matches
#   nothing. (Captions are searched without it, see [08](08_words_out.ipynb).)
#
# ## From ids to vectors
#
# The paper writes a caption as $y = \{y_1, \dots, y_C\},\ y_i \in \mathbb{R}^K$: each word is a vector of length $K$,
# the size of the vocabulary, which is 1 in one place and 0 elsewhere. What the network takes in is
# $\mathbf{E}y$, where $\mathbf{E}$ is learned. To multiply with a 1-of-$K$ vector is to pick a column of the matrix,
# which is what an embedding layer does (it keeps $\mathbf{E}$ with one *row* for each word).

# %%
vocabulary = Vocabulary.build(images)
caption = "there is a red circle above a blue star"
ids = vocabulary.caption_to_ids(caption)
one_of_k = np.eye(len(vocabulary))[ids]
embedding = np.random.default_rng(0).normal(size=(len(vocabulary), 16))
as_product, as_lookup = one_of_k @ embedding, embedding[ids]

figure, axes = plt.subplots(1, 2, figsize=(10, 2.6), width_ratios=(3, 1.4), layout="constrained")
axes[0].imshow(one_of_k, cmap="Greys")
axes[0].set_title(f"1-of-K: {one_of_k.shape[0]} words, K = {one_of_k.shape[1]}")
axes[1].imshow(as_lookup, cmap="coolwarm")
axes[1].set_title("E y: 16 numbers for each word")
for ax, labels in zip(axes, (tokenise(caption), [""] * len(ids))):
    ax.set_yticks(range(len(ids)), labels)

# %% [markdown]
# ## What goes in, what must come out
#
# The network gets the words so far and predicts the next one. So the inputs start with `<start>`, the targets end with
# `<end>`, and each target is the word after its input. Captions of different length in one batch are filled up with
# `<pad>`, which weighs nothing.

# %%
two = [vocabulary.caption_to_ids(text) for text in ("a red circle", "there is a blue star")]
input_ids, target_ids, token_weights = inputs_and_targets(two, vocabulary)
for number in range(2):
    for name, row in (("inputs", input_ids[number]), ("targets", target_ids[number])):
        print(f"{name:8}", "".join(f"{vocabulary.tokens[token_id]:9}" for token_id in row))
    print(f"{'weights':8}", "".join(f"{weight:<9g}" for weight in token_weights[number]), "\n")

# %% [markdown]
# ## Why a batch holds captions of one length
#
# A batch takes as many steps as its longest caption has words. The paper noticed that random batches waste time on
# padding, and so it draws a length first, and then 64 captions of that length. How much is it?

# %%
train_captions = [text for image in images if image.split == "train" for text in image.captions]
lengths = np.array([len(tokenise(text)) for text in train_captions])
counts = Counter(lengths.tolist())


def padding_share(lengths, batch_size=64):
    batches = [lengths[i : i + batch_size] for i in range(0, len(lengths), batch_size)]
    return 1 - lengths.sum() / sum(len(batch) * batch.max() for batch in batches)


random_share = padding_share(np.random.default_rng(0).permutation(lengths))
sorted_share = padding_share(np.sort(lengths))
figure, ax = plt.subplots(figsize=(6, 2.4))
ax.bar(counts.keys(), counts.values())
ax.set_xlabel("words in a caption")
print(f"padding: {random_share:.0%} of random batches, {sorted_share:.0%} where similar lengths share a batch")

# %% [markdown]
# With random batches nearly half of the steps would be for nothing. `data_utils.make_batches` groups captions by
# length; [02](02_an_image_as_196_vectors.ipynb) uses it.
#
# ## Exercises
#
# 1. Run `tokenise` on captions of your own language. Is there something that should be one word and became two?
# 2. Draw scenes with `max_objects=3` and measure `<unk>` again. Which curve changes most, and why?
# 3. A vocabulary can also be cut by `min_count`. Which value leaves the scenes with 32 words?
# 4. Let `tidy` keep words of one letter. How much of the lost score comes back?
#
# ## Next
#
# The words are ready. [02 · An image as 196 vectors](02_an_image_as_196_vectors.ipynb) does the same for the photo.
#
# The last cell checks what this notebook has claimed.

# %%
assert data_utils.load_descriptions(data_utils.load_document(folder / "descriptions.txt")) == cleaned
assert cleaned["beach"][1] == "a snow-white dog is n't far from 2 buckets" and "café" in cleaned["street"][1]
assert "isnt" in tidy(lines[1]) and not {"a", "2"} & set(tidy(lines[1]))
assert abs(as_written - 0.494) < 0.001 and abs(as_tidied - 0.421) < 0.001
assert ids == [vocabulary.tokens.index(word) for word in tokenise(caption)]
assert "elephant" not in small and small.caption_to_ids("elephant") == [small.unk_token_id]
assert [small.pad_token_id, small.start_token_id, small.end_token_id, small.unk_token_id] == [0, 1, 2, 3]
assert len(flickr8k.words) == 2538 and "dog" in flickr8k and "giraffe" not in flickr8k
at = {size: {name: values[i] for name, values in unk.items()} for i, size in enumerate(sizes)}
assert len(vocabulary.words) == 41 and at[41]["words"] == 0
assert abs(at[32]["words"] - 0.03) < 0.005 and abs(at[32]["captions"] - 0.15) < 0.01
assert abs(at[28]["words"] - 0.06) < 0.005 and abs(at[28]["captions"] - 0.37) < 0.01
assert abs(at[8]["cheated"] - 0.72) < 0.01 and at[8]["honest"] < 1e-3
assert (np.diff(unk["honest"]) < 0).all() and (np.diff(unk["cheated"]) > -0.002).all()
np.testing.assert_allclose(as_product, as_lookup)
np.testing.assert_array_equal(input_ids[1, 1:], target_ids[1, :-1])
assert token_weights[0].tolist() == [1, 1, 1, 1, 0, 0]
assert 0.4 < random_share < 0.5 and sorted_share < 0.02
