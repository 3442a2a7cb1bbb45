"""Copies in two passes: equal to those in one, and fewer chunks are decoded."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import nczfs
from nczfs.cli.main import main
from nczfs.errors import NczfsError
from nczfs.tools.transfer.choices import Choices
from nczfs.tools.transfer.copy_pieces import chunk_pair
from nczfs.tools.transfer.intermediate import Passes, Place, times_touched, two_passes
from nczfs.tools.transfer.target import NewNode
from tests.support.copies import checksums, copied, fill_awkward, objects

LIMIT = 8 << 10
SERIES = Choices({"t": 16, "y": 4, "x": 4})
MAPS = np.random.default_rng(1).integers(0, 1000, (16, 16, 16)).astype("f4")


def make_maps(url: str, format_name: str = "zarr3") -> None:
    with nczfs.open(url, "w", format=format_name) as root:
        for name, length in (("t", 16), ("y", 16), ("x", 16)):
            root.create_dimension(name, length)
        attributes = {"units": "K", "scale_factor": 0.5}
        maps = root.create_variable(
            "v", ("t", "y", "x"), "f4", chunks=(1, 16, 16), attributes=attributes
        )
        maps[...] = MAPS
        holes = root.create_variable("holes", ("t", "y", "x"), "i2", chunks=(1, 16, 16))
        holes[3:5, :4] = 1
        root.create_variable("small", ("t",), "f8", data=np.arange(16.0))


def place_in(directory: Path | str) -> Place:
    return Place(NewNode(str(directory), memory_limit_bytes=LIMIT))


@pytest.mark.parametrize("format_name", ["zarr2", "zarr3", "nczarr-L3"])
def test_a_copy_in_two_passes_is_equal_and_leaves_nothing_else(
    format_name: str, tmp_path: Path
) -> None:
    source, one, other = (str(tmp_path / name) for name in ("source", "one", "other"))
    make_maps(source, format_name)
    lines = copied(source, one, choices=SERIES, memory_limit_bytes=LIMIT)
    assert re.search(r"/v: each chunk of the source is decoded \d+ times", "\n".join(lines))
    done: list[float] = []
    lines = copied(
        source, other, choices=SERIES, memory_limit_bytes=LIMIT,
        place=place_in(tmp_path / "middle"), progress=done.append,
    )  # fmt: skip
    assert "an intermediate dataset of up to 16KiB is made in" in "\n".join(lines)
    assert objects(other) == objects(one)
    assert checksums(other) == checksums(source)
    assert not list((tmp_path / "middle").iterdir())
    assert sum(done) == pytest.approx(MAPS.nbytes * 1.5 + 16 * 8)


def test_awkward_variables_are_copied_too(tmp_path: Path) -> None:
    source, one, other = (str(tmp_path / name) for name in ("source", "one", "other"))
    fill_awkward(source, "nczarr-L3")
    choices = Choices({"t": 7, "x": 1}, ())
    copied(source, one, choices=choices, memory_limit_bytes=64)
    copied(source, other, choices=choices, memory_limit_bytes=64, place=place_in(tmp_path / "m"))
    assert objects(other) == objects(one)


def test_one_pass_is_enough_where_memory_is_not_short(tmp_path: Path) -> None:
    source, other = str(tmp_path / "source"), str(tmp_path / "other")
    make_maps(source)
    lines = copied(source, other, choices=SERIES, place=place_in(tmp_path / "middle"))
    assert not lines
    assert not (tmp_path / "middle").exists()


@pytest.mark.parametrize(
    ("chunk", "block", "times"),
    [
        ((1, 721, 1440), (8760, 40, 1440), 19),
        ((500, 40, 1440), (8760, 40, 1440), 1),
        ((8760, 721, 1000), (8760, 721, 1440), 1),
        ((8760, 721, 960), (8760, 721, 720), 1.5),
    ],
)
def test_how_often_chunks_are_touched(
    chunk: tuple[int, ...], block: tuple[int, ...], times: float
) -> None:
    assert times_touched((8760, 721, 1440), chunk, block) == pytest.approx(times)


def test_each_pass_decodes_each_chunk_once_where_it_can(tmp_path: Path) -> None:
    make_maps(str(tmp_path / "source"))
    with nczfs.open(str(tmp_path / "source")) as root:
        maps = root.variables["v"]
        array = replace(maps.description.array, chunk_shape=(16, 4, 4))
        goal = replace(maps.description, array=array)
        passes = two_passes(chunk_pair("v", maps, goal), LIMIT)
    assert passes == Passes(8, (2, 4, 8), MAPS.nbytes)


@pytest.mark.parametrize("calls", [1, 12, 30, 60])
def test_what_is_interrupted_anywhere_is_continued(calls: int, tmp_path: Path) -> None:
    """Ended at some call of `progress`, in the first pass, in the second one, or between."""
    source, one, other = (str(tmp_path / name) for name in ("source", "one", "other"))
    make_maps(source)
    copied(source, one, choices=SERIES, memory_limit_bytes=LIMIT)
    left = calls

    def stop(_: float) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise NczfsError("stopped")

    middle = place_in(tmp_path / "middle")
    try:
        copied(source, other, choices=SERIES, memory_limit_bytes=LIMIT, place=middle, progress=stop)
    except NczfsError as error:
        assert str(error) == "stopped"  # noqa: PT017 - it may also be done by then
    else:
        return
    copied(source, other, choices=SERIES, memory_limit_bytes=LIMIT, place=middle)
    assert objects(other) == objects(one)
    assert not list((tmp_path / "middle").iterdir())


def test_a_place_in_the_copy_itself_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, other = str(tmp_path / "source"), str(tmp_path / "other")
    make_maps(source)
    words = ["cp", source, other, "--chunks", "t=16,x=4,y=4", "--intermediate"]
    assert main([*words, f"{other}/middle"]) == 2
    assert "name a place beside it" in capsys.readouterr().err
