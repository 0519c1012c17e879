"""Build the site: `make site`, or `python docs/site/build.py [FOLDER]`.

The site is written to FOLDER/html, build/site/html by default. It needs no network, and
works from a folder as well as from a server. Warnings and dead links are errors.
"""

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "notebooks")]


def build(folder):
    """Build the site in a folder, and return a line for each thing wrong with it."""
    from dead_links import dead_links
    from gather import gather
    from sphinx.cmd.build import build_main

    folder = Path(folder).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    gather(folder / "source")
    strict = ["--fail-on-warning", "--quiet", "--fresh-env"]
    places = [folder / "source", folder / "html"]
    settings = ["-c", Path(__file__).parent, "-d", folder / "doctrees"]
    if build_main([*map(str, [*strict, *settings, *places])]):
        return ["Sphinx warns, see above"]
    return dead_links(folder / "html")


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "site"
    problems = build(folder)
    print("\n".join(problems) or folder / "html" / "index.html")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
