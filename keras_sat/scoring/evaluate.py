"""Generate captions for the photos of a split, and score them."""

import dataclasses
import functools
import inspect
import os
import warnings
from pathlib import Path
from typing import Any, Unpack

from data_utils.atomic_files import read_json
from data_utils.captions import CaptionedImage, image_id_of, reject_long_caption, tokenise
from data_utils.datasets.phrase_boxes import read_boxes
from data_utils.datasets.read import photos_of_split, read_data
from data_utils.foreign_text import brief
from data_utils.images import readable_photos
from data_utils.photo_digests import photo_of, size_of
from data_utils.progress import Progress
from data_utils.training_photos import seen_in_training, warn_of_copies
from keras_sat.option_types import ConsensusKeywords
from keras_sat.options import (
    CONSENSUS_BEAMS,
    CaptionerOptions,
    ConsensusOptions,
    SearchOptions,
    with_options,
)
from keras_sat.scoring.faithfulness import PIXEL_PHOTOS, measure, reject_unfit
from keras_sat.scoring.faithfulness import figures_of as means_of
from keras_sat.scoring.phrases import GROUNDING, figures_of, ground_captions, ground_phrases
from keras_sat.scoring.published import PUBLISHED
from keras_sat.scoring.region_nouns import region_nouns
from keras_sat.scoring.scores import SCORES
from keras_sat.scoring.table import PERSON, ScoreTable, coco_image_id

TOKENISATION = "data_utils.tokenise"
NUM_REFERENCES = 5  # COCO has more for some photos; the paper drops the rest


