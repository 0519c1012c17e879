import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_sat import Captioner
from keras_sat.network import precision
from keras_sat.network.precision import multiplies_bfloat16, resolved_dtype


@pytest.fixture
def machine(monkeypatch):
    """Return a function that sets what TensorFlow and Linux tell of the machine."""

    def tell(flags=(), capabilities=()):
        monkeypatch.setattr(precision, "_processor_flags", lambda: set(flags))
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


def test_the_flags_are_those_that_linux_tells(tmp_path):
    (tmp_path / "cpuinfo").write_text(
        "processor\t: 0\nflags\t\t: fpu avx512_bf16\n\nprocessor\t: 1\nflags\t\t: fpu\n"
    )
    assert precision._processor_flags(tmp_path / "cpuinfo") == {"fpu", "avx512_bf16"}
    (tmp_path / "arm").write_text("processor\t: 0\nFeatures\t: fp asimd\n")
    assert (
        precision._processor_flags(tmp_path / "arm")
        == precision._processor_flags(tmp_path / "none")
        == set()
    )


@pytest.mark.parametrize("flags, computes", [(["amx_bf16"], "bfloat16"), ([], "float32")])
def test_a_captioner_trains_in_it_and_its_weights_are_float32(machine, tmp_path, flags, computes):
    machine(flags)
    captioner = Captioner(
        ["a", "dog"], encoder=None, hidden_dim=4, embedding_dim=4, attention_dim=4, dtype="auto"
    )
    captioner.compile()
    features = np.random.default_rng(0).random((2, 4, 3), dtype=np.float32)
    ids = np.array([[1, 4, 5], [1, 5, 4]], np.int32)
    assert np.isfinite(
        captioner.train_step(((features, ids), ids, np.ones((2, 3), np.float32)))["loss"]
    )
    assert captioner.decoder.compute_dtype == captioner.adapter.compute_dtype == computes
    assert {
        keras.backend.standardize_dtype(weight.dtype) for weight in captioner.decoder.weights
    } == {"float32"}
    captioner.save(tmp_path / "model")
    assert Captioner.load(tmp_path / "model").decoder.compute_dtype == "float32"
