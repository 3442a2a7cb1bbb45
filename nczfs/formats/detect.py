"""Detection of a dataset's metadata layout: a table, tried in order."""

from __future__ import annotations

from collections.abc import Callable

from nczfs.errors import BadMetadata, Unsupported, UsageError
from nczfs.formats.base import Documents, FormatOptions, MetadataFormat
from nczfs.formats.consolidated import KEY as ZMETADATA
from nczfs.formats.nczarr.format import NczarrFormat
from nczfs.formats.nczarr.layouts import L1, L3, LAYOUTS, Writer, writer_of
from nczfs.formats.nodes import ARRAY_DIMENSIONS, ZARRAY, ZATTRS, ZGROUP, read_documents
from nczfs.formats.zarr2.format import Zarr2Format

ZARR3 = "zarr.json"

NODE_NAMES = (ZARRAY, ZGROUP, ZATTRS)
"""The documents that show what a node is, in most datasets."""

ROOT_KEYS = (ZARRAY, ZGROUP, ZATTRS, ZMETADATA, L1.superblock, L1.group, ZARR3)
"""The documents that `detect` may look at, to be fetched together."""

_Test = Callable[[Writer, FormatOptions], bool]
_Maker = Callable[[FormatOptions, Writer], MetadataFormat]

FORMATS: tuple[tuple[_Test, _Maker], ...] = (
    # Any group or array keys suffice: the root may be a group inside a dataset.
    (lambda writer, options: writer.layout is not None and not options.pure, NczarrFormat),
    (lambda _writer, _options: True, Zarr2Format),
)
"""The first format whose test holds reads the dataset."""


def detect(documents: Documents, options: FormatOptions) -> MetadataFormat | None:
    """Return the format of the dataset with its root here; None: there is no group or array.

    A root may be an array, a group of a larger dataset, or, as in netcdf-c, a place with nothing
    but attributes.

    Raises
    ------
    BadMetadata : the root is an array, and its document is broken or missing.
    Unsupported : there is only Zarr v3, or ``.zgroup`` has another version.
    """
    is_bare = all(documents.get(key) is None for key in (ZARRAY, ZGROUP))
    if is_bare:
        if documents.get(ZARR3) is not None:
            raise Unsupported(f"{ZARR3}: Zarr v3 is not read by this version")
        if all(documents.get(key) is None for key in (ZATTRS, L1.superblock, L1.group)):
            return None
    node = read_documents("", documents, options, is_known=True)
    assert node is not None
    if is_bare and ARRAY_DIMENSIONS in node.attributes:
        raise BadMetadata(f"{ZARRAY}: is missing, and {ZATTRS} is that of an array")
    writer = writer_of(node, documents)
    return next(make(options, writer) for test, make in FORMATS if test(writer, options))


FORMAT_NAMES: tuple[str, ...] = (*(layout.name for layout in LAYOUTS), Zarr2Format.name)
"""The formats in which a dataset can be created."""

FORMAT_ALIASES = {"nczarr": L3.name, "zarr": Zarr2Format.name}
"""Names for the newest of their kind."""


def format_named(name: str, options: FormatOptions) -> MetadataFormat:
    """Return the format of a dataset that is to be created.

    Parameters
    ----------
    name : one of `FORMAT_NAMES`, or of `FORMAT_ALIASES`.

    Raises
    ------
    UsageError : there is no such format; the message lists all.
    """
    name = FORMAT_ALIASES.get(name, name)
    if name == Zarr2Format.name:
        return Zarr2Format(options, Writer())
    for layout in LAYOUTS:
        if layout.name == name:
            return NczarrFormat(options, Writer(layout, is_whole=True))
    known = ", ".join((*FORMAT_NAMES, *FORMAT_ALIASES))
    raise UsageError(f"{name!r} is not a metadata format; known formats are {known}")


def options_of(modes: frozenset[str]) -> FormatOptions:
    """Return the options that the ``mode`` of a URL means, as in netcdf-c 4.9.1 and later.

    ``zarr`` and ``xarray`` select pure Zarr; ``noxarray`` implies ``zarr``. ``nczarr`` changes
    nothing: NCZarr keys count wherever they are.
    """
    return FormatOptions(
        xarray="noxarray" not in modes,
        pure=not modes.isdisjoint({"zarr", "xarray", "noxarray"}),
    )
