# %% gap="field"
def after_layer(field, jump, kernel, stride):
    """Return the receptive field and the jump after one more layer."""
    return field + (kernel - 1) * jump, jump * stride


# %% wrong="field"
def after_layer(field, jump, kernel, stride):
    return field + (kernel - 1) * jump * stride, jump * stride  # the jump before the layer counts


# %% gap="cosines"
def cosines(vectors, vector):
    """Return the cosine (L,) of each row of vectors (L, D) with one vector (D,)."""
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(vector)
    return vectors @ vector / lengths


# %% wrong="cosines"
def cosines(vectors, vector):
    return vectors @ vector / (np.linalg.norm(vectors) * np.linalg.norm(vector))  # one length for all rows together


# %% exercise=1
with tf.GradientTape() as tape:
    corner = tf.reduce_sum(vgg16(pixels)[0, 0, 0])
influence_of_corner = np.abs(tape.gradient(corner, pixels).numpy()[0]).sum(axis=-1)
height = 1 + np.flatnonzero(influence_of_corner.any(axis=1)).max()
print(f"{height} x {height} pixels of the photo")

# The part inside the photo is about half as wide as the field, so it has less than a third of the area. The rest is
# filled with zeros, the padding of the convolutions.
assert 98 < height < 112

# %% exercise=2
shape_names = ["circle", "square", "star", "triangle"]
shape_labels = np.array([shape_names.index(scene.objects[0].shape) for scene in scenes])
from_middle = accuracy(vectors[every, cells], shape_labels, num_classes=4)
from_mean = accuracy(vectors.mean(axis=1), shape_labels, num_classes=4)
print(f"shape right: {from_middle:.0%} from the middle, {from_mean:.0%} from the mean")

# The probe of the mean is better: the middle of a circle looks like the middle of a square, whereas the mean includes
# the edges. With one object in the picture, one vector is enough; in chapter 4 there are two objects.
assert from_mean > from_middle

# %% exercise=3
vectors_of_photo = for_photos.encode(load_image(photo_path, 320)[None])[0]
vectors_of_photo = vectors_of_photo - vectors_of_photo.mean(axis=0)
similar_to_uniform = cosines(vectors_of_photo, vectors_of_photo[20 * 17 + 8]).reshape(20, 20)
for row, cosines_of_row in enumerate(similar_to_uniform):
    print(f"row {row:2}: {cosines_of_row.max():.1f}")

# The cells that resemble it are in the lower rows, from row 15 on, which show the uniform. No cell in rows 0 to 12
# resembles it: neither the face nor the flag beside the face.
assert similar_to_uniform[15:].max(axis=1).min() > 0.4 and similar_to_uniform[:13].max() < 0.2
