"""The wrapper of all handlers, which gives every request an answer."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Coroutine
from errno import errorcode
from typing import Any, Concatenate, ParamSpec, TypeVar

from pyfuse3 import FUSEError

from nczfs import metrics
from nczfs.fuse.errno import is_expected, is_ordinary, to_errno

log = logging.getLogger(__name__)

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

WRITES = frozenset({"write", "setxattr"})
"""Operations whose bytes are data to write, which belong in no log."""


def answers(
    handler: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Give a request an answer in any case: every exception becomes a `FUSEError`.

    pyfuse3 answers no other exception: any other would end the mount. Cancellation passes.
    """
    operation = handler.__name__
    count = metrics.FUSE_REQUESTS.labels(operation).inc

    async def wrapped(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        count()
        try:
            return await handler(self, *args, **kwargs)
        except FUSEError as error:
            metrics.FUSE_ERRORS.labels(_errno_name(error.errno)).inc()
            raise
        except Exception as error:  # noqa: BLE001 (the one place where all of them end)
            code = to_errno(error)
            metrics.FUSE_ERRORS.labels(_errno_name(code)).inc()
            _report(operation, args, error, code)
            raise FUSEError(code) from None

    functools.update_wrapper(wrapped, handler)
    return wrapped


def _errno_name(code: int) -> str:
    return errorcode.get(code, str(code))


def _report(operation: str, args: tuple[object, ...], error: Exception, code: int) -> None:
    shown = int if operation in WRITES else int | bytes
    what = ", ".join(repr(arg) for arg in args if isinstance(arg, shown))
    name = _errno_name(code)
    message = str(error) or type(error).__name__
    repeats = {"repeats": f"{operation}: {name}: {message}"}  # whatever handle it is this time
    if not is_expected(error):
        log.error("%s(%s): %s", operation, what, name, exc_info=error, extra=repeats)
        return
    level = logging.DEBUG if is_ordinary(operation, code) else logging.WARNING
    log.log(level, "%s(%s): %s: %s", operation, what, name, message, extra=repeats)
