"""How good are the captions? Caption the photos of a split, free-running, and score the captions."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data_utils.atomic_files import read_json
from data_utils.captions import image_id_of, reject_long_caption, tokenise
from data_utils.datasets.phrase_boxes import read_boxes
from data_utils.datasets.read import photos_of_split, read_data
from data_utils.foreign_text import brief
from data_utils.images import readable_photos
from data_utils.photo_digests import photo_of, size_of
from data_utils.progress import Progress
from data_utils.training_photos import seen_in_training, warn_of_copies
from keras_sat.options import BeamSearchOptions, with_options
from keras_sat.scoring.phrases import GROUNDING, figures_of, ground_captions, ground_phrases
from keras_sat.scoring.published import PUBLISHED
from keras_sat.scoring.scores import SCORES
from keras_sat.scoring.table import PERSON, ScoreTable, coco_image_id

if TYPE_CHECKING:
    from data_utils.captions import CaptionedImage

TOKENISATION = "data_utils.tokenise"
NUM_REFERENCES = 5  # COCO has more for some photos; the paper cuts them
BESIDE = ("paper", "human")
MOST_ALIKE = 0.01  # of the photos of a split: so many may be in a data set twice, as one of Flickr8k's 7,000 is


# === Scoring a captioner, or captions ===


@with_options(BeamSearchOptions)
def evaluate(
    captioner: Any,
    data: str | list[CaptionedImage],
    *,
    data_dir: str | os.PathLike | None = None,
    split: str = "test",
    split_seed: int | None = None,
    cache: Any = None,
    batch_size: int = 64,
    skip_unreadable: bool = False,
    allow_training_photos: bool = False,
    beside: str | tuple[str, ...] | list[str] = (),
    boxes: Any = None,
    keep_results: bool = False,
    show_progress: bool = True,
    **options,
) -> ScoreTable:
    """Return the ScoreTable of a captioner on the photos of one split.

    Args:
        captioner: Captioner or Ensemble.
        data: a name in DATASETS, or a list of CaptionedImage.
        data_dir: the folder of the data set.
        split: "train", "dev" or "test".
        split_seed: draw a split of 80/10/10 by photo with this seed; the same as in training.
        cache: FeatureCache with the photos' features, or its folder; None encodes the photos.
        batch_size: photos captioned at a time.
        skip_unreadable: leave out photos that cannot be read, with a warning that counts them. Those that the cache
            lists as unreadable always are.
        allow_training_photos: score photos of dev or test that the captioner was trained on, with a warning. They are
            rejected otherwise, under other names and in other sizes too. If all have other names, and are at most 1 of
            100, there is only a warning.
        beside: what to print below: "paper", its rows for this data set; "human", the first reference of each photo,
            scored against the others.
        boxes: measure whether attention meets what words name: Boxes, or the path that
            `data_utils.datasets.phrase_boxes.read_boxes` takes.
        keep_results: keep the photos' CaptionResults in the table, with their attention maps.
        show_progress: show progress on standard error.
        **options: see `keras_sat.options.BeamSearchOptions`.

    Returns: ScoreTable.
    """
    search = BeamSearchOptions.of("evaluate", options, also=evaluate.__kwdefaults__)
    if not hasattr(captioner, "caption"):
        raise ValueError(
            f"The first argument must be a Captioner, the second the data. Received: captioner={captioner!r}"
        )
    every = read_data(data, data_dir, split_seed=split_seed, show_progress=show_progress)
    images = photos_of_split([image for image in every if image.captions], split)
    _check_beside(beside, data, images)
    noted = {}
    if split != "train" and not allow_training_photos:
        _reject_training_photos(captioner, images, split, False, noted)  # by name, before any photo is read
    if isinstance(cache, (str, Path)):
        from data_utils.features.cache import FeatureCache

        cache = FeatureCache.open(cache, encoder=captioner.encoder_model)
    if cache is None:
        images = readable_photos(images, skip=skip_unreadable, show_progress=show_progress, noted=noted)
    elif any(image.image_id in cache.unreadable for image in images):
        unreadable = [image.image_id for image in images if image.image_id in cache.unreadable]
        found = f"{len(unreadable)} photos that the cache lists as unreadable are left out: {unreadable[0]}"
        warnings.warn(found, stacklevel=3)
        images = [image for image in images if image.image_id not in cache.unreadable]
    if cache is not None:
        cache.reject_changed([image.image_id for image in images], [image.image_path for image in images])
        noted = cache.noted_of([image.image_id for image in every])
    _reject_training_photos(captioner, images, split, allow_training_photos, noted)
    if split != "train":
        _warn_of_copies(images, [image for image in every if image.split == "train"], split, noted)
    boxes = None if boxes is None else read_boxes(boxes, images)
    options = {name: getattr(captioner, name, 0) for name in ("length_penalty", "no_repeat_ngram")}
    options |= {name: value for name, value in search.to_dict().items() if value is not None}
    options["num_beams"] = search.beams
    results = caption_photos(captioner, images, cache, batch_size=batch_size, show_progress=show_progress, **options)
    settings = _settings(data, split, split_seed, captioner.encoder, options)
    if len(getattr(captioner, "captioners", [])) > 1:
        settings["models"] = len(captioner.captioners)
    learnt = training_photos(captioner, images, noted)
    table = _score_table(images, [result.caption for result in results], settings, every, beside)
    table.statistics["training_photos"] = None if learnt is None else len(learnt)
    if boxes is not None:
        reading = {"cache": cache, "batch_size": batch_size, "show_progress": show_progress}
        table = _with_grounding(table, captioner, images, results, boxes, reading)
    if not keep_results:
        return table
    without_photos = [dataclasses.replace(result, image=None) for result in results]
    return dataclasses.replace(table, images=images, results=without_photos)


def _with_grounding(table, captioner, images, results, boxes, reading):
    """Return a table with the grounding of attention in the boxes of what words name."""
    of_people = ground_phrases(captioner, images, boxes, **reading)
    return dataclasses.replace(
        table,
        grounding=figures_of(of_people),
        grounding_generated=figures_of(ground_captions(results, images, boxes)),
        photos={**table.photos, GROUNDING.contributions: of_people.round(10).tolist()},
    )


def evaluate_captions(
    captions: Any,
    data: str | list[CaptionedImage],
    *,
    data_dir: str | os.PathLike | None = None,
    split: str = "test",
    split_seed: int | None = None,
    beside: str | tuple[str, ...] | list[str] = (),
    show_progress: bool = True,
) -> ScoreTable:
    """Return the ScoreTable of captions from any system.

    Args:
        captions: one for each photo of the split: the path of a JSON file, as `keras-sat evaluate --json` or
            `--coco-results` writes it, or a list of dicts of image_id and caption.
        data, data_dir, split, split_seed, beside, show_progress: see `evaluate`.
    """
    texts = _read_captions(captions)
    every = read_data(data, data_dir, split_seed=split_seed, show_progress=show_progress)
    images = photos_of_split([image for image in every if image.captions], split)
    _check_beside(beside, data, images)
    keys = [_caption_key(image.image_id) for image in images]
    twice = [key for key, count in Counter(keys).items() if count > 1]
    if twice:
        raise ValueError(
            "Two photos have the same id, except for their ending or leading zeros. "
            f"Received: image_id={brief(twice[0])}"
        )
    missing = [image.image_id for image, key in zip(images, keys) if key not in texts]
    of_split = {_caption_key(image.image_id) for image in every if image.split == split}
    foreign = sorted(texts.keys() - of_split)
    if missing or foreign:
        parts = [f"no caption for {len(missing)} of its {len(keys)} photos (first: {missing[0]!r})"] if missing else []
        parts += [f"{len(foreign)} captions of other photos (first: {brief(foreign[0])})"] if foreign else []
        raise ValueError(
            f"{_source_of(captions)}: Expected one caption for each photo of the split {split!r}. "
            f"Received: {' and '.join(parts)}"
        )
    settings = _settings(data, split, split_seed)
    return _score_table(images, [texts[key] for key in keys], settings, every, beside)


def _settings(data, split, split_seed, encoder=None, search=None):
    """Return the settings of a table: of the search, a dict, also what is not the default."""
    search, defaults = search or {}, BeamSearchOptions.defaults()
    num_beams = search.get("num_beams")
    length_penalty = None if num_beams == 1 else search.get("length_penalty")  # greedy search has none
    settings = {"data": _name(data), "split": split, "encoder": encoder, "num_beams": num_beams}
    settings |= {"length_penalty": length_penalty, "tokenisation": TOKENISATION}
    settings |= {
        name: value for name, value in search.items() if name not in settings and value not in (0, defaults[name])
    }
    return settings if split_seed is None else {**settings, "split_seed": split_seed}


def _score_table(images, captions, settings, every_image, beside):
    references = [[tokenise(caption) for caption in image.captions[:NUM_REFERENCES]] for image in images]
    candidates = [tokenise(caption) for caption in captions]
    scores, photos = _scores(references, candidates)
    train = {tuple(tokenise(caption)) for image in every_image if image.split == "train" for caption in image.captions}
    statistics = {
        "photos": len(images),
        "distinct_captions": len(set(captions)),
        "empty_captions": sum(not words for words in candidates),
        "vocabulary_used": len({word for words in candidates for word in words}),
        "seen_in_training": sum(tuple(words) in train for words in candidates) / len(candidates) if train else None,
    }
    return ScoreTable(
        scores=scores,
        settings=settings,
        captions=[{"image_id": image.image_id, "caption": text} for image, text in zip(images, captions)],
        statistics=statistics,
        photos=photos,
        beside=_rows_beside(beside, settings["data"], references),
    )


def _scores(references, candidates):
    """Return the dict of all scores, and what each photo contributes, of captions as lists of words."""
    scores, photos = {}, {}
    for score in SCORES.values():
        figures, contributions = score.measure(references, candidates)
        scores |= figures
        photos[score.contributions] = None if contributions is None else contributions.round(10).tolist()
    return scores, photos


# === Photos of the training ===


def training_photos(captioner, images, noted=None):
    """Return the ids of the photos that a captioner was trained on; None where that is not known.

    Args:
        captioner: Captioner or Ensemble.
        images: list of CaptionedImage.
        noted: dict from ids to what is noted of photos, see `data_utils.photo_digests`, to recognise photos under other
            names too.
    """
    record = getattr(captioner, "training_photos", None)
    return None if record is None else seen_in_training([image.image_id for image in images], record, noted)


def are_too_many(captioner, learnt, images):
    """Return whether more photos were seen in training than a data set may have twice by mistake.

    Args:
        captioner, images: see `training_photos`.
        learnt: what that returned.
    """
    return bool(learnt) and (len(learnt) > MOST_ALIKE * len(images) or bool(training_photos(captioner, images)))


def _reject_training_photos(captioner, images, split, allowed, noted):
    """Warn of photos that a captioner was trained on, or reject them, where their split is not that of training."""
    learnt = training_photos(captioner, images, noted)
    if not learnt:
        return
    by_name = {*training_photos(captioner, images)}
    renamed = [image_id for image_id in learnt if image_id not in by_name]
    if by_name:
        found = f"The captioner was trained on {len(learnt)} of the {len(images)} photos in {split!r}"
    else:
        found = f"{len(learnt)} of the {len(images)} photos in {split!r} look like photos of the captioner's training"
    found += f" ({renamed[0]!r}, for example, under another name)" if renamed else f" ({learnt[0]!r}, for example)"
    if split == "train" or allowed or not are_too_many(captioner, learnt, images):
        warnings.warn(f"{found}: the scores do not show how good it is on other photos.", stacklevel=3)
        return
    raise ValueError(
        f"{found}: the scores would not show how good it is on other photos. Pass the split_seed (--split-seed) of the "
        "training, or choose other photos. allow_training_photos=True (--allow-training-photos) scores them anyway. "
        f"Received: split={split!r}"
    )


def _warn_of_copies(images, train, split, noted):
    """Warn of photos of a split that are training photos too; of these, files of the same size are read."""
    sizes = {int(noted[image.image_id]["size"]) for image in images if image.image_id in noted} - {0}
    others = [image for image in train if image.image_id not in noted and size_of(image.image_path) in sizes]
    noted = noted | {image.image_id: photo_of(image.image_path) for image in others}
    therefore = "a captioner that was trained on this data knows them"
    warn_of_copies(train, images, noted, f"in {split!r} are in 'train'", therefore, stacklevel=3)


# === Rows beside ===


def _check_beside(beside, data, images):
    names = list(beside) if isinstance(beside, (list, tuple, set)) else [None]
    if not set(names) <= set(BESIDE):
        raise ValueError(f"Expected a list of: {', '.join(BESIDE)}. Received: beside={beside!r}")
    if "paper" in names and _name(data) not in PUBLISHED:
        raise ValueError(
            f"The paper has scores for {', '.join(PUBLISHED)} only. "
            f"Received: beside={beside!r} with data={_name(data)!r}"
        )
    single = sum(len(image.captions) < 2 for image in images)
    if "human" in names and single:
        raise ValueError(
            f"A person's caption is scored against those of others, but {single} photos have one only. "
            f"Received: beside={beside!r}"
        )


def _rows_beside(beside, data_name, references):
    rows = dict(PUBLISHED[data_name]) if "paper" in beside else {}
    if "human" in beside:
        human, _ = _scores([captions[1:] for captions in references], [captions[0] for captions in references])
        rows[PERSON] = {name: value for name, value in human.items() if not name.endswith("_no_penalty")}
    return rows


def _name(data):
    return data if isinstance(data, str) else "a list of photos"


# === Captions from a file ===


def _read_captions(captions):
    """Return the dict from photo to caption that a file or a list holds."""
    source = _source_of(captions)
    if isinstance(captions, (str, Path)):
        captions = read_json(Path(captions).expanduser(), "a list of objects with image_id and caption")
        captions = captions.get("captions") if isinstance(captions, dict) else captions
    expected = "Expected a list of objects with image_id and caption"
    if not isinstance(captions, (list, tuple)):
        received = "an object without captions" if captions is None else type(captions).__name__
        raise ValueError(f"{source}: {expected}. Received: {received}")
    texts = {}
    for number, entry in enumerate(captions):
        image_id, text = (entry.get(name) for name in ("image_id", "caption")) if isinstance(entry, dict) else (0, 0)
        if not isinstance(text, str) or type(image_id) not in (str, int):
            raise ValueError(f"{source}: {expected}. Received: entry {number} = {str(entry)[:80]}")
        key = _caption_key(image_id)
        if key in texts:
            raise ValueError(f"{source}: there are two captions of one photo. Received: image_id={brief(image_id)}")
        reject_long_caption(text, image_id, source)
        texts[key] = text
    return texts


def _source_of(captions):
    """Return the name of captions in a message: their file, if they have one."""
    return captions if isinstance(captions, (str, Path)) else "captions"


def _caption_key(image_id):
    """Return one form for all spellings of an image id: with its ending or without, or COCO's number."""
    return str(coco_image_id(image_id_of(str(image_id))))


# === Captions of many photos ===


def caption_photos(captioner, captioned_images, cache=None, *, batch_size=64, show_progress=False, **search_options):
    """Return the CaptionResult of each photo, from the features in a cache where there is one.

    Args:
        captioner: Captioner.
        captioned_images: list of CaptionedImage.
        cache: FeatureCache; None encodes the photos.
        batch_size: photos at a time.
        show_progress: show progress on standard error.
        **search_options: see `Captioner.caption_features`.
    """
    results = []
    options = {"cache": cache, "batch_size": batch_size, **search_options}
    with Progress(len(captioned_images), label="captions", unit="photos", show=show_progress) as progress:
        for _, result in captioner.caption_each(captioned_images, **options):
            results.append(result)
            progress.advance(1)
    return results
