"""What the fast twins of the decoder save in a training step.

    python benchmarks/fast_twins.py
    python benchmarks/fast_twins.py --rounds 5

Prints the processor time of a step on one thread, and that without each twin as a
multiple of it: medians, and quartiles in parentheses, of rounds in which all take
turns. The presets are the paper's and one that attends after reading. Batches have 64
captions of 12 words, with random features of 196 x 512 and a vocabulary of 3,000: of 64
photos (group_by="length") or, five each, of 13 (group_by="image").
"""

import argparse
import os
import time

import numpy as np

ONE_THREAD = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")
TIME, REGIONS, FEATURE_DIM, VOCABULARY = 12, 196, 512, 3000
WORDS = [f"word{number}" for number in range(VOCABULARY - 4)]
ROWS = {"length": (64,), "image": (13, 5)}  # axes of captions in a batch
CASES = [("paper", "length"), ("paper", "image"), ("flickr8k-lite0", "image")]
DECODER_OPTIONS = (  # those of a preset that are used here
    "attention",
    "scoring",
    "cell",
    "attends",
    "sentinel",
    "attention_dim",
    "readout_activation",
    "label_smoothing",
    "attention_penalty_weight",
)


def random_batch(group_by, seed):
    """Return a batch as make_batches yields it."""
    import tensorflow as tf

    random = np.random.default_rng(seed)
    photos = ROWS[group_by][0]
    features = random.standard_normal((photos, REGIONS, FEATURE_DIM)).clip(0)
    target_ids = random.integers(4, VOCABULARY, (*ROWS[group_by], TIME)).astype("int32")
    input_ids = np.concatenate([np.ones_like(target_ids[..., :1]), target_ids[..., :-1]], axis=-1)
    inputs = tf.constant(features, "float32"), tf.constant(input_ids)
    return inputs, tf.constant(target_ids), tf.ones(target_ids.shape)


def make_trainer(batches, preset, *, score_method=None, fast_loop=True):
    """Return a function that trains on the batches, with these names of twins."""
    import tensorflow as tf

    from keras_sat import PRESETS, Captioner

    options = PRESETS[preset]
    decoder_options = {name: options[name] for name in DECODER_OPTIONS if name in options}
    captioner = Captioner(WORDS, encoder=None, **decoder_options)
    captioner.compile(optimizer=options.get("optimizer", "adam"))
    captioner.build(((None, REGIONS, FEATURE_DIM), (None, None)))
    captioner.make_training_state()
    decoder = captioner.decoder
    if score_method is not None:
        decoder.attention_layer.score_method = score_method
    decoder.uses_fast_loop = fast_loop
    step = tf.function(captioner.train_step, autograph=False)

    def train():
        for batch in batches:
            float(step(batch)["loss"])

    train()  # traces the graph
    return train


def processor_seconds(function):
    start = time.process_time()
    function()
    return time.process_time() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    num_rounds = parser.parse_args().rounds
    os.environ |= dict.fromkeys(ONE_THREAD, "1")  # before TensorFlow is imported
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    for preset, group_by in CASES:
        batches = [random_batch(group_by, seed) for seed in range(2)]
        names = ["as it is", "plain loop"]
        trainers = [make_trainer(batches, preset), make_trainer(batches, preset, fast_loop=False)]
        if preset == "paper":  # whose scores are additive
            names.append("plain scores")
            trainers.append(make_trainer(batches, preset, score_method="plain"))
        rounds = [
            [processor_seconds(train) / len(batches) for train in trainers]
            for _ in range(num_rounds)
        ]
        seconds = np.array(rounds)  # (rounds, trainers)
        took = np.median(seconds[:, 0])
        print(f"{preset}, group_by={group_by}: {took:.3f} s for a step", flush=True)
        for name, ratios in zip(names, (seconds / seconds[:, :1]).T):
            low, median, high = np.quantile(ratios, [0.25, 0.5, 0.75])
            print(f"  {name:14} {median:.2f} ({low:.2f} to {high:.2f})")


if __name__ == "__main__":
    main()
