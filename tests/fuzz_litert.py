"""Damage the files of a captioner for LiteRT, over and over; `python fuzz_litert.py FOLDER TIMES` counts what happens.

It is a program of its own because LiteRT may crash, which ends the process.
"""

import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from data_utils import draw_scenes
from data_utils.files import read_sealed_json, write_sealed_json
from keras_sat import FastCaptioner

HOSTILE = (None, 0, -1, 2**63, 1e400, "", "model.tflite", [], {}, [[]] * 9, {"../../x": "0" * 64}, "\udcff", "x" * 9000)


def damaged(content, rng):
    """Return bytes that are damaged in one of the ways in which disks and networks damage them."""
    content, place = bytearray(content), int(rng.integers(len(content)))
    kind = rng.integers(5)
    if kind == 0:
        for _ in range(rng.integers(1, 4)):
            content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        content[place : place + 4096] = bytes(len(content[place : place + 4096]))
    elif kind == 2:
        del content[place:]
    elif kind == 3:
        content[place:place] = rng.bytes(int(rng.integers(1, 100)))
    else:  # lines change places
        lines = content.split(b"\n")
        one, other = rng.integers(len(lines), size=2)
        lines[one], lines[other] = lines[other], lines[one]
        content = b"\n".join(lines)
    return bytes(content)


def damage(folder, rng):
    """Damage one of the files in a folder, or write a manifest with a right seal and wrong values."""
    paths = sorted(path for path in folder.iterdir() if path.is_file())
    path, kind = paths[rng.integers(len(paths))], rng.random()
    if kind < 0.05:
        path.unlink()
    elif kind < 0.25:
        manifest = read_sealed_json(folder / "litert.json", "a manifest")
        place = manifest if rng.random() < 0.5 else manifest["sha256"]
        place[list(place)[rng.integers(len(place))]] = HOSTILE[rng.integers(len(HOSTILE))]
        write_sealed_json(folder / "litert.json", manifest)
    else:
        path.write_bytes(damaged(path.read_bytes(), rng))


def fuzz(folder, times, seed=0):
    """Return a Counter of "refused" and "the same caption"; whatever else happens is an error.

    Args:
        folder: with the files; it stays as it is.
        times: how often a copy of it is damaged.
    """
    rng, counts, photo = np.random.default_rng(seed), Counter(), draw_scenes(1, seed=3)[0].image
    expected = FastCaptioner(folder).caption(photo).caption
    with tempfile.TemporaryDirectory() as place:
        for _ in range(times):
            copy = Path(shutil.copytree(folder, Path(place) / "copy", dirs_exist_ok=True))
            damage(copy, rng)
            try:
                found = FastCaptioner(copy).caption(photo).caption
            except ValueError as error:
                assert type(error) is ValueError and str(copy) in str(error) and len(str(error)) < 700, repr(error)
                counts["refused"] += 1
            else:
                assert found == expected, found
                counts["the same caption"] += 1
    return counts


if __name__ == "__main__":
    print(dict(fuzz(Path(sys.argv[1]), int(sys.argv[2]))))
