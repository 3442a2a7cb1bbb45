"""Programs that write below ``objects/`` on a real mount."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import shutil
import signal
import sqlite3
import subprocess
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr

from tests.support.looking import mounting_of, store_served
from tests.support.mounts import mounted, nczfs, served
from tests.support.outliving import write_after_close
from tests.support.refusing import small_disk
from tests.support.sample import keys_of, output
from tests.support.servers import S3Server
from tests.support.settled import settled, status, wait_until
from tests.support.waiting import until

RENAME_EXCHANGE = 2


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    return tmp_path / "store"


@pytest.fixture
def objects(store: Path, tmp_path: Path) -> Iterator[Path]:
    with settled(store, tmp_path / "spool") as mount:
        yield mount.path / "objects"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A tree of files with modes and times."""
    root = tmp_path / "source"
    rng = np.random.default_rng(3)
    for number, size in enumerate((0, 1, 4096, 70_000, 3 << 20)):
        path = root / f"d{number % 2}/deep" / f"file {number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(rng.bytes(size))
        os.utime(path, ns=(10**18 + number, 10**18 + number))
    (root / "empty").mkdir()
    (root / "d0/script").write_text("#!/bin/sh\n")
    (root / "d0/script").chmod(0o755)
    return root


def contents(directory: Path) -> dict[str, bytes]:
    return {key: path.read_bytes() for key, path in keys_of(directory).items()}


def test_cp_keeps_everything_and_the_store_has_it(objects: Path, store: Path, source: Path) -> None:
    """SEMANTICS O6, O12."""
    output("cp", "-a", source, objects / "copy")
    assert contents(store / "copy") == contents(source)
    for path in source.rglob("*"):
        copy = objects / "copy" / path.relative_to(source)
        assert copy.stat().st_mode == path.stat().st_mode
        assert copy.stat().st_mtime_ns == path.stat().st_mtime_ns
    output("diff", "-r", source, objects / "copy")


def test_rsync_writes_once_and_then_nothing(objects: Path, store: Path, source: Path) -> None:
    """SEMANTICS O11, O12."""
    command = ["rsync", "-a", "--itemize-changes", f"{source}/", f"{objects}/copy/"]
    assert output(*command)
    assert contents(store / "copy") == contents(source)
    assert output(*command) == b""
    (source / "d0/deep/file 0").write_bytes(b"changed")
    (source / "d1/deep/file 1").unlink()
    output(*command, "--delete")
    assert contents(store / "copy") == contents(source)


def test_tar_unpacks(objects: Path, store: Path, source: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "all.tar", "w") as archive:
        archive.add(source, "all")
    output("tar", "-xf", tmp_path / "all.tar", "-C", objects)
    assert contents(store / "all") == contents(source)
    assert (objects / "all/empty").is_dir()
    output("tar", "-df", tmp_path / "all.tar", "-C", objects)


