"""A printer of CDL: a group as text, as ncdump prints it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from nczfs.cdl.special import special_attributes
from nczfs.cdl.values import (
    USUAL_DIGITS,
    Digits,
    attribute_number,
    escaped_name,
    quoted,
)
from nczfs.formats.declarations import DeclaredDimensions
from nczfs.formats.flattening import flattened
from nczfs.formats.jsontext import compact
from nczfs.formats.names import below, parent_of
from nczfs.model.dtypes import DataType, NcType
from nczfs.model.hierarchy import Attribute, Dimension, Group, Variable
from nczfs.model.smallnumbers import number_kind
from nczfs.plaindata import frozen

# Types that netCDF does not have, and the netCDF types that can hold their values. Types that are
# in neither list (complex, structured, ...) are printed in a comment.
_CLOSEST = {
    "b": NcType.UBYTE,
    "i": NcType.BYTE,
    "u": NcType.UBYTE,
    "f": NcType.FLOAT,
    "M": NcType.INT64,
    "m": NcType.INT64,
}

# If a colon follows, ncgen takes such a name for the beginning of a section.
_SECTIONS = frozenset({"variables", "dimensions", "data", "group", "types"})

Declared = Mapping[str, Mapping[str, Dimension]]
"""The printed dimensions, by the path of their group and their name."""


@frozen
class Style:
    """Optional parts of the text.

    Attributes
    ----------
    specials : whether the special attributes are printed, as ``ncdump -s`` does.
    properties : the text of the special attribute ``_NCProperties``.
    """

    digits: Digits = USUAL_DIGITS
    specials: bool = False
    properties: str | None = None


USUAL_STYLE = Style()


@frozen
class PrintedVariable:
    """A variable whose declaration was printed, for printing its values.

    Attributes
    ----------
    type : of its declaration.
    unlimited : which of its dimensions are unlimited in the text.
    is_coordinate : whether it has one dimension, and a visible dimension has its name.
    indent : of lines in its group.
    """

    variable: Variable
    type: NcType
    unlimited: tuple[bool, ...]
    is_coordinate: bool
    indent: str


Data = Callable[[PrintedVariable], Iterator[str]]
"""Prints the values of a variable in pieces; nothing for one that is not wanted."""


def header(group: Group, *, name: str, style: Style = USUAL_STYLE) -> str:
    """Yield a group and everything below it without values, as ``ncdump -h`` prints a file."""
    return "".join(text(group, name=name, style=style))


def text(
    group: Group,
    *,
    name: str,
    style: Style = USUAL_STYLE,
    data: Data | None = None,
) -> Iterator[str]:
    """Yield a group and everything below it, as ncdump prints a netCDF-4 file.

    Parameters
    ----------
    group : becomes the root of the text. Dimensions of groups above it are declared in it.
    name : the word after ``netcdf``.
    data : prints the values; None: the header only.

    Notes
    -----
    Floats have ncdump's seven and fifteen digits. What CDL cannot express is in comments, so that
    ncgen accepts the text: variables of a type that netCDF lacks, original types of converted
    variables, members that cannot be read.
    """
    yield f"netcdf {escaped_name(name)} {{\n"
    flat = flattened(group)
    yield from _Printer(flat, style, data).group(flat, "")
    yield "}\n"


class _Printer:
    def __init__(self, top: Group, style: Style, data: Data | None) -> None:
        self._root = top.header.path
        self._declarations = DeclaredDimensions(top)
        self._declared = self._declarations.declared
        self._style = style
        self._data = data

    def group(self, group: Group, indent: str) -> Iterator[str]:
        for line in self._header(group):
            yield f"{indent}{line}\n" if line else "\n"
        if self._data is not None and group.variables:
            yield f"{indent}data:\n"
            for variable in group.variables:
                nc_type, _ = printed_type(variable.array.dtype)
                if nc_type is not None:
                    yield from self._data(self._printed(variable, nc_type, indent))
        for child in group.groups:
            name = escaped_name(child.name)
            yield f"\n{indent}group: {name} {{\n"
            yield from self.group(child, f"{indent}  ")
            yield f"{indent}  }} // group {name}\n"

    def _header(self, group: Group) -> Iterator[str]:
        dimensions = self._declared.get(group.header.path, {})
        if dimensions:
            yield "dimensions:"
            for dimension in dimensions.values():
                yield f"\t{_dimension(dimension)}"
        if group.variables:
            yield "variables:"
            for variable in group.variables:
                for line in self._variable(variable):
                    yield f"\t{line}"
        for broken, why in group.broken:
            yield f"// {escaped_name(broken)} cannot be read: {_comment(why)}"
        is_root = group.header.path == self._root
        if group.header.attributes or self._style.specials:
            yield ""
            yield f"// {'global' if is_root else 'group'} attributes:"
        for attribute in group.header.attributes:
            yield f"\t\t{_attribute('', attribute, self._style.digits)}"
        if is_root and self._style.specials:
            if self._style.properties is not None:
                yield f"\t\t:_NCProperties = {quoted(self._style.properties)} ;"
            yield '\t\t:_Format = "netCDF-4" ;'

    def _variable(self, variable: Variable) -> Iterator[str]:
        name = escaped_name(variable.name)
        here = variable.group
        references = [
            _reference(dimension, here, self._declared, self._root)
            for dimension in self._dimensions(variable)
        ]
        shape = f"({', '.join(references)})" if references else ""
        nc_type, remark = printed_type(variable.array.dtype)
        comment = "" if nc_type else "// "
        yield f"{comment}{nc_type.value if nc_type else _comment(remark)} {name}{shape} ;" + (
            f" // {_comment(remark)}" if nc_type and remark else ""
        )
        owner = f"{name} " if name in _SECTIONS else name
        for attribute in variable.attributes:
            yield f"{comment}\t{_attribute(owner, attribute, self._style.digits)}"
        if self._style.specials:
            for special, value in special_attributes(variable):
                yield f"{comment}\t{owner}:{special} = {value} ;"

    def _dimensions(self, variable: Variable) -> list[Dimension]:
        return self._declarations.of(variable, variable.group)

    def _printed(self, variable: Variable, nc_type: NcType, indent: str) -> PrintedVariable:
        unlimited = tuple(dimension.unlimited for dimension in self._dimensions(variable))
        seen = here = variable.group
        names = set(self._declared[here])
        while seen != self._root:
            seen = parent_of(seen)
            names |= self._declared.get(seen, {}).keys()
        return PrintedVariable(
            variable,
            nc_type,
            unlimited,
            len(variable.dimensions) == 1 and variable.name in names,
            indent,
        )


def _dimension(dimension: Dimension) -> str:
    name = escaped_name(dimension.name)
    if dimension.unlimited:
        return f"{name} = UNLIMITED ; // ({dimension.size} currently)"
    return f"{name} = {dimension.size} ;"


def printed_type(dtype: DataType) -> tuple[NcType | None, str]:
    """Return the netCDF type that a variable is declared with, and a remark on its own type.

    The type is None if netCDF has neither the variable's type nor a similar one.
    """
    if dtype.nc_type is not None and dtype.nc_type is not NcType.JSON:
        return dtype.nc_type, ""
    closest = _CLOSEST.get(number_kind(dtype.stored))
    return closest, dtype.typestr if dtype.vlen is None else f"{dtype.typestr} {dtype.vlen.value}"


def _attribute(variable: str, attribute: Attribute, digits: Digits) -> str:
    name = f"{variable}:{escaped_name(attribute.name)}"
    value = attribute.value
    match attribute.type:
        case NcType.CHAR:
            assert isinstance(value, str)
            return f"{name} = {quoted(value)} ;"
        case NcType.JSON:
            # netCDF has no such value; netcdf-c returns its JSON as text.
            assert not isinstance(value, tuple)
            return f"{name} = {quoted(compact(value))} ;"
        case NcType.STRING:
            assert isinstance(value, tuple)
            return f"string {name} = {', '.join(quoted(str(item)) for item in value)} ;"
        case nc_type:
            assert isinstance(value, tuple)
            numbers = [
                attribute_number(n, nc_type, digits) for n in value if not isinstance(n, str)
            ]
            # Without values it has no type either, and ncdump prints an empty text.
            return f"{name} = {', '.join(numbers) or quoted('')} ;"


def _comment(text: str) -> str:
    return " ".join(text.split())


def _reference(dimension: Dimension, here: str, declared: Declared, root: str) -> str:
    """Return the name of a dimension in a group: the full name if the short one is ambiguous."""
    above = here
    while above != root and dimension.name not in declared.get(above, {}):
        above = parent_of(above)
    if above == dimension.group:
        return escaped_name(dimension.name)
    group = dimension.group.removeprefix(root).strip("/")
    return "/" + "/".join(map(escaped_name, below(group, dimension.name).split("/")))
