"""`Trace.plot`: what stands in the figure, by its artists and arrays."""

import re

import matplotlib
import numpy as np
import pytest
from helpers import photo_captioner, random_pixels
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text

from keras_sat.looking.decision import percent
from keras_sat.looking.display import AttentionDisplay
from keras_sat.looking.dots import AGAINST, FOR, dots_on_photo
from keras_sat.looking.trace_plot import LEAST_STRONGEST, PART_COLOURS, plot_step

matplotlib.use("Agg")
pytestmark = pytest.mark.usefixtures("module_without_graphs")
CAPTION = "a dog in red"
NUMBERS = re.compile("[+\N{MINUS SIGN}][0-9.]+[0-9]")


@pytest.fixture(scope="module")
def photo():
    return random_pixels(16, 16, 3)


@pytest.fixture(scope="module")
def trace(photo):
    return photo_captioner(context_gate=True).trace(photo, CAPTION, num_words=4)


def bars_of(panel):
    """Return a dict from each label of the legend to the (start, end) of its bars."""
    edges = {}
    for container in panel.containers:
        edges[container.get_label()] = [
            (bar.get_x(), bar.get_x() + bar.get_width()) for bar in container
        ]
    return edges


def signed(number, decimals=1):
    rounded = round(float(number), decimals) + 0.0  # not -0.0
    return f"{rounded:+.{decimals}f}".replace("-", "\N{MINUS SIGN}")


def words_of(panel):
    return [label.get_text() for label in panel.get_yticklabels()]


# === Three panels ===


def test_the_first_panel_is_the_map_of_attention(trace):
    attention, _, _ = trace.plot(1).axes
    step = trace.steps[1]
    display = AttentionDisplay(trace.result.image, ["dog"], step.attention_weights[None])
    np.testing.assert_array_equal(attention.images[0].get_array(), display.lit(0)[0])
    assert attention.get_title() == f"attention\ngate: {step.context_gate:.2f}"


def test_a_step_from_memory_has_no_map(photo):
    trace = photo_captioner(sentinel=True).trace(photo, "a dog")
    for t, step in enumerate(trace.steps):
        attention, _, _ = trace.plot(t).axes
        notes = [text.get_text() for text in attention.texts]
        assert ("from memory" in notes) == (step.from_photo < 0.5)
        assert attention.get_title() == f"attention\n{percent(step.from_photo)} from the photo"


@pytest.mark.parametrize("least_strongest", [LEAST_STRONGEST, 100])
def test_the_second_panel_has_the_votes_as_dots_and_says_what_they_mean(
    trace, least_strongest, monkeypatch
):
    monkeypatch.setattr("keras_sat.looking.trace_plot.LEAST_STRONGEST", least_strongest)
    figure = trace.plot(1, "cat")
    _, votes_panel, _ = figure.axes
    votes = trace.votes(1, "cat")
    picture = dots_on_photo(trace.result.image, votes, max(abs(votes).max(), least_strongest))
    np.testing.assert_array_equal(votes_panel.images[0].get_array(), picture)
    assert votes_panel.get_title() == f"votes for cat\n{signed(votes.sum())} in all"
    legend = votes_panel.get_legend()
    most, least = signed(max(votes.max(), 0), 2), signed(min(votes.min(), 0), 2)
    expected = [f"more, up to {most}", f"less, down to {least}"]
    assert [text.get_text() for text in legend.get_texts()] == expected
    disc, ring = legend.legend_handles
    assert to_rgb(disc.get_markerfacecolor()) == tuple(np.divide(FOR, 255))
    assert to_rgb(ring.get_markeredgecolor()) == tuple(np.divide(AGAINST, 255))
    assert ring.get_markerfacecolor() == "none"


def test_a_note_says_how_votes_add_up_to_the_part_of_the_photo(trace):
    note = trace.plot(1, "cat").texts[-1].get_text().replace("\n", " ")
    shown = [float(number.replace("\N{MINUS SIGN}", "-")) for number in NUMBERS.findall(note)]
    total, votes, rest = shown
    assert total == pytest.approx(votes + rest), "as they are shown"
    assert votes == pytest.approx(trace.votes(1, "cat").sum(), abs=0.051)
    assert total == pytest.approx(trace.candidate(1, "cat").parts["photo"], abs=0.051)


