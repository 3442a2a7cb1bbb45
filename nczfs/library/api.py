"""The Python library: the objects that ``nczfs.open`` returns.

The names are h5netcdf's: ``groups``, ``variables``, ``dimensions`` and ``attrs`` are mappings,
``variable[...]`` reads and writes values (docs/decisions/0001-library-api.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from nczfs.engine.dataset import Dataset
from nczfs.engine.metadata.hierarchy import dimensions_of
from nczfs.engine.structure.editor import Editor
from nczfs.engine.structure.ownership import unfinished_among
from nczfs.engine.values.convert import attribute_of
from nczfs.errors import NoSuchNode, NotWritable, UsageError
from nczfs.formats.base import Node
from nczfs.library.mappings import Members, NamedMapping
from nczfs.library.origin import Origin
from nczfs.library.variable import LibraryNode, Variable
from nczfs.model import hierarchy as model
from nczfs.model.declaration import ElementType, Fill, VariableDeclaration
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import Attribute, CodecSpec, Dimension, GroupHeader

if TYPE_CHECKING:
    import xarray  # an extra, imported when it is used

Member = TypeVar("Member", bound="LibraryNode")

DEFAULT = Fill.DEFAULT
"""As a fill value: netCDF's own for the type."""


class Group(LibraryNode):
    """A group of an open dataset. Members are read when they are first needed."""

    @property
    def header(self) -> GroupHeader:
        """The group as plain data, without its members."""
        node = self.stored
        assert isinstance(node, GroupHeader)
        return node

    @property
    def variables(self) -> Mapping[str, Variable]:
        return self._members(self.header.arrays, Variable, "variable")

    @property
    def groups(self) -> Mapping[str, Group]:
        return self._members(self.header.groups, Group, "group")

    @property
    def dimensions(self) -> Mapping[str, Dimension]:
        """The dimensions that this group declares, or that its variables bring with them."""
        variables = [node for node in self._nodes() if isinstance(node, model.Variable)]
        found = dimensions_of(self.header, variables, ())
        return NamedMapping({dimension.name: dimension for dimension in found}, "dimension")

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with this group and its members."""
        _, broken = self._dataset.members(self.header.path)
        return (*self.header.problems, *(f"{name}: {why}" for name, why in broken))

    def __getitem__(self, path: str) -> Group | Variable:
        """Return the group or variable at a path: relative, or absolute with a leading slash."""
        try:
            node = self._dataset.node(self._full(path))
        except NoSuchNode as error:
            raise KeyError(str(error)) from None
        made = Group if isinstance(node, GroupHeader) else Variable
        return made(self._dataset, node, self._editor)

    def __delitem__(self, path: str) -> None:
        """Remove a group or variable with all below it, from the store at once.

        Raises
        ------
        KeyError : nothing is there. UsageError : the path is the root of the dataset.
        """
        full = self._full(path)
        if not full:
            raise UsageError("/: the root cannot be removed; open the dataset with mode 'w'")
        try:
            self.editor.remove(full)
        except NoSuchNode as error:
            raise KeyError(str(error)) from None

    def create_group(self, path: str, attributes: Mapping[str, Any] | None = None) -> Group:
        """Make a group below this one, and missing groups in between.

        Raises
        ------
        NameTaken, UsageError.
        """
        header = self.editor.create_group(self._full(path), _described(attributes or {}))
        return Group(self._dataset, header, self._editor)

    def create_dimension(self, name: str, size: int | None) -> Dimension:
        """Declare a dimension of this group; None: unlimited.

        Raises
        ------
        NameTaken, UsageError; Unsupported (unlimited ones in the oldest layouts).
        """
        return self.editor.create_dimension(self.header.path, name, size)

    def create_variable(
        self,
        name: str,
        dimensions: Sequence[str | int] = (),
        dtype: Any = None,
        data: Any = None,
        fillvalue: Any = DEFAULT,
        *,
        chunks: Sequence[int] | None = None,
        shards: Sequence[int] | None = None,
        codecs: Iterable[CodecSpec | Mapping[str, Any]] | None = None,
        attributes: Mapping[str, Any] | None = None,
        byte_order: str | None = None,
        string_bytes: int | None = None,
    ) -> Variable:
        """Make a variable in this group.

        Parameters
        ----------
        dimensions : names, seen from here; a number is a dimension without a name.
        dtype : a numpy dtype, an `NcType` or its name; ``str`` for strings, ``"S1"`` for text by
            the character. None: that of `data`.
        data : written at once.
        fillvalue : None: no fill value.
        chunks, codecs : None: chosen by nczfs. Codecs are in encoding order, ``[]`` for none.
        shards : the shape of what is stored as one object, whole chunks (Zarr v3); None: a chunk.
        byte_order : "<" or ">".
        string_bytes : of fixed-length strings; None: the format's own default.

        Raises
        ------
        NameTaken, NoSuchNode (a dimension), Unsupported (a type), BadValue, UsageError.
        """
        editor = self.editor
        values = None if data is None else np.asarray(data)
        declaration = VariableDeclaration(
            name,
            element_type(values.dtype if dtype is None and values is not None else dtype, name),
            tuple(
                d if isinstance(d, str) else editor.anonymous_dimension(int(d)) for d in dimensions
            ),
            tuple(_described(attributes or {})),
            None if chunks is None else tuple(chunks),
            None if codecs is None else tuple(map(codec_of, codecs)),
            Fill.NONE if fillvalue is None else fillvalue,
            byte_order,
            string_bytes,
            shard_shape=None if shards is None else tuple(shards),
        )
        return self.declare(declaration, data)

    def declare(self, declaration: VariableDeclaration, data: Any = None) -> Variable:
        """Make the variable that a declaration describes, with or without values.

        A fill value that it states becomes its `_FillValue` attribute, too.
        """
        node = self.editor.create_variable(self.header.path, declaration)
        variable = Variable(self._dataset, node, self._editor)
        if data is not None:
            variable[...] = data
        return variable

    def resize_dimension(self, name: str, size: int) -> None:
        """Change the length of a dimension seen from here, and of all variables that have it.

        Values beyond the new end are gone; new elements read as fill. In NCZarr only unlimited
        dimensions change.

        Raises
        ------
        NoSuchNode, NotWritable, StoreError.
        """
        dimension = self.editor.dimension(self.header.path, name)
        if not dimension.unlimited and self._dataset.format.declares:
            raise NotWritable(f"dimension {name!r} is not unlimited")
        self.editor.resize(dimension, size)

    def members(self) -> tuple[list[Node], list[tuple[str, str]]]:
        """Return the nodes right below as plain data, and the broken ones with their errors."""
        return self._dataset.members(self.header.path)

    def unfinished(self) -> list[str]:
        """Return the names right below of what is being copied here, or was interrupted."""
        dataset, path = self._dataset, self.header.path
        return unfinished_among(dataset.zmap, dataset.prefix(path), dataset.other_names(path))

    def tree(self) -> model.Group:
        """Return the group and everything below it as plain data."""
        return self._dataset.group(self.header.path)

    def __repr__(self) -> str:
        state = "closed " if self._opened.is_closed else ""
        return f"<{state}nczfs.Group {self._opened.url(self._at)}>"

    def _full(self, path: str) -> str:
        base = "" if path.startswith("/") else self._at
        return "/".join(part for part in (base, path.strip("/")) if part)

    def _nodes(self) -> list[Node]:
        nodes, _ = self._dataset.members(self.header.path)
        return nodes

    def _members(
        self, listed: tuple[str, ...] | None, kind: type[Member], what: str
    ) -> Mapping[str, Member]:
        """Return the members of a kind, as the group lists them, or as they are found."""
        stored_kind = model.Variable if kind is Variable else GroupHeader

        def made(node: Node) -> Member:
            return kind(self._dataset, node, self._editor)

        def load(name: str) -> Member:
            node = self._dataset.node(self._full(name))
            if not isinstance(node, stored_kind):
                raise NoSuchNode(f"{self._dataset.url(node.path)}: is not a {what}")
            return made(node)

        if listed is not None:
            return Members(listed, load, self._nodes, what)
        found = (node for node in self._nodes() if isinstance(node, stored_kind))
        return NamedMapping({node.name: made(node) for node in found}, what)


class OpenDataset(Group):
    """The root group of an open dataset. A context manager; closing stores unsaved writes.

    Attributes
    ----------
    origin : what it was opened by; None: not by a URL.
    """

    origin: Origin | None = None

    def __init__(
        self, dataset: Dataset, header: Node, editor: Editor | None, close: Callable[[], None]
    ) -> None:
        super().__init__(dataset, header, editor)
        self._close = close

    def sync(self) -> None:
        """Store everything written so far: when this returns, others see it.

        Raises
        ------
        one error. What could not be stored is kept, and the next `sync` tries again.
        StructureChanged : another client has removed or replaced a variable; what was written to it
            is lost, which is raised once. NameTaken : likewise it has made what was made here.
        """
        if self._editor is not None:
            self._editor.sync()

    def close(self) -> None:
        """Call `sync`, stop the threads and close the store. May be called twice."""
        editor, self._editor = self._editor, None
        self._opened.is_closed = True
        try:
            if editor is not None:
                editor.sync()
        finally:
            self._close()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._opened.is_closed

    def to_xarray(self, **options: Any) -> xarray.Dataset:
        """Return the dataset in xarray, where values are read when they are needed.

        Closing the one closes the other. What is written meanwhile can be read, but what was
        created or became longer is seen by the next call.

        Parameters
        ----------
        options : of ``xarray.open_dataset``: ``group``, ``chunks``, ``drop_variables`` and so on.

        Raises
        ------
        ModuleNotFoundError : xarray is not installed.
        """
        opened: xarray.Dataset = import_module("xarray").open_dataset(
            self, engine="nczfs", **options
        )
        return opened

    def discard(self) -> None:
        """Close without storing what is not stored yet."""
        self._editor = None
        self._opened.is_closed = True
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


class RootArray(OpenDataset):
    """A dataset whose root is an array: a group with one variable of the dataset's name."""

    def __init__(
        self,
        dataset: Dataset,
        variable: model.Variable,
        name: str,
        editor: Editor | None,
        close: Callable[[], None],
    ) -> None:
        super().__init__(dataset, GroupHeader("", variable.format), editor, close)
        self._array = variable
        self._array_name = name

    @property
    def stored(self) -> Node:
        return self._stored

    @property
    def variables(self) -> Mapping[str, Variable]:
        variable = Variable(self._dataset, self._array, self._editor, self._array_name)
        return NamedMapping({self._array_name: variable}, "variable")

    def __getitem__(self, path: str) -> Group | Variable:
        names = path.strip("/").split("/")
        variable = self.variables[self._array_name]
        if names[0] == self._array_name:
            del names[0]
        elif not self._array.dependents:
            return self.variables[path.strip("/")]  # raises KeyError
        for name in names:
            variable = variable.dependents[name]
        return variable

    @property
    def problems(self) -> tuple[str, ...]:
        return self._array.problems

    def tree(self) -> model.Group:
        variable = self.variables[self._array_name].description
        dimensions = dimensions_of(self.header, [variable], ())
        return model.Group(self.header, dimensions, (variable,))

    def _nodes(self) -> list[Node]:
        return [self.variables[self._array_name].description]


