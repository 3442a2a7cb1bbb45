"""The engine ``nczfs`` of xarray."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from xarray import Dataset, DataTree
from xarray.backends import BackendEntrypoint
from xarray.backends.store import StoreBackendEntrypoint

from nczfs.engine.options import EngineOptions
from nczfs.errors import NoContent, NotADataset
from nczfs.formats.registry import FORMATS
from nczfs.library.api import Group, OpenDataset
from nczfs.library.origin import Origin, absolute
from nczfs.library.xarray.ahead import request_coordinates
from nczfs.library.xarray.source import ReopeningSource, opened_at
from nczfs.library.xarray.store import GroupStore, listed
from nczfs.model import hierarchy as model
from nczfs.zmap.registry import StoreOptions

Options = TypeVar("Options", StoreOptions, EngineOptions)

_OF_ZARR = ".zarr"  # the end of the names that xarray's own engine opens unasked


class NczfsBackend(BackendEntrypoint):
    """Zarr v2, v3, NCZarr and references through nczfs.

    Parameters of its methods
    -------------------------
    filename_or_obj : a URL as `nczfs.open` takes it, a path, or what `nczfs.open` returned.
    group : the path of a group.
    store_options, options : of `nczfs.open`, or their members as a mapping.

    All others are xarray's.
    """

    description = "Open Zarr v2, v3, NCZarr, zip archives and references using nczfs"
    open_dataset_parameters = (
        "filename_or_obj",
        "mask_and_scale",
        "decode_times",
        "concat_characters",
        "decode_coords",
        "drop_variables",
        "use_cftime",
        "decode_timedelta",
        "group",
        "store_options",
        "options",
    )
    supports_groups = True

    def guess_can_open(self, filename_or_obj: object) -> bool:
        """Whether nothing else opens it: a dataset of nczfs, or a directory that holds Zarr.

        Names that end with ``.zarr`` are left to xarray's own engine.
        """
        if isinstance(filename_or_obj, OpenDataset):
            return True
        if not isinstance(filename_or_obj, str | os.PathLike):
            return False
        path = os.fsdecode(filename_or_obj).rstrip("/")
        if path.endswith(_OF_ZARR) or not os.path.isdir(path):
            return False
        return any(os.path.isfile(os.path.join(path, name)) for name in FORMATS.documents)

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        drop_variables: str | Iterable[str] | None = None,
        group: str | None = None,
        store_options: StoreOptions | Mapping[str, Any] | None = None,
        options: EngineOptions | Mapping[str, Any] | None = None,
        **decoding: Any,
    ) -> Dataset:
        """Open one group.

        Raises
        ------
        FileNotFoundError : there is no dataset, or no such group.
        """
        dropped = _names(drop_variables)
        with _opened(filename_or_obj, store_options, options) as (source, dataset):
            found = _group(dataset, group)
            return _decoded(source, listed(found), found, dropped, decoding)

    def open_groups_as_dict(
        self,
        filename_or_obj: Any,
        *,
        drop_variables: str | Iterable[str] | None = None,
        group: str | None = None,
        store_options: StoreOptions | Mapping[str, Any] | None = None,
        options: EngineOptions | Mapping[str, Any] | None = None,
        **decoding: Any,
    ) -> dict[str, Dataset]:
        """Open a group and all below it, by their paths from there."""
        dropped = _names(drop_variables)
        with _opened(filename_or_obj, store_options, options) as (source, dataset):
            top = _group(dataset, group)
            return {
                path: _decoded(source, each, top, dropped, decoding)
                for path, each in _walked(top.tree(), "/")
            }

    def open_datatree(self, filename_or_obj: Any, **options: Any) -> DataTree:
        """Open a group and all below it as a tree."""
        groups = self.open_groups_as_dict(filename_or_obj, **options)
        try:
            tree: DataTree = DataTree.from_dict(groups)
        except BaseException:
            groups["/"].close()
            raise
        for path, dataset in groups.items():
            tree[path].set_close(dataset._close)
        return tree


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
