"""Which numbers the decoder computes with, where the choice is left to the machine: `dtype="auto"`."""

from pathlib import Path

import tensorflow as tf

AUTO = "auto"
PROCESSOR_FLAGS = {"avx512_bf16", "amx_bf16"}  # of processors that multiply bfloat16 as such
GPU_CAPABILITY = (8, 0)  # of NVIDIA GPUs that do


def resolved_dtype(dtype):
    """Return a dtype or policy, "auto" as the name of the one that is fast here.

    "auto" is "mixed_bfloat16" where the device multiplies bfloat16 as such: products take half the time, weights and
    what is saved are float32 all the same. Elsewhere it is "float32". It is asked of the device, not measured, so that
    a training that is resumed goes on as it began.
    """
    if dtype != AUTO:
        return dtype
    return "mixed_bfloat16" if multiplies_bfloat16() else "float32"


def multiplies_bfloat16():
    """Return whether the device that TensorFlow computes on multiplies bfloat16 as such, as far as that is known."""
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        details = (tf.config.experimental.get_device_details(gpu) for gpu in gpus)
        return all(detail.get("compute_capability", (0, 0)) >= GPU_CAPABILITY for detail in details)
    return bool(PROCESSOR_FLAGS & _processor_flags())


def chosen_in_words(compute_dtype):
    """Return a line that says what "auto" has chosen."""
    if compute_dtype == "float32":
        return "dtype: float32, since nothing is known here that multiplies bfloat16 as such"
    return f"dtype: {compute_dtype}, which this machine multiplies as such; weights and what is saved are float32"


def _processor_flags(path="/proc/cpuinfo"):
    """Return the processor's flags as Linux tells them; an empty set elsewhere."""
    try:
        lines = Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return set()
    return next((set(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), set())
