"""How good are the captions? Caption the photos of a split, free-running, and score what comes out."""

import csv
import dataclasses
import io
import math
import re
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from data_utils.captions import image_id_of, refuse_long_caption, tokenise
from data_utils.datasets.read import photos_of_split, read_data
from data_utils.files import read_json, write_json, write_whole
from data_utils.images import readable_photos
from data_utils.progress import Progress
from keras_sat.checks import check_axes, with_known_options
from keras_sat.model.learnt_photos import learnt_of
from keras_sat.scoring.bleu import bleu_counts, bleu_of_counts
from keras_sat.scoring.cider import cider_of_photos
from keras_sat.scoring.meteor import score_meteor
from keras_sat.scoring.published import PUBLISHED
from keras_sat.scoring.rouge import rouge_l_of_photos

TOKENISATION = "data_utils.tokenise"
NUM_REFERENCES = 5  # COCO has more for some photos; the paper cuts them
BESIDE = ("paper", "human")
PERSON = "a person"
COUNTS = ("photos", "distinct_captions", "empty_captions", "vocabulary_used", "seen_in_training")
USUAL_MAX_LENGTH = 20
COLUMNS = {"bleu_1": "BLEU-1", "bleu_2": "BLEU-2", "bleu_3": "BLEU-3", "bleu_4": "BLEU-4"}
COLUMNS |= {"meteor": "METEOR", "rouge_l": "ROUGE-L", "cider": "CIDEr"}


@dataclass(frozen=True)
class ScoreTable:
    """Scores, and all that they depend on. Printed, it is a table.

    Attributes:
        scores: dict from the name of a score to its value, as a fraction; CIDEr as coco-caption prints it. "meteor" is
            None where it cannot be computed, and "meteor_kind" says which METEOR it is.
        settings: dict: data, split, encoder, num_beams, length_penalty, tokenisation; None where captions came from a
            file. Also max_length and split_seed, where they are not the usual ones, and models, how many an Ensemble
            has.
        statistics: dict: photos, distinct_captions, empty_captions, vocabulary_used, and seen_in_training, the share of
            captions that are a training caption word for word (None where the data has no training split);
            training_photos, how many of the photos the captioner has learnt from (None where that is not known); and
            with `keras-sat evaluate --grounding` grounding, see `Grounding.to_dict`.
        captions: list with a dict of image_id and caption for each photo.
        photos: what each photo contributes: dict of lists, "bleu_counts" (see `bleu.bleu_counts`), "rouge_l",
            "cider" and "meteor" (None where it cannot be computed).
        beside: dict from a label to scores of others, which are printed below.
        images, results: list of CaptionedImage and list of CaptionResult (without the photo), one for each photo;
            empty unless `evaluate` was asked to keep them. Files do not hold them.
    """

    scores: dict
    settings: dict
    captions: list = dataclasses.field(repr=False)
    statistics: dict = dataclasses.field(default_factory=dict)
    photos: dict = dataclasses.field(default_factory=dict, repr=False)
    beside: dict = dataclasses.field(default_factory=dict, repr=False)
    images: list = dataclasses.field(default_factory=list, repr=False, compare=False)
    results: list = dataclasses.field(default_factory=list, repr=False, compare=False)

    def __str__(self):
        rows = self._rows(self.beside)
        width = max(map(len, rows)) + 1
        lines = [" " * width + "".join(f"{title:>8}" for title in COLUMNS.values())]
        for label, scores in rows.items():
            lines.append(f"{label:{width}}" + "".join(f"{_shown(name, scores.get(name)):>8}" for name in COLUMNS))
        if self.beside.keys() - {PERSON}:
            lines.append("The paper's BLEU is without brevity penalty.")
        if PERSON in self.beside:
            lines.append("A person's caption has one reference less.")
        lines.append(f"METEOR: {self.scores['meteor_kind']}")
        return "\n".join([*lines, self._counts(), ", ".join(f"{name} {value}" for name, value in self._known())])

    def _rows(self, beside):
        """Return the rows that are shown: a dict from a label to a dict of scores."""
        without = {name: self.scores[f"{name}_no_penalty"] for name in COLUMNS if f"{name}_no_penalty" in self.scores}
        rows = {"these captions": self.scores, "  without brevity penalty": without}
        for label, scores in beside.items():
            rows[label] = {**{name.removesuffix("_no_penalty"): value for name, value in scores.items()}, **scores}
        return rows

    def plot(self, ax=None):
        """Draw a bar for each score, beside those of `beside`, or of the paper where it has this data set.

        All are in hundredths, CIDEr too. The paper's BLEU is without brevity penalty; ours is there both ways.

        Args:
            ax: matplotlib axes; None makes a new figure.

        Returns: the axes.
        """
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(figsize=(9, 3.5), layout="constrained")
        check_axes(ax)
        rows = self._rows(self.beside or PUBLISHED.get(self.settings["data"], {}))
        width = 0.8 / len(rows)
        for number, (label, scores) in enumerate(rows.items()):
            heights = [math.nan if scores.get(name) is None else 100 * scores[name] for name in COLUMNS]
            bars = ax.bar(np.arange(len(COLUMNS)) - 0.4 + (number + 0.5) * width, heights, width, label=label.strip())
            ax.bar_label(bars, ["" if math.isnan(height) else f"{height:.1f}" for height in heights], fontsize=6)
        ax.set_xticks(range(len(COLUMNS)), COLUMNS.values())
        ax.set_xlim(-0.5, len(COLUMNS) - 0.5)
        ax.set_ylabel("hundredths")
        ax.legend(fontsize="small")
        return ax

    def _counts(self):
        counts = self.statistics
        empty = f" ({counts['empty_captions']} with an empty caption)" if counts["empty_captions"] else ""
        text = f"{counts['photos']} photos{empty}, {counts['distinct_captions']} different captions"
        text += f", {counts['vocabulary_used']} words used"
        text += f", {learnt} training photos" if (learnt := counts.get("training_photos")) else ""
        seen = counts["seen_in_training"]
        return text if seen is None else f"{text}, {100 * seen:.1f} % of the captions are in the data's train split"

    def _known(self):
        return [(name, value) for name, value in self.settings.items() if value is not None]

    def to_json(self, path):
        """Write scores, settings, statistics, captions, and what each photo contributes, as JSON; not `beside`."""
        write_json(path, {name: getattr(self, name) for name in _PARTS})

    @classmethod
    def from_json(cls, path):
        """Return the table that `to_json` wrote."""
        parts = read_json(path, "the scores that `keras-sat evaluate --json` wrote")
        if not _is_score_table(parts):
            raise ValueError(
                f"{path}: expected an object with {', '.join(_PARTS)}, as `keras-sat evaluate --json` writes it."
            )
        return cls(**{name: parts[name] for name in _PARTS})

    def to_coco_results(self, path):
        """Write the captions as coco-caption reads them: a list of image_id and caption; numbers for COCO's photos."""
        entries = [{**entry, "image_id": _coco_image_id(entry["image_id"])} for entry in self.captions]
        write_json(path, entries)

    def to_csv(self, path):
        """Write a line for each photo: its caption and its own scores."""
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(["image_id", "caption", *COLUMNS])
        for number, entry in enumerate(self.captions):
            scores = bleu_of_counts(np.array(self.photos["bleu_counts"][number]))
            for name in ("meteor", "rouge_l", "cider"):
                scores[name] = None if self.photos[name] is None else self.photos[name][number]
            cells = ["" if scores[name] is None else f"{scores[name]:.6f}" for name in COLUMNS]
            writer.writerow([entry["image_id"], entry["caption"], *cells])
        write_whole(Path(path).expanduser(), text.getvalue())


