"""Streams that claim what is not there, or are broken anywhere: an error or a correct result."""

from __future__ import annotations

import io
import random
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nczfs.buffers import Buffer
from nczfs.errors import BadMetadata
from nczfs.ncstream import assemble, read
from nczfs.ncstream import ncStream_pb2 as pb
from nczfs.ncstream.data import array_head, data_messages
from nczfs.ncstream.framing import DATA, DATA2, END, HEADER, START, message, vint
from nczfs.ncstream.headers import header_message
from nczfs.ncstream.messages import (
    Attribute,
    DataType,
    Dimension,
    Group,
    Header,
    Structure,
    Variable,
    whole_section,
)
from tests.support.bounded import watched
from tests.support.calls import counted_lines
from tests.support.reference import reference_root

MIB = 1 << 20


def described(*variables: Variable, structures: tuple[Structure, ...] = ()) -> bytes:
    return START + header_message(Header(Group(variables=variables, structures=structures)))


def of(length: int, type_: DataType = DataType.INT, *, is_vlen: bool = False) -> Variable:
    ragged = (Dimension("", 0, is_vlen=True),) if is_vlen else ()
    return Variable("v", type_, (Dimension("x", length), *ragged))


def claims(type_: DataType, size: int, **more: object) -> bytes:
    data = pb.Data(varName="v", dataType=int(type_), bigend=True, version=3, **more)
    data.section.range.add(size=size)
    return message(DATA, data.SerializeToString())


def nested(depth: int) -> bytes:
    name = b"\x0a\x01g"
    body = name
    for _ in range(depth):
        body = name + b"\x32" + vint(len(body)) + body
    root = body[len(name) :]
    return START + message(HEADER, b"\x22" + vint(len(root)) + root)


def bomb() -> bytes:
    packed = zlib.compress(bytes(512 * MIB), 9)
    head = array_head(
        "v", DataType.INT, whole_section((10,)), nbytes=len(packed), inflated_bytes=40
    )
    return described(of(10)) + head + packed + END


def many_parts() -> bytes:
    dimensions = b"\x12\x00" * (8 * MIB)
    return START + message(HEADER, b"\x22" + vint(len(dimensions)) + dimensions)


def many_columns() -> bytes:
    members = b"\x0a\x00" * (8 * MIB)
    return message(DATA2, b"\x10\x08" + b"\x72" + vint(len(members)) + members)


HOSTILE: dict[str, Callable[[], bytes]] = {
    "a bomb": bomb,
    "2^32 rows of variable length": lambda: (
        described(of(1 << 32, is_vlen=True))
        + claims(DataType.INT, 1 << 32, vdata=True)
        + vint(1 << 32)
    ),
    "2^62 strings": lambda: (
        described(of(1 << 62, DataType.STRING)) + claims(DataType.STRING, 1 << 62) + vint(1 << 62)
    ),
    "a long string": lambda: (
        described(of(1, DataType.STRING)) + claims(DataType.STRING, 1) + vint(1) + vint(1 << 31)
    ),
    "a block of 2 GiB": lambda: (
        described(of(1 << 29)) + claims(DataType.INT, (1 << 29) - 1) + vint((1 << 31) - 4)
    ),
    "an element of 2^60 bytes": lambda: (
        START
        + header_message(
            Header(
                Group(
                    structures=(
                        Structure(
                            "s",
                            DataType.STRUCTURE,
                            variables=(of(1 << 57, DataType.DOUBLE),),
                        ),
                    )
                )
            )
        )
    ),
    "groups in groups": lambda: nested(100_000),
    "dimensions without end": many_parts,
    "members without end": many_columns,
    "a header of 32 GiB": lambda: START + HEADER + vint(32 << 30),
}


def test_what_a_stream_claims_takes_no_memory(tmp_path: Path) -> None:
    for number, make in enumerate(HOSTILE.values()):
        (tmp_path / f"{number}.ncs").write_bytes(make())
    took = watched(
        "from pathlib import Path; from nczfs.errors import BadMetadata; "
        "from nczfs.ncstream import read",
        """
for path in Path(sys.argv[1]).iterdir():
    for size in (None, path.stat().st_size):
        with path.open("rb") as file:
            try:
                list(read(file, size=size))
            except BadMetadata as error:
                assert "at byte" in str(error), error
            else:
                raise AssertionError(path)
""",
        tmp_path,
    )
    assert took.grown_mib < 300


