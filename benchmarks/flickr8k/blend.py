"""The weighted mean of several captioners' weights: `python benchmarks/flickr8k/blend.py OUT A=.25 B=.75`.

A and B are folders that were saved, the one trained further from the other. Between a captioner and what self-critical
training has made of it lie some that are better than both, see tried.md. `--precision int8` makes OUT small, and
`--grid 14x14` gives those that have another grid this one. Where the last layers of the encoder were trained, OUT has
one encoder of which all layers are, so that it can be trained further like any other. `--encoder-from C` puts C's
encoder in its place.
"""

import argparse
import sys

import numpy as np

from data_utils.learnt_photos import together
from keras_sat.captioner import Captioner


def blend(captioners, shares):
    """Return the last of the captioners, with the weighted mean of the weights of all.

    Args:
        captioners: list of Captioner with the same sizes and the same words.
        shares: how much of each; they add up to 1.
    """
    if not np.isclose(sum(shares), 1):
        raise ValueError(f"The shares must add up to 1. Received: shares={shares}")
    *others, blended = captioners
    shapes = [weight.shape for weight in blended.weights]
    for other in others:
        if other.vocabulary != blended.vocabulary or [weight.shape for weight in other.weights] != shapes:
            raise ValueError(
                f"Expected captioners with the same words and sizes. Received: {len(captioners)} that differ"
            )
    blended.training_photos = together([captioner.training_photos for captioner in captioners])
    weights = [captioner.get_weights() for captioner in captioners]
    blended.set_weights([sum(share * one for share, one in zip(shares, same)) for same in zip(*weights)])
    blended.confidence = None  # that was calibrated for the captions of other weights
    return blended


def joined(captioner):
    """Return the same captioner with the frozen layers and the trained ones of its encoder in one network."""
    apart = dict.fromkeys(("encoder_layer", "trained_up_to", "encoder_weights")) | {"encoder_training": "fine-tuned"}
    return _with_weights_of(captioner, apart)


def parted(captioner, layer):
    """Return the same captioner with its encoder's layers behind `layer` apart, to train only these.

    The others are those of the bundled captioner, which it must be.
    """
    apart = {"encoder_layer": layer, "trained_up_to": "top", "encoder_weights": "bundled", "encoder_training": "frozen"}
    return _with_weights_of(captioner, apart)


def with_encoder_of(captioner, other):
    """Return the same captioner behind the encoder of another one, which blurs photos as it did there."""
    same = captioner.adapted(photo_blur=other.photo_blur)
    encoder, another = same.encoder_model, other.encoder_model
    if [weight.shape for weight in encoder.weights] != [weight.shape for weight in another.weights]:
        raise ValueError(
            "Expected an encoder of the same kind. "
            f"Received: {other.photo_encoder.name!r} in the place of {same.photo_encoder.name!r}"
        )
    encoder.set_weights(another.get_weights())
    same.training_photos = together([captioner.training_photos, other.training_photos])
    same.confidence = None
    return same


def _with_weights_of(captioner, changed):
    """Return a captioner with these options changed, and all weights of the given one, in the order of the layers."""
    unweighted = dict.fromkeys(("guide_weight", "box_weight"), 0.0)  # as in `adapted`
    other = Captioner(**{**captioner.get_config(), **changed, **unweighted, "vocabulary": captioner.vocabulary})
    other.build(((None, *other.photo_encoder.photo_size, 3), (None, None)))
    for weight, same in zip(_in_order(other), _in_order(captioner), strict=True):
        weight.assign(same.numpy())
    other.training_photos = captioner.training_photos
    return other


def _in_order(captioner):
    """Return all weights: the encoder's frozen layers, its trained ones, what follows them, the decoder."""
    top = [] if captioner.photo_encoder.top is None else captioner.photo_encoder.top.weights
    behind = [weight for weight in captioner.adapter.weights if all(weight is not other for other in top)]
    return [*captioner.encoder_model.weights, *top, *behind, *captioner.decoder.weights]


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", help="the folder to write")
    parser.add_argument("parts", nargs="+", metavar="MODEL=SHARE")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--trained-from", metavar="LAYER", help="part the encoder behind this layer, such as block_7")
    parser.add_argument("--grid", help="rows and columns of the encoder's grid, such as 14x14")
    parser.add_argument("--encoder-from", metavar="MODEL", help="put the encoder of this captioner in")
    parser.add_argument("--encoder-weights", help="a weights file for the encoder, instead of Keras' download")
    arguments = parser.parse_args(arguments)
    try:
        names, shares = zip(*(part.rsplit("=", 1) for part in arguments.parts))
        captioners = [Captioner.from_pretrained(name, encoder_weights=arguments.encoder_weights) for name in names]
        if arguments.grid:
            captioners = [captioner.adapted(grid=arguments.grid) for captioner in captioners]
        blended = blend(captioners, [float(share) for share in shares])
        if blended.photo_encoder.top is not None:
            blended = joined(blended)
        if arguments.encoder_from:
            other = Captioner.from_pretrained(arguments.encoder_from, encoder_weights=arguments.encoder_weights)
            blended = with_encoder_of(blended, other)
        if arguments.trained_from:
            blended = parted(blended, arguments.trained_from)
        if blended.photo_encoder.is_saved:  # where its file lay once is no news for whoever gets OUT
            blended.photo_encoder.weights = "imagenet"
        blended.save(arguments.out, precision=arguments.precision)
    except ValueError as error:
        sys.exit(f"blend: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
