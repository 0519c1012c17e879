"""Training: its phases, photos, callbacks, devices and output folder."""

from data_utils.base import attach_lazily

NAMES_BY_MODULE = {
    "callbacks": [
        "BeginWithExpectations",
        "DrawAttention",
        "KeepTraining",
        "ScoreCaptions",
        "ShowCaptions",
        "ShowProgress",
    ],
    "distributed": ["Cluster", "several_gpus", "several_hosts"],
    "plan": ["CAPTIONER_ARGUMENTS", "make_plan", "this_computer"],
    "recipe": ["fit"],
}

__getattr__, __dir__, __all__ = attach_lazily(__name__, NAMES_BY_MODULE)
