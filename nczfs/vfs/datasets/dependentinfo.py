"""The info.json of an array that is to depend on another one: what it has to declare."""

from __future__ import annotations

import json
from typing import Final

from nczfs.engine.structure.editor import Editor
from nczfs.errors import BadValue
from nczfs.formats.dimensions import DIMENSION_NAMES
from nczfs.formats.jsontext import parse, plain
from nczfs.formats.names import below
from nczfs.formats.zarr3.dependents import partial_document
from nczfs.formats.zarr3.keyencodings import CHUNK_KEYS
from nczfs.model.hierarchy import Json, Variable
from nczfs.vfs.datasets.making import dimensions_of
from nczfs.views.catalog import INFO
from nczfs.views.declaration import DECLARED, SHOWN, WantedVariable, wanted_node
from nczfs.views.info import variable_info

_MEMBERS: Final = {
    "shape": ("shape",),
    "dimensions": (DIMENSION_NAMES,),
    "dtype": ("data_type", "fill_value", "codecs"),
    "nc_type": ("data_type", "fill_value", "codecs"),
    "chunk_shape": ("chunk_grid",),
    "shard_shape": ("chunk_grid", "codecs"),
    "codecs": ("codecs",),
    "order": ("codecs",),
    "fill_value": ("fill_value",),
    "dimension_separator": (CHUNK_KEYS,),
    "attributes": ("attributes",),
}
"""The members of a document that follow from those of an info.json."""

_OF_BOTH: Final = frozenset({"shape", "codecs", "fill_value", "attributes", CHUNK_KEYS})
"""Members of an info.json that documents have, too."""

_TYPE: Final = ("dtype", "nc_type")


def partial_of(editor: Editor, primary: Variable, name: str, data: bytes) -> Json:
    """Return the partial document of an array that depends on another one.

    Parameters
    ----------
    data : an info.json, in which everything may be left out that is as in the primary; or the
        partial document itself, which has a member that no info.json has, or none that only an
        info.json has.

    Raises
    ------
    Unfinished : it is the beginning of one. BadValue, BadMetadata, CodecError, Unsupported,
        UsageError : no array can be made of it.
    """
    given = plain(parse(data, INFO).value)
    if not isinstance(given, dict):
        raise BadValue(f"{INFO}: is not a JSON object")
    if given.keys() - DECLARED - SHOWN or not _is_info(given):
        return given
    known: dict[str, Json] = json.loads(variable_info(primary, []))
    members = _inherited(known, given) | given
    wanted = wanted_node(name, json.dumps(members).encode())
    assert isinstance(wanted, WantedVariable)
    dimensions = dimensions_of(wanted, primary.group)
    path = below(primary.path, name)
    variable = editor.described(path, wanted.declaration, dimensions)
    may_differ = {each for member in given for each in _MEMBERS.get(member, ())}
    if len(variable.array.shape) != len(primary.array.shape):
        may_differ |= {"chunk_grid", DIMENSION_NAMES}
    if CHUNK_KEYS in given:
        may_differ.discard(CHUNK_KEYS)
    found = partial_document(variable, primary, may_differ)
    return found | {CHUNK_KEYS: given[CHUNK_KEYS]} if CHUNK_KEYS in given else found


def _is_info(given: dict[str, Json]) -> bool:
    """Return whether a document is an info.json rather than a partial document."""
    codecs = given.get("codecs")
    listed = codecs if isinstance(codecs, list) else []
    return bool(given.keys() - _OF_BOTH) or any(
        isinstance(each, dict) and "id" in each for each in listed
    )


def _inherited(known: dict[str, Json], given: dict[str, Json]) -> dict[str, Json]:
    """Return the members of the primary's info.json that one with others would have, too."""
    left = {"attributes", "attribute_types", *SHOWN, *given}
    if not given.keys().isdisjoint(_TYPE):
        left |= {*_TYPE, "fill_value", "codecs"}
    old, new = known["shape"], given.get("shape")
    if isinstance(old, list) and isinstance(new, list) and old != new:
        left.add("dimensions")
        if len(old) != len(new):
            left |= {"chunk_shape", "shard_shape"}
    return {name: value for name, value in known.items() if name not in left}
