"""The demo: train on built-in scenes, score on unseen ones, and draw where the
captioner looked.
"""

from pathlib import Path

import numpy as np

from data_utils.atomic_files import write_json, write_whole
from data_utils.captions import CaptionedImage
from data_utils.scenes import draw_scenes, is_true
from keras_sat.beyond.calibration import calibrate
from keras_sat.command_line.invocation import command
from keras_sat.model.selections import ATTENTIONS
from keras_sat.pictures.display import AttentionDisplay
from keras_sat.scoring.bleu import bleu
from keras_sat.scoring.grounding import ground
from keras_sat.training.recipe import fit

NUM_TRAIN, NUM_DEV, NUM_TEST = 32_000, 1000, 500
CAPTIONS_PER_SCENE = 2
EPOCHS = 6
EXPECTATION_EPOCHS = 5  # hard attention starts with the expectation, then it samples regions
UNSEEN_SEED = 1502  # of scenes that were never used for training or to choose settings
DEV_SEED = 2000  # of scenes that calibrate the confidence
FIRST_TRAIN_SEED = 10_000  # the seed of the demo is added
NUM_PICTURES = 6
FRACTIONS = (
    "true_captions",
    "true_captions_two_objects",
    "attention_mass",
    "attention_mass_uniform",
    "pointing",
)

# For at most five minutes on two CPU cores. No penalty: a caption of ten words cannot
# look at all 256 cells.
SETTINGS = {
    "encoder": "tiny",
    "attention_penalty_weight": 0.0,
    "sharpness_weight": 0.005,
    "group_by": "image",
    "embedding_dim": 32,
    "hidden_dim": 128,
    "attention_dim": 64,
    "dropout_before_readout": 0.0,
    "dropout_after_readout": 0.0,
    "learning_rate": 3e-3,
    "schedule": "cosine",
    "warmup_steps": 100,
    "clip_norm": 1.0,
    "patience": None,
}


def run_demo(
    *,
    attention="soft",
    max_objects=2,
    seed=0,
    output_dir="demo",
    num_train=NUM_TRAIN,
    num_test=NUM_TEST,
    epochs=EPOCHS,
    show_progress=True,
):
    """Train on synthetic scenes, score on unseen scenes, and write the model, a report
    and attention overlays.

    Args:
        attention: a name in ATTENTIONS.
        max_objects: maximum number of objects in a scene, 1 to 3.
        seed: random seed of the training scenes and of the training.
        output_dir: folder for model/, report.json, the overlays and the files of `fit`.
        num_train, num_test: number of training scenes, and of unseen ones.
        epochs: passes over the training scenes.
        show_progress: False prints nothing.

    Returns: the report as a dict.
    """
    output_dir = Path(output_dir).expanduser()
    say = print if show_progress else lambda line: None
    # Many scenes with few captions each: a new scene helps more than another caption,
    # and costs little.
    train = draw_scenes(num_train, FIRST_TRAIN_SEED + seed, max_objects=max_objects)
    # No dev split: the last epoch tells the truth best.
    images = scenes_as_images(train, "train", CAPTIONS_PER_SCENE)
    captioner = fit(
        images,
        attention=attention,
        seed=seed,
        epochs=epochs,
        output_dir=output_dir,
        show_progress=show_progress,
        expectation_epochs=min(EXPECTATION_EPOCHS, epochs)
        if ATTENTIONS[attention].draws_places
        else 0,
        **SETTINGS,
    )
    if not (epochs_trained := len(captioner.history.get("loss", []))):
        raise KeyboardInterrupt("no epoch was completed. Run the same command to start over.")
    dev = scenes_as_images(draw_scenes(NUM_DEV, DEV_SEED, max_objects=max_objects), "dev")
    calibrate(captioner, dev, show_progress=False)
    captioner.save(output_dir / "model")
    if epochs_trained < epochs:
        say(f"the report is about {epochs_trained} epochs; run the same command to resume")
    scenes = draw_scenes(num_test, UNSEEN_SEED, max_objects=max_objects)
    report, results = report_on(captioner, scenes)
    seconds = round(sum(captioner.history["seconds"]), 1)
    report |= {
        "train_seconds": seconds,
        "attention": attention,
        "seed": seed,
        "epochs": epochs_trained,
    }
    report |= {"num_train": num_train, "num_test": num_test}
    write_json(output_dir / "report.json", report)
    # Pictures to look at: scenes of two objects first.
    for i in sorted(range(num_test), key=lambda i: len(scenes[i].objects) < 2)[:NUM_PICTURES]:
        write_whole(output_dir / "scenes" / f"{scenes[i].image_id}.png", scenes[i].png())
        AttentionDisplay.from_result(results[i]).save(
            output_dir / f"{scenes[i].image_id}-attention.png"
        )
    say(_conclusion(report, output_dir))
    return report


def scenes_as_images(scenes, split, num_captions=5):
    """Convert scenes into a list of CaptionedImage with their pictures in memory."""
    return [
        CaptionedImage(scene.image_id, scene.image, list(scene.captions[:num_captions]), split)
        for scene in scenes
    ]


def report_on(captioner, scenes):
    """Caption scenes by greedy search; return a dict of scores and the list of
    CaptionResult.

    A caption that cannot be checked counts as false. `attention_mass` and `pointing`
    are means over the colour and shape words of true captions, measured on the pixels
    of each object's box.
    """
    results = captioner.caption([scene.image for scene in scenes], num_beams=1)
    true = np.array(
        [is_true(scene, result.caption) is True for scene, result in zip(scenes, results)]
    )
    several = np.array([len(scene.objects) > 1 for scene in scenes])
    found = ground(results, scenes)
    scores = bleu([scene.captions for scene in scenes], [result.caption for result in results])
    looks = {
        "attention_mass": found.mass,
        "attention_mass_uniform": found.uniform_mass,
        "pointing": found.pointing,
    }
    report = {
        **{f"bleu_{n}": scores[f"bleu_{n}"] for n in range(1, 5)},
        "true_captions": float(true.mean()),
        "true_captions_two_objects": float(true[several].mean()) if several.any() else None,
        **(looks if found.num_words else dict.fromkeys(looks)),
    }
    return report, results


def _conclusion(report, output_dir):
    shown = {
        name: "-" if report[name] is None else f"{100 * report[name]:.1f} %" for name in FRACTIONS
    }
    model, other = output_dir / "model", "hard" if report["attention"] == "soft" else "soft"
    return f"""
on {report["num_test"]} unseen scenes, greedy captions, {report["attention"]} attention:
  {", ".join(f"BLEU-{n} {100 * report[f'bleu_{n}']:.1f}" for n in range(1, 5))}
  true captions: {shown["true_captions"]}; \
of scenes with several objects: {shown["true_captions_two_objects"]}
  attention on the object that a colour or shape word names: {shown["attention_mass"]} \
(uniform attention: {shown["attention_mass_uniform"]}), peak on it: {shown["pointing"]}
  trained for {report["train_seconds"]:.0f} s

{output_dir}/*-attention.png show where it looked for every word. What to try next:
  {command("caption", output_dir / "scenes", "--model", model, "--num-beams", "5")}
  {command("demo", "--attention", other, "--output-dir", f"{output_dir}-{other}")}
  {command("fit", "--help")}     on Flickr8k, or on your own photos"""
