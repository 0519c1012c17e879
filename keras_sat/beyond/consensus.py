"""Consensus: choose the caption of a beam search that agrees most with captions of similar training photos.

An index holds a short vector for each training photo, and its captions. A beam's score grows by `consensus_weight`
times its agreement: the mean of its greatest similarities to captions of the nearest photos. Captions are as similar as
in CIDEr-D, but each n-gram counts once. A tenth as much counts the similarity to the other beams, weighted by their
probability. The weight falls to 0 for pictures unlike all training photos, whose features lose much of their norm in
the short vector.

Source: Devlin et al., 2015, Exploring Nearest Neighbor Approaches for Image Captioning; for the other beams Kumar and
Byrne, 2004, Minimum Bayes-Risk Decoding for Statistical Machine Translation.
Gain here: CIDEr .614 instead of .582 and BLEU-4 25.5 instead of 24.7 (10 beams, dev); see benchmarks/flickr8k/tried.md.
"""

import dataclasses
import functools

import numpy as np

from data_utils.progress import Progress

FEWEST_PHOTOS, MOST_PHOTOS = 100, 20_000  # more would need much time and memory
MOST_CAPTIONS, MOST_WORDS = 5, 20  # of a photo, of a caption
MOST_IDS = MOST_CAPTIONS * (MOST_WORDS + 1) + 1  # of a photo's captions, with `<end>` and `<pad>`
WEIGHT = 40.0  # `keras-sat index` saves it with a model
DIMS = 64  # of a photo's vector, at most
FAMILIAR = (0.005, 0.03)  # quantiles of the norms of photos' vectors
NUM_NEAREST = 5  # photos that a result names
TEMPERATURE, OTHERS = 5.0, 0.1  # of the beams' probabilities; the weight of their similarities
NUM_ORDERS = 4  # of the n-grams
LENGTH_SPREAD = 6.0  # in words, as in CIDEr-D
FLOATS = ("mean", "projection", "scale", "limits")
BYTES = ("names", "captions")
LAST = 2**62  # comes after all keys and numbers
TEXT = {"encoding": "utf-8", "errors": "surrogatepass"}


