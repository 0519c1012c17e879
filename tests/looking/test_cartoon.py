import numpy as np
import pytest
from PIL import Image

from keras_sat import AttentionDisplay
from keras_sat.looking.spotlight import NAN_COLOUR

WORDS = ["a", "dog", "runs"]
NOTE = 25  # rows of the note at the bottom of a GIF of 480 pixels


@pytest.fixture
def maps():
    maps = np.zeros((3, 2, 2))
    maps[0, 0, 0] = maps[1, 1, 1] = maps[2, 0, 1] = 1
    return maps


def frames_of(path):
    """The frames of a GIF, (height, width, 3), and how long each is shown, in
    milliseconds.
    """
    frames, seconds = [], []
    with Image.open(path) as cartoon:
        assert cartoon.info["loop"] == 0
        for number in range(cartoon.n_frames):
            cartoon.seek(number)
            frames.append(np.array(cartoon.convert("RGB"), dtype=int))
            seconds.append(cartoon.info["duration"])
    return frames, seconds


def white(pixels):
    return pixels.min(axis=-1) > 240


def underlined(frame):
    """The columns of the line under a word: the lowest row of ink, without gaps."""
    rows = [np.flatnonzero(row) for row in frame.sum(axis=2) < 150]
    lowest = [row for row in rows if len(row)][-1]
    return lowest if len(lowest) > 10 and np.ptp(lowest) == len(lowest) - 1 else lowest[:0]


def test_the_photo_then_word_by_word(maps, tmp_path):
    photo = np.full((60, 90, 3), (120, 160, 90), np.uint8)
    display = AttentionDisplay(photo, WORDS, maps)
    display.animate(tmp_path / "new" / "dog.gif", words="all", seconds_per_word=0.5)
    frames, seconds = frames_of(tmp_path / "new" / "dog.gif")
    assert frames[0].shape[1] == 480
    assert seconds == [1000, 60, 500, 60, 500, 60, 500 + 2000], "the last word keeps its line"
    np.testing.assert_allclose(
        frames[0][:320], np.broadcast_to((120, 160, 90), (320, 480, 3)), atol=20
    )
    assert (frames[0][-NOTE:] < 150).any(), "it says what the line is"
    held = frames[::2]
    ink = [(frame[320:-NOTE].sum(axis=2) < 300).sum() for frame in held]
    assert 0 == ink[0] < ink[1] < ink[2] < ink[3]
    for frame, (row, column) in zip(held[1:], ((0, 0), (1, 1), (0, 1))):
        corners = frame[[40, 40, 280, 280], [60, 420, 60, 420]]
        assert np.ptp(corners, axis=1).argmax() == 2 * row + column
        assert white(frame[:320]).sum() > 200, "the outline"
    lines = [underlined(frame[320:-NOTE]) for frame in held[1:]]
    assert lines[0].max() < lines[1].min() <= lines[1].max() < lines[2].min()


def test_the_caption_is_pale_before_it_is_said_so_that_no_line_is_empty(maps, tmp_path):
    photo = np.full((60, 90, 3), (120, 160, 90), np.uint8)
    words = ["a", "dog", "runs", *["along"] * 12]
    AttentionDisplay(photo, words, maps[[0] * 15]).animate(tmp_path / "dog.gif", words=["a"])
    frames, _ = frames_of(tmp_path / "dog.gif")
    rows = [np.flatnonzero((frame[320:-NOTE] < 230).any(axis=(1, 2))) for frame in frames[::3]]
    assert rows[0].max() == pytest.approx(rows[1].max(), abs=3), "all lines are there at once"
    assert frames[0][320:-NOTE].min() > 150 and frames[-1][320:-NOTE].min() < 50


def test_content_words_come_with_the_words_before_them(maps, tmp_path):
    photo = np.random.default_rng(0).integers(0, 256, (30, 40, 3), dtype=np.uint8)
    words = ["a", "dog", "in", "the", "snow", "there"]
    AttentionDisplay(photo, words, maps[[0, 1, 2, 0, 2, 1]]).animate(
        tmp_path / "dog.gif", look="paper"
    )
    frames, seconds = frames_of(tmp_path / "dog.gif")
    assert seconds == [1000, 60, 700, 60, 700, 2000]
    widths = [
        np.flatnonzero((frame[360:-NOTE].sum(axis=2) < 300).any(axis=0)).max()
        for frame in (frames[2], frames[4])
    ]
    last = np.flatnonzero((frames[5][360:-NOTE].sum(axis=2) < 300).any(axis=0)).max()
    assert widths[0] < widths[1] < last, "then the rest of the caption"


def test_small_vivid_things_keep_their_colour(maps, tmp_path):
    sky = np.random.default_rng(0).integers(90, 200, (120, 160, 1)).repeat(3, axis=2)
    photo = sky.astype(np.uint8)
    fin = photo[60:66, 80:86] = np.array((250, 230, 20), np.uint8)
    AttentionDisplay(photo, WORDS, maps).animate(tmp_path / "a.gif")
    frames, _ = frames_of(tmp_path / "a.gif")
    np.testing.assert_allclose(frames[0][189, 249], fin, atol=60)


def test_a_long_word_is_not_broken(maps, tmp_path):
    photo = np.full((40, 60, 3), 100, np.uint8)
    AttentionDisplay(photo, ["w" * 60, "dog", "runs"], maps).animate(tmp_path / "a.gif")
    frames, _ = frames_of(tmp_path / "a.gif")
    columns = np.flatnonzero((frames[-1][330:] < 128).any(axis=(0, 2)))
    assert columns.min() > 0 and columns.max() < 478


def test_a_file_of_twelve_words_is_small(tmp_path):
    random = np.random.default_rng(0)
    rough = random.integers(0, 256, (12, 16, 3), dtype=np.uint8)
    photo = np.array(Image.fromarray(rough).resize((480, 360), Image.Resampling.BICUBIC), dtype=int)
    photo = (photo + random.integers(-12, 13, photo.shape)).clip(0, 255).astype(np.uint8)
    maps = random.random((12, 7, 7)) ** 8
    AttentionDisplay(photo, ["word"] * 12, maps).animate(tmp_path / "a.gif")
    assert (tmp_path / "a.gif").stat().st_size < 2_000_000


def test_nan_is_marked_and_memory_has_no_map(maps, tmp_path):
    maps[1] = np.nan
    photo = np.full((60, 60, 3), (200, 60, 60), np.uint8)
    display = AttentionDisplay(photo, WORDS, maps, from_photo=np.array([1, 1, 0.2]))
    display.animate(tmp_path / "lost.gif", width=120)
    frames, _ = frames_of(tmp_path / "lost.gif")
    np.testing.assert_allclose(frames[2][30, 60], NAN_COLOUR, atol=25)
    assert np.ptp(frames[4][:80], axis=2).max() < 30
    assert (frames[4][80:120] > 240).all(axis=2).any(), "from memory"


def test_errors(maps, tmp_path):
    display = AttentionDisplay(np.zeros((8, 8, 3), np.uint8), WORDS, maps)
    for options in (
        {"seconds_per_word": -1},
        {"seconds_per_word": 700},
        {"width": -1},
        {"width": 0},
    ):
        with pytest.raises(ValueError, match="a width from 16 to 4096 pixels"):
            display.animate(tmp_path / "dog.gif", **options)
    with pytest.raises(ValueError, match="ending in .gif"):
        display.animate(tmp_path / "dog.png")
    with pytest.raises(ValueError, match="list of words or positions"):
        display.animate(tmp_path / "dog.gif", words=["cat"])
