"""The boxes of one step, from the photo to the probabilities: what each computes, its
equation, and the lines of show_attend_tell.py that compute it.

The lines are read from that file, by the names of its functions and variables: a page
that is saved shows what is in the file then.
"""

import ast
import dataclasses
import functools
import textwrap
from pathlib import Path

from keras_sat.beyond.attend_after import AttendAfter

PAPER_FILE = Path(__file__).parents[1] / "show_attend_tell.py"
# In place of a function: the comment at the end of the file, on the encoder.
END_OF_FILE = "end of file"


@dataclasses.dataclass(frozen=True)
class Box:
    """A box of the diagram.

    Attributes:
        name: of the box, in the page's script.
        title: what it is called.
        sentence: what happens here.
        formula: of this network.
        equation: its number in the paper, such as "equation (4)", or where else it is
            from.
        function: of show_attend_tell.py, such as "ShowAttendTell.attend".
        variables: those whose lines in the function are shown; empty for all lines.
        differs: a sentence if this network computes it otherwise than that file, or "".
    """

    name: str
    title: str
    sentence: str
    formula: str
    equation: str
    function: str
    variables: tuple = ()
    differs: str = ""


def network_of(decoder):
    """Return how a CaptionDecoder computes a step, as a dict."""
    options = decoder.options
    return {
        "attends": decoder.chooses,
        "attends_after": isinstance(decoder, AttendAfter) and decoder.chooses,
        "scoring": options.scoring,
        "hard": options.attention == "hard",
        "gate": decoder.has_gate,
        "sentinel": "from_photo" in decoder.extra_dims,
        "cell": options.cell,
        "layers": options.num_layers,
        "deep_output": options.deep_output,
        "activation": options.readout_activation,
    }


def boxes_of(network):
    """Return the Boxes of a step in the order of computation.

    Args:
        network: the output of `network_of`.
    """
    cells = _cells(network)
    attention = [_scores(network), _softmax(network), _context(network), _gate(network)]
    inner = [cells, *attention] if network["attends_after"] else [*attention, cells]
    return [_photo(), _regions(), *inner, _readout(network), _probabilities()]


def _photo():
    return Box(
        name="photo",
        title="Photo",
        sentence="The photo is stretched to the size that the encoder reads.",
        formula="photo, RGB",
        equation="section 3.1.1",
        function=END_OF_FILE,
    )


def _regions():
    return Box(
        name="regions",
        title="Regions",
        sentence="A convolutional network turns it into one vector for each region of a grid. "
        "Shown is the length of each vector. It is the same for all words.",
        formula="a = {a_1, ..., a_L}",
        equation="section 3.1.1",
        function=END_OF_FILE,
    )


def _state_name(network):
    return "h_t" if network["attends_after"] else "h_{t-1}"


def _scores(network):
    state = _state_name(network)
    formulas = {
        "additive": f"e_ti = v . tanh(W_a a_i + b + W_h {state})",
        "dot": f"e_ti = a_i . {state}",
        "bilinear": f"e_ti = a_i . W {state}",
    }
    differs = ""
    if network["scoring"] != "additive":
        differs = f"This network has {network['scoring']} scores; the file adds, as the paper does."
    sentence = (
        "Each region is compared with the memory: the higher its score, the more the network "
        "will look there. Only differences matter, so colours show each score less their mean."
    )
    if not network["attends"]:
        sentence = "This network has no attention, so it has no scores."
        differs = "The file has attention, as the paper does."
    return Box(
        name="scores",
        title="Scores",
        sentence=sentence,
        formula=formulas.get(network["scoring"], f"e_ti = f_att(a_i, {state})"),
        equation="equation (4)",
        function="ShowAttendTell.attend",
        variables=("photo", "state", "e"),
        differs=differs,
    )


def _softmax(network):
    sentence = "The softmax makes the scores positive, with sum 1: these are the attention weights."
    if not network["attends"]:
        sentence = "Without attention, each region has the same weight."
    return Box(
        name="softmax",
        title="Softmax",
        sentence=sentence,
        formula="alpha_ti = exp(e_ti) / sum_k exp(e_tk)",
        equation="equation (5)",
        function="ShowAttendTell.attend",
        variables=("alpha",),
    )


def _context(network):
    differs = ""
    if network["hard"]:
        differs = (
            "This network was trained with hard attention, which draws one region, (8) and (9). "
            "Here it takes the expected context, (13)."
        )
    return Box(
        name="context",
        title="Context",
        sentence="The regions' vectors are averaged with these weights. The strip is the context "
        "as it leaves the next box.",
        formula="sum_i alpha_ti a_i",
        equation="equation (13)",
        function="ShowAttendTell.attend",
        variables=("z",),
        differs=differs,
    )


def _gate(network):
    gate = f"beta_t = sigmoid(f_beta({_state_name(network)}))"
    box = Box(
        name="gate",
        title="Gate",
        sentence="The memory decides how much of the photo's context this word gets.",
        formula=f"{gate},  z_t = beta_t sum_i alpha_ti a_i",
        equation="section 4.2.1",
        function="ShowAttendTell.attend",
        variables=("beta", "return"),
    )
    if network["sentinel"]:
        return dataclasses.replace(
            box,
            title="Sentinel",
            sentence="A vector made from the memory, the sentinel, competes with the regions. "
            "What it wins is taken from memory in place of the photo.",
            formula="z_t = from_photo sum_i alpha_ti a_i + (1 - from_photo) sentinel_t",
            equation="equations (10) to (12) of Lu et al., 2017",
            differs="This network has a sentinel; the file has the gate of the paper.",
        )
    if not network["gate"]:
        return dataclasses.replace(
            box,
            sentence="This network has no gate: the context is passed on whole.",
            formula="beta_t = 1",
            differs="The file has the gate of the paper.",
        )
    return box


