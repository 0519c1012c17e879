"""What knows nothing of photos and captions: files, progress, text from elsewhere."""

from data_utils.base.lazy_imports import attach_lazily

NAMES_BY_MODULE = {
    "atomic_files": [
        "check_is_file",
        "clear_half_written",
        "exclusive_lock",
        "expectation",
        "file_digest",
        "read_bytes",
        "read_json",
        "read_sealed_json",
        "whole_file",
        "whole_folder",
        "write_json",
        "write_sealed_json",
        "write_whole",
    ],
    "foreign_text": [
        "UNSEEN",
        "brief",
        "reason_without_number",
        "shortened",
        "visible",
        "visible_json",
    ],
    "lazy_imports": ["attach_lazily"],
    "progress": ["Progress"],
    "tf_logging": [
        "LOG_LEVEL",
        "QUIET",
        "import_tensorflow",
        "nothing_on_standard_error",
        "reason_of",
    ],
}

__getattr__, __dir__, __all__ = attach_lazily(__name__, NAMES_BY_MODULE)
