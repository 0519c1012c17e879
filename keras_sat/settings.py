"""All settings of captioners, searches and training, each written once: in the
dataclass of the part that it belongs to, with its default, valid values and meaning.

    settings = FitSettings.of("fit", {"hidden_dim": 256, "epochs": 3})
    settings.network.hidden_dim, settings.cross_entropy.epochs

People pass settings by their names alone, as keyword arguments and flags. Inside, each
class is handed the object of its own part: the decoder a Network, the objective a Loss.
"""

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from keras_sat.bounds import (
    a_cell,
    a_learning_rate,
    a_scoring,
    above_zero,
    an_attention,
    an_encoder,
    at_least_zero,
    count,
    flag,
    fraction,
    one_of,
    pixels,
    positive_fraction,
    unchecked,
)
from keras_sat.checks import ArgumentError, near_name
from keras_sat.removed_options import without_removed

DTYPES = ("float32", "mixed_bfloat16", "auto")
# Extra values of each word that are not in the paper, see `CaptionResult.extras`.
EXTRAS = ("from_photo",)
# What is drawn and measured: see `CaptionResult.maps`.
MAP_KINDS = ("attention", "votes")
# What is measured: see `keras_sat.measuring.measured_maps`.
MEASURED_MAPS = (*MAP_KINDS, "votes-blurred")
# The settings that the signature of `fit` shows, and those that `keras-sat fit --help`
# shows.
SHOWN_IN_FIT = (
    *("encoder", "encoder_layer", "encoder_weights", "encoder_training", "image_size"),
    *("attention", "scoring", "cell", "embedding_dim", "hidden_dim", "attention_dim"),
    *("attention_penalty_weight", "label_smoothing", "epochs", "batch_size", "learning_rate"),
    *("optimizer", "num_views", "self_critical_epochs", "seed"),
)
SHOWN_IN_HELP = ("encoder", "encoder_weights", "attention")
SHOWN_IN_HELP += ("epochs", "batch_size", "learning_rate", "seed")
MOST_WORDS = 10_000  # of a caption: memory for all of them is allocated at once
MOST_BEAMS = 1_000  # memory grows with them
CONSENSUS_BEAMS = 10  # the default number of beams for a choice by consensus
MOST_SEED = 2**32 - 1  # for Keras and numpy
ANY_COUNT = 2**63 - 1


def setting(
    default,
    bound,
    help,
    *,
    none_means="",
    none_is_unset=False,
    changes_features=False,
    in_graph=True,
):
    """Return a dataclass field that defines a setting, with its Bound and its meaning
    in one line.

    Args:
        none_means: the meaning of None, in a few words; "": None is not valid.
        none_is_unset: whether `fit` replaces None with the preset or default; it always
            does if None is not valid.
        changes_features: whether the features of a frozen encoder depend on it: a
            feature cache must not mix them. None, 0 and "" must mean that it has no
            effect.
        in_graph: whether the algorithm of a search uses it, so that each of its values
            needs a graph of its own; False for what is used before or after the search.
    """
    metadata = {
        "help": help,
        "bound": dataclasses.replace(bound, takes_none=True) if none_means else bound,
        "none_means": none_means,
        "none_is_unset": none_is_unset or not none_means,
        "changes_features": changes_features,
        "in_graph": in_graph,
    }
    return dataclasses.field(default=default, metadata=metadata)


