"""Read photos in another process: if one crashes its decoder, or is never read, the
others still are.

For each line with a path and a size, the process answers with a line and the pixels.
The line has the number of bytes and, if there are none, the reason and whether it is
the photo: it may also be the disk, the network or the memory.
"""

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading

import numpy as np

from data_utils.base import reason_without_number
from data_utils.photos.images import load_image

START = b"answer: "  # of an answer's line
# Errors of a photo. Others may pass.
PHOTO_ERRORS = (
    ValueError,
    FileNotFoundError,
    PermissionError,
    IsADirectoryError,
    NotADirectoryError,
)
# If the system kills the process for lack of memory, this may not be the photo's fault.
NUM_TRIES = 2
# The largest photos that `load_image` accepts take up to 20 s of processor time, and
# the computer may be busy. A network folder that is gone, or a hostile file, may take
# for ever.
DEADLINE_S = 300
MOST_S_TO_DIE = 5  # a process that waits for a dead disk cannot even be killed


class PhotoProcess:
    """A process that reads photos.

    It starts with the first photo, and again after a crash.

    Args:
        deadline_s: seconds for a photo. After them, the process is killed.
    """

    def __init__(self, *, deadline_s: float = DEADLINE_S):
        self.deadline_s = deadline_s
        self._process, self._answers, self._lock = None, None, threading.Lock()

    def load(self, image, size):
        """Return what `load_image` returns; raise RuntimeError if the photo can perhaps
        be read later or elsewhere.

        `image` may also be an address such as s3://bucket/photo.jpg.
        """
        if not isinstance(image, (str, os.PathLike)):
            return load_image(image, size)
        line = json.dumps([os.fspath(image), *map(int, size)]).encode() + b"\n"
        with self._lock:
            pixels, reason, is_photo_error = self._answer(image, line)
        if reason and is_photo_error:
            raise ValueError(reason)
        if reason:
            raise RuntimeError(reason)
        return np.frombuffer(pixels, np.uint8).reshape(*size, 3)

    def _answer(self, image, line):
        """Return pixels or b"", the reason or "", and whether that is the photo."""
        for _ in range(NUM_TRIES):
            if self._process is None:
                self._start()
            with contextlib.suppress(OSError):  # it crashed before, and so it will not answer
                self._process.stdin.write(line)
                self._process.stdin.flush()
            try:
                answer = self._answers.get(timeout=self.deadline_s)
            except queue.Empty:
                self._process.kill()
                self.close()
                problem = f"{image}: the picture was not read within {self.deadline_s:g} s"
                raise ValueError(f"{problem}. Check that its folder still answers.") from None
            if answer is not None:
                return answer
            self.close()
        raise ValueError(f"{image}: the picture cannot be read (its decoder crashed).")

    def _start(self):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        try:
            self._process = subprocess.Popen([sys.executable, "-m", __name__], **pipes)
        except OSError as error:  # the system has no memory or no process left
            problem = f"The process that reads photos did not start ({error})."
            raise RuntimeError(problem) from None
        self._answers = queue.SimpleQueue()
        arguments = (self._process.stdout, self._answers)
        # Only a thread can be left alone if the process never answers, on every system.
        threading.Thread(target=_pass_on, args=arguments, daemon=True).start()

    def close(self):
        """End the process.

        It ends with its input, and so also when a worker is killed.
        """
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(MOST_S_TO_DIE)
        self._process = self._answers = None


def _pass_on(output, answers):
    """Put each answer in the output of a process into a queue, and None at its end."""
    with output:
        for line in output:
            if not line.startswith(START) or not line.endswith(b"\n"):
                continue  # libraries may print too, and the process may crash within a line
            num_bytes, reason, is_photo_error = json.loads(line.removeprefix(START))
            pixels = output.read(num_bytes)
            if len(pixels) == num_bytes:
                answers.put((pixels, reason, is_photo_error))
    answers.put(None)


def _pixels(path, size):
    if "://" not in path:
        return load_image(path, size).tobytes()
    import fsspec

    with fsspec.open(path) as file:
        return load_image(file, size).tobytes()


def _answer_all(lines, answers):
    for line in lines:
        path, *size = json.loads(line)
        pixels, reason, is_photo_error = b"", "", True
        try:
            pixels = _pixels(path, size)
        except Exception as error:  # file systems have their own kinds of errors
            reason, is_photo_error = reason_without_number(error), isinstance(error, PHOTO_ERRORS)
        answers.write(
            START + json.dumps([len(pixels), reason, is_photo_error]).encode() + b"\n" + pixels
        )
        answers.flush()


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # from here on, libraries print to standard error
    answers.write(b"\n")
    _answer_all(sys.stdin.buffer, answers)
