"""Plot one step of a trace: where the network looked, what each region voted, and what
the most probable words are made of.
"""

import bisect
import io
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from data_utils.base import visible
from keras_sat.looking.decision import percent
from keras_sat.looking.display import AttentionDisplay
from keras_sat.looking.dots import AGAINST, FOR, dots_on_photo
from keras_sat.looking.panels import draw_map, draw_title, size_of_text
from keras_sat.looking.sheet import (
    GAP,
    MARGIN,
    WORD_SPACE,
    font_size,
    text_width,
    wrapped,
    wrapped_text,
)
from keras_sat.looking.shown_photo import photo_of_result
from keras_sat.looking.votes import LEAST_STRONGEST

MOST_BARS = 10
# Of each part of a logit, in the order of the bars: the same as in explorer.html. They
# differ in lightness too. Orange and blue stand for signs alone.
PART_COLOURS = {
    "previous_word": "#009e73",
    "memory": "#6a4fb3",
    "photo": "#d0559f",
    "bias": "#8a8a8a",
}
ONE_ROW = 6.0  # inches: a narrower figure has the bars below the maps
SHARE_OF_A_MAP = 0.3  # of the figure's width, if the bars are beside the maps
# Of the figure's width, at most, for a word beside its bar: where the bars stand beside
# the maps, and where they stand below.
WORD_BESIDE_MAPS, WORD_BELOW_MAPS = 0.18, 0.5
TALLEST = 0.5  # the height of a map, as a fraction of the figure's width


def plot_step(trace: Any, t: int, word: str | None, ax: Any, width: float) -> Any:
    """Draw a step of a Trace and return the figure; see `Trace.plot`.

    What a captioner does not have is left out: a gate, a sentinel, or the part of the
    previous word.
    """
    votes = trace.votes(t, word)  # also checks t and word
    step = trace.steps[t]
    word = step.word if word is None else word
    candidates = _shown_candidates(trace, t, word)
    photo_display = AttentionDisplay(
        photo_of_result(trace.result),
        [step.word],
        step.attention_weights[None],
        from_photo=None if step.from_photo is None else [step.from_photo],
    )
    if ax is None:
        height, across = photo_display.image.shape[:2]
        note = _sum_in_words(votes, trace.vote_of_mean(t, word))
        ax = _new_axes(width, across / height, trace, t, candidates, note)
    elif np.size(ax) != 3:
        raise ValueError(
            "A step needs three axes, for attention, votes and words. "
            f"Received: ax of {np.size(ax)}"
        )

    attention_panel, votes_panel, bars_panel = np.ravel(ax)
    draw_map(attention_panel, photo_display, 0)
    draw_title(attention_panel, f"attention\n{_from_photo_text(step)}".strip())
    _draw_votes(votes_panel, photo_display.image, votes)
    draw_title(votes_panel, f"votes for {visible(word)}\n{_signed(votes.sum())} in all")
    _draw_bars(bars_panel, trace, step, word, candidates)
    return bars_panel.figure


def _shown_candidates(trace, t, word):
    """Return the Candidates that have a bar: the most probable words, the word that was
    said, and `word`.
    """
    step = trace.steps[t]
    candidates = step.top[:MOST_BARS]
    for wanted in (step.word, word):
        if wanted not in [candidate.word for candidate in candidates]:
            candidates.append(trace.candidate(t, wanted))
    return candidates


def _from_photo_text(step):
    """Return how much of the context comes from the photo, or ""."""
    if step.from_photo is not None:
        return f"{percent(step.from_photo)} from the photo"
    if step.context_gate is not None:
        return f"gate: {step.context_gate:.2f}"
    return ""


def _small(size):
    """Return the size of small text, in points, beside text of a size."""
    return max(8, 0.85 * size)


def _signed(number, decimals=1):
    """Return a number as text, with its sign; 0 has a plus."""
    rounded = round(float(number), decimals) + 0.0  # -0.0 becomes 0.0
    return f"{rounded:+.{decimals}f}".replace("-", "\N{MINUS SIGN}")


# === Votes ===


