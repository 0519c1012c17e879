# %% [markdown]
# # 0 · Look
#
# **You will be able to**
#
# * read an *attention map* and a *vote map*
# * find out, for a wrong word, whether the captioner looked elsewhere, misread what it saw, or hardly used the photo
# * name the parts of the model, and find the chapter that builds each of them
#
# **You need** no prior knowledge, and you do not have to read the code: run each cell with Shift + Enter.
#
# **Time:** 1 minute to run on two cores, and about 5 minutes to look around.
#
# [diagram]
#
# A captioner writes a sentence about a photo, word by word. For each word, it reads some regions of the photo more than
# others: this is *attention*. In this course you build the captioner of *Show, Attend and Tell* ([Xu et al.,
# 2015](https://arxiv.org/abs/1502.03044)) yourself; the diagram shows the whole model. Start with a captioner that is
# already trained: run the next cell, and click on the words of its caption.

# %% stored="without HTML"
from pathlib import Path

import keras_sat

captioner = keras_sat.Captioner.from_pretrained("flickr8k")
photos = Path(keras_sat.__file__).parent / "export" / "page" / "examples"
hat = captioner.trace(photos / "hat.jpg")
hat

# %% [markdown]
# Once you have run the cell, you see the *explorer*. It shows every number on the way from the photo to the word that
# you clicked on. (The explorer is too large to be stored in this file. A website that displays notebooks without
# running them shows one line with the caption instead.) The next cell shows the step for the word "hat" as a figure.

# %% stored="JPEG"
hat.plot(hat.words.index("hat"), width=8)

# %% [markdown]
# ## How to read the figure
#
# The network divides the photo into 14 x 14 *regions*. This chapter counts rows and columns from 0, starting at the top
# left; the explorer counts from 1.
#
# * **Left: attention.** The map shows how much attention each region gets for this word. Regions with hardly any
#   attention are dark, and the line encloses the smallest area with half of the attention. For "hat", this area is on
#   the crown of the hat, in rows 1 to 3. The middle of the face (rows 7 to 13, columns 4 to 9) gets only 4 % of the
#   attention. (This captioner can also read the *sentinel*, a vector made from its memory, instead of the photo. At
#   "hat", 100 % of what it reads is from the photo.)
# * **Middle: votes.** The *vote* of a region is what the region adds to the score of this word, minus what an average
#   region of the photo would add with the same attention. Positive votes are orange discs, negative ones blue rings.
#   The area of each is in proportion to the vote. The strongest vote is in row 3, column 11, where the crown meets the
#   brim. The number above the map is the sum of the votes. The note below gives it again, with what *uniform* (even)
#   attention to all regions would add to the score. Together, they are the photo's part of the score.
# * **Right: the candidate words.** Each bar is the score of a word, its *logit*; the word's probability is beside the
#   bar. The colours show the parts of the score: the previous word, the *memory* (what the network has written and read
#   so far), the photo at this step, and a *bias*, which is the same at every step. "Hat" has a probability of 70 %, and
#   nearly half of its score comes from the photo: 4.3 of 9.2.
#
# So "hat" was read from the hat, but not only from the hat. The photo adds 4.3 to the score: uniform attention to all
# regions would have added 2.0, and looking at the hat added the other 2.3. The caption is right, if you are willing to
# call the young woman a girl.
#
# **Predict.** A box over most of the woman's face and fringe (rows 5 to 13, columns 3 to 10) covers 37 % of the photo.
# At the word "girl", how much of the attention is in this box?

# %%
girl = hat.steps[hat.words.index("girl")]
print(f"attention on the face: {girl.attention_weights[5:14, 3:11].sum():.0%}")

