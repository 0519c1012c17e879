# %% [markdown]
# # 1 · Words
#
# **You will be able to**
#
# * turn captions written by people into the arrays that a network is trained on
# * measure what is lost when captions are cleaned and the vocabulary is limited
# * explain *teacher forcing*, and the *exposure bias* that it causes
# * compute a *perplexity*
#
# **You need** Python and, for the second half, numpy.
#
# **Time:** 1 minute to run on two cores, and about 45 minutes to think.
#
# [diagram]
#
# A captioner writes words, but a network computes with numbers. This chapter turns words into numbers. The notebook
# itself writes a small caption file, and the package generates synthetic scenes with their captions. Nothing is
# downloaded.

# %%
import re
import tempfile
import textwrap
from collections import Counter
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import data_utils
from data_utils import CaptionedImage, Vocabulary, draw_scenes, tokenise
from data_utils.batches import inputs_and_targets
from keras_sat.files import pretrained_directory
from keras_sat.measuring import bleu

plt.rcParams["figure.dpi"] = 100
folder = Path(tempfile.mkdtemp())

# %% [markdown]
# ## Read a caption file
#
# The paper's smallest data set is *Flickr8k* ([Hodosh et al., 2013](https://doi.org/10.1613/jair.3994)): 8,000 Flickr
# photos in which people or animals *do* something. For each photo, five workers on Amazon Mechanical Turk wrote one
# sentence each. Of the 8,000 photos, 6,000 are for training, 1,000 for choosing settings (*dev*), and 1,000 for the
# final test. Flickr30k (31,000 photos) and COCO (more than 82,000 training photos) were made in much the same way as
# Flickr8k.
#
# The captions are in a text file, one per line. Each line has the name of the photo, `#`, the number of the caption, a
# tab, and the sentence. The next cell writes and reads four lines in this format.

# %%
lines = [
    "beach.jpg#0\tTwo children's buckets , left in the sand .",
    "beach.jpg#1\tA snow-white dog isn't far from 2 buckets !",
    "street.jpg#0\tA man waits for the 5:30 bus .",
    "street.jpg#1\tA U.S. flag above a café",
]
(folder / "token.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")

document = data_utils.load_document(folder / "token.txt")
descriptions = data_utils.load_descriptions(document)  # the captions of each photo
for image_id, texts in descriptions.items():
    print(image_id, texts)

# %% [markdown]
# ## Clean it
#
# A *tokeniser* splits a sentence into *tokens*, here words. The package's tokeniser changes all words to lower case and
# drops the punctuation; everything else stays. The next cell saves the cleaned captions, one sentence per line, so that
# they have to be cleaned only once.

# %%
cleaned = data_utils.clean_descriptions(descriptions)
words = data_utils.vocabulary_words(cleaned)
data_utils.save_descriptions(cleaned, folder / "descriptions.txt")
for image_id, texts in cleaned.items():
    for text in texts:
        print(f"{image_id:7} {text}")
print(len(words), "different words")

# %% [markdown]
# Many tutorials clean captions more thoroughly: they keep only letters, and drop all one-letter words. The result
# looks tidy, but what is lost?


# %%
def tidy(text):
    words = (re.sub(r"[^a-z]", "", word.lower()) for word in text.split())
    return [word for word in words if len(word) > 1]


for text in ("A snow-white dog isn't far from 2 buckets !", "A man waits for the 5:30 bus ."):
    print(f"{'tidied':9} {' '.join(tidy(text))}\n{'tokenised':9} {' '.join(tokenise(text))}\n")

# %% [markdown]
# After this cleaning, the article "a" and the numbers are gone, and *isn't* has become a new word, *isnt*. A captioner
# trained on such text never writes "a", but its captions are compared with those of people, who write "a" all the time.
#
# To measure how much such cleaning lowers the scores, you need many sentences. The synthetic scenes have enough: for
# each scene, a small grammar generates five true sentences. (Section 2 of the paper describes two ways in which photos
# were captioned before neural networks. In one, an object detector filled in *templates*, much as the grammar does
# here; in the other, the caption of a similar photo was *retrieved* and adapted.)

