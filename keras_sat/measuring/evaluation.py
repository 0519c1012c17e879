"""Generate captions for the photos of a split, and score them."""

import dataclasses
import functools
import inspect
import os
import warnings
from pathlib import Path
from typing import Any

from data_utils.base import Progress, brief, read_json
from data_utils.captions import CaptionedImage, image_id_of, reject_long_caption, tokenise
from data_utils.datasets import photos_of_split, read_boxes, read_data
from data_utils.photos import readable_photos
from keras_sat.bounds import one_of
from keras_sat.measuring.faithfulness import (
    PIXEL_PHOTOS,
    faithfulness_figures,
    measure_faithfulness,
    reject_unfit_captioner,
)
from keras_sat.measuring.leakage import check_training_photos, warn_of_copies_in_training
from keras_sat.measuring.phrase_grounding import (
    GROUNDING,
    ground_captions,
    ground_phrases,
    grounding_figures,
)
from keras_sat.measuring.published import PUBLISHED
from keras_sat.measuring.region_nouns import region_nouns
from keras_sat.measuring.scores import SCORES
from keras_sat.measuring.table import PERSON, ScoreTable, coco_image_id
from keras_sat.measuring.unsupported_nouns import unsupported_figures
from keras_sat.settings import MEASURED_MAPS, BeamSearch, Search, with_options

TOKENISATION = "data_utils.tokenise"
NUM_REFERENCES = 5  # COCO has more for some photos; the paper drops the rest
# Scores of fewer photos say little. Of 20 photos of Flickr8k they vary by 8 points of
# BLEU-1 and .28 of CIDEr (95 % interval), more than captioners differ; of 200 by a
# third of that.
FEW_PHOTOS = 20
SEEN_IN_TRAINING = (
    "Pass the split_seed (--split-seed) used in training, or choose other photos. "
    "allow_training_photos=True (--allow-training-photos) scores them anyway."
)


