"""Options that earlier versions had."""

import pytest
from small_training import train

from data_utils.base import write_sealed_json
from keras_sat.__main__ import main
from keras_sat.commands import module_of
from keras_sat.removed_options import REMOVED, Removed, without_removed
from keras_sat.settings import FitSettings, Search
from keras_sat.training.run_record import record_arguments


@pytest.fixture(autouse=True)
def removed(monkeypatch):
    """Two options that were removed."""
    monkeypatch.setitem(REMOVED, "old_loss", Removed(0.0, "Train without it."))
    search = Removed(False, "The search does without.", is_harmless=True)
    monkeypatch.setitem(REMOVED, "old_search", search)


def test_a_value_that_changes_nothing_is_left_out_in_silence():
    assert without_removed("fit", {"old_loss": 0.0, "epochs": 2}) == {"epochs": 2}


def test_a_call_without_an_option_that_did_no_harm_goes_on_with_one_warning():
    with pytest.warns(UserWarning, match="no option old_search any more") as warnings:
        options = Search.of("caption", {"old_search": True, "num_beams": 2})
    assert options.num_beams == 2 and len(warnings) == 1


def test_a_call_whose_result_would_be_another_is_an_error_with_the_way_out():
    with pytest.raises(ValueError, match="Train without it. Received: old_loss=0.5"):
        FitSettings.of("fit", {"old_loss": 0.5})


def test_a_saved_captioner_that_was_trained_with_it_is_read():
    with pytest.warns(UserWarning, match="folder: .* old_loss=0.5 is ignored"):
        assert without_removed("folder", {"old_loss": 0.5}, is_saved=True) == {}


# === Runs ===

DESCRIBED = {"schedule": "constant", "seed": 0, "initial_model": "12345678", "initial_options": "a"}
EPOCHS = [{"loss": 1.0}]  # of a run that was stopped


def record_again(folder, **recorded):
    """Resume a run whose record has these arguments of an earlier version."""
    write_sealed_json(folder / "arguments.json", {**DESCRIBED, **recorded})
    record_arguments(folder, DESCRIBED, EPOCHS)


def test_a_run_whose_options_this_version_stands_for_is_resumed_in_silence(tmp_path):
    record_again(tmp_path, old_loss=0.0, old_search=None)
    record_arguments(tmp_path, DESCRIBED, EPOCHS)  # it was written anew


def test_a_run_is_resumed_without_an_option_that_does_no_harm(tmp_path):
    with pytest.warns(UserWarning, match="made with old_search=True.* The search does without"):
        record_again(tmp_path, old_search=True)


def test_a_run_that_would_go_on_with_another_loss_says_what_to_do(tmp_path):
    with pytest.raises(ValueError, match="old_loss=0.5, which this version has no more") as error:
        record_again(tmp_path, old_loss=0.5)
    assert f"initial_model='{tmp_path / 'model'}'" in str(error.value)


def test_the_initial_model_of_an_earlier_record_is_recognised_by_its_weights(tmp_path):
    earlier = {"schedule": "constant", "seed": 0, "initial_model": "12345678-0f0f0f0f"}
    write_sealed_json(tmp_path / "arguments.json", earlier)
    with pytest.raises(ValueError, match="initial_model was '12345678' and is '87654321'"):
        record_arguments(tmp_path, {**DESCRIBED, "initial_model": "87654321"}, EPOCHS)
    record_arguments(tmp_path, DESCRIBED, EPOCHS)


def test_a_run_of_before_an_option_was_added_is_resumed_with_its_default(tmp_path):
    record_again(tmp_path)
    record_arguments(tmp_path, {**DESCRIBED, "average_momentum": None}, EPOCHS)
    record_again(tmp_path)
    with pytest.raises(ValueError, match="average_momentum was None and is 0.5"):
        record_arguments(tmp_path, {**DESCRIBED, "average_momentum": 0.5}, EPOCHS)


def test_an_option_of_an_initial_model_that_was_not_passed_was_not_its_default(tmp_path):
    record_again(tmp_path)
    with pytest.raises(ValueError, match="label_smoothing was None and is 0.0"):
        record_arguments(tmp_path, {**DESCRIBED, "label_smoothing": 0.0}, EPOCHS)


@pytest.mark.parametrize("last", ["consistency", "self_critical"])
def test_a_run_with_feature_consistency_says_how_to_go_on_in_one_line(last, tmp_path):
    for phase in ("consistency", last):
        (tmp_path / phase / "checkpoint").mkdir(parents=True, exist_ok=True)
    with pytest.raises(ValueError, match="had epochs of feature consistency") as error:
        train(tmp_path, epochs=1)
    assert f"Its captioner is '{tmp_path / last / 'model'}'" in str(error.value)
    assert "initial_model" in str(error.value) and "\n" not in str(error.value)


# === The command line ===


@pytest.fixture
def passed_on(monkeypatch):
    """The arguments that `fit` and `caption` get, in a list."""
    passed_on = []

    def run(**arguments):
        passed_on.append(arguments)

    for command in ("fit", "caption"):
        monkeypatch.setattr(module_of(command), "run", run)
    return passed_on


def test_a_flag_that_is_gone_is_an_error_with_the_way_out(passed_on, capsys):
    assert main(["fit", "--data", "scenes", "--old-loss", "0.5"]) == 2
    shown = capsys.readouterr().err
    assert shown == (
        "keras-sat: fit: there is no option --old-loss any more. Train without it. "
        "Received: --old-loss=0.5\n"
    )
    assert not passed_on


@pytest.mark.filterwarnings("default:caption")
def test_a_flag_that_is_gone_and_did_no_harm_is_ignored_with_one_line(passed_on, capsys):
    assert main(["caption", "photo.jpg", "--old-search"]) == 0
    assert passed_on == [{"images": ["photo.jpg"]}]
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1 and "--old-search=True is ignored" in shown


def test_a_flag_that_is_gone_and_changes_nothing_is_left_out_in_silence(passed_on, capsys):
    assert main(["fit", "--data", "scenes", "--old-loss", "0", "--no-old-search"]) == 0
    assert passed_on == [{"data": "scenes"}] and not capsys.readouterr().err


def test_an_abbreviation_never_means_a_flag_that_is_gone(passed_on, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["fit", "--data", "scenes", "--old-los", "0"])
    assert stopped.value.code == 2 and not passed_on
    assert "unrecognized arguments: --old-los" in capsys.readouterr().err
    assert main(["fit", "--data", "scenes", "--hidden", "4"]) == 0
    assert passed_on == [{"data": "scenes", "hidden_dim": 4}]


def test_a_flag_that_is_gone_is_neither_shown_nor_suggested(capsys):
    for arguments in (["fit", "--help-all"], ["fit", "--data", "scenes", "--olt-loss", "1"]):
        with pytest.raises(SystemExit):
            main(arguments)
        shown = "".join(capsys.readouterr())
        assert "--old" not in shown
