"""A phase of training that is carried out: it is started, resumed or loaded, and its
best epoch is chosen.
"""

import math
import warnings

import keras

from data_utils.base import clear_half_written, read_sealed_json, write_sealed_json
from keras_sat.captioner import Captioner
from keras_sat.checks import STOPPED_EARLY
from keras_sat.files import CHECKPOINT_WAY_OUT, assign_arrays, read_checkpoint, read_model, state_of
from keras_sat.learning import EXPECTATION_PROBABILITY
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


class Run:
    """One phase of a Plan, which is started, resumed or loaded.

    Args:
        plan: Plan.
        phase: one of its phases.
        photos: TrainingPhotos, which are read or encoded when a phase needs them.
        cluster: the Cluster that trains.
        start: the Captioner that the phase starts from: the initial model, or that of
            the phase before; None: random weights.
        folder: the folder in which this process writes the run: that of the plan, or on
            a host that is not the chief a temporary one.
        callbacks: see `fit`.
        deadline: when `minutes` are over, by `time.monotonic`.

    Attributes:
        folder: that of the phase.
        epochs: list of the metrics of the epochs so far.
        initial_scores: list with the metrics of `start`, if it may be kept.
        is_whole: whether the phase has come to its end.
        was_interrupted: whether Ctrl-C or the deadline ended it.
    """

    def __init__(
        self,
        plan,
        phase,
        photos,
        cluster,
        folder,
        *,
        start=None,
        callbacks=(),
        deadline=math.inf,
    ):
        self.plan = plan
        self.phase = phase
        self.photos = photos
        self.cluster = cluster
        self.start = start
        self.folder = folder / phase.folder
        self.callbacks = callbacks
        self.deadline = deadline
        self.is_whole = self.was_interrupted = False
        self.epochs, self._state = read_checkpoint(self.folder / "checkpoint")
        self.epochs = cluster.broadcast(self.epochs)
        self.initial_scores = cluster.broadcast(self._read_initial_scores())

    def say(self, *lines):
        """Print lines, unless `fit` is to print nothing."""
        if self.photos.show_progress:
            print(*lines, sep="\n")

    @property
    def training(self):
        """The settings of all epochs, a `keras_sat.settings.Training`."""
        return self.plan.settings.training

    def record(self, described):
        """Write the record of the training run, or reject a folder that contains a
        different run.
        """
        self.cluster.check_same(described)
        clear_half_written(
            *(
                self.folder / name
                for name in ("arguments.json", PHOTOS, "history.csv", INITIAL_SCORES)
            )
        )
        if self.cluster.is_chief:
            if not self.epochs:  # left from an abandoned training
                (self.folder / INITIAL_SCORES).unlink(missing_ok=True)
            if (self.folder / "arguments.json").exists() and not self.epochs:
                self.say(
                    f"{self.folder}: the {self.phase.prefix}training here was stopped in its first "
                    "epoch; nothing was saved, starting again"
                )
            record_arguments(self.folder, described, self.epochs, has_ended=self.has_ended)
            if self.epochs:
                photos, show_progress = self.photos.captioned, self.photos.show_progress
                reject_changed_photos(self.folder, photos, show_progress=show_progress)
        if self.epochs:
            write_history(self.folder / "history.csv", self.epochs)

    def _read_initial_scores(self):
        path = self.folder / INITIAL_SCORES
        if not self.epochs or not path.exists():
            return []
        return [read_sealed_json(path, "the scores before training", CHECKPOINT_WAY_OUT)]

    @property
    def has_ended(self):
        """Whether all epochs are done, or too many without a better one."""
        known = [*self.initial_scores, *self.epochs]
        has_all = len(self.epochs) >= self.phase.num_epochs
        return has_all or has_plateaued(known, self.training.patience, self.phase.monitored)

    def loaded(self):
        """Load a phase that has ended, and return its captioner."""
        self.say(
            f"{self.folder}: this training run ended after {self.phase.prefix}epoch "
            f"{len(self.epochs)}; loading it"
        )
        self.cluster.share_folder(self.folder / "model")
        encoder = self.plan.settings.encoder.encoder
        if not isinstance(encoder, keras.Model):
            is_custom = self.start is not None and self.start.photo_encoder.is_custom
            encoder = self.start.encoder_model if is_custom else None
        captioner = Captioner.load(self.folder / "model", encoder=encoder)
        self.is_whole = True
        return captioner

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
            self.initial_scores = self.cluster.broadcast([scores])
        except KeyboardInterrupt:
            self._interrupted()
        return not self.was_interrupted

    def _scores_on_dev(self, captioner, cross_entropy):
        """Return the scores of a captioner as a dict, and print them; see
        `keep_initial`. Without dev photos it is empty.
        """
        dev_images = self.photos.images_in("dev")
        if not dev_images:
            return {}
        scores = {}
        initial = "bundled captioner" if self.plan.keeps_initial_model else "captioner"
        photos = f"the {len(dev_images)} dev photos"
        self.say(
            f"scoring the {initial} on {photos} first; TensorFlow compiles the network for that, "
            "which may take minutes"
        )
        if cross_entropy:
            batches = self._dev_batches(captioner)
            if self.cluster.strategy is None:
                measured = captioner.evaluate(batches, verbose=0, return_dict=True)
            else:
                measured = self.cluster.evaluate(captioner, batches)
            scores["val_cross_entropy"] = measured["cross_entropy"]
        if self.cluster.is_chief:
            scores |= callbacks.score_captions(captioner, dev_images, **self._search_options())
            names = dict.fromkeys(("val_cider", MONITORED, self.phase.monitored))
            shown = ", ".join(as_text(name, scores[name]) for name in names)
            when = f"before {self.phase.prefix}training"
            self.say(f"{when}: the {initial} scores {shown} on {photos}")
        return scores

    def batches(self, split, captioner, group_by, **options):
        """Return the batches of a split; see `TrainingPhotos.batches`."""
        shares = self.cluster.shares
        return self.photos.batches(split, captioner, self.training, group_by, shares, **options)

    def train(self, captioner, batches, first_callbacks=()):
        """Train a compiled captioner on batches from make_batches, and return the best
        captioner.
        """
        photos = self.photos
        if self.cluster.is_chief:
            record_photos(self.folder, photos.captioned, photos.records)
        captioner.note_training_photos([image.image_id for image in photos.images_in("train")])
        captioner.build_for(batches)
        if self._state:
            self._resume(captioner)
        progress, keep = self._progress(), self._keep()
        in_time = callbacks.StopInTime(self.deadline)
        dev_images = photos.images_in("dev")
        called = [callbacks.StopWhenLost(), *first_callbacks]
        if dev_images:
            called.append(callbacks.ScoreCaptions(dev_images, **self._search_options()))
        called += [*self.callbacks, keep]
        if photos.show_progress:  # after `keep`: an epoch whose line can be read is saved
            shown = dev_images or photos.images_in("train")
            called += [progress, callbacks.ShowCaptions(shown, **self._search_options())]
        options = {
            "validation_data": self._dev_batches(captioner) if dev_images else None,
            "initial_epoch": len(self.epochs),
            "epochs": self.phase.num_epochs,
            "callbacks": [*called, in_time],
        }
        self.say(
            "training begins; TensorFlow compiles the network in the first batches, which may "
            "take minutes. An estimate of the time follows"
        )
        is_lost = False
        try:
            if self.cluster.strategy is None:
                captioner.fit(batches, verbose=0, **options)
            else:
                self.cluster.fit(captioner, batches, **options)
            self.is_whole = True
        except callbacks.LostTraining:
            is_lost = True
            progress.end_line()
        except KeyboardInterrupt:
            progress.end_line()
            self.epochs = keep.epochs
            self._interrupted()
        self.epochs = self.cluster.broadcast(keep.epochs)
        self.cluster.share_folder(self.folder / "model")
        best = self._best(captioner, is_lost)
        if self.is_whole:
            self._name_unused_words(best)
        if self.cluster.broadcast(in_time.has_stopped):
            self.is_whole, self.was_interrupted = False, True
            self.say(
                f"stopped, because another epoch would end after {self.training.minutes:g} "
                f"minutes (--minutes); {self._way_on()}"
            )
        return best

    def _resume(self, captioner):
        """Give a captioner and the random generators the state of the checkpoint."""
        read_model(self.folder / "model")  # a damaged one is rejected before an epoch is spent
        assign_arrays(state_of(captioner), self._state, "The checkpoint")
        self.say(f"resuming after {self.phase.prefix}epoch {len(self.epochs)}")

    def _progress(self):
        return callbacks.ShowProgress(
            self.phase.num_epochs,
            label=f"{self.phase.prefix}epoch",
            epochs=self.epochs,
            before=self.initial_scores,
            monitored=self.phase.monitored,
            patience=self.training.patience,
        )

    def _keep(self):
        return callbacks.KeepTraining(
            self.folder,
            patience=self.training.patience,
            epochs=self.epochs,
            before=self.initial_scores,
            monitored=self.phase.monitored,
        )

    def _interrupted(self):
        """Record that Ctrl-C stopped training.

        On several hosts, raise it again to stop the other hosts too.
        """
        if self.cluster.num_hosts > 1:
            raise KeyboardInterrupt
        self.was_interrupted = True
        if not self.epochs:
            self.say(
                f"stopped in the first {self.phase.prefix}epoch, of which nothing is saved; "
                "the same call or command starts again"
            )
            return
        self.say(f"stopped; {self._way_on()}")

    def _way_on(self):
        last = f"{self.phase.prefix}epoch {len(self.epochs)}"
        return f"repeat the call or command to resume after {last}"

    def _dev_batches(self, captioner):
        group_by = self.plan.settings.cross_entropy.group_by
        return self.batches("dev", captioner, group_by, whole=True, shuffle=False)

    def _search_options(self):
        return {
            "cache": self.photos.cache,
            "num_beams": self.training.num_beams,
            "max_length": self.training.max_length,
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
        patience = self.training.patience
        is_short = len(self.epochs) < self.phase.num_epochs
        if is_short and has_plateaued(known, patience, self.phase.monitored):
            self.say(f"stopped early: no better epoch in the last {patience} (--patience)")
        self.say(f"{self._best_in_words(known)}; it is saved in {self.folder / 'model'}")
        return captioner

    def _name_unused_words(self, captioner):
        """Name the user's own words that the captioner does not say on dev."""
        dev_images = self.photos.images_in("dev")
        is_silent = not self.photos.show_progress or self.cluster.num_hosts > 1
        is_first = self.phase == self.plan.words
        if self.start is None or not is_first or is_silent or not dev_images:
            return
        own = own_words(self.photos.images_in("train"), self.start.vocabulary.words)
        if not own:
            return
        results = callbacks.captions_of(captioner, dev_images, **self._search_options())
        unused = unused_words(own, dev_images, [result.caption for result in results])
        if unused:
            self.say(in_words(unused))

    def _best_in_words(self, known):
        """Say which epoch is the best; `known` lists the metrics of the initial
        captioner, if it may be kept, and of all epochs.
        """
        best = best_epoch(known, self.phase.monitored)
        number = best + 1 - len(self.initial_scores)
        which = f"{self.phase.prefix}epoch {number} of {len(self.epochs)} is the best"
        if number < 1:
            epochs = f"{len(self.epochs)} {self.phase.prefix}epochs"
            which = f"none of {epochs} is better than the initial captioner"
        figures, before = known[best], {}
        if self.initial_scores and number >= 1:
            before = self.initial_scores[0]
        name = self.phase.monitored
        if name not in figures or not is_above_chance(figures, name):
            name = CROSS_ENTROPY
        if name not in figures:
            return which
        text = f"{which}, {as_text(name, figures[name])} on dev"
        if name in before:
            text += f" (before training: {as_text(name, before[name])})"
        return text
