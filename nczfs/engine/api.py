"""The Python library: ``nczfs.open`` and what it gives.

The names are h5netcdf's: ``groups``, ``variables``, ``dimensions`` and ``attrs`` are mappings,
``variable[...]`` reads values (docs/decisions/0001-library-api.md).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Generic, TypeVar

import numpy as np

from nczfs.engine.cache import Values
from nczfs.engine.dataset import Dataset, Engine, dimensions_of, open_dataset
from nczfs.engine.metadata import MetadataCache
from nczfs.engine.options import EngineOptions, Tally
from nczfs.engine.selection import select
from nczfs.errors import BadSelection, NoSuchNode, NotADataset, UsageError
from nczfs.formats.detect import options_of
from nczfs.model import hierarchy as model
from nczfs.model.dtypes import CODE_OF_NC_TYPE, NcType
from nczfs.model.grid import ChunkIndex
from nczfs.model.hierarchy import Attribute, Dimension, GroupHeader
from nczfs.zmap import keys
from nczfs.zmap.registry import StoreOptions, open_store
from nczfs.zmap.url import parse_url

log = logging.getLogger(__name__)

T = TypeVar("T")


class NamedMapping(Mapping[str, T], Generic[T]):
    """A read-only mapping from names, in stored order."""

    def __init__(self, items: dict[str, T], what: str) -> None:
        self._items = items
        self._what = what

    def __getitem__(self, name: str) -> T:
        try:
            return self._items[name]
        except KeyError:
            raise KeyError(f"{self._what} {name!r} (there are: {', '.join(self._items)})") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"<{self._what}: {', '.join(self._items)}>"


class Variable:
    """A variable of an open dataset.

    Indexing reads: integers, slices with steps, and an ellipsis, as numpy has them. The result is
    a new array in this machine's byte order, its values as stored: nothing is unpacked or masked.
    """

    def __init__(self, dataset: Dataset, variable: model.Variable) -> None:
        self._dataset = dataset
        self._variable = variable

    @property
    def name(self) -> str:
        return self._variable.name

    @property
    def path(self) -> str:
        """Below the root of the dataset, with a leading slash."""
        return f"/{self._variable.path}"

    @property
    def shape(self) -> tuple[int, ...]:
        return self._variable.array.shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._variable.array.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of what indexing gives; object for strings and bytes of variable length."""
        return self._variable.array.dtype.native

    @property
    def chunks(self) -> tuple[int, ...]:
        """Shape of a chunk."""
        return self._variable.array.chunk_shape

    @property
    def fill_value(self) -> object:
        """What chunks that were never written read as; None: undefined, read as zeros."""
        return self._variable.array.fill_value

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Names of the dimensions, slowest first."""
        return tuple(dimension.name for dimension in self._variable.dimensions)

    @property
    def attrs(self) -> Mapping[str, object]:
        return _attributes(self._variable.attributes)

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with its metadata, or a codec that is not there."""
        return self._dataset.problems(self._variable)

    @property
    def description(self) -> model.Variable:
        """The variable as plain data."""
        return self._variable

    def __getitem__(self, selector: object) -> Any:
        """The selected values: an array, or for integers in all dimensions a numpy scalar.

        Raises
        ------
        BadSelection, UnknownCodec, CorruptChunk, MissingChunk, StoreError.
        """
        selection = select(selector, self.shape)
        values = np.empty(selection.box.shape, self.dtype)
        self._dataset.array(self._variable).read_box(selection.box, values, Tally())
        result = values[selection.cut]
        # A few elements must not keep a large box in memory.
        return result.copy() if 2 * result.size < values.size else result

    def __array__(self, dtype: np.dtype[Any] | None = None, copy: bool | None = None) -> Values:
        values: Values = np.asarray(self[...])
        return values if dtype is None else values.astype(dtype)

    def chunk(self, index: ChunkIndex) -> Values:
        """The decoded values of one whole chunk, filler beyond the edge included.

        Raises
        ------
        BadSelection : the grid has no such chunk.
        """
        if index not in self._variable.array.grid:
            raise BadSelection(f"{self.path}: no chunk {index}")
        with self._dataset.array(self._variable).chunk(index, Tally()) as values:
            return np.array(values)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError(f"{self.path} is a scalar and has no length")
        return self.shape[0]

    def __bool__(self) -> bool:
        """True: a variable is there, also where its length is 0 or, as a scalar, it has none."""
        return True

    def __repr__(self) -> str:
        dimensions = ", ".join(
            f"{name}: {size}" for name, size in zip(self.dimensions, self.shape, strict=True)
        )
        return f"<nczfs.Variable {self.path} ({dimensions}) {self.dtype}>"


