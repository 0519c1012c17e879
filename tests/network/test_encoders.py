import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import all_slow_but, random_pixels

from keras_sat.network.encoders import ENCODERS, make_encoder, make_encoder_top

APPLICATIONS = {  # class, module, layer, grid
    "vgg16": ("VGG16", "vgg16", "block5_conv3", (14, 14, 512)),
    "vgg19": ("VGG19", "vgg19", "block5_conv4", (14, 14, 512)),
    "resnet50": ("ResNet50", "resnet50", "conv5_block3_out", (7, 7, 2048)),
    "mobilenet_v2": ("MobileNetV2", "mobilenet_v2", "out_relu", (7, 7, 1280)),
    "efficientnet_b0": ("EfficientNetB0", "efficientnet", "top_activation", (7, 7, 1280)),
}


@pytest.fixture(scope="module")
def photo():
    return random_pixels(1, 64, 64, 3).astype(np.float32)


@pytest.mark.parametrize("name", all_slow_but("tiny", ENCODERS))
def test_contract(name, photo):
    encoder = ENCODERS[name](weights=None, image_size=64)
    assert isinstance(encoder, keras.Model) and encoder.name == name
    assert encoder.input_shape == (None, 64, 64, 3)
    grid = np.asarray(encoder(photo, training=False))
    assert grid.ndim == 4 and grid.shape[1:] == encoder.output_shape[1:]
    assert np.isfinite(grid).all() and grid.std() > 0
    np.testing.assert_array_equal(grid, np.asarray(encoder(photo.astype(np.uint8), training=False)))
    with pytest.raises(
        ValueError, match=f"`{name}` has no layer.*Expected one of: .*Received: layer='nothing'"
    ):
        ENCODERS[name](weights=None, layer="nothing", image_size=64)


@pytest.mark.parametrize("name", all_slow_but("vgg16", APPLICATIONS))
def test_the_default_grid_at_the_default_size(name):
    encoder = ENCODERS[name](weights=None)
    assert encoder.input_shape == (None, 224, 224, 3)
    assert (
        encoder.output_shape[1:] == APPLICATIONS[name][3]
        and encoder.encoder_layer == APPLICATIONS[name][2]
    )


@pytest.mark.parametrize("name", all_slow_but("vgg16", APPLICATIONS))
def test_equal_to_the_application_after_its_own_preprocess_input(name, photo, tmp_path):
    application, module, layer, _ = APPLICATIONS[name]
    network = getattr(keras.applications, application)(
        include_top=False, weights=None, input_shape=(64, 64, 3)
    )
    network.save_weights(tmp_path / "network.weights.h5")
    pixels = getattr(keras.applications, module).preprocess_input(photo.copy())
    expected = keras.Model(network.input, network.get_layer(layer).output)(pixels, training=False)
    encoder = ENCODERS[name](weights=tmp_path / "network.weights.h5", image_size=64)
    np.testing.assert_allclose(encoder(photo, training=False), expected, rtol=1e-5, atol=1e-5)


def save_legacy(network, path, prefix=""):
    """Write weights in the `.h5` format that keras.applications downloads."""
    with h5py.File(path, "w") as file:
        group = file.create_group(prefix) if prefix else file
        group.attrs["layer_names"] = [layer.name.encode() for layer in network.layers]
        for layer in network.layers:
            stored = group.create_group(layer.name)
            names = [f"{layer.name}/{weight.name}:0" for weight in layer.weights]
            stored.attrs["weight_names"] = [name.encode() for name in names]
            for name, array in zip(names, layer.get_weights()):
                stored.create_dataset(name, data=array)


@pytest.mark.parametrize("include_top, prefix", [(False, ""), (True, "model_weights")])
def test_the_h5_files_that_keras_applications_downloads(tmp_path, include_top, prefix):
    network = keras.applications.MobileNetV2(
        include_top=include_top, weights=None, input_shape=(64, 64, 3)
    )
    save_legacy(network, tmp_path / "mobilenet_v2.h5", prefix)
    encoder = ENCODERS["mobilenet_v2"](weights=tmp_path / "mobilenet_v2.h5", image_size=64)
    loaded = [layer for layer in encoder.layers if isinstance(layer, keras.Model)][0]
    layers = [layer for layer in loaded.layers if layer.weights]
    assert len(layers) > 100
    for layer in layers:
        for ours, theirs in zip(layer.get_weights(), network.get_layer(layer.name).get_weights()):
            np.testing.assert_array_equal(ours, theirs)


def test_weights_of_something_else_are_rejected(tmp_path):
    tiny = ENCODERS["tiny"]()
    tiny.save_weights(tmp_path / "tiny.weights.h5")
    save_legacy(tiny, tmp_path / "tiny.h5")
    (tmp_path / "torn.weights.h5").write_bytes((tmp_path / "tiny.weights.h5").read_bytes()[:5000])
    (tmp_path / "text.h5").write_text("no weights")
    for name in ("tiny.weights.h5", "tiny.h5", "torn.weights.h5", "text.h5"):
        with pytest.raises(ValueError, match=f"does not contain the weights of vgg16.*{name}"):
            ENCODERS["vgg16"](weights=tmp_path / name, image_size=64)
    tiny.set_weights([np.full_like(array, np.nan) for array in tiny.get_weights()])
    tiny.save_weights(tmp_path / "nan.weights.h5")
    with pytest.raises(ValueError, match="some weights are NaN or infinite.*nan.weights.h5"):
        ENCODERS["tiny"](weights=tmp_path / "nan.weights.h5")
    with pytest.raises(ValueError, match="does not exist.*missing.h5"):
        ENCODERS["tiny"](weights=tmp_path / "missing.h5")


