"""``nczfs.open``: from a URL and a mode to an open dataset."""

from __future__ import annotations

import os
from collections.abc import Callable

from nczfs.engine.dataset import Dataset, Engine, open_dataset
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.options import EngineOptions, format_options
from nczfs.engine.stores import create_store, open_store
from nczfs.engine.structure.editor import Editor
from nczfs.engine.structure.ownership import (
    REPLACING,
    check_no_foreign,
    has_mark,
    left_text,
    owned_by,
)
from nczfs.engine.structure.stepwise import Stepwise
from nczfs.errors import (
    BadUrl,
    NamesUnknown,
    NoContent,
    NoSuchNode,
    NotADataset,
    NotWritable,
    ObjectExists,
    StoreError,
    UsageError,
)
from nczfs.formats.base import FormatOptions
from nczfs.formats.registry import new_format
from nczfs.library.api import OpenDataset, RootArray
from nczfs.library.origin import Origin, absolute
from nczfs.model.hierarchy import GroupHeader, Variable
from nczfs.plaindata import frozen
from nczfs.zmap import keys
from nczfs.zmap.base import ZMap
from nczfs.zmap.parenturl import parent
from nczfs.zmap.registry import StoreOptions
from nczfs.zmap.url import StoreUrl, parse_url

DEPENDENT_LEVELS_MAX = 8  # as deep as dependent arrays go

MODES = {
    "r": "reading",
    "r+": "reading and writing what is there",
    "a": "reading and writing; made if nothing is there",
    "w": "replaced by a new one; what was there is deleted",
    "x": "made; an error if something is there",
}


def open_url(
    url: str | os.PathLike[str],
    mode: str = "r",
    *,
    format: str | None = None,
    consolidated: bool = False,
    separator: str | None = None,
    store_options: StoreOptions | None = None,
    options: EngineOptions | None = None,
) -> OpenDataset:
    """Open the dataset at a URL.

    Parameters
    ----------
    url : a path, ``s3://…``, ``https://…``, with a netcdf-c fragment or without.
    mode : "r": reading; "r+": reading and writing; "a": the same, and the dataset is made if
        nothing is there; "w": a new dataset is made, and what was there is deleted; "x": the
        dataset is made, and nothing may be there.
    format : of a dataset that is made: "nczarr-L3" (also "nczarr", the default), "nczarr-L2l",
        "nczarr-L2U", "nczarr-L1", "zarr2" (also "zarr"), "zarr3"; None: what the mode words of
        the URL say.
    consolidated : write consolidated metadata, too. An existing one is kept up to date in any case.
    separator : of the chunk keys of new variables, "." or "/"; None: "/" in Zarr v3, else ".".

    Returns
    -------
    OpenDataset : its root group. A dataset whose root is an array becomes a group with one
        variable.

    Raises
    ------
    NotADataset : nothing at the URL is a group or an array; or, for "w", it holds something else.
    ObjectExists : mode "x", and something is there.
    ForeignObjects : mode "w", and there are objects that belong to no dataset.
    LeaseNotHeld : another process is writing to a store without conditional writes.
    BadUrl, UsageError, MetadataError, StoreError.
    """
    _check(mode, separator)
    form = DatasetForm(format, consolidated, separator)
    return _open(os.fsdecode(url), mode, form, store_options, options, None)


def open_with(engine: Engine, url: str, store_options: StoreOptions | None = None) -> OpenDataset:
    """Open a dataset for reading, with an engine that others use, too, and that stays open.

    Raises
    ------
    as `open_url`.
    """
    return _open(url, "r", DatasetForm(), store_options, engine.options, engine)


@frozen
class DatasetForm:
    """How a dataset is made or written; see `open_url`."""

    format: str | None = None
    consolidated: bool = False
    separator: str | None = None