_PARTS = {"scores": dict, "settings": dict, "statistics": dict, "captions": list, "photos": dict}


def _is_score_table(parts):
    """Return whether parts are those that `to_json` wrote, as far as `compare` relies on them."""
    if not isinstance(parts, dict) or not all(isinstance(parts.get(name), kind) for name, kind in _PARTS.items()):
        return False
    entries, photos = parts["captions"], parts["photos"]
    if "meteor_kind" not in parts["scores"] or not all(isinstance(e, dict) and "image_id" in e for e in entries):
        return False
    if not entries or not {"bleu_counts", "rouge_l", "cider", "meteor"} <= photos.keys():
        return False
    if not set(COUNTS) <= parts["statistics"].keys():
        return False
    try:
        arrays = {name: np.array(values) for name, values in photos.items() if values is not None}
    except ValueError:
        return False
    if not all(array.dtype.kind in "iuf" and np.isfinite(array).all() for array in arrays.values()):
        return False
    shapes = {name: array.shape for name, array in arrays.items()}
    expected = dict.fromkeys(shapes, (len(entries),)) | {"bleu_counts": (len(entries), 10)}
    return shapes == expected and {"rouge_l", "cider"} <= shapes.keys()


def _shown(name, score):
    if score is None:
        return "-"
    return f"{score:.3f}" if name == "cider" else f"{100 * score:.1f}"


# === Scoring a captioner, or captions ===


