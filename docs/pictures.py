"""Make the pictures of README.md: python docs/pictures.py"""

import textwrap
from pathlib import Path

from matplotlib import cbook
from matplotlib.figure import Figure
from PIL import Image

import keras_sat
from data_utils import draw_scenes

HERE = Path(__file__).parent
KINDS = {"soft": "scenes", "hard": "scenes-hard"}


def draw_scenes_and_captions():
    scenes = draw_scenes(5, seed=12, image_size=128)
    figure = Figure(figsize=(9, 2.6), layout="constrained")
    for panel, scene in zip(figure.subplots(1, 5), scenes):
        panel.imshow(scene.image)
        panel.set_axis_off()
        panel.set_title(textwrap.fill(scene.captions[0], 26), fontsize=8)
    figure.savefig(HERE / "scenes.png", dpi=110)


def unseen_scene():
    """A scene with two objects that no captioner was trained on."""
    return next(scene for scene in draw_scenes(50, seed=1502) if len(scene.objects) == 2)


def save_scene():
    """The scene itself, as a photo to try the command line on."""
    Image.fromarray(unseen_scene().image).save(HERE / "scene.png")


def draw_attention():
    """The same unseen scene as the two shipped captioners see it, one row each."""
    scene = unseen_scene()
    results = {
        kind: keras_sat.Captioner.from_pretrained(name).caption(scene.image, num_beams=1)
        for kind, name in KINDS.items()
    }
    columns = max(len(result.words) for result in results.values()) + 1
    figure = Figure(figsize=(1.4 * columns, 1.75 * len(results)), layout="constrained")
    rows = figure.subplots(len(results), columns, squeeze=False)
    for row, (kind, result) in zip(rows, results.items()):
        keras_sat.AttentionDisplay.from_result(result).plot(row)
        row[0].set_title(kind)
    figure.savefig(HERE / "attention.png", dpi=110)


def draw_photo():
    """A free photo as the bundled captioner describes it; below, how it reads words of our sentence about another."""
    captioner = keras_sat.Captioner.from_pretrained()
    own = captioner.caption(str(HERE / "photo.jpg"))
    portrait = cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)  # U.S. Navy, in the public domain
    read = captioner.attend(portrait, "a woman with a hat in front of a flag")
    some = [position for position, word in enumerate(read.words) if word in ("woman", "hat", "front", "of", "flag")]
    words = [read.words[position] for position in some]
    columns = (len(own.words) + 2) // 2
    figure = Figure(figsize=(1.75 * columns, 6.6), layout="constrained")
    axes = figure.subplots(3, columns)
    keras_sat.AttentionDisplay.from_result(own).plot(axes[:2])
    keras_sat.AttentionDisplay(read.image, words, read.attention_weights[some], read.from_photo[some]).plot(axes[2])
    figure.savefig(HERE / "photo_attention.png", dpi=80)


def draw_paper_and_beyond():
    """Where the paper's own network, and the one that goes beyond it, look for words of the same sentence."""
    displays = []
    for name in ("flickr8k-paper", "flickr8k"):
        read = keras_sat.Captioner.from_pretrained(name).attend(str(HERE / "photo.jpg"), "a man with a camera on grass")
        named = [position for position, word in enumerate(read.words) if word in ("man", "camera", "grass")]
        words = [read.words[position] for position in named]
        displays.append(keras_sat.AttentionDisplay(read.image, words, read.attention_weights[named]))
    figure = Figure(figsize=(8, 4.6), layout="constrained")
    keras_sat.AttentionDisplay.compare(displays, names=["the paper", "beyond"], ax=figure.subplots(2, 4))
    figure.savefig(HERE / "paper_and_beyond.png", dpi=80)


def draw_cartoon():
    """The same scene as the shipped captioner with soft attention describes it, word by word."""
    scene = unseen_scene()
    result = keras_sat.Captioner.from_pretrained(KINDS["soft"]).caption(scene.image, num_beams=1)
    keras_sat.AttentionDisplay.from_result(result).animate(HERE / "cartoon.gif")


if __name__ == "__main__":
    draw_scenes_and_captions()
    save_scene()
    draw_attention()
    draw_photo()
    draw_paper_and_beyond()
    draw_cartoon()