class Part:
    """Base class of the settings of one part, whose fields are made by `setting` and
    checked on creation.
    """

    heading = ""  # in the help; parts with the same heading are listed together
    defaults_in_words = {}  # of settings whose default depends on something, for the help

    def __post_init__(self):
        self.check(**self.to_dict())
        self.check_together()

    def check_together(self):
        """Raise a ValueError for an invalid combination of values."""

    @classmethod
    def of(cls, asking, arguments, base=None, *, names=None, also=()):
        """Make the settings from the keyword arguments of a function, a dict.

        Args:
            asking: the name of the function, for the error about an unknown argument.
            base: settings that have the other values; None: the defaults.
            names: of the settings that the function takes; None: all.
            also: names of the function's other arguments, which may have been meant.
        """
        base = cls() if base is None else base
        known = known_settings(asking, arguments, [*(names or cls.names()), *also])
        return dataclasses.replace(base, **known)

    @classmethod
    def check(cls, **values):
        """Raise an ArgumentError if one of these values is invalid."""
        fields = cls.fields()
        for name, value in values.items():
            fields[name].metadata["bound"].check(name, value)

    @classmethod
    def fields(cls):
        """Return a dict from the names of the settings to their fields."""
        return {field.name: field for field in dataclasses.fields(cls)}

    @classmethod
    def names(cls):
        """Return the names of all settings of this part."""
        return tuple(cls.fields())

    @classmethod
    def defaults(cls):
        """Return a dict from the names of the settings to their defaults."""
        return {name: field.default for name, field in cls.fields().items()}

    def to_dict(self):
        """Return a dict from the names of the settings to their values."""
        return {name: getattr(self, name) for name in self.names()}


# === The captioner ===


@dataclass(frozen=True, kw_only=True)
class Encoder(Part):
    """The encoder, and what it sees of photos."""

    heading = "Encoder"
    encoder: Any = setting(
        "vgg16",
        an_encoder,
        "network that computes the features",
        none_means="no encoder",
        none_is_unset=True,
        changes_features=True,
    )
    encoder_layer: str | None = setting(
        None,
        unchecked(str),
        "layer that gives the grid",
        none_means="the encoder's",
        none_is_unset=True,
        changes_features=True,
    )
    encoder_weights: Any = setting(
        "imagenet",
        unchecked(str),
        'a file, or "bundled" (from the bundled captioner)',
        none_means="random weights",
        changes_features=True,
    )
    encoder_training: str | None = setting(
        None,
        one_of("frozen", "fine-tuned", "scratch"),
        "fine-tuned: with the decoder; scratch: random weights",
        none_means="frozen; tiny: scratch",
        none_is_unset=True,
    )
    trained_up_to: str | None = setting(
        None, unchecked(str), "train layers after encoder_layer up to this", none_means="none"
    )
    image_size: Any = setting(
        None,
        unchecked(int),
        "side of square input photos",
        none_means="the encoder's",
        none_is_unset=True,
        changes_features=True,
    )
    grid: str | None = setting(
        None,
        unchecked(str),
        "size of the grid, such as 14x14 (by dilation)",
        none_means="the encoder's",
        changes_features=True,
    )
    grid_shape: tuple | None = setting(
        None, unchecked(), "(rows, columns) of the features", none_means="the encoder's"
    )
    photo_blur: float | None = setting(
        None,
        pixels,
        "blur: standard deviation in pixels",
        none_means="0, or that of bundled weights",
        changes_features=True,
    )

    @classmethod
    def feature_names(cls):
        """Return the names of the settings that change the features of a frozen
        encoder.
        """
        fields = cls.fields()
        return tuple(name for name in fields if fields[name].metadata["changes_features"])

    def feature_settings(self):
        """Return a dict of those settings that change the features, without the encoder
        and without those that have no effect.
        """
        values = {name: getattr(self, name) for name in self.feature_names() if name != "encoder"}
        return {name: value for name, value in values.items() if value}


@dataclass(frozen=True, kw_only=True)
class Features(Part):
    """What happens to the features between encoder and decoder."""

    heading = "Features"
    normalise_features: bool = setting(
        False, flag, "give each feature vector mean 0 and variance 1"
    )
    feature_projection_dim: int | None = setting(
        None, count(), "project features to this length", none_means="no projection"
    )
    feature_activation: Any = setting(
        None, unchecked(str, "relu", "tanh"), "projection's activation", none_means="none"
    )
    feature_dropout: float = setting(0.0, fraction, "dropout rate of features")


