import base64
import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from helpers import random_pixels
from pages import HOSTILE, Elements, Page, maps_of
from PIL import Image

from keras_sat import CaptionResult, gallery
from keras_sat.looking.gallery_page import GalleryPage
from keras_sat.measuring import bleu_counts, bleu_of_counts
from keras_sat.measuring.cider_score import cider_of_photos

REFERENCES = [
    ["a dog runs on the grass", "a dog"],
    ["two cats sleep", "cats"],
    ["a man walks in the snow", "a man"],
]
CAPTIONS = ["a dog runs on grass", "snow", "a man walks in the snow"]


def results_of(captions, size=(48, 64)):
    photos = random_pixels(len(captions), *size, 3)
    return [
        CaptionResult(
            caption, caption.split(), -1.0, maps_of(len(caption.split()), 7, 7), image=photo
        )
        for caption, photo in zip(captions, photos)
    ]


def test_a_page_with_photos_references_and_scores(tmp_path):
    path = gallery(
        results_of(CAPTIONS), tmp_path / "out", names=["dog", "cats", "man"], references=REFERENCES
    )
    assert path == tmp_path / "out" / "index.html"
    elements = Elements(path.read_text(encoding="utf-8"))
    articles = [attributes for attributes, _ in elements("article")]
    bleu_4 = bleu_of_counts(bleu_counts(REFERENCES, CAPTIONS))["bleu_4"]
    assert [float(article["data-bleu_4"]) for article in articles] == pytest.approx(
        bleu_4, abs=1e-6
    )
    cider = cider_of_photos(REFERENCES, CAPTIONS)
    assert [float(article["data-cider"]) for article in articles] == pytest.approx(cider, abs=1e-6)
    assert [text for _, text in elements("p", **{"class": "sat-scores"})][
        2
    ] == f"BLEU-4 100.0 %, CIDEr {cider[2]:.3f}"
    assert [text for _, text in elements("h2")] == ["dog", "cats", "man"]
    assert {text for captions in REFERENCES for text in captions} <= {
        text for _, text in elements("li")
    }
    assert len(elements("figure")) == len(elements("template")) == 1, (
        "one, which every photo is shown with"
    )
    waiting = [json.loads(text) for _, text in elements("script", type="application/json")[:3]]
    assert [photo["words"] for photo in waiting] == [caption.split() for caption in CAPTIONS]
    assert [text for _, text in elements("p", **{"class": "sat-waiting"})] == CAPTIONS


def test_without_references_there_is_nothing_to_sort_by(tmp_path):
    path = gallery(
        results_of(CAPTIONS), tmp_path / "page.html", images=[np.zeros((9, 9, 3), np.uint8)] * 3
    )
    page = path.read_text(encoding="utf-8")
    assert path == tmp_path / "page.html" and "data-sort=" not in page.partition("<script>")[0]
    assert [text for _, text in Elements(page)("h2")] == ["photo 1", "photo 2", "photo 3"]


def test_photos_are_added_one_by_one(tmp_path):
    page = GalleryPage(tmp_path)
    first, second, third = (
        replace(result, confidence=0.3) for result in results_of(CAPTIONS, (600, 300))
    )
    for number, result in enumerate((first, second, replace(third, confidence=None))):
        page.add(f"n{number}", result, result.image)
        shown = Elements(page.write().read_text(encoding="utf-8"))
        assert [text for _, text in shown("h2")] == [f"n{i}" for i in range(number + 1)]
        assert len(shown("button", data_sort="confidence")) == (number < 2), (
            "all photos or none are sorted by it"
        )
    assert [text for _, text in shown("p", **{"class": "sat-scores"})] == [
        "confidence 30 %",
        "confidence 30 %",
        "",
    ]
    data = json.loads(shown("script", type="application/json")[0][1])
    assert (data["confidence"], data["aspect"]) == (None, "0.5000"), "the confidence is said once"
    with Image.open(io.BytesIO(base64.b64decode(data["photo"].partition(",")[2]))) as photo:
        assert photo.size == (160, 320)
    assert len(shown("details")) == 1, "how to read the photos"
    page.errors += ["a.jpg: damaged", HOSTILE[0]]
    shown = Elements(page.write().read_text(encoding="utf-8"))
    assert shown("summary")[1][1] == "Unreadable: 2"
    assert [text for _, text in shown("li")] == ["a.jpg: damaged", HOSTILE[0]]


