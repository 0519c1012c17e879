"""The options of a captioner, a search and a training: one line for each, with its default, its meaning and its bound.

Python and the command line take them from here: signatures, checks, documentation, flags, and the record of a training.
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

from data_utils.foreign_text import brief
from keras_sat.checks import check_learning_rate, near_name

# The names of what stands in `keras_sat.model`, which would bring TensorFlow along; a test compares them.
ENCODER_NAMES = ("vgg16", "vgg19", "resnet50", "mobilenet_v2", "efficientnet_b0", "efficientnet_lite0")
ENCODER_NAMES += ("efficientnet_lite2", "tiny")
ATTENTION_NAMES = ("soft", "hard", "none")
SCORING_NAMES = ("additive", "dot", "bilinear")
CELL_NAMES = ("lstm", "gru")
# What a CaptionResult may say of each word beyond the paper, by names that its decoder gives; see `extras` there.
EXTRAS = {
    "from_photo": "How much of what attention gave for each word came from the photo, (words,), from 0 to 1; the rest "
    "came from what the network remembers. None without a sentinel."
}
MOST = 2**31 - 1  # TensorFlow counts no further
MOST_WORDS = 10_000  # of a caption: memory for all of them is taken at once
MOST_SEED = 2**32 - 1  # that Keras and numpy take
ANY_COUNT = 2**63 - 1


# === What an option may be ===


@dataclass(frozen=True)
class Bound:
    """What an option may be.

    Attributes:
        check: function of the name and the value of an option: it raises a ValueError for what may not be.
        kind: what the command line makes of a word: int, float, str or bool; None: it has no such option.
        choices: the words that the command line offers; () where any may be right.
        takes_none: whether None may be.
    """

    check: Callable
    kind: type | None = str
    choices: tuple = ()
    takes_none: bool = False


def count(least=1, most=MOST):
    """A whole number from `least` to `most`."""

    def check(name, value):
        if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < least:
            raise ValueError(f"`{name}` must be a whole number of at least {least}. Received: {name}={brief(value)}")
        if value > most:
            raise ValueError(f"`{name}` must be a whole number of at most {most}. Received: {name}={brief(value)}")

    return Bound(check, int)


def whole_number():
    """Any whole number."""
    return Bound(_check_number("a whole number", lambda value: True, numbers.Integral), int)


def at_least_zero():
    """A number of at least 0."""
    return Bound(_check_number("a number of at least 0", lambda value: 0 <= value < math.inf), float)


def pixels():
    """A number of pixels, from 0 to 100."""
    return Bound(_check_number("a number from 0 to 100", lambda value: 0 <= value <= 100), float)


def above_zero():
    """A number above 0."""
    return Bound(_check_number("above 0", lambda value: 0 < value < math.inf), float)


def share():
    """A number from 0 to below 1."""
    return Bound(_check_number("a share from 0 to below 1", lambda value: 0 <= value < 1), float)


def probability():
    """A number from 0 to 1."""
    return Bound(_check_number("a number from 0 to 1", lambda value: 0 <= value <= 1), float)


def part():
    """A number above 0, at most 1."""
    return Bound(_check_number("above 0 and at most 1", lambda value: 0 < value <= 1), float)


def _check_number(expected, is_within, kind=numbers.Real):
    """Return the check of a Bound: a number of that kind, for which `is_within` is true."""

    def check(name, value):
        if not isinstance(value, kind) or not is_within(value):
            raise ValueError(f"`{name}` must be {expected}. Received: {name}={brief(value)}")

    return check


def a_learning_rate():
    """A number above 0, or a schedule of Keras."""
    return Bound(lambda name, value: check_learning_rate(value), float)


def a_flag():
    """True or False."""

    def check(name, value):
        if type(value).__name__ not in ("bool", "bool_"):  # numpy's too
            raise ValueError(f"Expected True or False. Received: {name}={brief(value)}")

    return Bound(check, bool)


def one_of(*choices):
    """One of these words."""

    def check(name, value):
        if not isinstance(value, str) or value not in choices:
            raise ValueError(f"Expected one of: {', '.join(choices)}. Received: {name}={brief(value)}")

    return Bound(check, str, choices)


def name_in(module, registry, *listed):
    """A name in a dict of `keras_sat.model`, which is only looked at for names that are not listed here.

    Args:
        module: of the dict.
        registry: the name of the dict.
        *listed: the names that the command line offers: those that come with keras_sat.
    """

    def check(name, value):
        if value in listed:
            return
        names = getattr(importlib.import_module(module), registry)
        if not isinstance(value, str) or value not in names:
            raise ValueError(f"Expected one of: {', '.join(names)}. Received: {name}={brief(value)}")

    return Bound(check, str, listed)


def an_encoder():
    """The name of an encoder, a keras.Model, or None."""
    named = name_in("keras_sat.model.encoders", "ENCODERS", *ENCODER_NAMES)

    def check(name, value):
        if value is None or (not isinstance(value, str) and _is_keras_model(value)):
            return
        try:
            named.check(name, value)
        except ValueError as error:
            raise ValueError(str(error).replace(". Received", ", or a keras.Model, or None. Received", 1)) from None

    return Bound(check, str, ENCODER_NAMES, takes_none=True)


def _is_keras_model(value):
    import keras

    return isinstance(value, keras.Model)


def checked_by_keras(*offered):
    """What Keras takes, and checks: the command line offers these."""
    return Bound(lambda name, value: None, str, offered, takes_none=True)


def checked_later(kind=None):
    """What is checked where it is used, against the encoder or its features, or as a file."""
    return Bound(lambda name, value: None, kind, takes_none=True)


def optional(bound):
    """None, or what another bound says."""

    def check(name, value):
        if value is not None:
            bound.check(name, value)

    return dataclasses.replace(bound, check=check, takes_none=True)


# === Options ===


def option(default, help, bound, *, none=""):
    """Return a field of Options.

    Args:
        default: where none is given.
        help: what it means, in a line.
        bound: Bound.
        none: what None means, in a few words.
    """
    return dataclasses.field(default=default, metadata={"help": help, "bound": bound, "none": none})


class Options:
    """A frozen dataclass whose fields are made by `option`; whoever makes one has it checked."""

    def __post_init__(self):
        self.check(**self.to_dict())
        self.check_together()

    def check_together(self):
        """Refuse what concerns two options or more."""

    @classmethod
    def of(cls, called, given):
        """Return the options that were given to what is called so; a name that is not known is a ValueError."""
        refuse_unknown(called, given, cls.names())
        return cls(**given)

    @classmethod
    def check(cls, **some):
        """Refuse values out of bounds, of these options alone."""
        fields = cls.fields()
        for name, value in some.items():
            fields[name].metadata["bound"].check(name, value)

    @classmethod
    def fields(cls):
        """Return a dict from the names of the options to their fields."""
        return {field.name: field for field in dataclasses.fields(cls)}

    @classmethod
    def names(cls):
        """Return the names of the options."""
        return tuple(cls.fields())

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

    With `dropout_words` the next word must be seen in the photo, not guessed from those before it. Hard attention
    draws places while training; in a search it uses the expectation, unless it is asked to draw.
    """

    attention: str = option(
        "soft", "where the decoder looks", name_in("keras_sat.model.selections", "ATTENTIONS", *ATTENTION_NAMES)
    )
    scoring: str = option(
        "additive",
        "how attention scores a region: additive is Bahdanau's",
        name_in("keras_sat.model.scorings", "SCORINGS", *SCORING_NAMES),
    )
    cell: str = option("lstm", "of the recurrent layers", name_in("keras_sat.model.cells", "CELLS", *CELL_NAMES))
    num_layers: int = option(1, "recurrent layers; attention reads the top one", count())
    embedding_dim: int = option(512, "length of a word's vector, m of the paper", count())
    hidden_dim: int = option(512, "size of the recurrent layers, n of the paper", count())
    attention_dim: int = option(512, "size of the hidden layer of additive attention", count())
    context_gate: bool = option(True, "multiply the context by beta_t; without attention there is no gate", a_flag())
    deep_output: bool = option(True, "equation (7); without: state and context side by side, one layer", a_flag())
    readout_activation: Any = option(
        None,
        "of the readout: tanh in the released code",
        checked_by_keras("tanh", "relu"),
        none="none, as in the paper",
    )
    dropout_embedding: float = option(0.0, "share of the numbers in word vectors that is dropped", share())
    dropout_words: float = option(0.0, "share of whole words dropped before the one that is predicted", share())
    dropout_before_readout: float = option(0.5, "share of h_t that is dropped before the readout", share())
    dropout_after_readout: float = option(0.5, "share of the readout that is dropped before the words", share())
    seed: int = option(0, "of all that is drawn: dropout, attention that samples, coins", whole_number())


