"""What the tests share and is no fixture: data, captioners, comparisons, and the code
blocks of the documentation.
"""

import importlib
import json
import re
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import layers
from PIL import Image

import keras_sat
from data_utils import CaptionedImage, Vocabulary, make_batches
from data_utils.datasets import CellBoxes
from data_utils.datasets.phrase_boxes import Boxes, Phrase
from keras_sat.network.cells import RecurrentCell
from keras_sat.network.efficientnet_lite import blocks_of

ROOT = Path(__file__).parents[1]
WORDS = ["a", "dog", "cat", "red", "in", "runs", "sleeps"]
NO_DROPOUT = {"dropout_before_readout": 0.0, "dropout_after_readout": 0.0}


# === Numbers and photos ===


def module_in(folders, name):
    """Import a module that is no part of a package from one of these folders."""
    paths = [str(folder) for folder in folders]
    sys.path[:0] = paths
    try:
        return importlib.import_module(name)
    finally:
        del sys.path[: len(paths)]


def numbers(*shape, seed=0):
    """Return normal float32 numbers, such as features."""
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def random_pixels(*shape, seed=0):
    """Return uint8 numbers: (height, width, 3) is a photo."""
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def randomise(weights, *, scale, seed=1):
    """Draw new values for weights, in their order."""
    random = np.random.default_rng(seed)
    for weight in weights:
        weight.assign(random.normal(scale=scale, size=weight.shape))


def write_photos(directory, names, *, size=(32, 24)):
    """Write small pictures, each with other pixels."""
    directory.mkdir(parents=True, exist_ok=True)
    width, height = size
    for number, name in enumerate(names):
        Image.fromarray(random_pixels(height, width, 3, seed=number)).save(directory / name)


