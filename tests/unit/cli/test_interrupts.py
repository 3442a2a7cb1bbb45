"""SIGINT and SIGTERM: long commands end, say so by their status, and leave what is documented."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import termios
import weakref
from collections.abc import Iterator
from pathlib import Path

import netCDF4
import numpy as np
import pytest

import nczfs
from nczfs.cli import interrupts
from nczfs.cli.main import main
from nczfs.engine.structure.ownership import UNFINISHED
from tests.support.mounts import nczfs as run
from tests.support.signalled import running
from tests.support.waiting import until

STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143}
SIGNALS = list(STATUS)
ROWS, COLUMNS = 512, 64 << 10  # 128 MiB in 8 blocks; a chunk is a row


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("file") / "a.nc"
    with netCDF4.Dataset(path, "w") as dataset:
        dataset.createDimension("t", ROWS)
        dataset.createDimension("x", COLUMNS)
        variable = dataset.createVariable(
            "v", "i4", ("t", "x"), zlib=True, complevel=1, chunksizes=(1, COLUMNS)
        )
        row = np.arange(1, COLUMNS + 1, dtype="i4")
        for t in range(ROWS):
            variable[t] = row * (t + 1)
    return path


@pytest.fixture(scope="module")
def dataset(file: Path) -> Path:
    path = file.parent / "d"
    assert run("import", file, path).returncode == 0
    return path


@pytest.mark.parametrize("signum", SIGNALS)
@pytest.mark.parametrize("seed", range(3))
def test_an_import_that_is_interrupted_removes_what_it_wrote(
    file: Path, tmp_path: Path, signum: signal.Signals, seed: int
) -> None:
    """At any moment: netCDF4-python swallows exceptions that a handler raises while it reads."""
    some = random.Random(f"{signum} {seed}").randrange(1, ROWS // 3)
    target = tmp_path / "d"
    with running("import", file, target) as command:
        command.wait_for(lambda: (target / "v").exists() and len(os.listdir(target / "v")) >= some)
        command.send(signum)
        assert command.status() == STATUS[signum]
        assert (
            command.stderr == f"nczfs: {target.as_uri()}: what was written there has been removed\n"
        )
    assert not target.exists()


@pytest.mark.parametrize("signum", SIGNALS)
@pytest.mark.parametrize("seed", range(2))
def test_an_export_that_is_interrupted_leaves_no_file(
    dataset: Path, tmp_path: Path, signum: signal.Signals, seed: int
) -> None:
    some = random.Random(f"{signum} {seed}").randrange(1, 40 << 20)  # of 128 MiB
    with running("export", dataset, tmp_path / "b.nc", "--codecs", "none") as command:
        command.wait_for(
            lambda: sum(path.stat().st_size for path in tmp_path.iterdir() if path.exists()) > some
        )
        command.send(signum)
        assert command.status() == STATUS[signum]
        assert command.stderr == ""
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("words", [["verify"], ["verify", "--digest"], ["cat", "--raw"], ["diff"]])
def test_what_only_reads_ends_at_any_moment(
    dataset: Path, file: Path, words: list[str], seed: int
) -> None:
    """Into a pipe that nobody empties, so that it cannot be done before the signal."""
    chance = random.Random(f"{words} {seed}")
    signum = chance.choice(SIGNALS)
    reader, writer = os.pipe()
    try:
        places = [dataset / "v" if words[0] == "cat" else dataset]
        places += [file] if words[0] == "diff" else []
        with running(*words, *places, stdout=writer) as command:
            with pytest.raises(subprocess.TimeoutExpired):
                command.process.wait(chance.uniform(0, 0.2))
            command.send(signum)
            assert command.status() == STATUS[signum]
            assert "Traceback" not in command.stderr
    finally:
        os.close(reader)
        os.close(writer)


@pytest.fixture
def silent_server() -> Iterator[str]:
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


SLOW = ("--request-timeout", "10min")


@pytest.mark.parametrize("signum", SIGNALS)
@pytest.mark.parametrize(
    "words",
    [["ls"], ["verify"], ["info"], ["cat"], ["dump"], ["du"], ["rm", "-r"], ["cp"], ["diff"]],
)
def test_a_store_that_does_not_answer_keeps_no_command_from_ending(
    silent_server: str, tmp_path: Path, words: list[str], signum: signal.Signals
) -> None:
    places: list[str | Path] = [f"{silent_server}/d.zarr"]
    places += [tmp_path / "b"] if words[0] in ("cp", "diff") else []
    with running(*words, *places, *SLOW) as command:
        command.send(signum)
        assert command.status() == STATUS[signum]


# An import into a store whose every write takes a minute, by all threads that write.
_STUCK = """
import sys, time
from nczfs.cli import interrupts, main
from nczfs.zmap.directory import DirectoryZMap

limit_s, *words = sys.argv[1:]
interrupts.LIMIT_S = float(limit_s)
write = DirectoryZMap.write

def slow(self, key, *arguments, **options):
    if key.startswith("v/"):
        print("stuck", flush=True)
        time.sleep(3600)
    return write(self, key, *arguments, **options)

