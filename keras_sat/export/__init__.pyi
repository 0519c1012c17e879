"""Made by docs/make_stubs.py: where the exported names are."""

from keras_sat.export.export_formats import export as export
from keras_sat.export.litert_captioner import LiteRTCaptioner as LiteRTCaptioner
from keras_sat.export.litert_captioner import converted as converted
from keras_sat.export.litert_captioner import is_installed as is_installed
from keras_sat.export.litert_captioner import is_made as is_made
from keras_sat.export.litert_captioner import load_litert as load_litert
from keras_sat.export.litert_captioner import make_file as make_file
from keras_sat.export.litert_captioner import ready_captioner as ready_captioner
from keras_sat.export.litert_graph import write_graph as write_graph
from keras_sat.export.local_server import page_server as page_server
from keras_sat.export.local_server import serve as serve
from keras_sat.export.page_export import MissingRuntime as MissingRuntime
from keras_sat.export.page_export import add_runtime as add_runtime
from keras_sat.export.page_export import is_page as is_page
from keras_sat.export.page_export import write_page as write_page
from keras_sat.export.page_runtime import runtime_files as runtime_files

__all__ = [
    "LiteRTCaptioner",
    "MissingRuntime",
    "add_runtime",
    "converted",
    "export",
    "is_installed",
    "is_made",
    "is_page",
    "load_litert",
    "make_file",
    "page_server",
    "ready_captioner",
    "runtime_files",
    "serve",
    "write_graph",
    "write_page",
]
