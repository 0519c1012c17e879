"""Read photos in another process, so that one that crashes its decoder stops neither a
worker nor its other photos.

For each line with a path and a size, the process answers with a line and the pixels.
The line has the number of bytes and, if there are none, the reason and whether it is
the photo: it may also be the disk, the network or the memory.
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

START = b"answer: "  # of an answer's line
# Others may pass.
OF_PHOTO = (ValueError, FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
# If the system kills the process for lack of memory, this may not be the photo's fault.
NUM_TRIES = 2


class PhotoProcess:
    """A process that reads photos.

    It starts with the first photo, and again after a crash.
    """

    def __init__(self):
        self._process, self._lock = None, threading.Lock()

    def load(self, image, size):
        """Return what `load_image` returns; raise RuntimeError if the photo can perhaps
        be read later or elsewhere.

        `image` may also be an address such as s3://bucket/photo.jpg.
        """
        if not isinstance(image, (str, os.PathLike)):
            return load_image(image, size)
        line = json.dumps([os.fspath(image), *map(int, size)]).encode() + b"\n"
        with self._lock:
            for _ in range(NUM_TRIES):
                # It crashed, perhaps within an answer.
                with contextlib.suppress(OSError, ValueError):
                    num_bytes, reason, is_of_photo = self._ask(line)
                    pixels = np.frombuffer(self._process.stdout.read(num_bytes), np.uint8)
                    if reason or pixels.size == size[0] * size[1] * 3:
                        break
                self.close()
            else:
                raise ValueError(f"{image}: the picture cannot be read (its decoder crashed).")
        if reason:
            raise (ValueError if is_of_photo else RuntimeError)(reason)
        return pixels.reshape(*size, 3)

    def _ask(self, line):
        if self._process is None:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            self._process = subprocess.Popen([sys.executable, "-m", __name__], **pipes)
        self._process.stdin.write(line)
        self._process.stdin.flush()
        # Libraries may print too.
        answers = (line for line in self._process.stdout if line.startswith(START))
        return json.loads(next(answers, START).removeprefix(START))

    def close(self):
        """End the process: it ends with its input, and therefore also when a worker is
        killed.
        """
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
        pixels, reason, is_of_photo = b"", "", True
        try:
            pixels = _pixels(path, size)
        except Exception as error:  # file systems have their own kinds of errors
            reason, is_of_photo = reason_without_number(error), isinstance(error, OF_PHOTO)
        answers.write(
            START + json.dumps([len(pixels), reason, is_of_photo]).encode() + b"\n" + pixels
        )
        answers.flush()


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # from here on, libraries print to standard error
    answers.write(b"\n")
    _answer_all(sys.stdin.buffer, answers)
