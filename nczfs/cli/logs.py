"""Where the log goes, and how its lines look."""

from __future__ import annotations

import io
import json
import logging
import logging.handlers
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from nczfs.cli.sources import Settings
from nczfs.engine.spool.disk import make_private
from nczfs.errors import UsageError

_TEXT = "%(asctime)s %(levelname)s %(message)s"
_COMMAND = "nczfs: %(message)s"
_SYSLOG_SOCKET = "/dev/log"


@dataclass(frozen=True, slots=True)
class LogTarget:
    """Where a daemon's output goes.

    Attributes
    ----------
    descriptor : an open file for standard output and error, stacks of a crash among them.
    path : its name.
    """

    descriptor: int
    path: Path


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
        _install(StderrHandler(), settings, _level(settings, "info"), _TEXT)
        return None
    path = Path(name)
    _install(LogFileHandler(path), settings, _level(settings, "info"), _TEXT)
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
        _install(handler, settings, level, "nczfs: %(levelname)s %(message)s")
    else:
        _install(LogFileHandler(path), settings, level, _TEXT)
    return LogTarget(descriptor, path)


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
