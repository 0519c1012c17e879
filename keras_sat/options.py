"""The options of a captioner, a search and a training: each one once, with its kind, default, meaning and bound.

Signatures, checks, documentation, command-line flags and the record of a training are made from these lines.
"""

import dataclasses
import functools
import importlib
import inspect
import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from keras_sat.checks import ArgumentError, near_name

# The names in the dicts of `keras_sat.model`, which would import TensorFlow; a test compares them.
ENCODER_NAMES = ("vgg16", "vgg19", "resnet50", "mobilenet_v2", "efficientnet_b0", "efficientnet_lite0")
ENCODER_NAMES += ("efficientnet_lite2", "tiny")
ATTENTION_NAMES = ("soft", "hard", "none")
SCORING_NAMES = ("additive", "dot", "bilinear")
CELL_NAMES = ("lstm", "gru")
DTYPES = ("float32", "mixed_bfloat16", "auto")
# What a CaptionResult may say of each word beyond the paper, by names that its decoder gives; see `extras` there.
EXTRAS = {
    "from_photo": "The fraction of each word's context that comes from the photo, (words,); the rest comes from the "
    "network's memory. None without a sentinel."
}
# The kinds of options, with their headings in the help. Those of "encoder" and "architecture" stay after training.
KINDS = {
    "training": "Training",  # of all epochs
    "words": "Training on words",  # the first epochs, with cross-entropy
    "consistency": "Feature consistency epochs",
    "rewards": "Self-critical epochs",
    "loss": "Attention and loss",
    "search": "Search",
    "photos": "What the encoder sees",
    "encoder": "Encoder",
    "architecture": "Network",
}
# The options that a user of `fit` needs first, besides those about data, folders and what to start from.
FIRST = ("encoder", "encoder_weights", "attention", "epochs", "batch_size", "learning_rate", "seed")
MOST = 2**31 - 1  # of an int32
MOST_WORDS = 10_000  # of a caption: memory for all of them is allocated at once
MOST_SEED = 2**32 - 1  # for Keras and numpy
ANY_COUNT = 2**63 - 1


# === Bounds ===


@dataclass(frozen=True)
class Bound:
    """The values that an option may have.

    Attributes:
        expected: what a message expects, such as "above 0", or a function that returns it.
        is_valid: function of a value.
        kind: how the command line reads a word: int, float, str or bool; None: there is no flag.
        choices: the words that the command line offers; () where any may be valid.
        takes_none: whether None is valid.
    """

    expected: str | Callable
    is_valid: Callable
    kind: type | None = str
    choices: tuple = ()
    takes_none: bool = False

    def check(self, name, value):
        """Raise an ArgumentError for a value that is not valid."""
        if not ((value is None and self.takes_none) or self.is_valid(value)):
            raise ArgumentError(expected=self.expected() if callable(self.expected) else self.expected, **{name: value})


def count(least=1, most=MOST):
    """A whole number from `least` to `most`."""

    def is_valid(value):
        return isinstance(value, numbers.Integral) and not isinstance(value, bool) and least <= value <= most

    return Bound(f"a whole number from {least} to {most}", is_valid, int)


def _number(expected, is_within):
    return Bound(expected, lambda value: isinstance(value, numbers.Real) and is_within(value), float)


at_least_zero = _number("a number of at least 0", lambda value: 0 <= value < math.inf)
above_zero = _number("above 0", lambda value: 0 < value < math.inf)
pixels = _number("a number from 0 to 100", lambda value: 0 <= value <= 100)
probability = _number("a number from 0 to 1", lambda value: 0 <= value <= 1)
fraction = _number("a fraction from 0 to below 1", lambda value: 0 <= value < 1)
positive_fraction = _number("above 0 and at most 1", lambda value: 0 < value <= 1)
a_learning_rate = Bound(
    "above 0: a number such as 0.0004, or a schedule of Keras",
    lambda value: callable(value) or above_zero.is_valid(value),
    float,
)
flag = Bound("True or False", lambda value: type(value).__name__ in ("bool", "bool_"), bool)  # numpy's too


def one_of(*choices):
    """One of these words."""
    return Bound(
        f"one of: {', '.join(choices)}", lambda value: isinstance(value, str) and value in choices, str, choices
    )


