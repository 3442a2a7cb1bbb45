"""Datasets of everything that is awkward to copy, and copies of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import nan
from typing import Any
from uuid import uuid4

import numpy as np

import nczfs
from nczfs.model import hierarchy as model
from nczfs.testing.datasets import put_array, put_json
from nczfs.tools.transfer.choices import Choices
from nczfs.tools.transfer.dataset_copy import Copy, planned_copy, run_copy
from nczfs.tools.transfer.intermediate import IntermediatePlace, Spread
from nczfs.tools.transfer.target import NewNode
from nczfs.tools.verify.digests import dataset_jobs, digests
from nczfs.tools.verify.findings import Severity
from nczfs.tools.verify.nodes import Nodes
from nczfs.tools.verify.subject import subject_at
from nczfs.zmap.registry import open_store
from tests.support.contents import objects_of

FIELD = np.arange(7 * 10, dtype="f4").reshape(7, 10)
TEXTS = np.array(["a", "bcd", "日本", ""], object)


def new_url() -> str:
    """A store in memory that nobody has yet."""
    return f"memory://{uuid4().hex}"


def fill_awkward(url: str, format_name: str) -> None:
    """Make a dataset with groups, dimensions and variables of all kinds."""
    is_pure = format_name == "zarr2"
    grows = format_name in ("nczarr-L3", "nczarr-L2l", "zarr2")
    with nczfs.open(url, "w", format=format_name) as root:
        root.attrs["title"] = "awkward"
        root.attrs["numbers"] = np.array([1, 2, 3], "i2")
        root.create_dimension("t", None if grows else 7)
        if grows:
            root.resize_dimension("t", 7)
        root.create_dimension("x", 10)
        root.create_dimension("none", 0)
        variable = root.create_variable("v", ("t", "x"), "f4", data=FIELD, chunks=(3, 4))
        variable.attrs["units"] = "K"
        variable.attrs["valid"] = np.array([0.5, nan])
        root.create_variable("hole", ("t", "x"), "f4", chunks=(3, 4))[0:3, 4:8] = 1
        root.create_variable("big", ("x",), np.arange(10, dtype=">i4").dtype, byte_order=">")[
            ...
        ] = np.arange(10)
        root.create_variable("scalar", (), data=np.float64(2.5))
        root.create_variable("empty", ("none", "x"), "i2", chunks=(2, 4))
        root.create_variable("nan", ("x",), "f8", fillvalue=nan, chunks=(4,))[2:5] = 1
        root.create_variable("unfilled", ("x",), "i4", fillvalue=None, chunks=(4,))[0:4] = 3
        root.create_variable("plain", ("x",), "u1", codecs=[], data=np.arange(10), chunks=(3,))
        root.create_variable("text", (4,), "S1", data=np.array(list("abcd"), "S1"))
        if format_name not in ("nczarr-L1", "nczarr-L2U"):
            root.create_variable("s", (4,), str, data=TEXTS, chunks=(3,))
        group = root.create_group("g", {"inside": "yes"})
        group.create_dimension("y", 3)
        group.create_variable("w", ("y", "x"), data=np.ones((3, 10), "i8"), chunks=(2, 10))
        group.create_group("empty group")
        group.create_variable("größe", ("x",), data=np.arange(10.0), codecs=[{"id": "gzip"}])
        if is_pure:
            add_pure(root)
    if is_pure:
        store = open_store(url)
        put_array(store, "slash", FIELD, (3, 4), separator="/", fill_value=-1)
        put_json(store, "slash/.zattrs", {"nested": {"a": [1, None]}, "flag": True})


def add_pure(root: nczfs.OpenDataset) -> None:
    """What NCZarr has no place for."""
    root.create_variable("bool", (5,), bool, data=np.array([1, 0, 1, 1, 0], bool))
    root.create_variable("complex", (3,), "c16", data=np.array([1, 2j, 3]))
    root.create_variable("when", (2,), "M8[s]", data=np.array([1, 2], "M8[s]"))
    root.create_variable("wide", (2,), "U3", data=np.array(["abc", "ä"]))
    root.create_variable("cells", (2,), "S4", data=np.array([b"ab", b"abcd"]))
    pairs = np.zeros(3, [("a", "<i4"), ("b", "<f4", (2,))])
    root.create_variable("pairs", (3,), pairs.dtype, data=pairs)


def copied(
    source: str,
    target: str,
    *,
    node: str = "",
    path: str = "",
    choices: Choices | None = None,
    format: str | None = None,
    progress: Callable[[float], object] = lambda _: None,
    memory_limit_bytes: int = 1 << 20,
    spread: Callable[[Copy], Spread] | None = None,
    place: IntermediatePlace | None = None,
    threads: int = 1,
    **options: Any,
) -> list[str]:
    """Copy, as ``nczfs cp`` does. Gives the lines that the user gets.

    Parameters
    ----------
    node : of the source.
    path : of the new node in a dataset that is there.
    format : None: as the source has it.
    place : for intermediate datasets.
    threads : of other processes, for which the pieces are cut.
    """
    lines: list[str] = []
    with nczfs.open(source) as root:
        found = root[node] if node else root
        if not node and isinstance(root, nczfs.OpenDataset) and not root.groups:
            only = list(root.variables.values())
            found = only[0] if len(only) == 1 and only[0].description.key == "" else root
        new = NewNode(
            target,
            path,
            format=format or root.engine_dataset.format.single.name,
            memory_limit_bytes=memory_limit_bytes,
            **options,
        )
        metadata_format = new.metadata_format
        if path:
            with nczfs.open(target) as other:
                metadata_format = other.engine_dataset.format.single
        plan = planned_copy(
            found,
            source,
            new,
            metadata_format,
            choices or Choices(),
            lines.append,
            skip_unsupported=False,
        )
        run = None if spread is None else spread(plan)
        run_copy(plan, lines.append, progress, run, place, threads)
    return lines


def variable(dataset: nczfs.OpenDataset, path: str) -> nczfs.Variable:
    """A variable of an open dataset."""
    found = dataset[path]
    assert isinstance(found, nczfs.Variable)
    return found


def objects(url: str) -> dict[str, bytes]:
    """All that a store holds."""
    return objects_of(open_store(url))


def parsed(url: str) -> dict[str, object]:
    """The same, documents parsed."""
    chunks = chunk_keys(url)
    return {key: data if key in chunks else json.loads(data) for key, data in objects(url).items()}


def chunk_keys(url: str) -> set[str]:
    """The keys of chunks."""
    return {key for key in objects(url) if key.rpartition("/")[2].replace(".", "").isdecimal()}


def checksums(url: str, path: str = "") -> dict[str, str]:
    """What ``nczfs verify --digest`` prints, by paths from a node on."""
    with subject_at(url) as subject:
        nodes = Nodes(subject)
        errors = [f.line for f in nodes.walk(path) if f.severity is Severity.ERROR]
        assert errors == []
        jobs = dataset_jobs(subject, nodes)
        found = {digest.path: digest.value for digest in digests(jobs, None)}
    assert all(found.values())
    return {name.removeprefix(f"/{path}" if path else ""): value for name, value in found.items()}


def described(url: str, path: str = "") -> dict[str, Any]:
    """Groups and variables from a node on, by their paths, without what depends on the place."""
    with nczfs.open(url) as root:
        node = root[path] if path else root
        assert isinstance(node, nczfs.Group)
        found: dict[str, Any] = {}
        _describe(node.tree(), path, found)
    return found


def _describe(group: model.Group, base: str, found: dict[str, Any]) -> None:
    dimensions = sorted((d.name, d.size, d.unlimited) for d in group.dimensions if not d.anonymous)
    found[group.header.path.removeprefix(base)] = (group.header.attributes, dimensions)
    for variable in group.variables:
        found[variable.path.removeprefix(base)] = variable_of(variable, base)
    for child in group.groups:
        _describe(child, base, found)


def variable_of(variable: model.Variable, base: str) -> object:
    """A variable without its place; as text, since a fill value may be NaN."""
    dimensions = [
        (d.name, d.size, d.unlimited, d.group.removeprefix(base), d.anonymous)
        for d in variable.dimensions
    ]
    return repr((variable.array, dimensions, variable.attributes, variable.problems))
