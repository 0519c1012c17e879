import random

import pytest

from data_utils.captions import (
    clean_descriptions,
    image_id_of,
    load_descriptions,
    load_document,
    save_descriptions,
    tokenise,
    vocabulary_words,
)

TOKEN_FILE = (
    "1000268201_693b08cb0e.jpg#0\tA child in a pink dress .\n"
    "1000268201_693b08cb0e.jpg#1\tA girl going into a wooden building .\n"
    "1001773457_577c3a7d70.jpg#0\tA black dog and a spotted dog are fighting\n"
)


def test_the_five_steps_follow_each_other(tmp_path):
    (tmp_path / "token.txt").write_text(TOKEN_FILE)
    descriptions = load_descriptions(load_document(tmp_path / "token.txt"))
    assert descriptions == {
        "1000268201_693b08cb0e": [
            "A child in a pink dress .",
            "A girl going into a wooden building .",
        ],
        "1001773457_577c3a7d70": ["A black dog and a spotted dog are fighting"],
    }
    cleaned = clean_descriptions(descriptions)
    assert cleaned["1000268201_693b08cb0e"][0] == "a child in a pink dress"
    # The original is left alone.
    assert descriptions["1000268201_693b08cb0e"][0] == "A child in a pink dress ."
    assert {"a", "child", "spotted"} <= vocabulary_words(cleaned) and "." not in vocabulary_words(
        cleaned
    )
    save_descriptions(cleaned, tmp_path / "descriptions.txt")
    assert len((tmp_path / "descriptions.txt").read_text().splitlines()) == 3
    assert load_descriptions(load_document(tmp_path / "descriptions.txt")) == cleaned


def test_saving_survives_odd_ids(tmp_path):
    odd = {
        "2258277193_586949ec62.jpg.1": ["a man"],
        "my holiday photo": ["a b", "c d"],
        "x#y": ["é 犬"],
    }
    save_descriptions(odd, tmp_path / "odd.txt")
    assert load_descriptions(load_document(tmp_path / "odd.txt")) == odd


@pytest.mark.parametrize(
    "content",
    [
        TOKEN_FILE.encode(),
        TOKEN_FILE.replace("\n", "\r\n").encode(),
        TOKEN_FILE.replace("\n", "\r").encode(),
        b"\xef\xbb\xbf" + TOKEN_FILE.encode(),
        TOKEN_FILE.encode("utf-16"),
        TOKEN_FILE.replace("\n", "  \t\n").encode(),
    ],
    ids=["plain", "CRLF", "CR", "BOM", "UTF-16", "trailing blanks"],
)
def test_every_spelling_of_a_file_gives_the_same_descriptions(tmp_path, content):
    (tmp_path / "token.txt").write_bytes(content)
    assert load_descriptions(load_document(tmp_path / "token.txt")) == load_descriptions(TOKEN_FILE)


def test_bytes_that_are_not_utf8_are_read_and_counted_once(tmp_path):
    lines = (
        ("a.jpg#0\tUn café\n", "cp1252"),
        ("a.jpg#1\tdéjà vu\n", "utf-8"),
        ("b.jpg#0\tà côté\n", "cp1252"),
    )
    (tmp_path / "token.txt").write_bytes(
        b"".join(line.encode(encoding) for line, encoding in lines)
    )
    with pytest.warns(
        UserWarning, match="not UTF-8, read as Windows-1252: 2 .first: line 1"
    ) as warned:
        document = load_document(tmp_path / "token.txt")
    assert load_descriptions(document) == {"a": ["Un café", "déjà vu"], "b": ["à côté"]}
    assert len(warned) == 1


def test_lines_without_a_description_are_counted_once():
    document = TOKEN_FILE + "lost words without a tab\nb.jpg#0\t \nb.jpg#1\n\tno name\n\n"
    with pytest.warns(
        UserWarning, match=r"token.txt: lines without .* left out: 4 \(first: line 4\)"
    ) as warned:
        descriptions = load_descriptions(document, source="token.txt")
    assert len(warned) == 1 and "b" not in descriptions
    assert warned[0].filename == __file__  # the warning points at the caller


