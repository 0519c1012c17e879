from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from helpers import mean_colour_encoder, write_photos

from data_utils import CaptionedImage, FeatureCache, Vocabulary, load_image, make_batches
from data_utils.batch_groups import GROUPINGS
from data_utils.batches import inputs_and_targets
from data_utils.photos.views import view_of

pytestmark = pytest.mark.filterwarnings("ignore:.*end of sequence.*")


@pytest.fixture
def three(tmp_path):
    """Three photos with 2, 1 and 3 captions, a vocabulary and a cache of them."""
    write_photos(tmp_path, ["a.png", "b.png", "c.png"])
    captions = {
        "a": ["a dog runs", "a dog"],
        "b": ["a cat"],
        "c": ["a", "a dog runs away fast", "a cat runs"],
    }
    images = [
        CaptionedImage(i, str(tmp_path / f"{i}.png"), texts, "train")
        for i, texts in captions.items()
    ]
    paths, options = (
        [image.image_path for image in images],
        {"image_size": 16, "show_progress": False},
    )
    cache = FeatureCache.build(
        tmp_path / "cache", list(captions), paths, mean_colour_encoder, **options
    )
    return images, Vocabulary.build(images), cache


def as_numpy(dataset):
    return list(dataset.as_numpy_iterator())


def captions_in(batches, vocabulary):
    """Return a Counter of all captions in batches, read back from the targets by their
    weights.
    """
    found = Counter()
    for _, target_ids, token_weights in batches:
        time = target_ids.shape[-1]
        for ids, weights in zip(target_ids.reshape(-1, time), token_weights.reshape(-1, time)):
            if weights.any():
                found[vocabulary.ids_to_caption(ids[weights > 0])] += 1
    return found


def test_the_shift_the_padding_and_the_weights_of_a_caption_done_by_hand():
    # <pad> 0, <start> 1, <end> 2, <unk> 3, a 4, dog 5, runs 6
    vocabulary = Vocabulary(["a", "dog", "runs"])
    input_ids, target_ids, token_weights = inputs_and_targets([[4, 5, 6], [4]], vocabulary)
    np.testing.assert_array_equal(input_ids, [[1, 4, 5, 6], [1, 4, 0, 0]])
    np.testing.assert_array_equal(target_ids, [[4, 5, 6, 2], [4, 2, 0, 0]])
    np.testing.assert_array_equal(token_weights, [[1, 1, 1, 1], [1, 1, 0, 0]])
    assert (input_ids.dtype, target_ids.dtype, token_weights.dtype) == (
        np.int32,
        np.int32,
        np.float32,
    )


@pytest.mark.parametrize("group_by", GROUPINGS)
@pytest.mark.parametrize("batch_size", [7, 1000])
def test_every_caption_appears_exactly_once_in_an_epoch(
    scene_images, scene_vocabulary, scene_cache, group_by, batch_size
):
    dataset = make_batches(
        scene_images, scene_vocabulary, scene_cache, batch_size, split="train", group_by=group_by
    )
    batches = as_numpy(dataset)
    expected = Counter(
        caption for image in scene_images if image.split == "train" for caption in image.captions
    )
    assert captions_in(batches, scene_vocabulary) == expected
    assert len(batches) == len(dataset)  # progress bars know the length
    sizes = [int((weights.sum(axis=-1) > 0).sum()) for _, _, weights in batches]
    assert max(sizes) <= max(batch_size, 5 if group_by == "image" else 1)


@pytest.mark.parametrize("group_by", GROUPINGS)
def test_each_caption_comes_with_the_features_of_its_photo(
    scene_images, scene_vocabulary, scene_cache, group_by
):
    photo_of = {}
    for image in scene_images:
        for caption in image.captions:
            photo_of.setdefault(caption, set()).add(
                scene_cache.features([image.image_id]).tobytes()
            )
    for (features, _), target_ids, token_weights in as_numpy(
        make_batches(
            scene_images, scene_vocabulary, scene_cache, 16, split="train", group_by=group_by
        )
    ):
        assert features.shape[1:] == (4, 3) and features.dtype == np.float16
        assert group_by == "image" or token_weights.min() == 1, (
            "captions of one length need no padding"
        )
        target_ids = target_ids[:, None] if group_by == "length" else target_ids
        for row, captions in zip(features, target_ids):
            for ids in captions:
                assert row.tobytes() in photo_of[scene_vocabulary.ids_to_caption(ids)]