def test_imagenet_that_cannot_be_downloaded_says_what_to_fetch_and_where_to_put_it(
    monkeypatch, tmp_path
):
    def application(weights, **options):
        origin = "https://example.org/models/vgg16_notop.h5"
        raise Exception(
            f"URL fetch failure on {origin}: None -- [Errno -2] Name or service not known"
        )

    monkeypatch.setattr(keras.applications, "VGG16", application)
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    with pytest.raises(ValueError) as error:
        ENCODERS["vgg16"]()
    message = str(error.value)
    assert "Download https://example.org/models/vgg16_notop.h5 with" in message
    assert str(tmp_path / "models") in message and "Pass its path as `weights`. Received" in message


def test_tiny_has_the_position_of_each_cell_and_can_be_trained(tmp_path):
    encoder = ENCODERS["tiny"]()
    assert encoder.output_shape == (None, 16, 16, 66) and len(encoder.trainable_weights) == 6
    grid = np.asarray(encoder(np.zeros((2, 64, 64, 3))))
    np.testing.assert_allclose(grid[1, :, 3, 64], np.linspace(-1, 1, 16), atol=1e-6)
    np.testing.assert_allclose(grid[1, 3, :, 65], np.linspace(-1, 1, 16), atol=1e-6)
    encoder.save_weights(tmp_path / "tiny.weights.h5")
    again = ENCODERS["tiny"](weights=tmp_path / "tiny.weights.h5")
    np.testing.assert_array_equal(again(np.ones((1, 64, 64, 3))), encoder(np.ones((1, 64, 64, 3))))
    with pytest.raises(ValueError, match="image_size=63"):
        ENCODERS["tiny"](image_size=63)
    assert make_encoder("tiny", image_size=np.int64(16)).output_shape == (None, 4, 4, 66)
    with pytest.raises(ValueError, match=r"or \(height, width\). Received: image_size=\[8, 8, 8\]"):
        make_encoder("tiny", image_size=[8, 8, 8])


def test_a_cell_of_tiny_sees_its_square_and_two_pixels_around_it():
    encoder = ENCODERS["tiny"]()
    pixels = tf.Variable(np.random.default_rng(0).uniform(0, 255, (1, 64, 64, 3)).astype("float32"))
    with tf.GradientTape() as tape:
        cell = encoder(pixels)[0, 8, 5]
    rows, columns = np.nonzero(np.abs(tape.gradient(cell, pixels)[0]).sum(axis=-1))
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (30, 37, 18, 25)


def test_space_to_depth_takes_two_by_two_pixels_together():
    encoder = ENCODERS["tiny"]()
    to_depth = keras.Model(encoder.input, encoder.get_layer("space_to_depth").output)
    pixels = np.random.default_rng(0).uniform(0, 255, (1, 64, 64, 3)).astype(np.float32)
    cell = np.asarray(to_depth(pixels))[0, 5, 9]
    np.testing.assert_allclose(cell, pixels[0, 10:12, 18:20].reshape(12) / 127.5 - 1, atol=1e-5)


@pytest.mark.parametrize(
    "name", all_slow_but("efficientnet_lite0", ["efficientnet_lite0", "vgg16", "mobilenet_v2"])
)
def test_an_encoder_can_be_saved_and_loaded(name, tmp_path, photo):
    encoder = ENCODERS[name](weights=None, image_size=64)
    encoder.save(tmp_path / "encoder.keras")
    again = keras.saving.load_model(tmp_path / "encoder.keras", safe_mode=True)
    np.testing.assert_allclose(
        again(photo, training=False), encoder(photo, training=False), atol=1e-5
    )


def test_an_encoder_cut_in_two_is_the_encoder():
    whole = make_encoder("tiny", image_size=16)
    lower = make_encoder("tiny", layer="conv1", image_size=16)
    top = make_encoder_top("tiny", start="conv1", image_size=16)
    for part in (lower, top):
        for layer in part.layers:
            layer.set_weights(whole.get_layer(layer.name).get_weights() if layer.weights else [])
    images = np.random.default_rng(0).uniform(0, 255, (2, 16, 16, 3)).astype("float32")
    np.testing.assert_allclose(top(lower(images)), whole(images), atol=1e-6)


def test_mobilenet_is_cut_between_blocks():
    top = make_encoder_top(
        "mobilenet_v2", start="block_12_add", layer="out_relu", weights=None, image_size=64
    )
    assert top.input_shape == (None, 4, 4, 96) and top.output_shape == (None, 2, 2, 1280)
    for name, start, layer in (
        ("mobilenet_v2", "block_12_expand", "block_15_add"),
        ("tiny", "no_layer", None),
        ("tiny", "coordinates", "conv2"),
    ):
        with pytest.raises(
            ValueError, match=f"cannot be cut after this layer.*Received: layer='{start}'"
        ):
            make_encoder_top(name, start=start, layer=layer, weights=None, image_size=64)


def test_what_keras_tells_of_a_download_does_not_mix_with_captions(monkeypatch, capsys):
    application = keras.applications.VGG16

    def telling(weights, **options):
        print("Downloading data from ...")
        return application(weights=None, **options)

    monkeypatch.setattr(keras.applications, "VGG16", telling)
    ENCODERS["vgg16"](image_size=32)
    output, error = capsys.readouterr()
    assert output == "" and "Downloading data" in error
