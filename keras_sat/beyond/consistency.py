"""Feature consistency: the encoder learns to see the same in a photo that another camera or program has kept.

Captions that people wrote say nothing of how a photo was kept, and a network that learns from them alone lets noise
that nobody sees change its features by a quarter. Here it learns from itself, without captions: for a photo x and
another version of it x' (see `data_utils.jitter`), with the features f of the captioner that the training begins with,

    gradient of mean((normalised(g(x')) - normalised(f(x))) ** 2)

goes into the encoder g, which begins as f. Nothing else is trained: the decoder finds the features that it knows.
These are the `steady_epochs` of `fit`.

Source: Zheng et al., 2016, Improving the Robustness of Deep Neural Networks via Stability Training; there the output
of the same network is held still, here the features of the one before.
What it brought here: with `photo_blur`, 82 % of the captions of 1,000 dev photos stay the same under noise of 2 grey
levels instead of 65 %, 66 % instead of 41 % at 70 % of the photos' size, and 77 % instead of 54 % at 150 %; CIDEr is
.579 instead of .580. Measured with `benchmarks/flickr8k/steady.py` and `keras-sat evaluate`, in docs/model-card.md and
benchmarks/flickr8k/tried.md, which has what the blur does alone.
"""

import numpy as np
import tensorflow as tf
from keras import ops

from data_utils.jitter import jittered
from keras_sat.model.metrics import Objective
from keras_sat.model.replicas import draw_for_photos, photos_with_words, share_of_mean

EPSILON = 1e-3  # of the normalisation: a region without any response stays near 0


class FeatureConsistency:
    """How far a batch of photos moves the features: `Captioner.compile(training_objective=FeatureConsistency(...))`.

    The batches are those of make_batches with photos as they are; their captions have no part in it.

    Args:
        teacher: the Captioner whose features of a photo as it is are what is wanted. It stays as it is.
        strength: how much the photos change, see `data_utils.jitter`.
    """

    def __init__(self, teacher, *, strength=1.0):
        self.teacher = teacher
        self.strength = strength
        self.teacher.encoder_model  # noqa: B018 its weights are read now, outside of any graph

    @classmethod
    def of(cls, before, captioner, images, training, options):
        """Return the objective of `steady_epochs`, see FurtherEpochs."""
        return cls(before, strength=training.photo_jitter or 1.0)

    def __call__(self, captioner, batch):
        """Return the Objective of ((photos, input_ids, ..), target_ids, token_weights)."""
        (photos, *_), _, token_weights = batch
        if len(photos.shape) != 4:
            raise ValueError(
                "Steady training changes photos: make_batches(..., image_size=...). "
                f"Received: features of shape {tuple(photos.shape)}"
            )
        is_photo = photos_with_words(token_weights, ops.shape(photos)[0])
        chance = draw_for_photos(is_photo, (2,), captioner.random_generator)
        changed = tf.numpy_function(self._changed, [photos, chance], tf.uint8, stateful=False)
        changed.set_shape(photos.shape)
        wanted = ops.stop_gradient(normalised(self.teacher.features(photos)))
        found = normalised(captioner.features(changed, training=True))
        difference = ops.mean((found - wanted) ** 2, axis=(1, 2))
        return Objective(share_of_mean(difference, is_photo), {"loss": (difference, is_photo)})

    def _changed(self, photos, chance):
        """Return each photo as another camera or program would have kept it, by two numbers from 0 to 1."""
        seeds = (chance * 2**24).astype(np.int64)
        return np.stack([jittered(x, np.random.default_rng(seed), self.strength) for x, seed in zip(photos, seeds)])


def normalised(features):
    """Return features of which those of each region have mean 0 and variance 1, (photos, regions, feature_dim)."""
    features = ops.cast(features, "float32")
    centred = features - ops.mean(features, axis=-1, keepdims=True)
    return centred / ops.sqrt(ops.mean(centred**2, axis=-1, keepdims=True) + EPSILON)
