"""The data sets: each reader returns a list of CaptionedImage from the files as they circulate.

To add one, write a function that takes the folder and returns the list, and name it in DATASETS.

Reading neither fails on the known faults of these files nor loses anything silently: what is left out is counted in
one warning. What would make results wrong (a photo in two splits, a table that cannot be parsed) is refused with file
and line.
"""

import csv
import io
import json
import os
import random
import re
from pathlib import Path

from data_utils.captions import (
    IMAGE_ENDINGS,
    CaptionedImage,
    Skipped,
    image_id_of,
    load_descriptions,
    load_document,
    pictures_by_folder,
    refuse_long_caption,
)
from data_utils.files import read_json, write_whole

SPLITS = ("train", "dev", "test")
_SPLIT_NAMES = {
    "train": "train",
    "restval": "train",  # Karpathy's name for the part of COCO's validation photos that everybody trains on
    "dev": "dev",
    "val": "dev",
    "valid": "dev",
    "validation": "dev",
    "test": "test",
}


def flickr8k(data_dir, *, split_seed=None):
    """Read Flickr8k.

    Args:
        data_dir: the folder that holds the photos (a folder Flicker8k_Dataset or Images, or the photos themselves) and
            one of: Flickr8k.token.txt; captions.txt, the copy with the header "image,caption"; Karpathy's
            dataset_flickr8k.json. The splits are the official lists Flickr_8k.trainImages.txt and so on, or those of
            Karpathy's JSON, beside it.
        split_seed: draw a split of 80/10/10 by photo with this seed instead.

    Returns: list of CaptionedImage in the order of the caption file.
    """
    return _read_flickr(
        data_dir,
        split_seed,
        photo_folders=("Flicker8k_Dataset", "Flickr8k_Dataset", "Images", "images"),
        readers={
            "Flickr8k.token.txt": _read_token_file,
            "captions.txt": _read_caption_table,
            "dataset_flickr8k.json": None,
        },
        text_folders=("", "Flickr8k_text"),
        split_lists={split: (f"Flickr_8k.{split}Images.txt",) for split in SPLITS},
    )


def flickr30k(data_dir, *, split_seed=None):
    """Read Flickr30k.

    Args:
        data_dir: the folder that holds the photos (a folder flickr30k-images, flickr30k_images or Images, or the
            photos themselves) and one of: results_20130124.token; results.csv, the copy with "|"; Karpathy's
            dataset_flickr30k.json. The splits are the lists train.txt, val.txt and test.txt, or those of Karpathy's
            JSON, beside it.
        split_seed: draw a split of 80/10/10 by photo with this seed instead.

    Returns: list of CaptionedImage in the order of the caption file.
    """
    return _read_flickr(
        data_dir,
        split_seed,
        photo_folders=("flickr30k-images", "flickr30k_images", "Images", "images"),
        readers={
            "results_20130124.token": _read_token_file,
            "results.csv": _read_bar_table,
            "dataset_flickr30k.json": None,
        },
        text_folders=("", "flickr30k_images", "flickr30k"),
        split_lists={
            "train": ("train.txt", "flickr30k_train.txt"),
            "dev": ("val.txt", "dev.txt", "flickr30k_val.txt"),
            "test": ("test.txt", "flickr30k_test.txt"),
        },
    )


def coco(data_dir, *, split_seed=None):
    """Read MS COCO.

    Args:
        data_dir: the folder that holds train2014 and val2014 (or 2017; they may lie in a folder `images`) and either
            Karpathy's dataset_coco.json, whose "restval" counts as train, or the captions_*.json of COCO itself (they
            may lie in a folder `annotations`), where captions_train* is train and captions_val* is dev.
        split_seed: draw a split of 80/10/10 by photo with this seed instead.

    Returns: list of CaptionedImage in the order of the caption file.
    """
    data_dir = _existing_folder(data_dir)
    skipped = Skipped()
    karpathy = _find_file(data_dir, "dataset_coco.json", ("", "annotations"))
    if karpathy:
        captions, splits, folders = _read_karpathy(karpathy, skipped)
    else:
        files = sorted(data_dir.glob("captions_*.json")) + sorted(data_dir.glob("annotations/captions_*.json"))
        if not files:
            raise ValueError(
                "No caption file found. Expected: dataset_coco.json, or captions_train*.json and captions_val*.json, "
                f"in the folder itself or in its folder annotations. Received: data_dir={str(data_dir)!r}"
            )
        captions, splits, folders = _read_coco_files(files, skipped)
        if not any(splits.values()) and split_seed is None:
            raise ValueError(_no_split_message("dataset_coco.json", files[0]))
    photos = {}
    for folder in dict.fromkeys(["", "images", *folders, *(f"images/{folder}" for folder in folders)]):
        if os.path.isdir(data_dir / folder):
            photos = _photos_in(data_dir / folder) | photos
    return _assemble(data_dir, captions, photos, splits, skipped, split_seed)


