"""Measure keras_sat: `make bench` prints one table and writes benchmarks/results.json.

Leave the machine alone meanwhile. What is compared is measured turn about turn in one run, five rounds of it, with as
many threads as there are cores; figures are medians, and a share or a ratio is that of two medians. Behind a ratio
stands its spread: half of the range that it had in the rounds, marked with "!" above 15 %. A share is that of the
machine's limit (see limits.py), or of the bare encoder, or of the bare copy of the rows; a ratio is our speed over that
of a peer (see peers.py and careful_peer.py).

    python benchmarks/bench.py                     everything, in twenty minutes on two cores
    python benchmarks/bench.py train_soft import   some figures; the others in results.json stay
"""

import argparse
import functools
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import limits
import numpy as np
from timing import (
    NUM_ROUNDS,
    compare,
    figure,
    in_turn,
    in_turn_with_the_limit,
    measured_rates,
    num_cores,
    pin_threads,
    rate_names,
    ratio_in_words,
    seconds,
)

from data_utils import CaptionedImage, FeatureCache, Vocabulary, draw_scenes, load_image, make_batches
from data_utils.files import write_json

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
SIZES = limits.Sizes()
BATCH_SIZE = 64
NUM_STEPS = 12  # of a search: random weights never say <end>, and Flickr8k's captions have 11.8 words with it
NUM_BATCHES = 8
NUM_PHOTOS = 1000


class Bench:
    """What several figures share: the folder for what they write, and the models."""

    def __init__(self, folder):
        self.folder = folder

    def captioner(self, attention="soft", **options):
        from keras_sat import Captioner

        words = [f"word{number}" for number in range(SIZES.vocabulary - 4)]
        captioner = Captioner(words, encoder=None, attention=attention, **options)
        captioner.build(((None, SIZES.regions, SIZES.feature_dim), (None, None)))
        captioner.compile()
        return captioner

    def features(self, num_photos, seed=0):
        random = np.random.default_rng(seed)
        return random.standard_normal((num_photos, SIZES.regions, SIZES.feature_dim), dtype=np.float32).clip(0)

    def photos(self, number):
        """Return paths of photos: Flickr8k's if KERAS_SAT_DATA names the folder of its zips, else drawn ones."""
        folder, paths = os.environ.get("KERAS_SAT_DATA"), []
        if folder:
            with zipfile.ZipFile(Path(folder) / "Flickr8k_Dataset.zip") as archive:
                names = sorted(name for name in archive.namelist() if name.endswith(".jpg"))[:number]
                archive.extractall(self.folder, names)
            return [str(self.folder / name) for name in names]
        from PIL import Image

        for scene in draw_scenes(number, seed=0, image_size=224):
            paths.append(str(self.folder / f"{scene.image_id}.jpg"))
            Image.fromarray(scene.image).save(paths[-1], quality=90)
        return paths


# === Training ===


def flickr8k_captions():
    """Return captioned photos whose captions are as long as those of 600 photos of Flickr8k, with random words."""
    random = np.random.default_rng(0)
    images = []
    for number, line in enumerate((HERE / "flickr8k_lengths.txt").read_text().splitlines()):
        captions = [
            " ".join(f"word{word}" for word in random.integers(0, SIZES.vocabulary - 4, int(length)))
            for length in line.split()
        ]
        images.append(CaptionedImage(f"photo{number}", "", captions, "train"))
    return images


