"""The benchmarks: that they count and compare what they say.

None of these measures how fast anything is.
"""

import json
import re
import shutil
from types import SimpleNamespace

import bench
import blend
import bundle
import bundle_imagenet
import fast_twins
import keras
import limits
import memory
import numpy as np
import own_words
import pytest
import same
import seeds
import tensorflow as tf
import timing
import where_time_goes
from drawn_data_set import write_data_set
from helpers import NO_DROPOUT, ROOT, make_captioner, torch_arrays, write_photos
from mistakes import count_mistakes
from other_photos import LIST, measure, untrue_nouns
from spread import spread
from timing import Seconds, compare, figure, in_turn, ratio_in_words

from data_utils import DATASETS, CaptionedImage, Vocabulary, draw_scenes, load_image
from keras_sat import Captioner, ScoreTable
from keras_sat.export.litert_graph import GRAPH
from keras_sat.files import model_folder
from keras_sat.network import encoder_weights
from keras_sat.network.efficientnet_lite import assign_torch_weights, efficientnet_lite
from keras_sat.search import CaptionResult


def test_the_least_arithmetic_counts_every_product_of_the_decoder():
    dims = {"attention_dim": 4, "embedding_dim": 3, "hidden_dim": 2}
    sizes = limits.Sizes(regions=6, feature_dim=5, vocabulary=7, **dims)
    captioner = make_captioner(["a", "dog", "runs"], shape=(6, 5), **dims)
    photos, steps, beams = 2, 3, 4
    weights = {
        weight.path.split("decoder/")[-1]: np.prod(weight.shape)
        for weight in captioner.decoder.weights
    }
    flops, read = 2 * photos * steps * beams * 6 * 5, 0  # the context
    for name, numbers in weights.items():
        if "bias" in name or "embeddings" in name:
            continue  # added or looked up
        rows = (
            photos
            if name.startswith("initial")
            else photos * 6
            if "feature_projection" in name
            else None
        )
        read += numbers * (rows is None and "gate" not in name and "score_vector" not in name)
        flops += (
            2 * numbers * (rows or photos * steps * beams * (6 if "score_vector" in name else 1))
        )
    assert limits.caption_work(sizes, photos, steps, beams).flops == flops
    assert limits.weights_of_a_word(sizes) == read
    forward = limits.caption_work(sizes, photos, steps, 1).flops
    train = limits.train_work(sizes, photos, photos * steps).flops
    no_gradient_of_features = (
        2 * photos * 6 * 5 * 4 + 2 * 2 * photos * 5 * 2 + 2 * photos * steps * 6 * 5
    )
    assert train == 3 * forward - no_gradient_of_features
    assert limits.caption_work(sizes, 1, 1, 1).evaluations == 6 * 4 + 6 + 1 + 5 * 2 + 7 + 2 * 2
    assert limits.Work(10.0, 20.0).seconds({"flops": 5.0, "evaluations": 10.0}) == 4.0


def test_functions_take_turns_and_a_ratio_is_that_of_medians_with_half_its_range():
    calls = []
    measured = in_turn(lambda: calls.append("a"), lambda: calls.append("b"), num_rounds=3)
    assert calls == ["a", "b"] * 4 and [len(one.rounds) for one in measured] == [3, 3]
    own, theirs = Seconds([1.0, 2.0, 1.5]), Seconds([3.0, 5.0, 4.5])
    result = figure(1.0, "photos/s")
    compare(result, "peer", own, theirs, their_share=0.5)
    assert result["ratios"]["peer"] == 6.0 and result["spreads"]["peer"] == pytest.approx(
        (3.0 - 2.5) / 2 / 3.0
    )
    assert ratio_in_words("peer", result) == "6.00 x peer (± 8%)"


def test_a_rate_is_that_of_the_fastest_kernel_in_the_rounds_of_the_functions(monkeypatch):
    calls = []

    def kernel(name, took, amount):
        return lambda: (lambda: calls.append(name) or took, amount)

    kernels = {
        "flops": [kernel("large", 2.0, 10.0), kernel("small", 1.0, 8.0)],
        "evaluations": [kernel("tanh", 4.0, 12.0)],
        "bytes_read": [kernel("read", 1.0, 1.0)],
    }
    monkeypatch.setattr(timing, "KERNELS", kernels)
    monkeypatch.setattr(timing, "seconds", lambda function: function())
    rates, (own,) = timing.in_turn_with_rates(
        ["flops", "evaluations"], lambda: calls.append("own") or 3.0
    )
    assert rates == {"flops": 8.0, "evaluations": 3.0} and own == 3.0
    assert calls == ["own", "large", "small", "tanh"] * (1 + timing.NUM_ROUNDS)


