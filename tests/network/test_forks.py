import os
import signal
import warnings

import numpy as np
import pytest
from helpers import make_captioner


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")
def test_a_fork_is_told_instead_of_waiting_forever():
    used, features = make_captioner(), np.ones((1, 4, 3), np.float32)
    used.caption_features(features)
    for use in (lambda: used.caption_features(features), make_captioner, lambda: used.fit(None)):
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python 3.12 says that a fork has no threads
            child = os.fork()
        if child == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(30)  # ends it if it waits
            try:
                use()
            except ValueError as error:
                os.write(writing, str(error).encode())
            finally:
                os._exit(0)
        os.close(writing)
        with open(reading, "rb") as file:
            said = file.read().decode()
        assert os.waitpid(child, 0)[1] == 0
        assert (
            said.startswith("This process was forked") and "spawn" in said and "load_litert" in said
        )