@with_known_options()
def evaluate(
    captioner,
    data,
    *,
    data_dir=None,
    split="test",
    split_seed=None,
    cache=None,
    num_beams=3,
    length_penalty=None,
    max_length=USUAL_MAX_LENGTH,
    batch_size=64,
    skip_unreadable=False,
    allow_training_photos=False,
    beside=(),
    keep_results=False,
    show_progress=True,
):
    """Return the ScoreTable of a captioner on the photos of one split.

    Args:
        captioner: Captioner or Ensemble.
        data: a name in DATASETS, or a list of CaptionedImage.
        data_dir: the folder of the data set.
        split: "train", "dev" or "test".
        split_seed: draw a split of 80/10/10 by photo with this seed; the same as in training.
        cache: FeatureCache with the photos' features, or its folder; None encodes the photos.
        num_beams, length_penalty, max_length, batch_size: see `Captioner.caption_features`.
        skip_unreadable: leave out photos that cannot be read, with a warning that counts them. Those that the cache
            lists as unreadable always are.
        allow_training_photos: score photos of dev or test, too, that the captioner has learnt from, with a warning.
            They are refused otherwise: such scores say nothing of other photos.
        beside: what to print below: "paper", its rows for this data set; "human", the first reference of each photo,
            scored against the others.
        keep_results: keep the photos' CaptionResults in the table, with their attention maps.
        show_progress: show progress on standard error.
    """
    if not hasattr(captioner, "caption"):
        raise ValueError(
            "Expected a Captioner, as `Captioner.load(folder)` returns it, and then the data. "
            f"Received: captioner={captioner!r}"
        )
    _check_beside(beside, data)
    every = read_data(data, data_dir, split_seed=split_seed, show_progress=show_progress)
    images = photos_of_split([image for image in every if image.captions], split)
    _refuse_training_photos(captioner, images, split, allow_training_photos)
    if isinstance(cache, (str, Path)):
        from data_utils.features.cache import FeatureCache

        cache = FeatureCache.open(cache, encoder=captioner.encoder_model)
    if cache is None:
        images = readable_photos(images, skip=skip_unreadable, show_progress=show_progress)
    elif any(image.image_id in cache.unreadable for image in images):
        lost = [image.image_id for image in images if image.image_id in cache.unreadable]
        warnings.warn(f"{len(lost)} photos that the cache lists as unreadable are left out: {lost[0]}", stacklevel=3)
        images = [image for image in images if image.image_id not in cache.unreadable]
    _check_references(beside, images)
    length_penalty = getattr(captioner, "length_penalty", 0.0) if length_penalty is None else length_penalty
    options = {"num_beams": num_beams, "length_penalty": length_penalty, "max_length": max_length}
    results = caption_photos(captioner, images, cache, batch_size=batch_size, show_progress=show_progress, **options)
    length_penalty = length_penalty if num_beams > 1 else None  # greedy search knows none
    settings = _settings(data, split, captioner.encoder, num_beams, length_penalty, max_length, split_seed)
    if len(getattr(captioner, "captioners", [])) > 1:
        settings["models"] = len(captioner.captioners)
    learnt = _learnt_photos(captioner, images)
    table = _score_table(images, [result.caption for result in results], settings, every, beside)
    table.statistics["training_photos"] = None if learnt is None else len(learnt)
    if not keep_results:
        return table
    without_photos = [dataclasses.replace(result, image=None) for result in results]
    return dataclasses.replace(table, images=images, results=without_photos)


def evaluate_captions(captions, data, *, data_dir=None, split="test", split_seed=None, beside=(), show_progress=True):
    """Return the ScoreTable of captions that any system wrote, measured like those of a captioner.

    Args:
        captions: one for each photo of the split: the path of a JSON file, as `keras-sat evaluate --json` or
            `--coco-results` writes it, or a list of dicts of image_id and caption.
        data, data_dir, split, split_seed, beside, show_progress: see `evaluate`.
    """
    _check_beside(beside, data)
    texts = _read_captions(captions)
    every = read_data(data, data_dir, split_seed=split_seed, show_progress=show_progress)
    images = photos_of_split([image for image in every if image.captions], split)
    _check_references(beside, images)
    keys = [_caption_key(image.image_id) for image in images]
    twice = [key for key, count in Counter(keys).items() if count > 1]
    if twice:
        raise ValueError(
            "Two photos have the same id, but for their ending or for zeros before a number: their captions cannot be "
            f"told apart. Received: image_id={twice[0]!r}"
        )
    missing = [image.image_id for image, key in zip(images, keys) if key not in texts]
    of_split = {_caption_key(image.image_id) for image in every if image.split == split}
    foreign = sorted(texts.keys() - of_split)
    if missing or foreign:
        parts = [f"no caption for {len(missing)} of its {len(keys)} photos (first: {missing[0]!r})"] if missing else []
        parts += [f"{len(foreign)} captions of other photos (first: {foreign[0]!r})"] if foreign else []
        raise ValueError(
            f"{_source_of(captions)}: Expected one caption for each photo of the split {split!r}. "
            f"Received: {' and '.join(parts)}"
        )
    settings = _settings(data, split, split_seed=split_seed)
    return _score_table(images, [texts[key] for key in keys], settings, every, beside)


