"""Export a captioner for use without keras_sat: as a SavedModel, a LiteRT (TensorFlow
Lite) file or an ONNX file.

    DIRECTORY/1/saved_model.pb, variables/    for TensorFlow Serving and
                                              `tf.saved_model.load`
    DIRECTORY/1/model.tflite                  for LiteRT: greedy search, one photo of
                                              the encoder's size
    DIRECTORY/1/model.onnx                    for onnxruntime: beam search, one photo,
                                              see `onnx_file`
    DIRECTORY/1/caption.py                    captions images with one of these files,
                                              without TensorFlow
    DIRECTORY/1/vocabulary.txt, litert.json   see `litert_folder`; for ONNX, the
                                              manifest is onnx.json

All contain the encoder and the search as a graph. The next export is DIRECTORY/2;
TensorFlow Serving serves the highest number. An empty file .lock ensures that only one
process exports at a time.
"""

import dataclasses
import importlib
import inspect
import re
from pathlib import Path

import tensorflow as tf

from data_utils.base import (
    clear_half_written,
    exclusive_lock,
    whole_folder,
    write_sealed_json,
    write_whole,
)
from keras_sat.bounds import one_of
from keras_sat.checks import checked_path
from keras_sat.export.litert import as_function, litert_file, outputs_of, save
from keras_sat.export.litert_folder import write_files, write_litert
from keras_sat.export.onnx_file import onnx_file
from keras_sat.files import reject_unbuilt
from keras_sat.network import without_fast_twins
from keras_sat.settings import ALGORITHM_OPTIONS

CAPTION_SCRIPT = Path(__file__).with_name("caption_script.py")


def export(captioner, directory, formats, **options):
    """Export a captioner for use without keras_sat; return the path of the new folder,
    DIRECTORY/NUMBER.

    Args:
        captioner: Captioner.
        directory: folder for exports; created if necessary.
        formats: "tf_saved_model" writes a SavedModel for TensorFlow Serving. "litert"
            writes model.tflite, which takes one photo of the encoder's input size,
            searches greedily, and returns token ids. "onnx" writes model.onnx, which
            requires tf2onnx. A list writes several.
        **options: those of `keras_sat.settings.BeamSearch`, without consensus_weight.

    Signatures of the SavedModel: "serving_default" takes `images`, uint8 (photos,
    height, width, 3), RGB, of any size; they are resized to the encoder's input size.
    "serving_jpeg" takes `image_bytes`, (photos,), JPEG or PNG files; it ignores EXIF
    orientation and transparency. Both return `captions` (photos,); `words` (photos,
    max_length), padded with ""; `num_words`, `log_prob` and `is_finished` (photos,);
    `attention_weights` (photos, max_length, rows, columns); and, with a sentinel,
    `from_photo` (photos, max_length). model.tflite returns `token_ids` and `word_probs`
    (1, max_length) instead of words.
    """
    formats = formats if isinstance(formats, (list, tuple)) else [formats]
    for name in formats:
        one_of("tf_saved_model", "litert", "onnx").check("format", name)
    greedy, beams = exported_searches(captioner, **options)
    check_captioner(captioner, in_float32="litert" in formats or "onnx" in formats)
    directory = checked_path(directory, "directory")
    if "[" in str(directory) and "tf_saved_model" in formats:
        raise ValueError(
            "TensorFlow cannot load from a path that contains [. Choose another folder. "
            f"Received: {str(directory)!r}"
        )
    next_version(directory)  # rejects an unsuitable folder before writing anything into it
    onnx = onnx_file(captioner, beams) if "onnx" in formats else None  # may fail too
    with exclusive_lock(directory / ".lock", f"is exporting into {directory}"):
        folder = next_version(directory)
        clear_half_written(folder)
        with whole_folder(folder) as temporary:
            if "tf_saved_model" in formats:
                _write_saved_model(captioner, temporary, beams)
            if "litert" in formats:
                content = litert_file(captioner, greedy, beams, signatures=["serving_default"])
                write_litert(temporary, content, captioner.vocabulary)
            if onnx:
                digests = write_files(temporary, {"model.onnx": onnx}, captioner.vocabulary)
                write_sealed_json(temporary / "onnx.json", {"format": "onnx", "sha256": digests})
            if onnx or "litert" in formats:
                write_whole(temporary / "caption.py", caption_py())
    return folder


def caption_py():
    """Return the text of caption.py.

    It runs where there is no data_utils: in place of each import from data_utils, it
    has the source of that module.
    """

    def source_of(found):
        return inspect.getsource(importlib.import_module(found[1]))

    script = CAPTION_SCRIPT.read_text(encoding="utf-8")
    return re.sub(r"^from (data_utils[\w.]+) import .+\n", source_of, script, flags=re.MULTILINE)


def exported_searches(captioner, **options):
    """Return the Searches of an export: the greedy search, and the beam search, which
    returns all beams; see `KerasEngine.search_tensors`.
    """
    search = captioner.search_for("export", options, names=ALGORITHM_OPTIONS)
    num_beams = search.resolved_num_beams()
    beams = dataclasses.replace(search, num_beams=num_beams, num_results=num_beams)
    return search.greedy().for_graph(), beams.for_graph()


