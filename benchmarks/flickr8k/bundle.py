"""Bundle a captioner with keras_sat: `python benchmarks/flickr8k/bundle.py
runs/paper/int8 flickr8k-paper`.

The folder is a captioner saved in 8 bits and calibrated, as make_bundled.py leaves it,
with the record of how it was made. The file of its encoder is named after its content:
captioners with the same encoder share one file. Each captioner gets a graph for LiteRT
(keras_sat/export/litert_graph.py). After a change to the search, `python
benchmarks/flickr8k/bundle.py --graphs` writes all graphs again.
"""

import argparse
import shutil
import sys
from pathlib import Path

from data_utils.base import read_sealed_json, write_sealed_json
from keras_sat.export import converted, write_graph
from keras_sat.files import (
    BUNDLED_ENCODERS,
    BUNDLED_MODELS,
    EXPECTED_MODEL,
    INDEX,
    copy_of_model,
    pretrained_names,
    read_arrays,
    write_arrays,
)

RECORD = "record.json"


def share_encoder(directory):
    """Move encoder and index of a saved captioner into the folder that bundled
    captioners share.
    """
    config = read_sealed_json(directory / "config.json", EXPECTED_MODEL)
    files = config["files"]
    if "encoder" not in files:  # as in a copy of a bundled captioner
        weights = directory / files["weights"]
        encoder, others = {}, {}
        for name, array in read_arrays(weights, EXPECTED_MODEL).items():
            (encoder if name.startswith("encoder/") else others)[name.removeprefix("encoder/")] = (
                array
            )
        files |= {"weights": write_arrays(directory, "weights", others)}
        files |= {"encoder": write_arrays(directory, "encoder", encoder)}
        weights.unlink()
    BUNDLED_ENCODERS.mkdir(exist_ok=True)
    for name in {files[part] for part in ("encoder", INDEX) if part in files}:
        (directory / name).replace(BUNDLED_ENCODERS / name)
    write_sealed_json(directory / "config.json", config)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?", help="the folder of a saved captioner")
    parser.add_argument("name", nargs="?", help="its name in the package, such as flickr8k-paper")
    parser.add_argument(
        "--graphs", action="store_true", help="write the graphs of all bundled captioners again"
    )
    arguments = parser.parse_args(arguments)
    if arguments.graphs != (arguments.name is None) or (arguments.graphs and arguments.model):
        parser.error("pass either a model and its name, or --graphs")
    try:
        if not arguments.graphs:
            folder = copy_of_model(arguments.model, BUNDLED_MODELS / arguments.name)
            share_encoder(folder)
            record = Path(arguments.model) / RECORD
            if record.is_file():
                shutil.copy(record, folder / RECORD)
        for name in pretrained_names() if arguments.graphs else [arguments.name]:
            content, _, _, consensus_options = converted(BUNDLED_MODELS / name)
            write_graph(BUNDLED_MODELS / name, content, consensus_options)
    except ValueError as error:
        sys.exit(f"bundle: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
