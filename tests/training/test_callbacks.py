import io
import math
import re
import signal
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from tensorflow.python.summary.summary_iterator import summary_iterator

from data_utils import DATASETS, CaptionedImage, Vocabulary, make_batches
from keras_sat import (
    BeginWithExpectations,
    Captioner,
    DrawAttention,
    KeepTraining,
    ScoreCaptions,
    ShowCaptions,
)
from keras_sat.files import read_checkpoint
from keras_sat.measuring import bleu
from keras_sat.training import callbacks, epoch_times
from keras_sat.training.epoch_times import EpochTimes, time_of_day
from keras_sat.training.history import (
    CROSS_ENTROPY,
    LEAST_MATCHES,
    LEAST_SCORE,
    Curves,
    best_epoch,
    has_plateaued,
    is_above_chance,
    write_history,
)


@pytest.fixture(scope="module")
def images():
    return DATASETS["scenes"](None, num_scenes=20, seed=6)


@pytest.fixture
def captioner_and_batches(images):
    vocabulary = Vocabulary.build(images)
    small = {"embedding_dim": 8, "hidden_dim": 8, "attention_dim": 8}
    captioner = Captioner(vocabulary, encoder="tiny", attention="hard", **small)
    captioner.compile()
    return captioner, make_batches(
        images, vocabulary, image_size=64, split="train", group_by="image", batch_size=80
    )


@pytest.mark.usefixtures("without_graphs")
def test_captions_are_free_running_and_scored(images, captioner_and_batches):
    captioner, batches = captioner_and_batches
    dev = [image for image in images if image.split == "dev"]
    lines = []
    callbacks = [
        ScoreCaptions(dev, max_length=6),
        ShowCaptions(dev, num_photos=1, max_length=6, output=lines.append),
    ]
    history = captioner.fit(batches, epochs=2, callbacks=callbacks, verbose=0).history
    captions = [result.caption for result in captioner.caption(dev, num_beams=1, max_length=6)]
    expected = bleu([image.captions for image in dev], captions)
    assert history["val_bleu_1"][-1] == pytest.approx(expected["bleu_1"])
    assert history["val_distinct"][-1] == len(set(captions))
    assert len(lines) == 2 and lines[-1].strip() == f"{dev[0].image_id}: {captions[0]}"


@pytest.mark.usefixtures("without_graphs")
def test_maps_of_a_few_photos_are_drawn_for_tensorboard(images, captioner_and_batches, tmp_path):
    draw = DrawAttention(images, tmp_path, num_photos=2, max_length=3)
    draw.set_model(captioner_and_batches[0])
    draw.on_epoch_end(4)
    paths = sorted(map(str, tmp_path.iterdir()))
    values = [
        (event.step, value)
        for path in paths
        for event in summary_iterator(path)
        for value in event.summary.value
    ]
    assert [(step, value.tag) for step, value in values] == [
        (5, f"attention/{image.image_id}") for image in images[:2]
    ]
    for _, value in values:
        assert value.metadata.plugin_data.plugin_name == "images"
        *size, content = value.tensor.string_val
        with Image.open(io.BytesIO(content)) as picture:
            assert picture.size == tuple(map(int, size))


@pytest.mark.slow
def test_expectations_come_first(captioner_and_batches):
    captioner, batches = captioner_and_batches
    shares = []

    class Watch(BeginWithExpectations):
        def on_epoch_end(self, epoch, logs=None):
            shares.append(
                (float(self.model.expectation_share.numpy()), float(self.model.baseline.numpy()))
            )

    captioner.fit(batches, epochs=3, callbacks=[Watch(2)], verbose=0)
    assert [share for share, _ in shares] == [1.0, 1.0, 0.5]
    assert shares[1][1] == 0 > shares[2][1], (
        "nothing is sampled before, and so the baseline does not move"
    )


