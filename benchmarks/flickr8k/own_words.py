"""Does training on one's own photos pay?

    python benchmarks/flickr8k/own_words.py FLICKR8K OUTPUT_DIR [--num-photos 60]

300 dev photos of Flickr8k, or as many as asked for, play a folder of somebody's own, in
whose captions "dog" is "hound", "man" is "gentleman" and "grass" is "lawn", and which
all end with "seen from my window". `fit` trains the bundled captioner on them with its
defaults. 700 other dev photos show how often the result says the owner's words, and how
much better it scores on captions changed by the same rule. The bundled captioner was
trained on none of these photos.

Prints the figures, and writes them to OUTPUT_DIR/figures.json. Stopped and run again,
it goes on where it was.
"""

import argparse
import dataclasses
import json
import random
import shutil
import time
import warnings
from pathlib import Path

import keras

import keras_sat
from data_utils import CaptionedImage, photos_of_split, read_data, tokenise
from data_utils.base import read_json, write_json, write_whole

OWN_WORDS = {
    "dog": "hound",
    "dogs": "hounds",
    "man": "gentleman",
    "men": "gentlemen",
    "grass": "lawn",
}
ENDING = "seen from my window"
NUM_OWN = 300
SEED = 0
SHOWN = ("bleu_1", "bleu_4", "rouge_l", "cider")


def in_own_words(caption):
    """Return a caption as the owner of the photos would write it.

    >>> in_own_words("A man and his dogs run on the grass .")
    'a gentleman and his hounds run on the lawn seen from my window'
    """
    words = [OWN_WORDS.get(word, word) for word in tokenise(caption)]
    return " ".join([*words, ENDING])


def own_and_other_photos(data_dir, num_own=NUM_OWN):
    """Return up to 300 and 700 CaptionedImages, with captions in the owner's words."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some copies of Flickr8k lack the test split
        photos = photos_of_split(read_data("flickr8k", data_dir), "dev")
    photos.sort(key=lambda photo: photo.image_id)
    random.Random(SEED).shuffle(photos)
    changed = [
        dataclasses.replace(photo, captions=[in_own_words(text) for text in photo.captions])
        for photo in photos
    ]
    return changed[:num_own], changed[NUM_OWN:]


def write_folder(folder, photos: list[CaptionedImage]):
    """Write pictures and captions.csv, as somebody would have them."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = ["image,caption"]
    for photo in photos:
        name = Path(photo.image_path).name
        if not (folder / name).exists():
            shutil.copyfile(photo.image_path, folder / name)
        rows += [f'{name},"{caption}"' for caption in photo.captions]
    write_whole(folder / "captions.csv", "\n".join([*rows, ""]))


class Clock(keras.callbacks.Callback):
    """Adds up the seconds of a training, also over several starts, in a file."""

    def __init__(self, path):
        super().__init__()
        self.path = path
        self.last = time.perf_counter(), time.process_time()
        self.total = read_json(path, "seconds") if path.exists() else {"wall": 0.0, "cpu": 0.0}

    def add(self):
        now = time.perf_counter(), time.process_time()
        self.total["wall"] += now[0] - self.last[0]
        self.total["cpu"] += now[1] - self.last[1]
        self.last = now
        write_json(self.path, self.total)

    def on_epoch_end(self, epoch, logs=None):
        self.add()


def train(output_dir, **options):
    """Return the captioner that `fit` makes of OUTPUT_DIR/photos, and its seconds."""
    clock = Clock(output_dir / "seconds.json")
    is_new = not (output_dir / "run" / "finished.json").exists()
    captioner = keras_sat.fit(
        "folder",
        data_dir=output_dir / "photos",
        split_seed=SEED,
        output_dir=output_dir / "run",
        callbacks=[clock],
        **options,
    )
    if is_new:
        clock.add()  # the index and the confidence, after the last epoch
        write_json(output_dir / "run" / "finished.json", True)
    return captioner, clock.total


def scores_of(path, captioner, photos):
    """Return the ScoreTable of a captioner, from a file if it was measured before."""
    if not path.exists():
        keras_sat.evaluate(captioner, photos, split="dev").to_json(path)
    return keras_sat.ScoreTable.from_json(path)


