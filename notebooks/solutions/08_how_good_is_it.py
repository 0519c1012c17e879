# %% gap="clipped"
def clipped_matches(references, candidate, n):
    """Return how many of the candidate's n-grams are found in the references, clipped."""
    most = Counter()
    for reference in references:
        most |= ngrams(reference, n)  # the larger of the two counts
    return sum(min(count, most[ngram]) for ngram, count in ngrams(candidate, n).items())


# %% wrong="clipped"
def clipped_matches(references, candidate, n):
    found = {ngram for reference in references for ngram in ngrams(reference, n)}
    return sum(count for ngram, count in ngrams(candidate, n).items() if ngram in found)  # not clipped


# %% gap="bleu"
def bleu_of(precisions, c, r):
    """Return BLEU-N of N precisions, with the brevity penalty."""
    penalty = min(1.0, math.exp(1 - r / c))
    return penalty * math.prod(precisions) ** (1 / len(precisions))


# %% wrong="bleu"
def bleu_of(precisions, c, r):
    return math.exp(1 - r / c) * math.prod(precisions) ** (1 / len(precisions))  # a bonus for long captions


# %% gap="weight"
def weight(ngram):
    """Return log(N / N_g) of an n-gram, a tuple of words; N_g is in document_counts."""
    return math.log(len(four) / max(document_counts[ngram], 1))


# %% wrong="weight"
def weight(ngram):
    return 1 / max(document_counts[ngram], 1)  # no logarithm


# %% exercise=1
cider_of_one = {caption: cider(four, [caption] * len(scenes))["cider"] for caption in person[:40]}
best_for_all = max(cider_of_one, key=cider_of_one.get)
print(f"{cider_of_one[best_for_all]:.2f}  {best_for_all}")

# The sentence describes its own scene and hardly any other, so it shares few rare words with most references, and its
# CIDEr is low.
assert cider_of_one[best_for_all] < table["a liar"]["cider"]

# %% exercise=2
for number in (4, 3, 2, 1):
    fewer = bleu([texts[:number] for texts in four], person)["bleu_4"]
    print(f"{number} references: BLEU-4 {fewer:.2f}")

# More than half of BLEU-4 is due to the number of references: more references contain more of the possible wordings.
assert fewer < 0.5 * table["a person"]["bleu_4"]


# %% exercise=3
def great_lie(scene, texts):
    """Return the lie, made from one of the references, that shares most with all of them."""
    lies = [lie(text) for text in texts]
    lies = [text for text in lies if is_true(scene, text) is False]
    return max(lies, key=lambda text: bleu([texts], [text])["bleu_4"])


great_lies = [great_lie(scene, texts) for scene, texts in zip(scenes, four)]
print(f"BLEU-4 {bleu(four, great_lies)['bleu_4']:.3f}, the model {table['the model']['bleu_4']:.3f}")
