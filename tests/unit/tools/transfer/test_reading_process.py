"""A netCDF file is read by a process of its own, which may fail in any way."""

from __future__ import annotations

import io
import os
import pickle
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest

from nczfs.errors import CorruptStore, NczfsError
from nczfs.model.dtypes import NcType
from nczfs.model.printing import printable
from nczfs.tools.transfer.reading_process import _Answers, _Reader, read_apart
from nczfs.tools.transfer.source import Source

LIMIT = 64 << 20
VALUES = np.arange(6 * 500, dtype="f4").reshape(6, 500)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file.nc"
    with netCDF4.Dataset(path, "w") as dataset:
        dataset.createDimension("y", 6)
        dataset.createDimension("x", 500)
        dataset.createVariable("v", "f4", ("y", "x"), zlib=True, chunksizes=(2, 500))[:] = VALUES
        dataset.createGroup("below").createVariable("n", "i4")[...] = 3
    return path


@contextmanager
def opened(path: Path) -> Iterator[Source]:
    with read_apart(str(path), "/d/d.nc", lambda _: None, LIMIT, skip_unsupported=False) as source:
        yield source


def children() -> list[int]:
    done = subprocess.run(
        ["ps", "-ww", "-o", "pid=", "-o", "args=", "--ppid", str(os.getpid())],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.split(None, 1) for line in done.stdout.splitlines()]
    return [int(pid) for pid, words in lines if "reading_process" in words]


def test_values_are_read_box_by_box(file: Path) -> None:
    with opened(file) as source:
        assert len(children()) == 1
        assert set(source.contents) == {"v", "below/n"}
        found = source.contents["v"].read((slice(1, 3), slice(0, 500)))
        np.testing.assert_array_equal(found, VALUES[1:3])
        assert source.contents["below/n"].read(()).tolist() == 3
    assert not children()


def test_it_shares_the_processors_with_its_mount_but_not_what_is_typed(file: Path) -> None:
    with opened(file):
        (process,) = children()
        assert os.getsid(process) == os.getsid(0)
        assert os.getpgid(process) != os.getpgid(0)


def test_a_killed_process_is_an_error_of_the_file(file: Path) -> None:
    with opened(file) as source:
        (pid,) = children()
        os.kill(pid, signal.SIGKILL)
        for _ in range(2):
            with pytest.raises(CorruptStore, match=r"/d/d\.nc: .*the library failed"):
                source.contents["v"].read((slice(0, 6), slice(0, 500)))


@pytest.mark.parametrize("share", [0.0, 0.001, 0.05, 0.3, 0.6, 0.9, 0.999])
def test_an_hdf5_file_that_is_cut_anywhere_cannot_be_read(file: Path, share: float) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(NczfsError) as caught, opened(file):
        pass
    assert "/d/d.nc" in str(caught.value)
    assert str(file) not in str(caught.value)


def test_damaged_chunks_are_an_error_of_the_read(file: Path) -> None:
    with h5py.File(file, "r") as dataset:
        place = dataset["v"].id.get_chunk_info(1)
    with open(file, "r+b") as damaged:
        damaged.seek(place.byte_offset)
        damaged.write(b"\xff" * place.size)
    with opened(file) as source:
        with pytest.raises(CorruptStore):
            source.contents["v"].read((slice(2, 4), slice(0, 500)))
        np.testing.assert_array_equal(
            source.contents["v"].read((slice(0, 2), slice(0, 500))), VALUES[:2]
        )


def test_a_chunk_that_is_larger_than_the_memory_is_an_error(tmp_path: Path) -> None:
    """SEMANTICS W81."""
    path = tmp_path / "large.nc"
    nbytes = 1 << 30
    packed = zlib.compressobj(1)
    data = b"".join(packed.compress(bytes(1 << 24)) for _ in range(nbytes >> 24)) + packed.flush()
    with h5py.File(path, "w") as dataset:
        large = dataset.create_dataset("v", (nbytes,), "u1", chunks=(nbytes,), compression=1)
        large.id.write_direct_chunk((0,), data)
    assert path.stat().st_size < 8 << 20
    with opened(path) as source, pytest.raises(CorruptStore):
        source.contents["v"].read((slice(0, 1000),))


def test_a_process_that_answers_nonsense_and_stays_is_ended(file: Path) -> None:
    words = ["import sys; sys.stdout.buffer.write(b'nonsense'); sys.stdout.flush(); input()"]
    with (
        subprocess.Popen(
            [sys.executable, "-c", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process,
        pytest.raises(CorruptStore, match="the library failed"),
    ):
        _Reader(process, str(file), "/d/d.nc").answer()
    assert process.returncode == -signal.SIGKILL


def test_members_of_enumerations_arrive_however_python_pickles_them() -> None:
    answer = pickle.dumps([Call(getattr, NcType, "FLOAT"), NcType.CHAR])
    assert _Answers(io.BytesIO(answer)).load() == [NcType.FLOAT, NcType.CHAR]


class Call:
    """A pickle of it calls a function where it is read."""

    def __init__(self, function: object, *arguments: object) -> None:
        self.called = function, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self.called


@pytest.mark.parametrize(
    "answer",
    [
        pickle.dumps(Call(os.mkdir, "made")),
        pickle.dumps(Call(subprocess.getoutput, "mkdir made")),
        pickle.dumps(Call(printable, "made")),  # of the model, but no class
        pickle.dumps(Call(np.load, "made")),
        pickle.dumps(Call(getattr, NczfsError, "__init__")),
        pickle.dumps(Call(getattr, NcType, "mro")),
        b"cnczfs.model.hierarchy\nannotations\n.",
        b"\x80\x05K",
    ],
    ids=[
        "system call",
        "shell",
        "function of ours",
        "function of numpy",
        "attribute",
        "no member",
        "module",
        "cut",
    ],
)
def test_an_answer_makes_nothing_but_plain_data(
    answer: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that takes over the library must not take over the mount."""
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.chdir(place)
    (tmp_path / "answer").write_bytes(answer)
    reader = tmp_path / "reader"
    reader.write_text(f"#!/bin/sh\ncat {tmp_path}/answer\n")
    reader.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(reader))
    with pytest.raises(CorruptStore, match="cannot be read as a netCDF file"), opened(place):
        pass
    assert os.listdir(place) == []
