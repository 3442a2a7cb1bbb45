"""Attributes from the text of their files: the inverse of `attribute_text`."""

from __future__ import annotations

import json
import re
from codecs import getincrementaldecoder

from nczfs.cdl.constants import Constant, Item, Misfit, begins_number, item_of
from nczfs.cdl.scope import attribute_of
from nczfs.cdl.tokens import Scanner, Token, TokenKind, decoded, unquoted
from nczfs.engine.values.convert import retyped
from nczfs.errors import BadMetadata, BadValue
from nczfs.formats.jsontext import Unfinished, parse, plain
from nczfs.messages import shown
from nczfs.model.dtypes import CODE_OF_NC_TYPE, NcType
from nczfs.model.hierarchy import Attribute, Json

_DECODER = getincrementaldecoder("utf-8")
_SEPARATOR = re.compile(r"\s*,\s*|\s+")


def attribute_from(name: str, data: bytes, known: Attribute | None) -> Attribute:
    """Parse the attribute in a file, without the newline at its end.

    Parameters
    ----------
    known : the present attribute, whose type stays; None: it is new, and has the type that CDL
        gives such numbers, separated by blanks or commas. Everything else is text, and so is
        anything in double quotes, without these.

    Raises
    ------
    BadValue : it does not fit the type.
    """
    try:
        text = data.decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise BadValue(f"attribute {name!r}: is not UTF-8 text: {error.reason}") from None
    if known is None:
        return _new(name, text)
    match known.type:
        case NcType.CHAR:
            return Attribute(name, NcType.CHAR, text)
        case NcType.STRING:
            return Attribute(name, NcType.STRING, _strings(text))
        case NcType.JSON:
            return Attribute(name, NcType.JSON, _json(name, text))
        case _:
            numbers = _numbers(text)
            if numbers is None:
                raise BadValue(f"attribute {name!r}: is of type {known.type.value}: give numbers")
            values = tuple(n.value for n in numbers if not isinstance(n.value, bytes))
            return retyped(Attribute(name, known.type, values), known.type)


def check_beginning(name: str, data: bytes, nc_type: NcType | None, *, is_single: bool) -> None:
    """Refuse a text that no further text can make an attribute of a type.

    Parameters
    ----------
    data : the leading bytes, as far as they were written.
    nc_type : of the attribute; None: as the text implies.
    is_single : whether it must be one value.

    Raises
    ------
    BadValue : `attribute_from` would raise it for any continuation.
    """
    try:
        text = _DECODER().decode(data)
    except UnicodeDecodeError as error:
        raise BadValue(f"attribute {name!r}: is not UTF-8 text: {error.reason}") from None
    if nc_type is NcType.JSON:
        try:
            parse(data, f"attribute {name!r}")
        except Unfinished:
            return
        except BadMetadata as error:
            raise BadValue(str(error)) from None
    elif nc_type in CODE_OF_NC_TYPE:
        assert nc_type is not None
        *words, last = _SEPARATOR.split(text.lstrip())
        for word in words:
            _check_number(name, word, nc_type)
        if is_single and len(words) > bool(not last):
            raise BadValue(f"attribute {name!r}: must be one value of type {nc_type.value}")
        if not begins_number(last.encode()):
            raise _no_number(name, last, nc_type)


def _check_number(name: str, word: str, nc_type: NcType) -> None:
    numbers = _numbers(word)
    if numbers is None or isinstance(numbers[0].value, bytes):
        raise _no_number(name, word, nc_type)
    retyped(Attribute(name, nc_type, (numbers[0].value,)), nc_type)


def _no_number(name: str, word: str, nc_type: NcType) -> BadValue:
    return BadValue(
        f"attribute {name!r}: is of type {nc_type.value}, and {shown(word)} is not a number"
    )


def _new(name: str, text: str) -> Attribute:
    quoted = _token(text.strip())
    if quoted is not None and quoted.kind is TokenKind.TEXT:
        return Attribute(name, NcType.CHAR, decoded(unquoted(quoted.source)))
    numbers = _numbers(text)
    if numbers is None:
        return Attribute(name, NcType.CHAR, text)
    items: list[Item] = list(numbers)
    try:
        return attribute_of(name, None, items)
    except Misfit:
        return Attribute(name, NcType.CHAR, text)


def _numbers(text: str) -> list[Constant] | None:
    """Parse the numbers of a list in CDL; None if an item is not a number."""
    found: list[Constant] = []
    for word in _SEPARATOR.split(text.strip()):
        token = _token(word)
        if token is None or token.kind not in (TokenKind.NUMBER, TokenKind.WORD):
            return None
        try:
            item = item_of(token)
        except Misfit:
            return None
        if not isinstance(item, Constant):
            return None
        found.append(item)
    return found


def _token(word: str) -> Token | None:
    """Return the CDL token of a text; None if it is not exactly one token."""
    try:
        token = Scanner(f"netcdf a {{{word}".encode(), "").token
    except BadMetadata:
        return None
    return token if token.source == word.encode() else None


def _strings(text: str) -> tuple[str, ...]:
    try:
        value = json.loads(text) if text.startswith("[") else None
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    return (text,)


def _json(name: str, text: str) -> Json:
    try:
        return plain(parse(text.encode(), f"attribute {name!r}").value)
    except BadMetadata as error:
        raise BadValue(str(error)) from None
