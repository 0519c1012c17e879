"""A weights file of PyTorch's old format is data: whatever a pickle says is never done."""

import os
import pickle
import pickletools
import struct

import numpy as np
import pytest

import keras_sat.model.torch_file as torch_file_module
from keras_sat.model.efficientnet_lite import EfficientNetLite
from keras_sat.model.encoder_weights import load_encoder_weights
from keras_sat.model.torch_file import MAGIC, read_torch_file


def text(string):
    return b"X" + struct.pack("<I", len(string)) + string.encode()


def number(value):
    return b"J" + struct.pack("<i", value)


def numbers(values):
    return b"(" + b"".join(map(number, values)) + b"t"


def tensor(key, size, shape, strides, offset=0, kind="FloatStorage"):
    """Return the instructions that make a tensor, as torch.save writes them."""
    storage = b"(" + text("storage") + f"ctorch\n{kind}\n".encode() + text(key) + text("cpu") + number(size) + b"NtQ"
    arguments = b"(" + storage + number(offset) + numbers(shape) + numbers(strides) + b"\x89" + NOTHING + b"t"
    return b"ctorch._utils\n_rebuild_tensor_v2\n" + arguments + b"R"


NOTHING = b"ccollections\nOrderedDict\n)R"
HEAD = b"".join(pickle.dumps(item, protocol=2) for item in (MAGIC, 1001, {"little_endian": True}))


def torch_file(tensors, storages, keys=None):
    """Return the bytes of a file: a dict of tensors, given as instructions, and the numbers behind it."""
    items = b"".join(text(name) + instructions for name, instructions in tensors.items())
    content = HEAD + b"\x80\x02" + NOTHING + b"(" + items + b"u."
    content += pickle.dumps(list(storages) if keys is None else keys, protocol=2)
    return content + b"".join(struct.pack("<q", array.size) + array.tobytes() for array in storages.values())


@pytest.fixture
def path(tmp_path):
    return tmp_path / "weights.pth"


@pytest.fixture(scope="module")
def network():
    return EfficientNetLite(width=0.1, depth=0.1)(input_shape=(32, 32, 3), name="lite")


ROW = np.arange(24, dtype=np.float32)


def test_arrays_as_they_were(path):
    counts = np.array([7], np.int64)
    tensors = {
        "plain": tensor("1", 24, (2, 3, 4), (12, 4, 1)),
        "turned": tensor("1", 24, (4, 6), (1, 4)),
        "part": tensor("1", 24, (5,), (1,), offset=19),
        "count": tensor("2", 1, (), (), kind="LongStorage"),
    }
    path.write_bytes(torch_file(tensors, {"1": ROW, "2": counts}))
    arrays = read_torch_file(path)
    np.testing.assert_array_equal(arrays["plain"], ROW.reshape(2, 3, 4))
    np.testing.assert_array_equal(arrays["turned"], ROW.reshape(6, 4).T)
    np.testing.assert_array_equal(arrays["part"], ROW[19:])
    assert arrays["count"] == 7 and arrays["count"].dtype == np.int64


def test_equal_to_what_torch_reads(path):
    torch = pytest.importorskip("torch", reason="the extra `bench` brings PyTorch")
    made = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)).state_dict()
    made["turned"] = torch.arange(6.0).reshape(2, 3).T
    torch.save(made, path, _use_new_zipfile_serialization=False)
    arrays = read_torch_file(path)
    assert arrays.keys() == made.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, made[name].numpy())


class Evil:
    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call


def hostile():
    for protocol in range(6):
        yield f"os.system, {protocol}", pickle.dumps(Evil(os.system, ("touch HARMED",)), protocol)
        yield f"exec, {protocol}", pickle.dumps(Evil(exec, ("open('HARMED', 'w')",)), protocol)
        yield f"a method, {protocol}", pickle.dumps(Evil(getattr, ("text", "upper")), protocol)
        yield f"an array of objects, {protocol}", pickle.dumps(np.array([{}], object), protocol)
    called = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n"
    yield "a made object", b"\x80\x02cposix\nsystem\n" + text("touch HARMED") + b"\x85R."
    yield "an instance", b"(cposix\nsystem\n" + text("touch HARMED") + b"o."
    yield "a class by name", b"(" + text("touch HARMED") + b"iposix\nsystem\n."
    yield "an attribute of a call", called + b"}" + text("__code__") + text("x") + b"sb."
    yield "an extension", b"\x80\x02\x82\x01."
    yield "a far place of the memo", b"\x80\x02}r\xff\xff\xff\xff."
    yield "a place that is empty", b"\x80\x02h\x07."
    yield "nothing on the stack", b"\x80\x02R."
    yield "an end without a beginning", b"\x80\x02)u."
    yield "a number to add to", b"\x80\x02K\x01(K\x02e."
    yield "a text that is not all there", b"\x80\x02X\xff\xff\xff\x7fabc."
    yield "no end", b"\x80\x02}"
    yield "no instruction", b"\xfe\xfd."
    yield "a long number", b"\x80\x02\x8b\xff\xff\xff\x7f\x01."
    yield "another dict", pickle.dumps({"weight": [1, 2, 3]}, protocol=2)


HARMLESS = ("an attribute of a call", "a far place of the memo", "no end", "another dict")  # where nothing is looked at


