"""The record dimension of a classic file, which has one at most."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nczfs.model.hierarchy import Dimension


def record_dimension(
    declared: Mapping[str, Dimension], variables: Iterable[Sequence[Dimension]]
) -> str | None:
    """Return the name of the dimension that can be the record dimension; None: there is none.

    That is the unlimited one that most variables have, and all of them as their first. Without any,
    it is one of length 0, which no fixed dimension of a classic file can have.

    Parameters
    ----------
    declared : the dimensions of the file.
    variables : the dimensions of each, slowest first.
    """
    leading = dict.fromkeys(declared, 0)
    for dimensions in variables:
        for dimension in dimensions[:1]:
            if dimension.name in leading:
                leading[dimension.name] += 1
        for dimension in dimensions[1:]:
            leading.pop(dimension.name, None)
    found = [declared[name] for name in leading]
    wanted = [d for d in found if d.unlimited] or [d for d in found if not d.size]
    best = max(wanted, key=lambda d: leading[d.name], default=None)
    return None if best is None else best.name
