"""A netCDF file as it is made of one state of a group: its bytes, and the arrays in them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection

from nczfs.engine import headway
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.engine.dataset import Dataset
from nczfs.engine.metadata.hierarchy import node_to_hold
from nczfs.model.hierarchy import Group, Variable
from nczfs.plaindata import frozen
from nczfs.views.elements import ArrayElements, ElementsOf, ElementSource
from nczfs.views.layout import Layout
from nczfs.views.netcdf.content import FileContent, FileGroup
from nczfs.views.netcdf.fitting import file_content
from nczfs.views.netcdf.kinds import FileFormat
from nczfs.views.netcdf.texts import texts_of


@frozen
class NetcdfFormat:
    """A format of netCDF files.

    Attributes
    ----------
    is_of_variables : whether single variables have files of it, too.
    is_written : whether values can be written in it, and a group be replaced by such a file.
    lay_out : makes the layout of a content; `ElementsOf` gives the elements of a variable. Raises
        Unsupported if the file cannot be made.
    """

    kind: FileFormat
    is_of_variables: bool
    is_written: bool
    lay_out: Callable[[FileContent, ElementsOf], Layout]


@frozen(eq=False, weakref_slot=True)
class NetcdfVersion:
    """A netCDF file as it is made of one state of a group. Immutable.

    Attributes
    ----------
    digest : the same for the same bytes of the header and the same places of all values.
    elements : of the variables, each of which is as it was.
    mtime_ns : of the newest of its documents; None if the store has no times.
    omitted : as of its content.
    texts : the arrays whose values are part of the header, and their revisions.
    """

    digest: bytes
    layout: Layout
    elements: tuple[ArrayElements, ...]
    mtime_ns: int | None
    omitted: tuple[str, ...]
    texts: tuple[tuple[StoredArray, int], ...]

    @property
    def has_newest_texts(self) -> bool:
        """Whether nothing was written to a variable whose values are part of the header."""
        return all(array.revision == revision for array, revision in self.texts)


def version_of(
    dataset: Dataset,
    group: Group,
    form: NetcdfFormat,
    record_dimensions: Collection[str],
    title: str,
) -> NetcdfVersion:
    """Make the netCDF file of a group, as `file_content` does. Reads the values of its strings.

    Raises
    ------
    Unsupported : the format cannot hold it. CodecError, StoreError : strings cannot be read.
    """
    read: list[tuple[StoredArray, int]] = []

    def texts(variable: Variable) -> tuple[str, ...]:
        array = dataset.array(variable)
        read.append((array.stored, array.stored.revision))
        return texts_of(dataset, variable)

    content = file_content(group, form.kind, texts, record_dimensions, title)
    shown: list[ArrayElements] = []

    def elements(variable: Variable) -> ElementSource:
        headway.make()
        shown.append(ArrayElements(dataset.array(variable), node_to_hold(variable)))
        return shown[-1]

    layout = form.lay_out(content, elements)
    return NetcdfVersion(
        digest=_digest(content.root),
        layout=layout,
        elements=tuple(shown),
        mtime_ns=_mtime_ns(dataset, group),
        omitted=content.omitted,
        texts=tuple(read),
    )


def _mtime_ns(dataset: Dataset, group: Group) -> int | None:
    """Return the time of the newest document of a group."""
    waiting, newest = [group], None
    while waiting:
        each = waiting.pop()
        waiting += each.groups
        for path in (each.header.path, *(variable.path for variable in each.variables)):
            mtime_ns = dataset.mtime_ns(path)
            if mtime_ns is not None:
                newest = max(newest or 0, mtime_ns)
    return newest


def _digest(root: FileGroup) -> bytes:
    return hashlib.sha256(repr(root).encode("utf-8", "surrogatepass")).digest()
