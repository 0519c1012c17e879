# %% [markdown]
# # 0 · Look
#
# **You will be able to**
#
# * read a map of *attention* and a map of *votes*
# * say, for a wrong word, whether the captioner looked elsewhere, misread what it saw, or hardly used the photo
# * name the parts of the model, and find the chapter that builds each of them
#
# **You need** nothing. You need not read the code either: run each cell with Shift + Enter.
#
# **1 minute on two cores**; allow 5 to look.
#
# [diagram]
#
# A captioner writes a sentence about a photo, word by word. For each word it reads some places of the photo more than
# others: that is *attention*. The idea is from *Show, Attend and Tell*
# ([Xu et al., 2015](https://arxiv.org/abs/1502.03044)), and in this course you build such a captioner yourself. The
# diagram shows all of it. Begin with one that has been trained: run this cell, and click on the words of the caption.

# %% stored="without HTML"
from pathlib import Path

import keras_sat

captioner = keras_sat.Captioner.from_pretrained("flickr8k")
photos = Path(keras_sat.__file__).parent / "deploy" / "page" / "examples"
hat = captioner.trace(photos / "hat.jpg")
hat

# %% [markdown]
# Once you have run the cell, you see the *explorer*: every number on the way from the photo to the word that you
# clicked on. (It is too large to be stored in this file. On a website that only shows notebooks, you see one line
# with the caption.) Here is one of its steps as a picture, the word "hat".

# %% stored="JPEG"
hat.plot(hat.words.index("hat"), width=10)

# %% [markdown]
# ## How to read it
#
# The network divides the photo into 14 x 14 *places* (the paper calls them *regions*). Count rows and columns from 0,
# beginning at the top left.
#
# * **Left: attention.** How much of each place is read for this word. What is hardly read is dark; the line encloses
#   the smallest area with half of the attention. It is on the crown of the hat, in rows 1 to 3. The face gets 4 %, from
#   the eyes to the mouth (rows 7 to 13, columns 4 to 9).
# * **Middle: votes.** How much more or less a place adds to the score of this word than an average place of the photo
#   would with the same attention: orange is more, blue is less. The strongest vote is in row 3, column 11, where the
#   crown meets the brim.
# * **Right: the words that were weighed.** Each bar is the score of a word, its *logit*, and beside it is its
#   probability. The colours say where the score comes from: the previous word, the *memory* (what the network has
#   written and read so far), and the photo at this step. "Hat" has 70 %, and nearly half of its score is the photo's.
#
# So "hat" was read from the hat, and the caption is right, if you call her a girl.
#
# **Predict.** Her face fills rows 5 to 13 and columns 3 to 10, 37 % of the photo. How much of the attention is on it
# at the word "girl"?

# %%
girl = hat.steps[hat.words.index("girl")]
print(f"attention on the face: {girl.attention_weights[5:14, 3:11].sum():.0%}")

# %% [markdown]
# <details><summary>What happened</summary>
#
# Less than half, not much more than even attention would give. Click on "girl" in the explorer and then on
# *Attention*: it is spread out, and strongest beside her chin, in row 12, column 11. The word is right all the same.
# Each place sees far beyond its own square ([chapter 2](02_a_picture_as_vectors.ipynb)), and two places in three, asked
# alone, would say "girl" (*Places* in the explorer). So a map of attention is not a pointer, even where the caption is
# right.
#
# </details>
#
# ## Three more photos
#
# **Predict.** Here are the captions of three more photos. Two of them have mistakes. Which, and in which words?

# %% stored="JPEG"
import matplotlib.pyplot as plt

names = ("beach.jpg", "raft.jpg", "cat.jpg")
beach, raft, cat = (captioner.trace(photos / name) for name in names)
for ax, name, trace in zip(plt.subplots(1, 3, figsize=(10, 3.1))[1], names, (beach, raft, cat)):
    ax.imshow(plt.imread(photos / name))
    ax.set_title(trace.result.caption, fontsize=10)
    ax.set_axis_off()
