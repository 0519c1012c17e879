"""The explorer: the page of a trace has its numbers, needs nothing else, and harms
nobody; and in a browser it shows what is chosen.
"""

import ast
import base64
import dataclasses
import io
import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
from helpers import WORDS, all_slow_but, photo_captioner, random_pixels
from pages import Elements, Page
from PIL import Image

import keras_sat
from keras_sat import show_attend_tell
from keras_sat.__main__ import main
from keras_sat.looking import player
from keras_sat.looking.decision import (
    ChoiceRule,
    decision_at,
    percent,
    rule_of,
    search_in_words,
)
from keras_sat.looking.diagram import boxes_of, code_of, memory_in_words
from keras_sat.looking.dots import AGAINST, FOR, LINE, radii
from keras_sat.looking.explorer import PARTS, explorer_page, typeset, typeset_formula
from keras_sat.looking.region_colours import (
    NAMED_COLOURS,
    OTHERS,
    PALETTE,
    colour_distance,
    region_colours,
)
from keras_sat.looking.trace import Trace
from keras_sat.looking.trace_plot import LEAST_STRONGEST, PART_COLOURS
from keras_sat.network import ATTENTIONS, Selection, hard
from keras_sat.network.cells import CELLS, GRUCell
from keras_sat.search import ComparedCaption
from keras_sat.settings import Search

pytestmark = pytest.mark.usefixtures("module_without_graphs")
CAPTION = "a dog runs in a cat"
HEADINGS = {
    "paper": {},
    "none": {"attention": "none"},
    "two layers of gru, hard": {"cell": "gru", "num_layers": 2, "attention": "hard"},
    "sentinel, after, bilinear": {"sentinel": True, "attends": "after", "scoring": "bilinear"},
    "no deep output, tanh": {"deep_output": False, "readout_activation": "tanh"},
    "dot, no gate": {"scoring": "dot", "context_gate": False, "hidden_dim": 66},
}
# Words of a vocabulary, which have no spaces.
HOSTILE = ['</script><script>document.title="harmed"</script>', '"><img/src=x/onerror=alert(1)>']
HOSTILE += ["{{data}}", "<!--", "’"]


@pytest.fixture(scope="module")
def photo():
    return random_pixels(16, 16, 3, seed=4)


@pytest.fixture(scope="module", params=all_slow_but("sentinel, after, bilinear", [*HEADINGS]))
def trace(request, photo):
    return photo_captioner(**HEADINGS[request.param]).trace(photo, CAPTION)


@pytest.fixture(scope="module")
def plain_captioner():
    """A captioner as in the paper, which no test may change."""
    return photo_captioner()


@pytest.fixture(scope="module")
def plain(plain_captioner, photo):
    """Its trace."""
    return plain_captioner.trace(photo, CAPTION)


@pytest.fixture(scope="module")
def plain_file(plain, tmp_path_factory):
    """The page of this trace."""
    path = tmp_path_factory.mktemp("explorer") / "new" / "trace.html"
    plain.save(path)
    return path


@pytest.fixture(scope="module")
def plain_page(plain_file):
    return plain_file.read_text("utf-8")


@pytest.fixture(scope="module")
def hostile(photo):
    """A trace whose candidates are hostile words too."""
    captioner = photo_captioner(words=[*WORDS, *HOSTILE])
    trace = captioner.trace(photo, "a dog", num_words=len(captioner.vocabulary))
    assert {*HOSTILE} <= {candidate.word for candidate in trace.steps[0].top}
    return trace


def data_of(page):
    ((_, text),) = Elements(page)("script", type="application/json")
    return json.loads(text)


def floats(text, kind="<f4"):
    return np.frombuffer(base64.b64decode(text), kind).astype(float)


# === What is in the page ===


def test_the_numbers_are_those_of_the_trace(trace):
    data = data_of(explorer_page(trace))
    assert len(data["steps"]) == len(trace.steps)
    for t, (shown, step) in enumerate(zip(data["steps"], trace.steps)):
        pairs = [(shown["attention"], step.attention_weights), (shown["context"], trace.context(t))]
        words, probabilities = trace.places(t)
        pairs.append((shown["places"]["probabilities"], probabilities))
        if step.attention_scores is None:
            assert shown["scores"] is None
        else:
            pairs.append((shown["scores"], step.attention_scores))
        if step.cell_state is None:
            assert shown["cellState"] is None
        else:
            pairs.append((shown["cellState"], step.cell_state))
        for candidate, its in zip(step.top, shown["candidates"], strict=True):
            assert its["word"] == candidate.word
            pairs.append((its["votes"], trace.votes(t, candidate.word)))
            numbers = [its["probability"], its["logit"], its["mean"], *its["parts"]]
            expected = [candidate.probability, candidate.logit, trace.vote_of_mean(t, its["word"])]
            expected += [candidate.parts[name] for name in PARTS]
            np.testing.assert_allclose(numbers, expected, atol=1e-6)
        for text, values in pairs:
            np.testing.assert_allclose(floats(text), np.ravel(values), atol=1e-5)
        for name, values in {**step.gates, "h_t": step.hidden_state}.items():
            strip = floats(shown["strips"][name], "<i2") / 32767
            np.testing.assert_allclose(strip, values, atol=1e-4)
        numbers = floats(shown["places"]["numbers"], "<u2").astype(int)
        assert [shown["places"]["words"][number] for number in numbers] == words.ravel().tolist()
        share = step.context_gate if step.from_photo is None else step.from_photo
        assert shown["share"] == share


def test_the_context_is_the_one_that_the_photo_gives(plain):
    for t, step in enumerate(plain.steps):
        expected = step.context_gate * np.tensordot(step.attention_weights, plain.annotations(), 2)
        np.testing.assert_allclose(plain.context(t), expected, atol=1e-5)


def test_each_other_word_of_a_search_has_what_would_have_followed(plain, plain_page):
    for t, shown in enumerate(data_of(plain_page)["steps"]):
        others = {other.word: other.caption for other in plain.alternatives(t, 100)}
        found = {its["word"]: its["followed"] for its in shown["candidates"]}
        assert found.pop(shown["word"]) is None
        assert found == {word: others.get(word) for word in found} and any(found.values())
    assert len(plain.alternatives(0)) == 3 and len(plain.alternatives(0, 1)) == 1


