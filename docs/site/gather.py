"""Gather what the site shows into one folder, in which files lie as in the repository:
the pages, the executed notebooks, and a page for each name of the reference.
"""

import base64
import inspect
import json
import re
import shutil
from pathlib import Path

import names
from address import ROOT, without_badges

HERE = Path(__file__).resolve().parent
PAGES = ("*.md", "docs/*.md", "notebooks/README.md", "benchmarks/**/*.md")
PICTURES = ("docs/*.png", "docs/*.gif", "docs/*.jpg", "notebooks/figures/*.svg")
LINK = re.compile(r"\]\(([^)\s#:]+)(#[^)\s]*)?\)")
# The group of README's "Where to go on" that is about what was measured.
RECORDS = "Know what you get"


def gather(folder):
    """Fill an empty folder with the sources of the site."""
    folder = Path(folder)
    for pattern in PAGES:
        for path in sorted(ROOT.glob(pattern)):
            text = path.read_text(encoding="utf-8")
            write(
                folder / path.relative_to(ROOT),
                with_links(without_badges(text), path.parent, folder),
            )
    for pattern in PICTURES:
        for path in ROOT.glob(pattern):
            copy(path, folder)
    for path in sorted((ROOT / "notebooks").rglob("*.ipynb")):
        write_notebook(path, folder)
    for path in HERE.glob("*.md"):
        shutil.copy(path, folder)
    write_contents(folder)
    write_reference(folder / "reference")


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def copy(path, folder):
    target = folder / path.relative_to(ROOT)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, target)


def with_links(text, place, folder):
    """Return a text of the folder `place`, whose links to other files work on the site.

    `source:PATH` is a link to a file of the packages (links.py says where it leads);
    other files are copied.
    """

    def linked(match):
        target, anchor = match.group(1), match.group(2) or ""
        path = (place / target).resolve()
        if not path.is_file() or ROOT not in path.parents or path.suffix in (".md", ".ipynb"):
            return match.group(0)
        inside = path.relative_to(ROOT).as_posix()
        if path.suffix == ".py" and inside.startswith(names.PACKAGES):
            return f"](source:{inside}{anchor})"
        copy(path, folder)
        return match.group(0)

    return LINK.sub(linked, text)


def write_notebook(path, folder):
    """Write a notebook as the site shows it, and in `files` as it is, for downloads."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    place = folder / path.parent.relative_to(ROOT)
    (place / "files").mkdir(parents=True, exist_ok=True)
    shutil.copy(path, place / "files" / path.name)
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] != "markdown":
            continue
        text = with_links("".join(cell["source"]), path.parent, folder)
        for name, forms in cell.pop("attachments", {}).items():
            file = f"{path.stem}_{number}_{name}"
            (place / "files" / file).write_bytes(base64.b64decode(forms["image/png"]))
            text = text.replace(f"attachment:{name}", f"files/{file}")
        if not number:
            title, _, rest = text.partition("\n")
            download = f"{{download}}`Download this notebook <files/{path.name}>`"
            text = f"{title}\n\n{download}\n{rest}"
        cell["source"] = text
    write(place / path.name, json.dumps(notebook))


# === Contents ===


def notebooks_in_order():
    """Return the notebooks as notebooks/README.md lists them: those of the course, and
    those beyond it.
    """
    text = (ROOT / "notebooks" / "README.md").read_text(encoding="utf-8")
    listed = list(dict.fromkeys(re.findall(r"\]\(([\w/]+\.ipynb)\)", text)))
    table = text.partition("| chapter |")[2].partition("\n\n")[0]
    course = [path for path in listed if f"]({path})" in table]
    return course, [path for path in listed if path not in course]


def guides_in_order():
    """Return README's "Where to go on": the pages of each group."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = text.partition("## Where to go on")[2].partition("\n\nThe code is")[0]
    groups = {}
    for group, rest in re.findall(
        r"^- \*\*([^*]+)\*\*:(.*?)(?=^- |\Z)", text, re.MULTILINE | re.DOTALL
    ):
        pages = re.findall(r"\]\(([\w./-]+\.md)\)", rest)
        groups[group] = [page for page in pages if not page.startswith("notebooks")]
    listed = {page for pages in groups.values() for page in pages}
    others = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md"))
    groups["Use"] += [page for page in others if page not in listed]
    return groups


def toctree(entries, *, caption=None, hidden=False):
    lines = [f":caption: {caption}"] if caption else []
    lines += [":hidden:"] if hidden else []
    return "\n".join(["```{toctree}", ":maxdepth: 1", *lines, "", *entries, "```", ""])