plt.tight_layout()

# %% [markdown]
# <details><summary>What happened</summary>
#
# * Beach: **wrong**. A woman and a man walk hand in hand: no girls, and nobody runs.
# * Raft: **wrong** in one word. It is a raft. Colour, people and water are right.
# * Cat: right, but not because of what the captioner saw, as you will find out.
#
# </details>
#
# What do the maps say about each of them?
#
# ## "Kayak": it looked well and misread
#
# **Predict.** The boat is a raft. When the captioner said "kayak", was it looking at the boat?

# %% stored="JPEG"
raft.plot(raft.words.index("kayak"), width=10)

# %% [markdown]
# The caption over this figure is wrong.
#
# <details><summary>What happened</summary>
#
# Yes. 90 % of the attention is on the yellow tube in front, in rows 10 to 13 and columns 4 to 9. The votes for "kayak"
# come from there too, and they are strong. The captioner looked at the right place and took it for something else: it
# *looked well and misread*. It knows the word "raft", which is about as frequent in its training captions, but gives
# it 2 %.
#
# Would another place have known better? Ask each place alone what it would say. Around the people (rows 4 to 8), most
# places say "raft" and none says "kayak"; on the tube (rows 9 to 12), most say "kayak". The better clue was where it
# did not look.
#
# </details>
#
# ## "Girls": two people, one word

# %% stored="JPEG"
beach.plot(beach.words.index("girls"), width=10)

# %% [markdown]
# The caption over this figure is wrong: these are a woman and a man.
#
# Attention is on both of them, 43 % on her (columns 1 and 2) and 51 % on him (columns 3 and 4). The votes for "girls"
# are on the swimwear, above all on his red trunks (row 5, column 3), and on her pink fins (rows 8 and 9, columns 1 and
# 2). On heads and shoulders (rows 2 to 4) they are negative: that is not where "girls" came from.
#
# Now compare the bars of "girls", "women" and "men". After "two", memory offers people of all kinds, and gives the
# three nearly the same: 6.7, 6.5 and 7.0. The photo decides, with .6, -.5 and -2.0: it is a narrow decision, and a
# wrong one. "Two people" would have been right; "people" has 1 %.
#
# And "running"? "Walking" was more probable, 29 % against 24 %. A caption is not made of the most probable words: a
# *search* compares whole captions ([chapter 7](07_words_out.ipynb)).
#
# ## "Cat": no place decides
#
# The captioner was trained on Flickr8k, where people wrote about many dogs and few cats: "dog" is the 7th most
# frequent word, "cat" the 641st. It has a second opinion, a classifier trained on ImageNet that knows more kinds of
# animals. What comes from there is called *known objects*.
#
# **Predict.** What does the captioner say without them?

# %%
captioner.caption(photos / "cat.jpg", known_objects=False).caption

# %% [markdown]
# <details><summary>What happened</summary>
#
# It sees a dog, and one that eats: **wrong** twice. Here is how "cat" came about when known objects had their say.
#
# </details>

# %% stored="JPEG"
cat.plot(cat.words.index("cat"), width=10)