def folder(data_dir, *, split_seed=None):
    """Read your own pictures.

    Args:
        data_dir: a folder with the pictures and captions.csv (columns image and caption, one caption a row) or
            captions.jsonl (an object with image and caption, or captions, a line). `image` is a path from that folder;
            capital letters and small ones count as the same where no other picture has that name.
            A column split with train, dev or test is used if it is there.
        split_seed: draw a split of 80/10/10 by photo with this seed. Without it and without a column split, every
            photo has the split None.

    Returns: list of CaptionedImage in the order of the caption file.
    """
    data_dir = _existing_folder(data_dir)
    skipped = Skipped()
    table = next((data_dir / name for name in ("captions.csv", "captions.jsonl") if (data_dir / name).is_file()), None)
    if table is None:
        raise ValueError(
            "No caption file found. Expected: captions.csv with the columns image and caption, or captions.jsonl. "
            f"Received: data_dir={str(data_dir)!r}"
        )
    rows = _read_jsonl(table) if table.suffix == ".jsonl" else _read_csv(table, skipped)
    captions, photos, splits, split_lines = {}, {}, {}, {}
    own, *deeper = pictures_by_folder(str(data_dir), only_to_count=True)
    deeper = [path for paths in deeper for path in paths]
    known = {}  # names of pictures in small letters -> those names
    for path in [*own, *deeper]:
        name = Path(path).relative_to(data_dir).as_posix()
        known.setdefault(name.casefold(), []).append(name)
    for line, name, caption, split in rows:
        place = f"{table.name}, line {line}"
        alike = known.get(Path(name).as_posix().casefold(), [])
        if len(alike) == 1:
            name = alike[0]
        elif alike and Path(name).as_posix() not in alike:
            skipped.add(f"names that may mean {' or '.join(alike)}", f"{place}: {name}")
        image_id, path = image_id_of(name), str(data_dir / name)
        if not name or not caption:
            skipped.add("rows without a caption left out" if name else "rows without an image left out", place)
            continue
        if photos.setdefault(image_id, path) != path:
            raise ValueError(
                f"{place}: two pictures share the image id {image_id!r} (the file's name without folder and ending): "
                f"{photos[image_id]} and {path}. Rename one of them."
            )
        captions.setdefault(image_id, []).append(caption)
        if split:
            split = _split_of(split, place)
            if splits.setdefault(image_id, split) != split:
                raise ValueError(
                    f"{place}: the picture {name!r} has the split {split!r} here and {splits[image_id]!r} in line "
                    f"{split_lines[image_id]}. A picture belongs to one split."
                )
            split_lines.setdefault(image_id, line)
    photos = {image_id: path for image_id, path in photos.items() if os.path.isfile(path)}
    named = set(photos.values())
    lost = [path for path in deeper if path not in named]
    for path in lost:
        skipped.add("photos in subfolders that no row names left out", Path(path).relative_to(data_dir).as_posix())
    hint = f" Name those in subfolders so, for example {Path(lost[0]).relative_to(data_dir)}." if lost else ""
    return _assemble(data_dir, captions, _photos_in(data_dir) | photos, splits, skipped, split_seed, hint)


