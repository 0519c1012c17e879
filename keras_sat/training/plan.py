"""The options of a training run, grouped by kind, and the plan that all its phases
share.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keras_sat.beyond.extensions import FURTHER_EPOCHS, HOOKS
from keras_sat.model.precision import resolved_dtype
from keras_sat.options import CaptionerOptions, TrainingOptions, split_options
from keras_sat.training.distributed import Cluster
from keras_sat.training.photos import TrainingPhotos
from keras_sat.training.run_record import describe

OPTIONS_OF_FIT = (
    TrainingOptions,
    CaptionerOptions,
    *(epochs.options for epochs in FURTHER_EPOCHS.values()),
)
OF_KERAS = ("name", "trainable")  # arguments of Captioner that are not options


def without_defaults(options):
    """Return the options of `fit`, without those that are None and left to a preset or
    default.
    """
    fields = {name: field for cls in OPTIONS_OF_FIT for name, field in cls.fields().items()}
    unset = {name for name, field in fields.items() if field.metadata["none_is_unset"]}
    return {
        name: value for name, value in options.items() if value is not None or name not in unset
    }


@dataclass(frozen=True)
class TrainingRequest:
    """The options given to `fit`, grouped by kind.

    Attributes:
        further: dict from the names in FURTHER_EPOCHS to the options of these phases.
        captioner: dict of the given options of Captioner; the others have their
            default, or that of the initial model.
        encoder_weights: see Captioner; the initial model is loaded with them.
    """

    training: TrainingOptions
    further: dict
    captioner: dict
    encoder_weights: Any

    @classmethod
    def of(cls, given):
        """Check the `**options` of `fit` and group them by kind.

        For None, see `without_defaults`.
        """
        training, captioner, *further, of_keras = split_options(
            "fit", given, *OPTIONS_OF_FIT, also=OF_KERAS
        )
        CaptionerOptions.check(**captioner)
        if "dtype" in training:  # "auto" depends on the machine; the result is recorded
            training["dtype"] = resolved_dtype(training["dtype"])
        encoder_weights = captioner.pop(
            "encoder_weights", CaptionerOptions.defaults()["encoder_weights"]
        )
        further = {
            name: epochs.options(**own)
            for (name, epochs), own in zip(FURTHER_EPOCHS.items(), further)
        }
        return cls(TrainingOptions(**training), further, {**captioner, **of_keras}, encoder_weights)

    def num_further(self, name):
        """Return the number of epochs of the later phase `name` (one of
        FURTHER_EPOCHS).
        """
        return getattr(self.further[name], name)

    def check(self, initial_model, **arguments):
        """Reject arguments of `fit` that require others; `arguments` contains the
        arguments that HOOKS require.
        """
        epochs, further = self.training.epochs, sum(map(self.num_further, FURTHER_EPOCHS))
        if epochs == 0 and (initial_model is None or not further):
            phases = " or ".join(FURTHER_EPOCHS)
            raise ValueError(
                f"Without an initial_model and {phases}, `epochs` must be at least 1. "
                f"Received: {epochs=}"
            )
        for name, argument in arguments.items():
            weights = {
                option: self.captioner.get(option)
                for option, hook in HOOKS.items()
                if hook.needs == name
            }
            if any(weights.values()) != (argument is not None):
                received = ", ".join(f"{option}={weight}" for option, weight in weights.items())
                problem = (
                    f"`{name}` and `{'` or `'.join(weights)}` require each other: pass both "
                    "or neither."
                )
                raise ValueError(f"{problem} Received: {name}={str(argument)[:80]}, {received}")


@dataclass
class TrainingPlan:
    """The settings and photos of a training run, which all its phases share.

    Attributes:
        keeps_initial_model: whether the initial model (a Captioner or None) is kept if
            no epoch is better.
        data_name, images: the name of the data set, and its list of CaptionedImage, all
            with captions.
        arguments: dict of the arguments of `fit`, other than options, on which the
            result depends.
        folder: the folder of the whole training.
        was_interrupted: whether Ctrl-C ended it.
    """

    asked: TrainingRequest
    initial_model: Any
    keeps_initial_model: bool
    data_name: str
    images: list
    arguments: dict
    photos: TrainingPhotos
    cluster: Cluster
    callbacks: Any
    folder: Path = field(default=None, init=False)
    was_interrupted: bool = field(default=False, init=False)

    @property
    def options(self):
        """The TrainingOptions of this run."""
        return self.asked.training

    def say(self, *lines):
        if self.photos.show_progress:
            print(*lines, sep="\n")

    def captioner_options(self):
        """Return the captioner options that were given to `fit`."""
        dtype = {} if self.options.dtype is None else {"dtype": self.options.dtype}
        return {"seed": self.options.seed, **self.asked.captioner, **dtype}

    def record_of_words(self):
        """Return the record of the cross-entropy phase; see `describe`."""
        captioner = CaptionerOptions.defaults() if self.initial_model is None else {}
        captioner |= self.asked.captioner | {"encoder_weights": self.asked.encoder_weights}
        return describe(
            {**self.arguments, **captioner, **self.options.to_dict()},
            self.images,
            self.initial_model,
        )

    def record_of_further(self, name, captioner):
        """Return the record of the later phase `name` (one of FURTHER_EPOCHS), which
        starts from a captioner.
        """
        epochs, own = FURTHER_EPOCHS[name], self.asked.further[name].to_dict()
        used = {
            option: getattr(self.options, option) for option in TrainingOptions.names("training")
        }
        used |= {"epochs": own.pop(name), "schedule": epochs.schedule}
        if not epochs.encoder_alone:
            needing = {option: hook.needs for option, hook in HOOKS.items() if hook.needs}
            used |= {needed: self.arguments[needed] for needed in needing.values()}
            used |= {option: self.asked.captioner.get(option) for option in needing}
        return describe({**used, **own}, self.images, captioner)
