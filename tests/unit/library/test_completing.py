"""Opening a dataset of which a killed process has replaced a part."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

import nczfs
from nczfs.cli.main import main
from nczfs.engine.lease.lease import Leases
from nczfs.engine.structure.ownership import REPLACING
from nczfs.engine.structure.stepwise import Stepwise
from nczfs.errors import LeaseNotHeld, NotADataset, Unavailable
from nczfs.library.completing import LeftReplacements
from nczfs.testing.faults import Fault, Faulty
from nczfs.zmap.directory import DirectoryZMap
from nczfs.zmap.keys import ROOT, Prefix, join
from tests.conftest import ExpectedWarnings


def make(path: Path, value: int) -> Path:
    with nczfs.open(str(path), "w") as root:
        root.create_dimension("x", 4)
        root.create_variable("v", ("x",), data=np.full(4, value))
    return path


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """A dataset whose new content is complete, and not in place."""
    old, new = make(tmp_path / "d.zarr", 1), DirectoryZMap(make(tmp_path / "new.zarr", 2))
    at_copies = Fault(0, operations=frozenset({"copy"}), repeats=1000)
    zmap = Faulty(DirectoryZMap(old), at_copies)
    with Stepwise(zmap, ROOT, Leases(trusts=True)).aside("") as aside:
        for stat in new.list(ROOT):
            zmap.write(join(aside.prefix, stat.key), new.read(stat.key).data)
        with pytest.raises(Unavailable, match="is being replaced: its new content is in the store"):
            aside.exchange()
    assert (old / REPLACING).exists()
    return old


def values(path: Path) -> list[int]:
    with nczfs.open(str(path)) as root:
        return list(map(int, np.asarray(root["v"])))


@pytest.mark.parametrize("mode", ["r+", "a"])
def test_who_opens_it_for_writing_completes_it(left: Path, mode: str) -> None:
    with nczfs.open(str(left), mode) as root:
        assert np.asarray(root["v"]).tolist() == [2] * 4
    assert values(left) == [2] * 4
    assert not [path for path in left.rglob("*") if "replacing" in path.name]


def test_a_new_dataset_takes_its_place(left: Path) -> None:
    make(left, 3)
    assert values(left) == [3] * 4
    assert not [path for path in left.rglob("*") if "replacing" in path.name]


def test_who_opens_it_for_reading_learns_what_is_going_on(left: Path) -> None:
    with pytest.raises(NotADataset, match=r"d\.zarr: is being replaced"):
        nczfs.open(str(left))
    assert (left / REPLACING).exists()


def test_what_a_killed_process_has_left_beside_a_dataset_is_removed_with_it(tmp_path: Path) -> None:
    path = make(tmp_path / "d.zarr", 1)
    zmap = DirectoryZMap(path)
    place = path / ".nczfs-replacing/new"
    zmap.write(join(Prefix(".nczfs-replacing/new"), "v/0"), b"values")
    (path / REPLACING).write_bytes(b'{"complete": null}')
    assert values(path) == [1] * 4
    assert (place / "v/0").exists()
    assert main(["rm", "-r", str(path)]) == 0
    assert not path.exists()


def test_each_group_is_completed_by_one_thread_that_reports_it(
    expected_warnings: ExpectedWarnings,
) -> None:
    expected_warnings.add("^/a: an interrupted replacement is not completed: the store is away$")
    completed: list[Prefix] = []
    ended, calls = threading.Event(), []
    left = LeftReplacements(completed.append)

    def complete() -> bool:
        calls.append(threading.current_thread())
        ended.wait(120)
        return True

    left.found(Prefix("a"), complete)
    left.found(Prefix("a"), complete)
    ended.set()
    calls[0].join()
    assert (len(calls), completed) == (1, ["a"])

    def fail() -> bool:
        calls.append(threading.current_thread())
        raise Unavailable("the store is away")

    def wait() -> bool:
        calls.append(threading.current_thread())
        raise LeaseNotHeld("another process is at it")

    for each in (fail, wait):
        left.found(Prefix("a"), each)
        calls[-1].join()
    assert completed == ["a"]


@pytest.mark.parametrize("words", [("rm", "-r"), ("verify",), ("info",)])
def test_commands_that_find_no_dataset_say_that_it_is_being_replaced(
    left: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    assert main([*words, str(left)]) == 1
    assert "d.zarr: is being replaced: its new content is in the store" in capsys.readouterr().err
    assert (left / REPLACING).exists()
