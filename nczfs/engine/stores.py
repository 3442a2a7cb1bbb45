"""Opening stores with what they must know of the documents of formats."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from nczfs.errors import BadUrl, NczfsError, NoContent
from nczfs.formats.family import InlineForm, ParquetForm
from nczfs.formats.registry import FORMATS
from nczfs.zmap import registry
from nczfs.zmap.base import ZMap
from nczfs.zmap.documents import InlineCopies, KnownDocuments, ParquetDocuments
from nczfs.zmap.keys import ROOT
from nczfs.zmap.registry import DEFAULTS, StoreOptions, missing_paths, remove_made
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


@contextmanager
def created_store(url: StoreUrl, options: StoreOptions = DEFAULTS) -> Iterator[ZMap]:
    """Open a store as `create_store` does; what is made for it, and is empty after an error, goes.

    It is closed in the end.
    """
    made = missing_paths(url)
    try:
        store = create_store(url, options)
        try:
            yield store
        finally:
            store.close()
    except BaseException:
        if made and _is_unused(url, options):
            remove_made(made)
        raise


def _is_unused(url: StoreUrl, options: StoreOptions) -> bool:
    """Return whether nothing is stored at a place.

    It is opened anew, because a map also shows what it could not store.
    """
    try:
        store = open_store(url, options)
    except NoContent:
        return True
    except NczfsError:
        return False
    try:
        return next(iter(store.search(ROOT)), None) is None
    except NczfsError:
        return False
    finally:
        store.close()


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
