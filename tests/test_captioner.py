"""A captioner as a whole: it learns, is saved and adapted, and says what it is."""

import inspect

import keras
import numpy as np
import pytest
from eight_photos import CAPTIONS, SMALL, compiled_captioner, small_encoder
from helpers import NO_DROPOUT, all_slow_but

from data_utils import Vocabulary, make_batches
from keras_sat import Captioner
from keras_sat.files import read_model
from keras_sat.files.model_folder import write_model

KINDS = [("soft", "additive", "lstm"), ("hard", "dot", "gru")]


@pytest.mark.slow
@pytest.mark.parametrize("attention, scoring, cell", KINDS)
def test_every_kind_learns_its_captions_by_heart(eight, attention, scoring, cell, tmp_path):
    images, vocabulary, cache = eight
    kind = {"attention": attention, "scoring": scoring, "cell": cell}
    captioner = compiled_captioner(vocabulary, **kind, **NO_DROPOUT)
    history = captioner.fit(
        make_batches(images, vocabulary, cache, batch_size=8), epochs=60, verbose=0
    ).history
    assert history["loss"][-1] < 0.2 * history["loss"][0]
    features = cache.features([image.image_id for image in images])
    results = captioner.caption_features(features)
    assert [result.caption for result in results] == CAPTIONS
    captioner.save(tmp_path / "model")
    loaded = Captioner.load(tmp_path / "model")
    assert loaded.get_config() == captioner.get_config()
    for one, other in zip(results, loaded.caption_features(features)):
        assert one.caption == other.caption and one.log_prob == other.log_prob
        np.testing.assert_array_equal(one.attention_weights, other.attention_weights)


@pytest.mark.parametrize("precision", all_slow_but("int8", ["float16", "int8"]))
def test_a_rounded_model_is_about_the_same(eight, precision, tmp_path):
    captioner = compiled_captioner(eight[1], attention_penalty_weight=np.float32(0.25))
    captioner.save(tmp_path / "model", precision=precision)
    loaded = Captioner.load(tmp_path / "model")
    assert loaded.settings.loss.attention_penalty_weight == 0.25, "numbers of numpy are saved too"
    for weight, other in zip(captioner.trainable_variables, loaded.trainable_variables):
        np.testing.assert_allclose(other.numpy(), weight.numpy(), atol=0.01)


def test_grid_shapes():
    for regions, grid in ((196, (14, 14)), (7, (1, 7)), (1, (1, 1))):
        captioner = Captioner(["dog"], encoder=None, **SMALL)
        captioner.build(((None, regions, 8), (None, None)))
        assert captioner.rows_and_columns() == grid


@pytest.mark.usefixtures("without_graphs")
def test_the_grid_shape_is_kept(tmp_path):
    images = keras.Input((32, 24, 3))
    captioner = Captioner(
        ["dog"], encoder=keras.Model(images, keras.layers.Conv2D(6, 8, strides=8)(images)), **SMALL
    )
    captioner.build(((None, 32, 24, 3), (None, None)))
    captioner.save(tmp_path / "model")
    loaded = Captioner.load(tmp_path / "model")
    assert loaded.rows_and_columns() == captioner.rows_and_columns() == (4, 3)
    assert loaded.current_options() == captioner.current_options()
    for_features = Captioner(["dog"], encoder=None, grid_shape=(6, 2), **SMALL)
    assert for_features.caption_features(np.zeros((1, 12, 6)))[0].attention_weights.shape[1:] == (
        6,
        2,
    )
    with pytest.raises(ValueError, match=r"must have 10 regions.* Received: grid_shape=\(6, 2\)"):
        Captioner(["dog"], encoder=None, grid_shape=(6, 2), **SMALL).caption_features(
            np.zeros((1, 10, 6))
        )


