# %% [markdown]
# # 10 · Your own photos and Flickr8k
#
# The other stories took drawn scenes, which need no download and whose truth is known. This one shows what changes with
# photos of your own, and what a real training on Flickr8k looks like.
#
# * **Part one** needs nothing: a folder with pictures and a `captions.csv`, and a captioner that learns a new word from
#   them. Pictures that were drawn stand in for your photos there; a real photo comes near the end.
# * **Part two** is the whole recipe for Flickr8k. It takes about an hour on two processor cores, so you see the stored
#   curves of two real ones. If you have the data, set the environment variable `KERAS_SAT_DATA` to a folder with
#   `Flickr8k_Dataset.zip`, `Flickr8k_text.zip` and `mobilenet_v2_notop.weights.h5` before you start Jupyter, and the
#   last part trains on a few dozen of its photos. (No photo of Flickr8k is shown here: they belong to the people who
#   took them.)

# %%
import importlib.util
import subprocess
import sys
from pathlib import Path

if importlib.util.find_spec("keras_sat") is None:  # on Colab: install the clone that contains this notebook
    clone = Path("..").resolve()
    if not (clone / "keras_sat").is_dir():
        raise ModuleNotFoundError(
            "keras_sat is not installed. Clone its repository, and open this notebook in the clone's folder notebooks."
        )
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", str(clone)], check=True)

from data_utils.tf_logging import import_tensorflow

_ = import_tensorflow()  # without its greetings, half a dozen lines about the processor

# %%
import csv
import os
import tempfile
import textwrap
import time
import warnings
import zipfile

import matplotlib.pyplot as plt
import numpy as np
from matplotlib import cbook
from PIL import Image, ImageOps

import data_utils
import keras_sat
from data_utils import Vocabulary, draw_scenes, is_true
from keras_sat.scoring.published import PUBLISHED

plt.rcParams["figure.dpi"] = 80
folder = Path(tempfile.mkdtemp())
real_data = os.environ.get("KERAS_SAT_DATA")

# %% [markdown]
# ## A folder of your own
#
# Pictures of any common format, and next to them `captions.csv` with the columns `image` and `caption`, a line for each
# caption. Let the pictures be scenes again, to run anywhere, but the words are ours: where we come from, a circle is
# called a *balloon*.

# %%
drawn = [scene for scene in draw_scenes(900, seed=9) if any(item.shape == "circle" for item in scene.objects)][:240]
scene_of = {scene.image_id: scene for scene in drawn}
mine = folder / "my_pictures"
mine.mkdir()
with open(mine / "captions.csv", "w", newline="", encoding="utf-8") as file:
    writer = csv.writer(file)
    writer.writerow(["image", "caption"])
    for scene in drawn:
        (mine / f"{scene.image_id}.png").write_bytes(scene.png())
        writer.writerows([f"{scene.image_id}.png", text.replace("circle", "balloon")] for text in scene.captions)
print(*(mine / "captions.csv").read_text().splitlines()[:4], "...", sep="\n")

# %% [markdown]
# `data_utils.folder` reads it. `split_seed=0` draws, photo by photo, 80 % to train on, 10 % to tell the best epoch by
# (dev), and 10 % to score in the end (test). Photos of one split are never in another.

# %%
images = data_utils.folder(mine, split_seed=0)
splits = {split: [image for image in images if image.split == split] for split in ("train", "dev", "test")}
print({split: len(members) for split, members in splits.items()}, "pictures")

before = keras_sat.Captioner.from_pretrained("scenes")
words = Vocabulary.build(images).words
new_words = [word for word in words if word not in before.vocabulary]
print("words that the shipped captioner does not know:", *new_words)

# %% [markdown]
# ## Fine-tune a captioner that can speak
#
# A few hundred pictures are too few to learn language from. So start from a captioner that has learned it:
# `initial_model` keeps the encoder, all weights and all words, and adds yours. With photos that would be
# `initial_model="flickr8k"`, or your own training on Flickr8k.

# %%
start = time.perf_counter()
settings = {
    "data_dir": mine,
    "split_seed": 0,
    "initial_model": "scenes",
    "epochs": 8,
    "learning_rate": 5e-4,
    "patience": None,
    "output_dir": folder / "run",
    "show_progress": False,
}
captioner = keras_sat.fit("folder", **settings)
seconds_of_training = time.perf_counter() - start
history = captioner.history

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 2.4), layout="constrained")
epochs = range(1, 1 + len(history["loss"]))
left.plot(epochs, history["loss"], "o-", label="loss, train")
left.plot(epochs, history["val_loss"], "o-", label="loss, dev")
right.plot(epochs, history["val_bleu_4"], "o-", color="tab:green", label="BLEU-4, dev")
for ax in (left, right):
    ax.set_xlabel("epoch")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend()