@dataclass(frozen=True, kw_only=True)
class CaptionerOptions(DecoderOptions):
    """Options of Captioner, those of its decoder included."""

    encoder: Any = option("vgg16", "from photos to a grid of features", an_encoder(), none="only features are given")
    encoder_layer: str = option(
        None, "the layer whose grid is used", checked_later(str), none="the encoder's usual one"
    )
    encoder_weights: Any = option(
        "imagenet",
        'a weights file to use instead of the download, or "bundled": what the bundled captioner has made of it',
        checked_later(str),
        none="random ones",
    )
    encoder_training: str = option(
        None,
        "frozen: never trained; fine-tuned: trained along; scratch: along, from random weights",
        optional(one_of("frozen", "fine-tuned", "scratch")),
        none="scratch for tiny, else frozen",
    )
    trained_up_to: str = option(
        None, "train the encoder's layers behind encoder_layer, up to this one", checked_later(str), none="train none"
    )
    image_size: Any = option(
        None, "side of the square that photos are stretched to", checked_later(int), none="the encoder's usual one"
    )
    grid: str = option(
        None,
        "rows and columns of the encoder's grid, such as 14x14: finer than usual, its last strides become dilation",
        checked_later(str),
        none="the encoder's usual ones",
    )
    grid_shape: tuple = option(
        None, "(rows, columns) of the features", checked_later(), none="ask the encoder, or guess"
    )
    photo_blur: float = option(
        None,
        "blur photos first, with a Gaussian of so many pixels, such as 1: steadier captions",
        optional(pixels()),
        none="not at all; bundled encoder weights: as they were trained",
    )
    normalise_features: bool = option(False, "give each feature vector mean 0 and variance 1", a_flag())
    feature_projection_dim: int = option(
        None, "map each feature vector to one of this length first", optional(count()), none="leave them as they are"
    )
    feature_activation: Any = option(
        None, "of the vectors that were mapped so", checked_by_keras("relu", "tanh"), none="they stay as they are"
    )
    feature_dropout: float = option(0.0, "share of the numbers in features that is dropped", share())
    attends: str = option(
        "before",
        "when it looks: before it has read the last word, as in the paper, or after",
        one_of("before", "after"),
    )
    sentinel: bool = option(False, "let it look at what it remembers instead of the photo (Lu et al., 2017)", a_flag())
    attention_penalty_weight: float = option(0.33, "lambda of the paper's penalty, equation (14)", at_least_zero())
    guide_weight: float = option(
        0.0, "lead attention to where words are, which detectors learn from captions; .5 is usual", at_least_zero()
    )
    box_weight: float = option(0.0, "lead attention onto the boxes of what words name, see `boxes`", at_least_zero())
    label_smoothing: float = option(0.0, "share of the target's probability spread over the vocabulary", share())
    num_samples: int = option(1, "hard attention: draws for each caption, N of equation (12)", count())
    reward_weight: float = option(0.1, "hard attention: lambda_r", at_least_zero())
    entropy_weight: float = option(0.002, "hard attention: lambda_e", at_least_zero())
    expectation_probability: float = option(
        0.5, "hard attention: how often the expectation replaces the sample", probability()
    )
    expectation_for: str = option("image", "hard attention: what that coin is tossed for", one_of("image", "pass"))
    use_baseline: bool = option(True, "hard attention: subtract the moving average b from log p", a_flag())
    length_penalty: float = option(0.0, "of its searches: above 0 favours longer captions", at_least_zero())
    no_repeat_ngram: int = option(
        0, "of its searches: no caption says so many words in a row twice; 0 lets it, 3 is usual", count(0, MOST_WORDS)
    )


