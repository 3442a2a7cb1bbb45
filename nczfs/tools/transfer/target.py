"""Targets of transfers: a new dataset, or a new node of an existing one.

Values are stored first. The documents that make them a dataset follow when all values are there,
those of the root last; until then a key marks the place as unfinished (`unfinished`). A store that
gathers writes shows all of this at once, at the end, and so has the mark only if the run was
interrupted and another run can continue it. An archive that is written once never has it: after an
interrupted run nothing is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import field, replace

from nczfs.engine.dataset import Dataset
from nczfs.engine.options import EngineOptions, format_options
from nczfs.engine.stores import created_store, open_store
from nczfs.engine.structure.editor import Editor
from nczfs.errors import (
    Conflict,
    NczfsError,
    NoSuchNode,
    NotADataset,
    NotWritable,
    ObjectExists,
)
from nczfs.formats.base import MetadataFormat
from nczfs.formats.registry import new_format, options_of
from nczfs.library.api import OpenDataset
from nczfs.library.opening import open_zmap
from nczfs.plaindata import frozen
from nczfs.tools.transfer.source import Notice
from nczfs.tools.transfer.unfinished import Mark, MarkedPlace
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import ROOT, parse_key
from nczfs.zmap.registry import StoreOptions
from nczfs.zmap.url import StoreUrl, parse_url
from nczfs.zmap.wrappers import KeptOpen


@frozen
class NewNode:
    """The dataset or node to make.

    Attributes
    ----------
    url : of the dataset.
    path : of the new group or variable in an existing dataset; "": the dataset is new.
    format, consolidated : as for `open_url`, for a new dataset.
    overwrite : whether existing objects are deleted.
    memory_limit_bytes : for caches and the values on their way, together.
    engine_options : its memory limit and its cache on disk are ignored.
    """

    url: str
    path: str = ""
    format: str | None = None
    consolidated: bool = False
    overwrite: bool = False
    memory_limit_bytes: int = EngineOptions().memory_limit_bytes
    store_options: StoreOptions = field(default_factory=StoreOptions)
    engine_options: EngineOptions = field(default_factory=EngineOptions)

    @property
    def place(self) -> StoreUrl:
        return parse_url(self.url)

    @property
    def name(self) -> str:
        """The URL for messages, without secrets."""
        return "/".join(part for part in (self.place.text, self.path) if part)

    @property
    def metadata_format(self) -> MetadataFormat:
        """The format of a new dataset. Raises UsageError: there is no such format."""
        return new_format(self.format, options_of(self.place.modes))


@frozen
class Target:
    """An open target. Others see what `editor` makes when the target's block ends.

    Attributes
    ----------
    path : of the new node; "" is the whole dataset.
    is_new : whether nothing is stored there yet; otherwise an earlier run has begun.
    place : with the mark of this run.
    """

    dataset: Dataset
    editor: Editor
    path: str
    is_new: bool
    place: MarkedPlace


@contextmanager
def opened_target(
    new: NewNode, mark: Mark, notice: Notice, nodes: Sequence[str] = ()
) -> Iterator[Target]:
    """Open a target; what is made in the block becomes visible when the block ends.

    If the block fails, what was written is removed, unless another run can continue it: one with
    the same plan in its mark.

    Parameters
    ----------
    notice : takes a line about what becomes of the target if the block fails.
    nodes : paths of all nodes that will be made. Documents that an earlier run left there are
        removed first.

    Raises
    ------
    ObjectExists : something is there that must not be overwritten, or another process is making it.
    ForeignObjects, NotADataset : files that belong to no dataset are there. StoreError.
    """
    with _opened_store(new) as store:
        is_marked = not store.features.gathers_writes
        if new.path:
            dataset = _opened(new, store, "r+")
            place = MarkedPlace(store, dataset.engine_dataset.prefix(new.path))
        else:
            place = MarkedPlace(store, ROOT)
            dataset, resumes = _begun_dataset(new, mark, place, nodes)
        try:
            if new.path:
                resumes = _begun_member(dataset, new, mark, place)
                if resumes:
                    _remove_documents(store, dataset.engine_dataset.format, nodes)
            if resumes:
                mark = replace(mark, made_of=place.made_of)
            place.keep(mark.started())
        except BaseException:
            dataset.discard()
            raise
        try:
            yield Target(dataset.engine_dataset, dataset.editor, new.path, not resumes, place)
            if not place.is_ours():
                raise Conflict(f"{place.name}: another process has taken it over")
            if is_marked:
                dataset.sync()
                place.remove()
            else:
                place.remove()
                dataset.sync()
        except BaseException:
            dataset.discard()
            _end(place, mark, notice)
            raise
        dataset.discard()  # everything is stored


def _opened_store(new: NewNode) -> AbstractContextManager[ZMap]:
    """Open the store of a target; one that is made, and is empty after an error, is removed."""
    if new.path:
        return closing(open_store(new.place, new.store_options))
    return created_store(new.place, new.store_options)


def _begun_dataset(
    new: NewNode, mark: Mark, place: MarkedPlace, nodes: Sequence[str]
) -> tuple[OpenDataset, bool]:
    """Make or continue a dataset. Returns it, and whether an earlier run has begun it."""
    resumes = _resumes(place, mark, overwrite=new.overwrite)
    if resumes:
        _remove_documents(place.zmap, new.metadata_format, nodes)
    if new.overwrite and not resumes:
        _remove_dataset(new, place.zmap)
    return _opened(new, place.zmap, "w" if new.overwrite else "x", resumes=resumes), resumes


def _begun_member(dataset: OpenDataset, new: NewNode, mark: Mark, place: MarkedPlace) -> bool:
    """Make room for a new member of a dataset. Returns whether an earlier run has begun it.

    Raises
    ------
    ObjectExists : there is something that must not be overwritten.
    NotWritable : the documents above it cannot be replaced.
    """
    opened = dataset.engine_dataset
    if opened.zmap.features.write_once:
        raise NotWritable(f"{place.name}: nothing can be added to a dataset that is written once")
    if _resumes(place, mark, overwrite=new.overwrite):
        return True
    if new.overwrite:
        with suppress(NoSuchNode):
            dataset.editor.remove(new.path)
    elif opened.load(new.path) is not None:
        raise ObjectExists(f"{place.name}: a group or variable exists already")
    if next(iter(opened.zmap.search(place.prefix)), None) is not None:
        raise ObjectExists(f"{place.name}: something that is not a dataset exists already")
    return False


def _resumes(place: MarkedPlace, mark: Mark, *, overwrite: bool) -> bool:
    """Return whether this run continues an earlier one, whose remains it otherwise removes.

    Raises
    ------
    ObjectExists : they must not be removed. ForeignObjects : foreign files lie among them.
    """
    found = place.look()
    if found is None:
        return False
    place.check_left()
    if mark.plan and found.plan == mark.plan:
        return True
    if not overwrite:
        how = " of something else" if mark.plan and found.plan else ""
        raise ObjectExists(f"{place.name}: holds an unfinished {found.command or 'dataset'}{how}")
    place.clear()
    return False


def _remove_documents(zmap: ZMap, metadata_format: MetadataFormat, nodes: Sequence[str]) -> None:
    """Remove the documents of nodes at and below the root of a store."""
    keys = [parse_key(key) for path in nodes for key in metadata_format.single.keys(path)]
    if "" in nodes and metadata_format.copy is not None:
        keys.append(parse_key(metadata_format.copy.key))
    zmap.delete_many(keys)


def _remove_dataset(new: NewNode, store: ZMap) -> None:
    """Remove an existing dataset; anything else stays."""
    try:
        dataset = _opened(new, store, "r+")
    except NotADataset:
        return
    try:
        dataset.editor.remove("")
    finally:
        dataset.discard()


def _opened(new: NewNode, store: ZMap, mode: str, *, resumes: bool = False) -> OpenDataset:
    """Open the dataset of a store, which stays open when the dataset is closed."""
    place = new.place
    options = replace(
        new.engine_options, memory_limit_bytes=new.memory_limit_bytes // 2, cache_bytes_max=0
    )
    return open_zmap(
        KeptOpen(store),
        mode,
        format=new.format,
        consolidated=new.consolidated or "consolidated" in place.modes,
        metadata=format_options(place.modes, options),
        options=options,
        name=place.last_word,
        resumes=resumes,
    )


def _end(place: MarkedPlace, mark: Mark, notice: Notice) -> None:
    """Keep or remove an unfinished target."""
    can_resume = bool(mark.plan) and not place.zmap.features.write_once
    try:
        if can_resume:
            place.put(replace(mark, made_of=place.made_of).stopped())
            notice(f"{place.name}: is unfinished; the same command continues it")
        else:
            place.clear(force=True)
            notice(f"{place.name}: what was written there has been removed")
    except NczfsError as error:
        what = "could not be marked as unfinished" if can_resume else "could not be removed"
        notice(f"{place.name}: is incomplete, and {what}: {error}")