class Group:
    """A group of an open dataset. Members are read when they are first asked for."""

    def __init__(self, dataset: Dataset, header: GroupHeader) -> None:
        self._dataset = dataset
        self._header = header

    @property
    def name(self) -> str:
        return self._header.name or "/"

    @property
    def path(self) -> str:
        """Below the root of the dataset, with a leading slash."""
        return f"/{self._header.path}"

    @property
    def attrs(self) -> Mapping[str, object]:
        return _attributes(self._header.attributes)

    @property
    def variables(self) -> Mapping[str, Variable]:
        found = self._members(lambda node: isinstance(node, model.Variable))
        return NamedMapping(
            {
                node.name: Variable(self._dataset, node)
                for node in found
                if isinstance(node, model.Variable)
            },
            "variable",
        )

    @property
    def groups(self) -> Mapping[str, Group]:
        found = self._members(lambda node: isinstance(node, GroupHeader))
        return NamedMapping(
            {
                node.name: Group(self._dataset, node)
                for node in found
                if isinstance(node, GroupHeader)
            },
            "group",
        )

    @property
    def dimensions(self) -> Mapping[str, Dimension]:
        """The dimensions that this group declares, or that its variables bring with them."""
        variables = [node for node in self._nodes() if isinstance(node, model.Variable)]
        found = dimensions_of(self._header, variables, ())
        return NamedMapping({dimension.name: dimension for dimension in found}, "dimension")

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with this group and its members."""
        _, broken = self._dataset.members(self._header.path)
        return (*self._header.problems, *(f"{name}: {why}" for name, why in broken))

    def __getitem__(self, path: str) -> Group | Variable:
        """The group or variable at a path: relative, or from the root with a leading slash."""
        base = "" if path.startswith("/") else self._header.path
        full = "/".join(part for part in (base, path.strip("/")) if part)
        try:
            return _wrapped(self._dataset, self._dataset.node(full))
        except NoSuchNode as error:
            raise KeyError(str(error)) from None

    def tree(self) -> model.Group:
        """The group and everything below it as plain data."""
        return self._dataset.group(self._header.path)

    def __repr__(self) -> str:
        return f"<nczfs.Group {self._dataset.url(self._header.path)}>"

    def _nodes(self) -> list[GroupHeader | model.Variable]:
        nodes, _ = self._dataset.members(self._header.path)
        return nodes

    def _members(
        self, wanted: Callable[[GroupHeader | model.Variable], bool]
    ) -> list[GroupHeader | model.Variable]:
        return [node for node in self._nodes() if wanted(node)]


class OpenDataset(Group):
    """An open dataset: its root group. A context manager; closing ends its threads."""

    def __init__(self, dataset: Dataset, header: GroupHeader, close: Callable[[], None]) -> None:
        super().__init__(dataset, header)
        self._close = close

    def close(self) -> None:
        """Stop the threads and close the store. May be called twice."""
        self._close()

    def __enter__(self) -> OpenDataset:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _RootArray(OpenDataset):
    """A dataset whose root is an array: a group with one variable of the dataset's name."""

    def __init__(
        self,
        dataset: Dataset,
        variable: model.Variable,
        name: str,
        close: Callable[[], None],
    ) -> None:
        super().__init__(dataset, GroupHeader("", variable.format), close)
        self._variable = model.Variable(
            name,
            variable.key,
            variable.format,
            variable.array,
            variable.dimensions,
            variable.attributes,
            variable.problems,
        )

    def __getitem__(self, path: str) -> Group | Variable:
        if path.strip("/") == self._variable.name:
            return Variable(self._dataset, self._variable)
        raise KeyError(path)

    @property
    def problems(self) -> tuple[str, ...]:
        return self._variable.problems

    def tree(self) -> model.Group:
        dimensions = dimensions_of(self._header, [self._variable], ())
        return model.Group(self._header, dimensions, (self._variable,))

    def _nodes(self) -> list[GroupHeader | model.Variable]:
        return [self._variable]


def open_url(
    url: str,
    mode: str = "r",
    *,
    store_options: StoreOptions | None = None,
    options: EngineOptions | None = None,
) -> OpenDataset:
    """Open the dataset at a URL.

    Parameters
    ----------
    url : a path, ``s3://…``, ``https://…``, with a netcdf-c fragment or without.
    mode : "r", reading.

    Returns
    -------
    OpenDataset : its root group. A dataset whose root is an array gives a group with one variable.

    Raises
    ------
    NotADataset : nothing at the URL is a group or an array.
    BadUrl, MetadataError, StoreError.
    """
    if mode != "r":
        raise UsageError(f"mode {mode!r}: this version of nczfs reads only (mode 'r')")
    parsed = parse_url(url)
    zmap = open_store(parsed, store_options or StoreOptions())
    engine = Engine(options)

    def close() -> None:
        engine.close()
        zmap.close()

    try:
        metadata = MetadataCache(zmap, engine.options, engine.pools)
        dataset = open_dataset(engine, metadata, keys.ROOT, options_of(parsed.modes))
        if dataset is None:
            raise NotADataset(
                f"{zmap.name}: no Zarr or NCZarr group or array (no .zgroup, .zarray): give the "
                "URL of a dataset; nczfs ls lists what is there"
            )
        root = dataset.node("")
    except BaseException:
        close()
        raise
    if isinstance(root, GroupHeader):
        return OpenDataset(dataset, root, close)
    return _RootArray(dataset, root, parsed.last_word, close)


def _wrapped(dataset: Dataset, node: GroupHeader | model.Variable) -> Group | Variable:
    return Group(dataset, node) if isinstance(node, GroupHeader) else Variable(dataset, node)


def _attributes(attributes: tuple[Attribute, ...]) -> Mapping[str, object]:
    return NamedMapping({a.name: attribute_value(a) for a in attributes}, "attribute")


def attribute_value(attribute: Attribute) -> object:
    """An attribute as netCDF users know it: text, a number, or an array of numbers."""
    value = attribute.value
    if attribute.type is NcType.STRING and isinstance(value, tuple):
        return value[0] if len(value) == 1 else list(value)
    if isinstance(value, tuple):
        array = np.array(value, CODE_OF_NC_TYPE[attribute.type])
        return array[0] if len(value) == 1 else array
    return value
