"""The words of CDL: names, numbers, texts, and the marks between them.

The rules are those of ncgen's scanner. Where that scanner recognises a word by its spelling alone
(``NaN``, ``string``), here its position decides, so that such words can be names, too.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple, NoReturn

from nczfs.errors import BadMetadata

_SHOWN_BYTES_MAX = 40


class TokenKind(Enum):
    """A kind of token."""

    SECTION = "section"
    TEXT = "text"
    CHARACTER = "character"
    NUMBER = "number"
    WORD = "word"
    PATH = "path"
    MARK = "mark"
    END = "end"


_KINDS = dict(TokenKind.__members__)


class Token(NamedTuple):
    """A word of the text.

    Attributes
    ----------
    source : the token as it is written.
    start : where it begins, in bytes.
    """

    kind: TokenKind
    source: bytes
    start: int

    def is_mark(self, mark: bytes) -> bool:
        return self.source == mark and self.kind is TokenKind.MARK


_SPACE = rb"[ \t\r\n\f]*+"
_NAME = (
    rb"(?:[A-Za-z_\x80-\xff]|\\[ -~]|%[01][0-9A-Fa-f]|%7[fF])"
    rb"(?:[A-Za-z0-9_.@+%\x80-\xff-]|\\[ -~])*+"
)
_NUMBER = (
    rb"[+-]?(?:"
    rb"0[xX][0-9A-Fa-f]++(?:[uU]?(?:[sS]|[lL]{1,2})|[uU])?"
    rb"|(?:[0-9]++\.[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?[fFdDlL]?"
    rb"|[0-9]++[eE][+-]?[0-9]++[fFdDlL]?"
    rb"|[0-9]++(?:[fFdD]|[uU]?(?:[bBsS]|[lL]{1,2})|[uU])?"
    rb")|[+-](?:Infinityf?|Inff?|NaNf?|nanf?)"
)
NUMBER_BEGINS = re.compile(
    rb"[+-]?(?:0[xX][0-9A-Fa-f]*+(?:[uU]?(?:[sS]|[lL]{1,2})|[uU])?"
    rb"|(?:[0-9]*+\.[0-9]*+|[0-9]++)(?:[eE](?:[+-]?[0-9]*+))?[fFdDlL]?"
    rb"|[0-9]++(?:[uU]?(?:[bBsS]|[lL]{1,2})|[uU]))?"
)
"""What a number can begin with, except for words that are numbers."""

# One at a time: repeated in an atomic group, each would take 200 bytes until the end of the match.
_COMMENT = re.compile(_SPACE + rb"(?://[^\n]*+|/\*(?s:.*?)\*/)")
_TOKEN = re.compile(
    _SPACE
    + rb"(?:(?P<SECTION>(?:types|dimensions|variables|data|group):)"
    + rb'|(?P<TEXT>"(?:[^"\\]++|\\(?s:.))*+")'
    + rb"|(?P<CHARACTER>'(?:\\[0-7]{3}|\\[xX][0-9A-Fa-f]{2}|\\.|[^\\])')"
    + rb"|(?P<NUMBER>"
    + _NUMBER
    + rb")|(?P<WORD>"
    + _NAME
    + rb")|(?P<PATH>(?>(?:/"
    + _NAME
    + rb")+))|(?P<MARK>[{}();:,=*])|(?P<END>\Z))"
)
_BEGIN = re.compile(_SPACE + rb"(?:netcdf|NETCDF|netCDF)(?P<name>[ \t\r\n\f][^{]*+)\{")


class Scanner:
    """A text and its next token.

    Parameters
    ----------
    where : the name of the text, for messages.
    """

    def __init__(self, text: bytes, where: str) -> None:
        self.text = text
        self._where = where
        begin = self._match(_BEGIN, 0)
        if begin is None:
            self.token = Token(TokenKind.END, b"", 0)
            self.fail("does not begin with `netcdf NAME {`")
        self.name = begin["name"]
        self.go_on(begin.end())

    def go_on(self, start: int) -> None:
        """Continue with the token at a position in the text."""
        match = self._match(_TOKEN, start)
        if match is None or match.lastgroup is None:
            self._no_token(start)
        kind = match.lastgroup
        self.token = Token(_KINDS[kind], match[kind], match.start(kind))

    def _match(self, pattern: re.Pattern[bytes], start: int) -> re.Match[bytes] | None:
        """Match a pattern behind spaces and comments."""
        return pattern.match(self.text, start) or pattern.match(
            self.text, self._after_comments(start)
        )

    def _after_comments(self, start: int) -> int:
        while (comment := _COMMENT.match(self.text, start)) is not None:
            start = comment.end()
        return start

    def next(self) -> Token:
        """Return the current token, and read the one after it."""
        token = self.token
        self.go_on(token.start + len(token.source))
        return token

    def take(self, mark: bytes) -> bool:
        """Skip the next token if it is this mark. Returns whether it is."""
        if not self.token.is_mark(mark):
            return False
        self.next()
        return True

    def expect(self, mark: bytes, after: str) -> None:
        if not self.take(mark):
            self.fail(f"{self.shown()} where `{mark.decode()}` must follow {after}")

    def shown(self) -> str:
        """Return the next token, for a message."""
        if self.token.kind is TokenKind.END:
            return "the end of the text"
        source = self.token.source[:_SHOWN_BYTES_MAX].decode("utf-8", "replace")
        return f"`{source}`" if source.isprintable() else ascii(source)

    def fail(self, what: str, at: int | None = None) -> NoReturn:
        raise BadMetadata(self.message(what, at))

    def message(self, what: str, at: int | None = None) -> str:
        """Return a message that begins with the line of the next token, or of a position."""
        start = self.token.start if at is None else at
        line = self.text.count(b"\n", 0, start) + 1
        return f"{self._where}:{line}: {what}"

    def _no_token(self, start: int) -> NoReturn:
        space = re.compile(_SPACE).match(self.text, self._after_comments(start))
        assert space is not None
        start = space.end()
        rest = self.text[start : start + 2]
        if rest == b"/*":
            self.fail("a comment does not end", start)
        if rest[:1] == b'"':
            self.fail("a text does not end", start)
        if rest[:1] == b"/":
            self.fail("a `/` that does not begin a path", start)
        self.fail(f"{rest[:1].decode('latin-1')!a} cannot stand here", start)


_ESCAPE = re.compile(rb"\\(?:([0-7]{3})|[xX]([0-9A-Fa-f]{2})|((?s:.)))")
_CONTROLS = {
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"v": b"\v",
    b"?": b"\x7f",
}
_NAME_ESCAPE = re.compile(rb"\\([ -~])|%([01][0-9A-Fa-f]|7[fF])")


def _unescaped(match: re.Match[bytes]) -> bytes:
    octal, hexadecimal, single = match.groups()
    if octal is not None:
        return bytes([int(octal, 8) & 0xFF])
    if hexadecimal is not None:
        return bytes([int(hexadecimal, 16)])
    return _CONTROLS.get(single, single)


def unquoted(source: bytes) -> bytes:
    """Return the bytes of a text or character in quotes."""
    inner = source[1:-1]
    return _ESCAPE.sub(_unescaped, inner) if b"\\" in inner else inner


def decoded(text: bytes) -> str:
    """Decode bytes as UTF-8, otherwise as Latin-1, as in older files."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")


def name_of(source: bytes) -> str:
    """Return a name without its escapes; ncdump prints control characters as ``%09``."""
    return decoded(
        _NAME_ESCAPE.sub(lambda m: m[1] if m[1] is not None else bytes([int(m[2], 16)]), source)
    )


def names_of_path(source: bytes) -> list[str]:
    """Return the names in a path like ``/g1/x``."""
    return [name_of(part) for part in source.split(b"/")[1:]]