@with_options(ConsensusOptions)
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
    compare_with: str | tuple[str, ...] | list[str] = (),
    boxes: Any = None,
    regions: bool = False,
    faithfulness: bool = False,
    pixel_photos: int = PIXEL_PHOTOS,
    keep_results: bool = False,
    show_progress: bool = True,
    **options: Unpack[ConsensusKeywords],
) -> ScoreTable:
    """Caption the photos of one split and score the captions; return a ScoreTable.

    Args:
        captioner: Captioner or Ensemble.
        data: a name in DATASETS, or a list of CaptionedImage.
        data_dir: the folder of the data set.
        split: "train", "dev" or "test".
        split_seed: if given, split the photos 80/10/10 at random with this seed; use
            the seed from training.
        cache: FeatureCache with the photos' features, or its folder; None encodes the
            photos.
        batch_size: photos captioned at a time.
        skip_unreadable: skip unreadable photos, with a warning that counts them. Photos
            that the cache lists as unreadable are always skipped.
        allow_training_photos: score dev or test photos that the captioner was trained
            on, with a warning. By default they are rejected, even if renamed or
            resized; but if all have other names, and are at most 1 % of the photos,
            there is only a warning.
        compare_with: rows to print below the scores: "paper", the paper's scores for
            this data set; "human", the first reference of each photo, scored against
            its other references.
        boxes: boxes of what the words name, to measure attention: Boxes, or a path that
            `data_utils.datasets.phrase_boxes.read_boxes` accepts.
        regions: with `boxes`, also describe their regions, see
            `keras_sat.scoring.region_nouns`.
        faithfulness: measure whether words depend on the places that they attend to, in
            the generated captions and in the first human caption of each photo; see
            `keras_sat.scoring.faithfulness`.
        pixel_photos: of so many photos blur these places too. That encodes a photo some
            twenty times.
        keep_results: keep the photos' CaptionResults in the table, with their attention
            maps.
        **options: see `keras_sat.options.ConsensusOptions`.
    """
    search = ConsensusOptions.of("evaluate", options, also=inspect.signature(evaluate).parameters)
    if not hasattr(captioner, "caption"):
        raise ValueError(
            f"The first argument must be a Captioner, the second the data. Received: {captioner=}"
        )
    if faithfulness:
        reject_unfit(captioner, pixel_photos)
    if regions and boxes is None:
        raise ValueError(
            "Regions require `boxes`, which they are taken from. Received: regions=True "
            "and boxes=None"
        )
    every = read_data(data, data_dir, split_seed=split_seed, show_progress=show_progress)
    images = photos_of_split([image for image in every if image.captions], split)
    if isinstance(cache, (str, Path)):
        from data_utils.features.cache import FeatureCache

        cache = FeatureCache.open(cache, encoder=captioner.encoder_model)
    if cache is None:
        digests = {}
        images = readable_photos(
            images, skip=skip_unreadable, show_progress=show_progress, noted=digests
        )
    else:
        if unreadable := [image.image_id for image in images if image.image_id in cache.unreadable]:
            found = (
                f"{len(unreadable)} photos that the cache lists as unreadable are skipped: "
                f"{unreadable[0]}"
            )
            warnings.warn(found, stacklevel=3)
        images = [image for image in images if image.image_id not in cache.unreadable]
        cache.reject_changed(
            [image.image_id for image in images], [image.image_path for image in images]
        )
        digests = cache.noted_of([image.image_id for image in every])
    way_out = (
        "Pass the split_seed (--split-seed) used in training, or choose other photos. "
        "allow_training_photos=True"
    )
    way_out += f" (--allow-training-photos) scores them anyway. Received: split={split!r}"
    is_allowed = allow_training_photos or split == "train"
    num_seen = check_training_photos(
        captioner, images, f"in {split!r}", way_out, is_allowed=is_allowed
    )
    if split != "train":
        _warn_of_copies(
            images, [image for image in every if image.split == "train"], split, digests
        )
    boxes = None if boxes is None else read_boxes(boxes, images)
    rows = _other_rows(compare_with, data, images)
    own = getattr(captioner, "options", CaptionerOptions())
    options = {
        name: getattr(own, name)
        for name in ("length_penalty", "no_repeat_ngram", "no_repeat_around")
    }
    options |= {name: value for name, value in search.to_dict().items() if value is not None}
    agreeing = getattr(captioner, "consensus_options", lambda _: None)(
        SearchOptions(**search.to_dict())
    )
    options["num_beams"] = search.num_beams or (CONSENSUS_BEAMS if agreeing else search.beams)
    options |= {"consensus_weight": agreeing["consensus_weight"]} if agreeing else {}
    reading = {"cache": cache, "batch_size": batch_size, "show_progress": show_progress}
    results = caption_photos(captioner, images, **reading, **options)
    settings = _settings(data, split, split_seed, captioner.encoder, options)
    if (source := getattr(captioner, "source", None)) is not None:
        settings["source"] = source
    if len(getattr(captioner, "captioners", [])) > 1:
        settings["models"] = len(captioner.captioners)
    table = _score_table(images, [result.caption for result in results], settings, every, rows)
    table.statistics["training_photos"] = num_seen
    if boxes is not None:
        of_people = ground_phrases(captioner, images, boxes, **reading)
        grounded = {"grounding": figures_of(of_people)}
        grounded["grounding_generated"] = figures_of(ground_captions(results, images, boxes))
        photos = {**table.photos, GROUNDING.contributions: of_people.round(10).tolist()}
        if regions:
            describe = functools.partial(caption_photos, captioner, images, **reading, **options)
            grounded["regions"] = region_nouns(images, boxes, results, describe)
        table = dataclasses.replace(table, photos=photos, **grounded)
    if faithfulness:
        photos, figures, own = dict(table.photos), {}, [result.words for result in results]
        of_people = [tokenise(image.captions[0]) for image in images]
        for name, captions in (("faithfulness", own), ("faithfulness_references", of_people)):
            of_photos = measure(captioner, images, captions, pixel_photos=pixel_photos, **reading)
            photos[name], figures[name] = (
                of_photos.round(6).tolist(),
                means_of(of_photos, captioner.num_regions),
            )
        table = dataclasses.replace(table, photos=photos, **figures)
    if keep_results:
        table = dataclasses.replace(
            table, images=images, results=[dataclasses.replace(x, image=None) for x in results]
        )
    return table


