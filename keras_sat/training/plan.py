"""What a training was asked for, by kind; the plan that all kinds of epochs read; and the record of a training."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from data_utils.files import exclusive_lock
from keras_sat.beyond import FURTHER_EPOCHS, HOOKS
from keras_sat.model.precision import resolved_dtype
from keras_sat.options import CaptionerOptions, TrainingOptions, flag, split_options
from keras_sat.training.folder import describe
from keras_sat.training.photos import TrainingPhotos
from keras_sat.training.team import Team

OF_KERAS = ("name", "trainable")  # that Captioner takes beside its options
# What the record of a training from before has where it is silent: a version with fewer options may have begun it.
USUAL = {
    **{"split_seed": None, "skip_unreadable": False, "boxes": None},
    **dict.fromkeys(CaptionerOptions.names()),
    "encoder_weights": CaptionerOptions.defaults()["encoder_weights"],
    **TrainingOptions.defaults(),
    **{name: default for epochs in FURTHER_EPOCHS.values() for name, default in epochs.options.defaults().items()},
}


def without_usual(options):
    """Return the options of `fit` without those that are None where that leaves them to presets and defaults."""
    fields = {**CaptionerOptions.fields(), **TrainingOptions.fields()}
    unset = {name for name, field in fields.items() if field.metadata["none_is_unset"]}
    return {name: value for name, value in options.items() if value is not None or name not in unset}


@dataclass(frozen=True)
class Asked:
    """The options that `fit` was given, by kind.

    Attributes:
        training: TrainingOptions.
        further: dict from the names in FURTHER_EPOCHS to the options of these epochs.
        captioner: dict of those of Captioner: what is not in it stays as usual, or as it was before.
        encoder_weights: see Captioner; a captioner to begin from is loaded with them.
        given: dict of those of `training` that were given.
    """

    training: TrainingOptions
    further: dict
    captioner: dict
    encoder_weights: Any
    given: dict

    @classmethod
    def of(cls, given):
        """Return the `**options` of `fit`, all checked, from those that were given (see `without_usual`)."""
        classes = [epochs.options for epochs in FURTHER_EPOCHS.values()]
        kinds = (TrainingOptions, CaptionerOptions, *classes)
        training, captioner, *further, of_keras = split_options("fit", given, *kinds, beside=OF_KERAS)
        CaptionerOptions.check(**captioner)
        if "dtype" in training:  # what "auto" means here is kept: the training is resumed, and shared, as it began
            training["dtype"] = resolved_dtype(training["dtype"])
        encoder_weights = captioner.pop("encoder_weights", CaptionerOptions.defaults()["encoder_weights"])
        further = {name: kind(**own) for name, kind, own in zip(FURTHER_EPOCHS, classes, further)}
        return cls(TrainingOptions(**training), further, {**captioner, **of_keras}, encoder_weights, training)

    def num_further(self, name):
        """Return how many epochs there are of a kind in FURTHER_EPOCHS."""
        return getattr(self.further[name], name)

    def check_beginning(self, initial_model, from_scratch):
        """Refuse what leaves it open what to begin from, or leaves nothing to do."""
        flag.check("from_scratch", from_scratch)
        if from_scratch and initial_model is not None:
            raise ValueError(
                "A training begins from scratch or from a trained captioner: leave out one of the two. "
                f"Received: from_scratch={from_scratch} with initial_model={initial_model!r}"
            )
        if self.captioner.get("guide_weight") and self.training.group_by != "image":
            raise ValueError(
                "Word detectors learn from all captions of a photo together: pass group_by='image' (--group-by image) "
                f"with `guide_weight`. Received: group_by={self.training.group_by!r}"
            )
        epochs, further = self.training.epochs, sum(map(self.num_further, FURTHER_EPOCHS))
        if epochs == 0 and (initial_model is None or not further):
            raise ValueError(
                "`epochs` must be at least 1, or 0 where an initial_model is to be trained for "
                f"{' or '.join(FURTHER_EPOCHS)} alone. Received: epochs={epochs} with {further} of these"
            )

    def check_needs(self, **arguments):
        """Refuse an argument of `fit` without the option that takes it, and the option without the argument."""
        for option, hook in HOOKS.items():
            weight, argument = self.captioner.get(option), arguments.get(hook.needs)
            if hook.needs and bool(weight) != (argument is not None):
                shown = argument if argument is None else str(argument)[:80]
                raise ValueError(
                    f"`{hook.needs}` and `{option}` go together: pass both of them, or neither. "
                    f"Received: {hook.needs}={shown!r}, {option}={weight}"
                )

    def with_usual(self, usual):
        """Return the same with other options of training where none were given."""
        return dataclasses.replace(self, training=TrainingOptions(**{**usual, **self.given}))

    def with_encoder(self, encoder):
        """Return the same with an encoder that is named."""
        return dataclasses.replace(self, captioner={**self.captioner, "encoder": encoder})


@dataclass
class Plan:
    """What is trained, on what, by whom and where: all kinds of epochs read it.

    Attributes:
        asked: Asked.
        initial_model: the Captioner that it begins from, or None.
        keeps_initial_model: whether that one stays where no epoch is better.
        data_name: of the data set.
        images: list of CaptionedImage, all with captions.
        noted: dict of arguments of `fit` that the result depends on, beside the options.
        photos: TrainingPhotos.
        team: Team.
        folder: of the whole training.
        callbacks: further Keras callbacks.
        show_progress: whether anything is said.
        was_interrupted: whether Ctrl-C has ended it.
    """

    asked: Asked
    initial_model: Any
    keeps_initial_model: bool
    data_name: str
    images: list
    noted: dict
    photos: TrainingPhotos
    team: Team
    folder: Path
    callbacks: Iterable = ()
    show_progress: bool = True
    was_interrupted: bool = field(default=False, init=False)

    @property
    def options(self):
        """The TrainingOptions."""
        return self.asked.training

    def say(self, *lines):
        if self.show_progress:
            print(*lines, sep="\n")

    def captioner_options(self):
        """Return the options of the captioner that is trained, as far as they were given."""
        dtype = {} if self.options.dtype is None else {"dtype": self.options.dtype}
        return {"seed": self.options.seed, **self.asked.captioner, **dtype}

    def lock(self):
        """Return a context in which no other process trains in the folder."""
        return exclusive_lock(self.folder / "lock", f"is training in {self.folder}")

    def record_of_words(self):
        """Return what the result of training with words depends on, as JSON can hold it."""
        captioner = {**dict.fromkeys(CaptionerOptions.names()), **self.asked.captioner}
        captioner["encoder_weights"] = self.asked.encoder_weights
        return describe({**self.noted, **captioner, **self.options.to_dict()}, self.images, self.initial_model)

    def record_of_further(self, name, captioner):
        """Return the same of a kind in FURTHER_EPOCHS, which begins from a captioner."""
        epochs, own = FURTHER_EPOCHS[name], self.asked.further[name].to_dict()
        followed = {option: getattr(self.options, option) for option in TrainingOptions.names("training")}
        followed |= {"epochs": own.pop(name), "schedule": epochs.schedule}
        if not epochs.encoder_alone:
            needing = {option: hook.needs for option, hook in HOOKS.items() if hook.needs}
            followed |= {needed: self.noted[needed] for needed in needing.values()}
            followed |= {option: self.asked.captioner.get(option) for option in needing}
        return describe({**followed, **own}, self.images, captioner)
