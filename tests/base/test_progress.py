import io

import pytest

from data_utils.base.progress import Progress


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("tqdm.std.time", clock)
    return clock


def shown(stream, clock, *, seconds=1, total=100, skipped=0, **options):
    """Return the output of work in steps of 10 that take `seconds` each."""
    with Progress(
        total, label="features", unit="photos", stream=stream, clock=clock, **options
    ) as progress:
        progress.skip(skipped)
        for _ in range(skipped, total, 10):
            clock.now += seconds
            progress.advance(10)
    return stream.getvalue()


def test_a_pipe_gets_a_plain_line_for_each_tenth(clock):
    lines = shown(io.StringIO(), clock, total=200, seconds=5).splitlines()
    assert (
        lines[0] == "features: 20/200 photos (10 %),  2.00 photos/s, 01:30 left"
        and len(lines) == 10
    )
    assert lines[-1] == "features: 200/200 photos (100 %),  2.00 photos/s, 00:00 left"


def test_a_terminal_gets_one_line_rewritten_ten_times_a_second_at_most(clock):
    output = shown(Terminal(), clock, total=10_000, seconds=0.01)
    assert 80 <= output.count("\r") <= 103 and output.count("\n") == 1
    last = output.rpartition("\r")[2]
    assert (
        last.startswith("features: 100%")
        and "10000/10000 [" in last
        and ", 1000.00 photos/s]" in last
    )


def test_skipped_steps_do_not_enter_the_speed(clock):
    assert "60/100 photos (60 %),  1.00 photos/s, 00:40 left\n" in shown(
        io.StringIO(), clock, skipped=50, seconds=10
    )
    assert "60/100 [00:10<00:40,  1.00 photos/s]" in shown(
        Terminal(), clock, skipped=50, seconds=10
    )


def test_a_note_is_at_the_end_of_the_bar(clock):
    stream = Terminal()
    with Progress(2, label="epoch", unit="batches", stream=stream, clock=clock) as progress:
        progress.note = "until tomorrow"
        clock.now += 1
        progress.advance(2)
    assert stream.getvalue().rstrip().endswith(", until tomorrow]")


def test_less_than_one_a_second_is_written_with_spaces_too(clock):
    plain = shown(io.StringIO(), clock, seconds=200)
    assert "100/100 photos (100 %),  0.05 photos/s, 00:00 left\n" in plain
    assert "100/100 [33:20<00:00,  0.05 photos/s]" in shown(Terminal(), clock, seconds=200)


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_short_work_is_not_shown_where_there_is_a_delay(clock, stream):
    assert (
        shown(stream(), clock, seconds=0.09, delay=1)
        == ""
        != shown(stream(), clock, seconds=0.11, delay=1)
    )
    assert shown(stream(), clock, show=False) == ""
