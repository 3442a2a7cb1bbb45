"""The comparison of two sides: their structure first, then the values, variable by variable."""

from __future__ import annotations

from collections.abc import Iterator

from nczfs.errors import CodecError, CorruptStore, MetadataError, PiecesFailed, ReferenceRefused
from nczfs.plaindata import frozen
from nczfs.tools.diff.differences import DatasetDifference, DifferenceKind
from nczfs.tools.diff.side import Side
from nczfs.tools.diff.structure import StructureDiff
from nczfs.tools.diff.values import EXACT, Compared, Elsewhere, Tolerance, value_differences
from nczfs.tools.progress import Progress
from nczfs.tools.transfer.dataset_source import DatasetSource


@frozen
class Uncomparable:
    """A variable whose values could not be compared, with the reason."""

    path: str
    message: str


@frozen
class Extent:
    """The extent of a comparison.

    Attributes
    ----------
    values : whether values are compared, not only metadata.
    storage : whether chunks, codecs and byte order are compared, too.
    """

    values: bool = True
    storage: bool = False
    tolerance: Tolerance = EXACT


def compare(
    a: Side,
    b: Side,
    extent: Extent,
    memory_limit_bytes: int,
    progress: Progress,
    elsewhere: Elsewhere | None = None,
) -> Iterator[DatasetDifference | Uncomparable]:
    """Yield all differences as they are found.

    Parameters
    ----------
    progress : called with the number of bytes of `a` that are done.
    elsewhere : compares values in other processes.

    Raises
    ------
    UsageError : a variable cannot be compared with a group.
    StoreError : a store could not be asked.
    """
    structure = StructureDiff(a, b, with_storage=extent.storage)
    yield from structure.differences()
    if not extent.values:
        return
    if all(isinstance(side.source, DatasetSource) for side in (a, b)):
        a, b = a.surveyed(progress), b.surveyed(progress)
    for pair in structure.pairs:
        one, other = a.source.contents.get(pair.a_path), b.source.contents.get(pair.b_path)
        if one is None or other is None:  # CDL gives no values
            continue
        try:
            found = value_differences(
                Compared(one, a.stored.get(pair.a_path), a.description(pair.a_path)),
                Compared(other, b.stored.get(pair.b_path), b.description(pair.b_path)),
                memory_limit_bytes,
                progress,
                tolerance=extent.tolerance,
                elsewhere=elsewhere,
            )
        except (CodecError, CorruptStore, MetadataError, PiecesFailed, ReferenceRefused) as error:
            yield Uncomparable(f"/{pair.path}", str(error))
            continue
        if found is not None:
            yield DatasetDifference(f"/{pair.path}", DifferenceKind.VALUES, values=found)
