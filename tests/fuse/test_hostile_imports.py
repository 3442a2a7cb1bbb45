"""Files that are put into empty groups to read foreign files, or to stop or swell the mount."""

from __future__ import annotations

import errno
import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest

from nczfs.testing.datasets import put_array, put_group
from nczfs.zmap.registry import open_store
from tests.support.enduring import enduring
from tests.support.looking import failing_with, store_served

REFUSED = "EIO|EPERM|EINVAL|dropped|nothing is imported"


def external_link(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["linked"] = h5py.ExternalLink(str(path.parent / "other.h5"), "/secret")


def external_storage(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("v", (16,), "u1", external=[("/etc/passwd", 0, 16)])


def virtual(path: Path) -> None:
    layout = h5py.VirtualLayout((16,), "u1")
    layout[:] = h5py.VirtualSource(str(path.parent / "other.h5"), "secret", (16,))
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("v", layout)


def loop(path: Path) -> None:
    with h5py.File(path, "w", track_order=True) as file:
        group = file.create_group("g", track_order=True)
        group["g"], group["root"] = group, file["/"]


def deep(path: Path) -> None:
    with h5py.File(path, "w", track_order=True) as file:
        group: h5py.Group = file
        for _ in range(1500):
            group = group.create_group("g", track_order=True)


def vast(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("v", (1 << 50,), "f4")


def vast_chunks(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("v", (1 << 50,), "f4", chunks=(1 << 29,))


def bomb(path: Path) -> None:
    with h5py.File(path, "w") as file:
        v = file.create_dataset("v", (1000,), "u1", chunks=(1000,), compression="gzip")
        v.id.write_direct_chunk((0,), zlib.compress(bytes(1 << 30), 9))


def long_name(path: Path) -> None:
    with h5py.File(path, "w", track_order=True) as file:
        file["x" * 300] = np.arange(2)


def long_attribute(path: Path) -> None:
    with netCDF4.Dataset(path, "w") as file:
        file.long = "a" * 60_000_000


def half(path: Path) -> None:
    path.write_bytes(b"\x89HDF\r\n\x1a\n\0\0\0\0\0\x08\x08\0\xff\xff\xff\xff" * 100)


def vast_cdl(path: Path) -> None:
    path.write_text(
        "netcdf x {\ndimensions: x = 999999999999999999 ;\n"
        "variables: byte v(x) ;\ndata: v = 1 ;\n}\n"
    )


def deep_cdl(path: Path) -> None:
    groups = "".join(f"group: g{i} {{\n" for i in range(3000))
    path.write_text(f"netcdf x {{\n{groups}{'}' * 3000}\n}}\n")


def digits_cdl(path: Path) -> None:
    path.write_text(f"netcdf x {{\n:a = {'9' * 1_000_000} ;\n}}\n")


HOSTILE: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "external_link": (external_link, "nc", "is in another file"),
    "external_storage": (external_storage, "nc", "is in another file"),
    "virtual": (virtual, "nc", "is in another file"),
    "loop": (loop, "nc", "the group .*contains itself"),
    "deep": (deep, "nc", "recursion|library failed"),
    "vast": (vast, "nc", "declares 4503599627370496 bytes"),
    "vast_chunks": (vast_chunks, "nc", "declares 4503599627370496 bytes"),
    "bomb": (bomb, "nc", "HDF error|library failed"),
    "long_name": (long_name, "nc", "a name has more than the 255 bytes"),
    "long_attribute": (long_attribute, "nc", "60000[0-9]* bytes is not read|bytes of memory"),
    "half": (half, "nc", "HDF|library failed"),
    "vast_cdl": (vast_cdl, "cdl", "declares 999999999999999999 bytes"),
    "deep_cdl": (deep_cdl, "cdl", "more than 100"),
    "digits_cdl": (digits_cdl, "cdl", "too large for every integer type"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_and_imports_nothing(tmp_path: Path, name: str) -> None:
    """SEMANTICS A7, W78."""
    make, suffix, reason = HOSTILE[name]
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["secret"] = np.frombuffer(b"of somebody else", "u1")
    hostile = tmp_path / f"hostile.{suffix}"
    make(hostile)
    (tmp_path / "store").mkdir()
    store = open_store(str(tmp_path / "store"))
    put_group(store, "good.zarr", {})
    put_array(store, "good.zarr/v", np.arange(24, dtype="<f4"), (4,))
    options = ("--memory-limit", "64MiB", "--request-timeout", "60s")
    spool = ("--spool-dir", str(tmp_path / "spool"))
    with store_served(tmp_path / "store", *options, *spool, expect=REFUSED) as mount:
        group = mount.path / "datasets/new.zarr"
        group.mkdir()
        with enduring(mount, mount.path / "datasets/good.zarr/v/values.raw"):
            file = (group / f"new.{suffix}").open("wb")
            file.write(hostile.read_bytes())
            file.flush()
            with failing_with(errno.EINVAL):
                file.close()
        (problem,) = json.loads((group / "info.json").read_text())["problems"]
        assert re.search(reason, problem), problem
        found = {path.name for path in (tmp_path / "store/new.zarr").iterdir()}
        assert not {each for each in found if not each.startswith(".")}


def test_comments_and_blanks_of_cdl_take_no_memory(tmp_path: Path) -> None:
    """SEMANTICS A7."""
    (tmp_path / "store").mkdir()
    store = open_store(str(tmp_path / "store"))
    put_group(store, "good.zarr", {})
    put_array(store, "good.zarr/v", np.arange(24, dtype="<f4"), (4,))
    spool = ("--spool-dir", str(tmp_path / "spool"))
    with store_served(tmp_path / "store", "--memory-limit", "64MiB", *spool) as mount:
        group = mount.path / "datasets/new.zarr"
        group.mkdir()
        with enduring(mount, mount.path / "datasets/good.zarr/v/values.raw"):
            text = "netcdf x {\n" + "// x\n" * 3_000_000 + ':a = "b" ;\n}\n'
            (group / "new.cdl").write_text(text)
        assert (group / "attributes/a").read_text() == "b\n"
