"""Caption photos without TensorFlow: `python caption.py photo.jpg`.

It needs NumPy, Pillow, and onnxruntime for model.onnx or ai-edge-litert for
model.tflite (or model.tflite.gz). The model, vocabulary.txt, and onnx.json or
litert.json must be in the same folder as this script. Images are decoded exactly as by
`data_utils.load_image`. Of an animation, the first frame is used. A JPEG of more than
100 scans is refused.
"""

import contextlib
import gzip
import hashlib
import importlib
import json
import os
import re
import sys
import unicodedata
import warnings
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

HERE = Path(__file__).parent
# Formats that Pillow decodes itself: for EPS it would start another program.
FORMATS = [
    "JPEG",
    "MPO",
    "PNG",
    "WEBP",
    "GIF",
    "BMP",
    "DIB",
    "TIFF",
    "AVIF",
    "JPEG2000",
    "PPM",
    "TGA",
    "ICO",
]


# Each scan of a JPEG may have a few bytes only, but its decoder visits all pixels.
MOST_SCANS = 100
SCAN, END_OF_JPEG = b"\xff\xda", b"\xff\xd9"
# The end, and the segments that start with their length. Any other marker stands alone.
JPEG_MARKER = re.compile(rb"\xff[\xc0-\xc4\xc9-\xcc\xd9-\xdf\xe0-\xef\xfe]")


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
            return run(interpreter, words, photo)

    _, height, width, _ = shape
    return outputs_of, (height, width), words


def read_photo(path, height, width):
    """Read an image file and resize it.

    Return the input of the model, uint8 (1, height, width, 3).
    """
    if Path(path).exists() and not Path(path).is_file():
        raise ValueError("it is a folder, a pipe or a device")  # opening a pipe would wait for ever
    Image.init()
    with Image.open(path, formats=[name for name in FORMATS if name in Image.OPEN]) as image:
        if image.format in ("JPEG", "MPO") and num_scans(Path(path).read_bytes()) > MOST_SCANS:
            raise ValueError(f"a JPEG of more than {MOST_SCANS} scans could take hours to decode")
        if image.format == "JPEG":  # large ones are decoded at reduced size
            image.draft(None, (2 * max(height, width),) * 2)
        image.load()
        with contextlib.suppress(Exception):  # damaged metadata: the pixels are intact
            image = ImageOps.exif_transpose(image)
        if image.mode == "I" and image.getextrema()[1] <= 255:  # 8 bits in numbers of 32
            image = image.convert("L")
        if image.mode in ("I;16", "I;16L", "I;16B", "I;16N", "I"):
            image = Image.fromarray((np.array(image).clip(0, 65535) // 257).astype(np.uint8))
        if "transparency" in image.info or image.mode in ("RGBA", "LA", "PA", "RGBa", "La"):
            white = Image.new("RGBA", image.size, "white")
            image = Image.alpha_composite(white, image.convert("RGBA"))
        image = image.convert("RGB")
        # Pillow's order of axes depends on its version
        for size in ((width, image.height), (width, height)):
            image = image if image.size == size else image.resize(size, Image.Resampling.BILINEAR)
        return np.asarray(image)[None]


def num_scans(content):
    """Return the number of scans in the bytes of a JPEG, as its decoder meets them."""
    scans = 0
    marker = JPEG_MARKER.search(content)
    while marker is not None and marker[0] != END_OF_JPEG:
        scans += marker[0] == SCAN
        length = content[marker.end() : marker.end() + 2]
        marker = JPEG_MARKER.search(content, marker.end() + int.from_bytes(length, "big"))
    return scans


def run(interpreter, words, photo):
    """Return LiteRT's outputs of beam search or, if it has none, of greedy search."""
    runner = interpreter.get_signature_runner
    if "beams" not in interpreter.get_signature_list():
        return runner("serving_default")(images=photo)
    beams, start_id = runner("beams"), np.array([words.index("<start>")], np.int32)
    visible = np.ones(beams.get_input_details()["visible"]["shape"], np.uint8)
    return beams(
        features=runner("encode")(images=photo)["features"], visible=visible, start_id=start_id
    )


def visible(text):
    """Return text in which what a terminal would obey or hide is escaped."""
    hidden = filter(is_hidden, text)
    escaped = {sign: sign.encode("unicode_escape").decode() for sign in hidden}
    return text.translate(str.maketrans(escaped))


def is_hidden(sign):
    """Return whether it is a control character, a format character or a surrogate."""
    is_in_words = sign in "\u200c\u200d"  # of many languages
    return unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp") and not is_in_words


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
        except Exception as error:  # Pillow raises many kinds of errors for damaged files
            status = 2
            print(visible(f"{path}: cannot be read as a picture ({error})"), file=errors)
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
