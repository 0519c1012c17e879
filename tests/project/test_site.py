"""The site: what its scripts find and write, and a build of it, in a browser too."""

import html
import json
import re
import sys
from pathlib import Path

import pytest
from helpers import module_in

import data_utils
import keras_sat

ROOT = Path(__file__).parents[2]
SITE = ROOT / "docs" / "site"
PUBLIC = [
    f"{package.__name__}.{name}" for package in (keras_sat, data_utils) for name in package.__all__
]
# One page of each kind.
KINDS = {
    "first page": "index.html",
    "course": "notebooks/README.html",
    "notebook": "notebooks/03_one_step_of_attention.html",
    "page": "docs/evaluation.html",
    "guides": "guides.html",
    "function": "reference/keras_sat.ground.html",
    "class": "reference/keras_sat.ScoreTable.html",
    "dict": "reference/keras_sat.ENCODERS.html",
    "names": "reference/index.html",
    "module": "reference/modules/keras_sat.equations.html",
    "source": "_modules/keras_sat/show_attend_tell.html",
    "search": "search.html",
}


def module(name):
    return module_in([SITE, ROOT / "notebooks"], name)


# === Names ===


@pytest.mark.parametrize(
    "written, name",
    [
        ("keras_sat.fit", "keras_sat.fit"),
        ("keras_sat.training.recipe.fit", "keras_sat.fit"),
        ("keras_sat.captioner.Captioner.caption", "keras_sat.Captioner.caption"),
        ("data_utils.datasets.flickr8k", "data_utils.flickr8k"),
        ("keras_sat.network.encoders.ENCODERS", "keras_sat.ENCODERS"),
        ("keras_sat.equations.lstm", "keras_sat.equations.lstm"),
        ("keras_sat.equations", "keras_sat.equations"),
        ("keras_sat.nothing", None),
        ("keras.Model", None),
    ],
)
def test_a_name_is_what_the_reference_calls_it(written, name):
    assert module("names").resolve(written) == name


@pytest.mark.parametrize(
    "word, name",
    [
        ("Captioner.trace(...)", "keras_sat.Captioner.trace"),
        ("equations.gru", "keras_sat.equations.gru"),
        ("data_utils.draw_scenes(1)", "data_utils.draw_scenes"),
        ("fit", None),  # a command too
        ("equations", None),
        ("a + b", None),
    ],
)
def test_a_word_in_a_text_means_a_name(word, name):
    assert module("names").meant(word) == name


def test_python_uses_what_it_imports_and_makes():
    code = module("names").Code(
        [
            "%pip install nothing\nimport keras_sat as ks",
            "from data_utils import tokenise as words",
            "captioner = ks.Captioner.from_pretrained()\ncaptioner.caption('a.jpg')\nwords('a')",
            "not Python",
            "import numpy as np\nnp.zeros(3)\nevaluate('mine')",
        ]
    )
    assert code.names == {
        "keras_sat.Captioner",
        "keras_sat.Captioner.from_pretrained",
        "keras_sat.Captioner.caption",
        "data_utils.tokenise",
    }


def test_the_index_lists_pages_by_name_and_classes_by_their_methods(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "`Captioner.trace` and\n\n```python\nimport keras_sat\nkeras_sat.fit('a')\n```\n"
    )
    notebook = tmp_path / "notebook.ipynb"
    cells = [
        {"cell_type": "markdown", "source": ["`keras_sat.gallery`"]},
        {"cell_type": "code", "source": ["from keras_sat import fit\n", "fit('b')"]},
    ]
    notebook.write_text(json.dumps({"cells": cells}))
    assert module("usage").usage({"notebook": notebook, "page": page}) == {
        "keras_sat.gallery": ["notebook"],
        "keras_sat.fit": ["notebook", "page"],
        "keras_sat.Captioner.trace": ["page"],
        "keras_sat.Captioner": ["page"],
    }


# === What is gathered ===


def test_all_notebooks_and_pages_have_a_place():
    gather = module("gather")
    course, beyond = gather.notebooks_in_order()
    notebooks = ROOT / "notebooks"
    assert {*course, *beyond} == {
        path.relative_to(notebooks).as_posix() for path in notebooks.rglob("*.ipynb")
    }
    assert course[0].startswith("00_") and not any("rooms" in path for path in course)
    groups = gather.guides_in_order()
    listed = [page for pages in groups.values() for page in pages]
    docs = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")}
    assert docs <= set(listed) and len(listed) == len(set(listed))
    assert "docs/results.md" in groups[gather.RECORDS]


def test_links_to_sources_are_marked_and_other_files_copied(tmp_path):
    text = "[a](../keras_sat/settings.py) [b](data.md#x) [c](pictures.py) `x[0](None)`"
    linked = module("gather").with_links(text, ROOT / "docs", tmp_path)
    assert linked == text.replace("../keras_sat/settings.py", "source:keras_sat/settings.py")
    assert (tmp_path / "docs" / "pictures.py").exists()


# === Docstrings ===


