"""``nczfs cat``: values as text, bytes or JSON, in blocks, into a pipe or a file."""

from __future__ import annotations

import io
import itertools
import json
import subprocess
import sys
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import nczfs
from nczfs.cli import value_blocks
from nczfs.cli.main import main
from nczfs.engine.weight import weight_of_values
from nczfs.views.catalog import RENDERED_BYTES_MAX
from tests.support.commands import printed_bytes

TEXTS = ["a", "\x1b[31mred", "two\nlines", "", "日本", "b"]
VALUES = np.arange(7 * 5 * 6, dtype="f4").reshape(7, 5, 6)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("cat") / "d"
    with nczfs.open(str(place), "w", format="zarr2") as root:
        for name, size in {"t": 7, "y": 5, "x": 6, "none": 0, "many": 300_000}.items():
            root.create_dimension(name, size)
        root.create_variable("v", ("t", "y", "x"), data=VALUES, chunks=(2, 5, 3))
        root.create_variable("scalar", (), data=np.float64(2.5))
        root.create_variable("empty", ("none", "x"), "f4")
        root.create_variable("s", ("x",), str, data=np.array(TEXTS, object))
        root.create_variable("long", ("many",), data=np.arange(300_000), chunks=(1000,))
        pairs = np.zeros(2, [("a", "i4"), ("b", "f4")])
        root.create_variable("pairs", (2,), data=pairs)
    return place


def cat(*words: str | Path) -> bytes:
    """What is printed into something that is no terminal."""
    with redirect_stderr(io.StringIO()) as told:
        printed = printed_bytes("cat", *words)
    assert told.getvalue() == ""
    return printed


def test_into_a_pipe_go_lines(place: Path) -> None:
    """`cat URL/VAR | head` has filled terminals with bytes."""
    lines = cat(place / "v").decode().splitlines()
    assert [float(line) for line in lines] == VALUES.reshape(-1).tolist()
    assert lines == cat("--text", place / "v").decode().splitlines()


def test_bytes_come_when_asked_for(place: Path) -> None:
    assert cat("--raw", place / "v") == VALUES.tobytes()
    assert cat("--raw", "-b", "::-2, 1, 3:", place / "v") == VALUES[::-2, 1, 3:].tobytes()


@pytest.mark.parametrize("form", ["--text", "--raw", "--json"])
def test_a_reader_that_had_enough_ends_it_in_silence(place: Path, form: str) -> None:
    done = subprocess.run(
        f"{sys.executable} -m nczfs.cli.main cat {form} {place}/long | head -c 20",
        shell=True,
        capture_output=True,
        check=True,
    )
    assert len(done.stdout) == 20
    assert done.stderr == b""


def test_strings_are_a_line_each_whatever_is_in_them(place: Path) -> None:
    lines = cat(place / "s").decode().splitlines()
    assert [json.loads(line) for line in lines] == [
        "a",
        "\x1b[31mred",
        "two\nlines",
        "",
        "日本",
        "b",
    ]
    assert "\x1b" not in "".join(lines)


def test_strings_of_nczarr_are_the_lines_of_values_txt(tmp_path: Path) -> None:
    with nczfs.open(str(tmp_path), "w") as root:
        root.create_variable("s", (3,), str, data=np.array(["a", "bcd", "日"], object))
        root.create_variable("c", (3,), "S1", data=np.array([b"x", b"y", b"z"]))
    assert cat("-b", ":2", tmp_path / "s").split() == [b"a", b"bcd"]
    assert cat(tmp_path / "s").decode().split() == ["a", "bcd", "日"]
    assert cat(tmp_path / "c") == b"x\ny\nz\n"


def test_structured_values_name_the_forms_that_they_have(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cat", str(place / "pairs")]) == 1
    assert "no text form; use --json or --raw" in capsys.readouterr().err
    assert json.loads(cat("--json", place / "pairs")) == [[0, 0.0], [0, 0.0]]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array(["1970-01-02", "NaT"], "M8[D]"), [1, -(2**63)]),
        (np.array(["2020-01-02", "12020-01-01"], "M8[s]"), [1577923200, 317147356800]),
        (np.array([1, 2], "M8[ns]"), [1, 2]),
        (np.array([36, -1], "m8[h]"), [36, -1]),
        (np.array(["Tromsø".encode(), b"\xff"], "S8"), ["Tromsø", "ÿ"]),
        (np.array(7, "m8[h]"), 7),
    ],
    ids=lambda value: str(getattr(value, "dtype", "")),
)
def test_dates_are_their_numbers_and_bytes_are_text_in_json(
    values: np.ndarray[Any, Any], expected: object, tmp_path: Path
) -> None:
    zarr.create_array(tmp_path / "v", data=values, zarr_format=2)
    assert json.loads(cat("--json", tmp_path / "v")) == expected


