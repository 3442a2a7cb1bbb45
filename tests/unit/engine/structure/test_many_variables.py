"""Making many variables of one group: the last one costs as much as the first."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from nczfs.engine.metadata.hierarchy import Hierarchy, LoadedNode
from nczfs.engine.options import EngineOptions
from nczfs.engine.structure.editor import Editor
from nczfs.errors import NoSuchNode
from nczfs.library.api import Group, OpenDataset
from nczfs.library.opening import open_zmap
from tests.support.counted import CountedStore

COUNT = 30
OPTIONS = EngineOptions(metadata_ttl_s=math.inf)


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the node at each path was looked at."""
    counted: Counter[str] = Counter()
    load = Hierarchy.load

    def counting(self: Hierarchy, path: str) -> LoadedNode | None:
        counted[path] += 1
        return load(self, path)

    monkeypatch.setattr(Hierarchy, "load", counting)
    return counted


def group_of(dataset: OpenDataset, path: str) -> Group:
    found = dataset[path] if path else dataset
    assert isinstance(found, Group)
    return found


@pytest.mark.parametrize("group", ["", "g"])
@pytest.mark.parametrize("is_synced", [False, True], ids=["together", "stored one by one"])
@pytest.mark.parametrize("layout", ["zarr2", "zarr3"])
def test_variables_of_dimensions_that_another_session_made(
    layout: str, is_synced: bool, group: str, loads: Counter[str]
) -> None:
    store = CountedStore()  # a store that says it is far, so that documents are believed
    with open_zmap(store, "w", format=layout) as dataset:
        dataset.create_dimension("x", 3)
        dataset.create_dimension("t", None)
        dataset.create_variable("first", ("t", "x"), "i4", chunks=(1, 3))
        dataset.create_group("g")
    with open_zmap(store, "r+", options=OPTIONS) as dataset:
        place = group_of(dataset, group)
        for number in range(COUNT):
            place.create_variable(f"v{number}", ("x", "t"), "i4", chunks=(3, 1))
            if is_synced:
                dataset.sync()
    looked_at = max(loads[f"{group}/v{number}".lstrip("/")] for number in range(COUNT))
    assert looked_at < COUNT
    with open_zmap(store) as dataset:
        place = group_of(dataset, group)
        assert [place.variables[f"v{n}"].shape for n in range(COUNT)] == [(3, 0)] * COUNT


@pytest.mark.parametrize("layout", ["zarr2", "zarr3"])
def test_a_dimension_has_the_length_that_its_variables_have_now(layout: str) -> None:
    store = CountedStore()
    with open_zmap(store, "w", format=layout) as dataset:
        dataset.create_dimension("x", 3)
        dataset.create_variable("v", ("x",), "i4", chunks=(1,))
    with open_zmap(store, "r+", options=OPTIONS) as dataset:
        dataset.create_variable("before", ("x",), "i4", chunks=(1,))
        dataset.resize_dimension("x", 5)
        dataset.create_variable("after", ("x",), "i4", chunks=(1,))
        assert [dataset.variables[name].shape for name in ("v", "before", "after")] == [(5,)] * 3
        with pytest.raises(NoSuchNode, match="no dimension 'y'"):
            dataset.create_variable("early", ("y",), "i4")
        Editor(dataset._dataset, None).remove("before")
        dataset.create_dimension("y", 2)
        dataset.create_variable("later", ("x", "y"), "i4", chunks=(1, 1))
        assert dataset.variables["later"].shape == (5, 2)


def test_a_dimension_is_gone_with_the_variable_that_had_it() -> None:
    store = CountedStore()
    with open_zmap(store, "w", format="zarr2") as dataset:
        dataset.create_dimension("x", 3)
        dataset.create_variable("v", ("x",), "i4", chunks=(1,))
        dataset.create_variable("other", (), "i4")
    with open_zmap(store, "r+", options=OPTIONS) as dataset:
        editor = Editor(dataset._dataset, None)
        assert editor.dimension("", "x").size == 3
        editor.remove("v")
        with pytest.raises(NoSuchNode):
            editor.dimension("", "x")


def test_a_dimension_that_another_client_has_made_is_found() -> None:
    store = CountedStore(near=True)
    with open_zmap(store, "w", format="zarr2") as dataset:
        dataset.create_variable("v", (), "i4")
    options = EngineOptions(metadata_ttl_s=0.0)
    with open_zmap(store, "r+", options=options) as ours, open_zmap(store, "r+") as theirs:
        with pytest.raises(NoSuchNode):
            ours.create_variable("early", ("x",), "i4")
        theirs.create_dimension("x", 4)
        theirs.create_variable("w", ("x",), "i4")
        theirs.sync()
        ours.create_variable("later", ("x",), "i4")
        assert ours.variables["later"].shape == (4,)
