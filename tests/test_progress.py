import io

from data_utils.progress import Progress


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_pipe_gets_a_plain_line_for_each_tenth():
    stream, clock = io.StringIO(), Clock()
    with Progress(200, label="features", unit="photos", stream=stream, clock=clock) as progress:
        for _ in range(100):
            clock.now += 1
            progress.advance(2)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "features: 20/200 photos (10 %), 2.0 photos/s, 2 min left"
    assert lines[-1] == "features: 200/200 photos (100 %), 2.0 photos/s"
    assert len(lines) == 10 and "\r" not in stream.getvalue()


def test_a_terminal_gets_one_line_rewritten_ten_times_a_second_at_most(monkeypatch):
    stream, clock = Terminal(), Clock()
    monkeypatch.setattr("tqdm.std.time", clock)
    with Progress(1000, label="features", unit="photos", stream=stream, clock=clock) as progress:
        for _ in range(1000):
            clock.now += 0.01
            progress.advance(1)
    assert 80 <= stream.getvalue().count("\r") <= 103
    assert stream.getvalue().count("\n") == 1
    last = stream.getvalue().rpartition("\r")[2]
    assert last.startswith("features: 100%") and "1000/1000 [" in last and ", 100.00 photos/s]" in last


def test_the_bar_counts_from_the_beginning_of_the_work_and_what_was_skipped(monkeypatch):
    stream, clock = Terminal(), Clock()
    monkeypatch.setattr("tqdm.std.time", clock)
    with Progress(100, label="features", unit="photos", stream=stream, clock=clock) as progress:
        progress.skip(50)
        clock.now = 10
        progress.advance(20)
    assert "70/100 [00:10<00:15,  2.00 photos/s]" in stream.getvalue()


def test_skipped_steps_do_not_enter_the_speed():
    stream, clock = io.StringIO(), Clock()
    progress = Progress(100, label="features", unit="photos", stream=stream, clock=clock)
    progress.skip(50)
    clock.now = 10
    progress.advance(10)
    assert stream.getvalue() == "features: 60/100 photos (60 %), 1.0 photos/s, 40 s left\n"


def test_short_work_is_not_shown_where_there_is_a_delay():
    for seconds, shown in ((0.9, False), (1.1, True)):
        for stream in (Terminal(), io.StringIO()):
            clock = Clock()
            with Progress(2, label="captions", unit="pictures", delay=1, stream=stream, clock=clock) as progress:
                progress.advance(1)
                clock.now = seconds
                progress.advance(1)
            assert bool(stream.getvalue()) == shown


def test_silence():
    stream = Terminal()
    with Progress(10, label="features", unit="photos", show=False, stream=stream, clock=Clock()) as progress:
        progress.advance(10)
    assert stream.getvalue() == ""
