"""Write the captions of many pictures to text files and tables. Captions that these files already have are kept."""

import csv
import io
import json
import os
from pathlib import Path

from data_utils.atomic_files import write_whole
from data_utils.captions import load_document
from data_utils.datasets.tables import cell_of, read_csv, read_jsonl
from keras_sat.command_line.paths import prepare_files


def caption_files(images, paths, *, text_files=False, csv=None, metadata=False, overwrite=False):
    """Return a list of the TextFiles and Tables to write, after checking that they can be written.

    Args:
        images: the arguments of the command line; metadata.jsonl belongs in their common folder.
        paths: list of the pictures found there.
        text_files, csv, metadata, overwrite: options of the command line.
    """
    files = [TextFiles(paths, overwrite)] if text_files else []
    if csv is not None:
        if Path(csv).suffix.lower() != ".csv":
            raise ValueError(f"Expected a file name that ends in .csv. Received: --csv {csv}")
        files.append(Table(csv, paths, overwrite, read_csv, _csv_line, header="image,caption"))
    if metadata:
        given = [os.path.abspath(os.path.expanduser(path)) for path in (*images, *paths)]
        common = os.path.commonpath([path if os.path.isdir(path) else os.path.dirname(path) for path in given])
        files.append(Table(Path(common, "metadata.jsonl"), paths, overwrite, read_jsonl, _json_line))
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
                raise ValueError(f"Two pictures would have the same text file. Rename one. Received: {other}, {path}")
        prepare_files([_text_path(path) for path in paths if not self.has(path)])

    def has(self, path):
        return not self.overwrite and os.path.lexists(_text_path(path))

    def add(self, path, caption):
        write_whole(_text_path(path), caption + "\n")

    def write(self):
        """Do nothing: each file is written when it is added."""


class Table:
    """A file with a line for each picture, which is named by its path relative to the folder of the table.

    Args:
        path: the file. If it exists, its lines are kept, unless `overwrite` is true.
        paths: list of the pictures.
        read: function that reads the file, see `data_utils.datasets.tables`.
        line: function that turns a name and a caption into a line.
        header: the first line.
    """

    def __init__(self, path, paths, overwrite, read, line, header=""):
        self.path, self.line, self.names = Path(path).expanduser(), line, set()
        self.lines = [header] if header else []
        if outside := [path for path in paths if not Path(os.path.abspath(path)).is_relative_to(self._folder())]:
            raise ValueError(f"This table must be in a folder that contains {outside[0]}. Received: {self.path}")
        prepare_files([self.path])
        if not overwrite and self.path.exists() and (text := load_document(self.path).rstrip("\n")):
            if not text.startswith(header):
                raise ValueError(
                    f"{self.path}: its header is not {header}, so no rows can be added. Choose another file, or pass "
                    f"--overwrite. Received: {text[:80]!r}"
                )
            self.names, self.lines = {row[1] for row in read(self.path)}, [text]

    def _folder(self):
        return os.path.abspath(self.path.parent)

    def _name(self, path):
        name = Path(os.path.abspath(path)).relative_to(self._folder()).as_posix().strip()
        return name.encode("utf-8", "backslashreplace").decode()

    def has(self, path):
        return self._name(path) in self.names

    def add(self, path, caption):
        self.names.add(self._name(path))
        self.lines.append(self.line(self._name(path), caption))

    def write(self):
        if self.names:
            write_whole(self.path, "\n".join(self.lines) + "\n")


def _text_path(path):
    return Path(path).with_suffix(".txt")


def _csv_line(name, caption):
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow([cell_of(name), cell_of(caption)])
    return line.getvalue()


def _json_line(name, caption):
    return json.dumps({"file_name": name, "text": caption}, ensure_ascii=False)
