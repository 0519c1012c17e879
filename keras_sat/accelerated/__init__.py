"""Fast versions ("twins") of plain code that give the same values and gradients.

The decoder chooses them by name: see `keras_sat.model.readers.READERS` and
`keras_sat.model.scorings.BahdanauAttention.score_method`.
"""
