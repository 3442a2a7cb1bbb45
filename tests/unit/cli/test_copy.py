"""``nczfs cp``: between stores, between formats, ended and gone on with."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from pathlib import Path

import netCDF4
import numpy as np
import pytest

import nczfs
from nczfs.cli.main import main
from nczfs.engine.structure.ownership import UNFINISHED
from tests.support.copies import checksums, fill_awkward, objects, parsed
from tests.support.httpd import WebServer
from tests.support.mounts import nczfs as run
from tests.support.servers import Faults, S3Server
from tests.support.signalled import running
from tests.support.watching import requests_of


def cp(*words: str | Path) -> int:
    return main(["cp", *map(str, words)])


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("source") / "a.zarr"
    fill_awkward(str(place), "nczarr-L3")
    return place


def line(capsys: pytest.CaptureFixture[str]) -> str:
    error = capsys.readouterr().err
    assert error.startswith("nczfs: ")
    assert error.count("\n") == 1
    return error


@pytest.mark.parametrize("verb", ["cp", "copy"])
def test_a_copy_is_silent_and_equal(
    verb: str, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([verb, str(source), str(tmp_path / "b.zarr")]) == 0
    assert capsys.readouterr() == ("", "")
    assert objects(str(tmp_path / "b.zarr")) == objects(str(source))


def test_a_directory_an_archive_and_a_bucket_are_copied_to_each_other(
    source: Path, tmp_path: Path, swift: S3Server
) -> None:
    bucket = swift.new_bucket()
    places: list[str | Path] = [
        tmp_path / "b.zip",
        swift.url(bucket, "one"),
        swift.url(bucket, "two"),
        swift.url(swift.new_bucket(), "three"),
        tmp_path / "c",
    ]
    before: str | Path = source
    for place in places:
        assert cp(before, place) == 0
        before = place
    for place in places:
        assert objects(str(place)) == objects(str(source))


def test_the_server_copies_the_chunks_by_itself(source: Path, ceph_with_faults: Faults) -> None:
    server = ceph_with_faults.server
    one, other = (server.url(server.new_bucket(), "d") for _ in range(2))
    assert cp(source, one) == 0
    asked = requests_of(ceph_with_faults, lambda: cp(one, other))
    chunks = {word for word in asked if word.rpartition("/")[2].replace(".", "").isdecimal()}
    assert chunks
    assert {word.split()[0] for word in chunks} == {"PUT"}
    assert objects(other) == objects(one)


def test_a_web_server_that_lists_nothing_is_copied_from(source: Path, nginx: WebServer) -> None:
    place = nginx.new_directory() / "a.zarr"
    shutil.copytree(source, place)
    for path in place.rglob("*"):
        path.chmod(0o755)
    url = f"{nginx.url}/unlisted/{place.parent.name}/a.zarr"
    target = place.parent / "b.zarr"
    assert cp(url, target) == 0
    assert parsed(str(target)) == parsed(str(source))


def test_format_chunks_and_codecs_are_taken_from_the_options(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "b.zarr"
    words = ["--format", "zarr", "--chunks", "t=7,x=2", "--codecs", "shuffle,zstd:1"]
    assert cp(source, target, *words, "--consolidated") == 0
    with nczfs.open(str(target)) as root:
        assert root.header.format == "zarr2"
        array = root.variables["v"].description.array
        assert array.chunk_shape == (7, 2)
        assert [codec.name for codec in array.codecs.codecs] == ["shuffle", "zstd"]
    assert (target / ".zmetadata").exists()
    before, after = checksums(str(source)), checksums(str(target))
    del before["/text"], after["/text"]  # strings in Zarr
    assert after == before


@pytest.mark.parametrize(
    ("fragment", "words", "expected"),
    [
        ("", [], "nczarr-L2l"),
        ("#mode=zarr,file", [], "zarr2"),
        ("#mode=nczarr,file", [], "nczarr-L3"),
        ("#mode=zarr,file", ["--format", "nczarr-L3"], "nczarr-L3"),
    ],
)
def test_the_format_is_that_of_the_option_of_the_url_or_of_the_source(
    fragment: str, words: list[str], expected: str, tmp_path: Path
) -> None:
    with nczfs.open(str(tmp_path / "a"), "w", format="nczarr-L2l") as root:
        root.create_variable("v", (2,), data=np.ones(2))
    assert cp(tmp_path / "a", f"file://{tmp_path}/b{fragment}", *words) == 0
    with nczfs.open(str(tmp_path / "b")) as root:
        assert root.header.format == expected


def test_below_a_dataset_a_copy_becomes_a_part_of_it(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "b.zarr"
    assert cp(source, target) == 0
    assert cp(source / "g", target / "new/group") == 0
    assert cp(source / "v", target / "new/v2") == 0
    found = checksums(str(target))
    assert found["/new/v2"] == found["/v"]
    assert found["/new/group/w"] == found["/g/w"]
    assert run("verify", target).returncode == 0
    with nczfs.open(str(target)) as root:
        assert sorted(root.groups) == ["g", "new"]


def test_a_part_of_a_dataset_has_the_format_of_that(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "b.zarr"
    assert cp(source, target, "--format", "zarr") == 0
    assert cp(source / "g", target / "h", "--format", "nczarr") == 2
    assert "becomes a part of" in line(capsys)
    assert cp(source / "g", target / "h") == 0
    with nczfs.open(str(target)) as root:
        assert root["h/w"].stored.format == "zarr2"


@pytest.mark.parametrize(
    ("source_word", "target_word"),
    [("a.zarr", "a.zarr"), ("a.zarr", "a.zarr/g/x"), ("a.zarr/g", "a.zarr"), ("link", "a.zarr")],
)
def test_a_place_is_not_copied_into_itself(
    source_word: str, target_word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_awkward(str(tmp_path / "a.zarr"), "nczarr-L3")
    (tmp_path / "link").symlink_to(tmp_path / "a.zarr")
    before = objects(str(tmp_path / "a.zarr"))
    assert cp(tmp_path / source_word, tmp_path / target_word, "--overwrite") == 2
    assert "they are the same, or one contains the other" in line(capsys)
    assert objects(str(tmp_path / "a.zarr")) == before


def test_netcdf_files_have_commands_of_their_own(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    netCDF4.Dataset(tmp_path / "a.nc", "w").close()
    assert cp(tmp_path / "a.nc", tmp_path / "b") == 2
    assert "`nczfs import`" in line(capsys)
    assert cp(source, tmp_path / "b.nc") == 2
    assert "`nczfs export`" in line(capsys)


def test_what_is_there_is_kept_and_the_way_out_is_named(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "b.zarr"
    assert cp(source, target) == 0
    assert cp(source, target) == 1
    assert "--overwrite replaces it" in line(capsys)
    assert cp(source / "g", target, "--overwrite") == 0
    assert checksums(str(target)) == checksums(str(source), "g")


def test_nothing_to_copy_is_an_error_of_one_line(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cp(source / "nosuch", tmp_path / "b") == 1
    assert "no group or variable is there" in line(capsys)
    assert cp(tmp_path / "nosuch", tmp_path / "b") == 1
    line(capsys)
    assert not (tmp_path / "b").exists()


# -- runs that are ended ---------------------------------------------------------------------------

ROWS, COLUMNS = 3000, 1000


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of 3000 chunks."""
    place = tmp_path_factory.mktemp("many") / "a.zarr"
    with nczfs.open(str(place), "w", format="zarr2") as root:
        root.create_dimension("t", ROWS)
        root.create_dimension("x", COLUMNS)
        values = np.arange(1, ROWS * COLUMNS + 1, dtype="i4").reshape(ROWS, COLUMNS)
        root.create_variable("v", ("t", "x"), data=values, chunks=(1, COLUMNS))
    return place


