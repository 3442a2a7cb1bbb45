"""Attributes: from JSON to the model, and their text."""

from __future__ import annotations

from collections.abc import Mapping

from nczfs.formats.jsontext import compact, one_line, plain
from nczfs.formats.numbers import as_float, exact_number, in_type
from nczfs.formats.problems import Problems
from nczfs.messages import shown
from nczfs.model.dtypes import CODE_OF_NC_TYPE, NC_TYPE_OF_CODE, NcType
from nczfs.model.hierarchy import Attribute, Json

NAMES_MAX = 1 << 16

# The type strings of text in all releases of netcdf-c; their byte order means nothing.
_TEXT_TYPES = frozenset({"S1", "U1"})


UNLIMITED = "_nczfs_unlimited"
"""The attribute of a group of Zarr v3 with the names of its unlimited dimensions, a list."""

MAXSTRLEN = "_nczarr_maxstrlen"
DEFAULT_MAXSTRLEN = "_nczarr_default_maxstrlen"
"""Attributes in which users of netcdf-c give the bytes per string. They are shown."""


def is_hidden(name: str) -> bool:
    """Return whether an attribute belongs to the format and not to the user."""
    if name in (MAXSTRLEN, DEFAULT_MAXSTRLEN):
        return False
    return name in ("_ARRAY_DIMENSIONS", "_NCProperties", UNLIMITED) or name.startswith(
        ("_nczarr_", "_NCZARR_")
    )


def read_attributes(
    values: Mapping[str, Json],
    types: Mapping[str, Json],
    where: str,
    problems: Problems,
    *,
    lists_of_one: bool = False,
    text_type: NcType = NcType.CHAR,
    variable_type: NcType | None = None,
) -> tuple[Attribute, ...]:
    """Read the attributes of a node, in stored order, without those of the format.

    Parameters
    ----------
    values : the members of ``.zattrs``.
    types : the type strings that NCZarr keeps beside them, by name; empty in pure Zarr.
    where : the key of the document, for messages.
    lists_of_one : whether every value is a list, even a text, as in netcdf-c 4.8.0.
    text_type : what the type strings of text mean. Where netcdf-c reads a dataset as pure Zarr,
        ``>S1`` is a STRING.
    variable_type : of the elements of a variable; None: the node is a group, or netCDF has no such
        type.

    Notes
    -----
    An attribute with a type is read by `typed`; without one, or if the value does not fit it, by
    `untyped`. No contents of an attribute are an error.
    """
    found: list[Attribute] = []
    for name, stored in values.items():
        value = stored
        if is_hidden(name):
            continue
        if not name:
            problems.add(f"{where}: an attribute without a name is ignored", is_omission=True)
            continue
        if len(found) == NAMES_MAX:
            problems.add(f"{where}: attributes beyond {NAMES_MAX} are ignored", is_omission=True)
            break
        typestr = types.get(name)
        attribute = None
        if isinstance(typestr, str):
            if lists_of_one and isinstance(value, list) and len(value) == 1:
                value = value[0]
            attribute = typed(name, value, typestr, text_type)
            if attribute is None and _code(typestr) in NC_TYPE_OF_CODE:
                problems.add(
                    f"{where}: attribute {shown(name)}: {shown(value)} is not of its type "
                    f"{shown(str(typestr))}"
                )
        found.append(attribute or untyped(name, value, variable_type))
    return tuple(found)


def typed(
    name: str, value: Json, typestr: str, text_type: NcType = NcType.CHAR
) -> Attribute | None:
    """Return an attribute of the type that NCZarr states; None if the value does not fit.

    Notes
    -----
    netcdf-c stores a text that is JSON as that JSON (``"1.50"`` as ``1.50``, ``"[1,2]"`` as
    ``[1,2]``). Here the text is restored, spelled as it is stored.
    """
    code = _code(typestr)
    if code in _TEXT_TYPES:
        text = _text(value)
        return Attribute(name, text_type, text if text_type is NcType.CHAR else (text,))
    if code[:1] in ("S", "U", "O"):
        items = value if isinstance(value, list) else [value]
        return Attribute(name, NcType.STRING, tuple(_text(item) for item in items))
    if code == "J0":
        return Attribute(name, NcType.JSON, plain(value))
    nc_type = NC_TYPE_OF_CODE.get(code)
    if nc_type is None:
        return None
    numbers = [in_type(item, nc_type) for item in (value if isinstance(value, list) else [value])]
    if any(number is None for number in numbers):
        return None
    return Attribute(name, nc_type, tuple(number for number in numbers if number is not None))