def _open(
    url: str,
    mode: str,
    form: DatasetForm,
    store_options: StoreOptions | None,
    options: EngineOptions | None,
    engine: Engine | None,
) -> OpenDataset:
    place = parse_url(url)
    metadata = format_options(place.modes, options or EngineOptions())
    new_format(form.format, metadata)  # checked before a directory is made
    opener = create_store if mode in ("a", "w", "x") else open_store

    def opened(place: StoreUrl, dependent: str = "") -> OpenDataset:
        return open_zmap(
            opener(place, store_options or StoreOptions()),
            mode,
            format=form.format,
            consolidated=form.consolidated,
            separator=form.separator,
            metadata=metadata,
            options=options,
            engine=engine,
            name=dependent.rpartition("/")[2] or place.last_word,
            dependent=dependent,
        )

    try:
        found = opened(place)
    except (NotADataset, NoContent):
        dependent = _dependent_at(url, opened) if mode in ("r", "r+") else None
        if dependent is None:
            raise
        found = dependent
    found.origin = Origin(absolute(url), store_options, options)
    return found


def _dependent_at(url: str, opened: Callable[[StoreUrl, str], OpenDataset]) -> OpenDataset | None:
    """Open an array that another one declares, at a URL without objects; None: there is none."""
    path = ""
    for _ in range(DEPENDENT_LEVELS_MAX):
        step = parent(url)
        if step is None:
            break
        url, path = step[0], f"{step[1]}/{path}".rstrip("/")
        try:
            return opened(parse_url(url), path)
        except (NotADataset, NoContent, BadUrl):
            continue
        except NoSuchNode:  # there is another dataset
            break
    return None


def open_zmap(
    zmap: ZMap,
    mode: str = "r",
    *,
    format: str | None = None,
    consolidated: bool = False,
    separator: str | None = None,
    metadata: FormatOptions = FormatOptions(),  # noqa: B008 - frozen
    options: EngineOptions | None = None,
    engine: Engine | None = None,
    name: str = "array",
    resumes: bool = False,
    dependent: str = "",
) -> OpenDataset:
    """Open the dataset that fills a store, which is closed with it. As `open_url`, except for

    Parameters
    ----------
    metadata : how the documents are read and written.
    engine : that others use, too, and that stays open; None: one with the given options.
    name : of the variable, when the root is an array.
    resumes : with mode "x": existing objects are from an earlier attempt to make the same dataset.
    dependent : the path of a dependent array of the one at the root, which is opened instead.

    Raises
    ------
    NoSuchNode : there is no such dependent array.
    """
    _check(mode, separator)
    named = new_format(format, metadata)
    if mode != "r" and not zmap.features.writable:
        zmap.close()
        raise NotWritable(f"{zmap.name}: this store is read-only")
    if mode != "r":
        try:
            zmap.prepare_writing()
        except BaseException:
            zmap.close()
            raise
    own = engine is None
    engine = engine or Engine(options)
    lease = engine.leases.of(zmap, keys.ROOT)
    cache = MetadataCache(zmap, engine.options, engine.pools, ledger=engine.ledger)

    def close() -> None:
        if own:
            engine.close()
        else:
            for array in engine.arrays.within(zmap, keys.ROOT):
                engine.cache.discard(array)
            cache.forget(keys.ROOT)
        zmap.close()

    try:
        if mode != "r":
            lease.require()
            lease.opened()  # until the dataset is closed
        dataset = None if resumes else _existing(engine, cache, metadata, mode)
        if dataset is not None:
            return _opened(dataset, mode, name, separator, close, consolidated, dependent)
        dataset = Dataset(engine, cache, keys.ROOT, named, metadata)
        return _created(dataset, separator, close, consolidated=consolidated)
    except BaseException:
        close()
        raise


def _check(mode: str, separator: str | None) -> None:
    if mode not in MODES:
        known = ", ".join(repr(word) for word in MODES)
        raise UsageError(f"mode {mode!r} is not one of {known}")
    if separator not in (None, ".", "/"):
        raise UsageError(f"separator {separator!r} is neither '.' nor '/'")


