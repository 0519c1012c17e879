"""A trace: what the network computed for each word of a caption, and why the word was
probable.

`make_trace` captions a photo, or takes a given caption, and reads it once more with
`keras_sat.looking.trace_steps`. Everything in a Trace is the network's own. What
decides in a search besides it stands beside it, in `Trace.result`. With
dtype="mixed_bfloat16", parts sum to the logit up to the network's rounding.
"""

import dataclasses
import os
from typing import Any

import numpy as np
from keras import ops

from data_utils.base import brief, write_whole
from data_utils.captions import words_of_captions
from data_utils.photos import photos_of
from keras_sat.bounds import count
from keras_sat.checks import ArgumentError
from keras_sat.looking.alternatives import Alternative, alternatives_at_each_step, is_repetition
from keras_sat.looking.decision import GIVEN, ChoiceRule, rule_of
from keras_sat.looking.diagram import network_of
from keras_sat.looking.display import path_ending_in
from keras_sat.looking.explorer import explorer_frame, explorer_page
from keras_sat.looking.logit_parts import logit_parts, readout_sum, votes_of, votes_of_mean
from keras_sat.looking.region_words import region_words
from keras_sat.looking.sheet import WIDTH
from keras_sat.looking.trace_steps import prepare, read
from keras_sat.search import CaptionResult, with_image_paths
from keras_sat.settings import Search

