"""The warm-up of hard attention: its first epochs use expectations, as soft attention does."""

import keras


class BeginWithExpectations(keras.callbacks.Callback):
    """Train hard attention with expectations alone for the first epochs, and then draw samples.

    The figures of these epochs get `warm_up` = 1, since they train soft attention: see `best_epoch`.

    Args:
        num_epochs: how many.
    """

    def __init__(self, num_epochs):
        super().__init__()
        self.num_epochs = num_epochs

    def on_epoch_begin(self, epoch, logs=None):
        only = epoch < self.num_epochs
        self.model.expectation_share.assign(1.0 if only else self.model.expectation_probability)

    def on_epoch_end(self, epoch, logs=None):
        if self.num_epochs:
            logs["warm_up"] = float(epoch < self.num_epochs)
