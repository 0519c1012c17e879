"""Write a gallery: an HTML page of players that can be searched by words and sorted by scores.

The page needs no other file. Photos and maps are stored as JSON and become players when the reader scrolls near: even
a thousand photos are usable on a phone.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from data_utils.atomic_files import write_whole
from keras_sat.pictures.display import AttentionDisplay
from keras_sat.pictures.player import (
    as_json,
    confidence_in_words,
    empty_figure,
    escaped,
    figure_data,
    fill,
    policy,
    template,
    template_part,
)
from keras_sat.scoring.bleu import bleu_counts, bleu_of_counts
from keras_sat.scoring.cider import cider_of_photos
from keras_sat.scoring.scores import columns, named

if TYPE_CHECKING:
    from keras_sat.search.result import CaptionResult

TEMPLATE = Path(__file__).with_name("gallery.html")
LARGEST_SIDE, QUALITY = 192, 70  # in pixels, and of the JPEG: photos are small here
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
) -> Path:
    """Write an HTML page with a player for each photo; it shows 50 at a time and can be searched by words.

    If all results have a `confidence`, each photo shows it, and the page can be sorted by it.

    Args:
        results: list of CaptionResult.
        path: path of the page, ending in .html, or a folder, for index.html.
        images: list of the photos: paths, PIL images or arrays; None uses those of the results.
        names: list of titles of the photos; None numbers them.
        references: list of lists of human captions, one list for each photo. With references, each photo shows its
            BLEU-4 and CIDEr, and the page can be sorted by them. BLEU-4 is 0 without four matching words in a row;
            CIDEr depends on how rare words are in all these references.
        title: title of the page.

    Returns: the path of the page.
    """
    for name, values in (("images", images), ("names", names), ("references", references)):
        if values is not None and len(values) != len(results):
            raise ValueError(f"Expected {len(results)} {name}, one for each result. Received: {len(values)}")
    path = Path(path).expanduser()
    path = path if path.suffix.lower() == ".html" else path / "index.html"
    scores = {}
    if references is not None:
        captions = [result.caption for result in results]
        scores["bleu_4"] = bleu_of_counts(bleu_counts(references, captions))["bleu_4"]
        scores["cider"] = cider_of_photos(references, captions)
    if all(result.confidence is not None for result in results):
        scores[CONFIDENCE] = [result.confidence for result in results]
    titles = {"order": "Original order", **columns(), CONFIDENCE: "Confidence"}
    sorted_by = ["order", *scores] if scores else []
    orders = [f'<button class="sat-control" data-sort="{name}">{titles[name]}</button>' for name in sorted_by]
    images = [result.image for result in results] if images is None else images
    names = [f"photo {number}" for number in range(1, len(results) + 1)] if names is None else names
    photos = []
    for number, (result, image, name) in enumerate(zip(results, images, names)):
        display = AttentionDisplay(image, result.words, result.attention_weights, result.from_photo)
        its_references = [] if references is None else references[number]
        photos.append(_photo(number, name, display, its_references, {key: of[number] for key, of in scores.items()}))
    shared = {"player_style": template_part("style"), "player_script": template_part("script"), "shown": str(SHOWN)}
    values = {
        "policy": policy(fill(template_part("script", TEMPLATE), shared)),
        "title": escaped(title),
        "first_hidden": str(SHOWN + 1),
        "number": f"{len(photos):,}",
        "orders": "\n".join(orders),
        "figure": empty_figure(),
        "photos": "\n".join(photos),
        **shared,
    }
    write_whole(path, fill(template(TEMPLATE), values))
    return path


def _photo(number, name, display, references, scores):
    """Return the HTML <article> element of one photo."""
    data = figure_data(display, largest_side=LARGEST_SIDE, quality=QUALITY)
    keys = "".join(f' data-{key}="{value:.6f}"' for key, value in {"order": number, **scores}.items())
    shown = [confidence_in_words(of) if key == CONFIDENCE else named(key, of) for key, of in scores.items()]
    listed = "".join(f"<li>{escaped(reference)}</li>" for reference in references)
    listed = f'<ul aria-label="Human captions">{listed}</ul>' if references else ""
    return f"""<article{keys}>
<h2>{escaped(name)}</h2>
<p class="sat-scores">{", ".join(shown)}</p>
<p class="sat-waiting">{escaped(" ".join(display.words))}</p>
{listed}
<script type="application/json">{as_json(data)}</script>
</article>"""
