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
# The network divides the photo into 20 x 20 *regions*. This chapter counts rows and columns from 0, starting at the top
# left; the explorer counts from 1.
#
# * **Left: attention.** The map shows how much attention each region gets for this word. Regions with hardly any
#   attention are dark, and the line encloses the smallest area with half of the attention. For "hat", this area is on
#   the crown and the brim of the hat, in rows 2 to 6. The middle of the face (rows 10 to 19, columns 6 to 13) gets only
#   3 % of the attention. (This captioner can also read the *sentinel*, a vector made from its memory, instead of the
#   photo. At "hat", 100 % of what it reads is from the photo.)
# * **Middle: votes.** The *vote* of a region is what the region adds to the score of this word, minus what an average
#   region of the photo would add with the same attention. Positive votes are orange discs, negative ones blue rings.
#   The area of each is in proportion to the vote. The strongest vote is in row 5, column 17, where the crown meets the
#   brim. The number above the map is the sum of the votes. The note below gives it again, with what *uniform* (even)
#   attention to all regions would add to the score. Together, they are the photo's part of the score.
# * **Right: the candidate words.** Each bar is the score of a word, its *logit*; the word's probability is beside the
#   bar. The colours show the parts of the score: the previous word, the *memory* (what the network has written and read
#   so far), the photo at this step, and a *bias*, which is the same at every step. "Hat" has a probability of 46 %, and
#   two fifths of its score come from the photo: 3.3 of 8.0.
#
# So "hat" was read from the hat, but not only from the hat. The photo adds 3.3 to the score: uniform attention to all
# regions would have added .9, and looking at the hat added the other 2.4. The caption is right, if you are willing to
# call the young woman a girl.
#
# **Predict.** A box over most of the woman's face and fringe (rows 7 to 19, columns 4 to 15) covers 39 % of the photo.
# At the word "girl", how much of the attention is in this box?

# %%
girl = hat.steps[hat.words.index("girl")]
print(f"attention on the face: {girl.attention_weights[7:20, 4:16].sum():.0%}")

# %% [markdown]
# <details><summary>What happened</summary>
#
# Less than half of the attention is in the box. Uniform attention would give the box 39 %, which is not much less. If
# you ran the first cell, click on "girl" in the explorer and then on *Attention*. The attention is spread out, and it
# is strongest beside the woman's chin (row 19, column 15). Yet the word "girl" is right. Each region sees far beyond
# its own square ([chapter 2](02_a_picture_as_vectors.ipynb)). For seven regions in ten, the network would say "girl" if
# all the attention were on that one region. (*Regions* in the explorer shows the word for each region.) So an attention
# map is not a pointer, even when the caption is right.
#
# </details>
#
# ## Three more photos
#
# **Predict.** Here are three more photos with their captions. Each of the captions has mistakes. Which words are wrong?

# %% stored="JPEG"
import matplotlib.pyplot as plt

names = ("beach.jpg", "motorcycles.jpg", "cat.jpg")
beach, motorcycles, cat = (captioner.trace(photos / name) for name in names)
for ax, name, trace in zip(plt.subplots(1, 3, figsize=(10, 3.1))[1], names, (beach, motorcycles, cat)):
    ax.imshow(plt.imread(photos / name))
    ax.set_title(trace.result.caption, fontsize=10)
    ax.set_axis_off()
plt.tight_layout()

# %% [markdown]
# <details><summary>What happened</summary>
#
# * Beach: only one word is **wrong**. A woman and a man walk hand in hand. There is only one man.
# * Motorcycles: two things are **wrong**. Nobody is riding, and there is more than one dirt bike. (A dirt bike is a
#   motorcycle, so the kind is right.)
# * Cat: two words are **wrong**. The animal is a cat, and it is not eating.
#
# </details>
#
# What do the maps show for each of these captions?
#
# ## "Riding": right region, wrong word
#
# **Predict.** The motorcycles stand still, and the riders have their boots on the ground. When the captioner said
# "riding", was it looking at the motorcycles?

# %% stored="JPEG"
motorcycles.plot(motorcycles.words.index("riding"), width=8)

# %% [markdown]
# The caption above this figure is wrong.
#
# <details><summary>What happened</summary>
#
# Yes: 87 % of the attention is on the mudguards and tanks of the motorcycles, in rows 8 to 11 and columns 6 to 17. The
# votes for "riding" are on the same parts. The captioner *looked at the right region and misread it*. Memory is not to
# blame: "sitting", a better word, is more frequent in the training captions, and memory adds 6.3 to its score, but only
# 5.1 to that of "riding". The photo adds 2.6 to the score of "riding", and takes .5 away from that of "sitting". So
# "riding" has a probability of 37 %, and "sitting" has 8 %.
#
# Would another region have led to the better word? *Regions* in the explorer shows which word the network would say if
# all the attention were on one region. The word is "riding" for 228 of the 400 regions. It is "sitting" for 14, all at
# the left edge (rows 2 to 10, columns 0 to 3), and together they get less than 1 % of the attention. So the better clue
# was in regions that the captioner hardly read.
#
# </details>
#
# ## "Men": two people, one word

