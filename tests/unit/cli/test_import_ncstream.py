"""``nczfs import`` of ncstreams, and the way back."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import nczfs
from nczfs.buffers import Buffer
from nczfs.cli.main import main
from nczfs.ncstream import Array, read
from nczfs.ncstream.data import data_messages, error_message, ragged_message
from nczfs.ncstream.framing import END, START
from nczfs.ncstream.headers import header_message
from nczfs.ncstream.messages import (
    Attribute,
    DataType,
    Dimension,
    Group,
    Header,
    Range,
    Section,
    StreamError,
    Structure,
    Variable,
    whole_section,
)
from nczfs.testing.datasets import put_group
from nczfs.zmap.keys import parse_key
from nczfs.zmap.registry import open_store
from tests.support.calls import counted_lines
from tests.support.reference import reference_root
from tests.unit.ncstream.test_hostile import alternating

X, TIME = Dimension("x", 6), Dimension("time", 4, is_unlimited=True)


def run(*words: str | Path) -> int:
    return main([str(word) for word in words])


def piped(data: bytes, *words: str | Path) -> int:
    """The status of a command whose standard input is a pipe with these bytes."""
    with mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(data))):
        return run(*words)


def values(place: Path) -> dict[str, Any]:
    """All values of a dataset, by path."""
    found: dict[str, Any] = {}

    def walk(group: nczfs.Group, path: str) -> None:
        for name, variable in group.variables.items():
            found[f"{path}{name}"] = variable[...]
        for name, child in group.groups.items():
            walk(child, f"{path}{name}/")

    with nczfs.open(str(place)) as root:
        walk(root, "")
    return found


def stream(*pieces: Buffer) -> bytes:
    return START + b"".join(pieces) + END


def of(root: Group) -> bytes:
    return header_message(Header(root))


@pytest.mark.parametrize("name", ["types", "sections", "two-headers", "groups"])
@pytest.mark.parametrize("form", ["zarr3", "nczarr"])
def test_a_stream_becomes_a_dataset(name: str, form: str, tmp_path: Path) -> None:
    root = reference_root()
    assert root is not None
    file = root / f"ncstream/{name}.ncs"
    expected = json.loads(file.with_suffix(".json").read_text())["values"]
    assert run("import", file, tmp_path / "d", "--format", form) == 0
    found = values(tmp_path / "d")
    assert found.keys() == expected.keys()
    for path, wanted in expected.items():
        if path not in ("f", "c"):  # which JSON spells in its own way
            assert found[path].tolist() == wanted, path
    if name == "types":
        assert (
            found["f"].tobytes() == np.array([[1.5, np.nan, -2], [np.inf, 0, 3e38]], "f4").tobytes()
        )
        assert found["c"].tobytes() == b"ab\xff"


def test_attributes_dimensions_and_groups_are_those_of_the_stream(tmp_path: Path) -> None:
    root = reference_root()
    assert root is not None
    assert run("import", root / "ncstream/types.ncs", tmp_path / "d") == 0
    with nczfs.open(str(tmp_path / "d")) as dataset:
        assert dataset.attrs["title"] == "ncstream fixture — ünïcode"
        assert list(dataset.attrs["history"]) == ["a", "b", ""]
        assert dataset.attrs["big"] == 2**63 + 5
        assert dataset.dimensions["time"].unlimited
        assert dataset["f"].attrs["units"] == "K"


@pytest.mark.parametrize("form", ["zarr2", "zarr3", "nczarr"])
def test_a_dataset_comes_back_from_a_stream(form: str, tmp_path: Path) -> None:
    with nczfs.open(str(tmp_path / "a"), "w", format=form) as made:
        made.create_dimension("time", 5)
        made.create_dimension("x", 7)
        for code in ("i1", "u2", "i8", "f4", "f8"):
            data = np.arange(35).reshape(5, 7).astype(code)
            made.create_variable(f"v-{code}", ("time", "x"), code, data, chunks=(2, 3))
        made.create_variable("scalar", (), "f8", 2.5, attributes={"units": "m s-1"})
        texts = np.array(["", "żółw", "c", "d", "e"], object)
        made.create_group("g").create_variable("s", ("time",), str, texts, chunks=(2,))
        if form != "nczarr":
            waves = np.array([1 + 2j, np.nan, -0.0, 1, 2], "c16")
            made.create_variable("z", ("time",), "c16", waves)
    assert run("export", tmp_path / "a", tmp_path / "a.ncs", "--deflate", "1") == 0
    assert (
        piped((tmp_path / "a.ncs").read_bytes(), "import", "-", tmp_path / "b", "--format", form)
        == 0
    )
    before, after = values(tmp_path / "a"), values(tmp_path / "b")
    assert before.keys() == after.keys()
    for path, wanted in before.items():
        assert after[path].dtype == wanted.dtype, path
        np.testing.assert_array_equal(after[path], wanted)


def test_later_messages_win_and_the_rest_is_fill(tmp_path: Path) -> None:
    v = Variable("v", DataType.INT, (X,), (Attribute("_FillValue", DataType.INT, (-9,)),))
    data = stream(
        of(Group(dimensions=(X,), variables=(v, Variable("never", DataType.FLOAT, (X,))))),
        *data_messages("v", DataType.INT, whole_section((3,)), np.arange(3, dtype="i4")),
        *data_messages("v", DataType.INT, Section((Range(1, 2, 3),)), np.array([70, 80], "i4")),
    )
    assert piped(data, "import", "-", tmp_path / "d", "--chunks", "x=2", "--format", "zarr3") == 0
    found = values(tmp_path / "d")
    assert found["v"].tolist() == [0, 70, 2, -9, 80, -9]
    assert (found["never"] == np.float32(9.969209968386869e36)).all()


def test_a_later_header_adds_groups_and_variables(tmp_path: Path) -> None:
    late = Variable("late", DataType.SHORT, (X,))
    data = stream(
        of(Group(dimensions=(X,), variables=(Variable("v", DataType.INT, (X,)),))),
        *data_messages("v", DataType.INT, whole_section((6,)), np.arange(6, dtype="i4")),
        of(Group(dimensions=(TIME,), groups=(Group("g", variables=(late,)),))),
        *data_messages("g/late", DataType.SHORT, whole_section((6,)), np.arange(6, dtype="i2")),
    )
    assert piped(data, "import", "-", tmp_path / "d", "--format", "zarr3") == 0
    found = values(tmp_path / "d")
    assert found["v"].tolist() == found["g/late"].tolist() == list(range(6))


def test_what_earlier_headers_say_stays(tmp_path: Path) -> None:
    """A dimension keeps its length, and a later one of its name gets another name."""

    def header(length: int, name: str, *attributes: Attribute) -> bytes:
        x = Dimension("x", length)
        return of(Group("", (x,), (Variable(name, DataType.INT, (x,)),), (), attributes))

    data = stream(
        header(2, "v", Attribute("title", DataType.STRING, ("first",))),
        *data_messages("v", DataType.INT, whole_section((2,)), np.arange(2, dtype="i4")),
        header(3, "late", Attribute("title", DataType.STRING, ("second",))),
        *data_messages("late", DataType.INT, whole_section((3,)), np.arange(3, dtype="i4")),
        header(2, "last"),
    )
    assert piped(data, "import", "-", tmp_path / "d") == 0
    with nczfs.open(str(tmp_path / "d")) as root:
        assert root.attrs["title"] == "second"
        dimensions = {name: v.dimensions for name, v in root.variables.items()}
        assert dimensions["v"] == dimensions["last"] == ("x",)
        assert root.variables["late"][...].tolist() == [0, 1, 2]
        assert root.variables["v"][...].tolist() == [0, 1]


def test_what_a_later_header_has_in_vain_is_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = Structure("q", DataType.SEQUENCE, variables=(Variable("i", DataType.INT),))
    late = of(Group(structures=(rows,)))
    data = stream(of(Group()), late, late)
    assert piped(data, "import", "-", tmp_path / "d", "--skip-unsupported") == 0
    assert capsys.readouterr().err.count("/q is of type SEQUENCE") == 1


@pytest.mark.parametrize("form", ["zarr2", "zarr3", "nczarr"])
def test_twice_as_many_headers_take_twice_the_work(form: str, tmp_path: Path) -> None:
    """Each header is followed by data, so that what it adds must be made at once."""

    def lines(count: int) -> int:
        target = tmp_path / f"{count}"
        with counted_lines() as counted:
            assert piped(alternating(count), "import", "-", target, "--format", form) == 0
        assert values(target)[f"v{count - 1}"].tolist() == [count - 1, count, count + 1]
        return counted.total()

    lines(1)
    assert lines(80) < 2.2 * lines(40)


def test_strings_in_cells_get_the_length_of_the_longest_also_from_a_pipe(tmp_path: Path) -> None:
    texts = np.array(["a" * 200, "ß"], object)
    data = stream(
        of(Group(variables=(Variable("s", DataType.STRING, (Dimension("n", 2),)),))),
        *data_messages("s", DataType.STRING, whole_section((2,)), texts),
    )
    assert piped(data, "import", "-", tmp_path / "d") == 0
    assert values(tmp_path / "d")["s"].tolist() == texts.tolist()


def test_hidden_and_unnamed_dimensions_get_names(tmp_path: Path) -> None:
    shape = (Dimension("x", 2), Dimension("", 3, is_private=True))
    inner = Variable("v", DataType.BYTE, shape)
    data = stream(of(Group(dimensions=(X,), groups=(Group("g", variables=(inner,)),))))
    assert piped(data, "import", "-", tmp_path / "d") == 0
    assert values(tmp_path / "d")["g/v"].shape == (2, 3)


BROKEN: dict[str, Callable[[], bytes]] = {
    "cut": lambda: stream(of(Group()))[: -len(END)],
    "ended by an error": lambda: START + of(Group()) + error_message(StreamError("no disk", 500)),
    "without a header": lambda: START + END,
    "empty": lambda: b"",
}


@pytest.mark.parametrize("what", BROKEN)
def test_nothing_is_left_of_a_broken_stream(what: str, tmp_path: Path) -> None:
    assert piped(BROKEN[what](), "import", "-", tmp_path / "d") == 1
    assert list(tmp_path.iterdir()) == []


def test_what_a_dataset_cannot_hold_is_refused_or_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = Structure("q", DataType.SEQUENCE, variables=(Variable("i", DataType.INT),))
    kept = Variable("v", DataType.INT, (X,))
    data = stream(of(Group(dimensions=(X,), variables=(kept,), structures=(rows,))))
    assert piped(data, "import", "-", tmp_path / "d") == 1
    assert "/q is of type SEQUENCE" in capsys.readouterr().err
    assert piped(data, "import", "-", tmp_path / "d", "--skip-unsupported") == 0
    assert values(tmp_path / "d").keys() == {"v"}


N = Dimension("n", 3)
RAGGED = Variable("r", DataType.SHORT, (N, Dimension("*", 0, is_vlen=True)))
OPAQUE = Variable("o", DataType.OPAQUE, (N,), (Attribute("units", DataType.STRING, ("1",)),))


def objects(*values: object) -> Any:
    found = np.empty(len(values), object)
    found[:] = values
    return found


def of_any_length(*variables: Variable) -> bytes:
    lists = objects(np.array([1, -2], "i2"), np.array([], "i2"))
    blobs = objects(b"a\0b", b"", b"c" * 300)
    messages = {
        "r": ragged_message("r", DataType.SHORT, whole_section((2,)), lists),
        "o": data_messages("o", DataType.OPAQUE, whole_section((3,)), blobs),
    }
    header = of(Group(dimensions=(N,), variables=variables))
    return stream(header, *(piece for v in variables for piece in messages[v.name]))


@pytest.mark.parametrize("options", [(), ("--codecs", "zlib:1", "--chunks", "n=2")])
def test_elements_of_any_length_are_kept(options: tuple[str, ...], tmp_path: Path) -> None:
    data = of_any_length(RAGGED, OPAQUE)
    assert piped(data, "import", "-", tmp_path / "d", "--format", "zarr2", *options) == 0
    found = values(tmp_path / "d")
    assert [each.tolist() for each in found["r"]] == [[1, -2], [], []]
    assert {each.dtype for each in found["r"]} == {np.dtype("i2")}
    assert found["o"].tolist() == [b"a\0b", b"", b"c" * 300]


def test_elements_of_any_length_are_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "import", "-", tmp_path / "d", "--format", "zarr2", "--chunks", "n=2"
    assert piped(of_any_length(RAGGED, OPAQUE), *words) == 0
    assert main(["export", str(tmp_path / "d"), str(tmp_path / "a.ncs")]) == 0
    with (tmp_path / "a.ncs").open("rb") as file:
        header, *arrays = read(file)
    assert isinstance(header, Header)
    assert [v for v in header.root.variables if v.name == "r"] == [RAGGED]
    found = {
        (item.path, item.section.ranges[0].start): [bytes(each) for each in item.values]
        for item in arrays
        if isinstance(item, Array)
    }
    assert found == {
        ("r", 0): [b"\0\1\xff\xfe", b""],
        ("r", 2): [b""],
        ("o", 0): [b"a\0b", b""],
        ("o", 2): [b"c" * 300],
    }
    java = "export", str(tmp_path / "d"), str(tmp_path / "j.ncs"), "--netcdf-java"
    assert main(java) == 1
    assert "/o: is of type |O bytes" in capsys.readouterr().err


def test_objects_of_any_kind_are_not_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = open_store(f"file://{tmp_path}")
    put_group(store, "d.zarr")
    array = {
        "zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "|O", "fill_value": None,
        "order": "C", "compressor": None, "filters": [{"id": "json2"}],
    }  # fmt: skip
    store.write(parse_key("d.zarr/j/.zarray"), json.dumps(array).encode())
    assert main(["export", str(tmp_path / "d.zarr"), str(tmp_path / "a.ncs")]) == 1
    assert "/j: is of type |O json" in capsys.readouterr().err


def test_zarr3_keeps_opaque_elements(tmp_path: Path) -> None:
    assert piped(of_any_length(OPAQUE), "import", "-", tmp_path / "d", "--format", "zarr3") == 0
    assert values(tmp_path / "d")["o"].tolist() == [b"a\0b", b"", b"c" * 300]


def test_a_member_alone_is_not_imported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = Structure("s", DataType.STRUCTURE, (X,), variables=(Variable("i", DataType.INT),))
    alone = data_messages("s.i", DataType.INT, whole_section((6,)), np.arange(6, dtype="i4"))
    data = stream(of(Group(dimensions=(X,), structures=(rows,))), *alone)
    assert piped(data, "import", "-", tmp_path / "d", "--format", "zarr2") == 1
    assert "/s.i is a member of a structure, which is written as a whole" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("variable", "form"), [(RAGGED, "zarr3"), (OPAQUE, "nczarr")])
def test_what_a_format_cannot_hold_is_named(
    variable: Variable, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "import", "-", tmp_path / "d", "--format", form
    assert piped(of_any_length(variable), *words) == 1
    said = capsys.readouterr().err
    assert f"/{variable.name} is of " in said
    assert f"{form}" in said
    assert list(tmp_path.iterdir()) == []
    assert piped(of_any_length(variable), *words, "--skip-unsupported") == 0
    assert values(tmp_path / "d") == {}
