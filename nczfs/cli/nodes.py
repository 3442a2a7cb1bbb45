"""Datasets, groups and variables by URL, for commands that need no mount."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

from nczfs.cli.sources import Settings
from nczfs.cli.store import parent, place, store_options
from nczfs.engine.api import Group, OpenDataset, Variable, open_url
from nczfs.errors import NoContent, NoSuchNode, NotADataset
from nczfs.zmap.url import parse_url

Node: TypeAlias = "Group | Variable"

# A path inside an archive, or below groups that have no documents of their own.
_LEVELS_ABOVE = 3


@contextmanager
def opened(url: str, settings: Settings) -> Iterator[Node]:
    """The group or variable at a URL, which may go on inside a dataset.

    Raises
    ------
    NotADataset : nothing is there; NoSuchNode : the dataset has no such member.
    """
    url = place(url, settings)
    dataset, path = _open(url, settings)
    with dataset:
        if not path:
            yield root_variable(dataset) or dataset
            return
        try:
            node = dataset[path]
        except KeyError:
            raise NoSuchNode(f"{parse_url(url).text}: no group or variable is there") from None
        yield node


def _open(url: str, settings: Settings) -> tuple[OpenDataset, str]:
    options = store_options(settings)
    try:
        return open_url(url, store_options=options), ""
    except (NotADataset, NoContent):
        above, path = url, ""
        for _ in range(_LEVELS_ABOVE):
            step = parent(above)
            if step is None:
                break
            above, path = step[0], f"{step[1]}/{path}".rstrip("/")
            try:
                return open_url(above, store_options=options), path
            except (NotADataset, NoContent):
                continue
        raise


def root_variable(dataset: OpenDataset) -> Variable | None:
    """The variable of a dataset whose root is an array."""
    variables = list(dataset.variables.values())
    if len(variables) == 1 and variables[0].description.key == "":
        return variables[0]
    return None
