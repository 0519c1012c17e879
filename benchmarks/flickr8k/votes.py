"""Measure attention and votes in the same way: are they on what a word names, and does
the word depend on them?

    python benchmarks/flickr8k/votes.py FLICKR8K BOXES [NAME ...]

Prints the tables of docs/results.md ("Votes"), with 95 % intervals of the difference
from attention. "votes-blurred" is the control: votes as spread out as attention.
"""

import argparse

import keras_sat
from data_utils import photos_of_split, read_data
from keras_sat.settings import MEASURED_MAPS

NAMES = ("flickr8k-paper", "flickr8k", "flickr8k-hard")
FAITHFULNESS_PHOTOS = 200
# The boxes are those of human captions, which the captioners read.
# Their own captions may be greedy ones.
GREEDY = {"num_beams": 1, "consensus_weight": 0.0}


def measured(captioner, photos, **options):
    """Return the ScoreTable of each kind of map, a dict."""
    return {
        kind: keras_sat.evaluate(captioner, photos, split="dev", map_kind=kind, **options)
        for kind in MEASURED_MAPS
    }


def print_differences(name, tables):
    """Print how far each kind of map is from attention."""
    for kind in MEASURED_MAPS[1:]:
        print(f"\n{name}: first attention, then {kind}")
        print(keras_sat.compare(tables["attention"], tables[kind]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("data_dir")
    parser.add_argument("boxes")
    parser.add_argument("names", nargs="*", default=NAMES)
    options = parser.parse_args()
    photos = photos_of_split(read_data("flickr8k", options.data_dir), "dev")
    for name in options.names:
        captioner = keras_sat.Captioner.from_pretrained(name)
        print_differences(name, measured(captioner, photos, boxes=options.boxes, **GREEDY))
        some = photos[:FAITHFULNESS_PHOTOS]
        print_differences(name, measured(captioner, some, faithfulness=True, pixel_photos=0))


if __name__ == "__main__":
    main()