@pytest.mark.parametrize(
    "options, expected",
    [
        ({}, "soft attention before reading the last word, additive scoring, no encoder, LSTM of"),
        (
            {"attention": "hard", "attends": "after", "scoring": "bilinear", "sentinel": True},
            "hard attention after reading the last word, bilinear scoring with a sentinel, no",
        ),
        (
            {"attention": "none", "cell": "gru", "num_layers": 2, "encoder": "tiny"},
            "no attention, encoder tiny (scratch), 2 x GRU of",
        ),
    ],
)
def test_a_captioner_says_in_one_line_what_it_is_made_of(options, expected, capsys):
    captioner = Captioner(["dog"], **{"encoder": None, **SMALL, **options})
    assert captioner.description().startswith(expected)
    captioner.build(((None, 64, 64, 3) if options.get("encoder") else (None, 4, 6), (None, None)))
    captioner.summary()
    first, *table = capsys.readouterr().out.splitlines()
    assert first == f"captioner: {captioner.description()}"
    assert any("adapter" in line for line in table), "the table of Keras"
    lines = []
    captioner.summary(print_fn=lines.append)
    assert lines[0] == first and not capsys.readouterr().out


@pytest.mark.parametrize(
    "options, message",
    [
        ({"encoder": "vgg99"}, "Received: encoder='vgg99'"),
        (
            {"encoder": keras.Sequential([keras.layers.Conv2D(3, 2)])},
            "starts with keras.Input.*Received: input_shape=",
        ),
        ({"num_samples": 2.5}, "num_samples=2.5"),
        ({"hiden_dim": 5}, "no such option.*hidden_dim.*Received: hiden_dim"),
        ({"attention_penalty_weight": -1}, "at least 0. Received: attention_penalty_weight=-1"),
        ({"attention": "gentle"}, "Received: attention='gentle'"),
    ],
)
def test_impossible_options(options, message):
    with pytest.raises(ValueError, match=message):
        Captioner(["dog"], **{"encoder": None, **options})


def test_impossible_requests(eight, tmp_path):
    captioner = compiled_captioner(eight[1])
    features = eight[2].features(["0"])
    with pytest.raises(ValueError, match=r"attention='soft'.*sample_attention=True"):
        captioner.caption_features(features, sample_attention=True)
    with pytest.raises(ValueError, match=r"num_results=4, num_beams=3"):
        captioner.caption_features(features, num_beams=3, num_results=4)
    assert len(captioner.caption_features(features, num_results=4)[0].alternatives) == 3, (
        "as many beams as that"
    )
    assert captioner.caption_features(features, num_beams=np.int64(1), temperature=np.float32(0.5))
    with pytest.raises(ValueError, match=r"only one of them. .*temperature=1.0, num_beams=2"):
        captioner.caption_features(features, temperature=1.0, num_beams=2)
    with pytest.raises(ValueError, match=r"accepts only features.*Received: encoder=None"):
        captioner.caption(eight[0][0].image_path)
    with pytest.raises(
        ValueError, match=r"\(photos, 4, 24\). Received: features.shape=\(1, 4, 5\)"
    ):
        captioner.caption_features(features[:, :, :5])
    with pytest.raises(
        ValueError, match=r"Expected batches made by make_batches.*Received: x of type"
    ):
        captioner.fit(eight[0])
    with pytest.raises(ValueError, match=r"Received: validation_data of type list"):
        captioner.fit(make_batches(*eight), validation_data=eight[0])
    with pytest.raises(ValueError, match=r"photos of 16 x 16 pixels.*same image_size .*32 x 32"):
        own = Captioner(eight[1], encoder=small_encoder(), **SMALL)
        own.fit(make_batches(*eight[:2], image_size=32))
    with pytest.raises(ValueError, match=r"own loss and metrics"):
        captioner.compile(loss="mse")
    with pytest.raises(ValueError, match=r"nothing to save"):
        Captioner(["dog"], encoder=None).save(tmp_path)
    with pytest.raises(ValueError, match=r"Expected a Vocabulary.*Received: vocabulary="):
        Captioner("a dog runs", encoder=None)
    for _ in range(2):
        captioner.save(tmp_path / "model")
    with pytest.raises(ValueError, match="There is a model already"):
        captioner.save(tmp_path / "model", overwrite=False)


