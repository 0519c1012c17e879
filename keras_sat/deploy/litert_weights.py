"""A LiteRT file made small: weights are stored rounded, and arithmetic stays in float32.

Each column of a matrix gets 8 bits and a scale, as in a captioner that was saved with "int8". The kernels of
convolutions get 16: in 8 bits 36 of 200 photos got another caption. LiteRT turns them back into float32 once, when the
file is loaded. Its own converter has nothing for this: "dynamic range" also rounds the inputs of a layer, so captions
change, and "float16" makes a file that is half as large again.
"""

import numpy as np
from tensorflow.lite.python import schema_py_generated as schema
from tensorflow.lite.tools import flatbuffer_utils

SMALLEST = 1024  # numbers: a smaller weight stays as it is
MANY = 32_768  # numbers: a kernel with more of them loses another bit, which packs better
OPERATOR = schema.BuiltinOperator


def rounded(content):
    """Return the content of a LiteRT file with its weights rounded.

    Args:
        content: bytes, as `tf.lite.TFLiteConverter` makes them.
    """
    model = flatbuffer_utils.convert_bytearray_to_object(bytearray(content))
    to_float32 = schema.OperatorCodeT()
    to_float32.builtinCode = to_float32.deprecatedBuiltinCode = OPERATOR.DEQUANTIZE
    to_float32.version = 3
    model.operatorCodes.append(to_float32)
    kinds = {}  # from the number of a buffer to the type and scales of its rounded content: signatures share weights
    for graph in model.subgraphs:
        first_use = _first_use(model, graph)
        steps = []
        for number in range(len(graph.tensors)):
            tensor = graph.tensors[number]
            if tensor.buffer not in kinds and _is_weight(model, tensor):
                kinds[tensor.buffer] = _round(model.buffers[tensor.buffer], tensor.shape, first_use.get(number))
            if tensor.buffer in kinds:
                small = schema.TensorT()
                small.shape, small.buffer = list(tensor.shape), tensor.buffer
                small.type, small.quantization = kinds[tensor.buffer]
                graph.tensors.append(small)
                steps.append(_dequantize(len(model.operatorCodes) - 1, len(graph.tensors) - 1, number))
                tensor.buffer = 0
        graph.operators = steps + graph.operators
        for number, tensor in enumerate(graph.tensors):
            tensor.name = str(number).encode()  # the names of Keras' layers took a hundredth of the file
    return bytes(flatbuffer_utils.convert_object_to_bytearray(model))


def _first_use(model, graph):
    """Return a dict from the number of each tensor to the first operator that takes it."""
    uses = {}
    for step in graph.operators:
        for number in step.inputs:
            uses.setdefault(int(number), model.operatorCodes[step.opcodeIndex].builtinCode)
    return uses


def _is_weight(model, tensor):
    data = model.buffers[tensor.buffer].data
    return tensor.type == schema.TensorType.FLOAT32 and data is not None and len(data) >= 4 * SMALLEST


def _round(buffer, shape, operator):
    """Round the content of a buffer; return its new type and its scales."""
    values = np.frombuffer(bytes(buffer.data), np.float32).reshape(shape)
    if operator in (OPERATOR.CONV_2D, OPERATOR.DEPTHWISE_CONV_2D):
        if values.size >= MANY:
            values = ((values.view(np.int32) + (1 << 13)) >> 14 << 14).view(np.float32)  # 9 bits of mantissa, rounded
        buffer.data = np.frombuffer(values.astype(np.float16).tobytes(), np.uint8)
        return schema.TensorType.FLOAT16, None
    axis = values.ndim - 1 if operator == OPERATOR.GATHER else 0  # matrices are transposed; a table of words is not
    others = tuple(other for other in range(values.ndim) if other != axis)
    scales = np.maximum(np.abs(values).max(axis=others, keepdims=True), np.finfo(np.float32).tiny) / np.float32(127)
    buffer.data = np.frombuffer(np.rint(values / scales).astype(np.int8).tobytes(), np.uint8)
    quantization = schema.QuantizationParametersT()
    quantization.scale, quantization.quantizedDimension = scales.ravel(), axis
    quantization.zeroPoint = np.zeros(scales.size, np.int64)
    return schema.TensorType.INT8, quantization


def _dequantize(operator, given, made):
    """Return the step of a graph that makes one tensor of another."""
    step = schema.OperatorT()
    step.opcodeIndex = operator
    step.inputs, step.outputs = np.array([given], np.int32), np.array([made], np.int32)
    step.builtinOptionsType, step.builtinOptions = schema.BuiltinOptions.DequantizeOptions, schema.DequantizeOptionsT()
    return step
