"""What one update does: the loss, its terms, rewards, the optimizer, `train_step`."""

from data_utils.base import attach_lazily

NAMES_BY_MODULE = {
    "objective": ["EXPECTATION_PROBABILITY", "PaperObjective"],
    "self_critical": ["SelfCritical"],
    "all_terms": ["TERMS", "make_terms"],
    "trainer": ["NO_FORWARD_PASS", "Trainer"],
    "updates": ["WeightUpdates"],
}

__getattr__, __dir__, __all__ = attach_lazily(__name__, NAMES_BY_MODULE)
