# %% gap="pairs"
def pairs_right(truths):
    """Return the fraction of columns of truths (2, pairs) in which both are true."""
    return truths.all(axis=0).mean()


# %% wrong="pairs"
def pairs_right(truths):
    return truths.mean()  # the fraction of captions, not of pairs


# %% gap="gru"
def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gru(x_r, x_u, x_c, h, U_r, U_u, U_c):
    """Return the next state of a GRU."""
    r = sigmoid(x_r + h @ U_r)
    u = sigmoid(x_u + h @ U_u)
    candidate = np.tanh(x_c + r * (h @ U_c))
    return u * h + (1 - u) * candidate


# %% wrong="gru"
def gru(x_r, x_u, x_c, h, U_r, U_u, U_c):
    r = sigmoid(x_r + h @ U_r)
    u = sigmoid(x_u + h @ U_u)
    candidate = np.tanh(x_c + r * (h @ U_c))
    return (1 - u) * h + u * candidate  # the gate the other way round


# %% exercise=1
rolled = np.roll(grids[0].reshape(-1, 16, 16, 66), 8, axis=1).reshape(-1, 256, 66)
print(f"the means are {apart(rolled.mean(axis=1), grids[0].mean(axis=1)):.0e} apart")

# Not at all: the same cells in another order have the same mean, up to rounding.
assert apart(rolled.mean(axis=1), grids[0].mean(axis=1)) < 1e-5

# %% exercise=2
with_own_colour = {}
for name in ("none", "soft"):
    named = [
        f"{item.colour} {item.shape}" in caption
        for group, said in zip((scenes, swapped), captions[name])
        for scene, caption in zip(group, said)
        for item in scene.objects
    ]
    with_own_colour[name] = np.mean(named)
    print(f"{name}: {with_own_colour[name]:.0%}")

# Here, colours and shapes are mixed up, too. This need not be so: a cell sees a colour and a piece of a shape together,
# and `scenes-none`, whose encoder was trained with its decoder, seldom mixes them up: it names 82 % of the shapes with
# their own colour. But left and right cannot get through.
assert with_own_colour["none"] < with_own_colour["soft"] - 0.1

# %% exercise=3
another = train("soft", cell="gru", seed=1)
said = [[result.caption for result in another.caption_features(grid, num_beams=1)] for grid in coarse]
print(f"seed 0: {right['soft, GRU']:.0%} of the pairs, seed 1: {pairs_right(truths_of(said)):.0%}")

# When this was written, the two runs reached 78 % and 77 %, and the LSTM 81 %. Such a small difference may be due to
# chance. With four epochs instead of six, the two runs reached 29 % and 39 %, and the LSTM 65 %: both seeds of the GRU
# were slower to learn what "left" means. So the answer depends on the seed and on how long you train. Never compare two
# networks by one run of each.
assert max(right["soft, GRU"], pairs_right(truths_of(said))) > 0.4