def name_in(module, registry, listed, also=""):
    """A name in a dict of a module of `keras_sat.model`, which is imported only for names that are not `listed`.

    With `also`, the end of the message that says so, a keras.Model is valid too.
    """

    def names():
        return getattr(importlib.import_module(f"keras_sat.model.{module}"), registry)

    def is_valid(value):
        if isinstance(value, str):
            return value in listed or value in names()
        return bool(also) and isinstance(value, importlib.import_module("keras").Model)

    return Bound(lambda: f"one of: {', '.join(names())}{also}", is_valid, str, listed)


a_training = one_of("frozen", "fine-tuned", "scratch")
an_encoder = name_in("encoders", "ENCODERS", ENCODER_NAMES, also=", or a keras.Model, or None")


def unchecked(kind=None, *choices):
    """Anything: it is checked where it is used, by Keras, against the encoder, or as a file."""
    return Bound("", lambda value: True, kind, choices, takes_none=True)


def optional(bound):
    """None, or what another bound allows."""
    return dataclasses.replace(bound, takes_none=True)


# === Options ===

_LONGER = "above 0 favours longer captions"
_NO_REPEAT = "no n-gram of this length occurs twice; 0: no limit; try 3"


def option(kind, default, help, bound, none="", unset=False):
    """Return a field of Options.

    Args:
        kind: a name in KINDS.
        default: of the option.
        help: its meaning, in a line.
        bound: Bound.
        none: the meaning of None, in a few words; "": None is not valid.
        unset: whether None, given to `fit`, leaves the option to presets and defaults; it always does if not valid.
    """
    bound = optional(bound) if none else bound
    metadata = {"kind": kind, "help": help, "bound": bound, "none": none, "none_is_unset": unset or not none}
    return dataclasses.field(default=default, metadata=metadata)


training, words, consistency, rewards, loss, search, photos, of_encoder, architecture = (
    functools.partial(option, kind) for kind in KINDS
)


class Options:
    """A frozen dataclass whose fields are made by `option`; its values are checked when it is made."""

    def __post_init__(self):
        self.check(**self.to_dict())
        self.check_together()

    def check_together(self):
        """Reject values that do not fit together."""

    @classmethod
    def of(cls, called, given, also=()):
        """Return the options that were given to a function of this name, which also takes the arguments `also`."""
        reject_unknown(called, given, [*cls.names(), *also])
        return cls(**given)

    @classmethod
    def check(cls, **some):
        """Reject values out of bounds, of these options alone."""
        fields = cls.fields()
        for name, value in some.items():
            fields[name].metadata["bound"].check(name, value)

    @classmethod
    def fields(cls):
        """Return a dict from the names of the options to their fields."""
        return {field.name: field for field in dataclasses.fields(cls)}

    @classmethod
    def names(cls, *kinds):
        """Return the names of the options, or of those of some kinds."""
        return tuple(name for name, field in cls.fields().items() if not kinds or field.metadata["kind"] in kinds)

    @classmethod
    def defaults(cls):
        """Return a dict from the names of the options to their defaults."""
        return {name: field.default for name, field in cls.fields().items()}

    def to_dict(self):
        """Return a dict from the names of the options to their values, which are not copied."""
        return {name: getattr(self, name) for name in self.names()}


@dataclass(frozen=True, kw_only=True)
class DecoderOptions(Options):
    """Options of CaptionDecoder.

    `dropout_words` makes the decoder see the next word in the photo instead of guessing it from the words before. Hard
    attention samples regions in training; a search uses its expectation unless asked to sample.
    """

    attention: str = loss("soft", "where the decoder looks", name_in("selections", "ATTENTIONS", ATTENTION_NAMES))
    scoring: str = architecture(
        "additive", "how attention scores a region", name_in("scorings", "SCORINGS", SCORING_NAMES)
    )
    cell: str = architecture("lstm", "of the recurrent layers", name_in("cells", "CELLS", CELL_NAMES))
    num_layers: int = architecture(1, "recurrent layers; attention reads the top one", count())
    embedding_dim: int = architecture(512, "length of a word vector, m of the paper", count())
    hidden_dim: int = architecture(512, "size of the recurrent layers, n of the paper", count())
    attention_dim: int = architecture(512, "size of the hidden layer of additive attention", count())
    context_gate: bool = architecture(True, "multiply the context by beta_t; without attention there is no gate", flag)
    deep_output: bool = architecture(True, "equation (7); else one layer on state and context", flag)
    readout_activation: Any = architecture(
        None, "of the readout: tanh in the released code", unchecked(str, "tanh", "relu"), none="none, as in the paper"
    )
    dropout_embedding: float = training(0.0, "dropout rate inside word vectors", fraction)
    dropout_words: float = training(0.0, "dropout rate of whole input words", fraction)
    dropout_before_readout: float = training(0.5, "dropout rate of h_t before the readout", fraction)
    dropout_after_readout: float = training(0.5, "dropout rate of the readout", fraction)
    seed: int = training(0, "of dropout, sampled attention and coins", count(0, MOST_SEED))


