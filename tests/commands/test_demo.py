import json

import numpy as np
import pytest

from data_utils import draw_scenes
from keras_sat import Captioner, CaptionResult
from keras_sat.commands import demo


@pytest.fixture(scope="module", params=["soft", "hard", "none"])
def small_demo(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "NUM_DEV", 100)
        patch.setattr(demo, "NUM_PICTURES", 2)
        options = {"num_train": 64, "num_test": 12, "epochs": 1, "show_progress": False}
        report = demo.run(attention=request.param, output_dir=folder, **options)
    return folder, report


@pytest.mark.slow
def test_what_is_written(small_demo):
    folder, report = small_demo
    assert json.loads((folder / "report.json").read_text()) == report
    assert {"true_captions", "true_captions_two_objects", "train_seconds"} <= set(report)
    assert len(list(folder.glob("*.png"))) == 2
    captioner = Captioner.load(folder / "model")
    assert (
        captioner.decoder.settings.attention == report["attention"]
        and captioner.confidence is not None
    )
    again, _ = demo.report_on(captioner, draw_scenes(12, demo.UNSEEN_SEED))
    assert {*again} >= {"bleu_4", "attention_mass", "attention_mass_uniform", "pointing"}
    assert {name: report[name] for name in again} == pytest.approx(again)


class Speaker:
    """Stands in for a captioner that says the same words about every scene, or a
    caption of each.
    """

    encoder = "tiny"

    def __init__(self, scenes, caption_of):
        self.answers = {scene.image.tobytes(): caption_of(scene) for scene in scenes}

    def caption(self, images, **options):
        results = []
        for image in images:
            caption = self.answers[getattr(image, "image_path", image).tobytes()]
            words = caption.split()
            maps = np.full((len(words), 16, 16), 1 / 256)
            results.append(CaptionResult(caption, words, 0.0, maps, image=image))
        return results


def test_truth_is_counted():
    scenes = draw_scenes(30, seed=1)
    report, _ = demo.report_on(Speaker(scenes, lambda scene: scene.captions[0]), scenes)
    assert report["true_captions"] == report["true_captions_two_objects"] == 1
    assert report["bleu_4"] == pytest.approx(1)
    assert report["attention_mass"] == pytest.approx(report["attention_mass_uniform"])
    report, _ = demo.report_on(Speaker(scenes, lambda scene: "something there"), scenes)
    assert report["true_captions"] == 0 and report["attention_mass"] is None
    half = {scene.image_id: i % 2 for i, scene in enumerate(scenes)}
    speaker = Speaker(scenes, lambda scene: "no" if half[scene.image_id] else scene.captions[0])
    assert demo.report_on(speaker, scenes)[0]["true_captions"] == 0.5


def test_scenes_for_training_are_not_those_of_the_report():
    assert (
        demo.UNSEEN_SEED != demo.DEV_SEED
        and max(demo.UNSEEN_SEED, demo.DEV_SEED) < demo.FIRST_TRAIN_SEED
    )
    assert len(demo.scenes_as_images(draw_scenes(1), "train", num_captions=1)[0].captions) == 1
