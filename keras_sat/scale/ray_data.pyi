"""Made by docs/make_stubs.py: the signatures, with all options."""

from __future__ import annotations

import os
from typing import Any

BATCH_SIZE = 64
COLUMNS = (
    "image",
    "caption",
    "words",
    "log_prob",
    "is_finished",
    "confidence",
    "from_photo",
    "word_probs",
    "error",
    "consensus",
    "likely_words",
)

def distributed_caption(
    images: Any,
    model: Any = None,
    *,
    output: str | os.PathLike,
    ray: str = "local",
    recursive: bool = False,
    file_type: str = "jsonl",
    part_size: int = 1024,
    worker_cpus: float = 1,
    worker_gpus: float = 0,
    encoder_weights: str | os.PathLike | None = None,
    show_progress: bool = True,
    num_beams: int | None = None,
    max_length: int = 20,
    allow_unknown: bool = False,
    length_penalty: float | None = None,
    no_repeat_ngram: int | None = None,
) -> Any:
    """Caption photos on a Ray cluster, write the captions in parts, and return a Ray
    Dataset that reads them.

    Whole parts are kept: remove a part to have it done again. A photo that cannot be
    read has a row with an error. All nodes must see the photos, the model and `output`
    under the same paths.

    Args:
        images: a folder, a pattern, a photo, a file with the path of a photo in each
            line (.txt), or the address of a folder, pattern or photo, such as
            s3://bucket/photos; or a list of these.
        model: see `Captioner.from_pretrained`; a list of models forms an ensemble.
        output: the folder for the parts.
        ray, worker_cpus, worker_gpus: see `keras_sat.scale.ray_workers.Workers`.
        recursive: include subfolders.
        file_type: "jsonl" or "parquet".
        part_size: photos in a part, rounded up to whole batches of 64.
        encoder_weights: see `Captioner.load`.
        show_progress: show progress on standard error.
        **options: see `keras_sat.settings.Search`.

    Options:
        num_beams: number of beams; 1: greedy. Default: None (3, or 10 for consensus, or num_results if more).
        max_length: maximum number of words, including `<end>`. Default: 20.
        allow_unknown: allow `<unk>` in captions. Default: False.
        length_penalty: values above 0 favour longer captions. Default: the captioner's own.
        no_repeat_ngram: do not repeat n-grams of this length; 0: no limit; try 3. Default: the captioner's own."""
    ...

def write_captions(
    images,
    model,
    *,
    output,
    recursive=False,
    file_type="jsonl",
    part_size=1024,
    encoder_weights=None,
    show_progress=True,
    options=None,
    **worker_options,
): ...

class ModelSource:
    models: list
    encoder_weights: Any

    def load(self): ...
    def digests(self): ...

def loading(models, encoder_weights): ...
def load_models(models, encoder_weights): ...

class DistributedCaptioner:
    def __init__(self, captioner, source, workers): ...
    def caption_images(self, images, search, *, cache=None, regions=None): ...

def encoding_on(workers, encoder_options, part_size=1024): ...