# %% [markdown]
# The loss falls smoothly, BLEU-4 of 24 pictures jumps about: so small a dev split says which epoch is good, not which
# is best. `fit` keeps the one with the highest BLEU-4.
#
# ## Before and after

# %%
test = [image.image_path for image in splits["test"]]
results = {"before": before.caption(test, num_beams=1), "after": captioner.caption(test, num_beams=1)}
figures = {}
for name, captions in results.items():
    texts = [result.caption for result in captions]
    in_old_words = [text.replace("balloon", "circle") for text in texts]
    truths = [is_true(scene_of[image.image_id], text) is True for image, text in zip(splits["test"], in_old_words)]
    figures[name] = {"balloon": np.mean(["balloon" in text for text in texts]), "true": np.mean(truths)}
    shares = figures[name]
    print(f"{name:7} says balloon {shares['balloon']:4.0%}   true, once translated back {shares['true']:4.0%}")

figure, axes = plt.subplots(1, 4, figsize=(10, 3.3))
for ax, old, new in zip(axes, results["before"], results["after"]):
    ax.imshow(old.image)
    ax.set_title(
        textwrap.fill(f"before: {old.caption}", 27) + "\n" + textwrap.fill(f"after: {new.caption}", 27), fontsize=8
    )
    ax.axis("off")

# %% [markdown]
# Eight short epochs were enough for one new word. Score it as in [chapter 8](08_how_good_is_it.ipynb), with the same
# seed, so
# that it is the same test split.

# %%
table = keras_sat.evaluate(
    captioner, "folder", data_dir=mine, split_seed=0, split="test", num_beams=1, show_progress=False
)
print(table)

# %% [markdown]
# ## What is kept
#
# `output_dir` holds `model/` (the best so far), `checkpoint/` (to resume from), `history.csv`, and `logs/` for
# TensorBoard. A training that was killed resumes after its last whole epoch when the same call is made again; one that
# has ended is loaded. Other settings in the same folder are rejected.

# %%
start = time.perf_counter()
again = keras_sat.fit("folder", **settings)
seconds_of_loading = time.perf_counter() - start
print(*sorted(path.name for path in (folder / "run").iterdir()), sep="  ")
try:
    keras_sat.fit("folder", **settings | {"learning_rate": 1e-3})
    rejected = ""
except ValueError as error:
    rejected = str(error)
print(textwrap.fill(rejected.replace(str(folder), "..."), 110))

# %% [markdown]
# The same from the command line, with photos:
#
#     keras-sat fit --data folder --data-dir my_photos --split-seed 0 --output-dir runs/mine
#     keras-sat caption new_photo.jpg --model runs/mine/model --plot where.png
#     keras-sat evaluate --model runs/mine/model --data folder --data-dir my_photos --split-seed 0
#
# # Part two: Flickr8k
#
# 8,000 photos, five captions each: 6,000 to train on, 1,000 each for dev and test. The whole recipe is two calls:
#
#     keras-sat fit --data flickr8k --data-dir flickr8k --encoder mobilenet_v2 --output-dir runs/soft-0
#     keras-sat evaluate --model runs/soft-0/model --data flickr8k --data-dir flickr8k --split dev --compare-with paper
#
# `fit` downloads the data (1.1 GB) if it can, encodes each photo once ([chapter 2](02_a_picture_as_vectors.ipynb)), and
# trains with the settings of the preset for this data set and encoder. (`--dtype mixed_bfloat16` makes it faster on
# processors that have it.) A few thousand photos are memorised
# quickly, and most of the settings are there to delay that.

# %%
preset, paper = keras_sat.PRESETS["flickr8k-mobilenet_v2"], keras_sat.PRESETS["paper"]
print(f"{'':26}{'preset':>18}{'paper':>12}")
for name in sorted(preset.keys() | paper.keys()):
    print(f"{name:26}{preset.get(name, '')!s:>18}{paper.get(name, '')!s:>12}")

