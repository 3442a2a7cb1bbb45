"""Templates by their content: each is built once, and found again in memory or on disk."""

from __future__ import annotations

import logging
import os
import tempfile
import threading
from collections import OrderedDict
from concurrent.futures import Future
from typing import Final

from nczfs.engine import headway
from nczfs.errors import ObjectTooLarge, Unavailable, Unsupported
from nczfs.views.netcdf.content import FileContent
from nczfs.views.netcdf.hdf5.stored import (
    MEMORY_BYTES_MAX,
    StoredTemplates,
    open_template,
    write_template,
)
from nczfs.views.netcdf.hdf5.template import Template, digest_of

log = logging.getLogger(__name__)

MEMBERS_MAX: Final = 200_000
"""Groups, dimensions, variables and attributes of a file. A fifth of them (10,000 variables with
three attributes each) takes HDF5 3.2 s and 110 MB."""

MEMBERS_LEAST: Final = 10_000
_MEMBER_BYTES: Final = 2_500

KEPT_MAX: Final = 256  # templates, of which each may take a descriptor
KEPT_BYTES_MAX: Final = 1 << 30

_TURN = threading.Lock()
"""HDF5 has one lock for everything: threads that wait for it make each other slower (measured:
four builds at a time take 1.35 s, each alone 0.18 s). So one builds at a time."""


class Templates:
    """The templates of a mount.

    `_lock` guards the kept templates, the oldest first, and those being built.

    Parameters
    ----------
    directory : of templates that outlive the mount; None: nothing of them remains after any end of
        the process.
    memory_bytes : that building one may take; None: no limit besides `MEMBERS_MAX`.
    """

    def __init__(self, directory: str | None = None, memory_bytes: int | None = None) -> None:
        self._members_max = MEMBERS_MAX
        if memory_bytes is not None:
            fitting = max(MEMBERS_LEAST, memory_bytes // _MEMBER_BYTES)
            self._members_max = min(MEMBERS_MAX, fitting)
        self._stored = StoredTemplates(directory) if directory is not None else None
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Template] = OrderedDict()
        self._building: dict[str, Future[Template]] = {}
        self._is_closed = False

    def find(self, content: FileContent) -> Template:
        """Return the template of a content; blocks while it is built.

        Raises
        ------
        ObjectTooLarge : the file has too many members.
        Unsupported : HDF5 refuses the content.
        Unavailable : the mount is ending.
        """
        _check_members(content, self._members_max)
        digest = digest_of(content)
        with self._lock:
            if (found := self._kept.get(digest)) is not None:
                self._kept.move_to_end(digest)
                return found
            future = self._building.get(digest)
            if is_ours := future is None:
                future = self._building[digest] = Future()
        if not is_ours:
            return future.result()
        try:
            found = self._made(digest, content)
        except BaseException as error:
            future.set_exception(error)
            raise
        else:
            future.set_result(found)
            return found
        finally:
            with self._lock:
                del self._building[digest]

    def close(self) -> None:
        """End the building of templates soon, and forget those in memory."""
        self._is_closed = True
        with self._lock:
            self._kept.clear()

    def _made(self, digest: str, content: FileContent) -> Template:
        found = self._stored.load(digest) if self._stored is not None else None
        if found is None:
            with _TURN:
                found = self._built(content)
            if self._stored is not None:
                self._stored.keep(digest, found)
                found = self._stored.load(digest) or found
            found = _on_disk(found)
        with self._lock:
            self._kept[digest] = found
            while len(self._kept) > KEPT_MAX or _literal_bytes(self._kept) > KEPT_BYTES_MAX:
                self._kept.popitem(last=False)
        return found

    def _built(self, content: FileContent) -> Template:
        # Importing h5py takes a fifth of a second, which mounts without such files do not spend.
        from nczfs.views.netcdf.hdf5.building import build_template

        try:
            return build_template(content, self._go_on)
        except (KeyError, OSError, OverflowError, RuntimeError, TypeError, ValueError) as error:
            reason = " ".join(str(error).split())[:300]
            raise Unsupported(f"HDF5 cannot write the file: {reason}") from error

    def _go_on(self) -> None:
        headway.make()
        if self._is_closed:
            raise Unavailable("the mount is ending")


def _on_disk(template: Template) -> Template:
    """Return a template whose bytes, if they are many, are in a file without a name."""
    if not isinstance(template.data, bytes) or len(template.data) <= MEMORY_BYTES_MAX:
        return template
    try:
        with tempfile.TemporaryFile(dir=_temporary()) as file:
            write_template(file, template)
            return open_template(os.dup(file.fileno()))
    except OSError as error:
        log.debug("%s: %d bytes stay in memory: %s", _temporary(), len(template.data), error)
        return template


def _temporary() -> str:
    return os.environ.get("TMPDIR") or "/var/tmp"  # a disk, unlike /tmp


def _literal_bytes(templates: OrderedDict[str, Template]) -> int:
    return sum(template.literal_bytes for template in templates.values())


def _check_members(content: FileContent, most: int) -> None:
    members = sum(
        1 + len(group.dimensions) + len(group.attributes) + len(group.variables)
        for group in content.groups()
    ) + sum(len(variable.attributes) for variable in content.variables())
    if members > most:
        raise ObjectTooLarge(
            f"a netCDF file of {members} groups, dimensions, variables and attributes is not made: "
            f"at most {most} (--memory-limit); its groups and variables have files of their own"
        )
