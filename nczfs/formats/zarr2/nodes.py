"""Reading the documents of one Zarr v2 node, within limits, each independently of the others."""

from __future__ import annotations

from nczfs.errors import BadMetadata, Unsupported
from nczfs.formats.base import Documents, FormatOptions
from nczfs.formats.jsontext import parse_object
from nczfs.formats.names import below
from nczfs.formats.problems import Problems
from nczfs.messages import shown
from nczfs.model.hierarchy import ArrayDescription, Json
from nczfs.plaindata import frozen

ZARRAY, ZGROUP, ZATTRS = ".zarray", ".zgroup", ".zattrs"
ARRAY_DIMENSIONS = "_ARRAY_DIMENSIONS"


@frozen
class NodeDocuments:
    """The documents of one node.

    Attributes
    ----------
    path : of the node.
    array : its ``.zarray``; None for a group.
    group : its ``.zgroup``; empty if there is none (and for an array).
    attributes : its ``.zattrs``; empty if it is missing or broken.
    problems : what was wrong so far; later readers add to it.
    """

    path: str
    array: dict[str, Json] | None
    group: dict[str, Json]
    attributes: dict[str, Json]
    problems: Problems

    def key(self, name: str) -> str:
        """Return the key of one of the documents."""
        return below(self.path, name)


def read_documents(
    path: str, documents: Documents, options: FormatOptions, *, is_known: bool = False
) -> NodeDocuments | None:
    """Read the documents of the node at a path; None if there is no array or group.

    Parameters
    ----------
    is_known : whether a group is known to exist, even without ``.zgroup``.

    Raises
    ------
    BadMetadata : the ``.zarray`` is broken. A broken ``.zgroup`` or ``.zattrs`` is only a problem,
        since the node can be shown without it.
    Unsupported : the group has another version of Zarr.
    """
    problems = Problems()
    array_key = below(path, ZARRAY)
    data = documents.get(array_key)
    array: dict[str, Json] | None = None
    group: dict[str, Json] = {}
    if data is not None:
        array, notes = parse_object(data, array_key, bytes_max=options.document_bytes_max)
        for note in notes:
            problems.add(note)
    else:
        group_key = below(path, ZGROUP)
        data = documents.get(group_key)
        if data is None and not is_known:
            return None
        group = optional_object(data, group_key, options, problems)
        if group.get("zarr_format", 2) not in (2, "2"):
            version = shown(group["zarr_format"])
            raise Unsupported(f"{group_key}: zarr_format is {version}, not 2")
    key = below(path, ZATTRS)
    data = documents.get(key)
    attributes = optional_object(data, key, options, problems, is_shown=True)
    return NodeDocuments(path, array, group, attributes, problems)


def shape_of(document: dict[str, Json]) -> tuple[int, ...]:
    """Return the shape in a parsed ``.zarray``; an invalid length counts as 0."""
    shape = document.get("shape")
    sizes = shape if isinstance(shape, list) else []
    return tuple(size if isinstance(size, int) else 0 for size in sizes)


def optional_object(
    data: bytes | None,
    key: str,
    options: FormatOptions,
    problems: Problems,
    *,
    is_shown: bool = False,
) -> dict[str, Json]:
    """Read a document that the node can be shown without; empty if it is missing or broken.

    Parameters
    ----------
    is_shown : whether its members are attributes, which are left out then.
    """
    if data is None:
        return {}
    try:
        found, notes = parse_object(data, key, bytes_max=options.document_bytes_max)
    except BadMetadata as error:
        problems.add(str(error), is_omission=is_shown)
        return {}
    for note in notes:
        problems.add(note)
    return found


def as_scalar(array: ArrayDescription, where: str, problems: Problems) -> ArrayDescription:
    """Return an array without dimensions: netcdf-c stores a scalar with shape ``[1]``."""
    if array.shape == ():
        return array
    if array.shape != (1,) or array.chunk_shape != (1,):
        # Any other shape has chunks with another name than a scalar's "0", or more elements.
        problems.add(f"{where}: marked as a scalar, but the shape is {shown(list(array.shape))}")
        return array
    return ArrayDescription((), (), array.dtype, array.fill_value, array.codecs, array.chunk_keys)
