"""The files below the directory of a group or variable: views and chunks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from nczfs.errors import NoSuchPath, PathError
from nczfs.library.resolved import At, Broken
from nczfs.model.boxes import index_of
from nczfs.model.grid import ChunkIndex
from nczfs.model.hierarchy import GroupHeader, Variable
from nczfs.vfs.base import AttributeChanges
from nczfs.vfs.datasets.declaring import InfoFile
from nczfs.vfs.datasets.editing import refusal
from nczfs.vfs.datasets.hiding import NumberRuns
from nczfs.vfs.datasets.linesfile import LinesFile
from nczfs.vfs.datasets.valuesfile import ValuesFile
from nczfs.vfs.datasets.viewfile import ViewContext, ViewFile
from nczfs.vfs.nodes import File, NodeStat, NumberedDirectory, OpenFile, TreeNode
from nczfs.views import catalog
from nczfs.views.base import View, Writing
from nczfs.views.catalog import CDL_SUFFIX


class ChunksDirectory(NumberedDirectory):
    """The directory of a variable's decoded chunks: the whole grid, by arithmetic."""

    def __init__(self, context: ViewContext, at: At, variable: Variable) -> None:
        self._context = context
        self._at = at
        self._variable = variable
        self._counts = variable.array.grid.counts
        self._editing = context.editing_of(at.dataset)
        removing = self._editing.removing if self._editing is not None else None
        self._hidden: NumberRuns | None = None
        if removing is not None and removing.is_allowed:
            self._hidden = removing.hidden.chunks(at.dataset.prefix(at.path))

    @property
    def token(self) -> object:
        return (self._counts, self._variable.array.chunk_shape, self._variable.array.dtype.typestr)

    @property
    def count(self) -> int:
        return self._variable.array.grid.chunk_count

    def stat(self) -> NodeStat:
        return self.listing_stat()

    def listing_stat(self) -> NodeStat:
        return NodeStat(0, self._context.mtime_ns_of(self._at.loaded))

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

    def child(self, number: int) -> TreeNode:
        chunk = index_of(number, self._counts)
        return view_file(
            self._context,
            self._at,
            f"chunks/{self.name_of(number)}",
            catalog.chunk_view(self._at.dataset, self._variable, chunk),
        )

    def child_stat(self) -> NodeStat:
        array = self._variable.array
        mtime_ns = self._context.mtime_ns_of(self._at.loaded)
        if array.dtype.vlen is not None or array.cuts:
            return NodeStat(0, mtime_ns, exact=False)
        return NodeStat(array.chunk_bytes, mtime_ns)

    def is_shown(self, number: int) -> bool:
        return self._hidden is None or number not in self._hidden

    def lookup(self, name: str) -> TreeNode:
        return self.child(self._shown(name))

    def lookup_if_cached(self, name: str) -> TreeNode | None:
        number = self.number_of(name)
        return self.child(number) if number is not None and self.is_shown(number) else None

    def listing(self) -> Iterator[tuple[str, TreeNode]]:
        shown = filter(self.is_shown, range(self.count))
        return ((self.name_of(number), self.child(number)) for number in shown)

    def change(self, changes: AttributeChanges) -> None:
        self._context.check_changes(changes)

    def create(self, name: str, mode: int, *, exclusive: bool) -> tuple[File, OpenFile]:
        """Show a hidden chunk again, to be written."""
        number = self.number_of(name)
        if number is None or self._hidden is None or number not in self._hidden:
            raise self.refusal(name)
        file = self.child(number)
        assert isinstance(file, File)
        opened = file.open(writing=True, truncate=True)
        self._hidden.discard(number)
        return file, opened

    def unlink(self, name: str) -> None:
        """Hide the chunk, which stays in the store as long as its variable."""
        number = self._shown(name)
        if self._hidden is None:
            raise self.refusal(name)
        self._hidden.add(number)

    def refusal(self, name: str) -> PathError:
        return refusal(self._editing, name)

    def _shown(self, name: str) -> int:
        number = self.number_of(name)
        if number is None or not self.is_shown(number):
            raise NoSuchPath(f"{name}: no such chunk")
        return number

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


def broken_info(context: ViewContext, broken: Broken) -> ViewFile:
    """Return the info.json of a node whose metadata cannot be read."""
    view = catalog.broken_view(broken.path, broken.problem)
    return ViewFile(context, view, broken.problem, context.mtime_ns)


def view_file(context: ViewContext, at: At, name: str, view: View) -> File:
    """Return a view of a node as a file.

    Parameters
    ----------
    name : for the access log.
    """
    if not view.variables:
        return text_file(context, at, name, view)
    mtime_ns = context.mtime_ns_of(at.loaded)
    if not view.is_text:
        group = at.path if isinstance(at.loaded.node, GroupHeader) else None
        return ValuesFile(context, at.dataset, name, view, mtime_ns, group)
    arrays = tuple(at.dataset.array(variable).stored for variable in view.variables)
    token = tuple((array, array.revision) for array in arrays)
    if view.writing is Writing.WHOLE and context.editing_of(at.dataset) is not None:
        return LinesFile(context, view, token, mtime_ns, at)
    return ViewFile(context, view, token, mtime_ns)


def info_file(context: ViewContext, at: At, view: View) -> InfoFile:
    """Return the info.json of a group or variable."""
    versions = tuple(at.loaded.used.values())
    mtime_ns = context.mtime_ns_of(at.loaded)
    return InfoFile(context, view, versions, mtime_ns, at)


def text_file(context: ViewContext, at: At, name: str, view: View) -> ViewFile:
    """Return a text about a node as a file, which is replaced when its documents change."""
    versions = tuple(at.loaded.used.values())
    mtime_ns = context.mtime_ns_of(at.loaded)
    opened = at.dataset.open_node(at.path)
    file = ViewFile(
        context,
        view,
        versions,
        mtime_ns,
        lambda: at.dataset.edits.revision + context.refusals.revision,
        context.refusals.file(lambda: opened.prefix, name).check,
    )
    replacement = context.replacement
    if name.endswith(CDL_SUFFIX) and replacement is not None:
        file.is_replaced_by(partial(replacement, at.dataset, at.path, name))
    return file