@dataclass(frozen=True, kw_only=True)
class Network(Part):
    """The decoder, CaptionDecoder; the defaults are the paper's.

    `dropout_words` makes it rely on the photo more than on the previous words.
    """

    heading = "Network"
    attention: str = setting("soft", an_attention, "how the decoder attends")
    scoring: str = setting("additive", a_scoring, "how regions are scored")
    cell: str = setting("lstm", a_cell, "type of recurrent layer")
    num_layers: int = setting(
        1, count(), "number of recurrent layers; attention reads the state of the top one"
    )
    embedding_dim: int = setting(512, count(), "length of a word vector (m in the paper)")
    hidden_dim: int = setting(512, count(), "size of the recurrent layers (n in the paper)")
    attention_dim: int = setting(512, count(), "size of the hidden layer of additive attention")
    context_gate: bool = setting(
        True, flag, "multiply the context by beta_t; without attention there is no gate"
    )
    deep_output: bool = setting(
        True, flag, "use equation (7); False: one layer on state and context"
    )
    readout_activation: Any = setting(
        None,
        unchecked(str, "tanh", "relu"),
        "activation; tanh in the paper's code",
        none_means="none, as in the paper",
    )
    dropout_words: float = setting(0.0, fraction, "dropout rate of whole input words")
    dropout_before_readout: float = setting(0.5, fraction, "dropout rate of h_t before the readout")
    dropout_after_readout: float = setting(0.5, fraction, "dropout rate of the readout")
    seed: int = setting(0, count(0, MOST_SEED), "random seed for dropout and sampled attention")
    attends: str = setting(
        "before", one_of("before", "after"), "attend before or after reading the last word"
    )
    sentinel: bool = setting(False, flag, "add a visual sentinel to the regions (Lu et al., 2017)")


@dataclass(frozen=True, kw_only=True)
class Loss(Part):
    """What training minimises in the cross-entropy epochs."""

    heading = "Loss"
    attention_penalty_weight: float = setting(
        0.33, at_least_zero, "lambda of the penalty in equation (14)"
    )
    label_smoothing: float = setting(
        0.0, fraction, "fraction of the probability spread over the vocabulary"
    )
    num_samples: int = setting(
        1, count(), "hard attention: samples per caption (N in equation (12))"
    )
    reward_weight: float = setting(
        0.1, at_least_zero, "hard attention: weight of the reward (lambda_r)"
    )
    entropy_weight: float = setting(
        0.002, at_least_zero, "hard attention: weight of the entropy (lambda_e)"
    )
    guide_weight: float = setting(
        0.0, at_least_zero, "supervise attention with word detectors; try 0.5"
    )
    box_weight: float = setting(0.0, at_least_zero, "supervise attention with the boxes of phrases")
    sharpness_weight: float = setting(
        0.0, at_least_zero, "weight of the entropy of attention in the loss; try 0.02"
    )


# === The search ===


@dataclass(frozen=True, kw_only=True)
class SearchRules(Part):
    """The settings of a search that are part of a captioner, and saved with it."""

    heading = "Search"
    length_penalty: float = setting(0.0, at_least_zero, "values above 0 favour longer captions")
    no_repeat_ngram: int = setting(
        0, count(0, MOST_WORDS), "do not repeat n-grams of this length; 0: no limit; try 3"
    )
    consensus_weight: float = setting(
        0.0,
        at_least_zero,
        "weight of the agreement with the words of similar training photos; try 8",
        in_graph=False,
    )


@dataclass(frozen=True, kw_only=True)
class Beams(Part):
    """The beams of a search, and what they may say."""

    heading = "Search"
    num_beams: int | None = setting(
        None,
        count(1, MOST_BEAMS),
        "number of beams; 1: greedy",
        none_means=f"3, or {CONSENSUS_BEAMS} for consensus, or num_results if more",
    )
    max_length: int = setting(
        20, count(1, MOST_WORDS), "maximum number of words, including `<end>`"
    )
    allow_unknown: bool = setting(False, flag, "allow `<unk>` in captions")


@dataclass(frozen=True, kw_only=True)
class BeamSearch(SearchRules, Beams):
    """How the best captions are searched for: what `evaluate` takes."""

    @classmethod
    def graph_names(cls):
        """Return the names of the settings that the algorithm of the search uses."""
        fields = cls.fields()
        return tuple(name for name in fields if fields[name].metadata["in_graph"])


