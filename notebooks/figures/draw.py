"""Draw the diagram of the whole model, once for each chapter with that chapter's part coloured.

    python notebooks/figures/draw.py

writes model.svg, with every part coloured, and model_N.png for chapter N. The notebooks embed the .png, because
JupyterLab shows no embedded SVG. The background is white, so that both can be read on a dark page too.
"""

import io
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch
from PIL import Image

FOLDER = Path(__file__).resolve().parent
WIDTH, HEIGHT = 10.0, 4.7  # inches
DOTS_PER_INCH = 100
INK = "#1f2430"
PALE_INK = "#8a91a0"
COLOURED = "#ffd9a8"
PALE = "#f4f5f7"


class Box(NamedTuple):
    """A part of the model: where it is, in inches from the lower left, and what is written in it."""

    left: float
    bottom: float
    width: float
    height: float
    title: str
    below: str


BOXES = {
    "photo": Box(0.15, 2.0, 0.95, 0.9, "photo", "224 × 224"),
    "encoder": Box(1.4, 2.0, 1.05, 0.9, "encoder", "a CNN"),
    "vectors": Box(2.75, 2.0, 1.35, 0.9, "annotation\nvectors", r"$a_1 \ldots a_L$"),
    "score": Box(4.5, 3.4, 1.35, 0.9, "scores,\nsoftmax", r"$e_{ti}$ (4), $\alpha_{ti}$ (5)"),
    "context": Box(4.5, 2.0, 1.35, 0.9, "weighted\nsum", r"$z_t$ (13), gate $\beta_t$"),
    "draw": Box(2.75, 3.4, 1.35, 0.9, "or a draw", r"$s_t$ (8), hard"),
    "memory": Box(6.25, 2.0, 1.15, 0.9, "LSTM", r"$h_t$, $c_t$ (1)–(3)"),
    "readout": Box(7.8, 2.0, 0.95, 0.9, "readout", r"$p(y_t)$ (7)"),
    "search": Box(9.05, 2.0, 0.8, 0.9, "search", r"word $y_t$"),
    "words": Box(6.25, 0.45, 1.15, 0.9, "word in", r"$E\,y_{t-1}$"),
    "loss": Box(7.8, 3.4, 0.95, 0.9, "loss", r"$L_d$ (14)"),
    "marks": Box(9.05, 3.4, 0.8, 0.9, "metrics", "BLEU, …"),
}
PARTS = {
    0: set(BOXES),
    1: {"words"},
    2: {"photo", "encoder", "vectors"},
    3: {"score", "context", "memory", "readout"},
    4: {"score", "context"},
    5: {"score", "context", "memory", "readout", "words", "loss"},
    6: {"draw"},
    7: {"search"},
    8: {"marks"},
}
# Each arrow is a line through these points.
ARROWS = [
    [(1.1, 2.45), (1.4, 2.45)],  # photo to encoder
    [(2.45, 2.45), (2.75, 2.45)],  # encoder to vectors
    [(4.1, 2.45), (4.5, 2.45)],  # vectors to context
    [(4.1, 2.6), (4.3, 2.6), (4.3, 3.6), (4.5, 3.6)],  # vectors to scores
    [(5.175, 3.4), (5.175, 2.9)],  # weights to context
    [(4.5, 4.05), (4.1, 4.05)],  # weights to the draw
    [(3.425, 3.4), (3.425, 3.15), (4.9, 3.15), (4.9, 2.9)],  # the draw to the context
    [(5.85, 2.45), (6.25, 2.45)],  # context to memory
    [(7.4, 2.45), (7.8, 2.45)],  # memory to readout
    [(8.75, 2.45), (9.05, 2.45)],  # readout to search
    [(6.825, 2.9), (6.825, 3.85), (5.85, 3.85)],  # state to scores
    [(6.825, 1.35), (6.825, 2.0)],  # word to memory
    [(7.4, 0.75), (8.275, 0.75), (8.275, 2.0)],  # word to readout
    [(5.175, 2.0), (5.175, 1.65), (8.0, 1.65), (8.0, 2.0)],  # context to readout
    [(9.45, 2.0), (9.45, 0.25), (6.825, 0.25), (6.825, 0.45)],  # the word is the next input
    [(3.425, 2.0), (3.425, 1.1), (6.0, 1.1), (6.0, 2.2), (6.25, 2.2)],  # mean to the first state
    [(8.275, 2.9), (8.275, 3.4)],  # probabilities to loss
    [(9.45, 2.9), (9.45, 3.4)],  # caption to scores
]
LABELS = [
    (6.9, 3.2, r"$h_{t-1}$", "left"),
    (4.7, 1.19, r"mean $a$: $h_0$, $c_0$", "center"),
    (8.6, 0.33, r"$y_t$ is the next input", "center"),
]


def draw(coloured):
    """Return a figure in which the boxes of these names are coloured."""
    figure = plt.figure(figsize=(WIDTH, HEIGHT), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(0, HEIGHT))
    axes.axis("off")
    for points in ARROWS:
        draw_arrow(axes, points)
    for left, bottom, text, alignment in LABELS:
        axes.text(left, bottom, text, fontsize=10, color=INK, ha=alignment)
    for name, box in BOXES.items():
        draw_box(axes, box, is_coloured=name in coloured)
    return figure


def draw_arrow(axes, points):
    columns, rows = zip(*points)
    axes.plot(columns, rows, color=PALE_INK, linewidth=1.3, solid_joinstyle="round")
    arrow = {"arrowstyle": "-|>", "color": PALE_INK, "linewidth": 1.3, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", points[-1], points[-2], arrowprops=arrow)


def draw_box(axes, box, is_coloured):
    frame = FancyBboxPatch(
        (box.left, box.bottom),
        box.width,
        box.height,
        boxstyle="round,pad=0,rounding_size=0.08",
        facecolor=COLOURED if is_coloured else PALE,
        edgecolor=INK if is_coloured else PALE_INK,
        linewidth=1.6 if is_coloured else 1,
    )
    axes.add_patch(frame)
    middle = box.left + box.width / 2
    weight = "bold" if is_coloured else "normal"
    axes.text(middle, box.bottom + 0.57, box.title, ha="center", va="center", color=INK, fontsize=11, fontweight=weight)
    axes.text(middle, box.bottom + 0.17, box.below, ha="center", va="center", color=INK, fontsize=10)


def write_svg(figure, path):
    figure.savefig(path, metadata={"Date": None, "Creator": None})


def write_png(figure, path):
    """Write a small PNG: a palette of 32 colours is enough for a drawing."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=DOTS_PER_INCH)
    Image.open(picture).convert("RGB").quantize(32).save(path, optimize=True)


def main():
    plt.rcParams["svg.hashsalt"] = "keras_sat"  # the same file in each run
    write_svg(draw(PARTS[0]), FOLDER / "model.svg")
    for chapter, coloured in PARTS.items():
        figure = draw(coloured)
        write_png(figure, FOLDER / f"model_{chapter}.png")
        plt.close(figure)


if __name__ == "__main__":
    main()