# %% [markdown]
# (Where a column is empty, the usual value of `fit` holds.) The paper trained the decoder alone, with RMSProp on
# Flickr8k and Adam on the larger sets, on batches of captions of one length, and stopped by BLEU on the dev split. Our
# preset takes a smaller network than VGG19, but trains its later layers along (`trained_up_to`), which the paper
# mentions as a possibility with enough data; that of EfficientNet-Lite0, which the shipped captioner is made with,
# trains all layers along. The paper had a service search for good settings; benchmarks/flickr8k/tried.md says what was
# tried for ours.
#
# ## The curves of two real trainings
#
# These are figures of two trainings with that preset on the real Flickr8k, on two processor cores, with MobileNetV2 and
# seed 0. One has **hard attention** (`--attention hard --expectation-epochs 8`): in its first eight epochs it is
# trained with expectations, just like soft attention; in the last four it draws places
# ([chapter 6](06_hard_attention.ipynb) explains both). The other has **no attention** (`--attention none`,
# [chapter 4](04_why_attention.ipynb)).

# %%
# epoch; with attention: cross-entropy of a word (train, dev), BLEU-4 and number of different captions (dev, 3 beams);
# without attention: the same
HISTORY = """
 1  4.356 3.324 0.1640 342  4.446 3.386 0.1650 461
 2  3.293 3.014 0.1910 555  3.334 3.061 0.1887 580
 3  3.042 2.885 0.1996 643  3.073 2.924 0.2026 668
 4  2.877 2.810 0.2095 726  2.906 2.850 0.2108 714
 5  2.748 2.767 0.2093 779  2.776 2.806 0.2136 770
 6  2.631 2.742 0.2165 825  2.652 2.781 0.2167 813
 7  2.527 2.732 0.2138 844  2.548 2.772 0.2159 833
 8  2.434 2.730 0.2122 871  2.448 2.768 0.2133 859
 9  2.574 2.711 0.2078 850  2.366 2.768 0.2166 864
10  2.508 2.705 0.2085 840  2.301 2.770 0.2130 875
11  2.480 2.703 0.2143 836  2.262 2.773 0.2107 882
12  2.464 2.702 0.2147 843  2.245 2.775 0.2102 884
"""
numbers = np.array([line.split() for line in HISTORY.strip().splitlines()], dtype=float)
epoch, names = numbers[:, 0], ("cross_entropy", "val_cross_entropy", "val_bleu_4", "val_distinct")
curves = {"attention": dict(zip(names, numbers.T[1:5])), "none": dict(zip(names, numbers.T[5:]))}

# %%
figure, axes = plt.subplots(1, 3, figsize=(10.5, 3), layout="constrained")
for (label, curve), color in zip(curves.items(), ("tab:blue", "tab:orange")):
    axes[0].plot(epoch, curve["cross_entropy"], "--", color=color, label=f"{label}, train")
    axes[0].plot(epoch, curve["val_cross_entropy"], "o-", color=color, label=f"{label}, dev")
    axes[1].plot(epoch, curve["val_bleu_4"], "o-", color=color, label=f"{label}, dev")
    axes[2].plot(epoch, curve["val_distinct"], "o-", color=color, label=label)
for (label, row), style in zip(PUBLISHED["flickr8k"].items(), (":", "-.")):
    axes[1].axhline(row["bleu_4_no_penalty"], color="grey", linestyle=style, label=label.replace("the paper", "paper"))
axes[0].set_title("cross-entropy of a word")
axes[1].set_title("BLEU-4, 3 beams")
axes[2].set_title("different captions of 1,000")
for ax in axes:
    ax.axvline(8.5, color="lightgrey", zorder=0)  # from here on hard attention draws its places
    ax.set_xlabel("epoch")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend(fontsize=7)

# %% [markdown]
# What to read from them:
#
# * The loss on the training captions starts above that on dev. Dropout and the views of each photo make training harder
#   than being tested, and the first epoch's figure is a mean over an epoch in which everything was learned.
# * After one epoch the captions are sentences already (BLEU-4 .16), but few different ones. In the first six
#   epochs they become more varied, and BLEU-4 rises with them; after that it does not.
# * From the sixth epoch on the training captions are memorised: their cross-entropy keeps falling, that of dev hardly
#   does.
# * When hard attention starts to draw (the grey line), training becomes harder at once, and cross-entropy on dev keeps
#   falling: random draws are harder to memorise.
# * With attention, cross-entropy on dev is lower in every epoch. BLEU-4 does not tell the two apart. Here a cell of
#   MobileNetV2's last layer has seen nearly the whole photo ([chapter 2](02_a_picture_as_vectors.ipynb)): a mean of all
#   cells says almost as much as a choice of them; on the drawn scenes, where a cell sees little,
#   [chapter 4](04_why_attention.ipynb) shows another picture.
# * The paper's lines are of the test split, with VGG19. They are a guide, not a finish line: a person's caption has
#   BLEU-4 .212 on dev (docs/model-card.md), and [chapter 8](08_how_good_is_it.ipynb) has told what that means.
#
# ## A few dozen real photos
#
# With `KERAS_SAT_DATA` set, this trains the recipe on 48 photos for three epochs, which is far too little for
# sentences, and then lets the shipped captioner describe photos that it has not seen. Without, it says so.

