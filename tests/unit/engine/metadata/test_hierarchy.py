"""Reading nodes: what is asked of a store, what is believed, what breaks alone."""

from __future__ import annotations

import numpy as np
import pytest

from nczfs.engine.dataset import Engine
from nczfs.engine.options import EngineOptions
from nczfs.errors import NoSuchNode, TooManyNodes, Unavailable
from nczfs.testing.datasets import put_array, put_group
from nczfs.zmap.keys import parse_key
from tests.support.counted import (
    FIELD,
    CountedStore,
    consolidate,
    new_store,
    opened,
    values,
    variable,
)


@pytest.fixture
def store() -> CountedStore:
    return new_store()


@pytest.fixture
def engine() -> Engine:
    return Engine(EngineOptions(memory_limit_bytes=1 << 20))


def test_each_document_is_asked_for_once(store: CountedStore, engine: Engine) -> None:
    dataset = opened(store, engine)
    for _ in range(3):
        dataset.group("")
    assert set(store.reads.values()) == {1}
    assert store.searches == 1


@pytest.mark.parametrize("near", [False, True])
def test_a_group_of_too_many_names_is_refused_before_its_nodes_are_read(
    engine: Engine, *, near: bool
) -> None:
    """SEMANTICS A7."""
    store = CountedStore(near=near)
    put_group(store, "", {})
    put_group(store, "sub", {})
    for name in ("v", "w", "sub/x", "sub/y"):
        put_array(store, name, FIELD, (2, 4))
    dataset = opened(store, engine)
    with pytest.raises(TooManyNodes, match="at most 2"):
        dataset.group("", nodes_max=2)
    assert not {"v/.zarray", "w/.zarray"} & store.reads.keys()
    with pytest.raises(TooManyNodes, match="at most 4"):
        dataset.group("", nodes_max=4)
    assert not {"sub/x/.zarray", "sub/y/.zarray"} & store.reads.keys()
    assert len(dataset.group("", nodes_max=5).variables) == 2


def test_one_variable_needs_no_listing(store: CountedStore, engine: Engine) -> None:
    dataset = opened(store, engine)
    store.reads.clear()
    np.testing.assert_array_equal(values(dataset, "v"), FIELD)
    documents = {key for key in store.reads if "/." in key}
    assert documents == {"v/.zarray", "v/.zgroup", "v/.zattrs"}
    assert store.searches == 0


def test_near_documents_win_over_a_stale_consolidated_copy_which_is_named(
    engine: Engine,
) -> None:
    store = CountedStore(near=True)
    put_group(store, "", {"title": "t"})
    for name in "vyx":
        put_array(store, name, FIELD, (2, 4), attributes={"old": 1})
    consolidate(store)
    put_array(store, "v", np.ones((8, 6), "<f4"), (2, 4), attributes={"old": 1})
    dataset = opened(store, engine)
    assert variable(dataset, "v").array.shape == (8, 6)
    (problem,) = dataset.group("").header.problems
    assert ".zmetadata" in problem
    assert "v/.zarray" in problem


def test_what_could_not_be_asked_is_an_error_each_time_and_never_remembered(
    store: CountedStore, engine: Engine
) -> None:
    """SEMANTICS A3."""
    dataset = opened(store, engine)
    store.failing = True
    for _ in range(2):
        with pytest.raises(Unavailable):
            dataset.load("v")
    store.failing = False
    np.testing.assert_array_equal(values(dataset, "v"), FIELD)
    store.failing = True
    dataset.forget("")
    with pytest.raises(Unavailable):
        values(dataset, "y")
    store.failing = False
    np.testing.assert_array_equal(values(dataset, "y"), np.arange(4))


def test_one_broken_member_hides_no_other(store: CountedStore, engine: Engine) -> None:
    store.write(parse_key("bad/.zarray"), b"[]")
    group = opened(store, engine).group("")
    assert {found.name for found in group.variables} == {"v", "x", "y"}
    ((name, why),) = group.broken
    assert name == "bad"
    assert "bad/.zarray" in why


def test_a_path_without_a_node_is_named(store: CountedStore, engine: Engine) -> None:
    with pytest.raises(NoSuchNode, match="memory://counted/nothing"):
        opened(store, engine).node("nothing")


def test_what_is_forgotten_is_a_node_and_all_below_it_and_no_namesake(
    store: CountedStore, engine: Engine
) -> None:
    for path in ("a", "a/v", "ab"):
        put_array(store, path, FIELD, (4, 6))
    dataset = opened(store, engine)
    before = {path: dataset.load(path) for path in ("a", "a/v", "ab")}
    dataset.forget("a")
    assert [path for path, known in before.items() if dataset.load(path) is known] == ["ab"]