@pytest.mark.parametrize(
    "kernel, amount",
    [
        (lambda: timing.product(2, 3, 4, number=5), 5 * 2 * 2 * 3 * 4),
        (lambda: timing.convolution(4, 2), 2 * 16 * 4 * 4 * 3 * 3 * 2 * 2),
        (lambda: timing.fused_scores(2, 3, regions=8, dim=16), 5 * 2 * 3 * 8 * 16),
        (lambda: timing.reading(1024), 5 * 1024),
    ],
)
def test_a_kernel_counts_what_it_does(kernel, amount):
    run, counted = kernel()
    run()
    assert counted == amount


def test_the_profile_counts_what_an_operation_takes_by_itself():
    spans = {
        "outer": (0, 100),
        "first": (10, 20),
        "inmost": (12, 5),
        "second": (40, 30),
        "after": (100, 7),
    }
    events = [
        SimpleNamespace(name=name, offset_ps=start, duration_ps=long)
        for name, (start, long) in spans.items()
    ]
    own = {event.name: picoseconds for event, picoseconds in where_time_goes.own_durations(events)}
    assert own == {"outer": 50, "first": 15, "inmost": 5, "second": 30, "after": 7}
    assert (
        where_time_goes.kind_of("while/body/_#/context_projection_#/MatMul")
        == "products in the loop"
    )


# === The peers do the same work ===


@pytest.fixture
def peers():
    pytest.importorskip("torch", reason="the peers need PyTorch: pip install -e '.[bench]'")
    import peers

    return peers


@pytest.fixture
def trio(peers):
    """Our captioner, the textbook's decoder and the careful one with its weights,
    without dropout.
    """
    keras.utils.set_random_seed(2)
    sizes = {"embedding_dim": 6, "hidden_dim": 8, "attention_dim": 7}
    words = [f"w{i}" for i in range(16)]
    captioner = make_captioner(words, shape=(9, 5), **sizes, **NO_DROPOUT)
    for weight in captioner.decoder.weights:
        weight.assign(np.random.default_rng(len(weight.path)).normal(scale=0.6, size=weight.shape))
    decoders = (
        kind(20, feature_dim=5, **sizes) for kind in (peers.TextbookDecoder, peers.CarefulDecoder)
    )
    return captioner, *(
        peers.copy_weights(captioner.decoder, decoder).eval() for decoder in decoders
    )


