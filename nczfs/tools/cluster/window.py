"""A window of pieces under way in other processes: further ones are made when there is room."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from nczfs.errors import NczfsError
from nczfs.plaindata import frozen

ATTEMPTS_MAX = 4
"""A piece that fails is tried again so often, with all others that are under way between."""

FAILED_MAX = 100
"""After so many pieces that failed for good, the work is given up."""

LOOK_S = 0.2
"""`tick` is called at least so often; it may end the wait."""

Piece = TypeVar("Piece")
Result = TypeVar("Result")


class Lost(Exception):
    """The cluster is gone."""


class FutureResult(Protocol):
    """What futures of Dask and of `concurrent.futures` have in common."""

    def add_done_callback(self, fn: Callable[[Any], object], /) -> object: ...
    def result(self) -> Any: ...
    def cancel(self) -> object: ...


@frozen
class Refused:
    """What a worker returns instead of a result, for an error that concerns the data or a store.

    Errors of nczfs travel as text, so that none has to be unpickled here.
    """

    message: str


@frozen
class Outcome(Generic[Piece, Result]):
    """What became of a piece: a result, or why it failed at last."""

    piece: Piece
    result: Result | None
    trouble: str = ""


def attempted(function: Callable[[Any, Any], Any], job: Any, piece: Any) -> Any:
    """Do a piece in a worker. An error of nczfs is returned as `Refused`."""
    try:
        return function(job, piece)
    except NczfsError as error:
        return Refused(str(error))


def outcomes(
    pieces: Iterator[Piece],
    submit: Callable[[Piece], FutureResult],
    room: Callable[[], int],
    tick: Callable[[], object],
) -> Iterator[Outcome[Piece, Any]]:
    """Yield the outcome of each piece, in no particular order.

    Pieces are taken from the iterator as there is room for them, so neither they nor their outcomes
    are ever in memory together. One that fails is submitted again, up to `ATTEMPTS_MAX` times in
    all. What is under way is cancelled if the caller ends early.

    Parameters
    ----------
    submit : begins a piece.
    room : returns how many pieces may be under way.
    tick : called often. May raise to end the work: `Lost`, or at the user's wish.

    Raises
    ------
    Whatever `pieces`, `submit` or `tick` raise.
    """
    done: SimpleQueue[FutureResult] = SimpleQueue()
    under_way: dict[int, tuple[FutureResult, Piece, int]] = {}

    def begin(piece: Piece, attempt: int) -> None:
        future = submit(piece)
        under_way[id(future)] = future, piece, attempt
        future.add_done_callback(lambda _: done.put(future))

    failed = 0
    is_over = False
    try:
        while True:
            while not is_over and len(under_way) < room():
                try:
                    piece = next(pieces)
                except StopIteration:
                    is_over = True
                else:
                    begin(piece, 1)
            if not under_way:
                return
            tick()
            try:
                future = done.get(timeout=LOOK_S)
            except Empty:
                continue
            _, piece, attempt = under_way.pop(id(future))
            result, trouble = _ended(future)
            if trouble and attempt < ATTEMPTS_MAX and not failed >= FAILED_MAX:
                begin(piece, attempt + 1)
                continue
            failed += bool(trouble)
            is_over = is_over or failed >= FAILED_MAX
            yield Outcome(piece, result, trouble)
    finally:
        for future, *_ in under_way.values():
            future.cancel()


def _ended(future: FutureResult) -> tuple[Any, str]:
    """Return the result of a future that is done, and what went wrong otherwise."""
    try:
        result = future.result()
    except Lost:
        raise
    except Exception as error:  # noqa: BLE001 - any error in a worker fails its piece alone
        return None, f"{type(error).__name__}: {error}"
    return (None, result.message) if isinstance(result, Refused) else (result, "")
