"""What `fit` would do: `make_plan` decides it from the options, the number of photos
and the computer.

    options = {"epochs": 5, "attention": "hard"}
    computer = this_computer()
    print(make_plan("folder", {"train": 400, "dev": 50}, options, **computer))

It is pure: `fit` reads the files and asks for the devices before, and acts afterwards.
"""

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from data_utils.base import read_sealed_json
from keras_sat import presets
from keras_sat.after_search import FEWEST_DEV_PHOTOS, FEWEST_TRAINING_PHOTOS
from keras_sat.bounds import one_of
from keras_sat.captioner import network_in_words
from keras_sat.files import BUNDLED_MODELS, EXPECTED_MODEL
from keras_sat.learning import TERMS
from keras_sat.network import ATTENTIONS, BUNDLED, resolved_dtype, usual_training
from keras_sat.settings import CaptionerSettings, Encoder, Features, FitSettings, Network
from keras_sat.training.history import CROSS_ENTROPY, FEW_DEV_PHOTOS, MONITORED
from keras_sat.training.run_record import REWARDS, recorded_encoder

CPU = "CPU"  # what `devices` begins with, without a GPU
CAPTIONER_ARGUMENTS = ("name", "trainable")  # arguments of Captioner that are not settings
# Of the settings of encoder, features and network, those that are not fixed once a
# captioner is trained.
NOT_FIXED = {"attention", "encoder_weights", "grid", "image_size", "photo_blur", "seed"}
NOT_FIXED |= {"dropout_words", "dropout_before_readout", "dropout_after_readout", "feature_dropout"}
FIXED = [*Encoder.names(), *Features.names(), *Network.names()]
FIXED = [name for name in FIXED if name not in NOT_FIXED]


# === What it is decided from ===


def options_to_set(options, *, preset=None, initial_model=None):
    """Return a dict of those options of `fit` that are set: one that is None has the
    preset's value or the default, unless None is one of its values.

    Wrong ones raise ValueError. `fit` calls it before anything is read or downloaded.
    """
    fields = FitSettings.fields()
    options = {
        name: value
        for name, value in options.items()
        if value is not None or name not in fields or not fields[name].metadata["none_is_unset"]
    }
    settings = _settings_of(options)
    if preset is not None and preset not in presets.RENAMED:
        one_of(*presets.PRESETS).check("preset", preset)
    epochs = settings.cross_entropy.epochs
    has_rewards = settings.rewards.self_critical_epochs > 0
    if epochs == 0 and (initial_model is None or not has_rewards):
        raise ValueError(
            "Without an initial_model and self_critical_epochs, `epochs` must be at least 1. "
            f"Received: {epochs=}"
        )
    known = [*fields, *CAPTIONER_ARGUMENTS]  # without those that were removed
    return {name: value for name, value in options.items() if name in known}


def _settings_of(options):
    """Return the FitSettings of options that are set, with the plain default of each
    other.
    """
    settings = {name: value for name, value in options.items() if name not in CAPTIONER_ARGUMENTS}
    return FitSettings.of("fit", settings, also=CAPTIONER_ARGUMENTS)


def check_required(options, **arguments):
    """Reject options, the weights of terms of the loss, that require an argument of
    `fit`, and arguments that require options; `arguments` contains those that terms
    need.
    """
    loss = _settings_of(options).loss
    for name, argument in arguments.items():
        weights = {
            option: getattr(loss, option) for option, term in TERMS.items() if term.needs == name
        }
        if any(weights.values()) != (argument is not None):
            received = ", ".join(f"{option}={weight}" for option, weight in weights.items())
            raise ValueError(
                f"`{name}` and `{'` or `'.join(weights)}` require each other: pass both or "
                f"neither. Received: {name}={str(argument)[:80]}, {received}"
            )


def this_computer(output_dir=None, cluster=None):
    """Return what `make_plan` has to know about this computer and what is on it, a dict
    of its keyword arguments.

    Args:
        output_dir: the folder of the training, if it is given.
        cluster: the Cluster that will train; None: one device.
    """
    path = BUNDLED_MODELS / presets.DEFAULT_MODEL / "config.json"
    bundled = read_sealed_json(path, EXPECTED_MODEL)["captioner"]
    del bundled["name"]
    resumed_encoder = None if output_dir is None else recorded_encoder(output_dir)
    if cluster is not None:  # the hosts may differ; the chief decides
        resumed_encoder = cluster.broadcast(resumed_encoder)
    return {
        "auto_dtype": resolved_dtype("auto"),
        "devices": _devices_in_words(cluster),
        "bundled": CaptionerSettings.of(path, bundled),
        "resumed_encoder": resumed_encoder,
    }


