"""Read, tokenise and save captions: load_document, load_descriptions,
clean_descriptions, save_descriptions.
"""

from __future__ import annotations

import codecs
import functools
import itertools
import os
import re
import sys
import unicodedata
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import Any, NamedTuple

from data_utils.base import brief, read_bytes, shortened, write_whole

MOST_LETTERS_IN_LINE = 1_000_000  # of a caption file, where a line may contain several captions
MOST_LETTERS_IN_CAPTION = 10_000  # a longer caption would take hours and all memory
IMAGE_ENDINGS = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff")
IMAGE_ENDINGS += (".heic", ".heif", ".avif")
MOST_FOLDERS = 10_000  # a larger tree is not searched for pictures that nobody named


@dataclass(frozen=True)
class CaptionedImage:
    """A photo with its human-written captions.

    Attributes:
        image_id: the file name without folder and extension.
        image_path: the path of the file, as a string, or the picture as an array
            (height, width, 3), RGB 0..255.
        captions: list of the original captions.
        split: "train", "dev", "test", or None for a photo without a split.
    """

    image_id: str
    image_path: Any
    captions: list[str]
    split: str | None = None


class Skipped:
    """Count skipped items by reason, and warn about them once."""

    def __init__(self):
        self.counts = Counter()
        self.first_seen = {}

    def add(self, reason, where, number=1):
        if number:
            self.counts[reason] += number
            self.first_seen.setdefault(reason, shortened(str(where)))

    def warn(self, source):
        """Issue one warning with all counts, if anything was skipped."""
        if self.counts:
            parts = [
                f"{reason}: {n} (first: {self.first_seen[reason]})"
                for reason, n in self.counts.items()
            ]
            frame, level = sys._getframe(1), 2
            while frame.f_back and Path(__file__).parent in Path(frame.f_code.co_filename).parents:
                # The warning points at the line that called data_utils.
                frame, level = frame.f_back, level + 1
            warnings.warn(f"{source}: {'; '.join(parts)}.", stacklevel=level)


BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


class Document(NamedTuple):
    """The text of a file with its own line endings, and how to encode text for it."""

    text: str
    mark: bytes = b""  # the byte order mark
    encoding: str = "utf-8"

    def encoded(self, text):
        """Return other text as the bytes of the same file."""
        return self.mark + text.encode(self.encoding, "backslashreplace")


def decoded(path, content):
    """Return the bytes of a text file, `path`, as a Document.

    Bytes that are not UTF-8 are read as Windows-1252, with a warning. Such a file is to
    be written as UTF-8 with a byte order mark, by which spreadsheets recognise UTF-8.
    """
    mark = next((mark for mark in BYTE_ORDER_MARKS if content.startswith(mark)), b"")
    encoding = BYTE_ORDER_MARKS.get(mark, "utf-8")
    content = content.removeprefix(mark)
    try:
        return Document(content.decode(encoding), mark, encoding)
    except UnicodeDecodeError:
        text = content.decode(encoding, errors="windows-1252")
        skipped, valid = Skipped(), content.decode(encoding, errors="ignore")
        name = encoding.upper().removesuffix("-LE").removesuffix("-BE")
        reason = f"lines that are not {name}, read as Windows-1252"
        lines = zip(text.split("\n"), valid.split("\n"))
        for number, (line, valid_line) in enumerate(lines, start=1):
            skipped.add(reason, f"line {number}", line != valid_line)
        skipped.warn(path)
        return Document(text, mark or codecs.BOM_UTF8, encoding)


def load_document(path: str | os.PathLike) -> str:
    """Return the content of a text file as one string, with "\\n" as the line ending.

    Byte order marks, UTF-16 and the line endings of any system are handled. Bytes that
    are not UTF-8 are read as Windows-1252, with a warning. A file or line that is too
    long for captions is rejected.
    """
    path = Path(path).expanduser()
    document = decoded(path, read_bytes(path)).text
    document = document.replace("\r\n", "\n").replace("\r", "\n")
    reject_long_line(path, document.split("\n"))
    return document


