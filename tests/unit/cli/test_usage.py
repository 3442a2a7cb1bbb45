"""``nczfs ls -l``, ``du`` and ``tree``: what is listed, how large it is, and how it is drawn."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nczfs
from nczfs.cli import values
from nczfs.cli.main import main
from nczfs.cli.sizes import ratio_of, table
from nczfs.errors import AccessDenied
from nczfs.messages import size_text
from nczfs.zmap.base import Stat
from nczfs.zmap.directory import DirectoryZMap
from tests.support.httpd import WebServer


@pytest.fixture(params=["nczarr-L3", "zarr2"])
def dataset(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Variables v (half of it written), e (nothing written), s (a scalar), g/a and g/deep/b."""
    path = tmp_path / "store/d.zarr"
    with nczfs.open(str(path), "w", format=request.param) as root:
        root.create_dimension("x", 1000)
        root.create_variable("v", ("x",), "<f8", chunks=(100,), codecs=[])[:500] = np.arange(500.0)
        root.create_variable("e", ("x",), "<i2")
        root.create_variable("s", (), "<i4", np.int32(7), codecs=[])
        group = root.create_group("g")
        group.create_variable("a", ("x",), "<f4", np.ones(1000, "f4"))
        root.create_dimension("y", 4)
        group.create_group("deep").create_variable("b", ("y",), "<i4", np.arange(4, dtype="i4"))
    return path


