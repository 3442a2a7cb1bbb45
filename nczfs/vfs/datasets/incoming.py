"""Files that programs put into the directory of a group or variable."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nczfs.errors import NotPermitted
from nczfs.library.resolved import At
from nczfs.model.hierarchy import GroupHeader
from nczfs.plaindata import frozen
from nczfs.vfs.datasets.arrivals import goal_of
from nczfs.vfs.datasets.arriving import NodeArrivals, held_file
from nczfs.vfs.datasets.editing import TreeEditing, refusal
from nczfs.vfs.datasets.importing import GroupImport, ImportedFile
from nczfs.vfs.datasets.nodefiles import node_files, stem
from nczfs.vfs.datasets.tree import DatasetsTree
from nczfs.vfs.nodes import File, OpenFile, TreeNode
from nczfs.views.catalog import CHUNKS, is_like_a_view
from nczfs.zmap.keys import Prefix

COPYING = (
    "the files of a dataset are not copied one by one, since most of them repeat the same values; "
    "mount with --views copy to copy it by cp -r or rsync, copy it in objects/, or use `nczfs cp`"
)


@frozen
class Incoming:
    """What the directory of a group or variable takes.

    Attributes
    ----------
    editing : of its dataset.
    name : of the directory.
    is_empty : whether it is a group that holds nothing.
    """

    tree: DatasetsTree
    editing: TreeEditing
    at: At
    name: str
    is_empty: bool

    def create(self, name: str, *, exclusive: bool) -> tuple[File, OpenFile]:
        """Make a file of a copy, or one to be imported; all others only repeat the same values.

        Raises
        ------
        NotPermitted : it is neither. PathExists, NoSpace.
        """
        arriving, importing = self._arriving, self._importing
        if arriving is not None and arriving.takes(name):
            return arriving.create(name, exclusive=exclusive)
        if importing is not None and importing.takes(name):
            return importing.create(name, exclusive=exclusive)
        if (file := self._removed(name)) is not None:
            opened = file.open(writing=True, truncate=True)
            self.editing.removing.hidden.put(self._prefix, name)
            return file, opened
        if arriving is not None:
            return arriving.create(name, exclusive=exclusive)  # says why not
        raise NotPermitted(f"{name}: {COPYING}")

    def rename(self, name: str, new_name: str, *, is_free: bool) -> None:
        """Give a held file its name.

        Raises
        ------
        PathExists, NotPermitted, NoSuchPath, and what importing it raises.
        """
        held = held_file(self.tree.held, self._prefix, name)
        arriving, importing = self._arriving, self._importing
        if importing is not None and isinstance(held, ImportedFile):
            importing.rename(name, new_name, is_free=is_free)
        elif arriving is not None and not isinstance(held, ImportedFile):
            arriving.rename(name, new_name, held, is_free=is_free)
        else:
            raise refusal(self.editing, name)

    def replaces(self, name: str) -> bool:
        """Return whether a file of a name would replace the content of the group."""
        importing = self._importing
        return importing is not None and importing.can_replace and name in importing.names

    @property
    def _prefix(self) -> Prefix:
        return self.at.dataset.prefix(self.at.path)

    @property
    def _files(self) -> Mapping[str, Callable[[], TreeNode]]:
        return node_files(self.tree.context, self.at, self.name)

    def _removed(self, name: str) -> File | None:
        """Return the file of a name that a program removed, which only hid it."""
        if not self.editing.removing.hidden.is_removed(self._prefix, name):
            return None
        make = self._files.get(name)
        file = make() if make is not None else None
        return file if isinstance(file, File) else None

    @property
    def _arriving(self) -> NodeArrivals | None:
        """The arriving files of a copy; None if there can be none."""
        tree = self.tree
        if tree.arrivals is None:
            return None
        return NodeArrivals(tree.context, tree.arrivals, self.at, self._files)

    @property
    def _importing(self) -> GroupImport | None:
        """What takes files to be imported; None: the group has content, which stays."""
        found = self.tree.importing(self.at.dataset, self.at.path, stem(self.name))
        if found is None or not (self.is_empty or (self.is_group and found.can_replace)):
            return None
        return found

    @property
    def is_group(self) -> bool:
        """Whether it is a group, empty or not."""
        return isinstance(self.at.loaded.node, GroupHeader)


def is_part_of_a_copy(tree: DatasetsTree, prefix: Prefix, name: str) -> bool:
    """Return whether a new directory would only contain more refused files.

    That is the one of a variable's chunks, and any in a new group in which a file was refused
    that is called like a view: a program that copies goes no deeper then.
    """
    if tree.arrivals is not None:
        return False
    refused = tree.context.refusals.names(prefix) if prefix in tree.times else ()
    return name == CHUNKS or any(is_like_a_view(goal_of(n) or n) for n in refused)
