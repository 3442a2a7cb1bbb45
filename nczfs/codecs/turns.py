"""The frame of every decoding: objects one chunk at a time, and errors that hold no values."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from threading import Lock
from traceback import clear_frames
from types import TracebackType
from typing import Any

import numpy as np

from nczfs.errors import CodecError

# The memory of objects is unknown before decoding. Two such chunks at a time would be no faster,
# because Python makes objects in one thread.
_OBJECTS = Lock()
_NOTHING: AbstractContextManager[Any] = nullcontext()


class Turn:
    """A context to decode a chunk in; one that contains objects waits for the others."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._lock = _OBJECTS if dtype.hasobject else _NOTHING

    def __enter__(self) -> None:
        self._lock.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.__exit__(kind, error, trace)
        if isinstance(error, CodecError):
            _let_go_of_values(error)


def _let_go_of_values(error: BaseException | None) -> None:
    """Keep an error from holding the values that were decoded so far."""
    while error is not None:
        clear_frames(error.__traceback__)
        error = error.__cause__
