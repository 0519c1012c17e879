"""All options of captioners, searches and training, each defined once with its default,
meaning and valid values.
"""

import dataclasses
import functools
import importlib
import inspect
import math
import numbers
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from keras_sat.checks import ArgumentError, near_name

# The names in the dicts of `keras_sat.model`, which would import TensorFlow; a test
# compares them.
ENCODER_NAMES = (
    "vgg16",
    "vgg19",
    "resnet50",
    "mobilenet_v2",
    "efficientnet_b0",
    "efficientnet_lite0",
)
ENCODER_NAMES += ("efficientnet_lite2", "tiny")
ATTENTION_NAMES = ("soft", "hard", "none")
SCORING_NAMES = ("additive", "dot", "bilinear")
CELL_NAMES = ("lstm", "gru")
DTYPES = ("float32", "mixed_bfloat16", "auto")
# Extra values of each word in a CaptionResult that are not in the paper; see
# `CaptionResult.extras`.
EXTRAS = {
    "from_photo": "The fraction of each word's attention on the photo, (words,); None without a "
    "sentinel."
}
# The kinds of options, with their headings in the help. "encoder" and "architecture"
# are fixed after training.
KINDS = {
    "training": "Training",  # of all epochs
    "words": "Cross-entropy epochs",  # the first phase
    "consistency": "Feature consistency epochs",
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
CONSENSUS = ("consensus_weight", "consensus_photos", "consensus_captions")
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


training, words, consistency, rewards, loss, search, photos, of_encoder, architecture = (
    functools.partial(option, kind) for kind in KINDS
)


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
    def of(cls, called, given, also=()):
        """Build the options from the keyword arguments `given`; `called` is the
        function to name in errors.
        """
        reject_unknown(called, given, [*cls.names(), *also])
        return cls(**given)

    @classmethod
    def check(cls, **some):
        """Raise an ArgumentError if one of these values is invalid."""
        fields = cls.fields()
        for name, value in some.items():
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

    attention: str = loss(
        "soft", "how the decoder attends", name_in("selections", "ATTENTIONS", ATTENTION_NAMES)
    )
    scoring: str = architecture(
        "additive", "how regions are scored", name_in("scorings", "SCORINGS", SCORING_NAMES)
    )
    cell: str = architecture(
        "lstm", "type of recurrent layer", name_in("cells", "CELLS", CELL_NAMES)
    )
    num_layers: int = architecture(
        1, "number of recurrent layers; attention reads the state of the top one", count()
    )
    embedding_dim: int = architecture(512, "length of a word vector (m in the paper)", count())
    hidden_dim: int = architecture(512, "size of the recurrent layers (n in the paper)", count())
    attention_dim: int = architecture(
        512, "size of the hidden layer of additive attention", count()
    )
    context_gate: bool = architecture(
        True, "multiply the context by beta_t; without attention there is no gate", flag
    )
    deep_output: bool = architecture(
        True, "use equation (7); False: one layer on state and context", flag
    )
    readout_activation: Any = architecture(
        None,
        "activation; tanh in the paper's code",
        unchecked(str, "tanh", "relu"),
        none="none, as in the paper",
    )
    dropout_embedding: float = training(
        0.0, "dropout rate of the elements of word vectors", fraction
    )
    dropout_words: float = training(0.0, "dropout rate of whole input words", fraction)
    dropout_before_readout: float = training(
        0.5, "dropout rate of h_t before the readout", fraction
    )
    dropout_after_readout: float = training(0.5, "dropout rate of the readout", fraction)
    seed: int = training(0, "random seed for dropout and sampled attention", count(0, MOST_SEED))


@dataclass(frozen=True, kw_only=True)
class CaptionerOptions(DecoderOptions):
    """Options of Captioner, including those of its decoder."""

    encoder: Any = of_encoder(
        "vgg16", "network that computes the features", an_encoder, none="no encoder", unset=True
    )
    encoder_layer: str = of_encoder(
        None, "layer that gives the grid", unchecked(str), none="the encoder's", unset=True
    )
    encoder_weights: Any = of_encoder(
        "imagenet",
        'a file, or "bundled" (from the bundled captioner)',
        unchecked(str),
        none="random weights",
    )
    encoder_training: str = architecture(
        None,
        "fine-tuned: with the decoder; scratch: random weights",
        a_training,
        "frozen; tiny: scratch",
        unset=True,
    )
    trained_up_to: str = architecture(
        None, "train layers after encoder_layer up to this", unchecked(str), none="none"
    )
    image_size: Any = of_encoder(
        None, "side of square input photos", unchecked(int), none="the encoder's", unset=True
    )
    grid: str = photos(
        None, "size of the grid, such as 14x14 (by dilation)", unchecked(str), none="the encoder's"
    )
    grid_shape: tuple = architecture(
        None, "(rows, columns) of the features", unchecked(), none="the encoder's"
    )
    photo_blur: float = photos(
        None, "blur: standard deviation in pixels", pixels, none="0, or that of bundled weights"
    )
    normalise_features: bool = architecture(
        False, "give each feature vector mean 0 and variance 1", flag
    )
    feature_projection_dim: int = architecture(
        None, "project features to this length", count(), none="no projection"
    )
    feature_activation: Any = architecture(
        None, "projection's activation", unchecked(str, "relu", "tanh"), none="none"
    )
    feature_dropout: float = training(0.0, "dropout rate of features", fraction)
    attends: str = architecture(
        "before", "attend before or after reading the last word", one_of("before", "after")
    )
    sentinel: bool = architecture(
        False, "add a visual sentinel to the regions (Lu et al., 2017)", flag
    )
    attention_penalty_weight: float = loss(
        0.33, "lambda of the penalty in equation (14)", at_least_zero
    )
    guide_weight: float = loss(
        0.0, "supervise attention with word detectors; try 0.5", at_least_zero
    )
    box_weight: float = loss(0.0, "supervise attention with the boxes of phrases", at_least_zero)
    region_weight: float = loss(
        0.0, "also train phrases for the boxes' regions; try 1", at_least_zero
    )
    sharpness_weight: float = loss(
        0.0, "weight of the entropy of attention in the loss; try 0.02", at_least_zero
    )
    label_smoothing: float = loss(
        0.0, "fraction of the probability spread over the vocabulary", fraction
    )
    num_samples: int = loss(1, "hard attention: samples per caption (N in equation (12))", count())
    reward_weight: float = loss(
        0.1, "hard attention: weight of the reward (lambda_r)", at_least_zero
    )
    entropy_weight: float = loss(
        0.002, "hard attention: weight of the entropy (lambda_e)", at_least_zero
    )
    expectation_probability: float = loss(
        0.5, "hard attention: probability of not sampling", probability
    )
    expectation_for: str = loss(
        "image", "hard attention: choose sampling per image or pass", one_of("image", "pass")
    )
    use_baseline: bool = loss(
        True, "hard attention: subtract the moving average b from log p", flag
    )
    length_penalty: float = search(0.0, _LONGER, at_least_zero)
    no_repeat_ngram: int = search(0, _NO_REPEAT, count(0, MOST_WORDS))
    no_repeat_around: str = search("", _AROUND, one_word)
    consensus_weight: float = search(0.0, _CONSENSUS, at_least_zero)
    consensus_photos: int = search(
        10, "consensus: number of similar training photos", count(1, 100)
    )
    consensus_captions: int = search(
        20, "consensus: most similar captions of these photos", count()
    )


@dataclass(frozen=True, kw_only=True)
class BeamSearchOptions(Options):
    """Options of greedy and beam search."""

    num_beams: int = search(
        None, "number of beams; 1: greedy", count(1, MOST_BEAMS), none="3, or num_results if more"
    )
    max_length: int = search(20, "maximum number of words, including `<end>`", count(1, MOST_WORDS))
    length_penalty: float = search(None, _LONGER, at_least_zero, none="the captioner's own")
    no_repeat_ngram: int = search(
        None, _NO_REPEAT, count(0, MOST_WORDS), none="the captioner's own"
    )
    no_repeat_around: str = search(None, _AROUND, one_word, none="the captioner's own")
    allow_unknown: bool = search(False, "allow `<unk>` in captions", flag)

    @property
    def beams(self):
        """The number of beams: by default, 3 or the number of results, whichever is
        greater.
        """
        return self.num_beams or min(MOST_BEAMS, max(3, getattr(self, "num_results", 1)))


@dataclass(frozen=True, kw_only=True)
class ConsensusOptions(BeamSearchOptions):
    """Options of a search that may choose among its beams by consensus."""

    consensus_weight: float = search(None, _CONSENSUS, at_least_zero, none="the captioner's own")
    consensus_photos: int = search(
        None, "consensus: similar photos", count(1, 100), none="the captioner's own"
    )
    consensus_captions: int = search(
        None, "consensus: their captions", count(), none="the captioner's own"
    )


@dataclass(frozen=True, kw_only=True)
class SearchOptions(ConsensusOptions):
    """Options for captioning by search or by sampling."""

    num_results: int = search(
        1, "captions per photo; the default num_beams is at least this", count()
    )
    temperature: float = search(
        None, "sample words at this temperature (try 1.0)", above_zero, none="search instead"
    )
    top_k: int = search(
        None, "sample only from the k most probable words", count(), none="from all"
    )
    top_p: float = search(
        None, "nucleus sampling: total probability of the words", positive_fraction, none="from all"
    )
    sample_attention: bool = search(
        False, "with hard attention, sample a region for each word", flag
    )
    seed: int = search(
        None, "random seed, combined with the photo's number", count(0, ANY_COUNT), none="a new one"
    )
    first_photo: int = search(0, "the number of the first photo", count(0, ANY_COUNT))
    batch_size: int = search(64, "photos per batch", count())

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
        if self.temperature is None and self.num_results > self.beams:
            received = {"num_results": self.num_results, "num_beams": self.beams}
            raise ArgumentError("A search cannot return more results than beams.", **received)


@dataclass(frozen=True, kw_only=True)
class OptimizerOptions(Options):
    """Options of the optimizer; see `Captioner.compile`."""

    learning_rate: float = words(
        4e-4, "learning rate (if the optimizer is given by name)", a_learning_rate
    )
    clip_norm: float = training(5.0, "maximum global gradient norm", above_zero, none="no limit")
    weight_decay: float = training(
        None, "weight decay (of matrices only)", at_least_zero, none="no decay"
    )
    average_momentum: float = training(
        None, "momentum of the weight average; try 0.998", fraction, none="no average"
    )
    encoder_rate: float = training(
        1.0, "encoder's learning rate, as a fraction of learning_rate", positive_fraction
    )
    first_layer_rate: float = training(
        1.0,
        "fraction of encoder_rate for the first trained layer; it rises to 1 layer by layer",
        positive_fraction,
    )


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(OptimizerOptions):
    """Options of `keras_sat.fit`. Those shared with `Captioner.compile` have the same
    meaning.
    """

    epochs: int = words(20, "maximum number of passes over the training captions", count(0))
    batch_size: int = training(64, "captions in a batch (over all devices)", count())
    group_by: str = words(
        "length", "group captions by length or by photo", one_of("length", "image")
    )
    seed: int = training(
        0, "random seed for weights, order of batches, dropout and sampling", count(0, MOST_SEED)
    )
    deterministic: bool = training(
        False, "make results bit-for-bit reproducible with the same seed; slower", flag
    )
    optimizer: Any = training(
        "adam", "a name, or a Keras optimizer", unchecked(str, "adam", "adamw", "rmsprop", "sgd")
    )
    schedule: str = words(
        "constant", "learning rate schedule; cosine falls to 0", one_of("constant", "cosine")
    )
    warmup_steps: int = words(
        0, "number of updates in which the learning rate rises from 0", count(0)
    )
    num_views: int = words(
        1, "views of each training photo: 2 adds the mirror image, more add crops", count()
    )
    photo_jitter: float = training(
        0.0, "strength of the augmentation of size, brightness and noise", probability
    )
    patience: int = training(
        5, "stop after this many epochs without a better BLEU-4", count(), none="never"
    )
    min_count: int = words(1, "minimum count of a word in the vocabulary", count())
    max_words: int = words(10_000, "maximum size of the vocabulary", count(), none="keep all words")
    expectation_epochs: int = words(
        0, "hard attention: epochs with soft attention before sampling", count(0)
    )
    num_beams: int = training(
        1, "number of beams for captioning the dev split after each epoch", count(1, MOST_BEAMS)
    )
    max_length: int = training(
        20, "maximum number of words in these dev captions", count(1, MOST_WORDS)
    )
    dtype: Any = training(
        None, "auto: mixed_bfloat16 where possible", unchecked(str, *DTYPES), none="Keras' default"
    )


@dataclass(frozen=True, kw_only=True)
class ConsistencyOptions(Options):
    """Options of the feature consistency epochs of `keras_sat.fit`, which train the
    encoder.
    """

    consistency_epochs: int = consistency(
        0, "epochs that make features robust to size, light and noise", count(0)
    )
    consistency_rate: float = consistency(
        1.5e-4, "learning rate of these epochs; falls to 0", above_zero
    )


@dataclass(frozen=True, kw_only=True)
class SelfCriticalOptions(Options):
    """Options of the self-critical epochs of `keras_sat.fit`; CIDEr is the reward."""

    self_critical_epochs: int = rewards(
        0, "epochs with the CIDEr of whole captions as the reward", count(0)
    )
    self_critical_rate: float = rewards(5e-5, "constant learning rate of these epochs", above_zero)
    num_drawn: int = rewards(5, "captions sampled for each photo in these epochs", count())
    reward_baseline: str = rewards(
        "greedy", "baseline: greedy caption or other samples", one_of("greedy", "others")
    )
    drawing_temperature: float = rewards(
        0.5, "temperature of the sampling; 1.0: the model's distribution", above_zero
    )

    def check_together(self):
        if self.reward_baseline == "others" and self.num_drawn < 2:
            received = {"num_drawn": self.num_drawn, "reward_baseline": self.reward_baseline}
            raise ArgumentError(
                'With "others", sample at least 2 captions per photo, or choose "greedy".',
                **received,
            )


# === Functions that take options ===


def split_options(called, options, *classes, also=()):
    """Split a dict of options into one for each class and one for the names in `also`;
    reject unknown names.

    The first class that has an option gets it. `called` is the function that received
    the options, for messages.
    """
    owners = [*(cls.names() for cls in classes), tuple(also)]
    reject_unknown(called, options, [name for names in owners for name in names])
    parts = [{} for _ in owners]
    for name, value in options.items():
        next(part for part, names in zip(parts, owners) if name in names)[name] = value
    return parts


def reject_unknown(called, names, known):
    """Raise a ValueError for an unknown option name, and suggest a similar name."""
    for name in names:
        if name not in known:
            hint = near_name(name, known) or f" Expected one of: {', '.join(dict.fromkeys(known))}."
            raise ValueError(f"{called} has no such option.{hint} Received: {name}")


def with_options(*classes):
    """Return a decorator that documents the options of these classes instead of a
    function's `**options`.

    They appear in its signature, for a class in that of `__init__`, and at the end of
    its docstring.
    """

    def decorate(target):
        function = target.__init__ if isinstance(target, type) else target
        signature = inspect.signature(function)
        own = {name: p for name, p in signature.parameters.items() if p.kind is not p.VAR_KEYWORD}
        fields = {}
        for cls in classes:
            fields |= {
                name: field for name, field in cls.fields().items() if name not in {**own, **fields}
            }
        kind = inspect.Parameter.KEYWORD_ONLY
        shown = [
            inspect.Parameter(name, kind, default=x.default, annotation=x.type)
            for name, x in fields.items()
        ]
        parameters = sorted([*shown, *own.values()], key=lambda parameter: parameter.kind)
        function.__signature__ = signature.replace(parameters=parameters)
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
        known, default = field.metadata, field.default
        choices = (
            f" Choices: {', '.join(known['bound'].choices)}." if known["bound"].choices else ""
        )
        none = (
            f" ({known['none']})"
            if default is None
            else f"; None: {known['none']}"
            if known["none"]
            else ""
        )
        lines[known["kind"]].append(
            f"    {name}: {known['help']}.{choices} Default: {default!r}{none}."
        )
    kinds = [kind for kind in KINDS if lines[kind]]
    if len(kinds) <= 2:
        return "\n".join(["", "Options:", *(line for kind in kinds for line in lines[kind])])
    return "\n".join(line for kind in kinds for line in ["", f"{KINDS[kind]}:", *lines[kind]])
