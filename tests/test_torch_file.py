"""The only pickle that is opened: two files, known by their digests, which cannot call
anything.
"""

import hashlib
import os
import pickle
import struct

import numpy as np
import pytest

from keras_sat.model import torch_file as torch_file_module
from keras_sat.model.efficientnet_lite import efficientnet_lite
from keras_sat.model.encoder_weights import assign_weights
from keras_sat.model.torch_file import read_torch_file

ROW = np.arange(24, dtype=np.float32)


def text(string):
    return b"X" + struct.pack("<I", len(string)) + string.encode()


def number(value):
    return b"J" + struct.pack("<i", value)


def tensor(key, size, shape, strides, offset=0, kind="FloatStorage"):
    """Return the instructions that make a tensor, as torch.save writes them."""
    storage = (
        b"("
        + text("storage")
        + f"ctorch\n{kind}\n".encode()
        + text(key)
        + text("cpu")
        + number(size)
        + b"NtQ"
    )
    sides, steps = (b"(" + b"".join(map(number, values)) + b"t" for values in (shape, strides))
    rebuild = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + number(offset)
    return rebuild + sides + steps + b"\x89" + NOTHING + b"tR"


NOTHING = b"ccollections\nOrderedDict\n)R"
HEAD = b"".join(
    pickle.dumps(item, protocol=2)
    for item in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})
)


def torch_file(tensors, storages):
    """Return the bytes of a file: a dict of tensors, given as instructions, and then
    the numbers.
    """
    items = b"".join(text(name) + instructions for name, instructions in tensors.items())
    content = (
        HEAD
        + b"\x80\x02"
        + NOTHING
        + b"("
        + items
        + b"u."
        + pickle.dumps(list(storages), protocol=2)
    )
    return content + b"".join(
        struct.pack("<q", array.size) + array.tobytes() for array in storages.values()
    )


@pytest.fixture
def known(tmp_path, monkeypatch):
    """Return a function that writes a file whose digest is known."""

    def write(content):
        (tmp_path / "weights.pth").write_bytes(content)
        monkeypatch.setattr(torch_file_module, "KNOWN", {hashlib.sha256(content).hexdigest()})
        return tmp_path / "weights.pth"

    return write


def test_arrays_as_they_were(known):
    tensors = {
        "plain": tensor("1", 24, (2, 3, 4), (12, 4, 1)),
        "turned": tensor("1", 24, (4, 6), (1, 4)),
        "part": tensor("1", 24, (5,), (1,), offset=19),
        "count": tensor("2", 1, (), (), kind="LongStorage"),
    }
    arrays = read_torch_file(known(torch_file(tensors, {"1": ROW, "2": np.array([7], np.int64)})))
    np.testing.assert_array_equal(arrays["plain"], ROW.reshape(2, 3, 4))
    np.testing.assert_array_equal(arrays["turned"], ROW.reshape(6, 4).T)
    np.testing.assert_array_equal(arrays["part"], ROW[19:])
    assert arrays["count"] == 7 and arrays["count"].dtype == np.int64


@pytest.mark.slow
def test_equal_to_what_torch_reads(known, tmp_path):
    torch = pytest.importorskip("torch", reason="the extra `bench` brings PyTorch")
    made = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)).state_dict()
    torch.save(made, tmp_path / "made.pth", _use_new_zipfile_serialization=False)
    arrays = read_torch_file(known((tmp_path / "made.pth").read_bytes()))
    assert arrays.keys() == made.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, made[name].numpy())


class Evil:
    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call


HOSTILE = [
    (os.system, ("touch HARMED",)),
    (exec, ("open('HARMED', 'w')",)),
    (getattr, ("text", "upper")),
]


@pytest.mark.parametrize("call", HOSTILE, ids=["system", "exec", "getattr"])
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_nothing_runs(call, protocol, known, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = known(
        pickle.dumps(Evil(*call), protocol)
        + torch_file({"row": tensor("1", 24, (24,), (1,))}, {"1": ROW})
    )
    with pytest.raises(ValueError, match="uses .*, which weights never need"):
        read_torch_file(path)  # not even if its digest were known
    monkeypatch.undo()
    with pytest.raises(
        ValueError,
        match="weights of lite.*not the file of its PyTorch package",
    ):
        assign_weights(efficientnet_lite((32, 32, 3), 0.1, 0.1, name="lite"), path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["weights.pth"], "something ran"


@pytest.mark.parametrize(
    "place", [((25,), (1,), 0), ((4, 6), (30, 1), 0), ((1,), (1,), 24), ((4,), (-1,), 1)]
)
def test_an_array_that_reaches_beyond_its_numbers(place, known):
    *sides, offset = place
    with pytest.raises((ValueError, TypeError)):
        read_torch_file(
            known(torch_file({"array": tensor("1", 24, *sides, offset=offset)}, {"1": ROW}))
        )
