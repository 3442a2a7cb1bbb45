"""A file system that does not tell names apart that differ in case, made of one that does."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

import pytest

_ONE_NAME: Final = ("open", "stat", "unlink", "mkdir", "rmdir")


def fold_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the calls that name something below a directory descriptor find it in any case."""
    real_open, real_rename = os.open, os.rename

    def spelling(name: str, dir_fd: int) -> str:
        """The name as it stands in the directory, component by component."""
        before = ""
        for component in name.split("/"):
            found = component
            fd = real_open(before or ".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=dir_fd)
            try:
                for there in os.listdir(fd):
                    if there.casefold() == component.casefold():
                        found = there
            finally:
                os.close(fd)
            before = os.path.join(before, found)
            if not os.path.isdir(f"/proc/self/fd/{dir_fd}/{before}"):
                return before + name[len(before) :]
        return before

    def folded(call: Callable[..., Any]) -> Callable[..., Any]:
        def find_and_call(path: Any, *rest: Any, dir_fd: int | None = None, **named: Any) -> Any:
            if dir_fd is None:
                return call(path, *rest, **named)
            return call(spelling(path, dir_fd), *rest, dir_fd=dir_fd, **named)

        return find_and_call

    def rename(old: str, new: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        there = spelling(new, dst_dir_fd)
        real_rename(old, there, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    for name in _ONE_NAME:
        monkeypatch.setattr(os, name, folded(getattr(os, name)))
    monkeypatch.setattr(os, "rename", rename)
