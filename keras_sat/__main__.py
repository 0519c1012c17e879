"""The command line: `python -m keras_sat COMMAND`, installed as `keras-sat`."""

import sys

from keras_sat.command_line.commands import main

if __name__ == "__main__":
    sys.exit(main())