# %% stored="JPEG"
beach.plot(beach.words.index("men"), width=8)

# %% [markdown]
# The caption above this figure is wrong: the two people are a woman and a man.
#
# The attention is mostly on the man: 69 % on him (columns 4 to 7), and 29 % on the woman (columns 1 to 3). The
# strongest vote for "men" is on his red trunks (row 8, column 4), and the votes on his shoulder and chest (rows 4 to 7,
# column 4) are strong, too. The votes on the woman's pink fins (rows 11 to 14, columns 1 to 3) are negative. So "men"
# was read from the man. But after "two", the next word has to name both people.
#
# Now compare the bars of "men", "women" and "girls". After "two", memory favours words for people, and adds nearly the
# same to the scores of these three words: 7.1, 6.6 and 6.8. The photo lowers all three scores, but that of "men" least:
# by .3, 1.0 and 1.1. This makes "men" twice as probable as "women"; with the other parts, it is four times as probable.
#
# If all the attention were on one region of the man, from his head to his trunks (rows 2 to 8, columns 4 and 5), the
# word would be "men". For the regions on the woman's fins, it would be "girls". So the network can tell the two people
# apart, but it has only one word for both. "Two people" would have been right, but "people" has only 3.5 %.
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
# The photo speaks for the cat: it adds 2.9 to the score of "cat", and only 1.9 to the score of "dog". But memory speaks
# for the dog. After "a brown and white", memory adds 6.4 to the score of "dog", and 3.0 to that of "cat". So "dog" has
# a probability of 81 %, and "cat", the second most probable word, has 3 %.
#
# Attention and the votes for "dog" are strongest on the ear at the top left (row 0, column 3), but the votes did not
# decide. They add 1.1 to the score of "dog", and the votes for "cat" take .4 away from the score of "cat". Without
# these 1.5, "dog" would still be ahead, since its score is 3.3 higher. Another region would hardly have helped: if all
# the attention were on one region, the network would say "dog" for 356 of the 400 regions, and "cat" for only 16, most
# of them in the blurred background at the lower right.
#
# </details>
#
# And why "eating"? It was not even the most probable word at its step: "licking" (11 %) was more probable than "eating"
# (7 %). The most probable words do not always make the best caption, so a *search* compares whole captions ([chapter
# 7](07_words_out.ipynb)).
#
# ## What maps show, and what they do not
#
# | word | is | attention | votes | so the captioner |
# |---|---|---|---|---|
# | hat | right | on the hat | on the hat | read it there, and partly from the photo as a whole |
# | girl | right | spread out | weak | could have read it from seven regions in ten |
# | riding | wrong | on the motorcycles | on the motorcycles | looked at the right region and misread it |
# | men | wrong | mostly on the man | on the man | used one word for two different people |
# | dog | wrong | on an ear and the nose | on the ear, not decisive | wrote what memory made probable |
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
# **1.** Trace `raft.jpg`, which is in the same folder as the other photos. Its caption is right. At the word "raft",
# which of the words "raft" and "kayak" does the photo make more probable? Which one does memory make more probable?
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
# ("girl"). A wrong word may mean that the captioner looked at the right region and misread it ("riding"), that it had
# one word for two things ("men"), or that memory outweighed the photo ("dog"). So before you blame or praise attention
# for a word, look at the word's votes.
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

from keras_sat.looking.spotlight import outline, upsampled


