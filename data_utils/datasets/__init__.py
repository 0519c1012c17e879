"""Read data sets: each reader turns the published files into a list of CaptionedImage.

To add a data set, write a function that takes its folder and returns the list, and add
it to DATASETS.

Skipped items are counted in one warning. Data that would falsify results, such as a
photo in two splits, is rejected.
"""

from data_utils.datasets.coco import coco
from data_utils.datasets.flickr import flickr8k, flickr30k
from data_utils.datasets.image_folder import folder
from data_utils.datasets.scenes_data_set import scenes
from data_utils.datasets.splits import SPLITS, draw_split

__all__ = ["DATASETS", "SPLITS", "coco", "draw_split", "flickr30k", "flickr8k", "folder", "scenes"]

DATASETS = {
    "flickr8k": flickr8k,
    "flickr30k": flickr30k,
    "coco": coco,
    "folder": folder,
    "scenes": scenes,
}
