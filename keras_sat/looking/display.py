"""Plot a photo and, for each word of its caption, where the model looked."""

from __future__ import annotations

import io
import os
import re
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import chain, zip_longest
from typing import Any

import numpy as np

from data_utils.base import brief, visible, write_whole
from data_utils.datasets import content_positions
from keras_sat.bounds import one_of
from keras_sat.checks import checked_path
from keras_sat.looking.dots import dots_on_photo
from keras_sat.looking.panels import draw_map, draw_title, shrink_to_printed_size, write_note
from keras_sat.looking.player import player_frame, player_page
from keras_sat.looking.sheet import WIDTH, sheet
from keras_sat.looking.shown_photo import as_photo, photo_of_result
from keras_sat.looking.spotlight import (
    FROM_MEMORY,
    UNIFORM,
    is_grey,
    light_of,
    outline,
    share_with_half,
    spotlight,
    upsampled,
)
from keras_sat.search import DOUBT_MARK, CaptionResult
from keras_sat.settings import MAP_KINDS

MEMORY_NOTE = "from memory"
NO_VOTES_NOTE = "no positive votes"
VECTOR = ("pdf", "svg", "svgz", "ps", "eps")


@dataclass(frozen=True)
class AttentionDisplay:
    """A photo, its caption and the attention map of each word, ready to plot. Notebooks
    show it as a player.

    Attributes:
        image: the photo: a path, a PIL image or an array with values 0..255; kept as
            uint8 (height, width, 3), and shrunk if it is larger than 1024 pixels. A
            panorama is stretched to an aspect ratio of 5 or 1/5.
        words: list of the caption's words.
        attention_weights: (words, rows, columns), for a grid of any shape that covers
            the photo; with `map_kind="votes"`, the positive votes, normalised.
        from_photo: with a sentinel, the fraction of each word that came from the photo,
            (words,); else None.
        confidence: the probability that the caption is right, or None; pages show it.
        map_kind: what the maps show, "attention" or "votes"; `plot` marks votes.
        doubtful: for each word, whether it may be made up: it gets a question mark;
            None: none of them.
    """

    image: Any = field(repr=False)
    words: list[str]
    attention_weights: np.ndarray = field(repr=False)
    from_photo: np.ndarray | None = field(default=None, repr=False)
    confidence: float | None = None
    map_kind: str = "attention"
    doubtful: list[bool] | None = None

    def __post_init__(self):
        if self.image is None:
            raise ValueError(
                "A result computed from features has no photo: pass one as `image`. "
                "Received: image=None"
            )
        if isinstance(self.words, str) or not all(isinstance(word, str) for word in self.words):
            raise ValueError(
                f"`words` must be a list of words. Received: words={brief(self.words)}"
            )
        words = list(self.words)
        maps = np.asarray(self.attention_weights, dtype=float)
        num_fractions = len(words) if self.from_photo is None else len(self.from_photo)
        if maps.ndim != 3 or not len(maps) == len(words) == num_fractions:
            raise ValueError(
                "Expected, for each word, one map (rows, columns) and, with a sentinel, "
                "one number in `from_photo`. "
                f"Received: {len(words)} words, attention_weights of shape {maps.shape}, "
                f"{num_fractions} numbers"
            )
        one_of(*MAP_KINDS).check("map_kind", self.map_kind)
        doubtful = [False] * len(words) if self.doubtful is None else list(self.doubtful)
        if len(doubtful) != len(words):
            raise ValueError(
                "`doubtful` must have a value for each word. "
                f"Received: {len(words)} words, doubtful={brief(doubtful)}"
            )
        # As dataclasses do where they are frozen.
        object.__setattr__(self, "image", as_photo(self.image))
        object.__setattr__(self, "words", words)
        object.__setattr__(self, "attention_weights", maps)
        object.__setattr__(self, "doubtful", doubtful)

    @classmethod
    def from_result(
        cls, result: CaptionResult, *, image: Any = None, map_kind: str = "attention"
    ) -> AttentionDisplay:
        """Make an AttentionDisplay from a CaptionResult.

        If the photo was given as a path and is still there, it is read again, in its
        own shape. Otherwise it has the shape of the encoder's input, usually a square.

        Args:
            image: replaces the result's photo, such as a path.
            map_kind: "attention" for where the network looked; "votes" for the regions
                that spoke for each word, of a result with `votes`.
        """
        if not hasattr(result, "attention_weights"):
            raise ValueError(f"`result` must be a single CaptionResult. Received: {brief(result)}")
        image = photo_of_result(result) if image is None else image
        maps = result.maps(map_kind)
        return cls(
            image,
            result.words,
            maps,
            from_photo=result.from_photo,
            confidence=result.confidence,
            map_kind=map_kind,
            doubtful=result.doubtful,
        )

    def upsampled(self, position: int) -> np.ndarray:
        """Return the map of the word at `position`, resized to the photo's size; NaN
        spreads to pixels nearby.
        """
        return upsampled(self.attention_weights[position], self.image.shape[:2])

    def lit(
        self, position: int, look: str = "spotlight"
    ) -> tuple[np.ndarray, list[np.ndarray], str]:
        """Return the photo as the word at `position` lights it, the lines of the
        outline, and a phrase or "". If `look` is the default, votes are dots, without
        an outline.
        """
        if self._is_from_memory(position):
            no_light = np.zeros(self.image.shape[:2])
            return spotlight(self.image, no_light, look), [], MEMORY_NOTE
        if self._has_dots(look):
            votes = self.attention_weights[position]
            strongest = np.nan_to_num(votes, nan=0, posinf=0).max()
            has_map = self._has_half(position)
            shown = votes if has_map else np.zeros_like(votes)
            picture = dots_on_photo(self.image, shown, max(strongest, 1e-12))
            return picture, [], "" if has_map else NO_VOTES_NOTE
        attention_map = self.upsampled(position)
        lines = outline(attention_map, attention_map.size / self.attention_weights[position].size)
        peak = attention_map.max()
        if lines or peak == 0:
            note = ""
        elif peak > 0:
            note = "everywhere"
        else:
            note = "NaN"
        return spotlight(self.image, light_of(attention_map), look), lines, note

    def share(self, position: int) -> float:
        """Return the fraction of the photo that the line encloses for a word: the
        smallest region with half of its attention, or of its positive votes.
        """
        return share_with_half(self.upsampled(position))

    def _has_half(self, position):
        """Return whether the map of a word is anything but uniform."""
        return not self._is_from_memory(position) and self.share(position) <= UNIFORM

    def _has_dots(self, look):
        return self.map_kind == "votes" and look == "spotlight"

    def positions(self, words: Any = "content") -> list[int]:
        """Return the positions of the words to show: see `words` of `plot`."""
        if isinstance(words, str) and words in ("content", "all"):
            content = content_positions(self.words)
            return content if words == "content" and content else list(range(len(self.words)))
        if isinstance(words, str):
            wanted = re.findall(r"[^\s,]+", words)
        else:
            wanted = np.ravel(np.asarray(words, object))
        positions = []  # of each wanted word or position
        for word_or_position in wanted:
            positions.append(
                [i for i, word in enumerate(self.words) if word_or_position in (i, word)]
            )
        if not positions or not all(positions):
            expected = (
                '"content", "all", or a list of words or positions in the caption '
                f"{brief(' '.join(self.words))}"
            )
            raise ValueError(f"`words` must be {expected}. Received: words={brief(words)}")
        return sorted({*chain(*positions)})

    def _is_from_memory(self, position):
        return self.from_photo is not None and self.from_photo[position] < FROM_MEMORY

    def plot(
        self,
        ax: Any = None,
        *,
        words: Any = "content",
        columns: int | None = None,
        look: str = "spotlight",
        shares: bool = False,
        width: float = WIDTH,
    ) -> Any:
        """Draw the photo and, for each word, a panel that is the brighter and more
        saturated, the more the model looked there.

        A line encloses the smallest region with half of the attention. A word from
        memory has no map. Above the photo stands the caption, with the words shown in
        bold, and below a new figure what the line is. If the maps are votes, regions
        with positive votes have discs, and the photo is labelled "votes".

        Args:
            ax: an array of axes, for the photo and each word; None makes a new figure.
            words: "content" for words that may name something, "all", or a list of
                words or positions.
            columns: pictures per row in a new figure; None chooses so that rows are
                filled.
            look: "spotlight"; "paper" for white light on a dim photo; or a colour map
                of matplotlib, such as "jet".
            shares: write above each panel what part of the photo the line encloses,
                such as "10 % of the photo".
            width: of a new figure, in inches: 3.3 for a column of a paper, 7 for both,
                with text of 8 points.

        Returns: the array of axes.
        """
        if ax is None:
            import matplotlib.pyplot as plt

            ax = self._new_axes(
                plt.figure, words=words, columns=columns, look=look, shares=shares, width=width
            )
        panels = np.ravel(ax)  # of the photo and of each word
        self._draw(panels, self.positions(words), look, shares)
        if self.map_kind == "votes":
            write_note(panels[0], "votes")
        return ax

    @staticmethod
    def compare(
        displays: list[AttentionDisplay],
        *,
        images: list | None = None,
        names: list[str] | None = None,
        ax: Any = None,
        words: Any = "content",
        look: str = "spotlight",
        shares: bool = False,
        width: float = WIDTH,
    ) -> Any:
        """Draw captions, one per row, as in the paper's comparison of soft and hard
        attention; return the axes. A caption that is the same as the one above it, such
        as that of attention and votes, is written once.

        Args:
            displays: list of AttentionDisplay or of CaptionResult, such as [soft, hard,
                none].
            images: list of photos, one for each row; None uses those of the displays,
                and those of the results as `from_result` does.
            names: list of titles, one for each row.
            ax: an array of axes, a row for each display; None makes a new figure, with
                equal words below each other.
            words, look, shares, width: see `plot`.
        """
        is_list = isinstance(displays, (list, tuple)) and displays
        lengths = [np.shape(each)[:1] for each in (names, ax) if each is not None]
        if images is not None:  # whose pictures may have several shapes
            lengths.append((len(images),))
        if not is_list or any(length != (len(displays),) for length in lengths):
            raise ValueError(
                "`displays` must be a list with at least one display; `images`, `names` "
                "and `ax` must have the same length. "
                f"Received: displays={brief(displays)}, images={brief(images)}, "
                f"names={brief(names)}, ax of shape {np.shape(ax)}"
            )
        images = [None] * len(displays) if images is None else images
        displays = [_as_display(each, image) for each, image in zip(displays, images)]
        names = [""] * len(displays) if names is None else names
        rows = [display.positions(words) for display in displays]
        if ax is None:
            import matplotlib.pyplot as plt

            rows = _below_each_other(displays, rows)
            for_sheet = [display._for_sheet(row, shares) for display, row in zip(displays, rows)]
            note = _note_on(displays, look) if any(rows) else ""
            ax = sheet(plt.figure, width, _each_caption_once(for_sheet), large=False, note=note)
        for panels, display, row, name in zip(ax, displays, rows, names):
            display._draw(panels, row, look, shares)
            draw_title(panels[0], visible(name), weight="bold")
        return np.array(ax)

    def save(self, path: str | os.PathLike, *, dpi: int = 200, **options: Any) -> None:
        """Save the output of `plot`, with its options, as a picture file; the extension
        determines the format.

        Photos have `dpi` pixels per inch; in PDF, SVG and PostScript fewer if the photo
        itself has fewer. Fonts in these formats are those that publishers accept.
        """
        import matplotlib
        from matplotlib.figure import Figure

        path = checked_path(path)
        path = path if path.suffix else path.with_suffix(".png")
        file_format = path.suffix[1:].lower()
        drawing = io.BytesIO()
        settings = {"pdf.fonttype": 42, "ps.fonttype": 42}
        if file_format in VECTOR:
            settings["image.interpolation"] = "none"  # photos are stored as they are
        with matplotlib.rc_context(settings):
            axes = self.plot(self._new_axes(Figure, **options), **options)
            if file_format in VECTOR:
                for panel in axes:
                    shrink_to_printed_size(panel, dpi)
            axes[0].figure.savefig(drawing, format=file_format, dpi=dpi)
        write_whole(path, drawing.getvalue())

    def _new_axes(
        self,
        make_figure,
        *,
        words="content",
        columns=None,
        look="spotlight",
        shares=False,
        width=WIDTH,
        **_,
    ):
        positions = self.positions(words)
        row = self._for_sheet(positions, shares)
        note = _note_on([self], look) if positions else ""
        return np.array(sheet(make_figure, width, [row], columns=columns, note=note)[0])

    def _for_sheet(self, positions, shares):
        """Return what `sheet` needs to know about this display.

        A position may be None.
        """
        height, width = self.image.shape[:2]
        titles, title_styles = [], []
        for position in positions:
            is_from_memory = position is not None and self._is_from_memory(position)
            title = "" if position is None else self._shown(position)
            if is_from_memory:
                title = max(title, MEMORY_NOTE, key=len)  # there is space for both
            titles.append(f"{title}\n{_share_text(1)}" if shares else title)
            title_styles.append(self._style(position) if is_from_memory else {})
        words = [self._shown(position) for position in range(len(self.words))]
        bold = {"weight": "bold"}
        styles = [self._style(i) | (bold if i in positions else {}) for i in range(len(words))]
        return width / height, titles, words, title_styles, styles

    def _shown(self, position):
        """Return a word as it is written on a figure."""
        return visible(self.words[position]) + (f" {DOUBT_MARK}" if self.doubtful[position] else "")

    def _style(self, position):
        return {"style": "italic", "color": "dimgrey"} if self._is_from_memory(position) else {}

    def _draw(self, panels, positions, look, shares):
        """Draw the photo, and each position that is not None; see `plot`."""
        if len(panels) <= len(positions):
            least = (
                f"{len(positions)} words need {len(positions) + 1} axes; `words` chooses others."
            )
            raise ValueError(f"{least} Received: {len(panels)}")
        for panel in panels:
            panel.set_axis_off()
        panels[0].imshow(self.image)
        for panel, position in zip(panels[1:], positions):
            if position is None:
                continue
            draw_map(panel, self, position, look)
            title = self._shown(position)
            if shares:
                has_half = self._has_half(position)
                title += f"\n{_share_text(self.share(position))}" if has_half else "\n"
            draw_title(panel, title, **self._style(position))

    def animate(
        self,
        path: str | os.PathLike,
        *,
        words: Any = "content",
        look: str = "spotlight",
        seconds_per_word: float = 0.7,
        width: int | None = None,
    ) -> None:
        """Write a .gif file: the photo above the pale caption, whose words turn black
        one by one, while the light moves over the photo.

        Args:
            words, look: see `plot`.
            seconds_per_word: how long each word is shown.
            width: width of the picture in pixels; None uses 480.
        """
        from keras_sat.looking.cartoon import cartoon

        path = path_ending_in(".gif", path)
        width = 480 if width is None else width
        positions = self.positions(words)
        note = _note_on([self], look) if positions else ""
        write_whole(path, cartoon(self, positions, look, seconds_per_word, width, note))

    def to_html(self, path: str | os.PathLike, *, title: str | None = None) -> None:
        """Write an interactive player, one page without network access, to a .html
        path; `title` None: the caption.
        """
        write_whole(path_ending_in(".html", path), player_page(self, title=title))

    def _repr_html_(self):
        return player_frame(self)


