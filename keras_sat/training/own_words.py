"""The words of the user's captions that a captioner did not know well, and does not say
after training.
"""

from collections import Counter

from data_utils.captions import tokenise

LEAST_PHOTOS = 3  # a word in the captions of fewer training photos is not expected
LEAST_FRACTION = 0.05  # of the training photos
# A word is the user's own if its rank by frequency was so many times lower before.
RARER = 5
MOST_SHOWN = 7


def own_words(train_images, known_words):
    """Return the user's own words, a list, the most frequent first.

    They are frequent in the training captions, and much rarer, or missing, in those
    that the initial captioner was trained on.

    Args:
        train_images: list of CaptionedImage.
        known_words: the words of the initial captioner, the most frequent first.
    """
    counts = Counter()  # of photos
    for image in train_images:
        counts.update(_words_of(image.captions))
    old_ranks = {word: rank for rank, word in enumerate(known_words, start=1)}
    least = max(LEAST_PHOTOS, LEAST_FRACTION * len(train_images))
    ordered = sorted(counts, key=lambda word: (-counts[word], word))
    return [
        word
        for rank, word in enumerate(ordered, start=1)
        if counts[word] >= least and old_ranks.get(word, RARER * rank) >= RARER * rank
    ]


def unused_words(own, dev_images, captions):
    """Return those of the user's own words that the captions of dev photos never use,
    although the user's captions of these photos do.
    """
    of_user = set().union(*(_words_of(image.captions) for image in dev_images))
    used = _words_of(captions)
    return [word for word in own if word in of_user - used]


def in_words(unused):
    """Return a line that names unused words, of which there is at least one."""
    more = ", ..." if len(unused) > MOST_SHOWN else ""
    return f"your words that no dev caption uses: {', '.join(unused[:MOST_SHOWN])}{more}"


def _words_of(captions):
    return {word for caption in captions for word in tokenise(caption)}
