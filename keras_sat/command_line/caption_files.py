"""Write the captions of many pictures to text files and tables.

Captions that these files already have are kept.
"""

import csv
import io
import json
import os
from pathlib import Path

from data_utils.atomic_files import write_whole
from data_utils.captions import load_document
from data_utils.datasets.tables import cell_of, read_csv, read_jsonl
from keras_sat.command_line.paths import prepare_files

CSV_HEADER = "image,caption"


def caption_files(images, paths, *, text_files=False, csv=None, metadata=False, overwrite=False):
    """Return the TextFiles and Tables of pictures, `paths`, that were found as
    `images`, if they can be written.
    """
    files = [TextFiles(paths, overwrite)] if text_files else []
    if csv is not None:
        if Path(csv).suffix.lower() != ".csv":
            raise ValueError(f"Expected a file name that ends in .csv. Received: --csv {csv}")
        files.append(Table(Path(csv).expanduser(), paths, overwrite, CSV_HEADER))
    if metadata:
        given = [os.path.abspath(os.path.expanduser(path)) for path in (*images, *paths)]
        common = os.path.commonpath(
            [path if os.path.isdir(path) else os.path.dirname(path) for path in given]
        )
        files.append(Table(Path(common, "metadata.jsonl"), paths, overwrite))
    if overwrite and not files:
        raise ValueError("--overwrite has no effect without --text-files, --csv or --metadata.")
    return files


class TextFiles:
    """The caption of photo.jpg in photo.txt, in the same folder."""

    def __init__(self, paths, overwrite):
        self.overwrite, owners = overwrite, {}
        for path in paths:  # some systems do not distinguish photo.txt from Photo.txt
            other = owners.setdefault(os.path.abspath(_text_path(path)).casefold(), path)
            if os.path.abspath(other) != os.path.abspath(path):
                raise ValueError(
                    "Two pictures would have the same text file. Rename one. Received: "
                    f"{other}, {path}"
                )
        prepare_files([_text_path(path) for path in paths if not self.has(path)])

    def has(self, path):
        return not self.overwrite and os.path.lexists(_text_path(path))

    def add(self, path, caption):
        write_whole(_text_path(path), caption + "\n")

    def write(self):
        """Do nothing: each file is written when it is added."""


class Table:
    """A CSV or JSON Lines file, in which each picture is named by its path relative to
    the table's folder.
    """

    def __init__(self, path, paths, overwrite, header=None):
        self.path, self.is_csv, self.names, self.lines = (
            path,
            header is not None,
            set(),
            [header] if header else [],
        )
        self.folder = os.path.abspath(path.parent)
        if outside := [
            path for path in paths if not Path(os.path.abspath(path)).is_relative_to(self.folder)
        ]:
            raise ValueError(
                f"This table must be in a folder that contains {outside[0]}. Received: {path}"
            )
        prepare_files([path])
        if not overwrite and path.exists() and (text := load_document(path).rstrip("\n")):
            if self.is_csv and not text.startswith(header):
                raise ValueError(
                    f"{path}: the header is not {header}. Choose another file, or pass --overwrite."
                )
            self.names, self.lines = (
                {row[1] for row in (read_csv if self.is_csv else read_jsonl)(path)},
                [text],
            )

    def _name(self, path):
        name = Path(os.path.abspath(path)).relative_to(self.folder).as_posix().strip()
        return name.encode("utf-8", "backslashreplace").decode()

    def has(self, path):
        return self._name(path) in self.names

    def add(self, path, caption):
        name, line = self._name(path), io.StringIO()
        if self.is_csv:
            csv.writer(line, lineterminator="").writerow([cell_of(name), cell_of(caption)])
        else:
            json.dump({"file_name": name, "text": caption}, line, ensure_ascii=False)
        self.names.add(name)
        self.lines.append(line.getvalue())

    def write(self):
        if self.names:
            write_whole(self.path, "\n".join(self.lines) + "\n")


def _text_path(path):
    return Path(path).with_suffix(".txt")
