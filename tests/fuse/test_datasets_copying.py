"""Programs that copy directories copy datasets, within a mount and from one to another."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nczfs
from nczfs.testing import datasets
from nczfs.zmap.directory import DirectoryZMap
from tests.support.commands import printed
from tests.support.looking import mounting_of
from tests.support.mounts import mounted, served
from tests.support.mounts import nczfs as command
from tests.support.places import Place, bucket_of, directory_at
from tests.support.sample import output
from tests.support.servers import S3Server
from tests.support.settled import settled
from tests.support.verifying import CODECS

REFUSED = r"Operation not permitted|EPERM|EINVAL|ENOSPC|not stored at its last close|are dropped"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A dataset of NCZarr with all that a dataset can have, and one of pure Zarr."""
    directory = tmp_path / "store"
    directory.mkdir()
    with nczfs.open(str(directory / "a.zarr"), "w", consolidated=True) as root:
        root.attrs.update(title="sample", count=np.int16(3))
        root.create_dimension("time", None)
        for name, size in {"x": 300, "y": 200, "none": 0}.items():
            root.create_dimension(name, size)
        values = np.random.default_rng(1).normal(size=(4, 200, 300)).astype("f4")
        attributes = {"units": "K", "weights": np.array([0.1, np.nan], "f4")}
        root.create_variable("t", ("time", "y", "x"), None, values, 1e20, attributes=attributes)
        root.create_variable("packed", ("x",), ">i2", np.arange(300, dtype=">i2"), -1)
        root.create_variable("empty", ("none", "x"), "<f8")
        root.create_variable("hole", ("y", "x"), "<f4", fillvalue=np.float32(np.nan))
        root.create_variable("text", ("y",), str, np.array(["é"] * 200), string_bytes=8)
        group = root.create_group("g")
        group.create_dimension("x", 5)
        group.create_variable("scalar", (), "<f8", np.float64(2.5))
        group.create_variable("v", ("x", "/y"), "<i4", np.ones((5, 200), "i4"))
        group.create_group("nothing")
    with nczfs.open(str(directory / "p.zarr"), "w", format="zarr2") as root:
        root.create_dimension("x", 4)
        root.create_variable("flags", ("x",), "?", np.array([True, False, True, True]))
        root.create_variable("words", ("x",), str, np.array(["a", "", "ü" * 9, "x"], object))
        root.create_variable("time", ("x",), "M8[s]", np.arange(4).astype("M8[s]"))
    zmap = DirectoryZMap(directory)
    for name, codec in CODECS.items():
        datasets.put_array(zmap, f"p.zarr/{name}", np.arange(4000, dtype="<i4"), (2000,))
        document = json.loads((directory / f"p.zarr/{name}/.zarray").read_text())
        document["compressor"] = codec.get_config()
        datasets.put_json(zmap, f"p.zarr/{name}/.zarray", document)
        for chunk in "01":
            path = directory / f"p.zarr/{name}/{chunk}"
            path.write_bytes(bytes(codec.encode(path.read_bytes())))
    zmap.close()
    return directory


@pytest.fixture
def copying(store: Path, tmp_path: Path) -> Iterator[Path]:
    """The datasets of a mount that they can be copied in."""
    with settled(store, tmp_path / "spool", "--views", "copy", expect=REFUSED) as mount:
        yield mount.path / "datasets"


def check_equal(copy: str | Path, source: Path) -> None:
    """A copy has the same values, tells the same of itself, and nothing is wrong with it."""
    assert printed("verify", "--digest", copy) == printed("verify", "--digest", source)
    texts = [printed("info", "--json", place) for place in (copy, source)]
    assert _sorted(json.loads(texts[0])) == _sorted(json.loads(texts[1]))
    assert printed("verify", copy) == printed("verify", source)


def _sorted(node: dict[str, Any]) -> dict[str, Any]:
    """What is told of a group, whichever of its members was made first."""
    dimensions = sorted(node["dimensions"], key=lambda dimension: str(dimension["name"]))
    members = {name: sorted(node[name]) for name in ("variables", "groups")}
    return node | members | {"dimensions": dimensions}


def tar(source: Path, target: Path) -> None:
    target.mkdir()
    script = 'tar -C "$0" -cf - . | tar -C "$1" -xf -'
    output("sh", "-c", script, source, target)


