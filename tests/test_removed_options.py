"""Options that earlier versions had."""

import pytest

from keras_sat import removed_options
from keras_sat.options import BeamSearchOptions, split_options
from keras_sat.removed_options import Removed, without_removed


@pytest.fixture(autouse=True)
def removed(monkeypatch):
    """Two options that were removed."""
    options = {
        "old_loss": Removed(0.0, "Train without it."),
        "old_search": Removed(False, "The search does without.", is_harmless=True),
    }
    monkeypatch.setattr(removed_options, "REMOVED", options)


def test_a_value_that_changes_nothing_is_left_out_in_silence():
    assert without_removed("fit", {"old_loss": 0.0, "epochs": 2}) == {"epochs": 2}


def test_a_call_without_an_option_that_did_no_harm_goes_on_with_one_warning():
    with pytest.warns(UserWarning, match="no option old_search any more") as warnings:
        options = BeamSearchOptions.of("caption", {"old_search": True, "num_beams": 2})
    assert options.num_beams == 2 and len(warnings) == 1


def test_a_call_whose_result_would_be_another_is_an_error_with_the_way_out():
    with pytest.raises(ValueError, match="Train without it. Received: old_loss=0.5"):
        split_options("fit", {"old_loss": 0.5}, BeamSearchOptions)


def test_a_saved_captioner_that_was_trained_with_it_is_read():
    with pytest.warns(UserWarning, match="folder: .* old_loss=0.5 is ignored"):
        assert without_removed("folder", {"old_loss": 0.5}, is_saved=True) == {}
