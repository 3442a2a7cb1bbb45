"""Dependent arrays in shards and ncstreams, and what is left of them."""

from __future__ import annotations

import itertools
import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import nczfs
from nczfs import ncstream
from nczfs.cli.main import main
from nczfs.engine.options import EngineOptions
from nczfs.engine.structure.dependents import declare, withdraw
from nczfs.errors import AccessDenied, StoreError
from nczfs.library.opening import open_zmap
from nczfs.testing.faults import Fault, Faulty
from nczfs.zmap.keys import ROOT, Key
from nczfs.zmap.memory import MemoryZMap
from tests.conftest import ExpectedWarnings
from tests.support.dependents import BEFORE_Q, DOT, FLAT, V2, VALUES, write_dependents_sample

MASK: dict[str, Any] = {"chunk_key_encoding": DOT}
Q: dict[str, Any] = {"chunk_key_encoding": BEFORE_Q, "fill_value": 9}


def test_those_of_a_sharded_array_lie_in_shards(tmp_path: Path) -> None:
    values = np.arange(48, dtype="u1").reshape(8, 6)
    options = EngineOptions(writes_dependents=True)
    with nczfs.open(str(tmp_path / "d"), "w", format="zarr3", options=options) as root:
        root.create_variable("t", (8, 6), "u1", values, chunks=(2, 3), shards=(4, 6))
        declare(root.engine_dataset, "t", "mask", MASK)
        declare(root.engine_dataset, "t", "q", Q)
        mask: Any = root["t/mask"]
        mask[...] = values % 2
        q: Any = root["t/q"]
        q[5, 5] = 1
    place = tmp_path / "d/t"
    keys = {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()}
    assert keys == {"zarr.json", "c/0/0", "c/1/0", "c.0.0", "c.1.0", "q/1.0"}
    with nczfs.open(str(tmp_path / "d")) as root:
        for name, expected in (("t", values), ("t/mask", values % 2)):
            found: Any = root[name]
            assert np.array_equal(found[...], expected)
        found = root["t/q"]
        assert (found[5, 5], int(found[...].astype("i8").sum())) == (1, 47 * 9 + 1)
    document = json.loads((place / "zarr.json").read_text())
    document |= {"attributes": {}, "chunk_key_encoding": DOT}
    (tmp_path / "mask").mkdir()
    (tmp_path / "mask/zarr.json").write_text(json.dumps(document))
    for name in ("c.0.0", "c.1.0"):
        shutil.copy(place / name, tmp_path / "mask" / name)
    read: Any = zarr.open_array(tmp_path / "mask", mode="r")
    assert np.array_equal(read[...], values % 2)
    assert main(["verify", str(tmp_path / "d")]) == 0


