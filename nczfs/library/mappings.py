"""The mappings of groups and variables: attributes, members, dimensions."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping, MutableMapping, ValuesView
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from nczfs.engine.values.convert import attribute_of, retyped
from nczfs.errors import BadValue, MetadataError, NoSuchNode
from nczfs.formats.base import Node
from nczfs.model.dtypes import CODE_OF_NC_TYPE, NcType
from nczfs.model.hierarchy import Attribute

T = TypeVar("T")


class HasAttributes(Protocol):
    """The part of a group or variable that its attributes need."""

    @property
    def stored(self) -> Node: ...

    def set_attribute(self, attribute: Attribute) -> None: ...

    def delete_attribute(self, name: str) -> None: ...


class NamedMapping(Mapping[str, T], Generic[T]):
    """A read-only mapping from names, in stored order."""

    def __init__(self, items: dict[str, T], what: str) -> None:
        self._items = items
        self._what = what

    def __getitem__(self, name: str) -> T:
        try:
            return self._items[name]
        except KeyError:
            raise KeyError(f"{self._what} {name!r} (there are: {', '.join(self._items)})") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"<{self._what}: {', '.join(self._items)}>"


class Members(Mapping[str, T], Generic[T]):
    """The members that a group lists, each read on demand.

    A member that cannot be read raises its error, and is left out of `values` and `items`.

    Parameters
    ----------
    load : reads one member. read_all : reads all of them at once.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        load: Callable[[str], T],
        read_all: Callable[[], object],
        what: str,
    ) -> None:
        self._names = names
        self._known = frozenset(names)
        self._load = load
        self._read_all = read_all
        self._what = what

    def __getitem__(self, name: str) -> T:
        if name not in self._known:
            raise KeyError(f"{self._what} {name!r} (there are: {', '.join(self._names)})")
        try:
            return self._load(name)
        except NoSuchNode as error:
            raise KeyError(str(error)) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def values(self) -> ValuesView[T]:
        return _ReadableValues(self)

    def items(self) -> ItemsView[str, T]:
        return _ReadableItems(self)

    def readable(self) -> Iterator[tuple[str, T]]:
        """Return the members that can be read."""
        self._read_all()
        for name in self._names:
            try:
                member = self[name]
            except (KeyError, MetadataError):
                continue
            yield name, member

    def __repr__(self) -> str:
        return f"<{self._what}: {', '.join(self._names)}>"


class _ReadableValues(ValuesView[T]):
    _mapping: Members[T]

    def __iter__(self) -> Iterator[T]:
        return (member for _, member in self._mapping.readable())


class _ReadableItems(ItemsView[str, T]):
    _mapping: Members[T]

    def __iter__(self) -> Iterator[tuple[str, T]]:
        return self._mapping.readable()


class Attributes(MutableMapping[str, Any]):
    """The attributes of a group or variable: text, numbers, arrays of numbers, lists of text.

    A new number in an attribute keeps the attribute's type, if it fits.
    """

    def __init__(self, node: HasAttributes) -> None:
        self._node = node

    def __getitem__(self, name: str) -> Any:
        return attribute_value(self.described(name))

    def __setitem__(self, name: str, value: Any) -> None:
        attribute = attribute_of(name, value)
        if not isinstance(value, np.ndarray | np.generic | Attribute):
            attribute = self._with_known_type(attribute)
        self._node.set_attribute(attribute)

    def __delitem__(self, name: str) -> None:
        self.described(name)
        self._node.delete_attribute(name)

    def __iter__(self) -> Iterator[str]:
        return iter([attribute.name for attribute in self._node.stored.attributes])

    def __len__(self) -> int:
        return len(self._node.stored.attributes)

    def described(self, name: str) -> Attribute:
        """Return an attribute with its netCDF type. Raises KeyError."""
        for attribute in self._node.stored.attributes:
            if attribute.name == name:
                return attribute
        raise KeyError(f"attribute {name!r} (there are: {', '.join(self)})")

    def _with_known_type(self, attribute: Attribute) -> Attribute:
        known = next((a for a in self._node.stored.attributes if a.name == attribute.name), None)
        numeric = known is not None and known.type in CODE_OF_NC_TYPE
        if known is None or not numeric or attribute.type not in CODE_OF_NC_TYPE:
            return attribute
        try:
            return retyped(attribute, known.type)
        except BadValue:
            return attribute

    def __repr__(self) -> str:
        return f"<attributes: {', '.join(self)}>"


def attribute_value(attribute: Attribute) -> Any:
    """Return an attribute as netCDF users know it: text, a number, or an array of numbers."""
    value = attribute.value
    if attribute.type is NcType.STRING and isinstance(value, tuple):
        return value[0] if len(value) == 1 else list(value)
    if isinstance(value, tuple):
        array = np.array(value, CODE_OF_NC_TYPE[attribute.type])
        return array[0] if len(value) == 1 else array
    return value