def test_a_page_has_the_hooks_that_programs_read(plain):
    elements = Elements(explorer_page(plain, title="A title"))
    ((root, _),) = elements("main")
    assert root["class"] == "sat-trace" and root["data-step"] == "1" and root["data-word"] == "dog"
    words = [text for found, text in elements("button", type="button") if "data-step" in found]
    assert words == [step.word for step in plain.steps]
    modes = [found["data-map"] for found, _ in elements("button") if "data-map" in found]
    assert modes == ["photo", "scores", "attention", "votes", "places"]
    assert len(elements("canvas", data_role="map")) == 1
    assert elements("title")[0][1] == "A title"


def test_without_attention_there_are_no_scores_to_show(photo):
    page = explorer_page(photo_captioner(attention="none").trace(photo, "a dog"))
    assert "disabled" in Elements(page)("button", data_map="scores")[0][0]
    assert "has no attention" in page


def test_a_given_caption_is_not_said_to_be_searched_for(plain, plain_page):
    assert plain.choice_rule.kind == "given"
    assert plain_page.count(search_in_words(plain.choice_rule)) == 1, "not at every word"
    for shown, step in zip(data_of(plain_page)["steps"], plain.steps):
        decided = shown["decided"]
        assert decided["reason"].startswith("You gave this caption") and not decided["captions"]
        assert f"“{step.top[0].word}”" in decided["reason"]


@pytest.mark.slow
def test_a_beam_search_shows_both_captions_with_their_scores(photo):
    """Of a search whose word is not always the most probable one."""
    captioner = photo_captioner()
    trace = captioner.trace(photo, num_beams=4, length_penalty=1.0, max_length=6)
    rule = trace.choice_rule
    assert (rule.kind, rule.num_beams, rule.length_penalty) == ("beam", 4, 1.0)
    compared = 0
    for t, shown in enumerate(data_of(explorer_page(trace))["steps"]):
        decided, step = shown["decided"], trace.steps[t]
        others = {other.word: other for other in trace.alternatives(t, 20)}
        first = others.get(step.top[0].word)
        if first is None or trace.repeats(t, first.word):
            assert not decided["captions"]
            continue
        ours, theirs = decided["captions"]
        assert ours["caption"] == trace.result.caption and theirs["caption"] == first.caption
        assert ours["numbers"]["log p"] == pytest.approx(trace.result.log_prob)
        num_tokens = len(first.words) + first.is_finished
        assert theirs["numbers"]["score"] == pytest.approx(first.log_prob / num_tokens)
        scores_more = ours["numbers"]["score"] >= theirs["numbers"]["score"]
        assert ("its whole caption scores more" in decided["reason"]) == scores_more
        compared += 1
    assert compared


@pytest.mark.parametrize(
    ("search", "expected", "text"),
    [
        ({"num_beams": 1}, ChoiceRule("greedy"), "Greedy search"),
        ({"temperature": 1.0}, ChoiceRule("sample"), "drawn at random"),
        ({"num_beams": 5}, ChoiceRule("beam", num_beams=5), "5 best beginnings"),
    ],
)
def test_the_search_is_named(plain_captioner, search, expected, text):
    options = plain_captioner.search_for("trace", search)
    assert rule_of(plain_captioner, options, is_given=False) == expected
    assert rule_of(plain_captioner, options, is_given=True) == ChoiceRule("given")
    assert text in search_in_words(expected)


def test_the_finished_captions_are_those_that_consensus_compares():
    rule = ChoiceRule("beam", num_beams=10, length_penalty=0.4, has_consensus=True)
    text = search_in_words(rule)
    assert "Of the finished captions" in text and "counting <end>" in text


@pytest.fixture
def left_first(plain, monkeypatch):
    """A function of ComparedCaptions that returns the decision of a step whose most
    probable word was not said, in a beam search with consensus, and the step.
    """
    rule = ChoiceRule("beam", num_beams=10, has_consensus=True)
    monkeypatch.setattr(plain, "choice_rule", rule)
    t = next(t for t, step in enumerate(plain.steps) if step.top[0].word != step.word)
    first = plain.steps[t].top[0].word

    def decision(*numbers):
        captions = [plain.words, [*plain.words[:t], first, "cat"], ["runs"]]
        compared = [
            ComparedCaption(words, True, *pair) for words, pair in zip(captions, numbers) if pair
        ]
        monkeypatch.setattr(plain, "result", dataclasses.replace(plain.result, compared=compared))
        return decision_at(plain, t, plain.alternatives(t, 100))

    return decision, first


@pytest.mark.parametrize(
    ("theirs", "text"),
    [
        ((-1.0, 4.0), "(agreement), though it is not more probable (score)"),
        (
            (-3.5, 4.0),
            "more probable (score) and agrees more with the words of similar training photos",
        ),
        ((-4.5, 7.5), "more probable (score), and agrees not much less"),
    ],
)
def test_where_consensus_decided_score_and_agreement_of_both_captions_are_shown(
    left_first, theirs, text
):
    decision, first = left_first
    decided = decision((-2.004, 7.003), theirs, (-9.0, 1.0))
    assert f"“{first}” was" in decided["reason"] and text in decided["reason"]
    ours, other = (caption["numbers"] for caption in decided["captions"])
    assert ours == {"score": -2.0, "agreement": 7.0, "sum": 5.0}, "as shown, they add up"
    assert other["sum"] == pytest.approx(sum(theirs))
    assert f"(together 5.00 against {sum(theirs):.2f})" in decided["reason"]


def test_where_no_finished_caption_goes_on_with_the_first_word_it_is_said(left_first):
    decision, first = left_first
    decided = decision((-2.0, 7.0), None, (-9.0, 1.0))
    assert not decided["captions"] and "none of the 2 captions" in decided["reason"]


