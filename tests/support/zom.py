"""Random hierarchies of the Zarr Object Model."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from nczfs.formats.zom.nodes import (
    ArrayV2,
    ArrayV3,
    GroupV2,
    GroupV3,
    NamedConfig,
    Node,
)

_NAMES = st.one_of(
    st.sampled_from(
        ["a", "b", "members", "_members", "attributes", "x y", "a~b", "~1", "温度", "0"]
    ),
    st.text("abc.-é", min_size=1, max_size=4).filter(lambda n: n.strip(".") != ""),
)
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text('aé\U0001f600"\\/\n', max_size=4),
)
JSON: st.SearchStrategy[Any] = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~", max_size=2), inner),
    max_leaves=5,
)
_ATTRIBUTES = st.dictionaries(st.text("ab_/~é", max_size=3), JSON, max_size=3)
_LENGTHS = st.lists(st.integers(0, 2**40), max_size=3)


@st.composite
def arrays_v2(draw: st.DrawFn) -> ArrayV2:
    shape = tuple(draw(_LENGTHS))
    codec: st.SearchStrategy[Any] = st.sampled_from(
        [{"id": "zlib", "level": 1}, {"id": "shuffle", "elementsize": 4}]
    )
    dtype: Any = draw(
        st.sampled_from(["<i4", ">f8", "|u1", "|S5", [["a", "<i4"], ["b", "|u1", [2]]]])
    )
    return ArrayV2(
        shape,
        tuple(min(max(1, length // 2), 100) for length in shape),
        dtype,
        draw(st.sampled_from([None, 0, 1.5, "NaN"])),
        draw(st.sampled_from(["C", "F"])),
        draw(st.none() | codec),
        draw(st.none() | st.lists(codec, min_size=1, max_size=2).map(tuple)),
        draw(st.sampled_from([".", "/"])),
        draw(_ATTRIBUTES),
        draw(st.dictionaries(st.just("_nczarr_array"), JSON)),
    )


@st.composite
def arrays_v3(draw: st.DrawFn) -> ArrayV3:
    shape = tuple(draw(_LENGTHS))
    chunks: list[Any] = [min(max(1, length // 2), 100) for length in shape]
    little = NamedConfig("bytes", {"endian": "little"})
    kinds: list[tuple[Any, Any, NamedConfig]] = [
        ("int32", 0, little),
        ("float64", "0x7ff8000000000001", little),
        ("uint8", 255, NamedConfig("bytes")),
        (NamedConfig("of.another", {"a": [1]}), {"b": 1}, NamedConfig("of.another")),
    ]
    dtype, fill, codec = draw(st.sampled_from(kinds))
    names = st.none() | st.text("xyz", max_size=2)
    return ArrayV3(
        shape,
        dtype,
        NamedConfig("regular", {"chunk_shape": chunks}),
        NamedConfig(draw(st.sampled_from(["default", "v2"])), {"separator": "/"}),
        fill,
        (codec, *draw(st.lists(st.just(NamedConfig("gzip", {"level": 1})), max_size=1))),
        draw(st.none() | st.tuples(*[names] * len(shape))),
        (),
        draw(_ATTRIBUTES),
        draw(st.dictionaries(st.just("more"), st.just({"must_understand": False, "v": 1}))),
    )


def _trees(array: st.SearchStrategy[Any], group: type[Any]) -> st.SearchStrategy[Any]:
    def grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.builds(group, st.dictionaries(_NAMES, inner, max_size=3), _ATTRIBUTES)

    return st.one_of(array, grown(st.recursive(array, grown, max_leaves=4)))


def nodes(*, groups_only: bool = False) -> st.SearchStrategy[Node]:
    """Hierarchies of either version, with all members known."""
    trees: st.SearchStrategy[Node] = st.one_of(
        _trees(arrays_v2(), GroupV2), _trees(arrays_v3(), GroupV3)
    )
    return trees.filter(lambda n: isinstance(n, GroupV2 | GroupV3)) if groups_only else trees