def check_captioner(captioner, *, in_float32):
    """Reject a captioner that cannot be exported."""
    reject_unbuilt(captioner, "export")
    _ = captioner.encoder_model  # raises an error if there is none
    dtype = captioner.decoder.compute_dtype
    if in_float32 and dtype != "float32":
        raise ValueError(
            "LiteRT and ONNX compute in float32: call "
            "keras.config.set_dtype_policy('float32') before you load "
            f"the captioner. Received: {dtype}"
        )


def next_version(directory):
    """Return the path for the next numbered export in a folder."""
    versions = [0]
    for path in directory.iterdir() if directory.exists() else ():
        if path.name.isdecimal() and path.is_dir():
            versions.append(int(path.name))
        elif not path.name.startswith("."):
            problem = (
                "The export folder may contain only exports, named 1, 2 and so on. Choose a "
                "new folder."
            )
            raise ValueError(
                f"{problem} Received: directory={str(directory)!r}, which contains {path.name}"
            )
    return directory / str(max(versions) + 1)


def stretched_photos(photos, size):
    """Resize photos exactly as `load_image` does, one axis after the other.

    `tf.image.resize`, rounded after each axis, was off by one in 1 % of the pixels and
    changed 2 of 100 captions.
    """
    height, width = size
    photos = tf.transpose(photos, (2, 0, 1, 3))  # the axis to resize comes first
    photos = tf.transpose(_stretched_to(photos, width), (2, 1, 0, 3))
    return tf.transpose(_stretched_to(photos, height), (1, 0, 2, 3))


def _stretched_to(photos, length):
    """Resize photos along their first axis with Pillow's bilinear filter and its 22-bit
    weights; return uint8.
    """
    old_length = tf.shape(photos)[0]
    scale = tf.cast(old_length, tf.float64) / length
    reach = tf.maximum(scale, 1.0)  # when downsampling, each pixel is a mean of many
    centres = (tf.range(length, dtype=tf.float64) + 0.5) * scale
    distances = tf.cast(tf.range(old_length), tf.float64) - centres[:, None] + 0.5
    weights = tf.maximum(1.0 - tf.abs(distances / reach), 0.0)
    weights = tf.floor(weights / tf.reduce_sum(weights, axis=1, keepdims=True) * 2**22 + 0.5)
    pixels = tf.cast(tf.reshape(photos, (old_length, -1)), tf.float64)
    sums = tf.sparse.sparse_dense_matmul(tf.sparse.from_dense(weights), pixels)
    rounded = tf.clip_by_value(tf.floor(sums / 2**22 + 0.5), 0, 255)
    shape = tf.concat([[length], tf.shape(photos)[1:]], 0)
    return tf.cast(tf.reshape(rounded, shape), tf.uint8)


def decoded_photo(content, size):
    """Decode a JPEG or PNG file as `load_image` does: (height, width, 3).

    Large JPEGs are decoded at reduced size, and all JPEGs with the accurate DCT:
    TensorFlow's faster default changed 18 of 100 captions.
    """

    def at(ratio):
        return lambda: tf.io.decode_jpeg(
            content, channels=3, ratio=ratio, dct_method="INTEGER_ACCURATE"
        )

    sides = tf.cond(
        tf.io.is_jpeg(content),
        lambda: tf.io.extract_jpeg_shape(content)[:2],
        lambda: tf.constant([0, 0]),
    )
    times_too_large = tf.reduce_min(sides) // (2 * max(size))
    number_of_ratio = tf.reduce_sum(tf.cast(times_too_large >= [2, 4, 8], tf.int32))
    return tf.switch_case(number_of_ratio, [at(1), at(2), at(4), at(8)])


def _write_saved_model(captioner, directory, search):
    """Write the captioner as a SavedModel, given its Search.

    The module that `tf.saved_model.load` returns has `serve` and `serve_jpeg`, the
    functions of the two signatures.
    """
    size = captioner.photo_sizes[0]

    def with_words(photos):
        search_result = captioner.engine.search_tensors(
            captioner.engine.encode_tensors(photos), search=search
        )
        best = tf.nest.map_structure(lambda x: x[:, 0], search_result)
        outputs = outputs_of(captioner, best)
        del outputs["word_probs"]
        is_word = tf.sequence_mask(outputs["num_words"], search.max_length)
        words = tf.where(
            is_word, tf.gather(captioner.vocabulary.tokens, outputs.pop("token_ids")), ""
        )
        captions = tf.strings.strip(tf.strings.reduce_join(words, axis=1, separator=" "))
        return {**outputs, "captions": captions, "words": words, "is_finished": best.is_finished}

    shared = as_function(with_words, tf.TensorSpec((None, *size, 3), tf.uint8))

    def serve(images):
        return shared(stretched_photos(images, size))

    def photo_of(content):
        return stretched_photos(decoded_photo(content, size)[None], size)[0]

    def serve_jpeg(image_bytes):
        return shared(
            tf.map_fn(
                photo_of, image_bytes, fn_output_signature=tf.TensorSpec((*size, 3), tf.uint8)
            )
        )

    module = tf.Module()
    module.serve = as_function(serve, tf.TensorSpec((None, None, None, 3), tf.uint8, "images"))
    module.serve_jpeg = as_function(serve_jpeg, tf.TensorSpec((None,), tf.string, "image_bytes"))
    signatures = {"serving_default": module.serve, "serving_jpeg": module.serve_jpeg}
    with without_fast_twins():
        save(module, directory, signatures)
