"""Print the tables of a record of does_it_explain.py as Markdown:
`python benchmarks/explain/table.py explain.jsonl`. With `--json`, write the means, from
which docs/make_tables.py makes the tables of docs/does-it-explain.md; with `--plot`,
draw how p falls while regions are removed.

A star says that a method differs from votes in this column: paired over photos, 10,000
bootstrap samples, level .05, Holm's correction over the methods.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from does_it_explain import lines_in
from maps import METHODS
from measures import LEVELS, MEASURES

SAMPLES = 10_000
RIVAL = "votes"
GRIDS = {
    "everywhere": "The photo's mean in the place of removed regions, at every step",
    "blurred photo": "The vectors of the blurred photo in their place",
    "step": "Removed from z_t of the word's step",
    "readout": "Removed from z_t in the readout alone: for votes, a check of the code",
    "blurred maps": "All maps as blurred as attention",
}


def means_of(lines, values_of, methods=METHODS):
    """Return the mean of values over words, and whether each method differs from votes:
    two arrays (methods, values).

    Args:
        lines: those of the photos.
        values_of: function from a word's line to a dict from methods to lists, or None.
        methods: their names.
    """
    sums, counts = [], []  # of photos
    for line in lines:
        of_words = [values for values in map(values_of, line["lines"]) if values is not None]
        if of_words:
            arrays = [[np.atleast_1d(values[name]) for name in methods] for values in of_words]
            sums.append(np.sum(arrays, axis=0))
            counts.append(len(of_words))
    if not sums:
        return None
    sums, counts = np.array(sums, float), np.array(counts, float)
    drawn = np.random.default_rng(0).multinomial(
        len(counts), np.full(len(counts), 1 / len(counts)), size=SAMPLES
    )
    means = np.einsum("sp,pmv->smv", drawn, sums) / (drawn @ counts)[:, None, None]
    rival = methods.index(RIVAL)
    below = np.mean(means <= means[:, rival : rival + 1], axis=0)
    above = np.mean(means >= means[:, rival : rival + 1], axis=0)
    chances = np.minimum(2 * np.minimum(below, above), 1)
    chances[rival] = 1
    differs = np.stack([holm(column) for column in chances.T], axis=-1)
    return sums.sum(axis=0) / counts.sum(), differs, int(counts.sum())


def holm(chances, level=0.05):
    """Return which of several tests are significant together, boolean (tests,); one
    with a chance of 1 is not a test.
    """
    order = np.argsort(chances)
    tests = np.sum(chances < 1)
    found = np.zeros(len(chances), bool)
    for number, place in enumerate(order):
        if chances[place] > level / max(tests - number, 1):
            break
        found[place] = True
    return found


def plot_curves(of_captioners, path):
    """Draw the mean of p, as a fraction of p for the whole photo, while regions are
    removed everywhere, a panel for each captioner.

    Args:
        of_captioners: a dict from names to the lines of their photos.
    """
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        1, len(of_captioners), figsize=(8.3, 2.9), sharey=True, layout="constrained", squeeze=False
    )
    removed = np.linspace(0, 100, LEVELS + 1)
    for ax, (name, lines) in zip(axes[0], of_captioners.items()):
        words = [word["grids"]["everywhere"] for line in lines for word in line["lines"]]
        for method in METHODS:
            curve = np.mean([word[method][len(MEASURES) :] for word in words], axis=0)
            style = {"color": "black", "linewidth": 2.2} if method == RIVAL else {"linewidth": 1.2}
            ax.plot(removed, [1, *curve], label=method, **style)
        ax.set(title=name, xlabel="% of the regions removed", ylim=(0, None))
    axes[0, 0].set_ylabel("p of the word")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    figure.savefig(path, dpi=200)
    plt.close(figure)


def rows_of(name, lines):
    """Yield (key, title, column titles, means, differs, words) of a captioner."""
    for grid, title in GRIDS.items():
        found = means_of(lines, lambda line, grid=grid: measures_of(line["grids"].get(grid)))
        if found:
            yield grid, title, MEASURES, *found
    found = means_of(lines, lambda line: line.get("boxes"))
    if found:
        yield "boxes", "On the boxes of what the word names", ("mass", "peak"), *found
    controls = (
        "other word",
        *(f"random {part}" for part in ("readout", "and LSTM", "and attention")),
    )

    def of_controls(line):
        if "other word" not in line:
            return None
        others = [line["other word"], *line["random weights"].values()]
        return {name: [other[name] for other in others] for name in METHODS}

    found = means_of(lines, of_controls)
    if found:
        yield (
            "controls",
            "Rank correlation with the map of another word, and of random weights",
            controls,
            *found,
        )


def print_table(columns, methods, means, differs):
    """Print a Markdown table: a row for each method, with a star where it differs."""
    print(f"| | {' | '.join(columns)} |")
    print("|---" * (1 + len(columns)) + "|")
    for method, values, stars in zip(methods, means, differs):
        cells = [f"{value:.3f}{'*' if star else ''}" for value, star in zip(values, stars)]
        print(f"| {method} | {' | '.join(cells)} |", flush=True)


def measures_of(grid):
    """Return a grid without its curves; None for None."""
    return grid and {name: values[: len(MEASURES)] for name, values in grid.items()}


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("record", type=Path)
    parser.add_argument("--json", type=Path, help="write the means to this file")
    parser.add_argument("--plot", type=Path, help="draw the curves into this PNG")
    options = parser.parse_args(arguments)
    lines = lines_in(options.record)
    figures, of_captioners = {}, {}
    for line in lines:
        of_captioners.setdefault(line["captioner"], []).append(line)
    for name, its_lines in of_captioners.items():
        seconds = [word["seconds"] for line in its_lines for word in line["lines"]]
        print(f"\n## {name}: {len(its_lines)} photos, {np.mean(seconds):.1f} s a word")
        for key, title, columns, means, differs, words in rows_of(name, its_lines):
            print(f"\n{title} ({words} words)\n")
            print_table(columns, METHODS, means, differs)
            figures.setdefault(name, {})[key] = {
                "words": words,
                **{
                    method: dict(zip(columns, zip(np.round(values, 4).tolist(), stars.tolist())))
                    for method, values, stars in zip(METHODS, means, differs)
                },
            }
    if options.plot:
        plot_curves(of_captioners, options.plot)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