def training_batches(bench, vocabulary):
    """Return some batches of whole photos, as make_batches makes them, spread over all lengths."""
    images = flickr8k_captions()
    cache = random_cache(bench.folder / "training", [image.image_id for image in images])
    batches = make_batches(images, vocabulary, cache, BATCH_SIZE, group_by="image", shuffle=False)
    every = len(batches) // NUM_BATCHES
    return [batch for number, batch in enumerate(batches) if number % every == every // 2][:NUM_BATCHES]


def number_of_captions(batches):
    return sum(float(np.sum(np.any(weights.numpy() > 0, axis=-1))) for _, _, weights in batches)


def number_of_words(batches):
    return sum(float(np.sum(weights)) for _, _, weights in batches)


def compiled_step(captioner):
    import tensorflow as tf

    return tf.function(captioner.train_step, reduce_retracing=True, autograph=False)


def trainer(step, batches):
    """Return a function that trains on all batches by a compiled step, and waits for each."""
    return lambda: [float(step(batch)["loss"]) for batch in batches]


def peer_trainers(batches, penalty_weight):
    """Return functions by peer, each of which trains on all batches."""
    import careful_peer
    import peers
    import torch

    of_loop = [peers.as_peer_batch(batch) for batch in batches]
    of_careful = [careful_peer.as_careful_batch(batch) for batch in batches]

    def peer_trainer(peer, train_step, of_peer, fused=None):
        optimizer = torch.optim.Adam(peer.parameters(), lr=4e-4, fused=fused)
        return lambda: [train_step(peer, optimizer, *batch, penalty_weight) for batch in of_peer]

    trainers = {"pytorch_loop": peer_trainer(peers.TextbookDecoder(SIZES.vocabulary), peers.train_step, of_loop)}
    for name, peer in careful_peers().items():
        trainers[name] = peer_trainer(peer, careful_peer.train_step, of_careful, fused=True)
    return trainers


def careful_peers():
    """Return the careful decoder as it is and, where there is a compiler, compiled: dict by the name of the peer."""
    import careful_peer

    decoders = {"pytorch_careful": careful_peer.CarefulDecoder(SIZES.vocabulary)}
    if careful_peer.can_compile():
        decoders["pytorch_compiled"] = careful_peer.CarefulDecoder(SIZES.vocabulary).compile_step()
    else:
        print("  no C++ compiler: the careful peer is not compiled")
    return decoders


def bench_train(bench, attention):
    """Captions a second of `train_step`, and of the peers on every fourth batch."""
    captioner = bench.captioner(attention)
    batches = training_batches(bench, captioner.vocabulary)
    step, num_captions = compiled_step(captioner), number_of_captions(batches)
    num_words = number_of_words(batches)
    num_photos = sum(len(features) for (features, _), _, _ in batches)

    ours = trainer(step, batches)
    tracing = seconds(ours)
    of_peers = batches[1::4]
    trainers = peer_trainers(of_peers, captioner.attention_penalty_weight) if attention == "soft" else {}
    rates, (own, *peer_seconds) = in_turn_with_the_limit(ours, *trainers.values())
    work = limits.train_work(SIZES, num_photos, num_words)
    least = work.seconds(rates)
    print(
        f"  {num_captions:.0f} captions of {num_photos} photos, {num_words:.0f} words: {work.flops / 1e9:.0f} GFLOP, "
        f"{work.evaluations / 1e6:.0f} M tanh and exp; {least:.2f} s at {rate_names(rates)}, {own:.2f} s measured; "
        f"first pass {tracing:.0f} s, {step.experimental_get_tracing_count()} traces"
    )
    result = figure(num_captions / own, "captions/s", least / own, first_pass_seconds=tracing)
    for peer, theirs in zip(trainers, peer_seconds):
        compare(result, peer, own, theirs, number_of_words(of_peers) / num_words)
    return result


def bench_train_soft(bench):
    return bench_train(bench, "soft")


def bench_train_hard(bench):
    return bench_train(bench, "hard")


def bench_train_bfloat16(bench):
    """Captions a second of `train_step` in bfloat16, over those in float32."""
    captioners = {dtype: bench.captioner(dtype=dtype) for dtype in ("mixed_bfloat16", "float32")}
    batches = training_batches(bench, captioners["float32"].vocabulary)[1::2]
    own, in_float32 = in_turn(*(trainer(compiled_step(captioner), batches) for captioner in captioners.values()))
    result = figure(number_of_captions(batches) / own, "captions/s")
    compare(result, "float32", own, in_float32)
    return result


def bench_train_along(bench):
    """Photos a second with an encoder that is trained along, as a share of the sum of what its parts take alone."""
    import tensorflow as tf

    from keras_sat import Captioner

    of_words = bench.captioner()
    words = of_words.vocabulary
    batches = training_batches(bench, words)[3:5]
    captioner = Captioner(words, encoder="efficientnet_lite0", encoder_weights=None, encoder_training="fine-tuned")
    _, regions, feature_dim = captioner.photo_encoder.features_shape
    captioner.compile()
    decoder = Captioner(words, encoder=None)
    decoder.build(((None, regions, feature_dim), (None, None)))
    decoder.compile()
    random = np.random.default_rng(0)
    photos = [
        tf.constant(random.uniform(0, 255, (len(features), 224, 224, 3)).astype("float32"))
        for (features, _), *_ in batches
    ]
    features = [tf.constant(random.random((len(some), regions, feature_dim), "float32")) for some in photos]
    whole, rest = compiled_step(captioner), compiled_step(decoder)
    network = captioner.encoder_model

    @tf.function(autograph=False)
    def back_and_forth(images, upstream):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(captioner.photo_encoder(images) * upstream)
        return tf.add_n([tf.reduce_sum(gradient) for gradient in tape.gradient(loss, network.trainable_variables)])

    def train(step, inputs):
        return trainer(step, [((x, ids), *others) for x, ((_, ids), *others) in zip(inputs, batches)])

    def encode():
        for images, upstream in zip(photos, features):
            float(back_and_forth(images, upstream))

    own, encoding, decoding = in_turn(train(whole, photos), encode, train(rest, features))
    return figure(sum(map(len, photos)) / own, "photos/s", (encoding + decoding) / own)


def bench_train_after(bench):
    """Captions a second of `train_step` where attention is paid after reading, over those of the paper's order."""
    captioners = {
        "before": bench.captioner(),
        "after": bench.captioner(attends="after"),
        "bilinear, before": bench.captioner(scoring="bilinear"),
        "bilinear, after": bench.captioner(scoring="bilinear", attends="after"),
        "none": bench.captioner("none"),
    }
    batches = training_batches(bench, captioners["after"].vocabulary)[1::2]

    trainers = [trainer(compiled_step(captioner), batches) for captioner in captioners.values()]
    took = dict(zip(captioners, in_turn(*trainers)))
    result = figure(number_of_captions(batches) / took["after"], "captions/s")
    compare(result, "attends_before", took["after"], took["before"])
    compare(result, "attends_before_bilinear", took["bilinear, after"], took["bilinear, before"])
    compare(result, "bilinear_after_over_the_paper", took["bilinear, after"], took["before"])
    no_attention = took.pop("none")
    result["over_no_attention"] = {name: seconds / no_attention - 1 for name, seconds in took.items()}
    costs = [f"{name} {100 * cost:.0f} %" for name, cost in result["over_no_attention"].items()]
    print(f"  on top of no attention: {', '.join(costs)}")
    return result


def bench_scores(bench):
    """Additive scores a second there and back, of 65 captions of 13 photos, over those of the equation."""
    import tensorflow as tf

    from keras_sat import equations
    from keras_sat.accelerated import fused

    photos, captions = 13, 5
    shapes = (photos, SIZES.regions, SIZES.attention_dim), (photos * captions, SIZES.attention_dim)
    given = [tf.random.normal(shape) for shape in (*shapes, shapes[0][2:])]
    upstream = tf.random.normal((photos * captions, SIZES.regions))

    def back_and_forth(scores_of, prepared):
        @tf.function(autograph=False)
        def run(exponential):
            features, *others = given
            with tf.GradientTape() as tape:
                tape.watch(given)
                scores = scores_of(prepared(features, exponential), *others)
            gradients = tape.gradient(scores, given, output_gradients=upstream)
            return tf.add_n([tf.reduce_sum(gradient) for gradient in gradients])

        exponential = fused.prepare(given[0]).exponential  # once for all words of a photo
        return lambda: [float(run(exponential)) for _ in range(10)]

    own, plain = in_turn(
        back_and_forth(fused.additive_scores, fused.Projected),
        back_and_forth(equations.additive_scores, lambda features, _: features),
    )
    result = figure(1000 * own / 10, "ms")
    compare(result, "equation", own, plain)
    return result


# === Captioning ===


def special_of(vocabulary):
    """Return what the peers' searches are told of a vocabulary."""
    return {
        "max_length": NUM_STEPS,
        "start_token_id": vocabulary.start_token_id,
        "end_token_id": vocabulary.end_token_id,
        "never": [vocabulary.pad_token_id, vocabulary.start_token_id, vocabulary.unk_token_id],
    }


def peers_of(captioner):
    """Return the textbook's decoder, and `careful_peers`, all with a captioner's weights."""
    import peers

    textbook, careful = peers.TextbookDecoder(SIZES.vocabulary), careful_peers()
    for decoder in (textbook, *careful.values()):
        peers.carry_over(captioner.decoder, decoder.eval())
    return textbook, careful


def bench_caption(bench, num_beams):
    """Photos a second with the features ready; the textbook takes one photo at a time, the careful peer batches."""
    import careful_peer
    import peers
    import torch

    captioner = bench.captioner()
    for weight in captioner.decoder.weights:
        weight.assign(weight.numpy() * 2)  # far from the start, so that photos differ in what is said of them
    features = bench.features(NUM_PHOTOS)
    vocabulary, special = captioner.vocabulary, special_of(captioner.vocabulary)
    textbook, careful = peers_of(captioner)
    of_loop = torch.tensor(features[: 16 if num_beams == 1 else 8])
    of_careful = torch.tensor(features[: 192 if num_beams == 1 else 64])

    def ours(features=features):
        return captioner.caption_features(features, num_beams=num_beams, max_length=NUM_STEPS)

    def by_loop():
        return [peers.beam_search(textbook, photo, num_beams, **special) for photo in of_loop]

    def by_careful(decoder):
        found = []
        for first in range(0, len(of_careful), BATCH_SIZE):
            found += careful_peer.beam_search(decoder, of_careful[first : first + BATCH_SIZE], num_beams, **special)
        return found

    theirs = {name: functools.partial(by_careful, decoder) for name, decoder in careful.items()}
    rates, (own, of_loop_seconds, *of_careful_seconds) = in_turn_with_the_limit(ours, by_loop, *theirs.values())
    work = limits.caption_work(SIZES, NUM_PHOTOS, NUM_STEPS, num_beams)
    least = work.seconds(rates)
    print(
        f"  {NUM_PHOTOS} photos, {NUM_STEPS} words, {num_beams} beams: {work.flops / 1e9:.0f} GFLOP and "
        f"{work.evaluations / 1e6:.0f} M tanh and exp; {least:.2f} s at {rate_names(rates)}, {own:.2f} s measured"
    )
    result = figure(NUM_PHOTOS / own, "photos/s", least / own)
    compare(result, "pytorch_loop", own, of_loop_seconds, len(of_loop) / NUM_PHOTOS)
    for peer, its_seconds in zip(theirs, of_careful_seconds):
        compare(result, peer, own, its_seconds, len(of_careful) / NUM_PHOTOS)
    found = [vocabulary.caption_to_ids(one.caption) for one in ours(features[: len(of_careful)])]
    result["same_captions"] = sum(map(list.__eq__, found, by_careful(careful["pytorch_careful"]))) / len(found)
    distinct = len({tuple(caption) for caption in found})
    print(f"  {result['same_captions']:.1%} of {len(found)} captions are the careful peer's ({distinct} distinct)")
    return result


def bench_caption_greedy(bench):
    return bench_caption(bench, 1)


def bench_caption_beam5(bench):
    return bench_caption(bench, 5)


def bench_caption_one(bench):
    """Photos a second, one at a time, greedy; and the peers'."""
    import careful_peer
    import peers
    import torch

    captioner = bench.captioner()
    special = special_of(captioner.vocabulary) | {"never": [0, 1]}
    features = bench.features(16)
    of_peer = torch.tensor(features)
    textbook, careful = peers_of(captioner)

    def ours():
        for number in range(len(features)):
            captioner.caption_features(features[number : number + 1], num_beams=1, max_length=NUM_STEPS)

    def by_loop():
        for photo in of_peer:
            peers.beam_search(textbook, photo, 1, **special)

    def by_careful(decoder):
        for number in range(len(of_peer)):
            careful_peer.beam_search(decoder, of_peer[number : number + 1], 1, **special)

    theirs = {"pytorch_loop": by_loop}
    theirs |= {name: functools.partial(by_careful, decoder) for name, decoder in careful.items()}
    rates, (own, *their_seconds) = in_turn_with_the_limit(ours, *theirs.values())
    share = limits.caption_work(SIZES, len(features), NUM_STEPS, 1).seconds(rates) / own
    reading = len(features) * NUM_STEPS * limits.bytes_of_a_word(SIZES) / measured_rates()["bytes_read"]
    result = figure(len(features) / own, "photos/s", share, share_of_reading_the_weights=reading / own)
    print(f"  to read the weights at each word takes {reading / own:.0%} of the time at the speed of the memory")
    for peer, its_seconds in zip(theirs, their_seconds):
        compare(result, peer, own, its_seconds)
    return result


def bare_encoder(encoder, images):
    """Return a function that encodes photos that lie ready as a tensor."""
    import tensorflow as tf

    ready = tf.constant(images, tf.float32)
    bare = tf.function(lambda: tf.cast(encoder(ready, training=False), tf.float32))
    return lambda: bare().numpy()


def bare_encoding(encoder, paths):
    """Return a function that encodes as many photos as there are paths, 32 at a time, from tensors that lie ready."""
    bare = bare_encoder(encoder, np.stack([load_image(path, 224) for path in paths[:32]]))

    def encode():
        for _ in range(len(paths) // 32):
            bare()

    return encode


def bench_photo_to_caption(bench):
    """Photos a second from files to captions with beam 3, as a share of the bare encoder's on tensors ready."""
    import keras

    from keras_sat import Captioner

    keras.utils.set_random_seed(0)
    words = [f"word{number}" for number in range(SIZES.vocabulary - 4)]
    captioner = Captioner(words, encoder="mobilenet_v2", encoder_weights=None)
    paths = bench.photos(256)

    def caption():
        captioner.caption(paths, num_beams=3, max_length=NUM_STEPS)

    own, encoding = in_turn(caption, bare_encoding(captioner.encoder_model, paths))
    return figure(len(paths) / own, "photos/s", encoding / own)


# === Features and batches ===


def bench_features_vgg16(bench):
    """Photos a second of the bare encoder with random weights, and PyTorch's."""
    import peers
    import tensorflow as tf
    import torch

    from keras_sat.model.encoders import make_encoder

    encoder = make_encoder("vgg16", weights=None)
    images = np.random.default_rng(0).uniform(0, 255, (16, 224, 224, 3)).astype(np.float32)
    ready = tf.constant(images)
    encode = tf.function(lambda: encoder(ready, training=False))
    peer = peers.VGG16().eval()
    for_peer = torch.tensor(images).permute(0, 3, 1, 2)  # channels last in memory

    def theirs():
        with torch.inference_mode():
            peer(for_peer)

    rates, (own, peer_seconds) = in_turn_with_the_limit(lambda: encode().numpy(), theirs)
    share = len(images) * limits.VGG16_FLOPS / rates["flops"] / own
    result = figure(len(images) / own, "photos/s", share)
    compare(result, "pytorch_vgg16", own, peer_seconds)
    return result


def bench_features(bench, name):
    """Photos a second from files to a finished cache, as a share of the bare encoder's on tensors that lie ready."""
    from keras_sat.model.encoders import make_encoder

    paths = bench.photos(1536)
    ids = [Path(path).stem for path in paths]
    encoder = make_encoder(name, weights=None)
    folders = iter(range(NUM_ROUNDS + 1))

    def build():
        FeatureCache.build(bench.folder / f"features{next(folders)}", ids, paths, encoder, show_progress=False)

    def read():
        for path in paths[:64]:
            load_image(path, 224)

    own, encoding, reading = in_turn(build, bare_encoding(encoder, paths), read, num_rounds=3)
    most = encoding / (encoding + reading * len(paths) / 64 / num_cores())  # if all cores do both, and nothing is lost
    return figure(len(paths) / own, "photos/s", encoding / own, most_that_reading_leaves=most)


def bench_features_mobilenet_v2(bench):
    return bench_features(bench, "mobilenet_v2")


def bench_features_lite0(bench):
    return bench_features(bench, "efficientnet_lite0")


def bench_features_bfloat16(bench, name="efficientnet_lite0", num_photos=32):
    """Photos a second of the bare encoder in bfloat16, over those in float32."""
    import keras

    from keras_sat.model.encoders import make_encoder

    images = np.random.default_rng(0).uniform(0, 255, (num_photos, 224, 224, 3)).astype(np.float32)
    encoders, before = [], keras.config.dtype_policy()
    try:
        for dtype in ("mixed_bfloat16", "float32"):
            keras.config.set_dtype_policy(dtype)
            encoders.append(make_encoder(name, weights=None))
    finally:
        keras.config.set_dtype_policy(before)
    own, in_float32 = in_turn(*(bare_encoder(encoder, images) for encoder in encoders))
    result = figure(num_photos / own, "photos/s")
    compare(result, "float32", own, in_float32)
    return result


def bench_vgg16_bfloat16(bench):
    return bench_features_bfloat16(bench, "vgg16", 16)


def random_cache(folder, ids):
    """Return a FeatureCache of 196 x 512 with random features, the same for each photo."""
    from PIL import Image

    values = np.random.default_rng(0).standard_normal((14, 14, SIZES.feature_dim)).astype(np.float32).clip(0)
    folder.mkdir()
    Image.new("RGB", (8, 8)).save(folder / "one.png")
    return FeatureCache.build(
        folder / "cache",
        ids,
        [str(folder / "one.png")] * len(ids),
        lambda images: np.broadcast_to(values, (len(images), *values.shape)),
        image_size=8,
        show_progress=False,
    )


def bench_batches(bench):
    """Captions a second from a warm cache of 196 x 512, as float16, as a share of only copying the rows."""
    images = flickr8k_captions()
    cache = random_cache(bench.folder / "batches", [image.image_id for image in images])
    dataset = make_batches(images, Vocabulary.build(images), cache)
    rows = np.random.default_rng(0).integers(0, len(images), (64, 64))
    stored = np.load(bench.folder / "batches" / "cache" / "features.npy", mmap_mode="r")

    def epoch():
        for _ in dataset:
            pass

    def copy():
        for some in rows:
            np.take(stored, some, axis=0)

    own, copying = in_turn(epoch, copy, num_rounds=5)
    num_captions = sum(len(image.captions) for image in images)
    return figure(num_captions / own, "captions/s", (num_captions / own) / (rows.size / copying))


# === Memory, start ===


def bench_memory(bench, num_photos):
    """Most private memory (RssAnon) of a process that trains on a cache of that many photos."""
    if not Path("/proc/self/status").exists():
        return figure(None, "GB")
    command = [sys.executable, str(HERE / "memory.py"), str(bench.folder / f"memory{num_photos}"), str(num_photos)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return figure(float(done.stdout.split()[-1]), "GB")


def bench_memory_8k(bench):
    return bench_memory(bench, 8000)


def bench_memory_120k(bench):
    return bench_memory(bench, 120_000)


def seconds_in_new_processes(before, measured, folder):
    """Return the median seconds that a line of Python takes in a new process, after some other lines."""
    code = f"{before}\nimport time\nstart = time.perf_counter()\n{measured}\nprint(time.perf_counter() - start)"
    command = [sys.executable, "-c", code]
    runs = [subprocess.run(command, check=True, cwd=folder, capture_output=True, text=True) for _ in range(NUM_ROUNDS)]
    return statistics.median(float(run.stdout.split()[-1]) for run in runs)


def bench_import(bench):
    """Seconds that `import keras_sat` costs after `import tensorflow`."""
    value = seconds_in_new_processes("import tensorflow", "import keras_sat", bench.folder)
    return figure(value, "s beyond tensorflow")


def bench_load_pretrained(bench):
    """Seconds to load a model of the benchmark's sizes."""
    bench.captioner().save(bench.folder / "model")
    value = seconds_in_new_processes(
        "from keras_sat import Captioner", "Captioner.load('model').decoder.weights[0].numpy()", bench.folder
    )
    return figure(value, "s")


def bench_shell_to_caption(bench):
    """Seconds from the shell to the caption of a photo without TensorFlow; and how many times as fast as with it."""
    photo = bench.photos(1)[0]
    command = [sys.executable, "-m", "keras_sat", "caption", photo, "--model", "flickr8k"]
    without = {**os.environ, "KERAS_HOME": str(bench.folder / "home")}

    def fast():
        subprocess.run(command, check=True, capture_output=True, env=without)

    def usual():  # another search than the file was made for
        subprocess.run([*command, "--max-length", "19"], check=True, capture_output=True, env=without)

    fast()  # this makes the file
    own, with_tensorflow = in_turn(fast, usual)
    result = figure(own, "s from the shell")
    compare(result, "with_tensorflow", own, with_tensorflow)
    return result


def bench_fast_photos(bench):
    """Photos a second from files to captions without TensorFlow, loading included in neither."""
    from keras_sat import Captioner, load_litert

    os.environ["KERAS_HOME"] = str(bench.folder / "home")
    paths = bench.photos(256)
    fast, captioner = load_litert("flickr8k"), Captioner.from_pretrained("flickr8k")
    own, with_tensorflow = in_turn(lambda: fast.caption(paths), lambda: captioner.caption(paths))
    one, one_with_tensorflow = in_turn(
        lambda: [fast.caption(path) for path in paths[:16]], lambda: [captioner.caption(path) for path in paths[:16]]
    )
    result = figure(len(paths) / own, "photos/s", one_by_one=16 / one)
    compare(result, "tensorflow_in_batches", own, with_tensorflow)
    compare(result, "tensorflow_one_by_one", one, one_with_tensorflow)
    return result


# === The table ===


FIGURES = {
    "train_soft": bench_train_soft,
    "train_hard": bench_train_hard,
    "train_after": bench_train_after,
    "train_bfloat16": bench_train_bfloat16,
    "scores": bench_scores,
    "train_along": bench_train_along,
    "caption_greedy": bench_caption_greedy,
    "caption_beam5": bench_caption_beam5,
    "caption_one": bench_caption_one,
    "photo_to_caption": bench_photo_to_caption,
    "features_vgg16": bench_features_vgg16,
    "features_mobilenet_v2": bench_features_mobilenet_v2,
    "features_lite0": bench_features_lite0,
    "vgg16_bfloat16": bench_vgg16_bfloat16,
    "lite0_bfloat16": bench_features_bfloat16,
    "batches": bench_batches,
    "memory_8k": bench_memory_8k,
    "memory_120k": bench_memory_120k,
    "import": bench_import,
    "load_pretrained": bench_load_pretrained,
    "shell_to_caption": bench_shell_to_caption,
    "fast_photos": bench_fast_photos,
}


def machine():
    """Return what describes the machine, as results.json has it."""
    packages = {}
    for package in ("tensorflow", "keras", "numpy", "torch"):
        try:
            packages[package] = version(package)
        except PackageNotFoundError:
            packages[package] = None
    return {
        "cores": num_cores(),
        "system": platform.system(),
        "processor": platform.machine(),
        "python": platform.python_version(),
        **packages,
    }


def keep(measured):
    """Write the figures that were measured so far; others in results.json stay."""
    kept = json.loads(RESULTS.read_text()).get("figures", {}) if RESULTS.exists() else {}
    figures = {name: measured.get(name, kept.get(name)) for name in FIGURES if name in measured or name in kept}
    write_json(RESULTS, {"machine": machine(), "figures": figures})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=f"of: {', '.join(FIGURES)}; default: all")
    names = parser.parse_args().figures or list(FIGURES)
    unknown = set(names) - set(FIGURES)
    if unknown:
        parser.error(f"expected some of: {', '.join(FIGURES)}. Received: {', '.join(sorted(unknown))}")
    pin_threads()
    warnings.simplefilter("ignore")
    start, measured, table = time.perf_counter(), {}, []
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            print(name, flush=True)
            measured[name] = FIGURES[name](Bench(Path(folder))) | {"rates": measured_rates()}
        keep(measured)
        one = measured[name]
        share = "" if one["share_of_limit"] is None else f"{one['share_of_limit']:.2f}"
        ratios = ", ".join(ratio_in_words(peer, one) for peer in one["ratios"])
        value = "" if one["value"] is None else f"{one['value']:.3g}"
        table.append(f"{name:24}{value:>8} {one['unit']:20}{share:>8}   {ratios}")
    print(f"\n{'figure':24}{'value':>8} {'unit':20}{'share':>8}   our speed", *table, sep="\n")
    print(f"{time.perf_counter() - start:.0f} s in all")


if __name__ == "__main__":
    main()
