"""What stands below the directory of a group or variable: views, chunks, attributes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from nczfs import metrics
from nczfs.engine.dataset import Dataset, Loaded
from nczfs.errors import NoSuchPath
from nczfs.model.boxes import index_of
from nczfs.model.grid import ChunkIndex
from nczfs.model.hierarchy import Attribute, GroupHeader, Variable
from nczfs.vfs.nodes import Directory, Node, NodeStat, NumberedDirectory
from nczfs.vfs.viewfile import ViewContext, ViewFile
from nczfs.views import catalog
from nczfs.views.catalog import View


@dataclass(frozen=True, slots=True)
class Plain:
    """A prefix that is no node of a dataset."""


@dataclass(frozen=True, slots=True)
class At:
    """A group or variable of a dataset."""

    dataset: Dataset
    path: str
    loaded: Loaded

    @property
    def lists_members(self) -> bool:
        """Whether the group's own metadata say what its members are (NCZarr)."""
        node = self.loaded.node
        return isinstance(node, GroupHeader) and node.arrays is not None


@dataclass(frozen=True, slots=True)
class Broken:
    """A node whose metadata cannot be read, and why."""

    path: str
    problem: str


Resolved: TypeAlias = "Plain | At | Broken"


class ChunksDirectory(NumberedDirectory):
    """The decoded chunks of a variable: the whole grid, made by arithmetic."""

    def __init__(self, context: ViewContext, at: At, variable: Variable) -> None:
        self._context = context
        self._at = at
        self._variable = variable
        self._counts = variable.array.grid.counts

    @property
    def token(self) -> object:
        return (self._counts, self._variable.array.chunk_shape, self._variable.array.dtype.typestr)

    @property
    def count(self) -> int:
        return self._variable.array.grid.chunk_count

    def stat(self) -> NodeStat:
        return self.listing_stat()

    def listing_stat(self) -> NodeStat:
        return NodeStat(0, self._at.loaded.mtime_ns or self._context.mtime_ns)

    def name_of(self, number: int) -> str:
        return ".".join(map(str, index_of(number, self._counts))) or "0"

    def number_of(self, name: str) -> int | None:
        chunk = self._parse(name)
        if chunk is None or chunk not in self._variable.array.grid:
            return None
        number = 0
        for index, count in zip(chunk, self._counts, strict=True):
            number = number * count + index
        return number

    def child(self, number: int) -> Node:
        view = catalog.chunk_view(self._at.dataset, self._variable, index_of(number, self._counts))
        return view_file(self._context, self._at, f"chunks/{self.name_of(number)}", view)

    def child_stat(self) -> NodeStat:
        array = self._variable.array
        mtime_ns = self._at.loaded.mtime_ns or self._context.mtime_ns
        if array.dtype.vlen is not None:
            return NodeStat(0, mtime_ns, exact=False)
        return NodeStat(array.chunk_bytes, mtime_ns)

    def lookup(self, name: str) -> Node:
        number = self.number_of(name)
        if number is None:
            raise NoSuchPath(f"{name}: no such chunk")
        return self.child(number)

    def lookup_if_cached(self, name: str) -> Node | None:
        number = self.number_of(name)
        return self.child(number) if number is not None else None

    def listing(self) -> Iterator[tuple[str, Node]]:
        return ((self.name_of(number), self.child(number)) for number in range(self.count))

    def _parse(self, name: str) -> ChunkIndex | None:
        if not self._counts:
            return () if name == "0" else None
        words = name.split(".")
        if len(words) != len(self._counts) or len(name) > 1 + 20 * len(self._counts):
            return None
        if not all(word.isascii() and word.isdigit() for word in words):
            return None
        chunk = tuple(map(int, words))
        return chunk if ".".join(map(str, chunk)) == name else None


class AttributesDirectory(Directory):
    """A file for each attribute."""

    def __init__(self, context: ViewContext, at: At) -> None:
        self._context = context
        self._at = at

    def stat(self) -> NodeStat:
        return self.listing_stat()

    def listing_stat(self) -> NodeStat:
        return NodeStat(0, self._at.loaded.mtime_ns or self._context.mtime_ns)

    def lookup(self, name: str) -> Node:
        for shown, node in self.listing():
            if shown == name:
                return node
        raise NoSuchPath(f"{name}: no such attribute")

    def lookup_if_cached(self, name: str) -> Node | None:
        return next((node for shown, node in self.listing() if shown == name), None)

    def listing(self) -> Iterator[tuple[str, Node]]:
        for attribute in self._at.loaded.node.attributes:
            view = catalog.attribute_view(attribute)
            name = attribute_file_name(attribute)
            if name is not None:
                yield name, view_file(self._context, self._at, f"attributes/{name}", view)
            else:
                metrics.HIDDEN_KEYS.inc()


def broken_info(context: ViewContext, broken: Broken) -> ViewFile:
    """The info.json of a node whose metadata cannot be read."""
    view = catalog.broken_view(broken.path, broken.problem)
    return ViewFile(context, view, "info.json", broken.problem, context.mtime_ns)


def view_file(context: ViewContext, at: At, name: str, view: View) -> ViewFile:
    """A view of a node as a file; `name` is what the access log calls it."""
    node = at.loaded.node
    mtime_ns = at.loaded.mtime_ns or context.mtime_ns
    if view.holds_values and isinstance(node, Variable):
        token = at.dataset.array(node).number
        return ViewFile(context, view, name, token, mtime_ns, (at.dataset, node))
    versions = tuple(version.token for version in at.loaded.used.values())
    return ViewFile(context, view, name, versions, mtime_ns)


def attribute_file_name(attribute: Attribute) -> str | None:
    """The name of an attribute's file: its own, with "/" percent-encoded; None when too long."""
    name = attribute.name.replace("/", "%2F").replace("\0", "%00")
    if name in {".", ".."}:
        name = name.replace(".", "%2E")
    return name if name and len(name.encode("utf-8", "surrogateescape")) <= 255 else None
