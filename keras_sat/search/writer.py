"""From photos or features to captions: what a captioner and an ensemble of them have in common."""

import dataclasses
import functools
import json
import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from data_utils.images import find_pictures, load_image, stands_for_many
from keras_sat.checks import check_counts, check_options, check_weights, with_known_options
from keras_sat.search import algorithms as search

USUAL_NUM_BEAMS = 3
ENCODED_TOGETHER = 32  # photos: an encoder's layers need much more memory than a search


@dataclass(frozen=True)
class CaptionResult:
    """A caption of one photo, and where the model looked.

    Attributes:
        caption: the text.
        words: list of its words.
        log_prob: log p(caption | photo) under the model, `<end>` included.
        attention_weights: (words, rows, columns); each map sums to 1.
        is_finished: False where the caption was cut off at the greatest length.
        image: the photo as the encoder saw it, uint8 (height, width, 3); None where only features were given.
        alternatives: the other results that were asked for, best first.
    """

    caption: str
    words: list
    log_prob: float
    attention_weights: np.ndarray = field(repr=False)
    is_finished: bool = True
    image: Any = field(default=None, repr=False)
    alternatives: list = field(default_factory=list, repr=False)


class CaptionWriter:
    """Captions photos. A subclass has `vocabulary`, `length_penalty` and `samples_attention`, and says how in:

    _encode(images): features of a list of images, as caption_features takes them, and the photos as they were seen.
    _features_of_members(features): the same as a tuple of arrays (photos, ...), checked.
    _search(features, word_noise, place_noise, **options): the SearchResult of such a tuple, tensors in, tensors out.
    _num_places: length of the attention weights; rows_and_columns(): their shape.
    """

    def caption(self, images, *, batch_size=64, first_photo=0, recursive=False, **search_options):
        """Return the CaptionResult of a photo, or the list of them for many.

        Args:
            images: a path, a PIL image, an array or tensor with values 0..255 or a CaptionedImage, or many: a list of
                such, an array of four axes, a folder, or a pattern such as "photos/*.jpg". What a folder or a pattern
                stands for, and in which order, `data_utils.find_pictures` says.
            batch_size: photos captioned together.
            recursive: descend into the subfolders of folders.
            **search_options: see `caption_features`.
        """
        check_options(search_options, self.caption, self.caption_features, beside=("search_options", "features"))
        is_list = isinstance(images, (list, tuple)) or hasattr(images, "__next__") or getattr(images, "ndim", 3) == 4
        many = is_list or stands_for_many(images)
        images = [photo for image in (images if is_list else [images]) for photo in _photos_of(image, recursive)]
        check_counts(batch_size=batch_size)
        results = []
        for start in range(0, len(images), batch_size):
            features, photos = self._encode(images[start : start + batch_size])
            first = first_photo + start
            results += self.caption_features(features, images=photos, first_photo=first, **search_options)
        return results if many else results[0]

    @with_known_options()
    def caption_features(
        self,
        features,
        *,
        num_beams=None,
        max_length=20,
        length_penalty=None,
        num_results=1,
        temperature=None,
        top_k=None,
        top_p=None,
        allow_unknown=False,
        sample_attention=False,
        seed=0,
        first_photo=0,
        batch_size=64,
        images=None,
    ):
        """Return a list of CaptionResult, one for each photo, from features (photos, regions, feature_dim).

        Args:
            num_beams: 1 for greedy search; None: 3 for a search, and none where words are drawn.
            max_length: most words of a caption, `<end>` counted; a longer one is cut off.
            length_penalty: see `keras_sat.beam_search`; None takes the captioner's own. Greedy search has one
                caption only, and nothing to choose by it.
            num_results: captions for each photo; the further ones are in `alternatives`.
            temperature: draw the words instead of searching; 1.0 draws from the model's own distribution.
            top_k, top_p: with temperature, see `keras_sat.search.algorithms.sample_search`.
            allow_unknown: allow `<unk>` in captions.
            sample_attention: let hard attention draw one place for each word, instead of using the expectation.
            seed: of what is drawn; each photo has its own chance, by its number.
            first_photo: the number of the first photo.
            batch_size: photos captioned together.
            images: the photos, to be kept in the results.
        """
        if sample_attention and not self.samples_attention:
            raise ValueError("Only hard attention draws places. Received: sample_attention=True with another attention")
        if temperature is None and (top_k is not None or top_p is not None):
            raise ValueError(f"Pass `temperature` to draw words. Received: top_k={top_k}, top_p={top_p}")
        if temperature is not None and (num_beams not in (None, 1) or length_penalty is not None):
            received = {"num_beams": num_beams, "length_penalty": length_penalty}
            received = ", ".join(f"{name}={value}" for name, value in received.items() if value is not None)
            raise ValueError(
                "With `temperature` words are drawn, and with num_beams and length_penalty they are searched for: "
                f"leave out one or the other. Received: temperature={temperature} with {received}"
            )
        num_beams = USUAL_NUM_BEAMS if num_beams is None else num_beams
        if length_penalty is not None:
            check_weights(length_penalty=length_penalty)
        check_counts(num_beams=num_beams, num_results=num_results, max_length=max_length, batch_size=batch_size)
        if temperature is None and num_results > num_beams:
            raise ValueError(
                "A search has as many results as beams at most. "
                f"Received: num_results={num_results}, num_beams={num_beams}"
            )
        members = self._features_of_members(features)
        options = {"max_length": max_length, "allow_unknown": allow_unknown, "sample_attention": sample_attention}
        if temperature is not None:
            options |= {"num_samples": num_results, "temperature": temperature, "top_k": top_k, "top_p": top_p}
        elif num_beams > 1:
            length_penalty = self.length_penalty if length_penalty is None else length_penalty
            options |= {"num_beams": num_beams, "num_results": num_results, "length_penalty": length_penalty}
        results = []
        for start in range(0, len(members[0]), batch_size):
            batch = tuple(array[start : start + batch_size] for array in members)
            chance = [np.random.default_rng([seed, first_photo + start + i]) for i in range(len(batch[0]))]
            rows = num_results if temperature is not None else num_beams
            place_shape = (rows if sample_attention else 0, max_length, self._num_places)
            word_noise, place_noise = (
                np.concatenate([random.random(shape, dtype=np.float32) for random in chance])
                for shape in ((rows, max_length), place_shape)
            )
            tensors = batch, word_noise, place_noise
            specs = tf.nest.map_structure(lambda x: tf.TensorSpec((None, *x.shape[1:]), x.dtype), tensors)
            found = self._compiled("search", self._search, options, *specs)(*tensors)
            found = search.SearchResult(*(array.numpy() for array in found))
            photos = [None] * len(batch[0]) if images is None else images[start : start + batch_size]
            results += [self._as_results(found, i, photo) for i, photo in enumerate(photos)]
        return results

    def _encode_photos(self, photos, encode):
        """Return the features of an array of photos, encoded by a function of a few of them at a time."""
        compiled = self._compiled("encode", encode, {}, tf.TensorSpec((None, *photos.shape[1:]), tf.uint8))
        groups = (photos[i : i + ENCODED_TOGETHER] for i in range(0, len(photos), ENCODED_TOGETHER))
        return np.concatenate([compiled(group).numpy() for group in groups])

    def _compiled(self, name, function, options, *specs):
        """Return a function as a graph, which is made once for each name, set of options and kind of tensors."""
        options = {option: plain(value) for option, value in options.items()}
        key = json.dumps([name, options, [repr(spec) for spec in specs]])
        if key not in self._untracked.compiled:
            function = functools.partial(function, **options)
            self._untracked.compiled[key] = tf.function(function, input_signature=specs, autograph=False)
        return self._untracked.compiled[key]

    def _as_results(self, found, photo, image):
        """Return the CaptionResult of one photo of a SearchResult, made of numpy arrays."""
        results = []
        for result in range(found.log_probs.shape[1]):
            if np.isneginf(found.log_probs[photo, result]):
                continue  # fewer captions are possible than were asked for
            words = self.vocabulary.ids_to_words(found.token_ids[photo, result])
            maps = found.attention_weights[photo, result, : len(words)]
            results.append(
                CaptionResult(
                    caption=" ".join(words),
                    words=words,
                    log_prob=float(found.log_probs[photo, result]),
                    attention_weights=maps.reshape(len(words), *self.rows_and_columns()),
                    is_finished=bool(found.is_finished[photo, result]),
                    image=image,
                )
            )
        return dataclasses.replace(results[0], alternatives=results[1:])


