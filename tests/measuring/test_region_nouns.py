"""The noun of a region: figures by hand."""

from data_utils import CaptionedImage
from data_utils.datasets.phrase_boxes import Boxes, Phrase
from data_utils.nouns import singular
from keras_sat.measuring.region_nouns import region_nouns
from keras_sat.search import CaptionResult

LEFT, CORNER, NEARLY_ALL = (0.0, 0.0, 0.5, 1.0), (0.5, 0.0, 0.75, 0.5), (0.0, 0.0, 1.0, 0.6)


def said(*captions):
    return [CaptionResult(caption, caption.split(), 0.0, None) for caption in captions]


def test_figures_by_hand():
    captions = {"a": "two black dogs chase a ball on grass", "b": "dog"}
    images = [CaptionedImage(name, "", [caption]) for name, caption in captions.items()]
    phrases = [
        Phrase(0, 0, 3, (LEFT,)),
        Phrase(0, 4, 2, (CORNER,)),
        Phrase(0, 7, 1, (LEFT, CORNER)),
    ]
    boxes = Boxes(
        {"a": [*phrases, Phrase(0, 7, 1, (NEARLY_ALL,))], "b": [Phrase(0, 0, 1, (LEFT,))]}, {"b"}
    )

    def describe(regions):
        # Single boxes up to half of a photo whose size is known.
        assert regions == [[LEFT, CORNER], []]
        return [said("a dog", "a cat"), []]

    figures = region_nouns(images, boxes, said("a dog with balls", "a dog"), describe)
    assert figures == {
        "num_regions": 2,
        "noun_said": 0.5,
        "small_noun_said": 0.0,
        "whole_noun_said": 1.0,
    }
    assert region_nouns([], Boxes({}), [], lambda regions: [])["noun_said"] is None
    pairs = {
        "dog": "dogs",
        "house": "houses",
        "bus": "buses",
        "baby": "babies",
        "man": "men",
        "watch": "watches",
    }
    assert all(singular(one) == singular(many) == one for one, many in pairs.items())
