"""HDF5 filters, which have numbers, and the equivalent codecs, which have names.

netcdf-c writes exactly the codecs of this table for its filters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nczfs.errors import Unsupported
from nczfs.model.hierarchy import CodecSpec, Json
from nczfs.plaindata import frozen

DEFLATE, SHUFFLE, FLETCHER32, SZIP, BZIP2, BLOSC, ZSTD = 1, 2, 3, 4, 307, 32001, 32015

Parameters = tuple[int, ...]

# Blosc's numbers of its compressors.
_BLOSC_COMPRESSORS = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")


@frozen
class _Filter:
    """A line of the table.

    Attributes
    ----------
    id : HDF5's number of the filter.
    counts : how many parameters it can have.
    """

    id: int
    counts: range
    configuration: Callable[[Parameters], dict[str, Json]]
    parameters: Callable[[Mapping[str, Json]], Parameters]


def codec_of_filter(number: int, parameters: Parameters) -> CodecSpec:
    """Return the codec that is equivalent to an HDF5 filter.

    Parameters
    ----------
    number : the identifier that the filter is registered under.
    parameters : its unsigned 32-bit "client data".

    Raises
    ------
    Unsupported : there is no such codec, or the filter does not take such parameters.
    """
    for name, line in _TABLE.items():
        if line.id == number:
            if len(parameters) not in line.counts or any(not 0 <= p < 1 << 32 for p in parameters):
                raise Unsupported(
                    f"HDF5 filter {number} ({name}) does not take the parameters {list(parameters)}"
                )
            return CodecSpec(name, line.configuration(parameters))
    known = ", ".join(f"{line.id} {name}" for name, line in _TABLE.items())
    raise Unsupported(f"HDF5 filter {number} has no codec (there are: {known})")


def filter_of_codec(codec: CodecSpec) -> tuple[int, Parameters] | None:
    """Return the HDF5 filter of a codec, as number and parameters; None: there is none.

    A member of the codec that is missing, or that no filter takes, becomes its default.
    """
    line = _TABLE.get(codec.name)
    return None if line is None else (line.id, line.parameters(codec.configuration))


def _number(members: Mapping[str, Json], name: str, default: int) -> int:
    """Return an integer member, which netcdf-c 4.9 wrote as text, modulo 2**32."""
    value = members.get(name)
    try:
        number = int(value) if isinstance(value, int | str) else default
    except ValueError:
        number = default
    return number % (1 << 32)


def _level(default: int) -> Callable[[Mapping[str, Json]], Parameters]:
    return lambda members: (_number(members, "level", default),)


def _signed(number: int) -> int:
    return number - (1 << 32) if number >= 1 << 31 else number


def _blosc_configuration(parameters: Parameters) -> dict[str, Json]:
    # Revision, version and item size come first; they add nothing to the array's description.
    block_bytes = parameters[3]
    level, shuffle, compressor = (*parameters[4:7], *(5, 1, 0)[len(parameters) - 4 :])
    if compressor >= len(_BLOSC_COMPRESSORS):
        raise Unsupported(
            f"HDF5 filter {BLOSC} (blosc): there is no compressor with the number {compressor}"
        )
    return {
        "cname": _BLOSC_COMPRESSORS[compressor],
        "clevel": level,
        "shuffle": shuffle,
        "blocksize": block_bytes,
    }


def _blosc_parameters(members: Mapping[str, Json]) -> Parameters:
    name = members.get("cname")
    compressor = _BLOSC_COMPRESSORS.index(name) if name in _BLOSC_COMPRESSORS else 1
    return (
        0,
        0,
        _number(members, "typesize", 0),
        _number(members, "blocksize", 0),
        _number(members, "clevel", 5),
        _number(members, "shuffle", 1),
        compressor,
    )


_TABLE: dict[str, _Filter] = {
    "zlib": _Filter(DEFLATE, range(1, 2), lambda p: {"level": p[0]}, _level(1)),
    "shuffle": _Filter(
        SHUFFLE,
        range(2),
        lambda p: {"elementsize": p[0] if p else 0},
        lambda members: tuple(n for n in [_number(members, "elementsize", 0)] if n),
    ),
    "fletcher32": _Filter(FLETCHER32, range(1), lambda _: {}, lambda _: ()),
    # A file stores two more numbers than its user gave.
    "szip": _Filter(
        SZIP,
        range(2, 5),
        lambda p: {"mask": p[0], "pixels-per-block": p[1]},
        lambda members: (_number(members, "mask", 0), _number(members, "pixels-per-block", 0)),
    ),
    "bz2": _Filter(BZIP2, range(2), lambda p: {"level": p[0] if p else 9}, _level(9)),
    "blosc": _Filter(BLOSC, range(4, 8), _blosc_configuration, _blosc_parameters),
    "zstd": _Filter(ZSTD, range(2), lambda p: {"level": _signed(p[0]) if p else 3}, _level(3)),
}
