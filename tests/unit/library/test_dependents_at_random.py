"""Random dependent arrays: which are refused, and their values through a rename of the primary."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nczfs.engine.options import EngineOptions
from nczfs.engine.structure.dependents import declare
from nczfs.errors import BadValue, NameTaken
from nczfs.library.opening import open_zmap
from nczfs.zmap.memory import MemoryZMap
from tests.conftest import ExpectedWarnings

SHAPE = (4, 2)  # in chunks of two elements
Index = tuple[int, ...]

_usual: st.SearchStrategy[Any] = st.builds(
    lambda name, separator: {"name": name, "configuration": {"separator": separator}},
    st.sampled_from(["default", "v2"]),
    st.sampled_from([".", "/"]),
)
_around: st.SearchStrategy[Any] = st.builds(
    lambda text, base: {
        "name": text[0],
        "configuration": {text[0]: text[1], "base_encoding": base},
    },
    st.sampled_from(
        [*(("prefix", t) for t in ("c", "c/", "1", "s/", "s")), ("suffix", ".0"), ("suffix", "0")]
    ),
    _usual,
)
_shapes = st.sampled_from([(4, 2), (2, 2), (4,), ()])
_entries = st.tuples(st.sampled_from("abc"), _usual | _around, _shapes)


@pytest.fixture(autouse=True)
def announced(expected_warnings: ExpectedWarnings) -> None:
    expected_warnings.add("may no longer match")


def key(encoding: Any, index: Index) -> str:
    """The key of a chunk, by the words of the specification and of the proposals."""
    settings_ = encoding["configuration"]
    match encoding["name"]:
        case "default":
            return str(settings_["separator"]).join(["c", *map(str, index)])
        case "v2":
            return str(settings_["separator"]).join(map(str, index)) or "0"
        case "prefix":
            return str(settings_["prefix"]) + key(settings_["base_encoding"], index)
        case _:
            return key(settings_["base_encoding"], index) + str(settings_["suffix"])


def keys(encoding: Any, shape: Index) -> set[str]:
    return {key(encoding, index) for index in itertools.product(*(range(n // 2) for n in shape))}


def are_apart(ours: Iterable[str], theirs: Iterable[str]) -> bool:
    return not any(
        one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")
        for one, other in itertools.product(ours, theirs)
    )


@settings(max_examples=15, deadline=None)
@given(st.lists(_entries, max_size=5), st.booleans())
def test_those_that_are_apart_are_declared_and_keep_their_values(
    entries: list[tuple[str, Any, Index]], is_stored_before: bool
) -> None:
    """SEMANTICS D29."""
    memory, options = MemoryZMap(), EngineOptions(writes_dependents=True)
    expected: dict[str, Any] = {"": np.arange(8, dtype="u1").reshape(SHAPE)}
    taken = [keys({"name": "default", "configuration": {"separator": "/"}}, SHAPE)]
    with open_zmap(memory, "w", format="zarr3", options=options) as root:
        root.create_variable("t", SHAPE, "u1", expected[""], chunks=(2, 2))
    with open_zmap(memory, "r+", options=options) as root:
        for number, (name, encoding, shape) in enumerate(entries):
            partial: Any = {"chunk_key_encoding": encoding, "shape": list(shape)}
            chunks = {"chunk_shape": [2] * len(shape)}
            partial["chunk_grid"] = {"name": "regular", "configuration": chunks}
            partial["dimension_names"] = [None] * len(shape)
            ours = keys(encoding, shape)
            try:
                declare(root.engine_dataset, "t", name, partial)
            except NameTaken:
                assert name in expected
                continue
            except BadValue:
                assert not all(are_apart(ours, each) for each in taken)
                continue
            assert name not in expected
            assert all(are_apart(ours, each) for each in taken)
            taken.append(ours)
            expected[name] = np.full(shape, 10 + number, "u1")
            new: Any = root[f"t/{name}"]
            new[...] = expected[name]
        if is_stored_before:
            root.sync()
        root.editor.rename("t", "u")
        again: Any = root["u"]
        again[0, 0] = 77
        expected[""][0, 0] = 77
    with open_zmap(memory) as root:
        for name, values in expected.items():
            found: Any = root[f"u/{name}" if name else "u"]
            assert np.array_equal(found[...], values), name
