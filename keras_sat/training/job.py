"""A training that is being carried out: what all its phases share."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keras_sat.beyond.terms import TERMS
from keras_sat.settings import CaptionerSettings, FitSettings
from keras_sat.training.distributed import Cluster
from keras_sat.training.history import MONITORED
from keras_sat.training.photos import TrainingPhotos
from keras_sat.training.plan import Plan
from keras_sat.training.run_record import describe


@dataclass
class TrainingJob:
    """A Plan that is being carried out, with its photos, devices and folder.

    Attributes:
        initial_model: the Captioner to start from, or None.
        images: list of CaptionedImage, all with captions.
        arguments: dict of the arguments of `fit`, other than options, on which the
            result depends.
        photos: TrainingPhotos, which are read or encoded when a phase needs them.
        folder: the folder in which this process writes: that of the plan, or on a host
            that is not the chief a temporary one.
        deadline: when `minutes` are over, by `time.monotonic`.
        was_interrupted: whether Ctrl-C or the deadline ended it.
    """

    plan: Plan
    initial_model: Any
    images: list
    arguments: dict
    photos: TrainingPhotos
    cluster: Cluster
    callbacks: Any
    folder: Path
    deadline: float = math.inf
    was_interrupted: bool = field(default=False, init=False)

    @property
    def settings(self) -> FitSettings:
        """The FitSettings of the plan."""
        return self.plan.settings

    def say(self, *lines):
        if self.photos.show_progress:
            print(*lines, sep="\n")

    def record_of_words(self):
        """Return the record of the cross-entropy phase; see `describe`."""
        settings = self.settings
        defaults = CaptionerSettings.defaults() if self.initial_model is None else {}
        arguments = {
            **self.arguments,
            **defaults,
            **self.plan.chosen_for_captioner(),
            **self.plan.keras_options,
            "encoder_weights": settings.encoder.encoder_weights,
            **settings.training.to_dict(),
            **settings.optimizer.to_dict(),
            **settings.cross_entropy.to_dict(),
        }
        if self.plan.monitored != MONITORED:
            arguments["monitored"] = self.plan.monitored
        return describe(arguments, self.images, self.initial_model)

    def record_of_rewards(self, captioner):
        """Return the record of the self-critical phase, which starts from a
        captioner.
        """
        settings = self.settings
        arguments = {**settings.training.to_dict(), **settings.optimizer.to_dict()}
        del arguments["learning_rate"]  # this phase has its own
        rewards = settings.rewards.to_dict()
        arguments |= {"epochs": rewards.pop("self_critical_epochs"), "schedule": "constant"}
        required = {option: term.needs for option, term in TERMS.items() if term.needs}
        arguments |= {argument: self.arguments[argument] for argument in required.values()}
        chosen = self.plan.chosen_for_captioner()
        arguments |= {option: chosen.get(option) for option in required}
        return describe({**arguments, **rewards}, self.images, captioner)
