"""The n-grams of captions as vectors in which rare ones weigh more, as in CIDEr-D, but
each n-gram of a caption counts once.

All n-grams are computed at once, with NumPy. A caption is a string in which each
character is a word's id. An n-gram is one number, its key: with a vocabulary of V
words, the key of the ids a, b, c is (a V + b) V + c.
"""

import itertools

import numpy as np

NUM_ORDERS = 4
LARGEST_KEY = np.uint64(2**64 - 1)  # with four words, keys differ for up to 65,536 words


class RareNgrams:
    """How rare each n-gram is in the captions of many photos.

    Args:
        captions: for each photo a list of captions, as strings of ids.
        vocabulary_size: V.
    """

    def __init__(self, captions, vocabulary_size):
        self.vocabulary_size = vocabulary_size
        num_photos = len(captions)
        photos = np.repeat(np.arange(num_photos), [len(texts) for texts in captions])
        # For each order, the sorted keys, and log(photos / photos with this n-gram).
        self.rarities = [
            _rarities(keys, photos[numbers], num_photos)
            for keys, numbers in self._ngrams([*itertools.chain(*captions)])
        ]

    def vectors(self, captions, num_ours):
        """Return a vector for each caption, (captions, n-grams), whose part for each
        order has the length 1.

        Those n-grams are left out that none of the first `num_ours` captions has: they
        change no product with these captions.
        """
        vectors = []
        for (keys, numbers), (known_keys, rarity) in zip(self._ngrams(captions), self.rarities):
            keys, columns = np.unique(keys, return_inverse=True)
            places = np.searchsorted(known_keys, keys)
            values = np.where(known_keys[places] == keys, rarity[places], rarity[-1])
            order_vectors = np.zeros((len(captions), len(keys)), np.float32)
            order_vectors[numbers, columns] = values[columns]
            our_columns = np.unique(columns[numbers < num_ours])
            vectors.append(of_length_1(order_vectors)[:, our_columns])
        return np.concatenate(vectors, axis=1)

    def _ngrams(self, captions):
        """For each order, yield the keys of all n-grams in captions, and the numbers of
        their captions.
        """
        codes = "".join(captions).encode("utf-32-le", "surrogatepass")
        ids = np.frombuffer(codes, "<u4").astype(np.uint64)
        # The number of each word's caption.
        numbers = np.repeat(np.arange(len(captions)), [len(text) for text in captions])
        keys = ids
        for order in range(NUM_ORDERS):
            first_numbers = numbers[: len(keys)]
            is_within_caption = first_numbers == numbers[order:]
            yield keys[is_within_caption], first_numbers[is_within_caption]
            keys = keys[:-1] * self.vocabulary_size + ids[order + 1 :]


def _rarities(keys, photos, num_photos):
    """Return the sorted distinct keys, and log(photos / photos with this key) of each.

    Args:
        keys: of all n-grams of one order; photos: the number of the photo of each, in
            ascending order.
    """
    # Equal keys together, in the order of their photos.
    order = np.argsort(keys, kind="stable")
    keys, photos = keys[order], photos[order]
    is_new, is_new_photo = np.ones((2, len(keys)), bool)
    is_new[1:] = keys[1:] != keys[:-1]
    is_new_photo[1:] = is_new[1:] | (photos[1:] != photos[:-1])
    starts = np.flatnonzero(is_new)
    counts = np.add.reduceat(is_new_photo, starts, dtype=int)
    # So that every key has a place among them: an unknown one counts as of one photo.
    known_keys = np.append(keys[starts], LARGEST_KEY)
    return known_keys, np.log(num_photos / np.append(counts, 1))


def of_length_1(vectors):
    """Divide vectors (..., dim) by their length."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9)
