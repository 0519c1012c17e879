"""The command `demo`: train on built-in scenes, score on unseen ones, and draw where
the captioner looked.

Dependencies are imported where they are used, which keeps `--help` fast.
"""

from pathlib import Path

from data_utils.base import write_json, write_whole
from data_utils.captions import CaptionedImage
from keras_sat.commands.flags import add_options, add_values
from keras_sat.commands.invocation import command
from keras_sat.settings import Network, Training

DESCRIPTION = """Train a captioner on synthetic scenes (a few minutes on two CPU cores), score it on
unseen scenes, and draw where it looked. If killed, it resumes when run again."""
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
DEMO_SETTINGS = {
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


def add_arguments(parser):
    add_options(parser, Network, "attention")
    parser.add_argument(
        "--max-objects", type=int, choices=(1, 2, 3), help="objects per scene; default: 2"
    )
    add_options(parser, Training, "seed")
    add_values(parser, "DIR", output_dir="default: demo")


def run(
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
    from data_utils.scenes import draw_scenes
    from keras_sat.after_search import calibrate

    output_dir = Path(output_dir).expanduser()
    training_scenes = draw_scenes(num_train, FIRST_TRAIN_SEED + seed, max_objects=max_objects)
    captioner = _train(training_scenes, attention, seed, epochs, output_dir, show_progress)
    epochs_trained = len(captioner.history.get("loss", []))
    if not epochs_trained:
        raise KeyboardInterrupt("no epoch was completed. Run the same command to start over.")

    dev_scenes = draw_scenes(NUM_DEV, DEV_SEED, max_objects=max_objects)
    calibrate(captioner, scenes_as_images(dev_scenes, "dev"), show_progress=False)
    captioner.save(output_dir / "model")
    if show_progress and epochs_trained < epochs:
        print(f"the report is about {epochs_trained} epochs; run the same command to resume")

    unseen_scenes = draw_scenes(num_test, UNSEEN_SEED, max_objects=max_objects)
    report, results = report_on(captioner, unseen_scenes)
    report |= {
        "train_seconds": round(sum(captioner.history["seconds"]), 1),
        "attention": attention,
        "seed": seed,
        "epochs": epochs_trained,
        "num_train": num_train,
        "num_test": num_test,
    }
    write_json(output_dir / "report.json", report)
    _write_pictures(unseen_scenes, results, output_dir)
    if show_progress:
        print(_conclusion(report, output_dir))
    return report


def _train(scenes, attention, seed, epochs, output_dir, show_progress):
    """Train a captioner on scenes.

    There are few captions for each: a new scene helps more than another caption, and
    costs little. There is no dev split: the last epoch tells the truth best.
    """
    from keras_sat.network import ATTENTIONS
    from keras_sat.training import fit

    expectation_epochs = 0
    if ATTENTIONS[attention].samples_regions:
        expectation_epochs = min(EXPECTATION_EPOCHS, epochs)
    return fit(
        scenes_as_images(scenes, "train", CAPTIONS_PER_SCENE),
        attention=attention,
        seed=seed,
        epochs=epochs,
        output_dir=output_dir,
        show_progress=show_progress,
        expectation_epochs=expectation_epochs,
        **DEMO_SETTINGS,
    )


def _write_pictures(scenes, results, output_dir):
    """Write pictures of some scenes, first those of several objects, and where the
    captioner looked in them.
    """
    from keras_sat.looking import AttentionDisplay

    pairs = zip(scenes, results)
    several_first = sorted(pairs, key=lambda pair: len(pair[0].objects) < 2)
    for scene, result in several_first[:NUM_PICTURES]:
        write_whole(output_dir / "scenes" / f"{scene.image_id}.png", scene.png())
        display = AttentionDisplay.from_result(result)
        display.save(output_dir / f"{scene.image_id}-attention.png")


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
    import numpy as np

    from data_utils.scenes import is_true
    from keras_sat.measuring import bleu, ground

    results = captioner.caption([scene.image for scene in scenes], num_beams=1)
    scores = bleu([scene.captions for scene in scenes], [result.caption for result in results])
    are_true = np.array(
        [is_true(scene, result.caption) is True for scene, result in zip(scenes, results)]
    )
    have_several = np.array([len(scene.objects) > 1 for scene in scenes])
    fraction_of_several = None
    if have_several.any():
        fraction_of_several = float(are_true[have_several].mean())
    grounding = ground(results, scenes)
    has_words = grounding.num_words > 0
    report = {
        **{f"bleu_{n}": scores[f"bleu_{n}"] for n in range(1, 5)},
        "true_captions": float(are_true.mean()),
        "true_captions_two_objects": fraction_of_several,
        "attention_mass": grounding.mass if has_words else None,
        "attention_mass_uniform": grounding.uniform_mass if has_words else None,
        "pointing": grounding.pointing if has_words else None,
    }
    return report, results


def _conclusion(report, output_dir):
    """Return the text with which the demo ends: the scores, and what to try next."""
    percent = {}
    for name in FRACTIONS:
        percent[name] = "-" if report[name] is None else f"{100 * report[name]:.1f} %"
    bleu_scores = ", ".join(f"BLEU-{n} {100 * report[f'bleu_{n}']:.1f}" for n in range(1, 5))
    model = output_dir / "model"
    other_attention = "hard" if report["attention"] == "soft" else "soft"
    other_dir = f"{output_dir}-{other_attention}"
    return f"""
on {report["num_test"]} unseen scenes, greedy captions, {report["attention"]} attention:
  {bleu_scores}
  true captions: {percent["true_captions"]}; \
of scenes with several objects: {percent["true_captions_two_objects"]}
  attention on the object that a colour or shape word names: {percent["attention_mass"]} \
(uniform attention: {percent["attention_mass_uniform"]}), peak on it: {percent["pointing"]}
  trained for {report["train_seconds"]:.0f} s

{output_dir}/*-attention.png show where it looked for every word. What to try next:
  {command("caption", output_dir / "scenes", "--model", model, "--num-beams", "5")}
  {command("demo", "--attention", other_attention, "--output-dir", other_dir)}
  {command("fit", "--help")}     on Flickr8k, or on your own photos"""
