"""Codecs as a list in JSON, within the configuration of another codec."""

from __future__ import annotations

from nczfs.codecs.arraycodec import StrictSettings
from nczfs.messages import shown
from nczfs.model.hierarchy import CodecSpec, Json

_MEMBERS = frozenset({"name", "configuration", "must_understand"})


def specs_in(settings: StrictSettings, name: str) -> tuple[CodecSpec, ...]:
    """Return the codecs in a list of the settings.

    Raises
    ------
    UnknownCodec : it is not a list of codecs: names, or objects with name and configuration.
    """
    entries = settings.members.get(name)
    if not isinstance(entries, list):
        raise settings.refused(f"{name} is {shown(entries)}, not a list")
    return tuple(_spec(settings, name, entry) for entry in entries)


def _spec(settings: StrictSettings, member: str, entry: Json) -> CodecSpec:
    if isinstance(entry, str):
        return CodecSpec(entry)
    if isinstance(entry, dict) and entry.keys() <= _MEMBERS:
        name, configuration = entry.get("name"), entry.get("configuration", {})
        must_understand = entry.get("must_understand", True)
        if (
            isinstance(name, str)
            and isinstance(configuration, dict)
            and isinstance(must_understand, bool)
        ):
            return CodecSpec(name, configuration, must_understand)
    raise settings.refused(f"{member} has the entry {shown(entry)}, which is no codec")
