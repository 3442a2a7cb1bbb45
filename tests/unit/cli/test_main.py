"""What a command line ends with: a status, and at most one line on stderr."""

from __future__ import annotations

import dataclasses
import errno
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from nczfs.cli import helper, main, mount, status
from nczfs.cli.command import CommandLine, parse
from nczfs.cli.main import COMMANDS
from nczfs.cli.options import Scope
from nczfs.cli.sources import resolve
from nczfs.cli.store import shown
from nczfs.errors import NoSuchObject, UsageError
from nczfs.fuse import mounting
from nczfs.library import boxes


def run(*argv: str | Path) -> int:
    return main.main([str(word) for word in argv])


def line(capsys: pytest.CaptureFixture[str]) -> str:
    error = capsys.readouterr().err
    assert error.startswith("nczfs: ")
    assert error.count("\n") == 1
    return error


def test_help_lists_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    text = capsys.readouterr().out
    assert all(f"  {name} " in text for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run(name, "--help")
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert f"usage: nczfs {name}" in text
    assert "example" in text
    assert "--endpoint-url" not in text
    assert run("help", name) == 0
    assert capsys.readouterr().out.strip() == text.strip()


@pytest.mark.parametrize("name", [n for n in COMMANDS if Scope.STORE in COMMANDS[n].scopes])
def test_the_options_for_the_store_have_a_help_of_their_own(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        run(name, "--help-store")
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert "--endpoint-url" in text
    assert "--help" not in text


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_of_a_help_can_be_typed(name: str) -> None:
    command = COMMANDS[name]
    assert command.examples
    for example in command.examples:
        typed = example.removeprefix("sudo ").partition(" | ")[0]
        program, word, *rest = shlex.split(typed)
        assert (program, word) == ("nczfs", name)
        parse(command, rest)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("ls", "--recursve", "x"), "--recursive"),
        (("ls", "--rec"), "--recursive"),
        (("ls", "-recursive"), "--recursive"),
        (("ls", "--endpoint=http://h", "x"), "--endpoint-url"),
        (("mount", "a", "b", "--readonly"), "--read-only"),
        (("status", "--jsn"), "--json"),
    ],
)
def test_an_option_that_is_not_there_is_refused_with_the_nearest(
    words: tuple[str, ...], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words) == 2
    refusal = line(capsys)
    assert "no option is called -" in refusal
    assert f"; did you mean {meant}? (`nczfs {words[0]} --help` shows the usage)" in refusal


def test_ncdumps_letters_take_what_follows_them() -> None:
    assert parse(COMMANDS["dump"], ["-verbose", "url"]).arguments.variables == ["erbose"]


def test_a_command_has_other_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("unmount", tmp_path) == 2
    assert "nczfs is not mounted there" in line(capsys)
    assert run("unmont", tmp_path) == 2
    assert "did you mean `nczfs unmount`?" in line(capsys)


