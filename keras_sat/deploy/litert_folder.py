"""The files of a captioner for LiteRT: the network, its words, and a manifest with a digest of each.

    model.tflite or model.tflite.gz    the network
    vocabulary.txt                     a token a line; the number of the line, from 0 on, is its id
    litert.json                        the manifest: digests of both, and the size of the network when unpacked

LiteRT's parser trusts what it reads: a damaged file can crash it, or give other captions without a word. So it only
gets bytes whose digest was checked. A manifest detects damage. It does not make a file trustworthy: whoever can write
the file can write the manifest.
"""

import gzip
import hashlib
import zlib

from data_utils.files import check_is_file, expectation, read_sealed_json, write_sealed_json, write_whole
from data_utils.vocabulary import SPECIAL_TOKENS, Vocabulary

FORMAT_VERSION = 1
MANIFEST, MODEL, PACKED, WORDS = "litert.json", "model.tflite", "model.tflite.gz", "vocabulary.txt"
MOST_BYTES = {MANIFEST: 10_000, WORDS: 20_000_000, MODEL: 1_000_000_000, PACKED: 1_000_000_000}
EXPECTED = "the files for LiteRT that keras-sat export --tflite or --web wrote"
WAY_OUT = "Copy the folder again, whole, or export the captioner again."


def write_litert(folder, content, vocabulary, *, packed=False):
    """Write the files of a captioner for LiteRT into a folder.

    Args:
        folder: Path.
        content: the network, bytes.
        vocabulary: Vocabulary.
        packed: write the network as model.tflite.gz.
    """
    model = {PACKED: gzip.compress(content, mtime=0)} if packed else {MODEL: content}
    files = {**model, WORDS: words_as_text(vocabulary).encode()}
    digests = {name: hashlib.sha256(file).hexdigest() for name, file in files.items()}
    for name, file in files.items():
        write_whole(folder / name, file)
    manifest = {"format": "litert", "version": FORMAT_VERSION, "sha256": digests, "unpacked_size": len(content)}
    write_sealed_json(folder / MANIFEST, manifest)


def words_as_text(vocabulary):
    """Return the content of vocabulary.txt."""
    return "\n".join(vocabulary.tokens) + "\n"


def read_litert(folder):
    """Return the network, bytes, and the Vocabulary in a folder; files that are not whole are one clear ValueError."""
    digests, unpacked_size = _manifest(folder / MANIFEST)
    name = PACKED if PACKED in digests else MODEL
    content, words = (_checked(folder / file, digests[file]) for file in (name, WORDS))
    content = _unpacked(content, unpacked_size) if name == PACKED else content
    if len(content) != unpacked_size:
        raise ValueError(
            f"{folder / name}: the network is not as large as the manifest says, or is not packed by gzip. "
            f"{expectation(EXPECTED, WAY_OUT)}"
        )
    return content, _vocabulary(folder / WORDS, words)


def _manifest(path):
    """Return the digests, by name of file, and the size of the network that a manifest claims."""
    if not path.exists():
        raise ValueError(
            f"{path}: the manifest is missing, so these files cannot be checked; versions before it wrote none. "
            f"{expectation(EXPECTED, WAY_OUT)}"
        )
    _refuse_large(path)
    manifest = read_sealed_json(path, EXPECTED, WAY_OUT)
    digests, size = manifest.get("sha256"), manifest.get("unpacked_size")
    is_ours = manifest.get("format") == "litert" and manifest.get("version") == FORMAT_VERSION
    names = set(digests) if isinstance(digests, dict) else None
    if not is_ours or names not in ({MODEL, WORDS}, {PACKED, WORDS}) or type(size) is not int:
        raise ValueError(f"{path}: this is something else. {expectation(EXPECTED, WAY_OUT)}")
    if not 0 < size <= MOST_BYTES[MODEL]:
        raise ValueError(
            f"{path}: the size of the network is out of bounds. Expected: 1 to {MOST_BYTES[MODEL]} bytes. "
            f"Received: unpacked_size={str(size)[:80]}"
        )
    return digests, size


def _refuse_large(path):
    """Raise ValueError for a file that is missing, larger than such a file ever is, or no file at all."""
    try:
        check_is_file(path)
    except FileNotFoundError:
        raise ValueError(f"{path}: this file is missing. {expectation(EXPECTED, WAY_OUT)}") from None
    size, most = path.stat().st_size, MOST_BYTES[path.name]
    if size > most:
        raise ValueError(f"{path}: the file is too large. Expected: at most {most} bytes. Received: {size} bytes")


def _checked(path, digest):
    """Return what a file holds; one whose digest is another one is a ValueError."""
    _refuse_large(path)
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise ValueError(
            f"{path}: the file is damaged: its content does not match its digest. {expectation(EXPECTED, WAY_OUT)}"
        )
    return content


def _unpacked(content, size):
    """Return the network in a packed file, or b"" where it is none; hardly more is unpacked than the manifest says."""
    unpacker = zlib.decompressobj(wbits=31)  # gzip
    try:
        network = unpacker.decompress(content, size + 1)
    except zlib.error:
        return b""
    return network if unpacker.eof else b""


def _vocabulary(path, content):
    try:
        tokens = content.decode().split("\n")[:-1]
        if tuple(tokens[: len(SPECIAL_TOKENS)]) != SPECIAL_TOKENS:
            raise ValueError(f"it does not begin with {', '.join(SPECIAL_TOKENS)}")
        return Vocabulary(tokens[len(SPECIAL_TOKENS) :])
    except ValueError as error:
        raise ValueError(f"{path}: this is no vocabulary: {error}. {expectation(EXPECTED, WAY_OUT)}") from None
