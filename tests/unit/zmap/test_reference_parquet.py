"""References in parquet: what rows say, and files that are none."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nczfs.engine.stores import open_store
from nczfs.errors import (
    AccessDenied,
    BadMetadata,
    CorruptStore,
    NoSuchObject,
    Unsupported,
    UsageError,
)
from nczfs.zmap.keys import ROOT, Key, Prefix
from nczfs.zmap.reference_table import UNREADABLE_BYTES
from nczfs.zmap.registry import StoreOptions
from tests.conftest import ExpectedWarnings

DATA = bytes(range(200))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with data."""
    (tmp_path / "data.bin").write_bytes(DATA)
    return tmp_path


def parquet(
    place: Path, metadata: Mapping[str, object], rows: Mapping[str, list[tuple[Any, ...]]]
) -> str:
    """A directory of references, two rows a file."""
    directory = place / "refs.parq"
    directory.mkdir()
    (directory / ".zmetadata").write_text(json.dumps({"metadata": metadata, "record_size": 2}))
    for path, values in rows.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        columns = dict(
            zip(("path", "offset", "size", "raw"), zip(*values, strict=True), strict=True)
        )
        table = pa.table(
            {
                "path": pa.array(columns["path"], pa.string()).dictionary_encode(),
                "offset": pa.array(columns["offset"], pa.int32()),
                "size": pa.array(columns["size"], pa.int32()),
                "raw": pa.array(columns["raw"], pa.binary()),
            }
        )
        pq.write_table(table, directory / path)
    return str(directory)


ARRAY = {"zarr_format": 2, "shape": [2, 5], "chunks": [1, 2], "dtype": "|u1"}
ROWS: dict[str, list[tuple[Any, ...]]] = {
    "g/x/refs.0.parq": [("../../../data.bin", 3, 4, None), (None, 0, 0, None)],
    "g/x/refs.2.parq": [(None, 0, 0, b"raw"), ("near.bin", 0, 0, None)],
}


def test_references_in_parquet_read_as_rows_say(place: Path) -> None:
    url = parquet(place, {".zgroup": {}, "g/x/.zarray": ARRAY}, ROWS)
    (place / "refs.parq" / "g/x/near.bin").write_bytes(b"near")
    zmap = open_store(url, StoreOptions(allow_references=(str(place),)))
    assert {entry.name for entry in zmap.search(ROOT)} == {".zgroup", ".zmetadata", "g"}
    assert {entry.name for entry in zmap.search(Prefix("g/x"))} == {".zarray", "0.0", "1.1", "1.2"}
    assert bytes(zmap.read(Key("g/x/0.0")).data) == DATA[3:7]
    assert bytes(zmap.read(Key("g/x/1.1")).data) == b"raw"
    assert bytes(zmap.read(Key("g/x/1.2")).data) == b"near"
    assert {stat.key for stat in zmap.list(Prefix("g"))} >= {"g/x/.zarray", "g/x/1.2"}
    for absent in ("g/x/0.1", "g/x/1.0", "g/x/2.0", "g/x/0", "g/x/00.0", "g/x/-1.0"):
        with pytest.raises(NoSuchObject):
            zmap.read(Key(absent))
    zmap.close()
    with pytest.raises(AccessDenied):
        open_store(url).read(Key("g/x/0.0"))


def test_documents_of_zarr_3_are_refused(place: Path) -> None:
    url = parquet(place, {"zarr.json": {}, "g/x/zarr.json": {}}, {})
    with pytest.raises(Unsupported, match=r"refs\.parq/\.zmetadata: zarr\.json: only arrays with"):
        open_store(url)


def test_chunk_keys_with_slashes_are_directories(place: Path) -> None:
    array = ARRAY | {"dimension_separator": "/"}
    url = parquet(place, {".zgroup": {}, "g/x/.zarray": array}, ROWS)
    zmap = open_store(url)
    assert {(entry.name, entry.is_prefix) for entry in zmap.search(Prefix("g/x"))} == {
        (".zarray", False),
        ("0", True),
        ("1", True),
    }
    assert bytes(zmap.read(Key("g/x/1/1")).data) == b"raw"