@pytest.mark.parametrize("case", list(hostile()), ids=lambda case: case[0])
@pytest.mark.parametrize("place", ["first", "third", "dict", "keys"])
def test_nothing_runs(case, place, network, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name, evil = case
    good = torch_file({"plain": tensor("1", 24, (24,), (1,))}, {"1": ROW})
    dict_begins = len(HEAD)
    dict_ends = dict_begins + len(good[dict_begins:].partition(pickle.dumps(["1"], protocol=2))[0])
    content = {
        "first": evil + good,
        "third": HEAD[: HEAD.rindex(b"\x80\x02")] + evil + good[dict_begins:],
        "dict": HEAD + evil + good[dict_ends:],
        "keys": good[:dict_ends] + evil + good[dict_ends:],
    }[place]
    path.write_bytes(content)
    try:
        np.testing.assert_array_equal(read_torch_file(path)["plain"], ROW)
        assert name in HARMLESS
    except ValueError:
        with pytest.raises(ValueError, match="does not hold the weights of lite"):
            load_encoder_weights(network, path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["weights.pth"], "something ran"


WRONG = {
    "beyond the end": ("reaches beyond", tensor("1", 24, (25,), (1,))),
    "beyond by strides": ("reaches beyond", tensor("1", 24, (4, 6), (30, 1))),
    "one number many times": ("reaches beyond", tensor("1", 24, (1000, 1000), (0, 0))),
    "from the end on": ("reaches beyond", tensor("1", 24, (1,), (1,), offset=24)),
    "a negative place": ("of a kind that weights do not have", tensor("1", 24, (4,), (1,), offset=-4)),
    "backwards": ("of a kind that weights do not have", tensor("1", 24, (4,), (-1,), offset=8)),
    "more sizes than strides": ("not so many strides", tensor("1", 24, (4, 6), (1,))),
    "another count": ("an array of 23 numbers is said to have 24", tensor("1", 23, (23,), (1,))),
    "another kind": ("numbers of a kind", tensor("1", 24, (24,), (1,), kind="HalfStorage")),
    "a negative count": ("numbers of a kind", tensor("1", -24, (24,), (1,))),
}


@pytest.mark.parametrize("name", WRONG)
def test_arrays_that_do_not_fit_their_numbers(name, path):
    reason, instructions = WRONG[name]
    path.write_bytes(torch_file({"array": instructions}, {"1": ROW}))
    with pytest.raises(ValueError, match=reason):
        read_torch_file(path)


def test_files_that_end_early_or_name_other_arrays(path):
    whole = torch_file({"plain": tensor("1", 24, (24,), (1,))}, {"1": ROW})
    for end in range(0, len(whole), 7):
        path.write_bytes(whole[:end])
        with pytest.raises(ValueError):
            read_torch_file(path)
    for keys in ([], ["2"], ["1", "1"], {"1": 1}, "1"):
        path.write_bytes(torch_file({"plain": tensor("1", 24, (24,), (1,))}, {"1": ROW}, keys))
        with pytest.raises(ValueError, match="not that of its names"):
            read_torch_file(path)


def test_what_is_followed_is_what_such_a_file_needs():
    """Whatever lies on the stack, an instruction that imports, calls or makes an object is refused."""
    stacks = [], [{}], [{}, (), "name", 1], ["os system", ()], [torch_file_module.MARK, "os system", "ls"]
    followed = set()
    for name in (instruction.name for instruction in pickletools.opcodes):
        for stack in stacks:
            try:
                torch_file_module._follow(name, "os system", list(stack))
                followed.add(name)
            except (IndexError, KeyError, TypeError, AttributeError):
                followed.add(name)
            except ValueError as error:
                if "an instruction that no weights need" not in str(error):
                    followed.add(name)
    values = {*torch_file_module.VALUES, *torch_file_module.PLAIN}
    collections = {"EMPTY_DICT", "EMPTY_LIST", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "APPEND", "APPENDS", "SETITEM"}
    assert followed == values | collections | {"SETITEMS", "BINPERSID", "REDUCE", "BUILD"}
    assert not followed & {"INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "STACK_GLOBAL", "EXT1", "EXT2", "EXT4", "PERSID"}


def test_heads_of_other_formats(path):
    good = torch_file({"plain": tensor("1", 24, (24,), (1,))}, {"1": ROW})
    for head, reason in (
        ((MAGIC, 1002, {"little_endian": True}), "not in PyTorch's old format"),
        ((MAGIC, 1001, {"little_endian": False}), "begins with their other end"),
        ((MAGIC, 1001, [1]), "begins with their other end"),
    ):
        path.write_bytes(b"".join(pickle.dumps(item, protocol=2) for item in head) + good[len(HEAD) :])
        with pytest.raises(ValueError, match=reason):
            read_torch_file(path)
    path.write_bytes(b"PK\x03\x04" + good)
    with pytest.raises(ValueError, match="since 1.6.*_use_new_zipfile_serialization=False"):
        read_torch_file(path)


def test_one_storage_that_is_described_twice(path):
    twice = {"one": tensor("1", 24, (24,), (1,)), "other": tensor("1", 12, (12,), (1,))}
    path.write_bytes(torch_file(twice, {"1": ROW}))
    with pytest.raises(ValueError, match="two things of the same numbers"):
        read_torch_file(path)


def test_a_text_that_claims_more_than_any_memory(path):
    path.write_bytes(HEAD + b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fabc.")
    with pytest.raises(ValueError):
        read_torch_file(path)
