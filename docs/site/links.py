"""The links of the site that Sphinx does not make: from code to the reference, from the
reference to the pages that use a name, and to source files.
"""

import re
from pathlib import Path

import address
import names
import usage
from docutils import nodes
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

SPANS = re.compile(
    r'<span class="n\w*">[\w.]+</span>(?:<span class="o">\.</span><span class="n\w*">\w+</span>)*'
)
PARTS = re.compile(r'<span class="n\w*">([\w.]+)</span>')


def setup(app):
    app.connect("env-before-read-docs", find_usage)
    # Before Napoleon, which reads the sections of a docstring.
    app.connect("autodoc-process-docstring", say_where_it_is_used, priority=900)
    app.connect("doctree-read", anchor_at_home)
    app.connect("env-updated", lead_back)
    app.connect("doctree-resolved", link_everything, priority=900)
    app.add_directive("used-in", UsedIn)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


# === Where a name is used ===


def find_usage(app, env, docnames):
    pages = [page for page in env.found_docs if not page.startswith("reference/")]
    # The notebooks first.
    pages.sort(key=lambda page: (not page.startswith("notebooks/"), page))
    env.usage = usage.usage({page: env.doc2path(page) for page in pages})


def used_in(app, name):
    """Return the lines that list the pages which use a name."""
    pages = app.env.usage.get(name, ())
    return (
        ["", f"**Used in:** {', '.join(f':doc:`/{page}`' for page in pages)}", ""] if pages else []
    )


def say_where_it_is_used(app, what, name, value, options, lines):
    found = names.resolve(name)
    if what != "module" and found:
        lines += used_in(app, found)


class UsedIn(SphinxDirective):
    """`.. used-in:: NAME`: the pages that use a name."""

    required_arguments = 1

    def run(self):
        return self.parse_text_to_nodes("\n".join(used_in(self.env.app, self.arguments[0])))


# === Source files ===


def anchor_at_home(app, doctree):
    """Give a public name the anchor of the module that defines it too: to it lead the
    links from the source.
    """
    home_of = {public: home for home, public in names.public_by_home().items()}
    for signature in doctree.findall(addnodes.desc_signature):
        for name in list(signature["ids"]):
            owner = name if name in home_of else name.rpartition(".")[0]
            if owner in home_of:
                signature["ids"].append(home_of[owner] + name.removeprefix(owner))


def lead_back(app, env):
    """Let the links from the source of a module lead to these anchors."""
    modules = getattr(env, "_viewcode_modules", {})
    for name, entry in modules.items():
        if entry:
            modules[name] = (*entry[:3], name)
    return []


# === Links ===


def link_everything(app, doctree, page):
    if app.builder.format != "html":
        return
    for reference in list(doctree.findall(nodes.reference)):
        target = reference.get("refuri", "")
        if target.startswith("source:"):
            reference["refuri"] = source_link(app, page, target.removeprefix("source:"))
            reference["internal"] = True
    for word in list(doctree.findall(nodes.literal)):
        name = None if is_inside(word, nodes.reference) else names.meant(word.astext())
        link = name and name_link(app, page, name)
        if link:
            reference = nodes.reference("", "", internal=True, refuri=link[0], reftitle=link[1])
            word.replace_self(reference)
            reference += word
    if not page.startswith("reference/"):
        link_code(app, doctree, page)


def is_inside(node, kind):
    while node is not None and not isinstance(node, kind | nodes.title):
        node = node.parent
    return node is not None


def name_link(app, page, name):
    """Return the link from a page to a name, or to the class that has it, and the title
    of the link; None if the reference has neither.
    """
    objects = app.env.domains.python_domain.objects
    while name not in names.PACKAGES and name:
        if name in objects:
            found = objects[name]
            link = app.builder.get_relative_uri(page, found.docname)
            return f"{link}#{found.node_id}", name
        name = name.rpartition(".")[0]
    return None


def link_code(app, doctree, page):
    """Link the names in the Python of a page."""
    blocks = [
        block
        for block in doctree.findall(nodes.literal_block)
        if block.get("language") in ("python", "ipython3", "py")
    ]
    code = names.Code([block.astext() for block in blocks])
    for block in blocks:
        html = app.builder.highlighter.highlight_block(block.astext(), "python")
        linked = SPANS.sub(lambda found: linked_chain(app, page, code, found.group(0)), html)
        if linked != html:
            html = f'<div class="highlight-python notranslate">{linked}</div>'
            block.replace_self(nodes.raw("", html, format="html"))


def linked_chain(app, page, code, html):
    """Return highlighted Python with a link around the longest part that is a name."""
    ends = [found.end() for found in PARTS.finditer(html)]
    parts = PARTS.findall(html)
    for number in range(len(parts), 0, -1):
        name = code.name_of(".".join(parts[:number]))
        link = name and name_link(app, page, name)
        if link:
            start, rest = html[: ends[number - 1]], html[ends[number - 1] :]
            return f'<a class="code-link" href="{link[0]}" title="{link[1]}">{start}</a>{rest}'
    return html


def source_link(app, page, path):
    """Return the link to a source file: in the repository if it has an address, else to
    the page that shows the file.
    """
    repository = address.repository_address()
    if repository:
        return address.file_link(repository, path)
    return app.builder.get_relative_uri(page, "_modules/" + str(Path(path).with_suffix("")))
