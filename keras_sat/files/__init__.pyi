"""Made by docs/make_stubs.py: where the exported names are."""

from keras_sat.files.checkpoint import CHECKPOINT_WAY_OUT as CHECKPOINT_WAY_OUT
from keras_sat.files.checkpoint import read_checkpoint as read_checkpoint
from keras_sat.files.checkpoint import state_of as state_of
from keras_sat.files.checkpoint import write_checkpoint as write_checkpoint
from keras_sat.files.hub import is_on_hub as is_on_hub
from keras_sat.files.hub import pinned as pinned
from keras_sat.files.keras_file import build_config as build_config
from keras_sat.files.keras_file import build_from_config as build_from_config
from keras_sat.files.keras_file import check_encoder as check_encoder
from keras_sat.files.keras_file import from_config as from_config
from keras_sat.files.keras_file import load_assets as load_assets
from keras_sat.files.keras_file import save_assets as save_assets
from keras_sat.files.model_folder import BUNDLED_ENCODERS as BUNDLED_ENCODERS
from keras_sat.files.model_folder import BUNDLED_MODELS as BUNDLED_MODELS
from keras_sat.files.model_folder import EXPECTED_MODEL as EXPECTED_MODEL
from keras_sat.files.model_folder import INDEX as INDEX
from keras_sat.files.model_folder import WEIGHTS_LICENSE as WEIGHTS_LICENSE
from keras_sat.files.model_folder import assign_arrays as assign_arrays
from keras_sat.files.model_folder import copy_of_model as copy_of_model
from keras_sat.files.model_folder import is_keras_file as is_keras_file
from keras_sat.files.model_folder import model_digest as model_digest
from keras_sat.files.model_folder import model_directory as model_directory
from keras_sat.files.model_folder import pretrained_directory as pretrained_directory
from keras_sat.files.model_folder import pretrained_names as pretrained_names
from keras_sat.files.model_folder import read_arrays as read_arrays
from keras_sat.files.model_folder import read_model as read_model
from keras_sat.files.model_folder import reject_taken_folder as reject_taken_folder
from keras_sat.files.model_folder import write_arrays as write_arrays
from keras_sat.files.model_folder import write_index as write_index
from keras_sat.files.rounding import rounded_to_8_bits as rounded_to_8_bits
from keras_sat.files.saving import bundled_encoder as bundled_encoder
from keras_sat.files.saving import load as load
from keras_sat.files.saving import reject_unbuilt as reject_unbuilt
from keras_sat.files.saving import restore_weights as restore_weights
from keras_sat.files.saving import save as save
from keras_sat.files.saving import save_records as save_records
from keras_sat.files.saving import weights_digest as weights_digest
from keras_sat.files.transfer import adapted as adapted

__all__ = [
    "BUNDLED_ENCODERS",
    "BUNDLED_MODELS",
    "CHECKPOINT_WAY_OUT",
    "EXPECTED_MODEL",
    "INDEX",
    "WEIGHTS_LICENSE",
    "adapted",
    "assign_arrays",
    "build_config",
    "build_from_config",
    "bundled_encoder",
    "check_encoder",
    "copy_of_model",
    "from_config",
    "is_keras_file",
    "is_on_hub",
    "load",
    "load_assets",
    "model_digest",
    "model_directory",
    "pinned",
    "pretrained_directory",
    "pretrained_names",
    "read_arrays",
    "read_checkpoint",
    "read_model",
    "reject_taken_folder",
    "reject_unbuilt",
    "restore_weights",
    "rounded_to_8_bits",
    "save",
    "save_assets",
    "save_records",
    "state_of",
    "weights_digest",
    "write_arrays",
    "write_checkpoint",
    "write_index",
]
