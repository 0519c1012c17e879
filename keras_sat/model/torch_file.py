"""Arrays out of a weights file of PyTorch's old format, which is a pickle: read as data, so that nothing in it can run.

A pickle is a little program for a machine with a stack. Of its instructions those are followed here that a dict of
arrays is made of, and nothing that it names is ever looked up, imported or called: a name stays a string.
"""

import math
import os
import pickletools
from pathlib import Path
from typing import NamedTuple

import numpy as np

MAGIC, VERSION = 0x1950A86A20F9469CFC6C, 1001  # the numbers that such a file begins with
ZIP = b"PK\x03\x04"  # what files of later formats begin with
DTYPES = {"FloatStorage": np.dtype("<f4"), "LongStorage": np.dtype("<i8")}
DICT, TENSOR = "collections OrderedDict", "torch._utils _rebuild_tensor_v2"
MARK = object()


class Storage(NamedTuple):
    """Numbers that lie behind the pickles, in one row."""

    key: str
    dtype: np.dtype
    size: int


class Tensor(NamedTuple):
    """A part of a Storage, as an array of a shape."""

    storage: Storage
    offset: int
    shape: tuple
    strides: tuple


def read_torch_file(path):
    """Return the dict of arrays in a file that `torch.save` wrote before PyTorch 1.6; else a ValueError.

    Args:
        path: the file.
    """
    with Path(path).open("rb") as file:
        if file.read(len(ZIP)) == ZIP:
            raise ValueError(
                "it is in PyTorch's format since 1.6; torch.save(torch.load(path), other, "
                "_use_new_zipfile_serialization=False) writes the old one, and numpy.savez an .npz file"
            )
        file.seek(0)
        if _object_in(file) != MAGIC or _object_in(file) != VERSION:
            raise ValueError("it is not in PyTorch's old format")
        machine = _object_in(file)
        if not isinstance(machine, dict) or machine.get("little_endian") is not True:
            raise ValueError("its numbers were written by a machine that begins with their other end")
        tensors, keys = _object_in(file), _object_in(file)
        storages = {tensor.storage.key: tensor.storage for tensor in _tensors_in(tensors)}
        if any(tensor.storage != storages[tensor.storage.key] for tensor in tensors.values()):
            raise ValueError("it says two things of the same numbers")
        if (
            not isinstance(keys, list)
            or not all(isinstance(key, str) for key in keys)
            or sorted(keys) != sorted(storages)
        ):
            raise ValueError("its list of arrays is not that of its names")
        numbers = {key: _numbers(file, storages[key]) for key in keys}
    return {name: _array(tensor, numbers[tensor.storage.key]) for name, tensor in tensors.items()}


def _tensors_in(tensors):
    if not isinstance(tensors, dict) or not all(isinstance(item, Tensor) for item in tensors.values()):
        raise ValueError("it holds something else than arrays with names")
    return tensors.values()


def _numbers(file, storage):
    """Return the numbers of a storage: their count, 8 bytes, and they themselves."""
    count = int.from_bytes(file.read(8), "little")
    if count != storage.size:
        raise ValueError(f"an array of {storage.size} numbers is said to have {count}")
    length = count * storage.dtype.itemsize
    if length > os.fstat(file.fileno()).st_size - file.tell():  # before there is room made for it
        raise ValueError("it ends in the middle of an array")
    content = file.read(length)
    return np.frombuffer(content, storage.dtype)


def _array(tensor, numbers):
    reach = tensor.offset + sum((side - 1) * stride for side, stride in zip(tensor.shape, tensor.strides))
    if reach >= len(numbers) or tensor.offset + math.prod(tensor.shape) > len(numbers):
        raise ValueError("an array reaches beyond its numbers")
    strides = [stride * numbers.itemsize for stride in tensor.strides]
    return np.lib.stride_tricks.as_strided(numbers[tensor.offset :], tensor.shape, strides, writeable=False)


# === The machine ===


