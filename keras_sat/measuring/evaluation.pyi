"""Made by docs/make_stubs.py: the signatures, with all options."""

import os
from typing import Any

from data_utils.captions import CaptionedImage
from keras_sat.measuring.faithfulness import (
    PIXEL_PHOTOS,
)
from keras_sat.measuring.table import ScoreTable

TOKENISATION = "data_utils.tokenise"
NUM_REFERENCES = 5
FEW_PHOTOS = 20
SEEN_IN_TRAINING = "Pass the split_seed (--split-seed) used in training, or choose other photos. allow_training_photos=True (--allow-training-photos) scores them anyway."

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
    num_beams: int | None = None,
    max_length: int = 20,
    allow_unknown: bool = False,
    length_penalty: float | None = None,
    no_repeat_ngram: int | None = None,
    consensus_weight: float | None = None,
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

    Options:
        num_beams: number of beams; 1: greedy. Default: None (3, or 10 for consensus, or num_results if more).
        max_length: maximum number of words, including `<end>`. Default: 20.
        allow_unknown: allow `<unk>` in captions. Default: False.
        length_penalty: values above 0 favour longer captions. Default: the captioner's own.
        no_repeat_ngram: do not repeat n-grams of this length; 0: no limit; try 3. Default: the captioner's own.
        consensus_weight: weight of the agreement with the words of similar training photos; try 8. Default: the captioner's own."""
    ...

def evaluate_captions(
    captions: Any,
    data: str | list[CaptionedImage],
    *,
    data_dir: str | os.PathLike | None = None,
    split: str = "test",
    split_seed: int | None = None,
    compare_with: str | tuple[str, ...] | list[str] = (),
    show_progress: bool = True,
) -> ScoreTable: ...
def described_photos(all_images, split): ...
def open_cache(cache, captioner): ...
