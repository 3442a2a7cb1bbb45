"""A dataset is copied file by file, in whatever order a program goes, and the copy is equal."""

from __future__ import annotations

import itertools
import os
from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nczfs.engine.dataset import Engine
from nczfs.errors import NoSuchPath
from nczfs.library.opening import open_zmap
from nczfs.tools.verify.digests import dataset_jobs, digests
from nczfs.tools.verify.nodes import Nodes
from nczfs.tools.verify.subject import subject_of
from nczfs.vfs.base import FileKind, HandleNo
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import parse_prefix
from nczfs.zmap.registry import open_store
from nczfs.zmap.wrappers import Prefixed
from tests.support.hierarchies import FORMATS, comparable, groups, make
from tests.support.trees import exists, listing, read
from tests.support.writing import mkdir, split

_stores = itertools.count()


class Copier:
    """A program that copies a tree: each directory before what is in it, and else in any order.

    Parameters
    ----------
    data : decides about the order, and how each file is made.
    source, target : file systems, which may be the same.
    """

    def __init__(self, data: st.DataObject, source: TreeFileSystem, target: TreeFileSystem) -> None:
        self._data = data
        self._source = source
        self._target = target
        self._open: list[HandleNo] = []

    def copy(self, source: str, target: str) -> None:
        self._directory(source, target)
        self._close(0)

    def _directory(self, source: str, target: str) -> None:
        assert not exists(self._target, target)
        mkdir(self._target, target)
        entries = sorted(listing(self._source, source).items())
        for name, attributes in self._data.draw(st.permutations(entries), "order"):
            if attributes.kind is FileKind.DIRECTORY:
                self._directory(f"{source}/{name}", f"{target}/{name}")
            else:
                self._file(read(self._source, f"{source}/{name}"), target, name)
                assert attributes.size in (0, len(read(self._source, f"{source}/{name}")))

    def _file(self, content: bytes, directory: str, name: str) -> None:
        way = self._data.draw(st.sampled_from(["exclusive", "truncated", "renamed"]), "way")
        path = f"{directory}/{name if way != 'renamed' else f'.{name}.aB3xYz'}"
        with suppress(NoSuchPath):
            assert not self._target.lookup(*split(self._target, path))
        flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if way == "truncated" else os.O_EXCL)
        opened, _ = self._target.create(*split(self._target, path), flags, 0o644)
        cut = self._data.draw(st.integers(0, len(content)), "cut")
        for start, stop in ((0, cut), (cut, len(content))):
            if stop > start:
                self._target.write(opened.handle, start, content[start:stop])
        self._open.append(opened.handle)
        if way == "renamed":
            self._close(0)
            old, new = split(self._target, path), split(self._target, f"{directory}/{name}")
            self._target.rename(*old, *new, replace=True)
        else:
            self._close(self._data.draw(st.sampled_from([0, 0, 2]), "left open"))

    def _close(self, left: int) -> None:
        """Close all files but the last ones."""
        while len(self._open) > left:
            handle = self._open.pop(0)
            self._target.flush(handle)
            self._target.release(handle)


def described(store: ZMap, name: str) -> tuple[str, dict[str, str]]:
    """What somebody reads there who shares nothing with the mount, and digests of the values."""
    zmap = Prefixed(store, parse_prefix(name))
    with open_zmap(zmap) as root:
        assert root.problems == ()
        tree = comparable(root.tree())
    engine = Engine()
    subject = subject_of(zmap, engine)
    nodes = Nodes(subject)
    list(nodes.walk())
    found = {each.path: each.value for each in digests(dataset_jobs(subject, nodes), None)}
    assert "" not in found.values()
    engine.close()
    return tree, found


def mounted(url: str, *views: str, **options: Any) -> TreeFileSystem:
    chosen = VfsOptions(views=frozenset(views), **options)
    return mount_tree(url, options=chosen)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.data(), st.sampled_from(FORMATS), st.booleans())
def test_a_copy_is_equal_whatever_was_made_first(
    data: st.DataObject, layout: str, between: bool
) -> None:
    """SEMANTICS W28."""
    wanted = data.draw(groups(layout, {}), "dataset")
    source_url, target_url = (f"memory://copied{next(_stores)}" for _ in range(2))
    store = open_store(source_url)
    with open_zmap(Prefixed(store, parse_prefix("a.zarr")), "w", format=layout) as root:
        make(root, wanted)
    target_store = open_store(target_url) if between else store
    source = mounted(source_url, "copy", read_only=between)
    target = mounted(target_url, "copy", read_only=False) if between else source
    Copier(data, source, target).copy("datasets/a.zarr", "datasets/b.zarr")
    assert described(target_store, "b.zarr") == described(store, "a.zarr")
    for fs in {id(fs): fs for fs in (source, target)}.values():
        fs.close()
    assert described(target_store, "b.zarr") == described(store, "a.zarr")