@pytest.mark.parametrize(
    ("log_prob", "text"), [(-1e3, "its whole caption scores more"), (0.0, "dropped the beginning")]
)
def test_a_beam_search_compares_whole_captions(plain, monkeypatch, log_prob, text):
    monkeypatch.setattr(plain, "choice_rule", ChoiceRule("beam", num_beams=3, length_penalty=1.0))
    t = next(t for t, step in enumerate(plain.steps) if step.top[0].word != step.word)
    first = plain.steps[t].top[0].word
    others = [dataclasses.replace(one, log_prob=log_prob) for one in plain.alternatives(t, 100)]
    decided = decision_at(plain, t, others)
    assert text in decided["reason"] and f"“{first}” was" in decided["reason"]
    ours, theirs = (caption["numbers"] for caption in decided["captions"])
    assert ours["log p"] == pytest.approx(plain.result.log_prob) and theirs["log p"] == log_prob
    assert ours["score"] == pytest.approx(plain.result.log_prob / 7)


def test_the_reason_of_greedy_search_and_of_samples(plain, monkeypatch):
    t = next(t for t, step in enumerate(plain.steps) if step.top[0].word != step.word)
    others = plain.alternatives(t, 100)
    monkeypatch.setattr(plain, "choice_rule", ChoiceRule("sample"))
    assert "drawn at random" in decision_at(plain, t, others)["reason"]
    monkeypatch.setattr(plain, "choice_rule", ChoiceRule("greedy"))
    assert "may not say" in decision_at(plain, t, [])["reason"]
    monkeypatch.setattr(plain, "repeats", lambda t, word: True)
    assert "would repeat" in decision_at(plain, t, others)["reason"]


def test_a_word_that_a_search_may_not_repeat(plain_captioner, plain, photo):
    search = Search(num_beams=1, no_repeat_ngram=2)
    features = plain_captioner.encode(photo[None])
    sizes = {"num_words": 1, "num_alternatives": 1}
    trace = Trace(plain_captioner, plain.result, features, search=search, **sizes)
    assert trace.words == ["a", "dog", "runs", "in", "a", "cat"]
    assert trace.repeats(5, "dog") and not trace.repeats(5, "cat"), "a pair of words"
    assert not trace.repeats(2, "dog")
    assert not any(plain.repeats(5, word) for word in WORDS)


def test_special_words_are_explained_where_they_stand(plain_page):
    for shown in data_of(plain_page)["steps"]:
        words = {shown["previous"], *(its["word"] for its in shown["candidates"])}
        for word in ("<start>", "<unk>", "<end>"):
            assert (f"“{word}”" in shown["special"]) == (word in words)


def test_a_page_needs_nothing_else(plain_page):
    without_data = re.sub(
        r'base64,[^"]*|<script type="application/json".*?</script>', "", plain_page
    )
    link = 'href="https://arxiv.org/abs/1502.03044"'  # is followed only if it is clicked
    assert without_data.count(link) == 1
    without_data = without_data.replace(link, "")
    assert not re.search(r"https?:|//[a-z]|@import|url\(|\beval\b|innerHTML|\{\{", without_data)
    sources = re.findall(r'(?:src|href)="([^"#]+)"', plain_page.replace(link, ""))
    assert len(sources) == 1 and sources[0].startswith("data:image/")
    script = re.search(r"<script>(.*?)</script>", plain_page, re.DOTALL)[1]
    assert player.policy(script) in plain_page


def test_words_and_titles_are_escaped(hostile):
    page = explorer_page(hostile, title=HOSTILE[0])
    elements = Elements(page)
    assert len(elements("script")) == 2 and len(elements("img")) == 1
    assert elements("title")[0][1] == HOSTILE[0]
    assert {*HOSTILE} <= {its["word"] for its in data_of(page)["steps"][0]["candidates"]}
    ((attributes, _),) = Elements(hostile._repr_html_())("iframe")
    after_title = page.partition("</title>")[2]
    assert attributes["srcdoc"].partition("</title>")[2] == after_title
    assert attributes["sandbox"] == "allow-scripts"


def test_save_writes_the_page_to_an_html_file_only(plain, plain_page, tmp_path):
    assert plain_page == explorer_page(plain)
    with pytest.raises(ValueError, match="ending in .html"):
        plain.save(tmp_path / "trace.png")


@pytest.mark.slow
def test_ten_words_on_20_x_20_cells_take_at_most_650_kb():
    captioner = keras_sat.Captioner.from_pretrained("flickr8k")
    photo = Path(__file__).parents[2] / "docs" / "photo.jpg"
    trace = captioner.trace(photo, "a man in a black coat holds a camera outside")
    assert len(trace.words) == 10 and trace.annotations().shape[:2] == (20, 20)
    assert len(explorer_page(trace).encode()) <= 650_000


# === The boxes of a step ===


def test_each_box_has_its_equation_and_its_lines_of_the_file(trace):
    page = explorer_page(trace)
    lines = Path(show_attend_tell.__file__).read_text("utf-8").splitlines()
    boxes = boxes_of(trace.network)
    assert len(boxes) == 9 and boxes[0].name == "photo" and boxes[-1].name == "probabilities"
    for box in boxes:
        numbers, code = code_of(box)
        shown = [line.strip() for line in code.splitlines() if line.strip() != "..."]
        assert shown == [lines[number - 1].strip() for number in numbers] and shown
        assert player.escaped(code) in page and typeset(box.sentence) in page
        assert all(typeset_formula(line) in page for line in box.formula.splitlines())
        for name in box.variables:
            assert any(re.match(rf"(\w+, )*{name}\b.* = ", line) for line in shown), name


def test_the_lines_follow_the_file(plain, tmp_path, monkeypatch):
    """They are found by the names of functions and variables, wherever they stand."""
    (box,) = [box for box in boxes_of(plain.network) if box.name == "softmax"]
    source = Path(show_attend_tell.__file__).read_text("utf-8")
    moved = ast.unparse(ast.parse(source)).replace("alpha = ops.softmax(e)", "alpha = changed(e)")
    (tmp_path / "moved.py").write_text(moved)
    from keras_sat.looking import diagram

    monkeypatch.setattr(diagram, "PAPER_FILE", tmp_path / "moved.py")
    assert code_of(box)[1] == "alpha = changed(e)"