@dataclass(frozen=True, kw_only=True)
class SearchOptions(Options):
    """Options of a search for captions."""

    num_beams: int = option(
        None,
        "captions in the making; 1 is greedy search",
        optional(count()),
        none="3, num_results if these are more, or drawn words",
    )
    max_length: int = option(20, "most words of a caption, `<end>` counted", count(1, MOST_WORDS))
    length_penalty: float = option(
        None, "above 0 favours longer captions", optional(at_least_zero()), none="the captioner's own"
    )
    no_repeat_ngram: int = option(
        None,
        "no caption says so many words in a row twice; 0 lets it",
        optional(count(0, MOST_WORDS)),
        none="the captioner's own",
    )
    num_results: int = option(
        1, "captions for each photo, the further ones in `alternatives`; above 3 it widens the search", count()
    )
    temperature: float = option(
        None,
        "draw the words; 1.0 draws from the model's own distribution",
        optional(above_zero()),
        none="search instead",
    )
    top_k: int = option(None, "draw from the k most probable words only", optional(count()), none="from all")
    top_p: float = option(
        None, "draw from the fewest words that together have this probability", optional(part()), none="from all"
    )
    allow_unknown: bool = option(False, "allow `<unk>` in captions", a_flag())
    sample_attention: bool = option(
        False, "let attention that draws places, such as hard, draw one for each word", a_flag()
    )
    seed: int = option(
        None,
        "of what is drawn; each photo has its own chance, by its number",
        optional(count(0, ANY_COUNT)),
        none="another one at each call",
    )
    first_photo: int = option(0, "the number of the first photo", count(0, ANY_COUNT))
    batch_size: int = option(64, "photos captioned together", count())

    def check_together(self):
        if self.temperature is None and (self.top_k is not None or self.top_p is not None):
            raise ValueError(f"Pass `temperature` to draw words. Received: top_k={self.top_k}, top_p={self.top_p}")
        searched = self.num_beams not in (None, 1) or (self.length_penalty, self.no_repeat_ngram) != (None, None)
        if self.temperature is not None and searched:
            received = {name: getattr(self, name) for name in ("num_beams", "length_penalty", "no_repeat_ngram")}
            received = ", ".join(f"{name}={value}" for name, value in received.items() if value is not None)
            raise ValueError(
                "With `temperature` words are drawn, and with num_beams, length_penalty and no_repeat_ngram they are "
                "searched for: "
                f"leave out one or the other. Received: temperature={self.temperature} with {received}"
            )
        if self.temperature is None and self.num_results > self.beams:
            raise ValueError(
                "A search has as many results as beams at most. "
                f"Received: num_results={self.num_results}, num_beams={self.beams}"
            )

    @property
    def beams(self):
        """The number of beams of a search: where none is given, 3, or as many as there are to be results."""
        return max(3, self.num_results) if self.num_beams is None else self.num_beams


