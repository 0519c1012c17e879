"""Show how far a long piece of work has come: a bar on a terminal or in a notebook, a line now and then elsewhere."""

import sys
import time


class Progress:
    """Counts steps of work and reports them on standard error.

    On a terminal and in a notebook one line is rewritten at most ten times a second; where the output goes to a file
    or a pipe, a plain line is written each time that another tenth of the work is done.

    Args:
        total: the number of steps in all, or None if it is not known.
        label: what is being done, for example "features".
        unit: what a step is, for example "photos".
        show: False keeps it silent.
        delay: nothing is shown before so many seconds have passed.
        stream, clock: for tests.
    """

    def __init__(self, total, *, label, unit, show=True, delay=0, stream=None, clock=time.monotonic):
        self.total = total
        self.label = label
        self.unit = unit
        self.show = show
        self.delay = delay
        self.stream = stream or sys.stderr
        self.clock = clock
        self.done = 0
        self.rewrites = self.stream.isatty() or "ipykernel" in sys.modules
        self._steps_timed = 0
        self._started = self._last_shown = clock()
        self._tenths_shown = 0
        self._is_shown = False

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self.show and self.rewrites and self.done and (self._is_shown or not self.delay):
            self._write(f"\r{self.text():78}\n")

    def skip(self, steps):
        """Count steps that an earlier run had done: they do not enter the speed."""
        self.done += steps
        if self.total:
            self._tenths_shown = 10 * self.done // self.total

    def advance(self, steps):
        """Count steps that were just done, and show them when it is time to."""
        self.done += steps
        self._steps_timed += steps
        if not self.show or self.clock() - self._started < self.delay:
            return
        if self.rewrites:
            if self.clock() - self._last_shown >= 0.1:
                self._last_shown = self.clock()
                self._write(f"\r{self.text():78}")
        elif self.total and 10 * self.done // self.total > self._tenths_shown:
            self._tenths_shown = 10 * self.done // self.total
            self._write(self.text() + "\n")

    def text(self):
        """Return the line: "features: 800/8000 photos (10 %), 61.0 photos/s, 2 min left"."""
        if not self.total:
            return f"{self.label}: {self.done} {self.unit}"
        text = f"{self.label}: {self.done}/{self.total} {self.unit} ({100 * self.done // self.total} %)"
        seconds = self.clock() - self._started
        if self._steps_timed and seconds > 0:
            rate = self._steps_timed / seconds
            text += f", {rate:.1f} {self.unit}/s"
            if self.done < self.total:
                text += f", {duration((self.total - self.done) / rate)} left"
        return text

    def _write(self, text):
        self._is_shown = True
        self.stream.write(text)
        self.stream.flush()


def duration(seconds):
    """Return a length of time as a person says it: "12 s", "3 min", "2 h 5 min".

    >>> duration(12.3), duration(200), duration(7500)
    ('12 s', '3 min', '2 h 5 min')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"
