"""A captioner for places where keras_sat is not installed: a SavedModel, and a file for LiteRT (TensorFlow Lite).

    DIRECTORY/1/saved_model.pb, variables/    for TensorFlow Serving and `tf.saved_model.load`
    DIRECTORY/1/model.tflite                  for LiteRT: greedy search, one photo of the encoder's size
    DIRECTORY/1/caption.py                    captions pictures with model.tflite, without TensorFlow
    DIRECTORY/1/vocabulary.txt                a token a line; the number of the line, from 0 on, is its id
    DIRECTORY/1/litert.json                   digests of model.tflite and vocabulary.txt, see `litert_folder`

Both hold the captioner's own search as a graph, from pixels on, the encoder included; there is no second copy of it.
A folder DIRECTORY/2 is the next export: TensorFlow Serving serves the one with the highest number. The file .lock is
empty; it lets one process export at a time.
"""

import shutil
from pathlib import Path

import tensorflow as tf

from data_utils.files import exclusive_lock, whole_folder, write_whole
from keras_sat.accelerated.switch import without_fast_twins
from keras_sat.files.litert import as_function, best_captions, greedy_file
from keras_sat.files.litert_folder import WORDS, words_as_text, write_litert
from keras_sat.files.saving import refuse_unbuilt
from keras_sat.options import BeamSearchOptions

FORMATS = ("tf_saved_model", "litert")
CAPTION_SCRIPT = Path(__file__).with_name("caption_script.py")


def export(captioner, directory, formats, *, jpeg=True, **options):
    """Write a captioner for programs without keras_sat; return the path of the folder that was made, DIRECTORY/NUMBER.

    Args:
        captioner: Captioner.
        directory: made if it is not there. What is written is the folder `directory`/1, or the next number: an export
            never replaces another.
        formats: "tf_saved_model": a SavedModel as TensorFlow Serving expects it. "litert": model.tflite, which takes
            one photo of the encoder's size, searches greedily, and gives token ids. A list: both.
        jpeg: give the SavedModel a second signature, which takes JPEG or PNG files.
        **options: see `keras_sat.options.BeamSearchOptions`.

    Signatures of the SavedModel: "serving_default" takes `images`, uint8 (photos, height, width, 3), RGB, of any size:
    they are stretched to the encoder's. "serving_jpeg" takes `image_bytes`, (photos,), and knows nothing of the
    orientation that a camera notes in its files, nor of transparency. Both give `captions` (photos,); `words` (photos,
    max_length), "" behind the last; `num_words`, `log_prob` and `is_finished` (photos,); `attention_weights` (photos,
    max_length, rows, columns); with a sentinel `from_photo` (photos, max_length). model.tflite gives `token_ids` (1,
    max_length) instead of words, which vocabulary.txt beside it has, and `word_probs` (1, max_length).
    """
    formats = list(formats) if isinstance(formats, (list, tuple)) else [formats]
    if not formats or not all(name in FORMATS for name in formats):
        raise ValueError(f"Expected one of: {', '.join(FORMATS)}, or a list of them. Received: format={formats}")
    greedy, beams = search_options(captioner, **options)
    check_captioner(captioner, formats)
    directory = Path(directory).expanduser()
    if "[" in str(directory) and "tf_saved_model" in formats:
        raise ValueError(
            "TensorFlow takes [ in a path for a pattern, and could not load what lies there. Choose another folder. "
            f"Received: directory={str(directory)!r}"
        )
    _next_version(directory)  # refuses any other folder before anything is written into it
    with exclusive_lock(directory / ".lock", f"is exporting into {directory}"), without_fast_twins():
        for leftover in directory.glob(".[0-9]*.part"):  # of an export that was killed
            shutil.rmtree(leftover, ignore_errors=True)
        folder = _next_version(directory)
        with whole_folder(folder) as temporary:
            if "tf_saved_model" in formats:
                _write_saved_model(captioner, temporary, greedy | beams | {"num_results": 1} if beams else greedy, jpeg)
            if "litert" in formats:
                write_litert(temporary, greedy_file(captioner, greedy), captioner.vocabulary)
                write_caption_script(temporary)
            else:
                write_whole(temporary / WORDS, words_as_text(captioner.vocabulary))
    return folder


def search_options(captioner, **options):
    """Return two dicts of arguments of `CaptionGenerator.search`: of greedy search, and what beam search adds.

    The second is empty for one beam. The options are BeamSearchOptions.
    """
    search = BeamSearchOptions.of("export", options, also=export.__kwdefaults__)
    own = {name: getattr(captioner, name) for name in ("length_penalty", "no_repeat_ngram")}
    greedy = {**own, **{name: value for name, value in search.to_dict().items() if value is not None}}
    beams = {"num_beams": search.beams, "length_penalty": greedy.pop("length_penalty")}
    greedy.pop("num_beams", None)
    return greedy, beams if search.beams > 1 else {}


def write_caption_script(directory):
    """Write the script that captions pictures with the file for LiteRT that lies beside it."""
    write_whole(directory / "caption.py", CAPTION_SCRIPT.read_bytes())


def check_captioner(captioner, formats):
    """Refuse a captioner that cannot be exported."""
    refuse_unbuilt(captioner, "export")
    _, rows, columns, feature_dim = captioner.encoder_model.output_shape
    if captioner.feature_shape != (rows * columns, feature_dim):
        raise ValueError(
            f"The encoder makes features of shape {(rows * columns, feature_dim)} of a photo, and the captioner was "
            f"built for other ones: it can only be given features. Received: feature_shape={captioner.feature_shape}"
        )
    dtype = captioner.decoder.compute_dtype
    if "litert" in formats and dtype != "float32":
        raise ValueError(
            "LiteRT computes in float32. Save the captioner, and load it in a program that leaves Keras' dtype policy "
            f"as it is: its weights are float32 all the same. Received: a captioner that computes in {dtype}"
        )


