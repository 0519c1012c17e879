"""All options of captioners, searches and training, each defined once with its default,
meaning and valid values.
"""

import dataclasses
import importlib
import inspect
import math
import numbers
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from keras_sat.checks import ArgumentError, near_name
from keras_sat.removed_options import without_removed

# The names in the dicts of `keras_sat.model`, which would import TensorFlow; a test
# compares them.
ENCODER_NAMES = (
    "vgg16",
    "vgg19",
    "resnet50",
    "mobilenet_v2",
    "efficientnet_b0",
    "efficientnet_lite0",
    "efficientnet_lite2",
    "tiny",
)
ATTENTION_NAMES = ("soft", "hard", "none")
SCORING_NAMES = ("additive", "dot", "bilinear")
CELL_NAMES = ("lstm", "gru")
DTYPES = ("float32", "mixed_bfloat16", "auto")
# Extra values of each word that are not in the paper, see `CaptionResult.extras`.
EXTRAS = ("from_photo",)
# What is drawn and measured: see `CaptionResult.maps`.
MAP_KINDS = ("attention", "votes")
# What is measured: see `keras_sat.scoring.measured_maps`.
MEASURED_MAPS = (*MAP_KINDS, "votes-blurred")
# The kinds of options, with their headings in the help. "encoder" and "architecture"
# are fixed after training.
KINDS = {
    "training": "Training",  # of all epochs
    "words": "Cross-entropy epochs",  # the first phase
    "rewards": "Self-critical epochs",
    "loss": "Attention and loss",
    "search": "Search",
    "photos": "What the encoder sees",
    "encoder": "Encoder",
    "architecture": "Network",
}
# The options that a user of `fit` needs first, besides those for data, folders and the
# initial model.
FIRST = ("encoder", "encoder_weights", "attention", "epochs", "batch_size", "learning_rate", "seed")
MOST = 2**31 - 1  # of an int32
MOST_WORDS = 10_000  # of a caption: memory for all of them is allocated at once
MOST_BEAMS = 1_000  # memory grows with them
CONSENSUS_BEAMS = 10  # the default number of beams for a choice by consensus
MOST_SEED = 2**32 - 1  # for Keras and numpy
ANY_COUNT = 2**63 - 1


@dataclass(frozen=True)
class Bound:
    """The set of valid values of an option, for which `is_valid` returns True.

    Attributes:
        expected: their description in messages, such as "above 0", or a function that
            returns it.
        kind: type of the command-line flag: int, float, str or bool; None: there is no
            flag.
        choices: the choices on the command line; () if they are not listed.
        takes_none: whether None is valid too.
    """

    expected: str | Callable
    is_valid: Callable
    kind: type | None = str
    choices: tuple = ()
    takes_none: bool = False

    def check(self, name, value):
        """Raise an ArgumentError for an invalid value."""
        if not ((value is None and self.takes_none) or self.is_valid(value)):
            raise ArgumentError(
                expected=self.expected() if callable(self.expected) else self.expected,
                **{name: value},
            )


def count(least=1, most=MOST):
    """Return a Bound that allows whole numbers from `least` to `most`."""

    def is_valid(value):
        return (
            isinstance(value, numbers.Integral)
            and not isinstance(value, bool)
            and least <= value <= most
        )

    return Bound(f"a whole number from {least} to {most}", is_valid, int)


def _number(expected, is_within):
    return Bound(
        expected, lambda value: isinstance(value, numbers.Real) and is_within(value), float
    )


at_least_zero = _number("a number of at least 0", lambda value: 0 <= value < math.inf)
above_zero = _number("a number above 0", lambda value: 0 < value < math.inf)
pixels = _number("a number from 0 to 100", lambda value: 0 <= value <= 100)
probability = _number("a number from 0 to 1", lambda value: 0 <= value <= 1)
fraction = _number("a number of at least 0 and below 1", lambda value: 0 <= value < 1)
positive_fraction = _number("a number above 0 and at most 1", lambda value: 0 < value <= 1)
_RATE = "a number above 0, such as 0.0004, or a Keras learning rate schedule"
a_learning_rate = Bound(_RATE, lambda value: callable(value) or above_zero.is_valid(value), float)
flag = Bound(
    "True or False", lambda value: type(value).__name__ in ("bool", "bool_"), bool
)  # numpy's too