def test_git_clones_and_commits(objects: Path, tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    output(*git, "init", "-q", origin)
    for number in range(20):
        (origin / f"file{number}").write_text(f"{number}\n" * number)
    output(*git, "-C", origin, "add", ".")
    output(*git, "-C", origin, "commit", "-qm", "first")
    clone = objects / "clone"
    output(*git, "clone", "-q", origin, clone)
    assert output(*git, "-C", clone, "status", "--porcelain") == b""
    (clone / "file3").write_text("changed\n")
    output(*git, "-C", clone, "commit", "-qam", "second")
    output(*git, "-C", clone, "gc", "-q")
    output(*git, "-C", clone, "fsck", "--strict")
    assert output(*git, "-C", clone, "log", "--oneline").count(b"\n") == 2


def test_editors_replace_a_file(objects: Path, store: Path) -> None:
    """SEMANTICS O11."""
    path = objects / "notes.txt"
    path.write_text("one\ntwo\n")
    output("sed", "-i", "s/two/three/", path)
    assert (store / "notes.txt").read_text() == "one\nthree\n"
    output("sh", "-c", f"echo four >> {path}; (echo zero; cat {path}) > {path}.new")
    output("mv", f"{path}.new", path)
    assert (store / "notes.txt").read_text() == "zero\none\nthree\nfour\n"
    assert contents(store).keys() == {"notes.txt"}


def test_vi_writes_a_file_with_a_swap_file_and_a_backup(objects: Path, store: Path) -> None:
    """SEMANTICS O6, O11."""
    path = objects / "notes.txt"
    path.write_text("one\ntwo\n")
    commands = ["set backup backupskip= swapfile", "%s/two/three/", "write", "$delete", "wq"]
    for copies in ("yes", "no"):  # written in place, or renamed
        words = [word for line in (f"set backupcopy={copies}", *commands) for word in ("-c", line)]
        output("vi", "-es", "-u", "NONE", *words, path)
        assert contents(store) == {"notes.txt": b"one\n", "notes.txt~": b"one\nthree\n"}
        path.write_text("one\ntwo\n")


def test_a_shell_redirection_never_empties_the_object(objects: Path, store: Path) -> None:
    """SEMANTICS O8."""
    (objects / "a").write_text("old\n")
    (objects / "a").write_text("old\n")
    output("sh", "-c", f"{{ cat {store}/a >&2; echo new; }} > {objects}/a 2> {store}/../seen")
    assert (store / "a").read_text() == "new\n"
    assert (store.parent / "seen").read_text() == "old\n"


def test_dd_overwrites_a_part(objects: Path, store: Path) -> None:
    data = os.urandom(3 << 20)
    (store / "big").write_bytes(data)
    part = store.parent / "part"
    part.write_bytes(os.urandom(100_000))
    output(
        "dd",
        f"if={part}",
        f"of={objects}/big",
        "bs=1000",
        "seek=777",
        "conv=notrunc",
        "status=none",
    )
    expected = data[:777_000] + part.read_bytes() + data[877_000:]
    assert (store / "big").read_bytes() == expected


def test_sqlite_keeps_a_database(objects: Path, store: Path) -> None:
    path = objects / "data.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table t (a integer primary key, b text)")
        connection.executemany("insert into t (b) values (?)", [(f"row {n}",) for n in range(500)])
    connection.execute("delete from t where a % 2")
    connection.rollback()
    with sqlite3.connect(path) as other:
        other.execute("update t set b = 'x' where a < 10")
    assert connection.execute("select count(*), min(b) from t").fetchone() == (500, "row 10")
    assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
    connection.close()
    other.close()
    stored = sqlite3.connect(store / "data.db")
    assert stored.execute("select count(*) from t where b = 'x'").fetchone() == (9,)
    stored.close()


def test_zarr_writes_and_the_other_tree_shows_it_at_once(objects: Path, store: Path) -> None:
    """SEMANTICS O14."""
    field = np.arange(600, dtype="f4").reshape(20, 30)
    datasets = objects.parent / "datasets"
    assert os.listdir(datasets) == []
    assert not (datasets / "new.zarr").exists()  # the kernel remembers that
    root = zarr.open_group(objects / "new.zarr", mode="a", zarr_format=2)
    array = root.create_array("v", shape=field.shape, chunks=(5, 30), dtype="f4")
    array[:] = field
    root.attrs["title"] = "first"
    raw = datasets / "new.zarr/v/values.raw"
    assert raw.read_bytes() == field.tobytes()
    again = zarr.open_array(objects / "new.zarr/v", mode="a", zarr_format=2)
    again[5:10] = -1
    field[5:10] = -1
    assert raw.read_bytes() == field.tobytes()
    np.testing.assert_array_equal(
        np.asarray(zarr.open_array(store / "new.zarr/v", mode="r")[:]), field
    )
    shutil.rmtree(objects / "new.zarr/v")
    assert "v" not in os.listdir(datasets / "new.zarr")


def test_a_shared_map_is_stored(objects: Path, store: Path) -> None:
    """SEMANTICS O6."""
    (objects / "mapped").write_bytes(bytes(20_000))
    with open(objects / "mapped", "r+b") as file, mmap.mmap(file.fileno(), 0) as view:
        view[5000:5003] = b"abc"
        view.flush()
        assert (objects / "mapped").read_bytes()[5000:5003] == b"abc"
        os.fsync(file.fileno())
        assert (store / "mapped").read_bytes()[5000:5003] == b"abc"
        view[15_000] = 7
    assert (store / "mapped").read_bytes()[15_000] == 7


def test_a_map_that_outlives_its_file_is_stored_when_it_goes(objects: Path, store: Path) -> None:
    """SEMANTICS O32."""
    (objects / "mapped").write_bytes(bytes(20_000))
    write_after_close(objects / "mapped", 1, b"\x09")
    until(lambda: (store / "mapped").read_bytes()[1] == 9)  # the kernel releases it a little later


def test_locks_hold_between_processes(objects: Path) -> None:
    path = objects / "locked"
    path.touch()
    with path.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert output("flock", "-n", path, "true", fails=True) == b""
        fcntl.flock(file, fcntl.LOCK_UN)
        output("flock", "-n", path, "true")


