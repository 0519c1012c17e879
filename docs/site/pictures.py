"""The pictures that the cells of a notebook draw get a text for those who do not see
them: the heading under which they stand.
"""

from docutils import nodes


def setup(app):
    app.connect("doctree-read", describe)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def describe(app, doctree):
    for picture in doctree.findall(nodes.image):
        if "alt" not in picture:
            picture["alt"] = f"Picture drawn by the code above: {heading_of(picture)}"


def heading_of(node):
    while not isinstance(node, nodes.section):
        node = node.parent
    return node.next_node(nodes.title).astext()
