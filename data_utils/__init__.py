"""Prepare photos and captions as training batches, without keras_sat.

Names are imported on first use.
"""

import os

from data_utils.base import LOG_LEVEL, QUIET, attach_lazily

# Must be set before TensorFlow is imported, which reads it only once.
os.environ.setdefault(LOG_LEVEL, QUIET)

NAMES_BY_MODULE = {
    "captions": [
        "CaptionedImage",
        "clean_descriptions",
        "load_descriptions",
        "load_document",
        "save_descriptions",
        "tokenise",
        "vocabulary_words",
    ],
    "scenes": ["Scene", "WordPlace", "draw_scenes", "is_true", "word_places"],
    "datasets": ["DATASETS", "coco", "flickr8k", "flickr30k", "folder"],
    "downloads": ["DOWNLOADS", "download"],
    "datasets.read": ["photos_of_split", "read_data"],
    "vocabulary": ["Vocabulary"],
    "photos.images": ["find_pictures", "load_image"],
    "photos.read": ["readable_photos"],
    "features.cache": ["FeatureCache"],
    "batches": ["make_batches"],
}

__getattr__, __dir__, __all__ = attach_lazily(__name__, NAMES_BY_MODULE)
