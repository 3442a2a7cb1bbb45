"""Output for users, in which no name or text of others can control the terminal."""

from __future__ import annotations

import sys

from nczfs.model.printing import encoded, printable
from nczfs.zmap.base import Buffer


def complain(program: str, what: Exception | str) -> None:
    """Print an error as one line on stderr."""
    print(f"{program}: {printable(str(what)) or type(what).__name__}", file=sys.stderr)


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
