"""``nczfs export`` to an ncstream, as siphon and nczfs read it."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from siphon.cdmr import ncstream as siphon

import nczfs
from nczfs.cli.main import main
from nczfs.engine.chunks.chunkio import ChunkIO
from nczfs.errors import CorruptChunk
from nczfs.ncstream import Array, assemble, read

DEFAULT = 9.969209968386869e36
TEXTS = ["", "żółw", "c" * 100]


def run(*words: str | Path) -> int:
    return main([str(word) for word in words])


def made(place: Path, form: str) -> Path:
    with nczfs.open(str(place), "w", format=form) as root:
        root.create_dimension("time", None if form == "nczarr" else 3)
        root.create_dimension("x", 5)
        v = root.create_variable("v", ("time", "x"), "f4", chunks=(2, 2), fillvalue=-1.0)
        v[0:3] = np.arange(15).reshape(3, 5)
        root.create_variable("sparse", ("x",), "i8", chunks=(2,), fillvalue=7)
        root.create_variable("scalar", (), "u2")[...] = 65535
        group = root.create_group("g.1")
        s = group.create_variable("s", ("time",), str, chunks=(2,))
        s[0:3] = np.array(TEXTS, object)
    return place


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("of") / "d", "zarr3")


def assembled(data: bytes) -> dict[str, object]:
    return {k: v.tolist() for k, v in assemble(read(io.BytesIO(data), size=len(data))).items()}


@pytest.mark.parametrize(
    ("form", "options"), [("zarr2", ()), ("zarr3", ("--deflate", "4")), ("nczarr", ())]
)
def test_a_stream_has_the_values_in_chunks(
    form: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    place = made(tmp_path / "d", form)
    assert run("export", place, tmp_path / "a.ncs", *options) == 0
    data = (tmp_path / "a.ncs").read_bytes()
    assert assembled(data) == {
        "v": np.arange(15.0).reshape(3, 5).tolist(),
        "sparse": [7] * 5,
        "scalar": 65535,
        "g.1/s": TEXTS,
    }
    arrays = [item for item in read(io.BytesIO(data)) if isinstance(item, Array)]
    assert not [a for a in arrays if a.path == "sparse"]  # which has a _FillValue
    sections = [a.section.shape for a in arrays if a.path == "v"]
    assert sections == [(2, 2), (2, 2), (2, 1), (1, 2), (1, 2), (1, 1)]


@pytest.mark.parametrize(
    ("fill", "said", "is_sent"),
    [
        (DEFAULT, False, False),
        (0.0, False, True),
        (0.0, True, False),
        (np.nan, True, False),
        (-1.0, True, False),
    ],
)
def test_holes_are_sent_where_readers_would_fill_in_something_else(
    fill: float, said: bool, is_sent: bool, tmp_path: Path
) -> None:
    with nczfs.open(str(tmp_path / "d"), "w", format="zarr3") as root:
        v = root.create_variable("v", (6,), "f4", chunks=(2,), fillvalue=fill)
        v[2:4] = [fill, 2]
        expected = v[...]
    if not said:
        place = tmp_path / "d/v/zarr.json"
        document = json.loads(place.read_text())
        del document["attributes"]["_FillValue"]
        place.write_text(json.dumps(document))
    assert run("export", tmp_path / "d", tmp_path / "a.ncs") == 0
    data = (tmp_path / "a.ncs").read_bytes()
    starts = [a.section.ranges[0].start for a in read(io.BytesIO(data)) if isinstance(a, Array)]
    assert starts == ([0, 2, 4] if is_sent else [2])
    np.testing.assert_array_equal(assemble(read(io.BytesIO(data)))["v"], expected)


def test_siphon_reads_a_stream(
    dataset: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(50)  # it logs the first and the last four bytes as unknown
    assert run("export", dataset, tmp_path / "a.ncs", "--deflate", "9") == 0
    with (tmp_path / "a.ncs").open("rb") as file:
        header, *arrays = siphon.read_ncstream_messages(file)
    assert {v.name for v in header.root.vars} == {"v", "sparse", "scalar"}
    assert sum(a.size for a in arrays) == 15 + 1 + 3


def test_a_file_for_netcdf_java_has_a_message_for_each_variable(
    dataset: Path, tmp_path: Path
) -> None:
    assert run("export", dataset, tmp_path / "a.ncs", "--netcdf-java") == 0
    with (tmp_path / "a.ncs").open("rb") as file:
        arrays = [item for item in read(file) if isinstance(item, Array)]
    assert sorted(a.path for a in arrays) == ["g.1/s", "scalar", "sparse", "v"]
    (texts,) = (a.values for a in arrays if a.path == "g.1/s")
    assert [row.tobytes().rstrip(b"\0").decode() for row in texts] == TEXTS


def test_each_chunk_is_decoded_once(dataset: Path, tmp_path: Path) -> None:
    fetched: Counter[object] = Counter()
    fetch = ChunkIO.fetch

    def counted(self: ChunkIO, *arguments: object, **more: object) -> object:
        fetched[id(self), arguments[0]] += 1
        return fetch(self, *arguments, **more)  # type: ignore[arg-type]

    with mock.patch.object(ChunkIO, "fetch", counted):
        assert run("export", dataset, tmp_path / "a.ncs") == 0
    assert set(fetched.values()) == {1}


def test_a_stream_goes_to_the_standard_output(
    dataset: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run("export", dataset, "-") == 0
    assert assembled(capfdbinary.readouterr().out)["scalar"] == 65535


def test_an_existing_file_stays_unless_told(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.ncs").write_text("mine")
    assert run("export", dataset, tmp_path / "a.ncs") == 1
    assert "--overwrite replaces it" in capsys.readouterr().err
    assert (tmp_path / "a.ncs").read_text() == "mine"
    assert run("export", dataset, tmp_path / "a.ncs", "--overwrite") == 0
    assert [path.name for path in tmp_path.iterdir()] == ["a.ncs"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("a.ncs", "--chunks", "x=2"), "--chunks"),
        (("a.ncs", "--netcdf-java", "--deflate", "3"), "--netcdf-java"),
        (("a.ncs", "--deflate", "10"), "10"),
        (("a.nc", "--deflate", "3"), "--deflate"),
        (("-", "--kind", "nc4"), "standard output"),
    ],
)
def test_options_of_another_kind_of_file_are_refused(
    dataset: Path, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("export", dataset, *words) == 2
    assert said in capsys.readouterr().err


def test_an_error_while_reading_leaves_no_file(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with mock.patch.object(ChunkIO, "fetch", side_effect=CorruptChunk("v: broken")):
        assert run("export", dataset, tmp_path / "a.ncs") == 1
    assert "broken" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
