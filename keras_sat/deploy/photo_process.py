"""Read photos in another process, so that one that crashes its decoder stops neither a worker nor its other photos.

For each line with a path and a size, the process answers with a line (number of bytes, reason) and the pixels.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading

import numpy as np

from data_utils.images import load_image
from keras_sat.checks import reason_without_number

NUM_TRIES = 2  # if the system kills the process for lack of memory, this may not be the photo's fault


class PhotoProcess:
    """A process that reads photos; it starts with the first photo, and again after a crash."""

    def __init__(self):
        self._process, self._lock = None, threading.Lock()

    def load(self, image, size):
        """Return what `load_image` returns. `image` may also be an address such as s3://bucket/photo.jpg."""
        if not isinstance(image, (str, os.PathLike)):
            return load_image(image, size)
        line = json.dumps([os.fspath(image), *map(int, size)]).encode() + b"\n"
        with self._lock:
            for _ in range(NUM_TRIES):
                if self._process is None:
                    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
                    self._process = subprocess.Popen([sys.executable, "-m", __name__], **pipes)
                with contextlib.suppress(BrokenPipeError):
                    self._process.stdin.write(line)
                    self._process.stdin.flush()
                if answer := self._process.stdout.readline():
                    num_bytes, reason = json.loads(answer)
                    if reason:
                        raise ValueError(reason)
                    return np.frombuffer(self._process.stdout.read(num_bytes), np.uint8).reshape(*size, 3)
                self.close()
        raise ValueError(f"{image}: the picture cannot be read (its decoder crashed).")

    def close(self):
        """End the process: it ends with its input, and therefore also when a worker is killed."""
        with contextlib.suppress(BrokenPipeError), self._process:
            self._process.stdin.close()
        self._process = None


def _pixels(path, size):
    if "://" not in path:
        return load_image(path, size).tobytes()
    import fsspec

    with fsspec.open(path) as file:
        return load_image(file, size).tobytes()


def _answer_all(lines, answers):
    for line in lines:
        path, *size = json.loads(line)
        pixels, reason = b"", ""
        try:
            pixels = _pixels(path, size)
        except Exception as error:  # file systems have their own kinds of errors
            reason = reason_without_number(error)
        answers.write(json.dumps([len(pixels), reason]).encode() + b"\n" + pixels)
        answers.flush()


if __name__ == "__main__":
    _answer_all(sys.stdin.buffer, sys.stdout.buffer)
