"""What `fit` takes where it is not said: preset, encoder, folder, and the bundled captioner to begin from."""

from keras_sat.files.model_folder import PRETRAINED, read_model
from keras_sat.model.photo_encoder import BUNDLED
from keras_sat.model.selections import ATTENTIONS
from keras_sat.options import CaptionerOptions, one_of
from keras_sat.presets import (
    DEFAULT_MODEL,
    LIGHT_ENCODERS,
    MANY_PHOTOS,
    PRESETS,
    light_encoder,
    settings_with_place,
    usual_encoder,
    usual_preset,
    without_gpu,
)
from keras_sat.training.folder import began_from_scratch, noted_encoder

PARTS_AND_SIZES = CaptionerOptions.names("encoder", "architecture")  # which a trained captioner keeps


def preset_or_usual(preset, data, options, initial_model, output_dir, team):
    """Return the settings of a preset, and the line that says so where none is named.

    Args:
        preset: its name; None: that of the data set, without what the options leave no place for, and none where a
            captioner to begin from brings its own settings.
        data, initial_model, output_dir: of `fit`.
        options: dict of the options of `fit` that were given.
        team: Team.
    """
    if preset is not None:
        one_of(*PRESETS).check("preset", preset)
        return PRESETS[preset], None
    if initial_model is not None:
        return {}, None
    before = None if output_dir is None else noted_encoder(output_dir)
    name, before = team.tell([usual_preset(data, options.get("encoder") or before), before])
    settings = settings_with_place(name, options if before is None else {"encoder": before, **options})
    line = f"settings of the preset {name}; preset='default' (--preset default) takes the plain defaults"
    return settings, line if name != "default" else None


def encoder_or_usual(data, output_dir, team, say):
    """Return the name of the encoder where none is named: that of the training which is resumed, or the usual one."""
    before = None if output_dir is None else noted_encoder(output_dir)
    encoder = team.tell(before or usual_encoder(data))
    if before is None and encoder in LIGHT_ENCODERS:
        say(without_gpu(encoder))
    return encoder


def usual_output_dir(data_name, chosen, initial_model):
    before = {} if initial_model is None else initial_model.get_config()
    encoder, attention = (
        chosen.get(name) or before.get(name) or usual for name, usual in (("encoder", "vgg16"), ("attention", "soft"))
    )
    return f"runs/{data_name}-{getattr(encoder, 'name', encoder)}-{attention}"


def bundled_to_begin_from(images, asked, output_dir, team, say):
    """Return the folder of the bundled captioner where a folder of photos begins from it; else None.

    It does where it was not begun from scratch, and what was asked for suits the bundled one.
    """
    usual_dir = usual_output_dir("folder", {"encoder": light_encoder(), **asked.captioner}, None)
    if team.tell(began_from_scratch(output_dir or usual_dir)):
        return None
    if asked.encoder_weights not in (CaptionerOptions.defaults()["encoder_weights"], BUNDLED, None):
        say(f"begins from scratch, with encoder_weights={str(asked.encoder_weights)!r}")
        return None
    return PRETRAINED / DEFAULT_MODEL if _suits_bundled(images, asked.captioner, say) else None


def _suits_bundled(images, chosen, say):
    """Return whether a folder of photos begins from the bundled captioner: few photos, and no other parts or sizes."""
    num_train = sum(image.split == "train" for image in images)
    if num_train >= MANY_PHOTOS:
        say(f"begins from scratch: {num_train} photos to train on are enough for that")
        return False
    before = read_model(PRETRAINED / DEFAULT_MODEL)[0]["captioner"]
    for name, value in chosen.items():
        looks_nowhere = name == "attention" and value is not None and not ATTENTIONS[value].chooses
        if name in PARTS_AND_SIZES and (name not in before or value != before[name]) or looks_nowhere:
            has = f"has {before[name]!r}" if before.get(name) is not None else "has its usual one"
            value = getattr(value, "name", value)
            say(f"begins from scratch, for {name} is {value!r}: the bundled captioner, {DEFAULT_MODEL}, {has}")
            return False
    say(
        f"begins from the bundled captioner, {DEFAULT_MODEL}, whose weights are for research and education only, not "
        "for commercial use (docs/model-card.md); from_scratch (--from-scratch) does without"
    )
    return True
