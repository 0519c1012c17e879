"""Made by docs/make_stubs.py: where the exported names are."""

from data_utils.base.atomic_files import check_is_file as check_is_file
from data_utils.base.atomic_files import clear_half_written as clear_half_written
from data_utils.base.atomic_files import exclusive_lock as exclusive_lock
from data_utils.base.atomic_files import expectation as expectation
from data_utils.base.atomic_files import file_digest as file_digest
from data_utils.base.atomic_files import read_bytes as read_bytes
from data_utils.base.atomic_files import read_json as read_json
from data_utils.base.atomic_files import read_sealed_json as read_sealed_json
from data_utils.base.atomic_files import whole_file as whole_file
from data_utils.base.atomic_files import whole_folder as whole_folder
from data_utils.base.atomic_files import write_json as write_json
from data_utils.base.atomic_files import write_sealed_json as write_sealed_json
from data_utils.base.atomic_files import write_whole as write_whole
from data_utils.base.foreign_text import UNSEEN as UNSEEN
from data_utils.base.foreign_text import brief as brief
from data_utils.base.foreign_text import reason_without_number as reason_without_number
from data_utils.base.foreign_text import shortened as shortened
from data_utils.base.foreign_text import visible as visible
from data_utils.base.foreign_text import visible_json as visible_json
from data_utils.base.lazy_imports import attach_lazily as attach_lazily
from data_utils.base.progress import Progress as Progress
from data_utils.base.tf_logging import LOG_LEVEL as LOG_LEVEL
from data_utils.base.tf_logging import QUIET as QUIET
from data_utils.base.tf_logging import import_tensorflow as import_tensorflow
from data_utils.base.tf_logging import nothing_on_standard_error as nothing_on_standard_error
from data_utils.base.tf_logging import reason_of as reason_of

__all__ = [
    "LOG_LEVEL",
    "Progress",
    "QUIET",
    "UNSEEN",
    "attach_lazily",
    "brief",
    "check_is_file",
    "clear_half_written",
    "exclusive_lock",
    "expectation",
    "file_digest",
    "import_tensorflow",
    "nothing_on_standard_error",
    "read_bytes",
    "read_json",
    "read_sealed_json",
    "reason_of",
    "reason_without_number",
    "shortened",
    "visible",
    "visible_json",
    "whole_file",
    "whole_folder",
    "write_json",
    "write_sealed_json",
    "write_whole",
]