def _devices_in_words(cluster):
    if cluster is not None and cluster.shares is not None:
        _, num_devices = cluster.shares
        return f"{num_devices} devices of {cluster.num_hosts} hosts"
    num_gpus = len(tf.config.list_physical_devices("GPU"))
    return f"{num_gpus} GPU" if num_gpus else f"{CPU}, {os.cpu_count()} cores"


# === What is decided ===


class Phase(NamedTuple):
    """One phase of a training run: epochs with one objective.

    Attributes:
        prefix: what messages put before "epoch" and "training".
        num_epochs: the most epochs that it has.
        learning_rate: a number or a Keras schedule.
        folder: the name of its folder in that of the run; "": that folder itself.
        monitored: the metric that decides which epoch is the best.
    """

    prefix: str
    num_epochs: int
    learning_rate: Any
    folder: str
    monitored: str


@dataclass(frozen=True)
class Plan:
    """The decisions of a training run. `str` of it is what `fit` would do, in words.

    Attributes:
        data: the name of the data set.
        num_photos: dict from splits to their number of photos with a caption.
        devices: the devices that train, in words.
        preset: the name of the preset; "default": none.
        initial_model: "bundled", "passed" or None: it starts from random weights.
        settings: FitSettings: what was chosen, and else the values of the initial model
            or the defaults.
        chosen: the names of the settings that the call chose, or its preset.
        keras_options: dict of the arguments of Captioner that are not its settings.
        encoder_name: the name of the encoder, or None.
        monitored: the metric that chooses the best cross-entropy epoch.
        output_dir: Path.
        notes: lines that say what was decided for the user.
        goes_without: lines that say what the captioner will lack, and why.
    """

    data: str
    num_photos: Mapping
    devices: str
    preset: str
    initial_model: str | None
    settings: FitSettings
    chosen: frozenset
    keras_options: Mapping
    encoder_name: str | None
    monitored: str
    output_dir: Path
    notes: tuple = field(repr=False)
    goes_without: tuple = field(repr=False)

    @property
    def words(self):
        """The phase of cross-entropy, which trains on the words of given captions."""
        rate, epochs = self.settings.optimizer.learning_rate, self.settings.cross_entropy.epochs
        return Phase("", epochs, rate, "", self.monitored)

    @property
    def rewards(self):
        """The self-critical phase, which trains on the CIDEr of whole captions."""
        rewards = self.settings.rewards
        rate, epochs = rewards.self_critical_rate, rewards.self_critical_epochs
        return Phase("self-critical ", epochs, rate, REWARDS, "val_cider")

    @property
    def phases(self):
        """The list of the phases that have epochs, in their order."""
        return [phase for phase in (self.words, self.rewards) if phase.num_epochs]

    @property
    def keeps_initial_model(self):
        """Whether the initial model stays if no epoch is better: the bundled one."""
        return self.initial_model == "bundled"

    def chosen_for_captioner(self):
        """Return a dict of those chosen settings that a captioner takes, and the seed:
        what changes in an initial model, which is loaded with the `encoder_weights`.
        """
        values = self.settings.captioner.to_dict()
        names = self.chosen.union(["seed"]) - {"encoder_weights"}
        return {name: value for name, value in values.items() if name in names}

    def resumed(self, record):
        """Return the plan of a run that is resumed: it keeps the defaults that it was
        started with.

        Args:
            record: the record of the run in `output_dir`, a dict; None: a new run.
        """
        if record is None:
            return self
        names = ["group_by", *(presets.OWN_PHOTOS if self.initial_model == "bundled" else ())]
        recorded = _recorded_values(record, [name for name in names if name not in self.chosen])
        return dataclasses.replace(
            self,
            settings=self.settings.replace(**recorded),
            monitored=record.get("monitored", MONITORED),
        )

    def __str__(self):
        words, training = self.settings.cross_entropy, self.settings.training
        start = {
            None: "random weights",
            "bundled": f"the bundled captioner, {presets.DEFAULT_MODEL}",
            "passed": "the initial model",
        }[self.initial_model]
        if self.keeps_initial_model:
            start += ", which is kept if no epoch is better"
        by = "photo" if words.group_by == "image" else "length of the caption"
        views = f", {words.num_views} views of each photo" if words.num_views > 1 else ""
        metric = "cross-entropy" if self.monitored == CROSS_ENTROPY else "BLEU-4"
        num_train, num_dev, num_test = self.num_photos.values()
        chosen = f"the best by {metric} on dev" if num_dev else "the last one"
        lines = [
            f"data: {self.data}: {num_train} photos in train, {num_dev} in dev, {num_test} in test",
            f"preset: {self.preset}",
            f"start: {start}",
            f"captioner: {network_in_words(self.settings, self.encoder_name)}",
            f"batches: {training.batch_size} captions, grouped by {by}{views}",
            f"epochs: {self._epochs_in_words()}; {chosen} is kept",
            f"computed in {training.dtype or 'the default dtype of Keras'} on {self.devices}",
            *self.goes_without,
            f"all files are in {self.output_dir}",
        ]
        return "\n".join(lines)

    def _epochs_in_words(self):
        epochs, patience = self.settings.cross_entropy.epochs, self.settings.training.patience
        first = f"at most {epochs}"
        if patience is not None:
            first += f", fewer after {patience} without a better one"
        num_rewarded = self.settings.rewards.self_critical_epochs
        phases = [first] if epochs else []
        phases += [f"{num_rewarded} self-critical epochs"] if num_rewarded else []
        return ", then ".join(phases)


