"""``nczfs diff``: what it prints, and its status as of diff(1)."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import netCDF4
import numpy as np
import pytest

import nczfs
from nczfs.cli.main import main
from nczfs.formats.registry import FORMATS
from nczfs.testing.datasets import put_group
from nczfs.zmap.directory import DirectoryZMap
from tests.support.copies import fill_awkward
from tests.support.servers import S3Server

A = """netcdf a {
dimensions: t = UNLIMITED; x = 3;
variables:
  float v(t, x); v:units = "K"; v:valid = 0.1f, 2.f; v:_FillValue = -1.f; v:_DeflateLevel = 4;
  int n(x); char c(x); string s(x); double alone;
  :title = "first";
data: v = 1, 2, 3, 4, 5, 6; n = 1, 2, 3; c = "abc"; s = "one", "two", "日本"; alone = 2.5;
group: g { dimensions: y = 2; variables: short w(y, x); data: w = 1, 2, 3, 4, 5, 6; }
}"""


def run(*words: str | Path) -> int:
    return main([str(word) for word in words])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("diff")
    (place / "a.cdl").write_text(A)
    assert run("import", place / "a.cdl", place / "a") == 0
    return place


@pytest.fixture
def a(made: Path) -> Path:
    return made / "a"


@pytest.fixture
def b(made: Path, tmp_path: Path) -> Path:
    """The same, to be changed."""
    shutil.copytree(made / "a", tmp_path / "b")
    return tmp_path / "b"


Lines = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Lines:
    """Status and lines of a comparison."""

    def compare(*words: str | Path) -> tuple[int, list[str]]:
        capsys.readouterr()
        status = run("diff", *words)
        captured = capsys.readouterr()
        assert captured.err == ""
        return status, captured.out.splitlines()

    return compare


def test_what_is_the_same_is_silent(a: Path, b: Path, lines: Lines) -> None:
    assert lines(a, b) == (0, [])
    assert lines(a, a) == (0, [])
    assert lines(a / "g", b / "g") == (0, [])
    assert lines(a / "v", b / "v") == (0, [])


def edited(b: Path, change: Callable[[nczfs.OpenDataset], object]) -> Path:
    with nczfs.open(str(b), "r+") as root:
        change(root)
    return b


def test_values_are_counted_placed_and_measured(a: Path, b: Path, lines: Lines) -> None:
    def change(root: nczfs.OpenDataset) -> None:
        root.variables["v"][0, 1] = 5
        root.variables["v"][1, 2] = 6.5
        root.variables["s"][2] = "\x1b"
        root.variables["c"][0] = b"z"

    assert lines(a, edited(b, change)) == (
        1,
        [
            "/v: values: 2 of 6 differ, the first at [0, 1]: 2.0 and 5.0; largest difference 3",
            '/c: values: 1 of 3 differs, the first at [0]: "a" and "z"',
            '/s: values: 1 of 3 differs, the first at [2]: "日本" and "\\u001b"',
        ],
    )
    assert lines(a, b, "--metadata-only") == (0, [])
    assert lines(a, b, "-q") == (1, [])
    assert lines(a, b, "--atol", "3")[1][0].startswith("/c: ")


def test_metadata_are_named_one_by_one(a: Path, b: Path, lines: Lines) -> None:
    def change(root: nczfs.OpenDataset) -> None:
        root.attrs["title"] = "second"
        v = root.variables["v"]
        v.attrs["units"] = "degC"
        v.attrs["valid"] = np.array([0.1, 2.0], "f8")
        v.attrs["new"] = [1, 2]
        root.create_group("h")
        root.create_variable("extra", ("x",), "u1")
        del root["alone"]
        root.resize_dimension("t", 3)

    assert lines(a, edited(b, change)) == (
        1,
        [
            "/: dimension t: 2 (unlimited) and 3 (unlimited)",
            '/: attribute title: "first" (char) and "second" (char)',
            "/v: dimensions: (/t: 2, /x: 3) and (/t: 3, /x: 3)",
            '/v: attribute units: "K" (char) and "degC" (char)',
            "/v: attribute valid: [0.1, 2.0] (float) and [0.1, 2.0] (double)",
            "/v: attribute new: [1, 2] (int64) only in B",
            "/alone: variable: double only in A",
            "/extra: variable: ubyte only in B",
            "/h: group: only in B",
        ],
    )


def test_types_fill_values_and_ranks_are_named(tmp_path: Path, lines: Lines) -> None:
    for name, text in {
        "a": "int v(x); float f(x); f:_FillValue = 1.f; double r(x); int k(x);",
        "b": "short v(x); float f(x); double r(y, x); string k(x);",
    }.items():
        cdl = f"netcdf a {{ dimensions: x = 2; y = 1; variables: {text} data: v = 1, 2; }}"
        (tmp_path / f"{name}.cdl").write_text(cdl)
        assert run("import", tmp_path / f"{name}.cdl", tmp_path / name) == 0
    assert lines(tmp_path / "a", tmp_path / "b") == (
        1,
        [
            "/v: type: int and short",
            "/v: fill value: -2147483647 and -32767",
            "/f: fill value: 1.0 and 9.96921e+36",
            "/r: dimensions: (/x: 2) and (/y: 1, /x: 2)",
            "/k: type: int and string",
            '/k: fill value: -2147483647 and ""',
            "/f: values: 2 of 2 differ, the first at [0]: 1.0 and 9.969209968386869e+36; largest "
            "difference 9.96921e+36",
            "/r: values: not compared: 1 dimension and 2 dimensions",
            "/k: values: not compared: numbers and texts or objects",
        ],
    )


def test_chunks_and_codecs_count_only_when_asked_for(a: Path, tmp_path: Path, lines: Lines) -> None:
    other = tmp_path / "c"
    assert run("cp", a, other, "--chunks", "x=2", "--codecs", "zstd:3") == 0
    assert lines(a, other) == (0, [])
    status, found = lines(a, other, "--storage")
    assert status == 1
    assert "/v: storage chunks: (2, 3) and (2, 2)" in found
    assert any(line.startswith("/v: storage codecs: ") for line in found)


@pytest.mark.parametrize("code", ["M8[s]", "u4", [("a", "{}i4"), ("b", "{}f8")]])
def test_byte_order_counts_only_with_storage(
    code: str | list[tuple[str, str]], tmp_path: Path, lines: Lines
) -> None:
    for name, order in (("a", "<"), ("b", ">")):
        fields = [[n, c.format(order)] for n, c in code] if isinstance(code, list) else order + code
        stored = [tuple(field) for field in fields] if isinstance(code, list) else fields
        zarray = {
            "zarr_format": 2,
            "shape": [3],
            "chunks": [3],
            "dtype": fields,
            "fill_value": None,
            "compressor": None,
            "filters": None,
            "order": "C",
        }
        (tmp_path / name / "v").mkdir(parents=True)
        (tmp_path / name / ".zgroup").write_text('{"zarr_format": 2}')
        (tmp_path / name / "v/.zarray").write_text(json.dumps(zarray))
        (tmp_path / name / "v/0").write_bytes(np.arange(3).astype(np.dtype(stored)).tobytes())
    assert lines(tmp_path / "a", tmp_path / "b") == (0, [])
    status, found = lines(tmp_path / "a", tmp_path / "b", "--storage")
    assert (status, len(found)) == (1, 1)
    assert found[0].startswith("/v: storage byte order: ")


def test_a_scalar_has_no_place(tmp_path: Path, lines: Lines) -> None:
    for name, value in (("a", 3.0), ("b", np.nan)):
        with nczfs.open(str(tmp_path / name), "w") as root:
            root.create_variable("v", (), "f4", data=value)
    assert lines(tmp_path / "a", tmp_path / "b") == (1, ["/v: values: 1 of 1 differs: 3.0 and nan"])


def test_a_fill_value_of_an_array_alone_differs_once(tmp_path: Path, lines: Lines) -> None:
    """Nothing is stored on either side; the array is longer than anything can read."""
    for name, value in (("a", 1.0), ("b", 2.0)):
        with nczfs.open(str(tmp_path / name), "w", format="zarr2") as root:
            root.create_dimension("x", 1 << 60)
            root.create_variable("v", ("x",), "f4", fillvalue=value, chunks=(1 << 20,))
    assert lines(tmp_path / "a", tmp_path / "b") == (
        1,
        [
            "/v: fill value: 1.0 and 2.0",
            "/v: values: 1152921504606846976 of 1152921504606846976 differ, the first at [0]: 1.0 "
            "and 2.0; largest difference 1",
        ],
    )


@pytest.mark.parametrize(
    ("attributes", "named"),
    [
        ((-9, -9), []),  # as xarray has it, beside the same as netCDF has it
        ((0, -9), []),
        ((None, -9), []),
        ((-9, None), ["/v: attribute _FillValue: -9 only in A"]),
        ((0, 5), ["/v: attribute _FillValue: 0 and 5"]),
    ],
)
def test_the_attribute_of_fill_is_named_if_it_differs_by_itself(
    attributes: tuple[int | None, int | None], named: list[str], tmp_path: Path, lines: Lines
) -> None:
    """It is left out if it says the same as the fill values, which are 0 and -9."""
    for name, fill, attribute in zip("ab", (0, -9), attributes, strict=True):
        with nczfs.open(str(tmp_path / name), "w", format="zarr3") as root:
            root.create_dimension("x", 2)
            variable = root.create_variable("v", ("x",), "i2", fillvalue=fill, data=np.ones(2))
            variable.attrs.pop("_FillValue", None)
            if attribute is not None:
                variable.attrs["_FillValue"] = np.int16(attribute)
    assert lines(tmp_path / "a", tmp_path / "b") == (1, [*named, "/v: fill value: 0 and -9"])


def test_a_variable_is_compared_with_one_of_another_name(a: Path, b: Path, lines: Lines) -> None:
    edited(b, lambda root: root.create_variable("m", ("x",), "i4", data=np.array([1, 2, 4])))
    assert lines(a / "n", b / "m") == (
        1,
        ["/n: values: 1 of 3 differs, the first at [2]: 3 and 4; largest difference 1"],
    )


@pytest.mark.parametrize("kind", ["netcdf4", "classic"])
def test_a_netcdf_file_is_compared_with_what_was_made_of_it(
    kind: str, a: Path, tmp_path: Path, lines: Lines
) -> None:
    file = tmp_path / "a.nc"
    skip = ["--skip-unsupported"] if kind == "classic" else []
    source = a / "v" if kind == "classic" else a
    assert run("export", source, file, "--kind", kind, *skip) == 0
    if kind == "netcdf4":
        assert lines(file, a) == (0, [])
        assert lines(file, a.parent / "a.cdl") == (0, [])
    with netCDF4.Dataset(file, "r+") as dataset:
        dataset["v"][1, 1] = 99
        dataset["v"].units = "degC"
    assert run("import", file, tmp_path / "back") == 0
    assert lines(file, tmp_path / "back") == (0, [])
    status, found = lines(tmp_path / "back", file) if kind == "classic" else lines(a, file)
    if kind == "netcdf4":
        assert (status, found) == (
            1,
            [
                '/v: attribute units: "K" (char) and "degC" (char)',
                "/v: values: 1 of 6 differs, the first at [1, 1]: 5.0 and 99.0; largest "
                "difference 94",
            ],
        )


def test_two_netcdf_files_are_compared(tmp_path: Path, lines: Lines) -> None:
    for name, value in (("a.nc", 1), ("b.nc", 2)):
        with netCDF4.Dataset(tmp_path / name, "w") as dataset:
            dataset.createDimension("x", 3)
            dataset.createVariable("v", "i4", ("x",))[:] = value
    assert lines(tmp_path / "a.nc", tmp_path / "b.nc") == (
        1,
        ["/v: values: 3 of 3 differ, the first at [0]: 1 and 2; largest difference 1"],
    )


@pytest.mark.parametrize("format_name", FORMATS.names)
def test_a_copy_in_any_format_is_the_same(format_name: str, tmp_path: Path, lines: Lines) -> None:
    fill_awkward(str(tmp_path / "a"), format_name)
    assert run("cp", tmp_path / "a", tmp_path / "b", "--chunks", "x=3") == 0
    assert lines(tmp_path / "a", tmp_path / "b") == (0, [])


def test_what_pure_zarr_has_no_place_for_is_no_difference(
    a: Path, tmp_path: Path, lines: Lines
) -> None:
    """Types of attributes, unlimited dimensions, text."""
    assert run("cp", a, tmp_path / "z", "--format", "zarr") == 0
    assert lines(a, tmp_path / "z") == (0, [])
    edited(tmp_path / "z", lambda root: root.variables["v"].attrs.update(units="degC"))
    assert lines(a, tmp_path / "z") == (1, ['/v: attribute units: "K" and "degC"'])


def test_a_bucket_is_compared_with_a_directory(a: Path, swift: S3Server, lines: Lines) -> None:
    url = swift.url(swift.new_bucket(), "d")
    assert run("cp", a, url) == 0
    assert lines(a, url) == (0, [])
    with nczfs.open(url, "r+") as root:
        root.variables["v"][0, 0] = 9
    status, found = lines(a, url)
    assert (status, len(found)) == (1, 1)


def test_json_is_one_document(a: Path, b: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edited(b, lambda root: root.variables["n"].__setitem__(1, 7))
    edited(b, lambda root: root.attrs.__delitem__("title"))
    assert run("diff", "--json", a, b) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["same"] is False
    assert found["errors"] == []
    assert found["differences"] == [
        {"path": "/", "kind": "attribute", "name": "title", "a": '"first" (char)', "b": None},
        {
            "path": "/n",
            "kind": "values",
            "count": 1,
            "total": 3,
            "first": [1],
            "a": "2",
            "b": "7",
            "largest": 5,
        },
    ]
    assert run("diff", "--json", a, a) == 0
    assert json.loads(capsys.readouterr().out)["same"] is True


def test_what_cannot_be_read_is_trouble_and_the_rest_is_compared(
    a: Path, b: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (b / "v/0.0").write_bytes(b"broken")
    edited(b, lambda root: root.variables["n"].__setitem__(1, 7))
    assert run("diff", a, b) == 2
    captured = capsys.readouterr()
    assert captured.out.startswith("/n: values: 1 of 3 differs")
    assert captured.err.startswith("nczfs: /v: ")
    assert "v/0.0" in captured.err
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("a", "nosuch"), "no such directory"),
        (("nosuch", "a"), "no such directory"),
        (("a", "a/v"), "they cannot be compared"),
        (("a", "a", "--atol", "-1"), "is not a tolerance"),
        (("a", "a", "--rtol", "much"), "is not a tolerance"),
        (("a",), "B"),
    ],
)
def test_trouble_has_a_status_of_its_own(
    words: tuple[str, ...], message: str, made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = [str(made / word) if word[0] in "an" else word for word in words]
    assert run("diff", *places) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_reader_that_had_enough_ends_it_in_silence(tmp_path: Path) -> None:
    names = [f"attribute {number} {'long' * 20}" for number in range(2000)]
    for name, value in (("a", 1), ("b", 2)):
        (tmp_path / name).mkdir()
        put_group(DirectoryZMap(tmp_path / name), "", dict.fromkeys(names, value))
    done = subprocess.run(
        f"{sys.executable} -m nczfs.cli.main diff {tmp_path}/a {tmp_path}/b | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
