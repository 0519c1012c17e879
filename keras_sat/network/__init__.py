"""The captioner's network: encoders, attention, cells, decoder."""

from data_utils.base import attach_lazily

NAMES_BY_MODULE = {
    "adapter": ["FeatureAdapter"],
    "attention": [
        "ATTENTIONS",
        "SCORINGS",
        "Attention",
        "BahdanauAttention",
        "BilinearAttention",
        "DotAttention",
        "Selection",
        "hard",
        "make_attention",
        "soft",
    ],
    "cells": ["CELLS", "GRUCell", "LSTMCell", "RecurrentCell"],
    "decoder": ["CaptionDecoder", "Readout"],
    "encoder_weights": ["assign_weights"],
    "encoders": ["ENCODERS", "make_encoder", "usual_training"],
    "fast_twins": ["without_fast_twins"],
    "forked_process": ["reject_fork"],
    "photo_encoder": ["BUNDLED", "PhotoEncoder"],
    "precision": ["resolved_dtype"],
    "step_records": ["DecoderState", "Step"],
    "teacher_forcing": ["as_rows", "read_captions"],
    "weight_paths": ["IMAGENET", "keras_home"],
}

__getattr__, __dir__, __all__ = attach_lazily(__name__, NAMES_BY_MODULE)
