"""What a captioner has besides options, words and weights: the digests of its training
photos, its confidence and its source, and the index of consensus.

`saving` writes them into the settings of a folder, `keras_file` into a file's assets.
"""

from data_utils.training_photos import as_settings, from_settings
from keras_sat.beyond.confidence import Confidence
from keras_sat.beyond.consensus import Consensus
from keras_sat.files.hub import checked_source


def records_of(captioner):
    """Return the records of a captioner that it has, a dict for JSON; the index, which
    is arrays, is not among them.
    """
    records = {}
    if captioner.training_photos is not None:
        records |= as_settings(captioner.training_photos)
    if captioner.confidence is not None:
        records["confidence"] = captioner.confidence.to_dict()
    if captioner.source is not None:
        records["source"] = captioner.source
    return records


def restore_records(captioner, records, index=None):
    """Give a captioner what `records_of` returned, and the index of consensus.

    Args:
        records: dict, which may have other entries too.
        index: the arrays of a Consensus. With None, the captioner keeps what it has.
    """
    captioner.training_photos = from_settings(records)
    captioner.confidence = None
    if "confidence" in records:
        captioner.confidence = Confidence(**records["confidence"])
    captioner.source = checked_source(records.get("source"))
    if index is not None:
        captioner.consensus = Consensus(captioner.vocabulary, index, captioner.feature_shape[-1])
