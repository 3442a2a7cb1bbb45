"""Texts of others, on a line or a terminal, where control characters are visible; and as bytes."""

from __future__ import annotations

_BYTES_OF_SURROGATES = range(0xDC80, 0xDD00)  # PEP 383: bytes that are no UTF-8


def printable(text: str, keep: str = "") -> str:
    r"""A text in which everything that does not print is escaped.

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
    """The bytes of a text; those that were no UTF-8 come out as they were."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a pair, from \\ud800 in JSON
        return text.encode("utf-8", "surrogatepass")


def _escaped(character: str) -> str:
    code = ord(character)
    if code in _BYTES_OF_SURROGATES:
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()
