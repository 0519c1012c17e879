"""Build the explorer: an HTML page in which each word of a Trace is followed from the
photo to its probability. It needs no other files.

explorer.html has the page, its style and its script, and borrows those of the player,
whose rules it follows: see `keras_sat.pictures.player`. Numbers are written as base64,
words as JSON without "<".
"""

import base64
import html
import re
from pathlib import Path

import numpy as np

from data_utils.datasets.phrase_boxes import content_positions
from keras_sat.pictures import player
from keras_sat.pictures.display import AttentionDisplay
from keras_sat.trace.diagram import boxes_of, code_of

TEMPLATE = Path(__file__).with_name("explorer.html")
# As formulas are typeset.
SIGNS = {"alpha": "α", "beta": "β", "sum<": "Σ<", " . ": " · ", "t-1": "t−1"}
PARTS = ("previous_word", "memory", "photo", "bias")  # in the order of the bars
LARGEST_SIDE, QUALITY = 512, 80  # of the photo: most of the page's size is for numbers
# Gates and h_t lie between -1 and 1: 16 bits hold them to 2e-5.
STRIP_SCALE = 32767
FRAME_HEIGHT = "56rem"  # of a notebook's output: it scrolls inside


def explorer_page(trace, *, title=None):
    """Return the explorer of a Trace as an HTML page; see `Trace.save`."""
    image = AttentionDisplay.from_result(trace.result).image
    borrowed = {
        "player_style": player.template_part("style"),
        "player_script": player.template_part("script"),
    }
    script = player.fill(player.template_part("script", TEMPLATE), borrowed)
    first = first_step(trace)
    values = {
        "aspect": f"{image.shape[1] / image.shape[0]:.4f}",
        "boxes": "\n".join(map(_box, boxes_of(trace.network))),
        "caption": player.escaped(" ".join(trace.words)),
        "data": player.as_json(explorer_data(trace)),
        "first_step": str(first),
        "first_word": player.escaped(trace.steps[first].word),
        "left_out": f"<p>{player.escaped(trace.left_out)}</p>" if trace.left_out else "",
        "no_scores": " disabled" if trace.steps[0].attention_scores is None else "",
        "photo": player.data_uri(image, LARGEST_SIDE, QUALITY),
        "player_style": borrowed["player_style"],
        "policy": player.policy(script),
        "script": script,
        "title": player.escaped(" ".join(trace.words) if title is None else title),
        "words": " ".join(
            f'<button type="button" data-step="{t}">{player.escaped(step.word)}</button>'
            for t, step in enumerate(trace.steps)
        ),
    }
    return player.fill(_page(), values)


def explorer_frame(trace):
    """Return the explorer of a Trace as a sandboxed <iframe>, for a notebook."""
    page = html.escape(explorer_page(trace))
    return (
        f'<iframe srcdoc="{page}" sandbox="allow-scripts" title="Explorer of a caption" '
        f'style="width: 100%; height: {FRAME_HEIGHT}; border: 0"></iframe>'
    )


def first_step(trace):
    """Return the step that is shown first: the first word that names something."""
    return next(iter(content_positions(trace.words)), 0)


def _page():
    """Return the template with a place for its script, which is filled in before."""
    page = player.template(TEMPLATE)
    return page.replace(player.template_part("script", TEMPLATE), "{{script}}")


# === Boxes ===


def _box(box):
    """Return a Box as HTML. The script fills in the numbers of the step."""
    numbers, code = code_of(box)
    differs = f'<p class="sat-differs">{typeset(box.differs)}</p>' if box.differs else ""
    return f"""<li class="sat-box" id="box-{box.name}">
<h3>{player.escaped(box.title)}</h3>
<p>{player.escaped(box.sentence)}</p>
<div class="sat-numbers" data-numbers="{box.name}"></div>
<p class="sat-formula"><span>{typeset(box.formula)}</span> {player.escaped(box.equation)}</p>
{differs}<details><summary>In show_attend_tell.py, {_spans(numbers)}</summary>
<pre tabindex="0">{player.escaped(code)}</pre></details>
</li>"""


