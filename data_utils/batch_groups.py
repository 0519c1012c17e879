"""Which captions share a batch: those of one length, or those of whole photos."""

from typing import NamedTuple

import numpy as np


class Row(NamedTuple):
    """A row of a batch: a photo with one or all of its captions.

    Attributes:
        photo: the index of the photo.
        captions: list of the indices of its captions, filled with None up to the number
            of captions that another photo of the batch has.
    """

    photo: int
    captions: list


class OneLength:
    """Group captions of equal length into batches; `members` are numbers of captions.

    Attributes:
        captions_axis: the axis of the captions in a row: none.
    """

    captions_axis = ()

    def __init__(self, captions, batch_size):
        self.places = [(photo, number) for photo, ids in enumerate(captions) for number in ids]
        lengths = np.array([len(captions[photo][number]) for photo, number in self.places])
        self.same_length = [np.flatnonzero(lengths == length) for length in np.unique(lengths)]
        self.batch_size = batch_size

    def plan(self, rng):
        """Return the batches of one epoch as a list of arrays of members, in random
        order, or in a fixed order if `rng` is None.
        """
        batches = []
        for members in self.same_length:
            members = members if rng is None else rng.permutation(members)
            starts = range(0, len(members), self.batch_size)
            batches += [members[start : start + self.batch_size] for start in starts]
        return batches if rng is None else [batches[i] for i in rng.permutation(len(batches))]

    def rows(self, members):
        """Return the Row of each member of a batch."""
        places = [self.places[member] for member in members]
        return [Row(photo, [caption]) for photo, caption in places]


class WholeImages:
    """Group photos of similar length, with all their captions, longest first, into
    batches; `members` are numbers of photos.

    Attributes:
        captions_axis: the axis of the captions in a row: one, of any length.
    """

    captions_axis = (-1,)

    def __init__(self, captions, batch_size):
        self.order = [sorted(ids, key=lambda number: -len(ids[number])) for ids in captions]
        lengths = [[len(words) for words in ids.values()] for ids in captions]
        self.num_captions = np.array([len(numbers) for numbers in lengths])
        self.longest = np.array([max(numbers) for numbers in lengths])
        self.num_words = np.array([sum(numbers) for numbers in lengths])
        self.batch_size = batch_size

    def plan(self, rng):
        """Return the batches of one epoch as a list of arrays of members, in random
        order, or in a fixed order if `rng` is None.
        """
        # Sorting by number of captions first makes every epoch have as many batches;
        # the noise mixes similar lengths.
        noise = 0.0 if rng is None else rng.uniform(0, 8, len(self.order))
        batches, batch, size = [], [], 0
        for photo in np.lexsort((self.num_words + noise, self.longest, self.num_captions)):
            if batch and size + self.num_captions[photo] > self.batch_size:
                batches.append(np.array(batch))
                batch, size = [], 0
            batch.append(photo)
            size += self.num_captions[photo]
        batches.append(np.array(batch))
        return batches if rng is None else [batches[i] for i in rng.permutation(len(batches))]

    def rows(self, members):
        """Return the Row of each member of a batch, all of the same length."""
        most = self.num_captions[members].max()
        rows = []
        for photo in members:
            captions = self.order[photo]
            rows.append(Row(photo, captions + [None] * (most - len(captions))))
        return rows


GROUPINGS = {"length": OneLength, "image": WholeImages}
