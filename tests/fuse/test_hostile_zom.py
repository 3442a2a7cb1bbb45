"""Hostile zom.json files that are written into a real mount."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from nczfs.testing.datasets import put_array, put_group
from nczfs.zmap.registry import open_store
from tests.support.looking import peak_bytes
from tests.support.mounts import NCZFS, Served, served
from tests.support.zomtexts import hostile_texts

GROWTH_MAX_BYTES = 256 << 20
SMALL_BYTES = 1 << 18  # larger ones are tried once
CPU_MAX_S = 3.0  # about one on a machine that does nothing else
VALUES = np.arange(4, dtype="i4")


def test_hostile_texts_are_refused_and_their_neighbours_stay(tmp_path: Path) -> None:
    """SEMANTICS D34."""
    store = open_store(str(tmp_path))
    put_group(store, "d.zarr", {"title": "t"})
    put_array(store, "d.zarr/v", VALUES, (2,), dimensions=("x",))
    with served([*NCZFS, "mount", "--foreground", str(tmp_path)], expect="zom.json") as mount:
        dataset = mount.path / "datasets/d.zarr"
        new = mount.path / "datasets/new.zarr"
        new.mkdir()
        before = (dataset / "zom.json").read_bytes()
        stored = sorted(tmp_path.rglob("*"))
        grown_from = peak_bytes(mount.process.pid)
        texts = [*hostile_texts()]
        for place in (dataset, new):
            for name, text, why in texts:
                if place is dataset and len(text) > SMALL_BYTES:
                    continue
                began = cpu_s(mount)
                with pytest.raises(OSError, match=r"Errno (22|27)\]"):
                    (place / "zom.json").write_bytes(text)
                assert cpu_s(mount) - began < CPU_MAX_S, name
                problems = json.loads((place / "info.json").read_text())["problems"]
                assert re.search(why, "\n".join(problems)) or name == "large", (name, problems)
        assert peak_bytes(mount.process.pid) - grown_from < GROWTH_MAX_BYTES
        assert (dataset / "zom.json").read_bytes() == before
        assert (dataset / "v/values.raw").read_bytes() == VALUES.tobytes()
        assert sorted(tmp_path.rglob("*")) == stored


def cpu_s(mount: Served) -> float:
    """Return the processor time that the daemon has used."""
    fields = Path(f"/proc/{mount.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
