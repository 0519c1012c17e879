"""Find photos of an evaluation that were used in training."""

import warnings

from data_utils.photos import photo_of, size_of
from data_utils.seen_photos import seen_in_training, warn_of_copies


def check_training_photos(captioner, images, called, way_out, *, is_allowed=False):
    """Reject or warn about photos that a captioner was trained on; return their number,
    or None if unknown.

    Args:
        called, way_out: parts of the message: what the photos are, such as "in 'test'",
            and its end.
        is_allowed: only warn.
    """
    record = getattr(captioner, "training_photos", None)
    if record is None:
        return None
    ids = [image.image_id for image in images]
    seen_ids = seen_in_training(ids, record)
    if not seen_ids:
        return 0
    problem = (
        f"The captioner was trained on {len(seen_ids)} of the {len(images)} photos {called} "
        f"({seen_ids[0]!r}, for example), so the scores do not show how well it captions other "
        "photos."
    )
    if not is_allowed:
        raise ValueError(f"{problem} {way_out}")
    warnings.warn(problem, stacklevel=3)
    return len(seen_ids)


def warn_of_copies_in_training(images, all_images, split, digests):
    """Warn about photos of a split that are copies of training photos.

    Read only files of equal size.
    """
    if split == "train":
        return
    training_images = [image for image in all_images if image.split == "train"]
    photo_digests = [digests[image.image_id] for image in images if image.image_id in digests]
    sizes = {int(digest["size"]) for digest in photo_digests} - {0}
    digests = dict(digests)
    for image in training_images:
        if image.image_id not in digests and size_of(image.image_path) in sizes:
            digests[image.image_id] = photo_of(image.image_path)
    warn_of_copies(training_images, images, split, digests, stacklevel=3)
