"""``nczfs import`` of a stream in a bucket of a real server, on a line that breaks."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import nczfs
from nczfs.cli.main import main
from tests.support.servers import Faults

VALUES = np.arange(5 << 20, dtype="i4").reshape(5, -1)


def test_a_stream_in_a_bucket_is_imported_by_ranges_also_after_a_cut(
    swift_with_faults: Faults, tmp_path: Path
) -> None:
    with nczfs.open(str(tmp_path / "a.zarr"), "w", format="zarr3") as dataset:
        dataset.create_variable("v", VALUES.shape, "i4", VALUES, chunks=(1, VALUES.shape[1]))
    file = tmp_path / "a.ncs"
    assert main(["export", str(tmp_path / "a.zarr"), str(file)]) == 0
    server = swift_with_faults.server
    bucket = server.new_bucket()
    client = server.client()
    client.upload_file(str(file), bucket, "a.ncs")
    client.close()
    swift_with_faults.set("truncate:3000000 GET path=a.ncs$ first=2")
    target = tmp_path / "b.zarr"
    assert main(["import", server.url(bucket, "a.ncs"), str(target), "--format", "zarr3"]) == 0
    assert sum("truncate" in line for line in swift_with_faults.log()) == 2
    with nczfs.open(str(target)) as dataset:
        assert np.array_equal(dataset.variables["v"][...], VALUES)
