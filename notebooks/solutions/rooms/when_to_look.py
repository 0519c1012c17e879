# %% gap="share"
def share_from_photo(scores, sentinel_score):
    """Return beta_t, a number, from the scores (regions,) and the sentinel's score."""
    greatest = max(scores.max(), sentinel_score)
    of_regions = np.exp(scores - greatest).sum()
    return of_regions / (of_regions + np.exp(sentinel_score - greatest))


# %% wrong="share"
def share_from_photo(scores, sentinel_score):
    together = np.exp([*scores, sentinel_score])
    return together[-1] / together.sum()  # the beta_t of Lu et al.


# %% gap="detected"
def detected(p):
    """Return the probability that at least one region shows the word, from those of the regions (regions,)."""
    return 1 - np.prod(1 - p)


# %% wrong="detected"
def detected(p):
    return p.max()  # as if only the best region counted


# %% exercise=1
false = for_photos.attend(photo, "a dog running on a beach")
true = reading
on_upper_half = false.attention_weights[false.words.index("dog")][:10].sum()
print(f"log p: true {true.log_prob:.1f}, false {false.log_prob:.1f}; at 'dog', {on_upper_half:.0%} in the upper half")
AttentionDisplay.from_result(false).plot(width=10)

# Attention has to be somewhere, so a map does not show whether the word is right. The probability of the sentence does.
assert false.log_prob < true.log_prob - 5

# %% exercise=2
from data_utils import is_true

relational = [CaptionedImage(scene.image_id, scene.image, list(scene.captions[:2]), "train") for scene in training]
of_relations = make_batches(relational, trained.vocabulary, cache, batch_size=128, group_by="image")
options = {"attends": "after", "sentinel": True, "batches": of_relations, "vocabulary": trained.vocabulary}
true = {}
for name, weight in (("sentinel", 0.0), ("guided", 0.5)):
    said_by_it = train(guide_weight=weight, **options).caption_features(grids, num_beams=1)
    true[name] = np.mean([is_true(scene, result.caption) is True for scene, result in zip(unseen, said_by_it)])
    print(f"{name}: {true[name]:.0%} are true")

# The guide makes fewer captions true. "left" has a detector, too, but its map is nearly even. At "left", attention
# should compare the positions of two objects, and the guide makes it look everywhere.
assert true["guided"] < true["sentinel"]

# %% exercise=3
guided, falls = captioners["guided"], {"attended": [], "random": []}
rng = np.random.default_rng(0)
for grid, result in zip(grids[:50], looked["guided"]):
    t = 2  # the first shape: "a red star and ..."
    ids_before = np.array([[vocabulary.start_token_id, *vocabulary.caption_to_ids(result.words[:t])]])
    (shape_id,) = vocabulary.caption_to_ids([result.words[t]])
    log_p = {}
    choices = {
        "": [],
        "attended": np.argsort(-result.attention_weights[t].ravel())[:10],
        "random": rng.choice(64, 10, False),
    }
    for name, cells in choices.items():
        altered = grid[None].copy()
        altered[0, cells] = grid.mean(axis=0)
        log_p[name] = float(ops.log_softmax(guided.decoder(altered, ids_before).logits[0, t])[shape_id])
    for name in falls:
        falls[name].append(log_p[""] - log_p[name])
print({name: round(float(np.mean(values)), 2) for name, values in falls.items()}, "is the mean fall of log p")

assert np.mean(falls["attended"]) > np.mean(falls["random"])
