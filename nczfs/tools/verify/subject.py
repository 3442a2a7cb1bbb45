"""A dataset that is opened for verification, by its single documents."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from nczfs.engine.dataset import Dataset, Engine
from nczfs.engine.metadata.documents import MetadataCache, StoreDocuments
from nczfs.engine.options import EngineOptions, format_options
from nczfs.engine.stores import open_store
from nczfs.engine.structure.ownership import left_text
from nczfs.errors import MetadataError, NotADataset
from nczfs.formats.base import FormatOptions, MetadataFormat
from nczfs.formats.registry import FORMATS
from nczfs.plaindata import frozen
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import ROOT
from nczfs.zmap.registry import StoreOptions
from nczfs.zmap.url import parse_url


@frozen
class Subject:
    """A dataset at the root of a store, with what is needed to read it.

    Attributes
    ----------
    name : of the variable, if the root is an array.
    """

    dataset: Dataset
    metadata: MetadataCache
    format: MetadataFormat
    options: FormatOptions
    name: str

    @property
    def zmap(self) -> ZMap:
        return self.dataset.zmap

    @property
    def engine(self) -> Engine:
        return self.dataset.engine

    def documents(self) -> StoreDocuments:
        """Return the single documents."""
        return StoreDocuments(self.metadata, ROOT, self.options)

    def fetch_nodes(self, paths: Iterable[str]) -> None:
        """Request the documents of several nodes at once."""
        self.documents().fetch(key for path in paths for key in self.format.keys(path))


@contextmanager
def subject_at(
    url: str, store_options: StoreOptions | None = None, options: EngineOptions | None = None
) -> Iterator[Subject]:
    """Open the dataset at a URL.

    Raises
    ------
    NotADataset, BadUrl, MetadataError, StoreError : as `nczfs.open` does.
    """
    parsed = parse_url(url)
    zmap = open_store(parsed, store_options or StoreOptions())
    # A verification reads each document once, and judges what it has read.
    engine = Engine(replace(options or EngineOptions(), metadata_ttl_s=math.inf))
    try:
        yield subject_of(
            zmap, engine, format_options(parsed.modes, engine.options), parsed.last_word
        )
    finally:
        engine.close()
        zmap.close()


def subject_of(
    zmap: ZMap, engine: Engine, options: FormatOptions | None = None, name: str = ""
) -> Subject:
    """Return the dataset at the root of an open store. Raises as `subject_at` does."""
    options = options or FormatOptions()
    metadata = MetadataCache(zmap, engine.options, engine.pools, ledger=engine.ledger)
    documents = StoreDocuments(metadata, ROOT, options)
    documents.fetch(FORMATS.at_root)
    try:
        found = FORMATS.detect(documents, options)
    except MetadataError as error:
        raise type(error)(f"{zmap.name}/{error}") from error
    if found is None:
        no_dataset = f"{zmap.name}: no Zarr or NCZarr group or array: nothing to verify"
        raise NotADataset(left_text(zmap) or no_dataset)
    dataset = Dataset(engine, metadata, ROOT, found, options)
    return Subject(dataset, metadata, found, options, name)
