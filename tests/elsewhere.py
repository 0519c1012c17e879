"""Run by test_export.py in a process of its own: caption photos with exports, without
keras_sat and without Keras.
"""

import json
import sys
from pathlib import Path

for package in ("keras", "keras_sat", "data_utils"):
    # Whoever imports them fails; TensorFlow, which would import Keras, can do without.
    sys.modules[package] = None

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402


def with_litert(folder, photos):
    caption = tf.lite.Interpreter(str(folder / "model.tflite")).get_signature_runner()
    vocabulary = (folder / "vocabulary.txt").read_text(encoding="utf-8").split("\n")
    found = [caption(images=photo[None]) for photo in photos]
    found = {name: np.concatenate([one[name] for one in found]) for name in found[0]}
    ids = [row[:count] for row, count in zip(found["token_ids"], found["num_words"])]
    return {**found, "captions": [" ".join(vocabulary[i] for i in row).encode() for row in ids]}


for job in json.loads(Path(sys.argv[1]).read_text()):
    folder, photos = Path(job["folder"]), np.load(job["photos"])
    if job["signature"] == "litert":
        found = with_litert(folder, photos)
    else:
        contents = [Path(path).read_bytes() for path in job["files"]]
        inputs = (
            {"image_bytes": tf.constant(contents)} if contents else {"images": tf.constant(photos)}
        )
        found = tf.saved_model.load(folder).signatures[job["signature"]](**inputs)
    found = {name: np.asarray(value) for name, value in found.items()}
    np.savez(
        job["results"],
        **{name: x.astype(bytes) if x.dtype == object else x for name, x in found.items()},
    )
