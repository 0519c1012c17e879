"""Make from_0_1/: what version 0.1.0 wrote, and what its captioners said of three
scenes.

    python tests/golden/make_from_0_1.py      # with that version of keras_sat

Later versions must read all of it. Some of it has what later versions may lack: phrases
for regions and their token, known objects, a second opinion.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

import keras
import numpy as np

import keras_sat
from data_utils import CaptionedImage, FeatureCache, Vocabulary, draw_scenes, make_batches
from data_utils.vocabulary import REGION_TOKEN
from keras_sat.after_search.confidence import Confidence
from keras_sat.after_search.consensus import Consensus
from keras_sat.export.litert import litert_file
from keras_sat.export.litert_folder import write_litert
from keras_sat.export.litert_weights import rounded

sys.path.insert(0, str(Path(__file__).parents[1]))
from small_training import At  # noqa: E402

FOLDER = Path(__file__).parent / "from_0_1"
ENCODER_WEIGHTS = "tiny.weights.h5"
WITH_ADVICE = {"consensus_weight": 1.0, "known_objects": False}
SCENES = {"image_size": 32, "max_objects": 1}
SIZES = {"embedding_dim": 8, "hidden_dim": 12, "attention_dim": 8, "feature_projection_dim": 12}
LOOKS = {
    "attends": "after",
    "scoring": "bilinear",
    "sentinel": True,
    "readout_activation": "tanh",
    **SIZES,
}


class Killed(Exception):
    """Ends a training as a kill does."""


def training_images(num_scenes=120):
    scenes = draw_scenes(num_scenes, seed=5, **SCENES)
    return [
        CaptionedImage(f"scene-{i}", scene.image, scene.captions, "dev" if i % 10 == 0 else "train")
        for i, scene in enumerate(scenes)
    ]


def pictures():
    """Return the pictures that the captioners spoke of."""
    return [scene.image for scene in draw_scenes(3, seed=9, **SCENES)]


def said_by(captioner, **options):
    """Return what a captioner says of the pictures, for JSON."""
    return [
        {
            "caption": result.caption,
            "log_prob": result.log_prob,
            "map": np.asarray(result.attention_weights[1]).ravel().tolist(),
        }
        for result in captioner.caption(pictures(), num_beams=2, **options)
    ]


def trained_captioner(images):
    """Return a soft captioner that attends after, with a sentinel and `<region>`."""
    vocabulary = Vocabulary([*Vocabulary.build(images).words, REGION_TOKEN])
    keras.utils.set_random_seed(1)
    captioner = keras_sat.Captioner(vocabulary, encoder="tiny", image_size=32, **LOOKS)
    captioner.compile("adam", learning_rate=1e-2)
    batches = make_batches(images, vocabulary, image_size=32, batch_size=20, seed=0)
    captioner.fit(batches, epochs=80, verbose=0)
    return captioner


def with_advice(captioner, images):
    """Give a captioner an index, a recogniser without a network, a confidence and a
    second opinion.
    """
    # Later versions lack these.
    from keras_sat.beyond.known_objects import Recogniser
    from keras_sat.beyond.second_opinion import CLUES, SecondOpinion

    captioner.note_training_photos([image.image_id for image in images])
    captioner.consensus = Consensus.build(captioner, images, show_progress=False)
    word_id = captioner.vocabulary.tokens.index("circle")
    captioner.recogniser = Recogniser(
        captioner.vocabulary,
        {
            "word_ids": np.array([word_id]),
            "class_ids": np.array([7]),
            "rates": np.array([[0.8, 0.1, 0.2]], np.float32),
        },
    )
    captioner.confidence = Confidence([0.5, 1.0, 0.2, 0.0, 0.0], [0.0, 1.0, 1e6, 1e7])
    captioner.second_opinion = SecondOpinion([0.0] * (len(CLUES) + 1))
    return captioner


def own_model():
    """Return a Keras model of one's own with our layers, its inputs and outputs."""
    features = keras.Input((9, 6))
    input_ids = keras.Input((None,), dtype="int32")
    keras.utils.set_random_seed(2)
    decoded = keras_sat.CaptionDecoder(20, embedding_dim=8, hidden_dim=8, attention_dim=8)(
        features, input_ids
    )
    question = keras.layers.GRU(5)(keras.layers.Embedding(20, 4)(input_ids))
    look = keras_sat.BahdanauAttention(attention_dim=7)(question, features)
    model = keras.Model(
        [features, input_ids], [decoded.logits, decoded.attention_weights, look.context]
    )
    inputs = [
        np.random.default_rng(0).normal(size=(2, 9, 6)).astype("float32"),
        np.array([[1, 4, 5, 6], [1, 7, 8, 9]]),
    ]
    return model, inputs, [np.asarray(output) for output in model.predict(inputs, verbose=0)]