def test_examples_and_stars_in_docstrings_are_text():
    pytest.importorskip("sphinx", reason="the site needs the extra `site`")
    lines = [
        "Return a * b, as `c * d`, in h_.",
        "",
        "    x = a_ * b",
        "",
        "Args:",
        "    arrays: a dict of",
        "",
        "        mean: of a*b.",
        "    **options: see `fit`.",
    ]
    assert module("docstrings").as_restructured_text(lines) == [
        r"Return a \* b, as `c * d`, in h\_.",
        "",
        "::",
        "",
        "    x = a_ * b",
        "",
        "Args:",
        "    arrays: a dict of",
        "",
        "        ::",
        "",
        "            mean: of a*b.",
        "",
        "    **options: see `fit`.",
    ]


# === Dead links ===


def test_dead_links_are_found(tmp_path):
    (tmp_path / "other.html").write_text('<h1 id="there">x</h1>')
    (tmp_path / "index.html").write_text(
        '<a href="other.html#there">1</a> <a href="https://example.org">2</a> <a href="#">3</a>'
        '<a href="gone.html">4</a> <a href="other.html#gone">5</a> <a href="../x.html">6</a>'
        '<script src="https://example.org/x.js"></script> <img src="data:image/png;base64,AA">'
        '<img src="gone.png"> <a href="#gone">7</a>'
    )
    assert module("dead_links").dead_links(tmp_path) == [
        "index.html: no such file: gone.html",
        "index.html: no such anchor: other.html#gone",
        "index.html: leads out of the site: ../x.html",
        "index.html: is loaded from elsewhere: https://example.org/x.js",
        "index.html: no such file: gone.png",
        "index.html: no such anchor: #gone",
    ]


# === The site ===


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    for package in ("sphinx", "myst_nb", "latex2mathml", "pydata_sphinx_theme"):
        pytest.importorskip(package, reason="the site needs the extra `site`")
    import subprocess

    folder = tmp_path_factory.mktemp("site")
    ran = subprocess.run(
        [sys.executable, SITE / "build.py", folder], capture_output=True, text=True
    )
    # Neither warnings nor dead links.
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder / "html"


def page_of(site, name):
    return (site / "reference" / f"{name}.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_each_public_name_has_a_page_with_its_text(site):
    for name in PUBLIC:
        assert f'id="{name}"' in page_of(site, name)
    assert "attention_penalty_weight" in page_of(site, "keras_sat.fit")
    assert "<strong>vocabulary</strong>" in page_of(site, "keras_sat.Captioner")
    # A class is signed as its `__init__` is.
    start = 'id="keras_sat.Captioner">'
    signature = page_of(site, "keras_sat.Captioner").partition(start)[2].partition("</dt>")[0]
    assert "vocabulary" in signature and "kwargs" not in signature


@pytest.mark.slow
def test_names_link_to_the_pages_that_use_them_and_back(site):
    """For each page that uses a name in its Python."""
    names, usage = module("names"), module("usage")
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "notebooks").rglob("*.ipynb")]
    count = 0
    for path in pages:
        page = path.relative_to(ROOT).with_suffix(".html")
        text = (site / page).read_text(encoding="utf-8")
        up = "../" * (len(page.parts) - 1)
        for name in names.Code(usage.Text(path).blocks).names & set(PUBLIC):
            assert f'href="{up}reference/{name}.html#{name}' in text, (path, name)
            assert f'href="../{page.as_posix()}"' in page_of(site, name), (path, name)
            count += 1
    assert count > 100


@pytest.mark.slow
def test_the_first_page_has_three_doors(site):
    text = (site / "index.html").read_text(encoding="utf-8")
    for door in ("notebooks/README.html", "guides.html", "reference/index.html"):
        assert re.search(rf'href="{door}"><span[^>]*>\w', text)


@pytest.mark.slow
def test_without_an_address_nothing_is_installed_from_one(site):
    address = module("address")
    if address.repository_address():
        pytest.skip("there is an address")
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert "colab.research" not in text and "git+http" not in text, path


def test_with_an_address_sources_link_to_the_repository(monkeypatch):
    pytest.importorskip("sphinx", reason="the site needs the extra `site`")
    links = module("links")
    monkeypatch.setattr(links.address, "repository_address", lambda: "https://github.com/a/b")
    link = links.source_link(None, "docs/x", "keras_sat/equations.py")
    assert link == "https://github.com/a/b/blob/main/keras_sat/equations.py"


@pytest.mark.slow
def test_the_search_knows_names_pages_and_notebooks(site):
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(re.fullmatch(r"Search\.setIndex\((.*)\);?\s*", index, re.DOTALL).group(1))
    found = {index["docnames"][number] for number in index["terms"]["doubli"]}
    assert any(name.startswith("notebooks/") for name in found)
    assert "reference/keras_sat.fit" in index["docnames"]


@pytest.mark.slow
def test_formulas_are_mathml(site):
    text = (site / "notebooks" / "03_one_step_of_attention.html").read_text(encoding="utf-8")
    assert text.count("<math ") > 20 and "MathJax" not in text


