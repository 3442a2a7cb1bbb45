"""The text of a group's hierarchy that a mount can show."""

from __future__ import annotations

from dataclasses import dataclass

from nczfs.engine.dataset import Dataset
from nczfs.engine.metadata.turns import PARSING
from nczfs.formats.zom.text import dumps
from nczfs.zom.stored import Problem, read_stored

NODES_MAX = 10_000
BYTES_MAX = 32 << 20
"""Of the documents of a hierarchy that is shown."""


@dataclass(frozen=True, slots=True)
class ShownHierarchy:
    """The text of a group and all below it.

    Attributes
    ----------
    problems : nodes that it lacks, and groups whose members are left out.
    """

    text: bytes
    problems: tuple[Problem, ...] = ()


def shown_hierarchy(
    dataset: Dataset, path: str, *, nodes_max: int = NODES_MAX, bytes_max: int = BYTES_MAX
) -> ShownHierarchy:
    """Return the text of a node's hierarchy, as it is stored.

    Parameters
    ----------
    nodes_max, bytes_max : as of `read_stored`.

    Raises
    ------
    NoSuchNode, MetadataError, StoreError : as `read_stored`.
    """
    with PARSING.visit():
        stored = read_stored(
            dataset,
            path,
            is_consolidated=dataset.reads_consolidated,
            nodes_max=nodes_max,
            bytes_max=bytes_max,
        )
        return ShownHierarchy(f"{dumps(stored.node)}\n".encode(), stored.problems)
