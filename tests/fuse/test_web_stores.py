"""Real mounts of what a web server holds, and of references, read by programs."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import zarr

from tests.support.httpd import WebServer
from tests.support.mounts import mounted, nczfs
from tests.support.sample import check_sample, keys_of, write_sample, zip_up

NAME = "sample.zarr"


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("sample") / NAME
    write_sample(directory)
    return directory


def serve(server: WebServer, sample: Path) -> Path:
    """A directory of the server with the sample in it."""
    directory = server.new_directory()
    shutil.copytree(sample, directory / NAME)
    for path in directory.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return directory


@pytest.mark.parametrize("place", ["json", "html"])
def test_a_web_server_with_listings_is_a_store_like_others(
    sample: Path, nginx: WebServer, place: str
) -> None:
    directory = serve(nginx, sample)
    zip_up(sample, directory / "archive.zip")
    with mounted(f"{nginx.url}/{place}/{directory.name}") as mount:
        assert sorted(os.listdir(mount / "datasets")) == ["archive.zip", NAME]
        check_sample(mount / "datasets" / NAME)
        check_sample(mount / "datasets" / "archive.zip")
        compared = subprocess.run(
            ["diff", "-r", mount / "objects" / NAME, sample], capture_output=True, check=False
        )
        assert (compared.returncode, compared.stdout) == (0, b"")


def test_a_dataset_on_a_web_server_without_listings_shows_every_value(
    sample: Path, nginx: WebServer
) -> None:
    directory = serve(nginx, sample)
    zarr.consolidate_metadata(directory / NAME, zarr_format=2)
    (directory / NAME / ".zmetadata").chmod(0o644)
    with mounted(f"{nginx.url}/unlisted/{directory.name}/{NAME}") as mount:
        check_sample(mount / "datasets" / NAME)


def test_an_archive_on_a_web_server_shows_every_value(sample: Path, nginx: WebServer) -> None:
    directory = nginx.new_directory()
    zip_up(sample, directory / "archive.zip")
    with mounted(f"{nginx.url}/unlisted/{directory.name}/archive.zip") as mount:
        check_sample(mount / "datasets" / "archive.zip")


@pytest.mark.parametrize(
    ("page", "answer"),
    [(None, "answers 404"), ("Welcome", "sends an HTML page that is no listing")],
)
def test_a_url_that_may_be_misspelled_has_a_line_at_mount(
    page: str | None, answer: str, nginx: WebServer, tmp_path: Path
) -> None:
    directory = nginx.new_directory()
    if page is not None:
        (directory / "typo.zarr").mkdir()
        (directory / "typo.zarr/index.html").write_text(f"<html><body>{page}</body></html>")
    url = f"{nginx.url}/unlisted/{directory.name}/typo.zarr"
    (tmp_path / "mnt").mkdir()
    done = nczfs("mount", url, tmp_path / "mnt")
    try:
        assert done.stderr.startswith(
            f"nczfs: {url}: the names are unknown: the server lists no directories (it {answer}), "
        )
        assert "; is the URL right? " in done.stderr
        assert done.stderr.count("\n") == 1
    finally:
        nczfs("umount", tmp_path / "mnt")


def write_references(sample: Path, directory: Path) -> None:
    """The sample as a document of references with all chunks in one file."""
    references: dict[str, object] = {}
    data = bytearray()
    for key, path in keys_of(sample).items():
        content = path.read_bytes()
        if path.name.startswith("."):
            references[key] = content.decode()
        else:
            references[key] = ["chunks.bin", len(data), len(content)]
            data += content
    (directory / "chunks.bin").write_bytes(data)
    (directory / "refs").write_text(json.dumps({"version": 1, "refs": references}))


@pytest.mark.parametrize("remote", [False, True])
def test_references_show_every_value(
    sample: Path, nginx: WebServer, tmp_path: Path, remote: bool
) -> None:
    directory = nginx.new_directory() if remote else tmp_path
    write_references(sample, directory)
    url = f"{nginx.url}/unlisted/{directory.name}" if remote else str(directory)
    with mounted(f"{url}/refs#mode=zarr,kerchunk") as mount:
        assert os.listdir(mount / "datasets") == ["refs"]
        check_sample(mount / "datasets" / "refs")
        compared = subprocess.run(
            ["diff", "-r", mount / "objects", sample], capture_output=True, check=False
        )
        assert (compared.returncode, compared.stdout) == (0, b"")


def test_references_to_a_file_that_was_replaced_are_stale(sample: Path, tmp_path: Path) -> None:
    write_references(sample, tmp_path)
    with mounted(tmp_path / "refs", expect="chunks.bin|replaced") as mount:
        assert (mount / "datasets/refs/time/values.raw").read_bytes()
        (tmp_path / "new").write_bytes((tmp_path / "chunks.bin").read_bytes())
        os.replace(tmp_path / "new", tmp_path / "chunks.bin")
        with pytest.raises(OSError, match=os.strerror(errno.ESTALE)):
            (mount / "datasets/refs/t2m/values.raw").read_bytes()
