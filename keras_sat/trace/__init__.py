"""The trace of a caption: how each word came about, from the photo to its probability.

See `trace`.
"""
