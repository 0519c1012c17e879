"""Read Karpathy's JSON files, with the captions and splits that most papers use."""

from data_utils.base import read_json
from data_utils.captions import image_id_of, reject_outside
from data_utils.datasets.assemble import add_caption, expecting
from data_utils.datasets.splits import add_split


def read_karpathy(path, skipped):
    """Return the captions, splits and (for COCO) photo folders from one of Karpathy's
    dataset_*.json files.
    """
    captions, splits, folders = {}, {}, []
    expected = "Karpathy's JSON with images, each with filename, split and sentences"
    with expecting(path, expected):
        for number, image in enumerate(read_json(path, expected)["images"]):
            where = f"{path.name}, image {number}"
            image_id = image_id_of(image["filename"])
            add_split(splits, image_id, image["split"], where)
            folders.append(image.get("filepath", "") + "")  # must be a string
            reject_outside(folders[-1], where)
            for sentence in image["sentences"]:
                add_caption(captions, image_id, sentence["raw"], skipped, where)
            if image_id not in captions:
                del splits[image_id]
    return captions, splits, list(dict.fromkeys(folders))
