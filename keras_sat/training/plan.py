"""What `fit` would do: `resolve` makes a Plan of the request, the photos and the
machine.

    request = Request("folder", {"epochs": 5, "attention": "hard"})
    print(resolve(request, PhotoCounts(train=400, dev=50), Machine.here("folder")))

It is pure: `fit` reads the files and asks for the devices before, and acts afterwards.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from data_utils.atomic_files import read_sealed_json
from keras_sat import presets
from keras_sat.beyond import calibration, consensus
from keras_sat.beyond.extensions import HOOKS
from keras_sat.captioner import network_in_words
from keras_sat.files.model_folder import EXPECTED, PRETRAINED
from keras_sat.model.encoders import starts_random
from keras_sat.model.photo_encoder import BUNDLED
from keras_sat.model.precision import resolved_dtype
from keras_sat.model.selections import ATTENTIONS
from keras_sat.options import (
    CaptionerOptions,
    SelfCriticalOptions,
    TrainingOptions,
    one_of,
    split_options,
)
from keras_sat.training.history import CROSS_ENTROPY, FEW_DEV_PHOTOS, MONITORED
from keras_sat.training.run_record import recorded_encoder

OPTIONS_OF_FIT = (TrainingOptions, CaptionerOptions, SelfCriticalOptions)
OF_KERAS = ("name", "trainable")  # arguments of Captioner that are not options
# These are fixed in a trained captioner.
PARTS_AND_SIZES = CaptionerOptions.names("encoder", "architecture")


# === What goes in ===


@dataclass(frozen=True)
class Request:
    """What a call of `fit` asks for; the attributes are its arguments.

    Attributes:
        data: the name of the data set, or "photos" for a list.
        options: dict of the options; one that is None has the preset's value or the
            default, unless None is one of its values.
        initial_model: a Captioner, or None. Only `check_request` takes one that is not
            loaded yet.
    """

    data: str
    options: Mapping
    preset: str | None = None
    initial_model: Any = None
    from_scratch: bool = False
    output_dir: str | os.PathLike | None = None
    boxes: Any = None


class PhotoCounts(NamedTuple):
    """The number of photos with a caption in each split."""

    train: int
    dev: int = 0
    test: int = 0

    @classmethod
    def of(cls, images):
        """Count CaptionedImages."""
        splits = [image.split for image in images]
        return cls(*(splits.count(split) for split in cls._fields))


class Machine(NamedTuple):
    """What `resolve` has to know about the computer and what is on it.

    Attributes:
        default_encoder: the encoder that this computer is fit for.
        auto_dtype: what dtype="auto" means on it.
        devices: the devices that train, in words.
        bundled: dict, the options of the bundled photo captioner.
        resumed_encoder: the encoder of the run that is in `output_dir`; None if there
            is none or `output_dir` was left to the default.
    """

    default_encoder: str
    auto_dtype: str
    devices: str
    bundled: Mapping
    resumed_encoder: str | None = None

    @classmethod
    def here(cls, data, output_dir=None, cluster=None):
        """Describe this computer, for the data and the folder of a training.

        Args:
            data: name of a data set, or a list of CaptionedImage.
            cluster: the Cluster that will train; None: one device.
        """
        settings = read_sealed_json(PRETRAINED / presets.DEFAULT_MODEL / "config.json", EXPECTED)
        default_encoder = presets.default_encoder(data)
        resumed_encoder = None if output_dir is None else recorded_encoder(output_dir)
        if cluster is not None:  # the hosts may differ; the chief decides
            default_encoder, resumed_encoder = cluster.broadcast([default_encoder, resumed_encoder])
        return cls(
            default_encoder=default_encoder,
            auto_dtype=resolved_dtype("auto"),
            devices=_devices_in_words(cluster),
            bundled=settings["captioner"],
            resumed_encoder=resumed_encoder,
        )


def _devices_in_words(cluster):
    if cluster is not None and cluster.shares is not None:
        _, num_devices = cluster.shares
        return f"{num_devices} devices of {cluster.num_hosts} hosts"
    num_gpus = len(tf.config.list_physical_devices("GPU"))
    return f"{num_gpus} GPU" if num_gpus else f"CPU, {os.cpu_count()} cores"


# === What comes out ===


@dataclass(frozen=True)
class FitOptions:
    """The options of `fit`, checked and grouped by kind.

    Attributes:
        training: TrainingOptions.
        rewards: SelfCriticalOptions.
        captioner: dict of the options of Captioner that were asked for; the others have
            their default, or that of the initial model.
        encoder_weights: see Captioner; the initial model is loaded with them.
    """

    training: TrainingOptions
    rewards: SelfCriticalOptions
    captioner: dict
    encoder_weights: Any

    @classmethod
    def of(cls, options):
        """Check a dict of the options of `fit` and group them."""
        training, captioner, rewards, of_keras = split_options(
            "fit", options, *OPTIONS_OF_FIT, also=OF_KERAS
        )
        CaptionerOptions.check(**captioner)
        encoder_weights = captioner.pop(
            "encoder_weights", CaptionerOptions.defaults()["encoder_weights"]
        )
        return cls(
            training=TrainingOptions(**training),
            rewards=SelfCriticalOptions(**rewards),
            captioner={**captioner, **of_keras},
            encoder_weights=encoder_weights,
        )


@dataclass(frozen=True)
class Plan:
    """The decisions of a training run. `str` of it is what `fit` would do, in words.

    Attributes:
        data, photos, devices: see Request, PhotoCounts and Machine.
        preset: the name of the preset; "default": none.
        initial_model: "bundled", "given" or None: it starts from random weights.
        options: FitOptions, with the preset's, the user's and the default values.
        network: dict of the captioner's options, those of an initial model included.
        monitored: the metric that chooses the best cross-entropy epoch.
        output_dir: Path.
        notes: lines that say what was decided for the user.
        goes_without: lines that say what the captioner will lack, and why.
    """

    data: str
    photos: PhotoCounts
    devices: str
    preset: str
    initial_model: str | None
    options: FitOptions
    network: Mapping
    monitored: str
    output_dir: Path
    notes: tuple = field(repr=False)
    goes_without: tuple = field(repr=False)

    @property
    def keeps_initial_model(self):
        """Whether the initial model stays if no epoch is better: the bundled one."""
        return self.initial_model == "bundled"

    def __str__(self):
        training = self.options.training
        start = {
            None: "random weights",
            "bundled": f"the bundled captioner, {presets.DEFAULT_MODEL}",
            "given": "the initial model",
        }[self.initial_model]
        if self.keeps_initial_model:
            start += ", which is kept if no epoch is better"
        by = "photo" if training.group_by == "image" else "length of the caption"
        views = f", {training.num_views} views of each photo" if training.num_views > 1 else ""
        metric = "cross-entropy" if self.monitored == CROSS_ENTROPY else "BLEU-4"
        chosen = f"the best by {metric} on dev" if self.photos.dev else "the last one"
        lines = [
            f"data: {self.data}: {self.photos.train} photos in train, {self.photos.dev} in dev, "
            f"{self.photos.test} in test",
            f"preset: {self.preset}",
            f"start: {start}",
            f"captioner: {network_in_words(self.network)}",
            f"batches: {training.batch_size} captions, grouped by {by}{views}",
            f"epochs: {self._epochs_in_words()}; {chosen} is kept",
            f"computed in {training.dtype or 'the default dtype of Keras'} on {self.devices}",
            *self.goes_without,
            f"all files are in {self.output_dir}",
        ]
        return "\n".join(lines)

    def _epochs_in_words(self):
        training = self.options.training
        first = f"at most {training.epochs}"
        if training.patience is not None:
            first += f", fewer after {training.patience} without a better one"
        num_rewarded = self.options.rewards.self_critical_epochs
        phases = [first] if training.epochs else []
        phases += [f"{num_rewarded} self-critical epochs"] if num_rewarded else []
        return ", then ".join(phases)


# === From one to the other ===


def check_request(request, machine):
    """Return the FitOptions of a request as far as they are known without the photos.

    Raise ValueError for wrong ones: before anything is downloaded.
    """
    _, options = _with_preset(request, machine)
    checked = FitOptions.of(options)
    epochs = checked.training.epochs
    has_rewards = checked.rewards.self_critical_epochs > 0
    if epochs == 0 and (request.initial_model is None or not has_rewards):
        raise ValueError(
            "Without an initial_model and self_critical_epochs, `epochs` must be at least 1. "
            f"Received: {epochs=}"
        )
    _check_required(checked, boxes=request.boxes)
    return checked


def _check_required(options, **arguments):
    """Reject options that require an argument of `fit`, and arguments that require
    options; `arguments` contains those that HOOKS require.
    """
    for name, argument in arguments.items():
        weights = {
            option: options.captioner.get(option)
            for option, hook in HOOKS.items()
            if hook.needs == name
        }
        if any(weights.values()) != (argument is not None):
            received = ", ".join(f"{option}={weight}" for option, weight in weights.items())
            raise ValueError(
                f"`{name}` and `{'` or `'.join(weights)}` require each other: pass both or "
                f"neither. Received: {name}={str(argument)[:80]}, {received}"
            )


def resolve(request, photos, machine, record=None):
    """Return the Plan for a Request, PhotoCounts and a Machine.

    Args:
        record: the record of the run that is in the plan's `output_dir` and that is
            resumed, a dict: a resumed run keeps the defaults it was started with. None:
            a new run.
    """
    preset, options = _with_preset(request, machine)
    asked = FitOptions.of(options).captioner
    notes = []
    if request.preset is None and preset != "default":
        notes.append(
            f"using the preset {preset}; preset='default' (--preset default) uses the plain "
            "defaults"
        )

    initial_model, initial_options = None, CaptionerOptions.defaults()
    if request.initial_model is not None:
        initial_model, initial_options = "given", request.initial_model.current_options()
    elif _may_start_from_bundled(request):
        obstacle = _why_not_bundled(FitOptions.of(options), photos, machine.bundled)
        if obstacle is None:
            initial_model, initial_options = "bundled", machine.bundled
        notes.append(_start_in_words(obstacle))
    if initial_model is None and "encoder" not in asked:
        encoder = machine.resumed_encoder or machine.default_encoder
        options, asked = {**options, "encoder": encoder}, {**asked, "encoder": encoder}
        if machine.resumed_encoder is None and encoder == presets.LIGHT_ENCODER:
            notes.append(presets.WITHOUT_GPU)
    network = _network(initial_options, asked)
    defaults, monitored = _defaults(network, photos, record, is_bundled=initial_model == "bundled")

    output_dir = request.output_dir
    if output_dir is None:
        output_dir = f"runs/{request.data}-{network['encoder'] or 'vgg16'}-{network['attention']}"
    return Plan(
        data=request.data,
        photos=photos,
        devices=machine.devices,
        preset=preset,
        initial_model=initial_model,
        options=FitOptions.of(defaults | options),
        network=network,
        monitored=monitored,
        output_dir=Path(output_dir).expanduser(),
        notes=tuple(notes),
        goes_without=_goes_without(photos, network),
    )


def _defaults(network, photos, record, *, is_bundled):
    """Return the defaults of a run, a dict, and the metric that chooses its best epoch;
    a resumed run keeps those in its `record`.
    """
    # "image" encodes each photo once in an epoch, "length" once for each caption.
    is_trained = network["encoder_training"] != "frozen" or network["trained_up_to"] is not None
    defaults = {"group_by": "image" if is_trained else "length"}
    monitored = MONITORED
    if is_bundled:
        defaults |= presets.OWN_PHOTOS
        # From a few photos BLEU-4 chooses by chance, and often an epoch that has
        # learned the training captions by heart.
        monitored = CROSS_ENTROPY if 0 < photos.dev < FEW_DEV_PHOTOS else MONITORED
    if record is not None:
        defaults |= _recorded_values(record, defaults)
        monitored = record.get("monitored", MONITORED)
    return defaults, monitored


def _with_preset(request, machine):
    """Return the name of the preset, and a dict of its settings and the options of the
    request, which override them.
    """
    options = _without_unset(request.options)
    resumed_encoder = machine.resumed_encoder
    preset, settings = "default", {}
    if request.preset is not None:
        one_of(*presets.PRESETS).check("preset", request.preset)
        preset, settings = request.preset, presets.PRESETS[request.preset]
    elif request.initial_model is None:
        encoder = options.get("encoder") or resumed_encoder or machine.default_encoder
        preset = presets.default_preset(request.data, encoder)
        known = options if resumed_encoder is None else {"encoder": resumed_encoder, **options}
        settings = presets.fitting_settings(preset, known)
    options = {**settings, **options}
    if options.get("dtype") == "auto":
        options["dtype"] = machine.auto_dtype  # so that the record has it
    return preset, options


def _without_unset(options):
    """Return the options without those that are None and left to a default."""
    fields = {name: field for cls in OPTIONS_OF_FIT for name, field in cls.fields().items()}
    unset = {name for name, field in fields.items() if field.metadata["none_is_unset"]}
    return {
        name: value for name, value in options.items() if value is not None or name not in unset
    }


def _may_start_from_bundled(request):
    """Return whether the bundled captioner may be the initial model: of the user's own
    photos, without a preset, whose settings are for training from scratch.
    """
    has_preset = request.preset not in (None, "default")
    return request.data == "folder" and not request.from_scratch and not has_preset


def _why_not_bundled(options, photos, bundled):
    """Return why training does not start from the bundled captioner: many photos, or
    options that change its network; None if it does.

    Args:
        options: FitOptions.
        photos: PhotoCounts.
        bundled: dict of the bundled captioner's options.
    """
    asked = options.captioner
    changed = [
        name for name in asked if name in PARTS_AND_SIZES and asked[name] != bundled.get(name)
    ]
    usual_weights = (CaptionerOptions.defaults()["encoder_weights"], BUNDLED, None)
    if options.encoder_weights not in usual_weights:
        changed.append("encoder_weights")
    if not ATTENTIONS[asked.get("attention") or "soft"].chooses:
        changed.append("attention")
    if changed:
        return f"the bundled captioner has a different {', '.join(changed)}"
    if photos.train >= presets.MANY_PHOTOS:
        return f"{photos.train} training photos are enough"
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


def _network(initial_options, asked):
    """Return the options of the captioner that is trained, a dict: those of the initial
    model, or the defaults, changed by those that were asked for.
    """
    network = {**CaptionerOptions.defaults(), **initial_options, **asked}
    encoder = network["encoder"]
    if network["encoder_training"] is None:
        network["encoder_training"] = "scratch" if starts_random(encoder) else "frozen"
    network["encoder"] = getattr(encoder, "name", encoder)  # of a keras.Model
    return network


def _recorded_values(record, names):
    """Return a dict of those options in `names` that a record has, except objects."""
    are_objects = (dict, list)  # as which `describe` records them
    return {
        name: record[name]
        for name in names
        if name in record and not isinstance(record[name], are_objects)
    }


def _goes_without(photos, network):
    """Return what the captioner will lack for want of photos, as a tuple of lines."""
    lines = [without_index(photos.train) if network["consensus_weight"] else None]
    lines.append(without_confidence(photos.dev))
    return tuple(line for line in lines if line is not None)


def without_index(num_photos):
    """Return why there is no index of these training photos; None if there is one."""
    if num_photos >= consensus.FEWEST_PHOTOS:
        return None
    return (
        "no consensus with similar training photos: that takes at least "
        f"{consensus.FEWEST_PHOTOS} training photos, and there are {num_photos}. "
        "Captions are chosen by their probability alone"
    )


def without_confidence(num_photos):
    """Return why no confidence is fitted on these dev photos; None if it is."""
    if num_photos >= calibration.FEWEST_PHOTOS:
        return None
    return (
        f"no confidence: that takes at least {calibration.FEWEST_PHOTOS} dev photos, and "
        f"there are {num_photos}. No caption will be marked as unsure"
    )
