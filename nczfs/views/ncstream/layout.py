"""The layout of an ncstream: literals, and a run for each data message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nczfs.buffers import Buffer, Values
from nczfs.ncstream.data import array_head, list_head, parts, rows_frame
from nczfs.ncstream.framing import BLOCK_BYTES_MAX, END, START, block, vint
from nczfs.ncstream.headers import header_message
from nczfs.ncstream.messages import DataType, Section, whole_section
from nczfs.ncstream.names import text
from nczfs.views.elements import ElementsOf
from nczfs.views.forms import BinaryForm
from nczfs.views.layout import Layout
from nczfs.views.ncstream.header import data_type, full_name_of, stream_header
from nczfs.views.netcdf.cells import cell_form, text_cells
from nczfs.views.netcdf.content import FileContent, FileGroup, FileVariable, Texts
from nczfs.views.segments import Literal, Run, Segment

_ROWS_BYTES_MAX = 1 << 28  # readers parse a message of rows as a whole


def ncstream_layout(content: FileContent, elements: ElementsOf) -> Layout:
    """Return the layout of an ncstream.

    A variable is one message, or several if it has more bytes than a message can have.

    Parameters
    ----------
    content : fitted for an ncstream.
    elements : returns the elements of a variable of the dataset.
    """
    segments: list[Segment] = [Literal(START + header_message(stream_header(content)))]
    for group in content.groups():
        for variable in group.variables:
            segments += _messages(group, variable, elements)
    segments.append(Literal(END))
    return Layout(segments)


def _messages(group: FileGroup, variable: FileVariable, elements: ElementsOf) -> Iterator[Segment]:
    name, type_ = full_name_of(group, variable), data_type(variable.type)
    values, shape = variable.values, variable.shape
    section = whole_section(shape)
    if not section.size:
        return
    if isinstance(values, Texts) and type_ is DataType.CHAR:
        cells = text_cells(values.values, shape[-1])
        yield Literal(array_head(name, type_, section, nbytes=len(cells)) + cells)
        return
    if isinstance(values, Texts):
        texts = b"".join(block(text(each).encode()) for each in values.values)
        yield Literal(list_head(name, type_, section) + texts)
        return
    source = elements(values.variable)
    # Text that became characters has its last dimension inside of an element.
    inner = shape[len(values.variable.array.shape) :]
    outer = shape[: len(shape) - len(inner)]
    width = values.cell.itemsize
    if type_ is DataType.OPAQUE:
        yield Literal(list_head(name, type_, section))
        yield Run(source, OpaqueForm(source.dtype), 0, section.size)
        return
    most = _ROWS_BYTES_MAX if type_ is DataType.STRUCTURE else BLOCK_BYTES_MAX
    form = cell_form(source.dtype, values.cell.newbyteorder(">"))
    first = 0
    for box in parts(outer, max(1, most // width)):
        part = section.part((*box.start, *(0 for _ in inner)), (*box.shape, *inner))
        run = Run(source, form, first, box.size)
        first += box.size
        yield from _framed(name, type_, part, run, values.cell)


def _framed(
    name: str, type_: DataType, section: Section, run: Run, cell: np.dtype[Any]
) -> Iterator[Segment]:
    if type_ is DataType.STRUCTURE:
        before, after = rows_frame(name, section, cell.itemsize)
        yield Literal(before)
        yield run
        yield Literal(after)
    else:
        yield Literal(array_head(name, type_, section, nbytes=run.size))
        yield run


class OpaqueForm(BinaryForm):
    """Opaque elements of one size, each with its length before it."""

    __slots__ = ()

    @property
    def _length(self) -> bytes:
        return vint(self.dtype.itemsize)

    @property
    def width(self) -> int:
        return len(self._length) + self.dtype.itemsize

    @property
    def is_uncopied(self) -> bool:
        return False

    def render(self, values: Values) -> Buffer:
        length = self._length
        found = np.empty((len(values), self.width), np.uint8)
        found[:, : len(length)] = np.frombuffer(length, np.uint8)
        bytes_ = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
        found[:, len(length) :] = bytes_
        return found.reshape(-1).data