def untyped(name: str, value: Json, variable_type: NcType | None = None) -> Attribute:
    """Return an attribute of a Zarr dataset, with the type that its value suggests.

    Integers are INT, UINT, INT64 or UINT64, the first that holds them all; numbers of which one has
    a point are DOUBLE, and among numbers Zarr's words for NaN and infinities are numbers, too; a
    string is CHAR, a list of strings STRING; everything else stays JSON. A ``_FillValue`` becomes a
    number of the variable's type if it can, as netCDF requires.
    """
    if name == "_FillValue" and variable_type is not None and variable_type in CODE_OF_NC_TYPE:
        only = value[0] if isinstance(value, list) and len(value) == 1 else value
        if (number := in_type(only, variable_type)) is not None:
            return Attribute(name, variable_type, (number,))
    if isinstance(value, str):
        return Attribute(name, NcType.CHAR, str(value))
    items: list[Json] = value if isinstance(value, list) else [value]
    numbers = [item for item in items if isinstance(item, int | float)]
    if numbers and all(item in _WORDS for item in items if isinstance(item, str)):
        numeric = _untyped_numbers(name, items)
        if numeric is not None:
            return numeric
    if isinstance(value, list) and items and all(isinstance(item, str) for item in items):
        return Attribute(name, NcType.STRING, tuple(str(item) for item in items))
    return Attribute(name, NcType.JSON, plain(value))


def attribute_text(attribute: Attribute) -> str:
    """Return the text of an attribute with a newline: the contents of its file.

    Text stays as it is. Numbers are printed as in CDL without type suffixes, separated by blanks,
    with as many digits as reading them back needs. Everything else is JSON on one line.
    """
    value = attribute.value
    match attribute.type:
        case NcType.CHAR:
            assert isinstance(value, str)
            return f"{value}\n"
        case NcType.STRING:
            assert isinstance(value, tuple)
            if len(value) == 1:
                return f"{value[0]}\n"
            return one_line([str(item) for item in value]) + "\n"
        case NcType.JSON:
            assert not isinstance(value, tuple)
            return one_line(value) + "\n"
        case _:
            assert isinstance(value, tuple)
            return (
                " ".join(exact_number(n, attribute.type) for n in value if not isinstance(n, str))
                + "\n"
            )


def _code(typestr: str) -> str:
    return typestr[1:] if typestr[:1] in "<>|=" else str(typestr)


def _text(value: Json) -> str:
    return str(value) if isinstance(value, str) else compact(value)


_WORDS = frozenset({"NaN", "Infinity", "-Infinity"})

_INTEGER_TYPES = (
    (NcType.INT, -(2**31), 2**31),
    (NcType.UINT, 0, 2**32),
    (NcType.INT64, -(2**63), 2**63),
    (NcType.UINT64, 0, 2**64),
)


def _untyped_numbers(name: str, items: list[Json]) -> Attribute | None:
    integers = [item for item in items if isinstance(item, int) and not isinstance(item, bool)]
    if len(integers) == len(items):
        low, high = min(integers), max(integers)
        for nc_type, first, end in _INTEGER_TYPES:
            if first <= low and high < end:
                return Attribute(name, nc_type, tuple(integers))
        return None
    if any(isinstance(item, bool) for item in items):
        return None
    numbers = [as_float(item) for item in items]
    floats = tuple(number for number in numbers if number is not None)
    return Attribute(name, NcType.DOUBLE, floats) if len(floats) == len(items) else None
