"""Something that happens between two steps of what is tested."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def take_once(
    patch: pytest.MonkeyPatch,
    owner: object,
    name: str,
    step: Callable[[], object],
    *,
    after: bool = False,
) -> list[str]:
    """Take a step before, or after, the next call of a function. Returns what tells that it was."""
    function, taken = getattr(owner, name), list[str]()

    def gated(*args: Any, **options: Any) -> Any:
        is_next = not taken
        taken.append(name)
        if is_next and not after:
            step()
        found = function(*args, **options)
        if is_next and after:
            step()
        return found

    patch.setattr(owner, name, gated)
    return taken
