"""What defends against the model folders of strangers: nothing is made of settings that their weights do not bear out.

The files themselves are data, and `model_folder` reads them as such: digests, no pickle, bounded sizes.
"""

import contextlib

from keras_sat.model.selections import ATTENTIONS
from keras_sat.options import CaptionerOptions

_SIZES = [
    name
    for name, field in CaptionerOptions.fields().items()
    if field.metadata["kind"] == "architecture" and field.metadata["bound"].kind is int
]


def refuse_claims(settings, vocabulary_size, arrays):
    """Raise ValueError for settings of a stranger's model that name objects, or sizes that its weights do not have.

    Nothing is made before that: a matrix that is only claimed could be larger than the memory.
    """
    options, feature_shape = settings["captioner"], settings["feature_shape"]
    for name, value in options.items():
        if isinstance(value, dict):
            raise ValueError(f"settings are numbers and names. Received: {name}={str(value)[:200]}")
    if not isinstance(feature_shape, list) or len(feature_shape) != 2:
        raise ValueError(f"feature_shape is two numbers. Received: feature_shape={str(feature_shape)[:80]}")
    claims = {name: options.get(name) for name in _SIZES} | dict(zip(("regions", "feature_dim"), feature_shape))
    for name, value in claims.items():
        if value is not None and not (type(value) is int and 0 <= value < 2**31):
            raise ValueError(f"a size is a whole number from 0 to 2**31, or none. Received: {name}={str(value)[:80]}")
    size = {name: options.get(name) or 0 for name in _SIZES}  # a version that did not know one yet may have saved it
    hidden_dim, projection_dim, (_, feature_dim) = size["hidden_dim"], size["feature_projection_dim"], feature_shape
    scores_nothing = options.get("attention") in [name for name, kind in ATTENTIONS.items() if not kind.chooses]
    additive = options.get("scoring") == "additive" and not scores_nothing
    claimed = {  # numbers in one matrix of each
        "embedding_dim": size["embedding_dim"] * vocabulary_size,
        "hidden_dim": hidden_dim * hidden_dim,
        "attention_dim": size["attention_dim"] * hidden_dim if additive else 0,
        "num_layers": size["num_layers"] * hidden_dim * hidden_dim,
        "feature_projection_dim": projection_dim * hidden_dim,
        "feature_shape": 0 if options.get("trained_up_to") else feature_dim * (projection_dim or hidden_dim),
    }
    num_stored = sum(array.size for array in arrays.values())
    for name, number in claimed.items():
        if number > num_stored:
            raise ValueError(
                f"the settings claim a larger model than the weights beside them. Expected: {number} numbers for "
                f"{name} alone. Received: {num_stored} numbers"
            )


def refuse_grids(settings, captioner):
    """Raise ValueError for grids of a stranger's model that are no grids, or do not have its regions."""
    known_grid, saved_grid = settings["rows_and_columns"], settings["captioner"]["grid_shape"]
    grids = {"rows_and_columns": known_grid} | ({} if saved_grid is None else {"captioner.grid_shape": saved_grid})
    for name, grid in grids.items():
        is_grid = isinstance(grid, list) and len(grid) == 2 and all(type(side) is int and side > 0 for side in grid)
        if not is_grid or grid[0] * grid[1] != captioner.num_regions:
            raise ValueError(
                f"the setting {name} in config.json is no grid of this model. Expected: rows and columns of its "
                f"{captioner.num_regions} regions. Received: {name}={str(grid)[:80]}"
            )
    has_grid_of_its_own = captioner.photo_encoder.top is not None  # which counts, whatever was asked for
    if saved_grid not in (None, known_grid) and not has_grid_of_its_own:
        raise ValueError(
            "the setting captioner.grid_shape in config.json is not the grid that the model had. "
            f"Expected: {known_grid}, its rows_and_columns. Received: captioner.grid_shape={saved_grid}"
        )


@contextlib.contextmanager
def said_of(directory):
    """Inside the block, whatever is wrong with the settings of a folder is one ValueError that begins with its name."""
    try:
        yield
    except KeyError as error:
        raise ValueError(f"{directory}: the setting {error} is missing in config.json.") from None
    except (TypeError, AttributeError, OverflowError) as error:
        raise ValueError(
            f"{directory}: the settings in config.json are incomplete or not of this version "
            f"({type(error).__name__}: {error})."
        ) from None
    except ValueError as error:
        raise ValueError(f"{directory}: {error}") from None