def one_of(*choices):
    """Return a Bound that allows only these words."""
    return Bound(
        f"one of: {', '.join(choices)}",
        lambda word: isinstance(word, str) and word in choices,
        str,
        choices,
    )


def name_in(module, registry, listed, also=""):
    """Return a Bound that allows the keys of a dict in `keras_sat.model`, which is not
    imported for `listed` keys.

    If `also` is given, a keras.Model is valid too; `also` is then the end of the error
    message.
    """

    def names():
        return getattr(importlib.import_module(f"keras_sat.model.{module}"), registry)

    def is_valid(value):
        if isinstance(value, str):
            return value in listed or value in names()
        return bool(also) and isinstance(value, importlib.import_module("keras").Model)

    return Bound(lambda: f"one of: {', '.join(names())}{also}", is_valid, str, listed)


one_word = Bound(
    'one word, or ""', lambda value: isinstance(value, str) and re.fullmatch(r"\S{0,99}", value)
)
a_training = one_of("frozen", "fine-tuned", "scratch")
an_encoder = name_in("encoders", "ENCODERS", ENCODER_NAMES, also=", or a keras.Model, or None")


def unchecked(kind=None, *choices):
    """Return a Bound that allows any value, because the code that uses the value checks
    it.
    """
    return Bound("", lambda value: True, kind, choices, takes_none=True)


# === Options ===

_LONGER = "values above 0 favour longer captions"
_CONSENSUS = "weight of the agreement with captions of similar training photos; try 40"
_NO_REPEAT = "do not repeat n-grams of this length; 0: no limit; try 3"
_AROUND = 'say no word twice in a row or around this word; "": no limit; try and'


def option(kind, default, help, bound, none="", unset=False):
    """Return a dataclass field that defines an option of a kind in KINDS, with its
    meaning in one line and its Bound.

    Args:
        none: the meaning of None, in a few words; "": None is not valid.
        unset: whether `fit` replaces None with the preset or default; it always does if
            None is not valid.
    """
    bound = dataclasses.replace(bound, takes_none=True) if none else bound
    metadata = {
        "kind": kind,
        "help": help,
        "bound": bound,
        "none": none,
        "none_is_unset": unset or not none,
    }
    return dataclasses.field(default=default, metadata=metadata)


class Options:
    """Base class of the option dataclasses, whose fields are made by `option` and
    checked on creation.
    """

    def __post_init__(self):
        self.check(**self.to_dict())
        self.check_together()

    def check_together(self):
        """Raise a ValueError for an invalid combination of values."""

    @classmethod
    def of(cls, function_name, arguments, also=()):
        """Build the options from the keyword arguments of a function, a dict.

        Args:
            function_name: named in the error for an unknown argument.
            also: names of the function's other arguments, which may have been meant.
        """
        arguments = without_removed(function_name, arguments)
        reject_unknown(function_name, arguments, [*cls.names(), *also])
        return cls(**arguments)

    @classmethod
    def check(cls, **options):
        """Raise an ArgumentError if one of these values is invalid."""
        fields = cls.fields()
        for name, value in options.items():
            fields[name].metadata["bound"].check(name, value)

    @classmethod
    def fields(cls):
        """Return a dict from the names of the options to their fields."""
        return {field.name: field for field in dataclasses.fields(cls)}

    @classmethod
    def names(cls, *kinds):
        """Return the names of all options, or of the options of the given kinds."""
        return tuple(
            name
            for name, field in cls.fields().items()
            if not kinds or field.metadata["kind"] in kinds
        )

    @classmethod
    def defaults(cls):
        """Return a dict from the names of the options to their defaults."""
        return {name: field.default for name, field in cls.fields().items()}

    def to_dict(self):
        """Return a dict from the names of the options to their values."""
        return {name: getattr(self, name) for name in self.names()}