def _object_in(file):
    """Return what the next pickle of a file makes: numbers, text, lists, dicts and Tensors."""
    stack, memo = [], {}
    for instruction, argument, _ in _instructions(file):
        name = instruction.name
        try:
            if name == "STOP":
                return stack.pop()
            if name in ("PROTO", "FRAME"):
                continue
            if name in ("BINPUT", "LONG_BINPUT"):
                memo[argument] = stack[-1]
            elif name == "MEMOIZE":
                memo[len(memo)] = stack[-1]
            elif name in ("BINGET", "LONG_BINGET"):
                stack.append(memo[argument])
            else:
                _follow(name, argument, stack)
        except (IndexError, KeyError, TypeError, AttributeError):
            raise ValueError(f"its instruction {name} has nothing to work on") from None
    raise ValueError("it has no end")  # pickletools says so itself


def _instructions(file):
    """Yield what pickletools does; a text that is said to be longer than any memory is a ValueError too."""
    try:
        yield from pickletools.genops(file)
    except (MemoryError, OverflowError, RecursionError):
        raise ValueError("it claims more than there is room for") from None


VALUES = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": (), "MARK": MARK}
PLAIN = [
    "BININT",
    "BININT1",
    "BININT2",
    "LONG1",
    "BINUNICODE",
    "SHORT_BINUNICODE",
    "GLOBAL",
]  # their argument is the value


def _follow(name, argument, stack):
    """Do what one instruction says with the values on the stack."""
    if name in VALUES:
        stack.append(VALUES[name])
    elif name in PLAIN:
        stack.append(argument)
    elif name in ("EMPTY_DICT", "EMPTY_LIST"):
        stack.append({} if name == "EMPTY_DICT" else [])
    elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
        stack.append(tuple(_popped(stack, int(name[-1]))))
    elif name == "TUPLE":
        stack.append(tuple(_since_mark(stack)))
    elif name in ("APPEND", "APPENDS"):
        items = _popped(stack, 1) if name == "APPEND" else _since_mark(stack)
        stack[-1].extend(items)
    elif name in ("SETITEM", "SETITEMS"):
        items = _popped(stack, 2) if name == "SETITEM" else _since_mark(stack)
        if not all(isinstance(key, str) for key in items[::2]):  # to hash deeply nested ones would end the program
            raise ValueError("it has a name that is no text")
        stack[-1].update(zip(items[::2], items[1::2], strict=True))
    elif name == "BINPERSID":
        stack.append(_storage(stack.pop()))
    elif name == "REDUCE":
        called, arguments = _popped(stack, 2)
        stack.append(_made(called, arguments))
    elif name == "BUILD":
        stack.pop()  # attributes of a dict of weights: versions of layers
    else:
        raise ValueError(f"it has an instruction that no weights need: {name}")


def _popped(stack, count):
    items = stack[len(stack) - count :]
    if len(items) != count or MARK in items:
        raise IndexError
    del stack[len(stack) - count :]
    return items


def _since_mark(stack):
    items = []
    while (item := stack.pop()) is not MARK:
        items.append(item)
    return items[::-1]


def _storage(description):
    """Return the Storage of ("storage", kind, key, device, size, view)."""
    what, kind, key, _, size, view = description
    kind = kind.removeprefix("torch ") if isinstance(kind, str) else None
    if what != "storage" or kind not in DTYPES or view is not None or not isinstance(key, str) or not _is_size(size):
        raise ValueError("it has numbers of a kind that weights do not have")
    return Storage(key, DTYPES[kind], size)


def _made(called, arguments):
    """Return what stands for a call: an empty dict, or a Tensor."""
    if called == DICT and arguments == ():
        return {}
    if called != TENSOR:
        raise ValueError(f"it calls what no weights need: {called[:80] if isinstance(called, str) else 'no name'}")
    storage, offset, shape, strides, *_ = arguments
    if len(shape) != len(strides):
        raise ValueError(f"an array of {len(shape)} sides has not so many strides")
    if not isinstance(storage, Storage) or not all(map(_is_size, (offset, *shape, *strides))):
        raise ValueError("it has an array of a kind that weights do not have")
    return Tensor(storage, offset, tuple(shape), tuple(strides))


def _is_size(number):
    return type(number) is int and 0 <= number < 2**31