# === In a browser ===


def emulate(browser, *, width=1280, scheme="light"):
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
    )
    features = [
        {"name": "prefers-color-scheme", "value": scheme},
        {"name": "prefers-reduced-motion", "value": "reduce"},  # colours at once
    ]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def violations(browser, *, rules=()):
    """Return what axe finds on the page, by these rules or by all: a line each."""
    axe = pytest.importorskip("axe_core_python", reason="axe-core-python is not installed")
    browser.execute_script((Path(axe.__path__[0]) / "axe.min.js").read_text(encoding="utf-8"))
    # A long page takes minutes on a busy machine.
    browser.command_executor.client_config.timeout = 900
    browser.set_script_timeout(900)
    # The players in frames have tests of their own, and frames a sandbox.
    script = (
        "const [rules, done] = arguments, some = rules.length ? {runOnly: rules} : {};"
        "axe.run(document, {iframes: false, ...some}).then("
        "found => done(found.violations), error => done([{id: String(error), nodes: []}]))"
    )
    found = browser.execute_async_script(script, list(rules))
    return [
        f"{rule['id']}: {html.unescape(node['html'])[:200]}"
        for rule in found
        for node in (rule["nodes"] or [{"html": ""}])
    ]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_axe_finds_nothing(site, browser, kind):
    emulate(browser)
    browser.get((site / KINDS[kind]).as_uri())
    assert violations(browser) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["first page", "notebook", "class", "source"])
def test_axe_finds_enough_contrast_in_the_dark(site, browser, kind):
    emulate(browser, scheme="dark")
    browser.get((site / KINDS[kind]).as_uri())
    assert violations(browser, rules=["color-contrast"]) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["first page", "notebook"])
def test_axe_finds_nothing_on_a_narrow_screen(site, browser, kind):
    emulate(browser, width=390)
    browser.get((site / KINDS[kind]).as_uri())
    assert violations(browser) == []


@pytest.mark.slow
def test_no_page_is_wider_than_a_narrow_screen(site, browser):
    """Not even the longest ones."""
    emulate(browser, width=390)
    pages = [
        *site.glob("*.html"),
        *(site / "docs").glob("*.html"),
        *site.glob("notebooks/**/*.html"),
    ]
    pages += [site / "reference" / f"{name}.html" for name in PUBLIC]
    wide = []
    for page in pages:
        browser.get(page.as_uri())
        if browser.execute_script("return document.documentElement.scrollWidth") > 390:
            wide.append(page.name)
    assert wide == [] and len(pages) > 90


@pytest.mark.slow
def test_dark_mode_follows_the_system(site, browser):
    brightness = {}
    for scheme in ("light", "dark"):
        emulate(browser, scheme=scheme)
        browser.get((site / KINDS["page"]).as_uri())
        colour = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        brightness[scheme] = sum(map(int, re.findall(r"\d+", colour)[:3]))
    assert brightness["dark"] < 150 and brightness["light"] > 600


@pytest.mark.slow
def test_the_keyboard_reaches_content_and_search(site, browser):
    from selenium.webdriver.common.keys import Keys

    emulate(browser)
    browser.get((site / "index.html").as_uri())
    browser.switch_to.active_element.send_keys(Keys.TAB)
    skip = browser.switch_to.active_element
    assert skip.get_attribute("textContent") == "Skip to main content"
    assert skip.get_attribute("href").endswith("#main-content")
    skip.send_keys(Keys.CONTROL, "k")
    field = browser.switch_to.active_element
    assert field.get_attribute("type") == "search"
    field.send_keys("doubly stochastic", Keys.ENTER)
    results = wait_for(browser, "#search-results li a")
    assert any("notebooks/" in link.get_attribute("href") for link in results)


@pytest.mark.slow
def test_a_player_plays_on_the_site(site, browser):
    """If any notebook has one stored."""
    pages = [
        path
        for path in sorted((site / "notebooks").rglob("*.html"))
        if 'title="Attention player"' in path.read_text(encoding="utf-8")
    ]
    if not pages:
        pytest.skip("no stored notebook has a player")
    emulate(browser)
    browser.get(pages[0].as_uri())
    frame = wait_for(browser, 'iframe[title="Attention player"]')[0]
    browser.execute_script("arguments[0].scrollIntoView()", frame)
    browser.switch_to.frame(frame)
    before = browser.find_element("css selector", ".sat-player").get_attribute("data-step")
    words = wait_for(browser, "button[data-step]")
    other = next(word for word in words if word.get_attribute("data-step") != before)
    other.click()
    after = browser.find_element("css selector", ".sat-player").get_attribute("data-step")
    assert after == other.get_attribute("data-step")


def wait_for(browser, selector):
    from selenium.webdriver.support.wait import WebDriverWait

    wait = WebDriverWait(browser, 120, 0.05)
    return wait.until(lambda _: browser.find_elements("css selector", selector))
