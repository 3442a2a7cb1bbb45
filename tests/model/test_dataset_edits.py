"""Whole datasets: described at random, written in every layout, and read again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nczfs.engine.options import EngineOptions
from nczfs.formats.base import FormatOptions
from nczfs.library.api import Group
from nczfs.library.opening import open_zmap
from nczfs.library.variable import Variable
from nczfs.testing import indexing
from nczfs.zmap.base import Features
from nczfs.zmap.keys import parse_key, parse_prefix
from nczfs.zmap.memory import MemoryZMap
from tests.support.hierarchies import FORMATS, NewGroup, NewVariable, groups, make

OPTIONS = EngineOptions(
    memory_limit_bytes=1 << 16, cache_bytes_max=0, store_threads=2, decode_threads=2
)


class FarMemory(MemoryZMap):
    """A store that takes a round trip for each request: its consolidated metadata are read."""

    @property
    def features(self) -> Features:
        return replace(super().features, near=False)


def check(group: Group, wanted: NewGroup, layout: str) -> None:
    assert not group.problems
    check_attributes(group, wanted.attributes, layout)
    if layout != "zarr2":
        found = {d.name: (d.size, d.unlimited) for d in group.dimensions.values() if _is_named(d)}
        assert list(found.items()) == list(wanted.dimensions.items())
        assert [*group.variables, *group.groups] == [*wanted.variables, *wanted.groups]
    assert set(group.variables) == set(wanted.variables)
    assert set(group.groups) == set(wanted.groups)
    for name, variable in wanted.variables.items():
        check_variable(group.variables[name], variable, layout)
    for name, below in wanted.groups.items():
        check(group.groups[name], below, layout)


def _is_named(dimension: Any) -> bool:
    return not dimension.anonymous


def check_variable(found: Variable, wanted: NewVariable, layout: str) -> None:
    assert not found.problems
    assert list(found.dimensions) == wanted.dimensions
    values = found[...]
    if wanted.dtype is str:
        assert np.asarray(values).tolist() == wanted.data.tolist()
    else:
        assert indexing.same_bits(values, wanted.data)
        assert found.description.array.dtype.stored.newbyteorder("=") == np.dtype(wanted.dtype)
    assert found.chunks == tuple(wanted.chunks)
    if wanted.fill is None:
        assert found.fill_value is None
        check_attributes(found, wanted.attributes, layout)
    else:
        rest = {name: found.attrs[name] for name in found.attrs if name != "_FillValue"}
        assert list(rest) == list(wanted.attributes)


def check_attributes(found: Group | Variable, wanted: dict[str, Any], layout: str) -> None:
    assert list(found.attrs) == list(wanted)
    for name, value in wanted.items():
        read = found.attrs[name]
        if isinstance(value, np.ndarray):
            as_written = np.asarray(read)
            if layout == "zarr2":  # it has no types of attributes
                as_written = as_written.astype(value.dtype)
            assert as_written.dtype == value.dtype
            np.testing.assert_array_equal(np.atleast_1d(as_written), value)
        else:
            assert read == value


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    st.data(),
    st.sampled_from(FORMATS),
    st.sampled_from("./"),
    st.booleans(),
    st.booleans(),
)
def test_what_was_described_is_what_is_read_again(
    data: st.DataObject, layout: str, separator: str, xarray: bool, consolidated: bool
) -> None:
    if layout == "zarr2":
        xarray = True  # without it pure Zarr has no names of dimensions
    if layout == "nczarr-L1":
        consolidated = False  # to readers of the copy it is pure Zarr
    wanted = data.draw(groups(layout, {}))
    memory = FarMemory()
    options = FormatOptions(xarray=xarray)
    with open_zmap(
        memory,
        "w",
        format=layout,
        separator=separator,
        metadata=options,
        consolidated=consolidated,
        options=OPTIONS,
    ) as dataset:
        make(dataset, wanted)
        check(dataset, wanted, layout)
        here = repr(dataset.tree())
        dataset.sync()
        assert dataset._dataset.edits.pending() == []
        if layout != "zarr2":
            assert repr(dataset.tree()) == here
    near = MemoryZMap()
    for stat in memory.list(parse_prefix("")):
        near.write(stat.key, bytes(memory.read(stat.key).data))
    for zmap in (near, memory):
        with open_zmap(zmap, metadata=options, options=OPTIONS) as found:
            assert found.header.format == layout
            check(found, wanted, layout)
            assert found._dataset.stale() == []
            if layout != "zarr2":
                assert repr(found.tree()) == here
    copied = consolidated and parse_key(".zmetadata")
    assert bool(copied) == any(stat.key == ".zmetadata" for stat in near.list(parse_prefix("")))