def typeset(formula):
    """Return a formula, or a sentence with formulas, as HTML, with subscripts and
    Greek letters.

    >>> typeset("alpha_ti W_h h_{t-1} = from_photo")
    'α<sub>ti</sub> W<sub>h</sub> h<sub>t−1</sub> = from_photo'
    """
    parts = []
    for part in re.split(r"(from_photo)", formula):
        if part != "from_photo":
            part = player.escaped(part)
            part = re.sub(r"_(\w+)|_\{(.*?)\}", r"<sub>\1\2</sub>", part)
            for plain, sign in SIGNS.items():
                part = part.replace(plain, sign)
        parts.append(part)
    return "".join(parts)


def _spans(numbers):
    """Return line numbers as text.

    >>> _spans([3, 4, 5, 9])
    'lines 3 to 5, 9'
    """
    spans = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    text = ", ".join(f"{a} to {b}" if a < b else str(a) for a, b in spans)
    return f"lines {text}" if len(numbers) > 1 else f"line {text}"


# === Numbers ===


def explorer_data(trace):
    """Return the numbers of an explorer, as a dict for JSON."""
    rows, columns, feature_dim = trace.annotations().shape
    network = trace.network
    return {
        "rows": rows,
        "columns": columns,
        "featureDim": feature_dim,
        "lengths": floats(np.linalg.norm(trace.annotations(), axis=-1)),
        "share": _name_of_share(network),
        "parts": PARTS,
        "steps": [_step(trace, t) for t in range(len(trace.steps))],
    }


def _name_of_share(network):
    """Return what the photo's context is multiplied by; None if it is not."""
    if network["sentinel"]:
        return "from_photo"
    return "β" if network["gate"] else None


def _step(trace, t):
    step = trace.steps[t]
    words, probabilities = trace.places(t)
    distinct_words, numbers = np.unique(words, return_inverse=True)
    # All words of the bars but the one said, with what would have followed them:
    most = max(len(step.top) for step in trace.steps)
    followed = {other.word: other.caption for other in trace.alternatives(t, most)}
    scores = step.attention_scores
    strips = {**step.gates, "h_t": step.hidden_state}
    cell_state = step.cell_state
    share = step.context_gate if step.from_photo is None else step.from_photo
    return {
        "previous": step.previous_word,
        "word": step.word,
        "scores": None if scores is None else floats(scores),
        "attention": floats(step.attention_weights),
        "share": share,
        "context": floats(trace.context(t)),
        "strips": {name: _strip(values) for name, values in strips.items()},
        "cellState": None if cell_state is None else floats(cell_state),
        "places": {
            "words": distinct_words.tolist(),
            "numbers": base64.b64encode(numbers.astype("<u2").tobytes()).decode(),
            "probabilities": floats(probabilities),
        },
        "candidates": [_candidate(trace, t, candidate, followed) for candidate in step.top],
        "decided": _what_decided(step),
    }


def _candidate(trace, t, candidate, followed):
    return {
        "word": candidate.word,
        "probability": candidate.probability,
        "logit": candidate.logit,
        "parts": [candidate.parts[name] for name in PARTS],
        "votes": floats(trace.votes(t, candidate.word)),
        "mean": trace.vote_of_mean(t, candidate.word),
        "followed": followed.get(candidate.word),
    }


def _what_decided(step):
    """Return a sentence on what decided besides the network's probabilities, or ""."""
    sentences = []
    first = step.top[0].word
    if first != step.word:
        sentences.append(
            f"The network's own first choice here is “{first}”. A search compares whole "
            "captions, and a given caption is only read, so the word said need not come first."
        )
    if step.bonus:
        sentences.append(f"Known objects added {step.bonus:.4f} to log p of this word.")
    return " ".join(sentences)


def floats(values):
    """Encode numbers in base64, as 32-bit floats."""
    return base64.b64encode(np.asarray(values, "<f4").tobytes()).decode()


def _strip(values):
    """Encode numbers between -1 and 1 in base64, as 16-bit integers."""
    scaled = np.rint(STRIP_SCALE * np.clip(values, -1, 1))
    return base64.b64encode(scaled.astype("<i2").tobytes()).decode()