# %%
real = {}
if real_data:
    flickr8k = folder / "flickr8k"
    with zipfile.ZipFile(Path(real_data) / "Flickr8k_text.zip") as archive:
        archive.extractall(flickr8k)
    chosen = set()
    for split, number in (("train", 48), ("dev", 12)):
        chosen |= set((flickr8k / f"Flickr_8k.{split}Images.txt").read_text().split()[:number])
    with zipfile.ZipFile(Path(real_data) / "Flickr8k_Dataset.zip") as archive:
        archive.extractall(flickr8k, [name for name in archive.namelist() if Path(name).name in chosen])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the reader says that most of the photos are not there
        photos = data_utils.flickr8k(flickr8k)
    weights = Path(real_data) / "mobilenet_v2_notop.weights.h5"
    few = preset | {"num_views": 1, "epochs": 3, "warmup_steps": 5, "min_count": 2}
    small = keras_sat.fit(photos, encoder_weights=weights, output_dir=folder / "real", show_progress=False, **few)
    real["cross_entropy"] = list(small.history["cross_entropy"])
    shipped = keras_sat.Captioner.from_pretrained()
    dev = [image for image in photos if image.split == "dev"]
    print("cross-entropy of a word:", np.round(real["cross_entropy"], 2))
    for label, model in (("48 photos", small), ("6,000 photos", shipped)):
        real[label] = [result.caption for result in model.caption(dev)]
        print(f"\ntrained on {label}:", *real[label][:4], sep="\n    ")
else:
    print("KERAS_SAT_DATA is not set: no photos of Flickr8k here.")

# %% [markdown]
# ## A real photo
#
# Admiral Grace Hopper, whom [chapter 2](02_a_picture_as_vectors.ipynb) has shown already: a photo that comes with
# matplotlib (U.S. Navy, in the public domain), and that nobody drew. The captioner for photos ships with the package,
# encoder included, and nothing is downloaded. One photo says little, so it gets this one in five forms.