# %%
scenes = draw_scenes(1000, seed=1)
images = [CaptionedImage(scene.image_id, scene.image, list(scene.captions), scene.split) for scene in scenes]
train = [image for image in images if image.split == "train"]
dev = [image for image in images if image.split == "dev"]

figure, axes = plt.subplots(1, 4, figsize=(10, 3))
for ax, scene in zip(axes, scenes):
    ax.imshow(scene.image)
    ax.set_title(textwrap.fill(scene.captions[0], 24), fontsize=10)
    ax.axis("off")

# %% [markdown]
# Take the first sentence of each dev scene as if a captioner had written it, and score it against the other four with
# BLEU-4. BLEU-4 is the usual score for captions, a number from 0 to 1; [chapter 8](08_how_good_is_it.ipynb) computes it
# by hand. Keep in mind that all five sentences about a scene are true.
#
# **Predict.** As written, the sentences score .49. What do they score after tidying?

# %%
others = [image.captions[1:] for image in dev]
as_written = bleu(others, [tokenise(image.captions[0]) for image in dev])["bleu_4"]
as_tidied = bleu(others, [tidy(image.captions[0]) for image in dev])["bleu_4"]
print(f"BLEU-4 as written {as_written:.3f}, tidied {as_tidied:.3f}")

# %% [markdown]
# <details><summary>What happened</summary>
#
# The tidied sentences score .42. So tidying costs 7 of the 49 points (a *point* is a hundredth), although no word is
# wrong.
#
# </details>
#
# ## Build the vocabulary
#
# A *vocabulary* gives each word a number, its *id*. Four tokens come first: `<pad>` is padding, `<start>` and `<end>`
# mark the beginning and the end of a caption, and `<unk>` (unknown) replaces each word that is not in the vocabulary.
# After these four tokens come the words, most frequent first.
#
# Count words in the training split only. A model that knew the words of the test captions would look better than it is.
#
# **Your turn.** List the words that occur at least `min_count` times in the captions, most frequent first. Put words
# with equal counts in alphabetical order. `Counter` has already counted the words. To sort them, pass a `key` to
# `sorted`.


# %% gap="vocabulary"
def frequent_words(captions, min_count):
    """Return the words of the captions by frequency."""
    counts = Counter(word for caption in captions for word in tokenise(caption))
    return ...  # your turn


# %% check="vocabulary" empty="frequent_words(['a dog'], 1)"
three = ["a dog sees a cat", "the dog sees the dog", "a cat"]
assert frequent_words(three, 1)[0] in ("a", "dog"), "The most frequent words come first."
assert frequent_words(three, 2) == ["a", "dog", "cat", "sees", "the"], "Equal counts go in alphabetical order."
assert frequent_words(three, 3) == ["a", "dog"], "Drop words that occur fewer than min_count times."
small = Vocabulary.build([CaptionedImage("three", "three.jpg", three, "train")])
assert frequent_words(three, 1) == small.words, "The package puts the words in another order."
print(*small.tokens)

# %%
ids = small.caption_to_ids("a giraffe sees the dog")
print(ids, "->", small.ids_to_caption(ids))

# %% [markdown]
# The vocabulary of the bundled photo captioners consists of the words that occur at least five times in Flickr8k's
# training captions. (The paper's vocabulary has 10,000 words.) Real language has a *long tail*: a few words are very
# frequent, and most are rare.

# %%
path = next(pretrained_directory("flickr8k-paper").glob("vocabulary-*.json"))
flickr8k = Vocabulary.load(path)
print(len(flickr8k.words), "words")
print("most frequent:", *flickr8k.words[:10])
print("least frequent:", *flickr8k.words[-5:])
print("unknown:", *(word for word in ("dog", "elephant", "giraffe", "unicorn") if word not in flickr8k))

