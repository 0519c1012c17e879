"""Trains the model of show_attend_tell_numpy.py on scenes, without TensorFlow, and
prints what it has learnt: `python -m keras_sat.show_attend_tell_numpy`.
"""

import argparse
import os
import shutil
import sys

if "numpy" not in sys.modules:
    # The matrices are small: with a second thread, numpy would wait more than compute.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402 (after this setting)

from data_utils.batches import inputs_and_targets  # noqa: E402
from data_utils.scenes import COLOURS, SHAPES, draw_scenes, is_true  # noqa: E402
from keras_sat.commands import Parser  # noqa: E402
from keras_sat.export import load_litert  # noqa: E402
from keras_sat.show_attend_tell_numpy import (  # noqa: E402
    caption,
    make_train_state,
    make_weights,
    train_step,
)

PROGRAM = "python -m keras_sat.show_attend_tell_numpy"
SIZES = {"embedding_dim": 32, "hidden_dim": 128, "attention_dim": 64}
ROWS = COLUMNS = 8  # of the grid of 64 regions
TRAIN_SEED, UNSEEN_SEED = 10_000, 1502
NUM_SCENES, NUM_UNSEEN = 18_000, 400  # to draw: about half of them have two objects
SCENES_PER_BATCH, CAPTIONS_PER_SCENE = 32, 2
EPOCHS, HARD_EPOCHS = 8, 2
LEARNING_RATE, HARD_LEARNING_RATE = 1e-2, 2e-3  # at their highest
WARMUP = 50  # updates
# No dropout: new scenes are drawn from the same few words, colours and shapes, so there
# is little to overfit. No penalty: it asks for a total attention of 1 for each region,
# but ten words have a total of 10 for 64 regions, and should look at the objects.
SCENE_DROPOUT = 0.0
SCENE_PENALTY_WEIGHT = 0.0
NUM_SHOWN = 4  # captions
SHADES = " .:-=+*#%@"


def scenes_of_two_objects(num_scenes, seed):
    """Draw scenes, and return those of two different objects."""
    scenes = draw_scenes(num_scenes, seed=seed, twin_share=0)
    return [scene for scene in scenes if len(scene.objects) == 2]


def encode(encoder, scenes):
    """Return the annotation vectors of scenes, (scenes, 64, 264).

    `encoder` is the LiteRTCaptioner of scenes. It returns 16 x 16 vectors of 66
    numbers; the vectors of four neighbours are joined, to save time.
    """
    cells = encoder.encode(np.stack([scene.image for scene in scenes]))  # (scenes, 256, 66)
    cells = cells.reshape(len(scenes), ROWS, 2, COLUMNS, 2, -1)
    neighbours_last = cells.transpose(0, 1, 3, 2, 4, 5)  # (scenes, 8, 8, 2, 2, 66)
    return neighbours_last.reshape(len(scenes), ROWS * COLUMNS, -1)


def make_batch(encoder, scenes):
    """Return ((a, input_ids), target_ids, token_weights) of scenes with captions.

    `objective` says what they are.
    """
    texts = [text for scene in scenes for text in scene.captions[:CAPTIONS_PER_SCENE]]
    ids_of_texts = [encoder.vocabulary.caption_to_ids(text) for text in texts]
    rows = inputs_and_targets(ids_of_texts, encoder.vocabulary)  # each (captions, C)
    input_ids, target_ids, token_weights = (
        array.reshape(len(scenes), CAPTIONS_PER_SCENE, -1) for array in rows
    )
    return (encode(encoder, scenes), input_ids), target_ids, token_weights


def batches(encoder, scenes, epochs, random):
    """Yield the batches of all epochs, each in another order of the scenes."""
    for _ in range(epochs):
        order = random.permutation(len(scenes))
        for first in range(0, len(scenes) - SCENES_PER_BATCH + 1, SCENES_PER_BATCH):
            numbers = order[first : first + SCENES_PER_BATCH]
            yield make_batch(encoder, [scenes[number] for number in numbers])


