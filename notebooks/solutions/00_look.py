# %% exercise=1
raft = captioner.trace(photos / "raft.jpg")
print(raft.result.caption)
t = raft.words.index("raft")
display(raft.plot(t, width=9), raft.plot(t, "kayak", width=9))
raft_and_kayak = [raft.candidate(t, word) for word in ("raft", "kayak")]
for candidate in raft_and_kayak:
    parts = candidate.parts
    print(f"{candidate.word}: {parts['photo']:.1f} from the photo, {parts['memory']:.1f} from memory")
# The photo makes "kayak" more probable: it adds 4.6 to its score, and 4.0 to that of "raft". Most of the attention is
# on the front of the boat and on the people there (rows 13 to 16, columns 2 to 11), where the votes for "kayak" are
# strong, and those for "raft" are weak. But memory adds 2.3 to the score of "raft", and only 1.0 to that of "kayak". So
# "raft" has a probability of 15 %, and "kayak" has 6 %. Memory outweighs the photo once more, and this time memory is
# right.
attention = raft.steps[t].attention_weights
assert raft.result.caption == "a group of people are sitting on a raft in the water"
assert attention.shape == (20, 20) and attention[13:17, 2:12].sum() > 0.65
assert raft.votes(t, "kayak")[13:17, 2:12].sum() > 2.4 and raft.votes(t)[13:17, 2:12].sum() < 0.6
assert [round(one.parts["photo"], 1) for one in raft_and_kayak] == [4.0, 4.6]
assert [round(one.parts["memory"], 1) for one in raft_and_kayak] == [2.3, 1.0]
assert [round(one.probability, 2) for one in raft_and_kayak] == [0.15, 0.06]

# %% exercise=2
truth = captioner.trace(photos / "beach.jpg", "a woman and a man are walking on the beach")
print(f"log p of the truth {truth.result.log_prob:.1f}, of its own caption {beach.result.log_prob:.1f}")
for step in truth.steps:
    print(f"{step.word:8} {step.said.probability:6.1%}   most probable: {step.top[0].word}")
# The correct caption is thousands of times (about e^9 times) less probable than the captioner's own. One word costs the
# most: after "a woman and a", "man" has a probability below 1 %, although the man is plain to see.
assert truth.result.log_prob < beach.result.log_prob - 8
assert truth.candidate(truth.words.index("man"), "man").probability < 0.01
