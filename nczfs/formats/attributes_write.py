"""Attributes: from the model to JSON, and the types that NCZarr keeps beside them."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from nczfs.errors import Unsupported
from nczfs.formats.attributes import is_hidden
from nczfs.formats.jsonwrite import bare, shortest, strict
from nczfs.messages import shown
from nczfs.model.dtypes import CODE_OF_NC_TYPE, NcType
from nczfs.model.hierarchy import Attribute, Json

TEXT, EARLY_TEXT = ">S1", "<U1"


def check_attributes(
    attributes: Iterable[Attribute],
    existing: Iterable[Attribute],
    where: str,
    *,
    early: bool = False,
) -> None:
    """Refuse new values that cannot be stored.

    Parameters
    ----------
    existing : the attributes as they are read now; these may stay in any form.
    early : whether the layout has no strings.

    Raises
    ------
    Unsupported : the name is reserved by the format, or the value has no stored form.
    """
    known = {attribute.name: attribute for attribute in existing}
    for attribute in attributes:
        if is_hidden(attribute.name):
            raise Unsupported(
                f"{where}: {shown(attribute.name)} is reserved by the format; choose another name"
            )
        if not attribute.name:
            raise Unsupported(f"{where}: an attribute without a name cannot be stored")
        many = attribute.type is NcType.STRING and _count(attribute) > 1
        if early and many and known.get(attribute.name) != attribute:
            raise Unsupported(
                f"{where}: attribute {shown(attribute.name)}: this layout has no lists of strings; "
                "join them to one text, or use the format nczarr-L3"
            )


def attribute_json(
    attribute: Attribute, *, json_as_text: bool = False, is_typed: bool = True
) -> Json:
    """Return the value in the form of ``.zattrs``.

    Text is a string, also where netcdf-c would write it as the JSON that it resembles. An attribute
    without values becomes an empty text: netcdf-c does not open a dataset with an empty list.

    Parameters
    ----------
    json_as_text : whether JSON becomes a text.
    is_typed : whether a type is stored beside the value. Without one NaN and infinities are bare
        words, as zarr-python and xarray write them: in quotes they are texts for all readers.
    """
    value = attribute.value
    if attribute.type is NcType.CHAR:
        assert isinstance(value, str)
        return str(value)
    if attribute.type is NcType.JSON:
        assert not isinstance(value, tuple)
        if json_as_text:
            return strict(value)
        return value if is_typed else bare(value)
    assert isinstance(value, tuple)
    if not value:
        return ""
    items = [_item(item, attribute.type, is_typed=is_typed) for item in value]
    return items[0] if len(items) == 1 else items


def attribute_typestr(
    attribute: Attribute, *, early: bool = False, text_type: NcType = NcType.CHAR
) -> str:
    """Return the type string that NCZarr stores for an attribute.

    Parameters
    ----------
    early : whether the layout calls text ``<U1``, and has no other strings.
    text_type : as in `attributes.read_attributes`.

    Notes
    -----
    netcdf-c does not open a dataset with a ``|J0`` attribute of the user; it stores JSON as text.
    The length of a string type means nothing to it, and ``|S1`` is text to its first releases.
    """
    text = EARLY_TEXT if early else TEXT
    if attribute.type in (NcType.CHAR, NcType.JSON) or _count(attribute) == 0:
        return text
    if attribute.type is not NcType.STRING:
        return f"<{CODE_OF_NC_TYPE[attribute.type]}"
    if _count(attribute) == 1 and (early or text_type is NcType.STRING):
        return text
    assert isinstance(attribute.value, tuple)
    longest = max(len(str(item).encode("utf-8", "replace")) for item in attribute.value)
    return f"|S{max(2, longest)}"


def _count(attribute: Attribute) -> int:
    return len(attribute.value) if isinstance(attribute.value, tuple) else 1


def _item(item: object, nc_type: NcType, *, is_typed: bool) -> Json:
    if nc_type is NcType.STRING:
        return str(item)
    assert isinstance(item, int | float)
    if not (is_typed or math.isfinite(item)):
        return bare(item)
    code = CODE_OF_NC_TYPE[nc_type]
    return shortest(float(item), np.dtype(code)) if code.startswith("f") else int(item)
