"""Measure the decoder on an accelerator, with Keras' JAX backend: `make bench-gpu` prints one table.

Needs jax, keras and numpy, but not TensorFlow; with PyTorch, the peers are measured too: the textbook's loop, and the
careful decoder as it is and compiled (see peers.py and careful_peer.py). For float32 and for bfloat16, and batches of
64 to 1,024: captions a second of a training step, photos a second of greedy and of beam search. The shares are those of
the limit that the device's own large product sets, and of what its memory could do (see limits.py; a device that
computes tanh beside its products has a lower limit).

    python benchmarks/bench_gpu.py              the table, which is also written to benchmarks/results_gpu.json
    python benchmarks/bench_gpu.py --small      sizes with which a processor is done in minutes; nothing is written
"""

import argparse
import dataclasses
import functools
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import NamedTuple

os.environ["KERAS_BACKEND"] = "jax"
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # PyTorch needs some of the memory too
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
BATCH_SIZES = (64, 256, 1024)  # captions, five of each photo; or photos of a search
RESULTS = Path(__file__).parent / "results_gpu.json"
SPECIAL = {"pad_token_id": 0, "start_token_id": 1, "end_token_id": 2, "forbidden_token_ids": (2,)}  # all steps are made


class Measured(NamedTuple):
    """What a job did a second, in how many seconds, which Work it was and how many bytes it moved at least."""

    rate: float
    seconds: float
    work: limits.Work
    traffic: float


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
    """Return what the device does a second: operations of a large product, tanh evaluations, bytes read and written."""
    x = jax.random.normal(jax.random.key(0), (side, side), dtype)
    return {
        "flops": 2 * side**3 / median_seconds(functools.partial(jax.jit(lambda x: x @ x), x)),
        "evaluations": side**2 / median_seconds(functools.partial(jax.jit(jax.numpy.tanh), x)),
        "bytes": 2 * x.nbytes / median_seconds(functools.partial(jax.jit(lambda x: -x), x)),  # read and written
    }


