"""Groups of a dataset as datasets of xarray."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from xarray import Dataset
from xarray.backends.store import StoreBackendEntrypoint

from nczfs.engine.options import EngineOptions
from nczfs.errors import NoContent, NotADataset
from nczfs.library.api import Group, OpenDataset
from nczfs.library.origin import Origin, absolute
from nczfs.library.xarray.ahead import request_coordinates
from nczfs.library.xarray.source import ReopeningSource, opened_at
from nczfs.library.xarray.store import GroupStore, listed
from nczfs.model import hierarchy as model
from nczfs.zmap.registry import StoreOptions

Options = TypeVar("Options", StoreOptions, EngineOptions)


def open_group(
    place: Any,
    *,
    drop_variables: str | Iterable[str] | None = None,
    group: str | None = None,
    store_options: StoreOptions | Mapping[str, Any] | None = None,
    options: EngineOptions | Mapping[str, Any] | None = None,
    **decoding: Any,
) -> Dataset:
    """Open one group; see `NczfsBackend`.

    Raises
    ------
    FileNotFoundError : there is no dataset, or no such group.
    """
    dropped = _names(drop_variables)
    with _opened(place, store_options, options) as (source, dataset):
        found = _group(dataset, group)
        return _decoded(source, listed(found), found, dropped, decoding)


def open_groups(
    place: Any,
    *,
    drop_variables: str | Iterable[str] | None = None,
    group: str | None = None,
    store_options: StoreOptions | Mapping[str, Any] | None = None,
    options: EngineOptions | Mapping[str, Any] | None = None,
    **decoding: Any,
) -> dict[str, Dataset]:
    """Open a group and all below it, by their paths from there."""
    dropped = _names(drop_variables)
    with _opened(place, store_options, options) as (source, dataset):
        top = _group(dataset, group)
        return {
            path: _decoded(source, each, top, dropped, decoding)
            for path, each in _walked(top.tree(), "/")
        }


@contextmanager
def _opened(
    place: Any,
    store_options: StoreOptions | Mapping[str, Any] | None,
    options: EngineOptions | Mapping[str, Any] | None,
) -> Iterator[tuple[ReopeningSource, OpenDataset]]:
    """Open a dataset, and close it if the block fails."""
    if isinstance(place, OpenDataset):
        yield ReopeningSource(place.origin, place), place
        return
    origin = Origin(
        absolute(os.fsdecode(place)),
        _options(StoreOptions, store_options),
        _options(EngineOptions, options),
    )
    try:
        dataset = opened_at(origin)
    except (NotADataset, NoContent) as error:
        raise FileNotFoundError(str(error)) from error
    try:
        yield ReopeningSource(origin, dataset), dataset
    except BaseException:
        dataset.close()
        raise


def _options(kind: type[Options], given: Options | Mapping[str, Any] | None) -> Options | None:
    return kind(**given) if isinstance(given, Mapping) else given


def _names(given: str | Iterable[str] | None) -> frozenset[str]:
    return frozenset((given,) if isinstance(given, str) else given or ())


def _group(dataset: OpenDataset, path: str | None) -> Group:
    names = (path or "").strip("/")
    if not names:
        return dataset
    try:
        found = dataset[names]
    except KeyError as error:
        raise FileNotFoundError(f"there is no group {path!r}: {error.args[0]}") from error
    if not isinstance(found, Group):
        raise FileNotFoundError(f"{path!r} is a variable, not a group")
    return found


def _decoded(
    source: ReopeningSource,
    group: model.Group,
    within: Group,
    dropped: Collection[str],
    decoding: Mapping[str, Any],
) -> Dataset:
    stored = within.engine_dataset
    request_coordinates(stored, group.variables, dropped)
    store = GroupStore(source, group, is_netcdf=stored.format.is_netcdf, dropped=dropped)
    opened: Dataset = StoreBackendEntrypoint().open_dataset(
        store, drop_variables=dropped or None, **decoding
    )
    opened.set_close(source.close)
    return opened


def _walked(group: model.Group, path: str) -> Iterator[tuple[str, model.Group]]:
    yield path, group
    for child in group.groups:
        yield from _walked(child, f"{path.rstrip('/')}/{child.name}")
