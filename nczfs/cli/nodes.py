"""Datasets, groups and variables by URL, for commands that need no mount."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

from nczfs.cli.sources import Settings
from nczfs.cli.store import engine_options, place, shown, store_options
from nczfs.engine.options import EngineOptions
from nczfs.errors import NczfsError, NoContent, NoSuchNode, NotADataset, UsageError
from nczfs.library.api import Group, OpenDataset
from nczfs.library.opening import open_url
from nczfs.library.variable import Variable
from nczfs.zmap.parenturl import parent
from nczfs.zmap.url import parse_url

OpenedNode: TypeAlias = "Group | Variable"

# A path inside an archive, or below groups that have no documents of their own.
_LEVELS_ABOVE = 3


@contextmanager
def opened(
    url: str, settings: Settings, options: EngineOptions | None = None
) -> Iterator[OpenedNode]:
    """Open the group or variable at a URL, which may lead into a dataset.

    Raises
    ------
    NotADataset : nothing is there. NoSuchNode : the dataset has no such member.
    """
    url = place(url, settings)
    dataset, path = _open(url, settings, options)
    with dataset:
        yield _node(dataset, path, url)


@contextmanager
def opened_from_root(
    url: str, settings: Settings, options: EngineOptions | None = None
) -> Iterator[OpenedNode]:
    """Open as `opened` does, but look up a part of an NCZarr dataset from its root.

    The groups above declare what a group inherits, such as dimensions.
    """
    with opened_in_root(url, settings, options) as (node, _):
        yield node


@contextmanager
def opened_in_root(
    url: str, settings: Settings, options: EngineOptions | None = None
) -> Iterator[tuple[OpenedNode, str]]:
    """Open as `opened_from_root` does.

    Yields
    ------
    the node, and the URL of the dataset that it was looked up in.
    """
    url = place(url, settings)
    dataset, path = _open(url, settings, options)
    root = url
    for _ in path.split("/") if path else ():
        root = (parent(root) or (root, ""))[0]
    dataset, root, path = _climbed(dataset, root, path, settings, options)
    with dataset:
        yield _node(dataset, path, url), root


@contextmanager
def opened_above(
    url: str, settings: Settings, options: EngineOptions | None = None
) -> Iterator[tuple[OpenDataset, str, str] | None]:
    """Open the dataset that a new node at a URL would be a part of; None: there is none.

    Yields
    ------
    the dataset, its URL, and the path of the node in it.
    """
    at, path = place(url, settings), ""
    for _ in range(_LEVELS_ABOVE):
        step = parent(at)
        if step is None:
            break
        at, path = step[0], f"{step[1]}/{path}".rstrip("/")
        try:
            dataset = open_url(
                at,
                store_options=store_options(settings),
                options=options or engine_options(settings),
            )
        except NczfsError:  # no dataset, or none that could have such a member
            continue
        found = _climbed(dataset, at, path, settings, options)
        with found[0]:
            yield found
        return
    yield None


def _climbed(
    dataset: OpenDataset,
    url: str,
    path: str,
    settings: Settings,
    options: EngineOptions | None,
) -> tuple[OpenDataset, str, str]:
    """Return the root of an open group's NCZarr dataset, its URL, and the path from there."""
    while (found := _above(dataset, url, settings, options)) is not None:
        dataset.close()
        dataset, url, name = found
        path = f"{name}/{path}".rstrip("/")
    return dataset, url, path


def _above(
    dataset: OpenDataset, url: str, settings: Settings, options: EngineOptions | None
) -> tuple[OpenDataset, str, str] | None:
    """Return the group that lists a node, its URL, and the name of the node in it."""
    step = parent(url)
    if step is None or not dataset.engine_dataset.format.declares:
        return None
    try:
        above = open_url(
            step[0],
            store_options=store_options(settings),
            options=options or engine_options(settings),
        )
    except NczfsError:
        return None
    if step[1] in (*(above.header.arrays or ()), *(above.header.groups or ())):
        return above, *step
    above.close()
    return None


def _node(dataset: OpenDataset, path: str, url: str) -> OpenedNode:
    if not path:
        return root_variable(dataset) or dataset
    try:
        return dataset[path]
    except KeyError:
        raise NoSuchNode(f"{parse_url(url).text}: no group or variable is there") from None


def _open(url: str, settings: Settings, wanted: EngineOptions | None) -> tuple[OpenDataset, str]:
    options = store_options(settings)
    engine = wanted or engine_options(settings)
    try:
        return open_url(url, store_options=options, options=engine), ""
    except (NotADataset, NoContent):
        above, path = url, ""
        for _ in range(_LEVELS_ABOVE):
            step = parent(above)
            if step is None:
                break
            above, path = step[0], f"{step[1]}/{path}".rstrip("/")
            try:
                return open_url(above, store_options=options, options=engine), path
            except (NotADataset, NoContent):
                continue
        raise


def root_variable(dataset: OpenDataset) -> Variable | None:
    """Return the variable of a dataset whose root is an array."""
    variables = list(dataset.variables.values())
    if len(variables) == 1 and variables[0].description.key == "":
        return variables[0]
    return None


def group_refused(group: Group, url: str, settings: Settings) -> UsageError:
    """Return the error of a command that takes a variable, but got a group."""
    names = ", ".join(group.variables) or "none"
    return UsageError(f"{shown(url, settings)} is a group; name one of its variables ({names})")