def _next_version(directory):
    """Return the path of the first number that is not taken in a folder of exports."""
    if directory.is_file():
        raise ValueError(f"Expected the name of a folder, and this is a file. Received: directory={str(directory)!r}")
    if directory.suffix in (".tflite", ".keras", ".h5"):
        raise ValueError(
            f"An export is a folder; the file in it is called model.tflite. Received: directory={str(directory)!r}"
        )
    versions = [0]
    for path in directory.iterdir() if directory.exists() else ():
        if path.name.isdecimal() and path.is_dir():
            versions.append(int(path.name))
        elif not path.name.startswith("."):
            raise ValueError(
                "A captioner is exported into a folder of its own, which holds nothing but exports: 1, 2 and so on. "
                f"Received: directory={str(directory)!r}, with {path.name} in it"
            )
    return directory / str(max(versions) + 1)


# === The graph ===


def _stretched(photos, size):
    """Return photos of any size as `load_image` stretches them, bit for bit: one side first, then the other.

    Captions hang on a bit: with `tf.image.resize`, rounded after each side, one pixel in a hundred was off by one, and
    2 of 100 photos got another caption.
    """
    height, width = size
    photos = tf.transpose(photos, (2, 0, 1, 3))  # the side that is stretched comes first
    photos = tf.transpose(_stretched_to(photos, width), (2, 1, 0, 3))
    return tf.transpose(_stretched_to(photos, height), (1, 0, 2, 3))


def _stretched_to(photos, length):
    """Return photos stretched along their first axis, uint8: Pillow's bilinear filter, in its arithmetic.

    It weighs the pixels in 22 bits, and rounds to 8 after each side. Whole numbers below 2**53 are exact in float64.
    """
    before = tf.shape(photos)[0]
    scale = tf.cast(before, tf.float64) / length
    reach = tf.maximum(scale, 1.0)  # where there are fewer pixels afterwards, each is a mean of many
    centres = (tf.range(length, dtype=tf.float64) + 0.5) * scale
    distances = tf.cast(tf.range(before), tf.float64) - centres[:, None] + 0.5
    weights = tf.maximum(1.0 - tf.abs(distances / reach), 0.0)
    weights = tf.floor(weights / tf.reduce_sum(weights, axis=1, keepdims=True) * 2**22 + 0.5)
    pixels = tf.cast(tf.reshape(photos, (before, -1)), tf.float64)
    sums = tf.sparse.sparse_dense_matmul(tf.sparse.from_dense(weights), pixels)
    rounded = tf.clip_by_value(tf.floor(sums / 2**22 + 0.5), 0, 255)
    return tf.cast(tf.reshape(rounded, tf.concat([[length], tf.shape(photos)[1:]], 0)), tf.uint8)


def _decoded(content, size):
    """Return the photo of a JPEG or PNG file, (height, width, 3), as `load_image` decodes it before it is stretched.

    Large JPEGs are decoded at a fraction of their size there, and all with the exact transform: with TensorFlow's usual
    one, which is faster, 18 of 100 photos got another caption.
    """

    def at(ratio):
        return lambda: tf.io.decode_jpeg(content, channels=3, ratio=ratio, dct_method="INTEGER_ACCURATE")

    is_jpeg = tf.io.is_jpeg(content)
    sides = tf.cond(is_jpeg, lambda: tf.io.extract_jpeg_shape(content)[:2], lambda: tf.constant([0, 0]))
    times = tf.reduce_min(sides) // (2 * max(size))
    return tf.switch_case(tf.reduce_sum(tf.cast(times >= [2, 4, 8], tf.int32)), [at(1), at(2), at(4), at(8)])


def _write_saved_model(captioner, directory, options, jpeg):
    size = captioner.photo_sizes[0]
    tokens = tf.constant(captioner.vocabulary.tokens)

    def with_words(photos):
        found, num_words = best_captions(captioner, photos, options)
        is_word = tf.sequence_mask(num_words, options["max_length"])
        words = tf.where(is_word, tf.gather(tokens, found.token_ids), "")
        return {
            "captions": tf.strings.strip(tf.strings.reduce_join(words, axis=1, separator=" ")),
            "words": words,
            "num_words": num_words,
            "log_prob": found.log_probs,
            "attention_weights": found.attention_weights,
            **found.extras,
            "is_finished": found.is_finished,
        }

    shared = as_function(with_words, tf.TensorSpec((None, *size, 3), tf.uint8))

    def serve(images):
        return shared(_stretched(images, size))

    def serve_jpeg(image_bytes):
        def seen(content):
            return _stretched(_decoded(content, size)[None], size)[0]

        return shared(tf.map_fn(seen, image_bytes, fn_output_signature=tf.TensorSpec((*size, 3), tf.uint8)))

    module = tf.Module()
    module.serve = as_function(serve, tf.TensorSpec((None, None, None, 3), tf.uint8, "images"))
    signatures = {"serving_default": module.serve}
    if jpeg:
        module.serve_jpeg = as_function(serve_jpeg, tf.TensorSpec((None,), tf.string, "image_bytes"))
        signatures["serving_jpeg"] = module.serve_jpeg
    module.weights = list(shared.get_concrete_function().variables)  # and nothing of an optimizer, or of metrics
    tf.saved_model.save(
        module, str(directory), signatures, tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    )