def write_contents(folder):
    """Write the pages that say in which order the others come."""
    course, beyond = notebooks_in_order()
    readme = folder / "notebooks" / "README.md"
    contents = toctree(course, caption="Chapters", hidden=True)
    contents += "\n" + toctree(beyond, caption="Rooms", hidden=True)
    write(readme, readme.read_text(encoding="utf-8") + "\n" + contents)
    groups = guides_in_order()
    records = groups.pop(RECORDS)
    lists = [toctree(["Install and begin <README.md>"], caption="Begin")]
    lists += [toctree(pages, caption=group) for group, pages in groups.items() if pages]
    write(
        folder / "guides.md",
        "# Guides\n\nHow to use keras_sat, page by page.\n\n" + "\n".join(lists),
    )
    lab = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "benchmarks").rglob("*.md"))
    records = (
        toctree([*records, "CHANGELOG.md"])
        + "\n"
        + toctree(lab, caption="Notes of the experiments")
    )
    text = "What was measured, with which command and on which machine."
    write(folder / "records.md", f"# Records\n\n{text}\n\n{records}")


# === Reference ===


def write_reference(folder):
    """Write a page for each public name, and for each module."""
    tables = []
    for package in names.PACKAGES:
        rows, pages = [], []
        for owner, module, name in names.public_names():
            if owner == package:
                write(folder / f"{owner}.{name}.rst", public_page(owner, module, name))
                rows.append((f":py:obj:`~{owner}.{name}`", summary(owner, name)))
                pages.append(f"{owner}.{name}")
        head = names.value_of(package).__doc__.strip()
        tables += [titled(f"``{package}``", "-"), head, table(rows), rst_toctree(pages)]
    text = (
        "The public names, and the pages and notebooks that use them. :doc:`modules` has "
        "everything else."
    )
    write(
        folder / "index.rst",
        "\n\n".join([titled("Reference", "="), text, *tables, rst_toctree(["modules"])]),
    )
    rows = []
    for module in names.modules():
        write(folder / "modules" / f"{module}.rst", module_page(module))
        rows.append((f":py:mod:`{module}`", first_sentence(names.value_of(module).__doc__)))
    pages = [f"modules/{module}" for module in names.modules()]
    write(
        folder / "modules.rst",
        "\n\n".join([titled("Modules", "="), table(rows), rst_toctree(pages)]),
    )


def titled(text, line):
    return f"{text}\n{line * len(text)}"


def rst_toctree(pages):
    return "\n".join([".. toctree::", "   :hidden:", "", *(f"   {page}" for page in pages)])


def table(rows):
    lines = [".. list-table::", "   :widths: auto", "   :class: names", ""]
    for name, text in rows:
        lines += [f"   * - {name}", f"     - {text}"]
    return "\n".join(lines)


def first_sentence(text):
    """Return the first paragraph of a docstring, in one line."""
    return " ".join((inspect.cleandoc(text or "").split("\n\n")[0]).split())


def summary(owner, name):
    value = getattr(names.package(owner), name)
    if isinstance(value, dict):
        return f"A dict with the keys {', '.join(f'``{key}``' for key in value)}."
    return first_sentence(value.__doc__)


def public_page(owner, module, name):
    value = getattr(names.package(owner), name)
    full = f"{owner}.{name}"
    lines = [titled(name, "="), "", f".. py:currentmodule:: {owner}", ""]
    if inspect.isclass(value):
        lines += [f".. autoclass:: {full}", "   :members:", "   :inherited-members:"]
    elif callable(value):
        lines += [f".. autofunction:: {full}"]
    else:
        lines += [f".. py:data:: {name}", f"   :canonical: {module}.{name}", ""]
        lines += ["   A dict with these keys:", ""]
        lines += [f"   * ``{key!r}``" for key in value]
        lines += ["", f"   .. used-in:: {full}"]
    return "\n".join([*lines, ""])


def module_page(module):
    value = names.value_of(module)
    public = [name for owner, home, name in names.public_names() if home == module]
    others = [name for name in vars(value) if names.public_by_home().get(f"{module}.{name}")]
    lines = [titled(f"``{module}``", "="), "", f".. automodule:: {module}"]
    is_package = module in names.PACKAGES
    if not is_package and hasattr(value, "NAMES_BY_MODULE"):
        # A folder: the text of each name is on the page of its module.
        exported = [names.resolve(f"{module}.{name}") for name in value.__all__]
        links = ", ".join(f":py:obj:`{name}`" for name in exported)
        lines += ["   :no-index:", "", f"What other folders use of it: {links}."]
        return "\n".join([*lines, ""])
    if not is_package:
        lines += ["   :members:"]
    hidden = sorted({*public, *others})
    if hidden:
        lines += [f"   :exclude-members: {', '.join(hidden)}"]
        shown = [names.public_by_home().get(f"{module}.{name}") for name in hidden]
        links = ", ".join(f":py:obj:`{name}`" for name in shown if name)
        lines += ["", f"Public names, on pages of their own: {links}."] if links else []
    return "\n".join([*lines, ""])