def test_boxes_say_where_a_network_differs_from_the_paper(photo):
    def boxes(**options):
        trace = photo_captioner(**options).trace(photo, "a dog")
        return {box.name: box for box in boxes_of(trace.network)}

    paper = boxes()
    assert [box.differs for box in paper.values()] == 9 * [""]
    assert "sigma" in paper["cells"].formula and "(*)" in paper["cells"].formula
    assert "z_t" in paper["cells"].formula and paper["scores"].equation == "equation (4)"
    assert "tiny" in paper["photo"].sentence and "16 x 16" in paper["photo"].sentence
    after = boxes(attends="after", sentinel=True, scoring="bilinear")
    assert [*after].index("cells") < [*after].index("scores")
    assert "mean(a)" in after["cells"].formula and "in place of z_t" in after["cells"].differs
    assert "beta_t = 1 - from_photo" in after["gate"].differs
    assert after["gate"].title == "Sentinel" and "attends after" in after["cells"].differs
    assert "GRU" in boxes(cell="gru")["cells"].differs
    assert "hard" in boxes(attention="hard")["context"].differs
    with_tanh = boxes(readout_activation="tanh")["readout"]
    assert "tanh" in with_tanh.differs and "slope = tanh(s) / s" in with_tanh.formula
    assert "f(0)" not in with_tanh.sentence and "the file" not in str(after)
    assert "d = L_z^T (slope (*) w)" in with_tanh.formula
    assert "d = L_z^T w" in paper["readout"].formula
    assert "in place of" in after["scores"].equation


def test_attention_that_draws_regions_is_hard_under_any_name(photo, monkeypatch):
    monkeypatch.setitem(ATTENTIONS, "drawn", Selection(hard, samples_regions=True))
    trace = photo_captioner(attention="drawn").trace(photo, "a dog")
    (context,) = [box for box in boxes_of(trace.network) if box.name == "context"]
    assert "draws one region" in context.differs


def test_parts_of_ones_own_are_not_described_as_those_of_the_paper(photo, monkeypatch):
    def even_out(attention_weights, noise, sampled):
        return 0 * attention_weights + 1 / attention_weights.shape[-1]

    class OwnCell(GRUCell):
        pass

    monkeypatch.setitem(ATTENTIONS, "even out", Selection(even_out))
    monkeypatch.setitem(CELLS, "mine", OwnCell)
    trace = photo_captioner(attention="even out", cell="mine").trace(photo, "a dog")
    boxes = {box.name: box for box in boxes_of(trace.network)}
    assert "s_ti" in boxes["context"].formula and "s_ti d" in boxes["readout"].formula
    assert "of its own" in boxes["context"].differs and "of its own" in boxes["cells"].differs
    np.testing.assert_allclose(trace.steps[0].attention_weights, 1 / 16)


def test_formulas_break_at_operators_outside_parentheses():
    assert typeset_formula("z_t = (a + b) + c").count("<span>") == 3
    assert typeset("the encoder `my_net` and h_t").count("<sub>") == 1


def test_what_memory_is_depends_on_the_network(plain, plain_page):
    def memory(**options):
        return memory_in_words(plain.network | options)

    assert data_of(plain_page)["memory"] == memory()
    assert "LSTM" in memory() and "sentinel" not in memory()
    assert "which it reads at each step" in memory(attends_after=True)
    assert "GRU" in memory(cell="gru") and "sentinel" in memory(sentinel=True)


# === Colours ===


def test_a_word_has_one_colour_at_all_steps():
    steps = [[*"aaabbc"], [*"abbb", "red", "yellow"], ["d", "e", "blue", "a"]]
    colours = region_colours(steps)
    assert colours["red"] == NAMED_COLOURS["red"] and colours["blue"] == NAMED_COLOURS["blue"]
    for words in steps:
        theirs = [colours[word] for word in set(words)]
        assert len(set(theirs)) == len(theirs), "words that meet differ"


def test_words_have_other_colours_than_parts_and_signs(plain_page):
    style = plain_page.partition("</style>")[0]
    hues = re.findall(r"--(?:previous|memory|photo|bias): (#\w{6})", style)
    assert len(hues) == 8, "light and dark"
    assert min(colour_distance(one, part) for one in PALETTE for part in hues) >= 20


def test_the_colours_of_words_can_be_told_apart():
    assert colour_distance("#000000", "#ffffff") == pytest.approx(100, abs=0.1)
    assert min(colour_distance(*pair) for pair in itertools.combinations(PALETTE, 2)) >= 50
    assert min(colour_distance(colour, OTHERS) for colour in PALETTE) >= 20


def test_words_of_five_places_have_colours():
    words = [f"word{number}" for number in range(11) for _ in range(5)]
    assert {*region_colours([words])} == {*words}


def test_more_words_than_colours():
    words = [f"word{number}" for number in range(50)]
    colours = region_colours([words[:40], words[10:]])
    assert OTHERS not in colours.values() and len(set(colours.values())) >= 8
    assert {*colours} < {*words}


def test_the_page_and_the_plot_have_the_same_colours(plain_page):
    assert all(colour in plain_page for colour in PART_COLOURS.values())


# === Damaged networks ===


def test_weights_that_are_nan_are_one_clear_error(photo):
    captioner = photo_captioner()
    kernel = captioner.decoder.readout.word_logits.kernel
    kernel.assign(np.full(kernel.shape, np.nan))
    with pytest.raises(ValueError, match="NaN or infinite"):
        captioner.trace(photo, "a dog")


# === On the command line ===


@pytest.fixture
def command(photo, tmp_path):
    photo_captioner().save(tmp_path / "model")
    for name, pixels in (("photo", photo), ("other", 255 - photo)):
        Image.fromarray(pixels).save(tmp_path / f"{name}.png")
    return ["caption", str(tmp_path / "photo.png"), "--model", str(tmp_path / "model")]