@dataclass(frozen=True, kw_only=True)
class DecoderOptions(Options):
    """Options of CaptionDecoder.

    `dropout_words` makes it rely on the photo more than on the previous words.
    """

    attention: str = option(
        "loss",
        "soft",
        "how the decoder attends",
        name_in("selections", "ATTENTIONS", ATTENTION_NAMES),
    )
    scoring: str = option(
        "architecture",
        "additive",
        "how regions are scored",
        name_in("scorings", "SCORINGS", SCORING_NAMES),
    )
    cell: str = option(
        "architecture", "lstm", "type of recurrent layer", name_in("cells", "CELLS", CELL_NAMES)
    )
    num_layers: int = option(
        "architecture",
        1,
        "number of recurrent layers; attention reads the state of the top one",
        count(),
    )
    embedding_dim: int = option(
        "architecture", 512, "length of a word vector (m in the paper)", count()
    )
    hidden_dim: int = option(
        "architecture", 512, "size of the recurrent layers (n in the paper)", count()
    )
    attention_dim: int = option(
        "architecture", 512, "size of the hidden layer of additive attention", count()
    )
    context_gate: bool = option(
        "architecture",
        True,
        "multiply the context by beta_t; without attention there is no gate",
        flag,
    )
    deep_output: bool = option(
        "architecture", True, "use equation (7); False: one layer on state and context", flag
    )
    readout_activation: Any = option(
        "architecture",
        None,
        "activation; tanh in the paper's code",
        unchecked(str, "tanh", "relu"),
        none="none, as in the paper",
    )
    dropout_words: float = option("training", 0.0, "dropout rate of whole input words", fraction)
    dropout_before_readout: float = option(
        "training", 0.5, "dropout rate of h_t before the readout", fraction
    )
    dropout_after_readout: float = option("training", 0.5, "dropout rate of the readout", fraction)
    seed: int = option(
        "training", 0, "random seed for dropout and sampled attention", count(0, MOST_SEED)
    )


@dataclass(frozen=True, kw_only=True)
class CaptionerOptions(DecoderOptions):
    """Options of Captioner, including those of its decoder."""

    encoder: Any = option(
        "encoder",
        "vgg16",
        "network that computes the features",
        an_encoder,
        none="no encoder",
        unset=True,
    )
    encoder_layer: str | None = option(
        "encoder",
        None,
        "layer that gives the grid",
        unchecked(str),
        none="the encoder's",
        unset=True,
    )
    encoder_weights: Any = option(
        "encoder",
        "imagenet",
        'a file, or "bundled" (from the bundled captioner)',
        unchecked(str),
        none="random weights",
    )
    encoder_training: str | None = option(
        "architecture",
        None,
        "fine-tuned: with the decoder; scratch: random weights",
        a_training,
        none="frozen; tiny: scratch",
        unset=True,
    )
    trained_up_to: str | None = option(
        "architecture",
        None,
        "train layers after encoder_layer up to this",
        unchecked(str),
        none="none",
    )
    image_size: Any = option(
        "encoder",
        None,
        "side of square input photos",
        unchecked(int),
        none="the encoder's",
        unset=True,
    )
    grid: str | None = option(
        "photos",
        None,
        "size of the grid, such as 14x14 (by dilation)",
        unchecked(str),
        none="the encoder's",
    )
    grid_shape: tuple | None = option(
        "architecture", None, "(rows, columns) of the features", unchecked(), none="the encoder's"
    )
    photo_blur: float | None = option(
        "photos",
        None,
        "blur: standard deviation in pixels",
        pixels,
        none="0, or that of bundled weights",
    )
    normalise_features: bool = option(
        "architecture", False, "give each feature vector mean 0 and variance 1", flag
    )
    feature_projection_dim: int | None = option(
        "architecture", None, "project features to this length", count(), none="no projection"
    )
    feature_activation: Any = option(
        "architecture", None, "projection's activation", unchecked(str, "relu", "tanh"), none="none"
    )
    feature_dropout: float = option("training", 0.0, "dropout rate of features", fraction)
    attends: str = option(
        "architecture",
        "before",
        "attend before or after reading the last word",
        one_of("before", "after"),
    )
    sentinel: bool = option(
        "architecture", False, "add a visual sentinel to the regions (Lu et al., 2017)", flag
    )
    attention_penalty_weight: float = option(
        "loss", 0.33, "lambda of the penalty in equation (14)", at_least_zero
    )
    guide_weight: float = option(
        "loss", 0.0, "supervise attention with word detectors; try 0.5", at_least_zero
    )
    box_weight: float = option(
        "loss", 0.0, "supervise attention with the boxes of phrases", at_least_zero
    )
    sharpness_weight: float = option(
        "loss", 0.0, "weight of the entropy of attention in the loss; try 0.02", at_least_zero
    )
    label_smoothing: float = option(
        "loss", 0.0, "fraction of the probability spread over the vocabulary", fraction
    )
    num_samples: int = option(
        "loss", 1, "hard attention: samples per caption (N in equation (12))", count()
    )
    reward_weight: float = option(
        "loss", 0.1, "hard attention: weight of the reward (lambda_r)", at_least_zero
    )
    entropy_weight: float = option(
        "loss", 0.002, "hard attention: weight of the entropy (lambda_e)", at_least_zero
    )
    length_penalty: float = option("search", 0.0, _LONGER, at_least_zero)
    no_repeat_ngram: int = option("search", 0, _NO_REPEAT, count(0, MOST_WORDS))
    no_repeat_around: str = option("search", "", _AROUND, one_word)
    consensus_weight: float = option("search", 0.0, _CONSENSUS, at_least_zero)


