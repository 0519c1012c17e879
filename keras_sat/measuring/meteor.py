"""Compute METEOR, which aligns words with a reference by spelling, stem, synonym and,
in version 1.5, paraphrase.

METEOR 1.5 is a Java program, used as in coco-caption if Java and pycocoevalcap (the
extra `coco`) are installed. Otherwise NLTK's METEOR is used with the weights of METEOR
1.5: with its defaults, scores would be about twice as high.
"""

import importlib.util
import shutil
import subprocess
import tempfile
import warnings
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

METEOR_JAVA = "METEOR 1.5"
METEOR_NLTK = "METEOR of nltk with the weights of 1.5"
NO_METEOR = (
    "no METEOR here: for METEOR 1.5 install Java and `pip install pycocoevalcap`, or "
    "for an approximation run `python -m nltk.downloader wordnet`"
)
NLTK_WEIGHTS = {"alpha": 0.85, "beta": 0.2, "gamma": 0.6}  # those of METEOR 1.5 for English


class Meteor(NamedTuple):
    """The METEOR of captions.

    Attributes:
        kind: METEOR_JAVA, METEOR_NLTK, or NO_METEOR if no program is installed.
        corpus_score: the score of all photos; METEOR 1.5's is not the mean. None for
            NO_METEOR.
        photo_scores: the score of each photo, (photos,). None for NO_METEOR.
    """

    kind: str
    corpus_score: Any
    photo_scores: Any


def score_meteor(references, candidates):
    """Compute METEOR for captions (lists of words) with the best program that is
    installed; return a Meteor.
    """
    jar, java = meteor_jar(), shutil.which("java")
    if jar and java:
        try:
            return meteor_of_java(references, candidates, jar, java)
        except (OSError, ValueError) as error:
            warnings.warn(
                f"METEOR 1.5 failed, so NLTK's METEOR is used instead: {error}", stacklevel=2
            )
    try:
        return meteor_of_nltk(references, candidates)
    except LookupError:  # WordNet is not installed
        pass
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        warnings.warn(f"NLTK cannot read WordNet, so METEOR is not computed: {error}", stacklevel=2)
    return Meteor(NO_METEOR, None, None)


def meteor_jar():
    """Return the path of METEOR 1.5 in pycocoevalcap, or None."""
    package = importlib.util.find_spec("pycocoevalcap")
    folders = package.submodule_search_locations if package else []
    jars = [Path(folder) / "meteor" / "meteor-1.5.jar" for folder in folders]
    return next((jar for jar in jars if jar.is_file()), None)


def meteor_of_java(references, candidates, jar, java="java"):
    """Compute METEOR with the Java program (1 GB of memory): statistics of each
    caption, and from these the scores.
    """
    command = [java, "-Xmx2G", "-Dfile.encoding=UTF-8", "-Duser.language=en", "-jar", str(jar)]
    command += ["-", "-", "-stdio", "-l", "en", "-norm"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "encoding": "utf-8"}
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stderr=errors, **pipes) as process,
    ):

        def read_answer():
            answer = process.stdout.readline().strip()
            if not answer:
                process.kill()
                process.wait()
                errors.seek(0)
                last_line = " ".join(errors.read().splitlines()[-1:])
                raise ValueError(last_line or "the program ended without a message")
            return answer

        def ask(*parts):
            process.stdin.write(" ||| ".join(parts) + "\n")
            process.stdin.flush()
            return read_answer()

        try:
            statistics = []
            for photo_references, candidate in zip(references, candidates):
                captions = [
                    " ".join(" ".join(words).replace("|||", " ").split())
                    for words in (*photo_references, candidate)
                ]
                statistics.append(ask("SCORE", *captions))
            scores = [float(ask("EVAL", *statistics))]
            scores += [float(read_answer()) for _ in candidates]
        finally:
            process.kill()
    *photo_scores, corpus_score = scores
    return Meteor(METEOR_JAVA, corpus_score, np.array(photo_scores))


def meteor_of_nltk(references, candidates):
    """Compute METEOR with NLTK, which ignores paraphrases and gives all words the same
    weight.
    """
    from nltk.translate.meteor_score import meteor_score

    pairs = zip(references, candidates)
    photo_scores = np.array(
        [meteor_score(words, candidate, **NLTK_WEIGHTS) for words, candidate in pairs]
    )
    return Meteor(METEOR_NLTK, float(photo_scores.mean()), photo_scores)
