"""Making the groups and arrays of a hierarchy in a store.

Groups come before their members, and all groups before the arrays. The document that makes a node
visible is the last of its documents. So a hierarchy of which only a part could be written is valid.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import replace

from nczfs.engine.dataset import Dataset, Engine, open_dataset
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.options import EngineOptions, format_options
from nczfs.engine.stores import created_store
from nczfs.engine.structure.dependents import check_documents
from nczfs.engine.structure.removal import remove
from nczfs.errors import NameTaken, NotADataset, NotWritable, ObjectExists
from nczfs.formats.base import FormatOptions
from nczfs.formats.names import below
from nczfs.formats.registry import FORMATS
from nczfs.formats.zarr3.dependents import SPELLINGS, inherited_attributes
from nczfs.formats.zom.documents import documents_of, keys_of
from nczfs.formats.zom.nodes import ArrayV2, ArrayV3, Node, walk, with_members
from nczfs.formats.zom.reading import checked
from nczfs.zmap.base import ABSENT, ZMap
from nczfs.zmap.keys import ROOT, Key, parse_key
from nczfs.zmap.registry import StoreOptions
from nczfs.zmap.storable import storable
from nczfs.zmap.url import parse_url
from nczfs.zom.differences import Difference, diff, like
from nczfs.zom.stored import read_stored

NAMED_MAX = 10  # differences that a refusal names
WRITES_MAX = 64  # small documents at a time, if each is a round trip; 256 overload slow servers


def create(
    url: str,
    node: Node,
    *,
    overwrite: bool = False,
    shares_keys: bool = False,
    store_options: StoreOptions | None = None,
    options: EngineOptions | None = None,
) -> int:
    """Make a hierarchy at a URL, without values.

    Members that are unknown count as none. If the same hierarchy is there already, nothing is
    done, and its values stay.

    Parameters
    ----------
    overwrite : delete another hierarchy that is there, with its values.
    shares_keys : whether chunks of dependent arrays may lie at keys of other arrays.

    Returns
    -------
    the number of documents that were written.

    Raises
    ------
    BadMetadata : the hierarchy is wrong. NameTaken : another one is there; the message names the
        differences. NotADataset : something else is there. KeyTooLong, KeyNotText : the store
        cannot have the name of a member. BadValue : a dependent array cannot be read, or its chunks
        would be in the way of others. In all these cases, nothing is written.
    ForeignObjects : with `overwrite`, objects there belong to no dataset.
    LeaseNotHeld, NotWritable, StoreError.
    """
    node = checked(node)
    place = parse_url(url)
    formats = format_options(place.modes, options or EngineOptions())
    with created_store(place, store_options or StoreOptions()) as zmap:
        return create_in(
            zmap,
            node,
            overwrite=overwrite,
            shares_keys=shares_keys,
            formats=formats,
            options=options,
        )


def create_in(
    zmap: ZMap,
    node: Node,
    *,
    overwrite: bool = False,
    shares_keys: bool = False,
    formats: FormatOptions = FormatOptions(),  # noqa: B008 - frozen
    options: EngineOptions | None = None,
) -> int:
    """Make a hierarchy that fills an open store; see `create`."""
    node = known_members(checked(node))
    if not zmap.features.writable:
        raise NotWritable(f"{zmap.name}: this store is read-only")
    zmap.prepare_writing()
    engine = Engine(options)
    try:
        lease = engine.leases.of(zmap, ROOT)
        lease.require()
        lease.opened()  # until the engine is closed
        return _created(engine, zmap, formats, node, overwrite=overwrite, shares_keys=shares_keys)
    finally:
        engine.close()


def _created(
    engine: Engine,
    zmap: ZMap,
    options: FormatOptions,
    node: Node,
    *,
    overwrite: bool,
    shares_keys: bool,
) -> int:
    metadata = MetadataCache(zmap, engine.options, engine.pools, ledger=engine.ledger)
    new = FORMATS.named(f"zarr{node.zarr_format}", options)
    goal = Dataset(engine, metadata, ROOT, new, options)
    existing = open_dataset(engine, metadata, ROOT, options, writable=True)
    if existing is not None:
        stored = read_stored(existing)
        if not stored.problems and like(stored.node, node):
            return 0
        if not overwrite:
            raise NameTaken(_taken(zmap.name, diff(stored.node, node)))
        check_nodes(goal, "", node, shares_keys=shares_keys)
        remove(existing, "")
        metadata.forget(ROOT)
    elif next(iter(zmap.search(ROOT)), None) is not None:
        raise NotADataset(
            f"{zmap.name}: holds something that is not a dataset; nothing was deleted or written"
        )
    check_nodes(goal, "", node, shares_keys=shares_keys)
    return write_nodes(goal, "", node)


def check_nodes(dataset: Dataset, path: str, node: Node, *, shares_keys: bool = False) -> None:
    """Check that the store can have a hierarchy at a path of a dataset, with what arrays declare.

    Raises
    ------
    KeyTooLong, KeyNotText : it cannot have a document. BadValue : a dependent array cannot be read,
        or its chunks would be in the way of others.
    """
    names = keys_of(node.zarr_format)
    # A new dataset has another format until the hierarchy is written.
    single = FORMATS.named(f"zarr{node.zarr_format}", dataset.format_options)
    for at, each in walk(node):
        place = _joined(path, at)
        for key in names.keys(str(dataset.prefix(place))):
            storable(dataset.zmap, parse_key(key))
        if isinstance(each, ArrayV3) and not each.attributes.keys().isdisjoint(SPELLINGS):
            alone = replace(each, attributes=inherited_attributes(each.attributes))
            documents = [_documents(place, array) for array in (alone, each)]
            check_documents(single, place, *documents, shares_keys=shares_keys)


def _documents(path: str, node: Node) -> dict[str, bytes]:
    return {below(path, name): data for name, data in documents_of(node)}


def write_nodes(dataset: Dataset, path: str, node: Node) -> int:
    """Write the documents of a hierarchy at a path of an open dataset where nothing is.

    Returns
    -------
    the number of documents.

    Raises
    ------
    ObjectExists : something is there. StoreError. What was written before stays, and is valid.
    """
    zmap = dataset.zmap

    def write(at: str, each: Node) -> int:
        documents = list(documents_of(each))
        for number, (name, data) in enumerate(documents, start=1):
            key = parse_key(below(str(dataset.prefix(at)), name))
            try:
                zmap.write(key, data, replaces=ABSENT)
            except ObjectExists:
                # An attempt that failed has left what precedes the document of the node.
                if number == len(documents) or not _has(zmap, key, data):
                    raise
        return len(documents)

    count = 0
    own = ThreadPoolExecutor(WRITES_MAX) if dataset.is_far else None
    try:
        with own or nullcontext(dataset.engine.pools.edit) as pool:
            for batch in _batches(node):
                tasks = [pool.submit(write, _joined(path, at), each) for at, each in batch]
                count += _finished(tasks)
        zmap.flush()
    finally:
        dataset.joined(path)
    return count


def _joined(path: str, at: str) -> str:
    """Return the path of a node in its dataset, by that in a hierarchy at a path."""
    return below(path, at[1:]).strip("/")


def _has(zmap: ZMap, key: Key, data: bytes) -> bool:
    """Return whether an object that exists has just these bytes."""
    return bytes(zmap.read(key, 0, len(data) + 1).data) == data


def known_members(node: Node) -> Node:
    """Return a hierarchy in which members that are unknown are none."""
    if isinstance(node, ArrayV2 | ArrayV3):
        return node
    members = (node.members or {}).items()
    return with_members(node, {name: known_members(member) for name, member in members})


def _batches(node: Node) -> Iterator[list[tuple[str, Node]]]:
    """Yield what can be written together: the groups level by level, then all arrays."""
    groups: dict[int, list[tuple[str, Node]]] = {}
    arrays: list[tuple[str, Node]] = []
    for path, each in walk(node):
        if isinstance(each, ArrayV2 | ArrayV3):
            arrays.append((path, each))
        else:
            groups.setdefault(path.count("/"), []).append((path, each))
    for level in sorted(groups):
        yield groups[level]
    if arrays:
        yield arrays


def _finished(tasks: list[Future[int]]) -> int:
    """Return the sum of the results; after a failure, what has not begun is not done."""
    try:
        return sum(task.result() for task in tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        wait(tasks)
        raise


def _taken(name: str, difference: Difference) -> str:
    pointers = [p or "the root" for each in difference.pointers().values() for p in each]
    more = len(pointers) - NAMED_MAX
    rest = f" and {more} more" if more > 0 else ""
    places = f": it differs at {', '.join(pointers[:NAMED_MAX])}{rest}" if pointers else ""
    return f"{name}: another hierarchy is there{places}; nothing was written"
