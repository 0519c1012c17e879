"""What runs without keras_sat or without TensorFlow: the SavedModel, the file for LiteRT, and the page for browsers."""
