"""What known objects change in the captions of the dev split, and how often people say
it too: `python benchmarks/flickr8k/known_objects.py --data-dir FLICKR8K flickr8k`.

Prints each caption that changes, how many of the nouns that came and of those that went
are in the photo's captions, and the scores with and without known objects.
"""

import argparse

from data_utils import photos_of_split, read_data, tokenise
from keras_sat import Captioner, evaluate


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
    right, wrong = {True: 0, False: 0}, {True: 0, False: 0}
    num_changed = 0
    for photo, plain, result in zip(photos, tables[False].results, tables[True].results):
        if plain.words != result.words:
            num_changed += 1
            print(f"{photo.image_id}: {plain.caption} -> {result.caption}")
        said = {word for caption in photo.captions for word in tokenise(caption)}
        for change in result.known_objects:
            (right if change["word"] in said else wrong)[change["came"]] += 1
    print(f"{num_changed} of {len(photos)} captions changed")
    for came, verb in ((True, "came"), (False, "went")):
        total = right[came] + wrong[came]
        print(f"{total} nouns {verb}, {right[came]} of them in people's captions")
    for known, table in tables.items():
        scores = table.scores
        print(f"known_objects={known}: CIDEr {scores['cider']:.4f}, BLEU-4 {scores['bleu_4']:.4f}")


if __name__ == "__main__":
    main()
