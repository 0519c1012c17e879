"""Made by docs/make_stubs.py: where the exported names are."""

from data_utils.photos.decoding import decoded_picture as decoded_picture
from data_utils.photos.digests import PHOTO as PHOTO
from data_utils.photos.digests import find_changes as find_changes
from data_utils.photos.digests import photo_of as photo_of
from data_utils.photos.digests import size_of as size_of
from data_utils.photos.images import find_pictures as find_pictures
from data_utils.photos.images import height_and_width as height_and_width
from data_utils.photos.images import load_image as load_image
from data_utils.photos.images import photos_of as photos_of
from data_utils.photos.process import PhotoProcess as PhotoProcess
from data_utils.photos.read import NUM_READERS as NUM_READERS
from data_utils.photos.read import read_photos as read_photos
from data_utils.photos.read import readable_photos as readable_photos
from data_utils.photos.read import report_unreadable as report_unreadable
from data_utils.photos.regions import MARGIN as MARGIN
from data_utils.photos.regions import Crop as Crop
from data_utils.photos.regions import checked_region as checked_region
from data_utils.photos.regions import checked_regions as checked_regions
from data_utils.photos.regions import crop_of as crop_of
from data_utils.photos.regions import crops_of as crops_of
from data_utils.photos.regions import regions_for as regions_for
from data_utils.photos.views import boxes_in_view as boxes_in_view
from data_utils.photos.views import view_of as view_of

__all__ = [
    "Crop",
    "MARGIN",
    "NUM_READERS",
    "PHOTO",
    "PhotoProcess",
    "boxes_in_view",
    "checked_region",
    "checked_regions",
    "crop_of",
    "crops_of",
    "decoded_picture",
    "find_changes",
    "find_pictures",
    "height_and_width",
    "load_image",
    "photo_of",
    "photos_of",
    "read_photos",
    "readable_photos",
    "regions_for",
    "report_unreadable",
    "size_of",
    "view_of",
]
