"""The virtual files of a variable, a chunk and a group, and their contents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import prod
from typing import Any, TypeAlias

import numpy as np

from nczfs.engine.dataset import Dataset, Engine
from nczfs.engine.metadata.turns import PARSING, take
from nczfs.engine.options import Tally
from nczfs.engine.weight import weight_of_values
from nczfs.errors import CodecError
from nczfs.model.grid import ChunkIndex
from nczfs.model.hierarchy import GroupHeader, Variable
from nczfs.views import info, npy, text
from nczfs.views.base import Variables, View, Writing
from nczfs.views.elements import ArrayElements, ChunkElements
from nczfs.views.jsonvalues import JsonText
from nczfs.views.layout import Layout, native_run
from nczfs.views.netcdf.kinds import NCSTREAM, NETCDF_SUFFIXES
from nczfs.views.segments import Literal, Run

RENDERED_BYTES_MAX = 64 << 20
"""Elements of variable length are shown as text of up to so many bytes."""

_LINE_BYTES_LEAST = 2
_ITEM_BYTES_LEAST = 3  # in a list

FILE_BYTES_MAX = (1 << 63) - (1 << 32)
"""No system has larger files; the last 4 GiB are left to headers."""

CHUNKS = "chunks"
ATTRIBUTES = "attributes"
INFO = "info.json"
ZOM = "zom.json"
RAW = "values.raw"
LINES = "values.txt"
VARIABLE_VIEWS = ("values.raw", "values.npy", "values.txt", "info.json")
PREVIEW = "preview.png"
CDL_SUFFIX = ".cdl"
GROUP_SUFFIXES = (CDL_SUFFIX, *NETCDF_SUFFIXES, NCSTREAM.suffix)


Notes: TypeAlias = Callable[[], tuple[str, ...]]
"""Notes on a node, in addition to its problems."""


def variable_views(
    dataset: Dataset, variable: Variable, notes: Notes = tuple
) -> Mapping[str, View]:
    """Return the files of a variable, by name, without attributes and chunks.

    Parameters
    ----------
    notes : are added to the problems of its info.json.
    """
    description = variable.array
    dtype, count = description.dtype, description.size
    shown = (variable,)
    views: dict[str, View] = {}
    problems: list[str] = []

    def show(
        name: str,
        build: Callable[[Variables], Layout],
        item_bytes: int,
        writing: Writing = Writing.IN_PLACE,
    ) -> None:
        size = count * item_bytes
        if size > FILE_BYTES_MAX:
            problems.append(f"{name}: {size} bytes are more than a file can have")
        else:
            views[name] = View(build, variables=shown, writing=writing)

    if dtype.vlen is None:

        def raw(shown: Variables) -> Layout:
            return Layout([_all_native(dataset, shown[0])])

        def saved(shown: Variables) -> Layout:
            header = Literal(npy.header(shown[0].array.shape, dtype.native))
            return Layout([header, _all_native(dataset, shown[0])])

        show("values.raw", raw, dtype.native.itemsize, Writing.RECORDS)
        show("values.npy", saved, dtype.native.itemsize)
        form = text.text_form(dtype)
        if form is not None:

            def lines(shown: Variables) -> Layout:
                elements = ArrayElements(dataset.array(shown[0]), shown[0])
                return Layout([Run(elements, form, 0, shown[0].array.size)])

            show("values.txt", lines, form.width)
    elif count * _LINE_BYTES_LEAST <= RENDERED_BYTES_MAX:

        def rendered(shown: Variables) -> Layout:
            return Layout([Literal(_lines_of_all(dataset, shown[0]))])

        views["values.txt"] = View(
            rendered, is_arithmetic=False, is_text=True, variables=shown, writing=Writing.WHOLE
        )
    else:
        problems.append(f"values.txt: {count} elements of variable length are too many to render")
    if description.grid.chunk_count > FILE_BYTES_MAX:
        chunk_count = description.grid.chunk_count
        problems.append(f"chunks: {chunk_count} files are more than a directory can have")
    elif not has_chunks(variable):
        in_chunk = prod(description.chunk_shape)
        problems.append(f"chunks: {in_chunk} elements of variable length are too many to render")
    views[INFO] = View(lambda _: _info(dataset, variable, [*problems, *notes()]), is_text=True)
    return views


def chunk_view(dataset: Dataset, variable: Variable, chunk: ChunkIndex) -> View:
    """Return the file of a chunk: its elements, or for variable-length types a JSON list."""
    if variable.array.dtype.vlen is None:

        def decoded(shown: Variables) -> Layout:
            array = shown[0].array
            elements = ChunkElements(dataset.array(shown[0]), shown[0], chunk)
            return Layout([native_run(elements, array.dtype, prod(array.grid.extent(chunk)))])

        return View(decoded, variables=(variable,), writing=Writing.IN_PLACE)

    def rendered(shown: Variables) -> Layout:
        made = JsonText(dataset.url(f"{shown[0].path}/{CHUNKS}"), RENDERED_BYTES_MAX)
        with dataset.array(shown[0]).chunk(chunk, Tally()) as values:
            made.add_list(values)
        return Layout([Literal(made.taken())])

    return View(rendered, is_arithmetic=False, is_text=True, variables=(variable,))


def has_chunks(variable: Variable) -> bool:
    """Return whether the chunks of a variable can be shown as files."""
    description = variable.array
    if description.grid.chunk_count > FILE_BYTES_MAX:
        return False
    least = prod(description.chunk_shape) * _ITEM_BYTES_LEAST
    return description.dtype.vlen is None or least <= RENDERED_BYTES_MAX


def group_views(
    dataset: Dataset, header: GroupHeader, file_name: str, notes: Notes = tuple
) -> Mapping[str, View]:
    """Return the files of a group, by name; their names contain `file_name`."""
    opened = dataset.open_node(header.path)

    def described(_: Variables) -> Layout:
        node = opened.follow(dataset.node)
        if isinstance(node, Variable):  # it has become one
            return _info(dataset, node, list(notes()))
        more = notes()
        with PARSING.visit():
            return Layout([Literal(info.group_info(opened.follow(dataset.group), more))])

    def printed(_: Variables) -> Layout:
        from nczfs.cdl.printer import header as cdl_header  # a mount starts without

        with PARSING.visit():
            text = cdl_header(opened.follow(dataset.group), name=file_name)
            return Layout([Literal(text.encode("utf-8", "surrogateescape"))])

    return {
        f"{file_name}{CDL_SUFFIX}": View(printed, is_arithmetic=False, is_text=True),
        "info.json": View(described, is_arithmetic=False, is_text=True),
    }


def reserved_variable_names(file_name: str) -> frozenset[str]:
    """Return the names of a variable's virtual files."""
    return frozenset(
        (
            CHUNKS,
            ATTRIBUTES,
            *VARIABLE_VIEWS,
            PREVIEW,
            *(f"{file_name}{suffix}" for suffix in GROUP_SUFFIXES),
        )
    )


