"""Convert a captioner to LiteRT (TensorFlow Lite), for phones, browsers, and Python
without TensorFlow.

Each signature of the file processes one photo:

    serving_default   images                 -> the caption of greedy search
    encode            images                 -> features
    beams             features               -> the captions of beam search, best first
    attend            features, token_ids    -> a given caption with its attention maps

The signatures are the captioner's search as a graph of built-in LiteRT operations, and
share their weights.
"""

import tempfile

import numpy as np
import tensorflow as tf

from data_utils.nouns import noun_positions
from keras_sat.network import without_fast_twins

SIGNATURES = ("serving_default", "encode", "beams", "attend")


def litert_file(captioner, greedy, beams, *, signatures=SIGNATURES):
    """Convert a captioner to a LiteRT file; return the content of the file as bytes.

    Args:
        captioner: Captioner.
        greedy, beams: see `exported_searches`.
        signatures: names from SIGNATURES.
    """

    def serving_default(images):
        search_result = captioner.engine.search_tensors(
            captioner.engine.encode_tensors(images), search=greedy
        )
        return outputs_of(captioner, _without_photo_axis(search_result))

    def encode(images):
        return {"features": captioner.photo_encoder(images)}  # LiteRTEngine rounds them

    def best(features):
        search_result = captioner.engine.search_tensors(features, search=beams)
        captions = _without_photo_axis(search_result)
        outputs = outputs_of(captioner, captions)
        if captioner.confidence is not None:
            word_probs = captions.word_probs[None]
            confidences = captioner.confidence.of_word_probs(word_probs, features)
            outputs["confidence"] = confidences[0]
            if captioner.confidence.word_coefficients is not None:
                of_words = captioner.confidence.of_words(word_probs, confidences)[0]
                is_noun = tf.gather(_are_nouns(captioner.vocabulary), captions.token_ids)
                outputs["word_confidence"] = tf.where(is_noun, of_words, -1.0)
        return outputs

    def attend(features, token_ids):
        search_result = captioner.engine.read_tensors(features, token_ids)
        return outputs_of(captioner, _without_photo_axis(search_result))

    images = tf.TensorSpec((1, *captioner.photo_sizes[0], 3), tf.uint8, "images")
    features = tf.TensorSpec((1, *captioner.feature_shape), tf.float32, "features")
    token_ids = tf.TensorSpec((1, greedy.max_length), tf.int32, "token_ids")
    functions = {
        "serving_default": as_function(serving_default, images),
        "encode": as_function(encode, images),
        "beams": as_function(best, features),
        "attend": as_function(attend, features, token_ids),
    }
    with without_fast_twins(), tempfile.TemporaryDirectory() as folder:
        save(tf.Module(), folder, {name: functions[name] for name in signatures})
        converter = tf.lite.TFLiteConverter.from_saved_model(
            folder, signature_keys=list(signatures)
        )
        return converter.convert()


def _are_nouns(vocabulary):
    """Return whether each token of a vocabulary is a noun, (tokens,)."""
    are_nouns = np.zeros(len(vocabulary), bool)
    are_nouns[noun_positions(vocabulary.tokens)] = True
    return are_nouns


def _without_photo_axis(search_result):
    """Return the SearchResult of a single photo without its first axis."""
    return tf.nest.map_structure(lambda x: x[0], search_result)


def outputs_of(captioner, search_result):
    """Convert a SearchResult to a dict of output tensors; probabilities, maps and
    extras are 0 after the last word.

    Its tensors are (captions, ...): those of one photo, or of the best caption of each.
    """
    num_words = search_result.lengths - tf.cast(search_result.is_finished, tf.int32)
    max_length = search_result.token_ids.shape[1]
    is_word = tf.sequence_mask(num_words, max_length, tf.float32)  # (captions, max_length)
    maps = search_result.attention_weights * is_word[:, :, None]
    outputs = {
        "token_ids": search_result.token_ids,
        "num_words": num_words,
        "log_prob": search_result.log_probs,
        "word_probs": search_result.word_probs * is_word,
        "attention_weights": tf.reshape(maps, (-1, max_length, *captioner.rows_and_columns())),
    }
    for name, values in search_result.extras.items():
        outputs[name] = tf.squeeze(values * is_word[:, :, None], -1)
    return outputs


def as_function(function, *specs):
    """Return a tf.function that has a single graph, traced for these input specs."""
    return tf.function(function, input_signature=specs, autograph=False)


def save(module, directory, signatures):
    """Write a `tf.Module` as a SavedModel.

    Args:
        module: its attributes are those of the loaded SavedModel. `weights` is set to
            the variables that the signatures use: no others are written.
        directory: the folder.
        signatures: dict from names to functions from `as_function`.
    """
    variables = {}  # each once, by its identity
    for function in signatures.values():
        for variable in function.get_concrete_function().variables:
            variables[id(variable)] = variable
    module.weights = list(variables.values())
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    tf.saved_model.save(module, str(directory), signatures, options)