@dataclass(frozen=True, kw_only=True)
class CaptionerOptions(DecoderOptions):
    """Options of Captioner, including those of its decoder."""

    encoder: Any = of_encoder("vgg16", "from photos to a grid of features", an_encoder, none="no encoder", unset=True)
    encoder_layer: str = of_encoder(None, "layer whose grid is used", unchecked(str), none="its default", unset=True)
    encoder_weights: Any = of_encoder(
        "imagenet", 'a file, or "bundled": those of the bundled captioner', unchecked(str), none="random weights"
    )
    encoder_training: str = architecture(
        None, "fine-tuned: with the decoder; scratch: random weights", a_training, "frozen; tiny: scratch", unset=True
    )
    trained_up_to: str = architecture(
        None, "train a frozen encoder after encoder_layer, up to this one", unchecked(str), none="no training"
    )
    image_size: Any = of_encoder(None, "side of the square photos", unchecked(int), none="its default", unset=True)
    grid: str = photos(None, "grid of features, by dilation, such as 14x14", unchecked(str), none="its default")
    grid_shape: tuple = architecture(None, "(rows, columns) of the features", unchecked(), none="the encoder's")
    photo_blur: float = photos(
        None, "blur photos by so many pixels, such as 1", pixels, none="0, or that of bundled weights"
    )
    normalise_features: bool = architecture(False, "give each feature vector mean 0 and variance 1", flag)
    feature_projection_dim: int = architecture(None, "project features to this length", count(), none="no projection")
    feature_activation: Any = architecture(None, "of projected features", unchecked(str, "relu", "tanh"), none="none")
    feature_dropout: float = training(0.0, "dropout rate of features", fraction)
    attends: str = architecture(
        "before", "look before reading the last word, as in the paper, or after", one_of("before", "after")
    )
    sentinel: bool = architecture(False, "let attention choose memory over the photo (Lu et al., 2017)", flag)
    attention_penalty_weight: float = loss(0.33, "lambda of the penalty in equation (14)", at_least_zero)
    guide_weight: float = loss(0.0, "supervise attention with word detectors; try 0.5", at_least_zero)
    box_weight: float = loss(0.0, "supervise attention with boxes of phrases", at_least_zero)
    label_smoothing: float = loss(0.0, "fraction of the probability spread over the vocabulary", fraction)
    num_samples: int = loss(1, "hard attention: draws for each caption, N of equation (12)", count())
    reward_weight: float = loss(0.1, "hard attention: lambda_r", at_least_zero)
    entropy_weight: float = loss(0.002, "hard attention: lambda_e", at_least_zero)
    expectation_probability: float = loss(0.5, "hard attention: how often it takes the expectation", probability)
    expectation_for: str = loss("image", "hard attention: draw that coin for each", one_of("image", "pass"))
    use_baseline: bool = loss(True, "hard attention: subtract the moving average b from log p", flag)
    length_penalty: float = search(0.0, _LONGER, at_least_zero)
    no_repeat_ngram: int = search(0, _NO_REPEAT, count(0, MOST_WORDS))


@dataclass(frozen=True, kw_only=True)
class BeamSearchOptions(Options):
    """Options of greedy and beam search."""

    num_beams: int = search(None, "1 is greedy search", count(), none="3, or as many as the results")
    max_length: int = search(20, "most words of a caption, `<end>` counted", count(1, MOST_WORDS))
    length_penalty: float = search(None, _LONGER, at_least_zero, none="the captioner's own")
    no_repeat_ngram: int = search(None, _NO_REPEAT, count(0, MOST_WORDS), none="the captioner's own")
    allow_unknown: bool = search(False, "allow `<unk>` in captions", flag)

    @property
    def beams(self):
        """The number of beams: by default 3, or as many as the results."""
        return self.num_beams or max(3, getattr(self, "num_results", 1))


