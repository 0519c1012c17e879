"""Build the explorer: an HTML page in which each word of a Trace is followed from the
photo to its probability. It needs no other files.

explorer.html has the page, its style and its script, and borrows those of the player,
whose rules it follows: see `keras_sat.looking.player`. Numbers are written as base64,
words as JSON without "<".
"""

import base64
import html
import re
from pathlib import Path

import numpy as np

from data_utils.datasets import content_positions
from keras_sat.looking import player
from keras_sat.looking.decision import decision_at, search_in_words, special_words_in
from keras_sat.looking.diagram import (
    boxes_of,
    code_of,
    conventions_in_words,
    memory_in_words,
    remembered_in_words,
    unchanged_in_words,
)
from keras_sat.looking.display import AttentionDisplay
from keras_sat.looking.region_colours import OTHERS, region_colours
from keras_sat.looking.votes import LEAST_STRONGEST

TEMPLATE = Path(__file__).with_name("explorer.html")
# As formulas are typeset.
SIGNS = {"alpha": "α", "beta": "β", "sigma": "σ", "sum<": "Σ<", "^T": "<sup>T</sup>"}
SIGNS |= {" . ": " · ", "(*)": "⊙", " - ": " − ", "t-1": "t−1"}
# Where a formula may go on in a new line, unless in parentheses.
OPERATORS = (" = ", " + ", " / ")
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
        "conventions": player.escaped(conventions_in_words(trace.network)),
        "data": player.as_json(explorer_data(trace)),
        "first_step": str(first),
        "first_word": player.escaped(trace.steps[first].word),
        "left_out": f"<p>{player.escaped(trace.left_out)}</p>" if trace.left_out else "",
        "no_scores": " disabled" if trace.steps[0].attention_scores is None else "",
        "photo": player.data_uri(image, LARGEST_SIDE, QUALITY),
        "player_style": borrowed["player_style"],
        "policy": player.policy(script),
        "script": script,
        "search": player.escaped(search_in_words(trace.choice_rule)),
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
    formulas = "".join(f"<span>{typeset_formula(line)}</span>" for line in box.formula.splitlines())
    formula = f'<p class="sat-formula">{formulas}</p>' if formulas else ""
    differs = f'<p class="sat-differs">{typeset(box.differs)}</p>' if box.differs else ""
    return f"""<li class="sat-box" id="box-{box.name}">
<h3>{player.escaped(box.title)}</h3>
<p>{typeset(box.sentence)}</p>
<div class="sat-body">
<div class="sat-numbers" data-numbers="{box.name}"></div>
<div>{formula}<p class="sat-source">{typeset(box.equation)}</p>
{differs}<details><summary>The paper's code: show_attend_tell.py, {_spans(numbers)}</summary>
<pre tabindex="0">{player.escaped(code)}</pre></details></div>
</div>
</li>"""


def typeset(formula):
    """Return a formula, or a sentence with formulas, as HTML, with subscripts and
    Greek letters. What stands between backticks is code.

    >>> typeset("alpha_ti W_h h_{t-1} = from_photo")
    'α<sub>ti</sub> W<sub>h</sub> h<sub>t−1</sub> = from_photo'
    >>> typeset("the encoder `my_net`")
    'the encoder <code>my_net</code>'
    """
    parts = []
    for part in re.split(r"(from_photo|`[^`]*`)", formula):
        if part.startswith("`"):
            part = f"<code>{player.escaped(part.strip('`'))}</code>"
        elif part != "from_photo":
            part = player.escaped(part)
            part = re.sub(r"_(\w+)|_\{(.*?)\}", r"<sub>\1\2</sub>", part)
            for plain, sign in SIGNS.items():
                part = part.replace(plain, sign)
        parts.append(part)
    return "".join(parts)


def typeset_formula(formula):
    """Return a formula as HTML that breaks only before =, + and /, and not within
    parentheses.

    >>> typeset_formula("a = b_i + f(c + d)")
    '<span>a</span> <span>= b<sub>i</sub></span> <span>+ f(c + d)</span>'
    """
    terms, depth = [""], 0
    for place, letter in enumerate(formula):
        depth += (letter in "([{") - (letter in ")]}")
        if depth == 0 and formula[place : place + 3] in OPERATORS:
            terms.append("")
        else:
            terms[-1] += letter
    return " ".join(f"<span>{typeset(term)}</span>" for term in terms)


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
    places = [trace.places(t)[0].ravel().tolist() for t in range(len(trace.steps))]
    return {
        "rows": rows,
        "columns": columns,
        "featureDim": feature_dim,
        "lengths": floats(np.linalg.norm(trace.annotations(), axis=-1)),
        "share": _name_of_share(network),
        "parts": PARTS,
        "memory": memory_in_words(network),
        "remembered": remembered_in_words(network),
        "unchanged": unchanged_in_words(network),
        "leastStrongest": LEAST_STRONGEST,
        "usualShare": float(np.median([_share(step) for step in trace.steps])),
        "colours": region_colours(places),
        "otherColour": OTHERS,
        "steps": [_step(trace, t) for t in range(len(trace.steps))],
    }


def _name_of_share(network):
    """Return what the photo's context is multiplied by; None if it is not."""
    if network["sentinel"]:
        return "from_photo"
    return "β" if network["gate"] else None


def _share(step):
    """Return what the photo's context is multiplied by at a TraceStep, or 1."""
    shares = (step.from_photo, step.context_gate, 1.0)
    return next(share for share in shares if share is not None)


def _step(trace, t):
    step = trace.steps[t]
    words, probabilities = trace.places(t)
    distinct_words, numbers = np.unique(words, return_inverse=True)
    # All words of the bars but the one said, with what would have followed them:
    most = max(len(step.top) for step in trace.steps)
    alternatives = trace.alternatives(t, most)
    followed = {other.word: other.caption for other in alternatives}
    scores = step.attention_scores
    strips = {**step.gates, "h_t": step.hidden_state}
    cell_state = step.cell_state
    shown_words = {step.previous_word, *(candidate.word for candidate in step.top)}
    return {
        "previous": step.previous_word,
        "word": step.word,
        "scores": None if scores is None else floats(scores),
        "sentinelScore": step.sentinel_score,
        "attention": floats(step.attention_weights),
        "share": _share(step) if _name_of_share(trace.network) else None,
        "context": floats(trace.context(t)),
        "strips": {name: _strip(values) for name, values in strips.items()},
        "cellState": None if cell_state is None else floats(cell_state),
        "places": {
            "words": distinct_words.tolist(),
            "numbers": base64.b64encode(numbers.astype("<u2").tobytes()).decode(),
            "probabilities": floats(probabilities),
        },
        "candidates": [_candidate(trace, t, candidate, followed) for candidate in step.top],
        "decided": decision_at(trace, t, alternatives),
        "special": special_words_in(shown_words),
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


def floats(values):
    """Encode numbers in base64, as 32-bit floats."""
    return base64.b64encode(np.asarray(values, "<f4").tobytes()).decode()


def _strip(values):
    """Encode numbers between -1 and 1 in base64, as 16-bit integers."""
    scaled = np.rint(STRIP_SCALE * np.clip(values, -1, 1))
    return base64.b64encode(scaled.astype("<i2").tobytes()).decode()