def reject_long_line(path, lines):
    """Raise ValueError if one of the lines of a file is too long for captions."""
    longest = max(map(len, lines), default=0)
    if longest > MOST_LETTERS_IN_LINE:
        expected = f"at most {MOST_LETTERS_IN_LINE} characters"
        raise ValueError(f"{path}: a line is too long. Expected: {expected}. Received: {longest}")


def reject_long_caption(text, image_id, source):
    """Raise ValueError if a caption is too long; `source` is the file to name in the
    message.
    """
    if len(text) > MOST_LETTERS_IN_CAPTION:
        problem = f"a caption is too long. Expected: at most {MOST_LETTERS_IN_CAPTION} characters."
        raise ValueError(
            f"{source}: {problem} Received: {len(text)} characters for image_id={brief(image_id)}"
        )


codecs.register_error(
    "windows-1252",
    lambda error: (
        error.object[error.start : error.end].decode("windows-1252", "replace"),
        error.end,
    ),
)


def pictures_by_folder(folder, *, lenient=False):
    """Yield a sorted list of the pictures in a folder, then one list for each
    subfolder.

    Links to folders and hidden subfolders are skipped; `lenient` also skips unreadable
    subfolders, and stops after MOST_FOLDERS.
    """

    def reject(error):
        if not lenient or error.filename == folder:
            raise error

    walk = os.walk(folder, onerror=reject)
    for parent, subfolders, names in itertools.islice(walk, MOST_FOLDERS if lenient else None):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        # macOS adds files named ._NAME, which are not pictures
        names = [
            name
            for name in names
            if name.lower().endswith(IMAGE_ENDINGS) and not name.startswith("._")
        ]
        yield sorted(os.path.join(parent, name) for name in names)


def image_id_of(name):
    """Return the image id of a file name: the name without folder and extension.

    >>> image_id_of("Flicker8k_Dataset/1000268201_693b08cb0e.jpg")
    '1000268201_693b08cb0e'
    """
    name = name.replace("\\", "/").rsplit("/", 1)[-1].strip()
    stem, dot, ending = name.rpartition(".")
    return stem if stem and (dot + ending).lower() in IMAGE_ENDINGS else name


def leads_outside(name):
    """Return whether the path of a picture in a table leads outside the data folder."""
    # Handles drives, / and \\: a table is read the same way on every system.
    path = PureWindowsPath(name)
    return bool(path.drive or path.root or ".." in path.parts)


def reject_outside(name, where):
    """Raise ValueError if a path leads outside the data folder; `where` is the file and
    line to name in the message.
    """
    if leads_outside(name):
        problem = "this path leads outside the data folder. Expected: a relative path without '..'."
        raise ValueError(f"{where}: {problem} Received: {brief(name)}")


_NUMBERED_NAME = re.compile(r"^(\S.*?)#\d+$")


def load_descriptions(document: str, *, source: str = "the document") -> dict[str, list[str]]:
    """Parse a document into a dict from image ids to lists of descriptions.

    Each line is `name.jpg#0<TAB>description`, as in Flickr8k.token.txt and Flickr30k's
    .token, or `image_id<TAB>description`, as `save_descriptions` writes it. A document
    without tabs uses spaces. Lines without a description are skipped, and counted in
    one warning that names the `source`.
    """
    descriptions, skipped = {}, Skipped()
    separator = "\t" if "\t" in document else " "
    for number, line in enumerate(document.split("\n"), start=1):
        if not line.strip():
            continue
        name, _, text = line.rstrip().lstrip(" ").partition(separator)
        name, text = name.strip(), " ".join(text.split())
        numbered = _NUMBERED_NAME.match(name)
        if name and text:
            descriptions.setdefault(image_id_of(numbered[1] if numbered else name), []).append(text)
        else:
            skipped.add("lines without an image name or a caption left out", f"line {number}")
    skipped.warn(source)
    return descriptions


