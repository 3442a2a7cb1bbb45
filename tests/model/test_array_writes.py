"""Reading and writing variables does what it does to one numpy array in memory, bit for bit."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from nczfs.engine.options import EngineOptions
from nczfs.library.api import OpenDataset
from nczfs.library.opening import open_zmap
from nczfs.library.variable import Variable
from nczfs.testing import indexing
from nczfs.zmap.keys import parse_key
from nczfs.zmap.memory import MemoryZMap
from tests.support.sharded import all_sharded

NETCDF_TYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")
ZARR_TYPES = (*NETCDF_TYPES, "f2", "?", "c8", "c16", "S1", "S5", "U3", "M8[s]")
CODECS: tuple[list[dict[str, Any]], ...] = (
    [],
    [{"id": "zlib", "level": 1}],
    [{"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 1}],
    [{"id": "zstd", "level": 1}],
)
BUDGETS = (0, 1, 3000, 20_000, 1 << 20)

shapes = st.lists(st.integers(0, 7), max_size=4).map(tuple)


def any_value(data: st.DataObject, dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "U":
        return np.array(data.draw(st.text("aé\U0001f600", max_size=3)), dtype)
    return data.draw(indexing.values_of((), dtype))


def any_values(data: st.DataObject, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "U":
        return np.resize(np.array([any_value(data, dtype) for _ in range(3)]), shape)
    return data.draw(indexing.values_of(shape, dtype))


class OneVariable(RuleBasedStateMachine):
    """One variable against one array, written and read by every kind of index."""

    dataset: OpenDataset
    model: np.ndarray[Any, np.dtype[Any]]

    @initialize(data=st.data(), shape=shapes)
    def create(self, data: st.DataObject, shape: tuple[int, ...]) -> None:
        self.zmap = MemoryZMap()
        self.budget = data.draw(st.sampled_from(BUDGETS), "budget")
        layout = data.draw(st.sampled_from(("nczarr-L3", "nczarr-L1", "zarr2")), "format")
        types = ZARR_TYPES if layout == "zarr2" else NETCDF_TYPES
        dtype = np.dtype(data.draw(st.sampled_from(types), "dtype"))
        fill = any_value(data, dtype) if data.draw(st.booleans(), "has fill") else None
        self.dataset = self.opened("w", layout, data.draw(st.sampled_from("./"), "separator"))
        self.dataset.create_variable(
            "v",
            shape,
            dtype,
            fillvalue=None if fill is None else fill[()],
            chunks=[data.draw(st.integers(1, max(1, n + 2)), "chunk") for n in shape],
            codecs=data.draw(st.sampled_from(CODECS), "codecs"),
            byte_order=data.draw(st.sampled_from("<>"), "order"),
        )
        if data.draw(st.booleans(), "is Fortran"):
            self.dataset.close()
            key = parse_key("v/.zarray")
            document = json.loads(bytes(self.zmap.read(key).data))
            self.zmap.write(key, json.dumps({**document, "order": "F"}).encode())
            self.dataset = self.opened("r+")
        self.model = np.zeros(shape, dtype)
        if fill is not None:
            # A NaN has one spelling in JSON, its other bits are not kept there.
            self.model[...] = self.variable.fill_value

    def opened(self, mode: str, layout: str | None = None, separator: str = ".") -> OpenDataset:
        options = EngineOptions(
            memory_limit_bytes=self.budget, cache_bytes_max=0, store_threads=2, decode_threads=2
        )
        return open_zmap(self.zmap, mode, format=layout, separator=separator, options=options)

    @property
    def variable(self) -> Variable:
        return self.dataset.variables["v"]

    @rule(data=st.data())
    def write(self, data: st.DataObject) -> None:
        index = data.draw(indexing.indices(self.model.shape))
        wanted = indexing.result_shape(self.model.shape, index)
        values = any_values(data, data.draw(indexing.narrowed(wanted)), self.model.dtype)
        self.variable[index] = values
        indexing.write(self.model, index, values)

    @rule(data=st.data())
    def write_back_what_was_read(self, data: st.DataObject) -> None:
        index = data.draw(indexing.indices(self.model.shape))
        self.variable[index] = self.variable[index]

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        index = data.draw(indexing.indices(self.model.shape))
        assert indexing.same_bits(self.variable[index], indexing.read(self.model, index))

    @rule()
    def sync(self) -> None:
        self.dataset.sync()
        assert self.dataset._dataset.engine.writeback.dirty_bytes == 0
        with self.opened("r") as other:
            assert indexing.same_bits(other.variables["v"][...], self.model)

    @rule(budget=st.sampled_from(BUDGETS))
    def reopen(self, budget: int) -> None:
        self.dataset.close()
        self.budget = budget
        self.dataset = self.opened("r+")

    @invariant()
    @precondition(lambda self: hasattr(self, "model"))
    def dirty_chunks_keep_to_their_share(self) -> None:
        engine = self.dataset._dataset.engine
        assert engine.writeback.memory_bytes <= engine.cache.limit_bytes // 2

    def teardown(self) -> None:
        if hasattr(self, "model"):
            assert indexing.same_bits(self.variable[...], self.model)
            self.dataset.close()
            with self.opened("r") as other:
                assert indexing.same_bits(other.variables["v"][...], self.model)


class OneVariableInShards(OneVariable):
    """The same variable, with its chunks in shards."""

    @initialize(data=st.data(), shape=shapes)
    def create(self, data: st.DataObject, shape: tuple[int, ...]) -> None:
        counts = st.lists(st.integers(1, 3), min_size=1, max_size=3)
        levels = data.draw(st.lists(counts, min_size=1, max_size=2), "levels")
        self.shards = ExitStack()
        at_end = data.draw(st.booleans(), "index at the end")
        self.shards.enter_context(all_sharded(*levels, index_at_end=at_end))
        super().create(data, shape)

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "shards"):
            self.shards.close()


class SharedDimensions(RuleBasedStateMachine):
    """Variables that share unlimited dimensions, longer and shorter, against arrays."""

    SHAPES = (
        ("a", ("t",), (3,), "i4", 7),
        ("b", ("t", "x"), (2, 2), "f8", None),
        ("c", ("u", "t"), (2, 3), "i2", -1),
        ("d", ("t", "t"), (2, 2), "u1", 9),
        ("g/e", ("u", "x", "t"), (1, 3, 4), "f4", float("nan")),
        ("f", ("x",), (2,), "i8", 5),
    )

    @initialize(
        layout=st.sampled_from(("nczarr-L3", "nczarr-L2l", "zarr2", "zarr3", "zarr3 in shards")),
        budget=st.sampled_from(BUDGETS),
    )
    def create(self, layout: str, budget: int) -> None:
        self.zmap = MemoryZMap()
        self.budget = budget
        self.grows = layout != "zarr2"
        self.lengths = {"t": 0 if self.grows else 2, "u": 0 if self.grows else 3, "x": 3}
        layout, _, in_shards = layout.partition(" in ")
        self.dataset = open_zmap(self.zmap, "w", format=layout, options=self.options())
        for name, length in self.lengths.items():
            is_unlimited = name != "x" and self.grows
            self.dataset.create_dimension(name, None if is_unlimited else length)
        self.dataset.create_group("g")
        self.models: dict[str, Any] = {}
        self.fills: dict[str, Any] = {}
        for path, dimensions, chunks, dtype, fill in self.SHAPES:
            if "/" in path and not layout.startswith("nczarr"):
                continue  # a group of pure Zarr sees no dimensions but its own
            group, _, name = path.rpartition("/")
            place = self.dataset[group] if group else self.dataset
            place.create_variable(  # type: ignore[union-attr]
                name,
                dimensions,
                dtype,
                chunks=chunks,
                shards=tuple(2 * length for length in chunks) if in_shards else None,
                fillvalue=fill,
            )
            self.models[path] = np.full(
                tuple(self.lengths[name] for name in dimensions), fill or 0, dtype
            )
            self.fills[path] = fill or 0
        self.dimensions = {path: dimensions for path, dimensions, *_ in self.SHAPES}

    def options(self) -> EngineOptions:
        return EngineOptions(
            memory_limit_bytes=self.budget, cache_bytes_max=0, store_threads=2, decode_threads=2
        )

    def variable(self, path: str) -> Any:
        return self.dataset[path]

    def resized(self, lengths: dict[str, int]) -> None:
        self.lengths = lengths
        for path, old in self.models.items():
            shape = tuple(lengths[name] for name in self.dimensions[path])
            new = np.full(shape, self.fills[path], old.dtype)
            kept = tuple(slice(min(a, b)) for a, b in zip(shape, old.shape, strict=True))
            new[kept] = old[kept]
            self.models[path] = new

    @precondition(lambda self: self.grows)
    @rule(data=st.data())
    def write_beyond(self, data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(sorted(self.models)))
        index: list[slice] = []
        lengths = dict(self.lengths)
        for name in self.dimensions[path]:
            start = data.draw(st.integers(0, lengths[name] + 2 if name != "x" else 2))
            stop = start + data.draw(st.integers(1, 3 if name != "x" else 3 - start))
            index.append(slice(start, stop))
        for name, part in zip(self.dimensions[path], index, strict=True):
            lengths[name] = max(lengths[name], part.stop)
        values = data.draw(
            indexing.values_of(
                tuple(part.stop - part.start for part in index), self.models[path].dtype
            )
        )
        self.variable(path)[tuple(index)] = values
        self.resized(lengths)
        self.models[path][tuple(index)] = values

    @precondition(lambda self: self.grows)
    @rule(data=st.data(), count=st.integers(1, 4))
    def append(self, data: st.DataObject, count: int) -> None:
        values = data.draw(indexing.values_of((count, 3), np.dtype("f8")))
        start = self.lengths["t"]
        self.variable("b")[start:] = values
        self.resized({**self.lengths, "t": start + count})
        self.models["b"][start:] = values

    @rule(data=st.data())
    def write_within(self, data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(sorted(self.models)))
        model = self.models[path]
        index = tuple(
            data.draw(indexing.along(length)) if length else data.draw(st.just([]))
            for length in model.shape
        )
        values = data.draw(
            indexing.values_of(indexing.result_shape(model.shape, index), model.dtype)
        )
        self.variable(path)[index] = values
        indexing.write(model, index, values)

    @rule(data=st.data(), size=st.integers(0, 9))
    def resize(self, data: st.DataObject, size: int) -> None:
        name = data.draw(st.sampled_from(("t", "u")))
        self.dataset.resize_dimension(name, size)
        self.resized({**self.lengths, name: size})

    @rule()
    def sync(self) -> None:
        self.dataset.sync()
        with open_zmap(self.zmap, "r", options=self.options()) as other:
            self.compare(other)

    @rule(budget=st.sampled_from(BUDGETS))
    def reopen(self, budget: int) -> None:
        self.dataset.close()
        self.budget = budget
        self.dataset = open_zmap(self.zmap, "r+", options=self.options())

    @invariant()
    @precondition(lambda self: hasattr(self, "dimensions"))
    def everything_is_as_in_the_arrays(self) -> None:
        self.compare(self.dataset)

    def compare(self, dataset: OpenDataset) -> None:
        assert not dataset.problems
        for path, model in self.models.items():
            variable = dataset[path]
            assert isinstance(variable, Variable)
            assert not variable.problems
            assert indexing.same_bits(variable[...], model), path
        if self.grows:
            found = {name: d.size for name, d in dataset.dimensions.items()}
            assert found == self.lengths

    def teardown(self) -> None:
        if hasattr(self, "dimensions"):
            self.dataset.close()
            with open_zmap(self.zmap, "r", options=self.options()) as other:
                self.compare(other)


TestOneVariable = OneVariable.TestCase
TestOneVariable.settings = settings(max_examples=40, stateful_step_count=12, deadline=None)

TestOneVariableInShards = OneVariableInShards.TestCase
TestOneVariableInShards.settings = settings(max_examples=40, stateful_step_count=12, deadline=None)

TestSharedDimensions = SharedDimensions.TestCase
TestSharedDimensions.settings = settings(max_examples=25, stateful_step_count=12, deadline=None)