COPIERS: dict[str, Callable[[Path, Path], object]] = {
    "cp -r": lambda source, target: output("cp", "-r", source, target),
    "cp -a": lambda source, target: output("cp", "-a", source, target),
    "cp --sparse": lambda source, target: output("cp", "-r", "--sparse=always", source, target),
    "rsync -r": lambda source, target: output("rsync", "-r", f"{source}/", target),
    "rsync -a": lambda source, target: output("rsync", "-a", f"{source}/", target),
    "rsync --inplace": lambda source, target: output(
        "rsync", "-r", "--inplace", f"{source}/", target
    ),
    "tar": tar,
    "copytree": lambda source, target: shutil.copytree(source, target),
}


@pytest.mark.parametrize("copy", COPIERS.values(), ids=COPIERS)
def test_a_copy_in_the_same_mount_is_equal(
    copying: Path, store: Path, copy: Callable[[Path, Path], object]
) -> None:
    """SEMANTICS W28."""
    for name in ("a.zarr", "p.zarr"):
        copy(copying / name, copying / f"copy-{name}")
        check_equal(store / f"copy-{name}", store / name)


@pytest.mark.parametrize("name", ["cp -r", "cp -a", "rsync -a", "tar"])
def test_a_copy_from_a_mount_that_is_read_only_is_equal(
    store: Path, tmp_path: Path, name: str
) -> None:
    """SEMANTICS W28."""
    other = directory_at(tmp_path / "other")
    copy_between_mounts(store, other, tmp_path / "spool", COPIERS[name])


def test_a_copy_into_a_bucket_is_equal(store: Path, tmp_path: Path, ceph: S3Server) -> None:
    """SEMANTICS W28."""
    copy_between_mounts(store, bucket_of(ceph), tmp_path / "spool", COPIERS["cp -r"])


def copy_between_mounts(
    store: Path, other: Place, spool: Path, copy: Callable[[Path, Path], object]
) -> None:
    with ExitStack() as stack:
        source = stack.enter_context(mounted(store, "--views", "copy", "--read-only"))
        place = settled(other.url, spool, "--views", "copy", expect=REFUSED)
        target = stack.enter_context(place)
        copy(source / "datasets/a.zarr", target.path / "datasets/b.zarr")
    check_equal(other.url_of("b.zarr"), store / "a.zarr")


def test_out_of_a_mount_and_into_it_again(copying: Path, store: Path, tmp_path: Path) -> None:
    """SEMANTICS W28."""
    output("cp", "-r", copying / "a.zarr", tmp_path / "files")
    assert (tmp_path / "files/t/values.raw").stat().st_size == 4 * 200 * 300 * 4
    output("cp", "-r", tmp_path / "files", copying / "b.zarr")
    check_equal(store / "b.zarr", store / "a.zarr")


def test_groups_and_variables_are_copied_into_other_datasets(copying: Path, store: Path) -> None:
    """SEMANTICS W28."""
    output("cp", "-r", copying / "a.zarr/g", copying / "a.zarr/h")
    output("cp", "-r", copying / "a.zarr/t", copying / "a.zarr/h/t")
    with nczfs.open(str(store / "a.zarr")) as root:
        for name in ("scalar", "v"):
            one, other = (root[f"{group}/{name}"] for group in "gh")
            np.testing.assert_array_equal(np.asarray(one[...]), np.asarray(other[...]))  # type: ignore[index]
        copy = root["h/t"]
        np.testing.assert_array_equal(np.asarray(copy[...]), np.asarray(root["t"][...]))  # type: ignore[index]
        assert [d.group for d in root["h/v"].description.dimensions] == ["h", ""]  # type: ignore[union-attr]
        # In the group of the copy, as it was above; but there is an x of another length in it.
        assert [d.group for d in copy.description.dimensions] == ["h", "h", ""]  # type: ignore[union-attr]


def test_rsync_again_changes_nothing_and_takes_new_records(copying: Path, store: Path) -> None:
    """SEMANTICS W29."""
    rsync = ["rsync", "-r", "--ignore-times", f"{copying}/a.zarr/", f"{copying}/b.zarr"]
    output(*rsync)
    output(*rsync)
    check_equal(store / "b.zarr", store / "a.zarr")
    with (copying / "a.zarr/t/values.raw").open("ab") as file:
        file.write(np.full((2, 200, 300), 7, "f4").tobytes())
    output(*rsync)
    check_equal(store / "b.zarr", store / "a.zarr")