@pytest.mark.parametrize("writes_dependents", [True, False])
def test_those_that_inherit_a_shape_lose_what_is_beyond_a_new_end(
    writes_dependents: bool, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS D41."""
    expected_warnings.add("may no longer match")
    memory = MemoryZMap()
    own: dict[str, Any] = {"chunk_key_encoding": BEFORE_Q, "shape": [5, 2]}
    nested = {"attributes": {"dependent-arrays": {"why": {"chunk_key_encoding": V2}}}}
    with open_zmap(memory, "w", format="zarr3") as root:
        root.create_dimension("t", None)
        root.create_variable("v", ("t", 2), "u1", chunks=(2, 2), fillvalue=0)[0:5] = 1
    with open_zmap(memory, "r+", options=EngineOptions(writes_dependents=True)) as root:
        declare(root.engine_dataset, "v", "mask", MASK | nested)
        declare(root.engine_dataset, "v", "own", own)
        declare(root.engine_dataset, "v", "twin", {}, shares_keys=True)
        for name in ("mask", "mask/why", "own"):
            new: Any = root[f"v/{name}"]
            new[...] = 9
    options = EngineOptions(writes_dependents=writes_dependents)
    with open_zmap(memory, "r+", options=options) as root:
        root.resize_dimension("t", 1)
        root.sync()
        names = {stat.key for stat in memory.list(ROOT) if stat.key.startswith("v/")}
        chunks = {"v/c/0/0", "v/c.0.0", "v/0.0", *(f"v/q/{row}.0" for row in range(3))}
        assert names == {*chunks, "v/zarr.json"}
        root.resize_dimension("t", 5)
    with open_zmap(memory) as root:
        for name, values in (("", 1), ("/twin", 1), ("/mask", 9), ("/mask/why", 9)):
            found: Any = root[f"v{name}"]
            assert found[...].tolist() == [[values] * 2, *[[0, 0]] * 4], name
        left: Any = root["v/own"]
        assert left[...].tolist() == [[9, 9]] * 5


def test_an_ncstream_has_each_beside_its_primary(tmp_path: Path) -> None:
    write_dependents_sample(tmp_path / "d")
    assert main(["export", str(tmp_path / "d"), str(tmp_path / "o.ncs")]) == 0
    with (tmp_path / "o.ncs").open("rb") as file:
        values = ncstream.assemble(ncstream.read(file))
    assert set(values) == {*FLAT.values(), "t.q"}
    for path, name in FLAT.items():
        assert np.array_equal(values[name], VALUES[path]), name


def test_verify_names_what_an_interrupted_removal_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also at keys with a text before them, which no array has any more."""
    write_dependents_sample(tmp_path / "d")
    document = json.loads((tmp_path / "d/t/zarr.json").read_text())
    del document["attributes"]["dependent-arrays"]
    (tmp_path / "d/t/zarr.json").write_text(json.dumps(document))
    main(["verify", str(tmp_path / "d")])
    found = capsys.readouterr().out.splitlines()
    for key in ("c.0.1", "1.0", "q/0.1"):
        assert sum(line.endswith(f" t/{key}: not a document or a chunk; ignored") for line in found)


def names_in(memory: MemoryZMap) -> list[str]:
    """The dependent arrays that readers see, who all see the same."""
    found = []
    for options in (EngineOptions(), EngineOptions(writes_dependents=True)):
        with open_zmap(memory, options=options) as root:
            t: Any = root["t"]
            assert np.array_equal(t[...], np.ones(4, "u1"))
            found.append([*t.dependents])
    assert found[0] == found[1]
    return found[0]


ENDED = frozenset({"write", "delete", "copy", "write_parts"})


@pytest.mark.parametrize("after", [False, True])
def test_whoever_ends_between_two_changes_leaves_an_array_declared_or_not(*, after: bool) -> None:
    """As kill -9 would: from the n-th change of the store on, none is made."""
    options = EngineOptions(writes_dependents=True)
    steps = []
    for call in range(30):
        memory = MemoryZMap()
        with open_zmap(memory, "w", format="zarr3", consolidated=True) as root:
            root.create_variable("t", (4,), "u1", np.ones(4, "u1"))
        zmap = Faulty(memory)
        with suppress(StoreError), open_zmap(zmap, "r+", options=options) as root:
            zmap.arm(
                Fault(call, AccessDenied, after, ENDED),
                Fault(call + 1, AccessDenied, False, ENDED, 1 << 30),
            )
            declare(root.engine_dataset, "t", "m", MASK)
            m: Any = root["t/m"]
            m[...] = 5
            root.sync()
            withdraw(root.engine_dataset, "t", "m")
        steps.append(names_in(memory))
        with open_zmap(memory, "r+", options=options) as root:  # the same again
            if not steps[-1]:
                declare(root.engine_dataset, "t", "m", MASK)
            m = root["t/m"]
            m[...] = 6
            root.sync()
            assert withdraw(root.engine_dataset, "t", "m") == 1
        assert names_in(memory) == []
        assert {str(each.key) for each in memory.list(ROOT)} == {
            "zarr.json",
            "t/zarr.json",
            "t/c/0",
        }
        if not zmap.fired:
            break
    assert {tuple(names) for names in steps} == {(), ("m",)}


def test_whoever_ends_within_a_rename_leaves_all_of_an_array(
    tmp_path: Path, expected_warnings: ExpectedWarnings
) -> None:
    expected_warnings.add("failed on purpose")
    write_dependents_sample(tmp_path)
    files = {p.relative_to(tmp_path): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    seen = set()
    for call in range(100):
        memory = MemoryZMap()
        for path, data in files.items():
            memory.write(Key(path.as_posix()), data)
        zmap = Faulty(memory)
        with suppress(StoreError), open_zmap(zmap, "r+") as root:
            zmap.arm(Fault(call, AccessDenied, False, ENDED, 1 << 30))
            root.editor.rename("t", "u")
        with open_zmap(memory, "r+") as root:
            here = [name for name in "tu" if root.engine_dataset.load(name) is not None]
            seen.add("".join(here))
            for place, (name, values) in itertools.product(here, VALUES.items()):
                found: Any = root[f"{place}{name[1:]}"]
                assert found[...].tobytes() == values.tobytes(), (call, place, name)
        if not zmap.fired:
            break
    assert seen == {"t", "tu", "u"}
