"""Make the bundled photo captioners, from ImageNet weights to the folders that ship.

    python benchmarks/flickr8k/make_bundled.py --data-dir FLICKR8K --boxes BOXES \\
        --output-dir runs/bundled

Each entry of RECIPES is one call of `keras_sat.fit`, and what then becomes of the
captioner: the script averages the weights of before and after the rewards, rounds them
to 8 bits, indexes the words of the training photos, fits the confidence, and scores the
dev split. OUTPUT_DIR/NAME is the captioner, and record.json in it says how it was made:
settings, epochs, dev figures, hours and commit. `bundle.py` puts that folder into the
package.

`--finish-again` trains nothing: it gives bundled captioners the options of their
recipes, such as a larger size of photos, with a new index, confidence and figures.

Killed and run again, the script goes on after the last whole epoch. SIGTERM and Ctrl-C
pause it in the same way.

To see what a setting is worth, make a captioner with another one:

    ... flickr8k --output-dir runs/trial --set flickr8k.box_weight=0
"""

import argparse
import ast
import csv
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
from keras_sat.files import BUNDLED_MODELS, save_records


@dataclass(frozen=True)
class Recipe:
    """How a captioner is made.

    Attributes:
        training: the arguments of `fit`, without data, seed and folders.
        starts_from: the name of the captioner that training starts from; None: ImageNet
            weights.
        rewards_share: of the weights after the self-critical epochs in the mean with
            those before.
        options: of the finished captioner, as for `Captioner.adapted`.
    """

    training: dict
    starts_from: str | None = None
    rewards_share: float = 1.0
    options: dict = field(default_factory=dict)


_PRESET = {"preset": "flickr8k-lite0", "box_weight": 3.0, "dtype": "mixed_bfloat16"}
# Trained on the small ones, in half the time, they look better at the large ones.
_SMALL_PHOTOS = {"image_size": 224, "grid": "14x14"}
_LARGE_PHOTOS = {"image_size": 320, "grid": "20x20"}
_SEARCH = {"length_penalty": 0.4, "consensus_weight": CONSENSUS_WEIGHT}

RECIPES = {
    "flickr8k": Recipe(
        _PRESET,
        rewards_share=0.75,
        options={**_LARGE_PHOTOS, **_SEARCH},
    ),
    "flickr8k-hard": Recipe(
        {
            **_PRESET,
            "attention": "hard",
            "encoder_training": "frozen",
            "num_views": 1,
            "epochs": 2,
            "learning_rate": 3e-4,
            "self_critical_epochs": 1,
            **_SMALL_PHOTOS,
        },
        starts_from="flickr8k",
        rewards_share=0.5,
        options={**_LARGE_PHOTOS, **_SEARCH},
    ),
    "flickr8k-paper": Recipe(
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
        }
    ),
}

# Settings with which a training takes a few minutes, to try this script.
SMALL = {
    "image_size": 64,
    "grid": "4x4",
    "embedding_dim": 16,
    "hidden_dim": 16,
    "attention_dim": 16,
    "feature_projection_dim": 16,
    "num_views": 1,
    "min_count": 1,
    "epochs": 1,
    "self_critical_epochs": 1,
}


class Paused(Exception):
    """SIGTERM or Ctrl-C stopped a training before its end."""


@dataclass(frozen=True)
class Maker:
    """Trains and finishes captioners.

    Attributes:
        recipes: dict from names to Recipes.
        fit: `keras_sat.fit` with the data and the weights of the encoder.
        photos: list of CaptionedImage.
        boxes: path of the boxes.
        seed: of all trainings.
        directory: the folder for trainings and captioners.
    """

    recipes: dict
    fit: functools.partial
    photos: list
    boxes: Path
    seed: int
    directory: Path

    def made_by(self, name):
        """Return how a captioner is made: a list of dicts of the name, the seed and the
        fields of its recipe, with those of the captioner that it starts from first.
        """
        recipe = self.recipes[name]
        before = [] if recipe.starts_from is None else self.made_by(recipe.starts_from)
        return [*before, {"captioner": name, "seed": self.seed, **dataclasses.asdict(recipe)}]

    def finished(self, name):
        """Return the folder of a finished captioner; make it if it is not there yet."""
        recipe, folder = self.recipes[name], self.directory / name
        path, made_by = self.directory / f"{name}.json", self.made_by(name)
        if path.exists() and read_json(path) == made_by:
            return folder
        start = None if recipe.starts_from is None else self.finished(recipe.starts_from)
        training = self._trained(name, start)
        captioner = _averaged(self._folder_of_training(name), recipe)
        how = {"commit": commit(), "made_by": made_by, **training}
        self._finish(name, captioner.adapted(**recipe.options), how)
        write_json(path, made_by)
        return folder

    def finished_again(self, name):
        """Give a bundled captioner the options of its recipe, which change how it reads
        photos and searches, without training.
        """
        options = self.recipes[name].options
        how = read_json(BUNDLED_MODELS / name / "record.json")
        how["finished_again"] = {"options": options, "commit": commit()}
        self._finish(name, Captioner.from_pretrained(name).adapted(**options), how)

    def _finish(self, name, captioner, how):
        """Save a captioner in 8 bits, with index, confidence, dev figures and record.

        Args:
            how: a dict for the record: how it was trained.
        """
        print(f"\n{name}: finishing", flush=True)
        folder = self.directory / name
        captioner.save(folder, precision="int8")
        captioner = Captioner.load(folder)  # with the rounded weights
        if captioner.search_settings.consensus_weight:
            captioner.consensus = Consensus.build(captioner, photos_of_split(self.photos, "train"))
        calibration = calibrate(captioner, photos_of_split(self.photos, "dev"))
        save_records(captioner, folder)
        table = keras_sat.evaluate(captioner, self.photos, split="dev", boxes=self.boxes)
        table.to_json(self.directory / f"{name}-dev.json")
        print(table)
        record = {
            **how,
            "weights_digest": captioner.weights_digest(),
            "test": None,  # whoever has the test photos scores it once
            "dev": {
                "scores": table.scores,
                "statistics": table.statistics,
                "grounding": table.grounding,
                "grounding_generated": table.grounding_generated,
                "calibration": calibration.to_dict(),
            },
        }
        write_whole(folder / "record.json", json.dumps(record, indent=1))

    def _folder_of_training(self, name):
        return self.directory / f"{name}-training"

    def _trained(self, name, start):
        """Train a captioner, if that has not been done yet.

        Returns: a dict for its record: the metrics of each epoch, and the hours, with
        those of the captioner that it starts from.
        """
        folder, settings = self._folder_of_training(name), self.recipes[name].training
        print(f"\n{name}: training", flush=True)
        clock = Clock(folder / "seconds.json")
        captioner = self.fit(
            initial_model=start,
            boxes=self.boxes if settings.get("box_weight", 0) > 0 else None,
            seed=self.seed,
            output_dir=folder,
            callbacks=[clock],
            **settings,
        )
        if captioner.history.was_interrupted:
            raise Paused(name)
        clock.add()
        before = {} if start is None else read_json(start / "record.json")
        return {
            "hours": before.get("hours", 0) + clock.total["wall"] / 3600,
            "processor_hours": before.get("processor_hours", 0) + clock.total["cpu"] / 3600,
            "epochs": {
                phase: curves(path.parent / "history.csv")
                for phase, path in _trained_models(folder).items()
            },
        }


