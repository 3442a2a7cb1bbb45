"""Chunks at the end of an array that another client makes longer meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from nczfs.errors import CodecError
from nczfs.library.api import OpenDataset
from nczfs.library.opening import open_zmap
from nczfs.zmap.keys import ROOT
from tests.support.counted import CountedStore
from tests.support.killed import Kept

FORMATS: dict[str, dict[str, Any]] = {
    "zarr2": {"chunks": (12,)},
    "zarr3": {"chunks": (12,)},
    "shards": {"chunks": (4,), "shards": (12,)},
}


@pytest.fixture(params=[True, False], ids=["near", "far"])
def store(request: pytest.FixtureRequest) -> CountedStore:
    return CountedStore(near=request.param)


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def made(store: CountedStore, kind: str, *, values: bool = True) -> None:
    """Make ``v`` of 6 elements, whose only unit has room for 12."""
    format_ = "zarr3" if kind == "shards" else kind
    with open_zmap(Kept(store), "w", format=format_) as root:
        root.create_variable("v", (6,), "i4", fillvalue=-1, **FORMATS.get(kind, FORMATS["zarr2"]))
        if values:
            root.variables["v"][:] = 1


def append(store: CountedStore) -> None:
    """Make ``v`` twice as long, as another client does."""
    with open_zmap(Kept(store), "r+") as root:
        (dimension,) = root.variables["v"].dimensions
        root.resize_dimension(dimension, 12)
        root.variables["v"][6:] = 7


def stored(store: CountedStore) -> list[int]:
    with open_zmap(Kept(store)) as root:
        found: list[int] = np.asarray(root.variables["v"][...]).tolist()
        return found


def client(store: CountedStore, opened: ExitStack) -> OpenDataset:
    """One that has seen ``v`` as it is now."""
    root = opened.enter_context(open_zmap(Kept(store), "r+"))
    assert root.variables["v"].shape == (6,)
    return root


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("values", [True, False], ids=["stored", "missing"])
def test_what_another_client_appends_to_a_chunk_stays(
    store: CountedStore, kind: str, values: bool, opened: ExitStack
) -> None:
    """SEMANTICS W69. All elements that our client knew of were written: the chunk seemed whole."""
    made(store, kind, values=values)
    ours = client(store, opened)
    append(store)
    ours.variables["v"][:6] = 9
    ours.sync()
    assert stored(store) == [9] * 6 + [7] * 6


@pytest.mark.parametrize("kind", FORMATS)
def test_what_another_client_appends_after_we_wrote_stays(
    store: CountedStore, kind: str, opened: ExitStack
) -> None:
    """SEMANTICS W69. Its chunk was missing when ours was written, and is not when it is stored."""
    made(store, kind, values=False)
    ours = client(store, opened)
    ours.variables["v"][:6] = 9
    append(store)
    ours.sync()
    assert stored(store) == [9] * 6 + [7] * 6


@pytest.mark.parametrize("kind", ["zarr2", "zarr3"])
def test_a_damaged_chunk_is_replaced_if_all_that_lies_in_the_array_is_written(
    store: CountedStore, kind: str, opened: ExitStack
) -> None:
    """SEMANTICS W1. Of a part of it the error is told, since the rest would be lost."""
    made(store, kind)
    (key,) = (stat.key for stat in store.list(ROOT) if stat.key in {"v/0", "v/c/0"})
    store.write(key, b"broken")
    ours = client(store, opened)
    ours.variables["v"][1:6] = 9
    with pytest.raises(CodecError, match=key):
        ours.sync()
    ours.variables["v"][:1] = 9
    ours.sync()
    assert stored(store) == [9] * 6


@pytest.mark.parametrize("kind", ["zarr2", "zarr3", "nczarr"])
def test_the_chunks_of_a_new_variable_are_stored_without_being_read(
    store: CountedStore, kind: str
) -> None:
    with open_zmap(Kept(store), "w", format=kind) as root:
        root.create_dimension("x", 6)
        variable = root.create_variable("v", ("x",), "i4", chunks=(12,), fillvalue=-1)
        store.reads.clear()
        variable[:] = 1
        root.sync()
    assert not [key for key in store.reads if key.startswith("v/") and key[-1] == "0"]
    assert stored(store) == [1] * 6


def test_a_chunk_of_an_array_that_cannot_grow_is_replaced_without_being_read(
    store: CountedStore, opened: ExitStack
) -> None:
    with open_zmap(Kept(store), "w", format="nczarr") as root:
        root.create_dimension("x", 6)
        root.create_variable("v", ("x",), "i4", chunks=(12,), fillvalue=-1)[:] = 1
    ours = client(store, opened)
    store.reads.clear()
    ours.variables["v"][:] = 9
    ours.sync()
    assert not [key for key in store.reads if key.startswith("v/") and key[-1] == "0"]
    assert stored(store) == [9] * 6
