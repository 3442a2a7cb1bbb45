"""Foreign texts for a line or a terminal, with visible control characters; and as bytes."""

from __future__ import annotations

_BYTES_OF_SURROGATES = range(0xDC80, 0xDD00)  # PEP 383: bytes that are not UTF-8


def printable(text: str, keep: str = "") -> str:
    r"""Escape everything unprintable in a text.

    A newline becomes ``\n``, ESC ``\x1b``, and a byte of a name that is not UTF-8 ``\xff``; so do
    the characters that turn the direction of writing.

    Parameters
    ----------
    keep : characters that stay as they are.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _escaped(c) for c in text)


def encoded(text: str) -> bytes:
    """Encode a text; bytes that were not UTF-8 are restored."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a surrogate pair, from \\ud800 in JSON
        return text.encode("utf-8", "surrogatepass")


def _escaped(character: str) -> str:
    code = ord(character)
    if code in _BYTES_OF_SURROGATES:
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()
