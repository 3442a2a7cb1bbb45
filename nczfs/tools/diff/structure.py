"""Differences between the groups, dimensions, attributes and variables of two sides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from nczfs.engine.values.fillvalues import FILL_VALUE
from nczfs.errors import UsageError
from nczfs.formats.jsontext import one_line
from nczfs.formats.names import below, parent_of
from nczfs.model.declaration import ElementType, GroupDeclaration, VariableDeclaration
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import Attribute, Dimension
from nczfs.plaindata import frozen
from nczfs.tools.diff.differences import Absent, DatasetDifference, DifferenceKind, Shown
from nczfs.tools.diff.side import Side
from nczfs.tools.diff.texts import attribute_text, fill_text
from nczfs.tools.transfer.source import Scopes, groups_of

_TEXTS = frozenset({NcType.CHAR, NcType.STRING})


@frozen
class VariablePair:
    """A variable that both sides have.

    Attributes
    ----------
    a_path, b_path : in the sources.
    """

    path: str
    a: VariableDeclaration
    b: VariableDeclaration
    a_path: str
    b_path: str


class StructureDiff:
    """A comparison of everything but values.

    Parameters
    ----------
    with_storage : whether to compare chunks, codecs and byte order, where both sides have them.

    Attributes
    ----------
    pairs : the variables that both sides have; filled by `differences`.
    """

    def __init__(self, a: Side, b: Side, *, with_storage: bool) -> None:
        if a.is_variable != b.is_variable:
            variable, group = (a, b) if a.is_variable else (b, a)
            raise UsageError(
                f"{variable.source.name} is a variable, {group.source.name} is not: they cannot be "
                "compared"
            )
        self._a = a
        self._b = b
        self._is_pure = a.is_pure or b.is_pure
        self._with_storage = with_storage
        self._scopes = Scopes(a.source.root), Scopes(b.source.root)
        self.pairs: list[VariablePair] = []

    def differences(self) -> Iterator[DatasetDifference]:
        """Yield all differences, group by group."""
        roots = self._a.source.root, self._b.source.root
        if self._a.is_variable:
            (one,), (two,) = roots[0].variables, roots[1].variables
            yield from self._variable(VariablePair(one.name, one, two, one.name, two.name))
            return
        a, b = (dict(groups_of(root)) for root in roots)
        for path, group in a.items():
            other = b.get(path)
            if other is not None:
                yield from self._group(path, group, other)
            elif path.rpartition("/")[0] in b:
                yield DatasetDifference(f"/{path}", DifferenceKind.GROUP, a="", b=Absent.ABSENT)
        for path in b:
            if path not in a and path.rpartition("/")[0] in a:
                yield DatasetDifference(f"/{path}", DifferenceKind.GROUP, a=Absent.ABSENT, b="")

    def _group(
        self, path: str, a: GroupDeclaration, b: GroupDeclaration
    ) -> Iterator[DatasetDifference]:
        shown = f"/{path}"
        yield from self._dimensions(shown, a.dimensions, b.dimensions)
        yield from self._attributes(shown, a.attributes, b.attributes)
        others = {variable.name: variable for variable in b.variables}
        for variable in a.variables:
            place = below(path, variable.name)
            other = others.pop(variable.name, None)
            if other is None:
                text = _type(variable.type)
                yield DatasetDifference(
                    f"/{place}", DifferenceKind.VARIABLE, a=text, b=Absent.ABSENT
                )
            else:
                pair = VariablePair(place, variable, other, place, place)
                yield from self._variable(pair)
        for variable in others.values():
            place = f"/{below(path, variable.name)}"
            yield DatasetDifference(
                place, DifferenceKind.VARIABLE, a=Absent.ABSENT, b=_type(variable.type)
            )

    def _dimensions(
        self, path: str, a: Iterable[Dimension], b: Iterable[Dimension]
    ) -> Iterator[DatasetDifference]:
        one, other = ({d.name: self._length(d) for d in side} for side in (a, b))
        if self._is_pure:  # where dimensions without a variable are unknown
            both = one.keys() & other.keys()
            one, other = ({n: v for n, v in side.items() if n in both} for side in (one, other))
        yield from _different(path, DifferenceKind.DIMENSION, one, other)

    def _length(self, dimension: Dimension) -> str:
        unlimited = dimension.unlimited and not self._is_pure
        return f"{dimension.size} (unlimited)" if unlimited else str(dimension.size)

    def _attributes(
        self, path: str, a: Sequence[Attribute], b: Sequence[Attribute]
    ) -> Iterator[DatasetDifference]:
        one = {attribute.name: self._shown(attribute) for attribute in a}
        other = {attribute.name: self._shown(attribute) for attribute in b}
        yield from _different(path, DifferenceKind.ATTRIBUTE, one, other)

    def _shown(self, attribute: Attribute) -> str:
        """Return the value of an attribute as text, with its type if both sides have types."""
        text = attribute_text(attribute)
        return text if self._is_pure else f"{text} ({attribute.type.value})"

    def _variable(self, pair: VariablePair) -> Iterator[DatasetDifference]:
        self.pairs.append(pair)
        path, a, b = f"/{pair.path}", pair.a, pair.b
        types = _type(a.type), _type(b.type)
        if types[0] != types[1] and not (self._is_pure and {a.type, b.type} <= _TEXTS):
            yield DatasetDifference(path, DifferenceKind.TYPE, a=types[0], b=types[1])
        shapes = [
            self._shape(scopes, declared, place)
            for scopes, declared, place in zip(
                self._scopes, (a, b), (pair.a_path, pair.b_path), strict=True
            )
        ]
        if shapes[0] != shapes[1]:
            yield DatasetDifference(path, DifferenceKind.DIMENSIONS, a=shapes[0], b=shapes[1])
        one = fill_text(self._a.fill_value(pair.a_path, a), a.type)
        other = fill_text(self._b.fill_value(pair.b_path, b), b.type)
        attributes = a.attributes, b.attributes
        if one != other and _repeats(a, one) and _repeats(b, other):
            attributes = _without_fill(a), _without_fill(b)  # they would differ in the same way
        yield from self._attributes(path, *attributes)
        if one != other:
            yield DatasetDifference(path, DifferenceKind.FILL, a=one, b=other)
        if self._with_storage:
            yield from _storage(path, a, b)

    def _shape(self, scopes: Scopes, declared: VariableDeclaration, path: str) -> str:
        """Return the dimensions of a variable as text, with full names if both sides have them."""
        found = [scopes.find(name, parent_of(path)) for name in declared.dimensions]
        is_short = self._is_pure or self._a.is_variable
        parts = [
            f"{dimension.name if is_short else f'/{full}'}: {dimension.size}"
            for full, dimension in found
        ]
        return f"({', '.join(parts)})"


def _storage(
    path: str, a: VariableDeclaration, b: VariableDeclaration
) -> Iterator[DatasetDifference]:
    one, other = ({**_chunks(d), **_codecs(d), "byte order": _byte_order(d)} for d in (a, b))
    for name in one:
        if name in other and one[name] != other[name]:
            yield DatasetDifference(path, DifferenceKind.STORAGE, name, one[name], other[name])


def _chunks(declared: VariableDeclaration) -> dict[str, str]:
    """Return the chunks and shards as text, if the variable has any."""
    if declared.chunk_shape is None:
        return {}
    chunks, shards = declared.chunk_shape, declared.shard_shape
    return {"chunks": _shape(chunks), "shards": "none" if shards is None else _shape(shards)}


def _shape(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, shape))})"


def _codecs(declared: VariableDeclaration) -> dict[str, str]:
    if declared.codecs is None:
        return {}
    texts = [
        f"{codec.name}{one_line(dict(codec.configuration)) if codec.configuration else ''}"
        for codec in declared.codecs
    ]
    return {"codecs": ", ".join(texts) or "none"}


def _byte_order(declared: VariableDeclaration) -> str:
    if not isinstance(declared.type, NcType) and declared.type.names:
        return str(declared.type)  # each field has its own
    return "big-endian" if declared.byte_order == ">" else "little-endian"


def _different(
    path: str, kind: DifferenceKind, a: Mapping[str, str], b: Mapping[str, str]
) -> Iterator[DatasetDifference]:
    """Yield the names whose texts differ, in the order of A, then those that only B has."""
    for name in [*a, *(name for name in b if name not in a)]:
        one: Shown = a.get(name, Absent.ABSENT)
        other: Shown = b.get(name, Absent.ABSENT)
        if one != other:
            yield DatasetDifference(path, kind, name, one, other)


def _repeats(declared: VariableDeclaration, fill: str) -> bool:
    """Return whether the attribute of the fill value, if there is one, says the same."""
    return all(attribute_text(a) == fill for a in declared.attributes if a.name == FILL_VALUE)


def _without_fill(declared: VariableDeclaration) -> tuple[Attribute, ...]:
    return tuple(a for a in declared.attributes if a.name != FILL_VALUE)


def _type(element: ElementType) -> str:
    """Return the name of a type without its byte order."""
    return element.value if isinstance(element, NcType) else str(element.newbyteorder("="))