def evaluate_captions(
    captions: Any,
    data: str | list[CaptionedImage],
    *,
    data_dir: str | os.PathLike | None = None,
    split: str = "test",
    split_seed: int | None = None,
    compare_with: str | tuple[str, ...] | list[str] = (),
    show_progress: bool = True,
) -> ScoreTable:
    """Score captions from any system; return a ScoreTable.

    Args:
        captions: one caption for each photo of the split: the path of a JSON file from
            `keras-sat evaluate --json` or `--coco-results`, or a list of dicts with
            image_id and caption.
        data, data_dir, split, split_seed, compare_with, show_progress: see `evaluate`.
    """
    source = captions if isinstance(captions, (str, Path)) else "captions"
    texts = _read_captions(captions, source)
    every = read_data(data, data_dir, split_seed=split_seed, show_progress=show_progress)
    images = photos_of_split([image for image in every if image.captions], split)
    rows = _other_rows(compare_with, data, images)
    keys = [_caption_key(image.image_id) for image in images]
    missing = [image.image_id for image, key in zip(images, keys) if key not in texts]
    foreign = sorted(
        texts.keys() - {_caption_key(image.image_id) for image in every if image.split == split}
    )
    if missing or foreign:
        raise ValueError(
            f"{source}: Expected one caption for each photo of the split {split!r}. "
            f"Received: no caption for {len(missing)} of its {len(keys)} photos, and "
            f"{len(foreign)} for other photos "
            f"(first: {brief([*missing, *foreign][0])})"
        )
    return _score_table(
        images, [texts[key] for key in keys], _settings(data, split, split_seed), every, rows
    )


def _settings(data, split, split_seed, encoder=None, search=None):
    """Return the settings of a ScoreTable, including search options that differ from
    their defaults.
    """
    search, defaults = search or {}, ConsensusOptions.defaults()
    num_beams = search.get("num_beams")
    # Greedy search has none.
    length_penalty = None if num_beams == 1 else search.get("length_penalty")
    settings = {"data": _name(data), "split": split, "encoder": encoder, "num_beams": num_beams}
    settings |= {"length_penalty": length_penalty, "tokenisation": TOKENISATION}
    others = {name: value for name, value in search.items() if name not in settings}
    settings |= {
        name: value for name, value in others.items() if value not in (0, "", defaults[name])
    }
    return settings if split_seed is None else {**settings, "split_seed": split_seed}


def _score_table(images, captions, settings, every_image, rows):
    references = [
        [tokenise(caption) for caption in image.captions[:NUM_REFERENCES]] for image in images
    ]
    candidates = [tokenise(caption) for caption in captions]
    scores, photos = _scores(references, candidates)
    train = {
        tuple(tokenise(caption))
        for image in every_image
        if image.split == "train"
        for caption in image.captions
    }
    statistics = {
        "photos": len(images),
        "distinct_captions": len(set(captions)),
        "empty_captions": sum(not words for words in candidates),
        "vocabulary_used": len({word for words in candidates for word in words}),
        "seen_in_training": sum(tuple(words) in train for words in candidates) / len(candidates)
        if train
        else None,
    }
    captions = [
        {"image_id": image.image_id, "caption": text} for image, text in zip(images, captions)
    ]
    return ScoreTable(scores, settings, captions, statistics, photos, compare_with=rows)


def _scores(references, candidates):
    """Score captions (lists of words).

    Return two dicts: all scores, and the contributions of each photo.
    """
    scores, photos = {}, {}
    for score in SCORES.values():
        figures, contributions = score.measure(references, candidates)
        scores |= figures
        photos[score.contributions] = (
            None if contributions is None else contributions.round(10).tolist()
        )
    return scores, photos


def check_training_photos(captioner, images, called, way_out, *, is_allowed=False):
    """Reject or warn about photos that a captioner was trained on; return their number,
    or None if unknown.

    Args:
        called, way_out: parts of the message: what the photos are, such as "in 'test'",
            and its end.
        is_allowed: only warn.
    """
    record, ids = getattr(captioner, "training_photos", None), [image.image_id for image in images]
    if record is None:
        return None
    if seen := seen_in_training(ids, record):
        found = f"The captioner was trained on {len(seen)} of the {len(images)} photos {called}"
        found += (
            f" ({seen[0]!r}, for example), so the scores do not show how well it captions "
            "other photos."
        )
        if not is_allowed:
            raise ValueError(f"{found} {way_out}")
        warnings.warn(found, stacklevel=3)
    return len(seen)


