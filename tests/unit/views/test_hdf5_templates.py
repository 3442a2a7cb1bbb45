"""Templates of netCDF-4 files: the same bytes everywhere, built once, and kept safely."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nczfs.engine.options import Tally
from nczfs.errors import ObjectTooLarge, Unavailable, Unsupported
from nczfs.testing.layouts import LayoutSuite
from nczfs.views.layout import Layout
from nczfs.views.literalfile import LiteralFile
from nczfs.views.netcdf.content import Elements, FileContent, FileDimension, FileVariable
from nczfs.views.netcdf.hdf5 import building, stored, templates
from nczfs.views.netcdf.hdf5.layout import template_layout
from nczfs.views.netcdf.hdf5.stored import StoredTemplates
from nczfs.views.netcdf.hdf5.template import FileExtent, Template, digest_of, gaps
from nczfs.views.netcdf.hdf5.templates import Templates
from nczfs.views.reader import read_at
from nczfs.views.segments import FileLiteral
from tests.support.netcdf_contents import Handmade, number, text, texts


def made(variables: int = 3, units: str = "K") -> Handmade:
    found = Handmade()
    time, x = found.dimension("time", 4, unlimited=True), found.dimension("x", 20_000)
    found.attributes(text("title", "Höhe"), texts("list", "a", "b"))
    found.variable("time", (time,), np.arange(4.0))
    for i in range(variables):
        values = np.arange(80_000, dtype="i2") + i
        found.variable(f"v{i}", (time, x), values, text("units", units), number("n", "f4", 1.5))
    found.variable("s", (time,), ("a", "", "größe", "d"))
    return found


def literals_of(template: Template) -> bytes:
    if isinstance(template.data, bytes):
        return template.data
    return template.data.read(template.begin, template.literal_bytes)


def without_data(template: Template) -> Template:
    return replace(template, data=b"", begin=0)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[FileContent]:
    """The contents whose templates were built."""
    found: list[FileContent] = []
    real = building.build_template

    def build(content: FileContent, *rest: Any) -> Template:
        found.append(content)
        return real(content, *rest)

    monkeypatch.setattr(building, "build_template", build)
    return found


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even small literals are in files."""
    monkeypatch.setattr(templates, "MEMORY_BYTES_MAX", 100)
    monkeypatch.setattr(stored, "MEMORY_BYTES_MAX", 100)


class TestNetcdf4Layout(LayoutSuite):
    @pytest.fixture
    def layout(self) -> Layout:
        content = made(1)
        return template_layout(
            content.content(), content.elements, Templates().find(content.content())
        )


BUILD = """
from hashlib import sha256
from tests.unit.views.test_hdf5_templates import literals_of, made, without_data
from nczfs.views.netcdf.hdf5.templates import Templates
found = Templates().find(made().content())
print(sha256(literals_of(found) + repr(without_data(found)).encode()).hexdigest())
"""


