"""Variables that are made while a new length of their dimension is not stored yet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from nczfs.errors import AccessDenied
from nczfs.library.api import OpenDataset
from nczfs.library.opening import open_zmap
from nczfs.zmap.base import Version
from nczfs.zmap.keys import Key
from nczfs.zmap.memory import MemoryZMap


class Refusing(MemoryZMap):
    """A store that may refuse values of the variable `a`."""

    refuses = False

    def write(self, key: Key, data: Any, **arguments: Any) -> Version:
        if self.refuses and key in ("a/0", "a/c/0"):
            raise AccessDenied(f"{key}: refused")
        return super().write(key, data, **arguments)


@pytest.fixture
def store() -> Refusing:
    return Refusing()


@pytest.fixture(params=["nczarr-L3", "nczarr-L2l", "zarr2", "zarr3"])
def dataset(request: pytest.FixtureRequest, store: Refusing) -> Iterator[OpenDataset]:
    """One of which a variable has grown to a length that is not stored."""
    with open_zmap(store, "w", format=request.param) as dataset:
        dataset.create_dimension("t", None)
        dataset.create_variable("a", ("t",), "i4", fillvalue=-1)[0:3] = [0, 1, 2]
        dataset.sync()
        dataset.variables["a"][3:5] = [3, 4]
        yield dataset


def make(dataset: OpenDataset) -> None:
    dataset.create_variable("b", ("t",), "i4", fillvalue=-1)[...] = range(5)


def test_a_variable_is_stored_together_with_the_new_length_of_its_dimension(
    dataset: OpenDataset, store: Refusing
) -> None:
    make(dataset)
    dataset.editor.sync("b")
    with open_zmap(store) as found:
        assert found.variables["b"][...].tolist() == [0, 1, 2, 3, 4]
        assert not found.problems


def test_a_new_variable_is_not_called_stored_while_its_dimension_is_too_short(
    dataset: OpenDataset, store: Refusing
) -> None:
    make(dataset)
    store.refuses = True
    declares = dataset.engine_dataset.format.declares
    with pytest.raises(AccessDenied) if declares else nullcontext():  # else it has its own length
        dataset.editor.sync("b")
    if declares:
        with open_zmap(store) as found:
            assert [*found.variables] == ["a"]
        store.refuses = False
        dataset.editor.sync("b")
    with open_zmap(store) as found:
        assert found.variables["b"][...].tolist() == [0, 1, 2, 3, 4]
        assert not found.problems
    store.refuses = False
