"""Make saved/: a captioner as a version of keras_sat saved it, and what it said of
three scenes.

    python tests/golden/make_saved.py      # with that version of keras_sat

The folder here was written by version 0.1.0. Later versions must load it, and hear the
same from it.
"""

import json
from pathlib import Path

import keras

from data_utils import CaptionedImage, Vocabulary, draw_scenes, make_batches
from keras_sat import Captioner

FOLDER = Path(__file__).parent / "saved"
SCENES = {"image_size": 32, "max_objects": 1}


def main():
    scenes = draw_scenes(200, seed=5, **SCENES)
    images = [
        CaptionedImage(f"scene-{i}", scene.image, scene.captions, "train")
        for i, scene in enumerate(scenes)
    ]
    vocabulary = Vocabulary.build(images)
    keras.utils.set_random_seed(1)
    kind = {
        "attention": "hard",
        "scoring": "bilinear",
        "cell": "gru",
        "num_layers": 2,
        "normalise_features": True,
    }
    sizes = {
        "embedding_dim": 12,
        "hidden_dim": 16,
        "attention_dim": 8,
        "feature_projection_dim": 20,
    }
    dropout = {"dropout_before_readout": 0.1, "dropout_after_readout": 0.1}
    further = {
        "label_smoothing": 0.1,
        "length_penalty": 0.5,
        "expectation_probability": 0.9,
        "seed": 3,
    }
    captioner = Captioner(
        vocabulary, encoder="tiny", image_size=32, **kind, **sizes, **dropout, **further
    )
    captioner.compile("adam", learning_rate=1e-2)
    captioner.fit(
        make_batches(images, vocabulary, image_size=32, batch_size=20, seed=0), epochs=60, verbose=0
    )
    captioner.note_training_photos([image.image_id for image in images])
    captioner.save(FOLDER / "model", precision="int8")
    results = Captioner.load(FOLDER / "model").caption(pictures(), num_beams=2)
    said = [
        {
            "caption": result.caption,
            "log_prob": result.log_prob,
            "map": result.attention_weights[1].ravel().tolist(),
        }
        for result in results
    ]
    (FOLDER / "said.json").write_text(json.dumps(said, indent=1) + "\n")


def pictures():
    """Return the pictures that it spoke of."""
    return [scene.image for scene in draw_scenes(3, seed=9, **SCENES)]


if __name__ == "__main__":
    main()