def test_files_of_1970_and_the_times_of_access_are_copied_once(
    objects: Path, source: Path, tmp_path: Path
) -> None:
    """SEMANTICS O33, O34."""
    for path in source.rglob("file *"):
        os.utime(path, (86_400, 0))
    command = ("rsync", "-a", "-U", "--open-noatime", "--itemize-changes", f"{source}/")
    assert output(*command, objects / "copy/")
    found = (objects / "copy/d1/deep/file 1").stat()
    assert (found.st_atime, found.st_mtime) == (86_400, 0)
    assert output(*command, objects / "copy/") == b""
    output("tar", "-C", source, "-cf", tmp_path / "all.tar", ".")
    (objects / "unpacked").mkdir()
    output("tar", "-C", objects / "unpacked", "-xf", tmp_path / "all.tar")
    output("tar", "-C", objects / "unpacked", "-df", tmp_path / "all.tar")


def test_a_new_directory_is_as_old_as_it_is(objects: Path) -> None:
    """SEMANTICS O35."""
    before = time.time_ns()
    (objects / "d").mkdir()
    assert before <= (objects / "d").stat().st_mtime_ns <= time.time_ns()


def test_links_devices_and_our_own_names_are_refused(store: Path, tmp_path: Path) -> None:
    """SEMANTICS L2, L3, L8."""
    (store / "a").touch()
    with settled(store, tmp_path / "spool", expect="EPERM|EINVAL") as mount:
        path, objects = mount.path, mount.path / "objects"
        attempts: list[Callable[[], object]] = [
            lambda: os.symlink("a", objects / "b"),
            lambda: os.link(objects / "a", path / "datasets/b"),
            lambda: os.mkfifo(objects / "b"),
            lambda: os.mkdir(path / "elsewhere"),
            lambda: os.rename(objects, path / "elsewhere"),
        ]
        for attempt in attempts:
            with pytest.raises(PermissionError):
                attempt()
        with pytest.raises(OSError, match="Invalid argument"):
            (objects / ".nczfs-x").touch()


def test_rename_flags(objects: Path) -> None:
    (objects / "a").write_text("a")
    (objects / "b").write_text("b")
    output("mv", "--no-clobber", objects / "a", objects / "b")
    assert (objects / "b").read_text() == "b"
    (objects / "d").mkdir()
    output("mv", objects / "a", objects / "d")
    output("mv", objects / "d", objects / "e")
    assert (objects / "e/a").read_text() == "a"


