"""Make untrusted text, such as file names and words, safe to print: escape and shorten
it.
"""

import re

MOST_SHOWN = 200  # characters of one value in a message
# Control characters, line breaks, lone surrogates, and invisible characters such as
# U+202E, which reverses the text that follows. U+200C and U+200D are kept: words of
# many languages contain them.
UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible(text):
    """Return text with line breaks, control characters and invisible characters
    escaped.

    >>> visible("c\\u202egnp.exe")
    'c\\\\u202egnp.exe'
    """
    return UNSEEN.sub(lambda odd: odd[0].encode("unicode_escape").decode(), str(text))


def visible_json(text):
    """Return JSON text with the characters that `visible` escapes written as JSON
    escapes.

    >>> visible_json('"c\\u202egnp.exe\\x7f"')
    '"c\\\\u202egnp.exe\\\\u007f"'
    """

    def escaped(odd):
        digits = odd[0].encode("utf-16-be", "surrogatepass").hex()
        codes = [digits[start : start + 4] for start in range(0, len(digits), 4)]
        return "".join(f"\\u{code}" for code in codes)

    return UNSEEN.sub(escaped, text)


def brief(value):
    """Return the repr of a value, shortened for use in a message."""
    return shortened(repr(value))


def shortened(text):
    """Cut text longer than MOST_SHOWN characters, and append its full length."""
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}... ({len(text):,} characters)"


def reason_without_number(error):
    """Return an error's message, without the operating system's error number."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__
