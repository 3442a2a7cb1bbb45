"""Where the variables of a classic file lie, and in which version of the format."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from nczfs.errors import Unsupported
from nczfs.model.classic import SIZES, padded
from nczfs.model.dtypes import NcType
from nczfs.plaindata import frozen
from nczfs.views.netcdf.classic.header import header
from nczfs.views.netcdf.classic.versions import VERSIONS, Version
from nczfs.views.netcdf.content import FileContent, FileVariable

PAGE_BYTES = 4096
FILE_BYTES_MAX = 2**63 - 1


@frozen
class VariableExtent:
    """The place of a variable.

    Attributes
    ----------
    size : in bytes, without padding; of a record variable, that of one record.
    is_record : whether its first dimension is the record dimension.
    begin : of its first byte in the file.
    """

    variable: FileVariable
    size: int
    is_record: bool
    begin: int


@frozen
class Plan:
    """The places of all variables.

    Attributes
    ----------
    header : without the zeros up to the first variable; empty if its numbers are too small for
        the places.
    places : in the order of the variables; offsets rise in each of the two kinds.
    data_begin, records_begin : where the fixed variables begin, and where they end.
    record_bytes : from the beginning of one record to that of the next.
    record_count : the length of the record dimension.
    """

    version: Version
    header: bytes
    places: tuple[VariableExtent, ...]
    data_begin: int
    records_begin: int
    record_bytes: int
    record_count: int

    @property
    def size(self) -> int:
        """The size of the file."""
        return self.records_begin + self.record_count * self.record_bytes


def planned(content: FileContent) -> Plan:
    """Return the places of the variables in the oldest version that can hold them.

    The version follows from the structure alone, and so changes with it alone.

    Raises
    ------
    Unsupported : no version can.
    """
    for version in VERSIONS:
        if _has_types(content, version):
            plan = _plan(content, version)
            if _holds(version, plan):
                return plan
    raise Unsupported("a classic file would have more than 2^63 bytes")


def _plan(content: FileContent, version: Version) -> Plan:
    variables = content.root.variables
    sizes = [_size(variable) for variable in variables]
    are_records = [_is_record(variable) for variable in variables]
    count = next((d.size for d in content.root.dimensions if d.unlimited), 0)
    nothing = [0] * len(variables)
    length = len(header(content, version, 0, nothing, nothing))
    data_begin = -(-length // PAGE_BYTES) * PAGE_BYTES if variables else length
    position, inside = data_begin, 0
    offsets: list[int] = []
    for size, is_record in zip(sizes, are_records, strict=True):
        offsets.append(inside if is_record else position)
        if is_record:
            inside += padded(size)
        else:
            position += padded(size)
    if are_records.count(True) == 1:
        # The special case of the format: a single record variable has no padding.
        inside = sizes[are_records.index(True)]
    places = tuple(
        VariableExtent(variable, size, is_record, offset + position if is_record else offset)
        for variable, size, is_record, offset in zip(
            variables, sizes, are_records, offsets, strict=True
        )
    )
    begins = [place.begin for place in places]
    fits = (
        max(begins, default=0) <= version.begin_max
        and count <= version.length_max
        and position + count * max(inside, 1) <= FILE_BYTES_MAX
    )
    made = header(content, version, count, sizes, begins) if fits else b""
    return Plan(version, made, places, data_begin, position, inside, count)


def _has_types(content: FileContent, version: Version) -> bool:
    root = content.root
    return all(d.size <= version.length_max for d in root.dimensions) and all(
        variable.type in version.types for variable in root.variables
    )


def _holds(version: Version, plan: Plan) -> bool:
    if not plan.header:
        return False
    fixed = [place.size for place in plan.places if not place.is_record]
    records = [place.size for place in plan.places if place.is_record]
    return _are_small(fixed, version, last=not records) and _are_small(records, version, last=True)


def _are_small(sizes: Sequence[int], version: Version, *, last: bool) -> bool:
    """Return whether variables are small enough; `last`: whether the last may be larger."""
    limited = sizes[:-1] if last else sizes
    return all(size <= version.variable_bytes_max for size in limited)


def _size(variable: FileVariable) -> int:
    assert isinstance(variable.type, NcType)
    lengths = variable.shape[1:] if _is_record(variable) else variable.shape
    return prod(lengths) * SIZES[variable.type]


def _is_record(variable: FileVariable) -> bool:
    return bool(variable.dimensions) and variable.dimensions[0].unlimited
