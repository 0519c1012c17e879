"""Caption photos without TensorFlow: `python caption.py photo.jpg`. It needs NumPy, Pillow and ai-edge-litert.

model.tflite (or model.tflite.gz), vocabulary.txt and litert.json must be in the same folder as this script. Images are
decoded exactly as by `data_utils.load_image`. Of an animation, the first frame is used.
"""

import contextlib
import gzip
import hashlib
import json
import sys
import warnings
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

HERE = Path(__file__).parent
# Formats that Pillow decodes itself: for EPS it would start another program.
FORMATS = ["JPEG", "MPO", "PNG", "WEBP", "GIF", "BMP", "DIB", "TIFF", "AVIF", "JPEG2000", "PPM", "TGA", "ICO"]


def load():
    """Return the LiteRT interpreter and the list of tokens."""
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        sys.exit(f"The package ai-edge-litert is missing: `{sys.executable} -m pip install ai-edge-litert`.")
    try:
        digests = json.loads((HERE / "litert.json").read_bytes())["sha256"]
        (model,) = digests.keys() - {"vocabulary.txt"}
        files = {name: (HERE / name).read_bytes() for name in ("vocabulary.txt", model)}
        damaged = [name for name, content in files.items() if hashlib.sha256(content).hexdigest() != digests[name]]
    except (OSError, ValueError, LookupError, TypeError) as error:
        damaged = [f"litert.json ({error})"]
    if damaged:  # LiteRT would crash or return wrong captions
        sys.exit(f"{HERE}: {damaged[0]} is damaged. Copy the folder again, or export the captioner again.")
    content = gzip.decompress(files[model]) if model.endswith(".gz") else files[model]
    return Interpreter(model_content=content), files["vocabulary.txt"].decode().split("\n")


def read_photo(path, height, width):
    """Read an image file and resize it; return the input of the model, uint8 (1, height, width, 3)."""
    Image.init()
    with Image.open(path, formats=[name for name in FORMATS if name in Image.OPEN]) as image:
        if image.format == "JPEG":  # large ones are decoded at reduced size
            image.draft(None, (2 * max(height, width),) * 2)
        image.load()
        with contextlib.suppress(Exception):  # damaged metadata: the pixels are intact
            image = ImageOps.exif_transpose(image)
        if image.mode in ("I;16", "I;16L", "I;16B", "I;16N", "I"):
            image = Image.fromarray((np.array(image).clip(0, 65535) // 257).astype(np.uint8))
        if "transparency" in image.info or image.mode in ("RGBA", "LA", "PA", "RGBa", "La"):  # onto white
            image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
        image = image.convert("RGB")
        for size in ((width, image.height), (width, height)):  # Pillow's order of axes depends on its version
            image = image if image.size == size else image.resize(size, Image.Resampling.BILINEAR)
        return np.asarray(image)[None]


def caption(interpreter, words, photo):
    """Return the caption from beam search if the model supports it, otherwise from greedy search."""
    run = interpreter.get_signature_runner
    if "beams" in interpreter.get_signature_list():
        beams, start_id = run("beams"), np.array([words.index("<start>")], np.int32)
        visible = np.ones(beams.get_input_details()["visible"]["shape"], np.uint8)
        found = beams(features=run("encode")(images=photo)["features"], visible=visible, start_id=start_id)
    else:
        found = run("serving_default")(images=photo)
    return " ".join(words[token] for token in found["token_ids"][0][: np.ravel(found["num_words"])[0]])


def main(paths):
    if not paths:
        sys.exit("usage: python caption.py PICTURE ...")
    warnings.simplefilter("ignore")  # about odd metadata
    interpreter, words = load()
    details = interpreter.get_signature_runner("serving_default").get_input_details()
    _, height, width, _ = details["images"]["shape"]
    status = 0
    for path in paths:
        try:
            photo = read_photo(path, height, width)
        except Exception as error:  # Pillow raises many kinds of errors for damaged files
            status = 2
            print(f"{path}: cannot be read as a picture ({error})", file=sys.stderr)
        else:
            print(f"{path}\t{caption(interpreter, words, photo)}", flush=True)
    sys.exit(status)


if __name__ == "__main__":
    main(sys.argv[1:])