def test_what_a_flat_store_cannot_do_is_refused(store: Path, tmp_path: Path) -> None:
    """SEMANTICS L6."""
    libc = ctypes.CDLL(None, use_errno=True)
    modes = {"": 0, "KEEP_SIZE": 1, "PUNCH_HOLE": 3, "COLLAPSE_RANGE": 8, "ZERO_RANGE": 16}
    with settled(store, tmp_path / "spool", expect="EINVAL") as mount:
        objects = mount.path / "objects"
        for name in ("a", "b"):
            (objects / name).write_text(name)
        with open(objects / "a", "r+b") as file:
            for mode in modes.values():
                refused = libc.fallocate(file.fileno(), mode, ctypes.c_long(0), ctypes.c_long(9))
                assert (refused, ctypes.get_errno()) == (-1, errno.EOPNOTSUPP)
        paths = [os.fsencode(objects / name) for name in ("a", "b")]
        exchanged = libc.renameat2(-1, paths[0], -1, paths[1], RENAME_EXCHANGE)
        assert (exchanged, ctypes.get_errno()) == (-1, errno.EINVAL)
        with pytest.raises(OSError, match="not supported"):
            os.open(objects, os.O_TMPFILE | os.O_RDWR)
        assert [(objects / name).read_text() for name in ("a", "b")] == ["a", "b"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
def test_what_another_user_makes_is_his(store: Path, tmp_path: Path) -> None:
    """SEMANTICS O36."""
    nobody = 65534
    with settled(store, tmp_path / "spool", "--allow-other", "--dir-mode", "777") as mount:
        mount.path.parent.chmod(0o755)
        script = "mkdir d; echo 1 > d/f; chmod 600 d/f; touch d/f; echo 2 >> d/f; mknod d/g p || :"
        subprocess.run(
            ["sh", "-ec", script],
            cwd=mount.path / "objects",
            user=nobody,
            group=nobody,
            check=True,
            stderr=subprocess.DEVNULL,
        )
        for name in ("d", "d/f"):
            status_of = (mount.path / "objects" / name).stat()
            assert (status_of.st_uid, status_of.st_gid) == (nobody, nobody)
        (mount.path / "objects/mine").touch()
        assert (mount.path / "objects/mine").stat().st_uid == 0
    assert (store / "d/f").read_bytes() == b"1\n2\n"


def test_df_tells_what_the_disk_of_the_store_has(objects: Path, store: Path) -> None:
    shown, disk = os.statvfs(objects), os.statvfs(store)
    assert shown.f_blocks * shown.f_frsize == disk.f_blocks * disk.f_frsize // 4096 * 4096
    assert shown.f_files == disk.f_files


def test_a_store_without_end_has_no_number_of_files(tmp_path: Path) -> None:
    with mounted("memory://df", "--spool-dir", str(tmp_path)) as path:
        assert os.statvfs(path).f_files == 0
        assert b" - " in output("df", "-i", path)


def test_what_a_second_client_stores_shows_in_a_second(objects: Path, store: Path) -> None:
    """SEMANTICS O3."""
    (objects / "a").write_text("ours")
    (store / "a").write_text("theirs!")
    assert (objects / "a").read_text() == "theirs!"


def test_many_writers_at_once(objects: Path, store: Path) -> None:
    def work(number: int) -> None:
        directory = objects / f"d{number}"
        directory.mkdir()
        for turn in range(20):
            (directory / f"tmp{turn}").write_bytes(bytes([turn]) * (turn * 1000))
            os.replace(directory / f"tmp{turn}", directory / "final")
        (directory / "final").rename(objects / f"final{number}")
        directory.rmdir()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert contents(store) == {f"final{n}": bytes([19]) * 19_000 for n in range(8)}


def test_what_was_closed_or_synced_survives_the_daemon(store: Path, tmp_path: Path) -> None:
    """SEMANTICS O6."""
    for trial in range(3):
        command = mounting_of(store, "--spool-dir", str(tmp_path / "spool"))
        with served(command, exit_codes=None) as mount:
            objects = mount.path / "objects"
            (objects / f"closed{trial}").write_bytes(b"closed" * 1000)
            with (objects / f"synced{trial}").open("wb", buffering=0) as file:
                file.write(b"synced" * 1000)
                os.fsync(file.fileno())
                file.write(b"and more")
                mount.process.send_signal(signal.SIGKILL)
                mount.process.wait()
                with pytest.raises(OSError, match="Errno"):
                    os.fsync(file.fileno())
                with pytest.raises(OSError, match="Errno"):
                    file.close()
        assert (store / f"closed{trial}").read_bytes() == b"closed" * 1000
        assert (store / f"synced{trial}").read_bytes() == b"synced" * 1000
    assert list((tmp_path / "spool").rglob("*-synced*"))


def test_a_file_that_cannot_be_stored_is_told_and_kept(store: Path, tmp_path: Path) -> None:
    """SEMANTICS O9, O17, O18."""
    (store / "a").write_text("old")
    options = ["--spool-dir", str(tmp_path / "spool")]
    with store_served(store, *options, expect=r"\ba: |ESTALE") as mount:
        file = (mount.path / "objects/a").open("r+", buffering=1)
        file.write("ours\n")
        (store / "a").write_text("theirs")
        with pytest.raises(OSError, match="Stale file handle"):
            file.close()
        while _shown(mount.path / "objects/a") != "theirs":  # until the file is let go
            time.sleep(0.01)
        wait_until(mount, dirty_bytes=0, unsaved_files=0, spooled=1, spool_used_bytes=5)
        waited = nczfs("status", mount.path, "--wait")
        assert (waited.returncode, "nczfs recover" in waited.stderr) == (1, True), waited
    (kept,) = (tmp_path / "spool").glob("*/*.kept")
    refused = nczfs("recover", "--spool-dir", tmp_path / "spool")
    assert refused.returncode == 1
    assert "a: another client has replaced" in refused.stdout
    nczfs("recover", "--spool-dir", tmp_path / "spool", "--export", tmp_path)
    (exported,) = tmp_path.glob(f"*-{kept.name.removesuffix('.kept')}")
    assert exported.read_text() == "ours\n"


def test_the_budget_of_the_spool_is_a_full_disk(store: Path, tmp_path: Path) -> None:
    """SEMANTICS O13."""
    options = ["--max-spool-size", "1MiB"]
    with settled(store, tmp_path / "spool", *options, expect="max-spool-size") as mount:
        with (mount.path / "objects/a").open("wb", buffering=0) as file:
            file.write(bytes(1 << 20))
            with pytest.raises(OSError, match="No space left"):
                file.write(b"x")
            found = status(mount)
            assert found["spool_used_bytes"] == 1 << 20
            assert found["read_only"] is False
        assert (store / "a").stat().st_size == 1 << 20


def test_a_full_disk_of_the_spool_is_an_error_of_the_write_that_needs_room(
    store: Path, tmp_path: Path
) -> None:
    """SEMANTICS O13: a hole needs none, and a mapping learns it at msync."""
    size = 40 << 20
    with small_disk(tmp_path / "disk", 8):
        options = ["--spool-dir", str(tmp_path / "disk/spool")]
        with store_served(store, *options, expect="ENOSPC") as mount:
            path = mount.path / "objects/a"
            path.write_bytes(b"old")
            os.truncate(path, size)
            with path.open("r+b", buffering=0) as file:
                for place in range(0, size, 1 << 20):
                    try:
                        os.pwrite(file.fileno(), b"x" * (1 << 20), place)
                    except OSError as error:
                        assert error.errno == errno.ENOSPC  # noqa: PT017 - it must end so
                        break
                assert 2 << 20 <= place <= 8 << 20
                found = os.pread(file.fileno(), 1 << 20, place).rstrip(b"\0")
                assert found == b"x" * len(found)  # what found room
                assert len(found) < 1 << 20
                os.ftruncate(file.fileno(), 1 << 20)
                os.fsync(file.fileno())
                os.ftruncate(file.fileno(), size)
                with mmap.mmap(file.fileno(), size) as mapped:
                    mapped[:] = b"y" * size
                    with pytest.raises(OSError, match="No space left"):
                        mapped.flush()
                os.ftruncate(file.fileno(), 1 << 20)
                os.fsync(file.fileno())
            assert len(path.read_bytes()) == 1 << 20
            wait_until(mount, spool_used_bytes=0)


def test_programs_write_to_s3(swift: S3Server, source: Path, tmp_path: Path) -> None:
    """SEMANTICS O6, O11, O14."""
    bucket = swift.new_bucket()
    client = swift.client()

    def stored() -> dict[str, bytes]:
        listed = client.list_objects_v2(Bucket=bucket).get("Contents", [])
        keys = [entry["Key"] for entry in listed]
        return {key: client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}

    with settled(swift.url(bucket), tmp_path / "spool") as mount:
        path, objects = mount.path, mount.path / "objects"
        output("cp", "-a", source, objects / "copy")
        expected = {f"copy/{key}": data for key, data in contents(source).items()}
        assert stored() == expected
        output("rsync", "-a", "--checksum", f"{source}/", f"{objects}/copy/")
        output("mv", objects / "copy", objects / "moved")
        output("sed", "-i", "s/sh/bash/", objects / "moved/d0/script")
        with (objects / "moved/d0/script").open("a") as file:
            file.write("true\n")
        with (objects / "moved/d0/deep/file 4").open("r+b") as data:
            data.seek(2_000_000)
            data.write(b"part")
        output("rm", "-r", objects / "moved/d1")
        big = (source / "d0/deep/file 4").read_bytes()
        expected = {
            f"moved/{key}": data for key, data in contents(source).items() if key[:2] == "d0"
        } | {
            "moved/d0/script": b"#!/bin/bash\ntrue\n",
            "moved/d0/deep/file 4": big[:2_000_000] + b"part" + big[2_000_004:],
        }
        assert stored() == expected
        root = zarr.open_group(objects / "new.zarr", mode="a", zarr_format=2)
        root.create_array("v", data=np.arange(9, dtype="f4"), chunks=(3,))
        raw = path / "datasets/new.zarr/v/values.raw"
        assert raw.read_bytes() == np.arange(9, dtype="f4").tobytes()
    client.close()


def test_a_read_only_mount_has_no_write_bits(store: Path, tmp_path: Path) -> None:
    """SEMANTICS L1."""
    (store / "a").touch()
    with settled(store, tmp_path / "spool", "--read-only") as mount:
        path = mount.path
        assert (path / "objects/a").stat().st_mode & 0o777 == 0o444
        assert (path / "objects").stat().st_mode & 0o777 == 0o555
        with pytest.raises(OSError, match="Read-only file system"):
            (path / "objects/a").write_text("x")
        assert status(mount)["read_only"] is True


def test_the_owner_may_write_by_default(objects: Path) -> None:
    """SEMANTICS L1."""
    (objects / "a").touch(0o644)
    assert objects.stat().st_mode & 0o777 == 0o755
    assert (objects / "a").stat().st_mode & 0o777 == 0o644


def _shown(path: Path) -> str:
    """A file that another client may replace at the moment."""
    try:
        return path.read_text()
    except OSError as error:
        if error.errno != errno.ESTALE:
            raise
        return ""
