"""A dataset opened to be verified: by its single documents, whatever was consolidated."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from nczfs.engine.dataset import Dataset, Engine
from nczfs.engine.metadata import MetadataCache, StoreDocuments
from nczfs.engine.options import EngineOptions, format_options
from nczfs.errors import MetadataError, NotADataset
from nczfs.formats.base import FormatOptions, MetadataFormat
from nczfs.formats.detect import ROOT_KEYS, detect
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import ROOT
from nczfs.zmap.registry import StoreOptions, open_store
from nczfs.zmap.url import parse_url


@dataclass(frozen=True, slots=True)
class Subject:
    """A dataset at the root of a store, and what it is read by.

    Attributes
    ----------
    name : what a root that is an array is called.
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
        """The single documents."""
        return StoreDocuments(self.metadata, ROOT, self.options)

    def fetch_nodes(self, paths: Iterable[str]) -> None:
        """Ask for the documents of several nodes at once."""
        self.documents().fetch(key for path in paths for key in self.format.keys(path))


@contextmanager
def subject_at(
    url: str, store_options: StoreOptions | None = None, options: EngineOptions | None = None
) -> Iterator[Subject]:
    """The dataset at a URL.

    Raises
    ------
    NotADataset, BadUrl, MetadataError, StoreError : as `nczfs.open` does.
    """
    parsed = parse_url(url)
    zmap = open_store(parsed, store_options or StoreOptions())
    # What was read once during a verification is what is verified.
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
    """The dataset at the root of an open store. Raises as `subject_at` does."""
    options = options or FormatOptions()
    metadata = MetadataCache(zmap, engine.options, engine.pools, ledger=engine.ledger)
    documents = StoreDocuments(metadata, ROOT, options)
    documents.fetch(ROOT_KEYS)
    try:
        found = detect(documents, options)
    except MetadataError as error:
        raise type(error)(f"{zmap.name}/{error}") from error
    if found is None:
        raise NotADataset(f"{zmap.name}: no Zarr or NCZarr group or array: nothing to verify")
    dataset = Dataset(engine, metadata, ROOT, found, options)
    return Subject(dataset, metadata, found, options, name)
