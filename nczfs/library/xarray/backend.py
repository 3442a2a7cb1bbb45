"""The engine ``nczfs`` of xarray.

xarray imports all engines that are installed when it opens its first dataset, whichever opens it.
So what this one needs is imported when it is used.
"""

from __future__ import annotations

import os
from typing import Any

from xarray import Dataset, DataTree
from xarray.backends import BackendEntrypoint

import nczfs

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
        if not isinstance(filename_or_obj, str | os.PathLike):
            return isinstance(filename_or_obj, nczfs.OpenDataset)
        path = os.fsdecode(filename_or_obj).rstrip("/")
        if path.endswith(_OF_ZARR) or not os.path.isdir(path):
            return False
        from nczfs.formats.registry import FORMATS

        return any(os.path.isfile(os.path.join(path, name)) for name in FORMATS.documents)

    def open_dataset(self, filename_or_obj: Any, **options: Any) -> Dataset:
        """Open one group.

        Raises
        ------
        FileNotFoundError : there is no dataset, or no such group.
        """
        from nczfs.library.xarray.groups import open_group

        return open_group(filename_or_obj, **options)

    def open_groups_as_dict(self, filename_or_obj: Any, **options: Any) -> dict[str, Dataset]:
        """Open a group and all below it, by their paths from there."""
        from nczfs.library.xarray.groups import open_groups

        return open_groups(filename_or_obj, **options)

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
