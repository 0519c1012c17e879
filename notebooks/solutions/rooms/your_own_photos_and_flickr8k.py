# %% gap="rows"
def rows_of(scene):
    """Return a list with [file, caption] for each caption of the scene, in our words."""
    return [[f"{scene.image_id}.png", caption.replace("circle", "balloon")] for caption in scene.captions]


# %% wrong="rows"
def rows_of(scene):
    # one row for all captions
    return [[f"{scene.image_id}.png", "; ".join(scene.captions).replace("circle", "balloon")]]


# %% gap="said"
def said_where(captions, has_circle):
    """Return the fraction of captions with "balloon": for pictures with a circle, and for those without."""
    says, has = np.array(["balloon" in caption for caption in captions]), np.array(has_circle)
    return says[has].mean(), says[~has].mean()


# %% wrong="said"
def said_where(captions, has_circle):
    says, has = np.array(["balloon" in caption for caption in captions]), np.array(has_circle)
    return (says & has).mean(), (says & ~has).mean()  # of all pictures, not of those with or without a circle


# %% exercise=1
there = {}
for number in (20, 60, 120):
    chosen = splits["train"][:number] + splits["dev"]
    few_settings = settings | {"output_dir": folder / f"run-{number}"}
    del few_settings["data_dir"], few_settings["split_seed"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning that there are few
        tuned = keras_sat.fit(chosen, **few_settings)
    said_by_it = [result.caption for result in tuned.caption([scene.image for scene in more], num_beams=1)]
    there[number], elsewhere = said_where(said_by_it, has_circle)
    print(f"{number} pictures: {there[number]:.0%} where there is one, {elsewhere:.0%} elsewhere")

# More pictures also mean more updates, since an epoch is longer. What matters more, the pictures or the updates?
assert there[20] < there[120]

# %% exercise=2
from_scratch = keras_sat.fit(
    "folder", **settings | {"initial_model": None, "encoder": "tiny", "output_dir": folder / "scratch"}
)
said_by_it = [result.caption for result in from_scratch.caption([scene.image for scene in more], num_beams=1)]
truths = [is_true(scene, text.replace("balloon", "circle")) is True for scene, text in zip(more, said_by_it)]
print(f"from scratch: {np.mean(truths):.0%} are true, from `scenes`: {measured['after']['true']:.0%}")
print(*said_by_it[:3], sep="\n")

# The captioner trained from scratch has learned what captions sound like, but can hardly recognise what is in the
# pictures.
assert np.mean(truths) < 0.5
