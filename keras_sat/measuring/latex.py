"""Tables for LaTeX, with the rules of booktabs and decimals below each other."""

from dataclasses import dataclass

from data_utils.base import visible

_SPECIAL = {character: f"\\{character}" for character in "&%$#_{}"}
_SPECIAL |= {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}
_SIGNS = {"+": "$+$", "-": "$-$"}
MISSING = "-"  # a cell without a number


@dataclass(frozen=True)
class Numbers:
    """A column of numbers, such as "+6.48".

    Attributes:
        title: plain text.
        parts: a list of texts, one for each row; for numbers such as "22.2 ± 0.4", a
            list for each part.
        joint: LaTeX between two parts.
    """

    title: str
    parts: tuple
    joint: str = ""


def latex_table(labels, columns, notes=()):
    """Return a table as LaTeX, which needs only the package booktabs.

    Args:
        labels: list with the name of each row, plain text.
        columns: list of Numbers.
        notes: lines of plain text, which become comments.
    """
    layout = "l" + "".join(_layout(column) for column in columns)
    heading = ["", *(_title(column) for column in columns)]
    cells = [map(escaped, labels)]
    cells += [aligned(texts) for column in columns for texts in column.parts]
    lines = [
        *(f"% {visible(note)}" for note in ("needs \\usepackage{booktabs}", *notes)),
        f"\\begin{{tabular}}{{{layout}}}",
        r"\toprule",
        f"{' & '.join(heading).strip()} \\\\",
        r"\midrule",
        *(f"{' & '.join(row)} \\\\" for row in zip(*cells)),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join([*lines, ""])


def _layout(column):
    return f"@{{{column.joint}}}".join("r" * len(column.parts))


def _title(column):
    title, num_parts = escaped(column.title), len(column.parts)
    return title if num_parts == 1 else f"\\multicolumn{{{num_parts}}}{{c}}{{{title}}}"


def aligned(texts):
    """Return numbers as LaTeX whose decimals are below each other in a right-aligned
    column.

    >>> aligned(["94.1", "-0.452", "-"])
    ['94.1\\\\phantom{00}', '$-$0.452', '--']
    """
    most = max((len(_decimals(text)) for text in texts), default=0)
    cells = []
    for text in texts:
        if text == MISSING:
            cells.append("--")
            continue
        digits = text.lstrip("+-")
        padding = "0" * (most - len(_decimals(text)))
        if padding and "." not in text:
            padding = f".{padding}"
        sign = _SIGNS.get(text[:1], "")
        cells.append(sign + digits + (f"\\phantom{{{padding}}}" if padding else ""))
    return cells


def _decimals(text):
    return text.partition(".")[2]


def escaped(text):
    """Return plain text as LaTeX.

    >>> escaped("soft_1 & 95 % <b>")
    'soft\\\\_1 \\\\& 95 \\\\% \\\\textless{}b\\\\textgreater{}'
    """
    return "".join(_SPECIAL.get(character, character) for character in visible(text))
