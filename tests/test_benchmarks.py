"""The benchmarks: that they count and compare what they say. None of these measures how fast anything is."""

import json
import shutil
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from conftest import all_slow_but

from data_utils import DATASETS, FeatureCache, Vocabulary, draw_scenes, load_image
from data_utils.files import read_sealed_json, write_sealed_json
from keras_sat import Captioner, ScoreTable
from keras_sat.files import model_folder

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
NAMES = [
    "train_soft", "train_hard", "train_after", "train_bfloat16", "scores", "train_along", "caption_greedy",
    "caption_beam5", "caption_one", "photo_to_caption", "features_vgg16", "features_mobilenet_v2", "features_lite0",
    "vgg16_bfloat16", "lite0_bfloat16", "batches", "memory_8k", "memory_120k", "import", "load_pretrained",
    "shell_to_caption", "fast_photos",
]  # fmt: skip
PEERS = {
    "pytorch_loop", "pytorch_careful", "pytorch_compiled", "pytorch_vgg16", "float32", "equation", "attends_before",
    "attends_before_bilinear", "bilinear_after_over_the_paper",
    "with_tensorflow", "tensorflow_in_batches", "tensorflow_one_by_one",
}  # fmt: skip


@pytest.fixture
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.syspath_prepend(str(BENCHMARKS / "flickr8k"))


@pytest.fixture
def bench(benchmarks):
    import bench

    return bench


@pytest.fixture
def limits(benchmarks):
    import limits

    return limits


@pytest.fixture
def peers(benchmarks):
    pytest.importorskip("torch", reason="the peers need PyTorch: pip install -e '.[bench]'")
    import peers

    return peers


# === What is counted ===


def test_the_least_arithmetic_counts_every_product_of_the_decoder(limits):
    sizes = limits.Sizes(regions=6, feature_dim=5, attention_dim=4, embedding_dim=3, hidden_dim=2, vocabulary=7)
    captioner = Captioner([f"w{i}" for i in range(3)], encoder=None, embedding_dim=3, hidden_dim=2, attention_dim=4)
    captioner.build(((None, 6, 5), (None, None)))
    photos, steps, beams = 2, 3, 4
    weights = {weight.path.split("decoder/")[-1]: np.prod(weight.shape) for weight in captioner.decoder.weights}
    once = {name: n for name, n in weights.items() if name.startswith(("initial", "attention/feature_projection"))}
    flops = 0
    for name, numbers in weights.items():
        if "bias" in name or "embeddings" in name:
            continue  # added or looked up
        rows = photos if name.startswith("initial") else photos * 6 if "feature_projection" in name else None
        rows = rows or photos * steps * beams * (6 if "score_vector" in name else 1)
        flops += 2 * rows * numbers
    flops += 2 * photos * steps * beams * 6 * 5  # the context
    assert once and limits.caption_work(sizes, photos, steps, beams).flops == flops

    forward = limits.caption_work(sizes, photos, steps, 1).flops
    train = limits.train_work(sizes, photos, photos * steps).flops
    no_gradient_of_features = 2 * photos * 6 * 5 * 4 + 2 * 2 * photos * 5 * 2 + 2 * photos * steps * 6 * 5
    assert train == 3 * forward - no_gradient_of_features


def test_evaluations_and_seconds(limits):
    sizes = limits.Sizes(regions=6, feature_dim=5, attention_dim=4, embedding_dim=3, hidden_dim=2, vocabulary=7)
    work = limits.caption_work(sizes, 1, 1, 1)
    assert work.evaluations == 6 * 4 + 6 + 1 + 5 * 2 + 7 + 2 * 2
    assert limits.Work(10.0, 20.0).seconds({"flops": 5.0, "evaluations": 10.0}) == 4.0


