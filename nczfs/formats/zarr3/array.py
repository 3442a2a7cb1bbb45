"""``zarr.json`` documents of arrays: the description of a Zarr v3 array."""

from __future__ import annotations

from nczfs.errors import BadMetadata, Unsupported
from nczfs.formats.base import FormatOptions
from nczfs.formats.limits import check_array
from nczfs.formats.problems import Problems
from nczfs.formats.zarr3.chain import byte_order_of, read_chain
from nczfs.formats.zarr3.fill import fill_value
from nczfs.formats.zarr3.grids import check_divisible, lengths, read_grid
from nczfs.formats.zarr3.keyencodings import read_keys
from nczfs.formats.zarr3.types import data_type
from nczfs.messages import shown
from nczfs.model.grid import RectilinearGrid
from nczfs.model.hierarchy import ArrayDescription, CodecChain, Json


def read_array(
    members: dict[str, Json], where: str, options: FormatOptions, problems: Problems
) -> ArrayDescription:
    """Return the array that a ``zarr.json`` describes.

    Parameters
    ----------
    members : of the document, whose names were checked.
    where : its key, for messages.
    problems : receives problems that do not prevent reading.

    Raises
    ------
    BadMetadata : a member is missing, has a wrong type, or is impossible.
    Unsupported : an extension that nczfs does not know, or chunks beyond the limit.

    Notes
    -----
    Zarr v3.1 core specification, "Array metadata". An unknown codec is no error here: the array
    can be described, and the codecs refuse its values.
    """
    transformers = members.get("storage_transformers")
    if transformers not in (None, []):
        raise Unsupported(f"{where}: storage_transformers {shown(transformers)} are not supported")
    shape = lengths(_required(members, "shape", where), f"{where}: shape")
    grid = read_grid(_required(members, "chunk_grid", where), shape, where)
    chain = read_chain(_required(members, "codecs", where), grid.chunk_shape, where, options)
    byte_order = byte_order_of(chain.codecs, where)
    dtype = data_type(_required(members, "data_type", where), byte_order, where)
    array = ArrayDescription(
        shape,
        chain.chunk_shape,
        dtype,
        fill_value(members.get("fill_value"), dtype, where, problems),
        CodecChain(3, chain.codecs),
        read_keys(_required(members, "chunk_key_encoding", where), where),
        chain.shards,
        grid.listed if isinstance(grid, RectilinearGrid) else (),
    )
    check_divisible(array, where)
    check_array(array, where, options)
    return array


def _required(members: dict[str, Json], member: str, where: str) -> Json:
    if members.get(member) is None:
        raise BadMetadata(f"{where}: {member} is missing")
    return members[member]