@pytest.mark.slow
def test_the_peers_train_on_the_same_loss(trio, peers):
    captioner, *decoders = trio
    random = np.random.default_rng(0)
    weights = (np.arange(4) < np.array([[4, 2], [3, 0]])[..., None]).astype("float32")
    input_ids, target_ids = random.integers(4, 20, (2, 2, 2, 4)).astype("int32")
    batch = tf.nest.map_structure(
        tf.constant, ((random.random((2, 9, 5), "float32"), input_ids), target_ids, weights)
    )
    with tf.GradientTape() as tape:
        mean = captioner.objective(batch, training=False).mean
    expected = tape.gradient(mean, captioner.decoder.readout.word_logits.kernel.value).numpy()
    for peer in decoders:
        optimizer = peers.torch.optim.SGD(peer.parameters(), lr=1e-3)
        loss = peers.train_step(
            peer,
            optimizer,
            peers.as_peer_batch(batch),
            captioner.settings.loss.attention_penalty_weight,
        )
        assert loss == pytest.approx(float(mean), rel=1e-5)
        assert all(weight.grad.abs().max() > 0 for weight in peer.parameters())
        found = peer.word_logits.weight.grad.numpy().T
        # 1, or more where gradients were clipped
        scale = np.abs(expected).max() / np.abs(found).max()
        assert scale >= 0.999
        np.testing.assert_allclose(scale * found, expected, atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("beams", [1, 3])
def test_the_peers_find_the_same_captions(trio, peers, beams):
    captioner, textbook, careful = trio
    features = np.random.default_rng(1).random((6, 9, 5), "float32")
    of_peers = peers.torch.tensor(features)
    special = {"max_length": 7, "start_token_id": 1, "end_token_id": 2, "never": [0, 1, 3]}
    ours = captioner.caption_features(features, num_beams=beams, max_length=7)
    ours = [captioner.vocabulary.caption_to_ids(result.caption) for result in ours]
    assert careful.search(of_peers, beams, **special) == ours
    found = [textbook.search(photo[None], beams, **special)[0] for photo in of_peers]
    # The textbook's beams shrink when one has ended; most captions are the same all the
    # same.
    assert sum(one == other for one, other in zip(ours, found)) >= (6 if beams == 1 else 3)


@pytest.mark.slow
def test_the_peers_vgg16_has_block5(peers):
    encoder = peers.VGG16()
    # As keras.applications counts it.
    assert sum(weight.numel() for weight in encoder.parameters()) == 14_714_688
    assert encoder(peers.torch.zeros(1, 3, 32, 32)).shape == (1, 512, 2, 2)


# === What is written ===


def test_the_recorded_results_have_every_figure():
    results = json.loads((bench.HERE / "results.json").read_text())
    assert list(results["figures"]) == list(bench.FIGURES)
    assert {"pytorch_loop", "pytorch_vgg16"} <= {
        peer for one in results["figures"].values() for peer in one["ratios"]
    }
    for name, one in results["figures"].items():
        assert {"value", "unit", "share_of_limit", "ratios"} <= one.keys() and one["value"] > 0, (
            name
        )
        assert one["spreads"].keys() == one["ratios"].keys()
        rates = {"flops", "flops_of_convolutions", "flops_bfloat16", "evaluations", "bytes_read"}
        assert rates <= one["rates"].keys()
        assert (one["share_of_limit"] or 0) <= 1, name
    assert {"cores", "python", "tensorflow", "keras", "torch"} <= results["machine"].keys()


def test_scale_quotes_the_recorded_results():
    figures = json.loads((bench.HERE / "results.json").read_text())["figures"]
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    quoted = re.findall(r"\(`(\w+)`\) \| ([\d.,]+) \|", page)
    assert len(quoted) >= 5
    for name, number in quoted:
        assert float(number.replace(",", "")) == float(f"{figures[name]['value']:.3g}"), name


def test_a_figure_is_measured_printed_and_kept(monkeypatch, tmp_path, capsys):
    (tmp_path / "results.json").write_text(json.dumps({"figures": {"batches": {"value": 1.0}}}))
    one = figure(2.0, "photos/s", 0.5) | {
        "ratios": {"pytorch_loop": 3.0},
        "spreads": {"pytorch_loop": 0.1},
    }
    monkeypatch.setattr(bench, "measured_rates", lambda: {"flops": 1.0})
    monkeypatch.setattr(bench, "set_up", lambda: None)
    monkeypatch.setitem(
        bench.FIGURES, "train_soft", lambda its_bench: one | {"unit": f"{its_bench.batch_size}"}
    )
    bench.main(["train_soft", "--batch-size", "8", "--results", f"{tmp_path}/results.json"])
    assert "3.00 x pytorch_loop" in capsys.readouterr().out
    expected = {
        "train_soft": one | {"unit": "8", "rates": {"flops": 1.0}},
        "batches": {"value": 1.0},
    }
    assert json.loads((tmp_path / "results.json").read_text())["figures"] == expected
    with pytest.raises(SystemExit):
        bench.main(["speed"])
    assert "Received: speed" in capsys.readouterr().err


def test_a_sparse_cache_reads_as_any_other(tmp_path):
    cache = memory.sparse_cache(tmp_path / "sparse", [f"photo{n}" for n in range(5000)])
    assert len(cache.image_ids) == 5000 and not cache.features(["photo4999"]).any()
    size = (cache.directory / "features.npy").stat()
    assert size.st_size > 1e9 and size.st_blocks * 512 < 1e7


# Flickr30k's folder has a photo without captions, as the real one has
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "data, fraction, counts",
    [("flickr30k", 0.001, (29, 1, 1)), ("coco", 0.0002, (23, 1, 1))],
)
def test_drawn_folders_are_read_like_the_real_ones(tmp_path, data, fraction, counts):
    write_data_set(data, tmp_path, fraction=fraction)
    images = DATASETS[data](tmp_path)
    assert (
        tuple(sum(image.split == split for image in images) for split in ("train", "dev", "test"))
        == counts
    )
    assert all(len(image.captions) == 5 for image in images)
    assert load_image(images[0].image_path).shape == (375, 500, 3)