def run_search(step, state, vocabulary, num_regions, word_noise=None, *, max_length, allow_unknown=False, **options):
    """Return the SearchResult of the search that the options mean: by beams, drawn words, or greedy.

    Args:
        step, state: see `keras_sat.search.algorithms`.
        vocabulary: Vocabulary.
        num_regions, word_noise, max_length: see `keras_sat.search.algorithms`.
        allow_unknown: allow `<unk>`.
        **options: of beam_search or of sample_search; none for greedy search.
    """
    shared = {"num_regions": num_regions, "max_length": max_length, **special_tokens(vocabulary, allow_unknown)}
    if "num_beams" in options:
        return search.beam_search(step, state, **options, **shared)
    if "temperature" in options:
        return search.sample_search(step, state, word_noise, **options, **shared)
    return search.greedy_search(step, state, **shared)


def special_tokens(vocabulary, allow_unknown=False):
    """Return what a search must know of a vocabulary."""
    return {
        "start_token_id": vocabulary.start_token_id,
        "end_token_id": vocabulary.end_token_id,
        "pad_token_id": vocabulary.pad_token_id,
        "forbidden_token_ids": () if allow_unknown else (vocabulary.unk_token_id,),
    }


def read_photos(images, image_size):
    """Return images as one array of photos of that size, uint8 (photos, height, width, 3)."""
    return np.stack([load_image(image, image_size) for image in images])


def plain(value):
    """Return a number of numpy as one of Python, which JSON can hold."""
    return value.item() if isinstance(value, np.generic) else value


def _photos_of(image, recursive):
    """Return what load_image takes, as a list: one for a picture, and any number for a folder or a pattern."""
    if not stands_for_many(image):
        return [_as_image(image)]
    paths = find_pictures(image, recursive=recursive)
    if os.path.isdir(paths[0]):
        raise ValueError(f"{paths[0]}: there is no picture in this folder. Received: images={os.fspath(image)!r}")
    return paths


def _as_image(image):
    """Return what load_image takes: a path, a PIL image or an array."""
    image = getattr(image, "image_path", image)
    image = image.numpy() if tf.is_tensor(image) else image
    if not isinstance(image, (str, os.PathLike, np.ndarray)) and not hasattr(image, "convert"):
        raise ValueError(
            "Expected a path, a PIL image, an array with values 0..255, or a list of such. "
            f"Received: an image of type {type(image).__name__}"
        )
    return image
