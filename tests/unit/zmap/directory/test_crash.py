"""Directories whose writers are killed, and those that several processes write to."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nczfs.zmap.directory import TEMPORARY, DirectoryZMap
from nczfs.zmap.keys import ROOT, Key

KEYS = [Key(f"k/{number}") for number in range(5)]

WRITER = """
import sys
from nczfs.zmap.directory import DirectoryZMap
from nczfs.zmap.keys import Key
root, turn = sys.argv[1], int(sys.argv[2])
zmap = DirectoryZMap(root, durable=turn % 2 == 1)
while True:
    turn += 1
    for number in range(5):
        zmap.write(Key(f"k/{number}"), b"%d " % turn * 20_000)
    zmap.write(Key(f"new/{turn}/deep"), b"%d " % turn)
    zmap.delete(Key(f"new/{turn}/deep"))
    print(turn, flush=True)
"""

INCREMENT = """
import sys
from nczfs.errors import Conflict
from nczfs.zmap.directory import DirectoryZMap
from nczfs.zmap.keys import Key
zmap = DirectoryZMap(sys.argv[1])
for _ in range(int(sys.argv[2])):
    while True:
        blob = zmap.read(Key("count"))
        try:
            zmap.write(Key("count"), b"%d" % (int(blob.data) + 1), replaces=blob.version)
            break
        except Conflict:
            pass
"""


def _killed(root: Path, turn: int, after_s: float) -> int:
    """Let a writer go on from a turn, kill it; the last turn that it had ended."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(root), str(turn)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        try:
            process.wait(after_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        acknowledged = int((first + process.stdout.read()).split()[-1])
        assert process.wait() == -signal.SIGKILL
    return acknowledged


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("times", [10, pytest.param(200, marks=pytest.mark.long)])
def test_a_writer_that_is_killed_leaves_old_and_new_objects_and_nothing_else(
    tmp_path: Path, times: int
) -> None:
    moments = random.Random(times)
    root = tmp_path / "root"
    root.mkdir()
    turn = 0
    for _ in range(times):
        ended = _killed(root, turn, moments.uniform(0, 0.03))
        unchanged = DirectoryZMap(root, read_only=True)
        zmap = DirectoryZMap(root)
        for each in (unchanged, zmap):
            found = {stat.key: bytes(each.read(stat.key).data) for stat in each.list(ROOT)}
            begun = {key: data for key, data in found.items() if key not in KEYS}
            assert begun in ({}, {f"new/{ended + 1}/deep": b"%d " % (ended + 1)})
            turns = [int(found[key].split()[0]) for key in KEYS]
            assert [found[key] for key in KEYS] == [b"%d " % each * 20_000 for each in turns]
            # One after the other: those up to where it was killed are new.
            assert turns == sorted(turns, reverse=True)
            assert set(turns) <= {ended, ended + 1}
        zmap.delete_many(list(begun))
        unchanged.close()
        zmap.close()
        assert [path for path in root.rglob("*") if TEMPORARY in path.name] == []
        turn = ended + 1


@pytest.mark.timeout(600)
@pytest.mark.parametrize("updates", [300, pytest.param(10_000, marks=pytest.mark.long)])
def test_no_update_is_lost_between_processes(tmp_path: Path, updates: int) -> None:
    zmap = DirectoryZMap(tmp_path)
    zmap.write(Key("count"), b"0")
    command = [sys.executable, "-c", INCREMENT, str(tmp_path), str(updates // 2)]
    processes = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    assert bytes(zmap.read(Key("count")).data) == b"%d" % updates
    zmap.close()
    assert os.listdir(tmp_path) == ["count"]
