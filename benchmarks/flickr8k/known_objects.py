"""What known objects change in the captions of the dev split, and how often people say
it too: `python benchmarks/flickr8k/known_objects.py --data-dir FLICKR8K flickr8k`.

Prints each caption that changes, how many of the nouns that came and of those that went
are in the photo's captions, and the scores with and without known objects.
"""

import argparse

from data_utils import photos_of_split, read_data, tokenise
from keras_sat import Captioner, evaluate


def counts_of(photos, results):
    """Return how many captions have other nouns by known objects, how many nouns came
    and went, and how many of these people say of the photo.
    """
    counts = {"captions": 0, "came": 0, "came_right": 0, "went": 0, "went_right": 0}
    for photo, result in zip(photos, results):
        counts["captions"] += bool(result.known_objects)
        said = {word for caption in photo.captions for word in tokenise(caption)}
        for change in result.known_objects:
            verb = "came" if change["came"] else "went"
            counts[verb] += 1
            counts[f"{verb}_right"] += change["word"] in said
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help="a captioner that knows objects")
    parser.add_argument("--data-dir", required=True, help="the folder of Flickr8k")
    parser.add_argument("--split", default="dev")
    options = parser.parse_args()
    captioner = Captioner.from_pretrained(options.model)
    photos = photos_of_split(read_data("flickr8k", options.data_dir), options.split)
    tables = {
        known: evaluate(
            captioner, photos, split=options.split, known_objects=known, keep_results=True
        )
        for known in (False, True)
    }
    for photo, plain, result in zip(photos, tables[False].results, tables[True].results):
        if plain.words != result.words:
            print(f"{photo.image_id}: {plain.caption} -> {result.caption}")
    counts = counts_of(photos, tables[True].results)
    print(f"{counts['captions']} of {len(photos)} captions have other nouns")
    for verb in ("came", "went"):
        right = counts[f"{verb}_right"]
        print(f"{counts[verb]} nouns {verb}, {right} of them in people's captions")
    for known, table in tables.items():
        scores = table.scores
        print(f"known_objects={known}: CIDEr {scores['cider']:.4f}, BLEU-4 {scores['bleu_4']:.4f}")


if __name__ == "__main__":
    main()
