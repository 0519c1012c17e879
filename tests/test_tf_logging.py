import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from data_utils import tf_logging
from data_utils.tf_logging import LOG_LEVEL, QUIET, nothing_on_standard_error, without_startup_log


@pytest.fixture
def before_tensorflow(monkeypatch):
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    monkeypatch.delenv(LOG_LEVEL, raising=False)
    return monkeypatch


def test_what_is_written_while_tensorflow_is_imported_is_hidden_and_nothing_else(before_tensorflow, capfd):
    os.write(2, b"before ")
    with without_startup_log():
        os.write(2, b"oneDNN is on")
        with without_startup_log():
            os.write(2, b"no cuda drivers")
    os.write(2, b"after")
    assert capfd.readouterr().err == "before after"
    assert os.environ[LOG_LEVEL] == QUIET


def test_an_error_of_the_import_comes_through(before_tensorflow, capfd):
    with pytest.raises(ImportError, match="broken"), without_startup_log():
        raise ImportError("broken")
    os.write(2, b"still heard")
    assert capfd.readouterr().err == "still heard"


def test_who_asks_for_the_messages_gets_them(before_tensorflow, capfd):
    before_tensorflow.setenv(LOG_LEVEL, "0")
    with without_startup_log():
        os.write(2, b"no cuda drivers")
    assert capfd.readouterr().err == "no cuda drivers"


def test_two_threads_do_not_redirect_it_at_the_same_time():
    """The second would put back what the first has put there: nothing would ever be heard again."""
    with nothing_on_standard_error(), ThreadPoolExecutor(1) as thread:
        assert not thread.submit(tf_logging._STANDARD_ERROR.acquire, blocking=False).result()


@pytest.mark.slow
def test_python_without_a_gpu_sees_nothing_of_it():
    """The whole of a first caption in a process of its own: every line that TensorFlow writes from C++ is left out."""
    code = (
        "import data_utils, keras_sat; scene = data_utils.draw_scenes(1, seed=1502)[0]; "
        "print(keras_sat.Captioner.from_pretrained('scenes').caption(scene.image, num_beams=1).caption)"
    )
    environment = {name: value for name, value in os.environ.items() if name != LOG_LEVEL}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert ran.stdout.startswith("a ") and ran.stderr == ""
