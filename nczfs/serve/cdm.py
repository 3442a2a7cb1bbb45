"""CDM Remote: headers and data of groups as messages of ncstream, and descriptions as text.

Each section is one message, as siphon expects. Most are of DATA, which all clients read, and whose
values need not be in memory together. Structures and arrays of any length are of DATA2: netcdf-java
5 takes wrong values from their messages of DATA.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qsl
from xml.sax.saxutils import quoteattr

import numpy as np

from nczfs.buffers import Buffer
from nczfs.cdl import printer as cdl
from nczfs.engine.metadata.ledger import Shelf
from nczfs.engine.weight import weight_of_group
from nczfs.errors import BadSelection, NczfsError, UsageError
from nczfs.messages import shown, size_text
from nczfs.model.hierarchy import Group
from nczfs.ncstream.data import (
    array_head,
    error_message,
    list_head,
)
from nczfs.ncstream.framing import BLOCK_BYTES_MAX, block
from nczfs.ncstream.headers import header_message
from nczfs.ncstream.messages import DataType, Range, Section, StreamError
from nczfs.ncstream.names import java_path, member_name, text
from nczfs.plaindata import frozen
from nczfs.serve.answers import BINARY, Answer, failure_text, text_answer
from nczfs.serve.budget import Budget
from nczfs.serve.ncml import ncml
from nczfs.serve.sections import ALL, Dims, SectionSpec, parse_specs, ranges_of
from nczfs.serve.spooled import deflated, ragged, structures
from nczfs.serve.store import ServedGroup, ServedStore
from nczfs.serve.values import value_blocks
from nczfs.vfs.datasets.nodefiles import stem
from nczfs.views.ncstream.header import (
    data_type,
    full_name_of,
    member_type,
    members_of,
    stream_header,
)
from nczfs.views.netcdf.cells import cell_form
from nczfs.views.netcdf.content import Elements, FileContent, FileGroup, FileVariable
from nczfs.views.netcdf.fitting import file_content
from nczfs.views.netcdf.kinds import SERVED_NCSTREAM
from nczfs.views.netcdf.texts import texts_of

log = logging.getLogger(__name__)

REQUESTS: Final = ("header", "data", "CDL", "NcML", "capabilities")
ROWS_BYTES_MAX: Final = 64 << 20
"""Clients read a message of structures, or of elements of any length, as a whole."""

_NCSTREAM: Final = {"Content-Description": "ncstream"}
_XML: Final = "application/xml"
_JOINED_BYTES_MAX: Final = 64 << 10
_LEVEL_MAX: Final = 9
_NAMED_MAX: Final = 20
_SHOWN_WEIGHTS: Final = 2
"""What is kept of a group takes about as much as the group besides it."""


@frozen
class CdmQuery:
    """What follows the question mark of a request.

    Attributes
    ----------
    req : as in `REQUESTS`, in lower case; "": nothing, which is how clients probe.
    """

    req: str = ""
    var: str | None = None
    deflate: int | None = None


def parse_query(query: bytes) -> CdmQuery:
    """Parse the query of a URL. Other parameters than those of CDM Remote mean nothing.

    Raises
    ------
    UsageError.
    """
    try:
        pairs = parse_qsl(
            query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100
        )
    except ValueError as error:
        raise UsageError(f"the query is not UTF-8, or has too many parts: {error}") from None
    found: dict[str, str] = {}
    for name, value in pairs:
        found.setdefault(name.lower(), value)
    req = found.get("req", "").lower()
    if req and req not in map(str.lower, REQUESTS):
        raise UsageError(f"req={shown(req)}: there are {', '.join(REQUESTS)}")
    return CdmQuery(req, found.get("var"), _level(found.get("deflate", "")))


def _level(text: str) -> int | None:
    if text in ("", "0"):
        return None
    if not (text.isascii() and text.isdecimal() and len(text) == 1 and int(text) <= _LEVEL_MAX):
        raise UsageError(f"deflate={shown(text)}: write a level from 0 to {_LEVEL_MAX}")
    return int(text)


@frozen
class _Part:
    """A part of a variable that is to be sent.

    Attributes
    ----------
    name : in messages.
    ranges : of the variable; then those within each of its elements.
    member : of a structure, which is sent alone; None: whole elements.
    """

    name: str
    variable: FileVariable
    ranges: tuple[range, ...]
    member: str | None = None

    @property
    def elements(self) -> Elements:
        assert isinstance(self.variable.values, Elements)
        return self.variable.values

    @property
    def type(self) -> DataType:
        if self.member is not None:
            return member_type(self.elements.cell[self.member])
        return data_type(self.variable.type)

    @property
    def section(self) -> Section:
        return Section(tuple(Range(r.start, len(r), r.step) for r in self.ranges))

    def inside(self, cells: Buffer, ranges: tuple[range, ...]) -> Buffer:
        """Return what is sent of elements as they are in the stream.

        Parameters
        ----------
        ranges : within each of them.
        """
        cell = self.elements.cell.newbyteorder(">")
        if self.member is not None:
            values = np.frombuffer(cells, cell)[self.member]
        elif ranges and ranges != (range(cell.itemsize),):  # some characters of each text
            values = np.frombuffer(cells, np.uint8).reshape(-1, cell.itemsize)
        else:
            return cells
        slices = (slice(r.start, r.stop, r.step) for r in ranges)
        return values[(slice(None), *slices)].tobytes()


@frozen
class _Shown:
    """What a stream shows of a group, and the group that it was made of."""

    tree: Group
    content: FileContent


class CdmRemote:
    """The answers to requests for the groups of a store.

    Parameters
    ----------
    record_dimensions : names of dimensions that are shown as unlimited.
    """

    def __init__(
        self, store: ServedStore, budget: Budget, record_dimensions: frozenset[str] = frozenset()
    ) -> None:
        self._store = store
        self._budget = budget
        self._records = record_dimensions
        self._shown: Shelf[str, _Shown] = Shelf(store.ledger)

    def answer(self, path: str, query: CdmQuery, url: str) -> Answer:
        """Return the answer to a request.

        Parameters
        ----------
        path : of the group, as of `ServedStore.group`.
        url : of the endpoint, without a query.

        Raises
        ------
        NczfsError.
        """
        group = self._store.group(path)
        match query.req:
            case "":
                return Answer((), BINARY, size=0, headers=_NCSTREAM)
            case "cdl":
                return text_answer(cdl.header(group.tree, name=stem(group.name)))
            case "capabilities":
                return text_answer(_capabilities(url), media_type=_XML)
        content = self.content(group)
        match query.req:
            case "header":
                data = header_message(stream_header(content, url))
                return Answer((data,), BINARY, headers=_NCSTREAM)
            case "ncml":
                document = ncml(content, url)
                return Answer((document,), _XML, size=len(document))
        if not query.var:
            raise UsageError("req=data needs var=NAME(RANGES)")
        parts = list(self._parts(group, content, query.var))
        return Answer(self._messages(group, parts, query.deflate), BINARY, headers=_NCSTREAM)

    def content(self, group: ServedGroup) -> FileContent:
        """Return what a stream shows of a group; made anew if the group has changed."""
        shown = self._shown.get(group.path)
        if shown is not None and shown.tree == group.tree:
            return shown.content
        content = file_content(
            group.tree,
            SERVED_NCSTREAM,
            lambda variable: texts_of(group.dataset, variable),
            self._records,
            group.name,
        )
        weight = _SHOWN_WEIGHTS * weight_of_group(group.tree)
        self._shown.put(group.path, _Shown(group.tree, content), weight)
        return content

    def _parts(self, group: ServedGroup, content: FileContent, specs: str) -> Iterator[_Part]:
        places = _places(content)
        for spec in parse_specs(specs, places.__contains__):
            yield _part(spec, *places[spec.name])

    def _messages(
        self, group: ServedGroup, parts: Sequence[_Part], level: int | None
    ) -> Iterator[Buffer]:
        """Yield the messages of parts.

        The head of a message comes after its first values, so that an error in these is a message
        of its own. Later errors are raised: within a message, readers take any bytes for values.
        """
        for number, part in enumerate(parts):
            is_begun = False
            try:
                for piece in self._message(group, part, level):
                    is_begun = is_begun or len(piece) > 0
                    yield piece
            except NczfsError as error:
                if is_begun or not number:
                    raise
                log.warning("/%s: %s: %s", group.path, shown(part.name), error)
                yield error_message(StreamError(failure_text(error)))
                return

    def _message(self, group: ServedGroup, part: _Part, level: int | None) -> Iterator[Buffer]:
        section, type_ = part.section, part.type
        elements = part.elements
        array = group.array(elements.variable)
        array.require_codecs()
        rank = len(array.description.shape)
        ranges, inner = part.ranges[:rank], part.ranges[rank:]
        block_bytes = self._budget.block_bytes
        native = array.description.dtype.native
        is_number = type_.is_fixed and native.kind in "iuf" and native == elements.cell
        blocks = value_blocks(
            array,
            ranges,
            self._store.fresh_since,
            block_bytes,
            native.newbyteorder(">") if is_number else native,
        )
        match type_:
            case _ if part.variable.is_ragged:
                yield from ragged(part.name, type_, section, blocks, block_bytes)
            case DataType.STRING:
                yield from _headed(
                    list_head(part.name, type_, section), (_strings(values) for values in blocks)
                )
            case DataType.OPAQUE:
                yield from _headed(
                    list_head(part.name, type_, section), (_opaque(values) for values in blocks)
                )
            case DataType.STRUCTURE:
                cell = elements.cell.newbyteorder("<")
                form = cell_form(native, cell)
                rows = (np.frombuffer(form.render(values), cell) for values in blocks)
                yield from structures(part.name, section, members_of(cell), rows, block_bytes)
            case _:
                numbers: Iterator[Buffer]
                form = cell_form(native, elements.cell.newbyteorder(">"))
                if is_number:
                    numbers = (values.view(np.uint8).data for values in blocks)
                else:
                    numbers = (part.inside(form.render(values), inner) for values in blocks)
                size = section.size * type_.dtype.itemsize
                if level is None or not size:
                    yield from _headed(array_head(part.name, type_, section, nbytes=size), numbers)
                else:
                    head = partial(_deflated_head, part, size)
                    yield from deflated(head, numbers, level, block_bytes)


def _places(content: FileContent) -> dict[str, tuple[FileGroup, FileVariable]]:
    """Return the variables by the paths by which clients know them.

    siphon knows a variable of a group in a group by the name of the inner group alone, and
    netcdf-java has names of its own for those with a space. These mean it here, too, as long as
    they mean one variable.
    """
    places: dict[str, tuple[FileGroup, FileVariable]] = {}
    others: dict[str, list[tuple[FileGroup, FileVariable]]] = {}
    for group in content.groups():
        for variable in group.variables:
            place = group, variable
            path = f"{group.path}/{variable.name}".lstrip("/")
            places[path] = place
            names = {java_path(path)}
            if "/" in group.path:
                names.add(f"{group.name}/{variable.name}")
            for name in names - {path}:
                others.setdefault(name, []).append(place)
    for path, found in others.items():
        if len(found) == 1:
            places.setdefault(path, found[0])
    return places


def _part(spec: SectionSpec, group: FileGroup, variable: FileVariable) -> _Part:
    part = _Part(
        full_name_of(group, variable),
        variable,
        ranges_of(_dims(spec, variable), variable.shape, spec.name),
    )
    for member, dims in spec.members:
        part = _member(part, member, dims)
    size = part.section.size * part.elements.cell.itemsize
    if part.type.is_fixed and not variable.is_ragged:
        size, most = part.section.size * part.type.dtype.itemsize, BLOCK_BYTES_MAX
    else:
        is_whole = part.type is DataType.STRUCTURE or variable.is_ragged
        most = ROWS_BYTES_MAX if is_whole else BLOCK_BYTES_MAX
    if size > most:
        raise BadSelection(
            f"{shown(spec.name)}: {size_text(size)} are more than a message can have "
            f"({size_text(most)}); ask for parts"
        )
    return part


def _member(part: _Part, name: str, dims: Dims) -> _Part:
    """Return a member of the structures that a part has."""
    cell = part.elements.cell
    known = cell.names if part.type is DataType.STRUCTURE else None
    if not known:
        raise BadSelection(f"{shown(part.name)}: is no structure, and has no members")
    if name not in known:
        raise BadSelection(
            f"{shown(part.name)}: has no member {shown(name)} (there are: "
            f"{', '.join(map(shown, known[:_NAMED_MAX]))})"
        )
    full = member_name(part.name, name)
    ranges = (*part.ranges, *ranges_of(dims, cell[name].shape, full))
    return replace(part, name=full, ranges=ranges, member=name)


def _dims(spec: SectionSpec, variable: FileVariable) -> Dims:
    """Return the ranges without that of the length of elements, which is whole if it is given."""
    dims = spec.dims
    if variable.is_ragged and dims and len(dims) == len(variable.shape) + 1 and dims[-1] == ALL:
        return dims[:-1]
    return dims


def _headed(head: bytes, blocks: Iterator[Buffer]) -> Iterator[Buffer]:
    """Yield the head of a message together with its first values, and then the others."""
    first = next(blocks, b"")
    if len(first) < _JOINED_BYTES_MAX:
        yield b"".join((head, first))
    else:
        yield head
        yield first
    yield from blocks


def _deflated_head(part: _Part, size: int, nbytes: int) -> bytes:
    return array_head(part.name, part.type, part.section, nbytes=nbytes, inflated_bytes=size)


def _strings(values: np.ndarray[Any, Any]) -> bytes:
    return b"".join(block(text(_string(value)).encode()) for value in values.tolist())


def _string(value: object) -> str:
    if isinstance(value, bytes):
        return value.rstrip(b"\0").decode("utf-8", "surrogateescape")
    return "" if value is None else str(value)


def _opaque(values: np.ndarray[Any, Any]) -> bytes:
    return b"".join(block(bytes(value)) for value in values)


def _capabilities(url: str) -> str:
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<cdmRemoteCapabilities location={quoteattr(url)}>\n"
        f'  <featureDataset type="ANY" url={quoteattr(url)} />\n'
        "</cdmRemoteCapabilities>\n"
    )