def scenes(data_dir, *, num_scenes=2000, seed=0, image_size=64, max_objects=2):
    """Draw the built-in data set into a folder, and read it.

    Args:
        data_dir: where the pictures go, as PNG; those that lie there already are not drawn again. None keeps them in
            memory: `image_path` is the picture itself.
        num_scenes, seed, image_size, max_objects: as in `draw_scenes`.

    Returns: list of CaptionedImage.
    """
    from data_utils.scenes import draw_scenes

    captioned_images = []
    for scene in draw_scenes(num_scenes, seed, image_size, max_objects=max_objects):
        if data_dir is None:
            captioned_images.append(CaptionedImage(scene.image_id, scene.image, list(scene.captions), scene.split))
            continue
        path = Path(data_dir).expanduser() / f"{scene.image_id}-{image_size}px-{max_objects}.png"
        if not path.exists():
            write_whole(path, scene.png())
        captioned_images.append(CaptionedImage(scene.image_id, str(path), list(scene.captions), scene.split))
    return captioned_images


DATASETS = {"flickr8k": flickr8k, "flickr30k": flickr30k, "coco": coco, "folder": folder, "scenes": scenes}


# === Putting photos, captions and splits together ===


def _read_flickr(data_dir, split_seed, *, photo_folders, readers, text_folders, split_lists):
    data_dir = _existing_folder(data_dir)
    skipped = Skipped()
    found = {name: _find_file(data_dir, name, text_folders) for name in readers}
    name, path = next(((name, path) for name, path in found.items() if path), (None, None))
    if path is None:
        raise ValueError(
            f"No caption file found. Expected one of: {', '.join(readers)}. Received: data_dir={str(data_dir)!r}"
        )
    karpathy_name = list(readers)[-1]
    if readers[name] is None:
        captions, splits, _ = _read_karpathy(path, skipped)
    else:
        captions = readers[name](path, skipped)
        lists = {
            split: next(filter(None, (_find_file(data_dir, name, text_folders) for name in names)), None)
            for split, names in split_lists.items()
        }
        if split_seed is not None:
            splits = {}
        elif any(lists.values()):
            splits = _read_split_lists(lists, skipped)
            for split in SPLITS:
                if lists[split] is None:
                    skipped.add(f"no list for the split {split}", split_lists[split][0])
        elif found[karpathy_name]:
            _, splits, _ = _read_karpathy(found[karpathy_name], Skipped())
        else:
            list_names = ", ".join(names[0] for names in split_lists.values())
            raise ValueError(_no_split_message(f"{list_names}, or {karpathy_name},", path))
    return _assemble(data_dir, captions, _find_photos(data_dir, photo_folders), splits, skipped, split_seed)


def _no_split_message(expected, path):
    return (
        f"{path} does not say which photos are for training, and no list of splits lies beside it. Put {expected} "
        "there, or pass split_seed=0 to draw a split by photo."
    )


def _assemble(data_dir, captions, photos, splits, skipped, split_seed, hint=""):
    """Return the list of CaptionedImage for every photo that has captions; count the rest in one warning."""
    for image_id in captions.keys() - photos.keys():
        for _ in captions[image_id]:
            skipped.add("captions without a photo left out", image_id)
    for image_id in sorted(photos.keys() - captions.keys()):
        skipped.add("photos without a caption left out", image_id)
    for image_id in sorted(splits.keys() - (captions.keys() & photos.keys())):
        skipped.add("photos on a split list that are not there", image_id)
    kept = [image_id for image_id in captions if image_id in photos]
    if not captions:
        raise ValueError(f"There is no caption in the caption file: is it whole? Received: data_dir={str(data_dir)!r}")
    if not kept:
        raise ValueError(
            f"None of the {len(captions)} captioned photos was found (first: {next(iter(captions), None)}). Expected: "
            f"the photos in the folder itself or in one of its usual folders.{hint} "
            f"Received: data_dir={str(data_dir)!r}"
        )
    for image_id in kept:
        refuse_long_caption(max(captions[image_id], key=len), image_id, data_dir)
    if split_seed is not None:
        splits = draw_split(kept, split_seed)
    skipped.warn(data_dir)
    return [
        CaptionedImage(image_id, str(photos[image_id]), captions[image_id], splits.get(image_id)) for image_id in kept
    ]