def _settings(
    data,
    split,
    encoder=None,
    num_beams=None,
    length_penalty=None,
    max_length=USUAL_MAX_LENGTH,
    split_seed=None,
):
    searched = {"encoder": encoder, "num_beams": num_beams, "length_penalty": length_penalty}
    settings = {"data": _name(data), "split": split, **searched, "tokenisation": TOKENISATION}
    unusual = {"max_length": max_length} if max_length != USUAL_MAX_LENGTH else {}
    return {**settings, **unusual, **({} if split_seed is None else {"split_seed": split_seed})}


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
    counts = bleu_counts(references, candidates)
    rouge_l, cider = rouge_l_of_photos(references, candidates), cider_of_photos(references, candidates)
    meteor = score_meteor(references, candidates)
    scores = {**bleu_of_counts(counts.sum(axis=0)), "rouge_l": float(rouge_l.mean()), "cider": float(cider.mean())}
    scores |= {"meteor": meteor.corpus, "meteor_kind": meteor.kind}
    photos = {"bleu_counts": counts, "rouge_l": rouge_l, "cider": cider, "meteor": meteor.of_photos}
    return scores, {name: None if values is None else values.round(10).tolist() for name, values in photos.items()}


# === Photos of the training ===


def _learnt_photos(captioner, images):
    """Return the ids of the photos that a captioner has learnt from; None where it does not know."""
    record = getattr(captioner, "training_photos", None)
    return None if record is None else learnt_of([image.image_id for image in images], record)


def _refuse_training_photos(captioner, images, split, allowed):
    """Warn of photos that a captioner has learnt from, or refuse them, where their split is not that of training."""
    learnt = _learnt_photos(captioner, images)
    if not learnt:
        return
    found = f"The captioner has learnt from {len(learnt)} of the {len(images)} photos in {split!r}"
    if split == "train" or allowed:
        warnings.warn(f"{found}: the scores do not tell how good it is on other photos.", stacklevel=3)
        return
    raise ValueError(
        f"{found} ({learnt[0]!r}, for example), so that scores would not tell how good it is on other photos. Pass the "
        "split_seed (--split-seed) of the training; where that is so already, the captioner that it went on from had "
        "learnt them. Choose other photos, with other names; with allow_training_photos=True "
        f"(--allow-training-photos) they are scored all the same. Received: split={split!r}"
    )


# === Rows beside ===


def _check_beside(beside, data):
    if not isinstance(beside, (str, list, tuple, set)):
        raise ValueError(f"Expected a list of: {', '.join(BESIDE)}. Received: beside={beside!r}")
    unknown = set(beside) - set(BESIDE) if not isinstance(beside, str) else {beside}
    if unknown:
        raise ValueError(f"Expected a list of: {', '.join(BESIDE)}. Received: beside={beside!r}")
    if "paper" in beside and _name(data) not in PUBLISHED:
        raise ValueError(
            f"The paper has scores for {', '.join(PUBLISHED)} only. "
            f"Received: beside={beside!r} with data={_name(data)!r}"
        )


def _check_references(beside, images):
    single = sum(len(image.captions) < 2 for image in images)
    if "human" in beside and single:
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
            raise ValueError(f"{source}: there are two captions of one photo. Received: image_id={image_id!r}")
        refuse_long_caption(text, image_id, source)
        texts[key] = text
    return texts


def _source_of(captions):
    """Return what a message calls captions: their file, if they lie in one."""
    return captions if isinstance(captions, (str, Path)) else "captions"


def _caption_key(image_id):
    """Return one name for all ways of writing an image id: with its ending or without, or COCO's number."""
    return str(_coco_image_id(image_id_of(str(image_id))))


def _coco_image_id(image_id):
    """Return the number in a name of COCO's, such as COCO_val2014_000000391895 or 000000391895, else the id itself."""
    number = re.fullmatch(r"(?:COCO_\w+_)?(\d{12})", image_id)
    return int(number[1]) if number else image_id


# === Captions of many photos ===


def caption_photos(captioner, captioned_images, cache=None, *, batch_size=64, show_progress=False, **search_options):
    """Return the CaptionResult of each photo, from the features in a cache where there is one.

    Args:
        captioner: Captioner.
        captioned_images: list of CaptionedImage.
        cache: FeatureCache; None encodes the photos.
        batch_size: photos captioned together.
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
