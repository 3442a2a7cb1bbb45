"""What users read on a terminal: no name or message of others can control it."""

from __future__ import annotations

import sys

from nczfs.model.printing import encoded, printable
from nczfs.zmap.base import Buffer


def complain(program: str, what: Exception | str) -> None:
    """Print an error as one line on stderr."""
    print(f"{program}: {printable(str(what)) or type(what).__name__}", file=sys.stderr)


def write(text: str, keep: str = "") -> None:
    """Write to stdout; a command that does so uses nothing else.

    On a terminal everything that does not print is escaped, but for `keep`. A pipe or file gets the
    text as it is, with the bytes of names that are not UTF-8.
    """
    if sys.stdout.isatty():
        sys.stdout.write(printable(text, keep))
    else:
        sys.stdout.buffer.write(encoded(text))


def write_bytes(data: Buffer, keep: str = "") -> None:
    """Write text that is bytes already to stdout, as `write` does."""
    if sys.stdout.isatty():
        sys.stdout.write(printable(bytes(data).decode("utf-8", "surrogateescape"), keep))
    else:
        sys.stdout.buffer.write(data)


def say(line: str) -> None:
    """Write a line to stdout; on a terminal a newline in it is escaped."""
    write(printable(line) + "\n" if sys.stdout.isatty() else line + "\n", keep="\n")