def reserved_group_names(file_name: str) -> frozenset[str]:
    """Return the names of a group's virtual files."""
    return frozenset(
        (
            INFO,
            ATTRIBUTES,
            ZOM,
            PREVIEW,
            *(f"{file_name}{suffix}" for suffix in GROUP_SUFFIXES),
        )
    )


def is_like_a_view(name: str) -> bool:
    """Return whether any virtual file has this name."""
    names = (*VARIABLE_VIEWS, ZOM, PREVIEW)
    return name in names or name.endswith(GROUP_SUFFIXES)


def shows_content(name: str) -> bool:
    """Return whether a group's file shows all of its content, so that an empty group lacks it."""
    return name == PREVIEW or name.endswith(GROUP_SUFFIXES)


def broken_view(path: str, problem: str) -> View:
    """Return the info.json of a node whose metadata cannot be read."""
    return View(lambda _: Layout([Literal(info.broken_info(path, problem))]), is_text=True)


def _info(dataset: Dataset, variable: Variable, problems: list[str]) -> Layout:
    with PARSING.visit():
        loaded = dataset.load(variable.path)  # the view may hold less of the variable
        if loaded is not None and isinstance(loaded.node, Variable):
            variable = loaded.node
            take(loaded.nbytes)
        problems = [*dataset.problems(variable), *problems]
        return Layout([Literal(info.variable_info(variable, problems))])


def _all_native(dataset: Dataset, variable: Variable) -> Run:
    elements = ArrayElements(dataset.array(variable), variable)
    return native_run(elements, variable.array.dtype, variable.array.size)


def _lines_of_all(dataset: Dataset, variable: Variable) -> bytes:
    """Return the lines of all elements of variable length, read row of chunks by row of chunks."""
    array = dataset.array(variable)
    array.require_codecs()  # refuses more dimensions than NumPy has
    place = dataset.url(f"{variable.path}/{LINES}")
    shown = JsonText(place, RENDERED_BYTES_MAX)
    for box in variable.array.grid.rows():
        with _held(dataset.engine, place) as hold:
            values = np.empty(box.shape, variable.array.dtype.native)
            for part in variable.array.grid.parts(box):
                index: tuple[Any, ...] = (*part.target.slices(), ...)
                piece = values[index]
                inside = part.target.relative_to(tuple(-n for n in box.start))
                array.read_box(inside, piece, Tally())
                hold(weight_of_values(piece))
            shown.add_lines(values)
    return shown.taken()


@contextmanager
def _held(engine: Engine, place: str) -> Iterator[Callable[[int], None]]:
    """Count memory in the budget of all caches during the block.

    Yields
    ------
    a function that takes the bytes of more memory. It raises CodecError beyond the budget.
    """
    held, most = 0, engine.options.memory_limit_bytes

    def hold(nbytes: int) -> None:
        nonlocal held
        held += nbytes
        engine.cache.claim(nbytes)
        if held > most:
            raise CodecError(f"{place}: a row of chunks takes more than {most} bytes of memory")

    try:
        yield hold
    finally:
        engine.cache.claim(-held)
