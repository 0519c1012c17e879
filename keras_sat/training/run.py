"""A training in its folder: begun, resumed, or loaded; kept after each epoch; ended with its best captioner."""

import warnings

import keras

from data_utils.files import clear_half_written, read_sealed_json, write_sealed_json
from keras_sat.captioner import Captioner
from keras_sat.checks import STOPPED_EARLY
from keras_sat.files.checkpoint import WAY_OUT, read_checkpoint, restore_state
from keras_sat.files.model_folder import read_model
from keras_sat.presets import DEFAULT_MODEL
from keras_sat.training import callbacks as parts
from keras_sat.training.folder import note_arguments, refuse_changed_photos
from keras_sat.training.plan import USUAL

SEARCH = ("num_beams", "max_length")  # how the dev split is captioned after each epoch
POOR_SCORE = 0.03  # a BLEU-4 on dev below which there is advice in the end
INITIAL_MODEL = f"(initial_model, --initial-model: {DEFAULT_MODEL} for photos)"
BEFORE = "before.json"  # scores of the captioner that a training began with


class Training:
    """A training in a folder: begun, resumed or loaded, it ends with its best captioner.

    Args:
        plan: Plan.
        folder: of this training.
        num_epochs: of this training, at most.
        kind: what its epochs are called.
        monitored: the figure that says which epoch is the best.
    """

    def __init__(self, plan, folder, num_epochs, kind="", monitored=parts.MONITORED):
        self.plan = plan
        self.folder = folder
        self.num_epochs = num_epochs
        self.kind = kind
        self.monitored = monitored
        self.before = []  # the figures of the captioner that it began with, where these count
        self.epochs, self.state = read_checkpoint(folder / "checkpoint")
        self.epochs = plan.team.tell(self.epochs)

    def note(self, described):
        """Note what the result depends on; refuse a folder with another training."""
        self.plan.team.check_same(described)
        clear_half_written(*(self.folder / name for name in ("arguments.json", "photos.json", "history.csv", BEFORE)))
        if not self.epochs and self.plan.team.is_chief:
            (self.folder / BEFORE).unlink(missing_ok=True)  # of a training that was given up: it counts for no other
        if self.epochs and (self.folder / BEFORE).exists():
            self.before = [read_sealed_json(self.folder / BEFORE, "the scores before a training", WAY_OUT)]
        self.before = self.plan.team.tell(self.before)
        if self.plan.team.is_chief:
            check = self._refuse_changed_photos
            note_arguments(self.folder, described, self.epochs, USUAL, check, has_ended=self.has_ended)
        if self.epochs:
            parts.write_history(self.folder / "history.csv", self.epochs)

    def _refuse_changed_photos(self):
        refuse_changed_photos(self.plan.folder, self.plan.images, show_progress=self.plan.show_progress)

    @property
    def has_ended(self):
        known = [*self.before, *self.epochs]
        return len(self.epochs) >= self.num_epochs or parts.is_at_its_best(
            known, self.plan.options.patience, self.monitored
        )

    def _counted(self):
        """Return how many epochs there were, in words: "1 epoch", "3 self-critical epochs"."""
        return f"{len(self.epochs)} {self.kind}epoch{'s' * (len(self.epochs) != 1)}"

    def loaded(self):
        """Return what `run` returned when it ended."""
        self.plan.say(f"{self.folder}: this training has ended after {self._counted()}; the best captioner is loaded")
        self.plan.team.share_folder(self.folder / "model")
        own, initial_model = self.plan.asked.captioner.get("encoder"), self.plan.initial_model
        if not isinstance(own, keras.Model):
            own = (
                initial_model.encoder_model
                if initial_model is not None and initial_model.photo_encoder.is_own
                else None
            )
        return Captioner.load(self.folder / "model", encoder=own), True, self.epochs

    def begin_with(self, captioner, *, cross_entropy=False):
        """Keep a captioner and its scores as what is to be improved.

        Args:
            captioner: Captioner.
            cross_entropy: measure that on dev too, with a captioner that was compiled: it decides while BLEU-4 is 0.
        """
        if self.epochs:
            return
        captioner.save(self.folder / "model")
        scores, dev_images = {}, self.plan.photos.of_split("dev")
        if dev_images and cross_entropy:
            measured = self.plan.team.measure(captioner, self._dev_batches(captioner))
            scores = {"val_cross_entropy": measured["cross_entropy"]}
        if dev_images and self.plan.team.is_chief:
            scores |= parts.score_captions(captioner, dev_images, **self._search_options())
            shown = ", ".join(parts.as_text(name, scores[name]) for name in ("val_cider", parts.MONITORED))
            further = f", cross-entropy {scores['val_cross_entropy']:.3f} a word" if cross_entropy else ""
            self.plan.say(f"before {self.kind}training: {shown} on dev{further}")
        write_sealed_json(self.folder / BEFORE, scores)
        self.before = self.plan.team.tell([scores])

    def run(self, captioner, batches, steps=()):
        """Train a captioner that was compiled.

        Returns: the best captioner; whether the training came to its end, neither interrupted nor lost; the figures of
            its epochs.
        """
        plan, team, dev_images = self.plan, self.plan.team, self.plan.photos.of_split("dev")
        self._refuse_damaged_model()
        captioner.build_for(batches)
        if self.state:
            restore_state(captioner, self.state)
            plan.say(f"resumes after {self.kind}epoch {len(self.epochs)}")
        lost = parts.StopWhenLost()
        known = {"epochs": self.epochs, "before": self.before, "monitored": self.monitored}
        keep = parts.KeepTraining(self.folder, patience=plan.options.patience, **known)
        steps, dev_batches, search_options = [lost, *steps], None, self._search_options()
        if dev_images:
            dev_batches = self._dev_batches(captioner)
            steps.append(parts.ScoreCaptions(dev_images, **search_options))
        shown_progress = parts.ShowProgress(self.num_epochs, label=f"{self.kind}epoch", **known)
        if plan.show_progress:
            steps.append(shown_progress)
            shown = dev_images or plan.photos.of_split("train")
            steps.append(parts.ShowCaptions(shown, **search_options))
        is_whole = True
        try:
            team.fit(
                captioner,
                batches,
                validation_data=dev_batches,
                initial_epoch=len(self.epochs),
                epochs=self.num_epochs,
                callbacks=[*steps, *plan.callbacks, keep],
            )
        except KeyboardInterrupt:
            if team.num_hosts > 1:
                raise  # the others cannot go on alone: they end as this process does
            is_whole, plan.was_interrupted = False, True
            shown_progress.end_line()
            if keep.epochs:
                plan.say(f"stopped; the same call or command resumes after {self.kind}epoch {len(keep.epochs)}")
        self.epochs, is_lost = team.tell([keep.epochs, lost.is_lost])
        team.share_folder(self.folder / "model")
        return self._best(captioner, is_lost), is_whole and not is_lost, self.epochs

    def _refuse_damaged_model(self):
        """Look at the model before an epoch is spent, not only when a better one is to replace it."""
        if self.state or (self.folder / "model" / "config.json").exists():
            try:
                read_model(self.folder / "model")
            except ValueError as error:
                raise ValueError(
                    f"{error} The best captioner should lie there: copy it back, or train into another output_dir."
                ) from None

    def _dev_batches(self, captioner):
        return self.plan.photos.batches("dev", captioner, self.plan.options, whole=True, shuffle=False)

    def _search_options(self):
        return {"cache": self.plan.photos.cache, **{name: getattr(self.plan.options, name) for name in SEARCH}}

    def _best(self, captioner, is_lost):
        """Return the captioner with the weights of its best epoch."""
        captioner.expectation_share.assign(captioner.expectation_probability)
        advice = "Lower the learning rate, or clip_norm, and train into another output_dir."
        if self.kind:
            rate = f"{self.kind.strip().replace('-', '_')}_rate"  # of the kinds "steady " and "self-critical "
            advice = f"Lower {rate}, or clip_norm: with epochs=0, another output_dir, and initial_model="
            advice += f"{str(self.folder.parent / 'model')!r}." if self.plan.options.epochs else "the same."
        if not self.epochs and not self.before:
            if is_lost:
                raise ValueError(
                    f"The loss became infinite or no number in the first epoch: nothing was learnt. {advice}"
                )
            warnings.warn(STOPPED_EARLY, stacklevel=5)
            return captioner
        best = parts.best_epoch([*self.before, *self.epochs], self.monitored) - len(self.before)
        name = f"The captioner of epoch {best + 1}" if best >= 0 else "The captioner from before"
        if is_lost:
            warnings.warn(
                f"The loss became infinite or no number in epoch {len(self.epochs) + 1}. {name}, the best one, is "
                f"returned. {advice}",
                stacklevel=5,
            )
        captioner.restore_weights(self.folder / "model")
        if best < 0:
            line = f"none of {self._counted()} was better" if self.epochs else "no epoch is kept"
            line += "; the captioner from before is"
        else:
            figure = self.epochs[best].get(self.monitored)
            score = "" if figure is None else f", {parts.as_text(self.monitored, figure)} on dev"
            if figure is not None and not parts.says_something(self.epochs[best], self.monitored):
                score += " (the cross-entropy there decided: BLEU-4 says little of so few captions)"
            line = f"the best of {self._counted()} was {best + 1}{score}; it is saved"
        line = f"{line} in {self.folder / 'model'}"
        if best < 0 and self.epochs:
            decided = "CIDEr" if self.monitored == "val_cider" else "BLEU-4"
            if not parts.says_something(self.before[0], self.monitored):
                decided = "the cross-entropy"
            line += f" ({decided} on dev decided)"
        self.plan.say(line)
        self._advise([*self.before, *self.epochs][best + len(self.before)], len(self.plan.photos.of_split("dev")))
        return captioner

    def _advise(self, figures, num_dev):
        """Say what to do where the captions of dev are poor."""
        score = figures.get(parts.MONITORED, 1.0)
        alike = num_dev > 1 and figures.get("val_distinct") == 1
        if score >= POOR_SCORE and not alike:
            return
        begin = "" if self.plan.initial_model is not None else f"begin from a trained captioner {INITIAL_MODEL}, or "
        self.plan.say(
            f"the captions of dev are poor ({parts.as_text(parts.MONITORED, score)}{', all the same' * alike}): "
            f"{begin}train on more photos; docs/troubleshooting.md says more"
        )
