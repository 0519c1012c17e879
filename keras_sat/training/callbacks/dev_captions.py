"""Free-running captions after each epoch: of a few photos to be read, of the dev split to be scored."""

import keras

from data_utils.foreign_text import visible
from keras_sat.scoring.bleu import bleu, bleu_counts
from keras_sat.scoring.cider import cider
from keras_sat.scoring.evaluate import NUM_REFERENCES, caption_photos
from keras_sat.scoring.words import MAX_ORDER


class ScoreCaptions(keras.callbacks.Callback):
    """After each epoch, caption the photos of the dev split, free-running, and add the scores to the epoch's logs.

    Args:
        captioned_images: list of CaptionedImage; their captions are the references, five each at most.
        cache: FeatureCache with their features; None has them encoded each time.
        **search_options: see `Captioner.caption_features`.
    """

    def __init__(self, captioned_images, *, cache=None, **search_options):
        super().__init__()
        self.images = list(captioned_images)
        self.cache = cache
        self.search_options = {"num_beams": 1, **search_options}

    def on_epoch_end(self, epoch, logs=None):
        with self.model.averaged_weights():
            logs.update(score_captions(self.model, self.images, self.cache, **self.search_options))


class ShowCaptions(keras.callbacks.Callback):
    """After each epoch, print the captions of a few photos.

    Args:
        captioned_images: list of CaptionedImage; the first `num_photos` are shown.
        num_photos: how many.
        output: a function that takes a line of text.
        cache, **search_options: see ScoreCaptions.
    """

    def __init__(self, captioned_images, *, cache=None, num_photos=3, output=print, **search_options):
        super().__init__()
        self.images = list(captioned_images)[:num_photos]
        self.cache = cache
        self.output = output
        self.search_options = {"num_beams": 1, **search_options}

    def on_epoch_end(self, epoch, logs=None):
        with self.model.averaged_weights():
            results = caption_photos(self.model, self.images, self.cache, **self.search_options)
        for image, result in zip(self.images, results):
            self.output(f"    {visible(image.image_id)}: {visible(result.caption)}")


def score_captions(captioner, captioned_images, cache=None, **search_options):
    """Return figures of a captioner's captions, by name.

    val_bleu_1 to val_bleu_4; val_matches, how many groups of four words in a row are in a reference too; val_cider;
    val_distinct, how many different captions there are.

    Args: see ScoreCaptions.
    """
    results = caption_photos(captioner, captioned_images, cache, **search_options)
    captions = [result.caption for result in results]
    references = [image.captions[:NUM_REFERENCES] for image in captioned_images]
    scores = bleu(references, captions)
    figures = {f"val_bleu_{n}": scores[f"bleu_{n}"] for n in range(1, 5)}
    figures["val_matches"] = int(bleu_counts(references, captions)[:, MAX_ORDER - 1].sum())
    return {**figures, "val_cider": cider(references, captions)["cider"], "val_distinct": len(set(captions))}
