"""What pure Zarr v2 and NCZarr have in common: documents, their keys, and codecs."""

from __future__ import annotations

from collections.abc import Mapping

from nczfs.formats.base import MetadataFormat
from nczfs.formats.jsontext import parse_object
from nczfs.formats.jsonwrite import strict
from nczfs.formats.names import below
from nczfs.formats.zarr2.consolidated import FORM
from nczfs.formats.zarr2.names import NAMES
from nczfs.formats.zarr2.nodes import ZARRAY, ZATTRS, ZGROUP, shape_of
from nczfs.model.hierarchy import ChunkKeys, Json


class Zarr2Documents(MetadataFormat):
    """A format that keeps nodes in the documents of Zarr v2."""

    names = NAMES
    copy = FORM

    def attributes_key(self, path: str) -> str:
        return below(path, ZATTRS)

    def consolidated_keys(self, path: str) -> tuple[str, ...]:
        return tuple(below(path, name) for name in (ZGROUP, ZARRAY, ZATTRS))

    def chunk_keys(self, separator: str) -> ChunkKeys:
        return ChunkKeys(separator)

    def stored_shape(self, data: bytes, key: str) -> tuple[int, ...]:
        return shape_of(parse_object(data, key)[0])

    def stored_attributes(self, data: bytes, key: str) -> Mapping[str, Json]:
        return parse_object(data, key)[0]

    def note_in(self, data: bytes, key: str, name: str) -> Json:
        return parse_object(data, key)[0].get(name)

    def with_note(self, data: bytes, key: str, name: str, note: Json) -> bytes:
        # "Other keys should not be present within the metadata object and should be ignored by
        # implementations" (Zarr v2 specification, "Metadata").
        document, _ = parse_object(data, key)
        rest = {member: value for member, value in document.items() if member != name}
        if note is not None:
            rest[name] = note
        return strict(rest).encode()