# %% [markdown]
# <details><summary>What happened</summary>
#
# Less than half of the attention is in the box. Uniform attention would give the box 37 %, which is not much less. If
# you ran the first cell, click on "girl" in the explorer and then on *Attention*. The attention is spread out, and it
# is strongest beside the woman's chin (row 12, column 11). Yet the word "girl" is right. Each region sees far beyond
# its own square ([chapter 2](02_a_picture_as_vectors.ipynb)). For two thirds of the regions, the network would say
# "girl" if all the attention were on that one region. (*Regions* in the explorer shows the word for each region.) So an
# attention map is not a pointer, even when the caption is right.
#
# </details>
#
# ## Three more photos
#
# **Predict.** Here are three more photos with their captions. Each of the captions has mistakes. Which words are wrong?

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
# * Beach: only one word is **wrong**. A woman and a man walk hand in hand. There are no girls.
# * Raft: only one word is **wrong**. The boat is a raft, not a kayak; the people and the colour are right.
# * Cat: two words are **wrong**. The animal is a cat, and it is not eating.
#
# </details>
#
# What do the maps show for each of these captions?
#
# ## "Kayak": right region, wrong word
#
# **Predict.** The boat is a raft. When the captioner said "kayak", was it looking at the boat?

# %% stored="JPEG"
raft.plot(raft.words.index("kayak"), width=8)

# %% [markdown]
# The caption above this figure is wrong.
#
# <details><summary>What happened</summary>
#
# Yes: 91 % of the attention is on the yellow tube at the front of the boat, in rows 10 to 13 and columns 4 to 9. The
# votes for "kayak" are strong, and they are on the same tube. The captioner *looked at the right region and misread
# it*. In the training captions, "raft" is about as frequent as "kayak", but the captioner gives "raft" a probability of
# only 2 %.
#
# Would another region have led to the right word? *Regions* in the explorer shows which word the network would say if
# all the attention were on one region. For the regions in rows 4 to 8 (heads, shoulders and the water behind them), the
# word is mostly "raft" and never "kayak". For the regions in rows 9 to 12 (the boat and the people in it), the word is
# mostly "kayak". So the better clue was in regions that the captioner hardly read.
#
# </details>
#
# ## "Girls": two people, one word

# %% stored="JPEG"
beach.plot(beach.words.index("girls"), width=8)

# %% [markdown]
# The caption above this figure is wrong: the two people are a woman and a man.
#
# The attention is on both people: 43 % on the woman (columns 1 and 2) and 51 % on the man (columns 3 and 4). The
# strongest votes for "girls" are on the man's red trunks (row 5, column 3) and on the woman's pink fins (rows 8 and 9,
# columns 1 and 2); the votes on her swimsuit are weak. The votes on the heads and shoulders (rows 2 to 4) are negative,
# so "girls" was not read from these regions.
#
# Now compare the bars of "girls", "women" and "men". After "two", memory favours words for people, and adds nearly the
# same to the scores of these three words: 6.7, 6.5 and 7.0. The photo then adds .6, -.5 and -2.0, which makes "girls"
# three times as probable as "women". So the wrong choice comes from the photo's part of the scores. "Two people" would
# have been right, but "people" has a probability of only 1 %.
#
# "Girls" was not even the most probable word at its step: "young" (31 %) was more probable than "girls" (25 %). The
# most probable words do not always make the best caption, so a *search* compares whole captions ([chapter
# 7](07_words_out.ipynb)).
#
# ## "Dog": memory outweighs the photo
#
# The captioner was trained on Flickr8k, whose captions mention many dogs and few cats: "dog" is the 7th most frequent
# word, "cat" the 641st.
#
# **Predict.** Which of these two words does the photo make more probable?

# %% stored="JPEG"
cat.plot(cat.words.index("dog"), width=8)