# What exports and workers take: consensus chooses after the search.
ALGORITHM_OPTIONS = BeamSearch.graph_names()


@dataclass(frozen=True, kw_only=True)
class Search(BeamSearch):
    """How photos are captioned: by beam search, or by sampling if there is a
    `temperature`.

    A captioner has a complete one, `search_settings`; `caption` replaces what it is
    given. `run_search` is handed all of it, except settings with `in_graph=False`.
    """

    defaults_in_words = dict.fromkeys(SearchRules.names(), "the captioner's own")
    num_results: int = setting(
        1, count(), "captions per photo; the default num_beams is at least this"
    )
    temperature: float | None = setting(
        None, above_zero, "sample words at this temperature (try 1.0)", none_means="search instead"
    )
    top_k: int | None = setting(
        None, count(), "sample only from the k most probable words", none_means="from all"
    )
    top_p: float | None = setting(
        None,
        positive_fraction,
        "nucleus sampling: total probability of the words",
        none_means="from all",
    )
    sample_attention: bool = setting(
        False, flag, "with hard attention, sample a region for each word"
    )
    seed: int | None = setting(
        None,
        count(0, ANY_COUNT),
        "random seed, combined with the photo's number",
        none_means="a new one",
        in_graph=False,
    )
    votes: bool = setting(
        False,
        flag,
        "also compute what each region adds to each word, see `CaptionResult.votes`",
        in_graph=False,
    )
    first_photo: int = setting(
        0, count(0, ANY_COUNT), "the number of the first photo", in_graph=False
    )
    batch_size: int = setting(64, count(), "photos per batch", in_graph=False)

    def check_together(self):
        if self.temperature is None and (self.top_k is not None or self.top_p is not None):
            raise ArgumentError(
                "`top_k` and `top_p` require `temperature`.", top_k=self.top_k, top_p=self.top_p
            )
        if self.votes and self.sample_attention:
            raise ArgumentError(
                "Votes are those of the expected context: pass only one of `votes` and "
                "`sample_attention`.",
                votes=True,
                sample_attention=True,
            )
        num_beams = self.resolved_num_beams()
        if self.temperature is None and self.num_results > num_beams:
            received = {"num_results": self.num_results, "num_beams": num_beams}
            raise ArgumentError("A search cannot return more results than beams.", **received)

    @classmethod
    def of(cls, asking, arguments, base=None, *, names=None, also=()):
        """Make the search from the keyword arguments of a function; see `Part.of`.

        None leaves a value as it is, unless it is one itself.
        """
        fields = cls.fields()
        passed = {
            name: value
            for name, value in arguments.items()
            if value is not None or name not in fields or fields[name].metadata["none_means"]
        }
        search = super().of(asking, passed, base, names=names, also=also)
        not_sampled = ("num_beams", *SearchRules.names())
        searched = {name: passed[name] for name in not_sampled if passed.get(name) is not None}
        if search.temperature is not None and searched and searched != {"num_beams": 1}:
            problem = (
                f"`temperature` requires sampling, but {', '.join(searched)} a search. Pass "
                "only one of them."
            )
            raise ArgumentError(problem, temperature=search.temperature, **searched)
        return search

    def resolved_num_beams(self, with_consensus=False):
        """Return the number of beams, also where it is left to the other settings."""
        fewest = CONSENSUS_BEAMS if with_consensus else 3
        return self.num_beams or min(MOST_BEAMS, max(fewest, self.num_results))

    def greedy(self):
        """Return the greedy search with the same rules."""
        return dataclasses.replace(self.without_sampling(), num_beams=1, num_results=1)

    def without_sampling(self):
        """Return the search by beams with the same rules."""
        return dataclasses.replace(self, temperature=None, top_k=None, top_p=None)

    def for_graph(self, with_consensus=False):
        """Return the Search with which `keras_sat.search.algorithms.run_search` is
        called; each distinct one needs its own graph.

        Its number of beams is set, and settings with `in_graph=False` have their
        defaults. With consensus, all beams are results, one of which is chosen later.
        """
        num_beams = self.resolved_num_beams(with_consensus)
        num_results = num_beams if with_consensus else self.num_results
        used = {name: getattr(self, name) for name in self.graph_names()}
        used |= {"num_beams": num_beams, "num_results": num_results}
        for name, value in used.items():
            if hasattr(value, "item"):  # a number of numpy, which has a dtype of its own
                used[name] = value.item()
        return Search(**used)

    @property
    def rows_per_photo(self):
        """The number of captions that are written at the same time, see `for_graph`."""
        return self.num_beams if self.temperature is None else self.num_results