def draw_split(image_ids, seed):
    """Return a map from image id to split: a tenth each (rounded up) is dev and test, the rest train."""
    shuffled = sorted(image_ids)
    random.Random(seed).shuffle(shuffled)
    tenth = -(-len(shuffled) // 10)
    return {
        image_id: "dev" if i < tenth else "test" if i < 2 * tenth else "train" for i, image_id in enumerate(shuffled)
    }


def _existing_folder(data_dir):
    data_dir = Path(data_dir).expanduser()
    if not data_dir.is_dir():
        raise ValueError(
            "The data folder does not exist. Expected: the folder with the photos and their captions. "
            f"Received: data_dir={str(data_dir)!r}"
        )
    return data_dir


def _find_file(data_dir, name, folders):
    return next((path for path in (data_dir / folder / name for folder in folders) if path.is_file()), None)


def _find_photos(data_dir, folder_names):
    """Return image id -> path from the first of the folders that holds photos; zips often nest a folder in itself."""
    for outer in folder_names:
        for candidate in (data_dir / outer, *(data_dir / outer / inner for inner in folder_names)):
            photos = _photos_in(candidate) if candidate.is_dir() else {}
            if photos:
                return photos
    return _photos_in(data_dir)


def _photos_in(directory):
    """Return image id -> path of a folder's photos, without the ._ files that macOS leaves in zips."""
    with os.scandir(directory) as entries:
        return {
            image_id_of(entry.name): entry.path
            for entry in entries
            if os.path.splitext(entry.name)[1].lower() in IMAGE_ENDINGS and not entry.name.startswith("._")
        }


def _split_of(name, place):
    split = _SPLIT_NAMES.get(str(name).strip().lower())
    if split is None:
        raise ValueError(f"{place}: unknown split. Expected: train, dev or test. Received: split={name!r}")
    return split


def _read_split_lists(lists, skipped):
    """Return image id -> split from one list of file names for each split."""
    splits, places = {}, {}
    for split, path in lists.items():
        if path is None:
            continue
        for number, line in enumerate(load_document(path).split("\n"), start=1):
            if not line.strip():
                continue
            image_id, place = image_id_of(line), f"{path.name}, line {number}"
            if splits.setdefault(image_id, split) != split:
                raise ValueError(
                    f"{place}: the photo {image_id!r} is in the split {split!r} here and in {splits[image_id]!r} in "
                    f"{places[image_id]}. A photo belongs to one split: take it off one of the lists."
                )
            if image_id in places:
                skipped.add("photos named twice on a split list", place)
            places.setdefault(image_id, place)
    return splits


# === The caption files: each reader returns image id -> captions ===


def _read_token_file(path, skipped):
    return load_descriptions(load_document(path), source=path)


def _read_caption_table(path, skipped):
    captions = {}
    for line, name, caption, _ in _read_csv(path, skipped):
        if name and caption:
            captions.setdefault(image_id_of(name), []).append(caption)
        else:
            reason = "empty captions left out" if name else "rows without an image left out"
            skipped.add(reason, f"{path.name}, line {line}")
    return captions


def _read_csv(path, skipped):
    """Yield (line, image, caption, split) from a table with a header; commas, semicolons or tabs separate."""
    document = load_document(path)
    header_line = document.split("\n", 1)[0]
    delimiter = max(",;\t", key=header_line.count)
    rows = csv.reader(io.StringIO(document), delimiter=delimiter, strict=True)
    try:
        header = [column.strip().lower() for column in next(rows, [])]
        if "image" not in header or "caption" not in header:
            raise ValueError(
                f"{path}, line 1: the header must name the columns image and caption. Received: {header_line[:80]!r}"
            )
        image, caption = header.index("image"), header.index("caption")
        split = header.index("split") if "split" in header else None
        for row in rows:
            if not row:
                continue
            if len(row) < len(header):
                skipped.add("rows with too few columns left out", f"{path.name}, line {rows.line_num}")
                continue
            if len(row) > len(header):
                if caption != len(header) - 1:
                    raise ValueError(
                        f"{path}, line {rows.line_num}: {len(row)} columns where the header has {len(header)}. "
                        'A caption with a comma in it needs quotes: "a dog, running".'
                    )
                row[caption] = delimiter.join(row[caption:])  # a comma in a caption that was not quoted
            text = " ".join(row[caption].split())
            yield rows.line_num, row[image].strip(), text, row[split].strip() if split is not None else None
    except csv.Error as error:
        raise ValueError(
            f'{path}, line {rows.line_num}: {error}. Quotes must be closed, and doubled inside a caption: "a ""dog""".'
        ) from None


def _read_jsonl(path):
    """Yield (line, image, caption, split) from one JSON object a line."""
    for number, line in enumerate(load_document(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            captions = row["captions"] if "captions" in row else [row["caption"]]
            if not isinstance(captions, list) or not all(isinstance(text, str) for text in [row["image"], *captions]):
                raise TypeError
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ValueError(
                f'{path}, line {number}: expected an object like {{"image": "a.jpg", "caption": "a dog"}}. '
                f"Received: {line[:80]!r}"
            ) from None
        for caption in captions:
            yield number, row["image"].strip(), " ".join(caption.split()), row.get("split")


def _read_bar_table(path, skipped):
    """Read Flickr30k's results.csv: "image_name| comment_number| comment", never quoted."""
    captions = {}
    for number, line in enumerate(load_document(path).split("\n"), start=1):
        if not line.strip() or (number == 1 and line.lower().startswith("image")):
            continue
        # The file that circulates lacks the second bar in one line: "2199200615.jpg| 4   A dog runs ...".
        match = re.match(r"\s*(.+?)\s*\|\s*\d+\s*(?:\||\s)\s*(.*)", line + " ")
        if match is None:
            skipped.add("lines without a separator left out", f"{path.name}, line {number}")
        elif not match[2].strip():
            skipped.add("empty captions left out", f"{path.name}, line {number}")
        else:
            captions.setdefault(image_id_of(match[1]), []).append(" ".join(match[2].split()))
    return captions


def _read_karpathy(path, skipped):
    """Read a dataset_*.json of Karpathy's: captions, splits, and the folders that it names (COCO)."""
    captions, splits, folders = {}, {}, []
    content = read_json(path, "Karpathy's JSON with images, each with filename, split and sentences")
    try:
        for number, image in enumerate(content["images"]):
            place = f"{path.name}, image {number}"
            image_id = image_id_of(image["filename"])
            split = _split_of(image["split"], place)
            if splits.setdefault(image_id, split) != split:
                raise ValueError(
                    f"{place}: the photo {image_id!r} is in the splits {splits[image_id]!r} and {split!r}."
                )
            folders.append(image.get("filepath", "") + "")  # must be text
            for sentence in image["sentences"]:
                text = " ".join(sentence["raw"].split())
                if text:
                    captions.setdefault(image_id, []).append(text)
                else:
                    skipped.add("empty captions left out", place)
            if image_id not in captions:
                del splits[image_id]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path}: this is not Karpathy's JSON ({type(error).__name__}: {error}). "
            "Expected: images, each with filename, split and sentences."
        ) from None
    return captions, splits, list(dict.fromkeys(folders))


def _read_coco_files(paths, skipped):
    """Read COCO's own captions_*.json files; the split is in the file's name."""
    captions, splits, folders = {}, {}, []
    for path in paths:
        content = read_json(path, "COCO's JSON with images and annotations")
        year_and_split = re.match(r"captions_(([a-z]+)\d*)", path.name)
        split = _SPLIT_NAMES.get(year_and_split[2]) if year_and_split else None
        folders.append(year_and_split[1] if year_and_split else "")
        try:
            names = {image["id"]: image_id_of(image["file_name"]) for image in content["images"]}
            for annotation in content["annotations"]:
                text = " ".join(annotation["caption"].split())
                image_id = names.get(annotation["image_id"])
                if not text or image_id is None:
                    reason = "empty captions left out" if image_id else "captions of unlisted photos left out"
                    skipped.add(reason, f"{path.name}, annotation {annotation.get('id')}")
                    continue
                if splits.setdefault(image_id, split) != split:
                    raise ValueError(f"{path}: the photo {image_id!r} is also in the split {splits[image_id]!r}.")
                captions.setdefault(image_id, []).append(text)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{path}: this is not a COCO caption file ({type(error).__name__}: {error}). "
                "Expected: images with id and file_name, annotations with image_id and caption."
            ) from None
    return captions, splits, folders
