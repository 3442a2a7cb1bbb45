"""Types of bytes, and of arrays of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:  # numpy starts threads, and a mount forks
    from typing import Any

    import numpy as np

Buffer: TypeAlias = "bytes | bytearray | memoryview"
Values: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Flags: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"
Positions: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
