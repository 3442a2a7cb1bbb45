"""Datasets that programs declare in a mount by copying a zom.json."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import zarr

from nczfs.zom import ArrayV2, GroupV2, dumps, to_v3
from tests.support.mounts import mounted

COUNT = 8
X = ArrayV2((6,), (4,), "<i4", 0, attributes={"_ARRAY_DIMENSIONS": ["x"], "units": "m"})
TREE = to_v3(GroupV2({"g": GroupV2({f"x{i}": X for i in range(COUNT)})}, {"title": "t"}))


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)


def test_a_copied_zom_json_declares_arrays_that_programs_write_and_read(tmp_path: Path) -> None:
    """SEMANTICS D23."""
    document = tmp_path / "tree.json"
    document.write_text(f"{dumps(TREE)}\n")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    values = np.arange(6, dtype="i4")
    refusal = "zom.json: ./members/g.: only attributes"
    with mounted(tmp_path / "one", expect=refusal) as one, mounted(tmp_path / "two") as two:
        files = [mount / "datasets/new.zarr/zom.json" for mount in (one, two)]
        for file in files:
            file.parent.mkdir()
            copied = run("cp", document, file)
            assert copied.returncode == 0, copied.stderr
            assert file.stat().st_size == document.stat().st_size
        assert run("diff", *files).stdout == ""
        for i in range(COUNT):
            (files[0].parent / f"g/x{i}/values.raw").write_bytes((values + i).tobytes())
        (files[0].parent / "g/x7/attributes/units").write_text("km")
        found = run("diff", *files).stdout.splitlines()
        assert [line.split() for line in found if line[0] in "<>"] == [
            ["<", '"units":', '"km"'],
            [">", '"units":', '"m"'],
        ]
        document.write_text('{"zarr_format": 3, "node_type": "group", "members": {}}')
        refused = run("cp", document, files[0])
        assert refused.returncode == 1
        assert "Operation not permitted" in refused.stderr
        assert "'/members/g': only attributes" in (files[0].parent / "info.json").read_text()
    stored = zarr.open_group(tmp_path / "one/new.zarr", mode="r")
    for i in range(COUNT):
        assert np.asarray(stored[f"g/x{i}"]).tolist() == (values + i).tolist()