def test_blanks_separate_where_there_are_no_tabs():
    assert load_descriptions("a dog runs\na.jpg#1 it runs") == {"a": ["dog runs", "it runs"]}


def test_cleaning_drops_and_counts_descriptions_without_a_word():
    with pytest.warns(UserWarning, match="descriptions without a word left out: 2 .first: a"):
        assert clean_descriptions({"a": ["A dog!", "..."], "b": ["?!"]}) == {"a": ["a dog"]}


def test_image_id_is_the_name_without_folder_and_ending():
    assert (
        image_id_of("folder/sub/a.b.JPG")
        == image_id_of("a.b.png")
        == image_id_of("C:\\photos\\a.b.jpeg")
        == "a.b"
    )
    assert image_id_of("photo.v2") == "photo.v2" and image_id_of(".jpg") == ".jpg"


# What the Penn Treebank tokeniser of coco-caption leaves of each sentence, punctuation
# removed; run once with Java.
PENN_TREEBANK = {
    "A man's dog isn't here.": "a man 's dog is n't here",
    "They can't, won't and cannot.": "they ca n't wo n't and can not",
    "A T-shirt, a well-known 3-year-old boy": "a t-shirt a well-known 3-year-old boy",
    "costs $3.50 or 1,000 dollars": "costs $ 3.50 or 1,000 dollars",
    "50% off!": "50 % off",
    "U.S. flag": "u.s. flag",
    "Mr. Smith's car": "mr. smith 's car",
    '"quoted" text': "quoted text",
    "rock 'n' roll": "rock 'n' roll",
    "the dogs' bowls": "the dogs bowls",
    "gonna wanna gotta": "gon na wan na got ta",
    "A/C unit": "a/c unit",
    "un garçon d'été": "un garçon d'été",
    "собака бежит": "собака бежит",
    "犬が走る": "犬が走る",
    "कुत्ता दौड़ रहा है": "कुत्ता दौड़ रहा है",
    "em—dash here": "em dash here",
    "I'm you're we've he'd they'll": "i 'm you 're we 've he 'd they 'll",
    "o'clock": "o'clock",
    "Über-cool straße": "über-cool straße",
    "‘single’ “double”": "single double",
    "T.V. set.": "t.v. set",
    "let's go": "let 's go",
    "ain't": "ai n't",
    "air-": "air",
    "1990's": "1990 's",
    "e-mail@site.com": "e-mail@site.com",
    "a+b=c": "a + b = c",
    "100,000.5": "100,000.5",
    "A dog , running .": "a dog running",
}


def test_tokens_are_those_of_the_penn_treebank():
    for text, words in PENN_TREEBANK.items():
        assert " ".join(tokenise(text)) == words and tokenise(words) == tokenise(text)
    assert tokenise("<start> a <unk> dog <end> <pad>") == ["start", "a", "unk", "dog", "end", "pad"]
    assert tokenise("cafe\u0301") == tokenise("caf\u00e9") == ["caf\u00e9"]


def test_any_text_survives_tokenising_twice():
    rng = random.Random(0)
    letters = "abcdefgnt's'.-,/&@$%#0123 éñß犬кआंः\u200d\u0301\"`’“()!?;:_*+=İ"
    for _ in range(5000):
        words = tokenise("".join(rng.choices(letters, k=rng.randint(1, 14))))
        assert tokenise(" ".join(words)) == words


def test_real_captions_survive_tokenising_twice(flickr8k_images):
    captions = [caption for image in flickr8k_images for caption in image.captions]
    assert len(captions) == 35_000
    for caption in captions:
        words = tokenise(caption)
        assert words and tokenise(" ".join(words)) == words