@dataclass(frozen=True, kw_only=True)
class BeamSearchOptions(Options):
    """Options of greedy and beam search."""

    num_beams: int | None = option(
        "search",
        None,
        "number of beams; 1: greedy",
        count(1, MOST_BEAMS),
        none=f"3, or {CONSENSUS_BEAMS} for consensus, or num_results if more",
    )
    max_length: int = option(
        "search", 20, "maximum number of words, including `<end>`", count(1, MOST_WORDS)
    )
    length_penalty: float | None = option(
        "search", None, _LONGER, at_least_zero, none="the captioner's own"
    )
    no_repeat_ngram: int | None = option(
        "search", None, _NO_REPEAT, count(0, MOST_WORDS), none="the captioner's own"
    )
    no_repeat_around: str | None = option(
        "search", None, _AROUND, one_word, none="the captioner's own"
    )
    allow_unknown: bool = option("search", False, "allow `<unk>` in captions", flag)

    @property
    def beams(self):
        """The number of beams: by default, 3 or the number of results, whichever is
        greater.
        """
        return self.num_beams or min(MOST_BEAMS, max(3, getattr(self, "num_results", 1)))


@dataclass(frozen=True, kw_only=True)
class ConsensusOptions(BeamSearchOptions):
    """Options of a search in whole photos, which may choose among its beams by
    consensus.
    """

    consensus_weight: float | None = option(
        "search", None, _CONSENSUS, at_least_zero, none="the captioner's own"
    )


