"""URLs open the store that they name, rooted there."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from nczfs.errors import BadUrl, NoSuchObject, ReadOnlyStore
from nczfs.zmap import registry, url
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import ROOT, Key
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.registry import StoreOptions, open_store
from nczfs.zmap.url import StoreUrl, parse_url


def test_a_directory_opens(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"data")
    zmap = open_store(str(tmp_path))
    assert bytes(zmap.read(Key("a")).data) == b"data"
    zmap.write(Key("b"), b"more")
    assert (tmp_path / "b").read_bytes() == b"more"
    zmap.close()


def test_a_directory_waits_for_the_disk_when_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    open_store(str(tmp_path)).write(Key("a"), b"data")
    assert synced == []
    open_store(str(tmp_path), StoreOptions(durable=True)).write(Key("a"), b"data")
    assert len(synced) == 2


def test_an_archive_opens_out_of_its_directory(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        archive.writestr("a", b"data")
    zmap = open_store(parse_url(f"file://{tmp_path}/data.zip"))
    assert bytes(zmap.read(Key("a")).data) == b"data"
    zmap.close()


def test_an_archive_opens_out_of_an_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "inner.zip", "w") as archive:
        archive.writestr("a", b"data")
    with zipfile.ZipFile(tmp_path / "outer.zip", "w") as archive:
        archive.write(tmp_path / "inner.zip", "dir/inner.zip")
        archive.writestr("top", b"")
    zmap = open_store(f"{tmp_path}/outer.zip/dir/inner.zip")
    assert bytes(zmap.read(Key("a")).data) == b"data"
    assert not zmap.features.writable
    zmap.close()
    with pytest.raises(NoSuchObject, match=r"outer\.zip/absent\.zip"):
        open_store(f"{tmp_path}/outer.zip/absent.zip")


def test_a_store_in_memory_is_the_same_for_all_of_its_name() -> None:
    open_store("memory://test_registry").write(Key("dir/a"), b"data")
    below = open_store("memory://test_registry/dir")
    assert [entry.name for entry in below.search(ROOT)] == ["a"]
    assert list(open_store("memory://test_registry_other").list(ROOT)) == []


def test_read_only_holds_for_every_kind(tmp_path: Path) -> None:
    for text in (str(tmp_path), "memory://test_registry_read_only"):
        zmap = open_store(text, StoreOptions(read_only=True))
        assert not zmap.features.writable
        with pytest.raises(ReadOnlyStore):
            zmap.write(Key("a"), b"data")
        zmap.close()


@pytest.mark.parametrize(
    ("text", "name", "key"),
    [
        ("https://h:8/dir/a%20b.zip?t=1", "https://h:8/dir", "a b.zip"),
        ("http://h/data.zip", "http://h", "data.zip"),
        ("s3://bucket/dir/data.zip", "s3://bucket/dir", "data.zip"),
        ("/dir/data.zip", "/dir", "data.zip"),
    ],
)
def test_around_an_archive_is_the_store_that_holds_it(text: str, name: str, key: str) -> None:
    outer, found = registry.around(parse_url(text))
    assert (outer.text, found) == (name, key)
    assert outer.kind in {"file", "s3", "http"}


def test_a_bad_url_is_no_store() -> None:
    with pytest.raises(BadUrl):
        open_store("ftp://host/x")


def test_an_installed_package_brings_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(group: str, name: str = "tape") -> EntryPoints:
        here = EntryPoint("tape", f"{__name__}:open_tape", group)
        return EntryPoints([here] if name == "tape" else [])

    monkeypatch.setattr(url, "entry_points", found)
    monkeypatch.setattr(registry, "entry_points", found)
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    zmap = open_store("tape://robot/7", StoreOptions(request_timeout_s=3))
    assert zmap.name == "tape://robot/7 3"


def open_tape(place: StoreUrl, options: StoreOptions) -> ZMap:
    return MemoryZMap(f"{place.text} {options.request_timeout_s}")


def test_amazons_libraries_are_only_loaded_for_s3() -> None:
    program = (
        "import sys; from nczfs.zmap.registry import open_store; open_store('memory://x'); "
        "print([name for name in ('boto3', 'botocore', 'urllib3') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
