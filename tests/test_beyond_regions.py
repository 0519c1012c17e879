"""Regions: what is hidden is as good as absent, and phrases for regions in batches, in
the objective, and in `fit`.
"""

import json

import numpy as np
import pytest
from helpers import NO_DROPOUT, WORDS, make_captioner, numbers, write_photos

import keras_sat
from data_utils import CaptionedImage, Vocabulary, make_batches
from data_utils.batches import inputs_and_targets
from data_utils.datasets.phrase_boxes import Boxes, Phrase
from data_utils.vocabulary import REGION_TOKEN
from keras_sat import Captioner
from keras_sat.__main__ import main
from keras_sat.accelerated import fused
from keras_sat.accelerated.switch import without_fast_twins

VISIBLE = np.array([[1, 1, 0, 1, 0, 0], [0, 0, 0, 1, 1, 1]], bool)
CAPTIONS = (
    np.array([[1, 4, 5], [1, 4, 6]]),
    np.array([[4, 5, 2], [4, 6, 2]]),
    np.ones((2, 3), "float32"),
)
AFTER = {"attends": "after", "sentinel": True, "scoring": "bilinear"}


@pytest.mark.parametrize(
    "options", [{}, AFTER, {"attention": "hard", "cell": "gru"}, {"attention": "none"}]
)
def test_what_is_hidden_is_as_good_as_absent(options):
    captioner, features = make_captioner(shape=(6, 3), **options), numbers(2, 6, 3)
    found = captioner.read(features, *CAPTIONS, visible=VISIBLE)
    alone = captioner.read(features[VISIBLE].reshape(2, 3, 3), *CAPTIONS)
    np.testing.assert_allclose(found.log_probs, alone.log_probs, rtol=1e-5)
    maps = np.asarray(found.attention_weights).swapaxes(1, 2)  # regions come second
    np.testing.assert_allclose(
        maps[VISIBLE].reshape(2, 3, 3), np.swapaxes(alone.attention_weights, 1, 2), rtol=1e-5
    )
    assert not maps[~VISIBLE].any()
    changed = np.where(VISIBLE[:, :, None], features, np.nan)
    again = captioner.read(changed, *CAPTIONS, visible=VISIBLE)
    np.testing.assert_array_equal(again.log_probs, found.log_probs)
    np.testing.assert_array_equal(again.attention_weights, found.attention_weights)
    every = captioner.read(features, *CAPTIONS, visible=np.ones((2, 6), bool))
    np.testing.assert_allclose(
        every.log_probs, captioner.read(features, *CAPTIONS).log_probs, rtol=1e-5
    )


def test_fast_scores_hide_the_same(monkeypatch):
    monkeypatch.setattr(fused, "SMALL", 1)
    captioner, features = make_captioner(shape=(6, 3), attention_dim=64), numbers(2, 6, 3)
    assert captioner.decoder.attention_layer.score_method == "fused"
    assert isinstance(captioner.decoder.project_features(features), fused.Projected)
    found = captioner.read(features, *CAPTIONS, visible=VISIBLE)
    with without_fast_twins():
        plain = captioner.read(features, *CAPTIONS, visible=VISIBLE)
    np.testing.assert_allclose(found.log_probs, plain.log_probs, rtol=1e-5)


def test_the_first_state_is_made_from_the_visible_mean():
    captioner, features = make_captioner(shape=(6, 3)), numbers(2, 6, 3)
    shown, _ = captioner.decoder.reveal(features, VISIBLE)
    f_init = [weight.numpy() for weight in captioner.decoder.initial_hidden.weights]
    means = np.stack([photo[visible].mean(axis=0) for photo, visible in zip(features, VISIBLE)])
    (hidden,) = captioner.decoder.initial_state(shown).hidden_states
    np.testing.assert_allclose(hidden, np.tanh(means @ f_init[0] + f_init[1]), rtol=1e-5)


def test_a_search_starts_a_phrase_and_never_says_its_start():
    captioner, features = make_captioner(shape=(6, 3), region_weight=1.0), numbers(2, 6, 3)
    region = captioner.vocabulary.region_token_id
    assert (
        captioner.vocabulary.tokens[region] == REGION_TOKEN
        and region == len(captioner.vocabulary) - 1
    )
    decoder, end = captioner.decoder, captioner.vocabulary.end_token_id
    # What it would like to say.
    decoder.readout.word_logits.bias.assign(np.eye(len(captioner.vocabulary))[region] * 9)
    for visible in (None, VISIBLE):
        found = captioner.search(features, visible=visible, max_length=4, num_beams=2)
        token_ids = np.asarray(found.token_ids)[:, 0]
        assert not np.isin(token_ids, [captioner.vocabulary.start_token_id, region]).any()
        inputs, targets, _ = inputs_and_targets(
            [row[row > end].tolist() for row in token_ids], captioner.vocabulary
        )
        inputs[:, 0] = captioner.vocabulary.start_token_id if visible is None else region
        # `<end>` too, unless it was cut off
        is_word = np.arange(inputs.shape[1]) < np.asarray(found.lengths)
        read = captioner.read(features, inputs, targets, is_word.astype("float32"), visible=visible)
        log_probs = np.asarray(read.unpack_words(read.log_probs)).sum(axis=1)
        np.testing.assert_allclose(log_probs, np.asarray(found.log_probs)[:, 0], rtol=1e-4)


