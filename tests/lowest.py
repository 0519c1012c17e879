"""Print constraints that pin every package of setup.cfg to the oldest version that it allows."""

import configparser
import re
from pathlib import Path

setup = configparser.ConfigParser()
setup.read(Path(__file__).parents[1] / "setup.cfg")
for requirement in re.findall(r"^(\S+>=\S+)$", setup["options"]["install_requires"], re.MULTILINE):
    name, version = requirement.split(">=")
    print(f"{name}=={version}.*")