@pytest.mark.slow
def test_caption_writes_the_explorer_of_the_caption_that_it_prints(command, tmp_path, capsys):
    page = tmp_path / "trace.html"
    search = ["--num-beams", "1", "--max-length", "3"]
    assert main([*command, *search, "--trace", str(page)]) == 0
    printed = capsys.readouterr()
    captioner = keras_sat.Captioner.load(tmp_path / "model")
    trace = captioner.trace(tmp_path / "photo.png", num_beams=1, max_length=3)
    assert printed.out.endswith(f"\t{trace.result.caption}\n")
    assert f"trace: {page}" in printed.err
    assert page.read_text("utf-8") == explorer_page(trace)


@pytest.mark.slow
def test_caption_writes_explorers_into_a_folder(command, tmp_path, capsys):
    folder = tmp_path / "pages"
    pictures = ["caption", str(tmp_path / "other.png"), *command[1:]]
    search = ["--num-results", "2", "--max-length", "3"]
    assert main([*pictures, *search, "--json", "--trace", str(folder)]) == 0
    printed = capsys.readouterr()
    lines = [json.loads(line) for line in printed.out.splitlines()]
    pages = [folder / f"{name}-trace.html" for name in ("other", "photo")]
    assert [line["trace"] for line in lines] == [*map(str, pages)]
    for line, page in zip(lines, pages):
        assert Elements(page.read_text("utf-8"))("title")[0][1] == line["caption"]
    assert f"trace: 2 files in {folder}" in printed.err


@pytest.mark.slow
def test_caption_writes_the_explorer_of_a_sentence(command, tmp_path):
    page = tmp_path / "trace.html"
    assert main([*command, "--say", CAPTION, "--trace", str(page)]) == 0
    trace = keras_sat.Captioner.load(tmp_path / "model").trace(tmp_path / "photo.png", CAPTION)
    assert page.read_text("utf-8") == explorer_page(trace)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--region", ".1,.1,.9,.9"], "--trace shows the caption of a whole photo"),
        (["--model", "another"], "--trace requires a single model"),
        (["--map-kind", "votes"], "--map-kind has no effect without --plot"),
    ],
)
def test_what_does_not_go_with_an_explorer(command, tmp_path, capsys, options, message):
    assert main([*command, *options, "--trace", str(tmp_path / "trace.html")]) == 2
    assert message in capsys.readouterr().err


# === In a browser ===


@pytest.fixture
def opened(browser, plain_file, tmp_path):
    """A function that opens the explorer of a trace or of the plain one; its photo is
    then in view.
    """
    browser.set_window_size(1200, 1000)

    def show(trace=None):
        path = plain_file if trace is None else tmp_path / "trace.html"
        if trace is not None:
            trace.save(path)
        browser.get(path.as_uri())
        return Explorer(browser)

    return show


class Explorer(Page):
    @property
    def root(self):
        root = self.find(".sat-trace")
        return root.get_attribute("data-step"), root.get_attribute("data-word")

    def text(self, role):
        return self.find(f'[data-role="{role}"]').text

    def choose(self, word):
        script = "document.querySelector(`button[data-word=${CSS.escape(arguments[0])}]`).click()"
        self.browser.execute_script(script, word)

    def mode(self, name):
        self.find(f'[data-map="{name}"]').click()

    def numbers(self):
        """Return the logit, its parts and the probability that are shown."""
        script = (
            "return [...document.querySelectorAll('[data-value], [data-part]')].map((one) => "
            "[one.dataset.value ?? one.dataset.part, one.title])"
        )
        return {name: exact(title) for name, title in self.browser.execute_script(script)}

    def exact_numbers(self, role):
        """Return the numbers in an element as their tooltips say them."""
        script = "return [...document.querySelectorAll(arguments[0])].map((one) => one.title)"
        titles = self.browser.execute_script(script, f'[data-role="{role}"] [title]')
        return [exact(title) for title in titles]

    def drawn(self):
        """Return what is drawn over the photo, RGBA as an array (height, width, 4)."""
        script = "return document.querySelector('[data-role=\"map\"]').toDataURL()"
        picture = base64.b64decode(self.browser.execute_script(script).partition(",")[2])
        return np.array(Image.open(io.BytesIO(picture))).astype(float)

    def open_boxes(self):
        self.find('[data-role="inside"] > summary').click()

    def pressed(self):
        return self.find('[data-map][aria-pressed="true"]').get_attribute("data-map")

    def place_of(self, selector):
        """Return how far below the page's top an element is."""
        script = "return document.querySelector(arguments[0]).getBoundingClientRect().top + scrollY"
        return self.browser.execute_script(script, selector)


def exact(text):
    """Return the number that a page shows with a minus sign."""
    return float(text.replace("\N{MINUS SIGN}", "-"))


@pytest.mark.slow
def test_thirty_words_show_the_numbers_of_the_trace(opened, plain):
    page, number = opened(), 0
    for t, step in enumerate(plain.steps):
        page.word(t).click()
        assert page.root == (str(t), step.word)
        for candidate in step.top[:5]:
            page.choose(candidate.word)
            expected = {"logit": candidate.logit, "probability": candidate.probability}
            expected |= candidate.parts
            assert page.numbers() == pytest.approx(expected, abs=1e-4)
            number += 1
        words, probabilities = plain.places(t)
        page.point_at(0.01, 0.01)
        note = page.text("note")
        shown = page.exact_numbers("note")
        vote = plain.votes(t, candidate.word)[0, 0]
        attention = step.attention_weights[0, 0]
        whole = vote + attention * plain.vote_of_mean(t, candidate.word)
        expected = [attention, step.attention_scores[0, 0], vote, whole]
        assert shown == pytest.approx(expected, abs=1e-4)
        assert note.startswith("Row 1, column 1:") and f"“{words[0, 0]}”" in note
        page.choose(step.word)  # and the words that follow are there again
    assert number >= 30


def test_maps_of_all_kinds_are_drawn(opened):
    page = opened()
    drawn = set()
    labels = {"photo": "Photo", "scores": "Scores", "attention": "Attention", "votes": "Votes"}
    labels["places"] = "Regions"
    for name, label in labels.items():
        page.mode(name)
        button = page.find(f'[data-map="{name}"]')
        assert button.get_attribute("aria-pressed") == "true" and button.text == label
        assert page.text("about").startswith(label)
        drawn.add(page.pixels())
    assert len(drawn) == 5


