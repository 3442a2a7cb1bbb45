"""The outcomes of probes of buckets, kept on disk for a day.

A probe takes eight requests before the first write. Its outcome is a property of the server, so
other processes may rely on it; but the server behind a name may be replaced, so they do so for a
day at most. Each process probes a server on the same machine, because its port may soon belong to
another one.

The file only saves requests. It may be deleted at any time, and a file that is broken, or that
another user could have written, counts as missing.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import json
import logging
import os
import stat
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from nczfs.zmap.s3.conditions import Conditions, SourceCheck, Traits

log = logging.getLogger(__name__)

KEPT_S: Final = 86400.0
BYTES_MAX: Final = 4096
_SOURCE_HEADERS = ("", "x-amz-copy-source-if-match", "x-amz-copy-if-match")

Bucket: TypeAlias = "tuple[str, str]"
"""The URL of an endpoint, and the name of a bucket."""


def default_directory() -> Path:
    """Return the directory of the files: private, and in the cache of the user."""
    cache = os.environ.get("XDG_CACHE_HOME")
    if not cache and (home := os.environ.get("HOME")):
        cache = f"{home}/.cache"
    return Path(cache or f"/var/tmp/nczfs-{os.getuid()}", "nczfs/buckets")  # systemd sets no HOME


class Remembered:
    """A directory with one file for each bucket.

    Parameters
    ----------
    directory : returns the directory, which is made when something is written.
    clock : seconds since 1970.
    """

    def __init__(
        self,
        directory: Callable[[], Path] = default_directory,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._directory = directory
        self._clock = clock

    def read(self, bucket: Bucket) -> Traits:
        """Return what was found out within the last day; never raises."""
        found = self._entry(bucket)
        return Traits() if found is None else found[1]

    def write(self, bucket: Bucket, traits: Traits) -> None:
        """Store what was found out; never raises. The day begins with the first finding."""
        if _is_here(bucket[0]):
            return
        earlier = self._entry(bucket)
        probed = self._clock() if earlier is None else earlier[0]
        content = {"endpoint": bucket[0], "bucket": bucket[1], "probed": probed, **asdict(traits)}
        path = self._path(bucket)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(dir=path.parent)  # its mode is 0600
            try:
                with os.fdopen(descriptor, "w") as file:
                    json.dump(content, file)
                os.replace(temporary, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise
        except OSError as error:
            log.debug("%s: not stored: %s", path, error)

    def _entry(self, bucket: Bucket) -> tuple[float, Traits] | None:
        """Return when a bucket was probed, and the outcome; None if it must be probed."""
        if _is_here(bucket[0]):
            return None
        path = self._path(bucket)
        try:
            content = json.loads(_private_bytes(path))
            if (content["endpoint"], content["bucket"]) != bucket:
                return None
            probed = float(content["probed"])
            if not 0 <= self._clock() - probed < KEPT_S:
                return None
            return probed, Traits(
                puts=_conditions(content["puts"]),
                copies=_conditions(content["copies"]),
                completions=_conditions(content["completions"]),
                sources=_source_check(content["sources"]),
            )
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, LookupError, RecursionError) as error:
            log.debug("%s: ignored: %r", path, error)
            return None

    def _path(self, bucket: Bucket) -> Path:
        name = hashlib.sha256("\n".join(bucket).encode()).hexdigest()[:32]
        return self._directory() / f"{name}.json"


def _private_bytes(path: Path) -> bytes:
    """Read a file that no other user can have written. Raises OSError, ValueError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        for status in (os.fstat(file.fileno()), os.stat(path.parent)):
            if status.st_uid != os.geteuid() or status.st_mode & 0o022:
                raise ValueError("others can write it")
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("is no file")
        return file.read(BYTES_MAX)


def _is_here(endpoint: str) -> bool:
    """Return whether an endpoint is on this machine, by its name."""
    host = (urlsplit(endpoint).hostname or "").rstrip(".")
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host)
        return address.is_loopback or address.is_unspecified
    return host == "localhost" or host.endswith(".localhost")


def _conditions(found: Any) -> Conditions | None:
    if found is None:
        return None
    flags = [found[name] for name in ("creates", "replaces", "quoted")]
    if not all(isinstance(flag, bool) for flag in flags):
        raise TypeError("no flag")
    return Conditions(*flags)


def _source_check(found: Any) -> SourceCheck | None:
    if found is None:
        return None
    header, quoted = found["header"], found["quoted"]
    if header not in _SOURCE_HEADERS or not isinstance(quoted, bool):
        raise ValueError("no header")
    return SourceCheck(header, quoted)
