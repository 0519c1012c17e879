"""The command `compare`: compare two captioners by their scores.

Dependencies are imported where they are used, which keeps `--help` fast.
"""

from keras_sat.commands.flags import add_values
from keras_sat.commands.paths import output_paths

DESCRIPTION = """Compare two captioners on the same photos: differences of scores, 95 % intervals,
mean and deviation over seeds. FIRST and SECOND are files of `keras-sat evaluate
--json`, or patterns in quotation marks for several seeds: "runs/soft-*.json"."""


def add_arguments(parser):
    parser.add_argument("first", metavar="FIRST", help="JSON file or pattern")
    parser.add_argument("second", metavar="SECOND", help="JSON file or pattern")
    add_values(parser, "OUT", csv="write the comparison as CSV", latex="write it as a LaTeX table")


def run(first, second, **files):
    """Compare two captioners, print the differences in their scores, and write the
    requested files.
    """
    from keras_sat.measuring import compare

    paths = output_paths(files)
    comparison = compare(first, second)
    print(comparison)
    if "csv" in paths:
        comparison.to_csv(paths["csv"])
    if "latex" in paths:
        comparison.to_latex(paths["latex"])
