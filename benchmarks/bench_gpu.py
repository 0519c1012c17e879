"""Measure the decoder on an accelerator, with Keras' JAX backend: `make bench-gpu` prints one table.

Needs jax, keras and numpy, but not TensorFlow; with PyTorch, the peer is measured too. For float32 and for bfloat16:
captions a second of a training step, photos a second of greedy and of beam search, and their shares of the limit that
the device's own large product sets (see limits.py; a device that computes tanh beside its products has a lower one).

    python benchmarks/bench_gpu.py [--small]        --small: sizes with which a processor is done in a minute
"""

import argparse
import dataclasses
import functools
import os
import statistics
import sys
import time
from pathlib import Path

os.environ["KERAS_BACKEND"] = "jax"
sys.path.insert(0, str(Path(__file__).parents[1]))  # so that a checkout will do

import jax
import keras
import limits
import numpy as np
from keras import ops

from keras_sat import equations
from keras_sat.model.decoder import CaptionDecoder
from keras_sat.search import algorithms as search

NUM_ROUNDS = 5
NUM_STEPS = 12
PHOTOS_OF_A_BATCH = 13  # with five captions each
SPECIAL = {"pad_token_id": 0, "start_token_id": 1, "end_token_id": 2, "forbidden_token_ids": (2,)}  # all steps are made


def median_seconds(function):
    """Return the median seconds of a call, after a first one, which compiles."""
    jax.block_until_ready(function())
    measured = []
    for _ in range(NUM_ROUNDS):
        start = time.perf_counter()
        jax.block_until_ready(function())
        measured.append(time.perf_counter() - start)
    return statistics.median(measured)


def rates(dtype, side):
    """Return the device's operations a second in a large product, and its tanh evaluations a second."""
    x = jax.random.normal(jax.random.key(0), (side, side), dtype)
    return {
        "flops": 2 * side**3 / median_seconds(functools.partial(jax.jit(lambda x: x @ x), x)),
        "evaluations": side**2 / median_seconds(functools.partial(jax.jit(jax.numpy.tanh), x)),
    }


def training_batches(sizes, num_batches=4):
    """Return batches of whole photos with captions as long as Flickr8k's, and random words and features."""
    random = np.random.default_rng(0)
    lines = (Path(__file__).parent / "flickr8k_lengths.txt").read_text().splitlines()
    lengths = np.array(sorted([int(length) + 1 for length in line.split()] for line in lines))  # with <end>
    batches = []
    for start in np.linspace(0, len(lengths) - PHOTOS_OF_A_BATCH, num_batches, dtype=int):
        some = lengths[start : start + PHOTOS_OF_A_BATCH]
        weights = (np.arange(some.max()) < some[..., None]).astype("float32").reshape(-1, some.max())
        ids, targets = random.integers(4, sizes.vocabulary, (2, *weights.shape)).astype("int32")
        features = random.standard_normal((len(some), sizes.regions, sizes.feature_dim), dtype="float32").clip(0)
        batches.append((features, ids, targets, weights))
    return batches


def make_decoder(sizes):
    decoder = CaptionDecoder(
        sizes.vocabulary,
        embedding_dim=sizes.embedding_dim,
        hidden_dim=sizes.hidden_dim,
        attention_dim=sizes.attention_dim,
    )
    decoder.build((None, sizes.regions, sizes.feature_dim), (None, None))
    return decoder


def train(sizes, batches):
    """Return captions a second, and a Work of all batches."""
    decoder = make_decoder(sizes)
    optimizer = keras.optimizers.Adam(4e-4, global_clipnorm=5.0)
    optimizer.build(decoder.trainable_variables)

    def loss(trainable, others, features, ids, targets, weights):
        decoded, others = decoder.stateless_call(trainable, others, features, ids, training=True)
        log_prob = equations.caption_log_prob(equations.word_log_probs(decoded.logits, targets), weights)
        penalty = equations.attention_penalty(decoded.attention_weights, weights)
        return ops.mean(0.33 * penalty - log_prob), others

    @jax.jit
    def step(state, batch):
        trainable, others, of_optimizer = state
        (_, others), gradients = jax.value_and_grad(loss, has_aux=True)(trainable, others, *batch)
        trainable, of_optimizer = optimizer.stateless_apply(of_optimizer, gradients, trainable)
        return trainable, others, of_optimizer

    variables = decoder.trainable_variables, decoder.non_trainable_variables, optimizer.variables
    state = [tuple([variable.value for variable in some] for some in variables)]
    on_device = [jax.device_put(batch) for batch in batches]

    def epoch():
        for batch in on_device:
            state[0] = step(state[0], batch)
        return state[0]

    seconds = median_seconds(epoch)
    num_words = sum(float(weights.sum()) for *_, weights in batches)
    work = limits.train_work(sizes, sum(len(features) for features, *_ in batches), num_words)
    return sum(len(ids) for _, ids, *_ in batches) / seconds, seconds, work