def _draw_votes(panel, photo, votes):
    """Draw the votes as dots on the photo and, below them, what the dots mean."""
    strongest = max(float(np.abs(votes).max()), LEAST_STRONGEST)
    panel.set_axis_off()
    panel.imshow(dots_on_photo(photo, votes, strongest))

    more, less = (np.divide(colour, 255) for colour in (FOR, AGAINST))
    disc = Line2D([], [], linestyle="", marker="o", color=more)
    ring = Line2D([], [], linestyle="", marker="o", markerfacecolor="none", color=less)
    ring.set_markeredgewidth(2)
    labels = [
        f"more, up to {_signed(max(votes.max(), 0), 2)}",
        f"less, down to {_signed(min(votes.min(), 0), 2)}",
    ]
    panel.legend(
        handles=[disc, ring],
        labels=labels,
        loc="upper center",
        bbox_to_anchor=(0.5, 0),
        borderaxespad=0.2,
        borderpad=0,
        fontsize=_small(size_of_text(panel)),
        frameon=False,
        handlelength=1,
        handletextpad=0.4,
    )


def _sum_in_words(votes, vote_of_mean):
    """Return what votes are, and how they add up to the photo's part of the logit."""
    total, all_votes = round(float(votes.sum() + vote_of_mean), 1), round(float(votes.sum()), 1)
    return (
        "A vote is what a region adds to the logit, compared with an average region. The photo's "
        f"part is {_signed(total)}: {_signed(all_votes)} from the votes, and "
        f"{_signed(total - all_votes)} from uniform attention."
    )


# === Bars ===


def _draw_bars(panel, trace, step, word, candidates):
    """Draw the logit of each Candidate as a bar stacked by its parts, negative parts to
    the left of 0, and its probability beside it.
    """
    size = size_of_text(panel)
    rows = np.arange(len(candidates))
    right, left = np.zeros(len(rows)), np.zeros(len(rows))
    handles = []  # of the legend
    for name, label in _labels_of_parts(trace).items():
        part = np.array([candidate.parts[name] for candidate in candidates])
        starts = np.where(part > 0, right, left)
        bars = panel.barh(rows, part, 0.75, starts, color=PART_COLOURS[name], label=label)
        for bar in bars:
            bar.set(edgecolor="white", linewidth=0.6)  # a gap between parts
        handles.append(bars)
        right += np.maximum(part, 0)
        left += np.minimum(part, 0)
    logits = [candidate.logit for candidate in candidates]
    marks = panel.plot(logits, rows, "|", color="black", markersize=size, label="logit (their sum)")
    for mark in marks:  # can be seen on dark bars
        mark.set(markeredgewidth=1.5, path_effects=[withStroke(linewidth=3.5, foreground="white")])
    handles += marks

    words = _beside_bars(candidates, panel.figure.bbox.width / panel.figure.dpi)
    panel.set_yticks(rows, words, size=size, parse_math=False)
    for label, candidate in zip(panel.get_yticklabels(), candidates):
        if candidate.word == step.word:
            label.set_weight("bold")
        if candidate.word == word != step.word:
            label.set_style("italic")
    for row, candidate in zip(rows, candidates):
        panel.text(
            1.02,
            row,
            percent(candidate.probability),
            transform=panel.get_yaxis_transform(),
            va="center",
            size=size,
        )
    panel.set_ylim(len(rows) - 0.4, -0.6)  # the most probable word at the top
    panel.axvline(0, color="black", linewidth=0.8)
    panel.tick_params("x", labelsize=_small(size))
    panel.set_xlabel("part of the logit", size=_small(size))
    panel.tick_params("y", length=0)
    panel.spines[["top", "right", "left"]].set_visible(False)
    panel.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, 0),
        borderaxespad=3.6,
        ncols=2,
        fontsize=_small(size),
        frameon=False,
        handlelength=1,
        columnspacing=1,
    )
    draw_title(panel, "logit and probability")


def _beside_bars(candidates, width):
    """Return the word of each Candidate as it stands beside its bar on a figure of this
    width: a word that would leave no space for bars is cut off.
    """
    limit = width * (WORD_BESIDE_MAPS if width >= ONE_ROW else WORD_BELOW_MAPS)

    def width_of(text):
        return text_width(text, size=font_size(width), weight="bold")

    texts = []
    for text in (visible(candidate.word) for candidate in candidates):
        if width_of(text) > limit:
            starts = [f"{text[:end]}…" for end in range(1, len(text))]
            text = starts[max(0, bisect.bisect(starts, limit, key=width_of) - 1)]
        texts.append(text)
    return texts


