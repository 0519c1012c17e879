"""Extensions of the paper: one idea per file, with its source and its measured gain.

See `extensions`.
"""