def _cells(network):
    is_gru = network["cell"] == "gru"
    notes = []
    if is_gru:
        notes.append("This network has a GRU; the file has the paper's LSTM.")
    if network["layers"] > 1:
        notes.append(f"It has {network['layers']} layers; shown is the top one.")
    context = "z_t"
    if network["attends_after"]:
        context = "mean(a)"
        notes.append(
            "This network attends after this box: the cells read the mean of the regions for z_t."
        )
    formula = (
        f"(i, f, o, g) = T [E y_{{t-1}}; h_{{t-1}}; {context}],  "
        "c_t = f c_{t-1} + i g,  h_t = o tanh(c_t)"
    )
    if is_gru:
        formula = "h_t = update h_{t-1} + (1 - update) candidate"
    return Box(
        name="cells",
        title="GRU" if is_gru else "LSTM",
        sentence="The recurrent cell reads the previous word and updates the memory. Gates lie "
        "between 0 and 1: what to keep, what to let in, what to show.",
        formula=formula,
        equation="no equation in the paper" if is_gru else "equations (1) to (3)",
        function="ShowAttendTell.step",
        variables=("word", "gates", "i", "c", "h"),
        differs=" ".join(notes),
    )


def _readout(network):
    activation = network["activation"] or ""
    summed = "E y_{t-1} + L_h h_t + L_z z_t"
    share = "beta_t" if network["gate"] else ""
    if network["sentinel"]:
        share = "from_photo"
    notes = []
    if network["sentinel"]:
        notes.append("What the sentinel gives counts as memory.")
    if activation:
        notes.append(f"Before L_o, this network applies {activation}; the paper does not.")
    if not network["deep_output"]:
        summed = "[h_t; z_t]"
        notes.append("This network has no deep output: the previous word is not in the sum.")
    return Box(
        name="readout",
        title="Readout",
        sentence="Previous word, memory and photo are added, so each word's logit splits into "
        "parts exactly; and the photo's part splits into one vote for each region: how far it "
        "differs from the mean of the photo in the word's direction d, times its attention.",
        formula=f"logits = L_o {activation}({summed}) + b,  "
        f"vote_ti = {share} alpha_ti d . (a_i − mean(a))".replace("  alpha", " alpha"),
        equation="equation (7); for votes, see keras_sat.equations.votes",
        function="ShowAttendTell.step",
        variables=("state", "context", "readout", "logits"),
        differs=" ".join(notes),
    )


def _probabilities():
    return Box(
        name="probabilities",
        title="Probabilities",
        sentence="The softmax of the logits gives each word of the vocabulary its probability.",
        formula="p(y_t) = exp(logit of y_t) / sum of exp(logits)",
        equation="equation (7)",
        function="caption",
        variables=("logits", "y"),
    )


# === The lines of show_attend_tell.py ===


def code_of(box):
    """Return the numbers of a Box's lines in show_attend_tell.py, and their text, in
    which "..." stands for lines that are left out between them.
    """
    lines = _paper_lines()
    if box.function == END_OF_FILE:
        last = max(statement.end_lineno for statement in _paper_tree().body)
        numbers = [n for n in range(last + 1, len(lines) + 1) if lines[n - 1].strip()]
    else:
        numbers = _lines_of(_function(box.function), box.variables)
    text, previous = [], numbers[0] - 1
    for number in numbers:
        if number > previous + 1:
            indent = len(lines[number - 1]) - len(lines[number - 1].lstrip())
            text.append(" " * indent + "...")
        text.append(lines[number - 1])
        previous = number
    return numbers, textwrap.dedent("\n".join(text))


@functools.cache
def _paper_lines():
    return PAPER_FILE.read_text(encoding="utf-8").splitlines()


@functools.cache
def _paper_tree():
    return ast.parse(PAPER_FILE.read_text(encoding="utf-8"))


def _function(dotted_name):
    """Return the definition of a function such as "ShowAttendTell.attend"."""
    found = _paper_tree()
    for name in dotted_name.split("."):
        found = next(part for part in found.body if getattr(part, "name", None) == name)
    return found


def _lines_of(function, variables):
    """Return the numbers of the lines that assign some variables, or "return" them,
    each with the comment above it.
    """
    lines, numbers = _paper_lines(), set()
    for statement in ast.walk(function):
        if not _assigned(statement) & {*variables}:
            continue
        first = statement.lineno
        while lines[first - 2].strip().startswith("#"):
            first -= 1
        numbers.update(range(first, statement.end_lineno + 1))
    return sorted(numbers)


def _assigned(statement):
    """Return the set of the names that a statement assigns; of a return, {"return"}."""
    if isinstance(statement, ast.Return):
        return {"return"}
    if not isinstance(statement, ast.Assign):
        return set()
    parts = [part for target in statement.targets for part in ast.walk(target)]
    return {part.id for part in parts if isinstance(part, ast.Name)}
