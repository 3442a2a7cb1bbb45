"""Documents of references as kerchunk writes them in JSON, versions 0 and 1.

The references of a document are taken one by one as they are parsed, so that a million of them are
never in memory as objects. Their total size is charged to one budget.
"""

from __future__ import annotations

import base64
import binascii
import logging
import re
from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from typing import Any, Final

from nczfs.buffers import Buffer
from nczfs.errors import BadKey, BadMetadata, Unsupported
from nczfs.messages import shown
from nczfs.zmap.jsonparts import STRING, JsonParts, text_in
from nczfs.zmap.keys import ROOT, Key, parse_key
from nczfs.zmap.reference_table import WHOLE, ExpansionLimit, Table, TableBuilder, TooMuch
from nczfs.zmap.reference_templates import UrlTemplates, Value

DOCUMENT_BYTES_MAX: Final = 256 << 20
GENERATED_MAX: Final = 1_000_000  # some ten seconds
SECTION_BYTES_MAX: Final = 4 << 20  # limit for the templates, and for the rules of ``gen``
INLINE_BYTES_MAX: Final = 64 << 20  # limit for one inline object

_log = logging.getLogger(__name__)
_INTEGER_END = 1 << 63
_INTEGER = re.compile(r"\s*[+-]?[0-9]{1,20}\s*")
_NO_REFERENCE: Final = "neither text nor [URL] nor [URL, offset, size]"
_RANGE = re.compile(
    rf"\[\s*({STRING})\s*(?:,\s*(-?[0-9]{{1,20}})\s*,\s*(-?[0-9]{{1,20}})\s*)?\]", re.DOTALL
)
# A member after another one, as nearly all are: what is parsed at once is parsed in half the time.
_NEXT = re.compile(
    rf"\s*,\s*({STRING})\s*:\s*\[\s*({STRING})\s*,\s*([0-9]{{1,18}})\s*,\s*([0-9]{{1,18}})\s*\]",
    re.DOTALL,
)
_SECTIONS = frozenset({"version", "templates", "gen", "refs"})


