"""The address of the repository, and what is written from it. It stands in one place, setup.cfg's `project_urls`.

    python notebooks/address.py

writes the badges of README.md, and the installation line and the link to Colab of each stored notebook. Run it after
a change of the address. While the address is the placeholder, there are no badges, lines or links: nobody shall run
what a stranger puts there.
"""

import configparser
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACEHOLDER = "https://example.org/"
GITHUB = "https://github.com/"
MARKS = "<!-- badges -->\n", "<!-- end of badges -->\n"


def repository_address(root=ROOT):
    """Return the address of the repository in setup.cfg, or None while it is the placeholder."""
    settings = configparser.ConfigParser()
    settings.read(Path(root) / "setup.cfg", encoding="utf-8")
    lines = settings["metadata"]["project_urls"].strip().split("\n")
    address = dict(line.split(" = ") for line in lines)["Source"]
    return None if address.startswith(PLACEHOLDER) else address.removesuffix(".git")


def installation(address):
    """Return the line of a notebook that installs the package from the repository."""
    return f"%pip install --quiet git+{address}"


def colab_link(address, path):
    """Return the address at which Colab opens a file of the repository, or None: Colab opens what is on GitHub."""
    if not address or not address.startswith(GITHUB):
        return None
    return f"https://colab.research.google.com/github/{address.removeprefix(GITHUB)}/blob/main/{path}"


def file_link(address, path):
    """Return the address of a file of the repository."""
    return f"{address}/blob/main/{path}"


def site_address(address):
    """Return the address at which GitHub Pages shows the site of the repository, or None if it is elsewhere."""
    if not address or not address.startswith(GITHUB):
        return None
    owner, name = address.removeprefix(GITHUB).split("/")
    return f"https://{owner.lower()}.github.io/{name}/"


def badges(address):
    """Return the badges of README.md, one line of Markdown, or None if there are none."""
    site = site_address(address)
    if site is None:
        return None
    return (
        f"[![Tests]({address}/actions/workflows/ci.yml/badge.svg)]({address}/actions/workflows/ci.yml) "
        f"[![Site]({address}/actions/workflows/site.yml/badge.svg)]({site})"
    )


def without_badges(text):
    """Return the text of README.md without its badges."""
    first, last = map(re.escape, MARKS)
    return re.sub(rf"{first}.*?{last}\n", "", text, flags=re.DOTALL)


def with_badges(text, address):
    """Return the text of README.md with the badges of this address below its title, in place of any others."""
    text, line = without_badges(text), badges(address)
    if line is None:
        return text
    title, _, rest = text.partition("\n\n")
    return f"{title}\n\n{MARKS[0]}{line}\n{MARKS[1]}\n{rest}"


def main():
    import assemble
    import check
    import nbformat

    address = repository_address()
    readme = ROOT / "README.md"
    readme.write_text(with_badges(readme.read_text(encoding="utf-8"), address), encoding="utf-8")
    for source in check.sources():
        target = assemble.target_of(source)
        made = assemble.assemble(source)
        nbformat.write(with_outputs_of(nbformat.read(target, 4), made), target)
    print(f"README.md and the notebooks have the address {address or 'of nobody: it is the placeholder'}")


def with_outputs_of(stored, made):
    """Return a notebook that has just been made, with the outputs of the stored one: they differ only in the cell
    that installs the package.
    """
    outputs = {}
    for cell in stored.cells:
        if cell.cell_type == "code":
            outputs.setdefault(cell.source, []).append((cell.execution_count, cell.outputs))
    for cell in made.cells:
        if outputs.get(cell.source):
            cell.execution_count, cell.outputs = outputs[cell.source].pop(0)
    return made


if __name__ == "__main__":
    main()
