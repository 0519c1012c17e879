"""The readers of all data sets by name.

To add a data set, write a function that takes its folder and returns a list of
CaptionedImage, and add it to DATASETS.
"""

from data_utils.datasets.flickr import flickr8k, flickr30k
from data_utils.datasets.image_folder import folder
from data_utils.datasets.ms_coco import coco
from data_utils.datasets.scenes_data_set import scenes

DATASETS = {
    "flickr8k": flickr8k,
    "flickr30k": flickr30k,
    "coco": coco,
    "folder": folder,
    "scenes": scenes,
}
