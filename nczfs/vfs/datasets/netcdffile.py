"""A group, or a variable with its coordinates, as a netCDF file or an ncstream."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress

from nczfs.engine.chunks.storedarray import StoredArray, newest_revision
from nczfs.errors import MetadataError, NotPermitted, ObjectTooLarge, StaleHandle, Unsupported
from nczfs.vfs.datasets.arraysfile import ArraysFile
from nczfs.vfs.datasets.netcdfversions import NetcdfSource
from nczfs.vfs.datasets.viewfile import ViewContext
from nczfs.vfs.nodes import NodeStat, OpenFile, TreeNode
from nczfs.views.base import Variables
from nczfs.views.layout import Layout
from nczfs.views.netcdf.version import NetcdfVersion


class NetcdfFile(ArraysFile):
    """A netCDF file of one version.

    When its group changes, the file at its name is another one: the bytes of one header never mix
    with values at the places of another. `_lock` guards the version, also while it is made, which
    blocks.

    Parameters
    ----------
    mtime_ns : of its node.
    """

    def __init__(self, context: ViewContext, source: NetcdfSource, mtime_ns: int) -> None:
        super().__init__(context, source.dataset)
        self._versions = context.netcdf
        self._source = source
        self._node_mtime_ns = mtime_ns
        self._lock = threading.Lock()
        self._version: NetcdfVersion | None = None
        is_written = source.form.is_written
        self.is_replaceable = is_written and source.is_of_group and context.replacement is not None
        self.writable = is_written and context.editing_of(source.dataset) is not None

    @property
    def token(self) -> object:
        version = self._version
        place = self._source.place
        return place, self._versions.digest(place) if version is None else version.digest

    @property
    def pages_token(self) -> object:
        return self.token, newest_revision(self.arrays)

    @property
    def arrays(self) -> tuple[StoredArray, ...]:  # type: ignore[override]
        version = self._version
        return () if version is None else version.layout.arrays

    def looked_up(self) -> None:
        if not self._is_new:
            self._fixed()

    def succeeds(self, old: TreeNode) -> None:
        """Show what the inode has shown, although the group may have changed since the listing."""
        if isinstance(old, NetcdfFile):
            with self._lock:
                self._version = self._version or old._version

    def stat(self) -> NodeStat:
        return self._stat_of_version(self._fixed())

    def lookup_stat(self) -> NodeStat:
        return self.listing_stat() if self._is_new else self.stat()

    def listing_stat(self) -> NodeStat:
        version = self._version or self._versions.known(self._source)
        if version is None:
            return NodeStat(0, self._node_mtime_ns, exact=False)
        return self._stat_of_version(version)

    def open(self, *, writing: bool = False, truncate: bool = False) -> OpenFile:
        if truncate:
            return self._replacement()
        version = self._fixed()
        if self._present(anew=self._context.is_prompt).digest != version.digest:
            # The kernel then looks the path up again, and finds the new file.
            raise StaleHandle(f"{self.place}: the group has changed")
        self._fetch_coordinates(version)
        return self.writer(rewrite=False) if writing else self.reader()

    def truncate(self, size: int) -> None:
        if size != self._fixed().layout.size:
            raise NotPermitted(f"{self.place}: its size follows from its group and cannot be set")

    def layout(self) -> Layout:
        return self._fixed().layout

    @property
    def _node_path(self) -> str:
        return self._source.node.path

    @property
    def _name(self) -> str:
        return self._source.place.name

    def _shown(self) -> tuple[Variables, Sequence[StoredArray]]:
        elements = self._fixed().elements
        arrays = [each.stored for each in elements]
        variables = [each.variable for each in elements]
        return tuple(map(self._dataset.latest, variables, arrays)), arrays

    def _replacement(self) -> OpenFile:
        """Open a file that takes new content of the group. Raises NotPermitted."""
        replacement = self._context.replacement
        if not self._source.form.is_written:
            raise NotPermitted(f"{self.place}: is made of the group, and cannot be written")
        if not self._source.is_of_group:
            raise NotPermitted(f"{self.place}: is made of a variable, whose values can be written")
        if replacement is None:
            raise NotPermitted(
                f"{self.place}: is made of the group, which has content; values can be written in "
                "place, and a group that is empty takes a whole new file, as others do in a mount "
                "with -o allow_replace"
            )
        return replacement(self._dataset, self._source.node.path, self._source.place.name)

    @property
    def _is_new(self) -> bool:
        """Whether no version was ever made, so that no inode shows one."""
        return self._version is None and self._versions.digest(self._source.place) is None

    def _fixed(self) -> NetcdfVersion:
        """Return the version of this file: the present one of when it was first needed."""
        version = self._version
        if version is not None:
            return version
        with self._versions.waiting(), self._lock:
            if self._version is None:
                try:
                    self._version = self._versions.present(self._source)
                except (ObjectTooLarge, Unsupported) as error:
                    raise type(error)(f"{self.place}: {error}") from error
            return self._version

    def _present(self, *, anew: bool) -> NetcdfVersion:
        if anew:
            self._look_anew()
        return self._versions.present(self._source, anew=anew)

    def _look_anew(self) -> None:
        """Ask the store for the documents of everything that the file shows."""
        shown = self._version
        paths = set() if shown is None else {each.variable.path for each in shown.elements}
        for path in {self._source.node.path} | paths:
            with suppress(MetadataError):  # the file is made of the others
                self._context.load(self._dataset, path)

    def _stat_of_version(self, version: NetcdfVersion) -> NodeStat:
        known_ns = self._context.mtime_ns if version.mtime_ns is None else version.mtime_ns
        return self._stat_of(version.layout.size, known_ns)

    def _fetch_coordinates(self, version: NetcdfVersion) -> None:
        """Fetch coordinates ahead, once for each set of dimensions."""
        variables = [each.variable for each in version.elements]
        for variable in {each.dimensions: each for each in variables}.values():
            self._context.opened(self._dataset, variable)
