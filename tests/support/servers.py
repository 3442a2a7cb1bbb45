"""S3 servers on loopback, started once a session: Swift, Ceph, and faults and delays before them.

The tools in ``tests/tools`` install and start them. The environment of AWS is kept out: the
servers' credentials are profiles in files that only the tests see.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import uuid4

import boto3
import pytest
from botocore.config import Config

from tests.support.ports import free_port, wait_for
from tests.support.runs import memory
from tests.support.waiting import until

_START_ATTEMPTS: Final = 3

pytest_plugins = ["tests.support.httpd", "tests.support.s3_script"]

TOOLS = Path(__file__).parent.parent / "tools"
CEPH_PACKAGES = "radosgw ceph-mon ceph-osd ceph-common curl"
DELAY_MS = 20
CLIENT_ATTEMPTS = 10  # of a request that no test is about
PLENTY_BYTES = 12 << 30


@dataclass(frozen=True, slots=True)
class S3Server:
    """A running server, or a relay before one.

    Attributes
    ----------
    profile : in the credentials file, with the keys that the server knows.
    """

    endpoint_url: str
    profile: str
    access_key: str
    secret_key: str

    def url(self, bucket: str, key: str = "") -> str:
        """The URL of a bucket, or of a key in it, as users type it."""
        path = f"{bucket}/{key}" if key else bucket
        return f"{self.endpoint_url}/{path}#mode=nczarr,s3&aws.profile={self.profile}"

    def client(self) -> Any:  # botocore makes the class of a client when it runs
        """Another client, to look behind the back of the code under test."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint_url,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            region_name="us-east-1",
            config=Config(
                s3={"addressing_style": "path"},
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
                retries={"mode": "standard", "total_max_attempts": CLIENT_ATTEMPTS},
            ),
        )

    def new_bucket(self) -> str:
        """Make an empty bucket; it goes with the server."""
        bucket = f"test-{uuid4().hex[:16]}"
        client = self.client()
        client.create_bucket(Bucket=bucket)
        client.close()
        return bucket

    def at(self, endpoint_url: str) -> S3Server:
        """The same server behind a relay."""
        return replace(self, endpoint_url=endpoint_url)


@dataclass(frozen=True, slots=True)
class Faults:
    """A proxy that injects faults between a client and `server`."""

    server: S3Server
    directory: Path

    def set(self, *rules: str) -> None:
        """Replace the rules (``s3-faults --help``), and forget what was injected."""
        tool = _faults_tool()
        tool.write_rules([tool.parse(rule) for rule in rules], self.directory)
        if rules:
            _ruled[self.directory] = self
        else:
            _ruled.pop(self.directory, None)

    def log(self) -> list[str]:
        """What was injected since `set`, a line each."""
        found: str = _faults_tool().read_log(self.directory)
        return found.splitlines()

    def wait_for_ended(self) -> None:
        """Wait until the proxy has noticed each client that has ended.

        What such a client sent last is then judged by the rules that were set before.
        """
        port = urlsplit(self.server.endpoint_url).port
        until(lambda: not any(_is_left_open(line, port) for line in _TCP.read_text().splitlines()))


_TCP: Final = Path("/proc/net/tcp")
_CLOSE_WAIT: Final = "08"  # the kernel's include/net/tcp_states.h


def _is_left_open(line: str, port: int | None) -> bool:
    """Whether a line (proc(5), /proc/net/tcp) has a server's end whose client is gone."""
    _, local, _, state, *_ = line.split()
    return state == _CLOSE_WAIT and local.endswith(f":{port:04X}")


_ruled: Final[dict[Path, Faults]] = {}
"""The proxies that have rules, by their directories."""


@pytest.fixture(autouse=True)
def rules_end_with_their_test() -> Iterator[None]:
    """What a failed test leaves set must not fail the next one."""
    yield
    for faults in [*_ruled.values()]:
        faults.set()


