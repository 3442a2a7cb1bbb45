"""The kinds of prefixes of the store: a node of a dataset, a broken node, or neither."""

from __future__ import annotations

from typing import TypeAlias

from nczfs.engine.dataset import Dataset
from nczfs.engine.metadata.hierarchy import LoadedNode
from nczfs.model.hierarchy import GroupHeader, Variable
from nczfs.plaindata import frozen


@frozen
class Plain:
    """A prefix that is not a node of a dataset."""


@frozen
class At:
    """A group or variable of a dataset.

    Attributes
    ----------
    loaded : what can be held of it as long as the kernel knows it (`LoadedNode.to_hold`).
    """

    dataset: Dataset
    path: str
    loaded: LoadedNode

    @property
    def is_variable(self) -> bool:
        """Whether it is a variable."""
        return isinstance(self.loaded.node, Variable)

    @property
    def is_dependent(self) -> bool:
        """Whether it is a variable that another one declares, with which it goes."""
        node = self.loaded.node
        return isinstance(node, Variable) and node.is_dependent

    @property
    def lists_members(self) -> bool:
        """Whether the group's metadata list its members (NCZarr)."""
        node = self.loaded.node
        return isinstance(node, GroupHeader) and node.arrays is not None


@frozen
class Broken:
    """A node whose metadata cannot be read, with the reason."""

    path: str
    problem: str


Resolved: TypeAlias = "Plain | At | Broken"