# === Flickr8k ===


def test_mistakes_are_counted_word_by_word_and_how_much_maps_say():
    captions = [["a", "red", "dog"], ["a", "red", "cat"], ["a", "cat"]]
    references = [[["red", "dog"], ["dog"]], [["a", "dog"], ["dogs"]], [["cat"], ["cat"]]]
    expected = {"red": (2, 1, 0, 0), "dog": (1, 1, 1, 1), "cat": (2, 1, 1, 1)}
    assert count_mistakes(captions, references, list(expected)) == expected
    even, sharp = np.full((2, 2), 0.25), np.array([[0.0, 1.0], [0.0, 0.0]])
    np.testing.assert_allclose(spread(np.array([even, sharp])), [np.log(4) / 2, np.log(4), 0.5])


def test_seeds_become_one_row(tmp_path, capsys):
    for number, score in enumerate((0.2, 0.21, 0.25)):
        scores = {
            "bleu_1": 0.6,
            "bleu_4": score,
            "cider": 2 * score,
            "rouge_l": 0.5,
            "meteor": None,
            "meteor_kind": "",
        }
        counts = [
            "photos",
            "distinct_captions",
            "vocabulary_used",
            "empty_captions",
            "seen_in_training",
        ]
        photos = {"bleu_counts": [[0] * 10], "rouge_l": [0.5], "cider": [0.5], "meteor": None}
        table = ScoreTable(
            scores, {}, [{"image_id": "1", "caption": "a dog"}], dict.fromkeys(counts, 10), photos
        )
        table.to_json(tmp_path / f"soft-{number}.json")
    seeds.main([f"soft={tmp_path}/soft-*.json"])
    row = capsys.readouterr().out.splitlines()[-1]
    assert (
        row == "| soft | 60.0 ± 0.0 |  |  | 22.0 ± 2.6 |  | 50.0 ± 0.0 | 0.440 ± 0.053 | 10 | "
        "10 | 0 | 0 |"
    )
    endings = [
        seeds.bad_ending(text.split())
        for text in ("dogs play with a", "a man in red in red", "a red dog", "")
    ]
    assert endings == ["breaks off", "repeats", None, None]


def test_own_words_change_captions_and_are_counted(tmp_path):
    changed = own_words.in_own_words("Two men and a Dog on grass .")
    assert changed == "two gentlemen and a hound on lawn seen from my window"
    counts = own_words.words_used(["a hound and a dog", "hounds", "a dog", changed])
    assert counts["hound"] == {"places": 3, "used": 1} and counts["hounds"]["used"] == 1
    assert counts[own_words.ENDING] == {"places": 4, "used": 1}
    assert own_words.shares([counts["hound"], counts["hounds"]]) == 0.5
    assert own_words.shares([counts["gentleman"]]) is None
    write_photos(tmp_path / "flickr8k", ["0.jpg", "1.jpg"])
    photos = [
        CaptionedImage(str(n), str(tmp_path / "flickr8k" / f"{n}.jpg"), [changed], "dev")
        for n in range(2)
    ]
    own_words.write_folder(tmp_path / "own", photos)
    read = DATASETS["folder"](tmp_path / "own")
    assert [image.captions for image in read] == [[changed]] * 2


def test_own_photos_are_as_many_as_asked_for_and_the_others_stay_the_same(monkeypatch):
    photos = [CaptionedImage(str(n), "nowhere.jpg", ["a dog"], "dev") for n in range(1000)]
    monkeypatch.setattr(own_words, "read_data", lambda *_: photos)
    (all_own, others), (own, same) = (
        own_words.own_and_other_photos("flickr8k", number) for number in (300, 60)
    )
    assert own == all_own[:60] and len(own) == 60 and same == others and len(others) == 700


def test_a_clock_adds_up_the_seconds_of_several_starts(tmp_path):
    for _ in range(2):
        own_words.Clock(tmp_path / "seconds.json").on_epoch_end(0)
        total = json.loads((tmp_path / "seconds.json").read_text())
    clock = own_words.Clock(tmp_path / "seconds.json")
    assert clock.total == total and total["cpu"] >= 0 < total["wall"]


