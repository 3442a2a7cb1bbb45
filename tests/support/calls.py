"""Counting the Python calls, or lines, that something takes in this thread."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def counted_calls() -> Iterator[Counter[str]]:
    """The calls within the block, by the file of the function."""
    calls: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call":
            calls[frame.f_code.co_filename] += 1

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)


@contextmanager
def counted_lines() -> Iterator[Counter[str]]:
    """The lines of Python that run within the block in this thread, by the file."""
    lines: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            lines[frame.f_code.co_filename] += 1
        return note

    before = sys.gettrace()
    sys.settrace(note)
    try:
        yield lines
    finally:
        sys.settrace(before)
