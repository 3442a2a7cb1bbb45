"""Output for users, in which no name or text of others can control the terminal."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from nczfs.buffers import Buffer
from nczfs.model.printing import encoded, printable


class _Output(io.FileIO):
    """Standard output, with its name in errors, as files have it."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data) or 0
        except OSError as error:
            error.filename = "standard output"
            raise


def prepare() -> None:
    """Prepare standard output and error for a command.

    Any name can be printed, errors of writing name the output, and what is opened later never
    takes the place of a descriptor that was closed.
    """
    if sys.stdout is None:  # closed: writing fails, as it does in other programs
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 1)
    if sys.stdout is None or _is_descriptor(sys.stdout, 1):
        encoding = getattr(sys.stdout, "encoding", None)
        output = io.BufferedWriter(_Output(1, "w", closefd=False))
        sys.stdout = io.TextIOWrapper(
            output, encoding, "backslashreplace", line_buffering=os.isatty(1)
        )
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - as long as the process


def words_of(error: OSError) -> str:
    """Format an error of the operating system as programs print it: the file, and the fault."""
    text = error.strerror or str(error)
    return f"{os.fsdecode(error.filename)}: {text}" if error.filename else text


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
        if _is_descriptor(ours, 2):
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


def _is_descriptor(stream: TextIO, number: int) -> bool:
    try:
        return stream.fileno() == number
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
