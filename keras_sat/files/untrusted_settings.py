"""Rejects settings in untrusted model folders that do not fit the weights, which
`model_folder` reads safely.
"""

import contextlib

from keras_sat.network import ATTENTIONS

SIZES = ("num_layers", "embedding_dim", "hidden_dim", "attention_dim", "feature_projection_dim")


def reject_claims(options, feature_shape, vocabulary_size, num_stored):
    """Reject settings with objects, or with sizes too large for the stored weights,
    before memory is allocated.

    Args:
        options: the options of the captioner, a dict.
        feature_shape: what the settings give as [regions, feature_dim].
        num_stored: the number of numbers in all stored weights.
    """
    for name, value in options.items():
        if isinstance(value, dict):
            raise ValueError(
                f"settings must contain only numbers and names. Received: {name}={str(value)[:200]}"
            )
    if not isinstance(feature_shape, list) or len(feature_shape) != 2:
        raise ValueError(
            f"feature_shape must be [regions, feature_dim]. Received: {str(feature_shape)[:80]}"
        )
    regions, feature_dim = feature_shape
    claims = {name: options[name] for name in SIZES}
    claims |= {"regions": regions, "feature_dim": feature_dim}
    for name, value in claims.items():
        if value is not None and not (type(value) is int and 0 <= value < 2**31):
            raise ValueError(
                "a size must be a whole number below 2**31, or null. Received: "
                f"{name}={str(value)[:80]}"
            )
    size = {name: value or 0 for name, value in claims.items()}
    hidden_dim, projection_dim = size["hidden_dim"], size["feature_projection_dim"]
    attention = ATTENTIONS.get(options["attention"])  # the captioner rejects an unknown one
    is_additive = options["scoring"] == "additive" and attention and attention.has_attention
    # The features are read by layers of the encoder, or by the decoder.
    reader_dim = 0 if options["trained_up_to"] else projection_dim or hidden_dim
    claimed = {  # numbers in one matrix of each
        "embedding_dim": size["embedding_dim"] * vocabulary_size,
        "hidden_dim": hidden_dim * hidden_dim,
        "attention_dim": size["attention_dim"] * hidden_dim if is_additive else 0,
        "num_layers": size["num_layers"] * hidden_dim * hidden_dim,
        "feature_projection_dim": projection_dim * hidden_dim,
        "feature_shape": size["feature_dim"] * reader_dim,
    }
    for name, number in claimed.items():
        if number > num_stored:
            raise ValueError(
                "the settings describe a larger model than the stored weights. Expected: "
                f"{number} numbers "
                f"for {name} alone. Received: {num_stored} numbers"
            )


def reject_grid(settings, num_regions):
    """Raise ValueError for rows and columns that do not give `num_regions`."""
    grid = settings["rows_and_columns"]
    is_grid = (
        isinstance(grid, list)
        and len(grid) == 2
        and all(type(side) is int and side > 0 for side in grid)
    )
    if not is_grid or grid[0] * grid[1] != num_regions:
        raise ValueError(
            "rows_and_columns in config.json does not match the model. Expected: two "
            "whole numbers whose product "
            f"is {num_regions}. Received: rows_and_columns={str(grid)[:80]}"
        )


@contextlib.contextmanager
def named_errors(directory):
    """Turn errors about the settings in a folder into a ValueError whose message starts
    with the folder's path.
    """
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        problem = (
            "config.json is incomplete or from another version of keras_sat "
            f"({type(error).__name__}: {error})."
        )
        raise ValueError(
            f"{directory}: {error if isinstance(error, ValueError) else problem}"
        ) from None