def _note_on(displays, look):
    """Return what the line and the discs in the panels of AttentionDisplays are."""
    enclosed = {"attention": "the attention", "votes": "the positive votes"}
    kinds = dict.fromkeys(
        enclosed[display.map_kind] for display in displays if not display._has_dots(look)
    )
    sentences = [f"The line encloses half of {' or of '.join(kinds)}."] if kinds else []
    if any(display._has_dots(look) for display in displays):
        sentences.append("The larger a disc, the more its region voted for the word.")
        sentences.append("Votes against it are not shown.")
    if kinds and look == "spotlight" and any(is_grey(display.image) for display in displays):
        sentences.append("A warm tint shows in a grey photo where the captioner looked.")
    if any(any(display.doubtful) for display in displays):
        sentences.append(f"Nouns with {DOUBT_MARK} may be made up.")
    return " ".join(sentences)


def _each_caption_once(rows):
    """Return what `sheet` needs to know, without captions that are the same as the one
    above.
    """
    once, last = [], None
    for aspect, titles, words, title_styles, styles in rows:
        is_repeated = (words, styles) == last
        last = words, styles
        if is_repeated:
            words, styles = [], []
        once.append((aspect, titles, words, title_styles, styles))
    return once


def _share_text(share):
    return f"{round(100 * share) or '< 1'} % of the photo"


