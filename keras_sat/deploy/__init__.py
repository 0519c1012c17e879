"""Exports of a captioner: a SavedModel, a LiteRT file that runs without TensorFlow, and a web page."""
