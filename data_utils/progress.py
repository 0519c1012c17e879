"""Show how far a long piece of work has come: a bar on a terminal or in a notebook, plain lines elsewhere."""

import sys
import time


class Progress:
    """Counts steps of work and shows them on standard error.

    On a terminal and in a notebook that is tqdm's bar. In a file or a pipe it is a line for each tenth of the work.

    Args:
        total: the number of steps.
        label: the kind of work, for example "features".
        unit: the kind of step, for example "photos".
        show: False keeps it silent.
        delay: nothing is shown for so many seconds.
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
        self._skipped = 0
        self._started = clock()
        self._tenths_shown = 0
        self._bar = None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self._bar is not None:
            self._bar.close()

    def skip(self, steps):
        """Count steps that an earlier run did: they do not enter the speed."""
        self.done += steps
        self._skipped += steps
        if self.total:
            self._tenths_shown = 10 * self.done // self.total

    def advance(self, steps):
        """Count steps that were just done, and show them from time to time."""
        self.done += steps
        if not self.show or self.clock() - self._started < self.delay:
            return
        if self.rewrites:
            if self._bar is None:
                self._bar = self._new_bar()
            self._bar.update(self.done - self._bar.n)
        elif self.total and 10 * self.done // self.total > self._tenths_shown:
            self._tenths_shown = 10 * self.done // self.total
            self.stream.write(self.text() + "\n")
            self.stream.flush()

    def text(self):
        """Return the plain line: "features: 800/8000 photos (10 %), 61.0 photos/s, 2 min left"."""
        text = f"{self.label}: {self.done}/{self.total} {self.unit} ({100 * self.done // self.total} %)"
        seconds = self.clock() - self._started
        if self.done > self._skipped and seconds > 0:
            rate = (self.done - self._skipped) / seconds
            text += f", {rate:.1f} {self.unit}/s"
            if self.done < self.total:
                text += f", {duration((self.total - self.done) / rate)} left"
        return text

    def _new_bar(self):
        from tqdm import tqdm

        shown = {"desc": self.label, "total": self.total, "unit": f" {self.unit}", "initial": self._skipped}
        bar = tqdm(**shown, file=self.stream, dynamic_ncols=True, miniters=1)
        bar.start_t = bar.last_print_t = bar.start_t - (self.clock() - self._started)  # the work started before the bar
        return bar


def duration(seconds):
    """Return a length of time in words: "12 s", "3 min", "2 h 5 min".

    >>> duration(12.3), duration(200), duration(7500)
    ('12 s', '3 min', '2 h 5 min')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"