@dataclass(frozen=True, kw_only=True)
class OptimizerOptions(Options):
    """How the weights follow their gradients, see `Captioner.compile`."""

    learning_rate: float = option(4e-4, "of an optimizer given by name", a_learning_rate())
    clip_norm: float = option(
        5.0, "bound of the norm of all gradients together", optional(above_zero()), none="no bound"
    )
    weight_decay: float = option(
        None, "how fast matrices shrink by themselves", optional(at_least_zero()), none="not at all"
    )
    average_momentum: float = option(
        None, "keep a moving average of the weights, such as 0.998", optional(share()), none="keep none"
    )
    encoder_rate: float = option(1.0, "share of the learning rate, of the encoder's layers that are trained", part())
    first_layer_rate: float = option(
        1.0, "share of encoder_rate, of the first of these layers; those between follow in even ratios", part()
    )


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(OptimizerOptions):
    """How `keras_sat.fit` trains; an option that Captioner.compile has too means the same there."""

    epochs: int = option(20, "passes over the training captions, at most", count(0))
    batch_size: int = option(64, "captions in a batch, of all devices together", count())
    group_by: str = option(
        "length", "what shares a batch: captions of one length, or of a photo", one_of("length", "image")
    )
    seed: int = option(0, "of the weights, the order of the batches, and all else that is drawn", count(0, MOST_SEED))
    deterministic: bool = option(False, "the same seed gives the same weights bit for bit; slower", a_flag())
    optimizer: Any = option("adam", "its name, or one of Keras", checked_by_keras("adam", "adamw", "rmsprop", "sgd"))
    schedule: str = option("constant", "of the learning rate: cosine falls to 0", one_of("constant", "cosine"))
    warmup_steps: int = option(0, "updates in which the learning rate rises from 0", count(0))
    num_views: int = option(1, "of each training photo: 2 with the mirrored one, more with parts of it", count())
    photo_jitter: float = option(
        0.0, "how much size, light and noise of training photos change, up to 1: steadier captions", probability()
    )
    patience: int = option(
        5, "stop after so many epochs without a better BLEU-4 on dev", optional(count()), none="never"
    )
    min_count: int = option(1, "a word of the vocabulary occurs at least so often", count())
    max_words: int = option(10_000, "size of the vocabulary, at most", optional(count()), none="keep all words")
    expectation_epochs: int = option(0, "hard attention: epochs with expectations only, before it draws", count(0))
    num_beams: int = option(1, "for the captions of the dev split after each epoch", count())
    max_length: int = option(20, "most words of these captions", count(1, MOST_WORDS))
    dtype: Any = option(
        None,
        "precision; auto takes mixed_bfloat16 where the processor or GPU has its products",
        checked_by_keras("float32", "mixed_bfloat16", "auto"),
        none="float32, or that of Keras",
    )