WAYS = {"as it is": [], "anew": ["--chunks", "x=500"]}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 2))])
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_copy_that_is_ended_at_any_moment_is_gone_on_with(
    way: str, seed: int, signum: signal.Signals, many: Path, tmp_path: Path
) -> None:
    some = random.Random(f"{way} {seed} {signum}").randrange(1, ROWS // 2)
    target = tmp_path / "b.zarr"
    with running("cp", many, target, *WAYS[way]) as command:
        command.wait_for(lambda: (target / "v").exists() and len(os.listdir(target / "v")) >= some)
        command.send(signum)
        status = command.status()
        stderr = command.stderr
    if signum is signal.SIGKILL:
        assert (status, stderr) == (-9, "")
    else:
        assert status == 128 + signum
        assert stderr == (
            f"nczfs: {target.as_uri()}: is unfinished; the same command continues it\n"
        )
    done = {name: (target / "v" / name).stat().st_ino for name in os.listdir(target / "v")}
    assert (target / UNFINISHED).exists()
    assert not any(name.startswith(".z") for name in (*done, *os.listdir(target)))
    again = run("cp", many, target, *WAYS[way])
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert checksums(str(target)) == checksums(str(many))
    if way == "as it is":
        assert objects(str(target)) == objects(str(many))
    kept = {name: (target / "v" / name).stat().st_ino for name in done if not name.startswith(".")}
    assert kept == {name: done[name] for name in kept}


def test_an_unfinished_copy_names_itself(many: Path, tmp_path: Path) -> None:
    target = tmp_path / "b.zarr"
    with running("cp", many, target) as command:
        command.wait_for(lambda: (target / "v").exists())
        command.process.kill()
        command.process.wait()
    assert json.loads((target / UNFINISHED).read_text())["command"] == "cp"
    for words in (["cp", many / "v"], ["import", __file__]):
        done = run(*words, target)
        assert done.returncode == 1, done.stderr
    done = run("verify", target)
    assert "is unfinished" in done.stderr
    done = run("rm", target)
    assert (done.returncode, "-r removes it" in done.stderr) == (2, True)
    count = len(objects(str(target)))
    done = run("rm", "-r", "--dry-run", target)
    they = f"{count} object{'s' if count > 1 else ''}"
    assert done.stdout == f"{target}: {they} would be removed\n"
    os.mkdir(target / "killed_before_the_first_chunk")
    assert run("rm", "-r", target).stdout == f"{target}: {they} removed\n"
    assert not target.exists()


def test_two_processes_do_not_make_one_target(many: Path, tmp_path: Path) -> None:
    target = tmp_path / "b.zarr"
    with running("cp", many, target, "--codecs", "bz2:9") as command:
        command.wait_for(lambda: (target / "v").exists() and len(os.listdir(target / "v")) > 10)
        command.send(signal.SIGSTOP)
        done = run("cp", many, target, "--codecs", "bz2:9")
        assert done.returncode == 1
        assert f"process {command.process.pid} is writing there" in done.stderr
        done = run("rm", "-r", target)
        assert f"process {command.process.pid} is writing there" in done.stderr
        command.send(signal.SIGCONT)
        assert command.status() == 0
    assert checksums(str(target)) == checksums(str(many))


def test_a_copy_into_a_directory_has_the_name_of_its_source_there(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As with cp(1)."""
    (tmp_path / "many").mkdir()
    (tmp_path / "many/notes.txt").write_text("mine")
    (tmp_path / "empty").mkdir()
    for target in (tmp_path / "many", f"{tmp_path}/empty/"):
        assert cp(source, target) == 0
    assert sorted(os.listdir(tmp_path / "many")) == sorted([source.name, "notes.txt"])
    assert os.listdir(tmp_path / "empty") == [source.name]
    assert main(["diff", str(source), str(tmp_path / "many" / source.name)]) == 0
    capsys.readouterr()
    assert cp(source, tmp_path / "many") == 1
    assert f"many/{source.name}: something is there already; --overwrite replaces it" in line(
        capsys
    )
    assert (tmp_path / "many/notes.txt").read_text() == "mine"


def test_a_copy_onto_an_empty_directory_or_a_dataset_is_the_dataset_itself(
    source: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    assert cp(source, tmp_path / "empty") == 0
    assert main(["diff", str(source), str(tmp_path / "empty")]) == 0
    assert cp(source, f"{tmp_path}/empty/", "--overwrite") == 0
    assert main(["diff", str(source), str(tmp_path / "empty")]) == 0
