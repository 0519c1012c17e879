"""How long an epoch takes and when training may end, from its first batches."""

import time

from tqdm import tqdm

FEWEST_BATCHES = 3  # before there is an estimate


class EpochTimes:
    """Measures epochs and estimates the seconds of a whole one.

    The first batch of each epoch does not count: in it, TensorFlow traces a graph. What
    comes after the last batch, such as scores on dev, is known from the epoch before;
    in the first epoch, the text says that it is not counted.

    Args:
        num_epochs: number of epochs of the whole training.
        clock: function that returns seconds.
    """

    def __init__(self, num_epochs, clock=time.monotonic):
        self.num_epochs = num_epochs
        self.clock = clock
        self._after_batches = None  # seconds, known after the first epoch

    def begin(self, epoch, num_batches):
        """Start to measure an epoch, given its index and, if known, its batches."""
        self.epoch = epoch
        self.num_batches = num_batches
        self.done = 0
        self.started = self._last = self.clock()

    def end_batch(self):
        self._last = self.clock()
        self.done += 1
        if self.done == 1:
            self._first = self._last

    def end(self):
        """Return the seconds of the epoch that has ended."""
        now = self.clock()
        self._after_batches = now - self._last
        return now - self.started

    def estimate(self):
        """Return the seconds of an epoch and those left if none ends training early;
        None if it is too early for an estimate.
        """
        if not self.num_batches or self.done < FEWEST_BATCHES:
            return None
        seconds_per_batch = (self._last - self._first) / (self.done - 1)
        after_batches = self._after_batches or 0.0
        seconds_per_epoch = seconds_per_batch * self.num_batches + after_batches
        left_in_epoch = seconds_per_batch * (self.num_batches - self.done) + after_batches
        left_afterwards = seconds_per_epoch * (self.num_epochs - self.epoch - 1)
        return seconds_per_epoch, left_in_epoch + left_afterwards

    def as_text(self):
        """Return the estimate in words, or "" if it is too early for one."""
        estimate = self.estimate()
        if estimate is None:
            return ""
        seconds_per_epoch, seconds_left = estimate
        text = (
            f"an epoch takes about {tqdm.format_interval(seconds_per_epoch)}, the last one ends at "
            f"about {time_of_day(seconds_left)}"
        )
        if self._after_batches is None:
            text += ", scores on dev not counted"
        return text


def time_of_day(seconds_from_now):
    """Return the local time in some seconds, "14:32", with the day if it is another."""
    now = time.time()
    then = time.localtime(now + seconds_from_now)
    is_today = then[:3] == time.localtime(now)[:3]
    return time.strftime("%H:%M" if is_today else "%H:%M on %a %d %b", then)
