"""Made by docs/make_stubs.py: where the exported names are."""

from data_utils.batches import make_batches as make_batches
from data_utils.captions import CaptionedImage as CaptionedImage
from data_utils.captions import clean_descriptions as clean_descriptions
from data_utils.captions import load_descriptions as load_descriptions
from data_utils.captions import load_document as load_document
from data_utils.captions import save_descriptions as save_descriptions
from data_utils.captions import tokenise as tokenise
from data_utils.captions import vocabulary_words as vocabulary_words
from data_utils.datasets import DATASETS as DATASETS
from data_utils.datasets import coco as coco
from data_utils.datasets import flickr8k as flickr8k
from data_utils.datasets import flickr30k as flickr30k
from data_utils.datasets import folder as folder
from data_utils.datasets.read import photos_of_split as photos_of_split
from data_utils.datasets.read import read_data as read_data
from data_utils.downloads import DOWNLOADS as DOWNLOADS
from data_utils.downloads import download as download
from data_utils.features.cache import FeatureCache as FeatureCache
from data_utils.photos.images import find_pictures as find_pictures
from data_utils.photos.images import load_image as load_image
from data_utils.photos.read import readable_photos as readable_photos
from data_utils.scenes import Scene as Scene
from data_utils.scenes import WordPlace as WordPlace
from data_utils.scenes import draw_scenes as draw_scenes
from data_utils.scenes import is_true as is_true
from data_utils.scenes import word_places as word_places
from data_utils.vocabulary import Vocabulary as Vocabulary

__all__ = [
    "CaptionedImage",
    "DATASETS",
    "DOWNLOADS",
    "FeatureCache",
    "Scene",
    "Vocabulary",
    "WordPlace",
    "clean_descriptions",
    "coco",
    "download",
    "draw_scenes",
    "find_pictures",
    "flickr30k",
    "flickr8k",
    "folder",
    "is_true",
    "load_descriptions",
    "load_document",
    "load_image",
    "make_batches",
    "photos_of_split",
    "read_data",
    "readable_photos",
    "save_descriptions",
    "tokenise",
    "vocabulary_words",
    "word_places",
]
