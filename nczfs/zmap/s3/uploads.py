"""Abandoned uploads: each upload has a note beside the data, which is removed with it.

S3 keeps the parts of an upload that was never completed, charges for them, and does not show whose
they are. So each upload is noted in a small object ``.nczfs-upload-…`` below the prefix at which
the store was opened. Opening that for writing aborts the uploads of processes that are gone.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from pathlib import Path

from nczfs.errors import AccessDenied, BadKey, StoreError
from nczfs.plaindata import frozen
from nczfs.zmap.base import Stat
from nczfs.zmap.keys import OWN_FILES, Prefix, parse_key
from nczfs.zmap.s3.listing import pages
from nczfs.zmap.s3.messages import S3Request
from nczfs.zmap.s3.multipart import Upload
from nczfs.zmap.s3.probe import PROBE
from nczfs.zmap.s3.transport import S3Transport

NOTE = f"{OWN_FILES}upload-"
NOTE_BYTES_MAX = 8192
FORGOTTEN_S = 86_400  # a process of another machine counts as gone after a day

_log = logging.getLogger(__name__)


@frozen
class UploadOwner:
    """The identity of a process, by which another one on the same machine sees whether it is gone.

    Attributes
    ----------
    machine : a digest of host name, boot and container.
    started : the tick at which the process began, because its id may be reused.
    """

    machine: str
    process: int
    started: int

    @property
    def is_gone(self) -> bool:
        """Whether it is known to have ended."""
        return self.machine == _machine() and _started(self.process) != self.started


class UploadNotes:
    """The notes of uploads below a prefix.

    Parameters
    ----------
    home : the prefix.
    headers : that every PUT needs.
    """

    def __init__(self, transport: S3Transport, home: Prefix, headers: Mapping[str, str]) -> None:
        self._transport = transport
        self._headers = headers
        self._before = f"{home}/" if home else ""

    @contextlib.contextmanager
    def kept(self, upload: Upload) -> Iterator[None]:
        """Note an upload during the block, and abort it if the block fails.

        The note of an upload that cannot be aborted stays for the next writer that opens the store.
        """
        note = f"{self._before}{NOTE}{secrets.token_hex(8)}"
        content = asdict(_this_process()) | {"key": upload.key, "upload": upload.upload_id}
        body = json.dumps(content).encode()
        try:
            # Without permission to write beside the data there is no note.
            self._transport.send(S3Request("PUT", note, self._headers, body=body))
            yield
        except BaseException:
            if _aborted(upload):
                self._remove(note)
            raise
        self._remove(note)

    def abort_forgotten(self) -> None:
        """Abort the uploads of processes that are gone, and remove their other remains."""
        start = f"{self._before}{OWN_FILES}"
        try:
            for page in pages(self._transport, start, one_level=False):
                for found in page.objects:
                    self._tidy(found)
        except AccessDenied as error:
            _log.info("%s: could not look for unfinished uploads: %s", self._transport.name, error)

    def _tidy(self, found: Stat) -> None:
        name = found.key.removeprefix(self._before)
        is_old = time.time() - (found.mtime_ns or 0) / 1e9 > FORGOTTEN_S
        if name.startswith(PROBE) and is_old:
            self._remove(found.key)
        elif name.startswith(NOTE) and found.size <= NOTE_BYTES_MAX:
            noted = self._read(found.key)
            if noted is None:
                return
            owner, upload = noted
            if (is_old or owner.is_gone) and _aborted(upload):
                _log.info("%s: aborted an unfinished upload", upload.where)
                self._remove(found.key)

    def _read(self, note: str) -> tuple[UploadOwner, Upload] | None:
        answer = self._transport.send(S3Request("GET", note, limit=NOTE_BYTES_MAX))
        try:
            content = json.loads(answer.document) if answer.status == 200 else {}
            key, upload_id = parse_key(content["key"]), str(content["upload"])
            owner = UploadOwner(
                str(content["machine"]), int(content["process"]), int(content["started"])
            )
        except (ValueError, TypeError, LookupError, BadKey):
            return None
        if not key.startswith(self._before):
            return None  # not a note of nczfs, which are about keys beside them
        return owner, Upload(self._transport, key, upload_id)

    def _remove(self, note: str) -> None:
        with contextlib.suppress(StoreError):
            self._transport.send(S3Request("DELETE", note))


def _aborted(upload: Upload) -> bool:
    try:
        upload.abort()
    except StoreError as error:
        _log.warning("an unfinished upload is left: %s", error)
        return False
    return True


def _this_process() -> UploadOwner:
    return UploadOwner(_machine(), os.getpid(), _started(os.getpid()))


@cache
def _machine() -> str:
    words = [socket.gethostname()]
    with contextlib.suppress(OSError):
        words.append(Path("/proc/sys/kernel/random/boot_id").read_text())
        words.append(str(os.stat("/proc/self/ns/pid").st_ino))
    return sha256("\0".join(words).encode()).hexdigest()[:16]


def _started(process: int) -> int:
    """Return when a process began, in ticks since boot; 0: there is no such process."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return 0
    return int(text.rpartition(")")[2].split()[19])  # the name in brackets may contain anything