def test_a_message_shows_a_name_on_one_short_line() -> None:
    data = pb.Data(varName="\x1b[2J" + "n" * 10_000, version=3).SerializeToString()
    with pytest.raises(BadMetadata) as refused:
        list(read(io.BytesIO(described(of(1)) + message(DATA, data))))
    assert len(str(refused.value)) < 400
    assert str(refused.value).isprintable()


def alternating(count: int) -> bytes:
    """A stream of so many headers, each followed by the data of the variable that it adds."""
    pieces: list[Buffer] = [described()]
    for number in range(count):
        variable = Variable(f"v{number}", DataType.INT, (Dimension("x", 3, is_private=True),))
        pieces.append(header_message(Header(Group(variables=(variable,)))))
        numbers = np.arange(3, dtype="i4") + number
        pieces += data_messages(variable.name, variable.type, whole_section((3,)), numbers)
    return b"".join([*pieces, END])


def test_twice_as_many_headers_take_twice_the_work() -> None:
    """None is compared with all that earlier ones have described."""

    def lines(count: int) -> int:
        with counted_lines() as counted:
            found = assemble(read(io.BytesIO(alternating(count))))
        assert found[f"v{count - 1}"].tolist() == [count - 1, count, count + 1]
        return counted.total()

    lines(1)
    assert lines(200) < 2.2 * lines(100)


def test_a_fill_value_of_another_type_is_none_but_for_its_sign() -> None:
    def read_with(type_: DataType, value: float) -> object:
        fill = Attribute("_FillValue", type_, (value,))
        root = Group(variables=(Variable("v", DataType.UBYTE, attributes=(fill,)),))
        return assemble(read(io.BytesIO(START + header_message(Header(root)) + END)))["v"].item()

    assert read_with(DataType.BYTE, -1) == 255
    assert read_with(DataType.UBYTE, 3) == 3
    assert read_with(DataType.SHORT, -99) == 255  # netCDF's default
    assert read_with(DataType.DOUBLE, 2.5) == 255


def test_groups_are_read_as_deep_as_any_program_writes_them() -> None:
    (header,) = read(io.BytesIO(nested(90)[len(START) :]))
    assert isinstance(header, Header)


def whole_stream() -> bytes:
    x = whole_section((4,))
    texts = np.array(["a", "", "ü", "long" * 20], object)
    return b"".join(
        (
            described(of(4), Variable("s", DataType.STRING, (Dimension("x", 4),))),
            *data_messages("v", DataType.INT, x, np.arange(4, dtype="i4"), deflate=5),
            *data_messages("s", DataType.STRING, x, texts),
            END,
        )
    )


def test_a_stream_that_is_cut_anywhere_is_refused() -> None:
    data = whole_stream()
    for length in range(4, len(data)):
        for size in (None, length):
            with pytest.raises(BadMetadata, match="at byte"):
                assemble(read(io.BytesIO(data[:length]), size=size))


def mutations(count: int) -> None:
    root = reference_root()
    files: list[Path] = sorted((root / "ncstream").glob("*.ncs")) if root else []
    streams = [whole_stream(), *(path.read_bytes() for path in files)]
    rng = random.Random(18)
    for number in range(count):
        data = bytearray(streams[number % len(streams)])
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data))
            match rng.randrange(3):
                case 0:
                    data[at] = rng.randrange(256)
                case 1:
                    data[at] ^= 1 << rng.randrange(8)
                case _:
                    del data[at : at + rng.randint(1, 8)]
            if not data:
                break
        try:
            assemble(read(io.BytesIO(data)), bytes_max=64 * MIB)
        except BadMetadata as error:
            assert str(error)  # noqa: PT017


@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.long)])
def test_mutated_streams_are_refused_or_read_in_little_memory(count: int) -> None:
    took = watched(
        "from tests.unit.ncstream.test_hostile import mutations",
        "mutations(int(sys.argv[1]))",
        count,
    )
    assert took.grown_mib < 300
