from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_sat import Captioner
from keras_sat.network import precision
from keras_sat.network.precision import multiplies_bfloat16, resolved_dtype


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Return a function that sets what TensorFlow and Linux tell of the machine."""

    def tell(flags=(), capabilities=(), *, cpuinfo="flags\t\t: {}\n\nflags\t\t: fpu\n"):
        if cpuinfo is not None:
            (tmp_path / "cpuinfo").write_text(cpuinfo.format(" ".join(flags)))
        monkeypatch.setattr(precision, "Path", lambda path: tmp_path / Path(path).name)
        gpus = list(range(len(capabilities)))
        monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: gpus)
        monkeypatch.setattr(
            tf.config.experimental, "get_device_details", lambda gpu: capabilities[gpu]
        )

    return tell


@pytest.mark.parametrize(
    "flags, capabilities, has_products",
    [
        (["avx2", "avx512_bf16"], [], True),
        (["amx_bf16"], [], True),
        (["avx2", "avx512f"], [], False),
        ([], [], False),
        ([], [{"compute_capability": (8, 0)}], True),
        ([], [{"compute_capability": (9, 0)}, {"compute_capability": (8, 6)}], True),
        (["amx_bf16"], [{"compute_capability": (7, 5)}], False),  # it is the GPU that computes
        (["amx_bf16"], [{"compute_capability": (9, 0)}, {}], False),
    ],
)
def test_auto_is_bfloat16_where_the_device_multiplies_it(
    machine, flags, capabilities, has_products
):
    machine(flags, capabilities)
    assert multiplies_bfloat16() is has_products
    assert resolved_dtype("auto") == ("mixed_bfloat16" if has_products else "float32")
    assert [resolved_dtype(dtype) for dtype in (None, "float32", "mixed_float16")] == [
        None,
        "float32",
        "mixed_float16",
    ]


@pytest.mark.parametrize("cpuinfo", ["processor\t: 0\nFeatures\t: fp amx_bf16\n", None])
def test_a_machine_that_tells_no_flags_has_none(machine, cpuinfo):
    machine(cpuinfo=cpuinfo)
    assert multiplies_bfloat16() is False


def test_a_captioner_trains_in_it_and_its_weights_are_float32(machine, tmp_path):
    machine(["amx_bf16"])
    captioner = Captioner(
        ["a", "dog"], encoder=None, hidden_dim=4, embedding_dim=4, attention_dim=4, dtype="auto"
    )
    captioner.compile()
    features = np.random.default_rng(0).random((2, 4, 3), dtype=np.float32)
    ids = np.array([[1, 4, 5], [1, 5, 4]], np.int32)
    assert np.isfinite(
        captioner.train_step(((features, ids), ids, np.ones((2, 3), np.float32)))["loss"]
    )
    assert captioner.decoder.compute_dtype == captioner.adapter.compute_dtype == "bfloat16"
    assert {
        keras.backend.standardize_dtype(weight.dtype) for weight in captioner.decoder.weights
    } == {"float32"}
    captioner.save(tmp_path / "model")
    assert Captioner.load(tmp_path / "model").decoder.compute_dtype == "float32"