def test_a_blend_is_between_captioners_and_gets_the_encoder_of_one(tmp_path):
    captioners, folders, out = [], [str(tmp_path / "0"), str(tmp_path / "1")], str(tmp_path / "out")
    for seed, folder in enumerate(folders):
        options = {"encoder": "tiny", "image_size": 32, "hidden_dim": 5, "photo_blur": float(seed)}
        captioners.append(make_captioner(seed=seed, **options))
        captioners[-1].save(folder)
    first, second = captioners
    blend.main([out, f"{folders[0]}=.25", f"{folders[1]}=.75", "--encoder-from", folders[0]])
    blended = Captioner.load(out)
    assert (
        blended.settings.encoder.photo_blur
        == first.settings.encoder.photo_blur
        != second.settings.encoder.photo_blur
    )
    for weight, expected in zip(
        blended.encoder_model.weights, first.encoder_model.weights, strict=True
    ):
        np.testing.assert_allclose(weight, expected, atol=1e-6)
    for weight, *both in zip(
        *(captioner.decoder.get_weights() for captioner in (blended, first, second))
    ):
        np.testing.assert_allclose(
            weight, np.average(both, axis=0, weights=[0.25, 0.75]), rtol=1e-5, atol=1e-7
        )
    with pytest.raises(SystemExit, match="must add up to 1"):
        blend.main([out, f"{folders[0]}=.25"])


@pytest.mark.slow
def test_a_blend_has_one_encoder_and_the_grid_that_was_asked_for(tmp_path, without_graphs):
    options = {
        "encoder": "efficientnet_lite0",
        "encoder_weights": None,
        "image_size": 64,
        "hidden_dim": 5,
    }
    options |= {"encoder_layer": "block_7", "trained_up_to": "top", "feature_projection_dim": 6}
    captioner = Captioner(["a", "dog"], **options)
    captioner.build(((None, 16, 80), (None, None)))
    captioner.save(tmp_path / "parts")
    blend.main([str(tmp_path / "whole"), f"{tmp_path / 'parts'}=1", "--grid", "4x4"])
    whole, photo = (
        Captioner.load(tmp_path / "whole"),
        draw_scenes(1, seed=3, image_size=64)[0].image,
    )
    encoder = whole.settings.encoder
    assert (encoder.encoder_training, encoder.trained_up_to, encoder.encoder_layer) == (
        "fine-tuned",
        None,
        None,
    )
    one, other = whole.caption(photo), captioner.adapted(grid="4x4").caption(photo)
    assert one.attention_weights.shape[1:] == (4, 4)
    assert one.log_prob == pytest.approx(other.log_prob, rel=1e-5)


def test_bundled_captioners_share_equal_encoders(tmp_path, monkeypatch):
    bundled, encoders = tmp_path / "pretrained", tmp_path / "pretrained" / "encoders"
    for name, path in (("BUNDLED_MODELS", bundled), ("BUNDLED_ENCODERS", encoders)):
        monkeypatch.setattr(model_folder, name, path)
        monkeypatch.setattr(bundle, name, path)
    monkeypatch.setattr(bundle, "converted", lambda directory: (b"a network", None, None, None))
    saved = {}
    for name, value in (("one", 1.0), ("other", 2.0)):
        saved[name] = {
            "encoder/000/kernel": np.ones((8, 4), "float32"),
            "baseline": np.float32(value),
        }
        model_folder.write_model(
            tmp_path / name, {"captioner": {}}, Vocabulary(["dog"]), saved[name], "int8"
        )
        bundle.main([str(tmp_path / name), name])
    assert len(list(encoders.iterdir())) == 1 and (bundled / "one" / GRAPH).exists()
    bundle.main([str(model_folder.copy_of_model(bundled / "one", tmp_path / "again")), "again"])
    (bundled / "one" / GRAPH).unlink()
    bundle.main(["--graphs"])
    assert (bundled / "one" / GRAPH).exists()
    for name, expected in {**saved, "again": saved["one"]}.items():
        _, _, arrays = model_folder.read_model(bundled / name)
        assert arrays.keys() == expected.keys()
        for key, array in arrays.items():
            np.testing.assert_allclose(array, expected[key], rtol=1e-6)
    shutil.copytree(bundled / "one", tmp_path / "copy")
    with pytest.raises(ValueError, match="copy.encoder-.*: this file is missing"):
        # Only a bundled folder reads the encoders that bundled ones share.
        model_folder.read_model(tmp_path / "copy")