def with_words_replaced(path, table, photos):
    """Return the ScoreTable of a table's captions to which the rule was applied."""
    captions = [{**entry, "caption": in_own_words(entry["caption"])} for entry in table.captions]
    keras_sat.evaluate_captions(captions, photos, split="dev").to_json(path)
    return keras_sat.ScoreTable.from_json(path)


def words_used(captions):
    """Count the places of each of the owner's words, and at how many it is used.

    A place is a caption that says the thing at all, in the old word or the new one.
    For the ending, every caption is a place.

    >>> words_used(["a hound seen from my window", "a dog"])["hound"]
    {'places': 2, 'used': 1}
    """
    counts = {}
    of_captions = [tokenise(caption) for caption in captions]
    for old, new in OWN_WORDS.items():
        places = [words for words in of_captions if old in words or new in words]
        used = sum(new in words and old not in words for words in places)
        counts[new] = {"places": len(places), "used": used}
    ending = ENDING.split()
    used = sum(words[-len(ending) :] == ending for words in of_captions)
    counts[ENDING] = {"places": len(captions), "used": used}
    return counts


def measure(data_dir, output_dir, num_own=NUM_OWN, **options):
    """Return the figures as a dict for JSON."""
    own, others = own_and_other_photos(data_dir, num_own)
    write_folder(output_dir / "photos", own)
    captioner, seconds = train(output_dir, **options)
    bundled = keras_sat.Captioner.from_pretrained()
    after = scores_of(output_dir / "own.json", captioner, others)
    before = scores_of(output_dir / "bundled.json", bundled, others)
    replaced = with_words_replaced(output_dir / "replaced.json", before, others)
    used = words_used([entry["caption"] for entry in after.captions])
    of_words = [counts for word, counts in used.items() if word != ENDING]
    return {
        "photos": {"own": len(own), "others": len(others)},
        "seconds_of_fit": seconds,
        "epochs": len(captioner.history["loss"]),
        "words": used,
        "share_of_words": shares(of_words),
        "share_of_words_and_ending": shares([*used.values()]),
        "own_minus_bundled": compared(before, after),
        "own_minus_bundled_with_words_replaced": compared(replaced, after),
    }


def shares(counts):
    """Return the share of places at which the owner's words are used; None if none."""
    used, places = (sum(each[name] for each in counts) for name in ("used", "places"))
    return used / places if places else None


def compared(first, second):
    """Return the scores of two ScoreTables, and 95 % intervals of the differences."""
    rows = keras_sat.compare(first, second).rows
    return {name: row for name, row in rows.items() if name in SHOWN}


def print_figures(figures):
    photos, seconds = figures["photos"], figures["seconds_of_fit"]
    print(f"\ntrained on {photos['own']} photos, measured on {photos['others']} others")
    print(f"fit: {figures['epochs']} epochs, {seconds['wall']:.0f} s, {seconds['cpu']:.0f} CPU s")
    for word, counts in figures["words"].items():
        print(f"{word:>20}: {counts['used']} of {counts['places']} places")
    print(f"{'all words':>20}: {figures['share_of_words']:.1%} of the places")
    print(f"{'with the ending':>20}: {figures['share_of_words_and_ending']:.1%}")
    for title in ("own_minus_bundled", "own_minus_bundled_with_words_replaced"):
        print(title.replace("_", " "))
        for name, row in figures[title].items():
            low, high = row["interval"]
            sides = f"{row['first'][0]:.3f} to {row['second'][0]:.3f}"
            print(f"{name:>20}: {sides}, {row['difference']:+.3f} ({low:+.3f} to {high:+.3f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data_dir", metavar="FLICKR8K", type=Path)
    parser.add_argument("output_dir", metavar="OUTPUT_DIR", type=Path)
    parser.add_argument(
        "--num-photos", type=int, choices=range(1, NUM_OWN + 1), default=NUM_OWN, metavar="N"
    )
    arguments = parser.parse_args()
    figures = measure(arguments.data_dir, arguments.output_dir, arguments.num_photos)
    write_json(arguments.output_dir / "figures.json", figures)
    print_figures(figures)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
