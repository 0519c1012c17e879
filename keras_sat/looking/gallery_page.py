"""Write a gallery: an HTML page of players, made when the reader scrolls near, to
search and to sort by scores.
"""

import os
from pathlib import Path

from data_utils.base import write_whole
from keras_sat.looking import player
from keras_sat.looking.display import AttentionDisplay
from keras_sat.looking.player import as_json, escaped, fill
from keras_sat.looking.shown_photo import photo_of_result
from keras_sat.measuring import (
    bleu_counts,
    bleu_of_counts,
    cider_of_photos,
    score_in_words,
    score_titles,
)
from keras_sat.search import CaptionResult

TEMPLATE = Path(__file__).with_name("gallery.html")
LARGEST_SIDE, QUALITY = 320, 70  # in pixels, and of the JPEG: photos are small here
CONFIDENCE = "confidence"  # of each photo's caption, shown with its scores
SHOWN = 50  # photos at a time


def gallery(
    results: list[CaptionResult],
    path: str | os.PathLike,
    *,
    images: list | None = None,
    names: list[str] | None = None,
    references: list[list[str]] | None = None,
    title: str = "Captions",
    map_kind: str = "attention",
) -> Path:
    """Write an HTML page with a player for each photo, 50 at a time, that can be
    searched; return its path.

    Photos show their `confidence`; if all have one, the page can be sorted by it.

    Args:
        path: path of the page, ending in .html, or a folder, for index.html.
        images: list of the photos: paths, PIL images or arrays; None uses those of the
            results.
        names: list of titles of the photos; None numbers them.
        references: list of lists of human captions, one list for each photo. With
            references, each photo shows its BLEU-4 and CIDEr, and the page can be
            sorted by them. BLEU-4 is 0 without four matching words in a row; CIDEr
            depends on how rare words are in all these references.
        map_kind: what the players show, see `AttentionDisplay.from_result`.
    """
    for name, values in (("images", images), ("names", names), ("references", references)):
        if values is not None and len(values) != len(results):
            raise ValueError(
                f"Expected {len(results)} {name}, one for each result. Received: {len(values)}"
            )
    page = GalleryPage(path, title, map_kind=map_kind)
    scores = {}  # from names to a list with the score of each photo
    if references is not None:
        captions = [result.caption for result in results]
        scores["bleu_4"] = bleu_of_counts(bleu_counts(references, captions))["bleu_4"]
        scores["cider"] = cider_of_photos(references, captions)
    for number, result in enumerate(results):
        name = f"photo {number + 1}" if names is None else names[number]
        image = photo_of_result(result) if images is None else images[number]
        human_captions = [] if references is None else references[number]
        photo_scores = {key: values[number] for key, values in scores.items()}
        page.add(name, result, image, human_captions, **photo_scores)
    return page.write()


class GalleryPage:
    """A gallery to which photos are added one by one, to save memory."""

    def __init__(
        self, path: str | os.PathLike, title: str = "Captions", *, map_kind: str = "attention"
    ):
        path = Path(path).expanduser()
        self.path = path if path.suffix.lower() == ".html" else path / "index.html"
        self.title = title
        self.map_kind = map_kind
        # HTML of each photo; for each picture that cannot be read, why
        self.photos, self.errors = [], []
        # Those that all photos have.
        self.orders = {"order": "Original order", **score_titles(), CONFIDENCE: "Confidence"}

    def add(self, name, result, image, references=(), **scores):
        """Add a photo with its CaptionResult, its human captions and its scores."""
        maps = result.maps(self.map_kind)
        display = AttentionDisplay(
            image, result.words, maps, result.from_photo, map_kind=self.map_kind
        )
        data = player.figure_data(display, largest_side=LARGEST_SIDE, quality=QUALITY)
        score_texts = [score_in_words(key, value) for key, value in scores.items()]
        if result.confidence is not None:
            score_texts.append(f"confidence {100 * result.confidence:.0f} %")
            scores[CONFIDENCE] = result.confidence
        scores = {"order": len(self.photos), **scores}
        self.orders = {key: title for key, title in self.orders.items() if key in scores}
        keys = "".join(f' data-{key}="{value:.6f}"' for key, value in scores.items())
        self.photos.append(f"""<article{keys}>
<h2>{escaped(name).replace("/", "/<wbr>")}</h2>
<p class="sat-scores">{", ".join(score_texts)}</p>
<p class="sat-waiting">{escaped(" ".join(display.words))}</p>
{_listed(references, 'aria-label="Human captions"')}
<script type="application/json">{as_json(data)}</script>
</article>""")

    def write(self):
        """Write the page with the photos so far; return its path."""
        shared = {
            "player_style": player.template_part("style"),
            "player_script": player.template_part("script"),
            "shown": str(SHOWN),
        }
        errors = ""
        if self.errors:
            summary = f"<summary>Unreadable: {len(self.errors)}</summary>"
            errors = f"<details>{summary}{_listed(self.errors)}</details>"
        orders = [
            f'<button class="sat-control" data-sort="{key}">{name}</button>'
            for key, name in self.orders.items()
        ]
        values = {
            "policy": player.policy(fill(player.template_part("script", TEMPLATE), shared)),
            "title": escaped(self.title),
            "first_hidden": str(SHOWN + 1),
            "number": f"{len(self.photos):,}",
            "reading": f"{player.READINGS[self.map_kind]}{player.MEMORY_READING}",
            "errors": errors,
            "orders": "\n".join(orders) if len(orders) > 1 else "",
            "figure": player.empty_figure(),
            "photos": "\n".join(self.photos),
            **shared,
        }
        write_whole(self.path, fill(player.template(TEMPLATE), values))
        return self.path


def _listed(texts, label=""):
    items = "".join(f"<li>{escaped(text)}</li>" for text in texts)
    return f"<ul {label}>{items}</ul>" if items else ""
