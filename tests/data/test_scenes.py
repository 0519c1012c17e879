import hashlib

import numpy as np
import pytest

from data_utils.captions import tokenise
from data_utils.scenes import (
    COLOURS,
    RELATION_WORDS,
    SHAPES,
    SIZE_WORDS,
    Scene,
    SceneObject,
    draw_scenes,
    is_true,
    word_places,
)


@pytest.fixture(scope="module")
def scenes():
    return draw_scenes(600, seed=5)


def scene_of(*objects):
    """A scene with objects given as (size, colour, shape, box), on a picture of 64 x
    64.
    """
    items = tuple(SceneObject(shape, colour, size, box) for size, colour, shape, box in objects)
    return Scene("test", np.zeros((64, 64, 3), np.uint8), items, (), "train")


RED_CIRCLE = ("small", "red", "circle", (4, 20, 18, 34))
BLUE_STAR = ("big", "blue", "star", (40, 22, 62, 44))


def test_basics(scenes):
    for scene in scenes:
        assert scene.image.shape == (64, 64, 3) and scene.image.dtype == np.uint8
        assert len(set(scene.captions)) == 5
        assert 1 <= len(scene.objects) <= 2
    assert len({scene.image_id for scene in scenes}) == 600
    splits = [scene.split for scene in scenes]
    assert (splits.count("train"), splits.count("dev"), splits.count("test")) == (480, 60, 60)


def test_same_seed_same_pixels_and_captions(scenes):
    again = draw_scenes(20, seed=5)  # a shorter list is the beginning of a longer one
    for first, second in zip(again, scenes):
        np.testing.assert_array_equal(first.image, second.image)
        assert first.captions == second.captions
    assert draw_scenes(1, seed=6)[0].captions != again[0].captions


def test_the_pixels_are_the_same_on_every_machine(scenes):
    pixels = hashlib.sha256(b"".join(scene.image.tobytes() for scene in scenes[:50])).hexdigest()
    captions = hashlib.sha256(
        "\n".join(c for scene in scenes[:50] for c in scene.captions).encode()
    ).hexdigest()
    assert captions[:16] == "c27408ab38576463"
    assert pixels[:16] == "78b02dfe47ac2ef1"


def test_every_caption_is_true_of_its_scene_and_of_few_others(scenes):
    assert all(is_true(scene, caption) for scene in scenes for caption in scene.captions)
    elsewhere = [
        is_true(scenes[i - 1], caption)
        for i in range(len(scenes))
        for caption in scenes[i].captions
    ]
    assert set(elsewhere) == {True, False} and np.mean(elsewhere) < 0.05


def test_relations_are_named_and_and_is_kept_for_twins(scenes):
    two = [scene for scene in scenes if len(scene.objects) == 2]
    assert 250 < len(two) < 350
    for scene in two:
        twins = scene.objects[0].looks == scene.objects[1].looks
        for caption in scene.captions:
            relations = [place for place in scene.places(caption) if place.word_class == "relation"]
            assert len(relations) == (not twins) and (twins or "and" not in caption.split())


def test_both_orders_of_mention_and_every_word_occur(scenes):
    first_is_left = [scene for scene in scenes if any(" left of " in c for c in scene.captions)]
    assert any(any(" right of " in c for c in scene.captions) for scene in first_is_left)
    words = {word for scene in scenes for caption in scene.captions for word in tokenise(caption)}
    expected = {*COLOURS, *SHAPES, *SIZE_WORDS, *RELATION_WORDS}
    assert (
        expected | {"a", "an", "the", "one", "two", "another", "and", "there", "picture"} <= words
    )


def test_exactly_one_relation_is_clear(scenes):
    for scene in scenes:
        if len(scene.objects) == 2:
            (a, b), gap = (item.box for item in scene.objects), 64 // 12
            apart = [a[2] + gap <= b[0], b[2] + gap <= a[0], a[3] + gap <= b[1], b[3] + gap <= a[1]]
            overlap = (a[0] < b[2] and b[0] < a[2]) + (a[1] < b[3] and b[1] < a[3])
            assert sum(apart) == 1 and overlap == 1


