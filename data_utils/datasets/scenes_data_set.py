"""Provide the built-in scenes as a data set."""

from pathlib import Path

from data_utils.base import write_whole
from data_utils.captions import CaptionedImage


def scenes(data_dir, *, num_scenes=2000, seed=0, image_size=64, max_objects=2):
    """Draw the built-in scenes, in memory or as files in a folder, and return them as a
    list of CaptionedImage.

    Args:
        data_dir: the folder for the pictures, as PNG; existing files are kept. None
            keeps them in memory: `image_path` is then the picture itself.
        num_scenes, seed, image_size, max_objects: as in `draw_scenes`.
    """
    from data_utils.scenes import draw_scenes

    captioned_images = []
    for scene in draw_scenes(num_scenes, seed, image_size, max_objects=max_objects):
        picture = scene.image
        if data_dir is not None:
            path = (
                Path(data_dir).expanduser() / f"{scene.image_id}-{image_size}px-{max_objects}.png"
            )
            if not path.exists():
                write_whole(path, scene.png())
            picture = str(path)
        captioned_images.append(
            CaptionedImage(scene.image_id, picture, list(scene.captions), scene.split)
        )
    return captioned_images
