"""Members of structures, which clients may ask for alone."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from urllib.parse import quote

import numpy as np
import pytest
from siphon.cdmr.ncstream import read_ncstream_messages

import nczfs
from nczfs.buffers import Values
from nczfs.ncstream import Array, Header, read
from tests.support.served import Served, served

TABLE = np.dtype([("a", ">i2"), ("pair", "<f4", (2, 3)), ("word", "S1", (4,)), ("x.y", "u1")])


def _table() -> Values:
    rng = np.random.default_rng(18)
    found = np.zeros((5, 4), TABLE)
    found["a"] = rng.integers(-99, 99, (5, 4))
    found["pair"] = rng.random((5, 4, 2, 3))
    found["word"] = np.frombuffer(b"abcdefgh" * 10, "S1").reshape(5, 4, 4)
    found["x.y"] = np.arange(20).reshape(5, 4)
    return found


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("served")
    with nczfs.open(str(path / "a.zarr"), "w", format="zarr2") as dataset:
        inner = dataset.create_group("g")
        inner.create_variable("t.1", (5, 4), TABLE, _table(), chunks=(2, 3))
        waves = np.array([1 + 2j, 3 - 4j])
        dataset.create_variable("waves", (2,), "c16", waves)
        dataset.create_variable("one", (), TABLE, _table()[1, 2])
    with served(path) as running:
        yield running


def _sent(service: Served, section: str, level: int = 0) -> Array:
    """The only array of an answer, read with what the header says of it."""
    endpoint = "cdmremote/a.zarr?req="
    (header,) = read(BytesIO(service.get(f"{endpoint}header").body))
    assert isinstance(header, Header)
    got = service.get(f"{endpoint}data&var={quote(section)}&deflate={level}")
    assert got.status == 200, got.text
    (found,) = read(BytesIO(got.body), header=header)
    assert isinstance(found, Array)
    (other,) = read_ncstream_messages(BytesIO(got.body))
    assert np.array_equal(np.squeeze(found.values), np.squeeze(other))
    return found


@pytest.mark.parametrize("level", [0, 5])
@pytest.mark.parametrize(
    ("section", "member", "index"),
    [
        (r"/g/t\.1.a", "a", np.s_[:, :]),
        (r"g/t\.1(1:4:2,3).a", "a", np.s_[1:5:2, 3:4]),
        (r"g/t\.1.pair", "pair", np.s_[:, :]),
        (r"g/t\.1(0:1,:).pair(1,0:2:2)", "pair", np.s_[0:2, :, 1:2, 0:3:2]),
        (r"g/t\.1.pair(:,:)", "pair", np.s_[:, :]),
        (r"g/t\.1(4,0).word(1:2)", "word", np.s_[4:5, 0:1, 1:3]),
        (r"g/t\.1.x\.y", "x.y", np.s_[:, :]),
    ],
)
def test_a_member_is_sent_alone(
    service: Served, section: str, member: str, index: tuple[slice, ...], level: int
) -> None:
    """SEMANTICS V3."""
    found = _sent(service, section, level)
    assert found.path == f"g/t.1.{member}"
    expected = _table()[member][index]
    assert found.section.shape == found.values.shape == expected.shape
    assert found.values.tolist() == expected.tolist()


def test_members_of_complex_numbers_and_of_scalars_are_sent(service: Served) -> None:
    assert _sent(service, "waves.i").values.tolist() == [2, -4]
    assert _sent(service, "one.a").values.tolist() == _table()["a"][1, 2]
    assert _sent(service, "one().pair(1,:)").values.tolist() == _table()["pair"][1, 2, 1:].tolist()


def test_structures_and_members_are_sent_together(service: Served) -> None:
    got = service.get(r"cdmremote/a.zarr?req=data&var=waves.r;g/t\.1.a(),one.a")
    assert [np.asarray(each).size for each in read_ncstream_messages(BytesIO(got.body))] == [
        2,
        20,
        1,
    ]


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("waves.x", "'waves': has no member 'x' (there are: 'r', 'i')"),
        ("waves.r.r", "'waves.r': is no structure, and has no members"),
        ("waves.r(0)", "'waves.r': 1 ranges for 0 dimensions"),
        ("one.pair(0)", "'one.pair': 1 ranges for 2 dimensions"),
        ("one.pair(2,0)", "'one.pair', dimension 0: position 2 is beyond the end"),
        ("waves(2).r", "'waves', dimension 0: position 2 is beyond the end"),
    ],
)
def test_what_is_no_member_is_told(service: Served, section: str, words: str) -> None:
    """SEMANTICS V7."""
    got = service.get(f"cdmremote/a.zarr?req=data&var={quote(section)}")
    assert (got.status, words in got.text) == (400, True), got.text
