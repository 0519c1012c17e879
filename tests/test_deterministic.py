"""`fit(deterministic=True)`: the same seed gives the same weights bit for bit, in every process, killed or not.

The setting stays for as long as a process lives, so that no training with it runs in the process of the tests.
"""

import signal

import numpy as np
import pytest
import tensorflow as tf
from small_training import OPTIONS, run_training, train

from data_utils.files import read_sealed_json
from keras_sat import Captioner
from keras_sat.__main__ import main
from keras_sat.files.checkpoint import read_checkpoint
from keras_sat.training.folder import note_arguments


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_two_processes_end_with_the_same_bits_though_one_was_killed(tmp_path):
    undisturbed = run_training(tmp_path / "whole", "", "deterministic")
    assert undisturbed.returncode == 0, undisturbed.stderr
    killed = run_training(tmp_path / "killed", "in-epoch", "deterministic")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    again = run_training(tmp_path / "killed", "", "deterministic")
    assert "resumes after epoch 2" in again.stdout, again.stderr
    (epochs, expected), (epochs_again, received) = (
        read_checkpoint(tmp_path / name / "checkpoint") for name in ("whole", "killed")
    )
    assert len(epochs) == 3 and expected.keys() == received.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(received[name], values, err_msg=name)
    figures = [[{**one, "seconds": None} for one in some] for some in (epochs, epochs_again)]
    assert figures[0] == figures[1]
    digests = [Captioner.load(tmp_path / name / "model").weights_digest() for name in ("whole", "killed")]
    assert digests[0] == digests[1]
    assert read_sealed_json(tmp_path / "whole" / "arguments.json", "arguments")["deterministic"]


class Enabled(Exception):
    pass


def test_it_is_switched_on_before_anything_is_made_and_only_when_asked_for(tmp_path, monkeypatch, capsys):
    def enable():
        raise Enabled

    monkeypatch.setattr(tf.config.experimental, "enable_op_determinism", enable)
    with pytest.raises(Enabled):
        train(tmp_path / "with", deterministic=True)
    assert not (tmp_path / "with").exists()
    with pytest.raises(Enabled):
        main(
            ["fit", "--data", "scenes", "--encoder", "tiny", "--deterministic", "--output-dir", str(tmp_path / "with")]
        )
    with pytest.raises(ValueError, match="`hidden_dim` must be"):
        train(tmp_path / "without", hidden_dim=-1)  # got past it


def test_it_can_be_given_up_but_not_promised_afterwards(tmp_path):
    repeatable = {"deterministic": True, "epochs": 4, "schedule": "constant"}
    chance = {**repeatable, "deterministic": False}
    epochs = [{"loss": 1.0}]

    def noted():
        return read_sealed_json(tmp_path / "arguments.json", "arguments")["deterministic"]

    note_arguments(tmp_path, repeatable, [])
    note_arguments(tmp_path, repeatable, epochs)
    note_arguments(tmp_path, chance, epochs, has_ended=True)
    assert noted(), "what is only loaded was repeatable"
    note_arguments(tmp_path, chance, epochs)
    assert not noted()
    for has_ended in (False, True):
        with pytest.raises(ValueError, match="deterministic was False and is True"):
            note_arguments(tmp_path, repeatable, epochs, has_ended=has_ended)


@pytest.mark.slow
def test_a_training_of_before_was_not_repeatable(whole_training, monkeypatch):
    folder, captioner = whole_training
    monkeypatch.setattr(tf.config.experimental, "enable_op_determinism", lambda: None)
    with pytest.raises(ValueError, match="deterministic was False and is True"):
        train(folder, deterministic=True)
    assert len(captioner.history["loss"]) == OPTIONS["epochs"]
    assert train(folder, deterministic=False).weights_digest() == captioner.weights_digest()