# %% [markdown]
# ## What `<unk>` costs
#
# Why not keep all words? Each word has two vectors of its own, one in each of two matrices. If the word occurs only
# twice, these vectors can hardly be learned. But a small vocabulary has its price, too. The next cells keep fewer and
# fewer of the scenes' 41 words, and measure three things on the dev split:
#
# * the fraction of **words** that become `<unk>`
# * the fraction of **captions** with at least one `<unk>`
# * BLEU-4 of the same sentences as before, with `<unk>` for every missing word: once against the original references
#   (*honest*), and once against references in which the missing words are `<unk>`, too (*flattering*)
#
# **Predict.** How do the honest and the flattering BLEU-4 change as the vocabulary shrinks?

# %%
sizes = (41, 36, 32, 28, 24, 20, 16, 12, 8)
every_caption = [caption for image in dev for caption in image.captions]
rows = []
for size in sizes:
    limited = Vocabulary.build(images, max_size=size)

    def in_its_words(caption, limited=limited):
        return limited.ids_to_words(limited.caption_to_ids(caption))

    candidates = [in_its_words(image.captions[0]) for image in dev]
    limited_others = [[in_its_words(text) for text in texts] for texts in others]
    rows.append(
        {
            "words": limited.unknown_share(every_caption),
            "captions": np.mean(["<unk>" in in_its_words(caption) for caption in every_caption]),
            "honest": bleu(others, candidates)["bleu_4"],
            "flattering": bleu(limited_others, candidates)["bleu_4"],
        }
    )
unk = {name: np.array([row[name] for row in rows]) for name in rows[0]}
for size, row in zip(sizes, rows):
    print(f"{size:3} words: " + "  ".join(f"{name} {value:.2f}" for name, value in row.items()))

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.2), layout="constrained")
left.plot(sizes, unk["captions"], "o-", label="captions with an unknown word")
left.plot(sizes, unk["words"], "o-", label="words that are unknown")
right.plot(sizes, unk["flattering"], "o--", color="tab:red", label="BLEU-4, <unk> matches <unk>")
right.plot(sizes, unk["honest"], "o-", color="tab:green", label="BLEU-4, against what was written")
for ax in (left, right):
    ax.set_xlabel("words in the vocabulary")
    ax.legend()
    ax.set_ylim(0, 1)

# %% [markdown]
# <details><summary>What happened</summary>
#
# The honest score falls to 0. The flattering score *rises* to .72, because `<unk>` matches `<unk>`: the fewer words a
# captioner has, the better it seems to be. It is easy to make the mistake of replacing words in the references as well.
#
# </details>
#
# A few unknown words affect many captions. With a vocabulary of 32 words, 3 % of the words are unknown, and 15 % of the
# captions contain an unknown word. With 28 words, 6 % of the words and 37 % of the captions are affected.
#
# *Sub-words* avoid unknown words: frequent words stay whole, and rare words are composed of pieces ("gir", "affe"), so
# that no word is unknown ([Sennrich et al., 2016](https://arxiv.org/abs/1508.07909)). Large language models use
# sub-words. Here, as in the paper, a token is a whole word, so each attention map belongs to a word and not to a piece
# of one.
#
# ## From ids to vectors
#
# The paper writes a caption as $y = \{\mathbf{y}_1, \dots, \mathbf{y}_C\},\ \mathbf{y}_t \in \mathbb{R}^K$: each word
# is a *1-of-K* (or *one-hot*) vector. This vector has one element for each token of the vocabulary; the word's own
# element is 1, and all others are 0. The network reads $\mathbf{E}\mathbf{y}_t$, where the *embedding matrix*
# $\mathbf{E}$ is learned. A product with a 1-of-K vector just picks one row of the matrix (in the paper, where
# $\mathbf{E}$ is transposed, one column). So an embedding layer only has to look up this row.

