# %% gap="visible"
def weights_of_visible(scores, visible):
    """Return the attention weights (regions,): they sum to 1 over the visible regions, and are 0 elsewhere."""
    exponentials = np.exp(np.where(visible, scores, -np.inf) - scores[visible].max())
    return exponentials / exponentials.sum()


# %% wrong="visible"
def weights_of_visible(scores, visible):
    exponentials = np.exp(scores - scores.max())
    return np.where(visible, exponentials / exponentials.sum(), 0)  # normalised before they are hidden


# %% exercise=1
shown_nothing = []
for one in unseen[:8]:
    covered = np.zeros((64, 64), bool)
    for item in one.objects:
        left, top, right, bottom = map(int, item.box)
        covered[max(top - 4, 0) : bottom + 4, max(left - 4, 0) : right + 4] = True
    corners = [(left, top, left + 16, top + 16) for top in (0, 48) for left in (0, 48)]
    empty = [box for box in corners if not covered[box[1] : box[3], box[0] : box[2]].any()]
    shown_nothing += [captioner.caption(one.image, region=sides(box)).caption for box in empty[:1]]
print(*shown_nothing, sep="\n")

# The captioner invents a shape, because every phrase that it was trained on names one. It would learn to say "nothing"
# if it were trained on empty rectangles with this caption.
assert all({*said.split()} & {"circle", "square", "triangle", "star"} for said in shown_nothing)

# %% exercise=2
around = []
for one in unseen:
    lefts, tops, rights, bottoms = zip(*(item.box for item in one.objects))
    box = sides((min(lefts), min(tops), max(rights), max(bottoms)))
    around.append(captioner.caption(one.image, region=box).caption)
print(*around[:4], sep="\n")
both = np.mean([all(item.shape in said.split() for item in one.objects) for one, said in zip(unseen, around)])
print(f"both shapes are named in {both:.0%}")

# You nearly always get a caption, although in training every phrase after <region> was about one shape. The same
# network has learned both tasks, and when it sees two shapes, it writes a sentence about two shapes.
assert both > 0.7

# %% exercise=3
noun_said = {}
for share in (1.0, 0.75, 0.5, 0.25):

    def smaller(item, share=share):
        left, top, right, bottom = item.box
        across, down = (1 - share) / 2 * (right - left), (1 - share) / 2 * (bottom - top)
        return left + across, top + down, right - across, bottom - down

    noun_said[share] = measure(captioner, smaller)["noun said"]
    print(f"{share:.0%} of the sides: noun said {noun_said[share]:.0%}")

# The captioner often fails to name the shape when the sides are about half as long. A star differs from a circle only
# in its outline, which is then no longer visible.
assert noun_said[0.25] < noun_said[0.5] < noun_said[0.75] and noun_said[0.25] < 0.7
