"""Writing a source into a new dataset, which nobody sees before it is whole.

The values go first. The documents that make them a dataset are stored when all of them are there,
those of the root last; until then a key of our own, `UNFINISHED`, tells that what lies below the
URL is not whole. Whoever fails removes everything; what a killed process leaves has the key, and is
removed by the next one that may overwrite.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from uuid import uuid4

import numpy as np

from nczfs.engine.api import Group, OpenDataset
from nczfs.engine.opening import new_format, open_url
from nczfs.engine.options import EngineOptions
from nczfs.engine.transfer.blocks import BLOCK_SHARE, block_size
from nczfs.engine.transfer.chunk_target import ChunkTarget
from nczfs.engine.transfer.copying import Writes, copy, longest_string
from nczfs.engine.transfer.source import Notice, Progress, Source, groups_of, with_variables
from nczfs.engine.variable import Variable
from nczfs.errors import (
    DatasetError,
    MetadataError,
    NczfsError,
    NoSuchObject,
    ObjectExists,
    Unsupported,
    UsageError,
)
from nczfs.formats.base import MetadataFormat
from nczfs.formats.detect import options_of
from nczfs.formats.names import below
from nczfs.model.declaration import GroupDeclaration, VariableDeclaration
from nczfs.model.dtypes import NcType
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import ROOT, parse_key
from nczfs.zmap.registry import StoreOptions, create_store
from nczfs.zmap.url import StoreUrl, parse_url

UNFINISHED = parse_key(".nczfs_unfinished")
"""The key that is there as long as a dataset is not whole."""

_NOTE = b"A dataset is being written here, or the program that wrote it was killed.\n"


@dataclass(frozen=True, slots=True)
class NewDataset:
    """The dataset that shall be made.

    Attributes
    ----------
    format, consolidated : as for `open_url`.
    overwrite : a dataset that is there is deleted.
    memory_limit_bytes : for caches and for the values on their way, together.
    engine_options : its own limit of memory, and its cache on disk, do not count.
    """

    url: str
    format: str | None = None
    consolidated: bool = False
    overwrite: bool = False
    memory_limit_bytes: int = EngineOptions().memory_limit_bytes
    store_options: StoreOptions | None = None
    engine_options: EngineOptions = field(default_factory=EngineOptions)

    @property
    def place(self) -> StoreUrl:
        return parse_url(self.url)

    @property
    def metadata_format(self) -> MetadataFormat:
        return new_format(self.format, options_of(self.place.modes))


def write_dataset(source: Source, new: NewDataset, notice: Notice, progress: Progress) -> None:
    """Make a dataset of everything that a source has.

    Parameters
    ----------
    notice : takes lines about what could not be carried over as it is, and about what becomes of an
        unfinished dataset.
    progress : is given the bytes of the source that are done. When it raises, the copying ends, and
        what was written is removed.

    Raises
    ------
    Unsupported, UsageError : the format has no place for something; nothing was touched yet.
    ObjectExists : there is something at the URL.
    BadValue, CodecError, StoreError : what was written is removed.
    """
    source = replace(source, root=_with_lengths(source, new, progress))
    _rehearse(source, new)
    with _unfinished(new, notice) as dataset:
        variables = dict(_declare(dataset, source.root))
        with _writes(dataset, new, progress) as writes:
            for path, content in source.contents.items():
                variable = variables[path]
                array = variable.description.array
                size = block_size(new.memory_limit_bytes, variable.dtype, array.dtype.item_size)
                target = ChunkTarget(variable, is_new=True)
                copy(content, array.chunk_shape, target.start, size, writes, progress)


def _writes(dataset: OpenDataset, new: NewDataset, progress: Progress) -> Writes:
    engine = dataset.engine_dataset.engine
    is_near = dataset.engine_dataset.zmap.features.near
    depth = 2 * engine.options.decode_threads if is_near else engine.options.store_threads
    return Writes(depth, new.memory_limit_bytes // BLOCK_SHARE, progress)


def _declare(dataset: OpenDataset, root: GroupDeclaration) -> Iterator[tuple[str, Variable]]:
    """Make the groups, dimensions and variables of a declaration."""
    for path, declared in groups_of(root):
        group: Group = dataset
        if path:
            group = dataset.create_group(path)
        for attribute in declared.attributes:
            group.set_attribute(attribute)
        for dimension in declared.dimensions:
            group.create_dimension(dimension.name, None if dimension.unlimited else dimension.size)
            if dimension.unlimited and dimension.size:
                group.resize_dimension(dimension.name, dimension.size)
        for variable in declared.variables:
            yield below(path, variable.name), group.declare(variable)


def _rehearse(source: Source, new: NewDataset) -> None:
    """Make everything but the values in memory: what the format cannot hold is found before
    anything is deleted or written.
    """
    modes = "&".join(sorted(new.place.modes & {"zarr", "xarray", "noxarray"}))
    dataset = open_url(
        f"memory://{uuid4().hex}#{modes}", "x", format=new.format, options=new.engine_options
    )
    try:
        for path, variable in _declare(dataset, source.root):
            for problem in variable.problems:
                raise UsageError(f"/{path}: {problem}")
        dataset.sync()
    except (MetadataError, DatasetError, UsageError) as error:
        raise type(error)(f"{source.name}: {error}") from error
    finally:
        dataset.discard()


def _with_lengths(source: Source, new: NewDataset, progress: Progress) -> GroupDeclaration:
    """The declarations, with the bytes of strings where they are stored in cells of one length."""
    stored = new.metadata_format.stored_type

    def sized(path: str, variable: VariableDeclaration) -> VariableDeclaration:
        content = source.contents.get(path)
        if variable.type is not NcType.STRING or variable.string_bytes or content is None:
            return variable
        if stored(NcType.STRING, byte_order=None, string_bytes=None).dtype.vlen is not None:
            return variable
        size = block_size(new.memory_limit_bytes, np.dtype(object), None)
        try:
            longest = longest_string(content, size, progress)
            return replace(variable, string_bytes=max(1, longest))
        finally:
            content.release()

    try:
        return with_variables(source.root, sized)
    except Unsupported as error:  # the format has no strings
        raise Unsupported(f"{source.name}: {error}") from error


@contextmanager
def _unfinished(new: NewDataset, notice: Notice) -> Iterator[OpenDataset]:
    """A new dataset; it becomes visible when the block ends, and is removed when it fails."""
    options = new.store_options or StoreOptions()
    store = create_store(new.place, options)
    try:
        _clear(store, overwrite=new.overwrite)
        dataset = open_url(
            new.url,
            "w" if new.overwrite else "x",
            format=new.format,
            consolidated=new.consolidated or "consolidated" in new.place.modes,
            visible=False,
            store_options=options,
            options=replace(
                new.engine_options,
                memory_limit_bytes=new.memory_limit_bytes // 2,
                cache_bytes_max=0,
            ),
        )
        try:
            store.write(UNFINISHED, _NOTE)
        except BaseException:
            dataset.discard()
            raise
        try:
            yield dataset
            dataset.sync()
            store.delete(UNFINISHED)
        except BaseException:
            dataset.discard()
            _remove(store, notice)
            raise
        dataset.close()
    finally:
        store.close()


def _clear(store: ZMap, *, overwrite: bool) -> None:
    """Remove what a killed process has left, if we may."""
    try:
        store.stat(UNFINISHED)
    except NoSuchObject:
        return
    if not overwrite:
        raise ObjectExists(
            f"{store.name}: holds an unfinished dataset; another program is "
            "writing it, or was killed"
        )
    _delete_unfinished(store)


def _remove(store: ZMap, notice: Notice) -> None:
    try:
        _delete_unfinished(store)
    except NczfsError as error:
        notice(f"{store.name}: is incomplete, and could not be removed: {error}")
    else:
        notice(f"{store.name}: what was written there has been removed")


def _delete_unfinished(store: ZMap) -> None:
    """Delete everything, the mark last."""
    store.delete_many(stat.key for stat in store.list(ROOT) if stat.key != UNFINISHED)
    store.delete(UNFINISHED)
