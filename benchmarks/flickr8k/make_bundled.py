"""Make the bundled photo captioners, from ImageNet weights to the folders that ship.

    python benchmarks/flickr8k/make_bundled.py --data-dir FLICKR8K --boxes BOXES \\
        --output-dir runs/bundled

Each entry of STAGES is one call of `keras_sat.fit`, which starts from the captioner of
an earlier stage, from a finished captioner or from ImageNet weights. FINISHES says what
then becomes of it: the script averages weights, rounds them to 8 bits, indexes the
words of the training photos, fits the confidence, and scores the dev split.
OUTPUT_DIR/NAME is the captioner, and record.json in it says how it was made: settings,
epochs, dev figures, hours and commit of every stage. `bundle.py` puts that folder into
the package.

Killed and run again, the script goes on after the last whole epoch. SIGTERM and Ctrl-C
pause it in the same way.

To see what a setting is worth, make a captioner with another one. `--reuse` takes the
stages before it from another run:

    ... flickr8k --output-dir a --reuse runs/bundled --set flickr8k-rewards.box_weight=0
"""

import argparse
import ast
import dataclasses
import functools
import json
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from blend import blend, joined
from own_words import Clock

import keras_sat
from data_utils import photos_of_split, read_data
from data_utils.base import read_json, write_json, write_whole
from keras_sat import Captioner
from keras_sat.after_search import CONSENSUS_WEIGHT, Consensus, calibrate
from keras_sat.files import save_records


@dataclass(frozen=True)
class Stage:
    """One call of `keras_sat.fit`.

    Attributes:
        starts_from: the name of an earlier stage or of a finished captioner; None:
            ImageNet weights.
        settings: the arguments of `fit`, without data, seed and folders.
    """

    starts_from: str | None
    settings: dict


@dataclass(frozen=True)
class Finish:
    """How a bundled captioner is made from trained ones.

    Attributes:
        blend: dict from stages to the fractions with which their weights are averaged.
        options: of the captioner, as for `Captioner.adapted`.
    """

    blend: dict
    options: dict = field(default_factory=dict)


_PRESET = {"preset": "flickr8k-lite0", "dtype": "mixed_bfloat16"}
_CROSS_ENTROPY = {**_PRESET, "self_critical_epochs": 0}
_REWARDS = {**_PRESET, "epochs": 0}
_BOXES = {"box_weight": 1.0}
_FROZEN = {
    "encoder_training": "frozen",
    "encoder_rate": 1.0,
    "first_layer_rate": 1.0,
    "photo_jitter": 0.0,
}
_HARD = {"attention": "hard", **_FROZEN, "num_views": 1}

STAGES = {
    "flickr8k-words": Stage(None, {**_CROSS_ENTROPY, **_BOXES, "epochs": 10}),
    "flickr8k-rewards": Stage("flickr8k-words", {**_REWARDS, **_BOXES, "self_critical_epochs": 4}),
    "hard-words": Stage(
        "flickr8k",
        {**_CROSS_ENTROPY, **_BOXES, **_HARD, "epochs": 2, "learning_rate": 3e-4},
    ),
    "hard-rewards": Stage("hard-words", {**_REWARDS, **_BOXES, **_HARD, "self_critical_epochs": 1}),
    "paper-words": Stage(
        None,
        {
            "preset": "flickr8k",
            "dtype": "mixed_bfloat16",
            "encoder": "efficientnet_lite0",
            "encoder_layer": "block_4",
            "trained_up_to": "top",
            "encoder_rate": 0.1,
            "num_views": 6,
            "epochs": 10,
            "no_repeat_ngram": 3,
        },
    ),
}

# Settings with which all stages take a few minutes, to try this script.
SMALL = {
    "image_size": 64,
    "grid": "4x4",
    "embedding_dim": 16,
    "hidden_dim": 16,
    "attention_dim": 16,
    "feature_projection_dim": 16,
    "num_views": 1,
    "min_count": 1,
}
PHASES = ("epochs", "self_critical_epochs")

_SEARCH = {"length_penalty": 0.4, "consensus_weight": CONSENSUS_WEIGHT}
FINISHES = {
    "flickr8k": Finish({"flickr8k-words": 0.25, "flickr8k-rewards": 0.75}, _SEARCH),
    "flickr8k-hard": Finish({"hard-words": 0.5, "hard-rewards": 0.5}, _SEARCH),
    "flickr8k-paper": Finish({"paper-words": 1.0}),
}


class Paused(Exception):
    """SIGTERM or Ctrl-C stopped a stage before its end."""


