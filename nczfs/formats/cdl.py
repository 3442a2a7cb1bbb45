"""CDL: a group as text, as ``ncdump -h`` prints it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nczfs.formats.cdl_values import attribute_number, escaped_name, quoted
from nczfs.formats.jsontext import compact
from nczfs.formats.names import below, parent_of
from nczfs.model.dtypes import DataType, NcType
from nczfs.model.hierarchy import Attribute, Dimension, Group, Variable

# Types that netCDF does not have, and the type in which it can hold their values. What is neither
# here nor a netCDF type (complex, structured, ...) stands in a comment.
_CLOSEST = {"b": "ubyte", "f": "float", "M": "int64", "m": "int64"}

Declared = Mapping[str, Mapping[str, Dimension]]
"""The dimensions that are printed: by the path of their group, and their name."""


def header(group: Group, *, name: str) -> str:
    """A group and everything below it without values, as ``ncdump -h`` prints a netCDF-4 file.

    Parameters
    ----------
    group : it becomes the root of the text. Dimensions of groups above it are declared in it.
    name : the word after ``netcdf``.

    Notes
    -----
    Floats have ncdump's seven and fifteen digits. What CDL cannot say is a comment, so that ncgen
    accepts the text: variables of a type that netCDF lacks, the type that another one stands for,
    members that cannot be read.
    """
    declared = _declared(group)
    lines = [
        f"netcdf {escaped_name(name)} {{",
        *_body(group, declared, "", group.header.path),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _body(group: Group, declared: Declared, indent: str, root: str) -> Iterator[str]:
    dimensions = declared.get(group.header.path, {})
    if dimensions:
        yield f"{indent}dimensions:"
        for dimension in dimensions.values():
            yield f"{indent}\t{_dimension(dimension)}"
    if group.variables:
        yield f"{indent}variables:"
        for variable in group.variables:
            for line in _variable(variable, declared, root):
                yield f"{indent}\t{line}"
    for broken, why in group.broken:
        yield f"{indent}// {escaped_name(broken)} cannot be read: {_comment(why)}"
    if group.header.attributes:
        yield ""
        yield f"{indent}// {'group' if indent else 'global'} attributes:"
        for attribute in group.header.attributes:
            yield f"{indent}\t\t{_attribute('', attribute)}"
    for child in group.groups:
        name = escaped_name(child.name)
        yield ""
        yield f"{indent}group: {name} {{"
        yield from _body(child, declared, f"{indent}  ", root)
        yield f"{indent}  }} // group {name}"


def _dimension(dimension: Dimension) -> str:
    name = escaped_name(dimension.name)
    if dimension.unlimited:
        return f"{name} = UNLIMITED ; // ({dimension.size} currently)"
    return f"{name} = {dimension.size} ;"


def _variable(variable: Variable, declared: Declared, root: str) -> Iterator[str]:
    name = escaped_name(variable.name)
    here = parent_of(variable.path)
    references = [
        _reference(_settled(dimension, declared, root), here, declared, root)
        for dimension in variable.dimensions
    ]
    shape = f"({', '.join(references)})" if references else ""
    keyword, remark = _type(variable.array.dtype)
    comment = "" if keyword else "// "
    yield f"{comment}{keyword or _comment(remark)} {name}{shape} ;" + (
        f" // {_comment(remark)}" if keyword and remark else ""
    )
    for attribute in variable.attributes:
        yield f"{comment}\t{_attribute(name, attribute)}"


def _type(dtype: DataType) -> tuple[str | None, str]:
    """The CDL name of a type, and a remark; no name where netCDF has no such type."""
    if dtype.nc_type is not None and dtype.nc_type is not NcType.JSON:
        return dtype.nc_type.value, ""
    closest = _CLOSEST.get(dtype.stored.kind)
    return closest, dtype.typestr if dtype.vlen is None else f"{dtype.typestr} {dtype.vlen.value}"


def _attribute(variable: str, attribute: Attribute) -> str:
    name = f"{variable}:{escaped_name(attribute.name)}"
    value = attribute.value
    match attribute.type:
        case NcType.CHAR:
            assert isinstance(value, str)
            return f"{name} = {quoted(value)} ;"
        case NcType.JSON:
            # netCDF has no such value; netcdf-c gives its JSON as text.
            assert not isinstance(value, tuple)
            return f"{name} = {quoted(compact(value))} ;"
        case NcType.STRING:
            assert isinstance(value, tuple)
            return f"string {name} = {', '.join(quoted(str(item)) for item in value)} ;"
        case nc_type:
            assert isinstance(value, tuple)
            numbers = [attribute_number(n, nc_type) for n in value if not isinstance(n, str)]
            # Without values it has no type either: ncdump prints an empty text.
            return f"{name} = {', '.join(numbers) or quoted('')} ;"


def _comment(text: str) -> str:
    return " ".join(text.split())


def _declared(top: Group) -> dict[str, dict[str, Dimension]]:
    """Where each dimension is printed: every one that a variable has, once."""
    root = top.header.path
    declared: dict[str, dict[str, Dimension]] = {}
    stack = [top]
    variables: list[Variable] = []
    while stack:
        group = stack.pop()
        declared[group.header.path] = {d.name: d for d in group.dimensions}
        variables += group.variables
        stack += group.groups
    for variable in variables:
        for dimension in variable.dimensions:
            home = dimension.group if dimension.group in declared else root
            known = declared[home].setdefault(dimension.name, dimension)
            if known.size != dimension.size:
                spare = _anonymous(dimension)
                declared[root].setdefault(spare.name, spare)
    return declared


def _settled(dimension: Dimension, declared: Declared, root: str) -> Dimension:
    """The printed dimension that stands for one of a variable; `group` says where it is printed."""
    home = dimension.group if dimension.group in declared else root
    known = declared[home][dimension.name]
    if known.size != dimension.size:
        # Two arrays give one name two lengths, which no netCDF group can.
        return Dimension(_anonymous(dimension).name, dimension.size, group=root, anonymous=True)
    return Dimension(known.name, known.size, known.unlimited, home)


def _anonymous(dimension: Dimension) -> Dimension:
    return Dimension(f"_Anonymous_Dim_{dimension.size}", dimension.size, anonymous=True)


def _reference(dimension: Dimension, here: str, declared: Declared, root: str) -> str:
    """The name of a dimension in a group: its full name where the short one means another one."""
    above = here
    while above != root and dimension.name not in declared.get(above, {}):
        above = parent_of(above)
    if above == dimension.group:
        return escaped_name(dimension.name)
    group = dimension.group.removeprefix(root).strip("/")
    return "/" + "/".join(map(escaped_name, below(group, dimension.name).split("/")))