def test_objects_are_drawn_inside_their_boxes_in_their_colours(scenes):
    for scene in scenes[:50]:
        for item in scene.objects:
            left, top, right, bottom = item.box
            assert 0 <= left < right <= 64 and 0 <= top < bottom <= 64
            centre = scene.image[(top + bottom) // 2 + 1, (left + right) // 2].astype(int)
            assert np.abs(centre - COLOURS[item.colour]).max() <= 8


def test_truth_of_handmade_sentences():
    scene = scene_of(RED_CIRCLE, BLUE_STAR)
    truths = {
        "a red circle left of a blue star": True,
        "The red circle is to the left of a big blue star.": True,
        "there is a blue star right of the small red circle": True,
        "a red circle": True,
        "one little red circle": True,
        "a red circle and a blue star": True,
        "a red circle right of a blue star": False,
        "a blue star left of a red circle": False,
        "a red circle left of a red circle": False,
        "two red circles": False,
        "a red circle and another red circle": False,
        "": None,
        "a dog runs": None,
        "a red circle left of": None,
        "a red circle is": None,
        "a red circle is a red circle": None,
        "there is a red circle is left of a blue star": None,
        "a red circle left of a blue star blue star": None,
        "two red circle": None,
        "a red circles": None,
        "a red circle left of a blue star and": None,
        "a <unk> circle": None,
    }
    assert {caption: is_true(scene, caption) for caption in truths} == truths


def test_twins_and_three_objects():
    twins = scene_of(RED_CIRCLE, ("small", "red", "circle", (40, 20, 54, 34)))
    assert is_true(twins, "two small red circles") and is_true(
        twins, "a red circle and another red circle"
    )
    assert is_true(twins, "two big red circles") is False
    both = twins.objects[0].box, twins.objects[1].box
    assert [place.boxes for place in word_places(twins, "two red circles")] == [both] * 3
    three = scene_of(RED_CIRCLE, BLUE_STAR, ("small", "green", "square", (6, 48, 18, 60)))
    assert is_true(three, "a red circle is left of a blue star and above a green square") is True
    assert is_true(three, "a red circle is left of a blue star and below a green square") is False
    for scene in draw_scenes(60, seed=2, image_size=96, max_objects=3):
        assert all(is_true(scene, caption) for caption in scene.captions)


def test_places_of_words():
    scene = scene_of(RED_CIRCLE, BLUE_STAR)
    places = scene.places("The red circle is to the left of a big blue star.")
    red, blue = scene.objects[0].box, scene.objects[1].box
    found = [(place.position, place.word, place.word_class, place.boxes) for place in places]
    assert found == [
        (1, "red", "colour", (red,)),
        (2, "circle", "shape", (red,)),
        (6, "left", "relation", (red, blue)),
        (9, "big", "size", (blue,)),
        (10, "blue", "colour", (blue,)),
        (11, "star", "shape", (blue,)),
    ]
    assert scene.places("a red circle right of a blue star") == [] == scene.places("a dog")


def test_cells_of_any_grid():
    (place,) = [p for p in word_places(scene_of(RED_CIRCLE), "a red circle") if p.word == "red"]
    # The box (4, 20, 18, 34) covers parts of columns 0..2 and rows 2..4, of 8 pixels
    # each.
    cells = place.cells((8, 8))
    rows, columns = np.zeros(8), np.zeros(8)
    rows[2:5], columns[:3] = [4 / 8, 1, 2 / 8], [4 / 8, 1, 2 / 8]
    np.testing.assert_allclose(cells, np.outer(rows, columns))
    pixels = place.cells((64, 64))
    assert pixels[20:34, 4:18].all() and pixels.sum() == 14 * 14
    for grid in ((1, 1), (7, 5), (16, 16)):
        assert place.cells(grid).mean() == pytest.approx(14 * 14 / 64**2)


@pytest.mark.parametrize("options", [{"image_size": 8}, {"max_objects": 4}])
def test_errors(options):
    with pytest.raises(ValueError, match="at least 32 pixels on each side and have 1 to 3 objects"):
        draw_scenes(1, **options)