def test_imagenet_weights_are_put_into_the_package_in_16_bits(tmp_path, monkeypatch, capsys):
    for module in (bundle_imagenet, encoder_weights):
        monkeypatch.setattr(module, "IMAGENET", tmp_path / "imagenet")
    network = efficientnet_lite((224, 224, 3), 1.0, 1.0)
    arrays = torch_arrays(network, width=1.0, num_classes=2)
    np.savez(tmp_path / "lite0.npz", **arrays)
    for _ in range(2):
        bundle_imagenet.main([str(tmp_path / "lite0.npz")])
    (path,) = (tmp_path / "imagenet").iterdir()
    assert capsys.readouterr().out == f"{path}\n" * 2 and path.stat().st_size < 7_000_000
    assign_torch_weights(network, arrays)
    for expected, found in zip(
        network.get_weights(), encoder_weights.packaged_weights("efficientnet_lite0"), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)
    with pytest.raises(SystemExit, match="bundle_imagenet: The weights file does not exist"):
        bundle_imagenet.main(["missing.npz"])


def test_true_and_untrue_nouns_of_other_photos():
    photos = [{"nouns": "dog snow"}, {"nouns": "coin"}, {"nouns": "man"}]
    captions = ["a dog is standing in the air", "a man is standing in the air", "a man is there"]
    captions = [caption.split() for caption in captions]
    figures = measure(
        captions, [0.5, 0.25, None], photos, {"dog", "man", "air"}, {"man"}, {"dog", "man"}
    )
    assert figures[:7] == ("2 of 2", 2, 3, "3 of 3", 0, 2, 2) and figures[8] == "0.25"
    assert figures[9] == "1 of 2 (1)"


def test_doubtful_nouns_of_other_photos():
    result = CaptionResult(
        "a dog on a bike",
        ["a", "dog", "on", "a", "bike"],
        -1.0,
        np.ones((5, 1, 1)),
        word_confidence=np.array([np.nan, 0.9, np.nan, np.nan, 0.1]),
    )
    found = untrue_nouns([result], [{"nouns": "dog grass"}])
    assert found == {True: "1 of 1", False: "0 of 1"}


def test_other_photos_are_listed_with_licences_and_nouns():
    listed = json.loads(LIST.read_text(encoding="utf-8"))
    assert len(listed["photos"]) >= 20
    assert all({*photo} == {"file", "package", "licence", "nouns"} for photo in listed["photos"])


def test_a_step_is_measured_with_each_twin(monkeypatch):
    for name, size in {"TIME": 2, "REGIONS": 4, "FEATURE_DIM": 3}.items():
        monkeypatch.setattr(fast_twins, name, size)
    chosen = []

    def spy(self, batch):
        chosen.append((self.decoder.uses_fast_loop, self.decoder.attention_layer.score_method))
        return {"loss": tf.constant(0.0)}

    monkeypatch.setattr(Captioner, "train_step", spy)
    batches = [fast_twins.random_batch("image", seed=0)]
    (features, input_ids), target_ids, token_weights = batches[0]
    assert features.shape == (13, 4, 3)
    assert input_ids.shape == target_ids.shape == token_weights.shape == (13, 5, 2)
    fast_twins.make_trainer(batches, "paper")
    fast_twins.make_trainer(batches, "paper", fast_loop=False, score_method="fused")
    assert chosen == [(True, "plain"), (False, "fused")]


# === Whether two commits do the same ===


def test_what_a_change_changed_is_named(tmp_path):
    before = {"captions": ["a dog", "a cat"], "map/0": np.ones(3), "weight/0": np.zeros(2)}
    same.record(tmp_path / "record", [("training: resumed", before)])
    recorded = same.recorded(tmp_path / "record", "training: resumed")
    assert same.differences(recorded, before) == []
    near = before | {"map/0": np.ones(3) + 9e-6, "weight/0": np.full(2, 9e-7)}
    assert same.differences(recorded, near) == []
    changed = {"captions": ["a dog", "a cow"], "map/0": np.ones(3) + 2e-5, "new/0": np.ones(1)}
    named = " ".join(same.differences(recorded, changed))
    for part in ("'a cat' is now 'a cow'", "map", "gone: weight/0", "new: new/0"):
        assert part in named
    assert "a dog" not in named
    assert same.compare(tmp_path / "record", [("training: resumed", changed)]) == 1
