"""A group, or a variable with its coordinates, as a netCDF file."""

from __future__ import annotations

import threading
from contextlib import suppress

from nczfs.engine.chunks.storedarray import StoredArray, newest_revision
from nczfs.errors import MetadataError, NotPermitted, StaleHandle
from nczfs.formats.names import below
from nczfs.vfs.base import AttributeChanges
from nczfs.vfs.datasets.netcdfversions import NetcdfSource
from nczfs.vfs.datasets.viewfile import OpenView, ViewContext
from nczfs.vfs.datasets.writing import WritingView
from nczfs.vfs.nodes import File, NodeStat, OpenFile, TreeNode
from nczfs.views.netcdf.version import NetcdfVersion


class NetcdfFile(File):
    """A netCDF file of one version.

    When its group changes, the file at its name is another one: the bytes of one header never mix
    with values at the places of another. `_lock` guards the version, also while it is made, which
    blocks.

    Parameters
    ----------
    mtime_ns : of its node.
    """

    def __init__(self, context: ViewContext, source: NetcdfSource, mtime_ns: int) -> None:
        self._context = context
        self._versions = context.netcdf
        self._source = source
        self._dataset = source.dataset
        self._node_mtime_ns = mtime_ns
        self._lock = threading.Lock()
        self._version: NetcdfVersion | None = None
        self.is_replaceable = source.is_of_group and context.replacement is not None
        self.writable = context.editing_of(source.dataset) is not None

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
        self._fixed()

    def succeeds(self, old: TreeNode) -> None:
        """Show what the inode has shown, although the group may have changed since the listing."""
        if isinstance(old, NetcdfFile):
            with self._lock:
                self._version = self._version or old._version

    def stat(self) -> NodeStat:
        return self._stat_of(self._fixed())

    def listing_stat(self) -> NodeStat:
        version = self._version or self._versions.known(self._source)
        if version is None:
            return NodeStat(0, self._node_mtime_ns, exact=False)
        return self._stat_of(version)

    def open(self, *, writing: bool = False, truncate: bool = False) -> OpenFile:
        if truncate:
            return self._replacement()
        version = self._fixed()
        if self._present(anew=self._context.is_prompt).digest != version.digest:
            # The kernel then looks the path up again, and finds the new file.
            raise StaleHandle(f"{self.place}: the group has changed")
        self._fetch_coordinates(version)
        if not writing:
            return self.reader()
        editing = self._context.editing_of(self._dataset)
        if editing is None:
            raise NotPermitted(f"{self.place}: can only be read")
        for elements in version.elements:
            elements.array.require_codecs()
        return WritingView(
            self.place,
            self.reader,
            lambda: version.layout,
            self._store,
            self._dataset.zmap.flush,
            self._context.engine.writeback.wait_for_room,
            None,
            version.layout.arrays,
            self._dataset.lease,
            rewrite=False,
        )

    def truncate(self, size: int) -> None:
        if size != self._fixed().layout.size:
            raise NotPermitted(f"{self.place}: its size follows from its group and cannot be set")

    def change(self, changes: AttributeChanges) -> None:
        self._context.check_changes(changes)

    def reader(self) -> OpenView:
        """Return the file, open for reading."""
        context, layout = self._context, self._fixed().layout
        what = f"{self._dataset.url('')} /{self._source.node.path} {self._source.place.name}"
        access = context.access_log.opened(what, layout)
        return OpenView(context.engine, layout, access, context.fresh_since, self._store)

    @property
    def place(self) -> str:
        """The place of the file in its dataset, for messages."""
        return f"/{below(self._source.node.path, self._source.place.name)}"

    def _replacement(self) -> OpenFile:
        """Open a file that takes new content of the group. Raises NotPermitted."""
        replacement = self._context.replacement
        if not self._source.is_of_group:
            raise NotPermitted(f"{self.place}: is made of a variable, whose values can be written")
        if replacement is None:
            raise NotPermitted(
                f"{self.place}: is made of the group, which has content; values can be written in "
                "place, and a group that is empty takes a whole new file, as others do in a mount "
                "with -o allow_replace"
            )
        return replacement(self._dataset, self._source.node.path, self._source.place.name)

    def _fixed(self) -> NetcdfVersion:
        """Return the version of this file: the present one of when it was first needed."""
        version = self._version
        if version is not None:
            return version
        with self._lock:
            if self._version is None:
                self._version = self._versions.present(self._source)
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

    def _stat_of(self, version: NetcdfVersion) -> NodeStat:
        written_ns = max((array.written_ns for array in version.layout.arrays), default=0)
        known_ns = self._context.mtime_ns if version.mtime_ns is None else version.mtime_ns
        return NodeStat(version.layout.size, max(known_ns, written_ns))

    def _store(self) -> None:
        """Store everything that was written to the variables, through any file or handle."""
        editing = self._context.editing_of(self._dataset)
        version = self._fixed()
        if editing is not None:
            arrays = [each.stored for each in version.elements]
            variables = [each.variable for each in version.elements]
            latest = list(map(self._dataset.latest, variables, arrays))
            editing.store(self._dataset, latest, arrays)

    def _fetch_coordinates(self, version: NetcdfVersion) -> None:
        """Fetch coordinates ahead, once for each set of dimensions."""
        variables = [each.variable for each in version.elements]
        for variable in {each.dimensions: each for each in variables}.values():
            self._context.opened(self._dataset, variable)