@pytest.mark.parametrize(
    "metadata",
    [
        "[]",
        "{}",
        '{"metadata": {}, "record_size": 0}',
        '{"metadata": [], "record_size": 1}',
    ],
)
def test_a_directory_that_does_not_describe_references_is_an_error(
    place: Path, metadata: str
) -> None:
    (place / "refs.parquet").mkdir()
    (place / "refs.parquet" / ".zmetadata").write_text(metadata)
    with pytest.raises(BadMetadata, match=r"refs\.parquet/\.zmetadata"):
        open_store(str(place / "refs.parquet"))


@pytest.mark.parametrize(
    ("array", "problem"),
    [
        (1, "no attribute"),
        ([], "no attribute"),
        ({"shape": [1]}, "'chunks'"),
        (ARRAY | {"chunks": [0, 1]}, "no shape with chunks"),
        (ARRAY | {"shape": [1e9, 1]}, "no shape with chunks"),
        (ARRAY | {"shape": [900_000_000, 1]}, "more chunks than there can be"),
        (ARRAY | {"shape": [1 << 62, 1 << 62]}, "more chunks than there can be"),
    ],
)
def test_an_array_whose_chunks_cannot_be_counted_is_refused_alone(
    place: Path, array: object, problem: str
) -> None:
    rows: dict[str, list[tuple[Any, ...]]] = {"x/refs.0.parq": [(None, 0, 0, b"x")] * 2}
    url = parquet(place, {".zgroup": {}, "bad/.zarray": array, "x/.zarray": ARRAY}, rows)
    zmap = open_store(url)
    assert bytes(zmap.read(Key("x/0.1")).data) == b"x"
    assert json.loads(bytes(zmap.read(Key("bad/.zarray")).data)) == array
    for chunk in ("bad/0", "bad/0.0", "bad/0/1"):
        with pytest.raises(
            CorruptStore, match=f"{chunk}: its chunks have no references: .*{problem}"
        ):
            zmap.read(Key(chunk))
    with pytest.raises(NoSuchObject):
        zmap.read(Key("bad/.zattrs"))
    for prefix in (ROOT, Prefix("bad")):
        assert [key for key, _ in zmap.broken(prefix)] == ["bad/.zarray"]
    assert list(zmap.broken(Prefix("x"))) == []
    zmap.close()


def test_a_key_that_is_not_valid_is_left_out_alone(
    place: Path, expected_warnings: ExpectedWarnings
) -> None:
    expected_warnings.add("left out 2 documents")
    url = parquet(place, {".zgroup": {}, "../x/.zarray": ARRAY, "/y": {}, "a/.zattrs": {}}, {})
    zmap = open_store(url)
    assert {stat.key for stat in zmap.list(ROOT)} == {".zgroup", ".zmetadata", "a/.zattrs"}
    zmap.close()


def test_the_files_that_are_kept_stay_within_the_memory_limit(place: Path) -> None:
    """A file of a few KB whose rows come to megabytes is refused alone."""
    rows: dict[str, list[tuple[Any, ...]]] = {
        "x/refs.0.parq": [(None, 0, 0, bytes(600_000)), (None, 0, 0, bytes([1]) * 600_000)],
        "x/refs.1.parq": [(None, 0, 0, b"x")] * 2,
    }
    url = parquet(place, {".zgroup": {}, "x/.zarray": ARRAY}, rows)
    zmap = open_store(url, StoreOptions(memory_bytes=4 << 20))
    with pytest.raises(CorruptStore, match=r"a quarter of the memory limit \(1MiB\)"):
        zmap.read(Key("x/0.0"))
    assert bytes(zmap.read(Key("x/0.2")).data) == b"x"
    zmap.close()
    zmap = open_store(url, StoreOptions(memory_bytes=8 << 20))
    assert zmap.read(Key("x/0.0")).object_size == 600_000
    zmap.close()