@pytest.mark.parametrize("group_by", GROUPINGS)
def test_epochs_are_shuffled_and_reproducible(
    scene_images, scene_vocabulary, scene_cache, group_by
):
    def epochs(n, **options):
        dataset = make_batches(
            scene_images, scene_vocabulary, scene_cache, 16, group_by=group_by, **options
        )
        return [[target_ids.tolist() for _, target_ids, _ in as_numpy(dataset)] for _ in range(n)]

    first, second = epochs(2, seed=1)
    assert first != second
    assert [first, second] == epochs(2, seed=1)
    # a training that goes on sees what it would have seen
    assert epochs(1, seed=1, first_epoch=1) == [second]
    assert epochs(1, seed=2) != [first]
    still, again = epochs(2, shuffle=False)
    assert still == again


@pytest.mark.parametrize("group_by", GROUPINGS)
def test_captions_without_a_word_are_left_out_and_counted(three, group_by):
    images, vocabulary, cache = three
    images = [
        *images[:2],
        CaptionedImage("c", images[2].image_path, ["...", "a cat", "!"], "train"),
    ]
    with pytest.warns(UserWarning, match="captions without a word left out: 2 .first: c"):
        dataset = make_batches(images, vocabulary, cache, group_by=group_by)
    assert captions_in(as_numpy(dataset), vocabulary) == {"a dog runs": 1, "a dog": 1, "a cat": 2}


def test_all_captions_of_a_photo_stay_together(three):
    images, vocabulary, cache = three
    ((features, input_ids), target_ids, token_weights), *others = as_numpy(
        make_batches(images, vocabulary, cache, 64, group_by="image", shuffle=False)
    )
    assert not others
    # sorted by the number of captions: b has 1, a has 2, c has 3; the longest caption
    # has 5 words and <end>
    np.testing.assert_array_equal(features, cache.features(["b", "a", "c"]))
    assert input_ids.shape == target_ids.shape == token_weights.shape == (3, 3, 6)
    # Longest first.
    np.testing.assert_array_equal(token_weights.sum(axis=2), [[3, 0, 0], [4, 3, 0], [6, 4, 2]])
    assert (input_ids[token_weights == 0] == 0).all() and (
        target_ids[token_weights == 0] == 0
    ).all()
    assert vocabulary.ids_to_caption(target_ids[2, 0]) == "a dog runs away fast"


@pytest.mark.parametrize("where", ["on the disk", "kept", "in memory"])
def test_photos_for_a_trained_encoder(scene_images, scene_vocabulary, where, monkeypatch):
    images = scene_images[:10]
    if where == "in memory":
        images = [replace(image, image_path=load_image(image.image_path)) for image in images]
    if where == "on the disk":
        monkeypatch.setattr("data_utils.batch_sources.KEPT_BYTES", 0)
    options = {"image_size": (32, 48), "group_by": "length"}
    dataset = make_batches(images, scene_vocabulary, **options)
    assert dataset.element_spec[0][0].shape.as_list() == [None, 32, 48, 3]
    by_pixels = {
        load_image(image.image_path, (32, 48)).tobytes(): image for image in scene_images[:10]
    }
    for _ in range(2):
        count = 0
        for (images, _), target_ids, _ in as_numpy(dataset):
            assert images.dtype == np.uint8
            for pixels, ids in zip(images, target_ids):
                assert scene_vocabulary.ids_to_caption(ids) in by_pixels[pixels.tobytes()].captions
                count += 1
        assert count == 50


def test_views_of_photos_for_a_trained_encoder(scene_images, scene_vocabulary):
    images = scene_images[:10]
    options = {"image_size": 32, "num_views": 3, "group_by": "image", "seed": 4}
    known = {
        view_of(load_image(image.image_path, 32), view, image.image_id).tobytes(): (
            image.image_id,
            view,
        )
        for image in images
        for view in range(4)
    }
    dataset, again = (make_batches(images, scene_vocabulary, **options) for _ in range(2))
    epochs = []
    for _ in range(6):
        epochs.append(
            [known[pixels.tobytes()] for (photos, _), *_ in as_numpy(dataset) for pixels in photos]
        )
        assert sorted(name for name, _ in epochs[-1]) == sorted(image.image_id for image in images)
    views = [view for epoch in epochs for _, view in epoch]
    assert set(views) == {0, 1, 2} and min(map(views.count, {0, 1, 2})) > 8
    assert [
        known[pixels.tobytes()] for (photos, _), *_ in as_numpy(again) for pixels in photos
    ] == epochs[0]


