"""The program of docs/tuning.md as it stands, on few scenes: it searches, prunes, and
resumes.
"""

from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from helpers import ROOT, python_blocks

import keras_sat

optuna = pytest.importorskip("optuna", reason="optuna is not installed: pip install optuna")

PAGE = ROOT / "docs" / "tuning.md"
SMALLER = {
    '"epochs": 5': '"epochs": 1, "embedding_dim": 8, "hidden_dim": 8, "attention_dim": 8, '
    '"show_progress": False',
    'DATASETS["scenes"](None)': 'DATASETS["scenes"](None, num_scenes=40)',
}


@pytest.fixture
def search(tmp_path, monkeypatch):
    """A function that runs the program until so many trials are finished, and returns
    its names.
    """
    monkeypatch.chdir(tmp_path)
    (program,) = python_blocks(PAGE)
    for text, smaller in SMALLER.items():
        assert text in program
        program = program.replace(text, smaller)

    def run(num_trials):
        assert "max(20 -" in program
        names = {}
        exec(compile(program.replace("max(20 -", f"max({num_trials} -"), PAGE.name, "exec"), names)
        return names

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    yield run
    optuna.logging.set_verbosity(optuna.logging.INFO)


def states(study):
    return [trial.state.name for trial in study.get_trials()]


@pytest.mark.slow
def test_a_search_of_two_trials_and_its_resumption(search, monkeypatch, capsys):
    study = search(2)["study"]
    assert states(study) == ["COMPLETE", "COMPLETE"]
    assert capsys.readouterr().out.strip().endswith(f"{study.best_value} {study.best_params}")
    for trial in study.get_trials():
        assert 3e-4 <= trial.params["learning_rate"] <= 3e-3 and trial.params["dropout"] in (
            0.3,
            0.5,
        )
        assert trial.intermediate_values == {0: trial.value}
    best = Path("runs", "search", "{learning_rate:.6g}-{dropout}".format(**study.best_params))
    assert keras_sat.Captioner.load(best / "model").vocabulary
    monkeypatch.setattr(keras_sat, "fit", None)
    assert states(search(2)["study"]) == ["COMPLETE", "COMPLETE"], "nothing is left to do"


class Curves(dict):
    was_interrupted = False


@pytest.mark.slow
def test_what_was_stopped_killed_or_failed_is_tried_again_as_it_was(search, monkeypatch):
    asked = []

    def fit(images, **options):
        asked.append(
            (options["learning_rate"], options["dropout_after_readout"], options["output_dir"])
        )
        if len(asked) == 1:
            raise ValueError("bad input")
        curves = Curves(val_cider=[0.1, 0.3, 0.2])
        curves.was_interrupted = len(asked) == 2
        return SimpleNamespace(history=curves)

    monkeypatch.setattr(keras_sat, "fit", fit)
    with pytest.raises(ValueError, match="bad input"):
        search(2)
    with pytest.raises(KeyboardInterrupt):
        search(2)
    # a trial that nobody ends
    killed = optuna.load_study(study_name="search", storage="sqlite:///search.db").ask()
    killed.suggest_float("learning_rate", 3e-4, 3e-3, log=True)
    killed.suggest_categorical("dropout", [0.3, 0.5])
    study = search(3)["study"]
    assert asked[0] == asked[1] == asked[2] and len(asked) == len(set(asked)) + 2 == 5
    assert killed.params in [
        trial.params for trial in study.get_trials(states=(optuna.trial.TrialState.COMPLETE,))
    ]
    assert states(study).count("COMPLETE") == 3 and study.best_value == 0.3


@pytest.mark.slow
def test_a_trial_that_is_worse_than_the_others_is_pruned(search, monkeypatch):
    names = search(1)
    trial = optuna.create_study(
        direction="maximize", pruner=optuna.pruners.ThresholdPruner(lower=0.5)
    ).ask()
    callback = names["PruneByCider"](trial)
    assert isinstance(callback, keras.callbacks.Callback)
    callback.on_epoch_end(0, {"val_cider": 0.6})
    with pytest.raises(optuna.TrialPruned):
        callback.on_epoch_end(1, {"val_cider": 0.4})
    pruned = optuna.pruners.ThresholdPruner(lower=np.inf)
    monkeypatch.setattr(optuna.pruners, "MedianPruner", lambda: pruned)
    study = search(2)["study"]
    assert (
        states(study) == ["COMPLETE", "PRUNED"]
        and len(study.get_trials()[1].intermediate_values) == 1
    )
