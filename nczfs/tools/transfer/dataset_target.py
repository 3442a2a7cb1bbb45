"""Writing a source into a new dataset, which is not visible before it is complete."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nczfs.engine.dataset import Dataset
from nczfs.errors import Unsupported
from nczfs.formats.base import MetadataFormat
from nczfs.model.declaration import VariableDeclaration
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import Variable
from nczfs.tools.progress import Progress
from nczfs.tools.transfer.blocks import BLOCK_SHARE, BlockSize, block_size
from nczfs.tools.transfer.chunk_target import ChunkTarget
from nczfs.tools.transfer.copying import Writes, copy, longest_string
from nczfs.tools.transfer.declaring import NewVariables, declare, rehearsed
from nczfs.tools.transfer.source import Notice, Source, with_variables
from nczfs.tools.transfer.target import NewNode, opened_target
from nczfs.tools.transfer.unfinished import Mark


def write_dataset(source: Source, new: NewNode, notice: Notice, progress: Progress) -> NewVariables:
    """Make a dataset from everything in a source. Returns its variables.

    Parameters
    ----------
    notice : takes lines about what could not be carried over unchanged, and about what becomes of
        an unfinished dataset.
    progress : called with the bytes of the source that are done. If it raises, copying ends, and
        what was written is removed.

    Raises
    ------
    Unsupported, UsageError : the format has no place for something; nothing was changed yet.
    ObjectExists : there is something at the URL.
    BadValue, CodecError, StoreError : what was written is removed.
    """
    limit = new.memory_limit_bytes
    source = with_string_lengths(source, new.metadata_format, limit, progress)
    modes, options = new.place.modes, new.engine_options
    rehearsed(source.name, modes, options, new.format, lambda editor: declare(editor, source.root))
    with opened_target(new, Mark("import"), notice) as target:
        variables = declare(target.editor, source.root)
        copy_contents(source, target.dataset, variables, limit, progress)
    return variables


def copy_contents(
    source: Source,
    dataset: Dataset,
    variables: NewVariables,
    memory_limit_bytes: int,
    progress: Progress,
) -> None:
    """Store all values of a source in new variables, which have no chunks in the store."""
    with writes_to(dataset, memory_limit_bytes, progress) as writes:
        for path, content in source.contents.items():
            variable = variables[path]
            size = target_block_size(variable, memory_limit_bytes)
            chunks = ChunkTarget(dataset, variable, is_new=True)
            copy(content, chunks.shapes, chunks.start, size, writes, progress)


def writes_to(dataset: Dataset, memory_limit_bytes: int, progress: Progress) -> Writes:
    """Return writes with the best number of them at a time for a dataset."""
    options = dataset.engine.options
    is_near = dataset.zmap.features.near
    depth = 2 * options.decode_threads if is_near else options.store_threads
    return Writes(depth, memory_limit_bytes // BLOCK_SHARE, progress)


def target_block_size(variable: Variable, memory_limit_bytes: int) -> BlockSize:
    """Return the size of blocks for a variable that is written."""
    dtype = variable.array.dtype
    is_text = dtype.nc_type is NcType.STRING
    values = np.dtype(object) if is_text else dtype.native
    string_bytes = dtype.item_size if dtype.vlen is None else None
    return block_size(memory_limit_bytes, values, string_bytes)


def with_string_lengths(
    source: Source, stored_by: MetadataFormat, memory_limit_bytes: int, progress: Progress
) -> Source:
    """Return a source with the bytes per string, if a format stores strings in cells.

    Raises
    ------
    Unsupported : the format has no strings.
    """
    stored = stored_by.stored_type

    def sized(path: str, variable: VariableDeclaration) -> VariableDeclaration:
        content = source.contents.get(path)
        if variable.type is not NcType.STRING or variable.string_bytes or content is None:
            return variable
        if stored(NcType.STRING, byte_order=None, string_bytes=None).dtype.vlen is not None:
            return variable
        size = block_size(memory_limit_bytes, np.dtype(object), None)
        try:
            longest = longest_string(content, size, progress)
            return replace(variable, string_bytes=max(1, longest))
        finally:
            content.release()

    try:
        return replace(source, root=with_variables(source.root, sized))
    except Unsupported as error:
        raise Unsupported(f"{source.name}: {error}") from error