def test_parts_are_apart_and_marks_are_seen_on_dark_bars(trace):
    _, _, panel = trace.plot(1).axes
    assert {to_rgb(bar.get_edgecolor()) for bar in panel.patches} == {to_rgb("white")}
    assert panel.lines[0].get_path_effects()
    assert panel.get_xlabel() == "part of the logit"


def test_the_third_panel_stacks_the_parts_of_each_logit(trace):
    _, _, panel = trace.plot(2).axes
    assert panel.get_title() == "logit and probability"
    candidates = trace.steps[2].top
    assert words_of(panel) == [candidate.word for candidate in candidates]
    bars = bars_of(panel)
    assert list(bars) == ["previous word", "memory", "photo", "bias"]
    for row, candidate in enumerate(candidates):
        right = left = 0
        for name, edges in zip(PART_COLOURS, bars.values()):
            part = candidate.parts[name]
            start = right if part > 0 else left
            np.testing.assert_allclose(edges[row], (start, start + part), atol=1e-6)
            right, left = max(right, start + part), min(left, start + part)
    for container, colour in zip(panel.containers, PART_COLOURS.values()):
        assert {bar.get_facecolor()[:3] for bar in container} == {to_rgb(colour)}
    marks = panel.lines[0]
    assert marks.get_label() == "logit (their sum)"
    np.testing.assert_allclose(
        marks.get_xdata(), [candidate.logit for candidate in candidates], rtol=1e-6
    )
    percents = [text.get_text() for text in panel.texts]
    assert percents == [percent(candidate.probability) for candidate in candidates]
    assert panel.get_ylim()[0] > panel.get_ylim()[1], "the most probable word is at the top"


def test_the_word_said_is_bold_and_a_word_that_is_asked_for_has_a_bar(photo):
    trace = photo_captioner().trace(photo, "a dog", num_words=1)
    step = trace.steps[0]
    asked = next(word for word in ("cat", "sleeps") if word not in [c.word for c in step.top])
    _, _, panel = trace.plot(0, asked).axes
    assert words_of(panel) == [*(candidate.word for candidate in step.top), asked]
    styles = [(label.get_weight(), label.get_style()) for label in panel.get_yticklabels()]
    assert styles[-1] == ("normal", "italic")
    assert styles[words_of(panel).index(step.word)] == ("bold", "normal")
    assert len(panel.texts) == len(step.top) + 1


def test_at_most_ten_words_and_those_asked_for_have_bars(photo):
    many = [f"word{number}" for number in range(30)]
    trace = photo_captioner(words=many).trace(photo, "word1", num_words=25)
    _, _, panel = trace.plot(0).axes
    assert 10 <= len(words_of(panel)) <= 11 and "word1" in words_of(panel)


# === Captioners of other kinds ===


def test_without_attention_the_map_is_everywhere(photo):
    trace = photo_captioner(attention="none", context_gate=False).trace(photo, "a dog")
    attention, _, _ = trace.plot(0).axes
    assert attention.get_title() == "attention"
    assert [text.get_text() for text in attention.texts] == ["everywhere"]


def test_a_part_that_the_readout_does_not_have_has_no_bars(photo):
    trace = photo_captioner(deep_output=False).trace(photo, "a dog")
    _, _, panel = trace.plot(0).axes
    assert list(bars_of(panel)) == ["memory", "photo", "bias"]


def test_words_are_no_formulas(photo):
    word = "$\\frac$"
    captioner = photo_captioner(words=[word, "dog"])
    figure = captioner.trace(photo, "dog").plot(0, word)
    FigureCanvasAgg(figure).draw()
    _, votes_panel, panel = figure.axes
    assert word in words_of(panel)
    assert votes_panel.get_title().startswith(f"votes for {word}\n")


# === The figure ===


def caption_of(figure):
    *words, _ = figure.texts  # the last is the note below the maps
    return [(text.get_text(), text.get_weight() == "bold") for text in words]


def test_above_stands_the_caption_with_the_word_in_bold(trace):
    words = CAPTION.split()
    assert caption_of(trace.plot(2)) == [(word, word == "in") for word in words]
    with_end = [*((word, False) for word in words), ("<end>", True)]
    assert caption_of(trace.plot(len(words))) == with_end