def learning_rate_of(update, num_updates, highest):
    """Return the learning rate of an update, counted from 1: it rises to the highest
    value, and then falls towards 0 along half a cosine.
    """
    warmup = min(WARMUP, num_updates // 2)
    if update <= warmup:
        return highest * update / warmup
    progress = (update - warmup) / (num_updates + 1 - warmup)
    return highest * (1 + np.cos(np.pi * progress)) / 2


def train(w, encoder, scenes, random, *, attention, epochs, highest_rate):
    """Train on scenes, and print the loss as it falls."""
    train_state = make_train_state(w)
    num_updates = epochs * (len(scenes) // SCENES_PER_BATCH)
    updates_per_line = max(1, num_updates // 20)
    losses = []
    for update, batch in enumerate(batches(encoder, scenes, epochs, random), start=1):
        loss = train_step(
            w,
            train_state,
            batch,
            random,
            attention=attention,
            dropout=SCENE_DROPOUT,
            learning_rate=learning_rate_of(update, num_updates, highest_rate),
            penalty_weight=SCENE_PENALTY_WEIGHT,
        )
        losses.append(loss)
        if len(losses) == updates_per_line or update == num_updates:
            mean_loss = np.mean(losses)
            bar = "#" * round(mean_loss)
            print(f"update {update:5} of {num_updates}  loss {mean_loss:5.2f}  {bar}", flush=True)
            losses = []


def share_of_true_captions(scenes, captions):
    """Return the share of captions, from `caption`, that are true of their scenes."""
    truths = [is_true(scene, " ".join(words)) for scene, (words, _) in zip(scenes, captions)]
    # is_true returns None where it cannot be told, which does not count as true.
    return np.mean([truth is True for truth in truths])


# === In characters ===


def map_in_characters(alpha):
    """Return the lines of an attention map (L,): the denser, the more attention."""
    levels = np.round(alpha / alpha.max() * (len(SHADES) - 1)).astype(int)
    rows = levels.reshape(ROWS, COLUMNS)
    return ["".join(2 * SHADES[level] for level in row) for row in rows]


def scene_in_characters(scene):
    """Return the lines of a scene: 1 and 2 where the middle of a cell is in the box of
    the first or the second object.
    """
    height, width, _ = scene.image.shape
    cells = np.full((ROWS, COLUMNS), "  ")
    for row in range(ROWS):
        for column in range(COLUMNS):
            y, x = (row + 0.5) * height / ROWS, (column + 0.5) * width / COLUMNS
            for number, item in enumerate(scene.objects, start=1):
                left, top, right, bottom = item.box
                if left <= x < right and top <= y < bottom:
                    cells[row, column] = 2 * str(number)
    return ["".join(row) for row in cells]


def show_caption(scene, words, maps):
    """Print a caption, the scene, and the maps of the words for colours and shapes."""
    text = " ".join(words)
    truth = {True: "true", False: "not true", None: "its truth cannot be told"}
    objects = [f"{n}: {' '.join(item.looks)}" for n, item in enumerate(scene.objects, start=1)]
    print(f"\n{text}  ({truth[is_true(scene, text)]}; {', '.join(objects)})\n")

    pictures = [("scene", scene_in_characters(scene))]
    for word, alpha in zip(words, maps):
        if word in COLOURS or word in SHAPES:
            pictures.append((word, map_in_characters(alpha)))
    picture_width = 2 * COLUMNS + 2  # with a frame
    columns, _ = shutil.get_terminal_size()
    per_line = max(1, columns // (picture_width + 1))
    for first in range(0, len(pictures), per_line):
        together = pictures[first : first + per_line]
        print(" ".join(f"{title:^{picture_width}}" for title, _ in together).rstrip())
        for lines in zip(*(lines for _, lines in together)):
            print(" ".join(f"|{line}|" for line in lines))


def show_results(w, encoder, scenes):
    """Caption unseen scenes. Print how many captions are true, and some of them."""
    captions = caption(w, encode(encoder, scenes), encoder.vocabulary)
    share = share_of_true_captions(scenes, captions)
    print(f"\n{share:.0%} of the captions of {len(scenes)} unseen scenes are true.")
    for scene, (words, maps) in list(zip(scenes, captions))[:NUM_SHOWN]:
        show_caption(scene, words, maps)


# === The command line ===


class TrainingParser(Parser):
    """The parser of this program."""

    speaker = PROGRAM


def number_from(lowest):
    """Return a function that reads a whole number of at least `lowest`."""

    def read(text):
        if not text.isdecimal() or int(text) < lowest:
            expected = f"expected a whole number of at least {lowest}"
            raise argparse.ArgumentTypeError(f"{expected}. Received: {text!r}")
        return int(text)

    return read


def parse(arguments):
    parser = TrainingParser(
        prog=PROGRAM,
        description="Train Show, Attend and Tell on scenes, in numpy alone.",
    )
    parser.add_argument(
        "--hard", action="store_true", help="go on with hard attention after soft attention"
    )
    parser.add_argument(
        "--scenes",
        type=number_from(100),
        default=NUM_SCENES,
        metavar="N",
        help="scenes to draw; those of two objects are used (default: %(default)s)",
    )
    parser.add_argument(
        "--epochs",
        type=number_from(1),
        default=EPOCHS,
        metavar="N",
        help="passes over the scenes with soft attention (default: %(default)s); --hard adds "
        f"{HARD_EPOCHS} passes",
    )
    parser.add_argument(
        "--seed",
        type=number_from(0),
        default=0,
        metavar="N",
        help="of the weights, the order of the scenes, and the draws (default: %(default)s)",
    )
    return parser.parse_args(arguments)


def run(options):
    """Train, and print the loss, the share of true captions and some of them."""
    encoder = load_litert("scenes", num_threads=1)
    scenes = scenes_of_two_objects(options.scenes, TRAIN_SEED)
    unseen = scenes_of_two_objects(NUM_UNSEEN, UNSEEN_SEED)
    feature_dim = encode(encoder, unseen[:1]).shape[-1]
    w = make_weights(len(encoder.vocabulary), feature_dim, **SIZES, seed=options.seed)
    random = np.random.default_rng(options.seed)
    num_weights = sum(weight.size for weight in w.values())
    print(f"{len(scenes)} scenes of two objects, {num_weights:,} weights")
    print("no dropout: in a world as small as this, there is little to overfit")
    print("no penalty: ten words cannot give each of 64 regions a total attention of 1")

    print("\nsoft attention")
    train(
        w,
        encoder,
        scenes,
        random,
        attention="soft",
        epochs=options.epochs,
        highest_rate=LEARNING_RATE,
    )
    show_results(w, encoder, unseen)
    if options.hard:
        print("\nhard attention")
        train(
            w,
            encoder,
            scenes,
            random,
            attention="hard",
            epochs=HARD_EPOCHS,
            highest_rate=HARD_LEARNING_RATE,
        )
        show_results(w, encoder, unseen)


def main(arguments=None):
    """Run the command and return its exit status."""
    options = parse(arguments)
    try:
        run(options)
    except KeyboardInterrupt:
        new_line = "\n" if sys.stderr.isatty() else ""  # the terminal has written ^C
        print(f"{new_line}{PROGRAM}: stopped. The same command starts over.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError) as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 2
    return 0
