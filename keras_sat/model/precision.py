"""Which numbers the decoder computes with, where the choice is left to the machine: `dtype="auto"`."""

from pathlib import Path

import tensorflow as tf

AUTO = "auto"
PROCESSOR_FLAGS = {"avx512_bf16", "amx_bf16"}  # of processors that multiply bfloat16 as such
GPU_CAPABILITY = (8, 0)  # of NVIDIA GPUs that do


def resolved_dtype(dtype):
    """Return a dtype or policy, "auto" as the name of the one that is fast here.

    "auto" is "mixed_bfloat16" where the device multiplies bfloat16 as such: products take half the time, weights and
    what is saved are float32 all the same. Elsewhere it is "float32".
    """
    if dtype != AUTO:
        return dtype
    return "mixed_bfloat16" if multiplies_bfloat16() else "float32"


def multiplies_bfloat16():
    """Return whether the device that TensorFlow computes on multiplies bfloat16 as such, as far as that is known."""
    gpus = tf.config.get_visible_devices("GPU")
    if gpus:
        details = (tf.config.experimental.get_device_details(gpu) for gpu in gpus)
        return all(detail.get("compute_capability", (0, 0)) >= GPU_CAPABILITY for detail in details)
    return bool(PROCESSOR_FLAGS & _processor_flags())


def _processor_flags(path="/proc/cpuinfo"):
    """Return the processor's flags as Linux tells them; an empty set elsewhere."""
    try:
        lines = Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return set()
    return next((set(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), set())
