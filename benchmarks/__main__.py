"""Speed beside that of others: ``scripts/bench [PART ...] [options of the part]``.

scripts/bench                    every part, as in docs/benchmarks.md (about 15 minutes)
scripts/bench reading --pairs 3  reading a directory store through a mount
scripts/bench s3                 the same and more from an S3 server with 20 ms
scripts/bench writing            writing through a mount, into a directory and S3
scripts/bench netcdf             programs with live netCDF files beside files of their own
scripts/bench hierarchies        reading and making many nodes in S3, beside their requests
scripts/bench inprocess          reading and writing from Python, without a mount
scripts/bench timeseries         across the chunks, and what the disk tier costs others
scripts/bench sharding           Zarr v3 and shards, beside zarr-python, zarrs and tensorstore
scripts/bench copying            cp beside xarray and rechunker, workers, verify --digest
scripts/bench prompt             what exec adds to a command, and the preview of 10 TiB
scripts/bench xarrays            xarray with the engine nczfs beside its engine zarr
scripts/bench zipstore           zip archives beside zarr-python's, without a mount
scripts/bench codecs             chunk codecs alone
"""

from __future__ import annotations

import sys

from benchmarks import (
    codecs,
    copying,
    hierarchies,
    inprocess,
    netcdf,
    prompt,
    reading,
    s3,
    s3store,
    serving,
    sharding,
    timeseries,
    writing,
    xarrays,
    zipstore,
)

PARTS = {
    "reading": reading.main,
    "writing": writing.main,
    "netcdf": netcdf.main,
    "inprocess": inprocess.main,
    "s3": s3.main,
    "s3store": s3store.main,
    "hierarchies": hierarchies.main,
    "timeseries": timeseries.main,
    "sharding": sharding.main,
    "serving": serving.main,
    "copying": copying.main,
    "prompt": prompt.main,
    "xarrays": xarrays.main,
    "zipstore": zipstore.main,
    "codecs": codecs.main,
}


def main() -> int:
    """Run the parts that are asked for."""
    arguments = sys.argv[1:]
    if arguments and arguments[0] in {"-h", "--help"}:
        print(__doc__)
        return 0
    part = arguments.pop(0) if arguments and arguments[0] in PARTS else None
    if part is None and arguments:
        print(f"bench: no part {arguments[0]!r}; there are: {', '.join(PARTS)}", file=sys.stderr)
        return 2
    for name in [part] if part else list(PARTS):
        print(f"\n## {name}\n", flush=True)
        sys.argv = [name, *arguments]
        PARTS[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