def _labels_of_parts(trace):
    """Return a dict from the names of the parts that are drawn to their labels.

    A readout that does not read the previous word has no part of it.
    """
    labels = {name: name.replace("_", " ") for name in PART_COLOURS}
    if trace.left_out:
        del labels["previous_word"]
    return labels


# === The figure ===


class NotebookFigure(Figure):
    """A figure that a notebook draws by itself. It draws others only once pyplot has
    been imported there.
    """

    def _repr_png_(self):
        content = io.BytesIO()
        self.savefig(content, format="png")
        return content.getvalue()


def _new_axes(width, aspect, trace, t, candidates, note):
    """Return three axes of a new figure, with the caption above them and a note below
    the maps.

    All lengths are in inches. The figure is not one of pyplot's: a notebook draws those
    by itself, and would draw the figure that `Trace.plot` returns once more.

    Args:
        width: of the figure.
        aspect: width / height of the photo.
        trace, t: Trace, and the step.
        candidates: those that get a bar.
        note: a sentence or two.
    """
    if not 3 <= width <= 40:
        raise ValueError(f"`width` must be 3 to 40 inches. Received: width={width}")
    size = font_size(width)
    line = 1.4 * size / 72
    inner = width - 2 * MARGIN
    words = [visible(word) for word in trace.words]
    if t == len(words):
        words.append(trace.steps[t].word)  # <end>
    weights = ["bold" if number == t else "normal" for number in range(len(words))]
    widths = [text_width(text, size=size, weight=weight) for text, weight in zip(words, weights)]
    places = wrapped(widths, WORD_SPACE * line, inner)
    titles_top = MARGIN + (places[-1][0] + 1.5) * line
    panels_top = titles_top + 2 * line  # below titles of two lines

    # Beside the bars stand their words and probabilities.
    shown = _beside_bars(candidates, width)
    labels = max(text_width(text, size=size, weight="bold") for text in shown) + 0.6 * line
    probabilities = text_width("< 0.1 %", size=size)
    bars_height = 1.1 * line * len(candidates)
    below_map, below_bars = 2.4 * line, 6.4 * line  # the legend; ticks, label and legend
    in_one_row = width >= ONE_ROW
    map_width = SHARE_OF_A_MAP * inner if in_one_row else (inner - 2 * GAP) / 2
    map_height = min(map_width / aspect, TALLEST * width)
    note_top = panels_top + map_height + below_map
    note = wrapped_text(note, _small(size), 2 * (map_width + GAP) if in_one_row else inner)
    maps_bottom = note_top + (note.count("\n") + 1) * line
    if in_one_row:
        bars_left = MARGIN + 2 * (map_width + 2 * GAP) + labels
        bars_top = panels_top
        bars_height = max(bars_height, maps_bottom - panels_top - below_bars)
    else:
        bars_left = MARGIN + labels
        bars_top = maps_bottom + 1.3 * line
    bars_width = width - MARGIN - probabilities - bars_left
    height = max(maps_bottom, bars_top + bars_height + below_bars) + MARGIN

    figure = NotebookFigure(figsize=(width, height))
    for text, weight, (number, left) in zip(words, weights, places):
        place = (MARGIN + left) / width, 1 - (MARGIN + number * line) / height
        figure.text(*place, text, size=size, weight=weight, va="top", parse_math=False)

    place = MARGIN / width, 1 - note_top / height
    figure.text(*place, note, size=_small(size), va="top", color="dimgrey")

    def axes(left, top, across, down):
        corner = left / width, 1 - (top + down) / height
        return figure.add_axes((*corner, across / width, down / height))

    return [
        axes(MARGIN, panels_top, map_width, map_height),
        axes(MARGIN + map_width + 2 * GAP, panels_top, map_width, map_height),
        axes(bars_left, bars_top, bars_width, bars_height),
    ]