@dataclass(frozen=True, kw_only=True)
class SteadyOptions(Options):
    """The further epochs of `keras_sat.fit` in which the encoder learns to see the same in photos that changed."""

    steady_epochs: int = option(
        0, "further epochs in which the encoder learns not to mind size, light and noise of photos", count(0)
    )
    steady_rate: float = option(1.5e-4, "their learning rate, which falls to 0", above_zero())


@dataclass(frozen=True, kw_only=True)
class SelfCriticalOptions(Options):
    """The further epochs of `keras_sat.fit`, which have CIDEr as the reward of whole captions."""

    self_critical_epochs: int = option(0, "further epochs with CIDEr as the reward of whole captions", count(0))
    self_critical_rate: float = option(5e-5, "their learning rate, which is constant", above_zero())
    num_drawn: int = option(5, "captions drawn for each photo in these epochs", count())
    reward_baseline: str = option("greedy", "what a drawn caption must beat", one_of("greedy", "others"))
    drawing_temperature: float = option(0.5, "below 1 they are closer to those of a search", above_zero())

    def check_together(self):
        if self.reward_baseline == "others" and self.num_drawn < 2:
            raise ValueError(
                "A single caption has no others to be compared with: draw more, or choose the greedy one. "
                f"Received: num_drawn={self.num_drawn} with reward_baseline='others'"
            )