# === Training ===


@dataclass(frozen=True, kw_only=True)
class Training(Part):
    """All epochs of `keras_sat.fit`."""

    heading = "Training"
    batch_size: int = setting(64, count(), "captions in a batch (over all devices)")
    seed: int = setting(
        0,
        count(0, MOST_SEED),
        "random seed for weights, order of batches, dropout and sampling",
    )
    deterministic: bool = setting(
        False, flag, "make results bit-for-bit reproducible with the same seed; slower"
    )
    optimizer: Any = setting(
        "adam", unchecked(str, "adam", "adamw", "rmsprop", "sgd"), "a name, or a Keras optimizer"
    )
    patience: int | None = setting(
        5, count(), "stop after this many epochs without a better BLEU-4", none_means="never"
    )
    minutes: float | None = setting(
        None,
        above_zero,
        "start no epoch that would end after so many minutes, but train one; the same call resumes",
        none_means="no limit",
    )
    num_beams: int = setting(
        1,
        count(1, MOST_BEAMS),
        "number of beams for captioning the dev split after each epoch",
    )
    max_length: int = setting(
        20, count(1, MOST_WORDS), "maximum number of words in these dev captions"
    )
    dtype: Any = setting(
        None,
        unchecked(str, *DTYPES),
        "auto: mixed_bfloat16 where possible",
        none_means="Keras' default",
    )


@dataclass(frozen=True, kw_only=True)
class Optimizer(Part):
    """The weight updates; see `Captioner.compile`."""

    heading = "Optimizer"
    learning_rate: Any = setting(
        4e-4, a_learning_rate, "learning rate (if the optimizer is given by name)"
    )
    clip_norm: float | None = setting(
        5.0, above_zero, "maximum global gradient norm", none_means="no limit"
    )
    weight_decay: float | None = setting(
        None, at_least_zero, "weight decay (of matrices only)", none_means="no decay"
    )
    average_momentum: float | None = setting(
        None, fraction, "momentum of the weight average; try 0.998", none_means="no average"
    )
    encoder_rate: float = setting(
        1.0, positive_fraction, "encoder's learning rate, as a fraction of learning_rate"
    )
    first_layer_rate: float = setting(
        1.0,
        positive_fraction,
        "fraction of encoder_rate for the first trained layer; it rises to 1 layer by layer",
    )


@dataclass(frozen=True, kw_only=True)
class CrossEntropy(Part):
    """The cross-entropy epochs, the first phase of training."""

    heading = "Cross-entropy epochs"
    epochs: int = setting(20, count(0), "maximum number of passes over the training captions")
    schedule: str = setting(
        "constant",
        one_of("constant", "cosine"),
        "learning rate schedule; cosine falls to 0",
    )
    warmup_steps: int = setting(
        0, count(0), "number of updates in which the learning rate rises from 0"
    )
    group_by: str | None = setting(
        None,
        one_of("length", "image"),
        "group captions by length or by photo; by photo each is encoded once an epoch",
        none_means="by photo if the encoder is trained, else by length",
        none_is_unset=True,
    )
    num_views: int = setting(
        1, count(), "views of each training photo: 2 adds the mirror image, more add crops"
    )
    min_count: int = setting(1, count(), "minimum count of a word in the vocabulary")
    max_words: int | None = setting(
        10_000, count(), "maximum size of the vocabulary", none_means="keep all words"
    )
    expectation_epochs: int = setting(
        0, count(0), "hard attention: epochs with soft attention before sampling"
    )


