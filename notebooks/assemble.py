"""Make a notebook, not yet run, from what belongs to it:

* its source, src/NAME.py or src/rooms/NAME.py, in jupytext's percent format
* its solutions, solutions/NAME.py or solutions/rooms/NAME.py
* the diagram with its part coloured, figures/model_N.png
* the address in setup.cfg, once it is a real one (address.py): an installation line and a link to Colab

CONTRIBUTING.md lists the marks that a source may have, such as `[diagram]` and `gap="scores"`.
"""

import base64
import re
from pathlib import Path

import jupytext
from address import colab_link, installation, repository_address
from nbformat import v4

FOLDER = Path(__file__).resolve().parent
FROM_SETTINGS = "that of setup.cfg"
YOUR_TURN = "...  # your turn"
NOT_YET = "Not yet: the notebook goes on with the solution."
RIGHT = "Right."
HOW_GAPS_WORK = (
    "*Cells with `...  # your turn` are gaps for you to fill. The folded cell after each gap checks what you "
    "wrote; if the gap is empty, the notebook uses the solution. The stored outputs give away what you are asked to "
    "predict: clear them first (in JupyterLab: Edit, Clear Outputs of All Cells).*"
)
TRY_AGAIN = "Change your cell and run both again, or write ... there to go on with the solution."
FOLDED = {"jupyter": {"source_hidden": True}, "cellView": "form", "tags": ["hide-input"]}


def target_of(source):
    """Return the path of the .ipynb file that is made from a source."""
    inside = source.relative_to(FOLDER / "src")
    return (FOLDER / inside).with_suffix(".ipynb")


def read_cells(path):
    """Return the cells of a file in the percent format."""
    return jupytext.read(path).cells


def read_solutions(source):
    """Return the solutions of a notebook: code by ("gap", name) and ("exercise", number), and a list of mistakes by
    ("wrong", name).
    """
    path = FOLDER / "solutions" / source.relative_to(FOLDER / "src")
    solutions = {}
    for cell in read_cells(path) if path.exists() else ():
        if "wrong" in cell.metadata:
            solutions.setdefault(("wrong", cell.metadata["wrong"]), []).append(cell.source)
        for kind in ("gap", "exercise"):
            if kind in cell.metadata:
                solutions[kind, cell.metadata[kind]] = cell.source
    return solutions


def assemble(source, address=FROM_SETTINGS):
    """Return the notebook of a source. `address` is that of the repository, None if there is none; by default it is
    read from setup.cfg.
    """
    solutions = read_solutions(source)
    cells = [assembled_cell(cell, source, solutions) for cell in read_cells(source)]
    if address == FROM_SETTINGS:
        address = repository_address()
    if address:
        cells[0].source = with_colab_link(cells[0].source, source, address)
        cells.insert(1, v4.new_code_cell(installation(address)))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"  # the same in every run, so that differences are real ones
    metadata = {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
        "language_info": {"name": "python"},
    }
    return v4.new_notebook(cells=cells, metadata=metadata)


def assembled_cell(cell, source, solutions):
    """Return a cell of the notebook, made from a cell of the source."""
    if cell.cell_type == "markdown":
        return text_cell(cell.source, source, solutions)
    if "check" in cell.metadata:
        name, empty = cell.metadata["check"], cell.metadata["empty"]
        return check_cell(cell.source, solutions["gap", name], empty)
    if "maintainers" in cell.metadata:
        return v4.new_code_cell(f"# @title For maintainers\n{cell.source}", metadata=FOLDED)
    metadata = {mark: cell.metadata[mark] for mark in ("gap", "stored") if mark in cell.metadata}
    return v4.new_code_cell(cell.source, metadata=metadata)


