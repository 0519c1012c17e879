"""A LiteRT file made small: weights are kept rounded, and arithmetic stays in float32.

Each column of a matrix gets 8 bits and a scale, as in a captioner that was saved with "int8", whose columns are kept as
they are. The kernels of convolutions get 16: in 8 bits 36 of 200 photos got another caption. LiteRT turns them back
into float32 once, when the file is loaded. (What LiteRT's own converter offers as "dynamic range" rounds what comes
into a layer too, and sentences change.)
"""

import numpy as np
from tensorflow.lite.python import schema_py_generated as schema
from tensorflow.lite.tools import flatbuffer_utils

SMALLEST = 1024  # numbers: what is smaller stays as it is
MANY = 32_768  # numbers in a kernel: single ones matter less then
BITS_LEFT_OUT = 1  # of the ten of a mantissa, in kernels with many numbers: the file can be packed better
OPERATOR = schema.BuiltinOperator


def rounded(content):
    """Return the content of a LiteRT file with its weights rounded.

    Args:
        content: bytes, as `tf.lite.TFLiteConverter` makes them.
    """
    model = flatbuffer_utils.convert_bytearray_to_object(bytearray(content))
    to_float32 = _operator_code(model, OPERATOR.DEQUANTIZE, version=3)
    kept = {}  # from the number of a buffer to its rounded twin: signatures share their weights
    for graph in model.subgraphs:
        uses = _uses(model, graph)
        steps = []
        for number in range(len(graph.tensors)):
            tensor = graph.tensors[number]
            if not _is_weight(model, tensor) or number not in uses:
                continue
            if tensor.buffer not in kept:
                kept[tensor.buffer] = _round(model, tensor, uses[number])
            small = _twin(tensor, *kept[tensor.buffer])
            graph.tensors.append(small)
            steps.append(_step(to_float32, len(graph.tensors) - 1, number))
            tensor.buffer = 0
        graph.operators = steps + graph.operators
        for number, tensor in enumerate(graph.tensors):
            tensor.name = str(number).encode()  # names of Keras' layers took a hundredth of the file
    _empty_what_nobody_uses(model)
    return bytes(flatbuffer_utils.convert_object_to_bytearray(model))


class _SharedQuantization(schema.QuantizationParametersT):
    """Scales that the tensors of several graphs share: written once."""

    place = None

    def Pack(self, builder):  # noqa: N802
        if self.place is None:
            self.place = super().Pack(builder)
        return self.place


def _operator_code(model, operator, version):
    """Return the number of an operator in the file's list, and put it there."""
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = operator
    code.version = version
    model.operatorCodes.append(code)
    return len(model.operatorCodes) - 1


def _uses(model, graph):
    """Return a dict from the number of each tensor to the operator that takes it first."""
    uses = {}
    for step in graph.operators:
        for number in step.inputs:
            uses.setdefault(int(number), model.operatorCodes[step.opcodeIndex].builtinCode)
    return uses


def _is_weight(model, tensor):
    data = model.buffers[tensor.buffer].data
    return tensor.type == schema.TensorType.FLOAT32 and data is not None and len(data) >= 4 * SMALLEST


def _round(model, tensor, operator):
    """Put the rounded twin of a weight into the file; return the number of its buffer, its type and its scales."""
    values = np.frombuffer(bytes(model.buffers[tensor.buffer].data), np.float32).reshape(tensor.shape)
    if operator in (OPERATOR.CONV_2D, OPERATOR.DEPTHWISE_CONV_2D):
        halved = _with_fewer_bits(values).astype(np.float16) if values.size >= MANY else values.astype(np.float16)
        return _add_buffer(model, halved), schema.TensorType.FLOAT16, None
    axis = values.ndim - 1 if operator == OPERATOR.GATHER else 0  # a table of words is not transposed, matrices are
    others = tuple(other for other in range(values.ndim) if other != axis)
    scales = np.maximum(np.abs(values).max(axis=others, keepdims=True), np.finfo(np.float32).tiny) / np.float32(127)
    shared = _SharedQuantization()
    shared.scale, shared.quantizedDimension = scales.ravel(), axis
    shared.zeroPoint = np.zeros(scales.size, np.int64)
    return _add_buffer(model, np.rint(values / scales).astype(np.int8)), schema.TensorType.INT8, shared


def _with_fewer_bits(values):
    """Return float32 numbers rounded, so that as float16 the last bits of each are 0."""
    left_out = 13 + BITS_LEFT_OUT  # float32 has 23 bits, of which float16 keeps ten
    bits = values.view(np.int32) + (1 << (left_out - 1))
    return (bits >> left_out << left_out).view(np.float32)


def _add_buffer(model, array):
    buffer = schema.BufferT()
    buffer.data = np.frombuffer(array.tobytes(), np.uint8)
    model.buffers.append(buffer)
    return len(model.buffers) - 1


def _twin(tensor, buffer, kind, quantization):
    twin = schema.TensorT()
    twin.shape, twin.buffer, twin.type, twin.quantization = list(tensor.shape), buffer, kind, quantization
    return twin


def _step(operator, given, made):
    """Return the step of a graph in which an operator makes one tensor of another."""
    step = schema.OperatorT()
    step.opcodeIndex = operator
    step.inputs, step.outputs = np.array([given], np.int32), np.array([made], np.int32)
    step.builtinOptionsType, step.builtinOptions = schema.BuiltinOptions.DequantizeOptions, schema.DequantizeOptionsT()
    return step


def _empty_what_nobody_uses(model):
    used = {tensor.buffer for graph in model.subgraphs for tensor in graph.tensors}
    used |= {entry.buffer for entry in model.metadata or []}
    for number, buffer in enumerate(model.buffers):
        if number not in used:
            buffer.data = None
