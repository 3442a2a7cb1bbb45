"""Removals that the store refuses: what was to be removed is as it was before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext, suppress
from typing import Any

import pytest

from nczfs.errors import AccessDenied, Unavailable
from nczfs.library.api import OpenDataset
from nczfs.library.opening import open_zmap
from nczfs.zmap.base import Version
from nczfs.zmap.keys import Key
from nczfs.zmap.memory import MemoryZMap

ROOT_DOCUMENTS = (".zgroup", ".zattrs", ".nczgroup", "zarr.json")


class Refusing(MemoryZMap):
    """A store that fails to write the documents of the root, or to remove anything."""

    root_error: Exception | None = None
    is_kept = False

    def write(self, key: Key, data: Any, **arguments: Any) -> Version:
        if self.root_error is not None and key in ROOT_DOCUMENTS:
            raise self.root_error
        return super().write(key, data, **arguments)

    def delete(self, key: Key, *, version: Version | None = None) -> None:
        if self.is_kept:
            raise AccessDenied(f"{key}: refused")
        super().delete(key, version=version)


@pytest.fixture
def store() -> Refusing:
    return Refusing()


@pytest.fixture(params=["nczarr-L3", "nczarr-L2l", "zarr2"])
def dataset(request: pytest.FixtureRequest, store: Refusing) -> Iterator[OpenDataset]:
    with open_zmap(store, "w", format=request.param) as dataset:
        dataset.create_dimension("x", 3)
        dataset.sync()
        yield dataset


@pytest.mark.parametrize("is_begun", [False, True], ids=["all of it pending", "only its listing"])
@pytest.mark.parametrize("error", [AccessDenied("refused"), Unavailable("down")])
def test_a_new_variable_is_listed_after_a_list_without_it_was_refused(
    dataset: OpenDataset, store: Refusing, error: Exception, *, is_begun: bool
) -> None:
    declares = dataset.engine_dataset.format.declares
    variable = dataset.create_variable("v", ("x",), "i4")
    variable[0:2] = [1, 2]
    if is_begun:
        store.root_error = Unavailable("down")
        with suppress(Unavailable):
            dataset.sync()
    dataset.create_dimension("y", 4)  # which the document with the list has not yet
    store.root_error = error
    with pytest.raises(type(error)) if declares else nullcontext():
        dataset.editor.remove("v")
    store.root_error = None
    assert [*dataset.variables] == (["v"] if declares else [])
    with suppress(AccessDenied):
        dataset.sync()
    with open_zmap(store) as found:
        assert [*found.variables] == [*dataset.variables]
        assert not declares or found.variables["v"][0:2].tolist() == [1, 2]


@pytest.mark.parametrize("is_listed", [False, True])
def test_a_variable_that_the_store_keeps_is_listed_again(
    dataset: OpenDataset, store: Refusing, *, is_listed: bool
) -> None:
    variable = dataset.create_variable("v", ("x",), "i4")
    variable[...] = [1, 2, 3]
    store.root_error = None if is_listed else Unavailable("down")
    with suppress(Unavailable):
        dataset.sync()
    store.root_error, store.is_kept = None, True
    with pytest.raises(AccessDenied):
        dataset.editor.remove("v")
    dataset.sync()
    store.is_kept = False
    assert [*dataset.variables] == ["v"]
    with open_zmap(store) as found:
        assert found.variables["v"][...].tolist() == [1, 2, 3]
        assert not found.problems
