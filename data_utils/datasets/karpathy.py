"""Karpathy's JSON files, which hold the captions and splits that most papers use."""

from data_utils.atomic_files import read_json
from data_utils.captions import image_id_of, reject_outside
from data_utils.datasets.assemble import add_caption
from data_utils.datasets.splits import Splits, split_of


def read_karpathy(path, skipped):
    """Read a dataset_*.json of Karpathy's: captions, splits, and the folders that it names (COCO)."""
    captions, splits, folders = {}, Splits(), []
    content = read_json(path, "Karpathy's JSON with images, each with filename, split and sentences")
    try:
        for number, image in enumerate(content["images"]):
            where = f"{path.name}, image {number}"
            image_id = image_id_of(image["filename"])
            splits.note(image_id, split_of(image["split"], where), where)
            folders.append(image.get("filepath", "") + "")  # must be text
            reject_outside(folders[-1], where)
            for sentence in image["sentences"]:
                add_caption(captions, image_id, sentence["raw"], skipped, where)
            if image_id not in captions:
                del splits[image_id]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path}: this is not Karpathy's JSON ({type(error).__name__}: {error}). "
            "Expected: images, each with filename, split and sentences."
        ) from None
    return captions, splits, list(dict.fromkeys(folders))
