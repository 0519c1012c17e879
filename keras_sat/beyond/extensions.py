"""Extensions of the paper, one idea per file: HOOKS maps options to changes of decoder,
objective or training.
"""

from keras_sat.beyond.attend_after import AttendAfter
from keras_sat.beyond.boxes import AttentionOnBoxes
from keras_sat.beyond.feature_consistency import FeatureConsistency
from keras_sat.beyond.guide import Guide
from keras_sat.beyond.hook import FurtherEpochs, Hook
from keras_sat.beyond.label_smoothing import LabelSmoothing
from keras_sat.beyond.regions import RegionPhrases
from keras_sat.beyond.self_critical import SelfCritical
from keras_sat.beyond.sentinel import WithSentinel
from keras_sat.beyond.sharpness import Sharpness
from keras_sat.model.decoder import CaptionDecoder
from keras_sat.options import (
    CaptionerOptions,
    ConsistencyOptions,
    DecoderOptions,
    SelfCriticalOptions,
)

HOOKS = {
    "sentinel": Hook(decoder=WithSentinel),
    "attends": Hook(decoder=AttendAfter),
    "label_smoothing": Hook(term=LabelSmoothing),
    "box_weight": Hook(term=AttentionOnBoxes, needs="boxes"),
    "region_weight": Hook(term=RegionPhrases, needs="boxes"),
    "guide_weight": Hook(term=Guide),
    "sharpness_weight": Hook(term=Sharpness),
    "consistency_epochs": Hook(
        epochs=FurtherEpochs(
            ConsistencyOptions, FeatureConsistency.of, schedule="cosine", encoder_alone=True
        )
    ),
    "self_critical_epochs": Hook(
        epochs=FurtherEpochs(SelfCriticalOptions, SelfCritical.of, keeps_before=True)
    ),
}

# In training order.
FURTHER_EPOCHS = {option: hook.epochs for option, hook in HOOKS.items() if hook.epochs}


def hooks_of(options):
    """Return the hooks of those `options` (a dict) that differ from the defaults."""
    defaults = CaptionerOptions.defaults()
    return [
        hook
        for option, hook in HOOKS.items()
        if option in options and options[option] != defaults.get(option)
    ]


def make_decoder(vocabulary_size, options, **of_keras):
    """Create the paper's decoder, or the subclass that these captioner options (a dict)
    require.
    """
    kinds = [hook.decoder for hook in hooks_of(options) if hook.decoder] or [CaptionDecoder]
    kind = (
        kinds[0]
        if len(kinds) == 1
        else type("".join(kind.__name__ for kind in kinds), tuple(kinds), {})
    )
    own = {name: options[name] for name in DecoderOptions.names() if name in options}
    return kind(vocabulary_size, **own, **of_keras)


def terms_of(captioner, options):
    """Return the list of Terms that these CaptionerOptions add to the objective."""
    terms = [hook.term.of(captioner, options) for hook in hooks_of(options.to_dict()) if hook.term]
    return [term for term in terms if term is not None]
