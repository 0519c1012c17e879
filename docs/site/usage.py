"""Which page uses which name: the index behind "Used in"."""

import json
import re
from pathlib import Path

import names

FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
PYTHON = ("python", "py")


class Text:
    """What is written on a page.

    Attributes:
        blocks: its pieces of Python.
        words: what stands in backticks in its sentences.
    """

    def __init__(self, path):
        content = Path(path).read_text(encoding="utf-8")
        self.blocks = []
        if Path(path).suffix == ".ipynb":
            texts = []
            for cell in json.loads(content)["cells"]:
                source = "".join(cell["source"])
                if cell["cell_type"] == "code":
                    self.blocks.append(source)
                else:
                    texts.append(source)
            content = "\n\n".join(texts)
        self.blocks += [code for _, kind, code in FENCE.findall(content) if kind in PYTHON]
        self.words = re.findall(r"`([^`\n]+)`", FENCE.sub("", content))


def names_on(path):
    """Return the names that a page uses, in Python or in its sentences."""
    text = Text(path)
    in_words = {name for word in text.words for name in [names.meant(word)] if name}
    return names.Code(text.blocks).names | in_words


def usage(pages):
    """Return the pages that use each name, in the given order.

    Args:
        pages: dict from the name of a page to its file.

    Who uses a method uses its class.
    """
    index = {}
    for page, path in pages.items():
        used = set()
        for name in names_on(path):
            used |= {name, owner_of(name)}
        for name in used:
            index.setdefault(name, []).append(page)
    return index


def owner_of(name):
    """Return the class of a method, and any other name itself."""
    owner = name.rpartition(".")[0]
    return owner if owner not in names.modules() and "." in owner else name
