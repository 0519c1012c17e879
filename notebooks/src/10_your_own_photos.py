# %% [markdown]
# # 10 · Your own photos and Flickr8k
#
# The other stories took drawn scenes, which need no download and whose truth is known. This one shows what changes with
# photos of your own, and what a real training on Flickr8k looks like.
#
# * **Part one** needs nothing: a folder with pictures and a `captions.csv`, and a captioner that learns a new word from
#   them.
# * **Part two** is the whole recipe for Flickr8k. It takes about an hour on two processor cores, so you see the stored
#   curves of a real training. If you have the data, set the environment variable `KERAS_SAT_DATA` to a folder with
#   `Flickr8k_Dataset.zip`, `Flickr8k_text.zip` and `mobilenet_v2_notop.weights.h5` before you start Jupyter, and the
#   last part trains on a few dozen of its photos. (No photo of Flickr8k is shown here: they belong to the people who
#   took them.)

# %%
import importlib.util
import subprocess
import sys
from pathlib import Path

if importlib.util.find_spec("keras_sat") is None:  # on Colab, say: the clone around this notebook, or the package index
    clone = Path("..").resolve()
    place = str(clone) if (clone / "setup.cfg").exists() else "keras_sat"
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", place], check=True)

# %%
import csv
import os
import tempfile
import textwrap
import time
import urllib.request
import warnings
import zipfile

import matplotlib.pyplot as plt
import numpy as np
from matplotlib import cbook

import data_utils
import keras_sat
from data_utils import Vocabulary, draw_scenes, is_true
from keras_sat.published import PUBLISHED

plt.rcParams["figure.dpi"] = 80
folder = Path(tempfile.mkdtemp())
real_data = os.environ.get("KERAS_SAT_DATA")

# %% [markdown]
# ## A folder of your own
#
# Pictures of any usual format, and beside them `captions.csv` with the columns `image` and `caption`, a line for each
# caption. Let the pictures be scenes again, so that this runs anywhere, but the words are ours: where we come from, a
# circle is called a *balloon*.

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
# ## Go on from a captioner that can speak
#
# Some hundred pictures are too few to learn a language from. So go on from one that has learnt it already:
# `initial_model` takes over the encoder, all weights and all words, and adds yours. With photos that would be
# `initial_model="flickr8k-mobilenet_v2"`, or your own training on Flickr8k.

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
# Eight short epochs were enough for one new word. Score it as in [09](09_how_good_is_it.ipynb), with the same seed, so
# that it is the same test split.

# %%
table = keras_sat.evaluate(
    captioner, "folder", data_dir=mine, split_seed=0, split="test", num_beams=1, show_progress=False
)
print(table)

# %% [markdown]
# ## What is kept
#
# Everything that is reached lies in `output_dir`: `model/` (the best so far), `checkpoint/` (to go on from),
# `history.csv`, `logs/` for TensorBoard. A training that was killed goes on after its last whole epoch when the same
# call is made again; one that has ended is loaded. Other settings in the same folder are refused.

# %%
start = time.perf_counter()
again = keras_sat.fit("folder", **settings)
seconds_of_loading = time.perf_counter() - start
print(*sorted(path.name for path in (folder / "run").iterdir()), sep="  ")
try:
    keras_sat.fit("folder", **settings | {"learning_rate": 1e-3})
    refused = ""
except ValueError as error:
    refused = str(error)
print(textwrap.fill(refused.replace(str(folder), "..."), 110))