def stopped_training(name, images):
    """Write the folder of a training that was killed in its second epoch."""

    def kill():
        raise Killed

    try:
        with tempfile.TemporaryDirectory() as cache_dir:
            settings = {**settings_of(name), "cache_dir": cache_dir}
            keras_sat.fit(images, **settings, output_dir=FOLDER / name, callbacks=[At(1, kill)])
    except Killed:
        return
    raise AssertionError("it was not stopped")


TRAINING = {
    "encoder": "tiny",
    "image_size": 32,
    **SIZES,
    "epochs": 3,
    "batch_size": 40,
    "group_by": "image",
    "learning_rate": 1e-2,
    "seed": 5,
    "show_progress": False,
}
STOPPED = {
    "stopped": {"attention": "hard", "encoder_training": "scratch"},
    "stopped_in_rewards": {
        **LOOKS,
        "epochs": 1,
        "self_critical_epochs": 2,
        "encoder_training": "frozen",
    },
}


def settings_of(name):
    """Return the arguments of `fit` of a stopped training."""
    settings = {**TRAINING, **STOPPED[name]}
    if settings.get("encoder_training") == "frozen":
        settings["encoder"] = saved_encoder()
    return settings


def saved_encoder():
    encoder = keras_sat.ENCODERS["tiny"](image_size=32)
    encoder.load_weights(FOLDER / ENCODER_WEIGHTS)
    return encoder


def main():
    # Later versions have it with another name.
    from keras_sat.export.export import search_arguments

    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    images = training_images()
    said = {}
    captioner = trained_captioner(images)
    captioner.encoder_model.save_weights(FOLDER / ENCODER_WEIGHTS)
    captioner.save(FOLDER / "with_advice")
    captioner = keras_sat.Captioner.load(FOLDER / "with_advice")  # without an optimizer
    captioner.save(FOLDER / "soft.keras")
    said["soft.keras"] = said_by(captioner)
    FeatureCache.build(
        FOLDER / "features",
        [f"scene-{i}" for i in range(3)],
        pictures(),
        captioner.encoder_model,
        show_progress=False,
    )
    captioner.export(FOLDER / "litert", "litert", max_length=8)
    network = rounded(litert_file(captioner, *search_arguments(captioner, max_length=8)))
    write_litert(FOLDER / "page_photo", network, captioner.vocabulary, packed=True)
    with_advice(captioner, images).save(FOLDER / "with_advice", precision="int8")
    captioner = keras_sat.Captioner.load(FOLDER / "with_advice")  # whose weights are rounded
    said["with_advice"] = said_by(captioner, **WITH_ADVICE)
    model, _, outputs = own_model()
    model.save(FOLDER / "own_model.keras")
    np.savez_compressed(FOLDER / "own_model_outputs.npz", *outputs)
    for name in STOPPED:
        stopped_training(name, images[:40])
        for logs in (FOLDER / name).rglob("logs"):
            shutil.rmtree(logs)
    for lock in (*FOLDER.rglob("lock"), *FOLDER.rglob(".lock")):
        lock.unlink()
    (FOLDER / "said.json").write_text(json.dumps(said, indent=1) + "\n")


if __name__ == "__main__":
    main()
