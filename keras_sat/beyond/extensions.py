"""Extensions of the paper, one idea per file: HOOKS maps options to changes of decoder
or objective.
"""

from keras_sat.beyond.attend_after import AttendAfter
from keras_sat.beyond.boxes import AttentionOnBoxes
from keras_sat.beyond.guide import Guide
from keras_sat.beyond.hook import Hook
from keras_sat.beyond.label_smoothing import LabelSmoothing
from keras_sat.beyond.sentinel import WithSentinel
from keras_sat.beyond.sharpness import Sharpness
from keras_sat.model.decoder import CaptionDecoder

HOOKS = {
    "sentinel": Hook(decoder=WithSentinel),
    "attends": Hook(decoder=AttendAfter),
    "label_smoothing": Hook(term=LabelSmoothing),
    "box_weight": Hook(term=AttentionOnBoxes, needs="boxes"),
    "guide_weight": Hook(term=Guide),
    "sharpness_weight": Hook(term=Sharpness),
}


def hooks_of(part):
    """Return the hooks of those settings of a part, Network or Loss, that differ from
    the defaults.
    """
    defaults = part.defaults()
    return [
        hook
        for name, hook in HOOKS.items()
        if name in defaults and getattr(part, name) != defaults[name]
    ]


def make_decoder(vocabulary_size, network, **keras_options):
    """Create the paper's decoder, or the subclass that these settings require.

    Args:
        vocabulary_size: number of tokens.
        network: Network.
        **keras_options: options of any Keras layer, such as name and dtype.
    """
    decoder_class = _combined([hook.decoder for hook in hooks_of(network)])
    return decoder_class(vocabulary_size, network, **keras_options)


def _combined(classes):
    """Return a class that inherits from all these decoders, CaptionDecoder for none.

    For WithSentinel and AttendAfter it is class WithSentinelAttendAfter(WithSentinel,
    AttendAfter), which adds nothing.
    """
    if not classes:
        return CaptionDecoder
    if len(classes) == 1:
        return classes[0]
    name = "".join(decoder_class.__name__ for decoder_class in classes)
    return type(name, tuple(classes), {})


def terms_of(captioner, loss):
    """Return the list of Terms that these settings, a Loss, add to the objective."""
    terms = [hook.term.of(captioner, loss) for hook in hooks_of(loss)]
    return [term for term in terms if term is not None]
