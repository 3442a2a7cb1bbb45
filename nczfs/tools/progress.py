"""How long work reports its progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[float], object]
"""Takes the number of bytes, elements, chunks or objects that are done since the last call.

It may raise an exception to end the work.
"""
