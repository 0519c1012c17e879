"""Table 1 of the paper (Xu et al. 2015): BLEU without brevity penalty, and METEOR, on
the test splits.
"""


def _row(bleu_1, bleu_2, bleu_3, bleu_4, meteor):
    scores = {
        f"bleu_{n}_no_penalty": score / 100
        for n, score in enumerate((bleu_1, bleu_2, bleu_3, bleu_4), start=1)
    }
    return {**scores, "meteor": meteor / 100}


PUBLISHED = {
    "flickr8k": {
        "the paper, soft attention (test)": _row(67.0, 44.8, 29.9, 19.5, 18.93),
        "the paper, hard attention (test)": _row(67.0, 45.7, 31.4, 21.3, 20.30),
    },
    "flickr30k": {
        "the paper, soft attention (test)": _row(66.7, 43.4, 28.8, 19.1, 18.49),
        "the paper, hard attention (test)": _row(66.9, 43.9, 29.6, 19.9, 18.46),
    },
    "coco": {
        "the paper, soft attention (test)": _row(70.7, 49.2, 34.4, 24.3, 23.90),
        "the paper, hard attention (test)": _row(71.8, 50.4, 35.7, 25.0, 23.04),
    },
}