def test_the_bytes_of_a_word_are_those_of_the_matrices_that_it_needs(limits):
    sizes = limits.Sizes(regions=6, feature_dim=5, attention_dim=4, embedding_dim=3, hidden_dim=2, vocabulary=7)
    captioner = Captioner([f"w{i}" for i in range(3)], encoder=None, embedding_dim=3, hidden_dim=2, attention_dim=4)
    captioner.build(((None, 6, 5), (None, None)))
    of_photos = ("initial", "attention/feature_projection", "gate", "embedding")
    read = [
        weight
        for weight in captioner.decoder.weights
        if len(weight.shape) == 2 and not weight.path.split("decoder/")[-1].startswith(of_photos)
    ]
    assert len(read) == 7 and limits.bytes_of_a_word(sizes) == 4 * sum(np.prod(weight.shape) for weight in read)
    traffic = limits.search_traffic(sizes, 2, 3, 4, width=2)
    assert traffic == 3 * (2 * (2 * 6 * (5 + 4) + 2 * 2 * 4 * 7) + limits.bytes_of_a_word(sizes) // 2)
    in_loop, matrices = 2 * 4 + (5 + 2) * 8, limits.bytes_of_a_word(sizes) // 4
    moved = 3 * 2 * 6 * (5 + 4) + 3 * in_loop + matrices - in_loop + 2 * 6 * 7
    assert limits.train_traffic(sizes, 2, 6, 3, width=2) == 2 * 2 * moved + 28 * (matrices + 3 * 7)


def test_a_ratio_is_that_of_medians_and_its_spread_half_its_range(benchmarks):
    from timing import Seconds, compare, figure, ratio_in_words

    own, theirs = Seconds([1.0, 2.0, 1.5]), Seconds([3.0, 5.0, 4.5])
    assert (own, theirs) == (1.5, 4.5) and own.rounds == [1.0, 2.0, 1.5]
    result = figure(1.0, "photos/s")
    compare(result, "peer", own, theirs, their_share=0.5)
    assert result["ratios"]["peer"] == 6.0 and result["spreads"]["peer"] == pytest.approx((3.0 - 2.5) / 2 / 3.0)
    assert ratio_in_words("peer", result) == "6.00 x peer (± 8%)"
    result["spreads"]["peer"] = 0.2
    assert ratio_in_words("peer", result) == "6.00 x peer (± 20%!)"


def test_what_is_compared_is_measured_turn_about_turn(benchmarks):
    from timing import in_turn

    calls = []
    measured = in_turn(lambda: calls.append("a"), lambda: calls.append("b"), num_rounds=3)
    assert calls == ["a", "b"] * 4 and [len(one.rounds) for one in measured] == [3, 3]


def test_the_captions_are_as_long_as_those_of_flickr8k(bench):
    images = bench.flickr8k_captions()
    lengths = [len(caption.split()) for image in images for caption in image.captions]
    assert len(images) == 600 and {len(image.captions) for image in images} == {5}
    assert np.mean(lengths) == pytest.approx(10.79, abs=0.05)  # Flickr8k's training captions: 10.79


# === The peers do the same work ===


@pytest.fixture
def pair(peers):
    """Our captioner and the peer with its weights, without dropout."""
    keras.utils.set_random_seed(2)
    quiet = {"dropout_before_readout": 0.0, "dropout_after_readout": 0.0}
    captioner = Captioner(
        [f"w{i}" for i in range(16)], encoder=None, embedding_dim=6, hidden_dim=8, attention_dim=7, **quiet
    )
    captioner.build(((None, 9, 5), (None, None)))
    for weight in captioner.decoder.weights:
        weight.assign(np.random.default_rng(len(weight.path)).normal(scale=0.6, size=weight.shape))
    peer = peers.TextbookDecoder(20, feature_dim=5, embedding_dim=6, hidden_dim=8, attention_dim=7)
    peers.carry_over(captioner.decoder, peer)
    return captioner, peer.eval()


def test_the_peer_learns_from_the_same_loss(pair, peers):
    import torch

    captioner, peer = pair
    random = np.random.default_rng(0)
    weights = (np.arange(4) < np.array([[4, 2], [3, 0]])[..., None]).astype("float32")
    input_ids, target_ids = random.integers(4, 20, (2, 2, 2, 4)).astype("int32")
    batch = tf.nest.map_structure(tf.constant, ((random.random((2, 9, 5), "float32"), input_ids), target_ids, weights))
    features, ids, targets, lengths = peers.as_peer_batch(batch)
    assert features.shape == (3, 9, 5) and lengths == [4, 2, 3]
    before = {name: weight.clone() for name, weight in peer.named_parameters()}
    optimizer = torch.optim.SGD(peer.parameters(), lr=1e-3)
    loss = peers.train_step(peer, optimizer, features, ids, targets, lengths, captioner.attention_penalty_weight)
    with tf.GradientTape() as tape:
        mean = captioner.objective(batch, training=False).mean
    assert loss == pytest.approx(float(mean), rel=1e-5)
    ours = tape.gradient(mean, captioner.decoder.readout.word_logits.kernel.value)
    assert {name for name, weight in peer.named_parameters() if not torch.equal(weight, before[name])} == set(before)
    theirs = (before["word_logits.weight"] - peer.word_logits.weight).detach().numpy().T / 1e-3
    factor = np.abs(theirs).max() / np.abs(ours).max()  # 1, or less where gradients were clipped
    assert 0 < factor <= 1.001
    np.testing.assert_allclose(theirs, factor * ours.numpy(), atol=2e-3)


def test_the_peer_says_the_same(pair, peers):
    import torch

    captioner, peer = pair
    features = np.random.default_rng(1).random((6, 9, 5), "float32")
    special = {"max_length": 7, "start_token_id": 1, "end_token_id": 2, "never": [0, 1, 3]}
    for beams in (1, 3):
        ours = captioner.caption_features(features, num_beams=beams, max_length=7)
        ours = [captioner.vocabulary.caption_to_ids(result.caption) for result in ours]
        theirs = [peers.beam_search(peer, torch.tensor(photo), beams, **special) for photo in features]
        if beams == 1:
            assert ours == theirs == peers.greedy(peer, torch.tensor(features), **special)
        else:  # the textbook's beams shrink when one has ended; most captions are the same all the same
            assert sum(one == other for one, other in zip(ours, theirs)) >= 3


@pytest.fixture
def careful_pair(pair):
    """Our captioner and the careful peer with its weights, without dropout."""
    import careful_peer
    import peers

    captioner, _ = pair
    peer = careful_peer.CarefulDecoder(20, feature_dim=5, embedding_dim=6, hidden_dim=8, attention_dim=7)
    peers.carry_over(captioner.decoder, peer)
    return captioner, peer.eval()


def test_the_careful_peer_learns_as_the_textbook_s_loop_does(pair, careful_pair, peers):
    import careful_peer
    import torch

    (_, textbook), (_, careful) = pair, careful_pair
    random = np.random.default_rng(0)
    weights = (np.arange(4) < np.array([[4, 2], [3, 0]])[..., None]).astype("float32")
    input_ids, target_ids = random.integers(4, 20, (2, 2, 2, 4)).astype("int32")
    batch = tf.nest.map_structure(tf.constant, ((random.random((2, 9, 5), "float32"), input_ids), target_ids, weights))
    steps = (
        (textbook, peers.train_step, peers.as_peer_batch(batch)),
        (careful, careful_peer.train_step, careful_peer.as_careful_batch(batch)),
    )
    losses = [step(peer, torch.optim.SGD(peer.parameters(), lr=0.1), *given, 0.5) for peer, step, given in steps]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    learnt = dict(careful.named_parameters())
    for name, weight in textbook.named_parameters():
        np.testing.assert_allclose(weight.detach(), learnt[name].detach(), atol=1e-5, err_msg=name)


@pytest.mark.parametrize("beams", [1, 3])
def test_the_careful_peer_says_the_same(careful_pair, beams):
    import careful_peer
    import torch

    captioner, peer = careful_pair
    features = np.random.default_rng(1).random((6, 9, 5), "float32")
    special = {"max_length": 7, "start_token_id": 1, "end_token_id": 2, "never": [0, 1, 3]}
    ours = captioner.caption_features(features, num_beams=beams, max_length=7)
    theirs = careful_peer.beam_search(peer, torch.tensor(features), beams, **special)
    assert [captioner.vocabulary.caption_to_ids(result.caption) for result in ours] == theirs


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_the_careful_peer_is_the_same_compiled(careful_pair):
    import careful_peer
    import torch

    _, peer = careful_pair
    features = torch.rand(3, 9, 5)
    special = {"max_length": 7, "start_token_id": 1, "end_token_id": 2, "never": [0, 1, 3]}
    before = careful_peer.beam_search(peer, features, 2, **special)
    assert careful_peer.beam_search(peer.compile_step(), features, 2, **special) == before


def test_the_peers_vgg16_has_block5(peers):
    import torch

    encoder = peers.VGG16()
    assert sum(weight.numel() for weight in encoder.parameters()) == 14_714_688  # as keras.applications counts it
    with torch.inference_mode():
        assert encoder(torch.zeros(1, 3, 32, 32)).shape == (1, 512, 2, 2)


# === What is written ===


def test_the_recorded_results_have_every_figure(bench):
    results = json.loads((BENCHMARKS / "results.json").read_text())
    assert list(bench.FIGURES) == NAMES == list(results["figures"])
    for name, figure in results["figures"].items():
        assert {"value", "unit", "share_of_limit", "ratios"} <= figure.keys()
        assert figure["value"] > 0, name
        assert figure["ratios"].keys() <= PEERS
        assert figure["spreads"].keys() == figure["ratios"].keys()
        assert {"flops", "flops_bfloat16", "evaluations", "bytes_read"} <= figure["rates"].keys()
    assert {"cores", "python", "tensorflow", "keras", "torch"} <= results["machine"].keys()


def test_a_figure_is_measured_printed_and_kept(bench, monkeypatch, tmp_path, capsys):
    results = tmp_path / "results.json"
    results.write_text(json.dumps({"figures": {"batches": {"value": 1.0}}}))
    monkeypatch.setattr(bench, "RESULTS", results)
    one = bench.figure(2.0, "photos/s", 0.5) | {"ratios": {"pytorch_loop": 3.0}, "spreads": {"pytorch_loop": 0.1}}
    monkeypatch.setattr(bench, "measured_rates", lambda: {"flops": 1.0})
    monkeypatch.setattr(bench, "pin_threads", lambda: None)
    monkeypatch.setitem(bench.FIGURES, "train_soft", lambda _: one)
    monkeypatch.setattr(sys, "argv", ["bench.py", "train_soft"])
    bench.main()
    assert "3.00 x pytorch_loop" in capsys.readouterr().out
    figures = json.loads(results.read_text())["figures"]
    assert figures == {"train_soft": one | {"rates": {"flops": 1.0}}, "batches": {"value": 1.0}}


def test_unknown_figures_are_refused_in_one_line(bench, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["bench.py", "speed"])
    with pytest.raises(SystemExit) as stopped:
        bench.main()
    assert stopped.value.code == 2
    assert "Received: speed" in capsys.readouterr().err


def test_a_sparse_cache_reads_as_any_other(benchmarks, tmp_path):
    import memory

    cache = memory.sparse_cache(tmp_path / "sparse", [f"photo{n}" for n in range(5000)])
    assert len(cache.image_ids) == 5000 and not cache.features(["photo4999"]).any()
    assert FeatureCache.open(cache.directory).feature_dim == 512
    features = cache.directory / "features.npy"
    assert features.stat().st_size > 1e9 and features.stat().st_blocks * 512 < 1e7


def test_the_cost_of_determinism_is_a_ratio_of_medians_of_two_processes_in_turn(
    benchmarks, monkeypatch, tmp_path, capsys
):
    import deterministic

    worker = tmp_path / "worker.py"
    worker.write_text(
        "import sys\n"
        "print('ready', flush=True)\n"
        "for number, line in enumerate(sys.stdin):\n"
        "    print((3.0 if sys.argv[3] == 'deterministic' else 2.0) + 10 * (number == 1), flush=True)\n"
    )
    monkeypatch.setattr(deterministic, "__file__", str(worker))
    monkeypatch.setattr(sys, "argv", ["deterministic.py", "--rounds", "3"])
    deterministic.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[0] == (
        "soft attention, group_by='length': 1.50 (3.0 over 2.0 s; plain 2.0 to 12.0 s; deterministic 3.0 to 13.0 s)"
    )
    worker.write_text("raise SystemExit(3)")
    with pytest.raises(SystemExit, match="ended with exit status 3"):
        deterministic.main()


# === Drawn data sets ===


@pytest.mark.parametrize(
    "data, counts", all_slow_but(("flickr30k", (29, 1, 1)), [("flickr30k", (29, 1, 1)), ("coco", (114, 5, 5))])
)
def test_drawn_folders_are_read_like_the_real_ones(benchmarks, tmp_path, data, counts):
    from drawn_data_set import write_data_set

    write_data_set(data, tmp_path, share=0.001)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Flickr30k's folder has a photo without captions, as the real one has
        images = DATASETS[data](tmp_path)
    assert tuple(sum(image.split == split for image in images) for split in ("train", "dev", "test")) == counts
    assert all(len(image.captions) == 5 for image in images)
    path = Path(images[0].image_path)
    assert load_image(path).shape == (375, 500, 3)
    before = path.stat().st_mtime_ns
    write_data_set(data, tmp_path, share=0.001)  # goes on: nothing is drawn again
    assert path.stat().st_mtime_ns == before


# === What a captioner gets wrong ===


def test_mistakes_are_counted_word_by_word(benchmarks):
    from mistakes import count_mistakes

    captions = [["a", "red", "dog"], ["a", "red", "cat"], ["a", "cat"]]
    references = [[["red", "dog"], ["dog"]], [["a", "dog"], ["dogs"]], [["cat"], ["cat"]]]
    counts = count_mistakes(captions, references, ["red", "dog", "cat"])
    assert counts == {"red": (2, 1, 0, 0), "dog": (1, 1, 1, 1), "cat": (2, 1, 1, 1)}


def test_how_much_maps_say(benchmarks):
    from spread import spread

    even, sharp = np.full((2, 2), 0.25), np.array([[0.0, 1.0], [0.0, 0.0]])
    np.testing.assert_allclose(spread(np.array([even, sharp])), [np.log(4) / 2, np.log(4), 0.5])


def test_seeds_become_one_row(benchmarks, monkeypatch, tmp_path, capsys):
    import seeds

    for number, score in enumerate((0.2, 0.21, 0.25)):
        scores = {"bleu_1": 0.6, "bleu_4": score, "cider": 2 * score, "rouge_l": 0.5, "meteor": None, "meteor_kind": ""}
        counts = {"photos": 1, "distinct_captions": 10 + number, "vocabulary_used": 7}
        counts |= {"empty_captions": 0, "seen_in_training": None}
        photos = {"bleu_counts": [[0] * 10], "rouge_l": [0.5], "cider": [0.5], "meteor": None}
        table = ScoreTable(scores, {}, [{"image_id": "1", "caption": "a dog"}], counts, photos)
        table.to_json(tmp_path / f"soft-{number}.json")
    seeds.main([f"soft={tmp_path}/soft-*.json", f"alone={tmp_path}/soft-1.json"])
    *_, soft, alone = capsys.readouterr().out.splitlines()
    assert soft == "| soft | 60.0 ± 0.0 |  |  | 22.0 ± 2.6 |  | 50.0 ± 0.0 | 0.440 ± 0.053 | 11 | 7 | 0 | 0 |"
    assert alone == "| alone | 60.0 |  |  | 21.0 |  | 50.0 | 0.420 | 11 | 7 | 0 | 0 |"
    assert seeds.bad_ending(["two", "dogs", "play", "with", "a"]) == "breaks off"
    assert seeds.bad_ending(["a", "man", "in", "red", "in", "red"]) == "repeats" == seeds.bad_ending(["dog", "dog"])
    assert seeds.bad_ending(["a", "red", "dog", "and", "a", "red", "dog"]) is None is seeds.bad_ending([])
    with pytest.raises(SystemExit, match="No file matches"):
        seeds.main([f"hard={tmp_path}/hard-*.json"])
    replace(table, scores={**scores, "meteor": 0.2, "meteor_kind": "another"}).to_json(tmp_path / "soft-3.json")
    with pytest.raises(SystemExit, match="differ in more than their seed"):
        seeds.main([f"soft={tmp_path}/soft-*.json"])


# === Between two captioners ===


@pytest.mark.slow
def test_a_blend_has_one_encoder_and_the_grid_that_was_asked_for(benchmarks, tmp_path):
    import blend

    photo = draw_scenes(1, seed=3, image_size=64)[0].image
    options = {"encoder": "efficientnet_lite0", "encoder_weights": None, "image_size": 64, "hidden_dim": 5}
    options |= {"encoder_layer": "block_7", "trained_up_to": "top", "feature_projection_dim": 6, "box_weight": 1.0}
    captioner = Captioner(["a", "dog"], **options)
    captioner.build(((None, 16, 80), (None, None)))
    captioner.note_training_photos(["a photo"])
    captioner.save(tmp_path / "parts")
    blend.main([str(tmp_path / "whole"), f"{tmp_path / 'parts'}=1", "--grid", "4x4"])
    whole, finer = Captioner.load(tmp_path / "whole"), captioner.adapted(grid="4x4")
    assert (whole.encoder_training, whole.trained_up_to, whole.encoder_layer) == ("fine-tuned", None, None)
    assert (whole.box_weight, whole.training_photos.names) == (0.0, captioner.training_photos.names)
    one, other = whole.caption(photo), finer.caption(photo)
    assert one.attention_weights.shape[1:] == (4, 4)
    assert one.log_prob == pytest.approx(other.log_prob, rel=1e-5)


def test_a_blend_gets_the_encoder_of_another_captioner(benchmarks, tmp_path):
    import blend

    options = {"encoder": "tiny", "image_size": 32, "hidden_dim": 5}
    for seed, name in enumerate(("first", "second")):
        blur = float(seed)
        captioner = Captioner(["a", "dog"], seed=seed, photo_blur=blur, **options)
        captioner.build(((None, 32, 32, 3), (None, None)))
        captioner.note_training_photos([name])
        captioner.save(tmp_path / name)
    first, second = (Captioner.load(tmp_path / name) for name in ("first", "second"))
    blend.main([str(tmp_path / "out"), f"{tmp_path / 'first'}=1", "--encoder-from", str(tmp_path / "second")])
    out = Captioner.load(tmp_path / "out")
    assert out.photo_blur == second.photo_blur == 1
    known = {*first.training_photos.names.tolist(), *second.training_photos.names.tolist()}
    assert {*out.training_photos.names.tolist()} == known and len(known) == 2
    for whose, part in ((second, "encoder_model"), (first, "decoder")):
        for weight, same in zip(getattr(out, part).weights, getattr(whose, part).weights, strict=True):
            np.testing.assert_allclose(weight, same, atol=1e-6)
    assert not np.allclose(first.encoder_model.weights[0], second.encoder_model.weights[0])


def test_bundled_captioners_share_equal_encoders(benchmarks, tmp_path, monkeypatch):
    import bundle

    bundled, encoders = tmp_path / "pretrained", tmp_path / "pretrained" / "encoders"
    for name, path in (("PRETRAINED", bundled), ("ENCODERS", encoders)):
        monkeypatch.setattr(model_folder, name, path)
        monkeypatch.setattr(bundle, name, path)
    saved = {}
    for name, value in (("one", 1.0), ("other", 2.0)):
        saved[name] = {"encoder/000/kernel": np.ones((8, 4), "float32"), "baseline": np.float32(value)}
        model_folder.write_model(tmp_path / name, {"captioner": {}}, Vocabulary(["dog"]), saved[name], "int8")
        bundle.main([str(tmp_path / name), name])
    (shared,) = encoders.iterdir()
    assert not any(b"encoder/" in path.read_bytes() for path in bundled.glob("*/weights-*.npz"))
    copy = model_folder.copy_of_model(bundled / "one", tmp_path / "copy")
    strange = shutil.copytree(bundled / "one", tmp_path / "strange")
    for folder, name in ((bundled / "one", "one"), (bundled / "other", "other"), (copy, "one")):
        _, _, arrays = model_folder.read_model(folder)
        assert arrays.keys() == saved[name].keys()
        for key, array in arrays.items():
            np.testing.assert_allclose(array, saved[name][key], rtol=1e-6)
    with pytest.raises(ValueError, match="strange.encoder-.*: this file is missing"):
        model_folder.read_model(strange)  # only a bundled folder reads what bundled ones share
    for path in (f"../pretrained/encoders/{shared.name}", str(shared), "encoder-/../x.npz", None, ["config.json"]):
        config = read_sealed_json(copy / "config.json", "a model")
        write_sealed_json(strange / "config.json", {**config, "files": {**config["files"], "encoder": path}})
        with pytest.raises(ValueError, match="names no files"):
            model_folder.read_model(strange)
    shared.write_bytes(shared.read_bytes()[:-1])
    with pytest.raises(ValueError, match="encoder-.*damaged"):
        model_folder.read_model(bundled / "other")
    model_folder.read_model(copy)  # which has all of it
    with pytest.raises(SystemExit, match="bundle: A copy of a model needs a folder of its own"):
        bundle.main([str(copy), "one"])


def test_a_blend_lies_between_captioners(benchmarks, tmp_path):
    import blend

    captioners = [Captioner(["a", "dog"], encoder=None, seed=seed, hidden_dim=5) for seed in range(2)]
    for captioner, name in zip(captioners, ("first", "second")):
        captioner.build(((None, 4, 6), (None, None)))
        captioner.save(tmp_path / name)
    parts = [f"{tmp_path / 'first'}=.25", f"{tmp_path / 'second'}=.75"]
    blend.main([str(tmp_path / "blended"), *parts])
    blended = Captioner.load(tmp_path / "blended")
    for weight, one, other in zip(blended.weights, *(captioner.weights for captioner in captioners)):
        np.testing.assert_allclose(weight.numpy(), 0.25 * one.numpy() + 0.75 * other.numpy(), rtol=1e-5, atol=1e-7)
    captioners[1].confidence = "calibrated for the weights of the second"
    assert blend.blend(captioners, [0.5, 0.5]).confidence is None
    with pytest.raises(SystemExit, match="must add up to 1"):
        blend.main([str(tmp_path / "blended"), *parts[:1]])
    Captioner.from_pretrained("scenes").save(tmp_path / "first")
    with pytest.raises(SystemExit, match="same words and sizes"):
        blend.main([str(tmp_path / "blended"), *parts])


def test_the_profile_counts_what_an_operation_takes_by_itself(benchmarks):
    from types import SimpleNamespace

    import where_time_goes

    spans = {"outer": (0, 100), "first": (10, 20), "inmost": (12, 5), "second": (40, 30), "after": (100, 7)}
    events = [SimpleNamespace(name=name, offset_ps=start, duration_ps=long) for name, (start, long) in spans.items()]
    own = {event.name: picoseconds for event, picoseconds in where_time_goes._own_durations(events)}
    assert own == {"outer": 50, "first": 15, "inmost": 5, "second": 30, "after": 7}
    kinds = {
        "while/body/_#/while/context_projection_#/MatMul:_MklMatMul": "products in the loop",
        "word_logits_#/BiasAdd:_MklNativeFusedMatMul": "products outside of the loop",
        "ExecutorState::Process": "framework",
        "KernelAndDeviceFunc::Run": "waiting for all of it",
        "drop_after_#/Mul": "everything else",
    }
    assert {name: where_time_goes.kind_of(name) for name in kinds} == kinds
