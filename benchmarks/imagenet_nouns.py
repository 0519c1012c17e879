"""Write the table of nouns for the classes of ImageNet, which `known_objects` reads:

    python benchmarks/imagenet_nouns.py --wordnet /usr/share/wordnet --classes SYNSETS

SYNSETS is a text file with the WordNet numbers of the 1,000 classes, such as
n02123045, one a line; `pip install timm` has one, timm/data/_info/imagenet_synsets.txt.
WordNet 3.0 is the Debian package wordnet-base. A class is whatever its hypernyms are
called: n02123045 is a tabby, a cat, a carnivore. Left out are

- senses of a noun other than its two most frequent ones: a bike is a motorcycle and a
  bicycle;
- words that are verbs more often than nouns, by WordNet's counts: "ride", "cover";
- names of most classes, vague ones, and those of people.
"""

import argparse
import collections
import json
import re
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "keras_sat/files/pretrained/imagenet"
MOST_SENSES = 2  # of a word
MOST_CLASSES = 450  # of a word; an animal is one of 398
VAGUE = """
    artifact bar being body commodity conveyance covering device disk equipment fixture
    fabric furnishing good home implement instrument landing light location material matter
    medium merchandise mini object organism part piece point product rack shade solid string
    structure substance support surface system thing tool unit vertical ware way whole work
    works
"""
# Three classes are people, and most photos of people are of none of them.
PEOPLE = "athlete individual people person player someone somebody"
LEFT_OUT = {*VAGUE.split(), *PEOPLE.split()}
IRREGULAR = {
    "calf": "calves",
    "child": "children",
    "fish": "fish",
    "foot": "feet",
    "goose": "geese",
    "knife": "knives",
    "leaf": "leaves",
    "loaf": "loaves",
    "man": "men",
    "mouse": "mice",
    "ox": "oxen",
    "person": "people",
    "scarf": "scarves",
    "sheep": "sheep",
    "shelf": "shelves",
    "wolf": "wolves",
    "woman": "women",
}


def lines_of(path):
    """Yield the lines of a file of WordNet, without the licence."""
    for line in path.read_text(encoding="latin1").splitlines():
        if not line.startswith("  "):
            yield line


def synsets_of(wordnet):
    """Return a dict from numbers of synsets of nouns to their words and hypernyms."""
    synsets = {}
    for line in lines_of(wordnet / "data.noun"):
        fields = line.split(" | ")[0].split()
        num_words = int(fields[3], 16)
        end = 4 + 2 * num_words
        words = [word.lower() for word in fields[4:end:2]]
        num_pointers = int(fields[end])
        pointers = [fields[end + 1 + 4 * n : end + 5 + 4 * n] for n in range(num_pointers)]
        hypernyms = [to for kind, to, part, _ in pointers if kind in ("@", "@i") and part == "n"]
        synsets[fields[0]] = words, hypernyms
    return synsets


def senses_of(wordnet):
    """Return a dict from nouns to the numbers of the synsets of their senses, the most
    frequent one first.
    """
    senses = {}
    for line in lines_of(wordnet / "index.noun"):
        fields = line.split()
        senses[fields[0]] = fields[6 + int(fields[3]) :]
    return senses


def verbs_of(wordnet):
    """Return the words that are verbs more often than nouns in WordNet's texts."""
    counts = collections.Counter()
    for line in lines_of(wordnet / "cntlist.rev"):
        sense, _, count = line.split()
        word, _, place = sense.partition("%")
        part = place.split(":")[0]
        if part in ("1", "2"):  # a noun, a verb
            counts[word] += int(count) * (1 if part == "1" else -1)
    return {word for word, more in counts.items() if more < 0}


def all_hypernyms(number, synsets):
    """Return the numbers of a synset and of all those above it."""
    found, waiting = set(), [number]
    while waiting:
        number = waiting.pop()
        if number not in found:
            found.add(number)
            waiting += synsets[number][1]
    return found


def plural_of(noun):
    """Return the plural of an English noun."""
    if noun in IRREGULAR:
        return IRREGULAR[noun]
    if noun.endswith("man") and noun != "human":
        return noun[:-3] + "men"
    if noun.endswith(("s", "x", "z", "ch", "sh")):
        return noun + "es"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + "s"


def table_of(wordnet, classes):
    """Return a dict from nouns, singular and plural, to numbers of their classes."""
    synsets, senses, verbs = synsets_of(wordnet), senses_of(wordnet), verbs_of(wordnet)
    classes_of = collections.defaultdict(list)
    for number, synset in enumerate(classes):
        for above in sorted(all_hypernyms(synset, synsets)):
            for word in synsets[above][0]:
                is_its_sense = above in senses.get(word, [])[:MOST_SENSES]
                if word.isalpha() and is_its_sense and word not in verbs | LEFT_OUT:
                    classes_of[word].append(number)
    table = {}
    for word in sorted(classes_of):
        if len(classes_of[word]) <= MOST_CLASSES:
            for form in (word, plural_of(word)):
                table.setdefault(form, classes_of[word])
    return dict(sorted(table.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--wordnet", type=Path, required=True, help="the folder of WordNet 3.0")
    parser.add_argument("--classes", type=Path, required=True, help="the numbers of the classes")
    arguments = parser.parse_args()
    classes = [line.strip()[1:] for line in arguments.classes.read_text().splitlines()]
    table = table_of(arguments.wordnet, classes)
    lines = [f"  {json.dumps(noun)}: {json.dumps(table[noun])}" for noun in table]
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "nouns.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    licence = (arguments.wordnet / "data.noun").read_text(encoding="latin1").splitlines()
    licence = [re.sub(r"^  \d+ ?", "", line).rstrip() for line in licence if line[:2] == "  "]
    (FOLDER / "LICENSE-WordNet.txt").write_text("\n".join(licence) + "\n")
    print(f"{len(table)} nouns")


if __name__ == "__main__":
    main()
