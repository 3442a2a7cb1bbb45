"""The consolidated copy, beside what another program makes of the same documents."""

from __future__ import annotations

import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import zarr

import nczfs
from nczfs.engine.dataset import Dataset
from nczfs.engine.structure.renaming import _Renaming
from nczfs.errors import AccessDenied, Unavailable
from nczfs.formats.base import FormatOptions
from nczfs.formats.registry import FORMATS
from nczfs.library.opening import open_zmap
from nczfs.testing.faults import Fault, Faulty
from nczfs.zmap.keys import ROOT, parse_key
from nczfs.zmap.memory import MemoryZMap
from tests.support.between import take_once
from tests.support.gated import WAIT_S, GatedZMap

LAYOUTS = ("nczarr-L3", "nczarr-L2l", "nczarr-L2U", "zarr2")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_consolidated_copy_is_what_zarr_python_makes(tmp_path: Path, layout: str) -> None:
    place = tmp_path / "d.zarr"
    with nczfs.open(str(place), "w", format=layout, consolidated=True) as dataset:
        dataset.attrs["title"] = "t"
        dataset.create_dimension("x", 3)
        variable = dataset.create_variable("v", ("x",), "f4", fillvalue=np.nan)
        dataset.sync()
        variable.attrs["units"] = "m"
        dataset.create_group("g/h").create_variable("w", (), "i2", data=1)
        dataset.create_group("empty")
    ours = json.loads((place / ".zmetadata").read_text())
    zarr.consolidate_metadata(str(place), zarr_format=2)
    theirs = json.loads((place / ".zmetadata").read_text())
    assert ours.keys() == theirs.keys()
    assert ours["zarr_consolidated_format"] == theirs["zarr_consolidated_format"] == 1
    for key, document in theirs["metadata"].items():
        if key.endswith(".zattrs"):
            assert ours["metadata"].get(key, {}) == document
        else:
            # Version 3 of the program puts a member of its own there, and leaves out a default.
            document.pop("consolidated_metadata", None)
            assert {"dimension_separator": ".", **ours["metadata"][key]} == {
                "dimension_separator": ".",
                **ours["metadata"][key],
                **document,
            }
    assert {k for k in ours["metadata"] if k.endswith((".zarray", ".zgroup"))} == {
        k for k in theirs["metadata"] if k.endswith((".zarray", ".zgroup"))
    }


@pytest.mark.parametrize("after", [False, True], ids=["refused", "answer lost"])
@pytest.mark.parametrize("format", FORMATS.names)
def test_a_new_group_that_waited_is_in_a_copy_that_another_client_made_meanwhile(
    format: str, after: bool
) -> None:
    single = FORMATS.named(format, FormatOptions())
    for call in itertools.count():
        zmap = MemoryZMap()
        with open_zmap(zmap, "w", format=format, consolidated=True):
            pass
        faulty = Faulty(zmap)
        with open_zmap(faulty, "r+") as root:
            root.create_group("a/b", {"units": "m"})
            faulty.arm(Fault(call, Unavailable, after=after, operations=frozenset({"write"})))
            with suppress(Unavailable):
                root.sync()
            has_failed = bool(faulty.fired)
            faulty.arm()
            with open_zmap(zmap, "r+") as other:
                other.create_group("theirs")
        assert single.copy is not None
        found = single.copy.read(bytes(zmap.read(parse_key(single.copy.key)).data))
        assert found is not None
        for path in ("a", "a/b"):
            keys = {*single.consolidated_keys(path)}
            stored = {str(stat.key) for stat in zmap.list(ROOT)}
            assert keys.intersection(found.keys) == keys.intersection(stored) != set()
        if not has_failed:
            break


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("format", "key"), [("zarr2", "a/.zattrs"), ("zarr3", "a/zarr.json")])
def test_a_document_that_changes_during_another_update_is_in_the_copy(
    format: str, key: str, when: str
) -> None:
    zmap = GatedZMap()
    with (
        open_zmap(zmap, "w", format=format, consolidated=True) as root,
        ThreadPoolExecutor() as pool,
    ):
        for name in "ab":
            root.create_group(name, {"units": "old"})
        root.sync()
        for name in "ab":
            root[name].attrs["units"] = "new"
        dataset = root.engine_dataset
        with zmap.stopping("write", key, when) as gate:
            changing = pool.submit(dataset.store, ("a",))
            assert gate.reached.wait(WAIT_S)
            dataset.store(("b",))
            is_owed = dataset.copy.owes(frozenset([key]))
            gate.open()
            changing.result(WAIT_S)
        assert is_owed
        assert not dataset.copy.is_owed
        assert copied_units(zmap, format) == {"a": "new", "b": "new"}


