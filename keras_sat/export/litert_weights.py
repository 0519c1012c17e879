"""Make a LiteRT file smaller by quantising its weights; arithmetic stays in float32.

Matrices are stored in 8 bits with a scale per column, as in a captioner that was saved
with "int8". Convolution kernels are stored in 16 bits: in 8 bits, 36 of 200 captions
changed. LiteRT converts weights back to float32 once, when the file is loaded. Its own
converter cannot do this: "dynamic range" also rounds the inputs of layers, which
changes captions, and "float16" makes the file 50 % larger.
"""

import numpy as np
from tensorflow.lite.python import schema_py_generated as schema
from tensorflow.lite.tools import flatbuffer_utils

from keras_sat.files import rounded_to_8_bits

SMALLEST = 1024  # values: smaller weights are not quantised
MANY = 32_768  # values: larger kernels lose another bit, which compresses better
OPERATOR = schema.BuiltinOperator


def rounded(content):
    """Quantise the weights of a LiteRT file, given as bytes.

    Return the new content as bytes.
    """
    model = flatbuffer_utils.convert_bytearray_to_object(bytearray(content))
    to_float32 = schema.OperatorCodeT()
    to_float32.builtinCode = to_float32.deprecatedBuiltinCode = OPERATOR.DEQUANTIZE
    to_float32.version = 3
    model.operatorCodes.append(to_float32)
    # From buffer index to the type and scales of its quantised content: signatures
    # share weights.
    kinds = {}
    for graph in model.subgraphs:
        first_operators = _first_operators(model, graph)
        dequantizing_steps = []
        for number, tensor in enumerate(list(graph.tensors)):
            buffer = model.buffers[tensor.buffer]
            is_float32 = tensor.type == schema.TensorType.FLOAT32 and buffer.data is not None
            is_new = tensor.buffer not in kinds
            if is_new and is_float32 and len(buffer.data) >= 4 * SMALLEST:
                kinds[tensor.buffer] = _round(buffer, tensor.shape, first_operators.get(number))
            if tensor.buffer in kinds:
                step = _dequantizing_step(model, graph, number, kinds[tensor.buffer])
                dequantizing_steps.append(step)
        graph.operators = dequantizing_steps + graph.operators
    return bytes(flatbuffer_utils.convert_object_to_bytearray(model))


def _first_operators(model, graph):
    """Return the first operator that reads each tensor, a dict by its index."""
    operators = {}
    for step in graph.operators:
        operator = model.operatorCodes[step.opcodeIndex].builtinCode
        for number in step.inputs:
            operators.setdefault(int(number), operator)
    return operators


def _dequantizing_step(model, graph, number, kind):
    """Return the step from quantised weights to the float32 tensor `number`.

    Add the tensor of quantised weights to the graph; `kind` is its type and scales.
    """
    tensor = graph.tensors[number]
    small = schema.TensorT()
    small.name = tensor.name
    small.shape = list(tensor.shape)
    small.buffer = tensor.buffer
    small.type, small.quantization = kind
    step = schema.OperatorT()
    step.opcodeIndex = len(model.operatorCodes) - 1  # the last one, DEQUANTIZE
    step.inputs = np.array([len(graph.tensors)], np.int32)
    step.outputs = np.array([number], np.int32)
    step.builtinOptionsType = schema.BuiltinOptions.DequantizeOptions
    step.builtinOptions = schema.DequantizeOptionsT()
    graph.tensors.append(small)
    tensor.buffer = 0
    return step


def _round(buffer, shape, operator):
    """Quantise the weights in a buffer; return their new type and scales."""
    values = np.frombuffer(bytes(buffer.data), np.float32).reshape(shape)
    if operator in (OPERATOR.CONV_2D, OPERATOR.DEPTHWISE_CONV_2D):
        if values.size >= MANY:
            # 9 bits of mantissa, rounded
            values = ((values.view(np.int32) + (1 << 13)) >> 14 << 14).view(np.float32)
        buffer.data = np.frombuffer(values.astype(np.float16).tobytes(), np.uint8)
        return schema.TensorType.FLOAT16, None
    # Matrices are transposed, embeddings are not.
    axis = values.ndim - 1 if operator == OPERATOR.GATHER else 0
    numbers, scales = rounded_to_8_bits(values, axis)
    buffer.data = np.frombuffer(numbers.tobytes(), np.uint8)
    quantization = schema.QuantizationParametersT()
    quantization.scale = scales.ravel()
    quantization.quantizedDimension = axis
    quantization.zeroPoint = np.zeros(scales.size, np.int64)
    return schema.TensorType.INT8, quantization
