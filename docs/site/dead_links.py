"""Find the dead links of a folder of HTML pages."""

import functools
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links of a page, and what links may lead to.

    Attributes:
        links: values of href, src and poster.
        anchors: the ids.
    """

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(Path(path).read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src", "poster") and value:
                self.links.append((tag, value))
            elif name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)


def dead_links(folder):
    """Return a line for each link to a file or an anchor that does not exist, and for
    each file that a page would load from elsewhere.
    """
    folder = Path(folder).resolve()
    read = functools.cache(Page)
    problems = []
    for path in sorted(folder.rglob("*.html")):
        if path.parent.name == "_static":
            continue  # templates of the theme
        for tag, link in read(path).links:
            problem = problem_with(link, tag, path, folder, read)
            if problem:
                problems.append(f"{path.relative_to(folder)}: {problem}: {link}")
    return problems


def problem_with(link, tag, path, folder, read):
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        is_loaded = tag != "a" and parts.scheme != "data"
        return "is loaded from elsewhere" if is_loaded else None
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target != folder and folder not in target.parents:
        return "leads out of the site"
    if target.is_dir():
        target = target / "index.html"
    if not target.is_file():
        return "no such file"
    if parts.fragment and target.suffix == ".html":
        anchors = read(target).anchors
        if unquote(parts.fragment) not in anchors and parts.fragment not in anchors:
            return "no such anchor"
    return None
