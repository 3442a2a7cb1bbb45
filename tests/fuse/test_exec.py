"""``nczfs exec``, as an ordinary user on a machine without fusermount3."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from nczfs.cli.demo import SAMPLE
from nczfs.cli.exec_ import FAILED, NOT_EXECUTABLE, NOT_FOUND
from nczfs.fuse import mounting
from tests.support.ordinary import NCZFS, UID, OrdinaryUser, ordinary_user
from tests.support.waiting import is_readable

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")

DATASET = f"datasets/{SAMPLE.name}"
LONGITUDES = 432
FORTRAN = Path(__file__).parent.parent / "data/readvalues.f90"
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def user() -> Iterator[OrdinaryUser]:
    with ordinary_user() as user:
        user.environment["NCZFS_MOUNT_TIMEOUT"] = "600s"  # dozens at once on a busy machine
        user.make("at")
        yield user


@pytest.fixture
def store(user: OrdinaryUser, tmp_path: Path) -> Path:
    path = user.make(f"store-{tmp_path.name}")
    shutil.copytree(SAMPLE, path / SAMPLE.name)
    subprocess.run(["chown", "-R", f"{UID}:{UID}", path], check=True)
    return path


def words(user: OrdinaryUser, store: Path, *command: str | Path) -> list[str]:
    at = user.home / "at"
    return [*NCZFS, "exec", str(store), "--at", str(at), "--", *map(str, command)]


def shell(user: OrdinaryUser, store: Path, script: str) -> list[str]:
    """A script of sh that begins in the mounted dataset."""
    return words(user, store, "sh", "-ec", f"cd {user.home}/at/{DATASET}; {script}")


def test_programs_find_the_store_and_their_own_streams(user: OrdinaryUser, store: Path) -> None:
    """SEMANTICS X1, X2."""
    assert user.run("sh", "-c", "command -v fusermount3 || id -u").stdout == f"{UID}\n"
    (user.home / "Makefile").write_text(
        "all: a b c d\n%:\n\t@od -An -N2 -td2 surface_temperature/values.raw >$(OUT)/$@\n"
    )
    script = f"""
        id -u
        cat | tr a-z A-Z
        ncdump -v time ostia.nc | grep -c '^ time ='
        ncks -H -C -v longitude -d longitude,0 ostia.nc | grep -c longitude
        make --no-print-directory -j4 -f {user.home}/Makefile OUT={user.home}
        echo complaint >&2
        exit 7
    """
    done = user.run(*shell(user, store, script), stdin="some words\n")
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (7, "complaint\n"), done.stdout
    assert lines[:3] == [str(UID), "SOME WORDS", "1"]
    assert int(lines[3]) > 0
    assert {(user.home / name).read_text() for name in "abcd"} != {""}
    assert [*(user.home / "at").iterdir()] == []


def test_a_fortran_program_reads_and_what_a_script_writes_is_stored_before_it_returns(
    user: OrdinaryUser, store: Path, tmp_path: Path
) -> None:
    """SEMANTICS X1, X3."""
    program = user.home / "readvalues"
    subprocess.run(["gfortran", "-O1", "-o", program, FORTRAN], check=True)
    count = len(json.loads((store / SAMPLE.name / "longitude/.zarray").read_bytes())["shape"])
    assert count == 1
    script = f"""
        {program} longitude/values.raw {LONGITUDES} 1 1
        printf Celsius >surface_temperature/attributes/units
        printf 'later' >>../../objects/notes
    """
    done = user.run(*shell(user, store, script))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split()[0] == str(4 * LONGITUDES)
    attributes = json.loads((store / SAMPLE.name / "surface_temperature/.zattrs").read_bytes())
    assert attributes["units"] == "Celsius"
    assert (store / "notes").read_bytes() == b"later"


def test_what_could_not_be_stored_is_said_and_kept(user: OrdinaryUser, store: Path) -> None:
    """SEMANTICS X3."""
    # The shell ignores what closing says.
    script = f"""
        exec 3<>surface_temperature/values.raw
        chmod 0555 {store}/{SAMPLE.name}/surface_temperature
        printf xx >&3
    """
    done = user.run(*shell(user, store, script))
    assert done.returncode == FAILED, done.stderr
    assert "not everything could be stored; the rest is in" in done.stderr
    assert "`nczfs recover` puts it back" in done.stderr


def test_a_removal_that_could_not_be_stored_is_said(user: OrdinaryUser, store: Path) -> None:
    """SEMANTICS W15, X3: the spool holds values, and no changes of metadata."""
    script = f"""
        chmod 0555 {store}/{SAMPLE.name}/surface_temperature
        rm surface_temperature/attributes/units
    """
    at = shell(user, store, script)
    done = user.run(*at[: len(NCZFS) + 1], "--allow-delete", *at[len(NCZFS) + 1 :])
    assert done.returncode == FAILED, done.stderr
    assert "at: not everything could be stored; lost: " in done.stderr
    assert "surface_temperature: the removal of attribute 'units': " in done.stderr


def test_a_command_that_cannot_be_started_leaves_no_mount(user: OrdinaryUser, store: Path) -> None:
    """SEMANTICS X7."""
    done = user.run(*words(user, store, "no-such-program"))
    assert (done.returncode, done.stderr) == (
        NOT_FOUND,
        "nczfs: no-such-program: No such file or directory\n",
    )
    done = user.run(*words(user, store, user.make("not-a-program")))
    assert done.returncode == NOT_EXECUTABLE


@dataclass(frozen=True, slots=True)
class Running:
    """A command under way.

    Attributes
    ----------
    first : the process that was started.
    command, child, daemon : further ones, as descriptors that are readable when they have ended.
    """

    first: subprocess.Popen[str]
    daemon_pid: int
    command: int
    child: int
    daemon: int

    def wait_for_all(self) -> int:
        """Wait until all have ended. Returns the exit status of the first."""
        for each in (self.command, self.child, self.daemon):
            assert is_readable(each, PATIENCE_S)
        return self.first.wait(PATIENCE_S)


@contextmanager
def running(user: OrdinaryUser, store: Path, trap: str) -> Iterator[Running]:
    """A script with a child, which waits for signals."""
    script = f"""
        {trap}
        sleep infinity &
        echo $$ $! $(sed -n 's/.*"pid": *\\([0-9]*\\).*/\\1/p' ../../.nczfs/status.json)
        wait
    """
    pipe = subprocess.PIPE
    with user.start(*shell(user, store, script), stdout=pipe, stderr=pipe) as first:
        try:
            assert first.stdout is not None
            pids = [int(word) for word in first.stdout.readline().split()]
            opened = [os.pidfd_open(pid) for pid in pids]
            yield Running(first, pids[2], *opened)
            for each in opened:
                os.close(each)
        finally:
            first.kill()


def test_a_signal_is_the_commands_and_so_is_the_way_it_ends(
    user: OrdinaryUser, store: Path
) -> None:
    """SEMANTICS X7."""
    trap = "trap 'echo stored >../../objects/last; kill $!; exit 9' TERM"
    with running(user, store, trap) as under_way:
        under_way.first.send_signal(signal.SIGTERM)
        assert under_way.wait_for_all() == 9
    assert (store / "last").read_text() == "stored\n"
    with running(user, store, "trap 'kill $!; trap - INT; kill -INT $$' INT") as under_way:
        under_way.first.send_signal(signal.SIGINT)
        assert under_way.wait_for_all() == -signal.SIGINT


@pytest.mark.parametrize("killed", ["first", "daemon"])
def test_after_kill_9_of_either_side_nothing_runs_and_nothing_is_mounted(
    killed: str, user: OrdinaryUser, store: Path
) -> None:
    """SEMANTICS X4."""
    with running(user, store, "echo kept >../../objects/kept") as under_way:
        if killed == "first":
            under_way.first.kill()
        else:
            os.kill(under_way.daemon_pid, signal.SIGKILL)
        status = under_way.wait_for_all()
        assert under_way.first.stderr is not None
        said = under_way.first.stderr.read()
    if killed == "first":
        assert status == -signal.SIGKILL
    else:
        assert status == FAILED
        assert "has ended before the command" in said
    assert (store / "kept").read_text() == "kept\n"
    assert "fuse.nczfs" not in user.run("cat", "/proc/mounts").stdout


def test_ctrl_c_at_a_terminal_is_the_commands(user: OrdinaryUser, store: Path) -> None:
    """SEMANTICS X7."""
    script = "trap 'echo caught; kill $!; exit 4' INT; echo begun; sleep infinity & wait"
    ours, theirs = os.openpty()
    start = ("setsid", "--ctty", "--wait", *shell(user, store, f"set +e; {script}"))
    with user.start(*start, stdin=theirs, stdout=theirs, stderr=theirs) as first:
        os.close(theirs)
        try:
            shown = b""
            while b"begun" not in shown:
                assert is_readable(ours, PATIENCE_S), shown
                shown += os.read(ours, 4096)
            os.write(ours, b"\x03")
            with suppress(OSError):  # nobody has the terminal any more
                while is_readable(ours, PATIENCE_S):
                    shown += os.read(ours, 4096)
            assert first.wait(PATIENCE_S) == 4
        finally:
            first.kill()
            os.close(ours)
    assert shown.count(b"caught") == 1


# In a user namespace of its own, a test may set the kernel's limit without doing it for all.
WITHOUT_NAMESPACES = """
    echo 0 >/proc/sys/user/max_user_namespaces
    exec setpriv --bounding-set=-all --inh-caps=-all "$@"
