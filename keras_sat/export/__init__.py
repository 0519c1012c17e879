"""Export a captioner as a SavedModel, as a LiteRT file that runs without TensorFlow, or
as a web page.
"""

from data_utils.base import attach_lazily

NAMES_BY_MODULE = {
    "export_formats": ["export"],
    "litert_captioner": [
        "LiteRTCaptioner",
        "converted",
        "is_installed",
        "is_made",
        "load_litert",
        "make_file",
        "ready_captioner",
    ],
    "litert_graph": ["write_graph"],
    "local_server": ["page_server", "serve"],
    "page_export": ["MissingRuntime", "add_runtime", "is_page", "write_page"],
    "page_runtime": ["runtime_files"],
}

__getattr__, __dir__, __all__ = attach_lazily(__name__, NAMES_BY_MODULE)
