"""Why a word was said: the rule that chose the caption, and what it weighed.

The network gives each word a probability; which word is said, a search decides, or the
user who gave the caption.
"""

import dataclasses
from typing import Any

from keras_sat.search import caption_score

SPECIAL_WORDS = {
    "<start>": "“<start>” stands before the first word.",
    "<unk>": "“<unk>” stands for all words that the network does not know.",
    "<end>": "“<end>” ends the caption.",
}
NO_BREAK = "\N{NO-BREAK SPACE}"
SLIGHTLY = 0.05  # more probable: by less than this


@dataclasses.dataclass(frozen=True)
class ChoiceRule:
    """How the caption of a trace was chosen.

    Attributes:
        kind: "given", "greedy", "beam" or "sample".
        num_beams: of a beam search; otherwise 1.
        length_penalty: the search compares log p / length ** length_penalty.
        has_consensus: whether agreement with the words of similar training photos
            chose one of the beams.
    """

    kind: str
    num_beams: int = 1
    length_penalty: float = 0.0
    has_consensus: bool = False


GIVEN = ChoiceRule("given")


def rule_of(captioner: Any, search: Any, *, is_given: bool) -> ChoiceRule:
    """Return the ChoiceRule of a caption.

    Args:
        captioner: Captioner.
        search: Search with which it was found.
        is_given: whether it was given, not searched for.
    """
    if is_given:
        return GIVEN
    if search.temperature is not None:
        return ChoiceRule("sample")
    has_consensus = captioner.uses_consensus(search)
    num_beams = search.resolved_num_beams(has_consensus)
    if num_beams == 1:
        return ChoiceRule("greedy")
    return ChoiceRule(
        "beam",
        num_beams=num_beams,
        length_penalty=search.length_penalty,
        has_consensus=has_consensus,
    )


def search_in_words(rule):
    """Return how a search with a ChoiceRule chooses, as a few sentences."""
    if rule.kind == "given":
        return "You gave this caption: the network only read it."
    if rule.kind == "sample":
        return "The words were drawn at random, probable ones more often."
    if rule.kind == "greedy":
        return "Greedy search says the most probable word that it may say."
    score = "log p, where p is its probability"
    if rule.length_penalty:
        score = (
            f"log p / n^{rule.length_penalty:g}, where p is its probability and n its number of "
            "words, counting <end>"
        )
    sentence = (
        f"Beam search keeps the {rule.num_beams} best beginnings of captions at each step, "
        f"not the best word. The score of a caption is {score}."
    )
    if rule.has_consensus:
        sentence += (
            " Of the finished captions, it says the one with the greatest sum of its score and "
            "its agreement with the words of similar training photos."
        )
    return sentence


def decision_at(trace, t, alternatives):
    """Return why the word of a step was said, as a dict for JSON.

    Args:
        trace, t: Trace and the step.
        alternatives: list of Alternatives at the step.

    Returns: "reason", a sentence or two; "captions", a list of two dicts, for the
        caption that was said and for one with the network's first choice, each with
        "caption" and a dict "numbers" of what the search compared; or an empty list
        where the first choice was said, or nothing is known of it.
    """
    step, rule = trace.steps[t], trace.choice_rule
    first, said = step.top[0], step.said
    captions = []
    if rule.kind == "given":
        reason = f"You gave this caption. {_comparison(first, said)}."
    elif first.word == said.word:
        reason = f"{_comparison(first, said)}."
    elif rule.kind == "sample":
        reason = f"{_comparison(first, said)}; “{said.word}” was drawn at random."
    else:
        because, captions = _why_not_the_first(trace, t, alternatives)
        reason = f"{_comparison(first, said)}; “{said.word}” was said because {because}."
    return {"reason": reason + _doubt(trace, t), "captions": captions}


def _doubt(trace, t):
    """Return a sentence on a word that may be made up, or ""."""
    is_end = t == len(trace.words)
    if is_end or not trace.result.doubtful[t]:
        return ""
    said = trace.steps[t].said
    memory, photo = said.parts["memory"], said.parts["photo"]
    return (
        f" It may be made up (confidence {percent(trace.result.word_confidence[t])}): memory adds "
        f"{memory:.1f} to its logit, and the photo {photo:.1f}."
    )


