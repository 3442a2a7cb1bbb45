"""Making, renaming and removing files in a new directory of ``datasets/`` during a copy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from nczfs.errors import NoSuchPath, NotPermitted, ObjectTooLarge, PathExists
from nczfs.formats.base import Node
from nczfs.library.resolved import At
from nczfs.model.hierarchy import Variable
from nczfs.plaindata import frozen
from nczfs.vfs.datasets.arrivals import Arrivals, goal_of
from nczfs.vfs.datasets.choice import copied_names
from nczfs.vfs.datasets.declaring import INFO_BYTES_MAX
from nczfs.vfs.datasets.filling import Filling
from nczfs.vfs.datasets.held import HeldFile
from nczfs.vfs.datasets.heldfiles import HeldFiles
from nczfs.vfs.datasets.landing import land
from nczfs.vfs.datasets.valuesfile import ValuesFile
from nczfs.vfs.datasets.viewfile import ViewContext
from nczfs.vfs.nodes import File, OpenFile, TreeNode
from nczfs.views.catalog import INFO, LINES, RAW
from nczfs.zmap.keys import Prefix


@frozen
class NodeArrivals:
    """The files of one group or variable, which come in one by one.

    Attributes
    ----------
    files : makers of its files, hidden or not.
    """

    context: ViewContext
    arrivals: Arrivals
    at: At
    files: Mapping[str, Callable[[], TreeNode]]

    @property
    def _prefix(self) -> Prefix:
        return self.at.dataset.prefix(self.at.path)

    @property
    def _is_variable(self) -> bool:
        return isinstance(self._node, Variable)

    def takes(self, name: str) -> bool:
        """Return whether a file of a copy has that name, now or later."""
        return name in self._possible or goal_of(name) in self._possible

    def create(self, name: str, *, exclusive: bool) -> tuple[File, OpenFile]:
        """Make a file that a copy of a dataset has, or one that gets its name later.

        Raises
        ------
        NotPermitted : it is neither. NoSpace : it has to be held, and there is no room for it.
        """
        if goal_of(name) in self._possible:
            held = self.arrivals.hold(self._prefix, name, _nowhere, exclusive=exclusive)
            return held, held.open(writing=True)
        if name not in self._possible:
            raise NotPermitted(f"{name}: {self._refusal}")
        if name not in self.files:
            place = partial(self._land, name)
            held = self.arrivals.hold(self._prefix, name, place, exclusive=exclusive)
            return held, held.open(writing=True)
        file = self.files[name]()
        assert isinstance(file, File)
        if isinstance(file, ValuesFile):
            opened: OpenFile = Filling(file, self.context.refusals.file(lambda: self._prefix, name))
        else:
            opened = file.open(writing=True, truncate=True)
        self.arrivals.hidden.put(self._prefix, name)
        return file, opened

    def rename(self, name: str, new_name: str, held: HeldFile, *, is_free: bool) -> None:
        """Rename a held file, whose contents belong to the new name from now on."""
        if not is_free:
            raise PathExists(f"{new_name}: is there already")
        if new_name == INFO:
            self._write_info(held)
        elif new_name in self._possible:
            self._name_values(name, new_name, held)
            return
        elif goal_of(new_name) in self._possible:
            self.arrivals.move(self._prefix, name, new_name, _nowhere)
            return
        else:
            raise NotPermitted(f"{new_name}: {self._refusal}")
        self.arrivals.let_go(self._prefix, name)

    def _name_values(self, name: str, new_name: str, held: HeldFile) -> None:
        """Give values their name, and write them if their variable is known.

        They get the name first: the group may become a variable meanwhile, which then takes those
        that have it.
        """
        self.arrivals.move(self._prefix, name, new_name, partial(self._land, new_name))
        try:
            is_placed = held.place()
        except BaseException:
            place = partial(self._land, name) if name in self._possible else _nowhere
            self.arrivals.move(self._prefix, new_name, name, place)
            raise
        if not is_placed and not held.size and self._is_variable:
            self.arrivals.hidden.put(self._prefix, new_name)
            self.arrivals.let_go(self._prefix, new_name)

    @property
    def _node(self) -> Node:
        """The node as it is now: a group may have become a variable since it was looked up."""
        return self.at.dataset.found_node(self.at.path) or self.at.loaded.node

    @property
    def _possible(self) -> tuple[str, ...]:
        """The names that a file may have here."""
        members = self.at.path and self.at.dataset.names(self.at.path)
        node = self._node
        if isinstance(node, Variable):
            return tuple(n for n in copied_names(node) if n in (INFO, RAW, LINES))
        return (INFO,) if members or not self.at.path else (INFO, RAW, LINES)

    @property
    def _refusal(self) -> str:
        return (
            f"only {', '.join(self._possible)} and attributes/ are copied here: everything else "
            "repeats them"
        )

    def _write_info(self, held: HeldFile) -> None:
        if held.size > INFO_BYTES_MAX:
            raise ObjectTooLarge(f"{INFO}: at most {INFO_BYTES_MAX} bytes")
        file = self.files[INFO]()
        assert isinstance(file, File)
        opened = file.open(writing=True, truncate=True)
        opened.write(0, held.read(0, held.size))
        opened.flush()
        opened.close()
        self.arrivals.hidden.put(self._prefix, INFO)

    def _land(self, name: str, held: HeldFile) -> bool:
        is_there = land(self.context, self.at.dataset, self.at.path, name, held)
        if is_there and self.arrivals.get(self._prefix, name) is held:
            self.arrivals.hidden.put(self._prefix, name)
            self.arrivals.let_go(self._prefix, name)
        return is_there


def _nowhere(_: HeldFile) -> bool:
    return False


def held_file(files: HeldFiles | None, prefix: Prefix, name: str) -> HeldFile:
    """Return the file that is held under a name. Raises NoSuchPath."""
    held = None if files is None else files.get(prefix, name)
    if held is None:
        raise NoSuchPath(f"{name}: no such file")
    return held
