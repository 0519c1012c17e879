"""Whether a change of the code changed what captioners say, and what they learn.

    python benchmarks/same.py record FOLDER     # at one commit
    python benchmarks/same.py compare FOLDER    # at another

`record` writes what the bundled captioners say of photos and scenes (captions,
attention maps, votes, traces), and the losses and weights of five short trainings.
`compare` does the same again and prints what differs by more than the tolerances below;
its exit status is then 1. Both use the public functions alone, so that they run at any
commit. Record and compare on one machine: another one rounds differently.

By default, each captioner sees 200 pictures, 2,000 with `--all`. Photos are Flickr8k's
dev photos, read from the folder that KERAS_SAT_DATA names (its zip files); without it,
there are scenes only.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np

import keras_sat
from data_utils import CaptionedImage, draw_scenes
from data_utils.base import write_json

PHOTO_CAPTIONERS = ("flickr8k", "flickr8k-hard", "flickr8k-paper")
SCENE_CAPTIONERS = ("scenes", "scenes-hard", "scenes-none")
TOLERANCE = 1e-5  # maps, votes, traces and losses
WEIGHT_TOLERANCE = 1e-6
NUM_TRACED = 4  # pictures of each captioner

SMALL = {
    "encoder": "tiny",
    "embedding_dim": 16,
    "hidden_dim": 24,
    "attention_dim": 16,
    "epochs": 2,
    "batch_size": 40,
    "image_size": 64,
    "seed": 1,
    "show_progress": False,
}
# What the bundled captioner of photos was trained with, but for its encoder.
LOOKS = {
    "attends": "after",
    "scoring": "bilinear",
    "feature_activation": "relu",
    "feature_projection_dim": 24,
    "normalise_features": True,
    "readout_activation": "tanh",
    "sentinel": True,
    "guide_weight": 0.5,
    "attention_penalty_weight": 0.0,
    "label_smoothing": 0.1,
    "group_by": "image",
    "schedule": "cosine",
    "warmup_steps": 3,
    "average_momentum": 0.5,
}
REWARDS = {"self_critical_epochs": 1, "num_beams": 2}
TRAININGS = {
    "paper, soft": {"preset": "paper"},
    "paper, hard": {"preset": "paper", "attention": "hard"},
    "looks": LOOKS,
    "rewards": {**LOOKS, **REWARDS},
    "resumed": {"preset": "paper", "attention": "hard"},
}


# === What captioners say ===


def pictures_for(name, photos, number):
    """Return the pictures that a bundled captioner sees."""
    if name in SCENE_CAPTIONERS or not photos:
        return [scene.image for scene in draw_scenes(number, seed=20)]
    return photos[:number]


def said_by(name, photos, number):
    """Return what a bundled captioner says: dict from names to arrays and texts."""
    captioner = keras_sat.Captioner.from_pretrained(name)
    pictures = pictures_for(name, photos, number)
    found = {"captions": [], "log_probs": [], "confidences": []}
    votes = "votes" if captioner.attention != "none" else None
    for start in range(0, len(pictures), 20):
        results = captioner.caption(
            pictures[start : start + 20], **({votes: True} if votes else {})
        )
        found["captions"] += [result.caption for result in results]
        found["log_probs"] += [result.log_prob for result in results]
        found["confidences"] += [result.confidence or 0.0 for result in results]
        for number_of_picture, result in enumerate(results, start):
            found[f"map/{number_of_picture}"] = _small(result.attention_weights)
            if votes:
                found[f"votes/{number_of_picture}"] = _small(result.votes)
    for number_of_picture, picture in enumerate(pictures[:NUM_TRACED]):
        found |= _traced(captioner.trace(picture), f"trace/{number_of_picture}")
    return found


def _traced(trace, prefix):
    """Return what a trace says of each word, by names that begin with `prefix`."""
    found = {f"{prefix}/words": list(trace.words)}
    for t, step in enumerate(trace.steps):
        found[f"{prefix}/{t}/hidden"] = _small(step.hidden_state)
        found[f"{prefix}/{t}/context"] = _small(trace.context(t))
        found[f"{prefix}/{t}/logits"] = _small([candidate.logit for candidate in step.top])
        found[f"{prefix}/{t}/parts"] = _small(
            [[candidate.parts[name] for name in sorted(candidate.parts)] for candidate in step.top]
        )
    return found


def _small(values):
    return np.asarray(values, np.float32)


# === What they learn ===


def scene_images():
    """Return 60 scenes to train on and 12 for dev, made here rather than by a reader of
    data sets.
    """
    scenes = draw_scenes(72, seed=30)
    return [
        CaptionedImage(f"scene-{i}", scene.image, scene.captions, "train" if i < 60 else "dev")
        for i, scene in enumerate(scenes)
    ]


class Stop(Exception):
    """Ends a training in its second epoch."""


def trained(name, folder):
    """Train, and return the losses and weights: dict from names to arrays."""
    options = {**SMALL, **TRAININGS[name], "output_dir": str(folder)}
    images = scene_images()
    if name == "resumed":
        _stop_in_second_epoch(images, options)
    captioner = keras_sat.fit(images, **options)
    found = {f"history/{key}": _small(values) for key, values in _losses(captioner).items()}
    weights = sorted(
        (np.asarray(weight, np.float32) for weight in captioner.get_weights()),
        key=lambda array: (array.shape, float(np.sum(array, dtype=np.float64))),
    )
    return found | {f"weight/{number}": array for number, array in enumerate(weights)}


def _losses(captioner):
    return {key: values for key, values in captioner.history.items() if "loss" in key}


def _stop_in_second_epoch(images, options):
    import keras

    class Stops(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 1:
                raise Stop

    try:
        keras_sat.fit(images, **options, callbacks=[Stops()])
    except Stop:
        return
    raise AssertionError("the training was not stopped")


# === Recording and comparing ===


def everything(photos, number, trainings=tuple(TRAININGS)):
    """Yield (name, found) of each captioner and of each training."""
    for name in (*PHOTO_CAPTIONERS, *SCENE_CAPTIONERS):
        yield name, said_by(name, photos, number)
    for name in trainings:
        with tempfile.TemporaryDirectory() as folder:
            yield f"training: {name}", trained(name, Path(folder) / "run")


def record(folder, found_of_all):
    """Write what was found to a folder: a file of texts and one of arrays for each."""
    folder.mkdir(parents=True)
    for name, found in found_of_all:
        texts = {key: value for key, value in found.items() if isinstance(value, list)}
        arrays = {key: value for key, value in found.items() if not isinstance(value, list)}
        write_json(folder / f"{_file_name(name)}.json", texts)
        np.savez_compressed(folder / f"{_file_name(name)}.npz", **arrays)
        print(f"{name}: recorded", flush=True)


def compare(folder, found_of_all):
    """Print what differs from the record; return the number of captioners and trainings
    that differ.
    """
    num_different = 0
    for name, found in found_of_all:
        lines = differences(recorded(folder, name), found)
        num_different += bool(lines)
        print("\n".join([f"{name}: {'differs' if lines else 'the same'}", *lines]), flush=True)
    return num_different


def recorded(folder, name):
    """Return what `record` wrote of one captioner or training."""
    with np.load(folder / f"{_file_name(name)}.npz", allow_pickle=False) as arrays:
        texts = json.loads((folder / f"{_file_name(name)}.json").read_text(encoding="utf-8"))
        return {**texts, **{key: arrays[key] for key in arrays.files}}


def differences(before, after):
    """Return a line for each kind of thing that differs."""
    lines = [f"  gone: {key}" for key in sorted({*before} - {*after})[:5]]
    lines += [f"  new: {key}" for key in sorted({*after} - {*before})[:5]]
    largest = {}  # by the kind of thing: map, votes, ...
    for key in before.keys() & after.keys():
        old, new = before[key], after[key]
        kind = _kind(key)
        if isinstance(old, list) and old and isinstance(old[0], str):
            lines += [
                f"  {key} {i}: {a!r} is now {b!r}"
                for i, (a, b) in enumerate(zip(old, new))
                if a != b
            ]
            continue
        old, new = np.asarray(old), np.asarray(new)
        gap = float(np.abs(old - new).max(initial=0)) if old.shape == new.shape else np.inf
        largest[kind] = max(gap, largest.get(kind, 0.0))
    for kind, gap in sorted(largest.items()):
        if gap > (WEIGHT_TOLERANCE if kind == "weight" else TOLERANCE):
            lines.append(f"  {kind}: the largest difference is {gap:.2g}")
    return lines


def _kind(key):
    """Return the kind of a recorded array: its name without numbers of pictures and
    steps.
    """
    parts = key.split("/")
    return f"trace, {parts[-1]}" if parts[0] == "trace" else parts[0]


def _file_name(name):
    return name.replace(": ", "-").replace(", ", "-")


def dev_photos(number):
    """Return the paths of Flickr8k's first dev photos, unpacked to a folder that the
    caller removes, and this folder; ([], None) without the data.
    """
    data = os.environ.get("KERAS_SAT_DATA")
    if not data:
        print("KERAS_SAT_DATA is not set: the captioners of photos see scenes")
        return [], None
    folder = Path(tempfile.mkdtemp())
    with zipfile.ZipFile(Path(data) / "Flickr8k_text.zip") as archive:
        (split,) = (name for name in archive.namelist() if name.endswith("devImages.txt"))
        names = sorted(archive.read(split).decode().split())[:number]
    with zipfile.ZipFile(Path(data) / "Flickr8k_Dataset.zip") as archive:
        members = {Path(name).name: name for name in archive.namelist()}
        return [archive.extract(members[name], folder) for name in names], folder


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("job", choices=["record", "compare"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--all", action="store_true", help="2,000 pictures instead of 200")
    options = parser.parse_args()
    if options.job == "record" and options.folder.exists():
        parser.error(f"{options.folder} is there already: choose a new folder")
    if options.job == "compare" and not options.folder.is_dir():
        parser.error(f"{options.folder} is not there: `record` writes it")
    number = 1000 if options.all else 100  # photos, and scenes
    photos, unpacked = dev_photos(number)
    try:
        found_of_all = everything(photos, number)
        if options.job == "record":
            record(options.folder, found_of_all)
            return 0
        return 1 if compare(options.folder, found_of_all) else 0
    finally:
        if unpacked:
            shutil.rmtree(unpacked)


if __name__ == "__main__":
    sys.exit(main())
