"""Making a variable, or dimensions and attributes of a group, from an info.json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nczfs.engine.structure.creation import keeping
from nczfs.engine.structure.dependents import check_made
from nczfs.engine.structure.editor import Editor
from nczfs.errors import BadValue, NoSuchNode, NotWritable
from nczfs.formats.base import MetadataFormat
from nczfs.formats.dimensions import anonymous
from nczfs.formats.names import below, parent_of
from nczfs.formats.naming import checked_name
from nczfs.formats.zarr3.dependents import is_described_by
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
    takes_copies : whether empty groups that have the names of a variable's dependent arrays give
        way to it: programs that copy directories may make them first.
    """

    def __init__(
        self,
        editor: Editor,
        changed_format: MetadataFormat | None = None,
        *,
        takes_copies: bool = False,
    ) -> None:
        self._editor = editor
        self._changed_format = changed_format
        self._takes_copies = takes_copies

    def check(self, path: str, wanted: WantedNode) -> Variable | None:
        """Raise where `make` would, without making anything. Returns a variable to be made."""
        if isinstance(wanted, WantedGroup):
            self._check_group(path, wanted)
            return None
        known = self._editor.node(path)
        if isinstance(known, Variable) and known.is_dependent:
            self._check_declared(known, wanted)
            return None
        described = self._described(path, wanted)
        if isinstance(known, Variable):
            if not _is_like(known, described):
                raise NotWritable(f"/{path}: is another variable already; make one beside it")
        elif self._places(path, wanted) is None:
            self._editor.check_empty(path)
        if not (isinstance(known, Variable) or self._takes_copies):
            check_made(described)
        return described

    def make(self, path: str, wanted: WantedNode) -> None:
        """Turn an empty group into the wanted variable, or add to a group what it lacks.

        In existing nodes only attributes change, and unlimited dimensions become longer.
        """
        self.check(path, wanted)  # checked before a dimension is made for it
        editor = self._editor
        known = editor.node(path)
        if isinstance(known, Variable) and known.is_dependent:
            return
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
                if path:
                    editor.complete_variable(path)
                editor.take_attributes(path, wanted.declaration.attributes)
            else:
                for place in self._places(path, wanted) or ():
                    editor.remove_hollow(place)
                editor.turn_into_variable(path, replace(wanted.declaration, dimensions=names))
        above = {_declaring(parent_of(path), dimension) for dimension in wanted.dimensions}
        editor.sync(path, parent_of(path), *above)

    def _places(self, path: str, wanted: WantedVariable) -> Sequence[str] | None:
        """Return empty groups that programs made to copy dependent arrays into, lower ones first.

        None: something else is there, which stays.
        """
        found = self._editor.hollow_below(path) if self._takes_copies and path else None
        names = {each[len(path) + 1 :].partition("/")[0] for each in found or ()}
        return found if names <= set(wanted.dependents) else None

    def _described(self, path: str, wanted: WantedVariable) -> Variable:
        group = parent_of(path)
        dimensions = [self._known(group, dimension) for dimension in wanted.dimensions]
        declaration, known = wanted.declaration, self._editor.node(path)
        if isinstance(known, GroupHeader):
            declaration = keeping(declaration, known.attributes)
        return self._editor.described(path, declaration, dimensions, self._changed_format)

    def _check_declared(self, known: Variable, wanted: WantedVariable) -> None:
        """Raise NotWritable unless a document describes an array that is declared already."""
        dimensions = dimensions_of(wanted, known.group)
        described = self._editor.described(known.path, wanted.declaration, dimensions)
        if not is_described_by(known, described):
            raise NotWritable(
                f"/{known.path}: /{known.primary} declares it otherwise; `nczfs dependents`, or "
                "its `dependent-arrays` attribute, changes that"
            )

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


def dimensions_of(wanted: WantedVariable, group: str) -> list[Dimension]:
    """Return the dimensions of a dependent array, which a group need not declare."""
    return [
        anonymous(each.size)
        if each.name is None
        else Dimension(each.name, each.size, each.unlimited, group)
        for each in wanted.dimensions
    ]


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
