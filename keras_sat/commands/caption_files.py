"""Write the captions of many pictures to text files and tables.

Captions that these files already have are kept.
"""

import codecs
import itertools
import os
from pathlib import Path

from data_utils.base import clear_half_written, exclusive_lock, read_bytes, write_whole
from data_utils.captions import decoded
from data_utils.datasets import PictureNames, table_of
from keras_sat.commands.paths import check_can_be_written, prepare_files

NEW_TABLES = {".csv": "image,caption\n", ".jsonl": ""}
# For another process to write the same table, which takes less than a second:
LONGEST_WAIT_S = 60
QUIET_WAIT_S = 5  # a longer wait is mentioned


def caption_files(images, paths, *, text_files=False, csv=None, metadata=False, overwrite=False):
    """Return the TextFiles and Tables of pictures, `paths`, that were found as
    `images`, if they can be written.
    """
    files = [TextFiles(paths, overwrite)] if text_files else []
    if csv is not None:
        if Path(csv).suffix.lower() != ".csv":
            raise ValueError(f"Expected a file name that ends in .csv. Received: --csv {csv}")
        files.append(Table(Path(csv).expanduser(), paths, overwrite))
    if metadata:
        folder = _common_folder([*images, *paths])
        files.append(Table(Path(folder, "metadata.jsonl"), paths, overwrite))
    if overwrite and not files:
        raise ValueError("--overwrite has no effect without --text-files, --csv or --metadata.")
    return files


def _common_folder(paths):
    """Return the deepest folder that contains all of these files and folders."""
    paths = [os.path.abspath(os.path.expanduser(path)) for path in paths]
    folders = [path if os.path.isdir(path) else os.path.dirname(path) for path in paths]
    return os.path.commonpath(folders)


class TextFiles:
    """The caption of photo.jpg in photo.txt, in the same folder."""

    def __init__(self, paths, overwrite):
        self.overwrite = overwrite
        pictures = {os.path.realpath(path) for path in paths}
        first_pictures = {}  # by the path of the text file
        for path in paths:
            text_path = _text_path(path)
            if os.path.realpath(text_path) in pictures:
                raise ValueError(
                    f"The output would overwrite the picture. Received: --text-files, {text_path}"
                )
            # Some systems do not distinguish photo.txt from Photo.txt.
            key = os.path.abspath(text_path).casefold()
            first_picture = first_pictures.setdefault(key, path)
            if os.path.abspath(first_picture) != os.path.abspath(path):
                raise ValueError(
                    "Two pictures would have the same text file. Rename one. Received: "
                    f"{first_picture}, {path}"
                )
            if overwrite and not _may_be_overwritten(text_path):
                raise ValueError(
                    f"--overwrite replaces text files only. Rename or move this file: {text_path}"
                )
        prepare_files([_text_path(path) for path in paths if not self.has(path)])

    def has(self, path):
        return not self.overwrite and os.path.lexists(_text_path(path))

    def add(self, path, caption):
        write_whole(_text_path(path), caption + "\n")

    def write(self):
        """Do nothing: each file is written when it is added."""


