"""What somebody waits for: `nczfs exec` of a trivial command, and a preview of a large variable.

    python -m benchmarks.prompt [--pairs N] [--only exec,preview]

`exec` of ``true`` with the demo's dataset in a directory, and on a real S3 server 20 ms away,
beside ``true`` alone: the difference is what it adds. The preview is that of a variable of 10 TiB
of float32, from a mount, beside zarr-python reading the same map, which is 64 chunks of 1 MiB. The
rest of the variable was never written.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np
import zarr

from benchmarks.harness import delayed, field, mounted, paired, refresh, s3_server
from benchmarks.s3store import BUCKET, DELAY_MS, client
from nczfs.cli.activity import counted
from nczfs.cli.demo import SAMPLE

SIDE, CHUNK, STEPS = 4096, 512, 163_840  # of float32: 10 TiB


def main() -> None:
    """Run and print the rows of a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", default="exec,preview")
    arguments = parser.parse_args()
    print("| wait | peer s | nczfs s | ratio |\n| --- | --- | --- | --- |")
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nczfs-bench-")))
        if "exec" in arguments.only:
            _exec("directory", str(SAMPLE), arguments.pairs)
            endpoint = stack.enter_context(s3_server(BUCKET))
            s3 = client(endpoint)
            for path in SAMPLE.rglob("*"):
                if path.is_file():
                    key = f"{SAMPLE.name}/{path.relative_to(SAMPLE).as_posix()}"
                    s3.put_object(Bucket=BUCKET, Key=key, Body=path.read_bytes())
            far = stack.enter_context(delayed(endpoint, DELAY_MS))
            _exec(f"S3 +{DELAY_MS} ms", f"{far}/{BUCKET}/{SAMPLE.name}#mode=s3", arguments.pairs)
        if "preview" in arguments.only:
            _preview(scratch, arguments.pairs)


def _exec(where: str, url: str, pairs: int) -> None:
    words = [sys.executable, "-m", "nczfs.cli.main", "exec", url, "--", "true"]
    pair = paired(
        f"exec, {where}; peer: the command alone",
        partial(subprocess.run, ["true"], check=True),
        partial(subprocess.run, words, check=True),
        before=_nothing,
        pairs=pairs,
    )
    added = sorted(ours - peer for ours, peer in zip(pair.ours, pair.peer, strict=True))
    print(f"  adds {added[len(added) // 2]:.3f} s", flush=True)


def _preview(scratch: Path, pairs: int) -> None:
    store = scratch / "store/data.zarr"
    store.parent.mkdir()
    group = zarr.open_group(store, mode="w", zarr_format=3)
    for name in ("latitude", "longitude"):
        values = np.linspace(-80, 80, SIDE)
        array = group.create_array(name, shape=(SIDE,), dtype="f8", dimension_names=[name])
        array[...] = values
        array.attrs["units"] = {"latitude": "degrees_north", "longitude": "degrees_east"}[name]
    array = group.create_array(
        "t",
        shape=(STEPS, SIDE, SIDE),
        chunks=(1, CHUNK, CHUNK),
        dtype="f4",
        dimension_names=["time", "latitude", "longitude"],
    )
    array[0] = field((1, SIDE, SIDE))[0]
    with mounted(str(store.parent), scratch / "mount") as mount:
        picture = mount / "datasets/data.zarr/t/preview.png"
        before = _decoded(mount)
        paired(
            "preview of 10 TiB; peer: zarr-python, its map",
            lambda: zarr.open_group(store, mode="r")["t"][0],  # type: ignore[index]
            picture.read_bytes,
            before=partial(refresh, mount),
            pairs=pairs,
        )
        read = (_decoded(mount) - before) / (pairs + 1)
        print(f"  reads {read:.0f} chunks", flush=True)


def _decoded(mount: Path) -> float:
    found = counted((mount / ".nczfs/metrics").read_text())
    return found.get(("nczfs_chunks_decoded", ""), 0.0)


def _nothing() -> None:
    pass


if __name__ == "__main__":
    main()
