"""The member ``chunk_key_encoding`` of Zarr v3 arrays, from JSON and to JSON."""

from __future__ import annotations

from dataclasses import replace

from nczfs.errors import BadMetadata, Unsupported
from nczfs.formats.names import NAME_BYTES_MAX, is_name
from nczfs.formats.zarr3.extensions import Extension, extension
from nczfs.formats.zarr3.names import ZARR_JSON
from nczfs.messages import shown
from nczfs.model.hierarchy import ChunkKeys, Json

CHUNK_KEYS = "chunk_key_encoding"
"""The member."""

_BASES = ("base_encoding", "base-encoding")  # the texts of the proposals differ
_AFFIXES = ("prefix", "suffix")
_LEVELS_MAX = 16


def read_keys(value: Json, where: str) -> ChunkKeys:
    """Return the form of the chunk keys of an array.

    Parameters
    ----------
    value : the member, parsed.
    where : the key of the document, for messages.

    Raises
    ------
    BadMetadata : it is no encoding, or one of its keys would be no chunk below the array.
    Unsupported : an encoding that nczfs does not know.

    Notes
    -----
    Zarr v3.1 core specification, "Chunk key encoding", and the proposed encodings ``prefix`` and
    ``suffix`` (zarr-extensions, pull requests 47 and 28).
    """
    keys = _keys(value, f"{where}: {CHUNK_KEYS}", 0)
    if keys.before or keys.after:
        _check_affixes(keys, f"{where}: {CHUNK_KEYS}")
    return keys


def keys_json(keys: ChunkKeys) -> Json:
    """Return the member for a form of chunk keys."""
    encoded = _named("default" if keys.prefix else "v2", separator=keys.separator)
    if keys.before:
        encoded = _named("prefix", prefix=keys.before, base_encoding=encoded)
    if keys.after:
        encoded = _named("suffix", suffix=keys.after, base_encoding=encoded)
    return encoded


def _keys(value: Json, where: str, level: int) -> ChunkKeys:
    encoding = extension(value, where)
    match encoding.name:
        case "default" | "v2":
            return _plain(encoding)
        case "prefix" | "suffix":
            return _affixed(encoding, level)
        case name:
            raise Unsupported(f"{encoding.where} {shown(name)} is not supported")


def _plain(encoding: Extension) -> ChunkKeys:
    encoding.check_members(("separator",))
    is_default = encoding.name == "default"
    separator = encoding.configuration.get("separator", "/" if is_default else ".")
    if separator not in (".", "/"):
        raise BadMetadata(f"{encoding.where}: separator is {shown(separator)}, not '.' or '/'")
    return ChunkKeys(str(separator), "c", "c") if is_default else ChunkKeys(str(separator))


def _affixed(encoding: Extension, level: int) -> ChunkKeys:
    """Return another encoding with a text around its keys.

    The member says on which side: the published example has ``prefix`` in an encoding ``suffix``.
    """
    place = f"{encoding.where}: {encoding.name}"
    if level == _LEVELS_MAX:
        raise BadMetadata(f"{place}: more than {_LEVELS_MAX} encodings within each other")
    encoding.check_members((*_AFFIXES, *_BASES))
    members = encoding.configuration
    affixes = [name for name in _AFFIXES if name in members]
    bases = [name for name in _BASES if name in members]
    if len(affixes) != 1:
        raise BadMetadata(f"{place}: has {'both' if affixes else 'neither'} prefix and suffix")
    if len(bases) > 1:
        raise BadMetadata(f"{place}: has both base_encoding and base-encoding")
    if not bases and encoding.name == "prefix":
        raise BadMetadata(f"{place}: base_encoding is missing")
    text = members[affixes[0]]
    if not isinstance(text, str):
        raise BadMetadata(f"{place}: {affixes[0]} is {shown(text)}, not a text")
    base = _keys(members[bases[0]] if bases else "default", place, level + 1)
    if affixes[0] == "prefix":
        return replace(base, before=str(text) + base.before)
    return replace(base, after=base.after + str(text))


def _check_affixes(keys: ChunkKeys, where: str) -> None:
    """Raise BadMetadata if names of chunks would leave the array, or be those of documents."""
    for index in ((), (0,), (0, 0)):
        name = keys.name(index)
        words = name.split("/")
        too_long = len(name.encode("utf-8", "surrogatepass")) > NAME_BYTES_MAX
        if too_long or ZARR_JSON in words or not all(map(is_name, words)):
            raise BadMetadata(f"{where}: {shown(name)} cannot be the key of a chunk")


def _named(name: str, **configuration: Json) -> Json:
    return {"name": name, "configuration": configuration}