NO_PREVIOUS_WORD = (
    "The readout of this captioner (deep_output=False) does not read the previous word: its "
    "part is 0, and what it gives through the state is in the part of the memory."
)
NOT_FINITE = (
    "The network gives words logits that are NaN or infinite, so there is nothing to trace: its "
    "weights are damaged, or diverged in training. Load weights from before."
)


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A word that may come next, under the network alone.

    Attributes:
        word: the word.
        probability, logit: under the network.
        parts: a dict from "bias", "previous_word", "memory" and "photo" to numbers that
            sum to the logit. What a sentinel gives is in "memory".
    """

    word: str
    probability: float
    logit: float
    parts: dict[str, float]


@dataclasses.dataclass(frozen=True)
class TraceStep:
    """One step of a trace: the network reads a word and predicts the next one.

    Attributes:
        previous_word: the word y_{t-1} that it reads; `<start>` at first.
        word: the word y_t that was said; `<end>` in the last step, also where the
            search was cut off before. An unknown word is `<unk>`.
        attention_scores: e_ti, (rows, columns); None without attention.
        attention_weights: the weights of the context, (rows, columns), even without
            attention: alpha_ti, or what a Selection of your own made of it.
        sentinel_score: e_ts, or None without a sentinel.
        context_gate: beta_t, or None if the captioner has no gate.
        from_photo: the fraction of the context that comes from the photo, or None
            without a sentinel.
        gates: from names to the gates of the top layer, (hidden_dim,); see
            `equations.lstm_gates` and `equations.gru_gates`.
        hidden_state: h_t of the top layer, (hidden_dim,).
        cell_state: c_t of the top layer, (hidden_dim,); None for a GRU.
        top: list of the most probable Candidates, best first; the word that was said
            comes last if it is not among them.
    """

    previous_word: str
    word: str
    attention_scores: np.ndarray | None = dataclasses.field(repr=False)
    attention_weights: np.ndarray = dataclasses.field(repr=False)
    context_gate: float | None
    from_photo: float | None
    gates: dict[str, np.ndarray] = dataclasses.field(repr=False)
    hidden_state: np.ndarray = dataclasses.field(repr=False)
    cell_state: np.ndarray | None = dataclasses.field(repr=False)
    top: list[Candidate] = dataclasses.field(repr=False)
    sentinel_score: float | None = None

    @property
    def said(self) -> Candidate:
        """The Candidate that was said."""
        return next(candidate for candidate in self.top if candidate.word == self.word)


class Trace:
    """What the network computed for each word of a caption; `captioner.trace` makes it.

    `places` and `alternatives` are computed when they are asked for, with the weights
    that the captioner has then. `save` writes all of it as a page, the explorer, which
    a notebook also shows for a Trace in the last line of a cell.

    Attributes:
        words: list of the caption's words, without `<end>`.
        steps: list of TraceStep, one for each word and one for `<end>`.
        result: the CaptionResult of the search, or of the given caption: the photo,
            and what decided besides the network (`consensus`).
        left_out: a sentence that says what the parts do not show, or "".
        network: a dict that says how the network computes a step; see
            `keras_sat.looking.diagram.network_of`.
        choice_rule: ChoiceRule: how the caption was chosen.
    """

    def __init__(
        self,
        captioner: Any,
        result: CaptionResult,
        features: np.ndarray,
        *,
        num_words: int,
        num_alternatives: int,
        search: Search,
        choice_rule: ChoiceRule = GIVEN,
    ):
        """Read the caption of a CaptionResult.

        Args:
            captioner: Captioner.
            features: those of the encoder, (1, regions, feature_dim).
            num_words, num_alternatives: see `Captioner.trace`.
            search: Search, a greedy one, by which the alternatives go on.
            choice_rule: ChoiceRule.
        """
        self.result = result
        self.words = result.words
        self.left_out = "" if captioner.decoder.settings.deep_output else NO_PREVIOUS_WORD
        self.network = network_of(captioner)
        self.choice_rule = choice_rule
        self._captioner = captioner
        self._vocabulary = vocabulary = captioner.vocabulary
        self._grid = captioner.rows_and_columns()
        self._features = features
        self._num_alternatives = num_alternatives
        self._search = search
        ids = vocabulary.caption_to_ids(self.words)
        self._said_ids = np.array([*ids, vocabulary.end_token_id], np.int32)
        self._previous_ids = np.array([vocabulary.start_token_id, *ids], np.int32)
        self._places, self._alternatives = {}, {}

        decoder = captioner.decoder
        self._annotations, self._projected_features = prepare(captioner, features)
        self._reading, self._states = read(
            decoder, self._annotations, self._projected_features, self._previous_ids[None]
        )
        self._summed = readout_sum(decoder.readout, self._reading)
        self._logits = ops.convert_to_numpy(self._reading.logits)[0]  # (steps, vocabulary)
        if not np.isfinite(self._logits).all():
            raise ValueError(NOT_FINITE)
        self._probabilities = ops.convert_to_numpy(ops.softmax(self._reading.logits, axis=-1))[0]
        self.steps = [self._step(t, num_words) for t in range(len(self._said_ids))]

    def __repr__(self):
        return f"Trace({' '.join(self.words)!r}, {len(self.steps)} steps)"

    def votes(self, t: int, word: str | None = None) -> np.ndarray:
        """Return how much more each region adds to the logit of a word than an average
        region of this photo with the same attention would, (rows, columns); negative
        where it adds less.

        See `equations.votes`. The sum is the photo's part of the logit less
        `vote_of_mean`.

        Args:
            t: number of the step.
            word: any word of the vocabulary, said or not; None: the one that was said.
        """
        word_ids = self._at_all_steps(t, word)
        votes = votes_of(self._summed, self._reading, self._annotations, word_ids)
        return ops.convert_to_numpy(votes)[0, t].reshape(self._grid)

    def vote_of_mean(self, t: int, word: str | None = None) -> float:
        """Return what the mean of the photo adds to a word's logit: what even attention
        to all regions would give; see `votes`.
        """
        word_ids = self._at_all_steps(t, word)
        of_mean = votes_of_mean(self._summed, self._reading, self._annotations, word_ids)
        return float(of_mean[0, t])

    def candidate(self, t: int, word: str) -> Candidate:
        """Return the Candidate of any word of the vocabulary at step t."""
        self._check_step(t)
        (candidate,) = self._candidates(t, [self._id_of(word)])
        return candidate

    def places(self, t: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable word and its probability for each region, two arrays
        (rows, columns): the word at step t if the network saw only this region.

        The context z_t is then a_i, gated or mixed with the sentinel as it was.
        """
        self._check_step(t)
        if t not in self._places:
            word_ids, probabilities = region_words(
                self._captioner.decoder,
                self._annotations,
                self._projected_features,
                self._states[t],
                self._previous_ids[t],
            )
            words = np.array([self._vocabulary.tokens[word_id] for word_id in word_ids])
            self._places[t] = words.reshape(self._grid), probabilities.reshape(self._grid)
        return self._places[t]

    def alternatives(self, t: int, number: int | None = None) -> list[Alternative]:
        """Return the most probable Alternatives to the word of step t that a search may
        say, best first, each with the caption that greedy search goes on with.

        It follows the network and the rules of repetition, not consensus and known
        objects.

        Args:
            t: number of the step.
            number: of Alternatives; None: the `num_alternatives` of the trace.
        """
        self._check_step(t)
        number = self._num_alternatives if number is None else number
        count(0).check("number", number)
        if number not in self._alternatives:
            # A given caption may be longer than the longest of a search.
            longest = max(self._search.max_length, len(self.steps))
            self._alternatives[number] = alternatives_at_each_step(
                self._captioner,
                self._features,
                self.words,
                self._said_ids,
                self._probabilities,
                number,
                dataclasses.replace(self._search, max_length=longest),
            )
        return self._alternatives[number][t]

    def repeats(self, t: int, word: str) -> bool:
        """Return whether a search may not say a word of the vocabulary at step t,
        because it would repeat what was said; see `no_repeat_ngram`.
        """
        self._check_step(t)
        word_id = self._id_of(word)
        return is_repetition(word_id, self._said_ids, t, self._vocabulary, self._search)

    def plot(self, t: int, word: str | None = None, *, ax: Any = None, width: float = WIDTH) -> Any:
        """Draw step t, and return the figure: the map of attention, the votes of each
        region, and the logits of the most probable words, stacked by their parts.

        A region with an orange disc adds more to the word than an average region with
        the same attention would, one with a blue ring less; the area of a dot is in
        proportion to the vote. The word that was said is bold. The figure is not one of
        pyplot's: a notebook draws it where it ends a cell; elsewhere, save it with its
        `savefig`.

        Args:
            t: number of the step.
            word: whose votes are shown: any word of the vocabulary; None: the one that
                was said.
            ax: three axes, for attention, votes and words; None makes a new figure,
                with the caption above them.
            width: of a new figure, in inches: 3.3 for a column of a paper, 7 for both.
        """
        from keras_sat.looking.trace_plot import plot_step

        return plot_step(self, t, word, ax, width)

    def annotations(self) -> np.ndarray:
        """Return the annotation vectors a_i of the photo, (rows, columns,
        feature_dim).
        """
        annotations = ops.convert_to_numpy(ops.cast(self._annotations[0], "float32"))
        return annotations.reshape(*self._grid, -1)

    def context(self, t: int) -> np.ndarray:
        """Return z_t, (feature_dim,): what the readout reads of the photo, gated or
        mixed with the sentinel.
        """
        self._check_step(t)
        return ops.convert_to_numpy(self._reading.context[0, t])

    # === The explorer ===

    def save(self, path: str | os.PathLike, *, title: str | None = None) -> None:
        """Write the explorer of this trace to a .html path: one page without network
        access, in which each word is followed from the photo to its probability.

        Args:
            path: of the page.
            title: of the page; None: the caption.
        """
        write_whole(path_ending_in(".html", path), explorer_page(self, title=title))

    def _repr_html_(self):
        return explorer_frame(self)

    # === Steps ===

    def _step(self, t, num_words):
        """Return the TraceStep t."""
        reading = self._reading

        def of_step(values):
            """Return the part (dim,) of (1, steps, dim); None stays None."""
            return None if values is None else ops.convert_to_numpy(values[0, t])

        scores = of_step(reading.attention_scores)
        cell_states = reading.state.cell_states  # a GRU has none

        def number_of_step(values):
            """Return the number of (1, steps, 1); None stays None."""
            return None if values is None else of_step(values).item()

        return TraceStep(
            previous_word=self._vocabulary.tokens[self._previous_ids[t]],
            word=self._vocabulary.tokens[self._said_ids[t]],
            attention_scores=None if scores is None else scores.reshape(self._grid),
            attention_weights=of_step(reading.selection).reshape(self._grid),
            context_gate=number_of_step(reading.context_gate),
            from_photo=number_of_step(reading.from_photo),
            gates={name: of_step(values) for name, values in reading.gates.items()},
            hidden_state=of_step(reading.state.hidden_states[-1]),
            cell_state=of_step(cell_states[-1]) if cell_states else None,
            sentinel_score=number_of_step(reading.sentinel_score),
            top=self._top(t, num_words),
        )

    def _top(self, t, num_words):
        """Return the Candidates of the most probable words, and of the one said."""
        best_ids = np.argsort(-self._logits[t], kind="stable")[:num_words].tolist()
        said_id = int(self._said_ids[t])
        if said_id not in best_ids:
            best_ids.append(said_id)
        return self._candidates(t, best_ids)

    def _candidates(self, t, word_ids):
        """Return the Candidates of words at step t."""
        parts = logit_parts(self._summed, 0, t, np.array(word_ids, np.int32))
        parts = {name: ops.convert_to_numpy(part).tolist() for name, part in parts.items()}
        return [
            Candidate(
                word=self._vocabulary.tokens[word_id],
                probability=float(self._probabilities[t, word_id]),
                logit=float(self._logits[t, word_id]),
                parts={name: part[number] for name, part in parts.items()},
            )
            for number, word_id in enumerate(word_ids)
        ]

    # === What is asked for ===

    def _check_step(self, t):
        count(0, len(self.steps) - 1).check("t", t)

    def _id_of(self, word):
        """Return the id of a word, which must be in the vocabulary."""
        if not isinstance(word, str) or word not in self._vocabulary.tokens:
            raise ValueError(
                f"`word` must be a word of the captioner's vocabulary. Received: {brief(word)}"
            )
        return self._vocabulary.tokens.index(word)

    def _at_all_steps(self, t, word):
        """Return the id of a word at each step, (1, steps); for None, of those said."""
        self._check_step(t)
        if word is None:
            return self._said_ids[None]
        return np.full_like(self._said_ids, self._id_of(word))[None]


