"""Output for users, in which no name or text of others can control the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from nczfs.model.printing import encoded, printable
from nczfs.zmap.base import Buffer


def complain(program: str, what: Exception | str) -> None:
    """Print an error as one line on stderr."""
    print(f"{program}: {printable(str(what)) or type(what).__name__}", file=sys.stderr)


@contextmanager
def libraries_muted() -> Iterator[None]:
    """Drop what libraries in C print on stderr during the block; our own lines still appear."""
    ours = sys.stderr
    descriptor, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    ours.flush()
    os.dup2(null, 2)
    os.close(null)
    try:
        if _is_descriptor_2(ours):
            encoding = getattr(ours, "encoding", None)
            with open(
                descriptor, "w", 1, encoding, "backslashreplace", closefd=False
            ) as sys.stderr:
                yield
        else:
            yield
    finally:
        sys.stderr = ours
        os.dup2(descriptor, 2)
        os.close(descriptor)


def _is_descriptor_2(stream: TextIO) -> bool:
    try:
        return stream.fileno() == 2
    except OSError:  # a test has put another stream in its place
        return False


def write(text: str, keep: str = "") -> None:
    """Write to stdout. A command that calls this writes to stdout in no other way.

    On a terminal everything unprintable is escaped, except for `keep`. A pipe or file gets the
    text as it is, with the bytes of names that are not UTF-8.
    """
    if sys.stdout.isatty():
        sys.stdout.write(printable(text, keep))
    else:
        sys.stdout.buffer.write(encoded(text))


def write_bytes(data: Buffer, keep: str = "") -> None:
    """Write encoded text to stdout, as `write` does."""
    if sys.stdout.isatty():
        sys.stdout.write(printable(bytes(data).decode("utf-8", "surrogateescape"), keep))
    else:
        sys.stdout.buffer.write(data)


def say(line: str) -> None:
    """Write a line to stdout. On a terminal a newline within it is escaped."""
    write(printable(line) + "\n" if sys.stdout.isatty() else line + "\n", keep="\n")
