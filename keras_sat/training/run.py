"""A training in its folder: started, resumed, or loaded; kept after each epoch; ended with its best captioner."""

import warnings

import keras

from data_utils.atomic_files import clear_half_written, read_sealed_json, write_sealed_json
from keras_sat.captioner import Captioner
from keras_sat.checks import STOPPED_EARLY
from keras_sat.files.checkpoint import WAY_OUT, read_checkpoint, restore_state
from keras_sat.files.model_folder import read_model
from keras_sat.presets import DEFAULT_MODEL
from keras_sat.training import callbacks
from keras_sat.training.history import MONITORED, as_text, best_epoch, is_at_its_best, says_something, write_history
from keras_sat.training.run_record import check_photos, note_arguments

SEARCH = ("num_beams", "max_length")  # how the dev split is captioned after each epoch
POOR_SCORE = 0.03  # a BLEU-4 on dev below which there is advice at the end
BEFORE = "before.json"  # scores of the captioner that a training started from


class Training:
    """A training in a folder: started, resumed or loaded, it ends with its best captioner.

    Args:
        plan: TrainingPlan.
        folder: of this training.
        num_epochs: of this training, at most.
        kind: what its epochs are called, such as "self-critical ".
        monitored: the figure that says which epoch is the best.
    """

    def __init__(self, plan, folder, num_epochs, kind="", monitored=MONITORED):
        self.plan = plan
        self.folder = folder
        self.num_epochs = num_epochs
        self.kind = kind
        self.monitored = monitored
        self.before = []  # the figures of the captioner that it started from, where these count
        self.epochs, self.state = read_checkpoint(folder / "checkpoint")
        self.epochs = plan.cluster.broadcast(self.epochs)

    def note(self, described):
        """Note what the result depends on; reject a folder with another training."""
        cluster, before = self.plan.cluster, self.folder / BEFORE
        cluster.check_same(described)
        clear_half_written(*(self.folder / name for name in ("arguments.json", "photos.json", "history.csv", BEFORE)))
        if cluster.is_chief and not self.epochs:
            before.unlink(missing_ok=True)  # of a training that was given up: it counts for no other
        if before.exists():
            self.before = [read_sealed_json(before, "the scores before a training", WAY_OUT)]
        self.before = cluster.broadcast(self.before)
        if cluster.is_chief:
            if self.epochs:
                check_photos(self.plan.folder, self.plan.images, show_progress=self.plan.show_progress)
            note_arguments(self.folder, described, self.epochs, has_ended=self.has_ended)
        if self.epochs:
            write_history(self.folder / "history.csv", self.epochs)

    @property
    def has_ended(self):
        known = [*self.before, *self.epochs]
        return len(self.epochs) >= self.num_epochs or is_at_its_best(known, self.plan.options.patience, self.monitored)

    def _counted(self):
        """Return how many epochs there were, in words: "1 epoch", "3 self-critical epochs"."""
        return f"{len(self.epochs)} {self.kind}epoch{'s' * (len(self.epochs) != 1)}"

    def loaded(self):
        """Return what `run` returned when it ended."""
        self.plan.say(f"{self.folder}: this training has ended after {self._counted()}; the best captioner is loaded")
        self.plan.cluster.share_folder(self.folder / "model")
        encoder, initial_model = self.plan.asked.captioner.get("encoder"), self.plan.initial_model
        if not isinstance(encoder, keras.Model):
            is_custom = initial_model is not None and initial_model.photo_encoder.is_custom
            encoder = initial_model.encoder_model if is_custom else None
        return Captioner.load(self.folder / "model", encoder=encoder), True, self.epochs

    def begin_with(self, captioner, *, cross_entropy=False):
        """Keep a captioner and its scores as what is to be improved; return whether nobody stopped that.

        Args:
            captioner: Captioner.
            cross_entropy: measure that on dev too, with a captioner that was compiled: it decides while BLEU-4 is 0.
        """
        if self.epochs:
            return True
        try:
            captioner.save(self.folder / "model")
            scores, dev_images = {}, self.plan.photos.of_split("dev")
            if dev_images and cross_entropy:
                measured = self.plan.cluster.measure(captioner, self._dev_batches(captioner))
                scores = {"val_cross_entropy": measured["cross_entropy"]}
            if dev_images and self.plan.cluster.is_chief:
                scores |= callbacks.score_captions(captioner, dev_images, **self._search_options())
                shown = ", ".join(as_text(name, scores[name]) for name in ("val_cider", MONITORED))
                further = f", cross-entropy {scores['val_cross_entropy']:.3f} a word" if cross_entropy else ""
                self.plan.say(f"before {self.kind}training: {shown} on dev{further}")
            write_sealed_json(self.folder / BEFORE, scores)
            self.before = self.plan.cluster.broadcast([scores])
        except KeyboardInterrupt:
            self._interrupted(f"\nstopped before the first {self.kind}epoch")
        return not self.plan.was_interrupted

    def run(self, captioner, batches, steps=()):
        """Train a captioner that was compiled.

        Args:
            captioner: Captioner.
            batches: tf.data.Dataset of make_batches.
            steps: Keras callbacks that come before those of the plan.

        Returns: (the best captioner, whether the training has come to its end, the figures of its epochs).
        """
        plan, cluster = self.plan, self.plan.cluster
        dev_images = plan.photos.of_split("dev")
        if self.state or (self.folder / "model" / "config.json").exists():
            try:  # before an epoch is spent, not only when a better one is to replace it
                read_model(self.folder / "model")
            except ValueError as error:
                raise ValueError(
                    f"{error} The best captioner is missing there: copy it back, or train into another output_dir."
                ) from None
        captioner.build_for(batches)
        if self.state:
            restore_state(captioner, self.state)
            plan.say(f"resumes after {self.kind}epoch {len(self.epochs)}")
        known = {"epochs": self.epochs, "before": self.before, "monitored": self.monitored}
        keep = callbacks.KeepTraining(self.folder, patience=plan.options.patience, **known)
        steps, dev_batches, search_options = [callbacks.StopWhenLost(), *steps], None, self._search_options()
        if dev_images:
            dev_batches = self._dev_batches(captioner)
            steps.append(callbacks.ScoreCaptions(dev_images, **search_options))
        shown_progress = callbacks.ShowProgress(self.num_epochs, label=f"{self.kind}epoch", **known)
        if plan.show_progress:
            steps.append(shown_progress)
            shown = dev_images or plan.photos.of_split("train")
            steps.append(callbacks.ShowCaptions(shown, **search_options))
        is_whole = is_lost = False
        try:
            cluster.fit(
                captioner,
                batches,
                validation_data=dev_batches,
                initial_epoch=len(self.epochs),
                epochs=self.num_epochs,
                callbacks=[*steps, *plan.callbacks, keep],
            )
            is_whole = True
        except callbacks.LostTraining:
            shown_progress.end_line()
            is_lost = True
        except KeyboardInterrupt:
            shown_progress.end_line()
            resumes = f"; the same call or command resumes after {self.kind}epoch {len(keep.epochs)}"
            self._interrupted(f"stopped{resumes}" if keep.epochs else "")
        self.epochs = cluster.broadcast(keep.epochs)
        cluster.share_folder(self.folder / "model")
        return self._best(captioner, is_lost), is_whole, self.epochs

    def _interrupted(self, line):
        """Note that Ctrl-C has ended the training; on several hosts the others end with this process."""
        if self.plan.cluster.num_hosts > 1:
            raise KeyboardInterrupt
        self.plan.was_interrupted = True
        if line:
            self.plan.say(line)

    def _dev_batches(self, captioner):
        return self.plan.photos.batches("dev", captioner, self.plan.options, whole=True, shuffle=False)

    def _search_options(self):
        return {"cache": self.plan.photos.cache, **{name: getattr(self.plan.options, name) for name in SEARCH}}

    def _best(self, captioner, is_lost):
        """Return the captioner with the weights of its best epoch, and say which one that is."""
        captioner.expectation_share.assign(captioner.expectation_probability)
        known = [*self.before, *self.epochs]
        best = best_epoch(known, self.monitored) - len(self.before)
        is_better = bool(self.epochs) and best >= 0
        rate = f"{self.kind.strip().replace('-', '_')}_rate" if self.kind else "learning_rate"
        advice = f"Lower {rate} or clip_norm, and train into another output_dir."
        if is_lost and not known:
            raise ValueError(f"The loss became NaN or infinite in the first epoch; nothing was saved. {advice}")
        if is_lost:
            kept = f"of epoch {best + 1}, the best one," if is_better else "from before"
            warnings.warn(
                f"The loss became NaN or infinite in epoch {len(self.epochs) + 1}. The captioner {kept} is returned. "
                f"{advice}",
                stacklevel=5,
            )
        elif not known:
            warnings.warn(STOPPED_EARLY, stacklevel=5)
            return captioner
        captioner.restore_weights(self.folder / "model")
        figures = known[best + len(self.before)]
        decided = ""
        if self.monitored in figures:
            score = as_text(self.monitored, figures[self.monitored])
            decided = f", {score} on dev"
            if not says_something(figures, self.monitored):
                decided += f" (cross-entropy decided: {score.split()[0]} says little of so few captions)"
        line = f"the best of {self._counted()} was {best + 1}{decided}; it is saved"
        if not is_better:
            line = f"none of {self._counted()} was better" if self.epochs else "no epoch is kept"
            line += "; the captioner from before is"
        self.plan.say(f"{line} in {self.folder / 'model'}")
        self._advise(figures, len(self.plan.photos.of_split("dev")))
        return captioner

    def _advise(self, figures, num_dev):
        """Say what to do where the captions of dev are poor."""
        score = figures.get(MONITORED, 1.0)
        alike = num_dev > 1 and figures.get("val_distinct") == 1
        if score >= POOR_SCORE and not alike:
            return
        start = f"start from a trained captioner (initial_model, --initial-model: {DEFAULT_MODEL} for photos), or "
        self.plan.say(
            f"the captions of dev are poor ({as_text(MONITORED, score)}{', all the same' * alike}): "
            f"{start * (self.plan.initial_model is None)}train on more photos; docs/troubleshooting.md says more"
        )
