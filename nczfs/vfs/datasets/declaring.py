"""The info.json of a node; writing one to an empty group makes a variable."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from nczfs.engine.dataset import Dataset
from nczfs.engine.opennode import OpenNode
from nczfs.engine.structure.leftgroups import is_left
from nczfs.errors import (
    BadArgument,
    BadValue,
    CodecError,
    MetadataError,
    NoSuchNode,
    NotPermitted,
    NotWritable,
    StaleHandle,
    UsageError,
)
from nczfs.formats.jsontext import Unfinished
from nczfs.formats.registry import new_format
from nczfs.library.resolved import At
from nczfs.model.hierarchy import GroupHeader
from nczfs.vfs.datasets.editing import TreeEditing
from nczfs.vfs.datasets.held import HeldFile
from nczfs.vfs.datasets.judged import JudgedText, OpenJudged
from nczfs.vfs.datasets.landing import check_held
from nczfs.vfs.datasets.making import Making
from nczfs.vfs.datasets.refusals import RefusalsOfFile
from nczfs.vfs.datasets.viewfile import ViewContext, ViewFile
from nczfs.vfs.nodes import OpenFile
from nczfs.views.base import View
from nczfs.views.catalog import INFO, LINES, RAW
from nczfs.views.declaration import WantedNode, WantedVariable, wanted_node
from nczfs.zmap.keys import Prefix, join, relative

INFO_BYTES_MAX = 16 << 20


class InfoFile(ViewFile):
    """The file that describes a group or variable; a group's can be replaced by another's.

    An empty group becomes a variable if a variable's document is written to it. During a copy, and
    where that was interrupted, the document of a variable may be written once more.

    Parameters
    ----------
    at : the node as it was when it was looked up.
    """

    def __init__(
        self, context: ViewContext, view: View, token: object, mtime_ns: int, at: At
    ) -> None:
        dataset, node = at.dataset, at.dataset.open_node(at.path)
        self._refusals = context.refusals.file(lambda: node.prefix, INFO)
        super().__init__(
            context,
            view,
            token,
            mtime_ns,
            lambda: dataset.edits.revision + context.refusals.revision,
            self._refusals.check,
        )
        self._dataset = dataset
        self._node = node
        self._was_group = isinstance(at.loaded.node, GroupHeader)
        editing = context.editing_of(dataset)
        is_open = self._was_group or context.arrivals is not None
        is_open = is_open or (editing is not None and bool(at.path) and is_left(dataset, at.path))
        self._editing = editing if is_open else None
        self.writable = self._editing is not None
        self._has_become = False

    def open(self, *, writing: bool = False, truncate: bool = False) -> OpenFile:
        if self._has_become:
            # The kernel then looks the path up again, and finds the file of the variable.
            raise StaleHandle(f"/{self._node.path}/info.json: the group is a variable now")
        if not (writing or truncate):
            return super().open()
        if self._editing is None:
            raise NotPermitted("info.json: can only be read")
        return OpenDeclaration(
            self._context, self._editing, self._dataset, self._node, self._refusals, self._made
        )

    def _made(self) -> None:
        self._has_become = self._was_group


class OpenDeclaration(OpenJudged):
    """An info.json that is being written: the flush makes what it describes.

    The write that completes the document is refused if it describes nothing that can be made, and
    so is a write after which it can never become a document.

    Parameters
    ----------
    made : called when the variable was made.
    """

    def __init__(
        self,
        context: ViewContext,
        editing: TreeEditing,
        dataset: Dataset,
        node: OpenNode,
        refusals: RefusalsOfFile,
        made: Callable[[], None],
    ) -> None:
        self._context = context
        self._editing = editing
        self._dataset = dataset
        self._node = node
        self._made = made
        super().__init__(JudgedText(INFO, b"", INFO_BYTES_MAX, refusals, self._judge))

    def flush(self) -> None:
        with self._text.taken() as data:
            if data is None:
                return
            with self._refused():
                wanted = wanted_node(self._name, data)
                making = self._making(wanted)
                if self._context.arrivals is not None and isinstance(wanted, WantedVariable):
                    self._node.follow(lambda path: self._turn(path, making, wanted))
                else:
                    self._node.follow(lambda path: making.make(path, wanted))
            if self._context.arrivals is not None:
                self._context.arrivals.settle_format(self._dataset.root)
            if isinstance(wanted, WantedVariable):
                self._made()
                self._land()

    def _turn(self, path: str, making: Making, wanted: WantedVariable) -> None:
        """Make a variable of a copy, with the directories that came for arrays it declares."""
        arrivals = self._context.arrivals
        assert arrivals is not None
        with arrivals.making.closed(self._dataset.prefix(path)):
            came = [relative(each, path) for each in self._hollow_below(path)]
            making.make(path, wanted)
            for each in came:
                above, _, name = join(self._node.prefix, each).rpartition("/")
                arrivals.hidden.put(Prefix(above), name)

    def close(self) -> None:
        """Drop a document from which the last flush made no variable; its writer got the error."""

    def _judge(self, data: bytes) -> None:
        """Refuse a document that is complete and wrong, or can never be complete."""
        with self._refused(), suppress(Unfinished):
            wanted = wanted_node(self._name, data)
            making = self._making(wanted)
            described = self._node.follow(lambda path: making.check(path, wanted))
            if described is not None:
                check_held(described, self._held())

    def _making(self, wanted: WantedNode) -> Making:
        """Return its maker, with the document's format if the dataset has no final one."""
        dataset, arrivals = self._dataset, self._context.arrivals
        changed = None
        is_open = arrivals is not None and arrivals.is_format_open(dataset.root)
        if is_open and wanted.format not in (None, dataset.format.name):
            with suppress(UsageError):  # this version does not write that format
                changed = new_format(wanted.format, dataset.format_options)
        editor = self._editing.editor(dataset)
        return Making(editor, changed, takes_copies=arrivals is not None)

    def _hollow_below(self, path: str) -> Sequence[str]:
        """Return the empty groups below one, if all are; they give way to dependent arrays."""
        is_group = isinstance(self._dataset.node(path), GroupHeader)
        found = self._editing.editor(self._dataset).hollow_below(path) if is_group else None
        return found or ()

    def _held(self) -> dict[str, HeldFile]:
        arrivals = self._context.arrivals
        return {} if arrivals is None else arrivals.held_in(self._node.prefix)

    def _land(self) -> None:
        """Write the values that came before the variable was known.

        The close of a file that is still written to does that.
        """
        arrivals, prefix = self._context.arrivals, self._node.prefix
        for name, held in self._held().items():
            if arrivals is None or name not in (RAW, LINES) or not held.is_whole:
                continue
            # The last close of a file is known late: it may be whole, or part of what is to come.
            with suppress(*((BadArgument,) if held.is_open else ())):
                if not held.place() and not held.size and not held.is_open:
                    arrivals.hidden.put(prefix, name)
                    arrivals.let_go(prefix, name)

    @property
    def _name(self) -> str:
        return self._node.path.rpartition("/")[2]

    @contextmanager
    def _refused(self) -> Iterator[None]:
        """Turn errors of the document into errors of a file."""
        try:
            yield
        except NotWritable as error:
            raise NotPermitted(str(error)) from error
        except (BadValue, CodecError, MetadataError, NoSuchNode, UsageError) as error:
            why = str(error).removeprefix(f"{INFO}: ")
            raise BadArgument(f"/{self._node.path}/{INFO}: {why}") from error