@dataclass(frozen=True, kw_only=True)
class SearchOptions(ConsensusOptions):
    """Options for captioning by search or by sampling."""

    num_results: int = option(
        "search", 1, "captions per photo; the default num_beams is at least this", count()
    )
    temperature: float | None = option(
        "search",
        None,
        "sample words at this temperature (try 1.0)",
        above_zero,
        none="search instead",
    )
    top_k: int | None = option(
        "search", None, "sample only from the k most probable words", count(), none="from all"
    )
    top_p: float | None = option(
        "search",
        None,
        "nucleus sampling: total probability of the words",
        positive_fraction,
        none="from all",
    )
    sample_attention: bool = option(
        "search", False, "with hard attention, sample a region for each word", flag
    )
    seed: int | None = option(
        "search",
        None,
        "random seed, combined with the photo's number",
        count(0, ANY_COUNT),
        none="a new one",
    )
    votes: bool = option(
        "search",
        False,
        "also compute what each region adds to each word, see `CaptionResult.votes`",
        flag,
    )
    first_photo: int = option("search", 0, "the number of the first photo", count(0, ANY_COUNT))
    batch_size: int = option("search", 64, "photos per batch", count())

    def check_together(self):
        if self.temperature is None and (self.top_k is not None or self.top_p is not None):
            raise ArgumentError(
                "`top_k` and `top_p` require `temperature`.", top_k=self.top_k, top_p=self.top_p
            )
        names = (
            "num_beams",
            "length_penalty",
            "no_repeat_ngram",
            "no_repeat_around",
            "consensus_weight",
        )
        searched = {name: value for name in names if (value := getattr(self, name)) is not None}
        if self.temperature is not None and searched and searched != {"num_beams": 1}:
            problem = (
                f"`temperature` requires sampling, but {', '.join(searched)} a search. Pass "
                "only one of them."
            )
            raise ArgumentError(problem, temperature=self.temperature, **searched)
        if self.votes and self.sample_attention:
            raise ArgumentError(
                "Votes are those of the expected context: pass only one of `votes` and "
                "`sample_attention`.",
                votes=True,
                sample_attention=True,
            )
        if self.temperature is None and self.num_results > self.beams:
            received = {"num_results": self.num_results, "num_beams": self.beams}
            raise ArgumentError("A search cannot return more results than beams.", **received)


@dataclass(frozen=True, kw_only=True)
class OptimizerOptions(Options):
    """Options of the optimizer; see `Captioner.compile`."""

    learning_rate: float = option(
        "words", 4e-4, "learning rate (if the optimizer is given by name)", a_learning_rate
    )
    clip_norm: float | None = option(
        "training", 5.0, "maximum global gradient norm", above_zero, none="no limit"
    )
    weight_decay: float | None = option(
        "training", None, "weight decay (of matrices only)", at_least_zero, none="no decay"
    )
    average_momentum: float | None = option(
        "training", None, "momentum of the weight average; try 0.998", fraction, none="no average"
    )
    encoder_rate: float = option(
        "training",
        1.0,
        "encoder's learning rate, as a fraction of learning_rate",
        positive_fraction,
    )
    first_layer_rate: float = option(
        "training",
        1.0,
        "fraction of encoder_rate for the first trained layer; it rises to 1 layer by layer",
        positive_fraction,
    )


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(OptimizerOptions):
    """Options of `keras_sat.fit`. Those shared with `Captioner.compile` have the same
    meaning.
    """

    epochs: int = option(
        "words", 20, "maximum number of passes over the training captions", count(0)
    )
    batch_size: int = option("training", 64, "captions in a batch (over all devices)", count())
    group_by: str | None = option(
        "words",
        None,
        "group captions by length or by photo; by photo each is encoded once an epoch",
        one_of("length", "image"),
        none="by photo if the encoder is trained, else by length",
        unset=True,
    )
    seed: int = option(
        "training",
        0,
        "random seed for weights, order of batches, dropout and sampling",
        count(0, MOST_SEED),
    )
    deterministic: bool = option(
        "training", False, "make results bit-for-bit reproducible with the same seed; slower", flag
    )
    optimizer: Any = option(
        "training",
        "adam",
        "a name, or a Keras optimizer",
        unchecked(str, "adam", "adamw", "rmsprop", "sgd"),
    )
    schedule: str = option(
        "words",
        "constant",
        "learning rate schedule; cosine falls to 0",
        one_of("constant", "cosine"),
    )
    warmup_steps: int = option(
        "words", 0, "number of updates in which the learning rate rises from 0", count(0)
    )
    num_views: int = option(
        "words", 1, "views of each training photo: 2 adds the mirror image, more add crops", count()
    )
    photo_jitter: float = option(
        "training", 0.0, "strength of the augmentation of size, brightness and noise", probability
    )
    patience: int | None = option(
        "training", 5, "stop after this many epochs without a better BLEU-4", count(), none="never"
    )
    minutes: float | None = option(
        "training",
        None,
        "start no epoch that would end after so many minutes, but train one; the same call resumes",
        above_zero,
        none="no limit",
    )
    min_count: int = option("words", 1, "minimum count of a word in the vocabulary", count())
    max_words: int | None = option(
        "words", 10_000, "maximum size of the vocabulary", count(), none="keep all words"
    )
    expectation_epochs: int = option(
        "words", 0, "hard attention: epochs with soft attention before sampling", count(0)
    )
    num_beams: int = option(
        "training",
        1,
        "number of beams for captioning the dev split after each epoch",
        count(1, MOST_BEAMS),
    )
    max_length: int = option(
        "training", 20, "maximum number of words in these dev captions", count(1, MOST_WORDS)
    )
    dtype: Any = option(
        "training",
        None,
        "auto: mixed_bfloat16 where possible",
        unchecked(str, *DTYPES),
        none="Keras' default",
    )