# %%
vocabulary = Vocabulary.build(images)
caption = "there is a red circle above a blue star"
ids = vocabulary.caption_to_ids(caption)
one_of_k = np.eye(len(vocabulary))[ids]
embedding = np.random.default_rng(0).normal(size=(len(vocabulary), 16))
as_product, as_lookup = one_of_k @ embedding, embedding[ids]
print("product and lookup are equal:", np.allclose(as_product, as_lookup))

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
# In training, the network reads the words so far and predicts the next one. So the inputs begin with `<start>`, the
# targets end with `<end>`, and each target is the word after its input. All captions of a batch must have the same
# length, so shorter captions end in *padding*, which has weight 0 in the loss.
#
# **Your turn.** Construct the inputs and the targets of one caption, each padded to `length`.


# %% gap="shift"
def shifted(ids, length):
    """Return the ids that go in and the ids that must come out, each a list of `length`."""
    start, end, pad = vocabulary.start_token_id, vocabulary.end_token_id, vocabulary.pad_token_id
    padding = [pad] * (length - len(ids) - 1)
    return ...  # your turn: inputs, targets


# %% check="shift" empty="shifted([7, 8], 5)"
two = [vocabulary.caption_to_ids(text) for text in ("a red circle", "there is a blue star")]
input_ids, target_ids, token_weights = inputs_and_targets(two, vocabulary)
for number, caption_ids in enumerate(two):
    my_inputs, my_targets = shifted(caption_ids, 6)
    assert list(my_inputs) == input_ids[number].tolist(), "The inputs begin with <start>, and have no <end>."
    assert list(my_targets) == target_ids[number].tolist(), "The targets end with <end>, and have no <start>."

# %%
for number in range(2):
    for name, row in (("inputs", input_ids[number]), ("targets", target_ids[number])):
        print(f"{name:8}", "".join(f"{vocabulary.tokens[token_id]:9}" for token_id in row))
    print(f"{'weights':8}", "".join(f"{weight:<9g}" for weight in token_weights[number]), "\n")

# %% [markdown]
# ## Teacher forcing, and its price
#
# Look at the inputs once more. At each step the network gets the *true* previous word, even if it would have chosen
# another one. This is *teacher forcing*, and it has three advantages. First, every step has a meaningful input right
# from the start, whereas an untrained network's own words are noise. Second, every step has a target, the next true
# word. Third, the true words are known in advance, and so are the inputs of all steps.
#
# Teacher forcing also has a disadvantage. When the captioner writes on its own (*free-running*), it reads its own
# words, and some of them are wrong. The captioner then has to continue a beginning unlike any that it saw in training.
# This mismatch between training and generation is called *exposure bias*.
#
# You can measure exposure bias with a very simple language model, which counts how often each word follows each pair of
# words. The model sees no picture. Like a network, it gives a probability to each possible next word, and it is trained
# on the true words.

# %%
follows = Counter()
for image in train:
    for text in image.captions:
        tokens = ["<start>", "<start>", *tokenise(text), "<end>"]
        follows.update(zip(tokens, tokens[1:], tokens[2:]))
begins = Counter()
for (first, second, _), count in follows.items():
    begins[first, second] += count


def probability(first, second, word, smoothing=0.01):
    """Return p(word | the two words before it). Smoothing leaves a little for what was never seen."""
    return (follows[first, second, word] + smoothing) / (begins[first, second] + smoothing * len(vocabulary))


for word in ("star", "circle", "is"):
    print(f"p({word} | a blue) = {probability('a', 'blue', word):.3f}")

# %% [markdown]
# The quality of such a model is measured by its *perplexity*:
#
# $$\exp\Big(-\frac{1}{C} \sum_{t=1}^C \log p(\mathbf{y}_t | \mathbf{y}_1, \dots, \mathbf{y}_{t-1})\Big).$$
#
# You can read the perplexity as a number of words: a model that always guesses among 5 equally probable words has
# perplexity 5. The exponent in this formula is the loss that captioners are trained with, the *cross-entropy* per word.
#
# **Your turn.** Compute the perplexity from the probabilities that a model gave to the true words.


