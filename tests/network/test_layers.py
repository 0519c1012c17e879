"""Each layer passes Keras' own test of layers, which builds, calls, saves and trains
it.
"""

import importlib
import pkgutil

import keras
import pytest
from keras.src.testing import TestCase

import keras_sat.learning
import keras_sat.network
from keras_sat.network.cells import CELLS
from keras_sat.network.step_records import Attended, Decoded

PHOTOS, ROWS, REGIONS, DIM, TIME, WORDS = 2, 4, 5, 6, 3, 11
STATE, FEATURES, GRID, MAP, MAPS = (
    (ROWS, DIM),
    (PHOTOS, REGIONS, DIM),
    (PHOTOS, 4, 6, 3),
    (ROWS, 5),
    (ROWS, TIME, 5),
)
GATES = {
    "lstm": ("input", "forget", "output", "candidate"),
    "gru": ("reset", "update", "candidate"),
}
FROM_PHOTO = {"from_photo": (ROWS, TIME, 1)}


def looking(query_dim, **arguments):
    """Return the arguments of the test of an attention."""
    return {
        "input_shape": {"hidden_state_shape": STATE, "features_shape": FEATURES},
        "expected_output_shape": Attended(STATE, MAP, MAP, MAP, (ROWS, query_dim)),
        **arguments,
    }


DECODER = {
    "init_kwargs": {
        "vocabulary_size": WORDS,
        "embedding_dim": 3,
        "hidden_dim": DIM,
        "attention_dim": 8,
    },
    "input_shape": {"features_shape": FEATURES, "input_ids_shape": (ROWS, TIME)},
    "input_dtype": {"features_shape": "float32", "input_ids_shape": "int32"},
    "expected_output_shape": Decoded((ROWS, TIME, WORDS), MAPS, MAPS, {}),
}
READOUT = {"deep_output": True, "activation": None, "dropouts": (0.5, 0.5), "seed": 0}
LAYERS = {  # by name: the arguments of Keras' test
    "BahdanauAttention": looking(8, init_kwargs={"attention_dim": 8}),
    "DotAttention": looking(DIM),
    "BilinearAttention": looking(DIM),
    "NoAttention": looking(DIM),
    "Sentinel": {
        "init_kwargs": {"feature_dim": 7},
        "input_shape": {"hidden_state_shape": STATE, "memory_shape": STATE},
        "expected_output_shape": (ROWS, 7),
    },
    **{
        cell.__name__: {
            "init_kwargs": {"hidden_dim": DIM},
            "input_shape": {
                "projected_inputs_shape": (ROWS, cell.num_gates * DIM),
                "hidden_state_shape": STATE,
                **({"cell_state_shape": STATE} if cell.has_cell_state else {}),
            },
            "expected_output_shape": (
                (STATE,) * (1 + cell.has_cell_state),
                dict.fromkeys(GATES[name], STATE),
            ),
        }
        for name, cell in CELLS.items()
    },
    "CaptionDecoder": DECODER,
    "CaptionDecoder with a sentinel": {
        **DECODER,
        "init_kwargs": {**DECODER["init_kwargs"], "attends": "after", "sentinel": True},
        "expected_output_shape": Decoded((ROWS, TIME, WORDS), MAPS, MAPS, FROM_PHOTO),
    },
    "Readout": {
        "init_kwargs": {"vocabulary_size": WORDS, "embedding_dim": DIM, **READOUT},
        "input_shape": {
            "embedded_shape": STATE,
            "hidden_state_shape": STATE,
            "context_shape": STATE,
        },
        "expected_output_shape": (ROWS, WORDS),
    },
    "FeatureAdapter": {
        "init_kwargs": {
            "normalise": True,
            "projection_dim": 8,
            "activation": "relu",
            "dropout": 0.5,
        },
        "input_shape": FEATURES,
        "expected_output_shape": (PHOTOS, REGIONS, 8),
    },
    "BlurPhotos": {
        "init_kwargs": {"sigma": 0.5},
        "input_shape": GRID,
        "expected_output_shape": GRID,
    },
    "CaffePreprocessing": {"input_shape": GRID, "expected_output_shape": GRID},
    "LoopDense": {
        "init_kwargs": {"units": 8},
        "input_shape": STATE,
        "expected_output_shape": (ROWS, 8),
    },
}


def layers():
    """Return all layers of keras_sat by name, but for three base classes and former
    ones.
    """
    rooms = keras_sat.network, keras_sat.learning
    names = [
        module.name
        for room in rooms
        for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}.")
    ]
    values = [value for name in names for value in vars(importlib.import_module(name)).values()]
    ours = [value for value in values if isinstance(value, type) and value.__module__ in names]
    return {
        value.__name__: value
        for value in ours
        if issubclass(value, keras.Layer)
        and value.__name__ not in ("Attention", "RecurrentCell", "Trainer")
        and not value.__name__.startswith("_")  # the names of former classes
    }


def test_no_layer_is_left_out():
    assert {name.split()[0] for name in LAYERS} == layers().keys()


@pytest.mark.filterwarnings(
    "ignore:`shuffle=True`", "ignore:The model does not have any trainable weights"
)  # its own
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_passes_the_test_of_keras(name):
    arguments = {"init_kwargs": {}, **LAYERS[name]}
    # Its check of training calls a layer with one argument: those with more are trained
    # in tests/learning/test_training.py.
    arguments["run_training_check"] = not isinstance(arguments["input_shape"], dict)
    TestCase().run_layer_test(layers()[name.split()[0]], **arguments)
