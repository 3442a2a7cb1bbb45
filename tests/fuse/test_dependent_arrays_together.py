"""Two real mounts that declare dependent arrays of one primary at the same time."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

import nczfs
from nczfs.model.hierarchy import Variable
from tests.support.dependents import DOT, V2
from tests.support.mounts import mounted
from tests.support.places import DATASET, Place, requested_place

ROUNDS = 6
GATE_S = 60.0
REFUSED = r"EINVAL: .*info\.json"


@pytest.fixture(params=["directory", "ceph"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Stores with conditional writes."""
    return requested_place(request, tmp_path)


def new_dataset(place: Place) -> None:
    with nczfs.open(place.url_of(DATASET), "w", format="zarr3") as root:
        for number in range(ROUNDS):
            root.create_variable(f"v{number}", (4, 6), "u1", chunks=(2, 3))


def declared(place: Place, name: str) -> dict[str, str]:
    """The dependent arrays of an array and their first keys, as a new reader finds them."""
    with nczfs.open(place.url_of(DATASET)) as root:
        primary = root.engine_dataset.node(name)
        assert isinstance(primary, Variable)
        assert not primary.problems
        return {each.name: each.array.chunk_keys.name((0, 0)) for each in primary.dependents}


@pytest.mark.parametrize(
    ("names", "encodings", "may_both"),
    [
        (("m", "m"), (DOT, DOT), True),  # the same
        (("m", "m"), (DOT, V2), False),
        (("a", "b"), (DOT, DOT), False),  # chunks of the same keys
        (("a", "b"), (DOT, V2), True),
    ],
    ids=["the same", "one name", "the same keys", "apart"],
)
def test_what_was_acknowledged_is_declared_and_nothing_else(
    place: Place, names: tuple[str, str], encodings: tuple[Any, Any], may_both: bool
) -> None:
    """SEMANTICS D29."""
    new_dataset(place)
    keys = {id(DOT): "c.0.0", id(V2): "0.0"}
    options = ("-o", "write_dependents")
    with (
        mounted(place.url, *options, expect=REFUSED) as one,
        mounted(place.url, *options, expect=REFUSED) as two,
        ThreadPoolExecutor(2) as pool,
    ):
        together = Barrier(2, timeout=GATE_S)

        def declare(mount: Path, variable: str, name: str, encoding: Any) -> bool:
            new = mount / "datasets" / DATASET / variable / name
            new.mkdir()
            together.wait()
            with suppress(OSError):
                (new / "info.json").write_text(json.dumps({"chunk_key_encoding": encoding}))
                return True
            return False

        for number in range(ROUNDS):
            variables = (f"v{number}",) * 2
            accepted = list(pool.map(declare, (one, two), variables, names, encodings))
            wanted = zip(names, encodings, accepted, strict=True)
            assert declared(place, f"v{number}") == {
                name: keys[id(encoding)] for name, encoding, is_there in wanted if is_there
            }
            assert any(accepted)
            if names[0] != names[1] or not may_both:
                assert all(accepted) == may_both
