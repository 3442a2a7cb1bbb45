"""The sparse file that HDF5 writes a template into."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from nczfs.views.netcdf.hdf5.sparse import BLOCK_BYTES, SparseFile
from nczfs.views.netcdf.hdf5.template import FileExtent

END = 6 * BLOCK_BYTES
WRITES = st.lists(
    st.tuples(
        st.integers(0, END - 1), st.binary(max_size=8) | st.just(b"x" * (2 * BLOCK_BYTES + 3))
    ),
    max_size=12,
)


def written(writes: list[tuple[int, bytes]]) -> tuple[SparseFile, bytes]:
    """A file, and what it holds."""
    file, wanted = SparseFile(), bytearray()
    for offset, data in writes:
        file.seek(offset)
        file.write(data)
        if data:
            wanted.extend(bytes(max(0, offset + len(data) - len(wanted))))
            wanted[offset : offset + len(data)] = data
    return file, bytes(wanted)


@given(writes=WRITES, start=st.integers(0, END), size=st.integers(0, END))
def test_what_was_written_is_read_and_zeros_between(
    writes: list[tuple[int, bytes]], start: int, size: int
) -> None:
    file, wanted = written(writes)
    assert file.seek(0, 2) == file.tell() == file.size == len(wanted)
    out = bytearray(b"?" * size)
    file.seek(start)
    count = file.readinto(out)
    assert bytes(out[:count]) == wanted[start : start + size]


@given(writes=WRITES, cuts=st.sets(st.integers(0, END), min_size=2))
def test_contents_are_all_bytes_of_the_places_but_for_zeros(
    writes: list[tuple[int, bytes]], cuts: set[int]
) -> None:
    file, wanted = written(writes)
    wanted = wanted.ljust(END, b"\0")
    places = [FileExtent(a, b - a) for a, b in list(pairwise(sorted(cuts)))[::2]]
    literals, data = file.contents(places)
    found, at = bytearray(len(wanted)), 0
    for offset, nbytes in literals:
        found[offset : offset + nbytes] = data[at : at + nbytes]
        at += nbytes
    assert at == len(data)
    for offset, nbytes in places:
        assert found[offset : offset + nbytes] == wanted[offset : offset + nbytes]
        found[offset : offset + nbytes] = bytes(nbytes)
    assert not any(found)
    assert all(sum(one) < other.offset for one, other in pairwise(literals))


def test_a_file_of_exbibytes_takes_the_memory_of_what_was_written() -> None:
    file = SparseFile()
    file.seek(1 << 61)
    file.write(b"end")
    file.truncate(1 << 62)
    assert file.size == 1 << 62
    assert file.contents([FileExtent(0, 1 << 62)]) == (
        (FileExtent(1 << 61, BLOCK_BYTES),),
        b"end".ljust(BLOCK_BYTES, b"\0"),
    )
