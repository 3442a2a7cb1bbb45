"""New groups, dimensions and variables, and lengths that change: what may be, and what is then."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from nczfs.engine.options import EngineOptions
from nczfs.engine.structure.editor import Editor
from nczfs.errors import (
    AccessDenied,
    BadSelection,
    NameTaken,
    NoSuchNode,
    NotWritable,
    StoreError,
    Unsupported,
    UsageError,
)
from nczfs.library.api import Group, OpenDataset
from nczfs.library.opening import open_zmap
from nczfs.library.variable import Variable
from nczfs.testing.faults import Fault, Faulty
from nczfs.zmap.keys import ROOT, parse_key
from nczfs.zmap.memory import MemoryZMap


@pytest.fixture
def memory() -> MemoryZMap:
    return MemoryZMap()


@pytest.fixture(params=["nczarr-L3", "nczarr-L2l", "nczarr-L1", "zarr2"])
def dataset(request: pytest.FixtureRequest, memory: MemoryZMap) -> Iterator[OpenDataset]:
    with open_zmap(memory, "w", format=request.param) as dataset:
        yield dataset


@pytest.fixture
def netcdf(memory: MemoryZMap) -> Iterator[OpenDataset]:
    with open_zmap(memory, "w") as dataset:
        yield dataset


def group_of(dataset: OpenDataset, path: str) -> Group:
    found = dataset[path]
    assert isinstance(found, Group)
    return found


def variable_of(dataset: OpenDataset, path: str) -> Variable:
    found = dataset[path]
    assert isinstance(found, Variable)
    return found


def keys(memory: MemoryZMap) -> set[str]:
    return {str(stat.key) for stat in memory.list(ROOT)}


def test_groups_in_between_are_made_too(dataset: OpenDataset, memory: MemoryZMap) -> None:
    made = dataset.create_group("a/b/c", {"deep": 1})
    assert made.path == "/a/b/c"
    dataset.sync()
    with open_zmap(memory) as found:
        assert dict(group_of(found, "a/b/c").attrs) == {"deep": 1}
        assert not group_of(found, "a").attrs
        assert not found.problems


@pytest.mark.parametrize("what", ["group", "variable"])
@pytest.mark.parametrize("known", ["group", "variable"])
def test_a_name_is_given_once(dataset: OpenDataset, what: str, known: str) -> None:
    def make(kind: str) -> None:
        if kind == "group":
            dataset.create_group("n")
        else:
            dataset.create_variable("n", (), "i4")

    make(known)
    with pytest.raises(NameTaken, match="/n: a group or variable of that name exists already"):
        make(what)
    dataset.sync()
    with pytest.raises(NameTaken):
        make(what)


def test_below_a_variable_there_is_nothing_to_make(dataset: OpenDataset) -> None:
    dataset.create_variable("v", (), "i4")
    with pytest.raises(NoSuchNode, match="/v: is a variable, not a group"):
        dataset.create_group("v/g")


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".zattrs", ".zgroup", ".nczfs-x", "zarr.json", "a\0", "a\n", "a ", "-a"]
)
def test_names_that_cannot_be_are_refused_for_everything(dataset: OpenDataset, name: str) -> None:
    for make in (
        lambda: dataset.create_group(name),
        lambda: dataset.create_dimension(name, 1),
        lambda: dataset.create_variable(name, (), "i4"),
        lambda: dataset.attrs.__setitem__(name, 1),
    ):
        with pytest.raises(UsageError, match=r"cannot be a name|is reserved by the format"):
            make()
    dataset.sync()


def test_a_slash_is_part_of_no_name_but_of_a_path_of_groups(dataset: OpenDataset) -> None:
    for make in (
        lambda: dataset.create_dimension("a/b", 1),
        lambda: dataset.create_variable("a/b", (), "i4"),
        lambda: dataset.attrs.__setitem__("a/b", 1),
    ):
        with pytest.raises(UsageError, match="slash"):
            make()


def test_names_are_stored_in_normal_form_c(dataset: OpenDataset, memory: MemoryZMap) -> None:
    decomposed = unicodedata.normalize("NFD", "é")
    assert decomposed != "é"
    dataset.create_dimension(decomposed, 2)
    dataset.create_variable(f"v{decomposed}", ("é",), "i4")
    dataset.create_group(f"g{decomposed}")
    dataset.attrs[decomposed] = 1
    dataset.sync()
    with open_zmap(memory) as found:
        assert list(found.variables) == ["vé"]
        assert list(found.groups) == ["gé"]
        assert list(found.attrs) == ["é"]
        assert found.variables["vé"].dimensions == ("é",)


@pytest.mark.parametrize("name", ["_ARRAY_DIMENSIONS", "_nczarr_attr", "_NCZARR_GROUP"])
def test_attributes_of_the_format_are_not_to_be_had(dataset: OpenDataset, name: str) -> None:
    with pytest.raises(UsageError, match="is reserved by the format"):
        dataset.attrs[name] = 1


def test_a_dimension_is_looked_for_upwards_and_by_its_full_name(
    netcdf: OpenDataset, memory: MemoryZMap
) -> None:
    netcdf.create_dimension("x", 2)
    inner = netcdf.create_group("g/h")
    group_of(netcdf, "g").create_dimension("x", 3)
    assert inner.create_variable("a", ("x",), "i4").shape == (3,)
    assert inner.create_variable("b", ("/x",), "i4").shape == (2,)
    assert netcdf.create_variable("c", ("/g/x", "x"), "i4").shape == (3, 2)
    for missing in ("y", "/y", "/g/h/x", "/none/x"):
        with pytest.raises(NoSuchNode):
            inner.create_variable("d", (missing,), "i4")
    netcdf.sync()
    with open_zmap(memory) as found:
        assert variable_of(found, "g/h/a").shape == (3,)
        assert variable_of(found, "g/h/b").description.dimensions[0].group == ""
        assert variable_of(found, "c").shape == (3, 2)
        assert not found.problems


def test_a_dimension_is_declared_once_a_group(netcdf: OpenDataset) -> None:
    netcdf.create_dimension("x", 2)
    with pytest.raises(NameTaken, match="/x: a dimension of that name exists already"):
        netcdf.create_dimension("x", 2)
    netcdf.create_group("g").create_dimension("x", 9)


@pytest.mark.parametrize("size", [-1, 2**63])
def test_a_length_that_is_none_is_refused(netcdf: OpenDataset, size: int) -> None:
    with pytest.raises(UsageError, match="is not a length"):
        netcdf.create_dimension("x", size)
    netcdf.create_dimension("t", None)
    with pytest.raises(UsageError, match="is not a length"):
        netcdf.resize_dimension("t", size)


def test_a_number_is_a_dimension_without_a_name(dataset: OpenDataset, memory: MemoryZMap) -> None:
    dataset.create_variable("a", (3, 2), "i4")
    dataset.create_variable("b", (3,), "i4")
    dataset.sync()
    with open_zmap(memory) as found:
        assert found.variables["a"].shape == (3, 2)
        assert found.variables["b"].shape == (3,)
        assert not found.problems
        assert not found.variables["a"].problems


@pytest.mark.parametrize("layout", ["nczarr-L1", "nczarr-L2U"])
def test_what_a_layout_cannot_hold_is_refused_when_it_is_asked_for(
    memory: MemoryZMap, layout: str
) -> None:
    with open_zmap(memory, "w", format=layout) as dataset:
        with pytest.raises(Unsupported, match="no unlimited dimensions"):
            dataset.create_dimension("t", None)
        with pytest.raises(Unsupported, match="no lists of strings"):
            dataset.attrs["names"] = ["a", "b"]
        dataset.create_dimension("x", 2)
        dataset.sync()
    with open_zmap(memory) as found:
        assert list(found.dimensions) == ["x"]
        assert not found.attrs


def test_a_fixed_dimension_does_not_change(netcdf: OpenDataset) -> None:
    netcdf.create_dimension("x", 4)
    variable = netcdf.create_variable("v", ("x",), "i4", fillvalue=-1)
    with pytest.raises(NotWritable, match="'x' is not unlimited"):
        netcdf.resize_dimension("x", 5)
    with pytest.raises(BadSelection):
        variable[4] = 1
    with pytest.raises(BadSelection):
        variable[:] = np.zeros(5)
    assert variable[...].tolist() == [-1] * 4


def test_who_appends_to_one_variable_makes_all_of_its_dimension_longer(
    netcdf: OpenDataset, memory: MemoryZMap
) -> None:
    netcdf.create_dimension("t", None)
    time = netcdf.create_variable("time", ("t",), "f8", fillvalue=-1)
    data = netcdf.create_group("g").create_variable("data", ("t", "t"), "i2", fillvalue=-2)
    time[0:3] = [0, 1, 2]
    assert data.shape == (3, 3)
    data[4, 1] = 9
    assert time[...].tolist() == [0, 1, 2, -1, -1]
    netcdf.sync()
    with open_zmap(memory) as found:
        assert found.dimensions["t"].size == 5
        assert variable_of(found, "g/data").shape == (5, 5)
        assert variable_of(found, "g/data")[4].tolist() == [-2, 9, -2, -2, -2]
        assert not found.problems


def test_two_clients_that_append_end_with_the_longer_one_and_both_their_values(
    netcdf: OpenDataset, memory: MemoryZMap
) -> None:
    netcdf.create_dimension("t", None)
    netcdf.create_variable("a", ("t",), "i4", chunks=(2,), fillvalue=0)
    netcdf.create_variable("b", ("t",), "i4", chunks=(2,), fillvalue=0)
    netcdf.sync()
    with open_zmap(memory, "r+") as other:
        netcdf.variables["a"][0:3] = [1, 2, 3]
        other.variables["b"][0:5] = [1, 2, 3, 4, 5]
        other.sync()
        netcdf.sync()
    with open_zmap(memory) as found:
        assert found.variables["a"][...].tolist() == [1, 2, 3, 0, 0]
        assert found.variables["b"][...].tolist() == [1, 2, 3, 4, 5]
        assert not found.problems


def test_who_grows_a_variable_blanks_nothing_that_another_client_appends_just_then(
    memory: MemoryZMap,
) -> None:
    with open_zmap(memory, "w") as dataset:
        dataset.create_dimension("t", None)
        for name in "ab":
            dataset.create_variable(name, ("t",), "i4", chunks=(4,), fillvalue=-1)[0:1] = 1

    armed = False

    def others_append(operation: str, key: str) -> None:
        nonlocal armed
        if armed and (operation, key) == ("read", "a/.zarray"):  # which has the dimension as well
            armed = False
            with open_zmap(memory, "r+") as other:
                other.variables["b"][1:4] = [11, 12, 13]

    store = Faulty(memory, before_call=others_append)
    options = EngineOptions(metadata_ttl_s=0.0)
    with open_zmap(store, "r+", options=options) as dataset:
        variable = dataset.variables["b"]
        armed = True
        variable[1:2] = 2
        assert not armed
    with open_zmap(memory) as found:
        assert found.variables["b"][...].tolist() == [1, 2, 12, 13]


def test_a_shape_that_is_ahead_of_its_dimension_is_not_made_shorter(memory: MemoryZMap) -> None:
    with open_zmap(memory, "w") as dataset:
        dataset.create_dimension("t", None)
        dataset.create_variable("a", ("t",), "i4", chunks=(4,), fillvalue=-1)[0:1] = 1
    faulty = Faulty(memory)
    with open_zmap(faulty, "r+") as appender:
        appender.variables["a"][1:4] = [2, 3, 4]
        faulty.arm(Fault(2, operations=frozenset({"write"})))  # chunk, shape, dimension
        with pytest.raises(StoreError):
            appender.sync()
        with open_zmap(memory, "r+") as other:
            other.variables["a"][1:2] = 12
        assert json.loads(bytes(memory.read(parse_key("a/.zarray")).data))["shape"] == [4]
        appender.sync()
    with open_zmap(memory) as found:
        assert found.variables["a"][...].tolist() == [1, 12, 3, 4]


def test_a_new_variable_is_as_long_as_its_dimension_has_become(
    netcdf: OpenDataset, memory: MemoryZMap
) -> None:
    netcdf.create_dimension("t", None)
    netcdf.create_variable("a", ("t",), "i4", fillvalue=0)
    netcdf.sync()
    with open_zmap(memory, "r+") as other:
        netcdf.create_variable("b", ("t",), "i4", fillvalue=0)
        other.variables["a"][0:5] = 1
        other.sync()
        netcdf.sync()
    with open_zmap(memory) as found:
        assert found.variables["b"].shape == (5,)
        assert not found.problems


def test_what_is_cut_off_is_fill_when_it_comes_back_within_a_chunk_and_beyond(
    netcdf: OpenDataset, memory: MemoryZMap
) -> None:
    netcdf.create_dimension("t", None)
    variable = netcdf.create_variable("v", ("t",), "i4", chunks=(4,), fillvalue=-1)
    variable[0:10] = range(10)
    for reopened in (False, True):
        netcdf.resize_dimension("t", 6)
        netcdf.resize_dimension("t", 10)
        assert variable[...].tolist() == [0, 1, 2, 3, 4, 5, -1, -1, -1, -1]
        if not reopened:
            netcdf.sync()
            with open_zmap(memory) as found:
                assert found.variables["v"][...].tolist() == variable[...].tolist()
            variable[6:10] = 7
    assert "v/2" not in keys(memory)


def test_chunks_that_no_length_reaches_are_deleted(netcdf: OpenDataset, memory: MemoryZMap) -> None:
    netcdf.create_dimension("t", None)
    variable = netcdf.create_variable("v", ("t",), "i4", chunks=(2,))
    variable[0:7] = range(7)
    netcdf.sync()
    netcdf.resize_dimension("t", 3)
    assert {key for key in keys(memory) if key[-1].isdigit()} == {"v/0", "v/1"}
    netcdf.resize_dimension("t", 0)
    assert {key for key in keys(memory) if key[-1].isdigit()} == set()
    assert variable.shape == (0,)


@pytest.mark.parametrize("after", [False, True], ids=["refused", "answer lost"])
def test_whichever_write_fails_while_lengths_grow_the_dataset_can_be_opened(
    memory: MemoryZMap, after: bool
) -> None:
    """A reader sees the old or the new length; who grew it goes on, and completes it."""
    image = MemoryZMap()
    with open_zmap(image, "w") as dataset:
        dataset.create_dimension("t", None)
        for name in "ab":
            dataset.create_variable(name, ("t",), "i4", chunks=(2,), fillvalue=-1)[0:3] = 1
    for failing in range(20):
        store = MemoryZMap()
        for stat in image.list(ROOT):
            store.write(stat.key, bytes(image.read(stat.key).data))
        faulty = Faulty(store)
        with open_zmap(faulty, "r+") as dataset:
            dataset.variables["a"][3:5] = 7
            faulty.arm(Fault(failing, after=after, operations=frozenset({"write"})))
            try:
                dataset.sync()
            except StoreError:
                assert faulty.fired
            with open_zmap(store) as found:
                shapes = {found.variables[name].shape for name in "ab"}
                assert shapes in ({(3,)}, {(5,)})
                assert found.variables["a"][:3].tolist() == [1, 1, 1]
            assert dataset.variables["a"][...].tolist() == [1, 1, 1, 7, 7]
            assert dataset.variables["b"][...].tolist() == [1, 1, 1, -1, -1]
            if faulty.fired:
                dataset.sync()
        with open_zmap(store) as found:
            assert found.variables["a"][...].tolist() == [1, 1, 1, 7, 7]
            assert found.variables["b"].shape == (5,)
            assert not found.problems
            assert not found.variables["b"].problems
        if not faulty.fired:
            break
    assert failing >= 3


def test_an_unlimited_dimension_without_variables_can_be_made_shorter_and_used(
    netcdf: OpenDataset, memory: MemoryZMap
) -> None:
    netcdf.create_dimension("t", None)
    netcdf.resize_dimension("t", 10)
    netcdf.sync()
    netcdf.resize_dimension("t", 3)
    netcdf.create_variable("v", ("t",), "i4", fillvalue=0)[4] = 1
    netcdf.sync()
    with open_zmap(memory) as found:
        assert found.dimensions["t"].size == 5
        assert found.variables["v"].shape == (5,)
        assert not found.problems


@pytest.mark.parametrize("layout", ["nczarr-L3", "nczarr-L1", "zarr2"])
@pytest.mark.parametrize("wanted", [False, True])
def test_a_consolidated_copy_is_kept_true_where_there_is_one(
    memory: MemoryZMap, layout: str, wanted: bool
) -> None:
    with open_zmap(memory, "w", format=layout, consolidated=wanted) as dataset:
        dataset.create_group("g").attrs["a"] = 1
    assert (".zmetadata" in keys(memory)) == wanted
    with open_zmap(memory, "r+") as dataset:
        dataset.create_variable("g/v".rpartition("/")[2], (3,), "i4").attrs["units"] = "m"
        dataset.attrs["title"] = "t"
        dataset.sync()
        assert dataset._dataset.stale() == []
        group_of(dataset, "g").attrs["a"] = 2
        dataset.sync()
        assert dataset._dataset.stale() == []
    assert (".zmetadata" in keys(memory)) == wanted


def test_a_consolidated_copy_that_missed_a_failed_sync_is_made_anew(memory: MemoryZMap) -> None:
    with open_zmap(memory, "w", consolidated=True) as dataset:
        for name in "ab":
            dataset.create_variable(name, (), "i4")
    for failing in range(4):
        faulty = Faulty(memory)
        with open_zmap(faulty, "r+") as dataset:
            dataset.attrs["first"] = failing
            dataset.sync()
            for name in "ab":
                dataset.variables[name].attrs["x"] = failing
            faulty.arm(Fault(failing, operations=frozenset({"write"})))
            try:
                dataset.sync()
            except StoreError:
                dataset.sync()
            assert dataset._dataset.stale() == []
        with open_zmap(memory) as found:
            assert found._dataset.stale() == []


def test_a_copy_that_was_stale_when_the_dataset_was_opened_is_made_true(
    memory: MemoryZMap, expected_warnings: Any
) -> None:
    with open_zmap(memory, "w", consolidated=True) as dataset:
        dataset.attrs["title"] = "t"
    old = bytes(memory.read(".zmetadata").data)  # type: ignore[arg-type]
    with open_zmap(memory, "r+") as dataset:
        dataset.attrs["title"] = "T"
    memory.write(".zmetadata", old)  # type: ignore[arg-type]
    with open_zmap(memory, "r+") as dataset:
        assert dataset._dataset.stale() == [".zattrs"]
        dataset.attrs["more"] = 1
        dataset.sync()
        assert dataset._dataset.stale() == []


@pytest.mark.parametrize("metadata_format", ["zarr2", "nczarr", "zarr3"])
@pytest.mark.parametrize("after", [False, True])
def test_nothing_is_left_of_a_variable_that_the_store_refused_halfway(
    metadata_format: str, after: bool, memory: MemoryZMap
) -> None:
    """SEMANTICS W102: the answer to the first try is lost, before or after it took effect."""
    with open_zmap(memory, "w", format=metadata_format) as dataset:
        dataset.attrs["a"] = 1
    before = keys(memory)
    last = 0 if metadata_format == "zarr3" else 1
    faulty = Faulty(memory)
    for failing in range(last + 1):
        with open_zmap(faulty, "r+") as dataset:
            faulty.arm(Fault(failing, after=after, operations=frozenset({"write"})))
            with pytest.raises(StoreError):
                _make_v(dataset)
            faulty.arm(Fault(0, AccessDenied, operations=frozenset({"write"}), repeats=100))
            with suppress(StoreError):
                dataset.sync()
            faulty.arm()
            is_whole = after and failing == last and metadata_format != "nczarr"
            if not is_whole:  # otherwise nothing was left to refuse
                assert keys(memory) == before
                _make_v(dataset)
            Editor(dataset._dataset, None).remove("v")
            assert keys(memory) == before


def _make_v(dataset: OpenDataset) -> None:
    dataset.create_variable("v", (4,), "i4", attributes={"units": "K"})
    dataset.sync()


def test_what_another_client_put_where_a_variable_was_refused_stays(memory: MemoryZMap) -> None:
    with open_zmap(memory, "w", format="zarr2") as dataset:
        dataset.attrs["a"] = 1
    theirs = b'{"theirs": 1}'

    def others_write(operation: str, key: str) -> None:
        if (operation, key) == ("write", "v/.zarray"):
            memory.write(parse_key("v/.zattrs"), theirs)

    faulty = Faulty(memory, before_call=others_write)
    with open_zmap(faulty, "r+") as dataset:
        faulty.arm(Fault(1, AccessDenied, operations=frozenset({"write"})))
        with pytest.raises(AccessDenied):
            _make_v(dataset)
    assert bytes(memory.read(parse_key("v/.zattrs")).data) == theirs
