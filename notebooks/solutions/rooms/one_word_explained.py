# %% gap="parts"
slope = np.tanh(s) / s  # (m,)


def part(p):
    """Return what a summand p (m,) gives to the logit of each word, (K,)."""
    return L_o @ (p * slope)


# %% wrong="parts"
def part(p):
    return L_o @ np.tanh(p)  # the tanh of a sum is not the sum of the tanhs


# %% gap="votes"
def direction(word):
    """Return d, (D,): in which direction annotation vectors raise the logit of a candidate."""
    return L_z.T @ (slope * L_o[word_id(word)])


def votes(word):
    """Return the votes of the regions for a candidate, (400,)."""
    d = direction(word)
    return beta * alpha * ((a - a.mean(axis=0)) @ d)


# %% wrong="votes"
def votes(word):
    return beta * alpha * (a @ direction(word))  # not compared with the mean


# %% gap="without"
def without(a, regions):
    """Return the annotation vectors (400, D), those of some regions (numbers) replaced by the mean of all."""
    altered = a.copy()
    altered[regions] = a.mean(axis=0)
    return altered


# %% wrong="without"
def without(a, regions):
    altered = a.copy()
    altered[regions] = 0.0  # zero is not nothing
    return altered


# %% exercise=1
beach = captioner.trace(photos / "beach.jpg")
t_men = beach.words.index("men")
alone, _ = beach.places(t_men)
without_votes = {}
for word in ("men", "girls"):
    order = np.argsort(-beach.votes(t_men, word).ravel())
    p, weights = read_without(beach, t_men, order[:40])
    best = ", ".join(f"{vocabulary.tokens[number]} {p[number]:.0%}" for number in np.argsort(-p)[:3])
    on = {said: weights[alone.ravel() == said].sum() for said in ("men", "girls")}
    without_votes[word] = vocabulary.tokens[p.argmax()], on
    print(f"without the votes for {word:5}: {best}; attention", {said: f"{sum_:.0%}" for said, sum_ in on.items()})

# Without the regions that voted for "men", the most probable word is "girls"; without those that voted for "girls", it
# is "men". Each time, more than 85 % of the attention is on regions that would say this word on their own. So both
# words can be read from the two people, in different regions, and the captioner must choose one of them.
assert without_votes["men"][0] == "girls" and without_votes["men"][1]["girls"] > 0.85
assert without_votes["girls"][0] == "men" and without_votes["girls"][1]["men"] > 0.85

# %% exercise=2
for word in ("kayak", "raft"):
    candidate = raft.candidate(t_raft, word)
    estimate = candidate.logit - candidate.parts["photo"] + raft.vote_of_mean(t_raft, word)
    print(f"{word:6} logit {candidate.logit:4.1f}, without its votes {estimate:4.1f}")

raft_step, raft_a = raft.steps[t_raft], raft.annotations().reshape(400, 512)
from_photo = raft_step.from_photo
sentinel = raft.context(t_raft) - from_photo * (raft_step.attention_weights.ravel() @ raft_a)
context = from_photo * raft_a.mean(axis=0) + sentinel
even_logits = L_o @ np.tanh(E[:, word_id("yellow")] + L_h @ raft_step.hidden_state + L_z @ context) + b
even = np.exp(even_logits - even_logits.max())
even /= even.sum()
print(", ".join(f"{vocabulary.tokens[number]} {even[number]:.0%}" for number in np.argsort(-even)[:4]))

# "Raft", the correct word, is ahead. So here the photo as a whole was a better clue than the regions that were looked
# at. (The estimate keeps the slope. If you compute the logits by hand, the sum s is different, and so is its slope.)
assert vocabulary.tokens[even.argmax()] == "raft" and even[word_id("kayak")] < 0.04
