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
from keras_sat.options import CaptionerOptions, DecoderOptions

HOOKS = {
    "sentinel": Hook(decoder=WithSentinel),
    "attends": Hook(decoder=AttendAfter),
    "label_smoothing": Hook(term=LabelSmoothing),
    "box_weight": Hook(term=AttentionOnBoxes, needs="boxes"),
    "guide_weight": Hook(term=Guide),
    "sharpness_weight": Hook(term=Sharpness),
}


def hooks_of(options):
    """Return the hooks of those `options` (a dict) that differ from the defaults."""
    defaults = CaptionerOptions.defaults()
    return [
        hook
        for option, hook in HOOKS.items()
        if option in options and options[option] != defaults.get(option)
    ]


def make_decoder(vocabulary_size, options, **keras_options):
    """Create the paper's decoder, or the subclass that these options require.

    Args:
        vocabulary_size: number of tokens.
        options: options of a captioner, a dict; others have their defaults.
        **keras_options: options of any Keras layer, such as name and dtype.
    """
    classes = [hook.decoder for hook in hooks_of(options) if hook.decoder]
    decoder_class = _combined(classes)
    names = [name for name in DecoderOptions.names() if name in options]
    decoder_options = {name: options[name] for name in names}
    return decoder_class(vocabulary_size, **decoder_options, **keras_options)


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


def terms_of(captioner, options):
    """Return the list of Terms that these CaptionerOptions add to the objective."""
    terms = [hook.term.of(captioner, options) for hook in hooks_of(options.to_dict()) if hook.term]
    return [term for term in terms if term is not None]
