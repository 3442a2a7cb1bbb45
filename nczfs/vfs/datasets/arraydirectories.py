"""The directories in that of a variable: of arrays that it declares, or is to declare."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nczfs.errors import PathExists
from nczfs.library.resolved import At
from nczfs.plaindata import frozen
from nczfs.vfs.datasets.editing import TreeEditing, refusal
from nczfs.vfs.datasets.nodefiles import shown_dependents
from nczfs.vfs.datasets.tree import DatasetsTree
from nczfs.vfs.datasets.undeclared import Undeclared
from nczfs.vfs.nodes import Directory
from nczfs.views.catalog import reserved_variable_names
from nczfs.zmap.keys import Prefix, join


@frozen
class ArrayDirectories:
    """The directories in that of a variable.

    Parameters
    ----------
    editing : of its dataset; None: nothing can be changed.
    stem : of the names of its files.
    member : returns the directory of the array of a name.
    """

    tree: DatasetsTree
    editing: TreeEditing | None
    at: At
    stem: str
    member: Callable[[str], Directory]

    def found(self) -> Mapping[str, Directory]:
        """Return them by their shown names."""
        shown = shown_dependents(self.at.loaded.node, self.stem)
        names, removing = list(shown), self.tree.removing
        if removing is not None and names:
            names = removing.hidden.left(self._prefix, names)
        waiting = {} if self._undeclared is None else self._undeclared.found()
        return {**waiting, **{name: self.member(shown[name]) for name in names}}

    def make(self, name: str) -> Directory:
        """Make one that waits for its declaration, or show one that a copy comes to.

        Raises
        ------
        BadArgument, NotPermitted, PathExists, ReadOnlyMount.
        """
        if name in self.found():
            raise PathExists(f"{name}: exists already")
        arrivals = self.tree.arrivals
        dependent = shown_dependents(self.at.loaded.node, self.stem).get(name)
        if arrivals is not None and dependent is not None:
            arrivals.hidden.put(self._prefix, name)
            arrivals.begin(Prefix(join(self._prefix, dependent)), is_dataset=False)
            return self.member(dependent)
        if self._undeclared is None or name in reserved_variable_names(self.stem):
            raise refusal(self.editing, name)
        return self._undeclared.make(name)

    @property
    def _undeclared(self) -> Undeclared | None:
        if self.editing is None or self.at.is_dependent:
            return None
        return Undeclared(self.tree.context, self.editing, self.at, self.member)

    @property
    def _prefix(self) -> Prefix:
        return self.at.dataset.prefix(self.at.path)