# %% [markdown]
# Attention is spread out: no place gets more than 4 %, and half of it takes 39 of the 196 places. (For "hat", 18 were
# enough, for "kayak" 5.) The votes are weak, none above .1. The photo gives "cat" 3.4, and no single place is behind
# it, since even attention to all places would give as much (3.7): the photo as a whole looks like a cat, and more so
# than like a dog (2.4). But memory, which learned from captions full of dogs, prefers "dog", 2.4 to 1.5. The network
# alone gives "cat" 4 % and "dog" 5 %.
#
# What made the caption right is over the bars: the classifier, 97 % sure of a cat, added 3.2 to the logarithm of the
# probability. That is a factor of 25. Attention has no part in it.
#
# ## What maps tell, and what they do not
#
# | word | is | attention | votes | so the captioner |
# |---|---|---|---|---|
# | hat | right | on the hat | on the hat | read it there |
# | girl | right | spread out | weak | could have read it nearly anywhere |
# | kayak | wrong | on the boat | on the boat, strong | looked well and misread |
# | girls | wrong | on both people | mixed | had one word for two people |
# | cat | right | spread out | weak | was told by a classifier |
#
# A map of attention says what was read, but not for which word: all words that were weighed share it. Votes say for
# which word. Neither says whether a word *depends* on a place. To know that, take the place away and ask again, as
# [when to look](rooms/when_to_look.ipynb) does, a room beyond the course.
#
# ## The course
#
# | | you | in the diagram |
# |---|---|---|
# | 0 | look into a finished captioner | everything |
# | [1](01_words.ipynb) | turn captions into arrays | word in |
# | [2](02_a_picture_as_vectors.ipynb) | turn a photo into a vector for each place | photo to annotation vectors |
# | [3](03_one_step_of_attention.ipynb) | compute one step by hand | scores, weighted sum, LSTM, readout |
# | [4](04_why_attention.ipynb) | take attention away, and see what is lost | scores, weighted sum |
# | [5](05_build_it_train_it.ipynb) | write the model yourself, and train it | loss |
# | [6](06_hard_attention.ipynb) | draw one place, instead of a mean of all: *hard* attention | or a draw |
# | [7](07_words_out.ipynb) | search for the best caption | search |
# | [8](08_how_good_is_it.ipynb) | compute the metrics, and fool them | metrics |
#
# The chapters ask you to predict, have gaps for you to fill, and end with exercises and their solutions.
#
# ## Exercises
#
# **1.** The file `motorcycles.jpg` is in the same folder. Trace it. What is wrong with its caption, and did "cyclists"
# come from the right place?
#
# [solution 1]
#
# **2.** `captioner.trace` also reads a sentence of yours. Give it the truth about the beach, "a woman and a man are
# walking on the beach". How probable is it, next to the captioner's own caption?
#
# [solution 2]
#
# ## In five sentences
#
# A captioner writes word by word, and for each word attention says how much of each place of the photo is read. Votes
# say what a place adds to the score of one word; the rest of the score comes from the memory and the previous word. A
# right word may be read from its thing, as "hat" was, from nearly everywhere, as "girl" was, or come from outside the
# network, as "cat" did. A wrong word may have been looked for at the right place and misread, as "kayak" was. So
# before you blame or praise attention for a word, look at its votes.
#
# ## Next
#
# [Chapter 1](01_words.ipynb) begins at the beginning: how a caption becomes numbers. To look at a photo of your own,
# write `captioner.trace("my_photo.jpg")`; `.save("my_photo.html")` makes a page of its explorer.
#
# To read: [the paper](https://arxiv.org/abs/1502.03044), whose figure 3 shows maps of right words and figure 5 maps of
# wrong ones, and [*Attention is not Explanation*](https://arxiv.org/abs/1902.10186) (Jain and Wallace, 2019).
# [docs/trace.md](../docs/trace.md) explains votes and the parts of a score in full.
#
# The photo of the cat is by Stéfan van der Walt (CC0); the others are from the Kodak Lossless True Color Image Suite.

# %% maintainers=true
import numpy as np


def at(trace, word):
    """Return attention and votes, two arrays (14, 14), at a word of the caption."""
    t = trace.words.index(word)
    return trace.steps[t].attention_weights, trace.votes(t)


def places_of_half(weights):
    """Return the rows and columns of the fewest places with half of the attention."""
    order = np.argsort(-weights.ravel())
    number = np.searchsorted(np.cumsum(weights.ravel()[order]), 0.5) + 1
    return np.unravel_index(order[:number], weights.shape)


def place_of_strongest(votes):
    return tuple(int(index) for index in np.unravel_index(votes.argmax(), votes.shape))


