"""Photos as arrays: find, read, crop, view and augment them."""

from data_utils.base import attach_lazily

NAMES_BY_MODULE = {
    "decoding": ["decoded_picture"],
    "digests": ["PHOTO", "find_changes", "photo_of", "size_of"],
    "images": ["find_pictures", "height_and_width", "load_image", "photos_of"],
    "process": ["PhotoProcess"],
    "read": ["NUM_READERS", "read_photos", "readable_photos", "report_unreadable"],
    "regions": [
        "MARGIN",
        "Crop",
        "checked_region",
        "checked_regions",
        "crop_of",
        "crops_of",
        "regions_for",
    ],
    "views": ["boxes_in_view", "view_of"],
}

__getattr__, __dir__, __all__ = attach_lazily(__name__, NAMES_BY_MODULE)