def out(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    assert main([str(word) for word in words]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out


def rows(capsys: pytest.CaptureFixture[str], *words: str | Path) -> dict[str, dict[str, Any]]:
    found = json.loads(out(capsys, *words, "--json"))
    assert len({row["path"] for row in found}) == len(found)
    return {row["path"]: row for row in found}


def size_of(path: Path) -> int:
    return sum(p.stat().st_size for p in path.rglob("*") if p.is_file())


def test_ls_l_shows_decoded_and_stored_bytes_and_their_ratio(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = out(capsys, "ls", "-l", dataset).splitlines()
    assert lines[0].split() == ["TYPE", "DECODED", "STORED", "RATIO", "NAME"]
    assert [line.split(maxsplit=4) for line in lines[1:]] == [
        ["int16", "1.95KiB", "0B", "-", "e (x: 1000)"],
        ["int32", "4B", "4B", "1.00", "s ()"],
        ["float64", "7.81KiB", "3.91KiB", "2.00", "v (x: 1000)"],
        ["group", "-", "-", "-", "g/"],
    ]
    assert "8000" in out(capsys, "ls", "-lb", dataset).split()


def test_ls_l_counts_chunks_and_no_documents(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = rows(capsys, "ls", "-lR", dataset)
    assert list(found) == ["/e", "/s", "/v", "/g", "/g/a", "/g/deep", "/g/deep/b"]
    assert found["/v"]["stored_bytes"] == 4000
    assert found["/v"]["stored_objects"] == 5
    assert found["/v"]["ratio"] == 2
    assert found["/e"]["stored_bytes"] == 0
    assert found["/e"]["ratio"] is None
    chunks = [p for p in (dataset / "g/a").iterdir() if not p.name.startswith(".")]
    assert found["/g/a"]["stored_bytes"] == sum(p.stat().st_size for p in chunks)


def test_ls_without_l_lists_no_chunk(
    dataset: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DirectoryZMap, "list", lambda *_: pytest.fail("listed"))
    assert out(capsys, "ls", dataset).split() == ["e", "s", "v", "g/"]
    assert "stored_bytes" not in rows(capsys, "ls", dataset)["/v"]
    assert "v  float64 (x: 1000)" in out(capsys, "tree", dataset)


def test_ls_l_without_a_listing_says_why_sizes_are_missing(
    dataset: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> Iterator[Stat]:
        raise AccessDenied("s3://b: no permission to list")

    monkeypatch.setattr(DirectoryZMap, "list", refuse)
    assert main(["ls", "-l", str(dataset / "v")]) == 0
    printed = capsys.readouterr()
    assert printed.err == "nczfs: no stored sizes: s3://b: no permission to list\n"
    assert printed.out.splitlines()[1].split(maxsplit=4)[1:4] == ["7.81KiB", "-", "-"]
    assert main(["du", str(dataset)]) == 1


def test_ls_l_asks_no_web_server_for_every_chunk(
    dataset: Path, nginx: WebServer, capsys: pytest.CaptureFixture[str]
) -> None:
    place = nginx.new_directory()
    shutil.copytree(dataset, place, dirs_exist_ok=True)
    for path in place.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    url = f"{nginx.url}/json/{place.name}"
    assert main(["ls", "-l", url]) == 0
    printed = capsys.readouterr()
    assert "no stored sizes: the server must be asked for each chunk" in printed.err
    assert printed.out.splitlines()[3].split(maxsplit=4)[1:4] == ["7.81KiB", "-", "-"]
    asked = nginx.log.read_text()
    assert f"/json/{place.name}/v/0 " not in asked
    assert rows(capsys, "du", url)["/v"]["stored_bytes"] > 4000
    assert f"/json/{place.name}/v/0 " in nginx.log.read_text()


def test_ls_shows_what_cannot_be_read_among_the_others(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (dataset / "e/.zarray").write_text("{")
    assert out(capsys, "ls", dataset).split() == ["e", "s", "v", "g/"]
    (line,) = [row for row in out(capsys, "ls", "-l", dataset).splitlines() if " e " in row]
    assert line.startswith("broken ")
    assert "e/.zarray" in line
    assert "├── e  (cannot be read: " in out(capsys, "tree", dataset)


def test_du_sums_every_object_up_and_ends_with_the_place_itself(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (dataset / "notes").mkdir()
    (dataset / "notes/one.txt").write_text("hello")
    found = rows(capsys, "du", dataset)
    assert list(found) == ["/g/deep/b", "/g/deep", "/g/a", "/g", "/e", "/s", "/v", "/"]
    for path, row in found.items():
        where = dataset / path[1:]
        assert row["stored_bytes"] == size_of(where), path
        assert row["objects"] == sum(p.is_file() for p in where.rglob("*")), path
    assert found["/"]["decoded_bytes"] == 8000 + 2000 + 4 + 4000 + 16
    assert found["/"]["ratio"] == found["/"]["decoded_bytes"] / size_of(dataset)
    last = out(capsys, "du", "-sb", dataset).splitlines()[1:]
    assert [line.split()[1] for line in last] == [str(size_of(dataset))]


def test_du_of_a_variable_and_of_a_group(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert rows(capsys, "du", dataset / "v")["/v"]["stored_bytes"] == size_of(dataset / "v")
    group = rows(capsys, "du", dataset / "g")  # a dataset of its own
    assert list(group) == ["/deep/b", "/deep", "/a", "/"]
    assert group["/"]["stored_bytes"] == size_of(dataset / "g")


def test_du_of_a_store_sums_up_its_names(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (dataset.parent / "README").write_text("hello")
    found = rows(capsys, "du", dataset.parent)
    assert found["/README"]["stored_bytes"] == 5
    assert found["/d.zarr"]["stored_bytes"] == size_of(dataset)
    assert found["/"]["stored_bytes"] == size_of(dataset) + 5
    assert "/d.zarr/" in out(capsys, "du", dataset.parent).split()


def test_values_of_variable_length_have_no_decoded_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with nczfs.open(str(tmp_path / "d"), "w", format="zarr2") as root:
        root.create_variable("t", (2,), str, np.array(["a", "bc"], object))
        root.create_variable("n", (2,), "<i4", np.arange(2, dtype="i4"))
    assert rows(capsys, "ls", "-l", tmp_path / "d")["/t"]["decoded_bytes"] is None
    assert rows(capsys, "du", tmp_path / "d")["/"]["decoded_bytes"] is None
    (line,) = [
        text for text in out(capsys, "ls", "-l", tmp_path / "d").splitlines() if "t (" in text
    ]
    assert line.split()[:2] == ["string", "-"]


def test_tree_draws_groups_and_variables(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert out(capsys, "tree", dataset) == (
        f"{dataset}/\n"
        "├── e  int16 (x: 1000)\n"
        "├── s  int32 ()\n"
        "├── v  float64 (x: 1000)\n"
        "└── g/\n"
        "    ├── a  float32 (x: 1000)\n"
        "    └── deep/\n"
        "        └── b  int32 (y: 4)\n"
    )
    assert out(capsys, "tree", "-L", "1", dataset).endswith("└── g/  …\n")
    assert out(capsys, "tree", dataset / "s") == "s  int32 ()\n"
    drawn = json.loads(out(capsys, "tree", "--json", dataset))
    assert [row["name"] for row in drawn["members"]] == ["e", "s", "v", "g"]
    assert drawn["members"][3]["members"][1]["members"][0]["shape"] == [4]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0B"),
        (1023, "1023B"),
        (1024, "1KiB"),
        (10_230, "9.99KiB"),
        (10_239, "10KiB"),
        (1024 * 999, "999KiB"),
        (1024 * 1000, "0.98MiB"),
        (5 << 30, "5GiB"),
        (3 << 29, "1.5GiB"),
        (3 << 80, "3145728EiB"),
    ],
)
def test_sizes_are_spelled_as_options_take_them(size: int, text: str) -> None:
    assert size_text(size) == text
    if size < 1 << 50:  # of options
        assert values.size(text) == pytest.approx(size, rel=0.01)


def test_a_ratio_of_nothing_is_none() -> None:
    assert ratio_of(10, 0) is None
    assert ratio_of(None, 10) is None
    assert ratio_of(0, 10) == 0


def test_columns_are_aligned() -> None:
    assert table([("a", "bb", "c"), ("aaa", "b", "")], right=[1]) == ["a    bb  c", "aaa   b"]