def test_with_all_views_shown_a_copy_is_refused_and_what_it_leaves_can_be_removed(
    store: Path, tmp_path: Path
) -> None:
    """SEMANTICS W11, W101, W26."""
    with settled(store, tmp_path / "spool", expect=REFUSED) as mount:
        datasets = mount.path / "datasets"
        done = subprocess.run(
            ["cp", "-r", "a.zarr", "b.zarr"],
            cwd=datasets,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert "a.cdl': Operation not permitted" in done.stderr
        # A line for each file and directory in the dataset itself, and none for what is below.
        assert len(done.stderr.splitlines()) == len(list((datasets / "a.zarr").iterdir()))
        problems = json.loads((datasets / "b.zarr/info.json").read_text())["problems"]
        assert "--views copy" in problems[0]
        assert "--views copy" in (mount.path / ".nczfs/log").read_text() + mount.log.read_text()
        found = command("verify", store / "b.zarr")
        assert found.stdout.splitlines()[0].startswith("note /: a dataset without members")
        (datasets / "b.zarr").rmdir()
        assert not (datasets / "b.zarr").exists()
    assert sorted(path.name for path in store.iterdir()) == ["a.zarr", "p.zarr"]


@pytest.mark.parametrize("copier", ["cp -r", "rsync -r"])
def test_what_a_refused_copy_of_a_variable_leaves_can_be_removed(
    store: Path, tmp_path: Path, copier: str
) -> None:
    """SEMANTICS W101, W26."""
    with settled(store, tmp_path / "spool", expect=REFUSED) as mount:
        root = mount.path / "datasets/a.zarr"
        source = "t/" if "rsync" in copier else "t"
        done = subprocess.run(
            [*copier.split(), source, "u"], cwd=root, capture_output=True, text=True, check=False
        )
        assert done.returncode != 0
        assert not (root / "u/chunks").exists()
        assert "`nczfs cp`" in json.loads((root / "u/info.json").read_text())["problems"][0]
        (root / "u").rmdir()
        assert not (root / "u").exists()


def test_values_that_come_first_need_room_on_the_local_disk(
    store: Path, tmp_path: Path, copying: Path
) -> None:
    """SEMANTICS W30."""
    output("cp", "-r", copying / "a.zarr", tmp_path / "files")
    options = ("--views", "copy", "--max-spool-size", "100000")
    other = tmp_path / "other"
    other.mkdir()
    with settled(other, tmp_path / "spool2", *options, expect=REFUSED) as mount:
        target = mount.path / "datasets/b.zarr/t"
        target.mkdir(parents=True)
        source = tmp_path / "files/t"
        done = subprocess.run(
            ["cp", source / "values.raw", target], capture_output=True, text=True, check=False
        )
        assert "No space left on device" in done.stderr
        (target / "values.raw").unlink()
        output("cp", source / "info.json", target)
        output("cp", source / "values.raw", target)
        assert (target / "values.raw").read_bytes() == (source / "values.raw").read_bytes()


def test_what_a_copy_said_0_to_survives_a_kill(store: Path, tmp_path: Path) -> None:
    """SEMANTICS W31."""
    (tmp_path / "spool").mkdir()
    with ExitStack() as stack:
        words = ("--views", "copy", "--spool-dir", str(tmp_path / "spool"))
        mount = stack.enter_context(served(mounting_of(store, *words), exit_codes=None))
        datasets = mount.path / "datasets"
        output("cp", "-r", datasets / "a.zarr", datasets / "b.zarr")
        mount.process.kill()
    check_equal(store / "b.zarr", store / "a.zarr")


def test_a_file_descriptor_that_stays_open_follows_its_variable(copying: Path, store: Path) -> None:
    """SEMANTICS W30."""
    (copying / "b.zarr/w").mkdir(parents=True)
    target = copying / "b.zarr/w"
    data = (copying / "a.zarr/packed/values.raw").read_bytes()
    with (target / "values.raw").open("xb", buffering=0) as file:
        file.write(data[:100])
        shutil.copy(copying / "a.zarr/packed/info.json", target)
        file.write(data[100:])
        os.fsync(file.fileno())
        with nczfs.open(str(store / "b.zarr")) as root:
            np.testing.assert_array_equal(root.variables["w"][...], np.arange(300))
    assert (target / "values.raw").read_bytes() == data
