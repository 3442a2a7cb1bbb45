"""HDF5 files that would bring the contents of other files with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from nczfs.errors import CorruptStore, Unsupported
from nczfs.tools.transfer.hdf5_foreign import check_own_contents
from tests.support.mounts import nczfs as run_nczfs

SECRET = b"of somebody else"


def external_link(file: h5py.File, other: Path) -> None:
    file["group/linked"] = h5py.ExternalLink(str(other), "/secret")


def external_storage(file: h5py.File, other: Path) -> None:
    file.create_dataset("group/stored", (16,), "u1", external=[(str(other), 0, 16)])


def virtual(file: h5py.File, other: Path) -> None:
    layout = h5py.VirtualLayout((16,), "u1")
    layout[:] = h5py.VirtualSource(str(other), "secret", (16,))
    file.create_virtual_dataset("group/virtual", layout)


FOREIGN = pytest.mark.parametrize(
    ("make", "name"),
    [
        (external_link, "/group/linked"),
        (external_storage, "/group/stored"),
        (virtual, "/group/virtual"),
    ],
)


@pytest.fixture
def other(tmp_path: Path) -> Path:
    path = tmp_path / "other.h5"
    with h5py.File(path, "w") as file:
        file["secret"] = np.frombuffer(SECRET, "u1")
    return path


@FOREIGN
def test_a_file_that_takes_something_from_another_is_refused(
    tmp_path: Path, other: Path, make: Callable[[h5py.File, Path], None], name: str
) -> None:
    path = tmp_path / "hostile.nc"
    with h5py.File(path, "w") as file:
        file["good"] = np.arange(3)
        make(file, other)
    with pytest.raises(Unsupported, match=rf"hostile\.nc: '{name}' is in another file"):
        check_own_contents(str(path))
    done = run_nczfs("import", path, tmp_path / "new.zarr")
    assert done.returncode == 1
    assert "is in another file, which is not read" in done.stderr
    assert not any((tmp_path / "new.zarr").rglob("*")) or not (tmp_path / "new.zarr").exists()


def test_links_within_a_file_are_its_own(tmp_path: Path) -> None:
    path = tmp_path / "links.nc"
    with h5py.File(path, "w") as file:
        file["g/again"] = file.create_group("g/h")
        file["soft"], file["dangling"] = h5py.SoftLink("/g"), h5py.SoftLink("/nothing")
        file["around"], file["g/dangling"] = h5py.SoftLink("/around"), h5py.SoftLink("/around")
        file["v"] = np.arange(3)
        file["g/v"], file["g/w"] = file["v"], h5py.SoftLink("/v")
    check_own_contents(str(path))


def itself(file: h5py.File) -> None:
    group = file.create_group("g")
    group["again"] = group


def root(file: h5py.File) -> None:
    file.create_group("g")["root"] = file["/"]


def soft(file: h5py.File) -> None:
    file.create_group("g")["again"] = h5py.SoftLink("/g")


def by_turns(file: h5py.File) -> None:
    file.create_group("good/g")["h"] = h5py.SoftLink("/h")
    file.create_group("h")["longer"] = file["good/g"]


@pytest.mark.parametrize(
    ("make", "name"), [(itself, "/g"), (root, "/"), (soft, "/g"), (by_turns, "/h")]
)
def test_a_group_that_contains_itself_is_refused(
    tmp_path: Path, make: Callable[[h5py.File], None], name: str
) -> None:
    """The netCDF library follows such links until it crashes or the memory ends."""
    path = tmp_path / "loop.nc"
    with h5py.File(path, "w", track_order=True) as file:
        file["v"] = np.arange(3)
        make(file)
    with pytest.raises(CorruptStore, match=rf"loop\.nc: the group '{name}' contains itself"):
        check_own_contents(str(path))


@pytest.mark.parametrize("name", ["{}", "group/{}", "{}/v", "soft/{}"])
def test_a_name_that_the_library_reads_beyond_its_end_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "names.nc"
    for size in (255, 256, 300):
        with h5py.File(path, "w") as file:
            file.create_group("group")
            file["soft"] = h5py.SoftLink("/group")
            file[name.format("x" * size)] = np.arange(2)
        if size <= 255:
            check_own_contents(str(path))
        else:
            with pytest.raises(CorruptStore, match=r"more than the 255 bytes .* '/(group/)?xxx"):
                check_own_contents(str(path))


def test_other_files_are_not_looked_at_and_damaged_ones_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"CDF\1" + bytes(28))
    check_own_contents(str(path))
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(600))
    with pytest.raises(CorruptStore, match="HDF5 cannot read it"):
        check_own_contents(str(path))