def mean_colour_encoder(images):
    """A callable encoder without weights: the mean colour of each of 2 x 2 cells,
    (batch, 2, 2, 3).
    """
    batch, height, width, _ = images.shape
    return images.reshape(batch, 2, height // 2, 2, width // 2, 3).mean(axis=(2, 4))


# === Data sets ===


def write_copy_of_data_set(name, directory, num_photos=8):
    """Write a small data set in the layout of Flickr8k, Flickr30k or COCO: five
    captions a photo, and its splits.
    """
    folders = {"flickr8k": "Flicker8k_Dataset", "flickr30k": "flickr30k-images", "coco": "val2014"}
    folder = folders[name]
    pattern = "COCO_val2014_{:012d}.jpg" if name == "coco" else "{}.jpg"
    names = [pattern.format(number) for number in range(num_photos)]
    write_photos(directory / folder, names)
    splits = ["train"] * (num_photos - 4) + ["dev"] * 2 + ["test"] * 2
    colours = ("red", "green", "blue", "black", "white")
    captions = {
        file: [f"A {colours[(number + caption) % 5]} dog runs ." for caption in range(5)]
        for number, file in enumerate(names)
    }
    if name == "flickr8k":
        _write_flickr8k_texts(directory, captions, splits)
    else:
        _write_karpathy_json(directory, name, folder, captions, splits)


def _write_flickr8k_texts(directory, captions, splits):
    lines = [
        f"{file}#{number}\t{text}"
        for file, texts in captions.items()
        for number, text in enumerate(texts)
    ]
    (directory / "Flickr8k.token.txt").write_text("\n".join(lines) + "\n")
    for split in ("train", "dev", "test"):
        chosen = [file for file, its_split in zip(captions, splits) if its_split == split]
        (directory / f"Flickr_8k.{split}Images.txt").write_text("\n".join(chosen) + "\n")


def _write_karpathy_json(directory, name, folder, captions, splits):
    is_coco = name == "coco"
    names_of_splits = {"train": "restval" if is_coco else "train", "dev": "val", "test": "test"}
    extra = ["A sixth caption ."] if is_coco else []
    entries = [
        {
            "filename": file,
            "filepath": folder if is_coco else "",
            "split": names_of_splits[split],
            "sentences": [{"raw": text} for text in [*texts, *extra]],
        }
        for (file, texts), split in zip(captions.items(), splits)
    ]
    document = json.dumps({"images": entries, "dataset": name})
    (directory / f"dataset_{name}.json").write_text(document)


def batch_with_boxes():
    """Return a batch of two photos with two captions each, and of the boxes of their
    words on a grid of 2 x 2 cells; the captioner's words are WORDS.
    """
    captions = ["a red dog", "cat in"]
    images = [
        CaptionedImage(name, np.zeros((8, 8, 3), "uint8"), captions, "train") for name in "ab"
    ]
    left_half, last_corner = (0.0, 0.0, 0.5, 1.0), (0.5, 0.5, 1.0, 1.0)
    phrases = [Phrase(0, 0, 3, (left_half,)), Phrase(1, 0, 1, (last_corner,))]
    batches = make_batches(
        images,
        Vocabulary(WORDS),
        image_size=8,
        group_by="image",
        boxes=CellBoxes(Boxes({"a": phrases}), (2, 2)),
        shuffle=False,
    )
    return next(iter(batches))


# === Captioners and captions ===


def make_captioner(words=WORDS, *, shape=None, scale=None, weights_seed=1, **options):
    """Return a small captioner that is built.

    Args:
        words: of its vocabulary.
        shape: of the features of a photo, (regions, feature_dim). With the option
            `image_size`, the captioner takes square photos instead.
        scale: standard deviation of random weights of the decoder, with which attention
            differs from word to word; None keeps the initial ones.
        weights_seed: of these random weights.
        options: of `Captioner`.
    """
    small = {"encoder": None, "embedding_dim": 4, "hidden_dim": 6, "attention_dim": 4}
    captioner = keras_sat.Captioner(words, **{**small, **options})
    if "image_size" in options:
        shape = (options["image_size"], options["image_size"], 3)
    captioner.build(((None, *(shape or (4, 3))), (None, None)))
    if scale is not None:
        randomise(captioner.decoder.trainable_variables, scale=scale, seed=weights_seed)
    return captioner


def photo_captioner(**options):
    """Return a small captioner of photos of 16 x 16 pixels, see `make_captioner`."""
    return make_captioner(**{"encoder": "tiny", "image_size": 16, "scale": 0.9, **options})


def assert_same_caption(found, expected, *, log_prob, maps):
    """Compare the words, the log_prob and the maps of two CaptionResults.

    `log_prob` and `maps` are the tolerances, as `assert_allclose` takes them.
    """
    assert found.words == expected.words
    np.testing.assert_allclose(found.log_prob, expected.log_prob, **log_prob)
    np.testing.assert_allclose(found.attention_weights, expected.attention_weights, **maps)


class VanillaCell(RecurrentCell):
    """A cell that is not in CELLS: one tanh, without gates."""

    num_gates = 1
    has_cell_state = False

    def call(self, projected_inputs, hidden_state, cell_state=None):
        state = keras.ops.tanh(projected_inputs + self.recurrent_projection(hidden_state))
        return (state,), {}


# === Parameters, and pages ===


def numpy_weights(decoder):
    """Return the weights of a CaptionDecoder of the paper's own network, in float64, as
    keras_sat/show_attend_tell_numpy.py names them.
    """
    attention, (cell,), readout = decoder.attention_layer, decoder.cells, decoder.readout
    lstm_parts = [cell.input_projection, cell.recurrent_projection, cell.context_projection]
    arrays = {
        "embedding": decoder.embedding.embeddings,
        "score": attention.score_vector,
        "lstm_gates": np.concatenate([part.kernel for part in lstm_parts]),
        "lstm_gates_bias": cell.input_projection.bias,
        "state_projection": attention.state_projection.kernel,
        "state_readout": readout.state_readout.kernel,
        "context_readout": readout.context_readout.kernel,
    }
    with_bias = {
        "initial_hidden": decoder.initial_hidden,
        "initial_cell": decoder.initial_cell,
        "feature_projection": attention.feature_projection,
        "gate": decoder.gate,
        "word_logits": readout.word_logits,
    }
    for name, layer in with_bias.items():
        arrays |= {name: layer.kernel, f"{name}_bias": layer.bias}
    return {name: np.asarray(array, dtype="float64") for name, array in arrays.items()}


def torch_arrays(network, *, width, num_classes, gain=1.0, seed=0):
    """Return random arrays for an EfficientNet-Lite of depth 1, with the names and
    layouts of the PyTorch packages. With a gain of 1.4, as by He, photos keep different
    features to the end.
    """
    random = np.random.default_rng(seed)
    arrays = {
        "_fc.weight": random.normal(0, 0.05, (num_classes, 1280)),
        "_fc.bias": random.normal(0, 0.1, num_classes),
    }
    parts = [("stem_conv", "_conv_stem", "_bn0"), ("top_conv", "_conv_head", "_bn1")]
    for number in range(len(blocks_of(width, 1.0))):
        ours, theirs = f"block_{number}", f"_blocks.{number}."
        project = (
            ours if isinstance(network.get_layer(ours), layers.Conv2D) else f"{ours}_project_conv"
        )
        parts += [(f"{ours}_expand_conv", f"{theirs}_expand_conv", f"{theirs}_bn0")] * (number > 0)
        parts += [(f"{ours}_depthwise_conv", f"{theirs}_depthwise_conv", f"{theirs}_bn1")]
        parts += [(project, f"{theirs}_project_conv", f"{theirs}_bn2")]
    for ours, kernel, norm in parts:
        height, width, inputs, outputs = network.get_layer(ours).kernel.shape
        if "depthwise" in ours:
            inputs, outputs = 1, inputs
        scale = gain * (height * width * inputs) ** -0.5
        arrays[f"{kernel}.weight"] = random.normal(0, scale, (outputs, inputs, height, width))
        arrays[f"{norm}.weight"], arrays[f"{norm}.running_var"] = random.uniform(
            0.5, 2, (2, outputs)
        )
        arrays[f"{norm}.bias"], arrays[f"{norm}.running_mean"] = random.normal(0, 0.3, (2, outputs))
        arrays[f"{norm}.num_batches_tracked"] = np.array(7)
    return {name: array.astype(np.float32) for name, array in arrays.items()}


def all_slow_but(quick, values):
    """Return values for `parametrize`, in their order: plain `pytest` takes the quick
    one alone, as a sample of them.
    """
    slow = pytest.mark.slow
    return [
        value if value == quick else pytest.param(*_as_tuple(value), marks=slow) for value in values
    ]


def _as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


def fences(page):
    """Return (language, text) of the fenced blocks of a page."""
    return re.findall(
        r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


def python_blocks(page):
    """Return the blocks of Python of a page."""
    return [text for language, text in fences(page) if language == "python"]