DirectoryZMap.write = slow
sys.exit(main.main(words))
"""


def test_what_does_not_end_in_time_is_ended_and_says_what_it_leaves(
    file: Path, tmp_path: Path
) -> None:
    with running("0.1", "import", file, tmp_path / "d", script=_STUCK) as command:
        command.wait_for(lambda: "stuck" in command.stdout)
        command.send(signal.SIGTERM)
        assert command.status() == 143
        assert command.stderr == (
            f"nczfs: {tmp_path}/d: stopped; --overwrite removes what was written\n"
        )
    assert UNFINISHED in os.listdir(tmp_path / "d")
    assert run("import", file, tmp_path / "d").returncode == 1
    assert run("import", file, tmp_path / "d", "--overwrite").returncode == 0


def test_a_signal_amid_a_callback_is_neither_lost_nor_printed(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Importing a module ends with one, and a signal may come at any moment."""
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)

    class Referent:
        pass

    def callback(_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    def fail(_: object) -> None:
        raise KeyError("another")

    first, second = Referent(), Referent()
    references = weakref.ref(first, callback), weakref.ref(second, fail)
    with interrupts.handled():
        del first
        assert references[0]() is None
        assert capfd.readouterr().err == ""
        del second
        assert "KeyError: 'another'" in capfd.readouterr().err
        with pytest.raises(interrupts.Ended) as ended:
            interrupts.check()
    assert ended.value.status == 130
    assert sys.unraisablehook is sys.__unraisablehook__


@pytest.mark.parametrize("signum", SIGNALS)
def test_a_command_ends_in_order_whichever_thread_is_interrupted(signum: signal.Signals) -> None:
    """The main thread waits for a lock, which a signal to another thread does not end."""
    program = f"""if True:
        import signal
        import sys
        import threading
        from nczfs.cli import interrupts

        try:
            with interrupts.handled():
                threading.Timer(0.5, signal.raise_signal, ({signum:d},)).start()
                try:
                    threading.Event().wait()
                finally:
                    print("what was half made is removed")
        except interrupts.Ended as end:
            sys.exit(end.status)
    """
    done = subprocess.run([sys.executable, "-c", program], check=False, stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (STATUS[signum], b"what was half made is removed\n")


def test_the_second_signal_ends_at_once(file: Path, tmp_path: Path) -> None:
    with running("3600", "import", file, tmp_path / "d", script=_STUCK) as command:
        command.wait_for(lambda: "stuck" in command.stdout)
        command.send(signal.SIGINT)
        command.send(signal.SIGTERM)
        assert command.status() in (130, 143)


def test_an_export_that_is_ended_at_once_leaves_no_file(dataset: Path, tmp_path: Path) -> None:
    script = _STUCK.replace("DirectoryZMap.write", "DirectoryZMap.read").replace(
        'key.startswith("v/")', 'key == "v/9.0"'
    )
    with running("0.1", "export", dataset, tmp_path / "b.nc", script=script) as command:
        command.wait_for(lambda: "stuck" in command.stdout)
        command.send(signal.SIGINT)
        assert command.status() == 130
    assert os.listdir(tmp_path) == []


def test_an_archive_that_is_being_compacted_stays_what_it_was(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    for value in (1, 2):
        with nczfs.open(str(archive), "a", format="zarr2") as root:
            if value == 1:
                root.create_variable("v", (1000,), "i4", codecs=[])
            root.variables["v"][...] = value
    before = archive.read_bytes()
    script = _STUCK.replace(
        "from nczfs.zmap.directory import DirectoryZMap", "from nczfs.zmap.zip import disk"
    )
    head, _, _ = script.partition("write = ")
    script = head + (
        "def slow(*_):\n    print('stuck', flush=True)\n    time.sleep(3600)\n"
        "disk.copy = slow\nsys.exit(main.main(words))\n"
    )
    with running("60", "zip-compact", archive, script=script) as command:
        command.wait_for(lambda: "stuck" in command.stdout)
        command.send(signal.SIGTERM)
        assert command.status() == 143
    assert os.listdir(tmp_path) == ["a.zip"]
    assert archive.read_bytes() == before


def test_an_ignored_signal_stays_ignored(silent_server: str) -> None:
    """As SIGINT is for what a shell runs in the background."""
    script = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN);"
        "from nczfs.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    with running("ls", f"{silent_server}/d.zarr", *SLOW, script=script) as command:
        command.send(signal.SIGINT)
        command.send(signal.SIGTERM)
        assert command.status() == 143


def test_a_library_that_is_called_keeps_its_handlers(tmp_path: Path) -> None:
    before = [signal.getsignal(signum) for signum in SIGNALS]
    assert main(["ls", str(tmp_path)]) == 1
    assert [signal.getsignal(signum) for signum in SIGNALS] == before
    assert signal.set_wakeup_fd(-1) == -1


def test_a_reader_that_takes_no_more_does_not_keep_cat_from_ending(dataset: Path) -> None:
    """The pipe is full, and Python flushes its output once more when it ends."""
    reader, writer = os.pipe()
    try:
        with running("cat", dataset / "v", stdout=writer) as command:
            until(lambda: _is_full(reader))
            command.send(signal.SIGTERM)
            assert command.status() == 143
    finally:
        os.close(reader)
        os.close(writer)


def _is_full(reader: int) -> bool:
    """Whether a pipe has room for nothing more."""
    count = struct.unpack("i", fcntl.ioctl(reader, termios.FIONREAD, bytes(4)))[0]
    return bool(count == fcntl.fcntl(reader, fcntl.F_GETPIPE_SZ))
