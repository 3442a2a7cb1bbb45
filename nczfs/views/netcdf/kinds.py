"""The formats in which a group is shown as a file, and what they can hold."""

from __future__ import annotations

from dataclasses import replace

from nczfs.plaindata import frozen


@frozen
class FileFormat:
    """A format, as far as the content of a file depends on it.

    Attributes
    ----------
    suffix : of the names of its files.
    has_groups : whether it has groups, several unlimited dimensions in any position, fixed ones of
        length 0, and types that the file names.
    has_strings : whether it has strings of variable length.
    has_later_strings : whether strings are read when they are sent, and not for the content.
    has_any_length : whether elements can be bytes, or arrays of numbers, of any length.
    has_opaque : whether the types that it names can be of bytes without a meaning.
    has_empty : whether fixed dimensions can have length 0; otherwise these are unlimited.
    length_max : of a dimension. For one without a variable, HDF5 has an array of four-byte numbers.
    attributes_max : of a group or a variable. HDF5 numbers them in 16 bits; some are netCDF's own.
    values_bytes_max : of all values together. HDF5 counts the bytes of an array in 63 bits.
    """

    suffix: str
    has_groups: bool
    has_strings: bool
    length_max: int
    attributes_max: int
    values_bytes_max: int
    has_later_strings: bool = False
    has_any_length: bool = False
    has_opaque: bool = True
    has_empty: bool = True


_HEADER_BYTES = 1 << 32

NETCDF4 = FileFormat(
    ".nc",
    has_groups=True,
    has_strings=True,
    length_max=1 << 60,
    attributes_max=65_000,
    values_bytes_max=(1 << 62) - _HEADER_BYTES,
)
CLASSIC = FileFormat(
    ".classic.nc",
    has_groups=False,
    has_strings=False,
    length_max=(1 << 63) - 4,
    attributes_max=(1 << 31) - 1,
    values_bytes_max=(1 << 63) - _HEADER_BYTES,
)

NCSTREAM = FileFormat(
    ".ncs",
    has_groups=True,
    has_strings=True,
    length_max=(1 << 63) - 1,
    attributes_max=(1 << 31) - 1,
    values_bytes_max=1 << 47,  # in some 100,000 messages
)
SENT_NCSTREAM = replace(
    NCSTREAM, values_bytes_max=1 << 62, has_later_strings=True, has_any_length=True
)
"""A stream that is written once, from its beginning: its size need not be known."""
SERVED_NCSTREAM = replace(SENT_NCSTREAM, has_empty=False)
"""The answers of CDM Remote, whose clients include netcdf-java."""
JAVA_NCSTREAM = replace(NCSTREAM, has_strings=False, has_opaque=False, has_empty=False)
"""A stream as the file reader of netcdf-java takes it."""

NETCDF_SUFFIXES = (NETCDF4.suffix, CLASSIC.suffix)
