# %% exercise=1
motorcycles = captioner.trace(photos / "motorcycles.jpg")
print(motorcycles.result.caption)
display(motorcycles.plot(motorcycles.words.index("bicycles"), width=9))
# The riders sit on motorcycles and wait at the start. Nobody is riding, and nobody rides a bicycle on a bike. At
# "bicycles", most of the attention and of the votes are where riders hold their handlebars (rows 4 to 6, columns 3 to
# 12). The captioner looked at the right region and misread it once more. ("Motorcycles" has a probability of 2 %.)
rows, columns = slice(4, 7), slice(3, 13)
t = motorcycles.words.index("bicycles")
assert motorcycles.steps[t].attention_weights[rows, columns].sum() > 0.5
assert motorcycles.votes(t)[rows, columns].sum() > 0.7 * motorcycles.votes(t).sum()
assert round(motorcycles.candidate(t, "motorcycles").probability, 2) == 0.02

# %% exercise=2
truth = captioner.trace(photos / "beach.jpg", "a woman and a man are walking on the beach")
print(f"log p of the truth {truth.result.log_prob:.1f}, of its own caption {beach.result.log_prob:.1f}")
for step in truth.steps:
    print(f"{step.word:8} {step.said.probability:6.1%}   most probable: {step.top[0].word}")
# The correct caption is thousands of times (about e^9 times) less probable than the captioner's own. One word costs the
# most: after "a woman and a", "man" has a probability below 1 %, although the man is plain to see.
assert truth.result.log_prob < beach.result.log_prob - 8
assert truth.candidate(truth.words.index("man"), "man").probability < 0.01
