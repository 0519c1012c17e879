"""Presets of keyword arguments for `keras_sat.fit`, and the default encoder."""

HEAVY_ENCODER, LIGHT_ENCODER = "vgg16", "efficientnet_lite0"
DEFAULT_MODEL = "flickr8k"  # the bundled photo captioner
MANY_PHOTOS = 3000  # with this many photos in a folder, `fit` trains from scratch
FEWEST_PHOTOS = 10  # with fewer photos to train on, `fit` warns

# The defaults for the user's own photos, when training starts from the bundled
# captioner.
OWN_PHOTOS = {"epochs": 30, "batch_size": 16, "learning_rate": 1e-4, "encoder_rate": 0.1}

# For a few thousand photos: against overfitting.
_FEW_PHOTOS = {
    "normalise_features": True,
    "feature_projection_dim": 512,
    "attention_dim": 256,
    "readout_activation": "tanh",
    "label_smoothing": 0.1,
    "min_count": 5,
    "group_by": "image",
    "batch_size": 64,
    "learning_rate": 1e-3,
    "schedule": "cosine",
    "warmup_steps": 200,
    "average_momentum": 0.998,
    "epochs": 20,
    "patience": None,
    "num_beams": 3,
    "length_penalty": 0.5,
}

# For attention on the object that a word names; with boxes, add box_weight=1.
LOOKS_AT_WHAT_IT_NAMES = {
    "attends": "after",
    "scoring": "bilinear",
    "feature_activation": "relu",
    "sentinel": True,
    "guide_weight": 0.5,
    "attention_penalty_weight": 0.0,
}

PRESETS = {
    "default": {},
    "flickr8k": {**_FEW_PHOTOS, "num_views": 2},
    "flickr8k-lite0": {
        **_FEW_PHOTOS,
        **LOOKS_AT_WHAT_IT_NAMES,
        "epochs": 8,
        "num_views": 6,
        "encoder": "efficientnet_lite0",
        "encoder_training": "fine-tuned",
        "encoder_rate": 0.1,
        "first_layer_rate": 0.1,
        "grid": "14x14",
        "photo_blur": 1.0,
        "no_repeat_ngram": 3,
        "self_critical_epochs": 3,
        "reward_baseline": "others",
    },
    "flickr8k-mobilenet_v2": {
        **_FEW_PHOTOS,
        "epochs": 12,
        "num_views": 6,
        "encoder": "mobilenet_v2",
        "encoder_layer": "block_5_add",
        "trained_up_to": "out_relu",
        "encoder_rate": 0.1,
    },
    "flickr30k": {**_FEW_PHOTOS, "num_views": 2, "max_words": 10_000},
    "coco": {
        **_FEW_PHOTOS,
        "attention_dim": 512,
        "learning_rate": 4e-4,
        "hidden_dim": 1024,
        "max_words": 10_000,
    },
    "paper": {
        "encoder": "vgg19",
        "attention": "soft",
        "scoring": "additive",
        "cell": "lstm",
        "optimizer": "rmsprop",
        "batch_size": 64,
        # As in the authors' script, which averages over regions and captions in another
        # way: in equation (14), .33 would be as strong (docs/questions.md).
        "attention_penalty_weight": 1.0,
        "label_smoothing": 0.0,
    },
    "seq2seq": {
        "cell": "gru",
        "deep_output": False,
        "context_gate": False,
        "attention_penalty_weight": 0.0,
    },
}


# The names of presets in earlier versions, under which they are still found.
RENAMED = {"flickr8k-efficientnet_lite0": "flickr8k-lite0"}


def default_encoder(data):
    """Return the name of the default encoder for `data` (the name of a data set or a
    list of CaptionedImage).
    """
    is_scenes = isinstance(data, str) and data == "scenes"
    return "tiny" if is_scenes else HEAVY_ENCODER


def advice_on_a_cpu(preset):
    """Return what is faster on a CPU than HEAVY_ENCODER with a preset, as a line."""
    if f"{preset}-lite0" in PRESETS:
        return (
            f"this trains the paper's network. On a CPU, the preset {preset}-lite0 (--preset "
            f"{preset}-lite0) takes about 0.7 times as long (docs/speed.md), needs no download, "
            "and writes better captions (docs/results.md)"
        )
    return (
        f"on a CPU, {LIGHT_ENCODER} (--encoder {LIGHT_ENCODER}) encodes photos about ten times as "
        f"fast as {HEAVY_ENCODER}, and needs no download"
    )


def default_preset(data, encoder=None):
    """Return the name of the preset for `data`.

    Args:
        data: the name of a data set, or a list of CaptionedImage.
        encoder: what `fit` takes if none is passed: the default, or that of the run
            which is resumed. Where earlier versions took LIGHT_ENCODER, they took its
            preset. None: one was passed.
    """
    if not isinstance(data, str) or data not in PRESETS:
        return "default"
    if encoder == LIGHT_ENCODER and f"{data}-lite0" in PRESETS:
        return f"{data}-lite0"
    return data


def fitting_settings(preset, options):
    """Return the settings of a preset that do not conflict with `options`, the
    arguments given to `fit`.

    Left out is what the options make impossible: training parts of an encoder that is
    frozen, another layer than the one that was asked for, or a grid for the encoder's
    own size of photos. The encoder itself is given already, or chosen by `fit`.
    """
    settings = {name: value for name, value in PRESETS[preset].items() if name != "encoder"}

    usual_training = "scratch" if options.get("encoder") == "tiny" else "frozen"
    training = {"encoder_training": usual_training, **settings, **options}["encoder_training"]
    if training != "frozen" or ("encoder_layer" in options and "trained_up_to" not in options):
        _leave_out(settings, "encoder_layer", "trained_up_to")
    last_trained = {**settings, **options}.get("trained_up_to")
    if training != "fine-tuned" and last_trained is None:
        _leave_out(settings, "encoder_rate", "first_layer_rate")
    if "image_size" in options or "encoder_layer" in options:
        _leave_out(settings, "grid")
    if {**settings, **options}.get("group_by") != "image":
        _leave_out(settings, "guide_weight")
    return settings


def _leave_out(settings, *names):
    """Remove entries from a dict, where it has them."""
    for name in names:
        settings.pop(name, None)