def element_type(dtype: Any, name: str) -> ElementType:
    """Return the type that a caller means: netCDF's by its name, str, or a numpy dtype.

    Raises
    ------
    UsageError : none of them.
    """
    if isinstance(dtype, NcType):
        return dtype
    if dtype is str:
        return NcType.STRING
    if isinstance(dtype, str) and dtype in _NC_TYPES:
        return _NC_TYPES[dtype]
    try:
        found = np.dtype(dtype) if dtype is not None else None
    except TypeError:
        found = None
    if found is None:
        raise UsageError(f"variable {name!r}: {dtype!r} is not a type; give a numpy dtype or str")
    return NcType.CHAR if found == np.dtype("S1") else found


def codec_of(codec: CodecSpec | Mapping[str, Any]) -> CodecSpec:
    """Return the codec that a mapping describes, as metadata of Zarr v2 or v3 do.

    Raises
    ------
    UsageError : it is neither.
    """
    if isinstance(codec, CodecSpec):
        return codec
    members = dict(codec)
    if isinstance(name := members.pop("id", None), str):
        return CodecSpec(name, MappingProxyType(members))
    settings = codec.get("configuration", {})
    is_of_v3 = isinstance(name := codec.get("name"), str) and isinstance(settings, Mapping)
    if not is_of_v3 or not codec.keys() <= _CODEC_MEMBERS:
        raise UsageError(
            f"{dict(codec)!r} is not a codec: it needs an 'id', or in Zarr v3 a 'name' and a "
            "'configuration'"
        )
    must_understand = codec.get("must_understand", True) is not False
    return CodecSpec(str(name), MappingProxyType(dict(settings)), must_understand)


_CODEC_MEMBERS = frozenset({"name", "configuration", "must_understand"})
_NC_TYPES = {nc_type.value: nc_type for nc_type in NcType if nc_type is not NcType.JSON}


def _described(attributes: Mapping[str, Any]) -> Iterator[Attribute]:
    return (attribute_of(name, value) for name, value in attributes.items())
