"""The member ``chunk_grid`` of Zarr v3 arrays, from JSON and to JSON."""

from __future__ import annotations

from nczfs.errors import BadMetadata, Unsupported
from nczfs.formats.zarr3.extensions import Extension, extension
from nczfs.messages import shown
from nczfs.model.grid import ChunkGrid, Cuts, EvenCuts, RectilinearGrid, RegularGrid, UnevenCuts
from nczfs.model.hierarchy import ArrayDescription, Json

NDIM_MAX = 1024
LENGTH_MAX = 2**63 - 1


def lengths(value: Json, where: str) -> tuple[int, ...]:
    """Return a list of lengths, one for each dimension. Raises BadMetadata."""
    if not isinstance(value, list):
        raise BadMetadata(f"{where} is {shown(value)}, not a list of lengths")
    if len(value) > NDIM_MAX:
        raise BadMetadata(f"{where} has {len(value)} dimensions (max {NDIM_MAX})")
    found: list[int] = []
    for length in value:
        if type(length) is not int or length < 0:
            raise BadMetadata(f"{where}: {shown(length)} is not a length")
        found.append(length)
    return tuple(found)


def read_grid(value: Json, shape: tuple[int, ...], where: str) -> ChunkGrid:
    """Return the grid of units of an array.

    Parameters
    ----------
    value : the member, parsed.
    where : the key of the document, for messages.

    Raises
    ------
    BadMetadata : it is no grid of such an array. Unsupported : it is of an unknown kind.

    Notes
    -----
    Zarr v3.1 core specification, "Regular grids", and the registered grid ``rectilinear``.
    """
    grid = extension(value, f"{where}: chunk_grid")
    match grid.name:
        case "regular":
            return _regular(grid, shape, where)
        case "rectilinear":
            return _rectilinear(grid, shape, where)
        case name:
            raise Unsupported(f"{grid.where} {shown(name)} is not supported")


def grid_json(array: ArrayDescription) -> Json:
    """Return the member of an array."""
    if not array.cuts:
        return {"name": "regular", "configuration": {"chunk_shape": list(array.unit_shape)}}
    listed = [_cuts_json(cuts) for cuts in array.cuts]
    return {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": listed}}


def check_divisible(array: ArrayDescription, where: str) -> None:
    """Raise BadMetadata if shards of listed lengths cannot be divided into what they hold."""
    if not (array.cuts and array.shards):
        return
    inner = array.shards[1].shape if len(array.shards) > 1 else array.chunk_shape
    for axis, (cuts, length) in enumerate(zip(array.cuts, inner, strict=True)):
        for each in cuts.lengths:
            if each % length:
                raise BadMetadata(
                    f"{where}: chunk_shapes: {shown(each)} along dimension {axis} is no multiple "
                    f"of {length}, the length of what is in a shard"
                )


def _regular(grid: Extension, shape: tuple[int, ...], where: str) -> ChunkGrid:
    grid.check_members(("chunk_shape",))
    chunks = lengths(grid.configuration.get("chunk_shape"), f"{where}: chunk_shape")
    _check_rank(len(chunks), shape, f"{where}: chunk_shape")
    for length, chunk in zip(shape, chunks, strict=True):
        if chunk == 0 and length != 0:
            raise BadMetadata(f"{where}: chunk_shape: length 0 in a dimension of length {length}")
    return RegularGrid(shape, tuple(max(1, chunk) for chunk in chunks))


def _rectilinear(grid: Extension, shape: tuple[int, ...], where: str) -> ChunkGrid:
    grid.check_members(("kind", "chunk_shapes"))
    kind = grid.configuration.get("kind")
    if kind != "inline":
        raise Unsupported(f"{grid.where}: rectilinear of kind {shown(kind)} is not supported")
    listed, place = grid.configuration.get("chunk_shapes"), f"{where}: chunk_shapes"
    if not isinstance(listed, list):
        raise BadMetadata(f"{place} is {shown(listed)}, not a list")
    _check_rank(len(listed), shape, place)
    return RectilinearGrid(shape, tuple(_cuts(each, place) for each in listed))


def _cuts(value: Json, place: str) -> Cuts:
    if not isinstance(value, list):
        return EvenCuts(_edge(value, place))
    runs: list[tuple[int, int]] = []
    for item in value:
        if not isinstance(item, list):
            runs.append((_edge(item, place), 1))
        elif len(item) == 2:
            runs.append((_edge(item[0], place), _edge(item[1], place)))
        else:
            raise BadMetadata(
                f"{place}: {shown(item)} is not a length and how often it is repeated"
            )
    return UnevenCuts(tuple(runs))


def _edge(value: Json, place: str) -> int:
    if type(value) is not int or not 1 <= value <= LENGTH_MAX:
        raise BadMetadata(f"{place}: {shown(value)} is not a length of at least 1")
    return value


def _check_rank(found: int, shape: tuple[int, ...], place: str) -> None:
    if found != len(shape):
        raise BadMetadata(f"{place} has {found} dimensions and shape has {len(shape)}")


def _cuts_json(cuts: Cuts) -> Json:
    if isinstance(cuts, UnevenCuts):
        return [length if repeat == 1 else [length, repeat] for length, repeat in cuts.runs]
    (length,) = cuts.lengths
    return length