def test_the_photo_can_be_seen_alone(opened):
    page = opened()
    page.mode("photo")
    assert not np.array(page.drawn())[..., 3].any(), "nothing is drawn over it"
    assert page.text("photo-sum") == "" and page.text("scale") == ""


def test_votes_are_the_dots_that_python_draws(opened, plain):
    page = opened()
    votes = plain.votes(int(page.root[0]))
    rows, columns = votes.shape
    drawn = page.drawn()
    height, width = drawn.shape[:2]
    side = min(height / rows, width / columns)
    all_radii = radii(votes, max(abs(votes).max(), LEAST_STRONGEST))
    for (row, column), radius in np.ndenumerate(side * all_radii):
        y, x = (row + 0.5) * height / rows, (column + 0.5) * width / columns
        if votes[row, column] > 0 and radius > 2:
            assert np.abs(drawn[int(y), int(x), :3] - FOR).max() < 3
        elif votes[row, column] < 0 and radius > 1.5 * LINE * side + 2:
            assert drawn[int(y), int(x), 3] < 255, "the photo is seen through a ring"
            on_ring = drawn[int(y), int(x + radius - LINE * side / 2), :3]
            assert np.abs(on_ring - AGAINST).max() < 12
    assert (votes > 0).any() and (votes < 0).any()
    assert "more, up to" in page.text("scale") and "less, down to" in page.text("scale")


def test_regions_have_the_colours_of_their_legend(opened, plain):
    page = opened()
    page.mode("places")
    t = int(page.root[0])
    words, _ = plain.places(t)
    drawn = page.drawn()
    rows, columns = words.shape
    height, width = drawn.shape[:2]
    colours = page.browser.execute_script(
        "return Object.fromEntries([...document.querySelectorAll('.sat-places li')].map((one) => "
        "[one.textContent.split(':')[0], getComputedStyle(one.firstChild).backgroundColor]))"
    )
    colours = {word: [int(x) for x in re.findall(r"\d+", one)] for word, one in colours.items()}
    for (row, column), word in np.ndenumerate(words):
        cell = drawn[
            int(height * row / rows) : int(height * (row + 1) / rows),
            int(width * column / columns) : int(width * (column + 1) / columns),
        ]
        is_colour = (cell[..., :3] == colours.get(word, colours.get("other words"))).all(axis=-1)
        assert is_colour.mean() > 0.1


def test_a_word_stands_on_the_largest_connected_area_of_its_regions(opened, plain):
    page = opened()
    rows, columns = plain.places(0)[0].shape
    words = [["a"] * columns for _ in range(rows)]
    words[0][0] = words[-1][-1] = words[-1][-2] = "b"
    words[1][1] = "c"  # the third largest
    script = "return spotsOf(arguments[0], arguments[1], { halfWidth: () => 0.4, halfHeight: 0.4 })"
    flat = [word for row in words for word in row]
    spots = page.browser.execute_script(script, flat, ["a", "b", "c"])
    for (x, y), word in zip(spots, "abc"):
        assert words[int(y)][int(x)] == word
    assert spots[1][1] > rows - 1, "on two regions, not on the one"
    crowded = "return spotsOf(arguments[0], ['a', 'b'], { halfWidth: () => 9, halfHeight: 9 })"
    assert page.browser.execute_script(crowded, flat)[1] is None, "words do not overlap"


def test_another_word_shows_its_votes_and_what_would_have_followed(opened, plain):
    page = opened()
    t = int(page.root[0])
    page.mode("attention")
    before = page.pixels()
    other = plain.alternatives(t)[0]
    page.choose(other.word)
    assert page.root == (str(t), other.word) and page.pixels() != before
    assert page.pressed() == "votes"
    pressed = page.find('.sat-followed [aria-pressed="true"]')
    assert pressed.text == other.word
    assert page.find(".sat-followed li:has([aria-pressed=true])").text.endswith(other.caption)
    assert " ".join(page.find(".sat-words").text.split()) == other.caption, "the same sentence"
    next_other = plain.alternatives(t)[1].word
    page.find(f'[data-other="{next_other}"]').click()
    assert page.root[1] == next_other
    focused = page.browser.switch_to.active_element
    assert focused.get_attribute("data-other") == next_other, "the focus is kept"


def test_it_is_used_by_keyboard(opened, plain):
    from selenium.webdriver import Keys

    page = opened()
    page.word(1).send_keys(Keys.ARROW_RIGHT)
    assert page.root[0] == "2"
    page.press(Keys.END)
    assert page.root == (str(len(plain.steps) - 1), "<end>")
    stage = page.find('[data-role="stage"]')
    stage.send_keys(Keys.ARROW_UP)
    stage.send_keys(Keys.HOME, Keys.ARROW_UP)
    assert page.text("note").startswith("Row ")
    page.open_boxes()
    grid = page.find('[data-numbers="softmax"] canvas')
    grid.send_keys(Keys.END)
    value = grid.get_attribute("aria-valuetext").rpartition(": ")[2]
    assert exact(value) == pytest.approx(plain.steps[-1].attention_weights[-1, -1], abs=1e-4)
    assert page.find('[data-numbers="softmax"] .sat-mark').is_displayed()
    grid.send_keys(Keys.ESCAPE)
    assert not page.find('[data-numbers="softmax"] .sat-mark').is_displayed()


def test_the_row_of_maps_is_used_by_keyboard(opened):
    from selenium.webdriver import Keys

    page = opened()
    page.find('[data-map="votes"]').send_keys(Keys.ARROW_RIGHT)
    assert page.pressed() == "places"
    page.press(Keys.HOME)
    assert page.pressed() == "photo"
    for row in ("[data-map]", "button[data-step]"):
        stops = page.browser.execute_script(
            "return [...document.querySelectorAll(arguments[0])].filter((one) => !one.tabIndex)"
            ".length",
            row,
        )
        assert stops == 1


