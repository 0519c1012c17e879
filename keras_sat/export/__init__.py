"""Export a captioner as a SavedModel, as a LiteRT file that runs without TensorFlow, or
as a web page.
"""
