"""``nczfs zip-compact``, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nczfs.cli.main import main
from nczfs.testing.archives import zipped


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data.zip"
    path.write_bytes(zipped(("m/", b""), ("m/a", b"old"), ("m/a", b"new")))
    return path


def test_it_says_what_it_won(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = path.stat().st_size
    assert main(["zip-compact", "--dry-run", str(path)]) == 0
    assert path.stat().st_size == before
    promised = capsys.readouterr().out
    assert main(["zip-compact", str(path)]) == 0
    after = path.stat().st_size
    assert after < before
    told = capsys.readouterr().out
    assert told == (f"{path}: 2 members in {before}B; is now {after}B, {before - after}B fewer\n")
    assert promised == told.replace("is now", "would be")
    assert main(["zip-compact", "--json", path.as_uri()]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "members": 2,
        "size_before": after,
        "size_after": after,
        "dead_bytes": 0,
    }


def test_what_is_no_archive_in_a_file_is_refused(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["zip-compact", "s3://bucket/data.zip"]) == 2
    assert "not a zip archive in a local file" in capsys.readouterr().err
    assert main(["zip-compact", str(path.parent)]) == 2
    path.write_bytes(b"PK\3\4 and nothing more")
    assert main(["zip-compact", str(path)]) == 1
    assert "truncated" in capsys.readouterr().err
