"""The photos of a training run: read, encoded if the encoder is frozen, and grouped
into batches.
"""

import os
from pathlib import Path

from data_utils.batches import make_batches
from data_utils.features.cache import FeatureCache
from data_utils.images import readable_photos
from data_utils.training_photos import warn_of_copies
from keras_sat.training.run_record import checksum

# Of pixels: up to this size, decoded photos stay in memory between epochs.
KEEP_IMAGES_BYTES = 1_000_000_000
NUM_PHRASES = 4  # phrases of each photo in a batch with all its captions, see `region_weight`


class TrainingPhotos:
    """The photos of a training run by a Cluster, read or encoded by `prepare`.

    For the other arguments see `fit`.
    """

    def __init__(
        self, images, data_dir, cache_dir, output_dir, skip_unreadable, show_progress, cluster
    ):
        if cache_dir and os.path.realpath(os.path.expanduser(cache_dir)) == os.path.realpath(
            output_dir
        ):
            received = f"cache_dir={str(cache_dir)!r} with output_dir={str(output_dir)!r}"
            raise ValueError(
                f"cache_dir and output_dir must be different folders. Received: {received}"
            )
        self.images = images
        self.data_dir, self.cache_dir, self.output_dir = data_dir, cache_dir, output_dir
        self.skip_unreadable = skip_unreadable
        self.show_progress = show_progress
        self.cluster = cluster
        self.cache, self.views, self.options = None, [], None
        self.records = {}  # of each photo, see data_utils.photo_digests
        self.boxes = None

    def prepare(self, captioner, num_views):
        """Encode the photos (test split included, for `evaluate`) and their views, or
        check that they are readable.
        """
        self.num_views = num_views
        if self.options is not None:
            return  # done by an earlier phase, with the same photos
        _ = captioner.encoder_model  # builds a frozen one: its variables need all hosts at once
        with self.cluster.one_host_at_a_time():
            self._prepare(captioner, num_views)
        weights_digest = None if self.cache is None else self.cache.manifest["weights_digest"]
        readable = checksum([image.image_id for image in self.images])
        self.cluster.check_same({"readable_photos": readable, "weights_digest": weights_digest})
        if self.cluster.is_chief:
            kept_apart = [image for image in self.images if image.split in ("dev", "test")]
            called, therefore = "of dev and test are in train", "scores on them are too high"
            warn_of_copies(
                self.of_split("train"), kept_apart, self.records, called, therefore, stacklevel=4
            )

    def _prepare(self, captioner, num_views):
        if captioner.encoder_training != "frozen":
            options = {
                "skip": self.skip_unreadable,
                "show_progress": self.show_progress,
                "noted": self.records,
            }
            self.images = readable_photos(self.images, **options)
            height, width = captioner.encoder_model.input_shape[1:3]
            fit_in = len(self.images) * height * width * 3 <= KEEP_IMAGES_BYTES
            on_disk = isinstance(self.images[0].image_path, (str, os.PathLike))
            self.options = {"image_size": (height, width), "keep_images": fit_in and on_disk}
            return

        def built(folder, images, **options):
            ids, paths = (
                [image.image_id for image in images],
                [image.image_path for image in images],
            )
            encoder = captioner.encoder_model
            return FeatureCache.build(
                folder, ids, paths, encoder, show_progress=self.show_progress, **options
            )

        folder = Path(
            self.cache_dir or _default_cache_dir(captioner, self.data_dir, self.output_dir)
        )
        self.cache = built(folder, self.images, errors="skip" if self.skip_unreadable else "raise")
        self.images = [
            image for image in self.images if image.image_id not in self.cache.unreadable
        ]
        self.records = self.cache.noted_of([image.image_id for image in self.images])
        train = self.of_split("train")
        # Another split has other photos to train on.
        digest = checksum([image.image_id for image in train])
        self.views = [
            built(folder / f"view{view}-{digest}", train, view=view) for view in range(1, num_views)
        ]
        self.options = {}

    def of_split(self, split):
        """Return the photos of a split, which may be an empty list."""
        return [image for image in self.images if image.split == split]

    def batches(
        self, split, captioner, training, *, group_by=None, whole=False, changing=True, **options
    ):
        """Return the batches of a split, "train" or "dev", for a captioner and its
        TrainingOptions.

        Args:
            group_by: replaces the `group_by` of the training.
            whole: use only the whole photos, not their other views.
            changing: augment photos by `photo_jitter`.
            **options: other options of make_batches.
        """
        views = None if self.cache is None else [self.cache, *([] if whole else self.views)]
        options |= {
            "batch_size": training.batch_size,
            "group_by": group_by or training.group_by,
            "seed": training.seed,
        }
        if self.cache is None and split == "train":
            options["num_views"] = 1 if whole else self.num_views
            options["jitter"] = training.photo_jitter if changing else 0.0
        if self.boxes is not None and split == "train":
            captioner.build_once(captioner.photo_encoder.features_shape)
            options |= {"boxes": self.boxes, "grid_shape": captioner.rows_and_columns()}
            per_photo = NUM_PHRASES if options["group_by"] == "image" else 1
            options["num_phrases"] = per_photo if captioner.region_weight else 0
        options |= {"shares": self.cluster.shares, **self.options}
        return make_batches(self.of_split(split), captioner.vocabulary, views, **options)


def _default_cache_dir(captioner, data_dir, output_dir):
    if data_dir is None:
        return output_dir / "features"
    size = captioner.image_size
    chosen = (
        captioner.encoder,
        captioner.encoder_layer,
        size and "x".join(map(str, [size] if isinstance(size, int) else size)),
        captioner.grid and f"grid{captioner.grid}",
        captioner.photo_blur and f"blur{captioner.photo_blur:g}",
        "bundled" if captioner.encoder_weights == "bundled" else None,
    )
    return Path(data_dir).expanduser() / "-".join(["features", *filter(None, chosen)])
