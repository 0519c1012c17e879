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

import keras
from keras import ops

from keras_sat.network import ATTENTIONS, hard, soft

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
        formula: of this network; several on a line each.
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


def network_of(captioner):
    """Return how a Captioner computes a step, as a dict."""
    decoder, encoder = captioner.decoder, captioner.photo_encoder
    settings = decoder.settings
    select = ATTENTIONS[settings.attention].select
    return {
        "encoder": encoder.name,
        "photo_size": encoder.photo_size,
        "has_attention": decoder.has_attention,
        "own_selection": decoder.has_attention and select not in (soft, hard),
        "attends_after": settings.attends == "after" and decoder.has_attention,
        "scoring": settings.scoring,
        "hard": decoder.samples_regions,
        "gate": decoder.has_gate,
        "sentinel": decoder.has_sentinel,
        "cell": settings.cell,
        "layers": settings.num_layers,
        "deep_output": settings.deep_output,
        "activation": settings.readout_activation,
    }


def boxes_of(network):
    """Return the Boxes of a step in the order of computation.

    Args:
        network: the output of `network_of`.
    """
    cells = _cells(network)
    attention = [_scores(network), _softmax(network), _context(network), _gate(network)]
    inner = [cells, *attention] if network["attends_after"] else [*attention, cells]
    return [_photo(network), _regions(), *inner, _readout(network), _probabilities()]


def memory_in_words(network):
    """Return what the memory of a network is: what its part of a logit comes from."""
    cell = network["cell"].upper()
    if network["attends_after"]:
        state = (
            f"the {cell}'s state (the words so far, and the mean of the photo, from which it "
            "started and which it reads at each step)"
        )
    else:
        state = (
            f"the {cell}'s state (the words so far, and what it has read of the photo, from "
            "whose mean it started)"
        )
    if not network["sentinel"]:
        return state
    return f"{state} and the sentinel, a vector that is read in place of the photo"


def remembered_in_words(network):
    """Return what a network's memory has of the photo where nothing is read from it."""
    return "the photo's mean" if network["attends_after"] else "what was read of the photo before"


def unchanged_in_words(network):
    """Return what stays as it was if all attention is on one region."""
    memory = "memory" if network["attends_after"] else "memory before this step"
    if network["sentinel"]:
        return f"{memory} and the sentinel's share"
    return f"{memory} and the gate" if network["gate"] else memory


def conventions_in_words(network):
    """Return what in parts and votes is not computed by the network, but agreed."""
    if network["activation"]:
        shared_out = f"How they share out the {network['activation']}, and what"
        return f"{shared_out} counts as average, are our conventions."
    return "What counts as average is our convention."


def _photo(network):
    height, width = network["photo_size"]
    size = f"{width} x {height} pixels, the" if height and width else "the"
    encoder = f", `{network['encoder']}`," if network["encoder"] else ""
    return Box(
        name="photo",
        title="Photo",
        sentence=f"The photo is stretched to {size} size that the encoder{encoder} reads.",
        formula="",
        equation="section 3.1.1",
        function=END_OF_FILE,
    )


def _regions():
    return Box(
        name="regions",
        title="Grid of regions",
        sentence="The encoder, a convolutional network, turns the photo into one vector a_i for "
        "each region of a grid. The picture shows the length of each vector, which is the same at "
        "every step.",
        formula="a = {a_1, ..., a_L}",
        equation="section 3.1.1",
        function=END_OF_FILE,
    )


def _state_name(network):
    return "h_t" if network["attends_after"] else "h_{t-1}"


def _weight_name(network):
    """Return how formulas name the weight of a region in the context."""
    return "s_ti" if network["own_selection"] else "alpha_ti"


def _scores(network):
    state = _state_name(network)
    formulas = {
        "additive": f"e_ti = v . tanh(W_a a_i + b + W_h {state})",
        "dot": f"e_ti = a_i . {state}",
        "bilinear": f"e_ti = a_i . W {state}",
    }
    notes = []
    equation = "equation (4)"
    if network["scoring"] != "additive":
        equation = "in place of equation (4)"
        notes.append(
            f"This network has {network['scoring']} scores; the paper's code has additive ones."
        )
    elif network["attends_after"]:
        equation = "equation (4), with h_t in place of h_{t-1}"
    if network["attends_after"]:
        notes.append("This network compares with h_t; the paper's code with h_{t-1}.")
    sentence = (
        "Each region is compared with the memory: the higher its score, the more attention "
        "it gets. Only differences matter, so colours show each score less their mean."
    )
    if not network["has_attention"]:
        sentence = "This network has no attention, so it has no scores."
        notes = ["The paper's code has attention."]
    return Box(
        name="scores",
        title="Scores",
        sentence=sentence,
        formula=formulas.get(network["scoring"], f"e_ti = f_att(a_i, {state})"),
        equation=equation,
        function="ShowAttendTell.attend",
        variables=("projected_photo", "projected_h", "hidden", "e"),
        differs=" ".join(notes),
    )


