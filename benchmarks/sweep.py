"""Random search over options of `keras-sat fit`, one training each, and a table of what they reached.

    python benchmarks/sweep.py sweeps/first --trials 8 --draw learning-rate=3e-4:3e-3:log --draw dropout=.3,.5 \
        -- --data flickr8k --data-dir flickr8k --encoder mobilenet_v2 --epochs 3

`--draw NAME=a,b,c` draws one of these, `NAME=low:high` a number between them (a whole one where both are),
`NAME=low:high:log` one of which the logarithm is. What stands behind `--` is the same for all. Each training has a
folder of its own, sweeps/first/000 and so on. Stopped or killed, the same command goes on where it was; more
`--trials` add some; a trial that failed is tried again. The table (sweeps/first/table.md, and printed) has the best
first, by CIDEr of free-running captions on dev.
"""

import argparse
import csv
import json
import math
import re
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np

from data_utils.files import read_json, write_json, write_whole

SCORES = {"val_cider": "CIDEr", "val_bleu_4": "BLEU-4", "val_cross_entropy": "cross-entropy"}


def parse_draws(texts):
    """Return dict from the name of an option to what is drawn for it: texts, or (low, high, is_log, is_whole).

    >>> parse_draws(["dropout=.3,.5", "learning-rate=1e-4:1e-2:log"])
    {'dropout': ['.3', '.5'], 'learning-rate': (0.0001, 0.01, True, False)}
    """
    draws = {}
    for text in texts:
        name, _, values = text.partition("=")
        name, parts = name.removeprefix("--"), values.split(":")
        if len(parts) == 1 and name and values:
            draws[name] = values.split(",")
            continue
        try:
            low, high = map(float, parts[:2])
            is_known = parts[2:] in ([], ["log"]) and low < high < math.inf and (low > 0 or parts[2:] == [])
        except ValueError:
            is_known = False
        if not name or not is_known:
            raise ValueError(f"Expected NAME=a,b,c or NAME=low:high or NAME=low:high:log. Received: --draw {text}")
        is_whole = all(re.fullmatch(r"\d+", part) for part in parts[:2])
        draws[name] = (low, high, parts[2:] == ["log"], is_whole)
    return draws


def draw_options(draws, seed, trial):
    """Return the options of a trial, dict of texts; they depend on nothing but the arguments.

    >>> draw_options({"dropout": [".3"], "hidden-dim": (64.0, 512.0, True, True)}, seed=0, trial=1)
    {'dropout': '.3', 'hidden-dim': '108'}
    """
    options = {}
    for name, values in draws.items():
        random = np.random.default_rng([seed, trial, zlib.crc32(name.encode())])
        if isinstance(values, list):
            options[name] = values[random.integers(len(values))]
            continue
        low, high, is_log, is_whole = values
        drawn = math.exp(random.uniform(math.log(low), math.log(high))) if is_log else random.uniform(low, high)
        options[name] = f"{round(drawn)}" if is_whole else f"{drawn:.4g}"
    return options


def run_trial(folder, options, fixed):
    """Train once, as a process of its own; return the exit status."""
    named = [f"--{name}={value}" for name, value in options.items()]
    return subprocess.call([sys.executable, "-m", "keras_sat", "fit", *fixed, *named, "--output-dir", folder])


def scores_of(folder):
    """Return the figures of the best epoch of a training, by CIDEr, and how many epochs there were."""
    epochs = []
    for path in (folder / "history.csv", folder / "self_critical" / "history.csv"):
        if path.exists():
            with open(path, newline="") as file:
                epochs += [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    scored = [figures for figures in epochs if "val_cider" in figures]
    if not scored:
        raise ValueError(
            f"{folder}: there are no scores. A sweep needs photos of a dev split; see --split-seed of fit."
        )
    best = max(scored, key=lambda figures: figures["val_cider"])
    return {**{name: best[name] for name in SCORES if name in best}, "epochs": len(epochs)}


def table_of(results):
    """Return the table in Markdown, the best first."""
    names = list(results[0]["options"])
    lines = [f"| trial | {' | '.join([*names, *SCORES.values(), 'epochs'])} |", "|---" * (len(names) + 5) + "|"]
    for result in sorted(results, key=lambda result: -result["scores"]["val_cider"]):
        scores = [result["scores"].get(name) for name in SCORES]
        cells = [result["options"][name] for name in names] + ["" if x is None else f"{x:.3f}" for x in scores]
        lines.append(f"| {result['trial']:03d} | {' | '.join([*cells, str(result['scores']['epochs'])])} |")
    return "\n".join(lines) + "\n"


def sweep(folder, *, trials, draws, fixed, seed=0):
    """Run all trials that have not ended yet, and return (results, numbers of those that failed).

    Args:
        folder: of the sweep.
        trials: how many.
        draws: what `parse_draws` returned.
        fixed: list of arguments of `keras-sat fit` that are the same for all.
        seed: of what is drawn.
    """
    folder, results, failed = Path(folder), [], []
    asked = {"draws": json.loads(json.dumps(draws)), "fixed": fixed, "seed": seed}
    if (folder / "sweep.json").exists() and read_json(folder / "sweep.json") != asked:
        before = read_json(folder / "sweep.json")
        raise ValueError(
            f"In this folder lies a sweep with other arguments: {before}. Choose another folder. Received: {asked}"
        )
    write_json(folder / "sweep.json", asked)
    for trial in range(trials):
        options, path = draw_options(draws, seed, trial), folder / f"{trial:03d}"
        if not (path / "result.json").exists():
            print(f"trial {trial + 1} of {trials}: {options}", flush=True)
            if run_trial(path, options, fixed) != 0:
                failed.append(trial)
                continue
            write_json(path / "result.json", {"trial": trial, "options": options, "scores": scores_of(path)})
        results.append(read_json(path / "result.json"))
        write_whole(folder / "table.md", table_of(results))
    return results, failed


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--trials", type=int, required=True)
    parser.add_argument("--draw", action="append", required=True, metavar="NAME=VALUES")
    parser.add_argument("--seed", type=int, default=0)
    own, fixed = arguments, []
    if "--" in arguments:
        own, fixed = arguments[: arguments.index("--")], arguments[arguments.index("--") + 1 :]
    given = parser.parse_args(own)
    try:
        draws = parse_draws(given.draw)
        results, failed = sweep(given.folder, trials=given.trials, draws=draws, fixed=fixed, seed=given.seed)
    except ValueError as error:
        parser.error(str(error))
    if results:
        print(table_of(results), end="")
    if failed:
        sys.exit(f"{len(failed)} trials failed, as they said above: {', '.join(f'{trial:03d}' for trial in failed)}")


if __name__ == "__main__":
    main(sys.argv[1:])
