"""Read data sets: each reader turns the published files into a list of CaptionedImage.

Skipped items are counted in one warning. Data that would falsify results, such as a
photo in two splits, is rejected.
"""

from data_utils.base import attach_lazily

NAMES_BY_MODULE = {
    "flickr": ["flickr30k", "flickr8k"],
    "image_folder": ["PictureNames", "folder"],
    "ms_coco": ["coco"],
    "phrase_boxes": [
        "NOT_CONTENT",
        "PLACELESS",
        "CellBoxes",
        "content_positions",
        "covered_fraction",
        "read_boxes",
    ],
    "read": ["photos_of_split", "read_data"],
    "readers": ["DATASETS"],
    "splits": ["SPLITS", "draw_split"],
    "tables": ["cell_of", "table_of"],
}

__getattr__, __dir__, __all__ = attach_lazily(__name__, NAMES_BY_MODULE)
