"""Defaults of `fit` that depend on the data: preset, encoder, folder, and the bundled captioner to start from."""

from keras_sat.files.model_folder import PRETRAINED, read_model
from keras_sat.model.photo_encoder import BUNDLED
from keras_sat.model.selections import ATTENTIONS
from keras_sat.options import CaptionerOptions, one_of
from keras_sat.presets import (
    DEFAULT_MODEL,
    LIGHT_ENCODERS,
    MANY_PHOTOS,
    PRESETS,
    default_encoder,
    default_preset,
    fitting_settings,
    without_gpu,
)
from keras_sat.training.run_record import noted_encoder

PARTS_AND_SIZES = CaptionerOptions.names("encoder", "architecture")  # which a trained captioner keeps


def preset_or_default(preset, data, options, initial_model, output_dir, cluster):
    """Return the settings of a preset, and the line that says so where none is named.

    Args:
        preset: its name; None: that of the data set, without what the options leave no place for, and none where a
            captioner to start from brings its own settings.
        data, initial_model, output_dir: of `fit`.
        options: dict of the options of `fit` that were given.
        cluster: Cluster.
    """
    if preset is not None:
        one_of(*PRESETS).check("preset", preset)
        return PRESETS[preset], None
    if initial_model is not None:
        return {}, None
    before = None if output_dir is None else noted_encoder(output_dir)
    name, before = cluster.broadcast([default_preset(data, options.get("encoder") or before), before])
    settings = fitting_settings(name, options if before is None else {"encoder": before, **options})
    line = f"settings of the preset {name}; preset='default' (--preset default) takes the plain defaults"
    return settings, line if name != "default" else None


def encoder_or_default(data, output_dir, cluster, say):
    """Return the name of the encoder where none is named: that of the training which is resumed, or the default."""
    before = None if output_dir is None else noted_encoder(output_dir)
    encoder = cluster.broadcast(before or default_encoder(data))
    if before is None and encoder in LIGHT_ENCODERS:
        say(without_gpu(encoder))
    return encoder


def default_output_dir(data_name, chosen, initial_model):
    before = {} if initial_model is None else initial_model.get_config()
    encoder, attention = (
        chosen.get(name) or before.get(name) or usual for name, usual in (("encoder", "vgg16"), ("attention", "soft"))
    )
    return f"runs/{data_name}-{getattr(encoder, 'name', encoder)}-{attention}"


def bundled_to_begin_from(images, asked, say):
    """Return the folder of the bundled captioner where a folder of photos starts from it; else None.

    It does with few photos, and where no other parts or sizes were asked for.
    """
    if asked.encoder_weights not in (CaptionerOptions.defaults()["encoder_weights"], BUNDLED, None):
        say(f"starts from scratch, with encoder_weights={str(asked.encoder_weights)!r}")
        return None
    num_train = sum(image.split == "train" for image in images)
    if num_train >= MANY_PHOTOS:
        say(f"starts from scratch: {num_train} photos to train on are enough for that")
        return None
    before = read_model(PRETRAINED / DEFAULT_MODEL)[0]["captioner"]
    for name, value in asked.captioner.items():
        looks_nowhere = name == "attention" and value is not None and not ATTENTIONS[value].chooses
        if name in PARTS_AND_SIZES and (name not in before or value != before[name]) or looks_nowhere:
            has = f"has {before[name]!r}" if before.get(name) is not None else "has the default"
            value = getattr(value, "name", value)
            say(f"starts from scratch, for {name} is {value!r}: the bundled captioner, {DEFAULT_MODEL}, {has}")
            return None
    say(
        f"starts from the bundled captioner, {DEFAULT_MODEL}, whose weights are for research and education only, not "
        "for commercial use (docs/model-card.md); from_scratch (--from-scratch) does without"
    )
    return PRETRAINED / DEFAULT_MODEL
