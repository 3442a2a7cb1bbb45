"""netCDF files and CDL that programs put into a group: imported at the close."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field
from functools import partial
from math import prod
from typing import TYPE_CHECKING

from nczfs.buffers import Buffer
from nczfs.engine.dataset import Dataset
from nczfs.engine.structure.replacing import can_replace
from nczfs.errors import (
    BadArgument,
    CorruptStore,
    ForeignObjects,
    MetadataError,
    NczfsError,
    NotPermitted,
    NotWritable,
    PathExists,
    ReadOnlyStore,
    StaleHandle,
    Unsupported,
    UsageError,
)
from nczfs.model.hierarchy import CodecSpec
from nczfs.plaindata import frozen
from nczfs.vfs.datasets.arrivals import goal_of
from nczfs.vfs.datasets.editing import TreeEditing
from nczfs.vfs.datasets.held import HeldFile
from nczfs.vfs.datasets.heldfiles import HeldFiles
from nczfs.vfs.datasets.running import RunningImports
from nczfs.vfs.datasets.viewfile import ViewContext
from nczfs.vfs.nodes import File, OpenFile
from nczfs.views.catalog import CDL_SUFFIX, CHUNKS, is_like_a_view
from nczfs.views.netcdf.kinds import NETCDF_SUFFIXES
from nczfs.zmap.keys import Prefix, join

if TYPE_CHECKING:
    from nczfs.tools.transfer.source import Source

log = logging.getLogger(__name__)

CDL_BYTES_MAX = 256 << 20
MEMORY_SHARE = 4
VALUES_BYTES_LEAST = 1 << 30
EXPANSION_MAX = 2000  # deflate makes up to 1,032 bytes of one


@frozen
class ImportOptions:
    """The form of variables that are imported through a mount.

    Attributes
    ----------
    chunks : lengths of chunks by the names of dimensions; of others as in the file, or by default.
    codecs : in encoding order; None: as in the file, or by default.
    replaces : whether a file may replace the content of its group.
    """

    chunks: Mapping[str, int] = field(default_factory=dict)
    codecs: tuple[CodecSpec, ...] | None = None
    replaces: bool = False


class ImportedFile(HeldFile):
    """A held file that is to be imported; one that was refused goes when it is closed.

    Attributes
    ----------
    dropped : called when it goes.
    """

    waits_for = "they were not given the name of their group's netCDF file or CDL"
    dropped: Callable[[], object] = staticmethod(lambda: None)
    _is_incomplete = False
    _is_refused = False

    def write(self, offset: int, data: Buffer) -> None:
        try:
            super().write(offset, data)
        except BaseException:
            self._is_incomplete = True
            raise

    def _cut(self, size: int) -> None:
        super()._cut(size)
        if not size:
            self._is_incomplete = False

    def place(self) -> bool:
        """Import the file if its name says so. Raises BadArgument after a write that failed."""
        try:
            found = super().place()
        except BaseException:
            self._is_refused = True  # and not before: who closes the file meanwhile drops it then
            raise
        self._is_refused = False
        return found

    def _put(self, place: Callable[[HeldFile], bool]) -> bool:
        if self._is_incomplete:
            raise BadArgument(f"{self.name}: is not imported, because a write to it has failed")
        return super()._put(place)

    def closed(self) -> None:
        super().closed()
        if self._is_refused and not self.is_open:
            self.dropped()

    @contextmanager
    def path(self) -> Iterator[str]:
        """Return the file's place on this machine; nothing is written to it in the block."""
        with self._lock:
            self._check()
            yield str(self._staged.path)


class ReplacingFile(ImportedFile):
    """What a program writes to the open file of a group that has content."""

    _is_taken = False

    def open(self, *, writing: bool = False, truncate: bool = False) -> OpenFile:
        if self._is_taken:
            raise StaleHandle(f"{self.name}: is being replaced")
        self._is_taken = True
        return super().open(writing=writing, truncate=truncate)

    def closed(self) -> None:
        super().closed()
        if not self.is_open:
            self.let_go()