@pytest.mark.slow
def test_region_of_a_picture():
    captioner, picture = Captioner.from_pretrained("scenes"), np.full((64, 64, 3), 240, "uint8")
    picture[40:56, 40:56] = (200, 30, 30)
    left, right, whole = (0.0, 0.0, 0.5, 1.0), (0.5, 0.5, 1.0, 1.0), captioner.caption(picture)
    one = captioner.caption(picture, region=right)
    assert one.region == right and "red square" in one.caption and whole.region is None
    assert not one.attention_weights[:, :8].any()
    several = captioner.caption(picture, region=right, num_results=3)
    described = [one, several, *several.alternatives]
    assert {other.region for other in described} == {right}
    assert whole.confidence is not None
    assert {other.confidence for other in described} == {None}, "it is fitted on whole photos"
    with pytest.raises(ValueError, match="A region must be"):
        captioner.caption(picture, region=[])
    with pytest.raises(ValueError, match="no grid until it is built"):
        keras_sat.Captioner(["dog"], encoder="tiny").caption(picture, region=right)
    both = captioner.caption([picture, picture], region=[left, right])
    assert [len(results) for results in both] == [2, 2] and both[0][1].caption == both[1][
        1
    ].caption == one.caption
    pair = keras_sat.Ensemble([captioner, captioner]).caption(picture, region=right)
    assert pair.caption == one.caption and not pair.attention_weights[:, :8].any()
    with pytest.warns(UserWarning, match="less than half of any cell"):
        tiny = captioner.caption(picture, region=(0.7, 0.7, 0.71, 0.71))
    assert tiny.attention_weights[0].max() == 1  # one cell