def _softmax(network):
    sentence = "The softmax makes the scores positive, with sum 1: these are the attention weights."
    if not network["has_attention"]:
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
    if network["own_selection"]:
        differs = (
            "This network makes weights s_ti of its own of alpha_ti; maps show s_ti. The paper's "
            "code takes alpha_ti."
        )
    elif network["hard"]:
        differs = (
            "This network was trained with hard attention, which draws one region, (8) and (9). "
            "Here it takes the expected context, (13)."
        )
    return Box(
        name="context",
        title="Context",
        sentence="The regions' vectors are averaged with these weights. The next box completes the "
        "context z_t, and shows it.",
        formula=f"sum_i {_weight_name(network)} a_i",
        equation="equation (13)",
        function="ShowAttendTell.attend",
        variables=("z",),
        differs=differs,
    )


def _gate(network):
    state = _state_name(network)
    box = Box(
        name="gate",
        title="Gate",
        sentence="The memory decides how much of this average the word gets: beta_t multiplies it.",
        formula=f"beta_t = sigma(f_beta({state}))\nz_t = beta_t sum_i {_weight_name(network)} a_i",
        equation="section 4.2.1",
        function="ShowAttendTell.attend",
        variables=("beta", "gated_z"),
    )
    if network["sentinel"]:
        memory = state.replace("h", "c") if network["cell"] == "lstm" else state
        return dataclasses.replace(
            box,
            title="Sentinel",
            sentence="A vector made from the memory, the sentinel, competes with the regions: it "
            "has a score e_ts of its own. Attention is shared among the regions before the "
            "sentinel takes its part. What it wins is taken from memory in place of the "
            "photo.",
            formula=f"sentinel_t = W_s (sigma(W_g {state} + b) (*) tanh({memory}))\n"
            "from_photo = sum_i exp(e_ti) / (exp(e_ts) + sum_i exp(e_ti))\n"
            f"z_t = from_photo sum_i {_weight_name(network)} a_i + (1 - from_photo) sentinel_t",
            equation="equations (10) to (12) of Lu et al., 2017, in place of section 4.2.1",
            differs="This network has a sentinel; the paper's code has a gate. In the "
            "letters of Lu et al., the sentinel is s_t, and beta_t = 1 - from_photo is the share "
            "of memory: the opposite of the paper's beta_t, which multiplies the photo.",
        )
    if not network["gate"]:
        return dataclasses.replace(
            box,
            sentence="This network has no gate: the context is passed on whole.",
            formula=f"beta_t = 1\nz_t = sum_i {_weight_name(network)} a_i",
            differs="The paper's code has a gate.",
        )
    return box


def _cells(network):
    is_gru = network["cell"] == "gru"
    name = network["cell"].upper()
    notes = []
    if is_gru:
        notes.append("This network has a GRU; the paper's code has an LSTM.")
    if network["layers"] > 1:
        notes.append(
            f"It has {network['layers']} layers, each of which reads the one below; shown is "
            "the top one."
        )
    context = "z_t"
    if network["attends_after"]:
        context = "mean(a)"
        notes.append(
            f"This network attends after this box, so its {name} reads mean(a), the mean of the "
            "photo's regions, in place of z_t."
        )
    sentence = (
        "The LSTM reads the previous word and updates the memory. In the order of the strips: "
        "the input gate i_t says what is let in, the forget gate f_t what is kept, the output "
        "gate o_t what is shown, all between 0 and 1; the candidate g_t is what is offered. They "
        "make the cell state c_t and the hidden state h_t."
    )
    formula = (
        f"x_t = [E y_{{t-1}}; h_{{t-1}}; {context}]\n"
        "(i_t, f_t, o_t, g_t) = (sigma, sigma, sigma, tanh)(T x_t)\n"
        "c_t = f_t (*) c_{t-1} + i_t (*) g_t\n"
        "h_t = o_t (*) tanh(c_t)"
    )
    if is_gru:
        sentence = (
            "The GRU reads the previous word and updates the memory. In the order of the "
            "strips: the reset gate says what of the memory the candidate reads, the update gate "
            "what is kept, both between 0 and 1; the candidate is what is offered. They make the "
            "hidden state h_t."
        )
        formula = (
            f"x_t = [E y_{{t-1}}; {context}]\n"
            "(reset, update) = sigma(T x_t + U h_{t-1})\n"
            "candidate = tanh(T_c x_t + reset (*) U_c h_{t-1})\n"
            "h_t = update (*) h_{t-1} + (1 - update) (*) candidate"
        )
    is_lstm = network["cell"] == "lstm"
    if not (is_gru or is_lstm):
        notes.insert(
            0, f"This network has a cell of its own, {name}; the paper's code has an LSTM."
        )
        sentence = "The cell reads the previous word and updates the memory."
        formula = f"h_t = {name}(E y_{{t-1}}, h_{{t-1}}, {context})"
    return Box(
        name="cells",
        title=name,
        sentence=sentence,
        formula=formula,
        equation="equations (1) to (3)" if is_lstm else "no equation in the paper",
        function="ShowAttendTell.step",
        variables=("word", "gates", "before_i", "i", "g", "c", "h"),
        differs=" ".join(notes),
    )


