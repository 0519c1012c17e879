"""Read tables of captions, CSV or JSON Lines, and make rows in the form that they have.

A CSV table has a header, such as "image,caption", and commas, semicolons or tabs
between its cells. A JSON Lines table has one object per line. The metadata files of
Hugging Face's imagefolder are such tables too; they say file_name for image, and text
for caption.
"""

import contextlib
import csv
import io
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from data_utils.base import read_bytes
from data_utils.captions import decoded, reject_long_line

# Names of columns. The first that a table has is read.
IMAGE_NAMES = ("image", "file_name")
CAPTION_NAMES = ("caption", "text")
JSON_CAPTION_NAMES = ("captions", *CAPTION_NAMES)  # captions is a list
# The number of one of several columns with captions: caption1, caption_2, caption.3
_NUMBER = re.compile(r"[ _.]?\d+\Z")

# Spreadsheets treat text that starts with one of these as a formula. In some locales ;
# or a tab separates cells.
_TO_BE_QUOTED = re.compile(r"\A(?='*[=+\-@＝＋－＠\t\r\n])|(?<=[;\t\r\n])(?='*[=+\-@＝＋－＠])")
_QUOTED = re.compile(r"\A'(?='*[=+\-@＝＋－＠\t\r\n])|(?<=[;\t\r\n])'(?='*[=+\-@＝＋－＠])")


def cell_of(text):
    """Return text as a spreadsheet cell, with an apostrophe before anything that would
    be read as a formula.

    This is OWASP's advice (https://owasp.org/www-community/attacks/CSV_Injection).
    `text_of` undoes it.

    >>> cell_of("=1+1"), cell_of("'=1+1"), cell_of("a dog; a cat's tail")
    ("'=1+1", "''=1+1", "a dog; a cat's tail")
    """
    return _TO_BE_QUOTED.sub("'", text)


def text_of(cell):
    """Return the text of a cell, without the apostrophes that `cell_of` added."""
    return _QUOTED.sub("", cell)


class Row(NamedTuple):
    """One row of a table.

    Attributes:
        line: the number of its last line in the file; None for a row that was made.
        image: the name of the picture, as it is written.
        captions: list of the captions that are not empty.
        split: what the column split has; None without this column.
        source: the row as it is in the file, with a line ending.
        cells: everything in the row: a list for CSV, a dict for JSON Lines.
    """

    line: int | None
    image: str
    captions: list[str]
    split: Any
    source: str
    cells: Any


def read_table(path):
    """Return the table in a file: a JsonLinesTable for .jsonl, or else a CsvTable."""
    path = Path(path).expanduser()
    return table_of(path, decoded(path, read_bytes(path)).text)


def table_of(path, text):
    """Return the table with this text; `path` chooses its kind, and errors name it."""
    if Path(path).suffix == ".jsonl":
        return JsonLinesTable(path, text)
    return CsvTable(path, text)


class CsvTable:
    """A table with a header, and with commas, semicolons or tabs between cells.

    Attributes:
        head: the header as it is in the file, with a line ending.
    """

    def __init__(self, path, text):
        self.path = path
        self.lines, self.line_ending = _lines_of(path, text)
        first_line = self.lines[0] if self.lines else ""
        self.delimiter = max(",;\t", key=first_line.count)
        reader = self._reader()
        with self._explained(reader):
            names = [name.strip().lower() for name in next(reader, [])]
        self.head = "".join(self.lines[: reader.line_num])
        self.num_columns = len(names)
        self.image_columns = _columns(IMAGE_NAMES, names)
        self.caption_columns = _columns(CAPTION_NAMES, [_NUMBER.sub("", name) for name in names])
        self.split_columns = _columns(["split"], names)
        if not self.image_columns or not self.caption_columns:
            raise ValueError(
                f"{path}, line 1: the header must have the columns image and caption. "
                f"Received: {first_line.rstrip()[:80]!r}"
            )
        for columns in (self.image_columns, self.split_columns):
            if len(columns) > 1:
                twice = names[columns[0]]
                raise ValueError(
                    f"{path}, line 1: the header has the column {twice} twice. Rename one."
                )

    def rows(self):
        """Yield each Row, except empty lines."""
        reader = self._reader()
        next(reader)
        start = reader.line_num
        with self._explained(reader):
            for cells in reader:
                if not cells:
                    continue
                end = reader.line_num
                yield self._row(cells, end, "".join(self.lines[start:end]))
                start = end

    def new_row(self, image, caption):
        """Return a Row for a new picture; other columns stay empty."""
        cells = [""] * self.num_columns
        cells[self.image_columns[0]] = cell_of(image)
        return self._row_with_caption(cells, caption)

    def changed_row(self, row, caption):
        """Return a Row of this table with another caption in place of its captions."""
        return self._row_with_caption(row.cells, caption)

    def _reader(self):
        return csv.reader(self.lines, delimiter=self.delimiter, strict=True)

    def _row(self, cells, line, source):
        too_many = len(cells) > self.num_columns
        last = self.num_columns - 1
        if too_many and self.caption_columns != [last]:
            expected = f"the header has {self.num_columns}"
            raise csv.Error(f"this row has {len(cells)} columns, but {expected}")
        if too_many:  # commas in a caption that was not quoted
            cells = [*cells[:last], self.delimiter.join(cells[last:])]
        cells += [""] * (self.num_columns - len(cells))
        image = text_of(cells[self.image_columns[0]])
        captions = [" ".join(text_of(cells[column]).split()) for column in self.caption_columns]
        captions = [caption for caption in captions if caption]
        split = cells[self.split_columns[0]].strip() if self.split_columns else None
        return Row(line, image, captions, split, source, cells)

    def _row_with_caption(self, cells, caption):
        cells = list(cells)
        for column in self.caption_columns:
            cells[column] = ""
        cells[self.caption_columns[0]] = cell_of(caption)
        text = io.StringIO()
        # The writer quotes cells with line breaks only if they are in its line ending.
        csv.writer(text, delimiter=self.delimiter, lineterminator="\r\n").writerow(cells)
        return self._row(cells, None, text.getvalue().removesuffix("\r\n") + self.line_ending)

    @contextlib.contextmanager
    def _explained(self, reader):
        """Turn errors of the csv module into a ValueError with the line and advice."""
        try:
            yield
        except csv.Error as error:
            raise ValueError(
                f"{self.path}, line {reader.line_num}: {error}. A caption with a comma or quote "
                'must be quoted, and its quotes doubled: "a ""big"" dog, running".'
            ) from None