def test_which_epoch_is_best():
    def epochs(*scores):
        return [{"loss": 1.0, "val_bleu_4": score} for score in scores]

    assert best_epoch(epochs(0.1, 0.3, 0.2, 0.3)) == 1
    assert best_epoch([{"loss": 1.0}, {"loss": 2.0}]) == 1 and best_epoch([]) == -1
    lost = [
        {"val_bleu_4": 1e-12 * n, "val_cross_entropy": loss}
        for n, loss in enumerate((3.0, 2.0, 2.5))
    ]
    assert best_epoch(lost) == 1, "without a score the cross-entropy decides"
    assert best_epoch([*lost, {"val_bleu_4": 0.01, "val_cross_entropy": 9.0}]) == 3
    assert has_plateaued(epochs(0.1, 0.3, 0.2, 0.3), 2) and not has_plateaued(
        epochs(0.1, 0.3, 0.2, 0.3), 3
    )
    assert not has_plateaued(epochs(0.0, 0.0, 0.0), 1), "a score of 0 is no plateau"
    assert not has_plateaued(epochs(0.1, 0.1, 0.1), None) and not has_plateaued([], 1)


def test_where_cross_entropy_chooses_the_lowest_is_the_best():
    epochs = [
        {"val_bleu_4": bleu_4, "val_cross_entropy": cross_entropy}
        for bleu_4, cross_entropy in ((0.2, 2.0), (0.3, 1.5), (0.4, 1.6), (0.5, 1.7))
    ]
    assert best_epoch(epochs) == 3 and best_epoch(epochs, CROSS_ENTROPY) == 1
    assert has_plateaued(epochs, 2, CROSS_ENTROPY) and not has_plateaued(epochs, 2)
    lines = []
    progress = callbacks.ShowProgress(4, monitored=CROSS_ENTROPY, output=lines.append)
    progress.set_params({"steps": 1})
    for number, figures in enumerate(epochs):
        progress.on_epoch_begin(number)
        progress.on_epoch_end(number, {"loss": 1.0, **figures})
    assert "on dev 1.500 (best so far), BLEU-4 30.0 %," in lines[1]
    assert "on dev 1.600, BLEU-4 40.0 %," in lines[2]


def test_a_warm_up_counts_only_as_long_as_nothing_follows_it():
    warm_up = [{"val_bleu_4": score, "warm_up": 1.0} for score in (0.1, 0.3, 0.2)]
    assert best_epoch(warm_up) == 1 and not has_plateaued(warm_up, 1)
    drawn = [{"val_bleu_4": score, "warm_up": 0.0} for score in (0.1, 0.2, 0.1)]
    assert best_epoch([*warm_up, *drawn[:1]]) == 3 and best_epoch([*warm_up, *drawn]) == 4
    assert has_plateaued([*warm_up, *drawn], 1) and not has_plateaued([*warm_up, *drawn], 2)


def test_nothing_is_kept_of_an_epoch_without_a_loss(captioner_and_batches, tmp_path):
    captioner, _ = captioner_and_batches
    keep = KeepTraining(tmp_path)
    keep.set_model(captioner)
    keep.on_epoch_begin(0)
    keep.on_epoch_end(0, {"loss": float("nan")})
    assert keep.epochs == [] and not list(tmp_path.iterdir())


def test_ctrl_c_waits_until_an_epoch_is_kept_whole(captioner_and_batches, tmp_path, monkeypatch):
    captioner, batches = captioner_and_batches
    captioner.build_for(batches)
    captioner.make_training_state()
    monkeypatch.setattr(captioner, "save", lambda folder: signal.raise_signal(signal.SIGINT))
    keep = KeepTraining(tmp_path)
    keep.set_model(captioner)
    keep.on_train_begin()
    keep.on_epoch_begin(0)
    with pytest.raises(KeyboardInterrupt):
        keep.on_epoch_end(0, {"loss": 1.0})
    ((figures,), _) = read_checkpoint(tmp_path / "checkpoint")
    assert figures["loss"] == 1.0


def test_curves_and_their_table(tmp_path):
    curves = Curves([{"loss": 2.0}, {"loss": 1.0, "val_loss": 3.0}])
    assert (
        list(curves) == ["loss", "val_loss"] and len(curves) == 2 and curves["loss"] == [2.0, 1.0]
    )
    assert np.isnan(curves["val_loss"][0]) and curves.history["val_loss"][1] == 3.0
    write_history(tmp_path / "history.csv", [{"loss": 2.0}, {"loss": 1.0, "val_loss": 3.0}])
    assert (tmp_path / "history.csv").read_text() == "epoch,loss,val_loss\n1,2,nan\n2,1,3\n"