def _warn_of_copies(images, train, split, digests):
    """Warn about photos of a split that are copies of training photos.

    Read only files of equal size.
    """
    sizes = {
        int(digests[image.image_id]["size"]) for image in images if image.image_id in digests
    } - {0}
    others = [
        image
        for image in train
        if image.image_id not in digests and size_of(image.image_path) in sizes
    ]
    digests = digests | {image.image_id: photo_of(image.image_path) for image in others}
    therefore = "a captioner trained on this data has seen them"
    warn_of_copies(train, images, digests, f"in {split!r} are in 'train'", therefore, stacklevel=3)


def _other_rows(compare_with, data, images):
    """Return the rows that `compare_with` requests (the paper, human captions) as a
    dict from labels to scores.
    """
    possible = ("human", "paper") if _name(data) in PUBLISHED else ("human",)
    if not set(compare_with) <= set(possible):
        problem = (
            f"`compare_with` accepts: {', '.join(possible)}. The paper has scores for "
            f"{', '.join(PUBLISHED)}."
        )
        raise ValueError(
            f"{problem} Received: compare_with={compare_with!r} with data={_name(data)!r}"
        )
    rows = dict(PUBLISHED[data]) if "paper" in compare_with else {}
    if "human" in compare_with:
        if alone := sum(len(image.captions) < 2 for image in images):
            problem = (
                "Scoring human captions requires at least two per photo: leave 'human' out "
                "of --compare-with."
            )
            raise ValueError(f"{problem} Received: {alone} photos with one caption")
        references = [
            [tokenise(caption) for caption in image.captions[:NUM_REFERENCES]] for image in images
        ]
        human, _ = _scores(
            [captions[1:] for captions in references], [captions[0] for captions in references]
        )
        rows[PERSON] = {
            name: value for name, value in human.items() if not name.endswith("_no_penalty")
        }
    return rows


def _name(data):
    return data if isinstance(data, str) else "a list of photos"


def _read_captions(captions, source):
    """Read captions from a file or list; return a dict by photo.

    `source` names the captions in error messages.
    """
    if isinstance(captions, (str, Path)):
        captions = read_json(
            Path(captions).expanduser(), "a list of objects with image_id and caption"
        )
        captions = captions.get("captions") if isinstance(captions, dict) else captions
    if not isinstance(captions, (list, tuple)):
        captions = [captions]
    texts = {}
    for number, entry in enumerate(captions):
        image_id, text = (
            (entry.get(name) for name in ("image_id", "caption"))
            if isinstance(entry, dict)
            else (0, 0)
        )
        key = _caption_key(image_id)
        if not isinstance(text, str) or type(image_id) not in (str, int):
            problem = (
                f"{source}: Expected a list of objects with image_id and caption, one for "
                "each photo."
            )
            raise ValueError(f"{problem} Received: entry {number} = {str(entry)[:80]}")
        if key in texts:
            raise ValueError(
                f"{source}: Expected one caption per photo. Received: two captions for "
                f"{brief(image_id)}"
            )
        reject_long_caption(text, image_id, source)
        texts[key] = text
    return texts


def _caption_key(image_id):
    """Return the same key for all forms of an image id: with or without extension, or
    COCO's number.
    """
    return str(coco_image_id(image_id_of(str(image_id))))


def caption_photos(
    captioner, captioned_images, cache=None, *, batch_size=64, show_progress=False, **search_options
):
    """Return a CaptionResult for each CaptionedImage.

    The options are those of `Captioner.caption_each`.
    """
    results = captioner.caption_each(
        captioned_images, cache=cache, batch_size=batch_size, **search_options
    )
    shown = {"label": "captions", "unit": "photos", "show": show_progress}
    return [result for _, result in Progress.over(results, len(captioned_images), **shown)]