class Table:
    """A CSV or JSON Lines file. It names pictures by their paths from its folder; of a
    table that is reached through a link, that is the folder of the table itself.

    The file may change while captions are made: somebody corrects a row, or another
    process adds rows. So it is read again before it is written, and only the rows of
    pictures that were captioned here are changed. A lock keeps other processes from
    writing in between.

    A table keeps its form: its columns, delimiter, encoding and line endings.
    """

    def __init__(self, path, paths, overwrite):
        self.shown_path = path  # as it was passed, for messages
        self.overwrite = overwrite
        self.path = Path(os.path.realpath(path))  # a link stays a link
        self.folder = self.path.parent if path.is_symlink() else Path(os.path.abspath(path)).parent
        for picture in paths:
            if self._path_in_folder(picture) is None:
                link = f", a link to {self.path}" if path.is_symlink() else ""
                raise ValueError(
                    f"This table must be in a folder that contains {picture}. Received: "
                    f"{path}{link}"
                )
        self.picture_names = PictureNames(self.folder, map(self._name, paths))
        self.captions = {}  # those made here, by the name of the picture
        self.unwritten = {}  # those of them that are not in the file yet
        self.content = None  # of the file, in bytes
        check_can_be_written(self.path)
        self._read()
        with self._lock():
            clear_half_written(self.path)

    def has(self, path):
        name = self._name(path)
        return name in self.captions or (name in self.names and not self.overwrite)

    def add(self, path, caption):
        name = self._name(path)
        self.captions[name] = self.unwritten[name] = caption

    def write(self):
        """Bring the captions made here into the table as it is now."""
        if not self.captions:
            return
        try:
            with self._lock():
                self._read()
                self._merge()
                self._write()
        except ValueError as error:  # the table was damaged, or another process hangs
            if not self.unwritten:
                raise
            spare_path = self._write_spare()
            raise ValueError(
                f"{error} The captions that could not be added are in {spare_path}."
            ) from None

    def _name(self, path):
        name = self._path_in_folder(path).as_posix()
        return name.encode("utf-8", "backslashreplace").decode()

    def _path_in_folder(self, picture):
        """Return the path of a picture from the folder; None if it is not in there."""
        folder, name = os.path.split(os.path.abspath(picture))
        for path in (Path(folder, name), Path(os.path.realpath(folder), name)):
            if path.is_relative_to(self.folder):
                return path.relative_to(self.folder)
        return None

    def _lock(self):
        """Return the lock that is held while the table is read and written once."""
        path = self.path.with_name(f".{self.path.name}.lock")
        holder_does = f"is writing {self.shown_path}"
        return exclusive_lock(path, holder_does, wait_s=LONGEST_WAIT_S, quiet_s=QUIET_WAIT_S)

    def _read(self):
        """Read the table, unless it is as it was when it was last read or written."""
        content = read_bytes(self.path) if self.path.exists() else b""
        if content == self.content:
            return
        document = decoded(self.shown_path, content)
        text = document.text if document.text.strip() else self._new_text()
        table = table_of(self.shown_path, text)
        self.rows = [(self.picture_names.actual(row.image), row) for row in table.rows()]
        self.names = {name for name, _ in self.rows}
        self.content = content
        self.document = document
        self.table = table

    def _new_text(self):
        return NEW_TABLES[self.shown_path.suffix.lower()]

    def _merge(self):
        """Change the rows of pictures captioned here, and add missing rows."""
        if self.overwrite:
            self._change_rows()
        # Also those written before: an editor may have saved an older copy since.
        for name, caption in self.captions.items():
            if name not in self.names:
                self.rows.append((name, self.table.new_row(name, caption)))
                self.names.add(name)

    def _change_rows(self):
        """Replace all rows of each picture with an unwritten caption by one with it."""
        rows = []
        changed_names = set()
        for name, row in self.rows:
            if name in changed_names:
                continue
            if name in self.unwritten:
                row = self.table.changed_row(row, self.unwritten[name])
                changed_names.add(name)
            rows.append((name, row))
        self.rows = rows

    def _write(self):
        text = self.table.head + "".join(row.source for _, row in self.rows)
        content = self.document.encoded(text)
        if content != self.content:
            write_whole(self.path, content)
            self.content = content
        self.unwritten = {}

    def _write_spare(self):
        """Write the unwritten captions to a new table beside it; return its path."""
        table = table_of(self.shown_path, self._new_text())
        rows = [table.new_row(name, caption) for name, caption in self.unwritten.items()]
        spare_path = self._free_path()
        write_whole(spare_path, table.head + "".join(row.source for row in rows))
        self.captions, self.unwritten = {}, {}
        return spare_path

    def _free_path(self):
        """Return table-2.csv for table.csv, or the next number that is free."""
        path = self.folder / self.shown_path.name
        paths = (path.with_stem(f"{path.stem}-{number}") for number in itertools.count(2))
        return next(path for path in paths if not os.path.lexists(path))


def _text_path(path):
    return Path(path).with_suffix(".txt")


def _may_be_overwritten(path):
    """Return whether this is a text file, or no file.

    Pictures and other files have null characters, text has them only in UTF-16.
    """
    if not os.path.isfile(path):
        return True
    with open(path, "rb") as file:
        start = file.read(2**16)
    return b"\0" not in start or start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
