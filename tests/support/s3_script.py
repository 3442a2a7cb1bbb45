"""The S3 store before a server that answers as told."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from nczfs.zmap.keys import Key
from nczfs.zmap.registry import StoreOptions
from nczfs.zmap.s3 import S3ZMap, store
from nczfs.zmap.s3.conditions import Memory
from tests.support.scripted import Asked, Reply, Script, Scripted, serving

SECRET = "hush-hush"
TOKEN = "token-token"
OBJECT = Reply(
    206, b"data", {"ETag": '"e"', "Content-Range": "bytes 0-3/4", "x-amz-request-id": "1"}
)
KEY = Key("dir/key")


@pytest.fixture
def credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment with nothing of AWS but one file of credentials."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    write_credentials(tmp_path / "credentials", "AKOLD")
    return tmp_path / "credentials"


Serve: TypeAlias = Callable[[Script], tuple[Scripted, Callable[..., S3ZMap]]]


@pytest.fixture
def serve(credentials: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Start a server, and give what opens a bucket on it with the options named."""
    monkeypatch.setattr(store, "_conditions", Memory())  # ports come again
    ends: list[Callable[[], object]] = []

    def start(script: Script) -> tuple[Scripted, Callable[..., S3ZMap]]:
        context = serving(script)
        server = context.__enter__()
        ends.append(lambda: context.__exit__(None, None, None))

        def open_bucket(**options: object) -> S3ZMap:
            given = StoreOptions(endpoint_url=server.endpoint_url, **options)  # type: ignore[arg-type]  # by name
            zmap = S3ZMap("bucket", given)
            ends.insert(0, zmap.close)
            return zmap

        return server, open_bucket

    yield start
    for end in ends:
        end()


def given(asked: Asked) -> Reply:
    """`OBJECT`, or its first byte where no more is asked for."""
    if asked.headers.get("range") != "bytes=0-0":
        return OBJECT
    return Reply(206, b"d", {**OBJECT.headers, "Content-Range": "bytes 0-0/4"})


def write_credentials(path: Path, access_key: str) -> None:
    path.write_text(
        f"[default]\naws_access_key_id = {access_key}\naws_secret_access_key = {SECRET}\n"
        f"aws_session_token = {TOKEN}\n"
    )


def fault(status: int, code: str, more: str = "") -> Reply:
    return Reply(status, f"<Error><Code>{code}</Code><Message>why</Message>{more}</Error>".encode())
