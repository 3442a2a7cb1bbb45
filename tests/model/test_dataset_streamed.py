"""Any dataset of netCDF's types is equal after its way through an ncstream."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import nczfs
from nczfs.cli.main import main
from nczfs.formats.declarations import groups_of
from nczfs.library.api import Group
from nczfs.model import hierarchy as model
from tests.support.copies import new_url
from tests.support.hierarchies import groups, make


def described(root: Group) -> dict[str, Any]:
    """All that netCDF knows of a dataset, by path; not how it is stored."""
    found: dict[str, Any] = {}
    for group in groups_of(root.tree()):
        path = group.header.path
        dimensions = {(d.name, d.size, d.unlimited) for d in group.dimensions}
        found[f"/{path}"] = dimensions, attributes(group.header.attributes)
        for variable in group.variables:
            values = np.asarray(root[variable.path][...])  # type: ignore[index]
            found[f"/{variable.path}"] = (
                variable.array.dtype.nc_type,
                [(d.group, d.name) for d in variable.dimensions],
                attributes(variable.attributes),
                plain(values),
            )
    return found


def plain(values: np.ndarray[Any, np.dtype[Any]]) -> tuple[tuple[int, ...], object]:
    """Values with all bits of numbers, such as those of NaN."""
    if values.dtype.kind in "OU":
        return values.shape, values.tolist()
    return values.shape, values.astype(values.dtype.newbyteorder("=")).tobytes()


def attributes(found: tuple[model.Attribute, ...]) -> set[str]:
    """Attributes but for fill values, which a stream says of each variable that has one."""
    return {repr(each) for each in found if each.name != "_FillValue"}


@settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.data(), st.sampled_from([(), ("--deflate", "1")]))
def test_a_dataset_is_equal_after_its_way_through_a_stream(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, options: tuple[str, ...]
) -> None:
    wanted = data.draw(groups("nczarr-L3", {}), "dataset")
    source, target = new_url(), new_url()
    file = tmp_path_factory.getbasetemp() / "streamed.ncs"
    with nczfs.open(source, "w") as root:
        make(root, wanted)
        # In a netCDF file no group has the name of a dimension beside it.
        assume(not any(name_clashes(group) for group in groups_of(root.tree())))
        expected = described(root)
    assert main(["export", source, str(file), "--overwrite", *options]) == 0
    assert main(["import", str(file), target]) == 0
    with nczfs.open(target) as root:
        assert described(root) == expected


def name_clashes(group: model.Group) -> bool:
    return bool({d.name for d in group.dimensions} & {child.name for child in group.groups})