"""


def test_a_kernel_without_user_namespaces_is_named_with_the_remedy(
    user: OrdinaryUser, store: Path
) -> None:
    """SEMANTICS X5."""
    start = ("unshare", "--user", "--map-root-user", "sh", "-ec", WITHOUT_NAMESPACES, "sh")
    done = user.run(*start, *words(user, store, "true"))
    assert (done.returncode, done.stderr) == (
        FAILED,
        "nczfs: this kernel does not let you make a namespace to mount in (No space left on"
        " device): as root, `sysctl -w user.max_user_namespaces=10000`; or use `nczfs mount`,"
        " which needs fusermount3\n",
    )


@pytest.mark.parametrize("count", [3, pytest.param(50, marks=pytest.mark.long)])
def test_many_at_once_do_not_see_each_other(count: int, user: OrdinaryUser, store: Path) -> None:
    """SEMANTICS X1."""
    script = "grep -c fuse.nczfs /proc/mounts; od -An -N2 -td2 surface_temperature/values.raw"
    processes = [
        user.start(*shell(user, store, script), stdout=subprocess.PIPE) for _ in range(count)
    ]
    outputs = [process.communicate(timeout=600)[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0] * count
    assert {lines[0] for lines in outputs} == {"1"}
    assert len({lines[1] for lines in outputs}) == 1


def test_a_command_may_run_another_one_with_a_mount_of_its_own(
    user: OrdinaryUser, store: Path
) -> None:
    """SEMANTICS X1, X3."""
    at, other = user.make("inner"), user.make("other")
    script = f"""
        grep -c fuse.nczfs /proc/mounts
        printf inner >{at}/objects/inner
        printf outer >../../objects/outer
        exit 3
    """
    inner = [*NCZFS, "exec", other, "--at", at, "--", "sh", "-ec", script]
    done = user.run(
        *shell(
            user,
            store,
            f"""
            status=0
            {shlex.join(map(str, inner))} || status=$?
            cat ../../objects/outer
            echo
            grep -c fuse.nczfs /proc/mounts
            exit $status
            """,
        )
    )
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout == "2\nouter\n1\n"
    assert (other / "inner").read_text() == "inner"
    assert (store / "outer").read_text() == "outer"
    assert [*at.iterdir()] == []


def test_a_place_of_its_own_is_found_where_mnt_is_in_use(tmp_path: Path) -> None:
    """SEMANTICS X2."""
    inner = f'ls "$NCZFS_AT/{DATASET}/info.json" && echo /mnt/* && echo "$NCZFS_AT"'
    command = shlex.join([*NCZFS, "exec", str(SAMPLE), "--read-only", "--", "sh", "-c", inner])
    done = subprocess.run(
        ["unshare", "-m", "sh", "-ec", f"mount -t tmpfs t /mnt; touch /mnt/file; {command}"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    _, seen, at = done.stdout.splitlines()
    assert seen == "/mnt/file"
    assert at.startswith(f"{tmp_path}/nczfs-exec-")
    assert not list(tmp_path.iterdir())


def test_root_needs_no_user_namespace(tmp_path: Path, user: OrdinaryUser) -> None:
    """SEMANTICS X1."""
    at = tmp_path / "at"
    at.mkdir()
    for name, text in (("full", "text"), ("empty", "")):
        (tmp_path / name).mkdir()
        if text:
            (tmp_path / name / "file").write_text(text)
    command = [*NCZFS, "exec", str(SAMPLE), "--at", str(at), "--read-only", "--"]
    done = subprocess.run(
        [*command, "stat", "-c", "%u %n", at / DATASET / "info.json", user.home],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split()[::2] == ["0", str(UID)]
    assert mounting.find_mount(str(at)) is None
    refused = subprocess.run(
        [*NCZFS, "exec", str(SAMPLE), "--at", tmp_path / "full", "--", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 2
    assert "is not empty" in refused.stderr
    assert "--at PATH" in refused.stderr
