"""Into which parts of an upload an object is cut."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from nczfs.zmap.base import ByteRange, Part, Stat, Version, part_size
from nczfs.zmap.keys import Key
from nczfs.zmap.s3.pieces import COPY_BYTES, PART_BYTES_MIN, PARTS_MAX, SentPart, UploadPart, cut

MIB = 1 << 20
CONTENT = memoryview(bytes(range(251)) * (18 * MIB // 251 + 1))
SOURCE = Stat(Key("source"), 5 << 40, Version('"1"'))


def ranges(sizes: list[int]) -> list[Part]:
    """Ranges of these sizes, one after the other with a gap between."""
    found: list[Part] = []
    start = 0
    for size in sizes:
        found.append(ByteRange(SOURCE, start, start + size))
        start += size + 1
    return found


def flat(pieces: list[UploadPart]) -> list[Part]:
    return [
        part
        for piece in pieces
        for part in (piece.parts if isinstance(piece, SentPart) else (piece,))
    ]


def size_of(piece: UploadPart) -> int:
    return sum(map(part_size, flat([piece])))


def spans(parts: list[Part]) -> list[tuple[int, int] | bytes]:
    """What parts hold, with neighbours joined."""
    found: list[tuple[int, int] | bytes] = []
    for part in filter(part_size, parts):
        last = found[-1] if found else None
        if isinstance(part, ByteRange):
            if isinstance(last, tuple) and last[1] == part.start:
                found[-1] = (last[0], part.stop)
            else:
                found.append((part.start, part.stop))
            continue
        assert isinstance(part, bytes | memoryview)
        if isinstance(last, bytes):
            found[-1] = last + bytes(part)
        else:
            found.append(bytes(part))
    return found


SIZES = st.one_of(
    st.integers(0, 18 * MIB),
    st.integers(0, 20_000),
    st.sampled_from([PART_BYTES_MIN - 1, PART_BYTES_MIN, PART_BYTES_MIN + 1, 17 * MIB]),
)
LARGE_SIZES = st.sampled_from([COPY_BYTES, COPY_BYTES + 1, 60 << 30])


@settings(deadline=None)  # some megabytes are compared
@given(st.lists(st.one_of(SIZES.map(lambda size: -size), SIZES, LARGE_SIZES), max_size=12))
def test_the_pieces_are_the_parts_and_of_sizes_that_servers_take(sizes: list[int]) -> None:
    """Sizes of ranges, and below 0 of bytes."""
    found = iter(ranges([size for size in sizes if size > 0]))
    parts = [next(found) if size > 0 else CONTENT[:-size] for size in sizes]
    pieces = cut(parts, 16 * MIB)
    assert spans(flat(pieces)) == spans(parts)
    assert len(pieces) <= PARTS_MAX
    assert all(size_of(piece) >= PART_BYTES_MIN for piece in pieces[:-1])
    assert all(0 < size_of(piece) <= 5 << 30 for piece in pieces)


def test_what_was_not_changed_is_left_to_the_server() -> None:
    parts: list[Part] = [
        ByteRange(SOURCE, 0, 300 * MIB),
        b"new",
        ByteRange(SOURCE, 300 * MIB, 900 * MIB),
    ]
    pieces = cut(parts, 16 * MIB)
    assert pieces[0] == parts[0]
    assert isinstance(pieces[1], SentPart)
    read = sum(part.size for part in pieces[1].parts if isinstance(part, ByteRange))
    assert read == PART_BYTES_MIN - 3
    assert all(isinstance(piece, ByteRange) for piece in pieces[2:])


def test_objects_of_any_size_have_few_enough_parts() -> None:
    assert len(cut([ByteRange(SOURCE, 0, SOURCE.size)], 16 * MIB)) == 9986
    changed_everywhere = [part for _ in range(9000) for part in (b"x", *ranges([100 * MIB]))]
    assert 9000 < len(cut(changed_everywhere, 16 * MIB)) <= PARTS_MAX


def test_bytes_are_not_cut_so_that_ranges_must_be_read_to_fill_up_a_part() -> None:
    parts: list[Part] = [ByteRange(SOURCE, 0, 20 * MIB), CONTENT[: 17 * MIB], *ranges([20 * MIB])]
    assert len(cut(parts, 16 * MIB)) == 3