def test_bleu_of_a_few_words_says_nothing_and_cross_entropy_decides():
    # Captions of three words have no group of four, and yet coco-caption's tiny numbers
    # make a BLEU-4 of them: the fourth root of 1 * 1 * 1 * (1e-15 / 1e-9), which is
    # 0.03.
    short = bleu([["a red dog"]], ["a red dog"])["bleu_4"]
    assert short == pytest.approx(1e-6**0.25, rel=1e-6) and short > 100 * LEAST_SCORE

    def epoch(score, matches, cross_entropy):
        return {
            "loss": 1.0,
            "val_bleu_4": score,
            "val_matches": matches,
            "val_cross_entropy": cross_entropy,
        }

    tiny = [
        epoch(short, 0, 6.0),
        epoch(0.2, 1, 5.0),
        epoch(0.0, 0, 4.0),
        epoch(0.1, LEAST_MATCHES - 1, 4.5),
    ]
    assert [is_above_chance(figures) for figures in tiny] == [False] * 4
    assert best_epoch(tiny) == 2 and has_plateaued(tiny, 1) and not has_plateaued(tiny, 2)
    assert not has_plateaued(tiny[:3], 1), "the cross-entropy falls: no plateau"
    assert best_epoch([*tiny, epoch(0.05, LEAST_MATCHES, 9.0)]) == 4
    assert is_above_chance({"val_bleu_4": 0.05}), "a callback of your own may not count them"
    assert is_above_chance({"val_cider": 0.1, "val_matches": 0}, "val_cider"), (
        "CIDEr counts shorter groups too"
    )


def test_the_matches_are_those_of_four_words(monkeypatch):
    images = [
        CaptionedImage("a", "a.jpg", ["a b c d e", "x"], "dev"),
        CaptionedImage("b", "b.jpg", ["a b c"], "dev"),
    ]
    results = [SimpleNamespace(caption=caption) for caption in ("a b c d e f", "a b c")]
    monkeypatch.setattr(callbacks, "captions_of", lambda *_, **__: results)
    assert callbacks.score_captions(None, images)["val_matches"] == 2, "a b c d, b c d e"


def test_progress_names_the_best_so_far_only_where_the_score_is_above_chance():
    lines = []
    progress = callbacks.ShowProgress(2, output=lines.append)
    progress.set_params({"steps": 1})
    for number, matches in enumerate((LEAST_MATCHES - 1, LEAST_MATCHES)):
        progress.on_epoch_begin(number)
        figures = {"loss": 1.0, "cross_entropy": 1.0, "val_bleu_4": 0.1, "val_matches": matches}
        progress.on_epoch_end(number, figures)
    assert ["(best so far)" in line for line in lines] == [False, True]


def minutes_of_training(clock, monkeypatch, *, is_terminal=False, seconds_of_batch=7.0):
    """Train two epochs of twenty batches and then score dev, by a clock that is set.

    Return (seconds, line) of each line printed, and what the progress bar showed last.
    """
    lines, bars = [], []

    class Bar:
        rewrites, note = is_terminal, ""

        def __init__(self, *_, **__):
            bars.append(self)

        def advance(self, steps):
            pass

        def __exit__(self, *exception):
            pass

    monkeypatch.setattr(callbacks, "Progress", Bar)
    progress = callbacks.ShowProgress(
        2, output=lambda line: lines.append((clock.now, line)), clock=clock
    )
    progress.set_params({"steps": 20})
    for epoch in range(2):
        progress.on_epoch_begin(epoch)
        clock.now += 4 * seconds_of_batch  # a graph is traced
        for batch in range(20):
            clock.now += seconds_of_batch
            progress.on_train_batch_end(batch)
        clock.now += 3 * seconds_of_batch
        progress.on_epoch_end(epoch, {"loss": 1.0})
    return lines, bars[-1].note


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def test_a_log_file_gets_the_time_of_an_epoch_and_a_line_a_minute(monkeypatch):
    lines, _ = minutes_of_training(Clock(), monkeypatch)
    times = np.array([seconds for seconds, _ in lines])
    inside = [number for number, (_, line) in enumerate(lines) if "batches" in line]
    assert len(inside) >= 4 and (np.diff(times)[np.array(inside[1:]) - 1] >= 60).all()
    seconds, first = lines[0]
    assert seconds == 1000 + 4 * 7 + 3 * 7, "after the third batch"
    assert first.startswith("epoch 1/2: 3 of 20 batches; an epoch takes about 02:20, the last one")
    assert re.search(r"ends at about \d\d:\d\d, scores on dev not counted$", first)
    later = lines[inside[-1]][1]
    assert "an epoch takes about 02:41" in later and "not counted" not in later


