"""Made by docs/make_stubs.py: the signatures, with all options."""

import os
from typing import Any

from data_utils.captions import CaptionedImage
from keras_sat.captioner import Captioner

def fit(
    data: str | list[CaptionedImage],
    *,
    data_dir: str | os.PathLike | None = None,
    split_seed: int | None = None,
    cache_dir: str | os.PathLike | None = None,
    output_dir: str | os.PathLike | None = None,
    preset: str | None = None,
    initial_model: Any = None,
    from_scratch: bool = False,
    skip_unreadable: bool = False,
    boxes: Any = None,
    callbacks: Any = (),
    show_progress: bool = True,
    strategy: Any = None,
    encoder: Any = None,
    encoder_layer: str | None = None,
    encoder_weights: Any = "imagenet",
    encoder_training: str | None = None,
    image_size: Any = None,
    attention: str | None = "soft",
    scoring: str | None = "additive",
    cell: str | None = "lstm",
    embedding_dim: int | None = 512,
    hidden_dim: int | None = 512,
    attention_dim: int | None = 512,
    attention_penalty_weight: float | None = 0.33,
    label_smoothing: float | None = 0.0,
    epochs: int | None = 20,
    batch_size: int | None = 64,
    learning_rate: Any = 0.0004,
    optimizer: Any = "adam",
    num_views: int | None = 1,
    self_critical_epochs: int | None = 0,
    seed: int | None = 0,
    trained_up_to: str | None = None,
    grid: str | None = None,
    grid_shape: tuple | None = None,
    photo_blur: float | None = None,
    normalise_features: bool | None = False,
    feature_projection_dim: int | None = None,
    feature_activation: Any = None,
    feature_dropout: float | None = 0.0,
    num_layers: int | None = 1,
    context_gate: bool | None = True,
    deep_output: bool | None = True,
    readout_activation: Any = None,
    dropout_words: float | None = 0.0,
    dropout_before_readout: float | None = 0.5,
    dropout_after_readout: float | None = 0.5,
    attends: str | None = "before",
    sentinel: bool | None = False,
    num_samples: int | None = 1,
    reward_weight: float | None = 0.1,
    entropy_weight: float | None = 0.002,
    guide_weight: float | None = 0.0,
    box_weight: float | None = 0.0,
    sharpness_weight: float | None = 0.0,
    length_penalty: float | None = 0.0,
    no_repeat_ngram: int | None = 0,
    consensus_weight: float | None = 0.0,
    deterministic: bool | None = False,
    patience: int | None = 5,
    minutes: float | None = None,
    num_beams: int | None = 1,
    max_length: int | None = 20,
    dtype: Any = None,
    clip_norm: float | None = 5.0,
    weight_decay: float | None = None,
    average_momentum: float | None = None,
    encoder_rate: float | None = 1.0,
    first_layer_rate: float | None = 1.0,
    schedule: str | None = "constant",
    warmup_steps: int | None = 0,
    group_by: str | None = None,
    min_count: int | None = 1,
    max_words: int | None = 10000,
    expectation_epochs: int | None = 0,
    self_critical_rate: float | None = 5e-05,
    reward_baseline: str | None = "greedy",
    name: Any = ...,
    trainable: Any = ...,
) -> Captioner:
    """Train a captioner on photos with captions, and return the captioner of the best
    epoch.

        captioner = keras_sat.fit("flickr8k", data_dir="flickr8k", output_dir="runs/a")
        print(captioner.caption("photo.jpg").caption)
        captioner = keras_sat.fit(
            "folder", data_dir="my_photos", split_seed=0, attention="hard", epochs=5
        )

    The training is saved in `output_dir` after each epoch. Call `fit` with the same
    arguments again to resume it after an interruption, or to load it when finished.
    Ctrl-C ends it and returns the best captioner so far, and `minutes` ends it in time.
    What `fit` would do with other arguments, photos or computers says
    `keras_sat.training.plan.make_plan`.

    The options are listed below, the most used ones first, then by kind. One that is
    not passed, or None, has the preset's value, or with an `initial_model` that of this
    model if it is a captioner's option, or else the default.

    Args:
        data: a name in DATASETS, or a list of CaptionedImage. Training uses the split
            "train"; scores on the split "dev" decide which epoch is the best.
        data_dir: the folder of the data set, which is downloaded there if possible.
        split_seed: make a random 80/10/10 split by photo with this seed.
        cache_dir: the folder of the features; None: in `data_dir`, with the photos, or
            in `output_dir`.
        output_dir: the folder for the model, checkpoints and metrics; None:
            runs/DATA-ENCODER-ATTENTION.
        preset: a name in `keras_sat.PRESETS`; other options override its settings, and
            those that conflict with them are left out. None: the preset of the data
            set ("flickr8k"). "default", other data, or an `initial_model`: no preset.
        initial_model: start from this captioner: a Captioner, the folder of a saved
            one, or a bundled name. It keeps its encoder and sizes, and new words are
            added to its vocabulary. Other options may change: attention="hard" may
            follow soft attention. None: with data="folder" and fewer than
            `presets.MANY_PHOTOS` training photos, the bundled photo captioner, unless
            the options change its network; the defaults are then `presets.OWN_PHOTOS`,
            it is kept if no epoch is better, and cross-entropy on dev chooses the epoch
            if dev is too small for BLEU-4. With any other data: random weights.
        from_scratch: do not start from the bundled captioner.
        skip_unreadable: leave out photos that cannot be read instead of stopping.
        boxes: for `box_weight`: boxes of phrases of the training captions, see
            `data_utils.datasets.phrase_boxes.read_boxes`.
        callbacks: Keras callbacks, called after the scores and before anything is
            saved. Their state is not saved.
        show_progress: False prints nothing.
        strategy: train on several devices: a tf.distribute.MirroredStrategy(), or
            MultiWorkerMirroredStrategy() for several hosts, which all make the same
            call. `batch_size` is over all devices; see docs/distribution.md.
        **options: see the lists by kind.

    Returns: Captioner; its `history` is a mapping from the name of a metric to its
    value in each epoch.

    Without `encoder`, a resumed run keeps its encoder; a new run uses "tiny" for the
    scenes and else "vgg16", on every machine. The features of a frozen encoder are
    computed once; a trained encoder reads the photos in each epoch.

    Without `group_by`, or without those in `presets.OWN_PHOTOS` when training started
    from the bundled captioner, a resumed run keeps the values that it was started with,
    also if later versions have other defaults.

    If `schedule` is "constant", a finished run can be continued with more `epochs`.
    epochs=0 with an `initial_model` runs only the self-critical epochs, and keeps its
    vocabulary. `num_views` (`data_utils.photos.views`) draws one of the views of a
    photo each time, and multiplies the size of the features.

    `self_critical_epochs` (`keras_sat.learning.self_critical`) are a later phase, in
    the folder self_critical of `output_dir`; the best epoch by CIDEr is kept. If none
    has a better CIDEr on the dev split, the previous captioner is returned. Their loss
    has no attention penalty, label smoothing, or dropout of words.

    `deterministic` is a setting of TensorFlow for the rest of the process: the same
    weights bit for bit on the same machine, with the same packages and threads. When
    training is resumed, it can be switched off, but not on.

    At the end, 300 training photos or more are indexed if there is a
    `consensus_weight` (`keras_sat.after_search.consensus`), and the `confidence` is
    fitted on 100 dev photos or more (`keras_sat.after_search.calibration`). With fewer,
    the captioner goes without, and `fit` says so.

    Most used options:
        encoder: network that computes the features. Choices: vgg16, vgg19, resnet50, mobilenet_v2, efficientnet_b0, efficientnet_lite0, efficientnet_lite2, tiny. Default: tiny for scenes, else vgg16.
        encoder_layer: layer that gives the grid. Default: None (the encoder's).
        encoder_weights: a file, or "bundled" (from the bundled captioner). Default: 'imagenet'; None: random weights.
        encoder_training: fine-tuned: with the decoder; scratch: random weights. Choices: frozen, fine-tuned, scratch. Default: None (frozen; tiny: scratch).
        image_size: side of square input photos. Default: None (the encoder's).
        attention: how the decoder attends. Choices: soft, hard, none. Default: 'soft'.
        scoring: how regions are scored. Choices: additive, dot, bilinear. Default: 'additive'.
        cell: type of recurrent layer. Choices: lstm, gru. Default: 'lstm'.
        embedding_dim: length of a word vector (m in the paper). Default: 512.
        hidden_dim: size of the recurrent layers (n in the paper). Default: 512.
        attention_dim: size of the hidden layer of additive attention. Default: 512.
        attention_penalty_weight: lambda of the penalty in equation (14). Default: 0.33.
        label_smoothing: fraction of the probability spread over the vocabulary. Default: 0.0.
        epochs: maximum number of passes over the training captions. Default: 20.
        batch_size: captions in a batch (over all devices). Default: 64.
        learning_rate: learning rate (if the optimizer is given by name). Default: 0.0004.
        optimizer: a name, or a Keras optimizer. Choices: adam, adamw, rmsprop, sgd. Default: 'adam'.
        num_views: views of each training photo: 2 adds the mirror image, more add crops. Default: 1.
        self_critical_epochs: epochs with the CIDEr of whole captions as the reward. Default: 0.
        seed: random seed for weights, order of batches, dropout and sampling. Default: 0.

    Training:
        deterministic: make results bit-for-bit reproducible with the same seed; slower. Default: False.
        patience: stop after this many epochs without a better BLEU-4. Default: 5; None: never.
        minutes: start no epoch that would end after so many minutes, but train one; the same call resumes. Default: None (no limit).
        num_beams: number of beams for captioning the dev split after each epoch. Default: 1.
        max_length: maximum number of words in these dev captions. Default: 20.
        dtype: auto: mixed_bfloat16 where possible. Choices: float32, mixed_bfloat16, auto. Default: None (Keras' default).

    Optimizer:
        clip_norm: maximum global gradient norm. Default: 5.0; None: no limit.
        weight_decay: weight decay (of matrices only). Default: None (no decay).
        average_momentum: momentum of the weight average; try 0.998. Default: None (no average).
        encoder_rate: encoder's learning rate, as a fraction of learning_rate. Default: 1.0.
        first_layer_rate: fraction of encoder_rate for the first trained layer; it rises to 1 layer by layer. Default: 1.0.

    Cross-entropy epochs:
        schedule: learning rate schedule; cosine falls to 0. Choices: constant, cosine. Default: 'constant'.
        warmup_steps: number of updates in which the learning rate rises from 0. Default: 0.
        group_by: group captions by length or by photo; by photo each is encoded once an epoch. Choices: length, image. Default: None (by photo if the encoder is trained, else by length).
        min_count: minimum count of a word in the vocabulary. Default: 1.
        max_words: maximum size of the vocabulary. Default: 10000; None: keep all words.
        expectation_epochs: hard attention: epochs with soft attention before sampling. Default: 0.

    Self-critical epochs:
        self_critical_rate: constant learning rate of these epochs. Default: 5e-05.
        reward_baseline: baseline: greedy caption or other samples. Choices: greedy, others. Default: 'greedy'.

    Loss:
        num_samples: hard attention: samples per caption (N in equation (12)). Default: 1.
        reward_weight: hard attention: weight of the reward (lambda_r). Default: 0.1.
        entropy_weight: hard attention: weight of the entropy (lambda_e). Default: 0.002.
        guide_weight: supervise attention with word detectors; try 0.5. Default: 0.0.
        box_weight: supervise attention with the boxes of phrases. Default: 0.0.
        sharpness_weight: weight of the entropy of attention in the loss; try 0.02. Default: 0.0.

    Search:
        length_penalty: values above 0 favour longer captions. Default: 0.0.
        no_repeat_ngram: do not repeat n-grams of this length; 0: no limit; try 3. Default: 0.
        consensus_weight: weight of the agreement with the words of similar training photos; try 8. Default: 0.0.

    Encoder:
        trained_up_to: train layers after encoder_layer up to this. Default: None (none).
        grid: size of the grid, such as 14x14 (by dilation). Default: None (the encoder's).
        grid_shape: (rows, columns) of the features. Default: None (the encoder's).
        photo_blur: blur: standard deviation in pixels. Default: None (0, or that of bundled weights).

    Features:
        normalise_features: give each feature vector mean 0 and variance 1. Default: False.
        feature_projection_dim: project features to this length. Default: None (no projection).
        feature_activation: projection's activation. Choices: relu, tanh. Default: None (none).
        feature_dropout: dropout rate of features. Default: 0.0.

    Network:
        num_layers: number of recurrent layers; attention reads the state of the top one. Default: 1.
        context_gate: multiply the context by beta_t; without attention there is no gate. Default: True.
        deep_output: use equation (7); False: one layer on state and context. Default: True.
        readout_activation: activation; tanh in the paper's code. Choices: tanh, relu. Default: None (none, as in the paper).
        dropout_words: dropout rate of whole input words. Default: 0.0.
        dropout_before_readout: dropout rate of h_t before the readout. Default: 0.5.
        dropout_after_readout: dropout rate of the readout. Default: 0.5.
        attends: attend before or after reading the last word. Choices: before, after. Default: 'before'.
        sentinel: add a visual sentinel to the regions (Lu et al., 2017). Default: False."""
    ...
