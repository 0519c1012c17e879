"""What a captioner has besides options, words and weights: the digests of its training
photos, its confidence and source, and the index of consensus.

`saving` writes them into the settings of a folder, `keras_file` into a file's assets.
"""

from data_utils.seen_photos import as_settings, from_settings
from keras_sat.after_search import Confidence, Consensus
from keras_sat.files.hub import checked_source
from keras_sat.files.model_folder import INDEX


def records_of(captioner):
    """Return the records of a captioner that it has, a dict for JSON; for the index,
    which is arrays, see `index_of`.
    """
    records = {}
    if captioner.training_photos is not None:
        records |= as_settings(captioner.training_photos)
    if captioner.confidence is not None:
        records["confidence"] = captioner.confidence.to_dict()
    if captioner.source is not None:
        records["source"] = captioner.source
    return records


def index_of(captioner):
    """Return the arrays of a captioner's index, or None."""
    return None if captioner.consensus is None else captioner.consensus.arrays


def restore_records(captioner, records):
    """Give a captioner what `records_of` returned, and an index.

    Args:
        records: dict, with the index's arrays under INDEX; without them, the captioner
            keeps the index that it has. There may be other entries too.
    """
    captioner.training_photos = from_settings(records)
    captioner.confidence = None
    if "confidence" in records:
        captioner.confidence = Confidence(**records["confidence"])
    captioner.source = checked_source(records.get("source"))
    if INDEX in records:
        captioner.consensus = Consensus.of(
            captioner.vocabulary, records[INDEX], captioner.feature_shape[-1]
        )