def _existing(
    engine: Engine, metadata: MetadataCache, options: FormatOptions, mode: str
) -> Dataset | None:
    """Return the dataset to open; None: one has to be made, and the place is free."""
    zmap = metadata.zmap
    dataset = None
    if mode != "x":
        dataset = open_dataset(engine, metadata, keys.ROOT, options, writable=mode != "r")
    if mode in ("r", "r+"):
        if dataset is None:
            if mode == "r+" and _completed(engine, metadata):
                return _existing(engine, metadata, options, mode)
            raise _no_dataset(zmap)
        return dataset
    if dataset is not None and mode == "a":
        return dataset
    if dataset is not None:
        _delete_all(zmap, dataset)
        metadata.forget(keys.ROOT)
    elif next(iter(zmap.search(keys.ROOT)), None) is not None:
        if mode != "x" and _completed(engine, metadata):
            return _existing(engine, metadata, options, mode)
        if mode == "x":
            raise ObjectExists(f"{zmap.name}: something is there already")
        raise NotADataset(
            f"{zmap.name}: holds something that is not a dataset; nothing was deleted or written"
        )
    return None


def _completed(engine: Engine, metadata: MetadataCache) -> bool:
    """Complete a replacement of the dataset that a killed process has left, if there is one."""
    zmap = metadata.zmap
    if not has_mark(zmap, REPLACING) or not Stepwise(zmap, keys.ROOT, engine.leases).complete():
        return False
    metadata.forget(keys.ROOT)
    return True


def _no_dataset(zmap: ZMap) -> NotADataset:
    """Return the error for a place without a dataset, or with an unfinished one."""
    return NotADataset(
        left_text(zmap) or f"{zmap.name}: no Zarr or NCZarr group or array; {_remedy(zmap)}"
    )


def _remedy(zmap: ZMap) -> str:
    """Return what to do about a place without a dataset, or why nothing can be found there."""
    if not zmap.features.lists_all:
        try:
            next(iter(zmap.search(keys.ROOT)), None)
        except NamesUnknown as error:
            return str(error).removeprefix(f"{zmap.name}: ")
        except StoreError:
            pass
    return "give the URL of a dataset (`nczfs ls` lists what is there)"


def _delete_all(zmap: ZMap, dataset: Dataset) -> None:
    """Delete a dataset, the documents that make it visible first.

    Raises
    ------
    ForeignObjects : other files lie there, too; nothing was deleted.
    """
    found = [stat.key for stat in zmap.list(keys.ROOT)]
    check_no_foreign(zmap.name, keys.ROOT, owned_by(dataset, "", found).foreign)
    for key in found:
        if "/" not in key:
            zmap.delete(key)
    zmap.delete_many(key for key in found if "/" in key)


def _opened(
    dataset: Dataset,
    mode: str,
    name: str,
    separator: str | None,
    close: Callable[[], None],
    consolidated: bool,
    dependent: str,
) -> OpenDataset:
    root = dataset.node(dependent)
    if dependent and not (isinstance(root, Variable) and root.is_dependent):
        raise NoSuchNode(f"{dataset.url(dependent)}: is no dependent array")
    editor = None
    if mode != "r":
        editor = _editor(dataset, separator, consolidated=consolidated)
    if not isinstance(root, GroupHeader):
        return RootArray(dataset, root, name, editor, close)
    return OpenDataset(dataset, root, editor, close)


def _created(
    dataset: Dataset,
    separator: str | None,
    close: Callable[[], None],
    *,
    consolidated: bool,
) -> OpenDataset:
    editor = _editor(dataset, separator, consolidated=consolidated)
    editor.create_root()
    return OpenDataset(dataset, dataset.node(""), editor, close)


def _editor(dataset: Dataset, separator: str | None, *, consolidated: bool) -> Editor:
    dataset.copy.is_wanted = consolidated
    return Editor(dataset, separator)
