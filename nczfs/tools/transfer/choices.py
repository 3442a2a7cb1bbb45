"""The user's choices that differ from the source: chunks, codecs, lengths of strings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from math import prod
from typing import Final

import numpy as np

from nczfs.engine.structure.creation import default_chunks
from nczfs.errors import UsageError
from nczfs.formats.names import below, parent_of
from nczfs.model.declaration import GroupDeclaration, VariableDeclaration
from nczfs.model.dtypes import CODE_OF_NC_TYPE, NcType
from nczfs.model.hierarchy import CodecSpec, Dimension
from nczfs.plaindata import frozen
from nczfs.tools.transfer.source import STRING_BYTES, Scopes, Source, with_variables

USUAL_BYTES_MIN: Final = 1 << 20
USUAL_BYTES_MAX: Final = 16 << 20


@frozen
class Choices:
    """Attributes.

    chunks : lengths of chunks by the names of dimensions, for all variables.
    shards : lengths of shards by the names of dimensions; they become whole chunks.
    codecs : of all variables, in encoding order; None: as in the source.
    fixed : whether unlimited dimensions become fixed.
    string_bytes : per string; None: as long as the longest one.
    """

    chunks: Mapping[str, int] = field(default_factory=dict)
    codecs: tuple[CodecSpec, ...] | None = None
    fixed: bool = False
    string_bytes: int | None = None
    shards: Mapping[str, int] = field(default_factory=dict)


def chosen(source: Source, choices: Choices) -> Source:
    """Return the source with the chosen form.

    A variable without chunks gets some here, since all lengths are known, also along an unlimited
    dimension, where chunks would otherwise have the length 1.

    Raises
    ------
    UsageError : there is no dimension of such a name.
    """
    return replace(source, root=Chooser(source.name, source.root, choices).root)


def with_usual_chunks(source: Source) -> Source:
    """Return the source without chunk shapes of unusual sizes, so that default ones replace them.

    Files often have chunks of one short row, or one chunk for everything.
    """
    scopes = Scopes(source.root)

    def usual(path: str, variable: VariableDeclaration) -> VariableDeclaration:
        chunks = variable.chunk_shape
        if chunks is None:
            return variable
        group = parent_of(path)
        lengths = [scopes.find(name, group)[1].size for name in variable.dimensions]
        item = _item_bytes(variable, None)
        is_small = prod(chunks) * item < USUAL_BYTES_MIN
        holds_all = all(chunk >= n for chunk, n in zip(chunks, lengths, strict=True))
        is_usual = (holds_all or not is_small) and prod(chunks) * item <= USUAL_BYTES_MAX
        return variable if is_usual else replace(variable, chunk_shape=None)

    return replace(source, root=with_variables(source.root, usual))


class Chooser:
    """Gives the declaration of a source the chosen form, and what is added to it later.

    Parameters
    ----------
    name : of the source, for messages.
    root : what is declared first.

    Attributes
    ----------
    root : in the chosen form.

    Raises
    ------
    UsageError : as `chosen`.
    """

    def __init__(self, name: str, root: GroupDeclaration, choices: Choices) -> None:
        self._choices = choices
        self._scopes = Scopes(root)
        names = self._scopes.names
        unknown = [n for n in (*choices.chunks, *choices.shards) if n not in names]
        if unknown:
            known = ", ".join(sorted(names)) or "none"
            raise UsageError(f"{name}: no dimension {unknown[0]!r} (there are: {known})")
        self.root = self._group(root, "")

    def added(self, root: GroupDeclaration) -> GroupDeclaration:
        """Return more of the same hierarchy in the chosen form."""
        self._scopes.add(root)
        return self._group(root, "")

    def _group(self, group: GroupDeclaration, path: str) -> GroupDeclaration:
        dimensions = group.dimensions
        if self._choices.fixed:
            dimensions = tuple(replace(dimension, unlimited=False) for dimension in dimensions)
        return replace(
            group,
            dimensions=dimensions,
            variables=tuple(self._variable(variable, path) for variable in group.variables),
            groups=tuple(self._group(g, below(path, g.name)) for g in group.groups),
        )

    def _variable(self, variable: VariableDeclaration, path: str) -> VariableDeclaration:
        choices = self._choices
        is_string = variable.type is NcType.STRING
        chunk_shape = self._chunk_shape(variable, path)
        return replace(
            variable,
            chunk_shape=chunk_shape,
            shard_shape=self._shard_shape(variable, path, chunk_shape),
            codecs=self._codecs(variable),
            string_bytes=choices.string_bytes if is_string else variable.string_bytes,
        )

    def _codecs(self, variable: VariableDeclaration) -> tuple[CodecSpec, ...] | None:
        """Return the codecs. What makes bytes of objects belongs to their type, and stays."""
        wanted, own = self._choices.codecs, variable.codecs
        if wanted is None:
            return own
        is_objects = isinstance(variable.type, np.dtype) and variable.type.hasobject
        return (*own[:1], *wanted) if is_objects and own and own[0] not in wanted else wanted

    def _shard_shape(
        self, variable: VariableDeclaration, path: str, chunk_shape: tuple[int, ...]
    ) -> tuple[int, ...] | None:
        """Return the shape of shards: whole chunks, and more than one; None: none."""
        wanted = self._choices.shards
        lengths = variable.shard_shape or chunk_shape
        dimensions = self._dimensions(variable, path)
        whole = tuple(
            -(-shard // chunk) * chunk
            for shard, chunk in zip(
                self._lengths(dimensions, lengths, wanted), chunk_shape, strict=True
            )
        )
        is_sharded = variable.shard_shape is not None
        return whole if is_sharded or whole != chunk_shape else None

    def _chunk_shape(self, variable: VariableDeclaration, path: str) -> tuple[int, ...]:
        dimensions = self._dimensions(variable, path)
        chunks = variable.chunk_shape or default_chunks(
            [dimension.size for dimension in dimensions],
            [dimension.unlimited and not dimension.size for dimension in dimensions],
            _item_bytes(variable, self._choices.string_bytes),
        )
        return tuple(self._lengths(dimensions, chunks, self._choices.chunks))

    def _dimensions(self, variable: VariableDeclaration, path: str) -> list[Dimension]:
        return [self._scopes.find(name, path)[1] for name in variable.dimensions]

    def _lengths(
        self, dimensions: list[Dimension], lengths: tuple[int, ...], choices: Mapping[str, int]
    ) -> Iterator[int]:
        for dimension, length in zip(dimensions, lengths, strict=True):
            wanted = choices.get(dimension.name)
            if wanted is None:
                yield length
            else:
                grows = dimension.unlimited and not self._choices.fixed
                yield wanted if grows else max(1, min(wanted, dimension.size))


def _item_bytes(variable: VariableDeclaration, string_bytes: int | None) -> int:
    if isinstance(variable.type, np.dtype):
        return max(1, variable.type.itemsize)
    if variable.type is NcType.STRING:
        return string_bytes or STRING_BYTES
    return 1 if variable.type is NcType.CHAR else np.dtype(CODE_OF_NC_TYPE[variable.type]).itemsize
