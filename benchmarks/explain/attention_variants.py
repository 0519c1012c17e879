"""Is attention at a disadvantage in the table of does_it_explain.py? Other maps that
can be made from it, by the same test:
`python benchmarks/explain/attention_variants.py FLICKR8K BOXES`.

Attention has no sign, and is that of one step, while regions are removed from all. So
there are also the attention of all steps together, attention with the sign of the vote,
attention times the length of L_z (a_i - mean), and the size of votes without their
sign. Prints the mean of each measure, and whether a map differs from votes.
"""

import argparse

import numpy as np
import table
from does_it_explain import CAPTIONERS, asked_of, photos_for
from effects import everywhere
from keras import ops
from maps import Reading
from measures import MEASURES, measured

from data_utils.base import Progress
from keras_sat import Captioner
from keras_sat.looking.logit_parts import readout_sum, votes_of
from keras_sat.looking.trace_steps import share_of

WORDS = 100
VARIANTS = (
    "attention",
    "attention of all steps",
    "attention x norm of a_i - mean",
    "attention x sign of the vote",
    "votes without sign",
    "votes",
)


def variants_of(reading):
    """Return the maps of all words, a dict from VARIANTS to (words, regions)."""
    steps = reading.steps
    summed = readout_sum(reading.captioner.decoder.readout, steps)
    votes = np.array(votes_of(summed, steps, reading.annotations, reading.token_ids)[0])
    attention = np.array(steps.selection[0])
    read = attention * np.array(share_of(steps)[0])
    regions = reading.regions
    differences = ops.matmul(regions - regions.mean(axis=0), summed.context_readout)
    maps = (
        attention,
        np.broadcast_to(read.sum(axis=0), attention.shape),
        attention * np.linalg.norm(differences, axis=-1),
        attention * np.sign(votes),
        np.abs(votes),
        votes,
    )
    return dict(zip(VARIANTS, maps))


def lines_of(captioner, photos):
    """Return the lines of photos, as those of does_it_explain.py."""
    lines, number = [], 0
    with Progress(WORDS, label="words", unit="words", show=True) as progress:
        for seed, (_, photo, _) in enumerate(photos):
            if number >= WORDS:
                break
            result, positions = asked_of(captioner, photo)
            features = captioner.encode(result.image[None])
            reading = Reading.of(captioner, features, result.words)
            maps = variants_of(reading)
            words = []
            for t in positions:
                of_word = {name: found[t] for name, found in maps.items()}
                words.append(measured(of_word, everywhere(reading, t), seed=seed))
            lines.append({"lines": words})
            number += len(words)
            progress.advance(len(words))
    return lines


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data_dir")
    parser.add_argument("boxes")
    parser.add_argument("--captioners", nargs="+", default=CAPTIONERS)
    options = parser.parse_args(arguments)
    for name in options.captioners:
        photos = photos_for(name, options.data_dir, options.boxes)
        lines = lines_of(Captioner.from_pretrained(name), photos)
        means, differs, words = table.means_of(lines, table.measures_of, VARIANTS)
        print(f"\n{name} ({words} words)\n")
        table.print_table(MEASURES, VARIANTS, means, differs)


if __name__ == "__main__":
    main()
