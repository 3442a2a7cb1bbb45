"""How much Python listings and netCDF files take: by calls, not by time."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from nczfs.testing.datasets import put_array, put_group
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import mount_tree
from nczfs.zmap.registry import open_store
from tests.support.calls import counted_calls
from tests.support.copies import new_url
from tests.support.trees import find

pytestmark = pytest.mark.usefixtures("lasting_documents")

ROWS = np.zeros(4, "<i4")


def dataset_of(count: int) -> str:
    """The URL of a store with a dataset of some variables that share a dimension."""
    url = new_url()
    store = open_store(url)
    put_group(store, "d.zarr")
    for number in range(count):
        put_array(
            store,
            f"d.zarr/v{number:03}",
            ROWS,
            (4,),
            attributes={"_ARRAY_DIMENSIONS": ["x"], "units": "1"},
        )
    return url


def calls_of_netcdf(count: int) -> int:
    fs = mount_tree(dataset_of(count))
    find(fs, "datasets/d.zarr")
    with counted_calls() as calls:
        find(fs, "datasets/d.zarr/d.nc")
    fs.close()
    return calls.total()


def test_the_netcdf_file_of_many_variables_is_made_in_linear_time() -> None:
    calls_of_netcdf(1)  # imports
    first, second, third = (calls_of_netcdf(count) for count in (50, 100, 200))
    assert third - second <= 2.1 * (second - first)
    assert (third - second) / 100 <= 950


@pytest.mark.parametrize(
    ("path", "first_max", "again_max"),
    [("datasets/d.zarr", 8700, 1800), ("datasets/d.zarr/v000", 3450, 930)],
)
def test_a_listing_with_sizes_takes_few_calls(path: str, first_max: int, again_max: int) -> None:
    warm = mount_tree(dataset_of(1))  # imports
    listed(warm, "datasets/d.zarr")
    listed(warm, "datasets/d.zarr/v000")
    warm.close()
    fs = mount_tree(dataset_of(3))
    first, again = listed(fs, path), listed(fs, path)
    fs.close()
    assert again.total() <= again_max
    assert first.total() <= first_max


def listed(fs: TreeFileSystem, path: str) -> Counter[str]:
    """The calls of ``ls -l``: a listing, and the attributes that it could not give."""
    with counted_calls() as calls:
        handle = fs.opendir(find(fs, path).ino)
        for entry in fs.readdir(handle, 0):
            fs.remember(entry.attributes.ino)
            if not entry.attributes.valid_s:
                fs.getattr(entry.attributes.ino)
        fs.releasedir(handle)
    return calls