# %% gap="perplexity"
def perplexity(probabilities):
    """Return exp of the mean of -log p."""
    return ...  # your turn


# %% check="perplexity" empty="perplexity(np.array([0.5, 0.5]))"
assert np.isclose(perplexity(np.full(7, 0.2)), 5), "Guessing among 5 equally probable words has perplexity 5."
assert np.isclose(perplexity(np.array([1.0, 1 / 16])), 4), "Take the mean of the logarithms, not of p."

# %% [markdown]
# Now measure the perplexity of the model on the dev captions. In each caption, pick one word at random, and compute the
# probability of the word after it, the target. Do this twice: once with the true words before the target (teacher
# forcing), and once with the picked word replaced by a random one, a worse mistake than the model itself would make.
# The result depends on the smoothing, which sets how much probability is left for words that were never seen after a
# pair. So the next cell tries several values of the smoothing.
#
# **Predict.** Guessing among all 45 tokens has perplexity 45. What is the perplexity of the model after the true words,
# and what is it after one wrong word?

# %%
rng = np.random.default_rng(0)
forced, misled = [], []
for text in every_caption:
    true = ["<start>", "<start>", *tokenise(text), "<end>"]
    replaced = int(rng.integers(2, len(true) - 1))
    wrong = [*true]
    wrong[replaced] = str(rng.choice(vocabulary.words))
    target = replaced + 1
    forced.append((true[target - 2], true[target - 1], true[target]))
    misled.append((wrong[target - 2], wrong[target - 1], true[target]))


def perplexity_of(group, smoothing):
    return perplexity(np.array([probability(*words, smoothing=smoothing) for words in group]))


for smoothing in (0.01, 0.1, 1.0):
    print(f"smoothing {smoothing:<4g}: perplexity with the true words {perplexity_of(forced, smoothing):.1f}, ", end="")
    print(f"after a wrong word {perplexity_of(misled, smoothing):.0f}")
unseen = np.mean([begins[first, second] == 0 for first, second, _ in misled])
print(f"never seen in training: {unseen:.0%} of the pairs of words that contain a wrong word")

# %% [markdown]
# <details><summary>What happened</summary>
#
# After the true words, the perplexity is about 5, as if the model had to guess among 5 words. After a wrong word, the
# perplexity is between 42 and 54, depending on the smoothing, so the model is about as bad as blind guessing. Most of
# the pairs with a wrong word were never seen in training, so the model has learned nothing about how to continue them.
# An LSTM generalises better than this table of counts, but in training, it too sees only true words before each target.
#
# </details>
#
# Three methods reduce exposure bias. In *scheduled sampling*, the model is now and then given its own words during
# training ([Bengio et al., 2015](https://arxiv.org/abs/1506.03099)). A model can also be trained on whole captions that
# it has generated, with a score as the reward ([Rennie et al., 2017](https://arxiv.org/abs/1612.00563)). And beam
# search keeps several partial captions instead of only one ([chapter 7](07_words_out.ipynb)).
#
# ## Why a batch holds captions of one length
#
# The number of steps in a batch is the length of its longest caption. The authors of the paper noticed that random
# batches waste time on padding (section 4.3). So they sample a length first, and then 64 captions of that length. How
# many steps does this method save?

# %%
train_captions = [text for image in train for text in image.captions]
lengths = np.array([len(tokenise(text)) for text in train_captions])
counts = Counter(lengths.tolist())


def padding_fraction(lengths, batch_size=64):
    batches = [lengths[first : first + batch_size] for first in range(0, len(lengths), batch_size)]
    return 1 - lengths.sum() / sum(len(batch) * batch.max() for batch in batches)


random_padding = padding_fraction(np.random.default_rng(0).permutation(lengths))
sorted_padding = padding_fraction(np.sort(lengths))
figure, ax = plt.subplots(figsize=(10, 2.4))
ax.bar(counts.keys(), counts.values())
ax.set(xlabel="words in a caption", ylabel="captions")
print(f"spent on padding: {random_padding:.0%} of the steps in random batches")
print(f"                  {sorted_padding:.0%} if the captions are sorted by length")