def _below_each_other(displays, rows):
    """Spread the positions of each display over columns, so that equal words are in the
    same one; others are None.
    """
    columns = []  # (word, dict from the number of the display to the position of the word)
    for number, (display, row) in enumerate(zip(displays, rows)):
        column_words = [word for word, _ in columns]
        row_words = [display.words[position] for position in row]
        # Lists of equal length are paired one by one.
        pairs = [("", 0, len(columns), 0, len(row))]
        if len(columns) != len(row):
            matcher = SequenceMatcher(None, column_words, row_words, autojunk=False)
            pairs = matcher.get_opcodes()
        merged = []
        for _, start, end, row_start, row_end in pairs:
            for column, position in zip_longest(columns[start:end], row[row_start:row_end]):
                word, places = (display.words[position], {}) if column is None else column
                if position is not None:
                    places = {**places, number: position}
                merged.append((word, places))
        columns = merged
    return [[places.get(number) for _, places in columns] for number in range(len(displays))]


def _as_display(display, image):
    """Return an AttentionDisplay of an AttentionDisplay or a CaptionResult.

    It shows `image`, unless that is None.
    """
    if not isinstance(display, AttentionDisplay):
        return AttentionDisplay.from_result(display, image=image)
    return display if image is None else replace(display, image=image)


def path_ending_in(ending, path):
    """Return a path; raise ValueError unless it ends in `ending`, such as ".html"."""
    path = checked_path(path)
    if path.suffix.lower() != ending:
        raise ValueError(f"Expected a file name ending in {ending}. Received: {str(path)!r}")
    return path