def test_a_click_keeps_a_place_and_escape_lets_it_go(opened):
    from selenium.webdriver import Keys

    page = opened()
    height = "return document.querySelector('.sat-look').offsetHeight"
    before = page.browser.execute_script(height)
    page.point_at(0.01, 0.01)
    assert page.text("note").startswith("Row 1, column 1:")
    assert page.browser.execute_script(height) == before, "pointing moves no text"
    page.find('[data-role="stage"]').click()  # in the middle
    kept = page.text("note")
    page.point_at(0.01, 0.01)
    assert page.text("note") == kept and "kept" in kept
    page.word(0).click()
    assert page.text("note").startswith(kept.partition(":")[0]), "another word, the same place"
    page.press(Keys.ESCAPE)
    assert page.text("note").startswith("Point at")
    for kept in (True, False):
        page.find('[data-role="stage"]').click()
        assert ("kept" in page.text("note")) == kept


@pytest.mark.slow
def test_a_tap_reads_a_square_of_a_grid_and_of_a_strip(opened, plain):
    page = opened()
    page.open_boxes()
    tap = (
        "const grid = document.querySelector(arguments[0]), box = grid.getBoundingClientRect();"
        "const at = { pointerType: 'touch', clientX: box.right - 2, clientY: box.bottom - 2 };"
        "for (const name of ['pointerdown', 'pointerup', 'pointerleave'])"
        " grid.dispatchEvent(new PointerEvent(name, at));"
    )
    last = {"softmax": plain.steps[1].attention_weights, "cells": plain.steps[1].gates["input"]}
    for name, values in last.items():
        page.browser.execute_script(tap, f'[data-numbers="{name}"] canvas')
        figure = page.find(f'[data-numbers="{name}"] figure')
        assert figure.find_element("css selector", ".sat-mark").is_displayed()
        shown = figure.find_element("css selector", "figcaption [title]").get_attribute("title")
        assert exact(shown) == pytest.approx(values.ravel()[-1], abs=1e-4)


def test_another_word_than_the_one_said_is_named_with_the_way_back(opened, plain):
    page = opened()
    t, said = page.root
    other = plain.alternatives(int(t))[0].word
    assert page.text("state").startswith(f"Step {int(t) + 1} of")
    page.mode("attention")
    page.choose(other)
    state = page.text("state")
    assert state.startswith(f"Showing “{other}” instead of “{said}”") and "votes" in state
    page.mode("votes")
    page.choose(said)
    page.choose(other)
    assert page.pressed() == "votes" and "now shows" not in page.text("state")
    page.find('[data-role="back"]').click()
    assert page.root == (t, said) and not page.find('[data-role="back"]').is_displayed()


@pytest.mark.slow
def test_another_word_stands_in_the_caption_until_escape_goes_back(opened, plain):
    from selenium.webdriver import Keys

    page = opened()
    t, said = page.root
    other = plain.alternatives(int(t))[0].word
    page.choose(other)
    assert page.word(t).text == other and "sat-instead" in page.word(t).get_attribute("class")
    shown, *parts = page.exact_numbers("difference")
    pair = [plain.candidate(int(t), word) for word in (other, said)]
    assert shown == pytest.approx(pair[0].logit - pair[1].logit, abs=2e-4)
    expected = [pair[0].parts[name] - pair[1].parts[name] for name in PARTS]
    assert parts == pytest.approx(expected, abs=2e-4)
    page.press(Keys.ESCAPE)
    assert page.root == (t, said) and page.word(t).text == said
    assert not page.find('[data-role="difference"]').is_displayed()
    page.choose(other)
    page.word(0).click()
    assert [page.word(t).text for t in range(len(plain.steps))] == [
        step.word for step in plain.steps
    ]


@pytest.mark.slow
def test_what_the_map_shows_stands_above_it_in_the_first_view(opened):
    page = opened()
    for name in ("votes", "attention", "scores", "places"):
        page.mode(name)
        stage = page.find('[data-role="stage"]')
        bottom = stage.location["y"] + stage.size["height"]
        assert page.place_of('[data-role="about"]') < page.place_of('[data-role="scale"]')
        assert page.place_of('[data-role="scale"]') < stage.location["y"]
        assert bottom < page.browser.execute_script("return innerHeight")
    scrolled = (
        "return [...document.querySelectorAll('.sat-side, .sat-side *')].filter((one) => "
        "one.scrollHeight > one.clientHeight + 1 && "
        "['auto', 'scroll'].includes(getComputedStyle(one).overflowY)).length"
    )
    assert page.browser.execute_script(scrolled) == 0


@pytest.mark.slow
def test_shown_sums_add_up(opened):
    page = opened()
    script = "return arguments[0].map(([total, ...values]) => addingUp(total, values))"
    sums = [[10.88, 1.302, 7.298, 2.203, 0.077], [5.02, 1.304, 3.714], [1, 0.335, 0.335, 0.33]]
    sums += [[-0.0004, 0.0001, -0.0005], [0, 0, 0]]
    for total, *values in page.browser.execute_script(script, sums):
        assert exact(total) == pytest.approx(sum(map(exact, values)), abs=1e-12)
    shares = [0, 1e-4, 0.00096, 0.0123, 0.0996, 0.5, 1]
    shown = page.browser.execute_script("return arguments[0].map(percent)", shares)
    assert shown == [percent(share) for share in shares]


@pytest.mark.slow
def test_a_summary_says_what_the_word_comes_from_and_why_it_was_said(opened, plain):
    page = opened()
    for t in (1, 2):
        page.word(t).click()
        summary = page.text("summary")
        assert summary.startswith(f"{plain.steps[t].word}: its logit is ")
        assert "You gave this caption." in summary
        shown = page.exact_numbers("summary")
        said = plain.steps[t].said
        for value in (said.logit, said.parts["photo"], said.parts["memory"]):
            assert min(abs(value - x) for x in shown) < 1e-4


def test_a_summary_of_another_word_is_about_that_word(opened, plain):
    page = opened()
    t, said = int(page.root[0]), page.root[1]
    reason = decision_at(plain, t, plain.alternatives(t, 100))["reason"]
    for candidate in plain.steps[t].top:
        page.choose(candidate.word)
        summary = page.text("summary")
        assert summary.startswith(f"{candidate.word}: its logit is ")
        is_in_reason = candidate.word in (said, plain.steps[t].top[0].word)
        assert (reason.replace("\N{NO-BREAK SPACE}", " ") in summary) == is_in_reason
        if not is_in_reason:
            assert "Its probability is " in summary and f"“{said}”, which was said" in summary


