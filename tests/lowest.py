"""Print constraints that pin every package of setup.cfg to the oldest version that it
allows.
"""

import configparser
import re
from pathlib import Path

setup = configparser.ConfigParser()
setup.read(Path(__file__).parents[1] / "setup.cfg")
for name, version in re.findall(
    r"^([\w-]+)>=([\d.]+)", setup["options"]["install_requires"], re.MULTILINE
):
    print(f"{name}=={version}.*")