# %% [markdown]
# The same from the command line, with photos:
#
#     keras-sat fit --data folder --data-dir my_photos --split-seed 0 --encoder mobilenet_v2 --output-dir runs/mine
#     keras-sat caption new_photo.jpg --model runs/mine/model --plot where.png
#     keras-sat evaluate --model runs/mine/model --data folder --data-dir my_photos --split-seed 0
#
# # Part two: Flickr8k
#
# 8,000 photos, five captions each: 6,000 to train on, 1,000 each for dev and test. The whole recipe is two calls:
#
#     keras-sat fit --data flickr8k --data-dir flickr8k --encoder mobilenet_v2 --seed 0 --output-dir runs/soft-0
#     keras-sat evaluate --model runs/soft-0/model --data flickr8k --data-dir flickr8k --split dev --beside paper human
#
# `fit` downloads the data (1.1 GB) if it can, encodes each photo once ([02](02_an_image_as_196_vectors.ipynb)), and
# trains with the settings of the preset for this data set and encoder. A few thousand photos are learnt by heart
# quickly, and most of the settings are there to put that off.

# %%
preset, paper = keras_sat.PRESETS["flickr8k-mobilenet_v2"], keras_sat.PRESETS["paper"]
print(f"{'':26}{'preset':>18}{'paper':>12}")
for name in sorted(preset.keys() | paper.keys()):
    print(f"{name:26}{preset.get(name, '')!s:>18}{paper.get(name, '')!s:>12}")

# %% [markdown]
# (Where a column is empty, the usual value of `fit` holds.) The paper trained the decoder alone, with RMSProp on
# Flickr8k and Adam on the larger sets, on batches of captions of one length, and stopped by BLEU on the dev split. Our
# preset takes a smaller network than VGG19, but trains its later layers along (`trained_up_to`), which the paper
# mentions as a possibility with enough data. The paper had a service search for good settings;
# benchmarks/flickr8k/tried.md says what was tried for ours.
#
# ## The curves of a real training
#
# The file beside this notebook is the history of a training with that preset on the real Flickr8k, on two processor
# cores: MobileNetV2, **hard attention**, seed 0 (`--attention hard --expectation-epochs 8 --dtype mixed_bfloat16`). In
# its first eight epochs this one is trained with expectations, just like soft attention; only then would it draw places
# ([07](07_hard_attention.ipynb) tells of both). The training was not at its end when the file was copied: it has the
# first five of twelve epochs.


# %%
def stored(name):
    for place in (Path("."), Path(keras_sat.__file__).resolve().parents[1] / "notebooks"):
        if (place / name).exists():
            return (place / name).read_text()
    address = "https://raw.githubusercontent.com/keras-sat/keras_sat/main/notebooks"  # on Colab, say
    with urllib.request.urlopen(f"{address}/{name}") as file:
        return file.read().decode()


rows = list(csv.DictReader(stored("flickr8k_history.csv").splitlines()))
curves = {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}
print(f"{len(rows)} of {preset['epochs']} epochs")
print(f"cross-entropy of a word: train {curves['cross_entropy'].round(2)}, dev {curves['val_cross_entropy'].round(2)}")
print(
    f"BLEU-4 of dev captions: {curves['val_bleu_4'].round(3)}, different captions: {curves['val_distinct'].astype(int)}"
)

# %%
figure, axes = plt.subplots(1, 3, figsize=(10.5, 2.8), layout="constrained")
axes[0].plot(curves["epoch"], curves["cross_entropy"], "o-", label="train")
axes[0].plot(curves["epoch"], curves["val_cross_entropy"], "o-", label="dev")
axes[0].set_title("cross-entropy of a word")
axes[1].plot(curves["epoch"], curves["val_bleu_4"], "o-", color="tab:green", label="this training, dev")
for (label, row), style in zip(PUBLISHED["flickr8k"].items(), (":", "--")):
    axes[1].axhline(row["bleu_4_no_penalty"], color="grey", linestyle=style, label=label.replace("the paper", "paper"))
axes[1].set_title("BLEU-4, 3 beams")
axes[2].plot(curves["epoch"], curves["val_distinct"], "o-", color="tab:purple", label="of 1,000")
axes[2].set_title("different captions")
for ax in axes:
    ax.set_xlabel("epoch")
    ax.legend(fontsize=8)

