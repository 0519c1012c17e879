import os
import subprocess
import sys

import pytest

from data_utils.base.tf_logging import LOG_LEVEL, QUIET, without_startup_log


@pytest.fixture
def before_tensorflow(monkeypatch):
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    monkeypatch.delenv(LOG_LEVEL, raising=False)
    return monkeypatch


def test_what_is_written_while_tensorflow_is_imported_is_hidden_and_nothing_else(
    before_tensorflow, capfd
):
    os.write(2, b"before ")
    with pytest.raises(ImportError, match="broken"), without_startup_log():
        os.write(2, b"oneDNN is on")
        with without_startup_log():
            os.write(2, b"no cuda drivers")
        raise ImportError("broken")
    os.write(2, b"after")
    assert capfd.readouterr().err == "before after"
    assert os.environ[LOG_LEVEL] == QUIET


def test_who_asks_for_the_messages_gets_them(before_tensorflow, capfd):
    before_tensorflow.setenv(LOG_LEVEL, "0")
    with without_startup_log():
        os.write(2, b"no cuda drivers")
    assert capfd.readouterr().err == "no cuda drivers"


@pytest.mark.slow
def test_python_without_a_gpu_sees_nothing_of_it():
    code = (
        "import data_utils, keras_sat; scene = data_utils.draw_scenes(1, seed=1502)[0]; "
        "print(keras_sat.Captioner.from_pretrained('scenes').caption(scene.image, "
        "num_beams=1).caption)"
    )
    environment = {name: value for name, value in os.environ.items() if name != LOG_LEVEL}
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert ran.stdout.startswith("a ") and ran.stderr == ""