def test_the_votes_and_uniform_attention_sum_to_the_photo_below_the_map(opened, plain):
    page = opened()
    t, word = int(page.root[0]), page.root[1]
    photo_part, votes, of_mean = page.exact_numbers("photo-sum")
    assert photo_part == pytest.approx(plain.candidate(t, word).parts["photo"], abs=1e-4)
    assert of_mean == pytest.approx(plain.vote_of_mean(t, word), abs=1e-4)
    assert votes == pytest.approx(plain.votes(t, word).sum(), abs=1e-4)
    page.mode("attention")
    assert page.text("photo-sum") == ""


@pytest.mark.slow
def test_where_nothing_was_read_the_photo_is_shown_and_a_sentence_on_it(opened, plain, monkeypatch):
    without = [dataclasses.replace(plain.steps[0], context_gate=1e-5), *plain.steps[1:]]
    monkeypatch.setattr(plain, "steps", without)
    page = opened(plain)
    page.mode("attention")
    assert "encloses" in page.text("scale") and page.text("nothing") == ""
    lit = page.pixels()
    page.word(0).click()
    for mode in ("attention", "votes", "places"):
        page.mode(mode)
        assert page.text("nothing").startswith("At this step nothing was read from the photo")
        assert page.text("scale") == "" and page.text("photo-sum") == ""
        empty = page.pixels()
    page.mode("scores")
    assert page.text("nothing") == "" and len({empty, lit, page.pixels()}) == 3


def test_numbers_in_prose_are_short(opened):
    page = opened()
    texts = page.browser.execute_script(
        "const find = (x) => [short(x), signed(x)].join(' ');"
        "return [0, 3.14159, -0.0123, 2.7e-5, -1e-12, 123.456].map(find)"
    )
    minus = "\N{MINUS SIGN}"
    assert texts == [
        "0 +0",
        "3.14 +3.14",
        f"{minus}0.012 {minus}0.012",
        "practically 0 practically 0",
        "practically 0 practically 0",
        "123.5 +123.5",
    ]
    shown = page.find("main").text
    assert not re.search(rf"\de[{minus}-]\d", shown), "no scientific notation"
    assert not re.search(r"\d\.\d{5}|\b0\.0000\b|[ (]-\d", shown.partition("3. One step")[0])


def test_hostile_words_do_no_harm_in_a_browser(opened, hostile):
    page = opened(hostile)
    for word in HOSTILE:
        page.choose(word)
        assert page.root[1] == word and word in page.text("sum")
        page.mode("places")
    assert page.browser.title == " ".join(hostile.words)
    requests = page.browser.execute_script(
        "return performance.getEntriesByType('resource').map((entry) => entry.name)"
    )
    assert all(name.startswith("data:") for name in requests)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["none", "two layers of gru, hard"])
def test_other_networks_are_shown_too(opened, photo, kind):
    page = opened(photo_captioner(**HEADINGS[kind]).trace(photo, CAPTION))
    page.word(3).click()
    page.mode("places")
    assert page.root[0] == "3" and page.text("places")


def test_narrow_and_dark(opened, browser):
    browser.set_window_size(1200, 900)
    page = opened()
    light = page.find("body").value_of_css_property("background-color")
    dark = {"name": "prefers-color-scheme", "value": "dark"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [dark]})
    assert page.find("body").value_of_css_property("background-color") != light
    assert not page.find('[data-role="copy"]').is_displayed()
    narrow = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", narrow)
    page = opened()
    assert page.find('[data-role="copy"]').is_displayed(), "the map stands by what changes it"
    browser.execute_script("document.querySelectorAll('details').forEach((one) => one.open = true)")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    assert page.place_of(".sat-stage") < 450, "the photo is in the first screen"
    unnamed = (
        "return [...document.querySelectorAll('button, canvas[tabindex], summary, a')].filter("
        "(one) => !one.textContent.trim() && !one.getAttribute('aria-label')).length"
    )
    assert browser.execute_script(unnamed) == 0


def test_what_a_map_shows_stands_in_one_line_of_a_telephone(opened, browser):
    sizes = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", sizes)
    page = opened()
    script = (
        "const scale = document.querySelector('.sat-scale');"
        "const lines = [...scale.children].map((one) => one.getBoundingClientRect());"
        "const within = scale.getBoundingClientRect();"
        "return [scale.offsetHeight, Math.max(0, ...lines.map((one) => one.right - within.right))]"
    )
    for name in ("scores", "attention", "votes", "places"):
        page.mode(name)
        height, beyond = browser.execute_script(script)
        assert height < 30 and beyond <= 0.5, name


@pytest.mark.slow
def test_no_word_is_cut_where_the_line_of_words_begins(opened, plain, browser):
    narrow = {"width": 320, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", narrow)
    page = opened()
    script = (
        "const line = document.querySelector('.sat-words').getBoundingClientRect();"
        "return [...document.querySelectorAll('button[data-step]')].map((one) => {"
        "const box = one.getBoundingClientRect();"
        "return [box.left - line.left, box.right - line.left, line.width]; })"
    )
    for t in range(len(plain.steps)):
        page.word(t).click()
        edges = browser.execute_script(script)
        assert not any(left < -1 and right > 6 for left, right, _ in edges)
        assert edges[t][0] >= 0 and edges[t][1] <= edges[t][2], "the word itself is seen"


def test_all_it_shows_stands_under_a_sentence(opened):
    page = opened()
    page.open_boxes()
    sections = page.browser.find_elements("css selector", ".sat-trace section")
    assert len(sections) == 3
    for section in sections:
        assert section.find_element("css selector", "h2 + p").text.endswith((".", ":"))
    for box in page.browser.find_elements("css selector", ".sat-box"):
        assert box.find_element("css selector", "h3 + p").text.endswith(".")