def clean_descriptions(descriptions: dict[str, list[str]]) -> dict[str, list[str]]:
    """Tokenise all descriptions, and join words with spaces.

    Those without a word are dropped, with a warning.
    """
    cleaned, skipped = {}, Skipped()
    for image_id, texts in descriptions.items():
        kept = [words for words in (" ".join(tokenise(text)) for text in texts) if words]
        skipped.add("descriptions without a word left out", image_id, len(texts) - len(kept))
        if kept:
            cleaned[image_id] = kept
    skipped.warn("clean_descriptions")
    return cleaned


def vocabulary_words(descriptions: dict[str, list[str]]) -> set[str]:
    """Return the set of all words in a dict of cleaned descriptions."""
    return {word for texts in descriptions.values() for text in texts for word in text.split()}


def save_descriptions(descriptions: dict[str, list[str]], path: str | os.PathLike) -> None:
    """Save cleaned descriptions, one per line, `image_id<TAB>description`, as
    `load_descriptions` reads them.
    """
    lines = (f"{image_id}\t{text}\n" for image_id, texts in descriptions.items() for text in texts)
    write_whole(Path(path).expanduser(), "".join(lines))


_STRAIGHT_QUOTES = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"'})


# What a word is: the first of these rules that fits. LETTER stands for a letter, digit
# or mark of any alphabet. The page gets the same rules, see page_export.py.
CONTRACTION = "(?:n't|'(?:s|m|d|re|ve|ll))(?!LETTER)"
WORD_RULES = [
    r"(?:[a-z]\.){2,}",  # u.s., p.m.
    r"(?<![\w])(?:mr|mrs|ms|dr|st|jr|sr|vs|mt)\.",  # mr.
    CONTRACTION,  # the second half of dog's, isn't
    "'n'",  # rock 'n' roll
    r"can(?=not(?![\w]))",  # the PTB splits cannot, gonna, wanna and gotta in two
    r"(?:gon|wan)(?=na(?![\w]))",
    r"got(?=ta(?![\w]))",
    "LETTER+?(?=n't(?!LETTER))",  # the first half of isn't
    r"\d+(?:[.,:/]\d+)+",  # 3.50, 1,000, 5:30, 1/2
    f"LETTER+(?:(?!{CONTRACTION})[-/@.']LETTER+)*",  # snow-covered, o'clock
    "[$%&#@*+=]",  # symbols that are read aloud
]


@functools.cache
def _token_pattern():
    # \w matches letters and digits of every alphabet, but not the combining marks of
    # Devanagari, Thai or Arabic.
    marks = "".join(
        chr(code)
        for code in range(0x300, 0xFE30)
        if unicodedata.category(chr(code)) in ("Mn", "Mc")
    )
    return re.compile("|".join(WORD_RULES).replace("LETTER", rf"[\w{marks}\u200c\u200d]"))


def tokenise(text: str) -> list[str]:
    """Split a caption into words; training captions, references and candidates are all
    split in this way.

    The words are in lower case, without punctuation; letters and digits of any alphabet
    are kept. Contractions are split as in the Penn Treebank, which caption scores
    expect too.

    >>> tokenise("A man's snow-covered dog isn't here .")
    ['a', 'man', "'s", 'snow-covered', 'dog', 'is', "n't", 'here']
    """
    if not text.isascii():
        text = unicodedata.normalize("NFC", text).translate(_STRAIGHT_QUOTES)
    return _token_pattern().findall(text.lower().replace("`", "'"))


def words_of_captions(captions, num_images):
    """Return the words of each image's caption; `captions` is a list of strings, or one
    string for all images.
    """
    captions = [captions] * num_images if isinstance(captions, str) else captions
    is_list = isinstance(captions, (list, tuple)) and all(
        isinstance(caption, str) for caption in captions
    )
    words = [tokenise(caption) for caption in captions] if is_list else []
    if len(words) != num_images or not all(words):
        expected = f"one caption (a string with at least one word) for each of {num_images} images"
        raise ValueError(f"Expected {expected}. Received: captions={brief(captions)}")
    return words
