"""How searches compare captions of different lengths."""


def caption_score(log_prob, length, length_penalty):
    """Return log p / length ** length_penalty: numbers, arrays or tensors.

    `length` is the number of tokens, `<end>` included. A penalty of 0 compares log p,
    which favours short captions; 1 compares the mean over the tokens.
    """
    return log_prob / length**length_penalty