def test_the_command_line_takes_regions(tmp_path, capsys):
    write_photos(tmp_path, ["a.png"])
    command = ["caption", str(tmp_path / "a.png"), "--model", "scenes"]
    assert main([*command, "--json", "--region", ".5,0,1,1", "--region", "0,0,.5,1"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["region"] for line in lines] == [[0.5, 0, 1, 1], [0, 0, 0.5, 1]]
    assert not any("confidence" in line for line in lines)
    assert main([*command, "--region", "0,0,.5,1", "--min-confidence", ".5"]) == 2
    assert "--min-confidence cannot be combined with --region" in capsys.readouterr().err
    drawn = ["--region", "0,0,.5,1", "--plot", str(tmp_path / "drawn.png")]
    for options in (["0,0,2,1"], ["a,b"], ["0,0,nan,1"], [".5,0,1,1", *drawn]):
        assert main([*command, "--region", *options]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and (
            "A region must be a rectangle" in error or "pass one --region" in error
        )


def described_images():
    images = [
        CaptionedImage(name, np.zeros((8, 8, 3), "uint8"), ["a red dog", "cat in"], "train")
        for name in "ab"
    ]
    right = ((0.5, 0.0, 1.0, 1.0),)
    phrases = [
        Phrase(0, 0, 3, right),
        Phrase(1, 0, 1, ((0.0, 0.0, 0.5, 1.0),)),
        Phrase(1, 1, 1, right),
    ]
    return images, Boxes({"a": phrases})


def batches_with_phrases(num_views=1, **options):
    images, boxes = described_images()
    options |= {"image_size": 8, "group_by": "image", "boxes": boxes, "grid_shape": (2, 2)}
    options |= {"num_phrases": 3, "shuffle": False}
    return make_batches(images, Vocabulary(WORDS), num_views=num_views, **options)


def test_batches_have_phrases_and_what_is_visible():
    (_, _, _, phrase_ids, visible), *_ = next(iter(batches_with_phrases()))
    assert phrase_ids.shape == (2, 3, 4) and visible.shape == (2, 3, 4)
    described = {
        tuple(words): shown.tolist()
        for words, shown in zip(phrase_ids[0].numpy(), visible[0].numpy())
    }
    red_dog, cat, none = (4, 7, 5, 2), (6, 2, 0, 0), (0, 0, 0, 0)
    assert described == {
        red_dog: [False, True] * 2,
        cat: [True, False] * 2,
        none: [True] * 4,
    }  # no "in"
    assert not phrase_ids[1].numpy().any() and visible[1].numpy().all()  # this photo has no boxes
    with pytest.raises(ValueError, match="`num_phrases` requires both"):
        make_batches(described_images()[0], Vocabulary(WORDS), image_size=8, num_phrases=1)


def test_phrases_follow_the_view_and_the_seed():
    def phrases(epoch=0, **options):
        batches = batches_with_phrases(num_views=2, **options)
        (_, _, _, phrase_ids, visible), *_ = [next(iter(batches)) for _ in range(epoch + 1)][-1]
        return dict(zip(map(tuple, phrase_ids[0].numpy()), visible[0].numpy().tolist()))

    seen = [phrases(seed=seed) for seed in range(8)]
    assert {tuple(found[(4, 7, 5, 2)]) for found in seen} == {
        (False, True) * 2,
        (True, False) * 2,
    }  # mirrored
    assert phrases(epoch=2) == phrases(first_epoch=2) and phrases(seed=3) == seen[3]
    assert phrases(seed=3, shares=([0, 1], 2)).items() <= seen[3].items()


@pytest.mark.parametrize("attention, num_samples", [("soft", 1), ("hard", 2)])
def test_the_objective_adds_the_cross_entropy_of_phrases(attention, num_samples):
    (_, input_ids, *extra), targets, weights = next(iter(batches_with_phrases()))
    features, options = numbers(2, 4, 3), {"attention": attention, "num_samples": num_samples}
    captioner = make_captioner(region_weight=0.5, **NO_DROPOUT, **options)
    region = captioner.vocabulary.region_token_id
    (term,) = captioner.paper_objective.terms
    captions = [
        np.repeat(x.numpy().reshape(4, -1), num_samples, axis=0)
        for x in (input_ids, targets, weights)
    ]
    costs, figures = term(features, captions[1], captioner.read(features, *captions), extra)
    expected = 0.0
    for words, shown in zip(extra[1][0].numpy(), extra[2][0].numpy()):
        words = [[*filter(None, words.tolist())]]
        if words[0]:
            alone = (
                features[:1][:, shown],
                [[region, *words[0][:-1]]],
                words,
                np.ones((1, len(words[0])), "float32"),
            )
            expected -= float(np.sum(captioner.read(*map(np.array, alone)).log_probs))
    assert float(np.sum(costs)) / num_samples == pytest.approx(0.5 * expected, rel=1e-4)
    values, is_word = figures["phrase_cross_entropy"]
    assert float(np.sum(values * is_word)) == pytest.approx(expected, rel=1e-4)
    captioner.compile("sgd")
    captioner.train_step(((features, input_ids, *extra), targets, weights))
    assert (
        "phrase_cross_entropy"
        not in captioner.objective(((features, input_ids), targets, weights), True).figures
    )


def test_the_first_word_of_phrases_starts_from_that_of_captions():
    plain = make_captioner()
    adapted = plain.adapted(region_weight=1.0)
    before, after = (
        captioner.decoder.embedding.embeddings.numpy() for captioner in (plain, adapted)
    )
    np.testing.assert_array_equal(after, np.concatenate([before, before[1:2]]))
    assert adapted.adapted().vocabulary == adapted.vocabulary  # kept without region_weight


@pytest.mark.slow
def test_fit_trains_phrases_with_words_and_with_rewards(scene_images, tmp_path):
    images = [image for image in scene_images if image.split == "train"][:6]
    images += [image for image in scene_images if image.split == "dev"][:2]
    boxes = Boxes({image.image_id: [Phrase(0, 0, 4, ((0.0, 0.0, 0.5, 1.0),))] for image in images})
    options = {
        "encoder": "tiny",
        "embedding_dim": 4,
        "hidden_dim": 8,
        "attention_dim": 4,
        "batch_size": 20,
    }
    options |= {
        "group_by": "image",
        "region_weight": 0.5,
        "boxes": boxes,
        "epochs": 1,
        "show_progress": False,
    }
    options |= {"num_views": 2, "self_critical_epochs": 1}
    captioner = keras_sat.fit(images, output_dir=tmp_path / "run", **options)
    assert len(captioner.history["phrase_cross_entropy"]) == 2 and "reward" in captioner.history
    loaded = Captioner.load(tmp_path / "run" / "self_critical" / "model")
    assert loaded.vocabulary.region_token_id == captioner.vocabulary.region_token_id
    with pytest.raises(ValueError, match="`boxes` and .*`region_weight` require each other"):
        keras_sat.fit(images, output_dir=tmp_path / "no", **{**options, "boxes": None})
