"""What a program read, against what the case holds: one line for each difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tests.interop.matrix.model import Case, Fill, Lack, Observed, Seen, Values, Var


def differences(case: Case, observed: Observed, lacks: frozenset[Lack]) -> list[str]:
    """Empty: the program read all that it tells of as it was to be written.

    What the writer lacks must not be there, or may be anything where a reader makes it up.
    """
    return list(Comparison(case, observed, lacks).lines())


class Comparison:
    def __init__(self, case: Case, observed: Observed, lacks: frozenset[Lack]) -> None:
        self._case = case
        self._observed = observed
        self._lacks = lacks

    def lines(self) -> Iterator[str]:
        expected, found = self._case.variables(), self._observed.variables
        for path in sorted(expected.keys() - found.keys()):
            yield f"variable {path}: not there"
        for path in sorted(found.keys() - expected.keys()):
            yield f"variable {path}: not of the case"
        for path, variable in expected.items():
            if path in found:
                yield from self._of_variable(path, variable, found[path])
        if self._observed.groups is not None:
            yield from self._of_groups(self._observed.groups)

    def _of_groups(self, found: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
        expected = dict(self._case.root.walk())
        for path in sorted(expected.keys() ^ found.keys()):
            yield f"group {path}: {'not there' if path in expected else 'not of the case'}"
        for path in sorted(expected.keys() & found.keys()):
            yield from self._of_attributes(path, expected[path].attributes, found[path])

    def _of_variable(self, path: str, variable: Var, seen: Seen) -> Iterator[str]:
        named = Lack.DIMENSION_NAMES not in self._lacks
        if named and seen.dims is not None and seen.dims != variable.dims:
            yield f"dimensions of {path}: {seen.dims}, not {variable.dims}"
        unlimited = self._unlimited(path, variable)
        if seen.unlimited is not None and seen.unlimited != unlimited:
            yield f"unlimited of {path}: {seen.unlimited}, not {unlimited}"
        if seen.attributes is not None:
            yield from self._of_attributes(path, variable.attributes, seen.attributes)
        yield from of_fill(path, variable, seen)
        yield from of_values(path, variable, seen.values)

    def _unlimited(self, path: str, variable: Var) -> tuple[bool, ...]:
        stored = Lack.UNLIMITED not in self._lacks
        dimensions = [self._case.dimension_of(path, name) for name in variable.dims]
        return tuple(stored and dimension.unlimited for dimension in dimensions)

    def _of_attributes(
        self, path: str, wanted: Mapping[str, object], found: Mapping[str, object]
    ) -> Iterator[str]:
        expected = {} if Lack.ATTRIBUTES in self._lacks else wanted
        types_told = self._observed.types_told and Lack.ATTRIBUTE_TYPES not in self._lacks
        for name in sorted(expected.keys() - found.keys()):
            yield f"attribute {path}:{name}: not there"
        for name in sorted(found.keys() - expected.keys()):
            yield f"attribute {path}:{name}: not of the case: {found[name]!r}"
        for name in sorted(expected.keys() & found.keys()):
            label = f"attribute {path}:{name}"
            yield from of_attribute(label, expected[name], found[name], types_told)


def of_fill(path: str, variable: Var, seen: Seen) -> Iterator[str]:
    if variable.fill is Fill.DEFAULT or seen.fill is None:
        return
    if Fill.NONE in (variable.fill, seen.fill):
        same = variable.fill is seen.fill
    else:
        found, wanted = cast(seen.fill, variable), cast(variable.fill, variable)
        same = np.array_equal(found, wanted, equal_nan=variable.values.dtype.kind in "fcM")
    if not same:
        yield f"fill value of {path}: {seen.fill!r}, not {variable.fill!r}"


def cast(fill: object, variable: Var) -> Values:
    """A fill value in the type of the variable, where it is a number at all."""
    try:
        return np.asarray(fill).astype(variable.values.dtype)
    except (TypeError, ValueError):
        return np.asarray(fill)


def of_values(path: str, variable: Var, found: Values) -> Iterator[str]:
    expected = variable.values
    if found.shape != expected.shape:
        yield f"shape of {path}: {found.shape}, not {expected.shape}"
        return
    if type_of(found) != type_of(expected):
        yield f"type of {path}: {type_of(found)}, not {variable.type}"
    left, right = (comparable(v, variable) for v in (found, expected))
    if not same_values(left, right):
        yield f"values of {path}: {listed(left)}, not {listed(right)}"


def type_of(values: Values) -> str:
    """As a case names types."""
    return "str" if values.dtype.kind in "OT" else values.dtype.str[1:]


def comparable(values: Values, variable: Var) -> Values:
    """Numbers in this machine's byte order; texts as texts, however they are stored."""
    if variable.values.dtype.kind not in "SUO":
        return values.astype(values.dtype.newbyteorder("="))
    texts = [text.decode() if isinstance(text, bytes) else str(text) for text in values.flat]
    return np.array(texts, object).reshape(values.shape)


def same_values(left: Values, right: Values) -> bool:
    if left.dtype == right.dtype and not left.dtype.hasobject:
        return left.tobytes() == right.tobytes()
    return bool(left.tolist() == right.tolist())


def listed(values: Values) -> str:
    return " ".join(repr(value) for value in values.reshape(-1)[:8].tolist())


def of_attribute(label: str, expected: Any, found: Any, types_told: bool) -> Iterator[str]:
    if as_list(expected) != as_list(rounded(found, expected)):
        yield f"{label}: {found!r}, not {expected!r}"
    elif types_told and isinstance(expected, np.ndarray | np.generic):
        dtype = np.asarray(found).dtype
        if dtype != expected.dtype:
            yield f"type of {label}: {dtype}, not {expected.dtype}"


def rounded(found: Any, expected: Any) -> Any:
    """A number of JSON in the precision of the attribute that it was."""
    if getattr(expected, "dtype", None) != np.float32:
        return found
    try:
        return np.asarray(found, "f4")
    except (TypeError, ValueError):
        return found


NAN = object()


def as_list(value: Any) -> list[Any]:
    """The values of an attribute, NaN equal to itself."""
    if isinstance(value, str):
        return [value]
    items = np.asarray(value, object).reshape(-1).tolist()
    return [NAN if item != item else item for item in items]
