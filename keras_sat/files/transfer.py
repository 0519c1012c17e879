"""Makes a new captioner with another vocabulary or other options from the weights of a
trained one.
"""

import keras
import numpy as np

from data_utils.base import brief
from keras_sat.files.saving import reject_unbuilt
from keras_sat.learning import TERMS
from keras_sat.network import BUNDLED
from keras_sat.settings import CaptionerSettings

# What a trained captioner must keep; what is trained of its encoder may change.
KEPT = ("encoder", "encoder_layer", "encoder_weights")


def adapted(captioner, vocabulary, options):
    """Return a new captioner that starts from the weights of this one.

    See `Captioner.adapted`.
    """
    reject_unbuilt(captioner, "adapt")
    vocabulary = captioner.vocabulary if vocabulary is None else vocabulary
    _reject_other_encoder(captioner, options)
    changes = {name: options[name] for name in CaptionerSettings.names() if name in options}
    others = {name: value for name, value in options.items() if name not in changes}
    settings = _changed_settings(captioner, changes)
    adapted = type(captioner)(vocabulary, settings, **{"name": captioner.name, **others})
    old, new = captioner.settings.encoder, adapted.settings.encoder
    has_its_grid = (new.grid, new.image_size) == (old.grid, old.image_size)
    adapted.photo_encoder.set_saved_state(
        weights=options.get("encoder_weights", old.encoder_weights),
        grid_shape=new.grid_shape,
        saved_grid=captioner.rows_and_columns(),
        from_captioner=captioner.photo_encoder.is_saved,
    )
    if not has_its_grid:  # after `set_saved_state`, which sets the encoder's weights
        adapted.photo_encoder.saved_grid = tuple(adapted.encoder_model.output_shape[1:3])
    feature_shape = (
        captioner.feature_shape if has_its_grid else adapted.photo_encoder.features_shape[1:]
    )
    adapted.build(((None, *feature_shape), (None, None)))
    adapted.training_photos = captioner.training_photos
    adapted.source = captioner.source
    _take_over_weights(captioner, adapted, options)
    return adapted


def _reject_other_encoder(captioner, options):
    """Raise ValueError if `options` have another encoder than the captioner's.

    Its weights may come from another file, unless the captioner's folder has them.
    """
    config = captioner.current_options()
    may_read_others = not captioner.photo_encoder.is_saved
    for name in KEPT:
        value = options.get(name, config[name])
        is_other_file = name == "encoder_weights" and value != BUNDLED
        if value != config[name] and not (is_other_file and may_read_others):
            problem = (
                f"A trained captioner must keep its encoder and encoder weights: {name} is "
                f"{brief(config[name])}."
            )
            raise ValueError(f"{problem} Received: {name}={brief(value)}")


def _changed_settings(captioner, changes):
    """Return the CaptionerSettings of the new captioner."""
    # Attention supervision belongs to a training: it has layers that are not saved, or
    # needs more than captions.
    not_kept = {option: 0.0 for option, term in TERMS.items() if not term.is_measured}
    settings = captioner.settings.replace(**{**not_kept, **changes})
    encoder = captioner.encoder
    if captioner.photo_encoder.is_custom:
        encoder = captioner.encoder_model
        if settings.encoder.encoder_training != "frozen":  # train a copy
            encoder = keras.models.clone_model(captioner.encoder_model)
            encoder.set_weights(captioner.encoder_model.get_weights())
            encoder.trainable = True
    weights = settings.encoder.encoder_weights
    if captioner.photo_encoder.is_saved:
        weights = None  # they are copied from this captioner
    return settings.replace(encoder=encoder, encoder_weights=weights)


def _take_over_weights(captioner, adapted, options):
    """Copy a captioner's weights to the new one.

    Copy word weights only for words in both vocabularies.
    """
    tokens, new_tokens = captioner.vocabulary.tokens, adapted.vocabulary.tokens
    place_of = {token: place for place, token in enumerate(tokens)}
    places = [place for place, token in enumerate(new_tokens) if token in place_of]
    weights, new_weights = captioner.named_weights(), adapted.named_weights()
    word_logits = adapted.decoder.readout.word_logits
    # The axis of the tokens.
    axes = {
        adapted.decoder.embedding.embeddings.path: 0,
        word_logits.kernel.path: 1,
        word_logits.bias.path: 0,
    }
    shapes = {name: [*weight.shape] for name, weight in weights.items()}
    new_shapes = {name: [*weight.shape] for name, weight in new_weights.items()}
    for name, weight in new_weights.items():
        axis = axes.get(weight.path)
        if name not in weights and name.startswith("encoder/"):
            del new_shapes[name]  # it was frozen until now, and has its weights already
        elif name in shapes and axis is not None and axis < len(shapes[name]):
            shapes[name][axis] = len(new_tokens)
    if new_shapes != shapes:
        config = {**captioner.current_options(), "seed": options.get("seed")}
        changed = [
            f"{name}={brief(value)} (it is {brief(config.get(name))})"
            for name, value in options.items()
            if config.get(name) != value
        ]
        raise ValueError(
            "These options would change the shapes of trained weights. Leave them out. "
            f"Received: {', '.join(changed)}"
        )
    old_places = [place_of[new_tokens[place]] for place in places]
    for name in new_shapes:
        array = weights[name].numpy()
        axis = axes.get(new_weights[name].path)
        if axis is not None:
            by_token = np.moveaxis(new_weights[name].numpy().copy(), axis, 0)
            by_token[places] = np.moveaxis(array, axis, 0)[old_places]
            array = np.moveaxis(by_token, 0, axis)
        new_weights[name].assign(array)
