"""What a flush writes of a chunk, and whose memory it is in."""

from __future__ import annotations

from enum import Enum, auto

from nczfs.buffers import Values
from nczfs.engine.writing.written import WrittenMask
from nczfs.plaindata import frozen
from nczfs.zmap.base import Version


class Holding(Enum):
    """To whom the memory of values belongs. Only `OWN` may be changed."""

    OWN = auto()
    SHARED = auto()  # also with what flies, or is being put into the spool
    LENT = auto()  # by the writer, and not counted in the budget


@frozen
class Snapshot:
    """The elements that one flush writes.

    Attributes
    ----------
    values : of the chunk; those not in `written` are valid only if `complete`.
    is_whole : whether all elements that lie in the array were written.
    complete : whether the unwritten elements are those of `version`.
    version : of the object that they were read from; None: unknown, or there was none.
    is_borrowed : whether the memory of `values` belongs to the caller, or to a file of the spool.
    """

    values: Values
    written: WrittenMask
    is_whole: bool
    complete: bool
    version: Version | None
    is_borrowed: bool
