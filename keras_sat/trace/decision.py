"""Why a word was said: the rule that chose the caption, and what it weighed.

The network gives each word a probability; which word is said, a search decides, or the
user who gave the caption.
"""

import dataclasses
from typing import Any

from keras_sat.search.result import caption_score

SPECIAL_WORDS = {
    "<start>": "“<start>” stands before the first word.",
    "<unk>": "“<unk>” stands for all words that the network does not know.",
    "<end>": "“<end>” ends the caption.",
}


@dataclasses.dataclass(frozen=True)
class ChoiceRule:
    """How the caption of a trace was chosen.

    Attributes:
        kind: "given", "greedy", "beam" or "sample".
        num_beams: of a beam search; otherwise 1.
        length_penalty: the search compares log p / length ** length_penalty.
        has_consensus: whether agreement with captions of similar training photos chose
            one of the beams.
        has_known_objects: whether a recogniser's words may have come in.
    """

    kind: str
    num_beams: int = 1
    length_penalty: float = 0.0
    has_consensus: bool = False
    has_known_objects: bool = False


GIVEN = ChoiceRule("given")


def rule_of(captioner: Any, options: Any, *, is_given: bool) -> ChoiceRule:
    """Return the ChoiceRule of a caption.

    Args:
        captioner: Captioner.
        options: SearchOptions with which it was found.
        is_given: whether it was given, not searched for.
    """
    if is_given:
        return GIVEN
    consensus = captioner.consensus_options(options)
    arguments = captioner.arguments_of_search(options, consensus)
    num_beams = arguments.get("num_beams", 1)
    kind = "beam" if num_beams > 1 else "greedy"
    return ChoiceRule(
        "sample" if options.temperature is not None else kind,
        num_beams=num_beams,
        length_penalty=arguments.get("length_penalty", 0.0),
        has_consensus=consensus is not None,
        has_known_objects=bool(captioner.recognises(options)),
    )


def score_of(rule, words, log_prob, is_finished):
    """Return the score with which a search compares a caption; see `caption_score`.

    Args:
        rule: ChoiceRule.
        words, log_prob, is_finished: as in a CaptionResult.
    """
    num_tokens = max(len(words) + is_finished, 1)
    return caption_score(log_prob, num_tokens, rule.length_penalty)


def decision_at(trace, t, alternatives):
    """Return why the word of a step was said, as a dict for JSON.

    Args:
        trace, t: Trace and the step.
        alternatives: list of Alternatives at the step.

    Returns: "text", a few sentences; "captions", a list of two dicts, the one said and
        the one with the network's first choice, or an empty list where these are the
        same, or nothing is known of them; "hasScore", whether their score is not just
        log p.
    """
    step, rule = trace.steps[t], trace.choice_rule
    first = step.top[0].word
    is_first = first == step.word
    sentences = [_how_chosen(rule)]
    if is_first:
        sentences.append(f"“{step.word}” is the most probable word at this step.")
    else:
        sentences.append(f"The most probable word at this step is “{first}”.")
    if step.bonus:
        sentences.append(f"Known objects added {step.bonus:.2f} to log p of “{step.word}”.")

    found = [other for other in alternatives if other.word == first]
    captions = []
    if is_first or rule.kind in ("given", "sample"):
        pass
    elif not found:
        sentences.append(f"The search may not say “{first}”.")
    elif rule.kind == "beam":
        captions = _both_captions(trace, rule, found[0])
        sentences.append(_how_they_compare(rule, captions, first))
        if trace.result.log_prob_shift:
            sentences.append("Log p of the caption said includes what known objects added.")
    else:
        sentences.append(_why_greedy_left_it(step, first))
    text = " ".join(sentence for sentence in sentences if sentence)
    return {"text": text, "captions": captions, "hasScore": rule.length_penalty != 0}


def _how_chosen(rule):
    if rule.kind == "given":
        return "You gave this caption: the network only read it."
    if rule.kind == "sample":
        return "The words were drawn at random, probable ones more often."
    if rule.kind == "greedy":
        return "Greedy search says the most probable word that it may say."
    if rule.length_penalty == 0:
        score = "log p"
    else:
        score = f"log p / n^{rule.length_penalty:g}, where n is its number of words with <end>"
    sentence = (
        f"Beam search keeps the {rule.num_beams} best beginnings of captions at each step, "
        f"not the best word. The score of a caption is {score}."
    )
    if rule.has_consensus:
        sentence += (
            " Of the captions that it ends with, it says the one with the best sum of its score "
            "and its agreement with captions of similar training photos."
        )
    return sentence


def _both_captions(trace, rule, other):
    """Return the caption of a Trace and that of an Alternative, with their scores."""
    result = trace.result
    ours = (result.words, result.compared_log_prob, result.is_finished)
    theirs = (other.words, other.log_prob, other.is_finished)
    return [
        {
            "caption": " ".join(words),
            "logProb": log_prob,
            "score": score_of(rule, words, log_prob, is_finished),
        }
        for words, log_prob, is_finished in (ours, theirs)
    ]


def _how_they_compare(rule, captions, first):
    ours, theirs = (caption["score"] for caption in captions)
    if ours >= theirs:
        return f"The whole caption with “{first}” scores less."
    sentence = f"The whole caption with “{first}” scores more"
    if rule.has_consensus:
        return f"{sentence}: the search dropped its beginning on the way, or agreement decided."
    if rule.has_known_objects:
        return f"{sentence}: the search dropped its beginning on the way, or known objects decided."
    return f"{sentence}, but the search dropped its beginning on the way."


def _why_greedy_left_it(step, first):
    if step.bonus:
        return ""  # what known objects added stands there already
    return f"The search may not say “{first}” here: it would repeat what was said."


def special_words_in(words):
    """Return what the special words among some words mean, as one text."""
    return " ".join(text for word, text in SPECIAL_WORDS.items() if word in words)
