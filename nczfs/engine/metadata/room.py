"""How much a tree of groups may take when it is read as a whole."""

from __future__ import annotations

from typing import Final

from nczfs.errors import BadMetadata, TooManyNodes

LEVELS_MAX: Final = 100
"""Groups in groups: what makes texts and files of a tree calls itself for each level."""

GROUPS_MAX: Final = 10_000  # of one tree: links in a directory can make any number


class GroupMemoryLimit:
    """The memory that the nodes of a group may take together when it is read whole.

    Parameters
    ----------
    nodes_max : how many nodes there may be below the group; None: any number.
    """

    def __init__(self, bytes_max: int, nodes_max: int | None = None) -> None:
        self._bytes_max = bytes_max
        self._nodes_max = nodes_max
        self._expected = 0
        self._taken = 0
        self._groups = 0

    def enter(self, place: str, level: int) -> None:
        """Count a group, so many levels below the first. Raises BadMetadata if that is too many."""
        if level > LEVELS_MAX:
            raise BadMetadata(f"{place}: left out: it is over {LEVELS_MAX} groups deep")
        self._groups += 1
        if self._groups > GROUPS_MAX:
            raise BadMetadata(f"{place}: left out: there are over {GROUPS_MAX} groups")

    def expect(self, count: int, place: str) -> None:
        """Count so many names, before their nodes are read. Raises TooManyNodes."""
        self._expected += count
        if self._nodes_max is not None and self._expected > self._nodes_max:
            raise TooManyNodes(
                f"{place}: {self._expected} groups and variables, or more, are not read together: "
                f"at most {self._nodes_max}"
            )

    def take(self, nbytes: int, place: str) -> None:
        """Count a node. Raises BadMetadata if there is no room for it."""
        if self._taken + nbytes > self._bytes_max:
            raise BadMetadata(
                f"{place}: left out: the metadata of the group take more than {self._bytes_max} "
                "bytes of memory (--memory-limit)"
            )
        self._taken += nbytes