def test_a_group_that_is_taken_back_after_an_update_is_not_in_the_copy() -> None:
    zmap = GatedZMap()
    with (
        open_zmap(zmap, "w", format="zarr2", consolidated=True) as root,
        ThreadPoolExecutor() as pool,
    ):
        root.create_group("a", {"units": "m"})
        root.sync()
        root.create_group("b", {"units": "m"})
        dataset = root.engine_dataset
        with (
            zmap.stopping("write", "b/.zgroup") as refusing,
            zmap.stopping("delete", "b/.zattrs") as gate,
        ):
            making = pool.submit(dataset.store, ("b",))
            assert refusing.reached.wait(WAIT_S)
            refusing.open(AccessDenied("b/.zgroup"))
            assert gate.reached.wait(WAIT_S)
            dataset.copy.update()  # as another thread does that has stored something else
            gate.open()
            with pytest.raises(AccessDenied):
                making.result(WAIT_S)
        assert not dataset.copy.is_owed
    copied = json.loads(bytes(zmap.read(parse_key(".zmetadata")).data))["metadata"]
    assert {key for key in copied if not key.startswith("a/")} == {".zgroup", ".zattrs"}


def test_a_change_of_the_format_during_another_update_is_in_the_copy() -> None:
    zmap = GatedZMap()
    with (
        open_zmap(zmap, "w", format="zarr2", consolidated=True) as root,
        ThreadPoolExecutor() as pool,
    ):
        root.create_group("a", {"units": "m"})
        root.sync()
        dataset, editor = root.engine_dataset, root.editor
        assert editor is not None
        with zmap.stopping("write", "a/.zgroup") as gate:
            wanted = FORMATS.named("nczarr-L3", FormatOptions())
            changing = pool.submit(editor.change_format, wanted)
            assert gate.reached.wait(WAIT_S)
            dataset.copy.update()  # as another thread does that has stored something else
            gate.open()
            changing.result(WAIT_S)
    copied = json.loads(bytes(zmap.read(parse_key(".zmetadata")).data))["metadata"]
    stored = [str(stat.key) for stat in zmap.list(ROOT) if str(stat.key) != ".zmetadata"]
    assert copied == {key: json.loads(bytes(zmap.read(parse_key(key)).data)) for key in stored}


@pytest.mark.parametrize("is_made_anew", [False, True])
@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_what_is_changed_while_it_is_removed_is_not_in_the_copy(
    format: str, is_made_anew: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    zmap = MemoryZMap()
    with open_zmap(zmap, "w", format=format, consolidated=True) as root:
        for name in "ab":
            root.create_group(name, {"units": "old"})
        root.sync()
        dataset, editor = root.engine_dataset, root.editor
        assert editor is not None

        def change() -> None:
            root["a"].attrs["units"] = "new"
            if is_made_anew:
                dataset.copy.distrust()
            dataset.store(("a",))

        taken = take_once(monkeypatch, Dataset, "removed", change)
        editor.remove("a")
        assert taken
    assert copied_units(zmap, format) == {"b": "old"}


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_what_is_left_of_a_renamed_group_is_not_in_a_copy_that_is_made_meanwhile(
    format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    zmap = MemoryZMap()
    with open_zmap(zmap, "w", format=format, consolidated=True) as root:
        root.create_group("a", {"units": "m"})
        root.sync()
        dataset, editor = root.engine_dataset, root.editor
        assert editor is not None

        def update() -> None:
            dataset.copy.distrust()
            dataset.copy.update()

        taken = take_once(monkeypatch, _Renaming, "finish", update)
        editor.rename("a", "b")
        assert taken
    assert copied_units(zmap, format) == {"b": "m"}


def copied_units(zmap: MemoryZMap, format: str) -> dict[str, object]:
    """Return the attribute of each group as consolidated metadata have it."""
    if format == "zarr2":
        found = json.loads(bytes(zmap.read(parse_key(".zmetadata")).data))["metadata"]
        return {key[0]: found[key]["units"] for key in found if key.endswith("/.zattrs")}
    found = json.loads(bytes(zmap.read(parse_key("zarr.json")).data))["consolidated_metadata"]
    return {key: each["attributes"]["units"] for key, each in found["metadata"].items()}
