"""How many Python calls a file operation takes, through how many files of nczfs, in all threads.

    python -m benchmarks.calls [CHECKOUT]

CHECKOUT is a directory with another version of nczfs, such as a worktree of git, whose figures
stand first. Calls depend on neither the machine nor its load, so they tell what became longer when
times are too noisy. A dataset with three variables of float32 lies in a directory; each operation
goes to the file system without the kernel, in a new mount, after one that imports everything.
Of five times the least counts: a thread that looks after something now and then may add its calls.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import zarr

from benchmarks.harness import printed_by

HERE = Path(__file__).resolve().parents[1]
SHAPE = (16, 64, 512)
CHUNKS = {"rows": (1, 64, 512), "tiles": (16, 16, 64), "more": (1, 64, 512)}

# It runs with whichever version comes first in its path.
CASES = """
import json, os, sys, threading
from collections import Counter
from pathlib import Path

import nczfs
from nczfs.vfs.base import ROOT_INODE
from nczfs.vfs.tree import VfsOptions, mount_tree

OURS = str(Path(nczfs.__file__).parent)
SMALL, CHUNK = 4096, 64 * 512 * 4
calls, counts = Counter(), False

def note(frame, event, argument):
    if counts and event == "call" and frame.f_code.co_filename.startswith(OURS):
        calls[frame.f_code.co_filename] += 1

threading.setprofile(note)
sys.setprofile(note)

def find(fs, path):
    ino = ROOT_INODE
    for name in path.split("/"):
        ino = fs.lookup(ino, name.encode()).ino
    return ino

def counted(action):
    global counts
    calls.clear()
    counts = True
    found = action()
    counts = False
    return found, sum(calls.values()), len(calls)

def opened(fs, variable, flags=os.O_RDONLY):
    return fs.open(find(fs, f"datasets/d.zarr/{variable}/values.raw"), flags).handle

def cold(fs, variable):
    handle = opened(fs, variable)
    found = counted(lambda: fs.read(handle, 5 * CHUNK, SMALL))
    fs.release(handle)
    return found

def warm(fs, variable):
    handle = opened(fs, variable)
    fs.read(handle, 5 * CHUNK, SMALL)
    found = counted(lambda: fs.read_if_cached(handle, 5 * CHUNK, SMALL))
    fs.release(handle)
    return found

def written(fs, size):
    def write():
        count = fs.write(handle, 5 * CHUNK, os.urandom(size))
        fs.fsync(handle, data_only=False)
        return bytes(count)
    handle = opened(fs, "rows", os.O_WRONLY)
    found = counted(write)
    fs.flush(handle)
    fs.release(handle)
    return found

def listed(fs, path, times):
    def show():
        handle = fs.opendir(ino)
        for entry in fs.readdir(handle, 0):
            fs.remember(entry.attributes.ino)
            if not entry.attributes.valid_s:
                fs.getattr(entry.attributes.ino)
        fs.releasedir(handle)
        return b"listed"
    ino = find(fs, path)
    for _ in range(times - 1):
        show()
    return counted(show)

WALKS = {
    "a cold read of 4 KiB, within a chunk": lambda fs: cold(fs, "rows"),
    "across sixteen pieces of four chunks": lambda fs: cold(fs, "tiles"),
    "a warm read of 4 KiB, within a chunk": lambda fs: warm(fs, "rows"),
    "across sixteen pieces of four chunks ": lambda fs: warm(fs, "tiles"),
    "a write of 4 KiB, and fsync": lambda fs: written(fs, SMALL),
    "a write of a whole chunk, and fsync": lambda fs: written(fs, CHUNK),
    "`ls -l` of a dataset of three variables": lambda fs: listed(fs, "datasets/d.zarr", 1),
    "the same again": lambda fs: listed(fs, "datasets/d.zarr", 2),
    "`ls -l` of a variable": lambda fs: listed(fs, "datasets/d.zarr/rows", 1),
    "the same again ": lambda fs: listed(fs, "datasets/d.zarr/rows", 2),
}

for name, walk in WALKS.items():
    found = []
    for _ in range(6):
        fs = mount_tree(sys.argv[1], None, VfsOptions(read_only=False))
        answer, *numbers = walk(fs)
        assert answer, name
        found.append(numbers)
        fs.close()
    print(json.dumps([name, *min(found[1:])]))
"""


def counts(checkout: Path) -> dict[str, tuple[int, int]]:
    """Return the calls and the files of each operation with the version in a directory."""
    with tempfile.TemporaryDirectory() as place:
        root = zarr.open_group(f"{place}/d.zarr", mode="w", zarr_format=2)
        for name, chunks in CHUNKS.items():
            array = root.create_array(name, shape=SHAPE, chunks=chunks, dtype="f4")
            array[...] = np.arange(array.size, dtype="f4").reshape(SHAPE)
        rows = map(json.loads, printed_by(checkout, CASES, place))
    return {name: (calls, files) for name, calls, files in rows}


def main() -> None:
    """Print a row for each operation."""
    found = [counts(each) for each in (*map(Path, sys.argv[1:2]), HERE)]
    columns = ["calls, files before", "calls, files"][-len(found) :]
    print(f"| operation | {' | '.join(columns)} |\n|{' --- |' * (len(columns) + 1)}")
    for name in found[-1]:
        cells = (f"{calls}, {files}" for calls, files in (each[name] for each in found))
        print(f"| {name.strip()} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
