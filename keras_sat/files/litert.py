"""A captioner as a file for LiteRT (TensorFlow Lite): for phones, browsers, and Python without TensorFlow.

`greedy_file` has one signature: a photo in, the caption of greedy search out. `file_with_signatures` has what a page
needs that plays with a captioner, each for one photo:

    serving_default   images                 -> the caption of greedy search, as in `greedy_file`
    encode            images                 -> features
    beams             features               -> the best captions of beam search, best first
    attend            features, token_ids    -> where it looks while it reads a caption that is given

All of it is the captioner's own search as a graph, in operations that LiteRT has built in; the signatures share their
weights.
"""

import tempfile

import tensorflow as tf

SIGNATURES = ("serving_default", "encode", "beams", "attend")


def best_captions(captioner, photos, options):
    """Return the SearchResult of the best captions of photos of the encoder's size, and their numbers of words.

    Its maps are (photos, max_length, rows, columns), 0 behind the last word.

    Args:
        captioner: Captioner.
        photos: uint8 (photos, height, width, 3).
        options: dict of the arguments of `CaptionGenerator.search`.
    """
    found = captioner.generator.search(captioner.features(photos), **options)
    found = tf.nest.map_structure(lambda x: x[:, 0], found)
    return _with_maps(captioner, found, options["max_length"])


def greedy_file(captioner, greedy):
    """Return the content of a file with the greedy search as its only signature.

    Args:
        captioner: Captioner.
        greedy: dict of the arguments of `CaptionGenerator.search`.
    """
    module = tf.Module()
    module.serve = as_function(_greedy(captioner, greedy), _photo_spec(captioner))
    concrete = module.serve.get_concrete_function()
    module.weights = list(concrete.variables)
    return tf.lite.TFLiteConverter.from_concrete_functions([concrete], module).convert()


def file_with_signatures(captioner, greedy, beams):
    """Return the content of a file with all of SIGNATURES.

    Args:
        captioner: Captioner.
        greedy, beams: dicts of the arguments of `CaptionGenerator.search`, the second for what beam search adds; as
            many results come as there are beams.
    """
    if beams:
        beams = {**beams, "num_results": beams["num_beams"]}
    beams = {**greedy, **beams}
    features_spec = tf.TensorSpec((1, *captioner.feature_shape), tf.float32, "features")
    ids_spec = tf.TensorSpec((1, greedy["max_length"]), tf.int32, "token_ids")

    def encode(images):
        return {"features": captioner.features(images)}

    def search(features):
        found = captioner.generator.search(features, **beams)
        return _of_one_photo(captioner, found, features, beams["max_length"], with_confidence=True)

    def attend(features, token_ids):
        found = captioner.generator.follow(features, token_ids)
        return _of_one_photo(captioner, found, features, greedy["max_length"])

    module = tf.Module()
    module.serving_default = as_function(_greedy(captioner, greedy), _photo_spec(captioner))
    module.encode = as_function(encode, _photo_spec(captioner))
    module.beams = as_function(search, features_spec)
    module.attend = as_function(attend, features_spec, ids_spec)
    signatures = {name: getattr(module, name).get_concrete_function() for name in SIGNATURES}
    weights = {id(variable): variable for one in signatures.values() for variable in one.variables}
    module.weights = list(weights.values())
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder, signatures)
        return tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=list(SIGNATURES)).convert()


def as_function(function, *specs):
    return tf.function(function, input_signature=specs, autograph=False)


def _photo_spec(captioner):
    return tf.TensorSpec((1, *captioner.photo_sizes[0], 3), tf.uint8, "images")


def _greedy(captioner, options):
    def ids_and_maps(images):
        found, num_words = best_captions(captioner, images, options)
        return _outputs(found, num_words)

    return ids_and_maps


def _of_one_photo(captioner, found, features, max_length, with_confidence=False):
    """Return the outputs of all results of one photo, the best first: (results, ...)."""
    word_probs = found.word_probs
    found, num_words = _with_maps(captioner, tf.nest.map_structure(lambda x: x[0], found), max_length)
    outputs = _outputs(found, num_words)
    if with_confidence and captioner.confidence is not None:
        outputs["confidence"] = captioner.confidence(word_probs, features)[0]
    return outputs


def _outputs(found, num_words):
    return {
        "token_ids": found.token_ids,
        "num_words": num_words,
        "log_prob": found.log_probs,
        "word_probs": found.word_probs,
        "attention_weights": found.attention_weights,
        **found.extras,
    }


def _with_maps(captioner, found, max_length):
    """Return a SearchResult (captions, ...) with maps that have rows and columns, and the numbers of words."""
    num_words = found.lengths - tf.cast(found.is_finished, tf.int32)
    is_word = tf.sequence_mask(num_words, max_length, tf.float32)
    maps = tf.reshape(found.attention_weights * is_word[:, :, None], (-1, max_length, *captioner.rows_and_columns()))
    extras = {name: tf.squeeze(x * is_word[:, :, None], -1) for name, x in found.extras.items()}
    return found._replace(attention_weights=maps, extras=extras, word_probs=found.word_probs * is_word), num_words
