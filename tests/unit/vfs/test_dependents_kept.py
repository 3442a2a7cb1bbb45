"""What could not be stored of dependent arrays, which share a place with their primary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nczfs.engine.options import EngineOptions
from nczfs.engine.spool.space import Survives
from nczfs.errors import AccessDenied
from nczfs.library.opening import open_zmap
from nczfs.testing.faults import Fault, Faulty
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.keys import parse_key
from nczfs.zmap.memory import MemoryZMap
from tests.conftest import ExpectedWarnings
from tests.support.dependents import VALUES, write_dependents_sample
from tests.support.killed import left_by, recovered
from tests.support.trees import tree_over
from tests.support.writing import open_file

REFUSED = Fault(0, AccessDenied, operations=frozenset({"write"}), repeats=10**9)
PATHS = ("t", "t/mask", "t/mask/why", "t/q")
OPTIONS = EngineOptions(cache_bytes_max=0, flush_age_s=None, writes_dependents=True)


@pytest.mark.parametrize("is_refused", [True, False], ids=["refused", "killed"])
def test_each_is_put_back_where_it_belongs(
    tmp_path: Path, expected_warnings: ExpectedWarnings, *, is_refused: bool
) -> None:
    """SEMANTICS D22, W20, W21: all chunks have the index (0, 0), most of one type and shape."""
    expected_warnings.add("may no longer match")
    write_dependents_sample(tmp_path / "d")
    memory = MemoryZMap()
    for file in (tmp_path / "d").rglob("*"):
        if file.is_file():
            memory.write(parse_key(str(file.relative_to(tmp_path / "d"))), file.read_bytes())
    store = Faulty(memory)
    survives = Survives.NOTHING if is_refused else Survives.KILL
    spool = tmp_path / "spool"
    options = VfsOptions(engine=OPTIONS, read_only=False, spool_dir=spool, survives=survives)
    fs = tree_over(store, options)
    written = {path: np.array(VALUES[path]) for path in PATHS}
    store.arm(REFUSED)
    for number, path in enumerate(PATHS, start=70):
        values = written[path].reshape(-1)
        values[:2] = number
        handle = open_file(fs, f"datasets/store/{path}/values.raw")
        fs.write(handle, 0, values[:2].tobytes())
        if is_refused:
            with pytest.raises(AccessDenied):
                fs.fsync(handle, data_only=False)
    left = left_by(spool, tmp_path / "left")
    assert len(recovered(left, memory)) == len(PATHS)
    with open_zmap(memory) as root:
        for path, values in written.items():
            found: Any = root[path]
            np.testing.assert_array_equal(found[...], values)
    store.arm()
    fs.sync()
    fs.close()
