"""The user's choices that differ from the source: chunks, codecs, lengths of strings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from nczfs.engine.structure.creation import default_chunks
from nczfs.errors import UsageError
from nczfs.formats.names import below
from nczfs.model.declaration import GroupDeclaration, VariableDeclaration
from nczfs.model.dtypes import CODE_OF_NC_TYPE, NcType
from nczfs.model.hierarchy import CodecSpec, Dimension
from nczfs.tools.transfer.source import STRING_BYTES, Scopes, Source


@dataclass(frozen=True, slots=True)
class Choices:
    """Attributes.

    chunks : lengths of chunks by the names of dimensions, for all variables.
    codecs : of all variables, in encoding order; None: as in the source.
    fixed : whether unlimited dimensions become fixed.
    string_bytes : per string; None: as long as the longest one.
    """

    chunks: Mapping[str, int] = field(default_factory=dict)
    codecs: tuple[CodecSpec, ...] | None = None
    fixed: bool = False
    string_bytes: int | None = None


def chosen(source: Source, choices: Choices) -> Source:
    """Return the source with the chosen form.

    A variable without chunks gets some here, since all lengths are known, also along an unlimited
    dimension, where chunks would otherwise have the length 1.

    Raises
    ------
    UsageError : there is no dimension of such a name.
    """
    chooser = _Chooser(choices, source.root)
    unknown = [name for name in choices.chunks if name not in chooser.names]
    if unknown:
        names = ", ".join(sorted(chooser.names)) or "none"
        raise UsageError(f"{source.name}: no dimension {unknown[0]!r} (there are: {names})")
    return replace(source, root=chooser.group(source.root, ""))


class _Chooser:
    def __init__(self, choices: Choices, root: GroupDeclaration) -> None:
        self._choices = choices
        self._scopes = Scopes(root)
        self.names = self._scopes.names

    def group(self, group: GroupDeclaration, path: str) -> GroupDeclaration:
        dimensions = group.dimensions
        if self._choices.fixed:
            dimensions = tuple(replace(dimension, unlimited=False) for dimension in dimensions)
        return replace(
            group,
            dimensions=dimensions,
            variables=tuple(self._variable(variable, path) for variable in group.variables),
            groups=tuple(self.group(g, below(path, g.name)) for g in group.groups),
        )

    def _variable(self, variable: VariableDeclaration, path: str) -> VariableDeclaration:
        choices = self._choices
        is_string = variable.type is NcType.STRING
        return replace(
            variable,
            chunk_shape=self._chunk_shape(variable, path),
            codecs=variable.codecs if choices.codecs is None else choices.codecs,
            string_bytes=choices.string_bytes if is_string else variable.string_bytes,
        )

    def _chunk_shape(self, variable: VariableDeclaration, path: str) -> tuple[int, ...]:
        dimensions = [self._scopes.find(name, path)[1] for name in variable.dimensions]
        chunks = variable.chunk_shape or default_chunks(
            [dimension.size for dimension in dimensions],
            [dimension.unlimited and not dimension.size for dimension in dimensions],
            self._item_size(variable),
        )
        return tuple(self._lengths(dimensions, chunks))

    def _lengths(self, dimensions: list[Dimension], chunks: tuple[int, ...]) -> Iterator[int]:
        for dimension, length in zip(dimensions, chunks, strict=True):
            wanted = self._choices.chunks.get(dimension.name)
            if wanted is None:
                yield length
            else:
                grows = dimension.unlimited and not self._choices.fixed
                yield wanted if grows else max(1, min(wanted, dimension.size))

    def _item_size(self, variable: VariableDeclaration) -> int:
        if isinstance(variable.type, np.dtype):
            return max(1, variable.type.itemsize)
        if variable.type is NcType.STRING:
            return self._choices.string_bytes or STRING_BYTES
        return (
            1 if variable.type is NcType.CHAR else np.dtype(CODE_OF_NC_TYPE[variable.type]).itemsize
        )