@pytest.mark.parametrize("width", [3.3, 7])
@pytest.mark.parametrize("shape", [(200, 40), (40, 200)])
def test_nothing_overlaps_or_leaves_a_figure_of_any_width(trace, width, shape, monkeypatch):
    from dataclasses import replace

    photo_of_shape = random_pixels(*shape, 3)
    result = replace(trace.result, image=photo_of_shape, image_path=None)
    monkeypatch.setattr(trace, "result", result)
    figure = trace.plot(1, "sleeps", width=width)
    assert figure.get_figwidth() == width
    figure.set_dpi(200)
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    attention, votes_panel, panel = figure.axes
    first, last = panel.get_xlim()
    marks = [
        label
        for tick, label in zip(panel.get_xticks(), panel.get_xticklabels())
        if first <= tick <= last
    ]
    parts = [
        *figure.texts,
        attention.patch,
        votes_panel.patch,
        votes_panel.get_legend(),
        panel.get_legend(),
        panel.xaxis.label,
    ]
    parts += [attention.title, votes_panel.title, panel.title, panel.patch]
    parts += [*panel.texts, *panel.get_yticklabels(), *marks]
    extents = [part.get_window_extent(renderer) for part in parts]
    right, top = figure.bbox.size
    for part, extent in zip(parts, extents):
        assert extent.x0 >= 0 and extent.x1 <= right, part
        assert extent.y0 >= 0 and extent.y1 <= top, part
    for number, one in enumerate(extents):
        for other in range(number):
            assert not one.overlaps(extents[other]), (parts[number], parts[other])
    legend = panel.get_legend().get_texts()
    texts = [part for part in [*parts, *legend] if isinstance(part, Text)]
    assert min(text.get_size() for text in texts) >= 8
    across, down = attention.get_window_extent().size
    assert across / down == pytest.approx(shape[1] / shape[0], rel=0.03)


@pytest.fixture(scope="module")
def trace_with_long_words(photo):
    return photo_captioner(words=[300 * "W", 300 * "i", "dog"]).trace(photo, "dog", num_words=1)


@pytest.mark.parametrize("width", [3, 6])
@pytest.mark.parametrize("letter", "Wi")
def test_a_word_too_long_for_its_bar_is_cut_off(trace_with_long_words, letter, width):
    trace, word = trace_with_long_words, 300 * letter
    figure = trace.plot(0, word, width=width)
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    _, votes_panel, panel = figure.axes
    (label,) = [label for label in panel.get_yticklabels() if label.get_text()[0] == letter]
    assert label.get_text()[-1] == "…" and word.startswith(label.get_text()[:-1])
    assert "dog" in words_of(panel)
    extent = label.get_window_extent(renderer)
    assert 0 <= extent.x0 < extent.x1 <= panel.bbox.x0
    if width == 6:  # in one row
        assert extent.x0 > votes_panel.bbox.x1
    assert panel.bbox.width > 0.05 * figure.bbox.width


def test_what_is_rounded_to_zero_has_a_plus(trace, monkeypatch):
    monkeypatch.setattr(trace, "votes", lambda t, word: np.full((4, 4), -0.001))
    _, votes_panel, _ = trace.plot(1, "cat").axes
    assert votes_panel.get_title().endswith("\n+0.0 in all")


def test_axes_of_ones_own(trace):
    axes = Figure().subplots(1, 3)
    figure = plot_step(trace, 0, None, axes, 8)
    assert figure is axes[0].figure and not figure.texts
    assert trace.plot(0, ax=axes) is figure
    assert axes[2].get_legend() is not None


def test_no_window_opens_and_pyplot_keeps_no_figure(trace):
    from matplotlib import pyplot as plt

    plt.close("all")
    assert isinstance(trace.plot(0), Figure)
    assert plt.get_fignums() == []


def test_a_notebook_draws_it_without_pyplot(trace):
    assert trace.plot(0)._repr_png_().startswith(b"\x89PNG")


def test_errors(trace):
    for arguments, message in (
        ({"t": 9}, "`t` must be a whole number from 0 to 4"),
        ({"t": 0, "word": "elephant"}, "vocabulary. Received: .*elephant"),
        ({"t": 0, "width": 1}, "3 to 40 inches. Received: width=1"),
        ({"t": 0, "ax": Figure().subplots(1, 2)}, "three axes.*Received: ax of 2"),
    ):
        with pytest.raises(ValueError, match=message):
            trace.plot(**arguments)
