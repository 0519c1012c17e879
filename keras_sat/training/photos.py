"""The photos of a training run: read, encoded if the encoder is frozen, and grouped
into batches.
"""

import os
import time
from pathlib import Path

import numpy as np
from tqdm import tqdm

from data_utils.batches import make_batches
from data_utils.datasets import CellBoxes
from data_utils.features import ENCODED_TOGETHER, FeatureCache, encoding_function
from data_utils.photos import readable_photos
from data_utils.seen_photos import warn_of_copies
from keras_sat.training.run_record import checksum

# Of settings, in the names of folders with features.
SHORT_NAMES = {"image_size": "", "photo_blur": "blur"}
LONG = 60  # seconds; what takes longer is announced


class TrainingPhotos:
    """The photos of a training run, read or encoded by `prepare`.

    Args:
        images: list of CaptionedImage, all with captions.
        output_dir: the folder of the run.
        boxes: Boxes of phrases, or None.
        data_dir, split_seed, cache_dir, skip_unreadable, show_progress: see `fit`.

    Attributes:
        captioned: the list `images`.
        images: those of them that can be read, after `prepare`.
        cache, views: the FeatureCache of the whole photos and those of their other
            views; None and [] if the encoder is trained.
        records: dict from image ids to `data_utils.photos.digests.PHOTO`.
    """

    def __init__(
        self,
        images,
        output_dir,
        *,
        data_dir=None,
        split_seed=None,
        cache_dir=None,
        skip_unreadable=False,
        boxes=None,
        show_progress=True,
    ):
        if cache_dir and _real_path(cache_dir) == _real_path(output_dir):
            raise ValueError(
                "cache_dir and output_dir must be different folders. Received: "
                f"cache_dir={str(cache_dir)!r} with output_dir={str(output_dir)!r}"
            )
        self.captioned = self.images = images
        self.output_dir = output_dir
        self.data_dir = data_dir
        self.split_seed = split_seed
        self.cache_dir = cache_dir
        self.skip_unreadable = skip_unreadable
        self.boxes = boxes
        self.show_progress = show_progress
        self.cache = None
        self.views = []
        self.records = {}
        self._reading_options = None  # those of `make_batches`, once prepared

    def arguments(self):
        """Return a dict of the arguments of `fit` on which the photos depend."""
        boxes = None if self.boxes is None else checksum(str(self.boxes.phrases))
        return {
            "split_seed": self.split_seed,
            "skip_unreadable": self.skip_unreadable,
            "boxes": boxes,
        }

    def prepare(self, captioner, num_views, cluster):
        """Encode the photos (test split included, for `evaluate`) and their views, or
        check that they are readable, on each host of a Cluster.
        """
        self.num_views = num_views
        if self._reading_options is not None:
            return  # done by an earlier phase, with the same photos
        _ = captioner.encoder_model  # builds a frozen one: its variables need all hosts at once
        with cluster.one_host_at_a_time():
            if captioner.photo_encoder.is_frozen:
                self._encode(captioner, num_views)
            else:
                self._check_readable(captioner)
        weights_digest = None if self.cache is None else self.cache.manifest["weights_digest"]
        readable = checksum([image.image_id for image in self.images])
        cluster.check_same({"readable_photos": readable, "weights_digest": weights_digest})
        if cluster.is_chief:
            kept_apart = [image for image in self.images if image.split in ("dev", "test")]
            train = self.images_in("train")
            warn_of_copies(train, kept_apart, "dev and test", self.records, stacklevel=4)

    def _check_readable(self, captioner):
        """Leave out unreadable photos, or raise ValueError at the first; see `fit`."""
        self.images = readable_photos(
            self.images,
            skip=self.skip_unreadable,
            show_progress=self.show_progress,
            noted=self.records,
        )
        height, width = captioner.encoder_model.input_shape[1:3]
        self._reading_options = {"image_size": (height, width)}

    def _encode(self, captioner, num_views):
        """Build the caches of a frozen encoder: of all photos, and for training of
        their other views.
        """
        default_dir = _default_cache_dir(captioner, self.data_dir, self.output_dir)
        folder = Path(self.cache_dir or default_dir)
        errors = "skip" if self.skip_unreadable else "raise"
        if self.show_progress and not folder.exists() and len(self.images) > ENCODED_TOGETHER:
            self._say_how_long(captioner, num_views)
        self.cache = self._built_cache(captioner, folder, self.images, errors=errors)
        unreadable = self.cache.unreadable  # `build` has said how many
        self.images = [image for image in self.images if image.image_id not in unreadable]
        self.records = self.cache.noted_of([image.image_id for image in self.images])
        train = self.images_in("train")
        # Another split has other photos to train on.
        digest = checksum([image.image_id for image in train])
        self.views = [
            self._built_cache(captioner, folder / f"view{view}-{digest}", train, view=view)
            for view in range(1, num_views)
        ]
        self._reading_options = {}

    def _say_how_long(self, captioner, num_views):
        """Print how long it takes to encode the photos, measured on one batch."""
        encode = encoding_function(captioner.encoder_model)
        photos = np.zeros((ENCODED_TOGETHER, *captioner.encoder_model.input_shape[1:]), np.uint8)
        encode(photos)  # compiles it
        started = time.perf_counter()
        encode(photos)
        seconds_per_photo = (time.perf_counter() - started) / len(photos)
        num_photos = len(self.images) + (num_views - 1) * len(self.images_in("train"))
        seconds = seconds_per_photo * num_photos
        if seconds > LONG:
            print(
                f"encoding {num_photos:,} photos and views with {captioner.encoder} takes about "
                f"{tqdm.format_interval(seconds)}, once (one batch was measured); training, which "
                "follows, says its time after its first batches"
            )

    def _built_cache(self, captioner, folder, images, **options):
        return FeatureCache.build(
            folder,
            [image.image_id for image in images],
            [image.image_path for image in images],
            captioner.encoder_model,
            show_progress=self.show_progress,
            **options,
        )

    def images_in(self, split):
        """Return the photos of a split, which may be an empty list."""
        return [image for image in self.images if image.split == split]

    def batches(self, split, captioner, training, group_by, shares, *, whole=False, **options):
        """Return the batches of a split, "train" or "dev", for a captioner.

        Args:
            training: Training.
            group_by: "length" or "image".
            shares: those of the Cluster.
            whole: use only the whole photos, not their other views.
            **options: other options of make_batches.
        """
        caches = None
        if self.cache is not None:
            caches = [self.cache] if whole else [self.cache, *self.views]
        options |= {
            "batch_size": training.batch_size,
            "group_by": group_by,
            "seed": training.seed,
            "shares": shares,
            **self._reading_options,
        }
        if self.cache is None and split == "train":
            options["num_views"] = 1 if whole else self.num_views
        if self.boxes is not None and split == "train":
            captioner.build_once(captioner.photo_encoder.features_shape)
            options["boxes"] = CellBoxes(self.boxes, captioner.rows_and_columns())
        return make_batches(self.images_in(split), captioner.vocabulary, caches, **options)


def _real_path(path):
    return os.path.realpath(os.path.expanduser(path))


def _default_cache_dir(captioner, data_dir, output_dir):
    """Return the folder of the features: with the data, named after the settings that
    change the features, or without `data_dir` in the folder of the training.
    """
    if data_dir is None:
        return output_dir / "features"
    settings = captioner.settings.encoder.feature_settings()
    layer, weights = settings.pop("encoder_layer", None), settings.pop("encoder_weights", None)
    name = ["features", captioner.encoder, layer]
    name += [f"{SHORT_NAMES.get(name, name)}{_short(value)}" for name, value in settings.items()]
    name.append("bundled" if weights == "bundled" else None)
    return Path(data_dir).expanduser() / "-".join(filter(None, name))


def _short(value):
    """Return the value of a setting as part of a folder's name: 224, 224x224 or 0.5."""
    if isinstance(value, (tuple, list)):
        return "x".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
