"""An ncstream of a group that is written once, from its beginning to its end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from nczfs import zlibs
from nczfs.buffers import Buffer, Values
from nczfs.engine.arrays.array import Array, now
from nczfs.engine.dataset import Dataset
from nczfs.engine.options import Tally
from nczfs.model.boxes import whole
from nczfs.model.grid import ChunkPart
from nczfs.ncstream.catalog import fill_value
from nczfs.ncstream.data import (
    array_head,
    data_messages,
    list_head,
    ragged_message,
    rows_frame,
)
from nczfs.ncstream.framing import END, START
from nczfs.ncstream.headers import header_message
from nczfs.ncstream.messages import DataType, Range, Section, Variable
from nczfs.views.elements import ArrayElements
from nczfs.views.forms import Form
from nczfs.views.layout import Layout
from nczfs.views.ncstream.header import (
    attributes_of,
    data_type,
    full_name_of,
    stream_header,
)
from nczfs.views.ncstream.layout import OpaqueForm, ncstream_layout
from nczfs.views.netcdf.cells import cell_form
from nczfs.views.netcdf.content import Elements, FileContent, FileGroup, FileVariable
from nczfs.views.netcdf.texts import plain_text
from nczfs.views.reader import read_at

WINDOW_BYTES = 4 << 20

Progress = Callable[[int], object]


def values_bytes(content: FileContent) -> int:
    """Return about how many bytes the values have, for counting progress."""
    shown = (v.values for v in content.variables())
    return sum(v.variable.array.size * v.cell.itemsize for v in shown if isinstance(v, Elements))


def sent_stream(
    content: FileContent,
    dataset: Dataset,
    *,
    deflate: int | None = None,
    progress: Progress = lambda _: None,
) -> Iterator[Buffer]:
    """Yield an ncstream with a message for each chunk, in the order of the grid.

    Chunks that were never written have none if readers fill them in with the same values.

    Parameters
    ----------
    content : fitted for `SENT_NCSTREAM`.
    deflate : the level of compression; None: none.
    progress : called with decoded bytes as they are sent.

    Raises
    ------
    CodecError, MissingChunk, StoreError : values cannot be read; what was yielded has no end.
    """
    yield START + header_message(stream_header(content))
    for group in content.groups():
        for variable in group.variables:
            assert isinstance(variable.values, Elements)
            array = dataset.array(variable.values.variable)
            if array.description.size:
                yield from _Sender(group, variable, array, deflate, progress).messages()
    yield END


def sent_layout(
    content: FileContent, dataset: Dataset, progress: Progress = lambda _: None
) -> Iterator[Buffer]:
    """Yield an ncstream with a message for each variable, where one can have its bytes.

    Parameters
    ----------
    content : fitted for `NCSTREAM` or `JAVA_NCSTREAM`.
    """
    layout: Layout = ncstream_layout(
        content, lambda variable: ArrayElements(dataset.array(variable), variable)
    )
    for offset in range(0, layout.size, WINDOW_BYTES):
        size = min(WINDOW_BYTES, layout.size - offset)
        yield read_at(layout, offset, size, Tally())
        progress(size)


class _Sender:
    """The messages of a variable."""

    def __init__(
        self,
        group: FileGroup,
        variable: FileVariable,
        array: Array,
        deflate: int | None,
        progress: Progress,
    ) -> None:
        assert isinstance(variable.values, Elements)
        self._name = full_name_of(group, variable)
        self._type = data_type(variable.type)
        self._is_ragged = variable.is_ragged
        self._array = array
        self._inner = variable.shape[len(array.description.shape) :]  # of text as characters
        self._cell = variable.values.cell
        self._deflate = deflate if self._type.is_fixed else None
        self._progress = progress
        self._filled_in = _filled_in(variable)

    def messages(self) -> Iterator[Buffer]:
        """Yield the messages; the next chunks are fetched while one is sent."""
        array, tally, fresh = self._array, Tally(), now()
        ahead = deque[ChunkPart]()
        for part in array.description.grid.parts(whole(array.description.shape)):
            ahead.append(part)
            array.request(part.chunk, tally, fresh)
            if len(ahead) > self._depth:
                yield from self._message(ahead.popleft(), tally, fresh)
        while ahead:
            yield from self._message(ahead.popleft(), tally, fresh)

    @property
    def _depth(self) -> int:
        """The number of chunks under way, in about 16 MiB of memory."""
        return max(1, min(8, (16 << 20) // max(1, self._array.description.chunk_bytes)))

    def _message(self, part: ChunkPart, tally: Tally, fresh: float) -> Iterator[Buffer]:
        box = part.target
        ranges = zip(box.start, box.shape, strict=True)
        section = Section((*(Range(a, n) for a, n in ranges), *(Range(0, n) for n in self._inner)))
        with self._array.chunk(part.chunk, tally, fresh) as chunk:
            if not self._is_filled_in(chunk):
                index: tuple[Any, ...] = (*part.source.slices(), ...)
                yield from self._encoded(section, chunk[index])
        self._progress(box.size * self._cell.itemsize)

    def _is_filled_in(self, chunk: Values) -> bool:
        """Return whether a chunk is a hole that readers fill in as this dataset does."""
        if self._filled_in is None or chunk.size < 2 or any(chunk.strides):
            return False  # what was never written is a single element, broadcast
        one = np.ascontiguousarray(chunk.reshape(-1)[:1])
        return bytes(self._form(one.dtype).render(one)) == self._filled_in

    def _form(self, dtype: np.dtype[Any]) -> Form:
        return cell_form(dtype, self._cell.newbyteorder(">"))

    def _encoded(self, section: Section, values: Values) -> Iterator[Buffer]:
        name, type_ = self._name, self._type
        if type_ is DataType.STRING:
            texts = np.empty(values.shape, object)
            texts.reshape(-1)[:] = [plain_text(each) for each in values.reshape(-1).tolist()]
            yield from data_messages(name, type_, section, texts)
            return
        if values.dtype.hasobject:
            send = ragged_message if self._is_ragged else data_messages
            yield from send(name, type_, section, values)
            return
        flat = np.ascontiguousarray(values).reshape(-1)
        if type_ is DataType.OPAQUE:
            yield list_head(name, type_, section)
            yield OpaqueForm(flat.dtype).render(flat)
            return
        data = self._form(flat.dtype).render(flat)
        if type_ is DataType.STRUCTURE:
            before, after = rows_frame(name, section, self._cell.itemsize)
            yield before
            yield data
            yield after
        elif self._deflate is None:
            yield array_head(name, type_, section, nbytes=len(data))
            yield data
        else:
            packed = zlibs.compressed(data, self._deflate)
            yield array_head(name, type_, section, nbytes=len(packed), inflated_bytes=len(data))
            yield packed


def _filled_in(variable: FileVariable) -> bytes | None:
    """Return the bytes of a number that no message has, as readers take it; None: they do not."""
    type_ = data_type(variable.type)
    if not type_.is_fixed or type_ is DataType.CHAR or variable.is_ragged:
        return None
    fill = fill_value(Variable(variable.name, type_, attributes=attributes_of(variable)))
    return None if fill is None else np.array(fill, type_.dtype).tobytes()
