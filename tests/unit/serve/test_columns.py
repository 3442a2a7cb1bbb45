"""Structures and arrays of any length, which are sent in columns; names and lengths of others."""

from __future__ import annotations

import tracemalloc
from io import BytesIO
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from siphon.cdmr.ncstream import read_ncstream_messages

import nczfs
from nczfs.buffers import Values
from nczfs.ncstream import Array, Header, read
from nczfs.ncstream.framing import DATA2
from nczfs.ncstream.messages import Range, Section
from nczfs.serve.budget import BLOCK_BYTES_MIN
from nczfs.serve.spooled import structures
from nczfs.views.ncstream.header import members_of
from tests.support.served import Got, Served

TABLE = np.dtype([("a", ">i2"), ("pair", "<f4", (2, 3)), ("word", "S1", (4,)), ("x.y", "u1")])
LIST = {"id": "vlen-array", "dtype": "<i4"}
ROWS = 5 * BLOCK_BYTES_MIN // TABLE.itemsize
LISTS = 10_000  # more than a block has


def _table() -> Values:
    rng = np.random.default_rng(18)
    found = np.zeros(ROWS, TABLE)
    found["a"] = rng.integers(-99, 99, ROWS)
    found["pair"] = rng.random((ROWS, 2, 3))
    found["word"] = rng.integers(97, 123, (ROWS, 4), np.uint8).view("S1")
    found["x.y"] = np.arange(ROWS) % 256
    return found


def _lists() -> Values:
    found = np.empty(LISTS, object)
    for at in range(LISTS):
        found[at] = np.arange(at % 7, dtype="i4") - at
    return found


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("served")
    with nczfs.open(str(path / "a.zarr"), "w", format="zarr2") as dataset:
        dataset.create_variable("t", (ROWS,), TABLE, _table(), chunks=(999,))
        dataset.create_variable("one", (), TABLE, _table()[3])
        dataset.create_variable("waves", (2, 2), "c8", np.array([[1 + 2j, 3], [4j, 5 - 6j]]))
        dataset.create_variable("line", (2,), "c8", np.array([1 + 2j, 3 - 4j]))
        dataset.create_variable("r", (LISTS,), object, _lists(), chunks=(3000,), codecs=[LIST])
        for name in ("a b", "a_b", "two words", "x y", "x  y"):
            dataset.create_variable(name, (1,), "i4", np.array([len(name)], "i4"))
        group = dataset.create_group("g h")
        group.create_variable("v w", (2,), "i4", np.array([7, 8], "i4"))
        group.create_variable("empty", (0, 2), "i4")
    return path


def _asked(service: Served, section: str) -> Got:
    return service.get(f"cdmremote/a.zarr?req=data&var={quote(section)}")


def _header(service: Served) -> Header:
    (header,) = read(BytesIO(service.get("cdmremote/a.zarr?req=header").body))
    assert isinstance(header, Header)
    return header


@pytest.mark.parametrize(
    ("section", "index"),
    [("t", np.s_[:]), ("t(3:40000:7)", np.s_[3:40001:7]), ("t(8)", np.s_[8:9])],
)
def test_structures_are_sent_by_columns(service: Served, section: str, index: slice) -> None:
    """SEMANTICS V3. netcdf-java 5 takes wrong values from rows."""
    got = _asked(service, section)
    assert got.body.startswith(DATA2)
    (found,) = read(BytesIO(got.body), header=_header(service))
    assert isinstance(found, Array)
    expected = _table()[index]
    assert found.section.shape == expected.shape
    for name in TABLE.names or ():
        assert np.array_equal(found.values[name], expected[name]), name
        assert found.values[name].dtype.byteorder in "<|="


def test_columns_of_structures_lie_on_the_disk() -> None:
    rows, block = 4 << 20, np.zeros(4096, [("a", "<f4"), ("b", "<f4")])
    blocks = (block for _ in range(rows // len(block)))
    members = members_of(block.dtype)
    tracemalloc.start()
    try:
        section = Section((Range(0, rows),))
        sent = sum(len(each) for each in structures("t", section, members, blocks, 65536))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sent > rows * block.itemsize
    assert peak < 4 << 20


def test_structures_of_any_rank_are_sent(service: Served) -> None:
    (waves,) = read(BytesIO(_asked(service, "waves(0:1,1)").body), header=_header(service))
    assert isinstance(waves, Array)
    assert waves.values.tolist() == [[(3, 0)], [(5, -6)]]
    (one,) = read(BytesIO(_asked(service, "one").body), header=_header(service))
    assert isinstance(one, Array)
    assert one.section.shape == ()
    assert one.values["pair"].tolist() == _table()[3]["pair"].tolist()


def test_siphon_reads_structures_of_numbers(service: Served) -> None:
    (found,) = read_ncstream_messages(BytesIO(_asked(service, "line").body))
    assert found.tolist() == [(1, 2), (3, -4)]


@pytest.mark.parametrize(
    ("section", "index"), [("r", np.s_[:]), ("r(1:9999:5000)", np.s_[1::5000])]
)
def test_arrays_of_any_length_are_sent_in_one_column(
    service: Served, section: str, index: slice
) -> None:
    """SEMANTICS V3. netcdf-java 5 takes zeros from the other kind of message."""
    got = _asked(service, section)
    assert got.body.startswith(DATA2)
    expected = [each.tolist() for each in _lists()[index]]
    (found,) = read(BytesIO(got.body), header=_header(service))
    assert isinstance(found, Array)
    assert [each.tolist() for each in found.values] == expected
    (other,) = read_ncstream_messages(BytesIO(got.body))
    assert [each.tolist() for each in other] == expected


def test_arrays_of_any_length_that_are_too_long_are_refused(
    service: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS V7."""
    monkeypatch.setattr("nczfs.serve.spooled.VALUES_BYTES_MAX", 100)
    got = _asked(service, "r")
    assert got.status == 400
    assert "ask for parts" in got.text
    assert _asked(service, "r(0:3)").status == 200


def test_names_with_spaces_are_known_with_underscores(service: Served) -> None:
    """SEMANTICS V2."""

    def value(name: str) -> int:
        (found,) = read_ncstream_messages(BytesIO(_asked(service, name).body))
        return int(found[0])

    assert value("two_words") == value("two words") == 9
    assert (value("a_b"), value("a b")) == (3, 3)
    assert value("g_h/v_w") == value("/g h/v w") == 7
    assert value("x_y") == 3
    assert value("x__y") == 4
    ncml = service.get("cdmremote/a.zarr?req=NcML").text
    assert '<variable name="two_words"' in ncml
    assert '<group name="g_h">' in ncml


def test_a_dimension_without_elements_is_unlimited(service: Served) -> None:
    """SEMANTICS V2. netcdf-java opens no dataset that has another one."""
    (group,) = _header(service).root.groups
    (variable,) = (each for each in group.variables if each.name == "empty")
    assert [(d.length, d.is_unlimited) for d in variable.shape] == [(0, True), (2, False)]
    assert _asked(service, "g h/empty").status == 200
