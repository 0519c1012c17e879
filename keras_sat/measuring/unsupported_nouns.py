"""Count the nouns of captions that none of the photo's references supports: some of
them are made up.

Source: Rohrbach et al., 2018, Object Hallucination in Image Captioning, whose CHAIR_i
and CHAIR_s these are. Difference: there, a photo has those of COCO's 80 objects that a
reference names or a person outlined; here, `data_utils.nouns` lists nouns of captions,
and the words of a reference that support each. People do not name all that they see:
readers found half of such nouns of the bundled captioner in the photo.
"""

from data_utils.nouns import nouns_supported


def unsupported_figures(references, candidates):
    """Return a dict of unsupported_nouns, the fraction of the nouns that no reference
    supports, and captions_with_unsupported_nouns; both are None without a noun.

    Args:
        references: the references of each photo, lists of words.
        candidates: a caption of each photo, a list of words.
    """
    # For each caption, whether each of its nouns is supported.
    of_captions = [
        list(nouns_supported(words, texts).values()) for texts, words in zip(references, candidates)
    ]
    num_nouns = sum(map(len, of_captions))
    if not num_nouns:
        return {"unsupported_nouns": None, "captions_with_unsupported_nouns": None}
    num_supported = sum(map(sum, of_captions))
    num_clean = sum(map(all, of_captions))  # captions without an unsupported noun
    return {
        "unsupported_nouns": (num_nouns - num_supported) / num_nouns,
        "captions_with_unsupported_nouns": (len(of_captions) - num_clean) / len(of_captions),
    }