def test_what_is_hostile_is_escaped(tmp_path):
    words = CaptionResult(
        " ".join(HOSTILE), HOSTILE, -1.0, maps_of(5), image=np.zeros((8, 8, 3), np.uint8)
    )
    page = gallery(
        [words], tmp_path, names=[HOSTILE[1]], references=[HOSTILE], title=HOSTILE[0]
    ).read_text("utf-8")
    elements = Elements(page)
    assert len(elements("img")) == 1 and len(elements("script")) == 3
    assert elements("h1")[0][1] == HOSTILE[0] and [text for _, text in elements("li")] == HOSTILE


def test_impossible_requests(tmp_path):
    for options, message in (
        ({"names": ["one"]}, "Expected 3 names, one for each result. Received: 1"),
        ({"references": []}, "Expected 3 references"),
        ({"references": [["a dog"], "a cat", ["a bird"]]}, "a list of captions.*'a cat'"),
    ):
        with pytest.raises(ValueError, match=message):
            gallery(results_of(CAPTIONS), tmp_path, **options)


def names(browser):
    return browser.execute_script(
        "return [...document.querySelectorAll('h2')].map((name) => name.textContent)"
    )


def test_sorting_by_score(browser, tmp_path):
    path = gallery(
        results_of(CAPTIONS), tmp_path, names=["dog", "cats", "man"], references=REFERENCES
    )
    browser.get(path.as_uri())
    page = Page(browser)
    for name, scores in (
        ("bleu_4", bleu_of_counts(bleu_counts(REFERENCES, CAPTIONS))["bleu_4"]),
        ("cider", cider_of_photos(REFERENCES, CAPTIONS)),
    ):
        rising = [("dog", "cats", "man")[i] for i in np.argsort(scores, kind="stable")]
        button = page.find(f"[data-sort={name}]")
        button.click()
        assert names(browser) == rising and button.get_attribute("aria-pressed") == "true"
        assert "lowest first" in page.find("[data-role=order]").text
        button.click()
        assert (
            names(browser) == rising[::-1]
            and "highest first" in page.find("[data-role=order]").text
        )
    page.find("[data-sort=order]").click()
    assert names(browser) == ["dog", "cats", "man"]
    assert page.find("[data-role=order]").text == "", "the button says it"
    assert button.get_attribute("aria-pressed") == "false"


def shown(browser):
    return browser.execute_script("return document.querySelector('[data-role=shown]').textContent")


def test_on_a_phone_a_path_breaks_before_the_file_name_and_photos_come_soon(browser, tmp_path):
    folder = "a_long_folder/and_another/within_it"
    path = gallery(
        results_of(CAPTIONS), tmp_path, names=[f"{folder}/photo_{n}.jpg" for n in range(3)]
    )
    assert [text for _, text in Elements(path.read_text("utf-8"))("h2")][0] == (
        f"{folder}/photo_0.jpg"
    )
    screen = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    browser.get(path.as_uri())
    tops = browser.execute_script("""
        const text = document.querySelector("h2").lastChild, range = document.createRange();
        return [...text.data].map((_, i) => {
            range.setStart(text, i);
            range.setEnd(text, i + 1);
            return range.getBoundingClientRect().top;
        });""")
    assert len({*tops}) == 1, "the file name is in one line"
    top = "return document.querySelector('article').getBoundingClientRect().top"
    assert browser.execute_script(top) < 250