class JsonLinesTable:
    """A table with one JSON object per line.

    Attributes:
        head: "", the counterpart of a CSV table's header.
    """

    head = ""

    def __init__(self, path, text):
        self.path = path
        self.lines, self.line_ending = _lines_of(path, text)
        first_row = next(self.rows(), None)
        self.names = first_row.cells.keys() if first_row else ("file_name", "text")

    def rows(self):
        """Yield each Row, except empty lines."""
        for number, source in enumerate(self.lines, start=1):
            if not source.strip():
                continue
            try:
                yield self._row(json.loads(source), number, source)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                expected = 'expected an object like {"image": "a.jpg", "caption": "a dog"}.'
                received = f"Received: {source.rstrip()[:80]!r}"
                raise ValueError(f"{self.path}, line {number}: {expected} {received}") from None

    def new_row(self, image, caption):
        """Return a Row for a new picture, with the names that the first row has."""
        cells = {_first(IMAGE_NAMES, self.names): image}
        return self._row_with_caption(cells, _first(JSON_CAPTION_NAMES, self.names), caption)

    def changed_row(self, row, caption):
        """Return a Row of this table with another caption in place of its captions."""
        return self._row_with_caption(row.cells, _first(JSON_CAPTION_NAMES, row.cells), caption)

    def _row(self, cells, line, source):
        image = cells[_first(IMAGE_NAMES, cells)]
        name = _first(JSON_CAPTION_NAMES, cells)
        captions = cells[name] if name == "captions" else [cells[name]]
        if not isinstance(captions, list):
            raise TypeError
        if not all(isinstance(text, str) for text in [image, *captions]):
            raise TypeError
        captions = [" ".join(caption.split()) for caption in captions]
        captions = [caption for caption in captions if caption]
        return Row(line, image, captions, cells.get("split"), source, cells)

    def _row_with_caption(self, cells, name, caption):
        cells = {**cells, name: [caption] if name == "captions" else caption}
        return self._row(cells, None, json.dumps(cells, ensure_ascii=False) + self.line_ending)


def _first(wanted, names):
    """Return the first wanted name that is among `names`."""
    for name in wanted:
        if name in names:
            return name
    raise KeyError(wanted)


def _columns(wanted, names):
    """Return the positions of the first wanted name that is among `names`, a header."""
    for name in wanted:
        if name in names:
            return [column for column, each in enumerate(names) if each == name]
    return []


def _lines_of(path, text):
    """Return the lines of a table, each with a line ending, and that of the first."""
    # Lines end in "\n", "\r\n" or "\r". They stay as they are: cells contain them too.
    lines = list(io.StringIO(text, newline=""))
    reject_long_line(path, lines)
    first_line = lines[0] if lines else ""
    line_ending = first_line[len(first_line.rstrip("\r\n")) :] or "\n"
    if lines and not lines[-1].endswith(("\n", "\r")):
        lines[-1] += line_ending
    return lines, line_ending
