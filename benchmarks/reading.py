"""Reading 256 MiB through a mount, beside zarr-python in-process and a bare pyfuse3 file system.

    python -m benchmarks.reading [--pairs N] [--layouts rows1,...] [--codecs zlib,lz4]

Each pair is one cold read of the peer and one of nczfs: new process state for neither, page cache
dropped before both, the chunk cache of the mount emptied by `refresh`.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import zarr

from benchmarks.harness import (
    LAYOUTS,
    SHAPE,
    bare,
    drop_page_cache,
    field,
    mounted,
    paired,
    read_whole,
    refresh,
    write,
)

SIZE = SHAPE[0] * SHAPE[1] * SHAPE[2] * 4


def main() -> None:
    """Run and print the rows of a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--layouts", default=",".join(LAYOUTS))
    parser.add_argument("--codecs", default="zlib,lz4")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="nczfs-bench-") as scratch:
        root = Path(scratch)
        data = root / "bench.zarr"
        values = field()
        names = [
            (codec, layout)
            for codec in arguments.codecs.split(",")
            for layout in arguments.layouts.split(",")
        ]
        for codec, layout in names:
            write(data, values, layout, codec)
        del values
        print("| read 256 MiB in order | peer s | nczfs s | ratio |\n| --- | --- | --- | --- |")
        with (
            mounted(str(data), root / "mnt", "--memory-limit", "1GiB") as mount,
            bare(SIZE, root / "bare") as memory,
        ):
            group: Any = zarr.open_group(data, mode="r")
            for codec, layout in names:
                name = f"{codec}_{layout}"
                path = mount / "datasets" / "bench.zarr" / name / "values.raw"

                def cold() -> None:
                    refresh(mount)
                    drop_page_cache()

                paired(
                    f"directory, cold, {name}: zarr-python `z[:]`",
                    lambda name=name: group[name][:],  # type: ignore[misc]
                    lambda path=path: read_whole(path, SIZE),  # type: ignore[misc]
                    before=cold,
                    pairs=arguments.pairs,
                )
                if codec == "lz4":
                    paired(
                        f"directory, cold, {name}: bare file system from memory",
                        lambda: read_whole(memory / "values", SIZE),
                        lambda path=path: read_whole(path, SIZE),  # type: ignore[misc]
                        before=cold,
                        pairs=arguments.pairs,
                    )
                paired(
                    f"warm chunk cache, {name}: bare file system from memory",
                    lambda: read_whole(memory / "values", SIZE),
                    lambda path=path: read_whole(path, SIZE),  # type: ignore[misc]
                    pairs=arguments.pairs,
                )


if __name__ == "__main__":
    main()
