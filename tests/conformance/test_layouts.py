"""Every view keeps the promises of a layout."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from nczfs.engine.dataset import Dataset, Engine, open_dataset
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.formats.base import FormatOptions
from nczfs.model.hierarchy import GroupHeader, Variable
from nczfs.testing.datasets import put_array, put_group
from nczfs.testing.layouts import LayoutSuite
from nczfs.views import catalog
from nczfs.views.elements import ChunkElements
from nczfs.views.layout import Layout
from nczfs.views.segments import Run
from nczfs.zmap.keys import ROOT
from nczfs.zmap.memory import MemoryZMap

SHAPE = (5, 7, 6)
CHUNKS = {"rows": (1, 3, 6), "tiles": (2, 3, 4), "whole": (5, 7, 6), "wide": (9, 9, 9)}
DTYPES = {"f4": ">f4", "i2": "<i2", "c8": "<c8", "S3": "|S3", "bool": "|b1", "time": "<M8[s]"}


@pytest.fixture(scope="module")
def dataset() -> Iterator[Dataset]:
    """An array of each kind of chunks and of each dtype."""
    store = MemoryZMap()
    put_group(store, "", {"title": "layouts"})
    numbers = np.arange(np.prod(SHAPE)).reshape(SHAPE)
    for (chunks, shape), (name, dtype) in itertools.product(CHUNKS.items(), DTYPES.items()):
        values = numbers.astype("<i8").view("<M8[s]") if name == "time" else numbers.astype(dtype)
        put_array(store, f"{chunks}-{name}", values, shape, fill_value=None)
    engine = Engine()
    found = open_dataset(
        engine, MetadataCache(store, engine.options, engine.pools), ROOT, FormatOptions()
    )
    assert found is not None
    yield found
    engine.close()


def variable(dataset: Dataset, name: str) -> Variable:
    node = dataset.node(name)
    assert isinstance(node, Variable)
    return node


NAMES = [f"{chunks}-{dtype}" for chunks in CHUNKS for dtype in DTYPES]


class TestRaw(LayoutSuite):
    @pytest.fixture(params=NAMES)
    def layout(self, dataset: Dataset, request: pytest.FixtureRequest) -> Layout:
        views = catalog.variable_views(dataset, variable(dataset, request.param))
        return views["values.raw"].layout()


class TestNpy(LayoutSuite):
    @pytest.fixture(params=["rows-f4", "tiles-c8"])
    def layout(self, dataset: Dataset, request: pytest.FixtureRequest) -> Layout:
        views = catalog.variable_views(dataset, variable(dataset, request.param))
        return views["values.npy"].layout()


class TestText(LayoutSuite):
    @pytest.fixture(params=[f"tiles-{dtype}" for dtype in DTYPES])
    def layout(self, dataset: Dataset, request: pytest.FixtureRequest) -> Layout:
        views = catalog.variable_views(dataset, variable(dataset, request.param))
        return views["values.txt"].layout()


class TestChunk(LayoutSuite):
    @pytest.fixture(params=["rows-f4", "tiles-i2", "wide-S3"])
    def layout(self, dataset: Dataset, request: pytest.FixtureRequest) -> Layout:
        found = variable(dataset, request.param)
        last = tuple(count - 1 for count in found.array.grid.counts)
        return catalog.chunk_view(dataset, found, last).layout()

    @pytest.fixture
    def other(self, layout: Layout, whole: bytes) -> bytes:
        """Filler beyond the edge of the array stays what it is, whatever is written there."""
        (run,) = layout.segments
        assert isinstance(run, Run)
        assert isinstance(run.source, ChunkElements)
        grid = run.source.array.description.grid
        origin = grid.origin(run.source.chunk)
        inside = grid.box(run.source.chunk).relative_to(origin).slices()
        values = np.frombuffer(whole, run.source.dtype).reshape(grid.chunk_shape).copy()
        values[inside] = values[inside][::-1, ::-1, ::-1].copy()
        return values.tobytes()


class TestInfo(LayoutSuite):
    @pytest.fixture
    def layout(self, dataset: Dataset) -> Layout:
        return catalog.variable_views(dataset, variable(dataset, "rows-f4"))["info.json"].layout()


class TestCdl(LayoutSuite):
    @pytest.fixture
    def layout(self, dataset: Dataset) -> Layout:
        header = dataset.node("")
        assert isinstance(header, GroupHeader)
        return catalog.group_views(dataset, header, "layouts")["layouts.cdl"].layout()
