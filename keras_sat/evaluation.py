"""How good are the captions? Caption the photos of a split, free-running, and score what comes out."""

import dataclasses
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from data_utils.files import write_json
from data_utils.images import readable_photos
from data_utils.progress import Progress
from data_utils.sources import photos_of_split, read_data
from keras_sat.scores import bleu

TOKENISATION = "data_utils.tokenise"
NUM_REFERENCES = 5  # COCO has more for some photos; the paper cuts them


@dataclass(frozen=True)
class ScoreTable:
    """Scores, and all that they depend on. Printed, it is a table.

    Attributes:
        scores: dict from the name of a score to its value, as a fraction.
        settings: dict: data, split, encoder, num_beams, length_penalty, tokenisation.
        captions: list with a dict of image_id and caption for each photo.
    """

    scores: dict
    settings: dict
    captions: list = dataclasses.field(repr=False)

    def __str__(self):
        names = [f"bleu_{n}" for n in range(1, 5)]
        rows = [["", *(f"BLEU-{n}" for n in range(1, 5))]]
        for label, ending in (("with brevity penalty", ""), ("without, as in the paper", "_no_penalty")):
            rows.append([label, *(f"{100 * self.scores[name + ending]:.1f}" for name in names)])
        lines = [f"{row[0]:26}" + "".join(f"{cell:>8}" for cell in row[1:]) for row in rows]
        settings = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        texts = [entry["caption"] for entry in self.captions]
        counts = f"{len(texts)} photos, {len(set(texts))} different captions"
        if "" in texts:
            counts += f", {texts.count('')} of them empty"
        return "\n".join([*lines, f"{counts}; {settings}"])

    def to_json(self, path):
        """Write scores, settings and captions as JSON."""
        write_json(path, {"scores": self.scores, "settings": self.settings, "captions": self.captions})


def evaluate(
    captioner,
    data,
    *,
    data_dir=None,
    split="test",
    split_seed=None,
    cache=None,
    num_beams=3,
    length_penalty=0.0,
    max_length=20,
    batch_size=64,
    skip_unreadable=False,
    show_progress=True,
):
    """Return the ScoreTable of a captioner on the photos of one split.

    Args:
        captioner: Captioner.
        data: a name in DATASETS, or a list of CaptionedImage.
        data_dir: the folder of the data set.
        split: "train", "dev" or "test".
        split_seed: draw a split of 80/10/10 by photo with this seed; the same as in training.
        cache: FeatureCache with the photos' features, or its folder; None encodes the photos.
        num_beams, length_penalty, max_length, batch_size: see `Captioner.caption_features`.
        skip_unreadable: leave out photos that cannot be read, with a warning that counts them.
        show_progress: show progress on standard error.
    """
    if not hasattr(captioner, "caption"):
        raise ValueError(
            "Expected a Captioner, as `Captioner.load(folder)` returns it, and then the data. "
            f"Received: captioner={captioner!r}"
        )
    images = read_data(data, data_dir, split_seed=split_seed, show_progress=show_progress)
    images = photos_of_split([image for image in images if image.captions], split)
    if isinstance(cache, (str, Path)):
        from data_utils.feature_cache import FeatureCache

        cache = FeatureCache.open(cache, encoder=captioner.encoder_model)
    if cache is None:
        images = readable_photos(images, skip=skip_unreadable, show_progress=show_progress)
    elif any(image.image_id in cache.unreadable for image in images):
        lost = [image.image_id for image in images if image.image_id in cache.unreadable]
        warnings.warn(f"{len(lost)} photos that the cache lists as unreadable are left out: {lost[0]}", stacklevel=2)
        images = [image for image in images if image.image_id not in cache.unreadable]
    options = {"num_beams": num_beams, "length_penalty": length_penalty, "max_length": max_length}
    results = caption_photos(captioner, images, cache, batch_size=batch_size, show_progress=show_progress, **options)
    captions = [result.caption for result in results]
    return ScoreTable(
        scores=bleu([image.captions[:NUM_REFERENCES] for image in images], captions),
        settings={
            "data": data if isinstance(data, str) else "a list of photos",
            "split": split,
            "encoder": captioner.encoder,
            "num_beams": num_beams,
            "length_penalty": length_penalty,
            "tokenisation": TOKENISATION,
        },
        captions=[{"image_id": image.image_id, "caption": text} for image, text in zip(images, captions)],
    )


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
    with Progress(len(captioned_images), label="captions", unit="photos", show=show_progress) as progress:
        for start in range(0, len(captioned_images), batch_size):
            batch = captioned_images[start : start + batch_size]
            options = {"first_photo": start, **search_options}
            if cache is None:
                results += captioner.caption(batch, batch_size=batch_size, **options)
            else:
                features = cache.features([image.image_id for image in batch]).astype(np.float32)
                results += captioner.caption_features(features, batch_size=batch_size, **options)
            progress.advance(len(batch))
    return results
