"""Made by docs/make_stubs.py: where the exported names are."""

from data_utils.datasets.flickr import flickr8k as flickr8k
from data_utils.datasets.flickr import flickr30k as flickr30k
from data_utils.datasets.image_folder import PictureNames as PictureNames
from data_utils.datasets.image_folder import folder as folder
from data_utils.datasets.ms_coco import coco as coco
from data_utils.datasets.phrase_boxes import NOT_CONTENT as NOT_CONTENT
from data_utils.datasets.phrase_boxes import PLACELESS as PLACELESS
from data_utils.datasets.phrase_boxes import CellBoxes as CellBoxes
from data_utils.datasets.phrase_boxes import content_positions as content_positions
from data_utils.datasets.phrase_boxes import covered_fraction as covered_fraction
from data_utils.datasets.phrase_boxes import read_boxes as read_boxes
from data_utils.datasets.read import photos_of_split as photos_of_split
from data_utils.datasets.read import read_data as read_data
from data_utils.datasets.readers import DATASETS as DATASETS
from data_utils.datasets.splits import SPLITS as SPLITS
from data_utils.datasets.splits import draw_split as draw_split
from data_utils.datasets.tables import cell_of as cell_of
from data_utils.datasets.tables import table_of as table_of

__all__ = [
    "CellBoxes",
    "DATASETS",
    "NOT_CONTENT",
    "PLACELESS",
    "PictureNames",
    "SPLITS",
    "cell_of",
    "coco",
    "content_positions",
    "covered_fraction",
    "draw_split",
    "flickr30k",
    "flickr8k",
    "folder",
    "photos_of_split",
    "read_boxes",
    "read_data",
    "table_of",
]