def _trained_models(folder):
    """Return the captioners that a training has left: dict from phases to folders."""
    paths = {"words": folder / "model", "rewards": folder / "self_critical" / "model"}
    return {phase: path for phase, path in paths.items() if path.exists()}


def curves(path):
    """Return the metrics in the history.csv of `fit`: dict from names to lists of one
    value for each epoch.
    """
    with path.open(encoding="utf-8", newline="") as file:
        rows = [*csv.DictReader(file)]
    return {name: [float(row[name]) for row in rows] for name in rows[0] if name != "epoch"}


def _averaged(folder, recipe):
    """Return the captioner of a training, with the mean of the weights before and after
    its rewards.
    """
    models = _trained_models(folder)
    share = recipe.rewards_share if "rewards" in models else 0.0
    shares = {"words": 1 - share, "rewards": share}
    captioner = blend(
        [Captioner.load(path) for path in models.values()], [shares[phase] for phase in models]
    )
    if captioner.settings.encoder.trained_up_to is not None:
        captioner = joined(captioner)  # frozen and trained layers in one encoder
    if captioner.photo_encoder.is_saved:
        # The path of the weights that its training began with is of this machine.
        captioner.photo_encoder.note_weights("imagenet")
    return captioner


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


def small(recipe):
    """Return a recipe with SMALL settings and one epoch of each phase."""
    settings = {**recipe.training, **SMALL}
    if "encoder_layer" in settings:
        del settings["grid"]  # the paper's encoder has the grid of its last layer
    options = dict(recipe.options)
    if "image_size" in options:
        options |= {"image_size": 96, "grid": "6x6"}
    return dataclasses.replace(recipe, training=settings, options=options)


def with_changes(recipes, changes):
    """Return recipes with the changes of `--set`.

    Each change is "NAME.OPTION=VALUE": a setting of the training of a captioner, or a
    field of its Recipe, such as `rewards_share`.
    """
    recipes = dict(recipes)
    for change in changes:
        place, _, text = change.partition("=")
        name, _, option = place.partition(".")
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):  # a word without quotation marks
            value = text
        if name not in recipes or not option:
            raise ValueError(
                f"Expected NAME.OPTION=VALUE with a name of {[*recipes]}. Received: {change!r}"
            )
        recipe = recipes[name]
        if not hasattr(recipe, option):
            option, value = "training", {**recipe.training, option: value}
        recipes[name] = dataclasses.replace(recipe, **{option: value})
    return recipes


def parser():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"captioners ({', '.join(RECIPES)})"
    )
    parser.add_argument("--data-dir", type=Path, required=True, help="the folder of Flickr8k")
    parser.add_argument("--boxes", type=Path, required=True, help="Flickr30k Entities, or JSON")
    parser.add_argument("--output-dir", type=Path, required=True)
    parser.add_argument(
        "--encoder-weights", default="imagenet", help="an .npz file of EfficientNet-Lite0"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="NAME.OPTION=VALUE", help="change a setting"
    )
    parser.add_argument(
        "--finish-again",
        action="store_true",
        help="do not train: give bundled captioners the options of their recipes",
    )
    parser.add_argument("--small", action="store_true", help="small sizes, one epoch a phase")
    return parser


def main(arguments):
    options = parser().parse_args(arguments)
    names = options.names or [*RECIPES]
    unknown = [name for name in names if name not in RECIPES]
    if unknown:
        sys.exit(f"make_bundled: Expected names of {[*RECIPES]}. Received: {unknown[0]!r}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        recipes = {
            name: small(recipe) if options.small else recipe for name, recipe in RECIPES.items()
        }
        maker = Maker(
            recipes=with_changes(recipes, options.set),
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
        )
        for name in names:
            (maker.finished_again if options.finish_again else maker.finished)(name)
    except (Paused, KeyboardInterrupt):
        sys.exit("paused; run the same command again to go on")
    except ValueError as error:
        sys.exit(f"make_bundled: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