# %% [markdown]
# Three things to read from it:
#
# * The loss on the training captions begins above that on dev. Dropout and the views of each photo make training harder
#   than being tested, and the first epoch's figure is a mean over an epoch in which everything was learnt.
# * After one epoch the captions are sentences already (BLEU-4 .16), but few different ones. With more epochs they
#   become more varied, and BLEU-4 rises with them.
# * The paper's lines are of the test split, with VGG19. They are a guide, not a finish line: a person's caption has
#   BLEU-4 .212 on dev (docs/model-card.md), and [09](09_how_good_is_it.ipynb) has told what that means.
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
    shipped = keras_sat.Captioner.from_pretrained("flickr8k-mobilenet_v2", encoder_weights=weights)
    dev = [image for image in photos if image.split == "dev"]
    print("cross-entropy of a word:", np.round(real["cross_entropy"], 2))
    for label, model in (("48 photos", small), ("6,000 photos", shipped)):
        real[label] = [result.caption for result in model.caption(dev)]
        print(f"\ntrained on {label}:", *real[label][:4], sep="\n    ")
    hopper = shipped.caption(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False))
    print("\nGrace Hopper (see 02):", hopper.caption)
else:
    print("KERAS_SAT_DATA is not set: no real photos here.")

# %% [markdown]
# ## What to expect of photos of your own
#
# The shipped captioner knows what Flickr8k knows: people, dogs, the outdoors. It never says that it is unsure, calls
# many women men, and has no word for what it has not seen. docs/model-card.md counts its mistakes. Two things help
# most: more captions of the kind of photos that you have, and reading what comes out.
#
# ## Exercises
#
# 1. Take 30 photos of your own, write two captions for each, and go on from `flickr8k-mobilenet_v2`. Which new words
#    does it learn?
# 2. Train the balloons without `initial_model` (`encoder="tiny"`), with as many epochs. What does it say?
# 3. How many pictures does it take until "balloon" is said at all? Try 20, 40, 80.
# 4. After learning "balloon", has it forgotten "circle"? Mix scenes with circles called circles into the folder.
#
# ## Next
#
# That was the last story. [The table of contents](README.md) says where each idea is, and
# [01](01_words_and_ids.ipynb) begins anew.
#
# The last cell checks what this notebook has claimed.

# %%
assert {split: len(members) for split, members in splits.items()} == {"train": 192, "dev": 24, "test": 24}
assert "balloon" in new_words and "circle" not in words
assert not {image.image_id for image in splits["train"]} & {image.image_id for image in splits["test"]}
assert history["loss"][-1] < history["loss"][0] / 2
assert figures["before"]["balloon"] == 0 and figures["after"]["balloon"] > 0.8 and figures["after"]["true"] > 0.7
assert table.statistics["photos"] == len(splits["test"])
assert seconds_of_loading < seconds_of_training / 2 and "learning_rate" in refused
assert [result.caption for result in again.caption(test[:5])] == [
    result.caption for result in captioner.caption(test[:5])
]
assert (folder / "run" / "model").is_dir() and (folder / "run" / "history.csv").is_file()
assert paper["encoder"] == "vgg19" and paper["optimizer"] == "rmsprop" and preset["trained_up_to"] == "out_relu"
assert (np.diff(curves["cross_entropy"]) < 0).all() and curves["cross_entropy"][0] > curves["val_cross_entropy"][
    0
] + 0.5
assert abs(curves["val_bleu_4"][0] - 0.164) < 0.001 and curves["val_bleu_4"].max() > curves["val_bleu_4"][0]
assert curves["val_distinct"][-1] > 1.5 * curves["val_distinct"][0]
assert len(rows) == 5 and preset["epochs"] == 12 and (curves["baseline"] == 0).all()  # nothing was drawn yet
if real_data:
    assert real["cross_entropy"][-1] < real["cross_entropy"][0]
    assert len(set(real["6,000 photos"])) > len(set(real["48 photos"]))
