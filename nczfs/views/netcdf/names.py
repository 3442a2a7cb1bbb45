"""Names in netCDF files: what netCDF cannot have is encoded, and no two are the same."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from zlib import crc32

from nczfs.formats.names import NETCDF_NAME_BYTES_MAX, netcdf_fault
from nczfs.model.printing import encoded

ORIGINAL_NAME = "nczfs_name"
"""The attribute with the name in the dataset of what has another one in the file."""

NOT_A_COORDINATE = "_nc4_non_coord_"
"""How netCDF-C begins the HDF5 name of a variable that has the name of a dimension and is not its
coordinate (NC_NON_COORD_PREPEND). No other name begins so: netCDF-C would not show it."""

_ROOM = NETCDF_NAME_BYTES_MAX - len("%89abcdef")


class UniqueNames:
    """The names of one kind of things in one group of a file.

    Parameters
    ----------
    taken : names that nothing new can have.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._counts: dict[str, int] = {}

    def given(self, name: str) -> str:
        """Return the name in the file of something new with a name in the dataset."""
        wanted = file_name(name)
        found = wanted
        while found in self._taken:
            # Each number is tried once, however many want the name.
            self._counts[wanted] = self._counts.get(wanted, 1) + 1
            found = file_name(f"{wanted}_{self._counts[wanted]}")
        self._taken.add(found)
        return found

    def __contains__(self, name: str) -> bool:
        return name in self._taken

    def __or__(self, others: UniqueNames) -> UniqueNames:
        return UniqueNames(self._taken | others._taken)


def file_name(name: str) -> str:
    """Return the form in which netCDF can have a name.

    It is in normal form C. Characters that netCDF does not allow are percent-encoded, after an
    underscore if the name would begin with one; the end of a name that is too long is replaced with
    a checksum.
    """
    stored = unicodedata.normalize("NFC", name)
    if stored.startswith(NOT_A_COORDINATE):
        stored = f"_%5F{stored[1:]}"
    if netcdf_fault(stored, NETCDF_NAME_BYTES_MAX) is None:
        return stored
    last = len(stored) - 1
    words = [
        _percent(character) if _is_refused(character, is_last=number == last) else character
        for number, character in enumerate(stored)
    ]
    if words and netcdf_fault(stored[0], NETCDF_NAME_BYTES_MAX) is not None:
        words[0] = _percent(stored[0])
    found = "".join(words)
    if not found or found[0] == "%":
        found = f"_{found}"
    if len(found.encode()) <= NETCDF_NAME_BYTES_MAX:
        return found
    start = found.encode()[:_ROOM].decode("utf-8", "ignore")
    return f"{start}%{crc32(encoded(name)):08x}"


def _is_refused(character: str, *, is_last: bool) -> bool:
    code = ord(character)
    if code < 32 or code == 127 or character == "/" or 0xD800 <= code < 0xE000:
        return True
    return is_last and character == " "


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in encoded(character))
