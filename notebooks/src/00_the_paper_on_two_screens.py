# %% [markdown]
# # 00 · The paper on two screens
#
# `keras_sat/show_attend_tell.py` is *Show, Attend and Tell* (Xu et al., 2015) and nothing else: attention, the LSTM,
# the loss, the training step and greedy captions, in 130 lines. This notebook shows all of it, trains it on drawn
# scenes, first with soft and then with hard attention, and draws where it looks. Each part says which notebook tells
# more. `keras_sat.Captioner` computes the same, faster and with many options: a test holds the two equal.

# %%
import importlib.util
import subprocess
import sys
from pathlib import Path

if importlib.util.find_spec("keras_sat") is None:  # on Colab, say: the clone that this notebook lies in is installed
    clone = Path("..").resolve()
    if not (clone / "keras_sat").is_dir():
        raise ModuleNotFoundError(
            "keras_sat is not installed. Clone its repository, and open this notebook in the clone's folder notebooks."
        )
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", str(clone)], check=True)

from data_utils.quiet import import_tensorflow

tf = import_tensorflow()  # without its greetings, half a dozen lines about the processor

# %%
import inspect

import keras
import matplotlib.pyplot as plt
import numpy as np

from data_utils import CaptionedImage, FeatureCache, draw_scenes, is_true, make_batches, tokenise
from keras_sat import AttentionDisplay, Captioner, show_attend_tell
from keras_sat.show_attend_tell import ShowAttendTell, caption, objective, train_step

plt.rcParams["figure.dpi"] = 80


def show(*parts):
    print("\n".join(inspect.getsource(part) for part in parts))


# %% [markdown]
# ## Shapes, letters and weights
#
# The letters are the paper's, and numbers in parentheses are its equations. The names of the weights are ours; a comment
# gives the paper's letter.

# %%
print(inspect.getsource(show_attend_tell).partition("\n\n\nclass")[0])
print("\n")
show(ShowAttendTell.__init__)

# %% [markdown]
# [01](01_words_and_ids.ipynb) tells where the words and their ids come from, and
# [02](02_an_image_as_196_vectors.ipynb) how a photo becomes annotation vectors.
#
# ## Attend
#
# An MLP scores each region, given what the LSTM has written so far (4). A softmax turns the scores into weights (5).
# Soft attention takes the weighted mean of all regions (13). Hard attention draws one of them (8), (9).

# %%
show(ShowAttendTell.attend)

# %% [markdown]
# [03](03_one_step_of_attention.ipynb) computes this step by hand, [04](04_kinds_of_attention.ipynb) tries other scores,
# and [05](05_without_attention.ipynb) leaves attention out. [07](07_hard_attention.ipynb) is about the draw.
#
# ## Tell
#
# The LSTM reads the last word and the context (1)-(3), and the deep output layer predicts the next word from the word,
# the state and the context (7). `call` does that for all words of a caption.

# %%
show(ShowAttendTell.initial_state, ShowAttendTell.step, ShowAttendTell.call)

# %% [markdown]
# [03](03_one_step_of_attention.ipynb) has the gates, and [05](05_without_attention.ipynb) a GRU instead.
#
# ## What is minimised
#
# The loss (14) is the negative log-probability of the caption, plus a penalty for regions that get more or less than
# their share of attention over the whole caption. A draw has no gradient, so hard attention needs one more term: a
# surrogate, whose gradient is that of equation (12) with the baseline and the entropy of section 4.1.

# %%
show(objective)

# %% [markdown]
# [06](06_soft_attention_trained.ipynb) takes the loss (14) apart. [07](07_hard_attention.ipynb) compares the gradient
# (12) with the exact one.
#
# ## Train, and write captions
#
# Hard attention draws its noise here, and tosses a coin for each photo: heads, it draws; tails, it takes the weighted
# mean. Captions are greedy: each word is the most probable one.

# %%
show(train_step, caption)

# %% [markdown]
# [06](06_soft_attention_trained.ipynb) does a training step by hand, and [08](08_words_out.ipynb) has beams and sampling.
#
# That was all of it. Now it learns.
#
# ## Scenes
#
# Scenes of two objects, as grids of 8 x 8 annotation vectors. The encoder is the one of the bundled captioner `scenes`,
# frozen; nothing else of that captioner is used. A graph is compiled for each length of captions, so one length, ten
# words, saves time here.

# %%
bundled = Captioner.from_pretrained("scenes")
vocabulary, encoder = bundled.vocabulary, bundled.encoder_model
scenes = [scene for scene in draw_scenes(12_000, seed=10_000, twin_share=0) if len(scene.objects) == 2]
of_ten_words = {scene.image_id: [text for text in scene.captions if len(tokenise(text)) == 10] for scene in scenes}
images = [
    CaptionedImage(scene.image_id, scene.image, captions, "train")
    for scene in scenes
    if (captions := of_ten_words[scene.image_id][:1])
]
images = images[: len(images) // 64 * 64]  # whole batches
ids, pictures = [image.image_id for image in images], [image.image_path for image in images]
cache = FeatureCache.build("features", ids, pictures, encoder, show_progress=False)
batches = make_batches(images, vocabulary, cache, batch_size=64)

(features, input_ids), target_ids, token_weights = first_batch = next(iter(batches))
print(len(images), "captions; features", features.shape, " input_ids", input_ids.shape)
print(images[0].captions[0])
