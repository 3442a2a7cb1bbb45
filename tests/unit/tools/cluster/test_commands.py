"""What commands print and write on a cluster is what they do in one process."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from nczfs.cli.main import main
from tests.support.clusters import Scheduler, dask_cluster
from tests.support.copies import fill_awkward, objects


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with a broken chunk and a foreign file."""
    place = tmp_path_factory.mktemp("source") / "a.zarr"
    fill_awkward(str(place), "nczarr-L3")
    return place


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scheduler]:
    with dask_cluster(tmp_path_factory.mktemp("cluster"), workers=1) as found:
        yield found


@pytest.fixture
def broken(source: Path, tmp_path: Path) -> Path:
    place = tmp_path / "broken.zarr"
    shutil.copytree(source, place)
    (place / "v" / "0.1").write_bytes(b"no chunk")
    (place / "v" / "notes").write_text("of somebody")
    return place


def said(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, list[str]]:
    """The status of a command, and what it prints, in any order."""
    status = main([*map(str, words)])
    return status, sorted(capsys.readouterr().out.splitlines())


def test_verify_finds_the_same(
    source: Path, broken: Path, scheduler: Scheduler, capsys: pytest.CaptureFixture[str]
) -> None:
    for place, status in ((source, 0), (broken, 1)):
        alone = said(capsys, "verify", place)
        assert alone[0] == status
        assert said(capsys, "verify", place, "--scheduler", scheduler.file) == alone


def test_verify_goes_on_where_it_stopped(
    source: Path, scheduler: Scheduler, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    words = ["verify", str(source), "--scheduler", str(scheduler.file), "--resume", str(state)]
    for is_again in (False, True):
        assert main(words) == 0
        assert ("25 verified before" in capsys.readouterr().err) is is_again


def test_digests_are_the_same_and_in_order(
    broken: Path, scheduler: Scheduler, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", "--digest", str(broken)]) == 1
    alone = capsys.readouterr().out
    words = ["verify", "--digest", str(broken), "--scheduler", str(scheduler.file)]
    for _ in range(2):  # at last from the state file
        assert main([*words, "--resume", str(tmp_path / "state")]) == 1
        assert capsys.readouterr().out == alone


def test_diff_finds_the_same(
    source: Path, scheduler: Scheduler, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.zarr"
    assert main(["cp", str(source), str(other), "--chunks", "x=3", "--codecs", "none"]) == 0
    assert said(capsys, "diff", source, other, "--scheduler", scheduler.file) == (0, [])
    path = other / "g" / "w" / "1.2"
    path.write_bytes(bytes(len(path.read_bytes())))
    (other / "plain" / "2").write_bytes(b"\x09\x09\x09")
    alone = said(capsys, "diff", source, other)
    assert alone[0] == 1
    assert len(alone[1]) == 2
    assert said(capsys, "diff", source, other, "--scheduler", scheduler.file) == alone


def test_diff_names_what_cannot_be_compared_and_compares_the_rest(
    source: Path, broken: Path, scheduler: Scheduler, capsys: pytest.CaptureFixture[str]
) -> None:
    (broken / "plain" / "2").write_bytes(b"\x09\x09\x09")
    assert main(["diff", str(source), str(broken), "--scheduler", str(scheduler.file)]) == 2
    out, err = capsys.readouterr()
    assert "/plain: values: " in out
    assert "v/0.1" in err


def test_metadata_are_converted_to_the_same(
    source: Path, scheduler: Scheduler, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_awkward(str(tmp_path / "one"), "nczarr-L1")
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    alone = said(capsys, "convert-metadata", tmp_path / "one")
    assert alone[0] == 0
    words = ["convert-metadata", str(tmp_path / "other"), "--scheduler", str(scheduler.file)]
    assert main(words) == 0
    assert objects(str(tmp_path / "other")) == objects(str(tmp_path / "one"))


@pytest.mark.parametrize("words", [["verify", "--holes"], ["verify", "--digest"], ["diff"]])
def test_work_that_one_process_does_is_refused(
    words: list[str], source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.nc"
    file.write_bytes(b"CDF\x01" + bytes(28))
    target = [str(source)] if "--holes" in words else [str(file)]
    target += [str(source)] if words == ["diff"] else []
    assert main([*words, *target, "--scheduler", "tcp://127.0.0.1:1"]) == 2
    assert "--scheduler and --workers" in capsys.readouterr().err
