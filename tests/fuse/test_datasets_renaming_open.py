"""Files and directories of datasets/ that programs have open while what holds them is renamed."""

from __future__ import annotations

import errno
import itertools
import json
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import nczfs
from tests.support.looking import failing_with
from tests.support.settled import settled
from tests.support.waiting import until

# A directory that is listed while its old keys go may find a variable without its document.
REFUSED = (
    r"ESTALE|not stored|\.zarray: is missing, and \.zattrs is that of an array"
    r"|/(g|h|i)/(v|w): listed by its group, but missing"
)
FILES = (
    *("v/values.raw", "v/values.npy", "v/values.txt", "v/info.json", "v/chunks/0.1"),
    *("v/attributes/units", "info.json", "g.cdl", "attributes/title"),
)
DIRECTORIES = ("", "v", "v/chunks", "v/attributes", "attributes", "deep")


@pytest.fixture(params=["nczarr-L3", "zarr2"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    directory = tmp_path / "store"
    with nczfs.open(str(directory / "d.zarr"), "w", format=request.param) as root:
        root.create_dimension("x", 200)
        group = root.create_group("g", {"title": "t"})
        values = np.arange(400, dtype="<i4").reshape(2, 200)
        attributes = {"units": "K", "count": np.int16(3)}
        group.create_variable("v", (2, "x"), "<i4", values, chunks=(1, 50), attributes=attributes)
        group.create_group("deep")
    return directory


@pytest.fixture
def dataset(store: Path, tmp_path: Path) -> Iterator[Path]:
    with settled(store, tmp_path / "spool", "-o", "allow_delete", expect=REFUSED) as mount:
        yield mount.path / "datasets/d.zarr"


def attribute(store: Path, path: str, name: str) -> object:
    """As somebody reads it who shares nothing with the mount."""
    with nczfs.open(str(store / "d.zarr")) as root:
        return root[path].attrs[name]


def test_what_is_open_has_its_attributes_all_the_time(dataset: Path) -> None:
    """SEMANTICS W32."""
    files = [os.open(dataset / "g" / name, os.O_RDONLY) for name in FILES]
    directories = [os.open(dataset / "g" / name, os.O_RDONLY) for name in DIRECTORIES]
    numbers = [os.fstat(handle).st_ino for handle in (*files, *directories)]
    sizes = [os.fstat(handle).st_size for handle in files]
    ended = threading.Event()
    errors: list[tuple[str, str]] = []

    def ask() -> None:
        while not ended.is_set():
            for name, handle in zip((*FILES, *DIRECTORIES), (*files, *directories), strict=True):
                try:
                    os.fstat(handle)
                    os.utime(handle, (1, 1))
                    if name in DIRECTORIES:
                        os.listdir(handle)
                except OSError as error:
                    errors.append((name, errno.errorcode[error.errno or 0]))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    names = ["g", "h", "i", "g"]
    for old, new in itertools.pairwise(names):
        (dataset / old).rename(dataset / new)
        (dataset / new / "v").rename(dataset / new / "w")
        (dataset / new / "w").rename(dataset / new / "v")
    ended.set()
    for thread in threads:
        thread.join()
    assert set(errors) == set()
    assert [os.fstat(handle).st_ino for handle in (*files, *directories)] == numbers
    # An info.json that was made while documents moved may say for a moment what was missing.
    until(lambda: [os.fstat(handle).st_size for handle in files] == sizes)
    for handle in (*files, *directories):
        os.close(handle)


@pytest.mark.parametrize("renamed", ["g", "g/v"])
def test_an_attribute_that_is_written_follows_its_node(
    dataset: Path, store: Path, renamed: str
) -> None:
    """SEMANTICS W32."""
    paths = ["attributes/units", "attributes/new", "attributes/count"]
    handles = [os.open(dataset / "g/v" / path, os.O_RDWR | os.O_CREAT) for path in paths]
    for handle, text in zip(handles, (b"m", b"2.5", b"7"), strict=True):
        os.ftruncate(handle, 0)
        os.write(handle, text)
    (dataset / renamed).rename(dataset / renamed.replace(renamed[-1], "new"))
    new = renamed.replace(renamed[-1], "new") + ("/v" if renamed == "g" else "")
    assert os.fstat(handles[0]).st_size == 1
    os.write(handles[0], b"m/s")
    for handle in handles:
        os.close(handle)
    found = [attribute(store, new, name) for name in ("units", "new", "count")]
    assert found == ["mm/s", 2.5, 7]
    assert (dataset / new / "attributes/units").read_text() == "mm/s\n"
    assert json.loads((dataset / new / "info.json").read_text())["problems"] == []
    assert not (store / "d.zarr" / renamed).exists()


def test_attributes_written_all_the_time_are_in_the_new_place(dataset: Path, store: Path) -> None:
    """SEMANTICS W32."""
    handle = os.open(dataset / "g/v/attributes/count", os.O_RDWR)
    ended = threading.Event()
    answered: list[int] = [3]
    errors: list[OSError] = []

    def write() -> None:
        for number in range(10000, 30000):
            if ended.is_set():
                return
            try:
                os.pwrite(handle, b"%d" % number, 0)
                os.fsync(handle)
            except OSError as error:
                errors.append(error)
                return
            answered.append(number)

    writer = threading.Thread(target=write)
    writer.start()
    names = ["g", "h", "i", "k"]
    for old, new in itertools.pairwise(names):
        (dataset / old).rename(dataset / new)
        (dataset / new / "v").rename(dataset / new / "w")
        (dataset / new / "w").rename(dataset / new / "v")
    ended.set()
    writer.join()
    assert errors == []
    assert attribute(store, "k/v", "count") == answered[-1]
    os.close(handle)


def test_a_declaration_that_is_written_follows_its_group(dataset: Path, store: Path) -> None:
    """SEMANTICS W32."""
    (dataset / "g/new").mkdir()
    handle = os.open(dataset / "g/new/info.json", os.O_WRONLY)
    os.write(handle, b'{"shape": [2, 200], "dtype": "<i2", ')
    (dataset / "g/new").rename(dataset / "g/newer")
    (dataset / "g").rename(dataset / "h")
    os.write(handle, b'"dimensions": ["y", "x"]}')
    os.close(handle)
    with nczfs.open(str(store / "d.zarr")) as root:
        assert root.groups["h"].variables["newer"].shape == (2, 200)
    assert json.loads((dataset / "h/newer/info.json").read_text())["path"] == "/h/newer"


@pytest.mark.parametrize("is_made_again", [False, True])
def test_what_is_written_to_a_removed_node_goes_nowhere(
    dataset: Path, store: Path, is_made_again: bool
) -> None:
    """SEMANTICS W17."""
    units = os.open(dataset / "g/v/attributes/units", os.O_RDWR)
    info = os.open(dataset / "g/deep/info.json", os.O_WRONLY)
    new = os.open(dataset / "g/v/attributes/new", os.O_WRONLY | os.O_CREAT)
    for handle in (units, new):
        os.write(handle, b"m")
    os.write(info, b'{"shape": [2], "dtype": "<i2"')
    shutil.rmtree(dataset / "g")
    if is_made_again:
        (dataset / "g").mkdir()
        (dataset / "g/deep").mkdir()
        (dataset / "g/v").mkdir()
        (dataset / "g/v/info.json").write_text('{"shape": [2], "dtype": "<i2"}')
    for handle in (units, new):
        os.fstat(handle)
        with failing_with(errno.ESTALE):
            os.close(handle)
    with failing_with(errno.ESTALE):
        os.write(info, b"}")
    with failing_with(errno.ESTALE):
        os.close(info)
    with nczfs.open(str(store / "d.zarr")) as root:
        found = list(root.groups["g"].variables) if is_made_again else list(root.groups)
        assert found == (["v"] if is_made_again else [])
        if is_made_again:
            assert dict(root["g/v"].attrs) == {}
