"""Documents of references as kerchunk writes them in JSON, versions 0 and 1.

The references of a document are taken one by one as they are parsed, so that a million of them
never stand in memory as objects.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from math import prod
from typing import Any

from nczfs.errors import BadKey, BadMetadata, Unsupported
from nczfs.zmap.keys import Key, parse_key
from nczfs.zmap.reference_table import WHOLE, Table, TableBuilder
from nczfs.zmap.reference_templates import Templates, Value

DOCUMENT_BYTES_MAX = 256 << 20
GENERATED_MAX = 4_000_000

_log = logging.getLogger(__name__)
_BLANKS = " \t\n\r"
_INTEGER_END = 1 << 63
_decoder = json.JSONDecoder()


def read_references(body: bytes, where: str) -> Table:
    """The references of a document; those whose keys are not valid are left out, logged once.

    Parameters
    ----------
    where : the document is, for messages.

    Raises
    ------
    BadMetadata : it is not a document of references.
    Unsupported : it is one of a version, or with templates, that are not understood.
    """
    try:
        text = body.decode("utf-8", "surrogateescape")
        return _Document(text, where).table()
    except (ValueError, RecursionError) as error:
        raise BadMetadata(f"{where}: not JSON: {error}") from error


class _Document:
    def __init__(self, text: str, where: str) -> None:
        self._text = text
        self._where = where
        self._dropped = 0

    def table(self) -> Table:
        top, inner = TableBuilder(), TableBuilder()
        special: dict[str, Any] = {}

        def refs(at: int) -> int:
            return self._each(at, lambda key, at: self._take(inner, key, at))

        def member(key: str, at: int) -> int:
            if key == "refs" and self._text.startswith("{", at):
                special[key] = True
                return refs(at)
            if key in ("version", "templates", "gen", "refs"):
                special[key], at = _decoder.raw_decode(self._text, at)
                return at
            return self._take(top, key, at)

        end = self._each(_skip(self._text, 0), member)
        if _skip(self._text, end) != len(self._text):
            raise BadMetadata(f"{self._where}: something follows the document")
        if "version" not in special:
            if special or not len(top):
                raise BadMetadata(f"{self._where}: not a reference document (no version)")
            return self._finished(top, Templates({}))
        if special["version"] != 1:
            raise Unsupported(
                f"{self._where}: references of version {str(special['version'])[:20]}, of which "
                "0 and 1 are known"
            )
        if special.get("refs") is not True:
            raise BadMetadata(f"{self._where}: 'refs' is not an object")
        templates = Templates(self._texts(special.get("templates", {})))
        self._generate(inner, special.get("gen", []), templates)
        return self._finished(inner, templates)

    def _finished(self, builder: TableBuilder, templates: Templates) -> Table:
        if self._dropped:
            _log.warning(
                "%s: left out %d references whose keys are not valid", self._where, self._dropped
            )
        table = builder.build()
        try:
            table.urls[:] = [templates.render(url) for url in table.urls]
        except Unsupported as error:
            raise Unsupported(f"{self._where}: {error}") from error
        return table

    def _each(self, at: int, take: Callable[[str, int], int]) -> int:
        """Call `take` for every member of the object at a position; the position behind it."""
        if not self._text.startswith("{", at):
            raise BadMetadata(f"{self._where}: not a reference document (no object)")
        at = _skip(self._text, at + 1)
        while not self._text.startswith("}", at):
            key, at = _decoder.raw_decode(self._text, at)
            at = _skip(self._text, at)
            if not isinstance(key, str) or not self._text.startswith(":", at):
                raise BadMetadata(f"{self._where}: not JSON: no name at character {at}")
            at = _skip(self._text, take(key, _skip(self._text, at + 1)))
            if self._text.startswith(",", at):
                at = _skip(self._text, at + 1)
            elif not self._text.startswith("}", at):
                raise BadMetadata(f"{self._where}: not JSON: no comma at character {at}")
        return at + 1

    def _take(self, builder: TableBuilder, name: str, at: int) -> int:
        """Add the reference whose value stands at a position; the position behind it."""
        value, end = _decoder.raw_decode(self._text, at)
        try:
            key = parse_key(name)
        except BadKey:
            self._dropped += 1
            return end
        match value:
            case str():
                builder.add_bytes(key, self._inline(key, value))
            case dict():
                builder.add_bytes(key, json.dumps(value, separators=(",", ":")).encode())
            case [str() as url]:
                builder.add_range(key, url, 0, WHOLE)
            case [str() as url, int() as offset, int() as size]:
                self._add(builder, key, url, offset, size)
            case _:
                raise BadMetadata(
                    f"{self._where}: the reference of {name[:80]!r} is neither text nor "
                    "[URL] nor [URL, offset, size]"
                )
        return end

    def _add(self, builder: TableBuilder, key: Key, url: str, offset: int, size: int) -> None:
        if not (0 <= offset < _INTEGER_END and 0 <= size < _INTEGER_END - offset):
            raise BadMetadata(f"{self._where}: the reference of {key[:80]!r} has an absurd range")
        builder.add_range(key, url, offset, size)

    def _inline(self, key: str, text: str) -> bytes:
        if not text.startswith("base64:"):
            return text.encode("utf-8", "surrogateescape")
        try:
            return base64.b64decode(text[7:], validate=True)
        except (binascii.Error, ValueError) as error:
            raise BadMetadata(f"{self._where}: the bytes of {key[:80]!r} are not base64") from error

    def _texts(self, templates: object) -> Mapping[str, str]:
        if isinstance(templates, dict) and all(
            isinstance(text, str) for text in templates.values()
        ):
            return templates
        raise BadMetadata(f"{self._where}: 'templates' is not an object of texts")

    def _generate(self, builder: TableBuilder, rules: object, templates: Templates) -> None:
        """Add the references that the rules of ``gen`` stand for."""
        if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
            raise BadMetadata(f"{self._where}: 'gen' is not a list of objects")
        left = GENERATED_MAX
        for rule in rules:
            try:
                ranges = {name: _dimension(values) for name, values in rule["dimensions"].items()}
                key, url = rule["key"], rule["url"]
                offset, size = rule.get("offset"), rule.get("length")
                left -= prod(map(len, ranges.values()))
            except (LookupError, AttributeError, TypeError, ValueError, OverflowError) as error:
                raise BadMetadata(
                    f"{self._where}: a rule of 'gen' is not valid: {error}"
                ) from error
            if left < 0:
                raise Unsupported(f"{self._where}: 'gen' makes over {GENERATED_MAX} references")
            try:
                for names in _combinations(ranges):
                    made = parse_key(templates.render(str(key), names))
                    at = templates.render(str(url), names)
                    if offset is None or size is None:
                        builder.add_range(made, at, 0, WHOLE)
                    else:
                        start = int(templates.render(str(offset), names))
                        count = int(templates.render(str(size), names))
                        self._add(builder, made, at, start, count)
            except Unsupported as error:
                raise Unsupported(f"{self._where}: {error}") from error
            except (BadKey, ValueError) as error:
                raise BadMetadata(
                    f"{self._where}: a rule of 'gen' is not valid: {error}"
                ) from error


def _combinations(ranges: Mapping[str, range | list[Value]]) -> Iterator[dict[str, Value]]:
    for values in product(*ranges.values()):
        yield dict(zip(ranges, values, strict=True))


def _dimension(values: object) -> range | list[Value]:
    """What a dimension runs through: a list, or ``start``, ``stop`` and ``step``."""
    if isinstance(values, list) and all(type(value) in (int, str) for value in values):
        return values
    if isinstance(values, dict):
        start, stop, step = values.get("start", 0), values["stop"], values.get("step", 1)
        if all(type(number) is int for number in (start, stop, step)):
            return range(start, stop, step)
    raise ValueError("a dimension is a list, or has start, stop and step")


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANKS:
        at += 1
    return at
