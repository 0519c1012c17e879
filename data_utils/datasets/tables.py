"""Read captions from CSV files, such as those that spreadsheets export, and from JSON
Lines files.
"""

import csv
import io
import json
import re

from data_utils.captions import load_document

# Spreadsheets treat text that starts with one of these as a formula. In some locales ;
# or a tab separates cells.
_TO_BE_QUOTED = re.compile(r"\A(?='*[=+\-@＝＋－＠\t\r\n])|(?<=[;\t\r\n])(?='*[=+\-@＝＋－＠])")
_QUOTED = re.compile(r"\A'(?='*[=+\-@＝＋－＠\t\r\n])|(?<=[;\t\r\n])'(?='*[=+\-@＝＋－＠])")

# Names in metadata files of Hugging Face's imagefolder.
COLUMNS = {"file_name": "image", "text": "caption"}


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


def read_csv(path):
    """Yield (line, image, caption, split) from a table with a header, with commas,
    semicolons or tabs between cells.
    """
    document = load_document(path)
    header_line = document.split("\n", 1)[0]
    delimiter = max(",;\t", key=header_line.count)
    rows = csv.DictReader(io.StringIO(document), delimiter=delimiter, strict=True, restval="")
    try:
        names = [column.strip().lower() for column in rows.fieldnames or ()]
        rows.fieldnames = names = [COLUMNS.get(name, name) for name in names]
        if not {"image", "caption"} <= {*names}:
            raise ValueError(
                f"{path}, line 1: the header must have the columns image and caption. "
                f"Received: {header_line[:80]!r}"
            )
        for row in rows:
            more = row.pop(None, [])
            if more and names[-1] != "caption":
                raise csv.Error(
                    f"this row has {len(names) + len(more)} columns, but the header has "
                    f"{len(names)}"
                )
            # Commas in a caption that was not quoted.
            caption = delimiter.join([row["caption"], *more])
            split = row["split"].strip() if "split" in row else None
            yield (
                rows.line_num,
                text_of(row["image"]).strip(),
                " ".join(text_of(caption).split()),
                split,
            )
    except csv.Error as error:
        raise ValueError(
            f"{path}, line {rows.reader.line_num}: {error}. A caption with a comma or "
            "quote must be quoted, "
            'and its quotes doubled: "a ""big"" dog, running".'
        ) from None


def read_jsonl(path):
    """Yield (line, image, caption, split) from a file with one JSON object per line."""
    for number, line in enumerate(load_document(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = {COLUMNS.get(name, name): value for name, value in json.loads(line).items()}
            captions = row["captions"] if "captions" in row else [row["caption"]]
            if not isinstance(captions, list) or not all(
                isinstance(text, str) for text in [row["image"], *captions]
            ):
                raise TypeError
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            problem = (
                f'{path}, line {number}: expected an object like {{"image": "a.jpg", '
                f'"caption": "a dog"}}.'
            )
            raise ValueError(f"{problem} Received: {line[:80]!r}") from None
        for caption in captions:
            yield number, row["image"].strip(), " ".join(caption.split()), row.get("split")