# %%
photo = Image.open(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False))
width, height = photo.size
views = {
    "the photo": photo,
    "mirrored": ImageOps.mirror(photo),
    "in grey": photo.convert("L").convert("RGB"),
    "the upper half": photo.crop((0, 0, width, height // 2)),
    "the lower half": photo.crop((0, height // 2, width, height)),
}
for_photos = keras_sat.Captioner.from_pretrained()
described = for_photos.caption(list(views.values()))
for view, result in zip(views, described):
    print(f"{view}: {result.caption} ({result.confidence:.2f})")

# %%
figure, axes = plt.subplots(1, 5, figsize=(5.6, 1.9), layout="constrained")
for ax, picture, result in zip(axes, views.values(), described):
    ax.imshow(picture, cmap="gray")
    ax.set_title(textwrap.fill(result.caption, 20), fontsize=6)
    ax.axis("off")
figure.supxlabel("Photo: U.S. Navy, in the public domain", fontsize=7)

# %% [markdown]
# Of each form something is true: a hat, a shirt, glasses. Much is not. The woman is a man, as often with this
# captioner, and what the "man" holds, a drink, a cup or a cigarette, is not there. Without the lower half of the photo,
# what remains is said twice.
#
# The numbers are its `confidence`: of captions with .35 one in three is right, which docs/evaluation.md defines. So it
# knows that it does not know; `keras-sat caption --min-confidence .5` would say "not sure".
#
# ## Where it looked, and how sure that is
#
# Soft attention's maps of the whole photo. The line encloses half of the attention: the smaller, the surer.

# %%
result = described[0]
cells = result.attention_weights[0].size
keras_sat.AttentionDisplay.from_result(result).plot(words=["wearing", "hat", "drink"], width=5)


def width_in_cells(attention_map):
    """Return over how many cells the same entropy could be spread evenly: all for a flat map, 1 for a single cell."""
    shares = attention_map[attention_map > 0]
    return np.exp(-(shares * np.log(shares)).sum())


widths = [width_in_cells(attention_map) for attention_map in result.attention_weights]
above = result.attention_weights[:, : len(result.attention_weights[0]) // 2].sum(axis=(1, 2))
for word, width, share in zip(result.words, widths, above):
    print(f"{word:10}{width:.0f} of {cells} cells wide, {share:.0%} of it in the upper half")

# %% [markdown]
# At "hat" it looks at the hat: the first three of 14 rows have most of the attention. At "drink" it looks at what the
# jacket leaves open of shirt and tie. So a mistake can be understood: something is there, and the word for it is wrong.
# That was not always so. The paper's loss asks for
# words alone, and the captioner for photos that was trained with it spread its attention over 40 to 48 of its 49 cells,
# whatever it said. What has changed it is the next story, [11](11_when_to_look.ipynb); docs/model-card.md has counts on
# 1,000 photos: three maps in ten still miss.

# %% [markdown]
# ## What to expect of photos of your own
#
# The shipped captioner knows what Flickr8k knows: people, dogs, the outdoors. It calls many women men, and has no word
# for what it has not seen; its confidence says how far to trust a caption. docs/model-card.md counts its mistakes. Two
# things help most: more captions of the kind of photos that you have, and reading what comes out.
#
# ## Exercises
#
# 1. Take 30 photos of your own, write two captions for each, and go on from `flickr8k`. Which new words
#    does it learn?
# 2. Train the balloons without `initial_model` (`encoder="tiny"`), with as many epochs. What does it say?
# 3. How many pictures does it take until "balloon" is said at all? Try 20, 40, 80.
# 4. After learning "balloon", has it forgotten "circle"? Mix scenes with circles called circles into the folder.
#
# ## Next
#
# [11 · When to look](11_when_to_look.ipynb): what makes attention look at what it names.
#
# The last cell checks what this notebook has claimed, and shows the photo's caption as a player: point at a word, or
# press play (where scripts run: GitHub shows none).

# %%
assert {split: len(members) for split, members in splits.items()} == {"train": 192, "dev": 24, "test": 24}
assert "balloon" in new_words and "circle" not in words
assert not {image.image_id for image in splits["train"]} & {image.image_id for image in splits["test"]}
assert history["loss"][-1] < history["loss"][0] / 2
assert figures["before"]["balloon"] == 0 and figures["after"]["balloon"] > 0.8 and figures["after"]["true"] > 0.7
assert table.statistics["photos"] == len(splits["test"])
assert seconds_of_loading < seconds_of_training / 2 and "learning_rate" in rejected
assert [result.caption for result in again.caption(test[:5])] == [
    result.caption for result in captioner.caption(test[:5])
]
assert (folder / "run" / "model").is_dir() and (folder / "run" / "history.csv").is_file()
assert paper["encoder"] == "vgg19" and paper["optimizer"] == "rmsprop" and preset["trained_up_to"] == "out_relu"
hard, none = curves["attention"], curves["none"]
assert len(epoch) == preset["epochs"] == 12
for curve in curves.values():
    assert curve["cross_entropy"][0] > curve["val_cross_entropy"][0] + 0.5
    assert abs(curve["val_bleu_4"][0] - 0.165) < 0.002 and curve["val_bleu_4"].max() > 0.214
    assert curve["val_distinct"][-1] > 1.5 * curve["val_distinct"][0]
    assert curve["val_bleu_4"].argmax() == 5 and (np.diff(curve["val_distinct"][:6]) > 0).all()
    assert curve["cross_entropy"][5] - curve["cross_entropy"][7] > 5 * (
        curve["val_cross_entropy"][5] - curve["val_cross_entropy"][7]
    )
assert hard["cross_entropy"][8] > hard["cross_entropy"][7] and hard["val_cross_entropy"][8:].max() < 2.72
assert (hard["val_cross_entropy"] < none["val_cross_entropy"]).all()
assert abs(hard["val_bleu_4"].max() - none["val_bleu_4"].max()) < 0.002
looked_at = dict(zip(result.words, zip(widths, above)))
assert looked_at["hat"][0] < cells / 3 and looked_at["hat"][1] > 0.7 > 0.4 > looked_at["drink"][1]
hat, drink = (result.attention_weights[result.words.index(word)] for word in ("hat", "drink"))
assert hat[:3].sum() > 0.6 and drink[10:12].sum() > 0.5
said_of = [result.words for result in described]
assert all(set(words) & {"hat", "shirt", "glasses"} for words in said_of) and all("man" in words for words in said_of)
assert all("man" in result.words and result.confidence < 0.6 for result in described)
assert all(result.is_finished for result in described)
if real_data:
    assert real["cross_entropy"][-1] < real["cross_entropy"][0]
    assert len(set(real["6,000 photos"])) > len(set(real["48 photos"]))
keras_sat.AttentionDisplay.from_result(result)
