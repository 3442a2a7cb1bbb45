"""The known families of formats, and what is asked of all of them: detection above all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from nczfs.errors import UsageError
from nczfs.formats.base import Documents, FormatOptions, MetadataFormat
from nczfs.formats.documentnames import DocumentNames
from nczfs.formats.family import Conversion, FormatFamily
from nczfs.formats.v2 import V2
from nczfs.formats.v3 import V3

DEFAULT_NAME = "nczarr-L3"
DEFAULT_PURE_NAME = "zarr2"
COPY_FACTOR = 8  # how much larger than other documents a consolidated copy may be


def _joined(several: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for names in several for name in names))


def _node_names(names: DocumentNames) -> tuple[str, ...]:
    return names.nodes


def _hint_names(names: DocumentNames) -> tuple[str, ...]:
    return names.hints


class Registry:
    """Families of formats.

    Parameters
    ----------
    families : in order of precedence: where one root has documents of two, the first reads it.

    Attributes
    ----------
    nodes : the names of the documents that make their prefix a node, in any format.
    written : the names of the families that nczfs writes.
    usual : the names of the documents that show what a node is, in most datasets.
    at_root : those at which `detect` may look, to be fetched together.
    copies : those of consolidated copies and nothing else.
    copy_keys : the keys of all documents with consolidated copies, below the root of a dataset.
    documents : all of them.
    names : of formats in which a dataset can be created.
    aliases : other names for some of these.
    """

    def __init__(self, *families: FormatFamily) -> None:
        self._set(families)

    def _set(self, families: tuple[FormatFamily, ...]) -> None:
        self.families = families
        every = [family.names for family in families]
        self.nodes = frozenset(_joined(names.nodes for names in every))
        self.written = tuple(family.names for family in families if family.makers)
        self.usual = _joined(names.usual for names in self.written)
        self.at_root = _joined(names.at_root for names in every)
        self.copies = frozenset(names.copy for names in every if names.copy)
        forms = [family.copy for family in families if family.copy is not None]
        self.copy_keys = frozenset(form.key for form in forms)
        self.documents = self.copies.union(*(names.single for names in every))
        self.names = _joined(tuple(family.makers) for family in families)
        self.aliases = {a: name for family in families for a, name in family.aliases.items()}

    @contextmanager
    def with_family(self, family: FormatFamily) -> Iterator[None]:
        """Know another family during the block, before all others."""
        before = self.families
        self._set((family, *before))
        try:
            yield
        finally:
            self._set(before)

    def detect(
        self,
        documents: Documents,
        options: FormatOptions,
        copies: Mapping[str, Documents] | None = None,
    ) -> MetadataFormat | None:
        """Return the format of the dataset with its root here; None: there is no group or array.

        Parameters
        ----------
        copies : to be read instead of `documents`, by the key of the consolidated copy that they
            are from.

        Raises
        ------
        BadMetadata : the root is an array, and its document is broken or missing.
        Unsupported : the format is not read, or only in another version.
        """
        copies = copies or {}
        for names_of in (_node_names, _hint_names):
            for family in self.families:
                own = documents
                if family.copy is not None:
                    own = copies.get(family.copy.key, documents)
                if any(own.get(name) is not None for name in names_of(family.names)):
                    return family.opened(own, options)
        return None

    def before_copies(self) -> tuple[str, ...]:
        """Return the documents to look at first, where a consolidated copy is read if there is one.

        Copies have the place of their families in the order of precedence.
        """
        wanted: list[str] = []
        first: list[str] = []
        for family in self.families:
            wanted += family.names.at_root if family.copy is None else [family.copy.key]
            if family.copy is not None:
                first = list(wanted)
        return tuple(first)

    def named(self, name: str, options: FormatOptions) -> MetadataFormat:
        """Return the format of a dataset that is to be created.

        Parameters
        ----------
        name : one of `names`, or of `aliases`.

        Raises
        ------
        UsageError : there is no such format; the message lists all.
        """
        name = self.aliases.get(name, name)
        for family in self.families:
            if name in family.makers:
                return family.makers[name](options)
        listed = ", ".join((*self.names, *self.aliases))
        raise UsageError(f"{name!r} is not a metadata format; known formats are {listed}")

    @property
    def conversion(self) -> Conversion:
        """How nodes of older formats are described again in the newest one."""
        return next(f.conversion for f in self.families if f.conversion is not None)

    def is_chunk(self, name: str) -> bool:
        """Return whether a chunk can have a name below its array, in any format."""
        return any(family.names.is_chunk(name) for family in self.families)

    def bytes_max(self, options: FormatOptions, key: str) -> int:
        """Return how large the document of a key may be."""
        is_copy = key in self.copy_keys or key.rpartition("/")[2] in self.copies
        return options.document_bytes_max * (COPY_FACTOR if is_copy else 1)


FORMATS = Registry(V3, V2)
"""The formats that this process knows."""


def new_format(name: str | None, options: FormatOptions) -> MetadataFormat:
    """Return the format of a new dataset: the named one, or the one that the options mean.

    Raises
    ------
    UsageError : there is no such format.
    """
    usual = DEFAULT_PURE_NAME if options.pure else DEFAULT_NAME
    return FORMATS.named(name or options.create_format or usual, options)


def options_of(modes: frozenset[str]) -> FormatOptions:
    """Return the options that the ``mode`` of a URL means, as in netcdf-c 4.9.1 and later.

    ``zarr`` and ``xarray`` select pure Zarr; ``noxarray`` implies ``zarr``. ``nczarr`` changes
    nothing: NCZarr keys count wherever they are.
    """
    return FormatOptions(
        xarray="noxarray" not in modes,
        pure=not modes.isdisjoint({"zarr", "xarray", "noxarray"}),
    )
