"""Show progress: a bar on a terminal or in a notebook, plain lines elsewhere."""

import sys
import time

# tqdm's usual formats write "9.89s/ photos" for less than one a second.
PLAIN_LINE = (
    "{desc}: {n_fmt}/{total_fmt}{unit} ({percentage:.0f} %), {rate_noinv_fmt}, {remaining} left"
)
BAR = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_noinv_fmt}{postfix}]"


class Progress:
    """Count steps of work and show the progress on standard error.

    A terminal or notebook shows a tqdm bar; a file or pipe gets one line for each tenth
    of the work.

    Args:
        total: the number of steps.
        label, unit: the kind of work and of step, for example "features" and "photos".
        show: False shows nothing.
        delay: seconds before anything is shown.
        stream, clock: for tests.

    Attributes:
        note: text at the end of the bar.
    """

    def __init__(
        self, total, *, label, unit, show=True, delay=0, stream=None, clock=time.monotonic
    ):
        self.total, self.label, self.unit = total, label, unit
        self.show, self.delay = show, delay
        self.stream, self.clock = stream or sys.stderr, clock
        self.rewrites = self.stream.isatty() or "ipykernel" in sys.modules
        self.done = self._skipped = self._tenths_shown = 0
        self._started, self._bar = clock(), None
        self.note = ""

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self._bar is not None:
            self._bar.close()

    @classmethod
    def over(cls, items, total=None, **options):
        """Yield items, and count each when the next is asked for.

        Errors in the loop's body do not close the bar.
        """
        with cls(len(items) if total is None else total, **options) as progress:
            for item in items:
                yield item
                progress.advance(1)

    def skip(self, steps):
        """Count steps done by an earlier run.

        They do not affect the displayed speed.
        """
        self.done += steps
        self._skipped += steps

    def advance(self, steps):
        """Count steps that were just done, and update the display."""
        self.done += steps
        seconds = self.clock() - self._started
        if not self.show or seconds < self.delay:
            return
        from tqdm import tqdm  # imported only if needed: the first caption should not wait for it

        meter = {"total": self.total, "unit": f" {self.unit}", "initial": self._skipped}
        if self.rewrites:
            if self._bar is None:
                look = {"dynamic_ncols": True, "miniters": 1, "bar_format": BAR}
                self._bar = tqdm(desc=self.label, file=self.stream, **look, **meter)
                # The work started earlier.
                self._bar.start_t = self._bar.last_print_t = self._bar.start_t - seconds
            if self.note:
                self._bar.set_postfix_str(self.note, refresh=False)
            self._bar.update(self.done - self._bar.n)
        elif self.total and 10 * self.done // self.total > self._tenths_shown:
            self._tenths_shown = 10 * self.done // self.total
            line = tqdm.format_meter(
                self.done, elapsed=seconds, prefix=self.label, bar_format=PLAIN_LINE, **meter
            )
            print(line, file=self.stream, flush=True)
