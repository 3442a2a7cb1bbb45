"""The virtual files of a variable, a chunk and a group, and their content."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np

from nczfs.engine.dataset import Dataset
from nczfs.engine.loaded import Values
from nczfs.engine.options import Tally
from nczfs.formats.cdl import printer as cdl
from nczfs.model.grid import ChunkIndex
from nczfs.model.hierarchy import GroupHeader, Variable
from nczfs.views import info, npy, text
from nczfs.views.elements import ArrayElements, ChunkElements
from nczfs.views.layout import Layout, native_run
from nczfs.views.segments import Literal, Run

RENDERED_BYTES_MAX = 64 << 20
"""Variable-length elements are shown as text up to so many decoded bytes."""

FILE_BYTES_MAX = (1 << 63) - (1 << 32)
"""No system has larger files; the last 4 GiB are left to headers."""

CHUNKS = "chunks"
ATTRIBUTES = "attributes"
INFO = "info.json"
RAW = "values.raw"
LINES = "values.txt"
VARIABLE_VIEWS = ("values.raw", "values.npy", "values.txt", "info.json")
LATER_VARIABLE_NAMES = ("preview.png",)
LATER_GROUP_SUFFIXES = (".nc", ".classic.nc", ".ncs")
LATER_GROUP_NAMES = ("zom.json", "preview.png")


@dataclass(frozen=True, slots=True)
class View:
    """A virtual file.

    Attributes
    ----------
    build : makes the layout; may block when `is_arithmetic` is false.
    is_arithmetic : the layout, and so the size, follows from the variable's description alone.
    holds_values : reading it reads chunks of the variable.
    """

    build: Callable[[], Layout]
    is_arithmetic: bool = True
    holds_values: bool = False


Notes: TypeAlias = Callable[[], tuple[str, ...]]
"""What is to be said of a node besides what is wrong with it."""


def variable_views(
    dataset: Dataset, variable: Variable, notes: Notes = tuple
) -> Mapping[str, View]:
    """The files of a variable, by name, the attributes and chunks left out.

    Parameters
    ----------
    notes : stand among the problems of its info.json.
    """
    description = variable.array
    dtype, count = description.dtype, description.size
    views: dict[str, View] = {}
    problems: list[str] = []

    def show(name: str, build: Callable[[], Layout], size: int) -> None:
        if size > FILE_BYTES_MAX:
            problems.append(f"{name}: {size} bytes are more than a file can have")
        else:
            views[name] = View(build, holds_values=True)

    if dtype.vlen is None:

        def raw() -> Layout:
            elements = ArrayElements(dataset.array(variable), variable)
            return Layout([native_run(elements, dtype, count)])

        def saved() -> Layout:
            elements = ArrayElements(dataset.array(variable), variable)
            header = Literal(npy.header(description.shape, dtype.native))
            return Layout([header, native_run(elements, dtype, count)])

        show("values.raw", raw, count * dtype.native.itemsize)
        show("values.npy", saved, count * dtype.native.itemsize)
        form = text.text_form(dtype)
        if form is not None:

            def lines() -> Layout:
                elements = ArrayElements(dataset.array(variable), variable)
                return Layout([Run(elements, form, 0, count)])

            show("values.txt", lines, count * form.width)
    elif count * dtype.native.itemsize <= RENDERED_BYTES_MAX:

        def rendered() -> Layout:
            return Layout([Literal(text.json_lines(_all_values(dataset, variable)))])

        views["values.txt"] = View(rendered, is_arithmetic=False, holds_values=True)
    else:
        problems.append(f"values.txt: {count} elements of variable length are too many to render")
    if description.grid.chunk_count > FILE_BYTES_MAX:
        chunk_count = description.grid.chunk_count
        problems.append(f"chunks: {chunk_count} files are more than a directory can have")
    views[INFO] = View(lambda: _info(dataset, variable, [*problems, *notes()]))
    return views


def chunk_view(dataset: Dataset, variable: Variable, chunk: ChunkIndex) -> View:
    """The file of one chunk: its elements, or for variable-length types a JSON list of them."""
    description = variable.array
    if description.dtype.vlen is None:

        def decoded() -> Layout:
            elements = ChunkElements(dataset.array(variable), variable, chunk)
            return Layout([native_run(elements, description.dtype, prod(description.chunk_shape))])

        return View(decoded, holds_values=True)

    def rendered() -> Layout:
        with dataset.array(variable).chunk(chunk, Tally()) as values:
            return Layout([Literal(text.json_list(values))])

    return View(rendered, is_arithmetic=False, holds_values=True)


def has_chunks(variable: Variable) -> bool:
    """Whether the chunks of a variable can be shown as files."""
    description = variable.array
    if description.grid.chunk_count > FILE_BYTES_MAX:
        return False
    return description.dtype.vlen is None or description.chunk_bytes <= RENDERED_BYTES_MAX


def group_views(
    dataset: Dataset, header: GroupHeader, file_name: str, notes: Notes = tuple
) -> Mapping[str, View]:
    """The files of a group, by name; `file_name` is what they are called after."""

    def described() -> Layout:
        node = dataset.node(header.path)
        if isinstance(node, Variable):  # it has become one
            return _info(dataset, node, list(notes()))
        return Layout([Literal(info.group_info(dataset.group(header.path), notes()))])

    def printed() -> Layout:
        text = cdl.header(dataset.group(header.path), name=file_name)
        return Layout([Literal(text.encode("utf-8", "surrogateescape"))])

    return {
        f"{file_name}.cdl": View(printed, is_arithmetic=False),
        "info.json": View(described, is_arithmetic=False),
    }


def reserved_group_names(file_name: str) -> frozenset[str]:
    """The names that mean a virtual file in a group's directory, now or in a later version."""
    return frozenset(
        (
            f"{file_name}.cdl",
            "info.json",
            ATTRIBUTES,
            *LATER_GROUP_NAMES,
            *(f"{file_name}{suffix}" for suffix in LATER_GROUP_SUFFIXES),
        )
    )


def broken_view(path: str, problem: str) -> View:
    """The info.json of a node whose metadata cannot be read."""
    return View(lambda: Layout([Literal(info.broken_info(path, problem))]))


def _info(dataset: Dataset, variable: Variable, problems: list[str]) -> Layout:
    problems = [*dataset.problems(variable), *problems]
    return Layout([Literal(info.variable_info(variable, problems))])


def _all_values(dataset: Dataset, variable: Variable) -> Values:
    description = variable.array
    values = np.empty(description.size, description.dtype.native)
    dataset.array(variable).read_run(0, values, Tally())
    return values
