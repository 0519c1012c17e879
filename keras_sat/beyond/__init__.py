"""Extensions of the paper: one idea per file, with its source and its measured gain.

See `terms` for those that act in training.
"""