def test_no_two_commands_have_one_name() -> None:
    names = [word for command in COMMANDS.values() for word in (command.name, *command.aliases)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("word", ["version", "--version"])
def test_the_version_can_be_asked_for(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(word) == 0
    assert capsys.readouterr().out == f"nczfs {metadata.version('nczfs')}\n"


def test_no_command_at_all_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 2
    assert "usage:" in capsys.readouterr().out


def test_an_unknown_command_is_refused_with_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("mont", "x") == 2
    assert "did you mean `nczfs mount`?" in line(capsys)


def test_a_wrong_option_is_one_line_and_status_two(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("mount", "a", "b", "--no-such") == 2
    assert "--no-such (`nczfs mount --help` shows the usage)" in line(capsys)


def test_a_wrong_value_names_its_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("mount", "a", "b", "--memory-limit", "much") == 2
    assert "--memory-limit: 'much' is not a size" in line(capsys)


def test_options_are_not_guessed_from_their_beginning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("mount", "a", "b", "--read") == 2
    line(capsys)


def test_a_missing_mount_point_is_wrong_usage_with_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("mount", tmp_path, tmp_path / "absent") == 2
    assert f"`mkdir -p {tmp_path}/absent` first" in line(capsys)


def test_without_a_verb_two_places_mean_mount(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(f"{tmp_path}", tmp_path / "absent", "-o", "ro") == 2
    assert "no such directory to mount on" in line(capsys)


@pytest.mark.parametrize(
    "words",
    [
        ("mount", "", "mountpoint"),
        ("mount", "store", ""),
        ("umount", ""),
        ("status", ""),
        ("ls", ""),
        ("ls", "", "--prefix", "x"),
        ("info", ""),
        ("dump", ""),
        ("cat", ""),
        ("verify", ""),
        ("create", ""),
        ("rm", "-r", ""),
        ("rm", "-r", "store", ""),
        ("import", "x.nc", ""),
        ("export", "", "x.nc"),
        ("zip-compact", ""),
    ],
)
def test_an_empty_place_is_wrong_usage_and_not_the_directory_here(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words) == 2
    assert "is empty" in line(capsys)


@pytest.mark.parametrize("url", ["#zarr", "http:/joe:hush@host/x", "http://joe:a#hush@host/x"])
@pytest.mark.parametrize("verb", ["ls", "rm", "dump"])
def test_what_only_looks_like_a_url_is_not_taken_for_a_path(
    verb: str, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(verb, url) == 2
    assert "hush" not in line(capsys)


@pytest.mark.parametrize("verb", ["status", "umount"])
def test_what_is_no_mount_is_told_so(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(verb, tmp_path) == 2
    assert "nczfs is not mounted there" in line(capsys)


def test_an_error_of_ours_is_one_line_and_status_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> int:
        raise NoSuchObject("s3://b/x:\nno such key")

    replace_run(monkeypatch, fail)
    assert run("status", "x") == 1
    assert line(capsys) == "nczfs: s3://b/x:\\nno such key\n"


def test_a_bug_is_one_line_without_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> int:
        raise ZeroDivisionError("oh")

    replace_run(monkeypatch, fail)
    assert run("status", "x") == 1
    assert "internal error: ZeroDivisionError: oh" in line(capsys)


def test_an_interrupt_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> int:
        raise KeyboardInterrupt

    replace_run(monkeypatch, fail)
    assert run("status", "x") == 130
    assert capsys.readouterr().err == ""


def replace_run(monkeypatch: pytest.MonkeyPatch, run: Callable[[CommandLine], int]) -> None:
    changed = dataclasses.replace(status.COMMAND, run=run)
    monkeypatch.setattr(main, "COMMANDS", {**COMMANDS, "status": changed})


def test_both_trees_cannot_be_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mnt").mkdir()
    assert run("mount", tmp_path, tmp_path / "mnt", "--views-only", "-o", "objects_only") == 2
    assert "leave nothing to show" in line(capsys)


def test_mount_8_is_answered_with_its_own_exit_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert helper.main([str(tmp_path), str(tmp_path / "absent"), "-o", "ro"]) == 1
    assert capsys.readouterr().err.startswith("mount.nczfs: ")

    def fail(error: BaseException) -> int:
        def run(_: object) -> int:
            raise error

        monkeypatch.setattr(mount, "run", run)
        return helper.main(["a", "b", "-o", "ro"])

    assert fail(NoSuchObject("x")) == 32
    assert fail(OSError("x")) == 32
    assert fail(KeyboardInterrupt()) == 8
    assert fail(ZeroDivisionError()) == 4
    assert fail(UsageError("x")) == 1


def test_the_helper_takes_what_mount_8_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[CommandLine] = []
    monkeypatch.setattr(mount, "run", seen.append)
    argv = ["s3://b/p", "/mnt", "-n", "-s", "-v", "-t", "nczfs", "-o", "ro,_netdev,unknown=1"]
    assert helper.main(argv) == 0
    (request,) = seen
    assert request.settings.flag("read-only")
    assert request.settings.flag("verbose")
    assert request.arguments.url == "s3://b/p"


def test_a_fake_mount_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mount, "run", lambda _: pytest.fail("mounted"))
    assert helper.main(["s3://b/p", "/mnt", "-f", "-o", "ro"]) == 0


def test_nothing_starts_a_thread_before_a_mount_forks() -> None:
    script = (
        "import os, sys, nczfs.cli.main; print(len(os.listdir('/proc/self/task')),"
        " 'numpy' in sys.modules, 'boto3' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1", "False", "False"]


LIBRARIES_OF_MOUNTS = {"pyfuse3", "trio"}
LIBRARIES_OF_STORES = {"boto3", "botocore", "fsspec", "lxml", "pyarrow", "urllib3"}
LIBRARIES_OF_VALUES = {"h5py", "netCDF4", "numcodecs", "numpy", "prometheus_client"}
EVERY_LIBRARY = LIBRARIES_OF_MOUNTS | LIBRARIES_OF_STORES | LIBRARIES_OF_VALUES


@pytest.mark.parametrize(
    ("words", "unneeded"),
    [
        (["--version"], EVERY_LIBRARY),
        (["--help"], EVERY_LIBRARY),
        (["umount", "--help"], EVERY_LIBRARY),
        (["status"], EVERY_LIBRARY),
        (["umount", "/"], EVERY_LIBRARY),
        (["ls", "."], LIBRARIES_OF_MOUNTS | LIBRARIES_OF_STORES | {"h5py", "netCDF4"}),
    ],
)
def test_a_command_imports_only_the_libraries_that_it_needs(
    words: list[str], unneeded: set[str], tmp_path: Path
) -> None:
    script = (
        "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr));"
        "from nczfs.cli.main import main; main(sys.argv[1:])"
    )
    command = [sys.executable, "-c", script, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    loaded = set(done.stderr.splitlines()[-1].split())
    assert "nczfs.cli.main" in loaded
    assert not loaded & unneeded


def test_a_mount_starts_without_what_reading_values_and_other_formats_need(tmp_path: Path) -> None:
    """Each takes a twentieth of the time until `nczfs exec` runs its command."""
    script = (
        "import sys; from nczfs.fuse import daemon; from nczfs.vfs.tree import mount_tree;"
        "fs = mount_tree(sys.argv[1]); fs.lookup(1, b'datasets'); fs.close();"
        "print(*sys.modules)"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "nczfs.engine.dataset" in loaded
    libraries = {"google.protobuf", "h5py", "numcodecs"}
    parts = {"cdl.printer", "codecs.registry", "ncstream", "tools.transfer.group_target", "zom"}
    assert not loaded & (libraries | {f"nczfs.{part}" for part in parts})


def test_a_reader_that_had_enough_is_no_error() -> None:
    done = subprocess.run(
        f"{sys.executable} -m nczfs.cli.main --help | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", (0,)),
        ("-1, 2:5", (-1, slice(2, 5))),
        ("::2,...", (slice(None, None, 2), ...)),
        (":", (slice(None, None),)),
    ],
)
def test_a_box_is_written_as_numpy_writes_it(text: str, expected: tuple[object, ...]) -> None:
    assert boxes.selection(text) == expected


@pytest.mark.parametrize("text", ["", "a", "1:2:3:4", "1.5", "[0]"])
def test_what_is_no_box_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="write integers and slices"):
        boxes.selection(text)


def test_the_mount_of_another_user_says_who_may_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = mounting.MountEntry(str(tmp_path), "0:1", mounting.FILE_SYSTEM_TYPE, "store")
    monkeypatch.setattr(mounting, "find_mount", lambda _: entry)
    read_bytes = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path.name == "status.json":
            raise PermissionError(errno.EACCES, "Permission denied")
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert run("status", tmp_path) == 1
    assert "only the user who mounted it has access" in line(capsys)


@pytest.mark.parametrize("url", ["http://joe:hush@host/x?token=hush#zarr", "http://host/x"])
def test_a_url_in_a_message_has_no_secrets(url: str) -> None:
    assert shown(url, resolve({}, {})) == "http://host/x"
