"""Defaults of `fit` that depend on the data: the preset, the output folder and the
initial model.
"""

from data_utils.atomic_files import read_sealed_json
from keras_sat import presets
from keras_sat.files.model_folder import EXPECTED, PRETRAINED
from keras_sat.model.encoders import starts_random
from keras_sat.model.photo_encoder import BUNDLED
from keras_sat.model.selections import ATTENTIONS
from keras_sat.options import CaptionerOptions, one_of

PARTS_AND_SIZES = CaptionerOptions.names("encoder", "architecture")  # fixed in a trained captioner


def preset_or_default(preset, data, options, initial_model, before, encoder, say):
    """Return the settings of a preset, and print its name if it was chosen by default;
    see `fit` for the arguments.

    Args:
        preset: None: that of the data set, without settings that conflict with the
            options, or with an initial model none.
        before, encoder: name of the encoder of the resumed training, or None, and of
            the default encoder.
        say: function that prints a line.
    """
    if preset is not None:
        one_of(*presets.PRESETS).check("preset", preset)
        return presets.PRESETS[preset]
    if initial_model is not None:
        return {}
    if (
        name := presets.default_preset(data, options.get("encoder") or before or encoder)
    ) != "default":
        say(f"using the preset {name}; preset='default' (--preset default) uses the plain defaults")
    return presets.fitting_settings(
        name, options if before is None else {"encoder": before, **options}
    )


def default_output_dir(data_name, chosen, initial_model):
    before = {} if initial_model is None else initial_model.get_config()
    encoder = chosen.get("encoder") or before.get("encoder") or "vgg16"
    attention = chosen.get("attention") or before.get("attention") or "soft"
    return f"runs/{data_name}-{getattr(encoder, 'name', encoder)}-{attention}"


def default_grouping(asked, initial_model):
    """Return the default of `group_by`: "image" encodes each photo once in an epoch,
    "length" once for each caption.
    """
    before = CaptionerOptions.defaults() if initial_model is None else initial_model.get_config()
    chosen = {**before, **asked.captioner}
    training = chosen["encoder_training"] or (
        "scratch" if starts_random(chosen["encoder"]) else "frozen"
    )
    is_trained = training != "frozen" or chosen["trained_up_to"] is not None
    return "image" if is_trained else "length"


def bundled_to_start_from(images, asked, say):
    """Return the bundled captioner's folder to start from; None with many photos or
    options that change the network.
    """
    folder, given = PRETRAINED / presets.DEFAULT_MODEL, asked.captioner
    # The weights are not needed yet.
    before = read_sealed_json(folder / "config.json", EXPECTED)["captioner"]
    num_train = sum(image.split == "train" for image in images)
    others = [name for name in given if name in PARTS_AND_SIZES and given[name] != before.get(name)]
    if asked.encoder_weights not in (CaptionerOptions.defaults()["encoder_weights"], BUNDLED, None):
        others.append("encoder_weights")
    if not ATTENTIONS[given.get("attention") or "soft"].chooses:
        others.append("attention")
    if others:
        say(f"training from scratch: the bundled captioner has a different {', '.join(others)}")
    elif num_train >= presets.MANY_PHOTOS:
        say(f"training from scratch: {num_train} training photos are enough")
    else:
        start = (
            f"starting from the bundled captioner, {presets.DEFAULT_MODEL}; from_scratch "
            "(--from-scratch) avoids it"
        )
        say(
            f"{start}. Its weights are for research and education only, not for "
            "commercial use (docs/model-card.md)"
        )
        return folder
    return None
