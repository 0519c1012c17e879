"""`fit(deterministic=True)`: the same seed gives the same weights bit for bit, in every
process, killed or not.

The setting stays for as long as a process lives. So no training with it runs in the
process of the tests.
"""

import signal
from unittest.mock import Mock

import numpy as np
import pytest
import tensorflow as tf
from small_training import run_training, train

from data_utils.base import read_sealed_json
from keras_sat.files import read_checkpoint


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_processes_end_with_the_same_bits_though_one_was_killed_twice(tmp_path):
    undisturbed = run_training(tmp_path / "whole")
    assert undisturbed.returncode == 0, undisturbed.stderr
    for when, num_epochs in (("in-save", 1), ("in-epoch", 2)):
        killed = run_training(tmp_path / "killed", when)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert len(read_checkpoint(tmp_path / "killed" / "checkpoint")[0]) == num_epochs
    again = run_training(tmp_path / "killed")
    assert "resuming after epoch 2" in again.stdout, again.stderr
    files = [*(tmp_path / "killed" / "checkpoint").iterdir()]
    assert len(files) == 2, "what was half written is cleared away"
    both = [read_checkpoint(tmp_path / name / "checkpoint") for name in ("whole", "killed")]
    (epochs, state), same = (
        [[{**one, "seconds": 0} for one in epochs], state] for epochs, state in both
    )
    assert len(epochs) == 3
    np.testing.assert_equal([epochs, state], same)
    # The digest of the weights.
    assert again.stdout.splitlines()[-1] == undisturbed.stdout.splitlines()[-1]


def test_it_is_switched_on_before_anything_is_made_and_only_when_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(
        tf.config.experimental, "enable_op_determinism", Mock(side_effect=RuntimeError("enabled"))
    )
    with pytest.raises(RuntimeError, match="enabled"):
        train(tmp_path / "with", deterministic=True)
    assert not (tmp_path / "with").exists()
    with pytest.raises(ValueError, match="`hidden_dim` must be"):
        train(tmp_path / "without", hidden_dim=-1)  # got past it


@pytest.mark.slow
@pytest.mark.usefixtures("without_graphs")
def test_it_can_be_given_up_but_not_promised_afterwards(tmp_path, monkeypatch):
    def train_for(epochs, deterministic):
        train(
            tmp_path,
            splits=["train"],
            schedule="constant",
            batch_size=80,
            epochs=epochs,
            deterministic=deterministic,
        )
        return read_sealed_json(tmp_path / "arguments.json", "arguments")["deterministic"]

    monkeypatch.setattr(tf.config.experimental, "enable_op_determinism", lambda: None)
    assert train_for(1, True)
    assert train_for(1, False), "what is only loaded was repeatable"
    assert not train_for(2, False)
    with pytest.raises(ValueError, match="deterministic was False and is True"):
        train_for(2, True)
