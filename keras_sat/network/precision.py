"""The dtype policy for `dtype="auto"`: mixed bfloat16 on devices with bfloat16
instructions.
"""

import re
from pathlib import Path

import tensorflow as tf

PROCESSOR_FLAGS = {"avx512_bf16", "amx_bf16"}  # of processors with bfloat16 instructions
GPU_CAPABILITY = (8, 0)  # of NVIDIA GPUs with bfloat16


def resolved_dtype(dtype):
    """Return a dtype or policy, with "auto" resolved for this device: products in
    bfloat16 take half the time.
    """
    if dtype != "auto":
        return dtype
    return "mixed_bfloat16" if multiplies_bfloat16() else "float32"


def multiplies_bfloat16():
    """Return whether the device that TensorFlow uses is known to have bfloat16
    instructions.
    """
    gpus = tf.config.get_visible_devices("GPU")
    if not gpus:
        return bool(PROCESSOR_FLAGS & _processor_flags())
    details = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
    capabilities = [detail.get("compute_capability", (0, 0)) for detail in details]
    return all(capability >= GPU_CAPABILITY for capability in capabilities)


def _processor_flags(path="/proc/cpuinfo"):
    """Return the processor's flags as reported by Linux.

    On other systems, return an empty set.
    """
    try:
        text = Path(path).read_text(errors="replace")
    except OSError:
        return set()
    flags = re.search(r"^flags.*:(.*)$", text, re.MULTILINE)
    return set(flags[1].split()) if flags else set()
