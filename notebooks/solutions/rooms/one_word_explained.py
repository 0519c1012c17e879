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
    """Return the votes of the regions for a candidate, (196,)."""
    d = direction(word)
    return beta * alpha * ((a - a.mean(axis=0)) @ d)


# %% wrong="votes"
def votes(word):
    return beta * alpha * (a @ direction(word))  # not compared with the mean


# %% gap="without"
def without(a, regions):
    """Return the annotation vectors (196, D), those of some regions (numbers) replaced by the mean of all."""
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
t_girls = beach.words.index("girls")
girls = falls(beach, t_girls)
alone, _ = beach.places(t_girls)
on_girls = {"nothing": (beach.steps[t_girls].attention_weights[alone == "girls"]).sum()}
for name, order in orders(beach, t_girls).items():
    p, weights = read_without(beach, t_girls, order[:20])
    on_girls[name] = weights[alone.ravel() == "girls"].sum()
    best = ", ".join(f"{vocabulary.tokens[number]} {p[number]:.0%}" for number in np.argsort(-p)[:4])
    print(f"{name:9}: log p falls by {girls[name]:5.2f}; now {best}")
print("attention on regions that would say “girls” alone:", {name: f"{sum_:.0%}" for name, sum_ in on_girls.items()})

# Without the 20 regions with the most attention, the network reads regions that would say "girls" on their own, even
# more than before. The regions with the highest votes for "girls" are such regions. Without them, the remaining regions
# of the two people lead to "young" and "men".
assert abs(girls["attention"]) < 0.1 and girls["votes"] > 0.8
assert on_girls["attention"] > on_girls["nothing"] > on_girls["votes"]

# %% exercise=2
for word in ("kayak", "raft"):
    candidate = raft.candidate(t_raft, word)
    estimate = candidate.logit - candidate.parts["photo"] + raft.vote_of_mean(t_raft, word)
    print(f"{word:6} logit {candidate.logit:4.1f}, without its votes {estimate:4.1f}")

raft_step, raft_a = raft.steps[t_raft], raft.annotations().reshape(196, 512)
from_photo = raft_step.from_photo
sentinel = raft.context(t_raft) - from_photo * (raft_step.attention_weights.ravel() @ raft_a)
context = from_photo * raft_a.mean(axis=0) + sentinel
even_logits = L_o @ np.tanh(E[:, word_id("yellow")] + L_h @ raft_step.hidden_state + L_z @ context) + b
even = np.exp(even_logits - even_logits.max())
even /= even.sum()
print(", ".join(f"{vocabulary.tokens[number]} {even[number]:.0%}" for number in np.argsort(-even)[:4]))

# "Raft", the correct word, is ahead. So here the photo as a whole was a better clue than the regions that were looked
# at. (The estimate keeps the slope. If you compute the logits by hand, the sum s is different, and so is its slope.)
assert vocabulary.tokens[even.argmax()] == "raft"
