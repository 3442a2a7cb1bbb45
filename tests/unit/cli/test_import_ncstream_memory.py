"""A valid stream is imported from a pipe in memory that does not follow its length."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import nczfs
from tests.support.bounded import ROOT

LIMIT_MIB = 64
GROWTH_MAX_MIB = LIMIT_MIB + 32
PARTS = 32

_STREAM = """
import sys
import numpy as np
from nczfs.ncstream.data import data_messages, ragged_message
from nczfs.ncstream.framing import END, START
from nczfs.ncstream.headers import header_message
from nczfs.ncstream.messages import DataType, Dimension, Group, Header, Range, Section, Variable
PARTS = int(sys.argv[2])
kind, many = sys.argv[1], {"numbers": 1 << 20, "strings": 1 << 15, "ragged": 1 << 14}
n = many.get(kind, 1 << 10)
type_ = DataType.STRING if kind == "strings" else DataType.INT
dims = (Dimension("x", n * PARTS),)
if kind == "ragged":
    dims = (*dims, Dimension("", 0, is_vlen=True))
out = sys.stdout.buffer
def header(*more):
    found = Group(dimensions=dims[:1], variables=(Variable("v", type_, dims), *more))
    return header_message(Header(found))
out.write(START + header())
for part in range(PARTS):
    if kind == "headers":
        for number in range(500):
            out.write(header(Variable(f"v{number}", DataType.INT, dims)))
    section = Section((Range(part * n, n, 1),))
    if kind == "strings":
        values = np.array([f"{part}-{i} {'x' * 100}" for i in range(n)], object)
    elif kind == "ragged":
        values = np.empty(n, object)
        for i in range(n):
            values[i] = np.full(40, i, "i4")
    else:
        values = np.arange(part * n, (part + 1) * n, dtype="i4")
    messages = ragged_message if kind == "ragged" else data_messages
    for piece in messages("v", type_, section, values):
        out.write(piece)
out.write(END)
"""

_IMPORT = """
import sys
from nczfs.cli.main import main
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) / 1024
assert main(["import", *sys.argv[1:3], "--format", "zarr2"]) == 0
before = peak()
assert main(["import", "-", *sys.argv[3:]]) == 0
print(peak() - before)
"""


@pytest.mark.parametrize("kind", ["numbers", "strings", "ragged", "headers"])
def test_memory_does_not_follow_the_length_of_a_stream(kind: str, tmp_path: Path) -> None:
    first = tmp_path / "first.ncs"
    made = [sys.executable, "-c", _STREAM, kind]
    with first.open("wb") as file:
        subprocess.run([*made, "1"], stdout=file, cwd=ROOT, check=True)
    goal = tmp_path / "d"
    options = ["--format", "zarr2", "--chunks", "x=16384", "--memory-limit", f"{LIMIT_MIB}MiB"]
    with subprocess.Popen([*made, str(PARTS)], stdout=subprocess.PIPE, cwd=ROOT) as source:
        imported = subprocess.run(
            [sys.executable, "-c", _IMPORT, first, tmp_path / "first", goal, *options],
            stdin=source.stdout,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert imported.returncode == 0, imported.stderr
    assert source.returncode == 0
    grown = float(imported.stdout.split()[-1])
    assert grown < GROWTH_MAX_MIB
    with nczfs.open(str(goal)) as root:
        variable = root.variables["v"]
        last = variable[-1:][0]
        match kind:
            case "strings":
                assert last.startswith(f"{PARTS - 1}-")
            case "ragged":
                assert np.array_equal(last, np.full(40, (1 << 14) - 1))
            case _:
                assert last == variable.shape[0] - 1
