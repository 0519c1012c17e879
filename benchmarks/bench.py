"""Measure keras_sat: `make bench` prints one table and writes benchmarks/results.json.

Nothing else should run meanwhile. Ours and the peers are measured in turn, for three
rounds, with one thread per core, or on a GPU if TensorFlow finds one. Figures are
medians; fractions and ratios are those of medians. After a ratio comes its spread: half
of its range over the rounds, marked with "!" above 15 %. A fraction is that of the
machine's limit, of the bare encoder, or of the bare copy of the rows; a ratio is our
speed over that of a peer (peers.py). The machine's limit is the least arithmetic of a
job (limits.py) at the highest rates that kernels reach in the same rounds (timing.py).

    python benchmarks/bench.py                     everything, in 11 to 30 minutes on
                                                   two cores
    python benchmarks/bench.py train_soft import   some figures; the others in
                                                   results.json stay
    python benchmarks/bench.py train_soft --batch-size 1024 --results gpu.json
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
    in_turn_with_rates,
    measured_rates,
    num_cores,
    ratio_in_words,
    set_up,
)

from data_utils import (
    CaptionedImage,
    FeatureCache,
    Vocabulary,
    draw_scenes,
    load_image,
    make_batches,
)
from data_utils.base import write_json

HERE = Path(__file__).parent
SIZES = limits.Sizes()
BATCH_SIZE = 64
# Of a search: random weights never say <end>, and Flickr8k's captions have 11.8 words
# with it.
NUM_STEPS = 12
NUM_BATCHES = 8
WORDS = [f"word{number}" for number in range(SIZES.vocabulary - 4)]


class Bench:
    """Folder to write into, batch size and models, shared by several figures."""

    def __init__(self, folder, batch_size=BATCH_SIZE):
        self.folder, self.batch_size = folder, batch_size

    def captioner(self, attention="soft", **options):
        from keras_sat import Captioner

        captioner = Captioner(WORDS, encoder=None, attention=attention, **options)
        captioner.build(((None, SIZES.regions, SIZES.feature_dim), (None, None)))
        captioner.compile()
        return captioner

    def photos(self, number):
        """Return paths of photos: Flickr8k's if KERAS_SAT_DATA names the folder of its
        zips, else drawn ones.
        """
        folder, paths = os.environ.get("KERAS_SAT_DATA"), []
        if folder:
            with zipfile.ZipFile(Path(folder) / "Flickr8k_Dataset.zip") as archive:
                names = sorted(name for name in archive.namelist() if name.endswith(".jpg"))[
                    :number
                ]
                archive.extractall(self.folder, names)
            return [str(self.folder / name) for name in names]
        from PIL import Image

        for scene in draw_scenes(number, seed=0, image_size=224):
            paths.append(str(self.folder / f"{scene.image_id}.jpg"))
            Image.fromarray(scene.image).save(paths[-1], quality=90)
        return paths


# === Training ===


def flickr8k_captions(num_photos=600):
    """Return captioned photos whose captions are as long as those of 600 photos of
    Flickr8k, with random words.
    """
    random, words = np.random.default_rng(0), np.array(WORDS)
    lines = (HERE / "flickr8k_lengths.txt").read_text().splitlines()
    return [
        CaptionedImage(
            f"photo{number}",
            "",
            [
                " ".join(random.choice(words, int(length)))
                for length in lines[number % len(lines)].split()
            ],
            "train",
        )
        for number in range(num_photos)
    ]


def random_cache(folder, ids):
    """Return a FeatureCache of 196 x 512 with equal random features for each photo."""
    from PIL import Image

    values = (
        np.random.default_rng(0)
        .standard_normal((14, 14, SIZES.feature_dim))
        .astype(np.float32)
        .clip(0)
    )
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


def training_batches(bench, vocabulary):
    """Return some batches of whole photos, as make_batches makes them, spread over all
    lengths.
    """
    images = flickr8k_captions()
    cache = random_cache(bench.folder / "training", [image.image_id for image in images])
    batches = make_batches(
        images, vocabulary, cache, bench.batch_size, group_by="image", shuffle=False
    )
    every = max(len(batches) // NUM_BATCHES, 1)
    return [batch for number, batch in enumerate(batches) if number % every == every // 2][
        :NUM_BATCHES
    ]


def number_of_captions(batches):
    return sum(float(np.sum(np.any(weights.numpy() > 0, axis=-1))) for _, _, weights in batches)


def number_of_words(batches):
    return sum(float(np.sum(weights)) for _, _, weights in batches)


def trainer(captioner, batches):
    """Return a function that trains a captioner on all batches by its compiled step,
    and waits for each.
    """
    import tensorflow as tf

    step = tf.function(captioner.train_step, reduce_retracing=True, autograph=False)
    return lambda: [float(step(batch)["loss"]) for batch in batches]


def peer_trainers(batches, penalty_weight):
    """Return functions by peer, each of which trains on all batches."""
    import peers
    import torch

    of_peer = [peers.as_peer_batch(batch) for batch in batches]

    def peer_trainer(peer):
        optimizer = torch.optim.Adam(
            peer.parameters(), lr=4e-4, fused=type(peer) is peers.CarefulDecoder
        )
        return lambda: [
            peers.train_step(peer, optimizer, batch, penalty_weight) for batch in of_peer
        ]

    return {
        name: peer_trainer(peer.to(peers.device())) for name, peer in decoders_of_peers().items()
    }


def decoders_of_peers():
    """Return the textbook's decoder, the careful one and, where there is a compiler,
    that compiled: dict by name.
    """
    import peers

    decoders = {
        "pytorch_loop": peers.TextbookDecoder(SIZES.vocabulary),
        "pytorch_careful": peers.CarefulDecoder(SIZES.vocabulary),
    }
    if peers.can_compile():
        decoders["pytorch_compiled"] = peers.CarefulDecoder(SIZES.vocabulary).compile_step()
    else:
        print("  no C++ compiler: the careful peer is not compiled")
    return decoders


def bench_train(bench, attention="soft"):
    """Captions a second of `train_step`, and of the peers on every fourth batch."""
    captioner = bench.captioner(attention)
    batches = training_batches(bench, captioner.vocabulary)
    of_peers, num_words = batches[1::4], number_of_words(batches)
    trainers = (
        peer_trainers(of_peers, captioner.settings.loss.attention_penalty_weight)
        if attention == "soft"
        else {}
    )
    rates, (own, *peer_seconds) = in_turn_with_rates(
        ("flops", "evaluations"), trainer(captioner, batches), *trainers.values()
    )
    work = limits.train_work(
        SIZES, sum(len(features) for (features, _), _, _ in batches), num_words
    )
    result = figure(number_of_captions(batches) / own, "captions/s", work.seconds(rates) / own)
    for peer, theirs in zip(trainers, peer_seconds):
        compare(result, peer, own, theirs, number_of_words(of_peers) / num_words)
    return result


def bench_train_bfloat16(bench):
    """Captions a second of `train_step` in bfloat16, over those in float32."""
    captioners = [bench.captioner(dtype=dtype) for dtype in ("mixed_bfloat16", "float32")]
    batches = training_batches(bench, captioners[0].vocabulary)[1::4]
    own, in_float32 = in_turn(*(trainer(captioner, batches) for captioner in captioners))
    result = figure(number_of_captions(batches) / own, "captions/s")
    compare(result, "float32", own, in_float32)
    return result


def bench_train_along(bench):
    """Photos a second with an encoder that is trained too, as a fraction of the sum of
    what its parts take alone.
    """
    import tensorflow as tf

    from keras_sat import Captioner

    vocabulary = Vocabulary(WORDS)
    batches = training_batches(bench, vocabulary)[3:5]
    captioner = Captioner(
        vocabulary,
        encoder="efficientnet_lite0",
        encoder_weights=None,
        encoder_training="fine-tuned",
    )
    captioner.compile()
    _, regions, feature_dim = captioner.photo_encoder.features_shape
    decoder = Captioner(vocabulary, encoder=None)
    decoder.build(((None, regions, feature_dim), (None, None)))
    decoder.compile()
    random = np.random.default_rng(0)
    sizes = [len(features) for (features, _), *_ in batches]
    photos = [
        tf.constant(random.uniform(0, 255, (size, 224, 224, 3)).astype("float32")) for size in sizes
    ]
    features = [
        tf.constant(random.random((size, regions, feature_dim), "float32")) for size in sizes
    ]
    network = captioner.encoder_model

    @tf.function(autograph=False)
    def back_and_forth(images, upstream):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(captioner.photo_encoder(images) * upstream)
        return tf.add_n(
            [
                tf.reduce_sum(gradient)
                for gradient in tape.gradient(loss, network.trainable_variables)
            ]
        )

    def train(captioner, inputs):
        return trainer(
            captioner, [((x, ids), *others) for x, ((_, ids), *others) in zip(inputs, batches)]
        )

    def encode():
        for images, upstream in zip(photos, features):
            float(back_and_forth(images, upstream))

    own, encoding, decoding = in_turn(train(captioner, photos), encode, train(decoder, features))
    return figure(sum(sizes) / own, "photos/s", (encoding + decoding) / own)


def bench_train_after(bench):
    """Captions a second of `train_step` where attention comes after the LSTM, over
    those of the paper's order.
    """
    captioners = {
        "before": bench.captioner(),
        "after": bench.captioner(attends="after"),
        "bilinear, before": bench.captioner(scoring="bilinear"),
        "bilinear, after": bench.captioner(scoring="bilinear", attends="after"),
        "none": bench.captioner("none"),
    }
    batches = training_batches(bench, captioners["after"].vocabulary)[1::4]
    took = dict(
        zip(
            captioners, in_turn(*(trainer(captioner, batches) for captioner in captioners.values()))
        )
    )
    result = figure(number_of_captions(batches) / took["after"], "captions/s")
    compare(result, "attends_before", took["after"], took["before"])
    compare(result, "attends_before_bilinear", took["bilinear, after"], took["bilinear, before"])
    compare(result, "bilinear_after_over_the_paper", took["bilinear, after"], took["before"])
    no_attention = took.pop("none")
    result["over_no_attention"] = {
        name: seconds / no_attention - 1 for name, seconds in took.items()
    }
    return result


def bench_scores(bench):
    """Milliseconds of additive scores and their gradients, of 65 captions of 13 photos.

    Speed over the equation's.
    """
    import tensorflow as tf

    from keras_sat import equations
    from keras_sat.network import fused_scores

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

        exponential = fused_scores.prepare(given[0]).exponential  # once for all words of a photo
        return lambda: [float(run(exponential)) for _ in range(10)]

    own, plain = in_turn(
        back_and_forth(fused_scores.additive_scores, fused_scores.Projected),
        back_and_forth(equations.additive_scores, lambda features, _: features),
    )
    result = figure(1000 * own / 10, "ms")
    compare(result, "equation", own, plain)
    return result


# === Captioning ===


def bench_caption(bench, num_beams=1, num_photos=512, of_loop=16, of_careful=192, one_by_one=False):
    """Photos a second with the features ready.

    Args:
        num_photos: number of photos.
        of_loop, of_careful: so many of them for the textbook's decoder, which takes one
            at a time, and the careful one.
        one_by_one: whether each search takes one photo, of us and of all peers.
    """
    import peers
    import torch

    captioner = bench.captioner()
    for weight in captioner.decoder.weights:
        weight.assign(weight.numpy() * 2)  # far from the start, and captions of photos differ
    random = np.random.default_rng(0)
    features = random.standard_normal(
        (num_photos, SIZES.regions, SIZES.feature_dim), dtype=np.float32
    ).clip(0)
    vocabulary = captioner.vocabulary
    never = [vocabulary.pad_token_id, vocabulary.start_token_id, vocabulary.unk_token_id]
    special = NUM_STEPS, vocabulary.start_token_id, vocabulary.end_token_id, never

    def ours(features):
        return captioner.caption_features(features, num_beams=num_beams, max_length=NUM_STEPS)

    def in_pieces(search, features, size):
        return [
            found
            for first in range(0, len(features), size)
            for found in search(features[first : first + size])
        ]

    decoders = {
        name: peers.copy_weights(captioner.decoder, peer)
        for name, peer in decoders_of_peers().items()
    }
    jobs = [functools.partial(in_pieces, ours, features, 1 if one_by_one else num_photos)]
    numbers = [of_loop if name == "pytorch_loop" else of_careful for name in decoders]
    for (name, peer), number in zip(decoders.items(), numbers):
        peer.eval()
        search = functools.partial(_peer_search, peer, num_beams, special)
        size = 1 if one_by_one or name == "pytorch_loop" else bench.batch_size
        jobs.append(
            functools.partial(
                in_pieces, search, torch.tensor(features[:number]).to(peers.device()), size
            )
        )
    names = ("flops", "evaluations", "bytes_read")
    rates, (own, *their_seconds) = in_turn_with_rates(names, *jobs)
    least = limits.caption_work(SIZES, num_photos, NUM_STEPS, num_beams).seconds(rates)
    if one_by_one:  # each word of each photo reads the weights
        num_bytes = 4 * num_photos * NUM_STEPS * limits.weights_of_a_word(SIZES)
        least = max(least, num_bytes / rates["bytes_read"])
    result = figure(num_photos / own, "photos/s", least / own)
    for peer, theirs, number in zip(decoders, their_seconds, numbers):
        compare(result, peer, own, theirs, number / num_photos)
    found = [vocabulary.caption_to_ids(one.caption) for one in ours(features[:of_careful])]
    by_careful = jobs[2]()
    result["same_captions"] = sum(map(list.__eq__, found, by_careful)) / len(found)
    return result


def _peer_search(peer, num_beams, special, features):
    return peer.search(features, num_beams, *special)


def bare_encoder(encoder, images):
    """Return a function that encodes photos that are ready as a tensor."""
    import tensorflow as tf

    ready = tf.constant(images, tf.float32)
    bare = tf.function(lambda: tf.cast(encoder(ready, training=False), tf.float32))
    return lambda: bare().numpy()


def bare_encoding(encoder, paths):
    """Return a function that encodes as many photos as there are paths, 32 at a time,
    from tensors that are ready; its graph is ready too.
    """
    bare = bare_encoder(encoder, np.stack([load_image(path, 224) for path in paths[:32]]))
    bare()
    return lambda: [bare() for _ in range(len(paths) // 32)]


def bench_photo_to_caption(bench):
    """Photos a second from files to captions with beam 3, as a fraction of the bare
    encoder's on tensors ready.
    """
    import keras

    from keras_sat import Captioner

    keras.utils.set_random_seed(0)
    captioner = Captioner(WORDS, encoder="mobilenet_v2", encoder_weights=None)
    paths = bench.photos(256)
    own, encoding = in_turn(
        lambda: captioner.caption(paths, num_beams=3, max_length=NUM_STEPS),
        bare_encoding(captioner.encoder_model, paths),
    )
    return figure(len(paths) / own, "photos/s", encoding / own)


# === Features and batches ===


def random_photos(number):
    return np.random.default_rng(0).uniform(0, 255, (number, 224, 224, 3)).astype(np.float32)


def bench_features_vgg16(bench):
    """Photos a second of the bare encoder with random weights, and PyTorch's."""
    import peers
    import torch

    from keras_sat.network import make_encoder

    images = random_photos(16)
    peer = peers.VGG16().eval().to(peers.device())
    torch.backends.cudnn.allow_tf32 = False
    # Channels last in memory.
    for_peer = torch.tensor(images).permute(0, 3, 1, 2).to(peers.device())

    def theirs():
        with torch.inference_mode():
            peer(for_peer).cpu()

    ours = bare_encoder(make_encoder("vgg16", weights=None), images)
    rates, (own, peer_seconds) = in_turn_with_rates(["flops_of_convolutions"], ours, theirs)
    least = len(images) * limits.VGG16_FLOPS / rates["flops_of_convolutions"]
    result = figure(len(images) / own, "photos/s", least / own)
    compare(result, "pytorch_vgg16", own, peer_seconds)
    return result