@pytest.mark.parametrize(("name", "expected"), [("scalar", 2.5), ("empty", [])])
def test_scalars_and_nothing_are_printed(place: Path, name: str, expected: object) -> None:
    assert json.loads(cat("--json", place / name)) == expected
    lines = cat(place / name).split()
    assert [float(line) for line in lines] == ([2.5] if name == "scalar" else [])


Case = tuple[np.ndarray[Any, Any], tuple[int, ...], tuple[Any, ...]]

indices = st.one_of(
    st.integers(-2, 1),
    st.builds(
        slice,
        st.one_of(st.none(), st.integers(-9, 9)),
        st.one_of(st.none(), st.integers(-9, 9)),
        st.sampled_from([None, 1, 2, 3, -1, -2]),
    ),
)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    shape = draw(st.lists(st.integers(2, 7), max_size=3).map(tuple))
    chunks = tuple(draw(st.integers(1, n)) for n in shape)
    box = draw(st.lists(indices, max_size=len(shape)).map(tuple))
    return np.arange(int(np.prod(shape)), dtype="i4").reshape(shape), chunks, box


@given(case=cases(), first=st.integers(1, 64), most=st.integers(1, 256))
def test_blocks_are_the_selection_in_order(case: Case, first: int, most: int) -> None:
    values, chunks, box = case
    expected = values[box] if box else values
    with (
        pytest.MonkeyPatch.context() as patch,
        nczfs.open(f"memory://{uuid4().hex}", "w", format="zarr2") as root,
    ):
        patch.setattr(value_blocks, "FIRST_BYTES", first)
        patch.setattr(value_blocks, "BLOCK_BYTES", most)
        variable = root.create_variable("v", values.shape, data=values, chunks=chunks)
        blocks = list(value_blocks.value_blocks(variable, box or (...,)))
    assert [*itertools.chain(*(b.values.reshape(-1).tolist() for b in blocks))] == (
        expected.reshape(-1).tolist()
    )
    # A row of the last dimension is the least that a block can be cut to but for one element.
    row = expected.shape[-1] * 4 if expected.ndim else 4
    assert all(b.values.nbytes <= max(first, most, row) for b in blocks)
    texts = []
    for block in blocks:
        text = json.dumps(block.values.tolist())
        rows = text if block.is_item else text[1:-1]
        texts.append("[" * block.begins + rows + "]" * block.ends)
    if blocks:
        assert json.loads(", ".join(texts)) == expected.tolist()


@pytest.mark.parametrize("shape", [(60,), (20, 3), (3, 20), (2, 5, 6)])
def test_texts_of_any_length_come_a_chunk_at_a_time(shape: tuple[int, ...]) -> None:
    values = np.full(shape, "x" * 100_000, object)
    chunks = (1,) * (len(shape) - 1) + (3,)
    with nczfs.open(f"memory://{uuid4().hex}", "w", format="zarr2") as root:
        variable = root.create_variable("v", shape, "O", data=values, chunks=chunks)
        blocks = list(value_blocks.value_blocks(variable, (...,)))
    assert sum(block.values.size for block in blocks) == values.size
    assert max(block.values.size for block in blocks) <= 3


def test_a_text_that_is_too_long_for_a_file_is_printed(tmp_path: Path) -> None:
    text = "x" * RENDERED_BYTES_MAX
    with nczfs.open(str(tmp_path / "d"), "w", format="zarr2") as root:
        root.create_variable("v", (1,), "O", data=np.array([text], object))
    assert cat(tmp_path / "d/v") == f'"{text}"\n'.encode()


def test_strings_in_cells_are_counted_with_their_length() -> None:
    with nczfs.open(f"memory://{uuid4().hex}", "w") as root:
        root.create_dimension("x", 1000)
        values = np.full(1000, "x" * 100_000, object)
        variable = root.create_variable("v", ("x",), "S100000", data=values, chunks=(10,))
        blocks = list(value_blocks.value_blocks(variable, (...,)))
    assert max(weight_of_values(block.values) for block in blocks) < 65 << 20