class Consensus:
    """An index of training photos. Called with the results of searches, it chooses one for each photo.

    Args:
        vocabulary: the captioner's Vocabulary.
        feature_dim: of its features.
        arrays: dict of
            mean: of the photos' features, which are averaged over the regions, (feature_dim,).
            projection: from centred features of length 1 to a photo's vector, (feature_dim, dims).
            vectors: of the photos, int8 (photos, dims), to be multiplied by `scale`.
            limits: the norm of a vector up to which the weight is 0, and from which it is whole.
            names: UTF-8 text with one photo's id per line.
            captions: UTF-8 text in which each character is a word's id. `<end>` ends a caption, `<pad>` a photo.
    """

    def __init__(self, vocabulary, arrays, feature_dim):
        self.vocabulary, self.arrays = vocabulary, arrays
        try:
            is_sound = self._unpack(feature_dim)
        except (LookupError, TypeError, ValueError):  # missing arrays, other shapes, or bytes that are not text
            is_sound = False
        if not is_sound:
            raise ValueError("The index of training photos is damaged. Build it again with `keras-sat index`.")

    def _unpack(self, feature_dim):
        """Unpack the arrays; return whether they fit each other, as those of a model from somebody else may not."""
        floats = self._mean, self._projection, scale, self._limits = [self.arrays[name] for name in FLOATS]
        names, text = (bytes(self.arrays[name]).decode(**TEXT) for name in BYTES)
        self.photo_ids, vectors = names.split("\n"), self.arrays["vectors"]
        self._ids = ids = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4").astype(np.int64)
        self._vectors = vectors * scale
        num_photos, (_, dims), pad = len(self.photo_ids), vectors.shape, self.vocabulary.pad_token_id
        shapes = [array.shape for array in (*floats, vectors)]
        is_sound = shapes == [(feature_dim,), (feature_dim, dims), (), (2,), (num_photos, dims)]
        is_sound = is_sound and vectors.dtype == np.int8 and all(np.isfinite(array).all() for array in floats)
        is_sound = is_sound and self._limits[0] < self._limits[1] and (ids < len(self.vocabulary)).all()
        is_sound = is_sound and num_photos <= MOST_PHOTOS and len(ids) <= MOST_IDS * num_photos
        return is_sound and ids[-1] == pad and np.count_nonzero(ids == pad) == num_photos

    @classmethod
    def build(cls, captioner, images, *, cache=None, show_progress=True):
        """Return the index of a captioner's training photos.

        Args:
            captioner: Captioner.
            images: list of CaptionedImage; of more than MOST_PHOTOS, some are chosen at equal distances.
            cache: FeatureCache with their features; None reads and encodes the photos.
            show_progress: show progress on standard error.
        """
        if len(images) < FEWEST_PHOTOS:
            raise ValueError(f"Expected at least {FEWEST_PHOTOS} photos with captions. Received: {len(images)} photos")
        images, means, vocabulary = images[:: -(-len(images) // MOST_PHOTOS)], [], captioner.vocabulary
        with Progress(len(images), label="photos indexed", unit="photos", show=show_progress) as progress:
            for _, features in captioner.features_each(images, cache=cache):
                means.append(features.mean(axis=0))
                progress.advance(1)
        mean = np.mean(means, axis=0)
        units = _of_length_1(means - mean)
        projection = _projection(units)
        vectors = units @ projection
        norms = np.linalg.norm(units[1::2] @ _projection(units[::2]), axis=1)  # of photos unknown to the projection
        end, pad = (chr(token_id) for token_id in (vocabulary.end_token_id, vocabulary.pad_token_id))
        texts = [[*map(vocabulary.caption_to_ids, image.captions[:MOST_CAPTIONS])] for image in images]
        texts = ["".join("".join(map(chr, ids[:MOST_WORDS])) + end for ids in of_photo) + pad for of_photo in texts]
        scale = np.abs(vectors).max() / 127
        floats = {"mean": mean, "projection": projection, "scale": scale}
        floats["limits"] = np.quantile(norms, FAMILIAR) + (0, 1e-6)
        names = "\n".join(image.image_id.replace("\n", " ") for image in images)
        text = {"names": names, "captions": "".join(texts)}
        arrays = {name: np.asarray(value, np.float32) for name, value in floats.items()}
        arrays |= {name: np.frombuffer(value.encode(**TEXT), np.uint8) for name, value in text.items()}
        return cls(vocabulary, arrays | {"vectors": np.round(vectors / scale).astype(np.int8)}, mean.size)

    def __call__(self, results, features, *, weight, photos, captions, length_penalty, num_results=1):
        """Return the result with the best sum of score and agreement of each photo, with the others as `alternatives`.

        Args:
            results: list of CaptionResults, with the other beams in `alternatives`, best first.
            features: of the photos, (photos, regions, feature_dim).
            weight, photos, captions: the options consensus_weight, consensus_photos and consensus_captions.
            length_penalty: of the search.
            num_results: results to keep for each photo.
        """
        vectors = _of_length_1(np.asarray(features).mean(axis=1) - self._mean) @ self._projection
        low, high = self._limits
        weights = weight * np.clip((np.linalg.norm(vectors, axis=1) - low) / (high - low), 0, 1)
        chosen = []
        for result, similarities, weight in zip(results, vectors @ self._vectors.T, weights):
            nearest = np.argsort(-similarities, kind="stable")[: max(int(photos), NUM_NEAREST)]
            beams = [result, *result.alternatives]
            agreement, alike = self._agreement([beam.words for beam in beams], nearest[: int(photos)], int(captions))
            log_probs = np.array([beam.log_prob for beam in beams])
            probabilities = np.exp((log_probs - log_probs.max()) / TEMPERATURE)
            with_others = alike @ (probabilities / probabilities.sum())
            lengths = np.array([len(beam.words) + beam.is_finished for beam in beams])
            scores = log_probs / lengths**length_penalty + weight * (agreement + OTHERS * with_others)
            unfinished = np.array([not beam.is_finished for beam in beams])
            best = int(np.argmax(scores - 1e6 * unfinished))
            names = [self.photo_ids[number] for number in nearest[:NUM_NEAREST]]
            beams = [
                dataclasses.replace(beam, consensus=float(value), similar_photos=names, alternatives=[])
                for beam, value in zip(beams, agreement)
            ]
            others = [beam for number, beam in enumerate(beams) if number != best]
            chosen.append(dataclasses.replace(beams[best], alternatives=others[: num_results - 1]))
        return chosen

    def _agreement(self, captions, photos, num_captions):
        """Return, for each caption (list of words), the mean of its greatest similarities to captions of photos.

        Also return the similarities of the captions to each other, (captions, captions).
        """
        index, ids = self._index, [self.vocabulary.caption_to_ids(words) for words in captions]
        lengths = np.array([*map(len, ids)])
        owners = np.repeat(np.arange(len(ids)), lengths)
        owners, ngrams, values = self._ngrams(np.array(sum(ids, []), int), owners, index["tables"])
        columns = np.append(_distinct(ngrams), LAST)
        ours = np.zeros((len(ids), len(columns)), np.float32)
        ours[owners, np.searchsorted(columns, ngrams)] = values
        places = np.concatenate([np.arange(*index["starts"][photo : photo + 2]) for photo in photos])
        numbers, owners = np.unique(index["owners"][places], return_inverse=True)
        column = np.searchsorted(columns, index["ngrams"][places])
        is_shared = columns[column] == index["ngrams"][places]
        theirs = np.zeros((len(numbers), len(columns)), np.float32)
        theirs[owners[is_shared], column[is_shared]] = index["values"][places[is_shared]]
        apart = lengths[:, None] - np.append(index["lengths"][numbers], lengths)
        similarities = ours @ np.concatenate([theirs, ours]).T * np.exp(-(apart**2) / (2 * LENGTH_SPREAD**2))
        greatest = np.sort(similarities[:, : len(numbers)], axis=1)[:, -num_captions:]
        return greatest.sum(axis=1) / max(greatest.shape[1], 1), similarities[:, len(numbers) :]

    @functools.cached_property
    def _index(self):
        """The n-grams of the captions as arrays, ordered by photo: `starts` are the places at which photos start."""
        is_word = ~np.isin(self._ids, (self.vocabulary.end_token_id, self.vocabulary.pad_token_id))
        owners = np.cumsum(self._ids == self.vocabulary.end_token_id)[is_word]
        photos = np.cumsum(self._ids == self.vocabulary.pad_token_id)[is_word]
        found = self._ngrams(self._ids[is_word], owners, tables := [], photos)
        order = np.argsort(found[0], kind="stable")
        index = {name: array[order] for name, array in zip(("owners", "ngrams", "values"), found)}
        firsts = np.searchsorted(photos, np.arange(len(self.photo_ids) + 1))  # words at which photos start
        starts = np.searchsorted(index["owners"], np.append(owners, LAST)[firsts])
        return index | {"starts": starts, "lengths": np.bincount(owners), "tables": tables}

    def _ngrams(self, ids, owners, tables, photos=None):
        """Return the captions, numbers and values of the known n-grams in captions, each once: three arrays.

        A value is the inverse document frequency over twice the norm of all n-grams of this order in the caption, so
        that a product of values, summed over all n-grams, is the mean cosine over the four orders.

        Args:
            ids: of words, (words,).
            owners: the caption of each word, ascending.
            tables: list of the n-grams of each order; see `_table`. It is filled if `photos` is given.
            photos: the photo of each word, for the captions of the index.
        """
        found, before, num_before = [], np.zeros(len(ids), int), 0
        for order in range(NUM_ORDERS):
            starts = np.flatnonzero(owners[: max(len(ids) - order, 0)] == owners[order:])
            keys = before[starts] * len(self.vocabulary) + ids[starts + order]
            if photos is not None:
                tables.append(self._table(keys, photos[starts]))
            table, rarity = tables[order]
            numbers = np.searchsorted(table, keys)
            is_known = table[numbers] == keys
            before = np.full(len(ids), -1)  # the number of the n-gram that starts at each word
            before[starts[is_known]] = numbers[is_known]
            numbers[~is_known] = len(table) + np.flatnonzero(~is_known)
            base = len(table) + len(starts)
            owner, numbers = np.divmod(_distinct(owners[starts] * base + numbers), max(base, 1))
            weights = rarity[np.minimum(numbers, len(table) - 1)]
            norms = np.sqrt(np.bincount(owner, weights**2))
            values = weights / (2 * np.maximum(norms[owner], 1e-9))
            known = numbers < len(table)
            found.append((owner[known], num_before + numbers[known], values[known]))
            num_before += len(table)
        return [*map(np.concatenate, zip(*found))]

    def _table(self, keys, photos):
        """Return the sorted keys of n-grams, and the log inverse fraction of photos that have them."""
        table = np.append(_distinct(keys), LAST)
        pairs = _distinct(photos * len(table) + np.searchsorted(table, keys))
        counts = np.bincount(pairs % len(table), minlength=len(table))
        return table, np.log(len(self.photo_ids) / np.maximum(counts, 1))


def _projection(units):
    """Return the principal axes of vectors, (feature_dim, dims)."""
    _, axes = np.linalg.eigh(units.T @ units)  # the most important last
    return axes[:, -min(DIMS, len(axes) // 4) :]


def _of_length_1(vectors):
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9)


def _distinct(numbers):
    """Do what `np.unique` does, several times as fast for millions of numbers."""
    numbers = np.sort(numbers)
    return numbers[np.append(True, numbers[1:] != numbers[:-1])[: len(numbers)]]