def test_a_document_beyond_the_memory_limit_is_refused(place: Path) -> None:
    url = parquet(place, {".zgroup": {}, "x/.zattrs": {"a": "x" * (1 << 20)}}, {})
    with pytest.raises(Unsupported, match=r"come to more than the memory limit \(2MiB\)"):
        open_store(url, StoreOptions(memory_bytes=2 << 20))
    with pytest.raises(BadMetadata, match=r"bytes of references are not read"):
        open_store(url, StoreOptions(memory_bytes=1 << 20))
    open_store(url, StoreOptions(memory_bytes=8 << 20)).close()


def test_a_file_that_is_no_parquet_is_corrupt(place: Path) -> None:
    url = parquet(place, {"x/.zarray": ARRAY}, {})
    (Path(url) / "x").mkdir()
    (Path(url) / "x/refs.0.parq").write_bytes(b"PAR1 nothing")
    with pytest.raises(CorruptStore, match=r"x/refs\.0\.parq: cannot be read as parquet"):
        open_store(url).read(Key("x/0.0"))


def test_more_rows_than_declared_are_corrupt(place: Path) -> None:
    url = parquet(place, {"x/.zarray": ARRAY}, {"x/refs.0.parq": [("a", 0, 1, None)] * 3})
    with pytest.raises(CorruptStore, match="3 rows"):
        open_store(url).read(Key("x/0.0"))


def test_rows_and_files_that_cannot_be_read_hide_no_others(place: Path) -> None:
    rows = {
        "x/refs.0.parq": [("data.bin", -1, 4, None), ("/etc/hostname", 0, 0, None)],
        "x/refs.1.parq": [("gone.bin", 0, 0, None), ("data.bin", 0, 2, None)],
        "x/refs.2.parq": [("data.bin", 0, 2, None)] * 2,
    }
    url = parquet(place, {"x/.zarray": ARRAY}, rows)
    (Path(url) / "x/data.bin").write_bytes(DATA)
    (Path(url) / "x/refs.2.parq").write_bytes(b"PAR1 nothing")
    zmap = open_store(url)
    sizes = {".zarray": len(json.dumps(ARRAY)), "1.0": 2} | dict.fromkeys(
        ("0.0", "0.1", "0.2", "1.1", "1.2"), UNREADABLE_BYTES
    )
    assert {e.name: e.stat.size for e in zmap.search(Prefix("x")) if e.stat is not None} == sizes
    assert {stat.key: stat.size for stat in zmap.list(Prefix("x"))} == {
        f"x/{name}": size for name, size in sizes.items()
    }
    assert bytes(zmap.read(Key("x/1.0")).data) == DATA[:2]
    for name in sizes.keys() - {".zarray", "1.0"}:
        with pytest.raises((CorruptStore, AccessDenied), match=name):
            zmap.read(Key(f"x/{name}"))


def test_without_pyarrow_it_is_said_what_to_install(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = parquet(place, {"x/.zarray": ARRAY}, {})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"nczfs\[parquet\]"):
        open_store(url)


def test_the_references_of_gdal_read(reference_data: Path) -> None:
    place = reference_data / "gdal-zarr"
    zmap = open_store(str(place / "kerchunk_json/json_ref_v0_min/ref.json"))
    assert bytes(zmap.read(Key("x/0")).data) == b"\x01"
    folder = place / "kerchunk_parquet"
    for name in ("min", "0_dim", "0_dim_inline_content", "0_dim_path_dot_dot"):
        zmap = open_store(f"{folder}/parquet_ref_{name}#mode=zarr,kerchunk")
        assert bytes(zmap.read(Key("x/0")).data) == b"\x01"
        assert {entry.name for entry in zmap.search(Prefix("x"))} == {".zarray", ".zattrs", "0"}
        zmap.close()
    zmap = open_store(f"{folder}/parquet_ref_invalid_parquet_struct#kerchunk")
    with pytest.raises(CorruptStore, match="no column 'raw'"):
        zmap.read(Key("x/0"))
