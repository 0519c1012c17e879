"""Show how far a long piece of work has come: a bar on a terminal or in a notebook, a line now and then elsewhere."""

import sys
import time


class Progress:
    """Counts steps of work and reports them on standard error.

    On a terminal and in a notebook that is the bar of tqdm, drawn again at most ten times a second; where the output
    goes to a file or a pipe, a plain line is written each time that another tenth of the work is done.

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
        self._skipped = 0
        self._started = clock()
        self._tenths_shown = 0
        self._bar = None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self._bar is None and self.show and self.rewrites and self.done and not self.delay:
            self._bar = self._new_bar()
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def restart(self, total, *, skip=0):
        """Count from the beginning, to another total; `skip` steps of it are done already."""
        self.total = total
        self.done = self._skipped = self._tenths_shown = 0
        self._started = self.clock()
        self.skip(skip)
        if self._bar is not None:
            self._bar.leave = False  # the line is the next bar's
            self._bar.close()
            self._bar = None

    def skip(self, steps):
        """Count steps that an earlier run had done: they do not enter the speed."""
        self.done += steps
        self._skipped += steps
        if self.total:
            self._tenths_shown = 10 * self.done // self.total

    def advance(self, steps):
        """Count steps that were just done, and show them when it is time to."""
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
        """Return a bar that has been there since the work began; tqdm's own has just begun."""
        from tqdm import tqdm

        bar = tqdm(
            desc=self.label,
            total=self.total,
            unit=f" {self.unit}",
            initial=self._skipped,
            file=self.stream,
            dynamic_ncols=True,
            miniters=1,
        )
        bar.start_t = bar.last_print_t = bar.start_t - (self.clock() - self._started)
        bar.update(self.done - bar.n)
        return bar


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
