"""Where the log goes, and how its lines look."""

from __future__ import annotations

import io
import json
import logging
import logging.handlers
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from nczfs.cli.sources import Settings
from nczfs.engine.spool.disk import make_private
from nczfs.errors import UsageError
from nczfs.plaindata import frozen

QUIET_S = 600.0
LINES_COMPARED = 20_000

_TEXT = "%(asctime)s %(levelname)s %(message)s"
_COMMAND = "nczfs: %(message)s"
_SYSLOG_SOCKET = "/dev/log"


@frozen
class LogTarget:
    """Where a daemon's output goes.

    Attributes
    ----------
    descriptor : an open file for standard output and error, stacks of a crash among them.
    path : its name.
    """

    descriptor: int
    path: Path


class Repeats(logging.Filter):
    """A filter that drops a line which was logged a short while ago.

    What fails is looked at again and again, by file managers, backups and monitoring, and must not
    fill the disk with its log. A line that is logged again later says how often it was dropped.
    The attribute `repeats` of a record is the text by which it is compared, if that is not its
    message; "": it is never dropped, because it is a change. `_lock` guards the dict.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._lock = threading.Lock()
        self._lines: dict[int, tuple[float, int]] = {}  # by hash: when logged, how often dropped

    def filter(self, record: logging.LogRecord) -> bool:
        text = getattr(record, "repeats", record.getMessage())
        if not text or record.levelno <= logging.DEBUG:
            return True
        line, now = hash(text), self._clock()
        with self._lock:
            logged_at, dropped = self._lines.pop(line, (-math.inf, 0))
            if is_repeated := now - logged_at < QUIET_S:
                self._lines[line] = logged_at, dropped + 1
            else:
                self._lines[line] = now, 0
            while len(self._lines) > LINES_COMPARED:
                self._lines.pop(next(iter(self._lines)))
        if dropped and not is_repeated:
            record.msg = f"{record.getMessage()} (the line was left out {dropped} times since)"
            record.args = None
        return not is_repeated


class JsonFormatter(logging.Formatter):
    """A formatter that makes each record a line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields)


class StderrHandler(logging.StreamHandler[TextIO]):
    """A handler that prints on whatever stderr is at the moment."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


class LogFileHandler(logging.handlers.WatchedFileHandler):
    """A handler that appends to a file, which its rotation keeps private to owner and group."""

    def _open(self) -> io.TextIOWrapper:
        return open(
            _open(Path(self.baseFilename)), "a", encoding="utf-8", errors="backslashreplace"
        )


@contextmanager
def warnings_on_stderr() -> Iterator[None]:
    """Print the warnings of nczfs on stderr, too, for a daemon whose caller still waits."""
    handler = StderrHandler()
    handler.addFilter(lambda record: record.levelno == logging.WARNING)
    handler.setFormatter(logging.Formatter(_COMMAND))
    logger = logging.getLogger("nczfs")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def configure_command(settings: Settings) -> None:
    """Configure the log of a command that runs and ends: warnings on stderr, more on request."""
    _install(StderrHandler(), settings, _level(settings, "warning"), _COMMAND)


def configure_foreground(settings: Settings) -> Path | None:
    """Configure the log of a mount in the foreground: stderr, or the returned file (--log-file)."""
    name = settings.maybe_text("log-file")
    if name is None:
        _install(_terse(StderrHandler()), settings, _level(settings, "info"), _TEXT)
        return None
    path = Path(name)
    _install(_terse(LogFileHandler(path)), settings, _level(settings, "info"), _TEXT)
    return path


def configure_background(settings: Settings, mountpoint: str) -> LogTarget:
    """Configure the log of a daemon: the file of --log-file, syslog, or a file in the user's state.

    Output that no logger writes (the stacks of a crash) goes to a file in each case.
    """
    name = settings.maybe_text("log-file")
    path = Path(name) if name is not None else _own_file(mountpoint)
    descriptor = _open(path)
    level = _level(settings, "info")
    if name is None and os.path.exists(_SYSLOG_SOCKET):
        handler: logging.Handler = logging.handlers.SysLogHandler(
            _SYSLOG_SOCKET, logging.handlers.SysLogHandler.LOG_DAEMON
        )
        _install(_terse(handler), settings, level, "nczfs: %(levelname)s %(message)s")
    else:
        _install(_terse(LogFileHandler(path)), settings, level, _TEXT)
    return LogTarget(descriptor, path)


def _terse(handler: logging.Handler) -> logging.Handler:
    handler.addFilter(Repeats())
    return handler


def _own_file(mountpoint: str) -> Path:
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    directory = Path(state, "nczfs")
    try:
        make_private(directory)
    except OSError as error:
        raise UsageError(f"{directory}: {error.strerror}; name a --log-file") from error
    return directory / (mountpoint.strip("/").replace("/", "-") + ".log")


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
    except OSError as error:
        raise UsageError(f"--log-file {path}: {error.strerror}") from error


def _level(settings: Settings, otherwise: str) -> str:
    if settings.flag("debug"):
        return "debug"
    if settings.flag("verbose"):
        return "info"
    return settings.maybe_text("log-level") or otherwise


def _install(handler: logging.Handler, settings: Settings, level: str, text: str) -> None:
    json_lines = settings.text("log-format") == "json"
    handler.setFormatter(JsonFormatter() if json_lines else logging.Formatter(text))
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    # Libraries log what is wrong; only nczfs logs more.
    root.setLevel(logging.WARNING)
    logging.getLogger("nczfs").setLevel(level.upper())
    # A line that cannot be written must not print a traceback.
    logging.raiseExceptions = False