def read_references(body: Buffer, where: str, limit_bytes: int) -> Table:
    """Read the references of a document; those with invalid keys are left out, logged once.

    A reference that cannot be read is refused alone: the others are read, and the log names the
    first one.

    Parameters
    ----------
    where : the place of the document, for messages.
    limit_bytes : of the document and all that it expands to.

    Raises
    ------
    BadMetadata : it is not a document of references, or not one of them can be read.
    Unsupported : its version or templates are not supported, or it expands beyond the limit.
    """
    try:
        return _Document(body, where, limit_bytes).table()
    except Unsupported as error:
        raise Unsupported(f"{where}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise BadMetadata(f"{where}: not JSON: {error}") from error


class _Document:
    def __init__(self, body: Buffer, where: str, limit_bytes: int) -> None:
        self._budget = ExpansionLimit(limit_bytes)
        self._budget.spend(len(body))
        self._parts = JsonParts(body)
        self._where = where
        self._dropped = 0
        self._foreign = ""  # the first key whose value is of a kind that references do not have

    def table(self) -> Table:
        top, inner = TableBuilder(self._budget), TableBuilder(self._budget)
        special: dict[str, Any] = {}
        parts = self._parts

        def member(name: str, at: int) -> int:
            if name == "refs" and parts.is_object(at):
                special[name] = True
                return parts.members(at, lambda key, at: self._take(inner, key, at))
            if name in _SECTIONS:
                special[name], at = parts.value(at, SECTION_BYTES_MAX)
                return at
            return self._take(top, name, at)

        begin = parts.begin()
        if not parts.is_object(begin):
            raise BadMetadata(f"{self._where}: not a reference document (no object)")
        parts.check_end(parts.members(begin, member))
        if "version" not in special:
            if special or not len(top):
                raise BadMetadata(f"{self._where}: not a reference document (no version)")
            if self._foreign:
                raise BadMetadata(
                    f"{self._where}: not a reference document: the reference of "
                    f"{shown(self._foreign)} is {_NO_REFERENCE}"
                )
            return self._finished(top, UrlTemplates({}))
        if special["version"] != 1:
            raise Unsupported(
                f"references of version {str(special['version'])[:20]}, of which 0 and 1 are known"
            )
        if special.get("refs") is not True:
            raise BadMetadata(f"{self._where}: 'refs' is not an object")
        templates = UrlTemplates(self._texts(special.get("templates", {})))
        self._generate(inner, special.get("gen", []), templates)
        return self._finished(inner, templates)

    def _finished(self, builder: TableBuilder, templates: UrlTemplates) -> Table:
        if self._dropped:
            _log.warning(
                "%s: left out %d references whose keys are not valid", self._where, self._dropped
            )
        table = builder.build()
        for number, url in enumerate(table.urls):
            try:
                rendered = templates.render(url)
            except TooMuch:
                raise
            except Unsupported as error:
                problem = str(error)
                self._budget.spend(len(problem))
                table.url_problems[number] = problem
                continue
            self._budget.spend(max(len(rendered) - len(url), 0))
            table.urls[number] = rendered
        self._report(table)
        return table

    def _report(self, table: Table) -> None:
        """Log that references cannot be read; raise it if there are no others."""
        count = len(table.broken_rows(ROOT))
        if not count:
            return
        key, problem = next(table.broken_below(ROOT))
        why = f"the reference of {shown(key)} cannot be read: {problem}"
        if count == len(table):
            if table.url_problems:
                raise Unsupported(why)
            raise BadMetadata(f"{self._where}: {why}")
        others = f" (and {count - 1} others)" if count > 1 else ""
        _log.warning("%s: %s%s", self._where, why, others)

    def _take(self, builder: TableBuilder, name: str, at: int) -> int:
        """Add the references from a position on. Returns the position after them."""
        at = self._take_one(builder, name, at)
        parts = self._parts
        last = url = ""
        while (found := parts.match(_NEXT, at)) is not None:
            raw_name, raw_url, offset, size = found.groups()
            name = text_in(raw_name)
            if name in _SECTIONS:
                break
            if raw_url != last:
                last, url = raw_url, text_in(raw_url)
            try:
                builder.add_range(parse_key(name), url, int(offset), int(size))
            except BadKey:
                self._dropped += 1
            at = found.end()
        return at

    def _take_one(self, builder: TableBuilder, name: str, at: int) -> int:
        """Add the reference with its value at a position. Returns the position after it."""
        parts = self._parts
        try:
            key = parse_key(name)
        except BadKey:
            self._dropped += 1
            return parts.end_of(at)
        if parts.is_array(at):
            found = parts.match(_RANGE, at)
            if found is None:
                builder.add_broken(key, _NO_REFERENCE)
                return parts.end_of(at)
            url = text_in(found[1])
            if found[2] is None:
                builder.add_range(key, url, 0, WHOLE)
            else:
                self._add(builder, key, url, int(found[2]), int(found[3]))
            return found.end()
        if parts.is_object(at):
            data, end = parts.raw(at)
            builder.add_bytes(key, data)
            return end
        end = parts.end_of(at)
        if end - at > INLINE_BYTES_MAX:
            builder.add_broken(key, f"its text takes over {INLINE_BYTES_MAX} bytes")
            return end
        value, end = parts.value(at, INLINE_BYTES_MAX)
        if isinstance(value, str):
            self._add_inline(builder, key, value)
        else:
            self._foreign = self._foreign or key
            builder.add_broken(key, _NO_REFERENCE)
        return end

    def _add(self, builder: TableBuilder, key: Key, url: str, offset: int, size: int) -> None:
        if 0 <= offset < _INTEGER_END and 0 <= size < _INTEGER_END - offset:
            builder.add_range(key, url, offset, size)
        else:
            builder.add_broken(key, _no_range(offset, size))

    def _add_inline(self, builder: TableBuilder, key: Key, text: str) -> None:
        if not text.startswith("base64:"):
            builder.add_bytes(key, text.encode("utf-8", "surrogateescape"))
            return
        try:
            data = base64.b64decode(text[7:], validate=True)
        except (binascii.Error, ValueError):
            builder.add_broken(key, "its bytes are not base64")
        else:
            builder.add_bytes(key, data)

    def _texts(self, templates: object) -> Mapping[str, str]:
        if isinstance(templates, dict) and all(
            isinstance(text, str) for text in templates.values()
        ):
            return templates
        raise BadMetadata(f"{self._where}: 'templates' is not an object of texts")

    def _generate(self, builder: TableBuilder, rules: object, templates: UrlTemplates) -> None:
        """Add the references that the rules of ``gen`` make."""
        if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
            raise BadMetadata(f"{self._where}: 'gen' is not a list of objects")
        left = GENERATED_MAX
        for rule in rules:
            try:
                ranges = {name: _dimension(values) for name, values in rule["dimensions"].items()}
                key, url = str(rule["key"]), str(rule["url"])
                offset, size = rule.get("offset"), rule.get("length")
                count = prod(map(_length, ranges.values()))
            except (LookupError, AttributeError, TypeError, ValueError, OverflowError) as error:
                raise BadMetadata(
                    f"{self._where}: a rule of 'gen' is not valid: {error}"
                ) from error
            left -= count
            if left < 0:
                raise TooMuch(
                    f"'gen' makes {shown(GENERATED_MAX - left)} references, of which nczfs reads "
                    f"{GENERATED_MAX} at most"
                )
            try:
                for names in _combinations(ranges) if count else ():
                    made = parse_key(templates.render(key, names))
                    at = templates.render(url, names)
                    if offset is None or size is None:
                        builder.add_range(made, at, 0, WHOLE)
                        continue
                    start = templates.render(str(offset), names)
                    length = templates.render(str(size), names)
                    if _INTEGER.fullmatch(start) and _INTEGER.fullmatch(length):
                        self._add(builder, made, at, int(start), int(length))
                    else:
                        builder.add_broken(made, _no_range(start, length))
            except BadKey as error:
                raise BadMetadata(
                    f"{self._where}: a rule of 'gen' is not valid: {error}"
                ) from error


def _no_range(offset: object, size: object) -> str:
    return f"an impossible range: size {shown(size)} at offset {shown(offset)}"


def _length(values: range | list[Value]) -> int:
    """Return a length that `len` refuses, too."""
    if isinstance(values, list):
        return len(values)
    return max(0, -((values.start - values.stop) // values.step))


def _combinations(ranges: Mapping[str, range | list[Value]]) -> Iterator[dict[str, Value]]:
    for values in product(*ranges.values()):
        yield dict(zip(ranges, values, strict=True))


def _dimension(values: object) -> range | list[Value]:
    """Return the values of a dimension: a list, or ``start``, ``stop`` and ``step``."""
    if isinstance(values, list) and all(type(value) in (int, str) for value in values):
        return values
    if isinstance(values, dict):
        start, stop, step = values.get("start", 0), values["stop"], values.get("step", 1)
        if all(type(number) is int for number in (start, stop, step)):
            return range(start, stop, step)
    raise ValueError("a dimension is a list, or has start, stop and step")