def test_two_processes_build_the_same_bytes() -> None:
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    built = [
        subprocess.run(
            [sys.executable, "-c", BUILD],
            env=env | more,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for more in ({"PYTHONHASHSEED": "1"}, {"PYTHONHASHSEED": "2", "MALLOC_PERTURB_": "85"})
    ]
    assert built[0] == built[1]
    found = Templates().find(made().content())
    here = sha256(literals_of(found) + repr(without_data(found)).encode()).hexdigest()
    assert built[0].strip() == here


def test_a_template_is_built_once_for_contents_that_differ_in_values_alone(
    counted: list[FileContent],
) -> None:
    found = Templates()
    one, other = made(), made()
    other.sources["v0"].values[:] = 7
    assert found.find(one.content()) is found.find(other.content())
    assert len(counted) == 1
    found.find(made(units="m").content())
    assert len(counted) == 2


CHANGES: dict[str, Callable[[FileVariable], FileVariable]] = {
    "name": lambda v: replace(v, name="other"),
    "attribute": lambda v: replace(v, attributes=(text("units", "m"),)),
    "type of an attribute": lambda v: replace(v, attributes=(texts("units", "K"),)),
    "dimension": lambda v: replace(v, dimensions=v.dimensions[::-1]),
    "length": lambda v: replace(v, dimensions=(FileDimension("time", 5, True), v.dimensions[1])),
    "limit": lambda v: replace(v, dimensions=(FileDimension("time", 4), v.dimensions[1])),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_difference_of_structure_has_another_digest(
    change: Callable[[FileVariable], FileVariable],
) -> None:
    content = made(1).content()
    time, v0, s = content.root.variables
    other = FileContent(replace(content.root, variables=(time, change(v0), s)))
    assert digest_of(other) != digest_of(content)


def test_strings_are_a_part_of_the_structure() -> None:
    one, other = Handmade(), Handmade()
    for content, value in ((one, "a"), (other, "b")):
        content.variable("s", (content.dimension("x", 1),), (value,))
    assert digest_of(one.content()) != digest_of(other.content())


def test_threads_that_want_one_template_wait_for_one_building(counted: list[FileContent]) -> None:
    found, content = Templates(), made(50).content()
    results: list[Template] = []
    threads = [
        threading.Thread(target=lambda: results.append(found.find(content))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(counted) == 1
    assert all(result is results[0] for result in results)


def test_a_stored_template_is_used_by_the_next_mount(
    tmp_path: Path, counted: list[FileContent]
) -> None:
    content = made().content()
    first = Templates(str(tmp_path / "kept")).find(content)
    second = Templates(str(tmp_path / "kept")).find(content)
    assert len(counted) == 1
    assert without_data(second) == without_data(first)
    assert literals_of(second) == literals_of(first)
    assert (tmp_path / "kept").stat().st_mode & 0o777 == 0o700


@pytest.mark.usefixtures("small_memory")
@pytest.mark.parametrize("is_stored", [False, True])
def test_long_literals_are_read_from_a_file(tmp_path: Path, is_stored: bool) -> None:
    content = made()
    expected = building.build_template(content.content())
    found = Templates(str(tmp_path / "kept") if is_stored else None).find(content.content())
    assert isinstance(found.data, LiteralFile)
    layouts = [template_layout(content.content(), content.elements, t) for t in (expected, found)]
    assert any(isinstance(segment, FileLiteral) for segment in layouts[1].segments)
    one, other = (bytes(read_at(layout, 0, layout.size, Tally())) for layout in layouts)
    assert one == other


@pytest.mark.usefixtures("small_memory")
def test_an_unmount_leaves_neither_files_nor_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    gc.collect()  # of earlier tests
    before = len(os.listdir("/proc/self/fd"))
    found = Templates()
    template = found.find(made().content())
    assert os.listdir(tmp_path) == []
    assert len(os.listdir("/proc/self/fd")) == before + 1
    found.close()
    del template
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.usefixtures("small_memory")
@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "foreign", "link", "directory"])
def test_a_damaged_template_is_built_anew(
    tmp_path: Path, damage: str, counted: list[FileContent]
) -> None:
    content = made().content()
    expected = Templates(str(tmp_path / "kept")).find(content)
    path = tmp_path / "kept" / digest_of(content)
    data = path.read_bytes()
    path.unlink()
    match damage:
        case "cut":
            path.write_bytes(data[:-1])
        case "flip":
            path.write_bytes(data[:-100] + bytes([data[-100] ^ 1]) + data[-99:])
        case "empty":
            path.touch()
        case "foreign":
            path.write_bytes(b"something else" * 100)
        case "link":
            (tmp_path / "elsewhere").write_bytes(data)
            path.symlink_to(tmp_path / "elsewhere")
        case "directory":
            path.mkdir()
    found = Templates(str(tmp_path / "kept")).find(content)
    assert len(counted) == 2
    assert literals_of(found) == literals_of(expected)
    assert without_data(found) == without_data(expected)


def test_a_directory_that_others_may_use_is_not_used(
    tmp_path: Path, counted: list[FileContent]
) -> None:
    content = made().content()
    Templates(str(tmp_path / "kept")).find(content)
    (tmp_path / "kept").chmod(0o750)
    Templates(str(tmp_path / "kept")).find(content)
    assert len(counted) == 2


def test_a_file_where_the_directory_should_be_harms_nothing(tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    assert Templates(str(tmp_path / "kept")).find(made().content()).size > 0


def test_the_least_recently_used_templates_go_beyond_the_limit(tmp_path: Path) -> None:
    data = bytes(1000)
    kept = StoredTemplates(str(tmp_path / "kept"), 3500)
    for at, name in enumerate("abc"):
        kept.keep(name, Template(5000, (), (FileExtent(0, 1000),), data))
        os.utime(tmp_path / "kept" / name, ns=(at, at))
    (tmp_path / "kept" / "new-half").write_bytes(b"of a crash")
    os.utime(tmp_path / "kept" / "new-half", ns=(0, 0))
    assert kept.load("a") is not None
    kept.keep("d", Template(5000, (), (FileExtent(0, 1000),), data))
    assert sorted(os.listdir(tmp_path / "kept")) == ["a", "c", "d"]
    kept.keep("e", Template(5000, (), (FileExtent(0, 4000),), bytes(4000)))
    assert sorted(os.listdir(tmp_path / "kept")) == ["a", "c", "d"]


MANY = """
import resource, sys, time
from tests.support.groups import group, said, variable
from nczfs.views.netcdf.fitting import file_content
from nczfs.views.netcdf.hdf5 import building
from nczfs.views.netcdf.hdf5.templates import Templates
from nczfs.views.netcdf.kinds import NETCDF4

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

members = [
    variable(f"v{n}", "<f4", {"x": 3}, attributes=(said("units", "K"),))
    for n in range(int(sys.argv[1]))
]
begun, before = time.process_time(), peak()
found = Templates().find(file_content(group("", *members), NETCDF4, lambda _: ()))
print(len(found.runs), time.process_time() - begun, peak() - before)
"""


@pytest.mark.parametrize("count", [2000, pytest.param(10_000, marks=pytest.mark.long)])
def test_a_template_of_many_variables_takes_bounded_time_and_memory(count: int) -> None:
    """Measured with 10,000: 0.4 ms and 11 KB for each."""
    said = subprocess.run(
        [sys.executable, "-c", MANY, str(count)],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    runs, processor_s, nbytes = map(float, said.split())
    assert runs == count
    assert processor_s < count * 3e-3
    assert nbytes < count * 30_000


def test_a_file_with_too_many_members_is_refused_before_it_is_built(
    monkeypatch: pytest.MonkeyPatch, counted: list[FileContent]
) -> None:
    monkeypatch.setattr(templates, "MEMBERS_MAX", 10)
    with pytest.raises(ObjectTooLarge, match="of 16 groups, dimensions, variables and attributes"):
        Templates().find(made().content())
    assert not counted


def test_what_hdf5_cannot_hold_is_refused_with_its_words() -> None:
    found = Handmade()
    dims = tuple(found.dimension(f"d{i}", 1 << 40) for i in range(3))
    found.variable("v", dims, np.empty(0))
    with pytest.raises(Unsupported, match="HDF5 cannot write the file: "):
        Templates().find(found.content())


def test_the_end_of_the_mount_ends_a_building() -> None:
    found = Templates()
    found.close()
    with pytest.raises(Unavailable, match="the mount is ending"):
        found.find(made().content())
    assert Templates().find(made().content()).size > 0


def test_runs_lie_in_the_order_of_the_variables_and_large_ones_begin_a_page() -> None:
    content = made().content()
    template = Templates().find(content)
    shown = [v for v in content.variables() if isinstance(v.values, Elements)]
    assert [place.nbytes for place in template.runs] == [32, *[160_000] * 3]
    assert [place.offset % 4096 for place in template.runs[1:]] == [0, 0, 0]
    assert len(shown) == len(template.runs)
    assert list(template.runs[1:]) == sorted(template.runs[1:])


def test_what_describes_the_members_lies_together() -> None:
    found = Handmade()
    x = found.dimension("x", 20_000)
    for i in range(100):
        found.variable(
            f"v{i}", (x,), np.zeros(20_000), *[text(f"a{n}", "value") for n in range(12)]
        )
    template = Templates().find(found.content())
    assert len(template.literals) < 5
    ends = [sum(place) for place in template.literals]
    assert max(ends) <= min(place.offset for place in template.runs) < 1 << 20


def test_gaps_are_what_places_leave() -> None:
    assert list(gaps((FileExtent(2, 3), FileExtent(5, 1), FileExtent(8, 2)), 10)) == [
        FileExtent(0, 2),
        FileExtent(6, 2),
    ]
    assert list(gaps((), 3)) == [FileExtent(0, 3)]
    with pytest.raises(ValueError, match="overlap"):
        list(gaps((FileExtent(0, 3), FileExtent(2, 3)), 10))
    with pytest.raises(ValueError, match="overlap"):
        list(gaps((FileExtent(0, 30),), 10))