def make_trace(
    captioner: Any,
    image: Any,
    caption: str | None = None,
    *,
    num_words: int = 10,
    num_alternatives: int = 3,
    **search: Any,
) -> Trace:
    """Return the Trace of a photo's caption; see `Captioner.trace`."""
    count(1).check("num_words", num_words)
    count(0).check("num_alternatives", num_alternatives)
    settings = captioner.search_for("trace", search, also=("num_words", "num_alternatives"))
    _reject_unfit(caption, search, settings)
    photos, many = photos_of(image)
    if many:
        raise ValueError(f"A trace is of one photo. Received: image={brief(image)}")

    (batch,) = captioner.batches(photos, 1)
    if caption is None:
        results = captioner.caption_batch(batch, settings)
    else:
        words = words_of_captions(caption, 1)
        results = captioner.attend_batch(batch, words)
    ((_, result),) = with_image_paths(zip(photos, results))
    rule = rule_of(captioner, settings, is_given=caption is not None)
    return _trace(captioner, result, batch.features, settings, rule, num_words, num_alternatives)


def trace_of_result(
    captioner: Any, result: CaptionResult, image: Any, *, is_given: bool = False, **search: Any
) -> Trace:
    """Return the Trace of a caption that was found before.

    Args:
        captioner: Captioner.
        result: CaptionResult of the whole photo.
        image: the photo.
        is_given: whether it was given, not found.
        **search: the options with which it was found.
    """
    (batch,) = captioner.batches(photos_of(image)[0], 1)
    settings = captioner.search_for("trace", search)
    rule = rule_of(captioner, settings, is_given=is_given)
    return _trace(captioner, result, batch.features, settings, rule, 10, 3)


def _trace(captioner, result, features, search, rule, num_words, num_alternatives):
    """Return the Trace of a CaptionResult that was found by a Search, with a
    ChoiceRule.
    """
    return Trace(
        captioner,
        result,
        features,
        num_words=num_words,
        num_alternatives=num_alternatives,
        search=search.greedy(),
        choice_rule=rule,
    )


def _reject_unfit(caption, given, search):
    """Raise a ValueError for arguments of a trace that do not go together.

    Args:
        caption: the given caption, or None.
        given: the options of the search that were passed, as a dict.
        search: Search.
    """
    if caption is not None and not isinstance(caption, str):
        raise ValueError(f"`caption` must be one sentence. Received: caption={brief(caption)}")
    if caption is not None and given:
        raise ArgumentError(
            "A given caption is not searched for: leave out `caption` or the options of the "
            "search.",
            caption=caption,
            **given,
        )
    if search.sample_attention:
        raise ArgumentError(
            "A trace reads with the expected context: leave out `sample_attention`.",
            sample_attention=True,
        )