def text_cell(text, source, solutions):
    """Return a markdown cell, with what its marks stand for: how gaps work, the diagram, solutions of exercises."""
    for number in re.findall(r"^\[solution (\d+)\]$", text, re.MULTILINE):
        text = text.replace(f"[solution {number}]", folded_code(solutions["exercise", int(number)]))
    text = text.replace("[gaps]", HOW_GAPS_WORK)
    if "[diagram]" not in text:
        return v4.new_markdown_cell(text)
    chapter = int(source.stem[:2]) if source.stem[:2].isdigit() else 0  # a room: all parts are coloured
    picture = (FOLDER / "figures" / f"model_{chapter}.png").read_bytes()
    picture = base64.b64encode(picture).decode("ascii")
    link = "![The model, with the part of this chapter coloured](attachment:model.png)"
    if any(kind == "gap" for kind, _ in solutions):
        link = f"{HOW_GAPS_WORK}\n\n{link}"
    cell = v4.new_markdown_cell(text.replace("[diagram]", link))
    cell["attachments"] = {"model.png": {"image/png": picture}}
    return cell


def folded_code(code):
    return f"<details><summary>Solution</summary>\n\n```python\n{code}\n```\n\n</details>"


def check_cell(checks, solution, empty):
    """Return the folded cell after a gap: it goes on with the solution if the gap is empty, and checks what it has.

    `empty` is the expression that is `...` as long as the gap is empty.
    """
    lines = [
        "# @title Run this cell to check yours (the solution is folded in it)",
        f"is_yours = ({empty}) is not ...",
        "if not is_yours:",
        f'    print("{NOT_YET}")',
        indented(solution),
        "try:",
        indented(checks),
        "except AssertionError as error:",
        "    # Shown instead of a traceback, which would contain the solution.",
        '    message = [f"Not right yet: {error}"]',
        f'    message += ["{TRY_AGAIN}"]',
        "    error._render_traceback_ = lambda: message",
        "    raise",
        "if is_yours:",
        f'    print("{RIGHT}")',
    ]
    return v4.new_code_cell("\n".join(lines), metadata=FOLDED)


def indented(code):
    return "\n".join(f"    {line}" if line else "" for line in code.splitlines())


def with_colab_link(text, source, address):
    """Return the first cell's text with a link to Colab below its title. Colab opens what is on GitHub."""
    link = colab_link(address, target_of(source).relative_to(FOLDER.parent).as_posix())
    if link is None:
        return text
    title, _, rest = text.partition("\n")
    return f"{title}\n\n[Open in Colab]({link})\n{rest}"


def trial(source):
    """Return a notebook that leaves each gap empty, fills it with each mistake and with the solution, and in the end
    runs the solutions of the exercises.
    """
    solutions = read_solutions(source)
    cells = []
    for original in read_cells(source):
        cell = assembled_cell(original, source, solutions)
        if "check" not in original.metadata:
            cells.append(cell)  # an empty gap among them
            continue
        name = original.metadata["check"]
        cells.append(v4.new_code_cell(cell.source, metadata={"empty": name}))
        for mistake in solutions["wrong", name]:
            noticed = {"wrong": name, "tags": ["raises-exception"]}
            cells += [v4.new_code_cell(mistake), v4.new_code_cell(cell.source, metadata=noticed)]
        cells.append(v4.new_code_cell(solutions["gap", name]))
        cells.append(v4.new_code_cell(cell.source, metadata={"solved": name}))
    exercises = [key for key in solutions if key[0] == "exercise"]
    cells += [v4.new_code_cell(solutions[key]) for key in exercises]
    return v4.new_notebook(cells=cells)


def problems_of_trial(notebook):
    """Return what went otherwise than it should in a trial that has been run."""
    problems = []
    for cell in notebook.cells:
        errors = [output.ename for output in cell.get("outputs", []) if output.output_type == "error"]
        if "wrong" in cell.metadata and errors != ["AssertionError"]:
            problems.append(f"the check of {cell.metadata['wrong']} did not notice a mistake: {errors}")
        printed = "".join(output.get("text", "") for output in cell.get("outputs", []))
        if "empty" in cell.metadata and NOT_YET not in printed:
            problems.append(f"the check of {cell.metadata['empty']} does not fill the empty gap")
        if "solved" in cell.metadata and RIGHT not in printed:
            problems.append(f"the check of {cell.metadata['solved']} does not accept the solution")
    return problems
