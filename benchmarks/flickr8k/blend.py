"""The weighted mean of several captioners' weights: `python
benchmarks/flickr8k/blend.py OUT A=.25 B=.75`.

A and B are saved captioners, B fine-tuned from A. Means of a captioner's weights before
and after self-critical training can be better than both, see tried.md. `--precision
int8` makes OUT small, and `--grid 14x14` changes the encoder's grid. Where only the
last layers of the encoder were trained, OUT has one encoder with all of its layers
trainable. `--encoder-from C` replaces the encoder by that of C.
"""

import argparse
import sys

import numpy as np

from data_utils.seen_photos import union
from keras_sat.captioner import Captioner


def blend(captioners, fractions):
    """Return the last captioner of a list, with the weighted mean of the weights of
    all: `fractions` sum to 1.
    """
    if not np.isclose(sum(fractions), 1):
        raise ValueError(f"The fractions must add up to 1. Received: {fractions}")
    *others, blended = captioners
    shapes = [weight.shape for weight in blended.weights]
    for other in others:
        if (
            other.vocabulary != blended.vocabulary
            or [weight.shape for weight in other.weights] != shapes
        ):
            raise ValueError("Expected captioners with the same words and sizes.")
    blended.training_photos = union([captioner.training_photos for captioner in captioners])
    weights = [captioner.get_weights() for captioner in captioners]
    blended.set_weights(
        [sum(part * one for part, one in zip(fractions, same)) for same in zip(*weights)]
    )
    # It was fitted on the captions of other weights.
    blended.confidence = None
    return blended


def joined(captioner):
    """Return the same captioner with the frozen and the trained layers of its encoder
    in one network.
    """
    apart = dict.fromkeys(("encoder_layer", "trained_up_to", "encoder_weights")) | {
        "encoder_training": "fine-tuned"
    }
    return _with_weights_of(captioner, apart)


def split(captioner, layer):
    """Return the same captioner with the encoder split after `layer`, to train only the
    layers that follow.

    Those before must be the bundled captioner's.
    """
    apart = {
        "encoder_layer": layer,
        "trained_up_to": "top",
        "encoder_weights": "bundled",
        "encoder_training": "frozen",
    }
    return _with_weights_of(captioner, apart)


def with_encoder_of(captioner, other):
    """Return the same captioner with the encoder and the photo blur of another one."""
    same = captioner.adapted(photo_blur=other.settings.encoder.photo_blur)
    encoder, another = same.encoder_model, other.encoder_model
    if [weight.shape for weight in encoder.weights] != [weight.shape for weight in another.weights]:
        names = f"{same.photo_encoder.name!r} and {other.photo_encoder.name!r}"
        raise ValueError(f"Expected two encoders of the same kind. Received: {names}")
    encoder.set_weights(another.get_weights())
    same.training_photos = union([captioner.training_photos, other.training_photos])
    same.confidence = None
    return same


def _with_weights_of(captioner, changed):
    """Return a captioner with these options changed and the weights of another."""
    unweighted = dict.fromkeys(("guide_weight", "box_weight"), 0.0)  # as in `adapted`
    other = Captioner(
        **{**captioner.get_config(), **changed, **unweighted, "vocabulary": captioner.vocabulary}
    )
    other.build(((None, *other.photo_encoder.photo_size, 3), (None, None)))
    for weight, same in zip(_in_order(other), _in_order(captioner), strict=True):
        weight.assign(same.numpy())
    other.training_photos = captioner.training_photos
    return other


def _in_order(captioner):
    """Return all weights: the encoder's frozen layers, its trained ones, what follows
    them, the decoder.
    """
    top = [] if captioner.photo_encoder.top is None else captioner.photo_encoder.top.weights
    after = [
        weight for weight in captioner.adapter.weights if all(weight is not other for other in top)
    ]
    return [*captioner.encoder_model.weights, *top, *after, *captioner.decoder.weights]


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", help="the folder to write")
    parser.add_argument("parts", nargs="+", metavar="MODEL=SHARE")
    parser.add_argument("--precision", default="float32")
    parser.add_argument(
        "--trained-from",
        metavar="LAYER",
        help="split the encoder after this layer, such as block_7",
    )
    parser.add_argument("--grid", help="rows and columns of the encoder's grid, such as 14x14")
    parser.add_argument("--length-penalty", type=float, help="of the blended captioner's searches")
    parser.add_argument("--encoder-from", metavar="MODEL", help="use the encoder of this captioner")
    parser.add_argument(
        "--encoder-weights", help="a weights file for the encoder, instead of Keras' download"
    )
    arguments = parser.parse_args(arguments)
    try:
        names, fractions = zip(*(part.rsplit("=", 1) for part in arguments.parts))
        captioners = [
            Captioner.from_pretrained(name, encoder_weights=arguments.encoder_weights)
            for name in names
        ]
        if arguments.grid:
            captioners = [captioner.adapted(grid=arguments.grid) for captioner in captioners]
        blended = blend(captioners, [float(part) for part in fractions])
        if blended.photo_encoder.top is not None:
            blended = joined(blended)
        if arguments.encoder_from:
            other = Captioner.from_pretrained(
                arguments.encoder_from, encoder_weights=arguments.encoder_weights
            )
            blended = with_encoder_of(blended, other)
        if arguments.trained_from:
            blended = split(blended, arguments.trained_from)
        penalty = arguments.length_penalty
        blended = blended.adapted(**({} if penalty is None else {"length_penalty": penalty}))
        # The path of its file on this machine says nothing elsewhere.
        if blended.photo_encoder.is_saved:
            blended.photo_encoder.note_weights("imagenet")
        blended.save(arguments.out, precision=arguments.precision)
    except ValueError as error:
        sys.exit(f"blend: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
