"""The formats that use the documents of Zarr v2: pure Zarr, and NCZarr in its four layouts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from nczfs.errors import BadMetadata
from nczfs.formats.base import Documents, FormatOptions, MetadataFormat
from nczfs.formats.family import FormatFamily, Maker, ParquetForm
from nczfs.formats.nczarr.format import NczarrFormat
from nczfs.formats.nczarr.layouts import L3, LAYOUTS, DatasetWriter, NczarrLayout, writer_of
from nczfs.formats.zarr2.consolidated import FORM
from nczfs.formats.zarr2.format import Zarr2Format
from nczfs.formats.zarr2.names import CONSOLIDATED, NAMES
from nczfs.formats.zarr2.nodes import ARRAY_DIMENSIONS, ZARRAY, ZATTRS, read_documents
from nczfs.formats.zarr2.parquet import consolidated_members, lengths_of

_Test = Callable[[DatasetWriter, FormatOptions], bool]
_Opened = Callable[[FormatOptions, DatasetWriter], MetadataFormat]

_FORMATS: tuple[tuple[_Test, _Opened], ...] = (
    # Any group or array keys suffice: the root may be a group inside a dataset.
    (lambda writer, options: writer.layout is not None and not options.pure, NczarrFormat),
    (lambda _writer, _options: True, Zarr2Format),
)
"""The first format whose test holds reads the dataset."""


def _opened(documents: Documents, options: FormatOptions) -> MetadataFormat:
    """Return the format of the dataset with its root here.

    A root may be an array, a group of a larger dataset, or, as in netcdf-c, a place with nothing
    but attributes.

    Raises
    ------
    BadMetadata : the root is an array, and its document is broken or missing.
    Unsupported : ``.zgroup`` has another version.
    """
    node = read_documents("", documents, options, is_known=True)
    assert node is not None
    is_bare = all(documents.get(key) is None for key in NAMES.nodes)
    if is_bare and ARRAY_DIMENSIONS in node.attributes:
        raise BadMetadata(f"{ZARRAY}: is missing, and {ZATTRS} is that of an array")
    writer = writer_of(node, documents)
    return next(make(options, writer) for test, make in _FORMATS if test(writer, options))


def _in_layout(layout: NczarrLayout, options: FormatOptions) -> MetadataFormat:
    return NczarrFormat(options, DatasetWriter(layout, is_whole=True))


_MAKERS: dict[str, Maker] = {layout.name: partial(_in_layout, layout) for layout in LAYOUTS}
_MAKERS[Zarr2Format.name] = lambda options: Zarr2Format(options, DatasetWriter())

V2 = FormatFamily(
    NAMES,
    _opened,
    FORM,
    _MAKERS,
    # The newest of their kind.
    {"nczarr": L3.name, "zarr": Zarr2Format.name},
    ParquetForm(CONSOLIDATED, ZARRAY, lengths_of, consolidated_members),
)