@pytest.fixture(scope="session")
def aws_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An environment without anything of AWS but files of our own, for the whole session."""
    folder = tmp_path_factory.mktemp("aws")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        patch.setenv("AWS_CONFIG_FILE", str(folder / "config"))
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "credentials"))
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield folder


@pytest.fixture(scope="session")
def swift(aws_files: Path) -> Iterator[S3Server]:
    """OpenStack Swift with its S3 front."""
    place = _swift_place()
    remedy = "pip must be able to install swift"
    settings = _start("s3-server", remedy, S3_SERVER_PORT="0", **place)
    yield _served(settings, "swift", aws_files)
    _run_tool("s3-server", "stop", S3_SERVER_PORT=settings["S3_SERVER_PORT"], **place)


@pytest.fixture(scope="session")
def ceph(aws_files: Path) -> Iterator[S3Server]:
    """Ceph's radosgw; its packages are among those that scripts/setup installs."""
    settings = _start("s3-server-ceph", f"it needs {CEPH_PACKAGES}", S3_CEPH_PORT="0")
    yield _served(settings, "ceph", aws_files)
    _run_tool("s3-server-ceph", "stop", S3_CEPH_PORT=settings["S3_CEPH_PORT"])


@pytest.fixture(scope="session")
def swift_with_faults(swift: S3Server) -> Iterator[Faults]:
    """Swift behind a proxy that injects faults; without rules at first."""
    with _faults_before(swift) as faults:
        yield faults


@pytest.fixture(scope="session")
def ceph_with_faults(ceph: S3Server) -> Iterator[Faults]:
    """Ceph behind such a proxy."""
    with _faults_before(ceph) as faults:
        yield faults


@pytest.fixture(scope="session")
def delayed_swift(swift: S3Server) -> Iterator[S3Server]:
    """Swift, 20 ms further away."""
    port = free_port()
    command = ["delay", str(DELAY_MS), "--to", swift.endpoint_url, "--port", str(port)]
    with subprocess.Popen(
        [sys.executable, TOOLS / "s3-faults", *command], stdout=subprocess.DEVNULL
    ) as relay:
        wait_for(port, relay)
        yield swift.at(f"http://127.0.0.1:{port}")
        relay.terminate()


def _swift_place() -> dict[str, str]:
    """Where Swift's files lie: in memory, where there is plenty; a disk takes minutes more."""
    try:
        if shutil.disk_usage(memory()).free < PLENTY_BYTES:
            return {}
        with tempfile.TemporaryDirectory(dir=memory()) as probe:
            os.setxattr(probe, "user.probe", b"")  # Swift keeps metadata so
    except OSError:
        return {}
    return {"S3_SERVER_DIR": str(memory() / f"s3-server-{uuid4().hex[:8]}")}


@contextlib.contextmanager
def _faults_before(server: S3Server) -> Iterator[Faults]:
    directory = tempfile.mkdtemp(prefix="s3-faults-")
    settings = _start(
        "s3-faults",
        "pip must be able to install mitmproxy",
        "--to",
        server.endpoint_url,
        S3_FAULTS_PORT="0",
        S3_FAULTS_DIR=directory,
    )
    yield Faults(server.at(settings["S3_ENDPOINT"]), Path(directory))
    port = settings["S3_FAULTS_PORT"]
    _run_tool("s3-faults", "stop", S3_FAULTS_PORT=port, S3_FAULTS_DIR=directory)


@cache
def _faults_tool() -> ModuleType:
    """The tool as a module: its rules are set hundreds of times, and a process costs 0.1 s."""
    loader = SourceFileLoader("s3_faults", str(TOOLS / "s3-faults"))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    tool = module_from_spec(spec)
    loader.exec_module(tool)
    return tool


def _start(tool: str, remedy: str, *arguments: str, **settings: str) -> dict[str, str]:
    for attempt in itertools.count(1):
        try:
            printed = _run_tool(tool, "start", *arguments, **settings)
            break
        except subprocess.CalledProcessError as error:  # a port may be taken meanwhile
            if attempt == _START_ATTEMPTS:
                pytest.fail(f"{tool} does not start ({remedy}): {error.stderr}", pytrace=False)
    words = (word for line in printed.splitlines() for word in shlex.split(line)[1:])
    return dict(word.split("=", 1) for word in words)


def _served(settings: dict[str, str], profile: str, aws_files: Path) -> S3Server:
    server = S3Server(
        settings["S3_ENDPOINT"],
        profile,
        settings["AWS_ACCESS_KEY_ID"],
        settings["AWS_SECRET_ACCESS_KEY"],
    )
    with (aws_files / "credentials").open("a") as file:
        file.write(
            f"[{profile}]\naws_access_key_id = {server.access_key}\n"
            f"aws_secret_access_key = {server.secret_key}\n"
        )
    return server


def _run_tool(tool: str, *arguments: str, **settings: str) -> str:
    done = subprocess.run(
        [TOOLS / tool, *arguments],
        env=os.environ | settings,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    return done.stdout
