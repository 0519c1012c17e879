import json

import pytest

from data_utils import CaptionedImage, Vocabulary
from data_utils.base import write_sealed_json
from data_utils.captions import tokenise
from data_utils.vocabulary import MOST_LETTERS_IN_WORD, SPECIAL_TOKENS


@pytest.fixture
def images():
    return [
        CaptionedImage("1", "1.jpg", ["A dog runs.", "the dog, a dog"], "train"),
        CaptionedImage("2", "2.jpg", ["zebra", "a cat"], "train"),
        CaptionedImage("3", "3.jpg", ["unseen devword"], "dev"),
        CaptionedImage("4", "4.jpg", ["unseen testword"], "test"),
        CaptionedImage("5", "5.jpg", ["unlisted"], None),
    ]


def test_basics(images):
    vocabulary = Vocabulary.build(images)
    assert vocabulary.tokens[:4] == list(SPECIAL_TOKENS) and vocabulary.pad_token_id == 0
    # By frequency, then by the alphabet.
    assert vocabulary.words == ["a", "dog", "cat", "runs", "the", "zebra"]
    ids = vocabulary.caption_to_ids("A dog runs!")
    assert ids == [4, 5, 7]
    assert (
        vocabulary.ids_to_caption([vocabulary.start_token_id, *ids, vocabulary.end_token_id, 4, 0])
        == "a dog runs"
    )
    assert len(vocabulary) == 10 and "dog" in vocabulary and "devword" not in vocabulary


def test_unknown_words_become_unk_and_are_reported(images):
    vocabulary = Vocabulary.build(images)
    assert vocabulary.caption_to_ids("a wolf") == [4, vocabulary.unk_token_id]
    assert vocabulary.ids_to_caption([4, vocabulary.unk_token_id]) == "a <unk>"
    assert (
        vocabulary.unknown_share(["a wolf", "a dog"]) == 0.25
        and vocabulary.unknown_share([]) == 0.0
    )


def test_min_count_and_max_size_cut_the_rare_words(images):
    assert Vocabulary.build(images, min_count=2).words == ["a", "dog"]
    assert Vocabulary.build(images, max_size=3).words == ["a", "dog", "cat"]
    assert len(Vocabulary.build(images, max_size=None).words) == 6
    assert Vocabulary.build(images[::-1]) == Vocabulary.build(images), (
        "the order of the photos does not matter"
    )


def test_special_tokens_in_captions_cannot_become_special():
    images = [CaptionedImage("1", "1.jpg", ["<end> a <pad>"], "train")]
    vocabulary = Vocabulary.build(images)
    assert vocabulary.words == ["a", "end", "pad"]
    assert vocabulary.end_token_id not in vocabulary.caption_to_ids("<end> a <pad>")


def test_its_digest_is_that_of_the_words_in_their_order():
    digest = Vocabulary(["dog", "cat"]).digest
    assert digest == Vocabulary(["dog", "cat"]).digest and len(digest) == 16
    assert digest not in (Vocabulary(["cat", "dog"]).digest, Vocabulary(["dog"]).digest)


def test_save_and_load(images, tmp_path):
    vocabulary = Vocabulary.build(images)
    vocabulary.save(tmp_path / "vocabulary.json")
    assert Vocabulary.load(tmp_path / "vocabulary.json") == vocabulary
    assert json.loads((tmp_path / "vocabulary.json").read_text())["version"] == 1


def test_damage_is_noticed(images, tmp_path):
    path = tmp_path / "vocabulary.json"
    Vocabulary.build(images).save(path)
    whole = path.read_bytes()
    for damaged in (
        whole.replace(b"dog", b"dof"),
        whole[:-20],
        b"",
        b"[]",
        b'{"a": 1}',
        b"\xff\xfe\x00",
    ):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="vocabulary.json"):
            Vocabulary.load(path)


def test_errors(images):
    with pytest.raises(ValueError, match="split 'train'.*split_seed"):
        Vocabulary.build(images[2:])
    with pytest.raises(ValueError, match="list of CaptionedImage.*Received: 'a b'"):
        Vocabulary.build(["a b"])
    for odd in ({"min_count": 0}, {"max_size": -1}):
        with pytest.raises(ValueError, match="Expected values of at least 1"):
            Vocabulary.build(images, **odd)
    for odd in ("a", "", "<pad>", "big dog", MOST_LETTERS_IN_WORD * "a" + "a", "\0", None, ["a"]):
        with pytest.raises(ValueError, match="Expected distinct words"):
            Vocabulary(["a", odd])
    with pytest.raises(ValueError, match="Received: 99"):
        Vocabulary(["a"]).ids_to_words([99])


@pytest.mark.parametrize(
    "odd", ["\ud800", "\x1b[31m", "\0", "\u202e", "\n", " big", "\u2028"], ids=ascii
)
def test_a_word_has_no_blank_and_no_control_character_in_it(odd, tmp_path):
    path = tmp_path / "vocabulary.json"
    write_sealed_json(path, {"format": "vocabulary", "version": 1, "words": ["dog", odd]})
    with pytest.raises(ValueError, match=r"vocabulary\.json: Expected distinct words") as caught:
        Vocabulary.load(path)
    assert str(caught.value).isprintable()
    assert "d" in Vocabulary.build([CaptionedImage("1", "1.jpg", [f"a d{odd}g, {odd}"], "train")])


def test_words_that_are_too_long():
    long = MOST_LETTERS_IN_WORD * "a"
    built = Vocabulary.build([CaptionedImage("1", "1.jpg", [f"{long} {long}a dog"], "train")])
    assert built.words == [long, "dog"] and built.unk_token_id in built.caption_to_ids(long + "a")


def test_every_token_is_a_word():
    every = [*range(0x32000), *range(0xE0000, 0xE0200)]  # elsewhere there are no letters
    words = {*tokenise(" ".join(f"{letter} a{letter}b" for letter in map(chr, every)))}
    assert len(Vocabulary(sorted(words))) > 100_000