# %% [markdown]
# The caption above this figure is wrong twice: the photo shows a cat, which is not eating.
#
# <details><summary>What happened</summary>
#
# The photo speaks for the cat: it adds 3.0 to the score of "cat", and only 2.1 to the score of "dog". But memory speaks
# for the dog. After "a brown and white", memory adds 6.4 to the score of "dog", and 2.9 to that of "cat". So "dog" has
# a probability of 82 %, and "cat", the second most probable word, has 3 %.
#
# Most of the attention is on the cat's ears, but no region decided: the votes for "dog" are weak, and none is above
# .06. Uniform attention would have given "dog" 1.6 of the 2.1. Nor would another region have led to the right word: if
# all the attention were on one region, the network would say "dog" for 192 of the 196 regions.
#
# </details>
#
# ## What maps show, and what they do not
#
# | word | is | attention | votes | so the captioner |
# |---|---|---|---|---|
# | hat | right | on the hat | on the hat | read it there, and partly from the photo as a whole |
# | girl | right | spread out | weak | could have read it from two regions in three |
# | kayak | wrong | on the boat | on the boat, strong | looked at the right region and misread it |
# | girls | wrong | on both people | mixed | used one word for two different people |
# | dog | wrong | mostly on the ears | weak | wrote what memory made probable |
#
# An attention map shows which regions were read, but not which word they supported, because all candidate words share
# the map. Votes show what each region added to the score of one word. Neither attention nor votes show whether a word
# *depends* on a region. To find out, remove the region and run the captioner again, as the notebook [when to
# look](rooms/when_to_look.ipynb) does.
#
# ## The course
#
# | | you | in the diagram |
# |---|---|---|
# | 0 | look into a finished captioner | everything |
# | [1](01_words.ipynb) | turn captions into arrays | word in |
# | [2](02_a_picture_as_vectors.ipynb) | turn a photo into a vector for each region | photo to annotation vectors |
# | [3](03_one_step_of_attention.ipynb) | compute one step by hand | scores, weighted sum, LSTM, readout |
# | [4](04_why_attention.ipynb) | take attention away, and see what is lost | scores, weighted sum |
# | [5](05_build_it_train_it.ipynb) | write the model yourself, and train it | loss |
# | [6](06_hard_attention.ipynb) | sample one region, instead of averaging all: *hard* attention | or a draw |
# | [7](07_words_out.ipynb) | search for the best caption | search |
# | [8](08_how_good_is_it.ipynb) | compute the metrics, and fool them | metrics |
#
# The chapters ask you to predict results, leave gaps for you to fill, and end with exercises and their solutions.
#
# ## Exercises
#
# **1.** Trace `motorcycles.jpg`, which is in the same folder as the other photos. What is wrong with its caption, and
# was "bicycles" read from the right region?
#
# [solution 1]
#
# **2.** `captioner.trace` can also trace a sentence of your own. Give it a correct caption of the photo of the beach,
# "a woman and a man are walking on the beach". How much more or less probable is it than the captioner's own caption?
#
# [solution 2]
#
# ## In five sentences
#
# A captioner writes word by word, and for each word, attention determines how much of each region of the photo is read.
# Votes show what each region adds to the score of one word, compared with an average region; memory and the previous
# word add to the score, too. A right word may come largely from its object ("hat"), or from regions all over the photo
# ("girl"). A wrong word may mean that the captioner looked at the right region and misread it ("kayak"), or that memory
# outweighed the photo ("dog"). So before you blame or praise attention for a word, look at the word's votes.
#
# ## Next
#
# [Chapter 1](01_words.ipynb) shows how a caption becomes numbers. To explore a photo of your own, write
# `captioner.trace("my_photo.jpg")`; to save its explorer as a web page, add `.save("my_photo.html")`.
#
# For further reading, see [the paper](https://arxiv.org/abs/1502.03044) (maps of right words are in figure 3, and maps
# of wrong words in figure 5) and [*Attention is not Explanation*](https://arxiv.org/abs/1902.10186) (Jain and Wallace,
# 2019). [docs/trace.md](../docs/trace.md) explains votes and the parts of a score in full.
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
    "two girls are walking on the beach",
    "a group of people are sitting in a yellow kayak",
    "a brown and white dog is eating",
}
# "hat" and "girl"
attention, votes = at(hat, "hat")
rows, columns = places_of_half(attention)
assert attention.shape == (14, 14) and set(rows.tolist()) == {1, 2, 3} and len(rows) == 18
assert 0.035 < attention[7:14, 4:10].sum() < 0.045
assert place_of_strongest(votes) == (3, 11) and votes[:5].sum() > 0.9 * votes.sum()
said = hat.steps[hat.words.index("hat")].said
assert round(said.probability, 2) == 0.70 and 0.42 < said.parts["photo"] / said.logit < 0.5
photo_and_votes = [said.parts["photo"], said.logit, hat.vote_of_mean(hat.words.index("hat")), votes.sum()]
np.testing.assert_allclose(photo_and_votes, [4.3, 9.2, 2.0, 2.3], atol=0.06)
assert hat.steps[hat.words.index("hat")].from_photo > 0.995
attention, votes = at(hat, "girl")
assert attention[5:14, 3:11].sum() < 0.5 and round(9 * 8 / 196, 2) == 0.37 and np.abs(votes).max() < 0.12
assert place_of_strongest(attention) == (12, 11)
assert round(np.mean(hat.places(hat.words.index("girl"))[0] == "girl"), 2) == 0.66
# "kayak"
attention, votes = at(raft, "kayak")
t = raft.words.index("kayak")
assert round(attention[10:14, 4:10].sum(), 2) == 0.91 and len(places_of_half(attention)[0]) == 4
assert votes[10:14, 4:10].sum() > 0.9 * votes.sum() > 3.5
assert round(raft.candidate(t, "raft").probability, 2) == 0.02
ranks = {word: 1 + captioner.vocabulary.words.index(word) for word in ("raft", "kayak", "dog", "cat")}
assert 450 < ranks["raft"] < ranks["kayak"] < 550
places, _ = raft.places(t)
assert (places[4:9] == "raft").mean() > 0.5 and not (places[4:9] == "kayak").any()
assert (places[9:13] == "kayak").mean() > 0.7
# "girls"
attention, votes = at(beach, "girls")
t = beach.words.index("girls")
assert round(attention[:, 1:3].sum(), 2) == 0.43 and round(attention[:, 3:5].sum(), 2) == 0.51
assert place_of_strongest(votes) == (5, 3) and votes[8:10, 1:3].sum() > 0.3 and votes[2:5].sum() < -0.2
assert votes[5:8, 1:3].max() < 0.1 < votes[8:10, 1:3].max() and votes[5, 3] > 0.2  # swimsuit, fins, trunks
np.testing.assert_allclose(
    [beach.candidate(t, word).probability for word in ("young", "girls")], [0.31, 0.25], atol=0.006
)
people = {word: beach.candidate(t, word) for word in ("girls", "women", "men", "people")}
memories, of_photo = ([people[word].parts[name] for word in ("girls", "women", "men")] for name in ("memory", "photo"))
np.testing.assert_allclose(memories, [6.7, 6.5, 7.0], atol=0.06)
np.testing.assert_allclose(of_photo, [0.6, -0.5, -2.0], atol=0.06)
assert round(np.exp(of_photo[0] - of_photo[1])) == round(people["girls"].probability / people["women"].probability) == 3
assert abs(people["people"].probability - 0.01) < 0.006
# "dog"
attention, votes = at(cat, "dog")
t = cat.words.index("dog")
ears = attention[:5, :5].sum() + attention[:4, 8:12].sum()
assert ears > 0.6 and np.abs(votes).max() < 0.06 and (ranks["dog"], ranks["cat"]) == (7, 641)
assert [candidate.word for candidate in cat.steps[t].top[:2]] == ["dog", "cat"]
both = [cat.candidate(t, word) for word in ("dog", "cat")]
np.testing.assert_allclose([one.parts["photo"] for one in both], [2.1, 3.0], atol=0.06)
np.testing.assert_allclose([one.parts["memory"] for one in both], [6.4, 2.9], atol=0.06)
np.testing.assert_allclose([one.probability for one in both], [0.82, 0.03], atol=0.006)
assert abs(cat.vote_of_mean(t) - 1.6) < 0.06 and (cat.places(t)[0] == "dog").sum() == 192