def at(trace, word):
    """Return attention and votes, two arrays (20, 20), at a word of the caption."""
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
captions = {trace.result.caption for trace in (hat, beach, motorcycles, cat)}
assert captions == {
    "a young girl is wearing a red hat",
    "two men are walking on the beach",
    "a group of people are riding on a dirt bike",
    "a brown and white dog is eating",
}
# "hat" and "girl"
attention, votes = at(hat, "hat")
rows, columns = places_of_half(attention)
assert attention.shape == (20, 20) and len(rows) == 36 and np.isin(rows, range(2, 7)).sum() == 33
size = 480, 384  # of the photo, in pixels
lines = outline(upsampled(attention, size), np.prod(size) / attention.size)  # as drawn: the other 3 are too few
assert {int(y * 20 / size[0]) for line in lines for _, y in line} == {2, 3, 4, 5, 6}
assert round(attention[10:20, 6:14].sum(), 2) == 0.03
assert place_of_strongest(votes) == (5, 17) and votes[2:7].sum() > votes.sum()
said = hat.steps[hat.words.index("hat")].said
assert round(said.probability, 2) == 0.46 and 0.39 < said.parts["photo"] / said.logit < 0.42
photo_and_votes = [said.parts["photo"], said.logit, hat.vote_of_mean(hat.words.index("hat")), votes.sum()]
np.testing.assert_allclose(photo_and_votes, [3.3, 8.0, 0.9, 2.4], atol=0.06)
assert hat.steps[hat.words.index("hat")].from_photo > 0.995
attention, votes = at(hat, "girl")
assert attention[7:20, 4:16].sum() < 0.5 and round(13 * 12 / 400, 2) == 0.39 and np.abs(votes).max() < 0.06
assert place_of_strongest(attention) == (19, 15)
assert round(np.mean(hat.places(hat.words.index("girl"))[0] == "girl"), 2) == 0.70
# "riding"
attention, votes = at(motorcycles, "riding")
t = motorcycles.words.index("riding")
assert round(attention[8:12, 6:18].sum(), 2) == 0.87 and votes[8:12, 6:18].sum() > 0.9 * votes.sum() > 0.8
rows, columns = places_of_half(attention)
assert {*rows.tolist()} == {8, 9, 10, 11} and {*columns.tolist()} <= {*range(6, 18)}
ranks = {word: 1 + captioner.vocabulary.words.index(word) for word in ("sitting", "riding", "dog", "cat")}
assert ranks["sitting"] < ranks["riding"]
both = [motorcycles.candidate(t, word) for word in ("riding", "sitting")]
np.testing.assert_allclose([one.parts["memory"] for one in both], [5.1, 6.3], atol=0.06)
np.testing.assert_allclose([one.parts["photo"] for one in both], [2.6, -0.5], atol=0.06)
np.testing.assert_allclose([one.probability for one in both], [0.37, 0.08], atol=0.006)
places, _ = motorcycles.places(t)
assert (places == "riding").sum() == 228 and (places == "sitting").sum() == 14
assert (places[2:11, :4] == "sitting").sum() == 14 and attention[places == "sitting"].sum() < 0.01
# "men"
attention, votes = at(beach, "men")
t = beach.words.index("men")
assert round(attention[:, 4:8].sum(), 2) == 0.69 and round(attention[:, 1:4].sum(), 2) == 0.29
assert place_of_strongest(votes) == (8, 4) and votes[:, 4:8].sum() > 0.8 * votes.sum() > 1.5
assert votes[4:8, 4].min() > 0.65 * votes[8, 4] and votes[11:15, 1:4].max() < 0  # shoulder and chest, fins
people = {word: beach.candidate(t, word) for word in ("men", "women", "girls", "people")}
memories, of_photo = ([people[word].parts[name] for word in ("men", "women", "girls")] for name in ("memory", "photo"))
np.testing.assert_allclose(memories, [7.1, 6.6, 6.8], atol=0.06)
np.testing.assert_allclose(of_photo, [-0.3, -1.0, -1.1], atol=0.06)
assert round(np.exp(of_photo[0] - of_photo[1]), 1) == 2.0
assert round(people["men"].probability / people["women"].probability, 1) == 4.0
places, _ = beach.places(t)
assert (places[2:9, 4:6] == "men").all() and (places[11:15, 1:4] == "girls").all()
assert round(people["people"].probability, 3) == 0.035
# "dog"
attention, votes = at(cat, "dog")
t = cat.words.index("dog")
rows, columns = places_of_half(attention)
ear, nose = (rows < 6) & (columns < 7), (rows > 12) & (columns > 7) & (columns < 14)
assert place_of_strongest(attention) == place_of_strongest(votes) == (0, 3) and (ear | nose).mean() > 0.85
assert (ranks["dog"], ranks["cat"]) == (7, 641)
assert [candidate.word for candidate in cat.steps[t].top[:2]] == ["dog", "cat"]
both = [cat.candidate(t, word) for word in ("dog", "cat")]
np.testing.assert_allclose([one.parts["photo"] for one in both], [1.9, 2.9], atol=0.06)
np.testing.assert_allclose([one.parts["memory"] for one in both], [6.4, 3.0], atol=0.06)
np.testing.assert_allclose([one.probability for one in both], [0.81, 0.03], atol=0.006)
np.testing.assert_allclose([votes.sum(), cat.votes(t, "cat").sum()], [1.1, -0.4], atol=0.06)
assert abs(both[0].logit - both[1].logit - 3.3) < 0.06
places, _ = cat.places(t)
assert (places == "dog").sum() == 356 and (places == "cat").sum() == 16 and (places[14:, 15:] == "cat").sum() == 14
said, best = cat.steps[cat.words.index("eating")].said, cat.steps[cat.words.index("eating")].top[0]
assert best.word == "licking" and round(best.probability, 2) == 0.11 and round(said.probability, 2) == 0.07