# === How it is decided ===


def make_plan(
    data,
    num_photos,
    options,
    *,
    preset=None,
    initial_model=None,
    from_scratch=False,
    output_dir=None,
    auto_dtype,
    devices,
    bundled,
    resumed_encoder=None,
):
    """Return the Plan of a training run.

    Args:
        data: the name of the data set, or "photos" for a list.
        num_photos: dict from "train", "dev" and "test" to their number of photos with a
            caption; a split that is left out has none.
        options: dict of the options of `fit`.
        preset, from_scratch, output_dir: see `fit`.
        initial_model: a Captioner or None.
        auto_dtype: what dtype="auto" means on it.
        devices: the devices that train, in words.
        bundled: CaptionerSettings of the bundled photo captioner.
        resumed_encoder: the encoder of the run that is in `output_dir`; None if there
            is none or `output_dir` was left to the default.
    """
    num_photos = {split: num_photos.get(split, 0) for split in ("train", "dev", "test")}
    options = options_to_set(options, preset=preset, initial_model=initial_model)
    settings = _settings_of(options)
    keras_options = {name: options[name] for name in CAPTIONER_ARGUMENTS if name in options}
    passed = {name: value for name, value in options.items() if name not in keras_options}
    encoder = resumed_encoder or presets.default_encoder(data)
    name, preset_settings = _preset_of(data, passed, preset, initial_model, encoder)
    settings = settings.replace(**preset_settings)
    chosen = frozenset([*passed, *preset_settings])
    notes = []
    if preset is None and name != "default":
        notes.append(
            f"using the preset {name}; preset='default' (--preset default) uses the plain defaults"
        )

    start, initial_settings = None, None
    if initial_model is not None:
        start, initial_settings = "passed", initial_model.settings
    elif data == "folder" and not from_scratch and name == "default":
        obstacle = _why_not_bundled(settings, chosen, num_photos["train"], bundled)
        if obstacle is None:
            start, initial_settings = "bundled", bundled
        notes.append(_start_in_words(obstacle))
    if start is None and "encoder" not in chosen:
        settings, chosen = settings.replace(encoder=encoder), chosen | {"encoder"}

    defaults = {}
    if initial_settings is not None:
        defaults |= initial_settings.to_dict()
        del defaults["seed"], defaults["encoder_weights"]  # which are those of the run
    if start == "bundled":
        defaults |= presets.OWN_PHOTOS
    settings = settings.replace(
        **{name: value for name, value in defaults.items() if name not in chosen}
    )
    encoder = settings.encoder.encoder
    encoder_name = getattr(encoder, "name", encoder)
    if initial_model is not None:  # a saved one may lack an encoder of the user's own
        encoder_name = initial_model.encoder
    settings = settings.replace(**_left_to_encoder(settings))
    if devices.startswith(CPU) and encoder_name == presets.HEAVY_ENCODER and start is None:
        notes.append(presets.advice_on_a_cpu(name))
    if settings.training.dtype == "auto":
        settings = settings.replace(dtype=auto_dtype)  # so that the record has it
    if settings.training.dtype is not None:
        keras_options["dtype"] = settings.training.dtype

    if output_dir is None:
        attention = settings.network.attention
        output_dir = f"runs/{data}-{encoder_name or 'vgg16'}-{attention}"
    return Plan(
        data=data,
        num_photos=num_photos,
        devices=devices,
        preset=name,
        initial_model=start,
        settings=settings,
        chosen=chosen,
        keras_options=keras_options,
        encoder_name=encoder_name,
        monitored=_monitored(num_photos["dev"], is_bundled=start == "bundled"),
        output_dir=Path(output_dir).expanduser(),
        notes=tuple(notes),
        goes_without=_goes_without(num_photos, settings),
    )


