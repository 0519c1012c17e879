"""How long an epoch takes and when training may end, from its first batches."""

import time

from tqdm import tqdm

# In the first two batches, TensorFlow compiles the network: for captions of one
# length, and then for those of any length.
COMPILED_IN = 2
FEWEST_BATCHES = COMPILED_IN + 1  # before there is an estimate


class EpochTimes:
    """Measures epochs and estimates the seconds of a whole one.

    The first batches of an epoch do not count, see COMPILED_IN. What comes after the
    last batch, such as scores on dev, is known from the epoch before; in the first
    epoch, the text says that it is not counted.

    Args:
        num_epochs: number of epochs of the whole training.
        clock: function that returns seconds.
    """

    def __init__(self, num_epochs, clock=time.monotonic):
        self.num_epochs = num_epochs
        self.clock = clock
        self._after_batches = None  # seconds, known after the first epoch

    def begin(self, epoch, num_batches, epochs_to_stop=None):
        """Start to measure an epoch.

        Args:
            epoch: its index.
            num_batches: number of its batches, or None if unknown.
            epochs_to_stop: training ends after so many epochs, this one included, if
                none of them is better (`history.epochs_to_plateau`); None: it does not.
        """
        self.epoch = epoch
        self.num_batches = num_batches
        self.epochs_to_stop = epochs_to_stop
        self.done = 0
        self.started = self._last = self.clock()

    def end_batch(self):
        self._last = self.clock()
        self.done += 1
        if self.done == COMPILED_IN:
            self._compiled = self._last

    def end(self):
        """Return the seconds that the epoch which has ended took, and those that the
        next one will take, in which nothing is compiled.
        """
        now = self.clock()
        self._after_batches = now - self._last
        self.num_batches = self.done
        seconds = now - self.started
        estimate = self.estimate()
        return seconds, seconds if estimate is None else estimate[0]

    def estimate(self):
        """Return the seconds of an epoch and those left in this one; None if it is too
        early for an estimate.
        """
        if not self.num_batches or self.done < FEWEST_BATCHES:
            return None
        seconds_per_batch = (self._last - self._compiled) / (self.done - COMPILED_IN)
        after_batches = self._after_batches or 0.0
        seconds_per_epoch = seconds_per_batch * self.num_batches + after_batches
        left_in_epoch = seconds_per_batch * (self.num_batches - self.done) + after_batches
        return seconds_per_epoch, left_in_epoch

    def as_text(self):
        """Return the estimate in words, or "" if it is too early for one."""
        estimate = self.estimate()
        if estimate is None:
            return ""
        seconds_per_epoch, left_in_epoch = estimate
        num_left = self.num_epochs - self.epoch - 1
        last_end = time_of_day(left_in_epoch + num_left * seconds_per_epoch)
        text = (
            f"an epoch takes about {tqdm.format_interval(seconds_per_epoch)}, the last one ends at "
            f"about {last_end}"
        )
        if self.epochs_to_stop is not None and self.epochs_to_stop - 1 < num_left:
            seconds_to_stop = left_in_epoch + (self.epochs_to_stop - 1) * seconds_per_epoch
            text += f" (at {time_of_day(seconds_to_stop)} if none gets better)"
        if self._after_batches is None:
            text += ", scores on dev not counted"
        return text


def time_of_day(seconds_from_now):
    """Return the local time in some seconds, "14:32", with the day if it is another."""
    now = time.time()
    then = time.localtime(now + seconds_from_now)
    is_today = then[:3] == time.localtime(now)[:3]
    return time.strftime("%H:%M" if is_today else "%H:%M on %a %d %b", then)
