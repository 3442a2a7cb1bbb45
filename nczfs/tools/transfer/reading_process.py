"""Reading a netCDF file in another process.

The libraries that read netCDF files trust them, and are not for several threads. A damaged file
ends only this process. What it answers is not trusted: an answer consists of plain data, the
declarations of the model, errors, and arrays.
"""

from __future__ import annotations

import os
import pickle
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from functools import partial
from itertools import product
from typing import IO, Any, Final

from nczfs.buffers import Values
from nczfs.errors import CorruptStore, NczfsError
from nczfs.messages import reason
from nczfs.model.grid import Slices
from nczfs.plaindata import frozen
from nczfs.tools.transfer.source import Content, Notice, Source

_FIXED_BYTES: Final = 512 << 20  # of the interpreter and its libraries
_LIMIT_SHARE: Final = 2
END_S: Final = 2.0  # that a process may take to end after its last words


@frozen
class _Described:
    """A source without the functions that read it."""

    root: Any
    contents: dict[str, tuple[tuple[int, ...], tuple[int, ...], int]]
    notices: tuple[str, ...]


_OF_ARRAYS: Final = frozenset(
    {
        ("numpy", "dtype"),
        ("numpy", "ndarray"),
        *product(
            ("numpy.core", "numpy._core"),
            ("multiarray._reconstruct", "multiarray.scalar", "numeric._frombuffer"),
        ),
    }
)
"""What pickled arrays name, by NumPy 1 and 2."""


_OF_DAMAGED_PICKLES: Final = (AttributeError, ImportError, LookupError, TypeError, ValueError)


class _Answers(pickle.Unpickler):
    """Answers, which can make nothing but what answers consist of."""

    def find_class(self, module: str, name: str) -> Any:
        """Return what an answer names (pickle, "Restricting Globals")."""
        if (module, name) == ("builtins", "getattr"):
            return _member  # as Python 3.11.0 to 3.11.3 pickle the members of enumerations
        found = super().find_class(module, name) if _is_ours(module) else None
        if isinstance(found, type) and found.__module__ == module:
            return found
        package, _, last = module.rpartition(".")
        if (module, name) in _OF_ARRAYS or (package, f"{last}.{name}") in _OF_ARRAYS:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"an answer names {module}.{name}")


def _member(found: type, name: str) -> Any:
    """Return a member of an enumeration of ours. Raises UnpicklingError: it is none."""
    if isinstance(found, type) and issubclass(found, Enum) and _is_ours(found.__module__):
        return found[name]
    raise pickle.UnpicklingError(f"an answer asks for the attribute {name!r} of {found!r}")


def _is_ours(module: str) -> bool:
    return module in ("nczfs.errors", __name__) or module.startswith("nczfs.model.")


@contextmanager
def read_apart(
    path: str, name: str, notice: Notice, memory_limit_bytes: int, *, skip_unsupported: bool
) -> Iterator[Source]:
    """Open a netCDF file as a source that another process reads.

    Parameters
    ----------
    name : of the file, for messages.
    notice, skip_unsupported : as for `netcdf_source`.

    Raises
    ------
    NoContent, AccessDenied, CorruptStore : it cannot be opened. Unsupported : a dataset cannot hold
        something of it.
    """
    words = [path, str(memory_limit_bytes), str(int(skip_unsupported))]
    process = subprocess.Popen(
        [sys.executable, "-c", f"from {__name__} import main; main()", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # Ctrl-C does not reach it. In a session of its own it could starve: Linux shares the
        # processors among sessions (man 7 sched, "The autogroup feature"), and a busy mount and
        # its readers left it 23 ms of 12 s.
        process_group=0,
    )
    try:
        reader = _Reader(process, path, name)
        described = reader.answer()
        for line in described.notices:
            notice(line.replace(path, name))
        contents = {
            place: Content(
                shape, chunks, nbytes, partial(reader.read, place), partial(reader.release, place)
            )
            for place, (shape, chunks, nbytes) in described.contents.items()
        }
        yield Source(name, described.root, contents)
    finally:
        process.kill()
        process.communicate()


class _Reader:
    """The questions to a reading process. For one thread at a time."""

    def __init__(self, process: subprocess.Popen[bytes], path: str, name: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._asks, self._answers = process.stdin, process.stdout
        self._path, self._name = path, name

    def read(self, place: str, selection: Slices) -> Values:
        self._ask((place, selection))
        values: Values = self.answer()
        return values

    def release(self, place: str) -> None:
        self._ask((place, None))
        self.answer()

    def answer(self) -> Any:
        """Return what the process answers. Raises what it raises, or CorruptStore if it ended."""
        try:
            found = _Answers(self._answers).load()
        except (EOFError, OSError, pickle.UnpicklingError, *_OF_DAMAGED_PICKLES) as error:
            raise CorruptStore(
                f"{self._name}: cannot be read as a netCDF file: the library failed "
                f"({self._end(error)})"
            ) from None
        if isinstance(found, NczfsError):
            raise type(found)(str(found).replace(self._path, self._name))
        return found

    def _end(self, error: Exception) -> str:
        """End the process, if it did not end by itself. Returns how it ended."""
        try:
            return f"status {self._process.wait(END_S)}"
        except subprocess.TimeoutExpired:
            self._process.kill()
            return reason(error)

    def _ask(self, question: object) -> None:
        with suppress(BrokenPipeError):  # reading the answer says why
            pickle.dump(question, self._asks)
            self._asks.flush()


def _serve(path: str, memory_limit_bytes: int, skip_unsupported: bool, pipe: IO[bytes]) -> None:
    from nczfs.tools.transfer.netcdf_source import netcdf_source

    notices: list[str] = []
    with netcdf_source(
        path, notices.append, memory_limit_bytes, skip_unsupported=skip_unsupported
    ) as source:
        forms = {
            place: (content.shape, content.chunks, content.item_bytes)
            for place, content in source.contents.items()
        }
        _put(pipe, _Described(source.root, forms, tuple(notices)))
        while True:
            try:
                place, selection = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            content = source.contents[place]
            try:
                _put(pipe, content.release() if selection is None else content.read(selection))
            except NczfsError as error:
                _put(pipe, error)


def _put(pipe: IO[bytes], value: object) -> None:
    pickle.dump(value, pipe, protocol=5)
    pipe.flush()


def main() -> None:
    """Answer the questions on standard input until it ends."""
    path, limit, skips = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "1"
    with os.fdopen(os.dup(1), "wb") as pipe:
        os.dup2(2, 1)  # what a library prints
        room = _FIXED_BYTES + _LIMIT_SHARE * limit
        resource.setrlimit(resource.RLIMIT_DATA, (room, room))
        try:
            _serve(path, limit, skips, pipe)
        except NczfsError as error:
            _put(pipe, error)
        except MemoryError:
            _put(pipe, CorruptStore(f"{path}: takes more than {room} bytes of memory to read"))
