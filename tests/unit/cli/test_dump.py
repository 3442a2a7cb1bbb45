"""``nczfs dump`` as a user calls it; what it prints is compared with ncdump elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nczfs.cdl.parse import parse_cdl
from nczfs.cli.demo import SAMPLE
from nczfs.cli.flat import flat_blocks
from tests.support.mounts import nczfs


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """A pure Zarr dataset: x(3), y(3), z(3) with a type that netCDF lacks, and a group."""

    def array(path: str, values: Any, **attributes: Any) -> None:
        place = tmp_path / "d.zarr" / path
        place.mkdir(parents=True)
        values = np.asarray(values)
        document = {
            "zarr_format": 2,
            "shape": values.shape,
            "chunks": values.shape,
            "dtype": values.dtype.str,
            "compressor": None,
            "fill_value": None,
            "order": "C",
            "filters": None,
        }
        (place / ".zarray").write_text(json.dumps(document))
        (place / ".zattrs").write_text(json.dumps({"_ARRAY_DIMENSIONS": ["x"], **attributes}))
        (place / "0").write_bytes(values.tobytes())

    array("x", np.array([1, 2, 3], "<i4"))
    array("y", np.array([0.5, 1, 2], "<f8"), units="K")
    array("z", np.array([1j, 2, 3], "<c16"))
    array("g/x", np.array([4, 5, 6], "<i2"))
    array("g/b", np.array([True, False, True]))
    for group in ("", "g"):
        (tmp_path / "d.zarr" / group / ".zgroup").write_text('{"zarr_format": 2}')
    return tmp_path / "d.zarr"


def out(*arguments: str | Path) -> str:
    done = nczfs("dump", *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_header_and_data_are_printed(dataset: Path) -> None:
    assert (
        out(dataset)
        == """\
netcdf d {
dimensions:
\tx = 3 ;
variables:
\tint x(x) ;
\tdouble y(x) ;
\t\ty:units = "K" ;
\t// <c16 z(x) ;
data:

 x = 1, 2, 3 ;

 y = 0.5, 1, 2 ;

group: g {
  dimensions:
  \tx = 3 ;
  variables:
  \tubyte b(x) ; // |b1
  \tshort x(x) ;
  data:

   b = 1, 0, 1 ;

   x = 4, 5, 6 ;
  } // group g
}
"""
    )


def test_h_leaves_the_data_out(dataset: Path) -> None:
    assert "data:" not in out("-h", dataset)
    assert out(dataset).startswith(out("-h", dataset).partition("\ngroup:")[0])


@pytest.mark.parametrize(
    ("options", "given"),
    [
        (("-v", "y"), {"y"}),
        (("-v", "x"), {"x", "g/x"}),
        (("-v", "/x"), {"x"}),
        (("-v", "g/x,y"), {"g/x", "y"}),
        (("-c",), {"x", "g/x"}),
        (("-c", "-v", "g/x,y"), {"g/x"}),
        ((), {"x", "y", "g/b", "g/x"}),
        (("-h",), set()),
    ],
)
def test_data_are_those_of_the_variables_that_are_asked_for(
    dataset: Path, options: tuple[str, ...], given: set[str]
) -> None:
    assert parse_cdl(out(*options, dataset), "d").data.keys() == given


def test_a_group_by_its_url_is_a_dataset_of_its_own(dataset: Path) -> None:
    text = out("-v", "/x", dataset / "g")
    assert text.startswith("netcdf g {\ndimensions:\n\tx = 3 ;\n")
    assert parse_cdl(text, "g").data.keys() == {"x"}


def test_n_names_the_dataset_and_p_the_digits(dataset: Path) -> None:
    text = out("-n", "my name", "-p", "3,1", "-v", "y", dataset)
    assert text.startswith("netcdf my\\ name {\n")
    assert "\n y = 0.5, 1, 2 ;\n" in text
    assert "\n longitude = 0, 0.8, 2, " in out("-p", "1", "-v", "longitude", SAMPLE)


def test_s_tells_how_variables_are_stored(dataset: Path) -> None:
    text = out("-s", "-h", dataset)
    assert '\t\ty:_Storage = "chunked" ;\n\t\ty:_ChunkSizes = 3 ;\n' in text
    assert '\n// global attributes:\n\t\t:_Format = "netCDF-4" ;\n' in text
    assert "\t\t:_NCProperties = " in out("-sh", SAMPLE)


def test_k_prints_the_kind_alone(dataset: Path) -> None:
    assert out("-k", dataset) == "netCDF-4\n"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("-v", "x,nothing"), "has no variable of that name"),
        (("-v", "x,,y"), "'x,,y' is not a list of names"),
        (("-p", "0"), "'0' is not one or two numbers between 1 and 20"),
        (("-p", "7,15,3"), "'7,15,3' is not one or two numbers"),
        (("-l", "9"), "'9' is not a number of at least 10"),
        (("-f", "x"), "invalid choice: 'x'"),
        (("-b", "c", "-f", "c"), "not allowed with argument"),
    ],
)
def test_a_wrong_option_is_an_error_of_one_line(
    dataset: Path, options: tuple[str, ...], why: str
) -> None:
    done = nczfs("dump", *options, dataset)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_variable_is_refused_with_the_remedy(dataset: Path) -> None:
    done = nczfs("dump", dataset / "x")
    assert done.returncode == 2
    assert done.stderr.endswith("is a variable; give the URL of its group, and -v its name\n")


def test_a_reader_that_has_enough_ends_it_quietly() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "nczfs.cli.main", "dump", str(SAMPLE)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"netcdf ostia {\n"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 128 + 13


def test_letters_of_ncdump_do_not_hide_the_options_of_logging(dataset: Path) -> None:
    done = nczfs("dump", "--verbose", "-k", dataset)
    assert (done.returncode, done.stdout) == (0, "netCDF-4\n")


class Recorded:
    """As much of a variable as `flat_blocks` needs; remembers the shapes it was asked for."""

    def __init__(self, shape: tuple[int, ...], chunks: tuple[int, ...]) -> None:
        self.shape = shape
        self.chunks = chunks
        self.dtype = np.dtype("i8")
        self.values = np.arange(np.prod(shape, dtype=int)).reshape(shape)
        self.asked: list[tuple[int, ...]] = []

    def __getitem__(self, selector: Any) -> Any:
        found = self.values[selector]
        self.asked.append(np.shape(found))
        return found


@pytest.mark.parametrize(
    ("shape", "chunks", "asked"),
    [
        ((), (), [()]),
        ((10,), (3,), [(6,), (4,)]),
        ((10,), (100,), [(8,), (2,)]),
        ((4, 3), (1, 3), [(2, 3), (2, 3)]),
        ((5, 2), (2, 2), [(4, 2), (1, 2)]),
        ((2, 12), (2, 5), [(5,), (5,), (2,)] * 2),
        ((2, 2, 6), (2, 2, 2), [(1, 6)] * 4),
        ((3, 0), (1, 1), [(3, 0)]),
        ((0, 3), (1, 3), []),
    ],
)
def test_values_come_in_blocks_of_bounded_size(
    shape: tuple[int, ...], chunks: tuple[int, ...], asked: list[tuple[int, ...]]
) -> None:
    variable: Any = Recorded(shape, chunks)
    blocks = list(flat_blocks(variable, 64))
    assert variable.asked == asked
    assert all(block.ndim == 1 and block.nbytes <= 64 for block in blocks)
    flat = np.concatenate([np.empty(0, int), *blocks])
    np.testing.assert_array_equal(flat, variable.values.reshape(-1))
