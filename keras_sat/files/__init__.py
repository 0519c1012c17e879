"""Files on disk: saved captioners, checkpoints, and the bundled captioners."""

from data_utils.base import attach_lazily

NAMES_BY_MODULE = {
    "checkpoint": ["CHECKPOINT_WAY_OUT", "read_checkpoint", "state_of", "write_checkpoint"],
    "hub": ["is_on_hub", "pinned"],
    "keras_file": [
        "build_config",
        "build_from_config",
        "check_encoder",
        "from_config",
        "load_assets",
        "save_assets",
    ],
    "model_folder": [
        "BUNDLED_ENCODERS",
        "EXPECTED_MODEL",
        "INDEX",
        "BUNDLED_MODELS",
        "WEIGHTS_LICENSE",
        "assign_arrays",
        "copy_of_model",
        "is_keras_file",
        "model_digest",
        "model_directory",
        "pretrained_directory",
        "pretrained_names",
        "read_arrays",
        "read_model",
        "reject_taken_folder",
        "write_arrays",
        "write_index",
    ],
    "rounding": ["rounded_to_8_bits"],
    "saving": [
        "bundled_encoder",
        "load",
        "reject_unbuilt",
        "restore_weights",
        "save",
        "save_records",
        "weights_digest",
    ],
    "transfer": ["adapted"],
}

__getattr__, __dir__, __all__ = attach_lazily(__name__, NAMES_BY_MODULE)
