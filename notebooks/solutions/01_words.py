# %% gap="vocabulary"
def frequent_words(captions, min_count):
    """Return the words of the captions by frequency."""
    counts = Counter(word for caption in captions for word in tokenise(caption))
    frequent = [word for word in counts if counts[word] >= min_count]
    return sorted(frequent, key=lambda word: (-counts[word], word))


# %% wrong="vocabulary"
def frequent_words(captions, min_count):
    counts = Counter(word for caption in captions for word in tokenise(caption))
    return sorted(word for word in counts if counts[word] >= min_count)  # in alphabetical order only


# %% gap="shift"
def shifted(ids, length):
    """Return the ids that go in and the ids that must come out, each a list of `length`."""
    start, end, pad = vocabulary.start_token_id, vocabulary.end_token_id, vocabulary.pad_token_id
    padding = [pad] * (length - len(ids) - 1)
    return [start, *ids, *padding], [*ids, end, *padding]


# %% wrong="shift"
def shifted(ids, length):
    padded = [vocabulary.start_token_id, *ids, vocabulary.end_token_id]
    return padded, padded  # each target is its own input


# %% gap="perplexity"
def perplexity(probabilities):
    """Return exp of the mean of -log p."""
    return np.exp(-np.log(probabilities).mean())


# %% wrong="perplexity"
def perplexity(probabilities):
    return 1 / probabilities.mean()  # from the mean of p


# %% exercise=1
def tidy_with_letters(text):
    words = (re.sub(r"[^a-z]", "", word.lower()) for word in text.split())
    return [word for word in words if word]


with_letters = bleu(others, [tidy_with_letters(image.captions[0]) for image in dev])["bleu_4"]
print(f"{with_letters:.3f}")

# All of it: the scenes' captions have neither digits nor apostrophes, so the article "a" was the only loss.
assert with_letters == as_written

# %% exercise=2
for min_count in range(1, 400):
    if len(Vocabulary.build(images, min_count=min_count).words) == 32:
        print(min_count, end=" ")

# %% exercise=3
rng = np.random.default_rng(1)
for _ in range(5):
    tokens = ["<start>", "<start>"]
    while tokens[-1] != "<end>":
        candidates = [*vocabulary.words, "<end>"]
        p = np.array([probability(tokens[-2], tokens[-1], word) for word in candidates])
        tokens.append(str(rng.choice(candidates, p=p / p.sum())))
    print(*tokens[2:-1])

# The English is mostly good, as far as two words of context are enough. The sentences describe no picture, since the
# model saw none.
