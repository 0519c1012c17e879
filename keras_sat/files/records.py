"""What a captioner has besides options, words and weights: the digests of its training
photos, its confidence, second opinion and source, the index of consensus and the
recogniser.

`saving` writes them into the settings of a folder, `keras_file` into a file's assets.
"""

from data_utils.training_photos import as_settings, from_settings
from keras_sat.beyond.confidence import Confidence
from keras_sat.beyond.consensus import Consensus
from keras_sat.beyond.known_objects import Recogniser
from keras_sat.beyond.second_opinion import SecondOpinion
from keras_sat.files.hub import checked_source
from keras_sat.files.model_folder import INDEX, OBJECTS


def records_of(captioner):
    """Return the records of a captioner that it has, a dict for JSON; for those that
    are arrays, see `parts_of`.
    """
    records = {}
    if captioner.training_photos is not None:
        records |= as_settings(captioner.training_photos)
    if captioner.confidence is not None:
        records["confidence"] = captioner.confidence.to_dict()
    if captioner.second_opinion is not None:
        records["second_opinion"] = captioner.second_opinion.to_dict()
    if captioner.source is not None:
        records["source"] = captioner.source
    return records


def parts_of(captioner):
    """Return the arrays of a captioner's index and recogniser, if it has them: a dict
    from names in `model_folder.PARTS` to dicts of arrays.
    """
    parts = {INDEX: captioner.consensus, OBJECTS: captioner.recogniser}
    return {name: part.arrays for name, part in parts.items() if part is not None}


def restore_records(captioner, records):
    """Give a captioner what `records_of` and `parts_of` returned.

    It keeps an index and a recogniser that are not among the records.

    Args:
        records: dict, which may have other entries too.
    """
    captioner.training_photos = from_settings(records)
    captioner.confidence = None
    if "confidence" in records:
        captioner.confidence = Confidence(**records["confidence"])
    captioner.second_opinion = None
    if "second_opinion" in records:
        captioner.second_opinion = SecondOpinion(**records["second_opinion"])
    captioner.source = checked_source(records.get("source"))
    if INDEX in records:
        captioner.consensus = Consensus(
            captioner.vocabulary, records[INDEX], captioner.feature_shape[-1]
        )
    if OBJECTS in records:
        captioner.recogniser = Recogniser(captioner.vocabulary, records[OBJECTS])
