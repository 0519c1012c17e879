"""The options of a captioner as its attributes: read-only, under the same names.

They are written out so that an editor finds them and says what they are.
"""

from typing import Any

from keras_sat.model.photo_encoder import PhotoEncoder
from keras_sat.options import CaptionerOptions


class OptionAttributes:
    """Base class of Captioner: `captioner.attention` is `captioner.options.attention`.

    Options are fixed when a captioner is made; `Captioner.adapted` makes another one.
    Only those of the encoder may change, when a captioner is loaded or adapted: these
    attributes are the current ones.
    """

    options: CaptionerOptions
    photo_encoder: PhotoEncoder

    # === Encoder ===

    @property
    def encoder(self) -> str | None:
        """Name of the encoder; None without one."""
        return self.photo_encoder.name

    @property
    def encoder_layer(self) -> str | None:
        """Layer of the encoder that gives the grid; None: the usual one."""
        return self.photo_encoder.layer

    @property
    def encoder_weights(self) -> str | None:
        """Source of the encoder's weights; None: random, or saved ones."""
        return self.photo_encoder.weights

    @property
    def encoder_training(self) -> str:
        """How the encoder is trained: "frozen", "fine-tuned" or "scratch"."""
        return self.photo_encoder.training

    @property
    def trained_up_to(self) -> str | None:
        """Last layer that is trained after `encoder_layer`, or None."""
        return self.photo_encoder.trained_up_to

    @property
    def image_size(self) -> Any:
        """Side of the square input photos; None: the encoder's."""
        return self.photo_encoder.image_size

    @property
    def grid(self) -> str | None:
        """Size of a finer grid, such as "14x14"; None: the encoder's."""
        return self.photo_encoder.grid

    @property
    def grid_shape(self) -> tuple | None:
        """(rows, columns) of the features; None: the encoder's."""
        return self.photo_encoder.grid_shape

    @property
    def photo_blur(self) -> float:
        """Standard deviation of the blur of photos, in pixels."""
        return self.photo_encoder.blur

    # === Features ===

    @property
    def normalise_features(self) -> bool:
        """Whether each feature vector gets mean 0 and variance 1."""
        return self.options.normalise_features

    @property
    def feature_projection_dim(self) -> int | None:
        """Length to which features are projected; None: no projection."""
        return self.options.feature_projection_dim

    @property
    def feature_activation(self) -> Any:
        """Activation of the projected features; None: linear."""
        return self.options.feature_activation

    @property
    def feature_dropout(self) -> float:
        """Dropout rate of features."""
        return self.options.feature_dropout

    # === Decoder ===

    @property
    def attention(self) -> str:
        """How the decoder attends: "soft", "hard" or "none"."""
        return self.options.attention

    @property
    def scoring(self) -> str:
        """How regions are scored: "additive", "dot" or "bilinear"."""
        return self.options.scoring

    @property
    def attends(self) -> str:
        """Whether it attends "before" or "after" reading the last word."""
        return self.options.attends

    @property
    def sentinel(self) -> bool:
        """Whether a visual sentinel competes with the regions."""
        return self.options.sentinel

    @property
    def context_gate(self) -> bool:
        """Whether the context is multiplied by beta_t."""
        return self.options.context_gate

    @property
    def cell(self) -> str:
        """Type of the recurrent layers: "lstm" or "gru"."""
        return self.options.cell

    @property
    def num_layers(self) -> int:
        """Number of recurrent layers; attention reads the state of the top one."""
        return self.options.num_layers

    @property
    def embedding_dim(self) -> int:
        """Length of a word vector, m in the paper."""
        return self.options.embedding_dim

    @property
    def hidden_dim(self) -> int:
        """Size of the recurrent layers, n in the paper."""
        return self.options.hidden_dim

    @property
    def attention_dim(self) -> int:
        """Size of the hidden layer of additive attention."""
        return self.options.attention_dim

    @property
    def deep_output(self) -> bool:
        """Whether the readout is equation (7), not one layer."""
        return self.options.deep_output

    @property
    def readout_activation(self) -> Any:
        """Activation of the readout; None: linear, as in the paper."""
        return self.options.readout_activation

    @property
    def dropout_words(self) -> float:
        """Dropout rate of whole input words."""
        return self.options.dropout_words

    @property
    def dropout_before_readout(self) -> float:
        """Dropout rate of h_t before the readout."""
        return self.options.dropout_before_readout

    @property
    def dropout_after_readout(self) -> float:
        """Dropout rate of the readout."""
        return self.options.dropout_after_readout

    @property
    def seed(self) -> int:
        """Random seed for dropout and sampled attention."""
        return self.options.seed

    # === Loss ===

    @property
    def attention_penalty_weight(self) -> float:
        """Lambda of the penalty in equation (14)."""
        return self.options.attention_penalty_weight

    @property
    def label_smoothing(self) -> float:
        """Fraction of the probability spread over the vocabulary."""
        return self.options.label_smoothing

    @property
    def guide_weight(self) -> float:
        """Weight of the supervision of attention by word detectors."""
        return self.options.guide_weight

    @property
    def box_weight(self) -> float:
        """Weight of the supervision of attention by boxes of phrases."""
        return self.options.box_weight

    @property
    def sharpness_weight(self) -> float:
        """Weight of the entropy of attention in the loss."""
        return self.options.sharpness_weight

    @property
    def num_samples(self) -> int:
        """Hard attention: samples per caption, N in equation (12)."""
        return self.options.num_samples

    @property
    def reward_weight(self) -> float:
        """Hard attention: weight of the reward, lambda_r."""
        return self.options.reward_weight

    @property
    def entropy_weight(self) -> float:
        """Hard attention: weight of the entropy, lambda_e."""
        return self.options.entropy_weight

    # === Search: the defaults of `caption` ===

    @property
    def length_penalty(self) -> float:
        """Values above 0 favour longer captions."""
        return self.options.length_penalty

    @property
    def no_repeat_ngram(self) -> int:
        """Length of the n-grams that are not repeated; 0: no limit."""
        return self.options.no_repeat_ngram

    @property
    def no_repeat_around(self) -> str:
        """No word is said on both sides of this word; "": no limit."""
        return self.options.no_repeat_around

    @property
    def consensus_weight(self) -> float:
        """Weight of the agreement with captions of similar photos."""
        return self.options.consensus_weight
