"""What a removed region is removed from: three effects, told apart.

Each function returns log p of a word as a function of how much of each region is kept,
(n, regions) -> (n,). "everywhere" alters the photo at all steps and in h_0. "step"
alters z_t of the word's own step: with attention before the LSTM, z_t feeds its cells,
too. "readout" alters z_t in the readout alone, which is what votes divide. In the last
two, attention stays as it was.
"""

import keras
import numpy as np
from keras import ops

from keras_sat import equations, log_probs_of
from keras_sat.looking.trace_steps import share_of
from keras_sat.measuring.explaining import AlteredRegions


def everywhere(reading, t, substitute=None):
    altered = AlteredRegions(
        log_probs_of(reading.captioner), reading.regions, reading.words, substitute
    )
    return lambda kept: altered.log_probs(kept)[:, t]


def step(reading, t):
    return _of_context(
        reading, t, with_cells=reading.captioner.decoder.settings.attends == "before"
    )


def readout(reading, t):
    return _of_context(reading, t, with_cells=False)


EFFECTS = {"everywhere": everywhere, "step": step, "readout": readout}


def _of_context(reading, t, with_cells):
    """Return the function for an altered z_t.

    Args:
        with_cells: whether the cells read it, and not the readout alone.
    """
    decoder, steps = reading.captioner.decoder, reading.steps
    regions = reading.regions
    mean = regions.mean(axis=0)
    weights = ops.convert_to_numpy(steps.selection[0, t] * share_of(steps)[0, t])
    unchanged = ops.convert_to_numpy(steps.context[0, t])
    word_id = reading.token_ids[0, t]

    def log_prob(kept):
        rows = len(kept)
        removed = (1 - np.asarray(kept)) * weights  # (n, regions)
        context = ops.convert_to_tensor((unchanged - removed @ (regions - mean)).astype("float32"))

        def repeated(x):
            return ops.repeat(x, rows, axis=0)

        embedded = repeated(steps.embedded[:, t])
        hidden_state = repeated(steps.state.hidden_states[-1][:, t])
        if with_cells:
            first = decoder.cells[0]
            inputs = first.input_projection(embedded) + first.context_projection(context)
            before = keras.tree.map_structure(repeated, reading.states[t])
            state, _ = decoder.advance(inputs, before)
            hidden_state = state.hidden_states[-1]
        logits = decoder.readout(embedded, hidden_state, context)
        found = equations.word_log_probs(logits, np.full(rows, word_id, "int32"))
        return ops.convert_to_numpy(found)

    return log_prob
