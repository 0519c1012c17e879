"""Settings of Sphinx for the site; build.py runs it.

Why Sphinx: numpy, scikit-learn and xarray keep their documentation with it, it checks
every reference, and it needs neither network nor Node, as Jupyter Book 2 does. Material
for MkDocs is maintained, but its authors now build Zensical. MyST-NB reads Markdown and
notebooks as they are stored, so that GitHub shows the same files. The PyData theme is
made for keyboards and screen readers, has a dark mode and loads nothing from elsewhere.
Formulas are MathML, because MathJax has no maintained package that works offline.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "notebooks"), str(ROOT)]

from data_utils.base import import_tensorflow  # noqa: E402

import_tensorflow()  # without its startup log

import address  # noqa: E402
from pygments.lexers.special import TextLexer  # noqa: E402

import keras_sat  # noqa: E402
from keras_sat.settings import HEADINGS, MOST_USED  # noqa: E402

project = "keras_sat"
author = "The keras_sat developers"
version = release = keras_sat.__version__
language = "en"
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "accessible",
    "docstrings",
    "links",
    "mathml",
]
# A column of a class that several classes have, `num_photos`, say, is no link.
suppress_warnings = ["ref.python"]
exclude_patterns = ["**/files/*.ipynb"]

# Pages and notebooks. The notebooks are shown as they are stored.
nb_execution_mode = "off"
nb_merge_streams = True
nb_number_source_lines = False
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4
myst_url_schemes = {"http": None, "https": None, "mailto": None, "source": None}
html_math_renderer = "mathml"

# The reference.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False
autodoc_typehints = "signature"
napoleon_numpy_docstring = False
napoleon_custom_sections = [
    (section, "params_style")
    for section in ("Attributes", "Call arguments", "Options", MOST_USED, *HEADINGS)
]
toc_object_entries_show_parents = "hide"

# The look.
html_theme = "pydata_sphinx_theme"
html_context = {"default_mode": "auto"}  # dark where the reader's system is
html_title = "keras_sat"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_show_sourcelink = False
# A summary would be read from the page, which a browser does not allow in a folder.
html_show_search_summary = False
html_baseurl = address.site_address(address.repository_address()) or ""
pygments_style = "a11y-high-contrast-light"
html_theme_options = {
    "logo": {"text": "keras_sat"},
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "show_toc_level": 2,
    "navigation_depth": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "icon_links": [],
}
copyright = "The keras_sat developers, Apache License 2.0"
if address.repository_address():
    html_theme_options["icon_links"] = [
        {
            "name": "Source",
            "url": address.repository_address(),
            "icon": "fa-solid fa-code-branch",
        }
    ]


def setup(app):
    app.add_lexer("csv", TextLexer)  # Pygments has none
