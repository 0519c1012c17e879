# %% gap="scores"
keys = a @ W_a + b_a  # (256, 64)
query = h_0 @ W_h  # (64,)

e = np.tanh(keys + query) @ v

# %% wrong="scores"
e = (np.tanh(keys) + query) @ v  # the tanh must be around the whole sum

# %% gap="weights"
alpha = np.exp(e - e.max())
alpha = alpha / alpha.sum()

# %% wrong="weights"
alpha = np.exp(e - e.max())  # not normalised

# %% gap="context"
beta = sigmoid(h_0 @ W_beta + b_beta)  # (1,)

z = beta * (alpha @ a)

# %% wrong="context"
z = beta * a.mean(axis=0)  # the mean of all regions, whatever their weights

# %% gap="memory"
summed = E[y_0] @ T_y + h_0 @ T_h + z @ T_z + b_T  # (4n,)
i, f, o, g = np.split(summed, 4)  # (n,) each
i, f, o, g = sigmoid(i), sigmoid(f), sigmoid(o), np.tanh(g)

c_1 = f * c_0 + i * g
h_1 = o * np.tanh(c_1)

# %% wrong="memory"
h_1 = o * np.tanh(c_0)  # the old cell


# %% gap="head"
def softmax_rows(scores):
    return np.array([softmax(row) for row in scores])


def head(Q, K, V):
    """Return the contexts (C, d) of C queries, by scaled dot-product attention."""
    d = Q.shape[1]
    return softmax_rows(Q @ K.T / np.sqrt(d)) @ V


# %% wrong="head"
def head(Q, K, V):
    return softmax_rows(Q @ K.T) @ V  # not scaled


# %% exercise=1
for gate in (1.0, 0.0):
    words_with_gate, *_ = write(gate=gate)
    print(f"gate {gate:g}:", *words_with_gate)

# With the gate at 1, nothing changes: the gate was nearly open at every step. With the gate at 0, the model still
# writes a good sentence, but about a scene that is not there. All that it knows of the picture is the mean annotation
# vector, through its first state. The mean contains colours (exercise 2), but the decoder does not get them from this
# state.
assert write(gate=1.0)[0] == words and not {"yellow", "blue"} & set(write(gate=0.0)[0])

# %% exercise=2
words_of_uniform, *_ = write(attend=lambda query: np.full(256, 1 / 256))
print(*words_of_uniform)

# One colour and one shape are right, but they are combined wrongly, and named twice. The mean shows that there is
# something yellow and that there is a star, but not that these are two objects.
assert words_of_uniform.count("yellow") == words_of_uniform.count("star") == 2


# %% exercise=3
def largest_only(query):
    scores = np.tanh(keys + query) @ v
    return np.eye(256)[scores.argmax()]


words_of_largest, *_ = write(attend=largest_only)
print(*words_of_largest)

# Yes: the words are different, but the caption is true. One region at a time is enough here.
assert {"yellow", "circle", "under", "blue", "star"} <= set(words_of_largest)

# %% exercise=4
rng = np.random.default_rng(0)
for d in (4, 64, 512):
    scores = rng.normal(size=(196, d)) @ rng.normal(size=d)
    print(f"d = {d}: {softmax(scores).max():.2f}, scaled {softmax(scores / np.sqrt(d)).max():.2f}")

# The dot product of two random vectors of length d has variance d. With d = 512, one region gets nearly all the weight,
# whatever it shows. Divided by the square root of d, the scores have variance 1 for every d.
assert softmax(scores).max() > 0.99 and softmax(scores / np.sqrt(d)).max() < 0.1