@dataclass(frozen=True, kw_only=True)
class Rewards(Part):
    """The self-critical epochs, the second phase of training; CIDEr is the reward."""

    heading = "Self-critical epochs"
    self_critical_epochs: int = setting(
        0, count(0), "epochs with the CIDEr of whole captions as the reward"
    )
    self_critical_rate: float = setting(5e-5, above_zero, "constant learning rate of these epochs")
    reward_baseline: str = setting(
        "greedy", one_of("greedy", "others"), "baseline: greedy caption or other samples"
    )


# === All parts together ===


class Settings:
    """Base class of the dataclasses whose fields are parts.

    A name that several parts have stands for the setting of each: one `seed` of `fit`
    is that of the training and of the network.
    """

    defaults_in_words = {}  # see Part

    @classmethod
    def of(cls, asking, arguments, base=None, *, also=()):
        """Make the settings from the keyword arguments of a function; see `Part.of`."""
        base = cls() if base is None else base
        return base.replace(**known_settings(asking, arguments, [*cls.names(), *also]))

    @classmethod
    def parts(cls):
        """Return a dict from the names of the parts to their classes."""
        return {field.name: field.type for field in dataclasses.fields(cls)}

    @classmethod
    def names(cls):
        """Return the names of the settings of all parts."""
        names = (name for part in cls.parts().values() for name in part.names())
        return tuple(dict.fromkeys(names))

    @classmethod
    def fields(cls):
        """Return a dict from the names of the settings to their fields; of parts with
        the same name for one, the last counts.
        """
        fields = {}
        for part in cls.parts().values():
            fields |= part.fields()
        return fields

    @classmethod
    def defaults(cls):
        """Return a dict from the names of the settings to their defaults."""
        return {name: field.default for name, field in cls.fields().items()}

    def replace(self, **values):
        """Return settings with other values, which are given by the names of the
        settings.
        """
        reject_unknown(type(self).__name__, values, self.names())
        changed = {}
        for part, kind in self.parts().items():
            changes = {name: values[name] for name in kind.names() if name in values}
            if changes:
                changed[part] = dataclasses.replace(getattr(self, part), **changes)
        return dataclasses.replace(self, **changed)

    def to_dict(self):
        """Return a dict from the names of all settings to their values."""
        values = {}
        for part in self.parts():
            values |= getattr(self, part).to_dict()
        return values

    def __str__(self):
        return "\n".join(f"{part}: {getattr(self, part)}" for part in self.parts())


@dataclass(frozen=True, kw_only=True)
class CaptionerSettings(Settings):
    """The settings of a Captioner."""

    encoder: Encoder = Encoder()
    features: Features = Features()
    network: Network = Network()
    loss: Loss = Loss()
    search: SearchRules = SearchRules()


@dataclass(frozen=True, kw_only=True)
class FitSettings(CaptionerSettings):
    """The settings of `keras_sat.fit`: those of the captioner and of its training."""

    defaults_in_words = {"encoder": "tiny for scenes, else vgg16"}
    training: Training = Training()
    optimizer: Optimizer = Optimizer()
    cross_entropy: CrossEntropy = CrossEntropy()
    rewards: Rewards = Rewards()

    @property
    def captioner(self):
        """The CaptionerSettings alone."""
        parts = {part: getattr(self, part) for part in CaptionerSettings.parts()}
        return CaptionerSettings(**parts)


# === Functions that take settings ===

# The order in which the help lists the parts.
HEADINGS = (
    Training.heading,
    Optimizer.heading,
    CrossEntropy.heading,
    Rewards.heading,
    Loss.heading,
    Search.heading,
    Encoder.heading,
    Features.heading,
    Network.heading,
)
MOST_USED = "Most used options"
Documented = TypeVar("Documented", bound=Callable)  # so that type checkers know the result


