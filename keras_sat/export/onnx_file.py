"""Convert a captioner to ONNX with the package tf2onnx (extra `onnx`); onnxruntime runs
the file.

It takes `images`, uint8 (1, height, width, 3), and returns the captions of beam search,
best first: see `keras_sat.export.litert.outputs_of`. onnx.json has the digests of
model.onnx and vocabulary.txt.
"""

import logging

import tensorflow as tf

from keras_sat.export.litert import as_function, outputs_of
from keras_sat.network import without_fast_twins

OPSET = 18  # onnxruntime has it since version 1.14


def onnx_file(captioner, search):
    """Convert a captioner to an ONNX file, with its Search (see `exported_searches`).

    Return the content as bytes.
    """
    try:
        from tf2onnx import convert
    except ImportError:
        raise ValueError(
            "Export to ONNX requires tf2onnx: pip install tf2onnx onnxruntime."
        ) from None
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    def caption(images):
        search_result = captioner.engine.search_tensors(
            captioner.engine.encode_tensors(images), search=search
        )
        photo_result = tf.nest.map_structure(lambda x: x[0], search_result)
        return outputs_of(captioner, photo_result)

    images = tf.TensorSpec((1, *captioner.photo_sizes[0], 3), tf.uint8, "images")
    with without_fast_twins():
        concrete = as_function(caption, images).get_concrete_function()
    frozen = convert_variables_to_constants_v2(
        concrete, lower_control_flow=False, aggressive_inlining=True
    )
    names = {
        tensor.name: name
        for name, tensor in zip(sorted(concrete.structured_outputs), frozen.outputs)
    }
    # They report every step, and that tf2onnx uses old functions.
    for logger in ("tensorflow", "tf2onnx"):
        logging.getLogger(logger).setLevel(logging.ERROR)
    model, _ = convert.from_graph_def(
        frozen.graph.as_graph_def(),
        input_names=["images:0"],
        output_names=[*names],
        opset=OPSET,
        tensors_to_rename={"images:0": "images", **names},
    )
    return model.SerializeToString()