def _comparison(first, said):
    """Return how probable a word was, compared with the most probable one.

    Args:
        first, said: Candidates.
    """
    ours, theirs = percent(said.probability), percent(first.probability)
    if first.word == said.word:
        return f"“{said.word}” was the most probable word ({ours})"
    is_close = first.probability - said.probability < SLIGHTLY
    more = "slightly more" if is_close else "more"
    return f"“{first.word}” was {more} probable ({theirs} against {ours})"


def _why_not_the_first(trace, t, alternatives):
    """Return why a search did not say the most probable word, and both captions."""
    first = trace.steps[t].top[0].word
    found = [other for other in alternatives if other.word == first]
    if not found:
        return f"the search may not say “{first}”", []
    if trace.repeats(t, first):
        return f"the search may not say “{first}” here: it would repeat what was said", []
    if trace.result.compared:
        return _by_consensus(trace, t, first)
    return _by_score(trace, found[0])


def _by_consensus(trace, t, first):
    """Return why consensus left the captions with another word at step t.

    Args:
        first: the other word.
    """
    ours, *others = trace.result.compared
    beginning = [*trace.words[:t], first]
    theirs = next((other for other in others if _begins(other, beginning)), None)
    if theirs is None:
        goes_on = "ends here" if first == "<end>" else f"goes on with “{first}” here"
        return f"none of the {1 + len(others)} captions that beam search ended with {goes_on}", []
    captions = [
        {"caption": " ".join(one.words), "numbers": _numbers_of(one)} for one in (ours, theirs)
    ]
    if ours.is_finished and not theirs.is_finished:
        return f"the best caption with “{first}” did not end within the longest length", captions
    our_numbers, their_numbers = (caption["numbers"] for caption in captions)
    if our_numbers["score"] <= their_numbers["score"]:
        decided = (
            "its whole caption agrees more with the words of similar training photos "
            "(agreement), though it is not more probable (score)"
        )
    elif our_numbers["agreement"] >= their_numbers["agreement"]:
        decided = (
            "its whole caption is more probable (score) and agrees more with the words of "
            "similar training photos (agreement)"
        )
    else:
        decided = (
            "its whole caption is more probable (score), and agrees not much less with the words "
            "of similar training photos (agreement)"
        )
    sums = f"{_rounded(our_numbers['sum'])} against {_rounded(their_numbers['sum'])}"
    return f"{decided} (together {sums})", captions


def _begins(compared, beginning):
    """Return whether a ComparedCaption begins with some words, the last of which may be
    `<end>`.
    """
    words = [*compared.words, "<end>"] if compared.is_finished else compared.words
    return words[: len(beginning)] == beginning


def _numbers_of(compared):
    """Return the numbers of a ComparedCaption, rounded such that they add up."""
    score, agreement = round(compared.score, 2), round(compared.agreement, 2)
    return {"score": score, "agreement": agreement, "sum": round(score + agreement, 2)}


def _by_score(trace, other):
    """Return why a beam search did not say an Alternative, and both captions."""
    result, rule = trace.result, trace.choice_rule
    captions = [
        _with_score(rule, result.words, result.log_prob, result.is_finished),
        _with_score(rule, other.words, other.log_prob, other.is_finished),
    ]
    ours, theirs = ([*caption["numbers"].values()][-1] for caption in captions)
    scores = f"({_rounded(ours)} against {_rounded(theirs)})"
    if ours >= theirs:
        return f"its whole caption scores more {scores}", captions
    dropped = f"the search dropped the beginning with “{other.word}” on the way"
    return f"{dropped}, though its caption scores more {scores}", captions


def _with_score(rule, words, log_prob, is_finished):
    """Return a caption with log p, and its score if that is another number."""
    numbers = {"log p": log_prob}
    if rule.length_penalty:
        num_tokens = max(len(words) + is_finished, 1)
        numbers["score"] = caption_score(log_prob, num_tokens, rule.length_penalty)
    return {"caption": " ".join(words), "numbers": numbers}


def percent(probability):
    """Return a probability as text, as explorer.html does."""
    if probability >= 0.0995:
        return f"{round(100 * probability)}{NO_BREAK}%"
    if probability >= 0.00095:
        return f"{100 * probability:.1f}{NO_BREAK}%"
    return f"<{NO_BREAK}0.1{NO_BREAK}%"


def _rounded(number):
    """Return a number with two decimals, as text."""
    return f"{round(number, 2) + 0.0:.2f}".replace("-", "\N{MINUS SIGN}")


def special_words_in(words):
    """Return what the special words among some words mean, as one text."""
    return " ".join(text for word, text in SPECIAL_WORDS.items() if word in words)
