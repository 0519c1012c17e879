"""A program as users write them; a type checker looks at it: see
tests/project/test_types.py.
"""

from pathlib import Path

import numpy as np

import data_utils
import keras_sat
from keras_sat import AttentionDisplay, Captioner, ScoreTable


def read() -> data_utils.Vocabulary:
    images = data_utils.flickr8k("flickr8k", split_seed=None)
    train = data_utils.photos_of_split(images, "train")
    words = data_utils.tokenise(train[0].captions[0])
    print(train[0].image_id, train[0].image_path, len(words))
    return data_utils.Vocabulary.build(train, min_count=5)


def read_features(vocabulary: data_utils.Vocabulary) -> data_utils.FeatureCache:
    cache = data_utils.FeatureCache.build(
        "features", ["a"], ["a.jpg"], keras_sat.ENCODERS["tiny"](), batch_size=8
    )
    print(
        len(cache),
        "a" in cache,
        cache.features(["a"]).shape,
        cache.grid_shape[0] * cache.feature_dim,
    )
    print(len(vocabulary), "dog" in vocabulary)
    return cache


def build(vocabulary: data_utils.Vocabulary) -> Captioner:
    captioner = Captioner(vocabulary, encoder="tiny", hidden_dim=64, dropout_words=0.1)
    captioner.compile(learning_rate=1e-3)
    return captioner.adapted(attention_penalty_weight=1.0, dtype="mixed_bfloat16")


def train(output_dir: Path) -> Captioner:
    captioner = keras_sat.fit(
        "flickr8k",
        data_dir="flickr8k",
        attention="hard",
        epochs=12,
        learning_rate=1e-3,
        patience=3,
        embedding_dim=None,
        output_dir=output_dir,
    )
    print(captioner.attention, captioner.settings.loss.label_smoothing + 1.0)
    captioner.save(output_dir / "model", precision="int8")
    return captioner


def look(captioner: Captioner, photo: str) -> None:
    result = captioner.caption(photo, num_beams=3, length_penalty=0.5, allow_unknown=True)
    display = AttentionDisplay.from_result(result)
    display.save("where.png", columns=4)
    features = captioner.encode(np.zeros((1, 224, 224, 3), np.uint8))
    for found in captioner.caption_features(features, num_beams=1):
        print(
            found.caption,
            found.log_prob + 1.0,
            found.attention_weights.shape,
            found.words[0].upper(),
        )


def score() -> ScoreTable:
    captioner = Captioner.from_pretrained("flickr8k")
    table = keras_sat.evaluate(
        captioner, "flickr8k", data_dir=Path("flickr8k"), split="dev", max_length=16
    )
    table.to_json("scores.json")
    return table
