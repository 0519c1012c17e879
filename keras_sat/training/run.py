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
from keras_sat.model.objective import EXPECTATION_PROBABILITY
from keras_sat.training import callbacks
from keras_sat.training.history import (
    CROSS_ENTROPY,
    MONITORED,
    as_text,
    best_epoch,
    has_plateaued,
    is_above_chance,
    write_history,
)
from keras_sat.training.own_words import in_words, own_words, unused_words
from keras_sat.training.run_record import (
    PHOTOS,
    record_arguments,
    record_photos,
    reject_changed_photos,
)

INITIAL_SCORES = "before.json"  # scores of the captioner that a training started from


class Training:
    """One phase of a TrainingJob, which has its own folder and can be started, resumed
    or loaded.

    Args:
        kind: prefix of "epoch" in messages, such as "self-critical ".
        monitored: the metric that decides which epoch is the best.
    """

    def __init__(self, job, folder, num_epochs, kind="", monitored=MONITORED):
        self.job = job
        self.folder = folder
        self.num_epochs = num_epochs
        self.kind = kind
        self.monitored = monitored
        # A list with the metrics of the initial captioner, if it may be kept.
        self.initial_scores = []
        self.epochs, self.state = read_checkpoint(folder / "checkpoint")
        self.epochs = job.cluster.broadcast(self.epochs)

    def record(self, described):
        """Write the record of the training run, or reject a folder that contains a
        different run.
        """
        cluster = self.job.cluster
        cluster.check_same(described)
        clear_half_written(
            *(
                self.folder / name
                for name in ("arguments.json", PHOTOS, "history.csv", INITIAL_SCORES)
            )
        )
        self._read_initial_scores()
        if cluster.is_chief:
            if (self.folder / "arguments.json").exists() and not self.epochs:
                self.job.say(
                    f"{self.folder}: the {self.kind}training here was stopped in its first "
                    "epoch; nothing was saved, starting again"
                )
            record_arguments(self.folder, described, self.epochs, has_ended=self.has_ended)
            if self.epochs:
                show_progress = self.job.photos.show_progress
                reject_changed_photos(self.folder, self.job.images, show_progress=show_progress)
        if self.epochs:
            write_history(self.folder / "history.csv", self.epochs)

    def _read_initial_scores(self):
        path = self.folder / INITIAL_SCORES
        if self.job.cluster.is_chief and not self.epochs:
            path.unlink(missing_ok=True)  # left from an abandoned training
        if path.exists():
            self.initial_scores = [read_sealed_json(path, "the scores before training", WAY_OUT)]
        self.initial_scores = self.job.cluster.broadcast(self.initial_scores)

    @property
    def has_ended(self):
        """Whether all epochs are done, or too many without a better one."""
        known = [*self.initial_scores, *self.epochs]
        has_all = len(self.epochs) >= self.num_epochs
        return has_all or has_plateaued(known, self.job.settings.training.patience, self.monitored)

    def loaded(self):
        """Load a finished training run and return the same result as `run`."""
        self.job.say(
            f"{self.folder}: this training run ended after {self.kind}epoch "
            f"{len(self.epochs)}; loading it"
        )
        self.job.cluster.share_folder(self.folder / "model")
        encoder = self.job.settings.encoder.encoder
        if not isinstance(encoder, keras.Model):
            initial_model = self.job.initial_model
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
            scores = self._scores_on_dev(captioner, cross_entropy)
            write_sealed_json(self.folder / INITIAL_SCORES, scores)
            self.initial_scores = self.job.cluster.broadcast([scores])
        except KeyboardInterrupt:
            self._interrupted()
        return not self.job.was_interrupted

    def _scores_on_dev(self, captioner, cross_entropy):
        """Return the scores of a captioner as a dict, and print them; see
        `keep_initial`. Without dev photos it is empty.
        """
        cluster, dev_images = self.job.cluster, self.job.photos.images_in("dev")
        if not dev_images:
            return {}
        scores = {}
        initial = "bundled captioner" if self.job.plan.keeps_initial_model else "captioner"
        photos = f"the {len(dev_images)} dev photos"
        self.job.say(
            f"scoring the {initial} on {photos} first; TensorFlow compiles the network for that, "
            "which may take minutes"
        )
        if cross_entropy:
            batches = self._dev_batches(captioner)
            if cluster.strategy is None:
                measured = captioner.evaluate(batches, verbose=0, return_dict=True)
            else:
                measured = cluster.evaluate(captioner, batches)
            scores["val_cross_entropy"] = measured["cross_entropy"]
        if cluster.is_chief:
            scores |= callbacks.score_captions(captioner, dev_images, **self._search_options())
            names = dict.fromkeys(("val_cider", MONITORED, self.monitored))
            shown = ", ".join(as_text(name, scores[name]) for name in names)
            self.job.say(f"before {self.kind}training: the {initial} scores {shown} on {photos}")
        return scores

    def run(self, captioner, batches, first_callbacks=()):
        """Train a compiled captioner on batches from make_batches.

        Returns: (the best captioner, whether the training is complete, the metrics of
        its epochs).
        """
        cluster, photos = self.job.cluster, self.job.photos
        if cluster.is_chief:
            record_photos(self.folder, self.job.images, photos.records)
        train_ids = [image.image_id for image in photos.images_in("train")]
        captioner.note_training_photos(train_ids)
        captioner.build_for(batches)
        if self.state:
            self._resume(captioner)
        progress, keep = self._progress(), self._keep()
        in_time = callbacks.StopInTime(self.job.deadline)
        dev_images = photos.images_in("dev")
        called = [callbacks.StopWhenLost(), *first_callbacks]
        if dev_images:
            called.append(callbacks.ScoreCaptions(dev_images, **self._search_options()))
        called += [*self.job.callbacks, keep]
        if photos.show_progress:  # after `keep`: an epoch whose line can be read is saved
            shown = dev_images or photos.images_in("train")
            called += [progress, callbacks.ShowCaptions(shown, **self._search_options())]
        options = {
            "validation_data": self._dev_batches(captioner) if dev_images else None,
            "initial_epoch": len(self.epochs),
            "epochs": self.num_epochs,
            "callbacks": [*called, in_time],
        }
        self.job.say(
            "training begins; TensorFlow compiles the network in the first batches, which may "
            "take minutes. An estimate of the time follows"
        )
        is_whole = is_lost = False
        try:
            if cluster.strategy is None:
                captioner.fit(batches, verbose=0, **options)
            else:
                cluster.fit(captioner, batches, **options)
            is_whole = True
        except callbacks.LostTraining:
            is_lost = True
            progress.end_line()
        except KeyboardInterrupt:
            progress.end_line()
            self.epochs = keep.epochs
            self._interrupted()
        self.epochs = cluster.broadcast(keep.epochs)
        cluster.share_folder(self.folder / "model")
        best = self._best(captioner, is_lost)
        if is_whole:
            self._name_unused_words(best)
        if cluster.broadcast(in_time.has_stopped):
            is_whole, self.job.was_interrupted = False, True
            minutes = self.job.settings.training.minutes
            self.job.say(
                f"stopped, because another epoch would end after {minutes:g} "
                f"minutes (--minutes); {self._way_on()}"
            )
        return best, is_whole, self.epochs

    def _resume(self, captioner):
        """Give a captioner and the random generators the state of the checkpoint."""
        read_model(self.folder / "model")  # a damaged one is rejected before an epoch is spent
        assign_arrays(state_of(captioner), self.state, "The checkpoint")
        self.job.say(f"resuming after {self.kind}epoch {len(self.epochs)}")

    def _progress(self):
        return callbacks.ShowProgress(
            self.num_epochs,
            label=f"{self.kind}epoch",
            epochs=self.epochs,
            before=self.initial_scores,
            monitored=self.monitored,
            patience=self.job.settings.training.patience,
        )

    def _keep(self):
        return callbacks.KeepTraining(
            self.folder,
            patience=self.job.settings.training.patience,
            epochs=self.epochs,
            before=self.initial_scores,
            monitored=self.monitored,
        )

    def _interrupted(self):
        """Record that Ctrl-C stopped training.

        On several hosts, raise it again to stop the other hosts too.
        """
        if self.job.cluster.num_hosts > 1:
            raise KeyboardInterrupt
        self.job.was_interrupted = True
        if not self.epochs:
            self.job.say(
                f"stopped in the first {self.kind}epoch, of which nothing is saved; "
                "the same call or command starts again"
            )
            return
        self.job.say(f"stopped; {self._way_on()}")

    def _way_on(self):
        return f"repeat the call or command to resume after {self.kind}epoch {len(self.epochs)}"

    def _dev_batches(self, captioner):
        training = self.job.settings.training
        group_by = self.job.settings.cross_entropy.group_by
        return self.job.photos.batches(
            "dev", captioner, training, group_by, whole=True, shuffle=False
        )

    def _search_options(self):
        training = self.job.settings.training
        return {
            "cache": self.job.photos.cache,
            "num_beams": training.num_beams,
            "max_length": training.max_length,
        }

    def _best(self, captioner, is_lost):
        """Return the captioner with the weights of its best epoch, and print which
        epoch that is.
        """
        captioner.expectation_share.assign(EXPECTATION_PROBABILITY)
        known = [*self.initial_scores, *self.epochs]
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
        patience = self.job.settings.training.patience
        if len(self.epochs) < self.num_epochs and has_plateaued(known, patience, self.monitored):
            self.job.say(f"stopped early: no better epoch in the last {patience} (--patience)")
        self.job.say(f"{self._best_in_words(known)}; it is saved in {self.folder / 'model'}")
        return captioner

    def _name_unused_words(self, captioner):
        """Name the user's own words that the captioner does not say on dev."""
        job, dev_images = self.job, self.job.photos.images_in("dev")
        is_silent = not job.photos.show_progress or job.cluster.num_hosts > 1
        if job.initial_model is None or self.kind or is_silent or not dev_images:
            return
        own = own_words(job.photos.images_in("train"), job.initial_model.vocabulary.words)
        if not own:
            return
        results = callbacks.captions_of(captioner, dev_images, **self._search_options())
        unused = unused_words(own, dev_images, [result.caption for result in results])
        if unused:
            job.say(in_words(unused))

    def _best_in_words(self, known):
        """Say which epoch is the best; `known` lists the metrics of the initial
        captioner, if it may be kept, and of all epochs.
        """
        best = best_epoch(known, self.monitored)
        number = best + 1 - len(self.initial_scores)
        which = f"{self.kind}epoch {number} of {len(self.epochs)} is the best"
        if number < 1:
            which = (
                f"none of {len(self.epochs)} {self.kind}epochs is better than the initial captioner"
            )
        figures, before = known[best], {}
        if self.initial_scores and number >= 1:
            before = self.initial_scores[0]
        name = self.monitored
        if name not in figures or not is_above_chance(figures, name):
            name = CROSS_ENTROPY
        if name not in figures:
            return which
        text = f"{which}, {as_text(name, figures[name])} on dev"
        if name in before:
            text += f" (before training: {as_text(name, before[name])})"
        return text