def test_a_terminal_has_it_in_its_bar_and_short_epochs_say_nothing(monkeypatch):
    lines, note = minutes_of_training(Clock(), monkeypatch, is_terminal=True)
    assert len(lines) == 2 and "an epoch takes about 02:41" in note
    lines, _ = minutes_of_training(Clock(), monkeypatch, seconds_of_batch=0.1)
    assert len(lines) == 2


def test_the_batches_that_compile_do_not_count_in_what_is_left():
    clock = Clock()
    times = EpochTimes(3, clock)
    times.begin(0, 6)
    for seconds in (60, 50, 2, 2, 2, 2):
        clock.now += seconds
        times.end_batch()
    clock.now += 3
    assert times.estimate() == (12, 0)
    assert times.end() == (60 + 50 + 4 * 2 + 3, 6 * 2 + 3)


def lines_with_patience(patience, cross_entropies):
    """Train some of ten epochs of four batches, one batch in ten seconds; return the
    lines printed at their ends, and the estimate inside the next.
    """
    clock, lines = Clock(), []
    progress = callbacks.ShowProgress(
        10,
        before=[{"val_cross_entropy": 2.0}],
        monitored=CROSS_ENTROPY,
        patience=patience,
        output=lines.append,
        clock=clock,
    )
    progress.set_params({"steps": 4})
    for epoch, cross_entropy in enumerate([*cross_entropies, None]):
        progress.on_epoch_begin(epoch)
        for batch in range(4):
            clock.now += 10
            progress.on_train_batch_end(batch)
        if cross_entropy is not None:
            progress.on_epoch_end(epoch, {"loss": 1.0, "val_cross_entropy": cross_entropy})
    progress.end_line()
    return [line for line in lines if "batches" not in line], progress.times.as_text()


def test_the_estimate_counts_patience():
    lines, estimate = lines_with_patience(3, [3.0])
    assert lines[0].endswith("00:40, at most 06:00 left, 01:20 if no epoch is better")
    assert re.search(r"the last one ends at about \d\d:\d\d \(at \d\d:\d\d if none", estimate)
    lines, _ = lines_with_patience(3, [1.0, 3.0, 3.0, 3.0])
    assert "at most 06:00 left, 02:00 if no" in lines[0] and lines[3].endswith("00:40, 00:00 left")
    for patience in (None, 20):
        lines, estimate = lines_with_patience(patience, [3.0])
        assert lines[0].endswith("00:40, 06:00 left") and "if none" not in estimate


def epochs_in_time(seconds_of_epochs, deadline):
    """Return the number of ten epochs that are trained until the deadline."""
    clock, model = Clock(), SimpleNamespace(stop_training=False)
    in_time = callbacks.StopInTime(Clock.now + deadline, clock)
    in_time.set_model(model)
    in_time.set_params({"epochs": 10})
    in_time.on_train_begin()
    for epoch, seconds in enumerate(seconds_of_epochs):
        in_time.on_epoch_begin(epoch)
        for batch in range(5):
            clock.now += seconds / 5
            in_time.on_train_batch_end(batch)
        in_time.on_epoch_end(epoch)
        if model.stop_training:
            break
    assert in_time.has_stopped == model.stop_training
    return epoch + 1


def test_no_epoch_starts_that_would_end_after_the_deadline():
    assert epochs_in_time([10.0] * 10, 35) == 3
    assert epochs_in_time([10.0] * 10, 1) == 1, "one is always trained"
    assert epochs_in_time([10.0] * 10, math.inf) == epochs_in_time([10.0] * 10, 1000) == 10
    assert epochs_in_time([10.0, 20.0, 20.0], 45) == 2, "as long as the one before"


def test_what_is_left_and_the_day_on_which_it_ends(monkeypatch):
    clock = Clock()
    times = EpochTimes(3, clock)
    times.begin(1, 10)
    assert times.as_text() == "" and times.estimate() is None
    for _ in range(5):
        clock.now += 2
        times.end_batch()
    of_epoch, left = times.estimate()
    assert (of_epoch, left) == (20, 10), "five batches"
    assert times.end() == (10, 10)
    monkeypatch.setattr(epoch_times.time, "time", lambda: 1e9)
    assert re.fullmatch(r"\d\d:\d\d on \w+ \d\d \w+", time_of_day(24 * 3600))
    assert re.fullmatch(r"\d\d:\d\d", time_of_day(0))