def _preset_of(data, passed, preset, initial_model, encoder):
    """Return the name of the preset, and a dict of its settings, without those that
    were passed.

    A preset is for training from scratch: with an initial model there is none, unless
    it is asked for.

    Args:
        data, preset, initial_model: see `make_plan`.
        passed: dict of the settings that were passed.
        encoder: the encoder if none was passed.
    """
    own_encoder = {}  # of a preset that was asked for
    if preset is not None:
        preset = presets.RENAMED.get(preset, preset)
        if "encoder" in presets.PRESETS[preset]:
            own_encoder = {"encoder": presets.PRESETS[preset]["encoder"]}
    elif initial_model is not None:
        return "default", {}
    else:
        preset = presets.default_preset(data, None if "encoder" in passed else encoder)
    given = {"encoder": encoder, **own_encoder, **passed}
    settings = own_encoder | presets.fitting_settings(preset, given)
    return preset, {name: value for name, value in settings.items() if name not in passed}


def _left_to_encoder(settings):
    """Return a dict of the settings that depend on the encoder, where they are None:
    how it is trained, and how captions are grouped. "image" encodes each photo once in
    an epoch, "length" once for each caption.
    """
    training = settings.encoder.encoder_training or usual_training(settings.encoder.encoder)
    is_trained = training != "frozen" or settings.encoder.trained_up_to is not None
    group_by = settings.cross_entropy.group_by or ("image" if is_trained else "length")
    return {"encoder_training": training, "group_by": group_by}


def _monitored(num_dev, *, is_bundled):
    """Return the metric that chooses the best cross-entropy epoch.

    From a few photos BLEU-4 chooses by chance, and often an epoch that has learned the
    training captions by heart.
    """
    has_few = 0 < num_dev < FEW_DEV_PHOTOS
    return CROSS_ENTROPY if is_bundled and has_few else MONITORED


def _why_not_bundled(settings, chosen, num_train, bundled):
    """Return why training does not start from the bundled captioner: many photos, or
    settings that change its network; None if it does.

    Args:
        settings, chosen: see Plan.
        num_train: number of training photos.
        bundled: CaptionerSettings of the bundled captioner.
    """
    asked, has = settings.to_dict(), bundled.to_dict()
    changed = [name for name in FIXED if name in chosen and asked[name] != has[name]]
    if settings.encoder.encoder_weights not in (Encoder().encoder_weights, BUNDLED, None):
        changed.append("encoder_weights")
    if not ATTENTIONS[settings.network.attention].has_attention:
        changed.append("attention")
    if changed:
        return f"the bundled captioner has a different {', '.join(changed)}"
    if num_train >= presets.MANY_PHOTOS:
        return f"{num_train} training photos are enough"
    return None


def _start_in_words(obstacle):
    """Return the note on whether training starts from the bundled captioner; see
    `_why_not_bundled`.
    """
    if obstacle is not None:
        return f"training from scratch: {obstacle}"
    return (
        f"starting from the bundled captioner, {presets.DEFAULT_MODEL}; from_scratch "
        "(--from-scratch) avoids it. Its weights are for research and education only, not for "
        "commercial use (docs/model-card.md)"
    )


def _recorded_values(record, names):
    """Return a dict of those options in `names` that a record has, except objects."""
    are_objects = (dict, list)  # as which `describe` records them
    return {
        name: record[name]
        for name in names
        if name in record and not isinstance(record[name], are_objects)
    }


def _goes_without(num_photos, settings):
    """Return what the captioner will lack for want of photos, as a tuple of lines."""
    lines = [without_index(num_photos["train"]) if settings.search.consensus_weight else None]
    lines.append(without_confidence(num_photos["dev"]))
    return tuple(line for line in lines if line is not None)


def without_index(num_photos):
    """Return why there is no index of these training photos; None if there is one."""
    if num_photos >= FEWEST_TRAINING_PHOTOS:
        return None
    return (
        "no consensus with similar training photos: that takes at least "
        f"{FEWEST_TRAINING_PHOTOS} training photos, and there are {num_photos}. "
        "Captions are chosen by their probability alone"
    )


def without_confidence(num_photos):
    """Return why no confidence is fitted on these dev photos; None if it is."""
    if num_photos >= FEWEST_DEV_PHOTOS:
        return None
    return (
        f"no confidence: that takes at least {FEWEST_DEV_PHOTOS} dev photos, and "
        f"there are {num_photos}. No caption will be marked as unsure"
    )
