"""Files of references in parquet that lie about what they come to."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nczfs.engine.stores import open_store
from nczfs.errors import CorruptStore
from nczfs.zmap.keys import Key
from nczfs.zmap.reference_pages import expanded_bytes
from tests.support.bounded import watched

LARGE_BYTES = 256 << 20
COLUMNS = ("path", "offset", "size", "raw")


def varint(number: int, length: int = 0) -> bytes:
    """A number as Thrift has it, made longer by bits that are zero."""
    number <<= 1
    found = bytearray([number & 127])
    while number := number >> 7:
        found.append(number & 127)
    found += bytes(max(0, length - len(found)))
    return bytes([*(byte | 128 for byte in found[:-1]), found[-1]])


def file(path: Path, raw: list[bytes | None], **options: object) -> None:
    count = len(raw)
    columns = {
        "path": pa.array([None] * count, pa.string()),
        "offset": pa.array([0] * count),
        "size": pa.array([0] * count),
        "raw": pa.array(raw, pa.binary()),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, use_dictionary=False, write_statistics=False, **options)


def dataset(place: Path) -> Path:
    directory = place / "refs.parq"
    array = {"zarr_format": 2, "shape": [8], "chunks": [1], "dtype": "|u1"}
    directory.mkdir()
    document = {"metadata": {"x/.zarray": array}, "record_size": 8}
    (directory / ".zmetadata").write_text(json.dumps(document))
    return directory


@pytest.mark.parametrize(
    ("raw", "options"),
    [
        ([b"a", None, b"c" * 5000], {}),
        ([b"a" * 100] * 8, {"compression": "zstd", "data_page_size": 100, "write_batch_size": 1}),
        ([b"a", b"b"] * 4, {"row_group_size": 3, "data_page_version": "2.0"}),
    ],
)
def test_the_pages_of_a_column_come_to_what_the_footer_says(
    tmp_path: Path, raw: list[bytes | None], options: dict[str, object]
) -> None:
    path = tmp_path / "file"
    file(path, raw, **options)
    body, metadata = path.read_bytes(), pq.ParquetFile(path).metadata
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(4)):
            start, stop = column.data_page_offset, column.total_compressed_size
            stop += start
            # The footer counts the headers, too.
            pages = expanded_bytes(body, start, stop)
            assert 0 < pages <= column.total_uncompressed_size < pages + 100 * len(raw)
            for wrong in ((start, stop - 1), (start + 1, stop), (start, len(body) + 1)):
                with pytest.raises(ValueError, match=r"page|column"):
                    expanded_bytes(body, *wrong)


READ = """
from nczfs.engine.stores import open_store
from nczfs.errors import CorruptStore
from nczfs.zmap.keys import Key
from nczfs.zmap.registry import StoreOptions
import pyarrow.parquet
zmap = open_store(sys.argv[1], StoreOptions(memory_bytes=64 << 20))
"""
REFUSED = """
try:
    zmap.read(Key("x/0"))
except CorruptStore as error:
    assert "come to more than a quarter of the memory limit (16MiB)" in str(error), error
else:
    raise AssertionError("it was read")
"""


def test_pages_that_expand_beyond_what_the_footer_says_take_no_memory(tmp_path: Path) -> None:
    """SEMANTICS A7."""
    directory = dataset(tmp_path)
    path = directory / "x/refs.0.parq"
    file(path, [bytes(LARGE_BYTES), b"x"], compression="zstd")
    column = pq.ParquetFile(path).metadata.row_group(0).column(3)
    group_bytes = pq.ParquetFile(path).metadata.row_group(0).total_byte_size
    body = path.read_bytes()
    assert len(body) < 100_000
    for number in (column.total_uncompressed_size, group_bytes):
        assert varint(number) in body
        body = body.replace(varint(number), varint(1000, len(varint(number))))
    path.write_bytes(body)
    assert pq.ParquetFile(path).metadata.row_group(0).column(3).total_uncompressed_size == 1000
    assert watched(READ, REFUSED, directory).grown_mib < LARGE_BYTES >> 21


def test_rows_that_the_footer_counts_differently_are_refused(tmp_path: Path) -> None:
    """SEMANTICS A7."""
    directory = dataset(tmp_path)
    path = directory / "x/refs.0.parq"
    file(path, [b"x"] * 7)
    body = bytearray(path.read_bytes())
    size = int.from_bytes(body[-8:-4], "little")
    footer = bytes(body[-8 - size : -8])
    zmap = open_store(str(directory))
    assert bytes(zmap.read(Key("x/0")).data) == b"x"
    zmap.close()
    refused = 0
    for at in range(len(footer)):
        if footer[at] == 14:  # 7, as Thrift has it
            lie = footer[:at] + bytes([12]) + footer[at + 1 :]
            path.write_bytes(bytes(body[: -8 - size]) + lie + bytes(body[-8:]))
            zmap = open_store(str(directory))
            try:
                zmap.read(Key("x/0"))
            except CorruptStore as error:
                refused += "other rows than" in str(error)
            zmap.close()
    assert refused >= len(COLUMNS)