assert hat._repr_html_().startswith("<iframe")  # the explorer, which is not stored
captions = {trace.result.caption for trace in (hat, beach, raft, cat)}
assert captions == {
    "a young girl wearing a red hat",
    "two girls are running on the beach",
    "a group of people are in a yellow kayak",
    "a cat",
}
# "hat" and "girl"
attention, votes = at(hat, "hat")
rows, columns = places_of_half(attention)
assert attention.shape == (14, 14) and set(rows.tolist()) == {1, 2, 3} and len(rows) == 18
assert 0.035 < attention[7:14, 4:10].sum() < 0.045
assert place_of_strongest(votes) == (3, 11) and votes[:5].sum() > 0.9 * votes.sum()
said = hat.steps[hat.words.index("hat")].said
assert round(said.probability, 2) == 0.70 and 0.42 < said.parts["photo"] / said.logit < 0.5
attention, votes = at(hat, "girl")
assert attention[5:14, 3:11].sum() < 0.5 and round(9 * 8 / 196, 2) == 0.37 and np.abs(votes).max() < 0.12
assert place_of_strongest(attention) == (12, 11)
assert round(np.mean(hat.places(hat.words.index("girl"))[0] == "girl"), 2) == 0.66
# "kayak"
attention, votes = at(raft, "kayak")
t = raft.words.index("kayak")
assert round(attention[10:14, 4:10].sum(), 2) == 0.90 and len(places_of_half(attention)[0]) == 5
assert votes[10:14, 4:10].sum() > 0.9 * votes.sum() > 3.5
assert round(raft.candidate(t, "raft").probability, 2) == 0.02
ranks = {word: 1 + captioner.vocabulary.words.index(word) for word in ("raft", "kayak", "dog", "cat")}
assert 450 < ranks["raft"] < ranks["kayak"] < 550
places, _ = raft.places(t)
assert (places[4:9] == "raft").mean() > 0.5 and not (places[4:9] == "kayak").any()
assert (places[9:13] == "kayak").mean() > 0.7
# "girls" and "running"
attention, votes = at(beach, "girls")
t = beach.words.index("girls")
assert round(attention[:, 1:3].sum(), 2) == 0.43 and round(attention[:, 3:5].sum(), 2) == 0.51
assert place_of_strongest(votes) == (5, 3) and votes[8:10, 1:3].sum() > 0.3 and votes[2:5].sum() < -0.2
people = {word: beach.candidate(t, word) for word in ("girls", "women", "men", "people")}
memories, of_photo = ([people[word].parts[name] for word in ("girls", "women", "men")] for name in ("memory", "photo"))
np.testing.assert_allclose(memories, [6.7, 6.5, 7.0], atol=0.06)
np.testing.assert_allclose(of_photo, [0.6, -0.5, -2.0], atol=0.06)
assert abs(people["people"].probability - 0.01) < 0.006
t = beach.words.index("running")
probabilities = [beach.candidate(t, word).probability for word in ("walking", "running")]
np.testing.assert_allclose(probabilities, [0.29, 0.24], atol=0.006)
# "cat"
attention, votes = at(cat, "cat")
t = cat.words.index("cat")
assert attention.max() < 0.04 and len(places_of_half(attention)[0]) == 39 and np.abs(votes).max() < 0.1
assert (ranks["dog"], ranks["cat"]) == (7, 641)
both = [cat.candidate(t, word) for word in ("cat", "dog")]
np.testing.assert_allclose([one.parts["photo"] for one in both], [3.4, 2.4], atol=0.06)
np.testing.assert_allclose([one.parts["memory"] for one in both], [1.5, 2.4], atol=0.06)
np.testing.assert_allclose([one.probability for one in both], [0.04, 0.05], atol=0.006)
assert abs(cat.vote_of_mean(t) - 3.7) < 0.06 and abs(votes.sum()) < 0.4
assert abs(cat.steps[t].bonus - 3.2) < 0.06 and round(np.exp(cat.steps[t].bonus)) == 25
(classified,) = [found for found in cat.result.known_objects if found["word"] == "cat"]
assert round(classified["probability"], 2) == 0.97
blind = captioner.caption(photos / "cat.jpg", known_objects=False).caption
assert blind == "a brown and white dog is eating"
