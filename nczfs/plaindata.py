"""Plain data: frozen dataclasses that cost little to declare.

A process that mounts declares hundreds of them before it answers. `dataclasses` compiles six
methods for each, which was a third of the processor time of all imports; here ``__init__`` alone is
compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, TypeVar, dataclass_transform, overload

_Class = TypeVar("_Class", bound=type)


@overload
def frozen(cls: _Class, /) -> _Class: ...


@overload
def frozen(
    *, eq: bool = ..., slots: bool = ..., kw_only: bool = ..., weakref_slot: bool = ...
) -> Callable[[_Class], _Class]: ...


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(
    cls: type | None = None, /, *, eq: bool = True, slots: bool = True, **options: bool
) -> Any:
    """Make a class a dataclass with slots that is compared by its values and never changes.

    Type checkers refuse to assign to its attributes. At run time nothing does, so that making an
    instance takes no call for each of them. Classes whose instances users of the library hold are
    therefore declared with `dataclasses.dataclass`.

    Parameters
    ----------
    eq : whether equality and hash follow from the values; otherwise it equals itself alone.
    slots, options : as of `dataclasses.dataclass`.
    """

    def decorated(cls: type) -> Any:
        made: Any = dataclass(repr=False, eq=False, slots=slots, **options)(cls)
        own = vars(made)
        if "__repr__" not in own:
            made.__repr__ = _repr_of(made)
        if eq and "__eq__" not in own:
            made.__eq__ = _equality_of(made)
        if eq and own.get("__hash__") is None:
            made.__hash__ = _hash_of(made)
        return made

    return decorated if cls is None else decorated(cls)


def _repr_of(cls: type) -> Callable[[object], str]:
    names = [each.name for each in fields(cls) if each.repr]
    values = _values(names)
    text = f"%s({', '.join(f'{name}=%r' for name in names)})"

    @recursive_repr()
    def __repr__(self: object) -> str:
        return text % (type(self).__qualname__, *values(self)[: len(names)])

    return __repr__


def _equality_of(cls: type) -> Callable[[object, object], bool]:
    values = _values([each.name for each in fields(cls) if each.compare])

    def __eq__(self: object, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    return __eq__


def _hash_of(cls: type) -> Callable[[object], int]:
    values = _values([f.name for f in fields(cls) if (f.compare if f.hash is None else f.hash)])

    def __hash__(self: object) -> int:
        return hash(values(self))

    return __hash__


def _values(names: list[str]) -> Callable[[object], tuple[object, ...]]:
    """Return what reads attributes of an object; a single one twice.

    For one name `attrgetter` returns no tuple, in which alone a NaN is equal to itself.
    """
    return attrgetter(*names, *(names if len(names) == 1 else [])) if names else lambda _: ()
