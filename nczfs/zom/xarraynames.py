"""xarray's rules: all dimensions of all arrays have names, with one length a name in each group."""

from __future__ import annotations

from collections.abc import Iterator

from nczfs.formats.zom.dimensions import declared_names
from nczfs.formats.zom.nodes import ArrayV2, ArrayV3, Node
from nczfs.formats.zom.pointers import below
from nczfs.messages import shown
from nczfs.zom.patterns import ConventionFault


def faults(node: Node, pointer: str = "") -> Iterator[ConventionFault]:
    """Yield where xarray cannot tell the dimensions of an array.

    Notes
    -----
    xarray, "Zarr Encoding Specification".
    """
    if isinstance(node, ArrayV2 | ArrayV3):
        declared = declared_names(node)
        if declared.fault is not None:
            yield ConventionFault(f"{pointer}{declared.fault[0]}", declared.fault[1])
        return
    lengths: dict[str, tuple[int, str]] = {}
    for name, member in (node.members or {}).items():
        place = below(below(pointer, "members"), name)
        yield from faults(member, place)
        if not isinstance(member, ArrayV2 | ArrayV3):
            continue
        names = declared_names(member).names or ()
        for axis, dimension in enumerate(names):
            length = member.shape[axis]
            known, where = lengths.setdefault(dimension, (length, name))
            if known != length:
                text = f"dimension {shown(dimension)} has {length} here, and {known} in {where}"
                yield ConventionFault(f"{place}/shape/{axis}", text)
