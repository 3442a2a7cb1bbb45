"""What a mount loads after it has started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import netCDF4
import numpy as np
import pytest

import nczfs

BEGUN = """
import os
import sys
from nczfs.vfs import laterparts
from nczfs.fuse import daemon
from nczfs.vfs.tree import VfsOptions, mount_tree
from tests.support.trees import read
from tests.support.writing import close, mkdir, open_file

fs = mount_tree(sys.argv[1], None, VfsOptions(read_only=False))
laterparts.load()
known = {*sys.modules}
"""

READING = """
for name in ("v/values.raw", "v/chunks/0", "zom.json", "d.cdl", "d.ncs"):
    read(fs, f"datasets/d.zarr/{name}")
"""

WRITING = """
def made(group, name, data):
    mkdir(fs, f"datasets/{group}")
    path = f"datasets/{group}/{name}"
    handle = open_file(fs, path, os.O_WRONLY | os.O_CREAT)
    fs.write(handle, 0, data)
    close(fs, handle)
    return read(fs, f"datasets/{group}/zom.json")

hierarchy = read(fs, "datasets/d.zarr/zom.json")
assert b'"v"' in made("a.zarr", "zom.json", hierarchy)
assert b'"v"' in made("b.zarr", "b.nc", open(sys.argv[1] + "/d.nc", "rb").read())
assert b'"v"' in made("c.zarr", "c.cdl", read(fs, "datasets/d.zarr/d.cdl"))
"""

ENDED = """
fs.close()
print([name for name in sys.modules if name not in known and name.startswith("nczfs.")])
"""


@pytest.mark.parametrize("done", [READING, WRITING], ids=["reading", "writing"])
def test_nothing_of_the_package_is_loaded_after_it(tmp_path: Path, done: str) -> None:
    """A package that is replaced under a mount is not mixed with it."""
    with nczfs.open(str(tmp_path / "d.zarr"), "w") as dataset:
        dataset.create_dimension("x", 4)
        dataset.create_variable("v", ("x",), "i4")[...] = 1
    with netCDF4.Dataset(tmp_path / "d.nc", "w") as file:
        file.createDimension("x", 4)
        file.createVariable("v", "i4", ("x",))[:] = np.arange(4)
    command = [sys.executable, "-c", BEGUN + done + ENDED, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.stdout.split(), run.stderr) == (["[]"], "")


SERVED = """
import sys
from nczfs.cli import main
from nczfs.serve import server
from nczfs.vfs import laterparts

server.serve = lambda *given: print([name for name in laterparts.PARTS if name not in sys.modules])
main.main(["serve", sys.argv[1], "--listen", "127.0.0.1:0"])
"""


def test_a_web_service_loads_it_before_it_serves(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SERVED, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.stdout.split() == ["[]"]