@dataclass(frozen=True)
class Maker:
    """Trains stages and finishes captioners.

    Attributes:
        stages, finishes: dicts from names to Stages and Finishes.
        fit: `keras_sat.fit` with the data and the weights of the encoder.
        photos: list of CaptionedImage.
        boxes: path of the boxes.
        seed: of all stages.
        directory: the folder for stages and captioners.
        reused: a folder of another run, from which stages made in the same way are
            taken, or None.
    """

    stages: dict
    finishes: dict
    fit: functools.partial
    photos: list
    boxes: Path
    seed: int
    directory: Path
    reused: Path | None = None

    def trained(self, name):
        """Return the folder of a stage, which is trained if it is not there yet."""
        for directory in filter(None, (self.directory, self.reused)):
            record = _record_of_stage(directory / name)
            if record is not None and record["made_by"] == self.made_by(name):
                return directory / name
        stage, folder = self.stages[name], self.directory / name
        start = None
        if stage.starts_from in self.finishes:
            start = self.finished(stage.starts_from)
        elif stage.starts_from is not None:
            start = _captioner_of(self.trained(stage.starts_from))
        print(f"\n{name}", flush=True)
        clock = Clock(folder / "seconds.json")
        has_boxes = stage.settings.get("box_weight", 0) > 0
        captioner = self.fit(
            initial_model=start,
            boxes=self.boxes if has_boxes else None,
            seed=self.seed,
            output_dir=folder,
            callbacks=[clock],
            **stage.settings,
        )
        if captioner.history.was_interrupted:
            raise Paused(name)
        clock.add()
        record = {
            "made_by": self.made_by(name),
            "epochs": {metric: [*values] for metric, values in captioner.history.items()},
            "hours": clock.total["wall"] / 3600,
            "processor_hours": clock.total["cpu"] / 3600,
            "commit": commit(),
        }
        write_json(folder / "stage.json", record)
        return folder

    def made_by(self, name):
        """Return how a stage or a finished captioner is made: a list of the stages from
        the first one to it, each a dict of its name, settings and seed, and of the
        finishes, each a dict of its name and fields.
        """
        if name in self.finishes:
            finish = self.finishes[name]
            before = [each for stage in finish.blend for each in self.made_by(stage)]
            steps = [*before, {"finish": name, **dataclasses.asdict(finish)}]
            return [step for number, step in enumerate(steps) if step not in steps[:number]]
        stage = self.stages[name]
        before = [] if stage.starts_from is None else self.made_by(stage.starts_from)
        return [*before, {"stage": name, "settings": stage.settings, "seed": self.seed}]

    def finished(self, name):
        """Return the folder of a finished captioner; make it from the trained ones, if
        it is not there yet.
        """
        finish, folder = self.finishes[name], self.directory / name
        path, made_by = folder.with_name(f"{name}.json"), self.made_by(name)
        if path.exists() and read_json(path) == made_by:
            return folder
        folders = [self.trained(stage) for stage in finish.blend]
        print(f"\n{name}: finishing", flush=True)
        captioner = self._blended(folders, finish)
        captioner.save(folder, precision="int8")
        captioner = Captioner.load(folder)  # with the rounded weights
        if captioner.search_settings.consensus_weight:
            captioner.consensus = Consensus.build(captioner, photos_of_split(self.photos, "train"))
        calibration = calibrate(captioner, photos_of_split(self.photos, "dev"))
        save_records(captioner, folder)
        table = keras_sat.evaluate(captioner, self.photos, split="dev", boxes=self.boxes)
        table.to_json(self.directory / f"{name}-dev.json")
        print(table)
        stages = self._records_of(step["stage"] for step in made_by if "stage" in step)
        record = {
            "captioner": name,
            "weights_digest": captioner.weights_digest(),
            "test": None,  # whoever has the test photos scores it once
            "commit": commit(),
            "hours": sum(stage["hours"] for stage in stages.values()),
            "processor_hours": sum(stage["processor_hours"] for stage in stages.values()),
            "stages": stages,
            "finish": dataclasses.asdict(finish),
            "dev": {
                "scores": table.scores,
                "statistics": table.statistics,
                "grounding": table.grounding,
                "grounding_generated": table.grounding_generated,
                "calibration": calibration.to_dict(),
            },
        }
        write_whole(folder / "record.json", json.dumps(record, indent=1))
        write_json(path, made_by)
        return folder

    def _blended(self, folders, finish):
        """Return the captioner with the mean weights of the stages in these folders."""
        trained = [Captioner.load(_captioner_of(folder)) for folder in folders]
        captioner = blend(trained, [*finish.blend.values()])
        if captioner.settings.encoder.trained_up_to is not None:
            captioner = joined(captioner)  # frozen and trained layers in one encoder
        captioner = captioner.adapted(**finish.options)
        if captioner.photo_encoder.is_saved:
            # The path of the weights that its training began with is of this machine.
            captioner.photo_encoder.note_weights("imagenet")
        return captioner

    def _records_of(self, names):
        """Return the records of stages, a dict by their names, without repeating what
        came before each.
        """
        records = {}
        for name in names:
            record = _record_of_stage(self.trained(name))
            *_, last = record.pop("made_by")
            starts_from = self.stages[name].starts_from
            records[name] = {"starts_from": starts_from, **last, **record}
            del records[name]["stage"]
        return records