# %% [markdown]
# In random batches, nearly half of the steps would be padding. If the captions are sorted by length, only 1 % of the
# steps are padding, because few batches have captions of more than one length. `data_utils.make_batches` fills each
# batch with captions of one length, so there is no padding at all.
#
# ## Exercises
#
# **1.** Let `tidy` keep one-letter words. How much of the lost score do you regain?
#
# [solution 1]
#
# **2.** A vocabulary can also be limited by `min_count`. For which values of `min_count` does the vocabulary of the
# scenes have 32 words?
#
# [solution 2]
#
# **3.** Let the language model write: start from `<start> <start>`, sample each next word from the model's
# probabilities (`rng.choice`), and stop at `<end>`. Are the sentences good English, and do they describe any picture?
#
# [solution 3]
#
# ## In five sentences
#
# A vocabulary, built from the training split, turns a caption into ids, and an embedding matrix turns each id into a
# vector. Words that are thrown away, such as articles or rare words, are missing from every caption, and an honest
# score shows this loss. The inputs of the network are its targets, shifted by one word. Teacher forcing gives the
# network the true previous word, so that training is simple and every step has a meaningful input. The price of teacher
# forcing is exposure bias: the captioner has never practised continuing after a mistake of its own.
#
# ## Next
#
# [Chapter 2](02_a_picture_as_vectors.ipynb) turns the photo into vectors. For further reading on language models that
# generate text, see [Karpathy, *The unreasonable effectiveness of recurrent neural
# networks*](https://karpathy.github.io/2015/05/21/rnn-effectiveness/).

# %% maintainers=true
assert data_utils.load_descriptions(data_utils.load_document(folder / "descriptions.txt")) == cleaned
assert cleaned["beach"][1] == "a snow-white dog is n't far from 2 buckets" and "café" in cleaned["street"][1]
assert "isnt" in tidy(lines[1]) and not {"a", "2"} & set(tidy(lines[1]))
assert abs(as_written - 0.494) < 0.001 and abs(as_tidied - 0.421) < 0.001
assert "giraffe" not in small and small.caption_to_ids("giraffe") == [small.unk_token_id]
assert [small.pad_token_id, small.start_token_id, small.end_token_id, small.unk_token_id] == [0, 1, 2, 3]
assert len(flickr8k.words) == 2538 and "dog" in flickr8k and "giraffe" not in flickr8k
at = {size: {name: values[number] for name, values in unk.items()} for number, size in enumerate(sizes)}
assert len(vocabulary.words) == 41 and len(vocabulary) == 45 and at[41]["words"] == 0
assert abs(at[32]["words"] - 0.03) < 0.005 and abs(at[32]["captions"] - 0.15) < 0.01
assert abs(at[28]["words"] - 0.06) < 0.005 and abs(at[28]["captions"] - 0.37) < 0.01
assert abs(at[8]["flattering"] - 0.72) < 0.01 and at[8]["honest"] < 1e-3
assert (np.diff(unk["honest"]) < 0).all() and (np.diff(unk["flattering"]) > -0.002).all()
np.testing.assert_allclose(as_product, as_lookup)
np.testing.assert_array_equal(input_ids[1, 1:], target_ids[1, :-1])
assert token_weights[0].tolist() == [1, 1, 1, 1, 0, 0]
perplexities = [[perplexity_of(group, smoothing) for smoothing in (0.01, 0.1, 1.0)] for group in (forced, misled)]
assert min(perplexities[0]) > 4.5 and max(perplexities[0]) < 5.5
assert 40 < min(perplexities[1]) < 45 < max(perplexities[1]) < 55 and 0.8 < unseen < 0.87
assert 0.4 < random_padding < 0.5 and sorted_padding < 0.02
