"""One phase of training, which can be started, resumed or loaded, and returns its best
captioner.
"""

import warnings

import keras

from data_utils.atomic_files import clear_half_written, read_sealed_json, write_sealed_json
from keras_sat.captioner import Captioner
from keras_sat.checks import STOPPED_EARLY
from keras_sat.files.checkpoint import WAY_OUT, read_checkpoint, state_of
from keras_sat.files.model_folder import assign_arrays, read_model
from keras_sat.training import callbacks
from keras_sat.training.history import (
    MONITORED,
    as_text,
    best_epoch,
    has_plateaued,
    is_above_chance,
    write_history,
)
from keras_sat.training.run_record import record_arguments

BEFORE = "before.json"  # scores of the captioner that a training started from


class Training:
    """One phase of a TrainingPlan, which has its own folder and can be started, resumed
    or loaded.

    Args:
        kind: prefix of "epoch" in messages, such as "self-critical ".
        monitored: the metric that decides which epoch is the best.
    """

    def __init__(self, plan, folder, num_epochs, kind="", monitored=MONITORED):
        self.plan = plan
        self.folder = folder
        self.num_epochs = num_epochs
        self.kind = kind
        self.monitored = monitored
        # The metrics of the initial captioner, if it is kept unless an epoch is better.
        self.before = []
        self.epochs, self.state = read_checkpoint(folder / "checkpoint")
        self.epochs = plan.cluster.broadcast(self.epochs)

    def record(self, described):
        """Write the record of the training run, or reject a folder that contains a
        different run.
        """
        cluster, before = self.plan.cluster, self.folder / BEFORE
        cluster.check_same(described)
        clear_half_written(
            *(self.folder / name for name in ("arguments.json", "history.csv", BEFORE))
        )
        if cluster.is_chief and not self.epochs:
            before.unlink(missing_ok=True)  # left from an abandoned training
        if before.exists():
            self.before = [read_sealed_json(before, "the scores before training", WAY_OUT)]
        self.before = cluster.broadcast(self.before)
        is_another_start = cluster.is_chief and (self.folder / "arguments.json").exists()
        if is_another_start and not self.epochs:
            self.plan.say(
                f"{self.folder}: the {self.kind}training here was stopped in its first epoch; "
                "nothing was saved, starting again"
            )
        if cluster.is_chief:
            record_arguments(self.folder, described, self.epochs, has_ended=self.has_ended)
        if self.epochs:
            write_history(self.folder / "history.csv", self.epochs)

    @property
    def has_ended(self):
        known = [*self.before, *self.epochs]
        return len(self.epochs) >= self.num_epochs or has_plateaued(
            known, self.plan.options.patience, self.monitored
        )

    def loaded(self):
        """Load a finished training run and return the same result as `run`."""
        self.plan.say(
            f"{self.folder}: this training run ended after {self.kind}epoch "
            f"{len(self.epochs)}; loading it"
        )
        self.plan.cluster.share_folder(self.folder / "model")
        encoder, initial_model = self.plan.asked.captioner.get("encoder"), self.plan.initial_model
        if not isinstance(encoder, keras.Model):
            is_custom = initial_model is not None and initial_model.photo_encoder.is_custom
            encoder = initial_model.encoder_model if is_custom else None
        return Captioner.load(self.folder / "model", encoder=encoder), True, self.epochs

    def keep_initial(self, captioner, *, cross_entropy=False):
        """Save a captioner and its dev scores, which an epoch must exceed; return False
        if interrupted by Ctrl-C.

        `cross_entropy` is also measured, of a compiled captioner, if it is to decide
        while BLEU-4 is 0.
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
                self.plan.say(f"before {self.kind}training: {shown} on dev")
            write_sealed_json(self.folder / BEFORE, scores)
            self.before = self.plan.cluster.broadcast([scores])
        except KeyboardInterrupt:
            self._interrupted()
        return not self.plan.was_interrupted

    def run(self, captioner, batches, first_callbacks=()):
        """Train a compiled captioner on batches from make_batches.

        Returns: (the best captioner, whether the training is complete, the metrics of
        its epochs).
        """
        plan, cluster = self.plan, self.plan.cluster
        dev_images = plan.photos.of_split("dev")
        captioner.note_training_photos(
            [image.image_id for image in plan.photos.of_split("train")], plan.photos.records
        )
        captioner.build_for(batches)
        if self.state:
            read_model(self.folder / "model")  # a damaged one is rejected before an epoch is spent
            assign_arrays(state_of(captioner), self.state, "The checkpoint")
            plan.say(f"resuming after {self.kind}epoch {len(self.epochs)}")
        known = {"epochs": self.epochs, "before": self.before, "monitored": self.monitored}
        keep = callbacks.KeepTraining(self.folder, patience=plan.options.patience, **known)
        progress = callbacks.ShowProgress(self.num_epochs, label=f"{self.kind}epoch", **known)
        called = [callbacks.StopWhenLost(), *first_callbacks]
        if dev_images:
            called.append(callbacks.ScoreCaptions(dev_images, **self._search_options()))
        if plan.photos.show_progress:
            shown = dev_images or plan.photos.of_split("train")
            called += [progress, callbacks.ShowCaptions(shown, **self._search_options())]
        is_whole = is_lost = False
        options = {"initial_epoch": len(self.epochs), "epochs": self.num_epochs}
        options["validation_data"] = self._dev_batches(captioner) if dev_images else None
        try:
            cluster.fit(captioner, batches, callbacks=[*called, *plan.callbacks, keep], **options)
            is_whole = True
        except (callbacks.LostTraining, KeyboardInterrupt) as error:
            progress.end_line()
            self.epochs = keep.epochs
            if not (is_lost := isinstance(error, callbacks.LostTraining)):
                self._interrupted()
        self.epochs = cluster.broadcast(keep.epochs)
        cluster.share_folder(self.folder / "model")
        return self._best(captioner, is_lost), is_whole, self.epochs

    def _interrupted(self):
        """Record that Ctrl-C stopped training.

        On several hosts, raise it again to stop the other hosts too.
        """
        if self.plan.cluster.num_hosts > 1:
            raise KeyboardInterrupt
        self.plan.was_interrupted = True
        if not self.epochs:
            self.plan.say(
                f"stopped in the first {self.kind}epoch, of which nothing is saved; "
                "the same call or command starts again"
            )
            return
        self.plan.say(
            f"stopped; repeat the call or command to resume after {self.kind}epoch "
            f"{len(self.epochs)}"
        )

    def _dev_batches(self, captioner):
        return self.plan.photos.batches(
            "dev", captioner, self.plan.options, whole=True, shuffle=False
        )

    def _search_options(self):
        options = self.plan.options
        return {
            "cache": self.plan.photos.cache,
            "num_beams": options.num_beams,
            "max_length": options.max_length,
        }

    def _best(self, captioner, is_lost):
        """Return the captioner with the weights of its best epoch, and print which
        epoch that is.
        """
        captioner.expectation_share.assign(captioner.expectation_probability)
        known = [*self.before, *self.epochs]
        if is_lost:
            problem = f"The loss became NaN or infinite in epoch {len(self.epochs) + 1}"
            advice = "Lower the learning rate or clip_norm, and train into another output_dir."
            if not known:
                raise ValueError(f"{problem}; nothing was saved. {advice}")
            warnings.warn(
                f"{problem}; the best captioner so far is returned. {advice}", stacklevel=5
            )
        elif not known:
            warnings.warn(STOPPED_EARLY, stacklevel=5)
            return captioner
        captioner.restore_weights(self.folder / "model")
        best = best_epoch(known, self.monitored)
        figures, number = known[best], best + 1 - len(self.before)
        which = f"{self.kind}epoch {number} of {len(self.epochs)} is the best"
        if number < 1:
            which = (
                f"none of {len(self.epochs)} {self.kind}epochs is better than the initial captioner"
            )
        if self.monitored in figures and is_above_chance(figures, self.monitored):
            which += f", {as_text(self.monitored, figures[self.monitored])} on dev"
        elif "val_cross_entropy" in figures:
            which += f", cross-entropy {figures['val_cross_entropy']:.3f} on dev"
        patience = self.plan.options.patience
        if len(self.epochs) < self.num_epochs and has_plateaued(known, patience, self.monitored):
            self.plan.say(f"stopped early: no better epoch in the last {patience} (--patience)")
        self.plan.say(f"{which}; it is saved in {self.folder / 'model'}")
        return captioner