@dataclass(frozen=True, kw_only=True)
class SearchOptions(BeamSearchOptions):
    """Options of a search for captions, or of drawing their words."""

    num_results: int = search(1, "captions for each photo; more than 3 widen the search", count())
    temperature: float = search(None, "draw words; 1.0: as probable as they are", above_zero, none="search instead")
    top_k: int = search(None, "draw from the k most probable words only", count(), none="from all")
    top_p: float = search(None, "draw from the fewest words of this probability", positive_fraction, none="from all")
    sample_attention: bool = search(False, "draw a region for each word, with hard attention", flag)
    seed: int = search(None, "of all that is drawn, with the photo's number", count(0, ANY_COUNT), none="a new one")
    first_photo: int = search(0, "the number of the first photo", count(0, ANY_COUNT))
    batch_size: int = search(64, "photos in a batch", count())

    def check_together(self):
        if self.temperature is None and (self.top_k is not None or self.top_p is not None):
            raise ArgumentError("Pass `temperature` to draw words.", top_k=self.top_k, top_p=self.top_p)
        names = ("num_beams", "length_penalty", "no_repeat_ngram")
        searched = {name: value for name in names if (value := getattr(self, name)) is not None}
        if self.temperature is not None and searched and searched != {"num_beams": 1}:
            raise ArgumentError(
                f"`temperature` draws words, and {', '.join(searched)} is for a search: leave out one or the other.",
                temperature=self.temperature,
                **searched,
            )
        if self.temperature is None and self.num_results > self.beams:
            raise ArgumentError(
                "A search has at most as many results as beams.", num_results=self.num_results, num_beams=self.beams
            )


@dataclass(frozen=True, kw_only=True)
class OptimizerOptions(Options):
    """How the weights follow their gradients, see `Captioner.compile`."""

    learning_rate: float = words(4e-4, "of the optimizer, if that is given by name", a_learning_rate)
    clip_norm: float = training(5.0, "bound of the global gradient norm", above_zero, none="no bound")
    weight_decay: float = training(None, "weight decay of matrices", at_least_zero, none="no decay")
    average_momentum: float = training(None, "moving average of the weights; try 0.998", fraction, none="no average")
    encoder_rate: float = training(1.0, "fraction of the learning rate, for the encoder", positive_fraction)
    first_layer_rate: float = training(
        1.0, "fraction of that for its first trained layer; grows layer by layer", positive_fraction
    )


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(OptimizerOptions):
    """How `keras_sat.fit` trains; an option that Captioner.compile also has means the same there."""

    epochs: int = words(20, "passes over the training captions, at most", count(0))
    batch_size: int = training(64, "captions in a batch, over all devices", count())
    group_by: str = words("length", "a batch has captions of one length, or of whole photos", one_of("length", "image"))
    seed: int = training(0, "of the weights, the order of batches and all that is drawn", count(0, MOST_SEED))
    deterministic: bool = training(False, "the same seed gives the same weights, bit for bit; slower", flag)
    optimizer: Any = training("adam", "its name, or one of Keras", unchecked(str, "adam", "adamw", "rmsprop", "sgd"))
    schedule: str = words("constant", "of the learning rate: cosine falls to 0", one_of("constant", "cosine"))
    warmup_steps: int = words(0, "updates in which the learning rate rises from 0", count(0))
    num_views: int = words(1, "of each training photo: 2 adds the mirrored photo, more add crops", count())
    photo_jitter: float = training(0.0, "augment photos by size, light and noise, up to 1", probability)
    patience: int = training(5, "stop after so many epochs without a better BLEU-4", count(), none="never")
    min_count: int = words(1, "fewest occurrences of a word in the vocabulary", count())
    max_words: int = words(10_000, "size of the vocabulary, at most", count(), none="keep all words")
    expectation_epochs: int = words(0, "hard attention: epochs with the expectation before it draws", count(0))
    num_beams: int = training(1, "for the captions of the dev split after each epoch", count())
    max_length: int = training(20, "most words of these captions", count(1, MOST_WORDS))
    dtype: Any = training(
        None, "auto: mixed_bfloat16 if the hardware has it", unchecked(str, *DTYPES), none="that of Keras, float32"
    )


