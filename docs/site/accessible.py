"""Texts for those who do not see a page: of the pictures that the cells of a notebook
draw, and of headings of tables that have none.
"""

from docutils import nodes


def setup(app):
    app.connect("doctree-read", describe)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def describe(app, doctree):
    for picture in doctree.findall(nodes.image):
        if "alt" not in picture:
            picture["alt"] = f"Picture drawn by the code above: {heading_of(picture)}"
    for head in list(doctree.findall(nodes.thead)):
        entries = list(head.findall(nodes.entry))
        empty = [entry for entry in entries if not entry.astext().strip()]
        if len(empty) == len(entries):
            head.parent.remove(head)
            continue
        for entry in empty:
            entry.clear()
            entry += nodes.paragraph("", "", nodes.inline("", "row", classes=["visually-hidden"]))


def heading_of(node):
    while not isinstance(node, nodes.section):
        node = node.parent
    return node.next_node(nodes.title).astext()