def caption(sizes, num_photos, num_beams):
    """Return photos a second, and the Work."""
    decoder = make_decoder(sizes)
    variables = [variable.value for variable in decoder.trainable_variables]
    features = jax.device_put(
        np.random.default_rng(0).random((num_photos, sizes.regions, sizes.feature_dim), dtype="float32")
    )

    @jax.jit
    def run(variables, features):
        with keras.StatelessScope(zip(decoder.trainable_variables, variables)):
            features = ops.cast(features, decoder.compute_dtype)
            projected = decoder.project_features(features)

            def step(input_ids, state):
                return decoder.step(input_ids, state, features, projected)

            state = decoder.initial_state(features, num_beams)
            options = {"num_regions": sizes.regions, "max_length": NUM_STEPS, **SPECIAL}
            if num_beams == 1:
                return search.greedy_search(step, state, **options).token_ids
            return search.beam_search(step, state, num_beams=num_beams, **options).token_ids

    seconds = median_seconds(lambda: run(variables, features))
    return num_photos / seconds, seconds, limits.caption_work(sizes, num_photos, NUM_STEPS, num_beams)


def peer_rates(sizes, batches, num_photos, bfloat16):
    """Return what PyTorch's textbook loop does a second: captions trained, photos greedy, photos with beam 5."""
    import peers
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    peer = peers.TextbookDecoder(
        sizes.vocabulary,
        feature_dim=sizes.feature_dim,
        embedding_dim=sizes.embedding_dim,
        hidden_dim=sizes.hidden_dim,
        attention_dim=sizes.attention_dim,
    ).to(device)
    optimizer = torch.optim.Adam(peer.parameters(), lr=4e-4)
    of_peer = []
    for features, ids, targets, weights in batches:
        features = torch.tensor(features).repeat_interleave(len(ids) // len(features), dim=0)
        tensors = [x.to(device) for x in (features, torch.tensor(ids).long(), torch.tensor(targets).long())]
        of_peer.append((*tensors, weights.sum(axis=1).astype(int).tolist()))
    photos = torch.rand(num_photos, sizes.regions, sizes.feature_dim, device=device)
    options = NUM_STEPS, SPECIAL["start_token_id"], SPECIAL["end_token_id"], [0, 1, 2]

    def epoch():
        for batch in of_peer:
            peers.train_step(peer, optimizer, *batch, 0.33)

    def search_all(num_beams):
        for photo in photos:
            peers.beam_search(peer, photo, num_beams, *options)

    with torch.autocast(device, torch.bfloat16, enabled=bfloat16):
        seconds = [
            median_seconds(lambda function=function: function() or 0)
            for function in (epoch, functools.partial(search_all, 1), functools.partial(search_all, 5))
        ]
    return [sum(len(ids) for _, ids, *_ in batches) / seconds[0], num_photos / seconds[1], num_photos / seconds[2]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--small", action="store_true", help="small sizes, to see that it runs")
    small = parser.parse_args().small
    sizes = limits.Sizes(20, 16, 16, 16, 16, 100) if small else limits.Sizes()
    num_photos, of_peer, side = (32, 2, 256) if small else (512, 16, 8192)
    batches = training_batches(sizes)
    print(f"{jax.devices()[0].device_kind}, {dataclasses.asdict(sizes)}")
    print(f"{'':28}{'a second':>10}{'share':>8}{'peer':>10}{'ratio':>8}")
    for policy, dtype in (("float32", "float32"), ("mixed_bfloat16", "bfloat16")):
        keras.config.set_dtype_policy(policy)
        at_most = rates(dtype, side)
        try:
            peer = peer_rates(sizes, batches, of_peer, policy != "float32")
        except ImportError:
            peer = [None] * 3
        rows = train(sizes, batches), caption(sizes, num_photos, 1), caption(sizes, num_photos, 5)
        for name, (rate, seconds, work), theirs in zip(("train_soft", "caption_greedy", "caption_beam5"), rows, peer):
            of_peer_columns = "" if theirs is None else f"{theirs:>10.1f}{rate / theirs:>8.1f}"
            print(f"{name + ' ' + dtype:28}{rate:>10.1f}{work.seconds(at_most) / seconds:>8.2f}{of_peer_columns}")


if __name__ == "__main__":
    main()