def bench_features(bench, name):
    """Photos a second from files to a finished cache, as a fraction of the bare
    encoder's on tensors that are ready.
    """
    from keras_sat.network import make_encoder

    paths = bench.photos(1536)
    ids = [Path(path).stem for path in paths]
    encoder = make_encoder(name, weights=None)
    num_rounds = 2  # each takes longest, and encodes many batches
    folders = iter(range(num_rounds))

    def build():  # makes its graph each time
        FeatureCache.build(
            bench.folder / f"features{next(folders)}", ids, paths, encoder, show_progress=False
        )

    def read():
        for path in paths[:64]:
            load_image(path, 224)

    own, encoding, reading = in_turn(
        build, bare_encoding(encoder, paths), read, num_rounds=num_rounds, warm_up=False
    )
    # If all cores do both, and nothing is lost.
    most = encoding / (encoding + reading * len(paths) / 64 / num_cores())
    return figure(len(paths) / own, "photos/s", encoding / own, most_that_reading_leaves=most)


def bench_features_bfloat16(bench, name, num_photos):
    """Photos a second of the bare encoder in bfloat16, over those in float32."""
    import keras

    from keras_sat.network import make_encoder

    encoders, before = [], keras.config.dtype_policy()
    for dtype in ("mixed_bfloat16", "float32"):
        keras.config.set_dtype_policy(dtype)
        encoders.append(make_encoder(name, weights=None))
    keras.config.set_dtype_policy(before)
    own, in_float32 = in_turn(
        *(bare_encoder(encoder, random_photos(num_photos)) for encoder in encoders)
    )
    result = figure(num_photos / own, "photos/s")
    compare(result, "float32", own, in_float32)
    return result