@with_options(Search, BeamSearch.names())
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
    map_kind: str = "attention",
    faithfulness: bool = False,
    pixel_photos: int = PIXEL_PHOTOS,
    keep_results: bool = False,
    show_progress: bool = True,
    **options: Any,
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
        regions: with `boxes`, also caption their regions, whose photos are read, even
            with a cache; see `keras_sat.measuring.region_nouns`.
        map_kind: the maps that `boxes` and `faithfulness` measure: "attention";
            "votes", the regions that speak for each word; or "votes-blurred", as a
            control; see `keras_sat.measuring.measured_maps`.
        faithfulness: measure whether words depend on the regions that they attend to,
            in the generated captions and in the first human caption of each photo; see
            `keras_sat.measuring.faithfulness`.
        pixel_photos: number of photos, from the first, in which to blur these regions,
            too; each of these photos is encoded some twenty times.
        keep_results: keep the photos' CaptionResults in the table, with their attention
            maps.
        **options: see `keras_sat.settings.Search`.
    """
    _check_arguments(captioner, boxes, regions, map_kind, faithfulness, pixel_photos)
    also = inspect.signature(evaluate).parameters
    search = captioner.search_for("evaluate", options, names=BeamSearch.names(), also=also)
    search = _as_carried_out(captioner, search, batch_size)

    all_images = read_data(data, data_dir, split_seed=split_seed, show_progress=show_progress)
    images = described_photos(all_images, split)
    cache = open_cache(cache, captioner)
    if cache is None:
        images, digests = _readable_photos(images, skip_unreadable, show_progress)
    else:
        images, digests = _cached_photos(images, all_images, cache)
    num_training_photos = check_training_photos(
        captioner,
        images,
        f"in {split!r}",
        f"{SEEN_IN_TRAINING} Received: split={split!r}",
        is_allowed=allow_training_photos or split == "train",
    )
    warn_of_copies_in_training(images, all_images, split, digests)
    _warn_of_few_photos(images)
    boxes = None if boxes is None else read_boxes(boxes, images)
    other_rows = _other_rows(compare_with, data, images)

    reading = {"cache": cache, "batch_size": batch_size, "show_progress": show_progress}
    of_photos = dataclasses.replace(search, votes=search.votes or map_kind != "attention")
    results = _captions(captioner, images, of_photos, cache, show_progress)

    settings = _settings(data, split, split_seed, captioner.encoder, search)
    settings |= _origin(captioner)
    settings |= {} if map_kind == "attention" else {"map_kind": map_kind}
    captions = [result.caption for result in results]
    table = _score_table(images, captions, settings, all_images, other_rows)
    table.statistics["training_photos"] = num_training_photos
    if boxes is not None:
        table = _add_grounding(table, captioner, images, results, boxes, map_kind, reading)
    if regions:
        # A crop has features of its own, which no cache has.
        describe = functools.partial(_captions, captioner, images, search, None, show_progress)
        nouns = region_nouns(images, boxes, results, describe)
        table = dataclasses.replace(table, regions=nouns)
    if faithfulness:
        options = {"pixel_photos": pixel_photos, "map_kind": map_kind, **reading}
        table = _add_faithfulness(table, captioner, images, results, options)
    if keep_results:
        without_photos = [dataclasses.replace(result, image=None) for result in results]
        table = dataclasses.replace(table, images=images, results=without_photos)
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
    all_images = read_data(data, data_dir, split_seed=split_seed, show_progress=show_progress)
    images = described_photos(all_images, split)
    _warn_of_few_photos(images)
    other_rows = _other_rows(compare_with, data, images)
    photos_of_texts = [image for image in all_images if image.split == split]
    _check_one_caption_each(texts, images, photos_of_texts, split, source)
    captions = [texts[_caption_key(image.image_id)] for image in images]
    settings = _settings(data, split, split_seed)
    return _score_table(images, captions, settings, all_images, other_rows)


# === Arguments and photos ===


def _check_arguments(captioner, boxes, regions, map_kind, faithfulness, pixel_photos):
    if not hasattr(captioner, "training_photos"):
        raise ValueError(
            "The first argument must be a Captioner or an Ensemble, which know their training "
            f"photos, the second the data. Received: {captioner=}"
        )
    one_of(*MEASURED_MAPS).check("map_kind", map_kind)
    if map_kind != "attention":
        captioner.engine.check(votes=True)
    if faithfulness:
        reject_unfit_captioner(captioner, pixel_photos)
    if regions and boxes is None:
        raise ValueError(
            "Regions require `boxes`, which they are taken from. Received: regions=True "
            "and boxes=None"
        )


def described_photos(all_images, split):
    """Return the photos of a split that have captions."""
    return photos_of_split([image for image in all_images if image.captions], split)


def open_cache(cache, captioner):
    """Return a FeatureCache, given one or its folder; None without a cache."""
    if not isinstance(cache, (str, Path)):
        return cache
    from data_utils.features import FeatureCache

    return FeatureCache.open(cache, encoder=captioner.encoder_model)


def _readable_photos(images, skip_unreadable, show_progress):
    """Return the photos that can be read, and their digests, a dict by image id."""
    digests = {}
    images = readable_photos(
        images, skip=skip_unreadable, show_progress=show_progress, noted=digests
    )
    return images, digests


def _cached_photos(images, all_images, cache):
    """Return the photos that were read for the cache, and the digests of all photos, a
    dict by image id.

    Raise ValueError if their files have changed since.
    """
    images = cache.readable(images)
    cache.reject_changed(
        [image.image_id for image in images], [image.image_path for image in images]
    )
    return images, cache.noted_of([image.image_id for image in all_images])


def _warn_of_few_photos(images):
    if len(images) < FEW_PHOTOS:
        warnings.warn(
            f"Scores of so few photos say little about others. Expected at least {FEW_PHOTOS}, "
            f"better some hundred. Received: {len(images)} photos",
            stacklevel=3,
        )


# === Captions and settings ===


def _captions(captioner, images, search, cache, show_progress, regions=None):
    """Return a CaptionResult for each CaptionedImage, or with `regions` a list."""
    results = captioner.caption_images(images, search, cache=cache, regions=regions)
    shown = {"label": "captions", "unit": "photos", "show": show_progress}
    return [result for _, result in Progress.over(results, len(images), **shown)]


def _as_carried_out(captioner, search, batch_size):
    """Return a Search of beams with all that the captioner decides: their number, and
    whether there is a consensus.
    """
    search = dataclasses.replace(search.without_sampling(), batch_size=batch_size)
    uses_consensus = captioner.uses_consensus(search)
    return dataclasses.replace(
        search,
        num_beams=search.resolved_num_beams(uses_consensus),
        consensus_weight=search.consensus_weight if uses_consensus else 0.0,
    )


def _origin(captioner):
    """Return settings about where a captioner comes from: the model that it started
    from, and the number of members of an Ensemble.
    """
    settings = {}
    source = getattr(captioner, "source", None)  # an Ensemble has none
    if source is not None:
        settings["source"] = source
    num_members = len(getattr(captioner, "captioners", []))
    if num_members > 1:
        settings["models"] = num_members
    return settings


def _settings(data, split, split_seed, encoder=None, search=None):
    """Return the settings of a ScoreTable, including those of the Search that differ
    from their defaults; None: the captions are from elsewhere.
    """
    is_beam_search = search is not None and search.num_beams > 1  # greedy has no length penalty
    settings = {
        "data": _name(data),
        "split": split,
        "encoder": encoder,
        "num_beams": None if search is None else search.num_beams,
        "length_penalty": search.length_penalty if is_beam_search else None,
        "tokenisation": TOKENISATION,
    }
    for name, default in {} if search is None else BeamSearch.defaults().items():
        value = getattr(search, name)
        if name not in settings and value not in (0, "", default):
            settings[name] = value
    if split_seed is not None:
        settings["split_seed"] = split_seed
    return settings


def _name(data):
    return data if isinstance(data, str) else "a list of photos"


# === Scores ===


def _score_table(images, captions, settings, all_images, other_rows):
    """Return the ScoreTable of captions, one for each of the images; `all_images` are
    those of all splits.
    """
    candidates = [tokenise(caption) for caption in captions]
    references = _references(images)
    scores, photos = _scores(references, candidates)
    entries = [
        {"image_id": image.image_id, "caption": caption} for image, caption in zip(images, captions)
    ]
    statistics = {
        "photos": len(images),
        "distinct_captions": len(set(captions)),
        "empty_captions": sum(not words for words in candidates),
        "vocabulary_used": len({word for words in candidates for word in words}),
        "seen_in_training": _fraction_seen_in_training(candidates, all_images),
        **unsupported_figures(references, candidates),
    }
    return ScoreTable(scores, settings, entries, statistics, photos, compare_with=other_rows)


def _references(images):
    """Return the references of each photo as lists of words."""
    return [[tokenise(caption) for caption in image.captions[:NUM_REFERENCES]] for image in images]


def _fraction_seen_in_training(candidates, all_images):
    """Return the fraction of captions (lists of words) that occur in the training
    split; None without one.
    """
    training_captions = {
        tuple(tokenise(caption))
        for image in all_images
        if image.split == "train"
        for caption in image.captions
    }
    if not training_captions:
        return None
    num_seen = sum(tuple(words) in training_captions for words in candidates)
    return num_seen / len(candidates)


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


# === Other rows of the table ===


def _other_rows(compare_with, data, images):
    """Return the rows that `compare_with` requests (the paper, human captions) as a
    dict from labels to scores.
    """
    possible = ("human", "paper") if _name(data) in PUBLISHED else ("human",)
    if not set(compare_with) <= set(possible):
        raise ValueError(
            f"`compare_with` accepts: {', '.join(possible)}. The paper has scores for "
            f"{', '.join(PUBLISHED)}. Received: compare_with={compare_with!r} with "
            f"data={_name(data)!r}"
        )
    rows = {}
    if "paper" in compare_with:
        rows |= PUBLISHED[data]
    if "human" in compare_with:
        rows[PERSON] = _human_scores(images)
    return rows


def _human_scores(images):
    """Score the first reference of each photo against its other references."""
    num_single = sum(len(image.captions) < 2 for image in images)
    if num_single:
        raise ValueError(
            "Scoring human captions requires at least two per photo: leave 'human' out of "
            f"--compare-with. Received: {num_single} photos with one caption"
        )
    references = _references(images)
    scores, _ = _scores(
        [captions[1:] for captions in references], [captions[0] for captions in references]
    )
    return {name: value for name, value in scores.items() if not name.endswith("_no_penalty")}


# === Measures of attention ===


def _add_grounding(table, captioner, images, results, boxes, map_kind, reading):
    """Return a table with the figures of attention, or of votes, on boxes; `reading`
    are the options with which photos are read.
    """
    human_sums = ground_phrases(captioner, images, boxes, map_kind=map_kind, **reading)
    result_sums = ground_captions(results, images, boxes, map_kind=map_kind)
    photos = {**table.photos, GROUNDING.contributions: human_sums.round(10).tolist()}
    return dataclasses.replace(
        table,
        photos=photos,
        grounding=grounding_figures(human_sums),
        grounding_generated=grounding_figures(result_sums),
    )


def _add_faithfulness(table, captioner, images, results, options):
    """Return a table with the figures of faithfulness, for the results and for the
    first human caption of each photo; `options` are those of `measure`.
    """
    captions = {
        "faithfulness": [result.words for result in results],
        "faithfulness_references": [tokenise(image.captions[0]) for image in images],
    }
    photos, figures = dict(table.photos), {}
    for name, words in captions.items():
        photo_sums = measure_faithfulness(captioner, images, words, **options)
        photos[name] = photo_sums.round(6).tolist()
        figures[name] = faithfulness_figures(photo_sums, captioner.num_regions)
    return dataclasses.replace(table, photos=photos, **figures)


# === Captions from a file ===


def _read_captions(captions, source):
    """Read captions from a file or list; return a dict from keys of photos to captions.

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
        fields = entry if isinstance(entry, dict) else {}
        image_id, text = fields.get("image_id"), fields.get("caption")
        if not isinstance(text, str) or type(image_id) not in (str, int):
            raise ValueError(
                f"{source}: Expected a list of objects with image_id and caption, one for "
                f"each photo. Received: entry {number} = {str(entry)[:80]}"
            )
        key = _caption_key(image_id)
        if key in texts:
            raise ValueError(
                f"{source}: Expected one caption per photo. Received: two captions for "
                f"{brief(image_id)}"
            )
        reject_long_caption(text, image_id, source)
        texts[key] = text
    return texts


def _check_one_caption_each(texts, images, photos_of_texts, split, source):
    """Raise ValueError unless there is a text for each image, and for no photos but
    `photos_of_texts`, which include those without references.
    """
    missing_ids = [image.image_id for image in images if _caption_key(image.image_id) not in texts]
    known_keys = {_caption_key(image.image_id) for image in photos_of_texts}
    foreign_keys = sorted(texts.keys() - known_keys)
    if missing_ids or foreign_keys:
        raise ValueError(
            f"{source}: Expected one caption for each photo of the split {split!r}. "
            f"Received: no caption for {len(missing_ids)} of its {len(images)} photos, and "
            f"{len(foreign_keys)} for other photos "
            f"(first: {brief([*missing_ids, *foreign_keys][0])})"
        )


def _caption_key(image_id):
    """Return the same key for all forms of an image id: with or without extension, or
    COCO's number.
    """
    return str(coco_image_id(image_id_of(str(image_id))))
