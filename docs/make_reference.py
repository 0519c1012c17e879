"""Write the reference of all public names: `python docs/make_reference.py [FOLDER]`,
build/reference by default.
"""

import sys
from pathlib import Path

import pdoc
import pdoc.doc_pyi

FOLDER = Path(__file__).parents[1] / "build" / "reference"


def main(folder):
    # The sources have the signatures, annotations and texts; the stubs beside them,
    # which pdoc prefers, no texts.
    pdoc.doc_pyi.find_stub_file = lambda module_name: None
    pdoc.render.configure(docformat="google")
    pdoc.pdoc("keras_sat", "data_utils", output_directory=folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
