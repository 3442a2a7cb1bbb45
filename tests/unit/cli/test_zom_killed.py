"""``nczfs zom create`` that is killed between two changes of the store."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nczfs.cli.main import main
from nczfs.zom import ArrayV2, GroupV2, create, diff, dumps, from_store, to_v3

X = ArrayV2((4,), (2,), "<i4", 0, attributes={"units": "m"})
OLD = to_v3(GroupV2({"g": GroupV2({"old": X, "x": X}), "old": X}, {"title": "old"}))
NEW = to_v3(GroupV2({"g": GroupV2({f"x{i}": X for i in range(4)}), "x": X}, {"title": "new"}))

KILLED = """
import os, signal, sys
from nczfs.cli.main import main
from nczfs.zmap.directory import DirectoryZMap

left = int(sys.argv[1])

def limited(name):
    method = getattr(DirectoryZMap, name)
    def called(self, key, *arguments, **options):
        global left
        if "zarr.json" in str(key):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return method(self, key, *arguments, **options)
    setattr(DirectoryZMap, name, called)

limited("write")
limited("delete_many")
main(sys.argv[2:])
"""


@pytest.mark.parametrize("changes", [1, 3])
@pytest.mark.parametrize("replaces", [False, True])
def test_what_is_left_is_valid_and_not_taken_for_the_whole(
    tmp_path: Path, changes: int, *, replaces: bool
) -> None:
    url, document = tmp_path / "a.zarr", tmp_path / "new.json"
    document.write_text(dumps(NEW))
    if replaces:
        create(str(url), OLD)
    words = ["zom", "create", str(url), str(document), *(["--overwrite"] if replaces else [])]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(changes), *words], capture_output=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    if (url / "zarr.json").exists():
        left = from_store(str(url))
        assert not left.problems
        assert diff(left.node, NEW)
        assert main(["zom", "diff", str(url), str(document)]) == 1
        assert main(["zom", "create", str(url), str(document)]) == 1  # refused: another one
        assert from_store(str(url)) == left
    assert main(["zom", "create", str(url), str(document), "--overwrite"]) == 0
    assert from_store(str(url)).node == NEW