@frozen
class GroupImport:
    """The files that come into one group.

    Attributes
    ----------
    dataset, path : of the group.
    stem : of the names of the group's files.
    running : the imports under way.
    replaced : called with the prefix of a group after its content was replaced.
    """

    context: ViewContext
    editing: TreeEditing
    held: HeldFiles
    dataset: Dataset
    path: str
    stem: str
    options: ImportOptions
    running: RunningImports
    replaced: Callable[[Prefix], None]

    @property
    def _prefix(self) -> Prefix:
        return self.dataset.prefix(self.path)

    @property
    def names(self) -> frozenset[str]:
        """The names of files that are imported."""
        return frozenset(self.stem + suffix for suffix in (*NETCDF_SUFFIXES, CDL_SUFFIX))

    def takes(self, name: str) -> bool:
        """Return whether a file is taken: none of those that `cp -r` of a dataset brings."""
        goal = goal_of(name) or name
        if goal in self.names:
            return True
        refused = set(self.context.refusals.names(self._prefix)).difference(self.names)
        if any(each == CHUNKS or is_like_a_view(goal_of(each) or each) for each in refused):
            return False  # the others of a copy come now
        return goal.endswith(NETCDF_SUFFIXES) or not is_like_a_view(goal)

    def create(self, name: str, *, exclusive: bool) -> tuple[File, OpenFile]:
        """Make a file, whatever its name: many programs rename what they have written.

        Raises
        ------
        PathExists. NoSpace : there is no room to hold it.
        """
        place = self._place(name)
        held = self.held.hold(self._prefix, name, place, exclusive=exclusive, kind=ImportedFile)
        assert isinstance(held, ImportedFile)
        held.dropped = partial(self._drop, held, name)
        return held, held.open(writing=True)

    def _drop(self, held: HeldFile, name: str) -> None:
        """Release a file that was refused, and show what it was to replace."""
        self.held.release(held)
        self._show_again(name)

    def _show_again(self, name: str) -> None:
        """Show the file that a program removed to put another one in its place."""
        from nczfs.tools.transfer.group_target import is_empty  # a mount starts without

        hidden = self.editing.removing.hidden
        with suppress(NczfsError):
            if hidden.is_hidden(self._prefix, name) and not is_empty(self.dataset, self.path):
                hidden.put(self._prefix, name)
                self.dataset.joined(self.path)

    def replacement(self, name: str) -> OpenFile:
        """Open a file that takes new content of the group; its readers see the present one."""
        held = self.held.apart(self._prefix, name, self._place(name), kind=ReplacingFile)
        opened = held.open(writing=True)
        opened.own_node = held
        return opened

    def rename(self, name: str, new_name: str, *, is_free: bool) -> None:
        """Rename a held file, and import it if it has the name of the group's file now."""
        if not is_free:
            raise PathExists(f"{new_name}: is there already")
        place = self._place(new_name)
        self.held.move(self._prefix, name, new_name, place)
        moved = self.held.get(self._prefix, new_name)
        if isinstance(moved, ImportedFile) and moved.is_whole:
            try:
                moved.place()
            except BaseException:
                with suppress(StaleHandle):  # it went when it was closed
                    self.held.move(self._prefix, new_name, name, self._place(name))
                raise

    def _place(self, name: str) -> Callable[[HeldFile], bool]:
        return partial(self._import, name) if name in self.names else _nowhere

    def _import(self, name: str, held: HeldFile) -> bool:
        """Import a file that is complete. Returns False for an empty one."""
        if not held.size:
            return False
        from nczfs.tools.transfer.cdl_source import cdl_source  # a mount starts without

        assert isinstance(held, ImportedFile)
        where = f"/{self.path}/{name}" if self.path else f"/{name}"
        prefix = self._prefix
        try:
            with self.context.refusals.file(lambda: prefix, name).noted(), _judged():
                if name.endswith(CDL_SUFFIX):
                    self._fill(name, cdl_source(_text(held, where), where), held.size)
                else:
                    self._fill_from_netcdf(held, name, where)
        except BaseException:
            self._show_again(name)
            raise
        if self.held.get(prefix, name) is held:
            self.held.let_go(prefix, name)
        return True

    def _fill_from_netcdf(self, held: ImportedFile, name: str, where: str) -> None:
        from nczfs.tools.transfer.completeness import check_complete
        from nczfs.tools.transfer.reading_process import read_apart

        note = partial(log.info, "%s: %s", where)
        with held.path() as path:
            check_complete(path, where)
            with read_apart(path, where, note, self._memory_bytes, skip_unsupported=False) as found:
                self._fill(name, found, held.size)

    @property
    def _memory_bytes(self) -> int:
        return self.context.engine.options.memory_limit_bytes // MEMORY_SHARE

    def _fill(self, name: str, source: Source, size: int) -> None:
        from nczfs.tools.transfer.choices import Choices, chosen, with_usual_chunks
        from nczfs.tools.transfer.group_target import fill_group, is_empty, replace_group
        from nczfs.tools.transfer.source import Scopes

        dataset, path = self.dataset, self.path
        known = Scopes(source.root).names
        chunks = {name: n for name, n in self.options.chunks.items() if name in known}
        source = chosen(with_usual_chunks(source), Choices(chunks, self.options.codecs))
        limit = self._memory_bytes
        _check_values(source, size)
        editor = self.editing.editor
        total = max(1, source.nbytes)
        with self.running.running(join(self._prefix, name), total) as progress:
            if is_empty(dataset, path):
                fill_group(source, dataset, path, editor, limit, progress)
            elif self.can_replace:
                try:
                    replace_group(source, dataset, path, editor, limit, progress)
                finally:
                    self.replaced(self._prefix)
            else:
                raise NotPermitted(f"/{path}: has content meanwhile")

    @property
    def can_replace(self) -> bool:
        """Whether the content of the group may and can be replaced."""
        return self.options.replaces and can_replace(self.dataset)


@contextmanager
def _judged() -> Iterator[None]:
    """Turn errors of the file into those of a program's argument; those of the store stay."""
    try:
        yield
    except (CorruptStore, MetadataError, Unsupported, UsageError) as error:
        raise BadArgument(f"{error}: nothing is imported") from error
    except (ForeignObjects, NotWritable, ReadOnlyStore) as error:
        raise NotPermitted(f"{error}: nothing is imported") from error


def _check_values(source: Source, size: int) -> None:
    """Raise Unsupported if a file has far more values than its bytes can say.

    A program cannot end its own close, and a file of a kilobyte may declare values that take years
    to look at.
    """
    values = sum(prod(each.shape) * each.item_bytes for each in source.contents.values())
    if values > max(VALUES_BYTES_LEAST, EXPANSION_MAX * size):
        raise Unsupported(
            f"{source.name}: declares {values} bytes of values, and has {size}; `nczfs import` and "
            "`nczfs create` take such files"
        )


def _nowhere(_: HeldFile) -> bool:
    return False


def _text(held: HeldFile, where: str) -> str:
    if held.size > CDL_BYTES_MAX:
        raise NotPermitted(f"{where}: CDL of more than {CDL_BYTES_MAX} bytes; use `nczfs create`")
    return held.read(0, held.size).decode("utf-8", "surrogateescape")