def known_settings(asking, arguments, known_names):
    """Return the keyword arguments of a function, a dict, without settings that were
    removed. Any other unknown name is a ValueError.
    """
    unknown = {name: value for name, value in arguments.items() if name not in known_names}
    reject_unknown(asking, without_removed(asking, unknown), known_names)
    return {name: value for name, value in arguments.items() if name not in unknown}


def reject_unknown(asking, names, known_names):
    """Raise a ValueError for an unknown name of a setting, and suggest a similar one.

    `asking` is the function that received it, for the message.
    """
    for name in names:
        if name not in known_names:
            expected = f" Expected one of: {', '.join(dict.fromkeys(known_names))}."
            hint = near_name(name, known_names) or expected
            raise ValueError(f"{asking} has no such option.{hint} Received: {name}")


def fields_by_heading(kind, names=None):
    """Return a dict from the headings of a Part or Settings to dicts from names to
    fields; with `names`, only of these, in this order.
    """
    parts = kind.parts().values() if issubclass(kind, Settings) else [kind]
    owners = {name: part for part in parts for name in part.names()}  # the last counts
    fields = {heading: {} for heading in HEADINGS}
    for name in names or owners:
        fields[owners[name].heading][name] = owners[name].fields()[name]
    return {heading: fields for heading, fields in fields.items() if fields}


def with_options(
    kind: type, names: tuple | None = None, shown: tuple = (), defaults: str = ""
) -> Callable[[Documented], Documented]:
    """Return a decorator that lists settings at the end of a docstring: what a
    function, or a class in its `__init__`, takes as `**options`.

    Args:
        kind: a Part or Settings.
        names: of the settings that it takes; None: all.
        shown: names that the signature of the function shows, and the docstring first.
        defaults: what stands for all that are not passed, in words; "": the defaults.

    docs/make_stubs.py reads the arguments too, for the signatures that editors show.
    """
    in_words = dict.fromkeys(kind.names(), defaults) if defaults else kind.defaults_in_words

    def decorate(target):
        if shown:
            target.__signature__ = _with_parameters(inspect.signature(target), kind, shown)
        if target.__doc__ is not None:  # it is None with python -OO
            others = fields_by_heading(kind, names)
            sections = {MOST_USED: {name: kind.fields()[name] for name in shown}}
            for heading, fields in others.items():
                sections[heading] = {
                    name: field for name, field in fields.items() if name not in shown
                }
            target.__doc__ = (
                f"{inspect.cleandoc(target.__doc__)}\n{_documented(sections, in_words)}"
            )
        return target

    return decorate


def _with_parameters(signature, kind, names):
    """Return a signature with keyword-only parameters for these settings."""
    *parameters, options = signature.parameters.values()  # `**options` comes last
    for name in names:
        field = kind.fields()[name]
        default = None if name in kind.defaults_in_words else field.default
        parameters.append(
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=field.type
            )
        )
    return signature.replace(parameters=[*parameters, options])


def _documented(sections, defaults_in_words):
    """Return docstring sections that list settings, given a dict from their headings to
    dicts from names to fields: one section for all if there is a single one.
    """
    sections = {heading: fields for heading, fields in sections.items() if fields}
    if len(sections) == 1:
        sections = {"Options": next(iter(sections.values()))}
    lines = []
    for heading, fields in sections.items():
        lines += ["", f"{heading}:"]
        for name, field in fields.items():
            lines.append(f"    {name}: {_described(field, defaults_in_words.get(name))}")
    return "\n".join(lines)


def _described(field, default_in_words):
    """Return what a setting means, its choices and its default, in one line."""
    none_means = field.metadata["none_means"]
    choices = field.metadata["bound"].choices
    text = f"{field.metadata['help']}."
    if choices:
        text += f" Choices: {', '.join(choices)}."
    if default_in_words is not None:
        return f"{text} Default: {default_in_words}."
    text += f" Default: {field.default!r}"
    if field.default is None:
        text += f" ({none_means})"
    elif none_means:
        text += f"; None: {none_means}"
    return f"{text}."