def _record_of_stage(folder):
    """Return the record of a stage; None if it is not complete."""
    path = folder / "stage.json"
    return read_json(path, "the record of a stage") if path.exists() else None


def _captioner_of(folder):
    """Return the folder of the captioner that a stage ended with."""
    for phase in ("self_critical", "."):
        if (folder / phase / "model").exists():
            return folder / phase / "model"
    raise ValueError(f"This stage has no captioner. Received: {folder}")


def commit():
    """Return the commit of this file's clone; None outside of one.

    A plus sign at the end says that files differ from it.
    """
    git = ["git", "-C", str(Path(__file__).parent)]
    described = [*git, "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"]
    try:
        return subprocess.run(described, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def small(stages):
    """Return stages with SMALL settings, of one epoch each."""
    changed = {}
    for name, stage in stages.items():
        one_epoch = {phase: min(stage.settings.get(phase, 0), 1) for phase in PHASES}
        settings = {**stage.settings, **SMALL, **one_epoch}
        if "encoder_layer" in settings:
            del settings["grid"]  # the paper's encoder has the grid of its last layer
        changed[name] = dataclasses.replace(stage, settings=settings)
    return changed


def with_changes(stages, finishes, changes):
    """Return stages and finishes with the changes of `--set`.

    Each change is "STAGE.OPTION=VALUE" for a setting of a stage, or "NAME.FIELD=VALUE"
    for a field of a captioner's Finish, such as its blend.
    """
    stages, finishes = dict(stages), dict(finishes)
    for change in changes:
        place, _, text = change.partition("=")
        name, _, option = place.partition(".")
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):  # a word without quotation marks
            value = text
        if name in stages:
            settings = {**stages[name].settings, option: value}
            stages[name] = dataclasses.replace(stages[name], settings=settings)
        elif name in finishes and hasattr(finishes[name], option):
            finishes[name] = dataclasses.replace(finishes[name], **{option: value})
        else:
            raise ValueError(
                "Expected STAGE.OPTION=VALUE or NAME.FIELD=VALUE, with a stage of "
                f"{[*stages]}, or a name of {[*finishes]}. Received: {change!r}"
            )
    return stages, finishes


def parser():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"captioners ({', '.join(FINISHES)})"
    )
    parser.add_argument("--data-dir", type=Path, required=True, help="the folder of Flickr8k")
    parser.add_argument("--boxes", type=Path, required=True, help="Flickr30k Entities, or JSON")
    parser.add_argument("--output-dir", type=Path, required=True)
    parser.add_argument(
        "--encoder-weights", default="imagenet", help="an .npz file of EfficientNet-Lite0"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reuse", type=Path, metavar="OUTPUT_DIR", help="take stages from there")
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="STAGE.OPTION=VALUE", help="change a setting"
    )
    parser.add_argument("--small", action="store_true", help="small sizes, one epoch a stage")
    parser.add_argument("--stage", choices=STAGES, help="stop after this stage")
    return parser


def main(arguments):
    options = parser().parse_args(arguments)
    names = options.names or [*FINISHES]
    unknown = [name for name in names if name not in FINISHES]
    if unknown:
        sys.exit(f"make_bundled: Expected names of {[*FINISHES]}. Received: {unknown[0]!r}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        stages = small(STAGES) if options.small else STAGES
        stages, finishes = with_changes(stages, FINISHES, options.set)
        maker = Maker(
            stages=stages,
            finishes=finishes,
            fit=functools.partial(
                keras_sat.fit,
                "flickr8k",
                data_dir=options.data_dir,
                encoder_weights=options.encoder_weights,
            ),
            photos=read_data("flickr8k", options.data_dir),
            boxes=options.boxes,
            seed=options.seed,
            directory=options.output_dir,
            reused=options.reuse,
        )
        if options.stage:
            maker.trained(options.stage)
            return
        for name in names:
            maker.finished(name)
    except (Paused, KeyboardInterrupt):
        sys.exit("paused; run the same command again to go on")
    except ValueError as error:
        sys.exit(f"make_bundled: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
