# %% gap="sides"
def sides_of_crop(region, margin):
    """Return the sides (left, top, right, bottom) of the crop that shows a region with a margin."""
    left, top, right, bottom = region
    across, down = margin * (right - left), margin * (bottom - top)
    return max(left - across, 0), max(top - down, 0), min(right + across, 1), min(bottom + down, 1)


# %% wrong="sides"
def sides_of_crop(region, margin):
    left, top, right, bottom = region
    across, down = margin * (right - left), margin * (bottom - top)
    return left - across, top - down, right + across, bottom + down  # beyond the picture


# %% wrong="sides"
def sides_of_crop(region, margin):
    left, top, right, bottom = region  # a margin in fractions of the picture
    return max(left - margin, 0), max(top - margin, 0), min(right + margin, 1), min(bottom + margin, 1)


# %% exercise=1
nothing = []
for one in unseen[:16]:
    covered = np.zeros((64, 64), bool)
    for item in one.objects:
        left, top, right, bottom = map(int, item.box)
        covered[max(top - 4, 0) : bottom + 4, max(left - 4, 0) : right + 4] = True
    corners = [(left, top, left + 16, top + 16) for top in (0, 48) for left in (0, 48)]
    empty = [box for box in corners if not covered[box[1] : box[3], box[0] : box[2]].any()]
    nothing += [captioner.caption(one.image[box[1] : box[3], box[0] : box[2]]) for box in empty[:1]]
for result in nothing[:5]:
    print(f"{result.caption} (confidence {100 * result.confidence:.0f} %)")

# The captioner invents shapes, because every caption that it was trained on names one. It would learn to say "nothing"
# if it were trained on empty pictures with this caption.
assert all({*result.words} & {"circle", "square", "triangle", "star"} for result in nothing)

# %% exercise=2
both_said = {}
for margin in MARGINS[:5]:
    crops = []
    for one in unseen:
        lefts, tops, rights, bottoms = zip(*(region_of(item) for item in one.objects))
        around = sides_of_crop((min(lefts), min(tops), max(rights), max(bottoms)), margin)
        crops.append(load_image(Crop(one.image, around), 64))
    results = captioner.caption(crops)
    said = [all(item.shape in result.words for item in one.objects) for one, result in zip(unseen, results)]
    both_said[margin] = np.mean(said)
    print(f"margin {margin}: both shapes are named in {both_said[margin]:.0%}")

# A crop around two shapes that are far apart is hardly smaller than the picture. Around two that are close together, it
# needs a margin, like a crop around one.
assert both_said[1] > both_said[0] + 0.1

# %% exercise=3
from data_utils.scenes import SIZE_WORDS

items = [(one, item) for one in scenes for item in one.objects]
results = captioner.caption([crop(one, item, 0.5) for one, item in items])
pairs = [
    (item.size, SIZE_WORDS[word])
    for (_, item), result in zip(items, results)
    for word in result.words
    if word in SIZE_WORDS
]
right = np.mean([size == said for size, said in pairs])
print(f"{len(pairs)} words for sizes, {right:.0%} of them right")

# The captioner can only guess: in a crop, a small and a big shape have the same size.
assert right < 0.8
