"""What captioners say of free photos that Python packages contain, and how much of it
is true.

    pip install --target others --no-deps scikit-image scikit-learn imgaug ...
    python benchmarks/other_photos.py --folders others SITE_PACKAGES -- flickr8k

other_photos.json names the packages; unpacked sources can be folders, too.
Each photo in other_photos.json has the nouns that are true of it, written down by
looking at it; all other nouns of data_utils/nouns.txt are untrue there. These
photos are for measuring, never for training. A name with + is an ensemble. "Invented
people" are captions with one of its words for "people", of photos without anybody; in
brackets those that `keras-sat caption` would mark as not sure.
"""

import argparse
import bz2
import json
from collections import Counter
from pathlib import Path

import numpy as np

from data_utils.nouns import listed_nouns, noun_positions
from keras_sat import Captioner, Ensemble
from keras_sat.commands.caption import LOW_CONFIDENCE

LIST = Path(__file__).with_suffix(".json")
HEAD = (
    "known photos with a true noun|true nouns|untrue nouns|different captions|begin "
    "alike|end alike|in the air|"
)
HEAD += "confidence where known|elsewhere|invented people"


def read_photo(folders, file):
    """Return an image for `load_image`: the first that a folder contains; SciPy's is
    compressed pixels.
    """
    path = next((path for folder in folders if (path := Path(folder, file)).is_file()), None)
    if path is None or path.suffix != ".dat":
        return path
    return np.frombuffer(bz2.decompress(path.read_bytes()), "uint8").reshape(768, 1024, 3)


def measure(captions, confidences, photos, things, people, vocabulary):
    """Return the figures of HEAD for captions (lists of words) of photos from
    other_photos.json.
    """
    true, known = [set(photo["nouns"].split()) for photo in photos], []
    for nouns in true:
        known.append(any(noun in vocabulary for noun in nouns))
    said_true = [set(words) & nouns for words, nouns in zip(captions, true)]
    said_untrue = [(set(words) & things) - nouns for words, nouns in zip(captions, true)]

    def alike(part):
        counts = Counter(tuple(words[part]) for words in captions)
        return sum(count for count in counts.values() if count > 1)

    nobody = [row for row, nouns in enumerate(true) if not nouns & people]
    invented = [confidences[row] or 0.0 for row in nobody if set(captions[row]) & people]
    confidences = np.array([np.nan if x is None else x for x in confidences])
    return (
        f"{sum(map(bool, np.array(said_true, object)[known]))} of {sum(known)}",
        sum(map(len, said_true)),
        sum(map(len, said_untrue)),
        f"{len(set(map(tuple, captions)))} of {len(captions)}",
        alike(slice(4)),
        alike(slice(-3, None)),
        sum("standing in the air" in " ".join(words) for words in captions),
        f"{confidences[known].mean():.2f}",
        f"{confidences[~np.array(known)].mean():.2f}" if not all(known) else "",
        f"{len(invented)} of {len(nobody)} ({sum(c < LOW_CONFIDENCE for c in invented)})",
    )


def untrue_nouns(results, photos):
    """Return how many nouns of CaptionResults are not true of their photos, as text: a
    dict from whether they are doubtful.
    """
    are_true = {True: [], False: []}
    for result, photo in zip(results, photos):
        true = set(photo["nouns"].split())
        for position in noun_positions(result.words):
            are_true[result.doubtful[position]].append(result.words[position] in true)
    return {kind: f"{found.count(False)} of {len(found)}" for kind, found in are_true.items()}


def load(name):
    members = [Captioner.from_pretrained(member) for member in name.split("+")]
    return Ensemble(members) if len(members) > 1 else members[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folders", nargs="+", required=True)
    parser.add_argument("--num-beams", type=int)
    parser.add_argument(
        "--show", action="store_true", help="print the captions too: TRUE nouns, *untrue ones"
    )
    parser.add_argument("captioners", nargs="+")
    options = parser.parse_args()
    listed = json.loads(LIST.read_text(encoding="utf-8"))
    things, _ = listed_nouns()
    pairs = [(photo, read_photo(options.folders, photo["file"])) for photo in listed["photos"]]
    missing = [photo["file"] for photo, image in pairs if image is None]
    photos, images = zip(*[pair for pair in pairs if pair[1] is not None])
    print(
        f"{len(photos)} photos; not found: "
        f"{', '.join(missing) or 'none'}\n\n||{HEAD}|\n{'|---' * 11}|"
    )
    for name in options.captioners:
        captioner = load(name)
        results = captioner.caption(list(images), num_beams=options.num_beams)
        captions, confidences = [r.words for r in results], [r.confidence for r in results]
        figures = measure(
            captions,
            confidences,
            photos,
            things,
            set(listed["people"].split()),
            set(captioner.vocabulary.words),
        )
        print(f"|{name}|{'|'.join(map(str, figures))}|", flush=True)
        untrue = untrue_nouns(results, photos)
        print(f"    untrue of the nouns with (?): {untrue[True]}, of others: {untrue[False]}")
        for photo, result in zip(photos, results) if options.show else ():
            true = set(photo["nouns"].split())
            marks = [
                word.upper() if word in true else f"*{word}" if word in things else word
                for word in result.words
            ]
            print(
                f"    {Path(photo['file']).name[:24]:25}{result.confidence or 0:.2f} "
                f"{' '.join(marks)}"
            )


if __name__ == "__main__":
    main()
