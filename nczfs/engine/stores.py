"""Opening stores with what they must know of the documents of formats."""

from __future__ import annotations

import os
from dataclasses import replace

from nczfs.errors import BadUrl
from nczfs.formats.family import InlineForm, ParquetForm
from nczfs.formats.registry import FORMATS
from nczfs.zmap import registry
from nczfs.zmap.base import ZMap
from nczfs.zmap.documents import InlineCopies, KnownDocuments, ParquetDocuments
from nczfs.zmap.registry import DEFAULTS, StoreOptions
from nczfs.zmap.url import StoreUrl, parse_url


def open_store(url: StoreUrl | str, options: StoreOptions = DEFAULTS) -> ZMap:
    """Open a store as `registry.open_store` does.

    Raises
    ------
    BadUrl : also for a document of a dataset, which might pass for a document of references.
    """
    place = parse_url(url) if isinstance(url, str) else url
    directory, name = os.path.split(place.path or "")
    if place.kind == "reference" and name in FORMATS.documents and os.path.isfile(place.path):
        raise BadUrl(
            f"{place.path} is a document of a Zarr dataset; give its directory, {directory}"
        )
    return registry.open_store(place, _knowing(options))


def create_store(url: StoreUrl, options: StoreOptions = DEFAULTS) -> ZMap:
    """Open a store, and make a missing directory or archive, as `registry.create_store` does."""
    return registry.create_store(url, _knowing(options))


def known_documents() -> KnownDocuments:
    """Return what stores must know of the documents of all formats."""
    written = FORMATS.written
    others = dict.fromkeys(
        n for names in written for n in (names.copy, *names.hints, *names.others)
    )
    forms = [family.parquet for family in FORMATS.families if family.parquet is not None]
    inline = [family.inline for family in FORMATS.families if family.inline is not None]
    return KnownDocuments(
        arrays=tuple(n for names in written for n in names.arrays if n not in names.groups),
        usual=FORMATS.usual,
        others=tuple(name for name in others if name and name not in FORMATS.usual),
        copies=tuple(names.copy for names in written if names.copy),
        parquet=next(map(_parquet, forms), None),
        inline=next(map(_inline, inline), None),
    )


def _parquet(form: ParquetForm) -> ParquetDocuments:
    others = [family.names for family in FORMATS.families if family.parquet is None]
    unreferenced = tuple(name for names in others for name in names.arrays)
    return ParquetDocuments(form.key, form.array, form.lengths_of, form.copy_of, unreferenced)


def _inline(form: InlineForm) -> InlineCopies:
    return InlineCopies(form.document, form.members, form.array)


def _knowing(options: StoreOptions) -> StoreOptions:
    return replace(options, documents=known_documents())
