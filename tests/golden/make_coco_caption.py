"""Make coco_caption.json: captions of all kinds, and the scores that coco-caption gives
them.

    pip install pycocoevalcap      # and Java, for METEOR
    python tests/golden/make_coco_caption.py

The captions are made up here, so that no data set's licence is touched. Both sides of a
comparison get the same words.
"""

import json
import random
from pathlib import Path

from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.meteor.meteor import Meteor
from pycocoevalcap.rouge.rouge import Rouge

from data_utils.captions import tokenise

NUM_PHOTOS, NUM_REFERENCES = 240, 5

SUBJECTS = [
    ["a man", "a guy", "a person", "the man", "a bearded man in a red hat"],
    ["a woman", "a lady", "the woman", "a young woman", "a woman's friend"],
    ["two dogs", "a pair of dogs", "2 dogs", "two brown dogs", "the dogs"],
    ["a child", "a kid", "a little boy", "a 3-year-old boy", "the toddler"],
    ["a group of people", "several people", "people", "many persons", "a crowd"],
    ["a horse", "the brown horse", "a pony", "an animal", "a horse and its rider"],
]
VERBS = [
    ["runs", "is running", "jogs", "running", "sprints"],
    ["jumps over a fence", "leaps over a fence", "is jumping", "jumped a hurdle", "leaping high"],
    ["sits", "is sitting", "is seated", "rests", "doesn't stand"],
    [
        "catches a ball",
        "catching the ball",
        "grabs a toy",
        "fetches a frisbee",
        "plays with a ball",
    ],
    ["rides a bicycle", "is biking", "rides a bike", "cycles", "pedals"],
    ["smiles and waves", "is smiling", "laughs", "grins at the camera", "poses for a photograph"],
]
PLACES = [
    [
        "in the snow",
        "through deep snow",
        "on a snow-covered hill",
        "in winter",
        "outside, in the snow",
    ],
    ["on the beach", "at the ocean", "by the sea", "along the shore", "on sand near water"],
    ["in a park", "on the grass", "across a field of grass", "outdoors", "on a green lawn"],
    [
        "on a city street",
        "in front of a shop",
        "down the road",
        "near an old building",
        "on the sidewalk",
    ],
    ["indoors", "on a couch", "in a kitchen", "inside a house", "at a table"],
    ["", "", "at night", "today", "while others watch from behind"],
]


def make_captions(seed=0):
    """Return references (photos, 5) and a candidate for each photo: good, poor, odd and
    empty ones.
    """
    choose = random.Random(seed)
    references, candidates = [], []
    for _ in range(NUM_PHOTOS):
        parts = [choose.choice(kinds) for kinds in (SUBJECTS, VERBS, PLACES)]
        *captions, candidate = (_phrase(choose, parts) for _ in range(NUM_REFERENCES + 1))
        references.append([f"{caption} ." for caption in captions])
        candidates.append(_candidate(choose, candidate, references))
    return references, candidates


def _phrase(choose, parts):
    return " ".join(choose.choice(part) for part in parts).strip()


def _candidate(choose, caption, references):
    words = caption.split()
    kind = choose.randrange(12)
    if kind == 0:
        choose.shuffle(words)
    elif kind == 1:
        words = words[: choose.randint(1, 3)]
    elif kind == 2:
        words = words + words[-2:] * choose.randint(1, 4)
    elif kind == 3:
        words = choose.choice(choose.choice(references)).split()  # of this photo or of another one
    elif kind == 4:
        words = ["a", "zebra", "quickly"]
    elif kind == 5:
        words = words + choose.choice(PLACES)[0].split() + ["and", "it", "is", "raining"]
    elif kind == 6:
        del words[choose.randrange(len(words))]
    return " ".join(words)


def main():
    references, candidates = make_captions()
    candidates[17] = ""
    words = [[" ".join(tokenise(text)) for text in captions] for captions in references]
    answers = [" ".join(tokenise(text)) for text in candidates]
    ids = range(NUM_PHOTOS)
    gts, res = {i: words[i] for i in ids}, {i: [answers[i]] for i in ids}
    bleu, bleu_of_photos = Bleu(4).compute_score(gts, res, verbose=0)
    rouge_l, rouge_l_of_photos = Rouge().compute_score(gts, res)
    cider, cider_of_photos = Cider().compute_score(gts, res)
    meteor, meteor_of_photos = Meteor().compute_score(gts, res)
    scores = {f"bleu_{n}": value for n, value in enumerate(bleu, start=1)}
    scores |= {"rouge_l": float(rouge_l), "cider": float(cider), "meteor": meteor}
    of_photos = {"bleu_4": bleu_of_photos[3], "rouge_l": [*map(float, rouge_l_of_photos)]}
    of_photos |= {"cider": [*map(float, cider_of_photos)], "meteor": meteor_of_photos}
    short = {i: [" ".join(answers[i].split()[:-2])] for i in ids}
    short_bleu, _ = Bleu(4).compute_score(gts, short, verbose=0)
    rounded = {name: [round(value, 10) for value in values] for name, values in of_photos.items()}
    golden = {
        "references": references,
        "candidates": candidates,
        "scores": scores,
        "of_photos": rounded,
    }
    golden["bleu_without_the_last_two_words"] = short_bleu
    path = Path(__file__).with_name("coco_caption.json")
    path.write_text(json.dumps(golden, indent=0) + "\n")
    print(path, scores)


if __name__ == "__main__":
    main()
