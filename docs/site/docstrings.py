"""Docstrings as Sphinx reads them. Ours are plain text with two marks, backticks and
indented examples; to Sphinx, stars and underscores mean something too.
"""

import inspect
import re

import names
from sphinx.util.inspect import stringify_signature

OPTION = re.compile(r"^ +\*{1,2}\w+:", re.MULTILINE)  # `**options: ...`, which Napoleon reads


def setup(app):
    # Before Napoleon, which reads the sections.
    app.connect("autodoc-process-docstring", rewrite, priority=400)
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("autodoc-process-signature", sign)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def rewrite(app, what, name, value, options, lines):
    lines[:] = as_restructured_text(lines)


def skip_foreign(app, what, name, value, skip, options):
    """Leave out what a class has from Keras or matplotlib."""
    value = value.fget if isinstance(value, property) else inspect.unwrap(value)
    home = getattr(value, "__module__", None) or ""
    return None if home.split(".")[0] in names.PACKAGES else True


def sign(app, what, name, value, options, signature, returned):
    """Sign a class as its `__init__` is, which Keras hides behind a `__new__`."""
    init = getattr(value, "__init__", None)
    if what != "class" or not inspect.isfunction(init):
        return None
    found = inspect.signature(init)
    found = found.replace(
        parameters=list(found.parameters.values())[1:], return_annotation=found.empty
    )
    return stringify_signature(found, unqualified_typehints=True), None


def as_restructured_text(lines):
    """Return the lines of a docstring with its examples marked as such, and with
    characters escaped that mean nothing in it.
    """
    made, text = [], []

    def finish_text():
        made.extend(escaped("\n".join(text)).split("\n") if text else [])
        text.clear()

    depth, previous = None, 0  # of the example, and of the line before
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if depth is not None and line and indent < depth:
            depth = None
            if made[-1]:
                made.append("")
        if depth is None and line and indent > previous and number and not lines[number - 1]:
            finish_text()
            depth = indent
            # In the description of an argument, the mark is part of the description.
            further = 4 if previous else 0
            made += [" " * (depth if previous else 0) + "::", ""]
        if depth is None:
            text.append(line)
        else:
            made.append(" " * further + line if line else line)
        previous = indent if line and depth is None else previous
    finish_text()
    return made


def escaped(text):
    pieces = re.split(r"(`[^`]*`)", text)
    for number in range(0, len(pieces), 2):
        kept = OPTION.findall(pieces[number])
        piece = OPTION.sub("\0", pieces[number])
        piece = re.sub(r"\*", r"\\*", piece)
        piece = re.sub(r"(?<=\w)_(?!\w)", r"\\_", piece)
        for option in kept:
            piece = piece.replace("\0", option, 1)
        pieces[number] = piece
    return "".join(pieces)