def training_batches(sizes, batch_size, num_batches=4):
    """Return batches of whole photos, at least `batch_size` captions, as long as Flickr8k's, of random words."""
    random = np.random.default_rng(0)
    lines = (Path(__file__).parent / "flickr8k_lengths.txt").read_text().splitlines()
    lengths = np.array(sorted([int(length) + 1 for length in line.split()] for line in lines))  # with <end>
    batches, num_photos = [], -(-batch_size // 5)
    for start in np.linspace(0, len(lengths) - num_photos, num_batches, dtype=int):
        some = lengths[start : start + num_photos]
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
    """Return the Measured of a training step."""
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
    num_photos = sum(len(features) for features, *_ in batches)
    work = limits.train_work(sizes, num_photos, sum(float(weights.sum()) for *_, weights in batches))
    width = 4 if decoder.compute_dtype == "float32" else 2
    traffic = sum(
        limits.train_traffic(sizes, len(features), float(weights.sum()), ids.shape[1], width)
        for features, ids, _, weights in batches
    )
    return Measured(sum(len(ids) for _, ids, *_ in batches) / seconds, seconds, work, traffic)


def caption(sizes, num_photos, num_beams):
    """Return the Measured of a search."""
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
    work = limits.caption_work(sizes, num_photos, NUM_STEPS, num_beams)
    width = 4 if decoder.compute_dtype == "float32" else 2
    return Measured(
        num_photos / seconds, seconds, work, limits.search_traffic(sizes, num_photos, NUM_STEPS, num_beams, width)
    )


def peer_functions(sizes, batches, num_photos):
    """Return for each peer three functions, each with what it does: train, greedy search, search with five beams."""
    import careful_peer
    import peers
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    dims = {name: getattr(sizes, name) for name in ("feature_dim", "embedding_dim", "hidden_dim", "attention_dim")}
    options = NUM_STEPS, SPECIAL["start_token_id"], SPECIAL["end_token_id"], [0, 1, 2]
    photos = torch.rand(num_photos, sizes.regions, sizes.feature_dim, device=device)
    num_captions = sum(len(ids) for _, ids, *_ in batches)

    def as_batch(features, ids, targets, weights):
        photo_of_caption = torch.arange(len(features), device=device).repeat_interleave(len(ids) // len(features))
        features, ids, targets = (torch.tensor(x).to(device) for x in (features, ids, targets))
        return features, photo_of_caption, ids.long(), targets.long(), weights.sum(axis=1).astype(int).tolist()

    of_careful = [as_batch(*batch) for batch in batches]
    of_loop = [(features[photo], *rest) for features, photo, *rest in of_careful]

    def trainer(peer, train_step, of_peer, fused=None):
        optimizer = torch.optim.Adam(peer.parameters(), lr=4e-4, fused=fused)
        return lambda: [train_step(peer, optimizer, *batch, 0.33) for batch in of_peer]

    textbook, careful, compiled = (
        kind(sizes.vocabulary, **dims).to(device)
        for kind in (peers.TextbookDecoder, careful_peer.CarefulDecoder, careful_peer.CarefulDecoder)
    )
    compiled.compile_step()
    some = photos[:8]  # the textbook takes them one by one
    functions = {
        "textbook": [
            (trainer(textbook, peers.train_step, of_loop), num_captions),
            *(
                (lambda beams=beams: [peers.beam_search(textbook, photo, beams, *options) for photo in some], len(some))
                for beams in (1, 5)
            ),
        ]
    }
    for name, peer in (("careful", careful), ("compiled", compiled)):
        searches = [
            (lambda peer=peer, beams=beams: careful_peer.beam_search(peer, photos, beams, *options), num_photos)
            for beams in (1, 5)
        ]
        functions[name] = [(trainer(peer, careful_peer.train_step, of_careful, fused=True), num_captions), *searches]
    return functions


def peer_rates(sizes, batches, num_photos, bfloat16):
    """Return for each peer what it does a second: captions trained, photos greedy, photos with beam 5."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"

    def rounded(run):
        with torch.autocast(device, torch.bfloat16, enabled=bfloat16):
            run()
        return 0

    found = {}
    for name, functions in peer_functions(sizes, batches, num_photos).items():
        try:
            found[name] = [amount / median_seconds(functools.partial(rounded, run)) for run, amount in functions]
        except torch.OutOfMemoryError:
            print(f"{name}, {num_photos}: out of memory")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--small", action="store_true", help="small sizes, to see that it runs")
    small = parser.parse_args().small
    sizes = limits.Sizes(20, 16, 16, 16, 16, 100) if small else limits.Sizes()
    batch_sizes, side = ((10, 20), 256) if small else (BATCH_SIZES, 8192)
    jax.config.update("jax_default_matmul_precision", "highest")  # float32 as PyTorch understands it, not TF32
    device = jax.devices()[0].device_kind
    print(f"{device}, {dataclasses.asdict(sizes)}")
    print(f"{'':32}{'a second':>10}{'share':>8}{'memory':>8}   our speed over a peer's")
    results = {}
    for policy, dtype in (("float32", "float32"), ("mixed_bfloat16", "bfloat16")):
        keras.config.set_dtype_policy(policy)
        at_most = rates(dtype, side)
        for batch_size in batch_sizes:
            batches = training_batches(sizes, batch_size)
            try:
                by_peer = peer_rates(sizes, batches, batch_size, policy != "float32")
            except ImportError:
                by_peer = {}
            jobs = train(sizes, batches), caption(sizes, batch_size, 1), caption(sizes, batch_size, 5)
            for number, (name, measured) in enumerate(zip(("train_soft", "caption_greedy", "caption_beam5"), jobs)):
                ratios = {peer: measured.rate / of_peer[number] for peer, of_peer in by_peer.items()}
                share = measured.work.seconds(at_most) / measured.seconds
                memory = measured.traffic / at_most["bytes"] / measured.seconds
                name = f"{name} {dtype} {batch_size}"
                results[name] = {"value": measured.rate, "share_of_limit": share, "memory": memory, "ratios": ratios}
                shown = ", ".join(f"{ratio:.1f} x {peer}" for peer, ratio in ratios.items())
                print(f"{name:32}{measured.rate:>10.1f}{share:>8.2f}{memory:>8.2f}   {shown}", flush=True)
            if not small:
                RESULTS.write_text(json.dumps({"device": device, "jax": jax.__version__, "figures": results}, indent=1))


if __name__ == "__main__":
    main()
