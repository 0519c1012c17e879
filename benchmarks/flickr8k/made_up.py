"""Which of a caption's nouns is not in the photo, and does anything tell?

    python benchmarks/flickr8k/made_up.py FLICKR8K [--captioner flickr8k]

There are two answers to which nouns are there: those that one of the photo's
references supports (`data_utils.nouns`), and those that a reader saw in the photo
(nouns_seen.json, for captions of flickr8k; of two verdicts, the first counts). Prints
for each clue and for logistic regressions, fitted on references, the area under the ROC
curve by both answers, with 95 % intervals over photos of the difference from the
caption's confidence alone. A regression is fitted on the photos of the other nine
tenths.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from keras import ops

from data_utils import photos_of_split, read_data
from data_utils.base import Progress
from data_utils.captions import tokenise
from data_utils.nouns import nouns_supported
from keras_sat import Calibration, Captioner
from keras_sat.after_search.calibration import cross_validated
from keras_sat.looking.logit_parts import readout_sum
from keras_sat.looking.trace_steps import prepare, read
from keras_sat.search import DOUBTFUL

SEEN = Path(__file__).with_name("nouns_seen.json")
FOLDS, SAMPLES = 10, 1000
LEAST_SHARE = 1e-3
CLUES = (
    "caption's confidence",
    "log p",
    "margin to the next word",
    "photo's part of the logit",
    "photo's part of log p",
    "memory's part of log p",
    "entropy of attention",
    "position",
    "log of the share that consensus expects",
)
SETS = {
    "caption's confidence alone": CLUES[:1],
    "word_confidence": CLUES[:2],
    "inside the network": ("log p", *CLUES[3:5], *CLUES[6:8]),
    "what consensus expects": ("log p", CLUES[8], *CLUES[6:8]),
    "all": CLUES,
}


def clues_of(captioner, features, result, expected):
    """Return the CLUES of each word of a caption, (words, clues).

    Args:
        features: those of the encoder, (1, regions, feature_dim).
        expected: a dict from words to the share that consensus expects.
    """
    vocabulary, decoder = captioner.vocabulary, captioner.decoder
    ids = np.array(vocabulary.caption_to_ids(result.words), "int32")
    previous_ids = np.array([[vocabulary.start_token_id, *ids[:-1]]], "int32")
    annotations, projected_features = prepare(captioner, features)
    steps, _ = read(decoder, annotations, projected_features, previous_ids)
    summed = readout_sum(decoder.readout, steps)
    log_probs = ops.convert_to_numpy(ops.log_softmax(steps.logits[0], axis=-1))
    rows = np.arange(len(ids))
    parts = {}  # of the word, and the mean over all words
    for name, summand in summed.summands.items():
        of_all = ops.convert_to_numpy(
            ops.matmul(summand[0] * summed.slopes[0], summed.word_vectors)
        )
        parts[name] = of_all[rows, ids], np.sum(np.exp(log_probs) * of_all, axis=-1)
    own = log_probs[rows, ids]
    others = log_probs.copy()
    others[rows, ids] = -np.inf
    weights = ops.convert_to_numpy(steps.selection[0])
    shares = [max(expected.get(word, 0), LEAST_SHARE) for word in result.words]
    return np.stack(
        [
            np.full(len(ids), result.confidence),
            own,
            own - others.max(axis=-1),
            parts["photo"][0],
            parts["photo"][0] - parts["photo"][1],
            parts["memory"][0] - parts["memory"][1],
            -np.sum(weights * np.log(weights + 1e-12), axis=-1),
            rows,
            np.log(shares),
        ],
        axis=-1,
    )


def examples(captioner, images):
    """Return the nouns of captions: their clues, whether they are supported, their
    photos' numbers, and (photo, caption, noun) in words.
    """
    clues, supported, photos, words = [], [], [], []
    search, consensus = captioner.search_settings, captioner.consensus
    with Progress(len(images), label="captions", unit="photos", show=True) as progress:
        for batch in captioner.batches(images, search.batch_size, None):
            results = captioner.caption_batch(batch, search)
            means = np.asarray(batch.features, "float32").mean(axis=1)
            all_expected = consensus.expected_words(means) / consensus.arrays["rarities"]
            for number, image, result, features, expected in zip(
                batch.numbers, batch.images, results, batch.features, all_expected
            ):
                references = [tokenise(caption) for caption in image.captions]
                nouns = nouns_supported(result.words, references)
                if not nouns:
                    continue
                expected = dict(zip(consensus.words, expected.tolist()))
                of_words = clues_of(captioner, np.asarray(features)[None], result, expected)
                for t, is_supported in nouns.items():
                    clues.append(of_words[t])
                    supported.append(is_supported)
                    photos.append(number)
                    words.append((image.image_id, result.caption, result.words[t]))
            progress.advance(len(results))
    return np.array(clues), np.array(supported), np.array(photos), words


def seen_by_readers(words, supported):
    """Return the numbers of the nouns that a reader judged, whether each was seen, and
    how often to count it, so that nouns with and without support are as frequent as
    among all.
    """
    verdicts = {tuple(found[:3]): found[3] for found in json.loads(SEEN.read_text())}
    judged = [verdicts.get(found) for found in words]
    numbers = np.array([n for n, verdict in enumerate(judged) if verdict in ("yes", "no")], int)
    weights = np.zeros(len(numbers))
    for kind in (False, True):
        is_kind = supported[numbers] == kind
        weights[is_kind] = np.sum(supported == kind) / max(np.sum(is_kind), 1)
    return numbers, np.array([judged[n] == "yes" for n in numbers]), weights


def area(scores, are_right, weights):
    """Return the area under the ROC curve; `weights` count each example."""
    order = np.argsort(scores, kind="stable")
    scores, right, weights = scores[order], are_right[order], weights[order]
    # Ties count half: the mean over the equal scores.
    starts = np.searchsorted(scores, scores, side="left")
    ends = np.searchsorted(scores, scores, side="right")
    total = np.concatenate([[0], np.cumsum(weights * ~right)])
    wrong_below = (total[starts] + total[ends]) / 2
    return np.sum(weights * right * wrong_below) / (
        np.sum(weights * right) * np.sum(weights * ~right)
    )


class Judgement:
    """Areas by one answer to which nouns are there.

    Args:
        numbers: of the nouns.
        are_there: (numbers,).
        weights: how often each counts, (numbers,).
        photos: the photo of each noun, (nouns,).
        baseline: scores to compare with, (nouns,).
    """

    def __init__(self, numbers, are_there, weights, photos, baseline):
        self.numbers, self.are_there, self.weights = numbers, are_there, weights
        of_photos = np.unique(photos[numbers], return_inverse=True)[1]
        num_photos = of_photos.max() + 1
        drawn = np.random.default_rng(0).multinomial(
            num_photos, np.full(num_photos, 1 / num_photos), size=SAMPLES
        )
        self.drawn = [weights * counts[of_photos] for counts in drawn]
        self.baseline = self._areas(baseline)

    def _areas(self, scores):
        scores = scores[self.numbers]
        return np.array([area(scores, self.are_there, weights) for weights in self.drawn])

    def __call__(self, scores):
        """Return the area of scores of all nouns, and the interval of its difference
        from the baseline, as text.
        """
        low, high = np.quantile(self._areas(scores) - self.baseline, [0.025, 0.975])
        value = area(scores[self.numbers], self.are_there, self.weights)
        return f"{value:.3f} ({low:+.3f} to {high:+.3f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data_dir")
    parser.add_argument("--captioner", default="flickr8k")
    options = parser.parse_args()
    images = photos_of_split(read_data("flickr8k", options.data_dir), "dev")
    captioner = Captioner.from_pretrained(options.captioner)
    clues, supported, photos, words = examples(captioner, images)
    print(f"{len(supported)} nouns, {np.sum(~supported)} of them in no reference")
    numbers, are_seen, weights = seen_by_readers(words, supported)
    every = np.arange(len(supported))
    confidences = clues[:, CLUES.index("caption's confidence")]
    judgements = [Judgement(every, supported, np.ones(len(every)), photos, confidences)]
    if len(numbers):
        for kind, name in ((False, "no reference"), (True, "a reference")):
            of_kind = are_seen[supported[numbers] == kind]
            print(f"in {name}: {np.sum(~of_kind)} of {len(of_kind)} were not seen by a reader")
        judgements.append(Judgement(numbers, are_seen, weights, photos, confidences))
    print("by references, by readers")
    for name, column in zip(CLUES, clues.T):
        print(f"{name:40}", *(judgement(column) for judgement in judgements))
    for name, columns in SETS.items():
        chosen = clues[:, [CLUES.index(column) for column in columns]]
        scores = cross_validated(chosen, supported, photos % FOLDS)
        error = Calibration(scores, supported).expected_error
        print(f"{name:40}", *(judgement(scores) for judgement in judgements), f"error {error:.3f}")
    doubtful = cross_validated(clues[:, :2], supported, photos % FOLDS) < DOUBTFUL
    print(f"below {DOUBTFUL}: {np.mean(doubtful):.1%} of the nouns")
    fractions = [np.mean(~supported[of_kind]) for of_kind in (doubtful, ~doubtful)]
    print(f"  in no reference: {fractions[0]:.1%}, others {fractions[1]:.1%}")
    if len(numbers):
        fractions = [
            np.average(~are_seen[of_kind], weights=weights[of_kind])
            for of_kind in (doubtful[numbers], ~doubtful[numbers])
        ]
        print(f"  not seen: {fractions[0]:.1%}, others {fractions[1]:.1%}")


if __name__ == "__main__":
    main()
