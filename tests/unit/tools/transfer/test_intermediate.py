"""Copies in two passes: equal to those in one, and fewer chunks are decoded."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nczfs
from nczfs.cli.main import main
from nczfs.errors import Conflict, NczfsError
from nczfs.tools.transfer.choices import Choices
from nczfs.tools.transfer.copy_pieces import chunk_pair
from nczfs.tools.transfer.intermediate import IntermediatePlace, Passes, two_passes
from nczfs.tools.transfer.sharing import times_touched
from nczfs.tools.transfer.target import NewNode
from nczfs.tools.transfer.unfinished import Mark, MarkedPlace
from nczfs.zmap.directory import DirectoryZMap
from nczfs.zmap.keys import ROOT, Key
from tests.support.copies import checksums, copied, fill_awkward, objects, variable

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


def place_in(directory: Path | str) -> IntermediatePlace:
    return IntermediatePlace(NewNode(str(directory), memory_limit_bytes=LIMIT))


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


def in_second_pass(middle: Path, act: Callable[[], object]) -> Callable[[float], None]:
    """A `progress` that does something once, when the second pass has begun."""
    waiting = [act]

    def progress(_: float) -> None:
        if waiting and any(middle.glob("*/zarr.json")):
            waiting.pop()()

    return progress


def stop() -> None:
    raise NczfsError("stopped")


class Copies:
    """A source, an intermediate place, and copies."""

    def __init__(self, place: Path) -> None:
        self.source, self.middle = str(place / "source"), place / "middle"
        make_maps(self.source)
        self._place = place

    def copied(self, name: str, limit: int = LIMIT, **options: Any) -> dict[str, bytes]:
        """What a copy through the intermediate place has in the end."""
        options.setdefault("place", place_in(self.middle))
        other = str(self._place / name)
        copied(self.source, other, choices=SERIES, memory_limit_bytes=limit, **options)
        return objects(other)

    def stopped(self, name: str) -> None:
        """Begin a copy, and end it in its second pass."""
        with pytest.raises(NczfsError, match="stopped"):
            self.copied(name, progress=in_second_pass(self.middle, stop))
        assert list(self.middle.iterdir())


@pytest.fixture
def copies(tmp_path: Path) -> Copies:
    return Copies(tmp_path)


def test_two_copies_of_one_source_do_not_disturb_each_other(copies: Copies) -> None:
    found: list[dict[str, bytes]] = []
    between = in_second_pass(copies.middle, lambda: found.append(copies.copied("b")))
    assert copies.copied("a", progress=between) == copies.copied("one", place=None)
    assert found == [copies.copied("c")]
    assert not list(copies.middle.iterdir())


def test_chunks_that_another_program_removes_meanwhile_are_not_taken_for_fill(
    copies: Copies,
) -> None:
    def remove() -> None:
        for path in copies.middle.glob("*/values/c/*/*/0"):
            path.unlink()

    with pytest.raises(Conflict, match="another program removed chunks of it"):
        copies.copied("a", progress=in_second_pass(copies.middle, remove))
    assert copies.copied("a") == copies.copied("one", place=None)


def test_a_source_that_changed_between_two_runs_is_read_again(copies: Copies) -> None:
    copies.stopped("a")
    with nczfs.open(copies.source, "r+") as root:
        for name in ("v", "holes"):
            variable(root, name)[3, 2:4] = 7
    assert copies.copied("a") == copies.copied("one", place=None)


def test_chunks_that_disappeared_from_the_source_between_two_runs_are_not_kept(
    copies: Copies,
) -> None:
    """Each chunk of the intermediate datasets is made of two of the source."""
    with nczfs.open(copies.source, "r+") as root:
        variable(root, "holes")[...] = 5
    copies.stopped("a")
    for name in ("v", "holes"):
        Path(copies.source, name, "c/3/0/0").unlink()
    assert copies.copied("a") == copies.copied("one", place=None)
    assert not list(copies.middle.iterdir())


def test_an_intermediate_dataset_of_chunks_that_were_there_once_is_not_used(
    copies: Copies,
) -> None:
    """A run without it, which had less to read, came in between."""
    with nczfs.open(copies.source, "r+") as root:
        variable(root, "holes")[...] = 5
    copies.stopped("a")
    Path(copies.source, "holes/c/3/0/0").unlink()
    with pytest.raises(NczfsError, match="stopped"):
        copies.copied("a", place=None, progress=lambda done: stop() if done else None)
    assert list(copies.middle.iterdir())
    assert copies.copied("a") == copies.copied("one", place=None)
    assert not list(copies.middle.iterdir())


def test_an_unchanged_source_is_not_read_again(copies: Copies) -> None:
    copies.stopped("a")
    before = {p: p.stat().st_ino for p in copies.middle.glob("*/values/c/*/*/*")}
    seen: list[dict[Path, int]] = []

    def look() -> None:
        seen.append({p: p.stat().st_ino for p in before})

    copies.copied("a", progress=in_second_pass(copies.middle, look))
    assert seen == [before]


@pytest.mark.parametrize("limit", [LIMIT // 2, 1 << 20], ids=["other chunks", "one pass"])
def test_the_next_run_removes_what_one_with_another_memory_limit_left(
    copies: Copies, limit: int
) -> None:
    copies.stopped("a")
    assert copies.copied("a", limit) == copies.copied("one", place=None)
    assert not list(copies.middle.iterdir())


def test_the_next_run_removes_what_was_being_removed(
    copies: Copies, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    delete_many = DirectoryZMap.delete_many

    def killed(zmap: DirectoryZMap, keys: Sequence[Key]) -> None:
        keys = list(keys)
        if "nczfs-intermediate" in zmap.name and any("values/c/" in key for key in keys):
            raise Killed
        delete_many(zmap, keys)

    with monkeypatch.context() as patched:
        patched.setattr(DirectoryZMap, "delete_many", killed)
        with pytest.raises(Killed):
            copies.copied("a")
    assert list(copies.middle.iterdir())
    assert copies.copied("a") == copies.copied("one", place=None)
    assert not list(copies.middle.iterdir())


def test_a_place_where_another_process_writes_is_not_to_be_overwritten(
    copies: Copies,
) -> None:
    copies.stopped("a")
    (place,) = copies.middle.iterdir()
    shutil.rmtree(place)
    place.mkdir()
    MarkedPlace(DirectoryZMap(str(place)), ROOT).put(Mark("cp", "other").started())
    with pytest.raises(Conflict, match=r"is writing there; end that, or name another place"):
        copies.copied("a")


def test_a_place_in_the_copy_itself_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, other = str(tmp_path / "source"), str(tmp_path / "other")
    make_maps(source)
    words = ["cp", source, other, "--chunks", "t=16,x=4,y=4", "--intermediate"]
    assert main([*words, f"{other}/middle"]) == 2
    assert "name a place beside it" in capsys.readouterr().err
