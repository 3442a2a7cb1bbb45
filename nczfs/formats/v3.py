"""The formats that use the documents of Zarr v3."""

from __future__ import annotations

from nczfs.formats.base import Documents, FormatOptions, MetadataFormat
from nczfs.formats.family import Conversion, FormatFamily, InlineForm
from nczfs.formats.zarr2.names import NAMES as NAMES_OF_V2
from nczfs.formats.zarr3.consolidated import FORM
from nczfs.formats.zarr3.format import Zarr3Format
from nczfs.formats.zarr3.from_v2 import document_of_v2
from nczfs.formats.zarr3.inline import CONSOLIDATED
from nczfs.formats.zarr3.names import NAMES, ZARR_JSON
from nczfs.formats.zarr3.nodes import read_document


def _opened(documents: Documents, options: FormatOptions) -> MetadataFormat:
    """Return the format of the dataset with its root here. Raises as `read_document`."""
    read_document("", documents, options)
    return Zarr3Format(options)


V3 = FormatFamily(
    NAMES,
    _opened,
    FORM,
    {Zarr3Format.name: Zarr3Format},
    inline=InlineForm(ZARR_JSON, (CONSOLIDATED, "metadata"), ("node_type", "array")),
    conversion=Conversion(NAMES_OF_V2, ZARR_JSON, Zarr3Format, document_of_v2, FORM),
)
