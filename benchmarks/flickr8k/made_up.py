"""Which of a caption's nouns is not in the photo, and does anything tell?

    python benchmarks/flickr8k/made_up.py FLICKR8K [--captioner flickr8k]

A noun counts as made up if none of the photo's reference captions supports it; see
`data_utils.nouns`. Prints each clue's area under the ROC curve, and
that of logistic regressions, tenfold over photos, with 95 % intervals over photos of
the difference from the caption's confidence alone.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from keras import ops

from data_utils import photos_of_split, read_data
from data_utils.base import Progress
from data_utils.captions import tokenise
from data_utils.nouns import is_supported, noun_positions
from keras_sat import Calibration, Captioner
from keras_sat.after_search.calibration import logistic_regression
from keras_sat.looking.logit_parts import readout_sum
from keras_sat.looking.trace_steps import prepare, read, share_of

FOLDS, SAMPLES = 10, 2000
CLUES = (
    "log p",
    "photo's part of the logit",
    "photo's part of log p",
    "memory's part of log p",
    "margin to the next word",
    "log p by the attended regions",
    "from the photo",
    "entropy of attention",
    "position",
    "caption's confidence",
    "caption's lowest log p",
    "caption's mean log p",
)
SETS = {
    "confidence alone": ("caption's confidence",),
    "log p": ("log p",),
    "log p, photo's part": ("log p", "photo's part of the logit"),
    "log p, confidence": ("log p", "caption's confidence"),
    "log p, confidence, photo's part": (
        "log p",
        "caption's confidence",
        "photo's part of the logit",
    ),
    "without looking inside": (
        "log p",
        "margin to the next word",
        "position",
        "caption's confidence",
        "caption's lowest log p",
        "caption's mean log p",
    ),
    "all": CLUES,
}


def clues_of(captioner, features, result):
    """Return the CLUES of each word of a caption, (words, clues).

    Args:
        features: those of the encoder, (1, regions, feature_dim).
    """
    vocabulary, decoder = captioner.vocabulary, captioner.decoder
    ids = np.array(vocabulary.caption_to_ids(result.words), "int32")
    previous_ids = np.array([[vocabulary.start_token_id, *ids[:-1]]], "int32")
    annotations, projected_features = prepare(captioner, features)
    steps, _ = read(decoder, annotations, projected_features, previous_ids)
    summed = readout_sum(decoder.readout, steps)
    log_probs = ops.convert_to_numpy(ops.log_softmax(steps.logits[0], axis=-1))
    probabilities = np.exp(log_probs)
    rows = np.arange(len(ids))
    parts = {}
    for name, summand in summed.summands.items():
        of_all = ops.convert_to_numpy(
            ops.matmul(summand[0] * summed.slopes[0], summed.word_vectors)
        )
        parts[name] = of_all[rows, ids], np.sum(probabilities * of_all, axis=-1)
    own = log_probs[rows, ids]
    others = log_probs.copy()
    others[rows, ids] = -np.inf
    weights = ops.convert_to_numpy(steps.selection[0])
    share = ops.convert_to_numpy(share_of(steps)[0])
    return np.stack(
        [
            own,
            parts["photo"][0],
            parts["photo"][0] - parts["photo"][1],
            parts["memory"][0] - parts["memory"][1],
            own - others.max(axis=-1),
            _by_attended_regions(decoder, steps, annotations, weights, ids),
            share[:, 0],
            -np.sum(weights * np.log(weights + 1e-12), axis=-1),
            rows,
            np.full(len(ids), result.confidence),
            np.full(len(ids), np.log(result.word_probs).min()),
            np.full(len(ids), np.log(result.word_probs).mean()),
        ],
        axis=-1,
    )


def _by_attended_regions(decoder, steps, annotations, weights, ids, number=16):
    """Return log of the mean p of each word if the context were one of the regions with
    the most attention, weighted by it: (words,).
    """
    found = []
    regions = ops.cast(annotations[0], "float32")
    for t, word_id in enumerate(ids):
        best = np.argsort(-weights[t])[:number]
        context = share_of(steps)[0, t] * ops.take(regions, best, axis=0)
        logits = decoder.readout(
            ops.repeat(steps.embedded[:, t], number, axis=0),
            ops.repeat(steps.state.hidden_states[-1][:, t], number, axis=0),
            context + steps.sentinel_context[0, t],
        )
        probabilities = ops.convert_to_numpy(ops.softmax(logits, axis=-1))[:, word_id]
        found.append(np.log(np.average(probabilities, weights=weights[t][best] + 1e-9) + 1e-9))
    return np.array(found)


def examples(captioner, images):
    """Return the nouns of captions: their clues, whether they are supported, their
    photos' numbers, and (photo, caption, noun) in words.
    """
    clues, supported, photos, words = [], [], [], []
    search = captioner.search_settings
    with Progress(len(images), label="captions", unit="photos", show=True) as progress:
        for batch in captioner.batches(images, search.batch_size, None):
            results = captioner.caption_batch(batch, search)
            for number, image, result, features in zip(
                batch.numbers, batch.images, results, batch.features
            ):
                references = [tokenise(caption) for caption in image.captions]
                nouns = noun_positions(result.words)
                if not nouns:
                    continue
                of_words = clues_of(captioner, np.asarray(features)[None], result)
                for t in nouns:
                    clues.append(of_words[t])
                    supported.append(is_supported(result.words[t], references))
                    photos.append(number)
                    words.append((image.image_id, result.caption, result.words[t]))
            progress.advance(len(results))
    return np.array(clues), np.array(supported), np.array(photos), words


def area(scores, are_right, weights=None):
    """Return the area under the ROC curve; `weights` count each example."""
    weights = np.ones(len(scores)) if weights is None else weights
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


def cross_validated(clues, supported, photos):
    """Return the probability of each noun, fitted on the photos of other folds."""
    found = np.zeros(len(clues))
    for fold in range(FOLDS):
        held_out = photos % FOLDS == fold
        bias, *slopes = logistic_regression(clues[~held_out], supported[~held_out])
        found[held_out] = 1 / (1 + np.exp(-(bias + clues[held_out] @ np.array(slopes))))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data_dir")
    parser.add_argument("--captioner", default="flickr8k")
    parser.add_argument("--show", type=Path, help="write the nouns to this file, as JSON lines")
    options = parser.parse_args()
    images = photos_of_split(read_data("flickr8k", options.data_dir), "dev")
    captioner = Captioner.from_pretrained(options.captioner)
    clues, supported, photos, words = examples(captioner, images)
    print(f"{len(supported)} nouns, {np.sum(~supported)} of them in no reference")
    for name, column in zip(CLUES, clues.T):
        print(f"{name:34} {area(column, supported):.3f}")
    random = np.random.default_rng(0)
    numbers = np.unique(photos, return_inverse=True)[1]
    drawn = [
        np.bincount(
            random.integers(0, numbers.max() + 1, numbers.max() + 1), minlength=numbers.max() + 1
        )[numbers]
        for _ in range(SAMPLES)
    ]
    baseline = None
    for name, columns in SETS.items():
        chosen = clues[:, [CLUES.index(column) for column in columns]]
        scores = cross_validated(chosen, supported, photos)
        samples = np.array([area(scores, supported, weights) for weights in drawn])
        baseline = samples if baseline is None else baseline
        low, high = np.quantile(samples - baseline, [0.025, 0.975])
        error = Calibration(scores, supported).expected_error
        doubtful = np.argsort(scores)[: len(scores) // 10]
        print(
            f"{name:34} {area(scores, supported):.3f} ({low:+.3f} to {high:+.3f}), calibration "
            f"error {error:.3f}, made up of the tenth most doubtful "
            f"{100 * np.mean(~supported[doubtful]):.0f} %"
        )
    if options.show:
        lines = [
            json.dumps([*of_word, bool(is_right), float(score)])
            for of_word, is_right, score in zip(words, supported, scores)
        ]
        options.show.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