def bench_batches(bench):
    """Captions a second from a warm cache of 196 x 512, as float16, as a fraction of
    only copying the rows.
    """
    images = flickr8k_captions()
    cache = random_cache(bench.folder / "batches", [image.image_id for image in images])
    dataset = make_batches(images, Vocabulary.build(images), cache)
    rows = np.random.default_rng(0).integers(0, len(images), (64, 64))
    stored = np.load(bench.folder / "batches" / "cache" / "features.npy", mmap_mode="r")
    own, copying = in_turn(
        lambda: list(map(len, dataset)),
        lambda: [len(np.take(stored, some, axis=0)) for some in rows],
    )
    num_captions = sum(len(image.captions) for image in images)
    return figure(num_captions / own, "captions/s", (num_captions / own) / (rows.size / copying))


# === Memory, start ===


def bench_memory(bench, num_photos):
    """Most private memory (RssAnon) of a process that trains on a cache of that many
    photos.
    """
    if not Path("/proc/self/status").exists():
        return figure(None, "GB")
    command = [
        sys.executable,
        str(HERE / "memory.py"),
        str(bench.folder / "memory"),
        str(num_photos),
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return figure(float(done.stdout.split()[-1]), "GB")


def seconds_in_new_processes(before, measured, folder):
    """Return the median seconds that a line of Python takes in a new process, after
    some other lines.
    """
    code = (
        f"{before}\nimport time\nstart = "
        f"time.perf_counter()\n{measured}\nprint(time.perf_counter() - start)"
    )
    command = [sys.executable, "-c", code]
    runs = [
        subprocess.run(command, check=True, cwd=folder, capture_output=True, text=True)
        for _ in range(NUM_ROUNDS)
    ]
    return statistics.median(float(run.stdout.split()[-1]) for run in runs)


def bench_import(bench):
    """Seconds that `import keras_sat` costs after `import tensorflow`."""
    return figure(
        seconds_in_new_processes("import tensorflow", "import keras_sat", bench.folder),
        "s beyond tensorflow",
    )


def bench_load_pretrained(bench):
    """Seconds to load a model of the benchmark's sizes."""
    bench.captioner().save(bench.folder / "model")
    load = "Captioner.load('model').decoder.weights[0].numpy()"
    return figure(
        seconds_in_new_processes("from keras_sat import Captioner", load, bench.folder), "s"
    )


def bench_shell_to_caption(bench):
    """Seconds from the shell to the caption of a photo without TensorFlow.

    And how many times as fast as with it.
    """
    command = [
        sys.executable,
        "-m",
        "keras_sat",
        "caption",
        bench.photos(1)[0],
        "--model",
        "flickr8k",
    ]
    environment = {**os.environ, "KERAS_HOME": str(bench.folder / "home")}

    def caption(*options):
        subprocess.run([*command, *options], check=True, capture_output=True, env=environment)

    caption()  # this makes the file
    # The file is for another length.
    own, with_tensorflow = in_turn(caption, lambda: caption("--max-length", "19"), warm_up=False)
    result = figure(own, "s from the shell")
    compare(result, "with_tensorflow", own, with_tensorflow)
    return result


def bench_fast_photos(bench):
    """Photos a second from files to captions without TensorFlow, loading included in
    neither.
    """
    from keras_sat import Captioner, load_litert

    os.environ["KERAS_HOME"] = str(bench.folder / "home")
    paths = bench.photos(256)
    fast, captioner = load_litert("flickr8k"), Captioner.from_pretrained("flickr8k")
    for captions in (fast, captioner):  # which makes their graphs
        captions.caption(paths[:32])
    own, with_tensorflow = in_turn(
        lambda: fast.caption(paths), lambda: captioner.caption(paths), warm_up=False
    )
    one, one_with_tensorflow = in_turn(
        lambda: [fast.caption(path) for path in paths[:16]],
        lambda: [captioner.caption(path) for path in paths[:16]],
    )
    result = figure(len(paths) / own, "photos/s", one_by_one=16 / one)
    compare(result, "tensorflow_in_batches", own, with_tensorflow)
    compare(result, "tensorflow_one_by_one", one, one_with_tensorflow)
    return result


# === The table ===


FIGURES = {
    "train_soft": bench_train,
    "train_hard": functools.partial(bench_train, attention="hard"),
    "train_after": bench_train_after,
    "train_bfloat16": bench_train_bfloat16,
    "scores": bench_scores,
    "train_along": bench_train_along,
    "caption_greedy": bench_caption,
    "caption_beam5": functools.partial(bench_caption, num_beams=5, of_loop=8, of_careful=64),
    "caption_one": functools.partial(bench_caption, num_photos=16, of_careful=16, one_by_one=True),
    "photo_to_caption": bench_photo_to_caption,
    "features_vgg16": bench_features_vgg16,
    "features_mobilenet_v2": functools.partial(bench_features, name="mobilenet_v2"),
    "features_lite0": functools.partial(bench_features, name="efficientnet_lite0"),
    "vgg16_bfloat16": functools.partial(bench_features_bfloat16, name="vgg16", num_photos=16),
    "lite0_bfloat16": functools.partial(
        bench_features_bfloat16, name="efficientnet_lite0", num_photos=32
    ),
    "batches": bench_batches,
    "memory_8k": functools.partial(bench_memory, num_photos=8_000),
    "memory_120k": functools.partial(bench_memory, num_photos=120_000),
    "import": bench_import,
    "load_pretrained": bench_load_pretrained,
    "shell_to_caption": bench_shell_to_caption,
    "fast_photos": bench_fast_photos,
}


def machine():
    """Return what describes the machine, as results.json has it."""
    import tensorflow as tf

    packages = {}
    for package in ("tensorflow", "keras", "numpy", "torch"):
        try:
            packages[package] = version(package)
        except PackageNotFoundError:
            packages[package] = None
    gpus = [
        tf.config.experimental.get_device_details(gpu)
        for gpu in tf.config.list_physical_devices("GPU")
    ]
    return {
        "cores": num_cores(),
        **({"gpu": gpus[0].get("device_name")} if gpus else {}),
        "system": platform.system(),
        "processor": platform.machine(),
        "python": platform.python_version(),
        **packages,
    }


def keep(measured, path):
    """Write the figures that were measured so far; what else is in the file stays."""
    kept = json.loads(path.read_text()) if path.exists() else {}
    known = kept.get("figures", {}) | measured
    figures = {name: known[name] for name in FIGURES if name in known}
    write_json(path, {**kept, "machine": machine(), "figures": figures})


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "figures", nargs="*", metavar="FIGURE", help=f"of: {', '.join(FIGURES)}; default: all"
    )
    parser.add_argument("--batch-size", type=int, default=BATCH_SIZE, help=f"default: {BATCH_SIZE}")
    parser.add_argument(
        "--results",
        type=Path,
        default=HERE / "results.json",
        help="default: benchmarks/results.json",
    )
    arguments = parser.parse_args(arguments)
    unknown = set(arguments.figures) - set(FIGURES)
    if unknown:
        parser.error(
            f"expected some of: {', '.join(FIGURES)}. Received: {', '.join(sorted(unknown))}"
        )
    set_up()
    warnings.simplefilter("ignore")
    start, measured, table = time.perf_counter(), {}, []
    for name in arguments.figures or FIGURES:
        with tempfile.TemporaryDirectory() as folder:
            print(name, flush=True)
            measured[name] = FIGURES[name](Bench(Path(folder), arguments.batch_size)) | {
                "rates": measured_rates()
            }
        keep(measured, arguments.results)
        one = measured[name]
        fraction = "" if one["share_of_limit"] is None else f"{one['share_of_limit']:.2f}"
        ratios = ", ".join(ratio_in_words(peer, one) for peer in one["ratios"])
        value = "" if one["value"] is None else f"{one['value']:.3g}"
        table.append(f"{name:24}{value:>8} {one['unit']:20}{fraction:>8}   {ratios}")
    print(f"\n{'figure':24}{'value':>8} {'unit':20}{'fraction':>8}   our speed", *table, sep="\n")
    print(f"{time.perf_counter() - start:.0f} s in all")


if __name__ == "__main__":
    main()