@dataclass(frozen=True, kw_only=True)
class ConsistencyOptions(Options):
    """Epochs of `keras_sat.fit` that train the encoder to give the same features of a photo that changes."""

    consistency_epochs: int = consistency(0, "epochs that train the encoder to ignore size, light, noise", count(0))
    consistency_rate: float = consistency(1.5e-4, "their learning rate, which falls to 0", above_zero)


@dataclass(frozen=True, kw_only=True)
class SelfCriticalOptions(Options):
    """Epochs of `keras_sat.fit` with CIDEr as the reward of whole captions."""

    self_critical_epochs: int = rewards(0, "epochs with CIDEr as the reward of whole captions", count(0))
    self_critical_rate: float = rewards(5e-5, "their learning rate, which is constant", above_zero)
    num_drawn: int = rewards(5, "captions drawn for each photo in these epochs", count())
    reward_baseline: str = rewards("greedy", "what a drawn caption must beat", one_of("greedy", "others"))
    drawing_temperature: float = rewards(0.5, "below 1 they are closer to those of a search", above_zero)

    def check_together(self):
        if self.reward_baseline == "others" and self.num_drawn < 2:
            raise ArgumentError(
                "A single drawn caption has no others to be compared with: draw more, or choose the greedy baseline.",
                num_drawn=self.num_drawn,
                reward_baseline=self.reward_baseline,
            )


# === Functions that take options ===


def split_options(called, options, *classes, also=()):
    """Return a dict of the options of each class, and one of those in `also`; reject unknown names.

    Args:
        called: the name of what was called with the options.
        options: dict of options that were given.
        *classes: subclasses of Options; the first one that has an option gets it.
        also: names of other arguments of what was called.
    """
    owners = [*(cls.names() for cls in classes), tuple(also)]
    reject_unknown(called, options, [name for names in owners for name in names])
    parts = [{} for _ in owners]
    for name, value in options.items():
        next(part for part, names in zip(parts, owners) if name in names)[name] = value
    return parts


def reject_unknown(called, names, known):
    """Raise a ValueError for names of options that are not known, and guess which one was meant."""
    for name in names:
        if name not in known:
            hint = near_name(name, known) or f" Expected one of: {', '.join(dict.fromkeys(known))}."
            raise ValueError(f"{called} has no such option.{hint} Received: {name}")


def with_options(*classes):
    """Return a decorator that shows the options of these classes in place of a function's `**options`.

    They appear in its signature, which `help`, `inspect.signature` and editors read, and at the end of its docstring. A
    class shows the options of its `__init__`. The function itself is not changed.
    """

    def decorate(target):
        function = target.__init__ if isinstance(target, type) else target
        signature = inspect.signature(function)
        own = {name: p for name, p in signature.parameters.items() if p.kind is not p.VAR_KEYWORD}
        fields = {}
        for cls in classes:
            fields |= {name: field for name, field in cls.fields().items() if name not in {**own, **fields}}
        shown = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type)
            for name, field in fields.items()
        ]
        parameters = sorted([*shown, *own.values()], key=lambda parameter: parameter.kind)
        function.__signature__ = signature.replace(parameters=parameters)
        if target.__doc__ is not None:  # it is with python -OO
            target.__doc__ = f"{inspect.cleandoc(target.__doc__)}\n{_documented(fields)}"
        return target

    return decorate


def _documented(fields):
    """Return sections of a docstring: one of all options, or one for each kind if there are many kinds."""
    lines = {kind: [] for kind in KINDS}
    for name, field in fields.items():
        none, default, choices = field.metadata["none"], field.default, field.metadata["bound"].choices
        choices = f" Choices: {', '.join(choices)}." if choices else ""
        none = f" ({none})" if default is None else f"; None: {none}" if none else ""
        lines[field.metadata["kind"]].append(
            f"    {name}: {field.metadata['help']}.{choices} Default: {default!r}{none}."
        )
    kinds = [kind for kind in KINDS if lines[kind]]
    if len(kinds) <= 2:
        return "\n".join(["", "Options:", *(line for kind in kinds for line in lines[kind])])
    return "\n".join(line for kind in kinds for line in ["", f"{KINDS[kind]}:", *lines[kind]])
