"""What a group shows as a netCDF file of a kind, and what it must leave out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial
from math import prod

from nczfs.engine import headway
from nczfs.errors import CodecError, Unsupported
from nczfs.formats.declarations import DeclaredDimensions, groups_of
from nczfs.formats.flattening import flattened
from nczfs.formats.names import below
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import Attribute, Dimension, Group, GroupHeader, Variable
from nczfs.model.printing import encoded, printable
from nczfs.plaindata import frozen
from nczfs.views.netcdf.attributes import group_attributes, omitted_attribute, variable_attributes
from nczfs.views.netcdf.content import Elements, FileContent, FileGroup, FileVariable, Texts
from nczfs.views.netcdf.kinds import CLASSIC, NETCDF4, FileFormat
from nczfs.views.netcdf.naming import FileNames, Named
from nczfs.views.netcdf.records import record_dimension
from nczfs.views.netcdf.types import ShownType, as_characters, is_netcdf, shown_type

ReadTexts = Callable[[Variable], tuple[str, ...]]
"""Returns all strings of a variable in C order. Raises Unsupported where they are too large to be
held, CodecError where they cannot be decoded: then the variable is left out."""

FILE_TEXTS_BYTES_MAX = 64 << 20
"""All strings that a file holds may have so many bytes."""

# H5S_MAX_RANK, NC_MAX_VAR_DIMS. Streams have no limit.
_RANK_MAX = {NETCDF4: 32, CLASSIC: 1024}
_RANK_MAX_OF_OTHERS = 1024


def file_content(
    group: Group,
    kind: FileFormat,
    texts: ReadTexts,
    record_dimensions: Collection[str] = (),
    title: str = "",
) -> FileContent:
    """Return what a group, and what is below it, shows as a netCDF file.

    Parameters
    ----------
    group : becomes the root of the file. Dimensions of groups above it are declared in it.
    texts : reads strings, which become part of the content.
    record_dimensions : names of dimensions that are unlimited in the file, where the dataset's
        format cannot say so.
    title : the name of a variable without one, which is a dataset by itself.

    Raises
    ------
    StoreError : strings could not be read. What a file cannot hold is no error: it is left out.
    """
    return _Fitting(flattened(group), kind, texts, frozenset(record_dimensions), title).content()


@frozen
class _Member:
    """A variable that the file holds.

    Attributes
    ----------
    dimensions : as the tree declares them.
    texts : its strings, if they are part of the content.
    """

    variable: Variable
    type: ShownType
    dimensions: list[Dimension]
    texts: tuple[str, ...] | None


class _Fitting:
    """A walk through a group: first what the file holds, then the names, then the content."""

    def __init__(
        self,
        group: Group,
        kind: FileFormat,
        texts: ReadTexts,
        records: Collection[str],
        title: str,
    ) -> None:
        self._title = title
        self._kind = kind
        self._read = texts
        self._texts_room = FILE_TEXTS_BYTES_MAX
        self._room = kind.values_bytes_max
        self._broken: list[str] = []
        self._omitted: list[str] = []
        self._base = group.header.path
        if not kind.has_groups:
            for child in group.groups:
                self._omit(child.header.path, "is a group")
            group = replace(group, groups=())
        self._groups = list(groups_of(group))
        self._declarations = DeclaredDimensions(group, only_above=True)
        self._declared = {
            each.header.path: self._dimensions(each, records) for each in self._groups
        }

    def content(self) -> FileContent:
        members = {id(group): list(self._members(group)) for group in self._groups}
        names = self._names(members)
        built: dict[int, FileGroup] = {}
        for group in reversed(self._groups):  # those below a group come before it
            path = names.path(group)
            original = group.name if path and path.rpartition("/")[2] != group.name else None
            built[id(group)] = FileGroup(
                path,
                names.declared(group),
                self._attributes(group, original),
                tuple(self._variable(member, names) for member in members[id(group)]),
                tuple(built.pop(id(child)) for child in group.groups),
            )
        root = built[id(self._groups[0])]
        if self._broken or self._omitted:
            ours = omitted_attribute([*self._broken, *self._omitted])
            kept = (a for a in root.attributes if a.name != ours.name)
            root = replace(root, attributes=(*kept, ours))
        return FileContent(root, tuple(self._omitted))

    def _dimensions(self, group: Group, records: Collection[str]) -> dict[str, Dimension]:
        """Return the dimensions that a group declares in the file."""
        found = self._declarations.declared[group.header.path]
        if not is_netcdf(group.header.format):
            found = {
                name: replace(d, unlimited=True) if name in records else d
                for name, d in found.items()
            }
        if not self._kind.has_empty:
            found = {n: replace(d, unlimited=d.unlimited or not d.size) for n, d in found.items()}
        if self._kind.has_groups:
            return dict(found)
        record = record_dimension(found, map(self._of, group.variables))
        return {name: replace(d, unlimited=name == record) for name, d in found.items()}

    def _of(self, variable: Variable) -> list[Dimension]:
        return self._declarations.of(variable, self._base)

    def _members(self, group: Group) -> Iterator[_Member]:
        here = group.header.path
        for name, why in group.broken:
            self._broken.append(self._line(below(here, name), f"cannot be read: {why}"))
        for variable in group.variables:
            headway.make()
            found = self._declarations.of(variable, here)
            dimensions = [self._declared[d.group][d.name] for d in found]
            try:
                yield self._member(variable, dimensions)
            except (Unsupported, CodecError) as error:
                self._omit(below(here, variable.name), str(error))

    def _member(self, variable: Variable, dimensions: list[Dimension]) -> _Member:
        type_ = shown_type(variable, self._kind)
        if type_.cell is None and (variable.array.decoded_bytes or 0) > self._texts_room:
            type_ = as_characters(variable)
        rank, rank_max = (
            len(dimensions) + (type_.width is not None),
            _RANK_MAX.get(self._kind, _RANK_MAX_OF_OTHERS),
        )
        if rank > rank_max:
            raise Unsupported(f"has {rank} dimensions, more than {rank_max}")
        if not self._kind.has_groups and any(not d.size and not d.unlimited for d in dimensions):
            raise Unsupported("has a dimension of length 0 that is not the record dimension")
        if any(d.size > self._kind.length_max for d in dimensions):
            raise Unsupported(f"has a dimension longer than {self._kind.length_max}")
        if type_.cell is not None:
            # A length of 0 may be that of the record dimension, and rise.
            nbytes = prod(max(1, d.size) for d in dimensions) * type_.cell.itemsize
            if nbytes > self._room:
                raise Unsupported(f"its {nbytes} bytes are more than the file can have")
            self._room -= nbytes
        texts = None
        if type_.cell is None:
            texts = self._read(variable)
            type_ = self._of_texts(type_, texts)
        return _Member(variable, type_, dimensions, texts)

    def _of_texts(self, type_: ShownType, texts: tuple[str, ...]) -> ShownType:
        """Return the type for strings, which are counted."""
        sizes = [len(encoded(text)) for text in texts]
        size, width = sum(sizes), None
        if type_.type is NcType.CHAR:
            width = max(sizes, default=1) or 1
            size = width * len(texts)
        if type_.type is NcType.STRING and any("\0" in text for text in texts):
            raise Unsupported("has strings that contain NUL")
        if size > self._texts_room:
            raise Unsupported(
                f"has strings of {size} bytes; those of a file are limited to "
                f"{FILE_TEXTS_BYTES_MAX} together"
            )
        self._texts_room -= size
        return replace(type_, width=width)

    def _names(self, members: dict[int, list[_Member]]) -> FileNames:
        everything = [member for group in self._groups for member in members[id(group)]]
        widths = {member.type.width: None for member in everything if member.type.width}
        return FileNames(
            [
                Named(
                    group,
                    [
                        d
                        for d in self._declared[group.header.path].values()
                        if d.size <= self._kind.length_max
                        and (d.size or d.unlimited or self._kind.has_groups)
                    ],
                    [member.variable for member in members[id(group)]],
                )
                for group in self._groups
            ],
            widths,
            (member.type.type for member in everything),
            self._title,
        )

    def _variable(self, member: _Member, names: FileNames) -> FileVariable:
        headway.make()
        variable, type_ = member.variable, member.type
        name = names.variable(variable)
        dimensions = tuple(names.dimension(d) for d in member.dimensions)
        if type_.width is not None:
            dimensions = (*dimensions, names.characters(type_.width))
        values: Elements | Texts
        if member.texts is not None:
            values = Texts(variable, member.texts)
        else:
            assert type_.cell is not None
            values = Elements(variable, type_.cell)
        original = variable.name if variable.name and variable.name != name else None
        self._omit_attributes(variable)
        omit = partial(self._omit, variable.path)
        attributes = variable_attributes(variable, type_, self._kind, omit, original=original)
        return FileVariable(
            name, names.type(type_.type), dimensions, attributes, values, type_.is_ragged
        )

    def _attributes(self, group: Group, original: str | None) -> tuple[Attribute, ...]:
        self._omit_attributes(group.header)
        omit = partial(self._omit, group.header.path)
        return group_attributes(group.header.attributes, self._kind, omit, original=original)

    def _omit_attributes(self, node: Variable | GroupHeader) -> None:
        """Name the attributes that could not be read."""
        for message in node.omissions:
            self._omit(node.path, f"lacks attributes: {message}")

    def _omit(self, path: str, why: str) -> None:
        self._omitted.append(self._line(path, why))

    def _line(self, path: str, why: str) -> str:
        inside = path.removeprefix(self._base).strip("/") if self._base else path
        return printable(f"/{inside}: {why}")
