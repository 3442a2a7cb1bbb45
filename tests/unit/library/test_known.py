"""The known datasets: what is kept of them, and for how long it is believed."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from nczfs.engine.dataset import Dataset, Engine
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.options import EngineOptions
from nczfs.formats.base import FormatOptions
from nczfs.library import known as known_module
from nczfs.library.editing import Editing
from nczfs.library.known import KnownDatasets
from nczfs.library.opening import open_zmap
from nczfs.library.resolved import At, Plain
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import Attribute
from nczfs.zmap.keys import Prefix, parse_prefix
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.wrappers import Prefixed

NAMES = ["a.zarr", "b.zarr", "c.zarr"]
NEW = parse_prefix("new.zarr")
OPTIONS = EngineOptions(flush_age_s=None)


@pytest.fixture
def store() -> MemoryZMap:
    store = MemoryZMap()
    for name in NAMES:
        with open_zmap(Prefixed(store, parse_prefix(name)), "w") as root:
            root.create_dimension("t", None)
            root.create_variable("r", ("t",), "i4", chunks=(4,))
    return store


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine(OPTIONS)
    yield engine
    engine.close()


def test_a_dataset_that_is_closed_for_room_keeps_its_pending_changes(
    store: MemoryZMap, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_module, "DATASETS_KEPT", 1)
    metadata = MetadataCache(store, OPTIONS, engine.pools, ledger=engine.ledger)
    known = KnownDatasets(engine, metadata, FormatOptions(), lambda _: None)
    editing = Editing(engine, metadata, FormatOptions(), lambda _, __: None)

    def at(name: str) -> At:
        found = known.resolve_root(parse_prefix(name))
        assert isinstance(found, At)
        return found

    editing.editor(at("a.zarr").dataset).set_attribute("r", Attribute("units", NcType.CHAR, "K"))
    for name in NAMES[1:]:
        at(name)
    gc.collect()
    node = at("a.zarr").dataset.node("r")
    assert [attribute.name for attribute in node.attributes] == ["units"]
    editing.sync()
    with open_zmap(Prefixed(store, parse_prefix("a.zarr"))) as root:
        assert root["r"].attrs["units"] == "K"


@pytest.mark.parametrize("change", ["made", "forget"])
def test_what_became_a_dataset_while_it_was_looked_at_is_one(
    store: MemoryZMap, engine: Engine, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """SEMANTICS D1: what was found is believed for a while, but not after a change made here."""
    metadata = MetadataCache(store, OPTIONS, engine.pools, ledger=engine.ledger)
    known = KnownDatasets(engine, metadata, FormatOptions(), lambda _: None)
    look = KnownDatasets._opened

    def looked_before(known: KnownDatasets, at: Prefix, wanted: str) -> Dataset | None:
        found = look(known, at, wanted)
        with open_zmap(Prefixed(store, at), "w"):  # as another thread does
            metadata.forget(at)
            getattr(known, change)(at)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(KnownDatasets, "_opened", looked_before)
        assert isinstance(known.resolve_root(NEW), Plain)
    assert isinstance(known.resolve_root(NEW), At)
