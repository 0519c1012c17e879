"""Do maps explain the words? Rivals and controls, on photos and on scenes.

    python benchmarks/explain/does_it_explain.py FLICKR8K BOXES explain.jsonl
    python benchmarks/explain/table.py explain.jsonl

Writes a line for each photo into explain.jsonl; killed and run again, it goes on after
the last one.

The words are the first two content words of the captioner's own greedy caption, of the
first photos of dev, or of scenes that it was not trained on, until there are 300.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
from controls import against_other_words, against_random_weights, as_blurred_as_attention, positive
from effects import EFFECTS, everywhere
from maps import Reading, maps_of
from measures import measured
from PIL import Image, ImageFilter

from data_utils import draw_scenes, photos_of_split, read_data
from data_utils.base import Progress
from data_utils.datasets import content_positions, covered_fraction, read_boxes
from keras_sat import Captioner
from keras_sat.measuring.grounding import measures_of_map
from keras_sat.measuring.phrase_grounding import boxes_of_words

CAPTIONERS = ("flickr8k-paper", "flickr8k", "flickr8k-hard", "scenes")
WORDS, WORDS_OF_A_PHOTO = 300, 2
# The first words, on which the dearer parts are measured too.
OTHER_EFFECTS, CONTROLS = 100, 50
BLUR = 1 / 14  # of the substitute: standard deviation, as a fraction of the photo's width
UNSEEN = 81  # seed of the scenes; the captioners were trained with seed 0


def photos_for(name, data_dir, boxes):
    """Yield the photos on which a captioner is asked: scenes for those of scenes."""
    return photos_of_scenes() if name.startswith("scenes") else photos_of_flickr8k(data_dir, boxes)


def photos_of_flickr8k(data_dir, boxes):
    """Yield (name, photo, function from words to a dict from positions to the covered
    fraction of cells) of dev.
    """
    images = photos_of_split(read_data("flickr8k", data_dir), "dev")
    boxes = read_boxes(boxes, images)
    for image in images:
        yield image.image_id, image.image_path, _named_by(boxes, image)


def _named_by(boxes, image):
    named = boxes_of_words(boxes, image)

    def covered(words, grid_shape):
        return {
            t: covered_fraction(named[word], grid_shape)
            for t, word in enumerate(words)
            if word in named
        }

    return covered


def photos_of_scenes():
    """Yield the same of scenes."""
    for scene in draw_scenes(WORDS, seed=UNSEEN):

        def covered(words, grid_shape, scene=scene):
            places = scene.places(" ".join(words))
            return {place.position: place.cells(grid_shape) for place in places}

        yield scene.image_id, scene.image, covered


def asked_of(captioner, photo):
    """Return the CaptionResult of a greedy caption, and the positions of the words that
    are asked about.
    """
    result = captioner.caption(photo, num_beams=1, consensus_weight=0.0)
    return result, content_positions(result.words)[:WORDS_OF_A_PHOTO]


def lines_of(captioner, photo, covered, *, first, seed):
    """Return the lines for the words of a photo, a list of dicts.

    Args:
        captioner: Captioner.
        photo: a path, or pixels.
        covered: function, see `photos_of_flickr8k`.
        first: number of the first of these words among all.
        seed: of the random masks and regions.
    """
    result, positions = asked_of(captioner, photo)
    if not positions:
        return []
    began = time.process_time()
    features = captioner.encode(result.image[None])
    reading = Reading.of(captioner, features, result.words)
    maps = maps_of(reading, positions, seed=seed)
    on_boxes = covered(result.words, reading.grid_shape)
    lines = []
    for number, t in enumerate(positions):
        of_word = {name: found[number] for name, found in maps.items()}
        grids = {"everywhere": measured(of_word, everywhere(reading, t), seed=seed)}
        if first + number < OTHER_EFFECTS:
            grids |= _other_grids(reading, result.image, of_word, t, seed)
        line = {"word": result.words[t], "position": t, "grids": grids}
        if t in on_boxes:
            line["boxes"] = {
                name: [float(value) for value in _on_boxes(found, on_boxes[t])]
                for name, found in of_word.items()
            }
        lines.append(line)
    if first < CONTROLS:
        others = against_other_words(reading, maps, positions, seed=seed)
        random = against_random_weights(reading, features, maps, positions, seed=seed)
        for line, other_word, random_weights in zip(lines, others, random):
            line |= {"other word": other_word, "random weights": random_weights}
    seconds = (time.process_time() - began) / len(lines)
    return [{**line, "seconds": seconds} for line in lines]


def _other_grids(reading, photo, maps, t, seed):
    """Return the measures of the other effects, of the other substitute, and of blurred
    maps: a dict.
    """
    blurred = Image.fromarray(photo).filter(ImageFilter.GaussianBlur(BLUR * photo.shape[1]))
    captioner = reading.captioner
    features = captioner.encode(np.array(blurred)[None])
    (substitute,) = np.asarray(captioner.decoder_features(features))
    grids = {
        name: measured(maps, effect(reading, t), seed=seed)
        for name, effect in EFFECTS.items()
        if name != "everywhere"
    }
    grids["blurred photo"] = measured(maps, everywhere(reading, t, substitute), seed=seed)
    blurred_maps = as_blurred_as_attention(maps, reading.grid_shape)
    grids["blurred maps"] = measured(blurred_maps, everywhere(reading, t), seed=seed)
    return grids


def _on_boxes(map_of_word, covered):
    """Return the mass of a map on the boxes, and whether its peak is there."""
    mass, pointing, _ = measures_of_map(positive(map_of_word).reshape(covered.shape), covered)
    return mass, pointing


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data_dir")
    parser.add_argument("boxes")
    parser.add_argument("record", type=Path)
    parser.add_argument("--captioners", nargs="+", default=CAPTIONERS)
    parser.add_argument("--words", type=int, default=WORDS)
    options = parser.parse_args(arguments)
    found = lines_in(options.record)
    with options.record.open("a", encoding="utf-8") as file:
        for name in options.captioners:
            photos = photos_for(name, options.data_dir, options.boxes)
            measure_captioner(name, photos, options.words, found, file)


def measure_captioner(name, photos, num_words, found, file):
    """Append the lines of a captioner to a file, for photos that are not `found`."""
    captioner = Captioner.from_pretrained(name)
    done = {line["photo"]: line["lines"] for line in found if line["captioner"] == name}
    number = 0
    with Progress(num_words, label=name, unit="words", show=True) as progress:
        for seed, (photo_id, photo, covered) in enumerate(photos):
            if number >= num_words:
                break
            lines = done.get(photo_id)
            if lines is None:
                lines = lines_of(captioner, photo, covered, first=number, seed=seed)
                line = {"captioner": name, "photo": photo_id, "lines": lines}
                file.write(json.dumps(line) + "\n")
                file.flush()
            number += len(lines)
            progress.advance(len(lines))


def lines_in(path):
    """Return the lines of a record, a list of dicts; one that was cut off is left out,
    and cut from the file.
    """
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    return [json.loads(line) for line in whole.splitlines()]


if __name__ == "__main__":
    main(sys.argv[1:])