@pytest.mark.usefixtures("without_graphs")
def test_what_runs_is_the_method_that_the_class_shows():
    """No function is put over another's name, by a class or later on its instances."""
    options = {"hidden_dim": 4, "attention_dim": 256, "attends": "after", "sentinel": True}
    captioner = Captioner(["a", "dog"], encoder=None, **options)
    captioner.build(((None, 196, 3), (None, None)))
    captioner.compile()
    captioner.caption_features(np.ones((1, 196, 3), "float32"), max_length=2)
    assert captioner.decoder.attention_layer.score_method == "fused"
    # Keras lists the layers inside layers under a private name only.
    for part in (captioner, *captioner._flatten_layers()):
        for of_class in type(part).__mro__:
            if not of_class.__module__.startswith("keras_sat."):
                continue
            methods = {name: x for name, x in vars(of_class).items() if inspect.isfunction(x)}
            assert {name: method.__name__ for name, method in methods.items()} == {
                name: name for name in methods
            }
            # Keras itself wraps `build`.
            assert not methods.keys() & vars(part).keys() - {"build"}


def test_weights_of_another_model_are_rejected(eight, tmp_path):
    captioner = compiled_captioner(eight[1])
    captioner.save(tmp_path / "model")
    settings, vocabulary, arrays = read_model(tmp_path / "model")
    for name, array in (
        ("baseline", None),
        ("surplus", np.ones(3)),
        (next(iter(arrays)), np.ones((9, 3))),
    ):
        changed = {
            n: values for n, values in (arrays | {name: array}).items() if values is not None
        }
        write_model(tmp_path / "model", settings, vocabulary, changed)
        with pytest.raises(ValueError, match=f"the weights do not fit the model.* for {name}"):
            Captioner.load(tmp_path / "model")
    arrays["baseline"] = np.array(np.nan, np.float32)
    write_model(tmp_path / "model", settings, vocabulary, arrays)
    with pytest.raises(ValueError, match=r"weights-.*npz: baseline contains NaN"):
        Captioner.load(tmp_path / "model")


def test_an_adapted_captioner_keeps_all_trained_weights(eight):
    before = compiled_captioner(eight[1], feature_projection_dim=24)  # as long as the features are
    with pytest.raises(
        ValueError, match="the shapes of trained weights.*feature_projection_dim=None"
    ):
        before.adapted(feature_projection_dim=None)


def test_an_adapted_captioner_goes_on_with_its_words(eight):
    _, vocabulary, cache = eight
    before = compiled_captioner(vocabulary)
    words = [*reversed(vocabulary.words), "zebra"]
    after = before.adapted(Vocabulary(words), attention="hard", dropout_after_readout=0.1)
    assert (
        after.vocabulary.words == words
        and after.samples_regions
        and after.decoder.settings.dropout_after_readout == 0.1
    )
    features = cache.features(["0"])
    logits = [
        model((features, np.array([[1, *model.vocabulary.caption_to_ids(CAPTIONS[0])]]))).logits[0]
        for model in (before, after)
    ]
    same = [after.vocabulary.tokens.index(token) for token in vocabulary.tokens]
    np.testing.assert_allclose(np.array(logits[1])[:, same], logits[0], atol=1e-6)
    assert before.adapted().weights_digest() == before.weights_digest() != after.weights_digest()


def test_weights_are_restored_in_place(eight, tmp_path):
    _, vocabulary, _ = eight
    captioner, other = compiled_captioner(vocabulary), compiled_captioner(vocabulary)
    captioner.save(tmp_path / "model")
    assert other.weights_digest() != captioner.weights_digest()
    other.restore_weights(tmp_path / "model")
    assert other.weights_digest() == captioner.weights_digest()
    with pytest.raises(ValueError, match="different vocabulary"):
        compiled_captioner(Vocabulary(["a"])).restore_weights(tmp_path / "model")
