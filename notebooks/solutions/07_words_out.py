# %% gap="beam"
def next_beams(beams, num_beams):
    """Return the num_beams best continuations of all beams, the best first."""
    longer = []
    for words, probability in beams:
        if words[-1] == "<end>":
            longer.append((words, probability))
        else:
            for word, share in follows[words[-1]].items():
                longer.append(([*words, word], probability * share))
    return sorted(longer, key=lambda beam: -beam[1])[:num_beams]


# %% wrong="beam"
def next_beams(beams, num_beams):
    longer = []
    for words, probability in beams:
        if words[-1] == "<end>":
            longer.append((words, probability))
        else:  # only the best word of each beam
            word = max(follows[words[-1]], key=follows[words[-1]].get)
            longer.append(([*words, word], probability * follows[words[-1]][word]))
    return sorted(longer, key=lambda beam: -beam[1])[:num_beams]


# %% gap="temperature"
def with_temperature(logits, temperature):
    """Return the probabilities of all words at this temperature."""
    exponentials = np.exp((logits - logits.max()) / temperature)
    return exponentials / exponentials.sum()


# %% wrong="temperature"
def with_temperature(logits, temperature):
    exponentials = np.exp((logits - logits.max()) * temperature)  # multiplied instead of divided
    return exponentials / exponentials.sum()


# %% exercise=1
follows_before = follows
follows = {
    "<start>": {"a": 0.4, "one": 0.35, "the": 0.25},
    "a": {"dog": 0.5, "cat": 0.5},
    "one": {"dog": 0.5, "cat": 0.5},
    "the": {"sun": 1.0},
    "dog": {"<end>": 1.0},
    "cat": {"<end>": 1.0},
    "sun": {"<end>": 1.0},
}
for num_beams in (1, 2, 3):
    print(num_beams, beam_search_by_hand(num_beams))
assert beam_search_by_hand(2)[0] != "the sun" == beam_search_by_hand(3)[0]
follows = follows_before

# %% exercise=2
twenty = captioner.caption(scene.image, temperature=1.0, num_results=20, seed=0)
most_probable = max([twenty, *twenty.alternatives], key=lambda result: result.log_prob)
print(f"{most_probable.log_prob:.2f}  {most_probable.caption}\n{best.log_prob:.2f}  {best.caption}")

# No sample is more probable than the caption that a good search finds, and twenty samples seldom include this caption.
assert most_probable.log_prob <= best.log_prob + 1e-4

# %% exercise=3
no_sentences = [result for scene, result in zip(scenes, samples[2.0]) if is_true(scene, result.caption) is None]
for result in no_sentences[:5]:
    print(result.caption)

# Single improbable words, from the tail, spoil sentences that are fine otherwise.
