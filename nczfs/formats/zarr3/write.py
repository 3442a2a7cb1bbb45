"""Writing the members of a ``zarr.json``."""

from __future__ import annotations

from nczfs.formats.dimensions import DIMENSION_NAMES
from nczfs.formats.rewriting import OwnMembers
from nczfs.formats.zarr3.chain import Chain, codecs_json
from nczfs.formats.zarr3.fill_write import fill_json
from nczfs.formats.zarr3.grids import grid_json
from nczfs.formats.zarr3.keyencodings import keys_json
from nczfs.formats.zarr3.types import data_type_json
from nczfs.model.hierarchy import ArrayDescription, Dimension, Json


def array_members(
    array: ArrayDescription, dimensions: tuple[Dimension, ...], where: str
) -> OwnMembers:
    """Return the members of the ``zarr.json`` of an array, without its attributes.

    Parameters
    ----------
    where : its key, for messages.

    Raises
    ------
    Unsupported : Zarr v3 cannot hold it.
    """
    chain = Chain(array.codecs.codecs, array.chunk_shape, array.shards)
    members = OwnMembers(
        zarr_format=3,
        node_type="array",
        shape=list(array.shape),
        data_type=data_type_json(array.dtype, where),
        chunk_grid=grid_json(array),
        chunk_key_encoding=keys_json(array.chunk_keys),
        fill_value=fill_json(array.fill_value, array.dtype),
        codecs=codecs_json(chain),
    )
    if not all(dimension.anonymous for dimension in dimensions):
        names: list[Json] = [None if d.anonymous else d.name for d in dimensions]
        members[DIMENSION_NAMES] = names
    return members
