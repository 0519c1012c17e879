"""What a captioner gets wrong: `python benchmarks/flickr8k/mistakes.py TABLE.json
FLICKR8K_FOLDER`.

TABLE.json comes from `keras-sat evaluate --data flickr8k --json TABLE.json`. For each
word: how many captions have it, for how many of them a reference has it too, for how
many photos most references have it, and how many of those captions have it as well.
"""

import sys

from data_utils import DATASETS, tokenise
from keras_sat import ScoreTable

WORDS = (
    "man woman boy girl dog cat bird horse bike ball beach snow water red blue black white "
    "brown two three four group"
)


def count_mistakes(captions, references, words):
    """Return for each word (said, confirmed by a reference, in most references, and
    said of those).

    Args:
        captions: list of lists of words.
        references: list of lists of lists of words.
        words: list of words.
    """
    counts = {}
    for word in words:
        said = [word in caption for caption in captions]
        fractions = [
            sum(word in reference for reference in of_photo) / len(of_photo)
            for of_photo in references
        ]
        most = [fraction > 0.5 for fraction in fractions]
        confirmed = sum(s and fraction > 0 for s, fraction in zip(said, fractions))
        counts[word] = sum(said), confirmed, sum(most), sum(s and m for s, m in zip(said, most))
    return counts


def main(table_path, data_dir):
    captions = ScoreTable.from_json(table_path).captions
    references = {
        image.image_id: [*map(tokenise, image.captions)] for image in DATASETS["flickr8k"](data_dir)
    }
    guesses = [tokenise(entry["caption"]) for entry in captions]
    counts = count_mistakes(
        guesses, [references[entry["image_id"]] for entry in captions], WORDS.split()
    )
    print(
        "| word | said | a reference says it | most references say it | and it is said "
        "|\n|---|---|---|---|---|"
    )
    for word, row in counts.items():
        print(f"| {word} | {' | '.join(map(str, row))} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
