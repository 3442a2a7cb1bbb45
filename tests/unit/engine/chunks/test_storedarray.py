"""The identity of an array: the same for all who have it open, another one when it is made anew."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nczfs.engine.chunks.storedarray import StoredArray, StoredArrays
from nczfs.errors import StructureChanged
from nczfs.library.opening import open_zmap
from nczfs.model.hierarchy import ArrayDescription, ChunkKeys
from nczfs.zmap.keys import Prefix
from nczfs.zmap.memory import MemoryZMap

ZMAP, AT = MemoryZMap(), Prefix("d/v")


@pytest.fixture
def array() -> ArrayDescription:
    with open_zmap(MemoryZMap(), "w") as root:
        root.create_variable("v", (10, 4), "i4", chunks=(3, 4), codecs=[])
        return root.variables["v"].description.array


@pytest.fixture
def arrays() -> StoredArrays:
    return StoredArrays()


def test_it_is_the_same_whatever_its_length(arrays: StoredArrays, array: ArrayDescription) -> None:
    found = arrays.of(ZMAP, AT, array)
    assert arrays.of(ZMAP, AT, replace(array, shape=(11, 4))) is found
    assert arrays.of(ZMAP, AT, replace(array, fill_value=7)) is found


def test_another_place_or_layout_of_chunks_is_another_one(
    arrays: StoredArrays, array: ArrayDescription
) -> None:
    found = arrays.of(ZMAP, AT, array)
    others = [
        arrays.of(MemoryZMap(), AT, array),
        arrays.of(ZMAP, Prefix("d/w"), array),
        arrays.of(ZMAP, AT, replace(array, chunk_shape=(4, 4))),
        arrays.of(ZMAP, AT, replace(array, chunk_keys=ChunkKeys("/"))),
        arrays.of(ZMAP, AT, replace(array, codecs=replace(array.codecs, order="F"))),
    ]
    assert found not in others
    assert len(set(others)) == len(others)


def test_what_was_removed_and_made_anew_is_another_one(
    arrays: StoredArrays, array: ArrayDescription
) -> None:
    found = arrays.of(ZMAP, AT, array)
    found.check()
    found.end("gone")
    again = arrays.of(ZMAP, AT, array)
    assert again is not found
    again.check()
    with pytest.raises(StructureChanged, match="gone"):
        found.check()


def test_those_below_a_prefix_are_found_as_long_as_somebody_has_them(
    arrays: StoredArrays, array: ArrayDescription
) -> None:
    held = [arrays.of(ZMAP, Prefix(at), array) for at in ("d", "d/v", "d/g/v", "dv")]
    other = arrays.of(MemoryZMap(), AT, array)

    def within(prefix: str) -> set[StoredArray]:
        return set(arrays.within(ZMAP, Prefix(prefix)))

    assert within("d") == set(held[:3])
    assert within("d/v") == {held[1]}
    assert within("") == set(held)
    del held[:]
    assert within("") == set()
    assert not other.is_over