# === Functions that take options ===


def split_options(called, options, *classes, beside=()):
    """Return which class each option belongs to; refuse one that no class has, and guess which one was meant.

    Args:
        called: the name of what was called with the options.
        options: dict of options that were given.
        *classes: subclasses of Options; the first one that has an option gets it.
        beside: names of further arguments of what was called.

    Returns: list of dicts, one for each class, and one for those in `beside`.
    """
    owners = [*(cls.names() for cls in classes), tuple(beside)]
    refuse_unknown(called, options, [name for names in owners for name in names])
    parts = [{} for _ in owners]
    for name, value in options.items():
        first = next(part for part, names in zip(parts, owners) if name in names)
        first[name] = value
    return parts


def refuse_unknown(called, names, known):
    """Raise a ValueError for names of options that are not known, and guess which one was meant."""
    for name in names:
        if name not in known:
            hint = near_name(name, known) or f" Expected one of: {', '.join(dict.fromkeys(known))}."
            raise ValueError(f"{called} has no such option.{hint} Received: {name}")


def with_options(*classes):
    """Return a decorator that shows the options of these classes in the place of a function's `**options`.

    They stand in its signature, which `help`, `inspect.signature` and editors read, and in its docstring, where lines
    take the place of the entry "**options", or are added in the end. A class shows what its `__init__` takes. The
    function is called as ever, with a dict of those that were given.
    """

    def decorate(target):
        function = target.__init__ if isinstance(target, type) else target
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        named = [parameter.name for parameter in own]
        fields = {}
        for cls in classes:
            fields |= {name: f for name, f in cls.fields().items() if name not in fields and name not in named}
        shown = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type)
            for name, field in fields.items()
        ]
        first = sum(parameter.kind is not parameter.KEYWORD_ONLY for parameter in own)
        function.__signature__ = signature.replace(parameters=[*own[:first], *shown, *own[first:]])
        target.__doc__ = _with_lines(target.__doc__, [described(name, field) for name, field in fields.items()])
        return target

    return decorate


def readable_options(options):
    """Return a decorator of a class: options are attributes of what it makes, whose method `option` returns them."""

    def reader(name):
        return lambda self: self.option(name)

    def decorate(target):
        for name in options.names():
            setattr(target, name, property(reader(name)))
        return target

    return decorate


def checks_options(*classes):
    """Return a decorator: `with_options`, and a misspelt option is a ValueError that guesses which one was meant."""

    def decorate(function):
        @functools.wraps(function)
        def checked(*arguments, **options):
            refuse_unknown(function.__name__, options, known)
            return function(*arguments, **options)

        checked = with_options(*classes)(checked)
        known = [name for name in inspect.signature(checked).parameters if name != "self"]
        return checked

    return decorate


def described(name, field):
    """Return the line that documents an option."""
    none, default, choices = field.metadata["none"], field.default, field.metadata["bound"].choices
    choices = f" Choices: {', '.join(choices)}." if choices else ""
    if default is None:
        return f"{name}: {field.metadata['help']}.{choices} Default: {none} (None)."
    none = f"; None: {none}" if none else ""
    return f"{name}: {field.metadata['help']}{none}.{choices} Default: {default!r}."


def _with_lines(text, lines):
    """Return a docstring with lines in the place of its entry "**options", or in the end."""
    if text is None:  # python -OO keeps none
        return None
    before = text.split("\n")
    place = next((n for n, line in enumerate(before) if line.lstrip().startswith("**options")), None)
    if place is None:
        return "\n".join([inspect.cleandoc(text), "", "Options:", *(f"    {line}" for line in lines)])
    indent = before[place][: len(before[place]) - len(before[place].lstrip())]
    end = place + 1  # a long entry continues in lines that stand further to the right
    while end < len(before) and before[end].startswith(f"{indent} "):
        end += 1
    return "\n".join([*before[:place], *(indent + line for line in lines), *before[end:]])