@dataclass(frozen=True, kw_only=True)
class SelfCriticalOptions(Options):
    """Options of the self-critical epochs of `keras_sat.fit`; CIDEr is the reward."""

    self_critical_epochs: int = option(
        "rewards", 0, "epochs with the CIDEr of whole captions as the reward", count(0)
    )
    self_critical_rate: float = option(
        "rewards", 5e-5, "constant learning rate of these epochs", above_zero
    )
    reward_baseline: str = option(
        "rewards", "greedy", "baseline: greedy caption or other samples", one_of("greedy", "others")
    )


# === Functions that take options ===

Documented = TypeVar("Documented", bound=Callable)  # so that type checkers know the result


def split_options(function_name, options, *classes, also=()):
    """Split a dict of options into one for each class and one for the names in `also`;
    reject unknown names.

    The first class that has an option gets it. `function_name` is the function that
    received the options, for messages.
    """
    options = without_removed(function_name, options)
    names_of_parts = [*(cls.names() for cls in classes), tuple(also)]
    known_names = [name for names in names_of_parts for name in names]
    reject_unknown(function_name, options, known_names)
    parts = [{} for _ in names_of_parts]
    for name, value in options.items():
        for part, names in zip(parts, names_of_parts):
            if name in names:
                part[name] = value
                break
    return parts


def reject_unknown(function_name, names, known_names):
    """Raise a ValueError for an unknown option name, and suggest a similar name."""
    for name in names:
        if name not in known_names:
            expected = f" Expected one of: {', '.join(dict.fromkeys(known_names))}."
            hint = near_name(name, known_names) or expected
            raise ValueError(f"{function_name} has no such option.{hint} Received: {name}")


def with_options(*classes: type[Options]) -> Callable[[Documented], Documented]:
    """Return a decorator that lists the options of these classes at the end of a
    docstring: what a function, or a class in its `__init__`, takes as `**options`.

    Options that the signature has as parameters are left out. Nothing else changes.
    """

    def decorate(target):
        function = target.__init__ if isinstance(target, type) else target
        parameters = inspect.signature(function).parameters
        fields = {}
        for cls in classes:
            for name, field in cls.fields().items():
                if name not in parameters:
                    fields.setdefault(name, field)
        if target.__doc__ is not None:  # it is None with python -OO
            target.__doc__ = f"{inspect.cleandoc(target.__doc__)}\n{_documented(fields)}"
        return target

    return decorate


def _documented(fields):
    """Return docstring sections that list options: one section, or one for each kind if
    there are more than two.
    """
    lines = {kind: [] for kind in KINDS}
    for name, field in fields.items():
        lines[field.metadata["kind"]].append(f"    {name}: {_described(field)}")
    kinds = [kind for kind in KINDS if lines[kind]]
    if len(kinds) <= 2:
        return "\n".join(["", "Options:", *(line for kind in kinds for line in lines[kind])])
    return "\n".join(line for kind in kinds for line in ["", f"{KINDS[kind]}:", *lines[kind]])


def _described(field):
    """Return what an option means, its choices and its default, in one line."""
    meaning_of_none = field.metadata["none"]
    choices = field.metadata["bound"].choices
    text = f"{field.metadata['help']}."
    if choices:
        text += f" Choices: {', '.join(choices)}."
    text += f" Default: {field.default!r}"
    if field.default is None:
        text += f" ({meaning_of_none})"
    elif meaning_of_none:
        text += f"; None: {meaning_of_none}"
    return f"{text}."