def _readout(network):
    activation = network["activation"]
    share = "beta_t " if network["gate"] else ""
    if network["sentinel"]:
        share = "from_photo "
    summed = "E y_{t-1} + L_h h_t + L_z z_t"
    notes = []
    if network["sentinel"]:
        notes.append("What the sentinel gives counts as memory.")
    if activation:
        notes.append(f"Before L_o, this network applies {activation}; the paper does not.")
    if not network["deep_output"]:
        summed = "[h_t; z_t]"
        notes.append("This network has no deep output: the previous word is not in the sum.")

    shared_out = ""
    lines = [f"s = {summed}"]
    if activation:
        slope = _slope_in_words(activation)
        shared_out = (
            f"What {activation} makes of the sum is shared out in proportion: each element of "
            f"each summand counts {slope} times. "
        )
        lines += [
            f"logits = L_o {activation}(s) + b",
            f"slope = {slope}",
            "part of p = L_o (p (*) slope)",
            "d = L_z^T (slope (*) w)",
        ]
    else:
        lines += ["logits = L_o s + b", "part of p = L_o p", "d = L_z^T w"]
    lines.append(f"vote_ti = {share}{_weight_name(network)} d . (a_i - mean(a))")
    return Box(
        name="readout",
        title="Readout",
        sentence="Previous word, memory and photo are the summands p of s, so each word's logit "
        f"is the sum of its parts. {shared_out}The photo's part splits further, into one vote "
        "for each region: how far the region differs from the mean of the photo in the word's "
        "direction d, times the attention it got. Here w is the word's row of L_o.",
        formula="\n".join(lines),
        equation="equation (7) before its softmax; for parts and votes, `keras_sat.equations`",
        function="ShowAttendTell.step",
        variables=("h_term", "z_term", "readout", "logits"),
        differs=" ".join(notes),
    )


def _slope_in_words(activation):
    """Return the formula of `equations.secant_slopes` for the name of an activation."""
    at_zero = float(keras.activations.get(activation)(ops.zeros(())))
    if at_zero == 0:
        return f"{activation}(s) / s"
    return f"({activation}(s) - {activation}(0)) / s"


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
    lines = _lines_of_file(PAPER_FILE)
    if box.function == END_OF_FILE:
        last = max(statement.end_lineno for statement in _tree_of_file(PAPER_FILE).body)
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
def _lines_of_file(path):
    return path.read_text(encoding="utf-8").splitlines()


@functools.cache
def _tree_of_file(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def _function(dotted_name):
    """Return the definition of a function such as "ShowAttendTell.attend"."""
    found = _tree_of_file(PAPER_FILE)
    for name in dotted_name.split("."):
        found = next(part for part in found.body if getattr(part, "name", None) == name)
    return found


def _lines_of(function, variables):
    """Return the numbers of the lines that assign some variables, each with the comment
    above it.
    """
    lines, numbers = _lines_of_file(PAPER_FILE), set()
    for statement in ast.walk(function):
        if not _assigned(statement) & {*variables}:
            continue
        first = statement.lineno
        while lines[first - 2].strip().startswith("#"):
            first -= 1
        numbers.update(range(first, statement.end_lineno + 1))
    return sorted(numbers)


def _assigned(statement):
    """Return the set of the names that a statement assigns."""
    if not isinstance(statement, ast.Assign):
        return set()
    parts = [part for target in statement.targets for part in ast.walk(target)]
    return {part.id for part in parts if isinstance(part, ast.Name)}
