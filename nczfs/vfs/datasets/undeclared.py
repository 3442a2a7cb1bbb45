"""New directories in that of a variable; an info.json makes each an array that depends on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from nczfs.engine.structure.dependents import check, declare, declaring_array
from nczfs.errors import (
    BadArgument,
    BadValue,
    CodecError,
    MetadataError,
    NameTaken,
    NoSuchNode,
    NoSuchPath,
    NotPermitted,
    NotWritable,
    PathError,
    StaleHandle,
    UsageError,
)
from nczfs.formats.jsontext import Unfinished
from nczfs.formats.zarr3.dependents import fault_of_name
from nczfs.library.resolved import At
from nczfs.model.hierarchy import Json
from nczfs.plaindata import frozen
from nczfs.vfs.base import AttributeChanges
from nczfs.vfs.datasets.declaring import INFO_BYTES_MAX
from nczfs.vfs.datasets.dependentinfo import partial_of
from nczfs.vfs.datasets.editing import TreeEditing
from nczfs.vfs.datasets.judged import JudgedText, OpenJudged
from nczfs.vfs.datasets.viewfile import ViewContext
from nczfs.vfs.nodes import Directory, File, NodeStat, OpenFile, TreeNode
from nczfs.views.catalog import INFO
from nczfs.zmap.keys import Prefix, join


@frozen
class Undeclared:
    """The directories in that of a variable that wait for an info.json.

    Nothing of them is stored: they are gone when the mount ends.

    Parameters
    ----------
    at : the variable.
    member : returns the directory of the array of a name.
    """

    context: ViewContext
    editing: TreeEditing
    at: At
    member: Callable[[str], Directory]

    def found(self) -> Mapping[str, WaitingDirectory]:
        """Return those that are there, by name."""
        hidden = self.editing.removing.hidden
        names = hidden.kept_in(self._prefix) if hidden.keeps_any else ()
        return {name: WaitingDirectory(self, name) for name in names}

    def make(self, name: str) -> WaitingDirectory:
        """Make one. Raises BadArgument, NotPermitted."""
        if (fault := fault_of_name(name)) is not None:
            raise BadArgument(f"{name}: cannot be the name of an array: {fault}")
        try:
            declaring_array(self.at.dataset, self.at.path)
        except (NotWritable, NoSuchNode) as error:
            raise NotPermitted(f"{name}: {error}") from error
        self.editing.removing.hidden.keep(self.prefix_of(name))
        return WaitingDirectory(self, name)

    def prefix_of(self, name: str) -> Prefix:
        """Return the prefix of a directory."""
        return Prefix(join(self._prefix, name))

    def waits(self, name: str) -> bool:
        """Return whether a directory still waits."""
        return self.editing.removing.hidden.is_kept(self.prefix_of(name))

    def drop(self, name: str) -> None:
        """Show a directory no longer, unless there is something to show."""
        self.editing.removing.hidden.forget(self.prefix_of(name))

    @property
    def _prefix(self) -> Prefix:
        return self.at.dataset.prefix(self.at.path)


class WaitingDirectory(Directory):
    """A directory that waits for its info.json, and then is that of the array."""

    def __init__(self, undeclared: Undeclared, name: str) -> None:
        self._undeclared = undeclared
        self._name = name

    def stat(self) -> NodeStat:
        return self.listing_stat()

    def listing_stat(self) -> NodeStat:
        at = self._undeclared.at
        return NodeStat(0, self._undeclared.context.mtime_ns_of(at.loaded))

    def change(self, changes: AttributeChanges) -> None:
        self._undeclared.context.check_changes(changes)

    def lookup(self, name: str) -> TreeNode:
        if (member := self._member) is not None:
            return member.lookup(name)
        raise NoSuchPath(f"{name}: no such file")

    def listing(self) -> Iterator[tuple[str, TreeNode]]:
        member = self._member
        return iter(()) if member is None else member.listing()

    def create(self, name: str, mode: int, *, exclusive: bool) -> tuple[File, OpenFile]:
        if (member := self._member) is not None:
            return member.create(name, mode, exclusive=exclusive)
        if name != INFO:
            raise self.refusal(name)
        file = _NewInfo(self._undeclared, self._name)
        return file, file.opened

    def refusal(self, name: str) -> PathError:
        return NotPermitted(
            f"{name}: {self._name!r} becomes an array by the {INFO} that is written into it"
        )

    def drop(self) -> None:
        """Show it no longer."""
        self._undeclared.drop(self._name)

    @property
    def _member(self) -> Directory | None:
        if self._undeclared.waits(self._name):
            return None
        return self._undeclared.member(self._name)


class _NewInfo(File):
    """The info.json that a program is writing."""

    writable = True

    def __init__(self, undeclared: Undeclared, name: str) -> None:
        self._undeclared = undeclared
        self._name = name
        self.opened = _OpenNewInfo(undeclared, name)

    def stat(self) -> NodeStat:
        if not self._undeclared.waits(self._name):
            # The kernel then looks the path up again, and finds the file of the array.
            raise StaleHandle(f"{self._name}/{INFO}: is that of an array now")
        return self.listing_stat()

    def listing_stat(self) -> NodeStat:
        mtime_ns = self._undeclared.context.mtime_ns_of(self._undeclared.at.loaded)
        return NodeStat(self.opened.size, mtime_ns, exact=self._undeclared.waits(self._name))

    def change(self, changes: AttributeChanges) -> None:
        self._undeclared.context.check_changes(changes)

    def open(self, *, writing: bool = False, truncate: bool = False) -> OpenFile:
        self.stat()
        if truncate:
            self.opened = _OpenNewInfo(self._undeclared, self._name)
        return self.opened


class _OpenNewInfo(OpenJudged):
    """The info.json of a new array: the flush declares it.

    The write that completes the document is refused if no array can be made of it.
    """

    def __init__(self, undeclared: Undeclared, name: str) -> None:
        self._undeclared = undeclared
        self._name = name
        self._node = undeclared.at.dataset.open_node(undeclared.at.path)
        # Its own directory shows no problems: those of the variable tell why it was refused.
        refusals = undeclared.context.refusals.file(lambda: self._node.prefix, f"{name}/{INFO}")
        super().__init__(JudgedText(INFO, b"", INFO_BYTES_MAX, refusals, self._judge))

    def flush(self) -> None:
        with self._text.taken() as data:
            if data is None:
                return
            with self._refused():
                dataset, partial = self._undeclared.at.dataset, self._partial(data)
                self._node.follow(lambda path: declare(dataset, path, self._name, partial))
            self._undeclared.drop(self._name)

    def close(self) -> None:
        """Drop a document of which the last flush made no array; its writer got the error."""

    def _judge(self, data: bytes) -> None:
        with self._refused(), suppress(Unfinished):
            dataset, partial = self._undeclared.at.dataset, self._partial(data)
            self._node.follow(lambda path: check(dataset, path, self._name, partial))

    def _partial(self, data: bytes) -> Json:
        dataset = self._undeclared.at.dataset
        primary = self._node.follow(lambda path: declaring_array(dataset, path))
        return partial_of(self._undeclared.editing.editor(dataset), primary, self._name, data)

    @contextmanager
    def _refused(self) -> Iterator[None]:
        """Turn errors of the document into errors of a file."""
        place = f"/{self._node.path}/{self._name}/{INFO}"
        try:
            yield
        except NotWritable as error:
            raise NotPermitted(f"{place}: {error}") from error
        except (BadValue, CodecError, MetadataError, NameTaken, NoSuchNode, UsageError) as error:
            why = str(error).removeprefix(f"{INFO}: ")
            raise BadArgument(f"{place}: {why}") from error
