"""What of a hostile HDF5 file would lead its reader to other files, or astray.

HDF5 follows links to other files, and reads values from files that a dataset names, without asking.
Such a file, copied into a mount or imported, would bring the contents of any file that its reader
may read. The netCDF library does not end a name of 256 bytes or more that it copies (``strncpy`` in
``hdf5open.c``), takes what is in memory behind it for a part of the name, and walks through groups
that contain themselves until its stack or the memory ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final

import h5py
from h5py import h5d, h5f, h5g, h5l, h5o

from nczfs.errors import CorruptStore, Unsupported
from nczfs.formats.names import NETCDF_NAME_BYTES_MAX
from nczfs.messages import shown

_LINKS_WITHIN: Final = (h5l.TYPE_HARD, h5l.TYPE_SOFT)


def check_own_contents(path: str) -> None:
    """Check that nothing is read but an HDF5 file itself; other files are not looked at.

    Raises
    ------
    Unsupported : it takes something from another file. CorruptStore : HDF5 cannot read it, or the
        netCDF library not one of its names, or a group contains itself.
    """
    try:
        if not h5py.is_hdf5(path):
            return
        with h5py.File(path, "r") as file:
            _check_links(file.id, path)
            groups, datasets = _objects(file.id)
            _check_groups(file.id, path, groups)
            _check_values(file.id, path, datasets)
    except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())[:300]
        raise CorruptStore(f"{path}: HDF5 cannot read it: {reason}") from error


def _check_links(file: h5f.FileID, path: str) -> None:
    def look(name: bytes, info: Any) -> bytes | None:  # h5py breaks if it raises an error
        return None if info.type in _LINKS_WITHIN and not _is_too_long(name) else name

    found = file.links.visit(look, info=True)
    if found is not None and _is_too_long(found):
        raise CorruptStore(
            f"{path}: a name has more than the {NETCDF_NAME_BYTES_MAX} bytes that netCDF can read: "
            f"{_place(found)}"
        )
    if found is not None:
        raise _foreign(path, found)


def _is_too_long(name: bytes) -> bool:
    return len(name) - name.rfind(b"/") - 1 > NETCDF_NAME_BYTES_MAX


def _objects(file: h5f.FileID) -> tuple[dict[int, bytes], list[bytes]]:
    """Return the groups by their addresses, and the datasets."""
    groups = {h5o.get_info(file).addr: b"/"}
    datasets: list[bytes] = []

    def look(name: bytes, info: Any) -> None:
        if info.type == h5o.TYPE_GROUP:
            groups[info.addr] = name
        elif info.type == h5o.TYPE_DATASET:
            datasets.append(name)

    h5o.visit(file, look, info=True)
    return groups, datasets


def _check_groups(file: h5f.FileID, path: str, groups: dict[int, bytes]) -> None:
    linked = {
        address: {found for found in _linked(h5g.open(file, name)) if found in groups}
        for address, name in groups.items()
    }
    try:
        TopologicalSorter(linked).prepare()
    except CycleError as error:
        around = error.args[1]  # the first is also the last
        place = min((_place(groups[address]) for address in around), key=len)
        raise CorruptStore(f"{path}: the group {place} contains itself") from None


def _linked(group: h5g.GroupID) -> Iterator[int]:
    """Return the addresses of what the links of a group lead to."""
    links: list[tuple[bytes, Any]] = []
    group.links.iterate(lambda name, info: links.append((name, (info.type, info.u))), info=True)
    for name, (kind, address) in links:
        if kind == h5l.TYPE_HARD:
            yield address
            continue
        with suppress(KeyError, RuntimeError):  # a soft link may lead to nothing
            yield h5o.get_info(group, name).addr


def _check_values(file: h5f.FileID, path: str, datasets: list[bytes]) -> None:
    for name in datasets:
        plist = h5d.open(file, name).get_create_plist()
        if plist.get_external_count() or plist.get_layout() == h5d.VIRTUAL:
            raise _foreign(path, name)


def _foreign(path: str, name: bytes) -> Unsupported:
    return Unsupported(
        f"{path}: {_place(name)} is in another file, which is not read; `nccopy` makes one file of"
        " all"
    )


def _place(name: bytes) -> str:
    return shown("/" + name.decode("utf-8", "replace").removeprefix("/"))
