"""Caption photos without TensorFlow: `python caption.py photo.jpg`.

It needs NumPy, Pillow, and onnxruntime for model.onnx or ai-edge-litert for
model.tflite (or model.tflite.gz). The model, vocabulary.txt, and onnx.json or
litert.json must be in the same folder as this script. Images are decoded exactly as by
`data_utils.load_image`. Of an animation, the first frame is used. A JPEG of more than
100 scans is refused.
"""

import gzip
import hashlib
import importlib
import json
import os
import sys
import warnings
from pathlib import Path

import numpy as np

from data_utils.base.foreign_text import visible

# An export has the source of these modules here: see `keras_sat.export.export`.
from data_utils.photos.decoding import decoded_picture

HERE = Path(__file__).parent


def load():
    """Return a function from a photo to outputs for its captions, (height, width) of
    photos, and the list of tokens.
    """
    is_onnx = (HERE / "onnx.json").exists()
    if is_onnx:
        manifest, package, module = "onnx.json", "onnxruntime", "onnxruntime"
    else:
        manifest, package, module = "litert.json", "ai-edge-litert", "ai_edge_litert.interpreter"
    try:
        runtime = importlib.import_module(module)
    except ImportError:
        sys.exit(f"The package {package} is missing: `{sys.executable} -m pip install {package}`.")
    try:
        digests = json.loads((HERE / manifest).read_bytes())["sha256"]
        (model,) = digests.keys() - {"vocabulary.txt"}
        files = {name: (HERE / name).read_bytes() for name in ("vocabulary.txt", model)}
        damaged = [
            name
            for name, content in files.items()
            if hashlib.sha256(content).hexdigest() != digests[name]
        ]
    except (OSError, ValueError, LookupError, TypeError) as error:
        damaged = [f"{manifest} ({error})"]
    if damaged:  # the runtime would crash or return wrong captions
        sys.exit(
            f"{HERE}: {damaged[0]} is damaged. Copy the folder again, or export the "
            "captioner again."
        )
    content = gzip.decompress(files[model]) if model.endswith(".gz") else files[model]
    words = files["vocabulary.txt"].decode().split("\n")[:-1]
    if "<start>" not in words:
        problem = f"{HERE}: vocabulary.txt is not the vocabulary of a captioner."
        sys.exit(f"{problem} Export the captioner again.")
    if is_onnx:
        session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        shape = session.get_inputs()[0].shape

        def outputs_of(photo):
            return dict(zip(names, session.run(None, {"images": photo})))

    else:
        interpreter = runtime.Interpreter(model_content=content)
        details = interpreter.get_signature_runner("serving_default").get_input_details()
        shape = details["images"]["shape"]

        def outputs_of(photo):
            return run(interpreter, photo)

    _, height, width, _ = shape
    return outputs_of, (height, width), words


def read_photo(path, height, width):
    """Read an image file and resize it.

    Return the input of the model, uint8 (1, height, width, 3).
    """
    if Path(path).exists() and not Path(path).is_file():  # opening a pipe would wait for ever
        raise ValueError(f"{path}: the picture cannot be read (a folder, a pipe or a device).")
    with open(path, "rb") as file:
        return decoded_picture(file, (height, width), path)[None]


def run(interpreter, photo):
    """Return LiteRT's outputs of beam search or, if it has none, of greedy search."""
    runner = interpreter.get_signature_runner
    if "beams" not in interpreter.get_signature_list():
        return runner("serving_default")(images=photo)
    features = runner("encode")(images=photo)["features"]
    # As `data_utils.features.encode.in_16_bits` rounds them.
    return runner("beams")(features=features.astype(np.float16).astype(np.float32))


def main(paths):
    if not paths:
        sys.exit("usage: python caption.py PICTURE ...")
    warnings.simplefilter("ignore")  # about odd metadata
    errors = sys.stderr or open(os.devnull, "w")  # None if the shell has closed it
    outputs_of, (height, width), words = load()
    status = 0
    for path in paths:
        try:
            photo = read_photo(path, height, width)
        except (OSError, ValueError) as error:
            status = 2
            reason = f"{path}: {error.strerror}" if isinstance(error, OSError) else error
            print(visible(reason), file=errors)
            continue
        outputs = outputs_of(photo)
        num_words = np.ravel(outputs["num_words"])[0]
        ids = outputs["token_ids"][0][:num_words]
        if max(ids, default=0) >= len(words):
            problem = f"{HERE}: vocabulary.txt lacks words of the network."
            sys.exit(f"{problem} Export the captioner again.")
        caption = " ".join(words[token] for token in ids)
        print(f"{visible(str(path))}\t{visible(caption)}", flush=True)
    sys.exit(status)


if __name__ == "__main__":
    main(sys.argv[1:])
