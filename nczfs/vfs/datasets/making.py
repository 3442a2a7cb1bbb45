"""Making a variable, or dimensions and attributes of a group, from an info.json."""

from __future__ import annotations

from dataclasses import replace

from nczfs.engine.structure.editor import Editor
from nczfs.errors import BadValue, NoSuchNode, NotWritable
from nczfs.formats.base import MetadataFormat
from nczfs.formats.dimensions import anonymous
from nczfs.formats.names import below, parent_of
from nczfs.formats.naming import checked_name
from nczfs.messages import shown
from nczfs.model.hierarchy import Dimension, GroupHeader, Variable
from nczfs.views.declaration import WantedDimension, WantedGroup, WantedNode, WantedVariable


class Making:
    """A maker of nodes from the documents that describe them.

    Every method may raise BadValue, CodecError, MetadataError, NoSuchNode, NotWritable, StoreError
    and UsageError.

    Parameters
    ----------
    changed_format : the new format of the dataset, set before anything is made; None: unchanged.
    """

    def __init__(self, editor: Editor, changed_format: MetadataFormat | None = None) -> None:
        self._editor = editor
        self._changed_format = changed_format

    def check(self, path: str, wanted: WantedNode) -> Variable | None:
        """Raise where `make` would, without making anything. Returns a variable to be made."""
        if isinstance(wanted, WantedGroup):
            self._check_group(path, wanted)
            return None
        known = self._editor.node(path)
        described = self._described(path, wanted)
        if isinstance(known, Variable):
            if not _is_like(known, described):
                raise NotWritable(f"/{path}: is another variable already; make one beside it")
        else:
            self._editor.check_empty(path)
        return described

    def make(self, path: str, wanted: WantedNode) -> None:
        """Turn an empty group into the wanted variable, or add to a group what it lacks.

        In existing nodes only attributes change, and unlimited dimensions become longer.
        """
        self.check(path, wanted)  # checked before a dimension is made for it
        editor = self._editor
        if self._changed_format is not None:
            editor.change_format(self._changed_format)
            self._changed_format = None
        if isinstance(wanted, WantedGroup):
            if editor.declares:
                for dimension in wanted.dimensions:
                    self._made(path, dimension)
            editor.take_attributes(path, wanted.attributes)
        else:
            group = parent_of(path)
            names = tuple(self._made(group, dimension) for dimension in wanted.dimensions)
            if isinstance(editor.node(path), Variable):
                editor.take_attributes(path, wanted.declaration.attributes)
            else:
                editor.turn_into_variable(path, replace(wanted.declaration, dimensions=names))
        above = {_declaring(parent_of(path), dimension) for dimension in wanted.dimensions}
        editor.sync(path, parent_of(path), *above)

    def _described(self, path: str, wanted: WantedVariable) -> Variable:
        group = parent_of(path)
        dimensions = [self._known(group, dimension) for dimension in wanted.dimensions]
        return self._editor.described(path, wanted.declaration, dimensions, self._changed_format)

    def _check_group(self, path: str, wanted: WantedGroup) -> None:
        if not isinstance(self._editor.node(path), GroupHeader):
            raise NotWritable(f"/{path}: is a variable, and the document is that of a group")
        for dimension in wanted.dimensions if self._editor.declares else ():
            self._known(path, dimension)

    def _known(self, group: str, wanted: WantedDimension) -> Dimension:
        """Return a dimension of the wanted length, which may be made, or extended."""
        if wanted.name is None:
            return anonymous(wanted.size)
        found = self._found(group, wanted)
        if found is None:
            name = checked_name(wanted.name)
            return Dimension(name, wanted.size, wanted.unlimited, _declaring(group, wanted))
        return replace(found, size=wanted.size)

    def _made(self, group: str, wanted: WantedDimension) -> str:
        """Return the full name of a dimension, made if there is none."""
        if wanted.name is None:
            return self._editor.anonymous_dimension(wanted.size)
        found = self._found(group, wanted)
        if found is None:
            size = None if wanted.unlimited else wanted.size
            found = self._editor.create_dimension(_declaring(group, wanted), wanted.name, size)
        if found.size < wanted.size:
            self._editor.resize(found, wanted.size, grows=True)
        return "/" + below(found.group, found.name)

    def _found(self, group: str, wanted: WantedDimension) -> Dimension | None:
        """Return the wanted dimension, of equal length or growing; None: it is to be made.

        If the document says which group declares it, that group's dimension is meant; if its length
        differs, the nearest one above that fits.
        """
        assert wanted.name is not None
        above = _declaring(group, wanted)
        is_exact = wanted.levels is not None
        nearest = self._dimension(
            above, "/" + below(above, wanted.name) if is_exact else wanted.name
        )
        found = nearest
        while found is not None and not _fits(found, wanted):
            may_look_on = is_exact and found.group
            found = self._dimension(parent_of(found.group), wanted.name) if may_look_on else None
        if nearest is not None and found is None:
            raise BadValue(
                f"dimension {shown(wanted.name)} has length {nearest.size}, and the shape has "
                f"{wanted.size}"
            )
        return found

    def _dimension(self, group: str, name: str) -> Dimension | None:
        try:
            return self._editor.dimension(group, name)
        except NoSuchNode:
            return None


def _fits(known: Dimension, wanted: WantedDimension) -> bool:
    grows = known.unlimited and wanted.unlimited and known.size < wanted.size
    return known.size == wanted.size or grows


def _declaring(group: str, wanted: WantedDimension) -> str:
    """Return the group in which to make a dimension that `group`, or a variable in it, wants."""
    for _ in range(wanted.levels or 0):
        group = parent_of(group)
    return group


def _is_like(known: Variable, wanted: Variable) -> bool:
    """Return whether a document describes a variable, apart from its length."""
    array = replace(
        wanted.array,
        shape=known.array.shape,
        chunk_keys=known.array.chunk_keys,
        codecs=replace(wanted.array.codecs, order=known.array.codecs.order),
    )
    grows = all(
        one.name == other.name and (one.size == other.size or other.unlimited)
        for one, other in zip(known.dimensions, wanted.dimensions, strict=False)
    )
    # Compared as text, because a fill value of NaN equals nothing.
    return len(known.dimensions) == len(wanted.dimensions) and (
        grows and repr(known.array) == repr(array)
    )