def test_a_photo_that_cannot_be_read_is_named(three):
    images, vocabulary, _ = three
    with open(images[1].image_path, "wb") as file:
        file.write(b"torn")
    with pytest.raises(Exception, match="b.png: this is not a picture"):
        as_numpy(make_batches(images, vocabulary, image_size=16))


def test_captions_of_unreadable_photos_are_left_out_and_counted(three, tmp_path):
    images, vocabulary, _ = three
    with open(images[2].image_path, "wb") as file:
        file.write(b"torn")
    ids, paths = zip(*[(image.image_id, image.image_path) for image in images])
    options = {"image_size": 16, "errors": "skip", "show_progress": False}
    with pytest.warns(UserWarning, match="unreadable photos left out: 1 of 3"):
        cache = FeatureCache.build(tmp_path / "x", ids, paths, mean_colour_encoder, **options)
    with pytest.warns(UserWarning, match="captions of unreadable photos left out: 3 .first: c"):
        dataset = make_batches(images, vocabulary, cache)
    assert captions_in(as_numpy(dataset), vocabulary) == {"a dog runs": 1, "a dog": 1, "a cat": 1}


@pytest.fixture
def views(three, tmp_path):
    images, vocabulary, cache = three
    arguments = (
        [image.image_id for image in images],
        [image.image_path for image in images],
        mean_colour_encoder,
    )
    options = {"image_size": 16, "show_progress": False}
    others = [
        FeatureCache.build(tmp_path / f"view{view}", *arguments, view=view, **options)
        for view in (1, 2)
    ]
    return images, vocabulary, [cache, *others]


@pytest.mark.parametrize("group_by", GROUPINGS)
def test_each_time_a_photo_is_shown_one_of_its_views_is_drawn(views, group_by):
    images, vocabulary, caches = views
    known = {
        cache.features([image.image_id]).tobytes(): (view, image.image_id)
        for view, cache in enumerate(caches)
        for image in images
    }
    batches = make_batches(images, vocabulary, caches, 2, group_by=group_by, seed=1)
    epochs = [as_numpy(batches) for _ in range(12)]
    drawn = {
        known[grid.tobytes()]
        for epoch in epochs
        for (features, _), *_ in epoch
        for grid in features
    }
    assert drawn == {*known.values()} and len(drawn) == 9
    again = as_numpy(
        make_batches(images, vocabulary, caches, 2, group_by=group_by, seed=1, first_epoch=11)
    )
    for one, other in zip(epochs[11], again, strict=True):
        np.testing.assert_array_equal(one[0][0], other[0][0])
    single = as_numpy(make_batches(images, vocabulary, caches[0], 2, group_by=group_by, seed=1))
    for one, other in zip(epochs[0], single, strict=True):
        # Which captions share a batch does not depend on the views.
        np.testing.assert_array_equal(one[1], other[1])


def test_errors(three):
    images, vocabulary, cache = three
    stranger = CaptionedImage("stranger", images[0].image_path, ["a dog"], "train")
    for arguments, options, message in (
        ((images, vocabulary, cache), {"group_by": "size"}, "group_by='size'"),
        ((images, vocabulary, cache), {"split": "dev"}, "no caption.*split='dev'"),
        ((images, vocabulary), {}, "Pass either `cache`"),
        ((images, vocabulary, cache), {"image_size": 16}, "Pass either `cache`"),
        ((images, vocabulary, []), {}, "Pass either `cache`"),
        ((images, vocabulary, cache), {"num_views": 3}, "Pass either `cache`"),
        ((images, vocabulary, cache, 0), {}, "batch_size=0"),
        ((images, vocabulary, cache, "a"), {}, "whole numbers.*batch_size='a'"),
        ((images, vocabulary), {"image_size": 0}, "at least 1 pixel.*image_size=0"),
        ((images, vocabulary), {"image_size": "16"}, "the side of a square.*image_size='16'"),
        ((images, vocabulary.words, cache), {}, "Expected a Vocabulary.*vocabulary=\\["),
        ((images, vocabulary), {"image_size": 16, "num_views": 0}, "num_views=0"),
        (([*images, stranger], vocabulary, cache), {}, "no features for the photo 'stranger'"),
    ):
        with pytest.raises(ValueError, match=message):
            make_batches(*arguments, **options)


def test_by_default_photos_come_once_and_features_with_captions_of_one_length(three):
    images, vocabulary, cache = three
    (photos, input_ids), *_ = next(iter(make_batches(images, vocabulary, image_size=16)))
    assert len(photos) == 3 and input_ids.shape[:2] == (3, 3)
    (_, input_ids), *_ = next(iter(make_batches(images, vocabulary, cache)))
    assert len(input_ids.shape) == 2