def test_fifty_at_a_time(browser, tmp_path):
    from selenium.webdriver.common.keys import Keys

    captions = [f"photo of {n}" for n in range(120)]
    names_of_all = [f"n{n}" for n in range(120)]
    references = [[f"one two three four {n}" for n in range(2)]] * 119 + [["photo of 119"]]
    path = gallery(
        results_of(captions, (8, 8)), tmp_path, names=names_of_all, references=references
    )
    browser.get(path.as_uri())
    page = Page(browser)
    pages = page.find("[data-role=page]")
    turn = {name: page.find(f"[data-action={name}]") for name in ("previous", "next")}
    assert names(browser) == names_of_all[:50] and shown(browser) == "Photos 1 to 50 of 120."
    assert pages.text == "Page 1 of 3" and not turn["previous"].is_enabled()
    turn["next"].send_keys(Keys.ENTER)
    assert names(browser) == names_of_all[50:100] and shown(browser) == "Photos 51 to 100 of 120."
    assert browser.execute_script("return document.activeElement.tagName") == "MAIN", (
        "reading resumes at the top"
    )
    page.wait_until(
        lambda: browser.execute_script("return document.querySelector('article > figure') !== null")
    )
    page.find("article button[data-step='1']").click()
    turn["next"].click()
    assert (
        names(browser) == names_of_all[100:]
        and not turn["next"].is_enabled()
        and turn["previous"].is_enabled()
    )
    turn["previous"].click()
    page.wait_until(
        lambda: browser.execute_script("return document.querySelector('article > figure') !== null")
    )
    assert page.find("article .sat-player").get_attribute("data-step") == "-1", (
        "a player starts again"
    )
    page.find("[data-sort=cider]").click()
    page.find("[data-sort=cider]").click()
    assert names(browser)[0] == "n119" and pages.text == "Page 1 of 3", "sorting is over all pages"


def test_words_find_photos(browser, tmp_path):
    references = [*REFERENCES[:2], ["a man walks in the snow", "Ein Mädchen"]]
    path = gallery(
        results_of(CAPTIONS),
        tmp_path,
        names=["dog.jpg", "cats.jpg", "man.jpg"],
        references=references,
    )
    browser.get(path.as_uri())
    page = Page(browser)
    field = page.find("[data-role=filter]")
    tree = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    named = {
        (node["role"]["value"], node.get("name", {}).get("value"))
        for node in tree
        if not node["ignored"]
    }
    assert ("searchbox", "Only photos with these words") in named and (
        "main",
        "Photos 1 to 3 of 3",
    ) in named
    for words, found in (
        ("snow", ["cats.jpg", "man.jpg"]),  # a caption; a reference too
        ("SNOW sleep", ["cats.jpg"]),  # each of the words
        ("ca", ["cats.jpg"]),  # the beginning of a word, here of a reference and a name
        ("ats", []),  # not its end
        ("mädchen", ["man.jpg"]),
        ("dog.jpg", ["dog.jpg"]),
        (" . ", ["dog.jpg", "cats.jpg", "man.jpg"]),
    ):
        field.clear()
        field.send_keys(words)
        assert names(browser) == found, words
        page.find("[data-sort=order]").click()
        assert names(browser) == found, "sorting keeps the choice"
        if len(found) == 3:
            assert shown(browser) == "Photos 1 to 3 of 3."
        elif found:
            assert shown(browser) == f"Photos 1 to {len(found)} of {len(found)} with these words."
        else:
            assert shown(browser) == "No photo with these words."
    assert not page.find("nav").is_displayed()


def test_many_photos_become_players_when_the_reader_comes_near(browser, tmp_path):
    path = gallery(results_of([f"photo of {n}" for n in range(200)]), tmp_path)
    assert re.search(r"<p>Photos: 200\.", path.read_text(encoding="utf-8"))
    browser.get(path.as_uri())
    page = Page(browser)
    live = "return document.querySelectorAll('article > figure').length"
    page.wait_until(lambda: browser.execute_script(live))
    assert 0 < browser.execute_script(live) < 40
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    last = "article:last-child"
    assert page.find(f"{last} > .sat-waiting").text == "photo of 49"
    browser.execute_script("scrollTo(0, document.body.scrollHeight)")
    page.wait_until(
        lambda: browser.execute_script(f"return document.querySelector('{last} > figure') !== null")
    )
    page.find(f"{last} button[data-step='2']").click()
    page.point_at(3.5 / 7, 6.5 / 7, f"{last} .sat-stage")  # where `maps_of` puts the third word
    assert page.words_with("data-here") == ["49"]
    page.find(f"{last} button[data-step='2']").click()
    assert page.find(f"{last} .sat-player").get_attribute("data-step") == "2"
    assert page.find("article .sat-player").get_attribute("data-step") == "-1", (
        "each player is its own"
    )
    assert browser.execute_script(live) < 80
