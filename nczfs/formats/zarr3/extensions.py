"""Extension definitions: the names with configurations of which ``zarr.json`` documents consist."""

from __future__ import annotations

from collections.abc import Collection

from nczfs.errors import BadMetadata
from nczfs.formats.jsontext import plain
from nczfs.messages import shown
from nczfs.model.hierarchy import Json
from nczfs.plaindata import frozen

_MEMBERS = frozenset({"name", "configuration", "must_understand"})
_SETTINGS_MAX = 1024  # of a configuration; it is printed and compared where its array is


@frozen
class Extension:
    """A name and its configuration.

    Attributes
    ----------
    where : the key of the document and the member, for messages.
    must_understand : False: a reader that does not know the name may ignore it.
    """

    name: str
    configuration: dict[str, Json]
    where: str
    must_understand: bool = True

    def check_members(self, known: Collection[str]) -> None:
        """Raise BadMetadata if the configuration has an unknown member."""
        for member in self.configuration:
            if member not in known:
                raise BadMetadata(
                    f"{self.where}: {shown(self.name)}: unknown configuration {shown(member)}"
                )


def extension(value: Json, where: str, *, is_optional: bool = False) -> Extension:
    """Read an extension definition, in any of its forms.

    Parameters
    ----------
    value : a string, or an object with a name.
    where : the key of the document and the member, for messages.
    is_optional : whether ``must_understand`` may be false.

    Raises
    ------
    BadMetadata : it is neither, has an unknown member, or one of a wrong type.

    Notes
    -----
    Zarr v3.1 core specification, "Extension definition".
    """
    if isinstance(value, str):
        value = {"name": str(value)}
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise BadMetadata(f"{where}: {shown(value)} is neither a name nor an object with a name")
    name = str(value["name"])
    for member in value:
        if member not in _MEMBERS:
            raise BadMetadata(f"{where}: {shown(name)}: unknown member {shown(member)}")
    configuration = value.get("configuration", {})
    if not isinstance(configuration, dict):
        raise BadMetadata(f"{where}: {shown(name)}: configuration {shown(configuration)}")
    if len(configuration) > _SETTINGS_MAX:
        raise BadMetadata(
            f"{where}: {shown(name)}: configuration has {len(configuration)} members "
            f"(max {_SETTINGS_MAX})"
        )
    must_understand = value.get("must_understand", True)
    if not isinstance(must_understand, bool):
        raise BadMetadata(f"{where}: {shown(name)}: must_understand {shown(must_understand)}")
    if not (must_understand or is_optional):
        raise BadMetadata(f"{where}: {shown(name)}: must_understand cannot be false here")
    members = plain(configuration)
    assert isinstance(members, dict)
    return Extension(name, members, where, must_understand)
